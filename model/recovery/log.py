"""The lines of a crash journal since one state of its document, on the file that holds that state.

They are JSON: a header that says which file they belong to, then edits (numbered steps, and where in the model what
they speak of was met), undo and redo.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from onnx_workbench.model.errors import errors_to
from onnx_workbench.model.history.step_codec import encode_in_place
from onnx_workbench.model.history.steps import SetField, Step
from onnx_workbench.model.io.reader.source import identity_of
from onnx_workbench.model.progress import Cancelled
from onnx_workbench.model.recovery.baseline import reason_of
from onnx_workbench.model.recovery.journal_files import JournalFiles, remove_files
from onnx_workbench.model.recovery.object_ids import ObjectIds
from onnx_workbench.model.sandbox import start_of

if TYPE_CHECKING:
    from onnx_workbench.model.history.document import Change, Document, HistoryEntry
    from onnx_workbench.model.io.reader.payloads import Payload
    from onnx_workbench.model.io.reader.source import Identity, Source
    from onnx_workbench.model.recovery.write_ahead import WriteAheadLog

FORMAT: Final = "onnx-workbench journal"
VERSION: Final = 7


@dataclass(frozen=True, slots=True)
class BaseFile:
    """The file that holds what edits were made on, as it was then. No path for a model that is in no file."""

    path: str
    size: int = 0
    mtime_ns: int = 0

    @classmethod
    def of(cls, path: Path | None, identity: Identity | None = None) -> BaseFile:
        """The file as it is on disk now, or as it was or will be when it has this identity."""
        if path is None:
            return cls("")
        found = identity_of(path.stat()) if identity is None else identity
        return cls(str(path.resolve()), found.size, found.modified_ns)

    def is_unchanged(self) -> bool:
        """Whether the file on disk is still the one the edits were made on."""
        try:
            return not self.path or BaseFile.of(Path(self.path)) == self
        except OSError:
            return False


@dataclass(slots=True, eq=False)
class _State:
    """A state in the history that replaying the lines will have."""

    parent: _State | None = None
    children: list[_State] = field(default_factory=list)

    def next(self) -> _State:
        """The state after one more edit."""
        child = _State(self)
        self.children.append(child)
        return child


@dataclass(slots=True)
class _Line:
    """A change that is to be written, and its line but for the steps of an edit."""

    line: dict[str, Any]
    steps: Sequence[Step]
    inverses: Sequence[Step]


class JournalLog:
    """What is done to a document from a state of its history on. On the thread that owns the model.

    Costs the size of each edit; `failed` is called, on any thread, when something could not be written in the
    background. A disk that cannot be written to stops it, not the work: `problem` says so.

    Replaying begins with what the base file holds, so what was done before the `state` is no undo there: such an undo
    is written as an edit. `source`: the bytes of that file, where the model reads its weights from them. `is_copy`: the
    document does not belong to the file. `follows`: the log of the same document that this one replaces, if the base
    file was there when the program ended, as a model that lies beside its journal always is.
    """

    def __init__(
        self,
        document: Document,
        state: HistoryEntry,
        base: BaseFile,
        path: Path,
        *,
        source: Source | None = None,
        failed: Callable[[], object] = lambda: None,
        is_copy: bool = False,
        follows: Path | None = None,
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
        self._store: JournalFiles | None = None
        self._numbers: ObjectIds | None = None
        self._entry = document.current
        self._at = _State()
        self._states = {state: self._at}
        self._catch_up()

    def _catch_up(self) -> None:
        """Write what was done since the state."""
        since = self._document.way(self.state)
        for entry, _, _ in since:
            self._at = self._states[entry] = self._at.next()
        if since:
            self._write_down([_Line({"edit": entry.title}, steps, inverses) for entry, steps, inverses in since])

    @property
    def path(self) -> Path:
        """Where its lines are, once there are any."""
        return self._path

    @property
    def is_on_file(self) -> bool:
        """Whether there is anything to do again."""
        return self._store is not None

    def meet_nodes(self) -> None:
        """Walk along the nodes of the main graph, if nothing was edited yet, so that the first edit need not."""
        first = self._document.model.graph.nodes.first
        if self._numbers is None and first is not None:
            self._known().of(first)

    def add(self, change: Change, ahead: WriteAheadLog | None) -> None:
        """Write a change that was just made, whose steps may be on file from `ahead`."""
        if not self.problem:
            line = _Line(self._line(change), change.steps, change.inverses)
            if ahead is not None and ahead.store is self._store and ahead.is_on_file():
                self._confirm(line, ahead)
            else:
                self._write_down([line])
        self._entry = self._document.current

    def open(self) -> None:
        """Have it on file, though nothing was done yet."""
        if not self.problem:
            with errors_to(self.run_into):
                self.store()

    def store(self) -> JournalFiles:
        """The files, made when there is something to do again: an edit, or a model that nobody has saved.

        Raises what writing to them in the background ran into.
        """
        if self._store is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._store = JournalFiles(self._path, self._failed)
            self._store.line(self._header())
        elif self._store.problem is not None:
            raise self._store.problem
        return self._store

    def after(self, call: Callable[[], object]) -> None:
        """Call when all that was done so far is written, on any thread; not when some of it cannot be."""
        if self._store is None:
            call()
        else:
            self._store.after(call)

    def look(self) -> None:
        """Take notice of what writing in the background ran into."""
        if self._store is not None and self._store.problem is not None:
            self.run_into(self._store.problem)

    def run_into(self, error: Exception) -> None:
        """Trouble with the journal, of whatever kind, is no trouble for the edit."""
        if isinstance(error, Cancelled):
            raise error
        self.give_up(reason_of(error))

    def give_up(self, reason: str) -> None:
        """Write no more; `problem` says why."""
        self.problem = f"Edits are not being kept for recovery: {reason}."
        self.remove()

    def remove(self) -> None:
        """Nothing is left to recover."""
        store, self._store = self._store, None
        if store is None:
            remove_files(self._path)
        else:
            store.remove()

    # -- writing -------------------------------------------------------------------------------------------------

    def _confirm(self, change: _Line, ahead: WriteAheadLog) -> None:
        """Write a change whose steps are on file."""
        change.line |= {"confirms": ahead.confirm(len(change.steps)), "of": ahead.number}
        if self._numbers is not None and (met := self._numbers.take_met()):  # before all that changes their places
            change.line["met"] = met
        self._put_down(change)

    def _write_down(self, changes: Sequence[_Line]) -> None:
        """Write changes that were just made: each step as it is in the state of the model that it applies to."""
        edits = [change for change in changes if "edit" in change.line]
        moves = any(_moves_something(step) for change in edits for step in change.steps)
        for change in reversed(edits if moves else []):
            for step in reversed(change.inverses):
                step.apply()
        with errors_to(self.run_into):
            self.store()
        for change in changes:
            if "edit" in change.line:
                change.line["steps"] = self._encoded(change, again=moves)
            self._put_down(change)

    def _put_down(self, change: _Line) -> None:
        if not self.problem:
            with errors_to(self.run_into):
                self.store().line(change.line)

    def _encoded(self, change: _Line, *, again: bool) -> list[dict[str, Any]]:
        """The steps of a change as they are written; makes the change again where it was taken back for that."""
        numbers, written = self._known(), list[dict[str, Any]]()
        numbers.begin_edit(change.steps)
        for step in change.steps:
            if not self.problem:
                with errors_to(self.run_into):
                    written += encode_in_place(step, numbers)
            if again:
                step.apply()
        return written

    def _line(self, change: Change) -> dict[str, Any]:
        entry = self._document.current
        known = self._states.get(entry)
        if change.kind == "undo" and known is not None and known is self._at.parent:
            self._at = known
            return {"undo": True}
        if change.kind == "redo" and known is not None and known.parent is self._at:
            index = self._at.children.index(known)
            self._at = known
            return {"redo": index}
        line: dict[str, Any] = {"edit": change.title}
        joined = change.kind == "edit" and (entry is self._entry or entry is self._entry.parent)
        if change.kind == "edit" and (entry.merge or joined):
            line["merge"] = entry.merge or self._entry.merge
            line["joined"] = joined
        if not joined:
            self._at = self._at.next()
            self._states[entry] = self._at
        elif entry is not self._entry:  # what was typed is as it was before: the entry is gone
            outer = self._at.parent
            assert outer is not None
            outer.children.remove(self._at)
            self._at = outer
        return line

    def _known(self) -> ObjectIds:
        """What was met since the state; nothing before anything is written."""
        if self._numbers is None:
            self._numbers = ObjectIds(self._document.model, self.source, self._keep)
        return self._numbers

    def _keep(self, payload: Payload) -> tuple[int, int]:
        """Write the bytes of a large tensor."""
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
            "nodes": len(self._document.model.graph.nodes),
            "time": time.time(),
        }


def _moves_something(step: Step) -> bool:
    """Whether objects are at other places after a step, or have another name."""
    return not (isinstance(step, SetField) and step.field in ("type", "doc_string", "metadata"))
