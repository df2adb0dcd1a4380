"""The crash journal: every edit of a document, appended as it happens to a file in the user's state folder.

One journal per open document, begun with the first edit and removed when the document is saved or closed. What is
left at the next start belongs to a program that died: see `leftovers`. It is JSON lines: a header that says which
file it belongs to, then edits (numbered steps, and where in the model what they speak of was met), undo and redo. An
edit is written within the turn it is made in, or before it is made, see `ahead`. Only one of very many steps, or whose
weights must be written first, that a person makes directly is announced by its title, so that it is known to be missing
if the program dies before.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Final

from model.document import Change, Document, Entry
from model.errors import errors_to
from model.graph import Model
from model.io.payloads import Payload
from model.progress import SILENT, Cancelled, Progress
from model.recording.ahead import Ahead, Recording
from model.recording.numbers import Numbers
from model.recording.steps import encode, encode_in_place
from model.recording.store import Store, base_path
from model.steps import InsertNode, RemoveNode, SetField, SetOutputs, Step

FORMAT: Final = "onnx-workbench journal"
VERSION: Final = 5
SUFFIX: Final = ".journal"


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

    The model of a document that is in no file must be written down too, as it began, which costs a walk over it. Who
    can do so bit by bit gives `later`, called with each edit until that is done: then `prepare` within `as_it_began`,
    as often as it takes. `failed` is called, on any thread, when something could not be written in the background:
    then `look`. A disk that cannot be written to stops the journal, not the work: `problem` says so.

    Replaying begins with what the base file holds, so what was done before the last save is no undo there: such an
    undo is written as an edit.
    """

    def __init__(
        self,
        document: Document,
        folder: Path,
        base: BaseFile | None = None,
        *,
        later: Callable[[], object] | None = None,
        failed: Callable[[], object] = lambda: None,
    ) -> None:
        self._document = document
        self._folder = folder
        self._base = BaseFile.of(document.path) if base is None else base
        self._later = later
        self._failed = failed
        self._source = document.model.source.data if self._base.path and document.model.source is not None else None
        self._numbers: Numbers | None = None
        self._store: Store | None = None
        self._has_beginning = bool(self._base.path)
        self.problem = ""
        self.ahead: Ahead | None = None  # whose steps are being made
        self._until_kept: list[Callable[[], object]] = []
        self._begin_at(document.current)
        self._endings = [document.subscribe(self._on_change), document.on_saved(self._on_saved)]

    def _begin_at(self, beginning: Entry) -> None:
        """What is written from now on applies to the model in this state of its history."""
        self._began = beginning
        self._numbers = None
        self._entry = self._document.current
        self._at = _State()
        self._states = {beginning: self._at}

    @property
    def path(self) -> Path | None:
        """The journal's file; None before the first edit."""
        return None if self._store is None else self._store.path

    @property
    def needs_beginning(self) -> bool:
        """Whether `prepare` must look at the model as it began, or nothing could be done again on it."""
        return not self._has_beginning and not self.problem

    @property
    def steps_since(self) -> int:
        """How many steps `as_it_began` takes back and does again."""
        return sum(len(steps) for _, steps, _ in self._document.way(self._began))

    def prepare(self, progress: Progress = SILENT) -> None:
        """Take down the model of a document in no file as it began; costs a walk over it. Written in the background.

        `progress` is checked all the time; in between the model may be edited, outside `as_it_began`. Before the
        journal hears that the document was saved, and before `begin_anew`, `progress` must be cancelled.
        """
        from model.io.save import prepare

        if self.needs_beginning:
            with errors_to(self._run_into):
                store = self._opened()
                store.begin_with(prepare(self._document.model, base_path(store.path), progress=progress))
                self._has_beginning = True
        self._pass_on()

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

    def begin_anew(self) -> None:
        """Begin with the model as it is now: where taking back what was done since takes longer than looking at it."""
        self._document.end_gesture()  # what is typed next is no part of the beginning
        self._remove()
        self._begin_at(self._document.current)

    def recording(self, copy: Model) -> Recording:
        """What is to take down what is done to a copy of the model as it is now."""
        return Recording(self, copy, self._source)

    def write_ahead(self, recording: Recording) -> Ahead | None:
        """Write edits in the background that were made to a copy of the model as it is now, and will be made here.

        None when they can be written only as they are made.
        """
        ahead = None
        is_of_use = recording.problem is None and recording.base is self._source
        if is_of_use and recording.steps and not self.problem and not self.needs_beginning:
            with errors_to(self._run_into):
                ahead = Ahead(self, self._opened(), recording)
        return ahead

    def as_it_began(self) -> AbstractContextManager[None]:
        """Within it the model is as the journal began."""
        return self._document.at(self._began)

    def look(self) -> None:
        """Take notice of what writing in the background ran into."""
        if self._store is not None and self._store.problem is not None:
            self._run_into(self._store.problem)

    def give_up(self, reason: str) -> None:
        """Write no more; `problem` says why."""
        self.problem = f"Edits are not being kept for recovery: {reason}."
        self._remove()

    def close(self) -> None:
        """The document is closed: saved or given up. Nothing is left to recover."""
        while self._endings:
            self._endings.pop()()
        self._remove()
        for call in list(self._until_kept):
            self._let_go(call)

    # -- writing -------------------------------------------------------------------------------------------------

    def _on_change(self, change: Change) -> None:
        if not self.problem:
            line = _Line(self._line(change), change.steps, change.inverses)
            began = self._began
            if self.needs_beginning:
                self._take_down_beginning()
            if self._began is began and not self.problem:  # else it begins with what this change made, or not at all
                self._write_down_or_confirm(line)
        self._entry = self._document.current

    def _write_down_or_confirm(self, change: _Line) -> None:
        if self.ahead is None or self.ahead.store is not self._store:
            self._write_down([change])
            return
        change.line["confirms"] = self.ahead.confirm(len(change.steps))
        if self._numbers is not None and (met := self._numbers.take_met()):  # before all that changes their places
            change.line["met"] = met
        self._put_down(change, ())

    def _take_down_beginning(self) -> None:
        if self._later is not None:
            self._later()
            return
        with self.as_it_began():
            self.prepare()

    def _write_down(self, changes: Sequence[_Line]) -> None:
        """Write changes that were just made: each step as it is in the state of the model that it applies to."""
        edits = [change for change in changes if "edit" in change.line]
        if self._can_wait(edits):
            for change in changes:
                self._put_down(change, _written_later(change.steps, self._known()) if change in edits else ())
            return
        moves = any(_moves_something(step) for change in edits for step in change.steps)
        for change in reversed(edits if moves else []):
            _apply(reversed(change.inverses))
        with errors_to(self._run_into):
            self._opened()
        for change in changes:
            self._put_down(change, self._encoded(change, again=moves) if change in edits else ())

    def _can_wait(self, edits: Sequence[_Line]) -> bool:
        """Whether all their steps can be written when there is time: they need not be taken back for it then."""
        if any(isinstance(step, (InsertNode, RemoveNode, SetOutputs)) for change in edits for step in change.steps):
            return False
        numbers = self._known()
        pairs = [pair for change in edits for pair in zip(change.steps, change.inverses, strict=True)]
        if all(numbers.can_wait(*pair) for pair in pairs):
            return True
        for change in edits:
            numbers.meet_all(change.steps)  # nodes and their outputs are where they were before all of them
        return all(numbers.can_wait(*pair) for pair in pairs)

    def _put_down(self, change: _Line, steps: Iterable[dict[str, Any]]) -> None:
        if not self.problem:
            count = 0 if "confirms" in change.line else len(change.steps)
            with errors_to(self._run_into):
                self._opened().line(change.line, steps, count)

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
        self.give_up((isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__)

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
        """Take up the bytes of a large tensor; they are written in the background."""
        return self._opened().keep(payload)

    def _opened(self) -> Store:
        """The files, made with the first edit, while the model is as it began.

        Raises what writing to them in the background ran into.
        """
        if self._store is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            path = self._folder / f"{os.getpid()}-{uuid.uuid4().hex[:16]}{SUFFIX}"
            self._store = Store(path, self._failed)
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
            "unsaved": self._document.saved_entry is None,
            "nodes": len(self._document.model.graph.nodes),
            "time": time.time(),
        }

    # -- saving --------------------------------------------------------------------------------------------------

    def _on_saved(self) -> None:
        """What was saved is safe. Later edits belong to the new file, whose objects are numbered anew when read."""
        saved = self._document.saved_entry
        if saved is None:
            return
        self._remove()
        self._begin_at(saved)
        self._has_beginning = True
        self._source = None  # the new file may have the values in other places
        self.problem = ""
        with errors_to(self._run_into):
            self._base = BaseFile.of(self._document.path)
            since = self._document.way(saved)
            for entry, _, _ in since:
                self._at = self._states[entry] = self._at.next()
            if since:
                self._write_down([_Line({"edit": entry.title}, steps, inverses) for entry, steps, inverses in since])
        self._pass_on()

    def _pass_on(self) -> None:
        """Have what waits until all is kept called after that, if it is on its way."""
        if self.needs_beginning or self.problem:
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

    def _remove(self) -> None:
        if self._store is not None:
            self._store.remove()
            self._store = None


def _apply(steps: Iterable[Step]) -> None:
    for step in steps:
        step.apply()


def _written_later(steps: Sequence[Step], numbers: Numbers) -> Iterator[dict[str, Any]]:
    """The same, one after the other, of steps that can wait; on any thread."""
    met = numbers.take_met()
    return chain([{"met": met}] if met else [], (encode(step, numbers) for step in steps))


def _moves_something(step: Step) -> bool:
    """Whether objects are at other places after a step, or have another name."""
    return not (isinstance(step, SetField) and step.field in ("type", "doc_string", "metadata"))
