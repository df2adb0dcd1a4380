"""The crash journal: every edit of a document, appended as it happens to a file in the user's state folder.

One journal per open document, begun with the first edit and removed when the document is saved or closed. What is
left at the next start belongs to a program that died: see `leftovers`. It is JSON lines: a header that says which
file it belongs to, a line that tells what the model holds, then edits (numbered steps), undo and redo. What cannot be
written at once is announced by its title, so that it is known to be missing if the program dies before.
"""

from __future__ import annotations

import contextlib
import os
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from model.document import Change, Document
from model.errors import ModelError, errors_to
from model.progress import SILENT, Cancelled, Progress
from model.recording.references import Numbers
from model.recording.steps import encode
from model.recording.store import Parts, Store
from model.steps import (
    InsertNode,
    MoveUses,
    SetAttribute,
    SetField,
    SetGraphInputs,
    SetGraphOutputs,
    SetInitializer,
    Step,
)

FORMAT: Final = "onnx-workbench journal"
VERSION: Final = 3
SUFFIX: Final = ".journal"
_LARGEST_BASE = 64 << 20
_STEP = 1 << 20


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
class _Waiting:
    """A change that is not written yet, and its line but for the steps of an edit."""

    line: dict[str, Any]
    steps: Sequence[Step]
    inverses: Sequence[Step]
    is_announced: bool = False


class Journal:
    """Writes down what is done to one document. On the thread that owns the model; costs the size of each edit.

    Before the first edit can be written the model must have been looked at as it was, which costs a walk over it. Who
    can do so bit by bit gives `later`, called when an edit waits for that: then `prepare` within `as_it_began`, as
    often as it takes. `failed` is called, on any thread, when something could not be written in the background: then
    `look`. A disk that cannot be written to stops the journal, not the work: `problem` says so.

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
        self._numbers: Numbers | None = None
        self._beginning: bytes | None = None  # of a document that is in no file
        self._store: Store | None = None
        self._is_begun = False  # the journal's file says what the model holds
        self._waiting: list[_Waiting] = []
        self._source = document.model.source.data if document.model.source is not None else None
        self._entry = document.current
        self._at = _State()
        self._states = {document.current: self._at}
        self.problem = ""
        self._endings = [document.subscribe(self._on_change), document.on_saved(self._on_saved)]

    @property
    def path(self) -> Path | None:
        """The journal's file; None before the first edit."""
        return None if self._store is None else self._store.path

    @property
    def is_prepared(self) -> bool:
        """Whether the next edit will cost no more than itself."""
        return self._numbers is not None or bool(self.problem)

    @property
    def is_waited_for(self) -> bool:
        """Whether edits wait for `prepare` to be written."""
        return bool(self._waiting)

    @property
    def waiting_steps(self) -> int:
        """How many steps `as_it_began` takes back and does again."""
        return sum(len(change.steps) for change in self._waiting)

    def prepare(self, progress: Progress = SILENT) -> None:
        """Look at the model as it began, so that edits can be written. Costs a walk over it.

        `progress` is checked all the time; in between the model may be edited, outside `as_it_began`. Before the
        journal hears that the document was saved, `progress` must be cancelled: it begins with another state then.
        """
        if not self.is_prepared:
            with errors_to(self._run_into):
                self._begin(progress)

    @contextlib.contextmanager
    def as_it_began(self) -> Iterator[None]:
        """Within it the model is as the journal began; then what waits is done again, and written if it can be now."""
        waiting = self._waiting
        for change in reversed(waiting):
            for inverse in reversed(change.inverses):
                inverse.apply()
        try:
            yield
        finally:
            self._do_again(waiting)

    def look(self) -> None:
        """Take notice of what writing in the background ran into."""
        if self._store is not None and self._store.problem is not None:
            self._run_into(self._store.problem)

    def give_up(self, reason: str) -> None:
        """Write no more; `problem` says why."""
        self.problem = f"Edits are not being kept for recovery: {reason}."
        self._waiting = []
        self._remove()

    def _begin(self, progress: Progress = SILENT) -> None:
        """Take down what the edits will be made on, while the model is in that state."""
        if not self._base.path and self._beginning is None:
            self._source = None  # the beginning may be written anew, with values in other places
            self._beginning = _content(self._document, progress)
            if self._beginning is None:
                raise ModelError("the model is large and in no file yet", "")
        self._numbers = Numbers(self._document.model, progress, self._source, self._keep)

    def close(self) -> None:
        """The document is closed: saved or given up. Nothing is left to recover."""
        while self._endings:
            self._endings.pop()()
        self._remove()

    def abandon(self) -> None:
        """Stop writing and leave the file, as a crash would."""
        while self._endings:
            self._endings.pop()()
        if self._store is not None:
            self._store.close(remove=False)
            self._store = None

    # -- writing -------------------------------------------------------------------------------------------------

    def _on_change(self, change: Change) -> None:
        if not self.problem:
            self._take_up(_Waiting(self._line(change), change.steps, change.inverses))
        self._entry = self._document.current

    def _take_up(self, *changes: _Waiting) -> None:
        """Write changes, now or when what comes before them is written."""
        self._waiting += changes
        with errors_to(self._run_into):
            if self._numbers is not None and not _brings_something(changes):
                self._write_waiting()
            elif self.is_prepared or self._later is None:
                with self.as_it_began():
                    self.prepare()
            else:
                for change in changes:
                    self._opened().announce(change.line)
                    change.is_announced = True
                self._later()

    def _write_waiting(self) -> None:
        """Write what waits, whose steps bring nothing that later steps of the same edit could have changed."""
        numbers = self._numbers
        assert numbers is not None
        while self._waiting:
            change = self._waiting.pop(0)
            steps = change.steps if "edit" in change.line else ()
            self._write(change, [line for step in steps for line in _encoded(step, numbers)])

    def _do_again(self, waiting: Sequence[_Waiting]) -> None:
        """Apply what waits. Each step is written, if it can be, while the model is in the state it applies to."""
        if self.is_prepared:
            self._waiting = []
        for change in waiting:
            written: list[dict[str, Any]] = []
            for step in change.steps:
                if self._numbers is not None and not self.problem and "edit" in change.line:
                    with errors_to(self._run_into):
                        written += _encoded(step, self._numbers)
                step.apply()
            if self._numbers is not None and not self.problem:
                with errors_to(self._run_into):
                    self._write(change, written)

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

    def _write(self, change: _Waiting, steps: list[dict[str, Any]]) -> None:
        store = self._opened()
        if not self._is_begun and self._numbers is not None:
            self._is_begun = True
            if self._beginning is not None:
                store.begin_with(self._beginning)
            store.line({"objects": self._numbers.fingerprint}, announced=True)
        line = {**change.line, "steps": steps} if "edit" in change.line else change.line
        store.line(line, announced=change.is_announced)

    def _keep(self, length: int, parts: Parts) -> tuple[int, int]:
        """Take up the bytes of a large tensor; they are written in the background."""
        return self._opened().keep(length, parts)

    def _opened(self) -> Store:
        """The files, made with the first edit. Raises what writing to them in the background ran into."""
        if self._store is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            path = self._folder / f"{os.getpid()}-{uuid.uuid4().hex}{SUFFIX}"
            self._store = Store(path, self._failed)
            self._store.line(self._header(), announced=True)
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
            "time": time.time(),
        }

    # -- saving --------------------------------------------------------------------------------------------------

    def _on_saved(self) -> None:
        """What was saved is safe. Later edits belong to the new file, whose objects are numbered anew when read."""
        saved = self._document.saved_entry
        if saved is None:
            return
        self._remove()
        self._numbers = self._beginning = self._source = None
        self._waiting = []
        self._at = _State()
        self._states = {saved: self._at}
        self._entry = self._document.current
        self.problem = ""
        with errors_to(self._run_into):
            self._base = BaseFile.of(self._document.path)
            since = self._document.way(saved)
            for entry, _, _ in since:
                self._at = self._states[entry] = self._at.next()
            if since:
                self._take_up(*(_Waiting({"edit": entry.title}, steps, inverses) for entry, steps, inverses in since))

    def _remove(self) -> None:
        if self._store is not None:
            self._store.close(remove=True)
            self._store = None
        self._is_begun = False


