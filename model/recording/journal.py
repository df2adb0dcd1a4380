"""The crash journal: every edit of a document, appended as it happens to a file in the user's state folder.

One journal per open document, begun with the first edit and removed when the document is saved or closed. What is
left at the next start belongs to a program that died: see `leftovers`. It is JSON lines: a header that says which
file it belongs to, then edits (numbered steps, and where in the model what they speak of was met), undo and redo. A
model that is in no file is written beside it before anything is done to it, see `beginning`, and an edit with the
bytes it brings within the turn it is made in, whatever its size, or before it is made, see `ahead`: what a person has
seen is on file.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from model.document import Change, Document, Entry
from model.errors import errors_to
from model.graph import Model
from model.io.payloads import Payload
from model.progress import SILENT, Cancelled, Progress
from model.recording.ahead import Ahead, Recording
from model.recording.beginning import Beginning, reason_of, write_beginning
from model.recording.numbers import Numbers
from model.recording.steps import encode_in_place
from model.recording.store import Store, new_path, remove_files
from model.steps import SetField, Step

FORMAT: Final = "onnx-workbench journal"
VERSION: Final = 6


@dataclass(frozen=True, slots=True)
class BaseFile:
    """The file a document was opened from, as it was then. No path for a new document."""

    path: str
    size: int = 0
    mtime_ns: int = 0

    @classmethod
    def of(cls, path: Path | None) -> BaseFile:
        """The file as it is on disk now."""
        if path is None:
            return cls("")
        status = path.stat()
        return cls(str(path.resolve()), status.st_size, status.st_mtime_ns)

    def is_unchanged(self) -> bool:
        """Whether the file on disk is still the one the journal was begun on."""
        try:
            return not self.path or BaseFile.of(Path(self.path)) == self
        except OSError:
            return False


@dataclass(slots=True, eq=False)
class _State:
    """A state in the history that replaying the journal will have."""

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


class Journal:
    """Writes down what is done to one document. On the thread that owns the model; costs the size of each edit.

    The model of a document that is in no file is written down too, as it began. That takes as long as a save, so who
    shows the document gives a `beginning` that is written already; otherwise it is written here and now.
    `failed` is called, on any thread, when something could not be written in the background: then `look`. A disk that
    cannot be written to stops the journal, not the work: `problem` says so.

    Replaying begins with what the base file holds, so what was done before the last save is no undo there: such an
    undo is written as an edit.
    """

    def __init__(
        self,
        document: Document,
        folder: Path,
        base: BaseFile | None = None,
        *,
        beginning: Beginning | None = None,
        failed: Callable[[], object] = lambda: None,
    ) -> None:
        self._document = document
        self._folder = folder
        self._base = BaseFile.of(document.path) if base is None else base
        self._failed = failed
        self._source = document.model.source.data if self._base.path and document.model.source is not None else None
        self._numbers: Numbers | None = None
        self._store: Store | None = None
        self._path = new_path(folder)
        self.problem = ""
        self.ahead: Ahead | None = None  # whose steps are being made
        self._until_kept: list[Callable[[], object]] = []
        self._begin_at(document.current)
        if not self._base.path:
            self._begin_with(beginning or write_beginning(document.model, folder))
        self._endings = [document.subscribe(self._on_change), document.on_saved(self._on_saved)]

    def _begin_with(self, beginning: Beginning) -> None:
        self._path = beginning.journal
        if beginning.problem:
            self.give_up(beginning.problem)
        self._note_unsaved()

    def _begin_at(self, beginning: Entry) -> None:
        """What is written from now on applies to the model in this state of its history."""
        self._numbers = None
        self._entry = self._document.current
        self._at = _State()
        self._states = {beginning: self._at}

    @property
    def path(self) -> Path | None:
        """The journal's file; None before there is anything to do again."""
        return None if self._store is None else self._store.path

    def when_kept(self, call: Callable[[], object]) -> None:
        """Call once, on any thread, when all that was done so far is written here, saved, or given up by the person.

        Not when it could not be written.
        """
        self._until_kept.append(call)
        self._pass_on()

    def meet_nodes(self) -> None:
        """Walk along the nodes of the main graph, if nothing was edited yet, so that the first edit need not."""
        first = self._document.model.graph.nodes.first
        if self._numbers is None and first is not None:
            self._known().of(first)

    def recording(self, copy: Model) -> Recording:
        """What is to take down what is done to a copy of the model as it is now, or will be done to the model."""
        return Recording(self, copy, self._source)

    def write_ahead(self, recording: Recording, progress: Progress = SILENT) -> Ahead | None:
        """Write edits in the background that were made to a copy of the model as it is now, and will be made here.

        None when they can be written only as they are made. `progress` hears how far it is, and can stop it.
        """
        ahead = None
        if recording.problem is None and recording.base is self._source and recording.steps and not self.problem:
            with errors_to(self._run_into):
                ahead = Ahead(self, self._opened(), recording, progress)
        return ahead

    def look(self) -> None:
        """Take notice of what writing in the background ran into."""
        if self._store is not None and self._store.problem is not None:
            self._run_into(self._store.problem)

    def give_up(self, reason: str) -> None:
        """Write no more; `problem` says why."""
        self.problem = f"Edits are not being kept for recovery: {reason}."
        self._detached()()

    def close(self) -> None:
        """The document is closed: saved or given up. Nothing is left to recover."""
        while self._endings:
            self._endings.pop()()
        self._detached()()
        for call in list(self._until_kept):
            self._let_go(call)

    # -- writing -------------------------------------------------------------------------------------------------

    def _on_change(self, change: Change) -> None:
        if not self.problem:
            line = _Line(self._line(change), change.steps, change.inverses)
            if self.ahead is not None and self.ahead.store is self._store and self.ahead.is_on_file():
                self._confirm(line, self.ahead)
            else:
                self._write_down([line])
        self._entry = self._document.current

    def _confirm(self, change: _Line, ahead: Ahead) -> None:
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
        with errors_to(self._run_into):
            self._opened()
        for change in changes:
            if "edit" in change.line:
                change.line["steps"] = self._encoded(change, again=moves)
            self._put_down(change)

    def _put_down(self, change: _Line) -> None:
        if not self.problem:
            with errors_to(self._run_into):
                self._opened().line(change.line)

    def _encoded(self, change: _Line, *, again: bool) -> list[dict[str, Any]]:
        """The steps of a change as they are written; makes the change again where it was taken back for that."""
        numbers, written = self._known(), list[dict[str, Any]]()
        numbers.begin_edit(change.steps)
        for step in change.steps:
            if not self.problem:
                with errors_to(self._run_into):
                    written += encode_in_place(step, numbers)
            if again:
                step.apply()
        return written

    def _run_into(self, error: Exception) -> None:
        """Trouble with the journal, of whatever kind, is no trouble for the edit."""
        if isinstance(error, Cancelled):
            raise error
        self.give_up(reason_of(error))

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

    def _known(self) -> Numbers:
        """What was met since the journal began; nothing before anything is written."""
        if self._numbers is None:
            self._numbers = Numbers(self._document.model, self._source, self._keep)
        return self._numbers

    def _keep(self, payload: Payload) -> tuple[int, int]:
        """Write the bytes of a large tensor."""
        return self._opened().keep(payload)

    def _opened(self) -> Store:
        """The files, made when there is something to do again: an edit, or a model that nobody has saved.

        Raises what writing to them in the background ran into.
        """
        if self._store is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._store = Store(self._path, self._failed)
            self._store.line(self._header())
        elif self._store.problem is not None:
            raise self._store.problem
        return self._store

    def _header(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "version": VERSION,
            "pid": os.getpid(),
            "path": self._base.path,
            "size": self._base.size,
            "mtime_ns": self._base.mtime_ns,
            "copy": bool(self._base.path) and self._document.path is None,
            "unsaved": self._document.saved_entry is None,
            "nodes": len(self._document.model.graph.nodes),
            "time": time.time(),
        }

    # -- saving --------------------------------------------------------------------------------------------------

    def _on_saved(self) -> None:
        """What was saved is safe. Later edits belong to the new file, whose objects are numbered anew when read."""
        saved = self._document.saved_entry
        if saved is None:
            self._note_unsaved()
            return
        if self._document.left_out and not self.problem and self._base.is_unchanged():
            return  # what this began on, and the edits since, hold what the file does not
        remove_old = self._detached()
        self._begin_at(saved)
        self._source = None  # the new file may have the values in other places
        self.problem = ""
        with errors_to(self._run_into):
            self._base = BaseFile.of(self._document.path)
            since = self._document.way(saved)
            for entry, _, _ in since:
                self._at = self._states[entry] = self._at.next()
            if since:
                self._write_down([_Line({"edit": entry.title}, steps, inverses) for entry, steps, inverses in since])
        remove_old()  # only now: what was done while it was saved is on file all the time
        self._pass_on()

    def _note_unsaved(self) -> None:
        """Have a model offered at the next start that is in no file and that nobody has saved, edited or not."""
        if not (self.problem or self._base.path) and self._document.saved_entry is None:
            with errors_to(self._run_into):
                self._opened()

    def _pass_on(self) -> None:
        """Have what waits until all is kept called after that, if it is on its way."""
        if self.problem:
            return
        for call in list(self._until_kept):
            if self._store is None:
                self._let_go(call)
            else:
                self._store.after(partial(self._let_go, call))

    def _let_go(self, call: Callable[[], object]) -> None:
        if call in self._until_kept:
            self._until_kept.remove(call)
            call()

    def _detached(self) -> Callable[[], object]:
        """Begin new files, and have those that there were removed by what this returns."""
        store, path = self._store, self._path
        self._store, self._path = None, new_path(self._folder)
        return partial(remove_files, path) if store is None else store.remove


def _moves_something(step: Step) -> bool:
    """Whether objects are at other places after a step, or have another name."""
    return not (isinstance(step, SetField) and step.field in ("type", "doc_string", "metadata"))
