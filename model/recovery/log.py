"""Log of a crash journal: JSON lines that replay a document's edits on its base file.

The first line is a header with the base file and the ids of its objects; the others are edits (encoded steps), undo
and redo.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from onnx_workbench.model.errors import errors_to
from onnx_workbench.model.io.reader.source import identity_of
from onnx_workbench.model.progress import Cancelled
from onnx_workbench.model.recovery.baseline import reason_of
from onnx_workbench.model.recovery.journal_files import JournalFiles, remove_files
from onnx_workbench.model.recovery.object_ids import BaseIds, WrittenIds
from onnx_workbench.model.recovery.step_recorder import StepRecorder
from onnx_workbench.model.sandbox import start_of

if TYPE_CHECKING:
    from onnx_workbench.model.history.document import Change, ChangeKind, Document, HistoryEntry
    from onnx_workbench.model.history.steps import Step
    from onnx_workbench.model.io.reader.payloads import Payload
    from onnx_workbench.model.io.reader.source import Identity, Source
    from onnx_workbench.model.recovery.write_ahead import WriteAheadLog

FORMAT: Final = "onnx-workbench journal"
VERSION: Final = 10


@dataclass(frozen=True, slots=True)
class BaseFile:
    """The file that edits are replayed on, with its size and time. An empty path: a model that is in no file."""

    path: str
    size: int = 0
    mtime_ns: int = 0

    @classmethod
    def of(cls, path: Path | None, identity: Identity | None = None) -> BaseFile:
        """Describe a file as it is on disk, or with a given identity."""
        if path is None:
            return cls("")
        found = identity_of(path.stat()) if identity is None else identity
        return cls(str(path.resolve()), found.size, found.modified_ns)

    def is_unchanged(self) -> bool:
        """Return whether the file on disk is still the one that the edits were made on."""
        try:
            return not self.path or BaseFile.of(Path(self.path)) == self
        except OSError:
            return False


@dataclass(slots=True, eq=False)
class _State:
    """A state of the history as replay will build it."""

    parent: _State | None = None
    children: list[_State] = field(default_factory=list)

    def next(self) -> _State:
        """The state after one more edit."""
        child = _State(self)
        self.children.append(child)
        return child


class JournalLog:
    """Log of the edits of a document since a state of its history. On the thread that owns the model.

    Each edit costs time in proportion to its size. `failed` is called, on any thread, when a background write fails.
    A disk error stops the log, not the user's work; `problem` then holds the message.
    Replay starts from the base file, so it cannot undo edits made before `state`: such an undo is written as an edit.
    `ids` are those of `state`, if they are known: they cost a walk over the model.
    `source` is the base file's data if the model reads its weights from there; `is_copy`: the document is a copy that
    does not belong to the base file. `follows` is the log of the same document that this one replaces if the base file
    exists when the program ends. `title` is what the user knows the document by.
    """

    def __init__(
        self,
        document: Document,
        state: HistoryEntry,
        base: BaseFile,
        path: Path,
        *,
        ids: BaseIds | None = None,
        source: Source | None = None,
        failed: Callable[[], object] = lambda: None,
        is_copy: bool = False,
        follows: Path | None = None,
        title: str = "",
    ) -> None:
        self.state = state
        self.base = base
        self.source = source
        self.problem = ""
        self._document = document
        self._path = path
        self._failed = failed
        self._is_copy = is_copy
        self._follows = follows
        self._title = title
        self._store: JournalFiles | None = None
        self._ahead: WriteAheadLog | None = None  # whose steps are being applied and already written
        self._entry = document.current
        self._at = _State()
        self._states = {state: self._at}
        self._begin(ids)

    def _begin(self, ids: BaseIds | None) -> None:
        """Collect the ids of the state's objects and write the edits since, by undoing and redoing these."""
        since = self._document.way(self.state)
        for _, _, inverses in reversed(since):
            for step in reversed(inverses):
                step.apply()
        self.ids = BaseIds(self._document.model) if ids is None else ids
        self.known = set[int]()  # ids of objects added since
        self._recorder = StepRecorder(WrittenIds(self.ids, self.known, self.source, self._store_payload))
        for entry, steps, _ in since:
            for step in steps:
                self._recorder.add(step)
                step.apply()
            self._at = self._states[entry] = self._at.next()
            self._append_line({"edit": entry.title}, with_steps=True)

    @property
    def path(self) -> Path:
        """Path of the log file, which exists once there is a line."""
        return self._path

    @property
    def is_on_file(self) -> bool:
        """Return whether the log has been created on disk."""
        return self._store is not None

    def begin(self, kind: ChangeKind, target: HistoryEntry | None, ahead: WriteAheadLog | None) -> bool:
        """Start a change. Return whether its steps must be recorded: False when `ahead` has written them already."""
        self._recorder.take_back()
        self._ahead = ahead if ahead is not None and ahead.store is self._store and ahead.is_on_file() else None
        is_move = target is not None and self._moved(kind, target) is not None
        return not (self.problem or self._ahead is not None or is_move)

    def before(self, step: Step) -> None:
        """Record a step that is about to be applied."""
        self._recorder.add(step)

    def on_rollback(self, left: int) -> None:
        """Discard the steps of the change that were rolled back, all but the first `left`."""
        self._recorder.take_back(left)

    def add(self, change: Change) -> None:
        """Write a change that has just been applied."""
        if not self.problem:
            line, ahead = self._line(change), self._ahead
            if ahead is not None and "edit" in line:
                count, new_ids = ahead.confirm(len(change.steps))
                self.known.update(new_ids)
                self._append_line({**line, "confirms": count, "of": ahead.number})
            else:
                self._append_line(line, with_steps="edit" in line)
        self._entry = self._document.current

    def open(self) -> None:
        """Create the log on disk now, before the first edit."""
        if not self.problem:
            with errors_to(self.stop_on_error):
                self.store()

    def store(self) -> JournalFiles:
        """Return the log's files, created on first use. Raises errors of background writes."""
        if self._store is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._store = JournalFiles(self._path, self._failed)
            self._store.line(self._header())
        elif self._store.problem is not None:
            raise self._store.problem
        return self._store

    def after(self, call: Callable[[], object]) -> None:
        """Call `call`, on any thread, once everything so far is written; never if a write fails."""
        if self._store is None:
            call()
        else:
            self._store.after(call)

    def check_background_errors(self) -> None:
        """Stop the log if a background write has failed."""
        if self._store is not None and self._store.problem is not None:
            self.stop_on_error(self._store.problem)

    def stop_on_error(self, error: Exception) -> None:
        """Stop the log because of an error, which must not fail the edit. Re-raises Cancelled."""
        if isinstance(error, Cancelled):
            raise error
        self.stop(reason_of(error))

    def stop(self, reason: str) -> None:
        """Stop logging, remove the log, and keep the reason in `problem`."""
        self.problem = f"Edits are not being kept for recovery: {reason}."
        self.remove()

    def remove(self) -> None:
        """Delete the log and its files."""
        store, self._store = self._store, None
        if store is None:
            remove_files(self._path)
        else:
            store.remove()

    # -- writing -------------------------------------------------------------------------------------------------

    def _append_line(self, line: dict[str, Any], *, with_steps: bool = False) -> None:
        problem = self._recorder.problem
        if with_steps:
            line["steps"] = [entry for entry, _ in self._recorder.drain() if entry is not None]
        if problem is not None:
            self.stop_on_error(problem)
        if not self.problem:
            with errors_to(self.stop_on_error):
                self.store().line(line, self._recorder.content)

    def _moved(self, kind: ChangeKind, target: HistoryEntry) -> _State | None:
        """Return the state that an undo or redo reaches in replay; None if it must be written as an edit."""
        state = self._states.get(target)
        is_near = state is not None and (state is self._at.parent if kind == "undo" else state.parent is self._at)
        return state if is_near and kind != "edit" else None

    def _line(self, change: Change) -> dict[str, Any]:
        entry = self._document.current
        if moved := self._moved(change.kind, entry):
            before, self._at = self._at, moved
            return {"undo": True} if change.kind == "undo" else {"redo": before.children.index(moved)}
        line: dict[str, Any] = {"edit": change.title}
        joined = change.kind == "edit" and (entry is self._entry or entry is self._entry.parent)
        if change.kind == "edit" and (entry.merge or joined):
            line["merge"] = entry.merge or self._entry.merge
            line["joined"] = joined
        if not joined:
            self._at = self._at.next()
            self._states[entry] = self._at
        elif entry is not self._entry:  # merged edits cancelled out, and the history dropped the entry
            outer = self._at.parent
            assert outer is not None
            outer.children.remove(self._at)
            self._at = outer
        return line

    def _store_payload(self, payload: Payload) -> tuple[int, int]:
        """Write the bytes of a large tensor; return their offset and length."""
        return self.store().keep(payload)

    def _header(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "version": VERSION,
            "pid": os.getpid(),
            "started": start_of(os.getpid()),
            "path": self.base.path,
            "size": self.base.size,
            "mtime_ns": self.base.mtime_ns,
            "copy": self._is_copy,
            "unsaved": not self.base.path and (self._follows is not None or self._document.saved_entry is None),
            "follows": "" if self._follows is None else self._follows.name,
            "name": "" if self._document.path is None else self._document.path.name,
            "title": self._title,
            "objects": self.ids.entry(),
        }