def _content(document: Document, progress: Progress) -> bytes | None:
    """The model as it began: the bytes it was read from, else written anew. None when that is too much to keep.

    A document in no file was never saved, so it began with what was read.
    """
    from model.io.read import ModelSource
    from model.io.save import to_bytes

    source = document.model.source
    if isinstance(source, ModelSource) and source.proto is document.model._source and not source.truncation:
        if source.data.size > _LARGEST_BASE:
            return None
        parts = []
        for offset in range(0, source.data.size, _STEP):
            progress.check()
            parts.append(source.data.read(offset, min(_STEP, source.data.size - offset)))
        return b"".join(parts)
    constants = (v.initializer for v in document.model.graph.initializers)
    if sum(tensor.nbytes for tensor in constants if tensor is not None) > _LARGEST_BASE:
        return None
    return to_bytes(document.model, progress=progress)


def _encoded(step: Step, numbers: Numbers) -> list[dict[str, Any]]:
    """What is written of a step: nothing when what it changes is not known."""
    return [encode(step, numbers)] if _is_known(step, numbers) else []


def _is_known(step: Step, numbers: Numbers) -> bool:
    """Whether what a step changes is in the model that replaying begins with, or came in since.

    What was taken out before the last save is not. Changes to it are not written, but when it comes back it is
    written whole, as it is then.
    """
    match step:
        case SetField():
            return numbers.of(step.target) is not None
        case InsertNode() | SetGraphInputs() | SetGraphOutputs() | SetInitializer():
            return numbers.of(step.graph) is not None
        case MoveUses():
            return numbers.of(step.source) is not None
        case _:
            return numbers.of(step.node) is not None


def _brings_something(changes: Sequence[_Waiting]) -> bool:
    """Whether objects come in with steps that others follow: these are written as they were then, not as they are."""
    steps = [step for change in changes for step in change.steps]
    return len(steps) > 1 and any(map(_brings_objects, steps))


def _brings_objects(step: Step) -> bool:
    if isinstance(step, SetAttribute):
        return step.attribute is not None and bool(step.attribute.graphs)
    return isinstance(step, InsertNode) or (
        isinstance(step, SetField) and step.field in ("functions", "training_info", "initialization", "algorithm")
    )
