"""The crash journal: every edit of a document, appended as it happens to a file in the user's state folder.

One journal per open document, begun with the first edit and removed when the document is saved or closed. What is
left at the next start belongs to a program that died: see `leftovers`. It is JSON lines: a header that says which
file it belongs to, then edits (numbered steps), undo and redo.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from model.document import Change, Document, Entry
from model.errors import ModelError
from model.progress import SILENT, Progress
from model.recording.references import Numbers
from model.recording.steps import encode
from model.recording.store import Parts, Store, base_path
from model.steps import (
    InsertNode,
    SetAttribute,
    SetField,
    SetGraphInputs,
    SetGraphOutputs,
    SetInitializer,
    Step,
)

FORMAT: Final = "onnx-workbench journal"
VERSION: Final = 1
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


class Journal:
    """Writes down what is done to one document. On the thread that owns the model; costs the size of each edit.

    A disk that cannot be written to stops the journal, not the work: `problem` says so. Replaying begins with what
    the base file holds, so what was done before the last save is no undo there: such an undo is written as an edit.
    """

    def __init__(self, document: Document, folder: Path, base: BaseFile | None = None) -> None:
        self._document = document
        self._folder = folder
        self._base = BaseFile.of(document.path) if base is None else base
        self._numbers: Numbers | None = None
        self._beginning: bytes | None = None  # of a document that is in no file
        self._store: Store | None = None
        self._source = document.model.source.data if document.model.source is not None else None
        self._entry = document.current
        self._at = _State()
        self._states = {document.current: self._at}
        self._synced = 0.0
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

    def prepare(self, progress: Progress = SILENT) -> None:
        """Look at the model before it is edited, so that the first edit does not have to. Costs a walk over it.

        The model must not change meanwhile; `progress` is checked all the time.
        """
        if not self.is_prepared:
            self._begin(progress)

    def _begin(self, progress: Progress = SILENT) -> None:
        """Take down what the edits will be made on, while the model is in that state."""
        if not self._base.path and self._beginning is None:
            self._source = None  # the beginning may be written anew, with values in other places
            self._beginning = _content(self._document, progress)
            if self._beginning is None:
                self.problem = "Edits are not being kept for recovery: the model is large and in no file yet."
                return
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
        if self.problem:
            return
        with self._trouble_told():
            line = self._line(change)
            if not self.problem:
                self._write(line)
        self._entry = self._document.current

    @contextlib.contextmanager
    def _trouble_told(self) -> Iterator[None]:
        """Trouble with the journal is no trouble for the edit."""
        try:
            yield
        except (OSError, ModelError) as error:
            reason = error.strerror or str(error) if isinstance(error, OSError) else str(error)
            self.problem = f"Edits are not being kept for recovery: {reason}."
            self._remove()

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
        line: dict[str, Any] = {"edit": change.title, "steps": self._steps(change)}
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

    def _steps(self, change: Change) -> list[dict[str, Any]]:
        numbers = self._numbers
        if numbers is None:
            # Numbers must be those of the model as opened: look at it as it was before this first edit.
            _take_back(change)
            try:
                self._begin()
            finally:
                for step in change.steps:
                    step.apply()
            numbers = self._numbers
            if numbers is None:
                return []
        if len(change.steps) == 1 or not any(map(_brings_something, change.steps)):
            return [encode(step, numbers) for step in change.steps if _is_known(step, numbers)]
        # What a step brings in is written as it was then, not as later steps of the same edit left it.
        _take_back(change)
        return _encode_and_apply(change.steps, numbers)

    def _write(self, line: dict[str, Any]) -> None:
        self._opened().line(json.dumps(line, separators=(",", ":")) + "\n")

    def _keep(self, length: int, parts: Parts) -> tuple[int, int]:
        """Take up the bytes of a large tensor; they are written in the background."""
        return self._opened().keep(length, parts)

    def _opened(self) -> Store:
        """The files, made with the first edit. Raises what writing to them in the background ran into."""
        if self._store is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            path = self._folder / f"{os.getpid()}-{uuid.uuid4().hex}{SUFFIX}"
            self._store = Store(path)
            if self._beginning is not None:
                base_path(path).write_bytes(self._beginning)
            self._store.line(json.dumps(self._header()) + "\n")
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
            "objects": self._numbers.fingerprint if self._numbers is not None else 0,
        }

    # -- saving --------------------------------------------------------------------------------------------------

    def _on_saved(self) -> None:
        """What was saved is safe. Later edits belong to the new file, whose objects are numbered anew when read."""
        saved = self._document.saved_entry
        if saved is None:
            return
        self._remove()
        self._numbers = self._beginning = self._source = None
        self._at = _State()
        self._states = {saved: self._at}
        self._entry = self._document.current
        self.problem = ""
        with self._trouble_told():
            self._base = BaseFile.of(self._document.path)
            if saved is not self._document.current:
                self._write_since(saved)

    def _write_since(self, saved: Entry) -> None:
        """Write what was done while the file was being saved: from the state it holds to the one now."""
        way = self._document.way(saved)
        for _, _, inverses in reversed(way):
            for inverse in reversed(inverses):
                inverse.apply()
        waiting = list(way)
        try:
            self._begin()
            while waiting and self._numbers is not None:
                entry, steps, _ = waiting.pop(0)
                self._at = self._states[entry] = self._at.next()
                self._write({"edit": entry.title, "steps": _encode_and_apply(steps, self._numbers)})
        finally:  # whatever happens, the model comes back to where it is
            for _, steps, _ in waiting:
                for step in steps:
                    step.apply()

    def _remove(self) -> None:
        if self._store is not None:
            self._store.close(remove=True)
            self._store = None


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


def _take_back(change: Change) -> None:
    for inverse in reversed(change.inverses):
        inverse.apply()


def _encode_and_apply(steps: Iterable[Step], numbers: Numbers) -> list[dict[str, Any]]:
    """Write each step while the model is in the state it applies to."""
    encoded = []
    waiting = list(steps)
    try:
        while waiting:
            if _is_known(waiting[0], numbers):
                encoded.append(encode(waiting[0], numbers))
            waiting.pop(0).apply()
    finally:
        for step in waiting:
            step.apply()
    return encoded


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
        case _:
            return numbers.of(step.node) is not None


def _brings_something(step: Step) -> bool:
    if isinstance(step, SetAttribute):
        return step.attribute is not None and bool(step.attribute.graphs)
    return isinstance(step, InsertNode) or (
        isinstance(step, SetField) and step.field in ("functions", "training_info", "initialization", "algorithm")
    )
