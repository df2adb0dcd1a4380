"""The crash journal: every edit of a document, appended as it happens to a file in the user's state folder.

One journal per open document, begun with the first edit and removed when the document is saved or closed. What is
left at the next start belongs to a program that died. It is JSON lines: a header that says which file it belongs
to, then edits (numbered steps), undo and redo. A journal whose replay fails is set aside after one try.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from model.document import Change, Document
from model.errors import ModelError
from model.recording.references import Numbers
from model.recording.steps import decode, encode
from model.steps import InsertNode, SetAttribute, SetField, Step

_FORMAT = "onnx-workbench journal"
_VERSION = 1
_SUFFIX = ".journal"
_TRIED = ".tried"  # replayed once already: not offered a second time
_BASE = ".onnx"  # beside the journal of a document that is in no file: the model as it began
_LARGEST_BASE = 64 << 20
_SYNC_SECONDS = 2.0


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


class Journal:
    """Writes down what is done to one document. On the thread that owns the model; costs the size of each edit.

    A disk that cannot be written to stops the journal, not the work: `problem` says so.
    """

    def __init__(self, document: Document, folder: Path, base: BaseFile | None = None) -> None:
        self._document = document
        self._folder = folder
        self._base = BaseFile.of(document.path) if base is None else base
        self._numbers: Numbers | None = None
        self._beginning: bytes | None = None  # of a document that is in no file
        self._file: IO[str] | None = None
        self._path: Path | None = None
        self._entry = document.current
        self._synced = 0.0
        self.problem = ""
        self._endings = [document.subscribe(self._on_change), document.on_saved(self._on_saved)]

    @property
    def path(self) -> Path | None:
        """The journal's file; None before the first edit."""
        return self._path

    def prepare(self) -> None:
        """Number the model's objects now, in an idle moment, so that the first edit does not have to."""
        if self._numbers is None and self._document.current is self._document.root and not self._file:
            self._begin()

    def _begin(self) -> None:
        """Take down what the edits will be made on, while the model is as it was opened."""
        self._numbers = Numbers(self._document.model)
        if not self._base.path:
            from model.io.save import to_bytes

            if (
                sum(v.initializer.nbytes for v in self._document.model.graph.initializers if v.initializer)
                > _LARGEST_BASE
            ):
                self.problem = "Edits are not being kept for recovery: the model is large and in no file yet."
                return
            self._beginning = to_bytes(self._document.model)

    def close(self) -> None:
        """The document is closed: saved or given up. Nothing is left to recover."""
        while self._endings:
            self._endings.pop()()
        self._remove()

    def abandon(self) -> None:
        """Stop writing and leave the file, as a crash would."""
        while self._endings:
            self._endings.pop()()
        if self._file is not None:
            self._file.close()
            self._file = None
        self._path = None

    # -- writing -------------------------------------------------------------------------------------------------

    def _on_change(self, change: Change) -> None:
        if self.problem:
            return
        try:
            line = self._line(change)
            if not self.problem:
                self._write(line)
        except OSError as error:
            self.problem = f"Edits are not being kept for recovery: {error.strerror or error}."
            self._remove()
        finally:
            self._entry = self._document.current

    def _line(self, change: Change) -> dict[str, Any]:
        if change.kind == "undo":
            return {"undo": True}
        if change.kind == "redo":
            parent = self._document.current.parent
            assert parent is not None
            return {"redo": parent.children.index(self._document.current)}
        joined = self._document.current is self._entry or self._document.current is self._entry.parent
        line: dict[str, Any] = {"edit": change.title, "steps": self._steps(change)}
        if self._document.current.merge or joined:
            line["merge"] = self._document.current.merge or self._entry.merge
            line["joined"] = joined
        return line

    def _steps(self, change: Change) -> list[dict[str, Any]]:
        numbers = self._numbers
        if numbers is None:
            # Numbers must be those of the model as opened: look at it as it was before this first edit.
            inverses = _take_back(change)
            try:
                self._begin()
            finally:
                for step in change.steps[: len(inverses)]:
                    step.apply()
            numbers = self._numbers
            assert numbers is not None
        if len(change.steps) == 1 or not any(map(_brings_something, change.steps)):
            return [encode(step, numbers) for step in change.steps]
        # What a step brings in is written as it was then, not as later steps of the same edit left it.
        _take_back(change)
        encoded = []
        for step in change.steps:
            encoded.append(encode(step, numbers))
            step.apply()
        return encoded

    def _write(self, line: dict[str, Any]) -> None:
        if self._file is None:
            self._open()
        assert self._file is not None
        self._file.write(json.dumps(line, separators=(",", ":")) + "\n")
        self._file.flush()
        if time.monotonic() - self._synced > _SYNC_SECONDS:
            os.fsync(self._file.fileno())
            self._synced = time.monotonic()

    def _open(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._path = self._folder / f"{os.getpid()}-{uuid.uuid4().hex}{_SUFFIX}"
        if self._beginning is not None:
            _base_path(self._path).write_bytes(self._beginning)
        self._file = open(self._path, "x", encoding="utf-8", errors="surrogatepass")  # noqa: SIM115 # open for long
        header = {
            "format": _FORMAT,
            "version": _VERSION,
            "pid": os.getpid(),
            "path": self._base.path,
            "size": self._base.size,
            "mtime_ns": self._base.mtime_ns,
            "time": time.time(),
            "objects": self._numbers.fingerprint if self._numbers is not None else 0,
        }
        self._file.write(json.dumps(header) + "\n")

    def _on_saved(self) -> None:
        """The state now is safe. Later edits belong to the new file, whose objects are numbered anew when read."""
        if self._document.modified:
            return
        self._remove()
        self._numbers = None
        self._rebase()

    def _rebase(self) -> None:
        """After a save, the journal goes on from the saved file, whose objects come in the order of the model now."""
        try:
            self._base = BaseFile.of(self._document.path)
        except OSError as error:
            self.problem = f"Edits are not being kept for recovery: {error.strerror or error}."
            return
        self._numbers = Numbers(self._document.model)

    def _remove(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._path is not None:
            self._path.unlink(missing_ok=True)
            _base_path(self._path).unlink(missing_ok=True)
            self._path = None


def _base_path(journal: Path) -> Path:
    return journal.with_name(journal.name.partition(".")[0] + _BASE)


def _take_back(change: Change) -> list[Step]:
    return [inverse.apply() for inverse in reversed(change.inverses)]


def _brings_something(step: Step) -> bool:
    if isinstance(step, SetAttribute):
        return step.attribute is not None and bool(step.attribute.graphs)
    return isinstance(step, InsertNode) or (
        isinstance(step, SetField) and step.field in ("functions", "training_info", "initialization", "algorithm")
    )


# -- recovering -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Leftover:
    """A journal of a program that died: what it belongs to and what was done."""

    path: Path
    base: BaseFile
    time: float
    titles: tuple[str, ...]  # of the edits in force at the end, undone ones left out

    @property
    def fits(self) -> bool:
        """Whether the file is still the one the edits were made on."""
        return self.base.is_unchanged()

    @property
    def beginning(self) -> Path | None:
        """The model as it began, for a document that was in no file; None when nothing was kept."""
        path = _base_path(self.path)
        return path if not self.base.path and path.exists() else None


def leftovers(folder: Path) -> Iterator[Leftover]:
    """Journals in a folder whose program is not running any more, newest first. Unreadable ones are set aside."""
    found = []
    for path in folder.glob(f"*{_SUFFIX}") if folder.is_dir() else ():
        try:
            leftover = _read_header(path)
        except (ModelError, OSError, ValueError, LookupError, TypeError):
            _set_aside(path)
            continue
        if leftover is not None:
            found.append(leftover)
    yield from sorted(found, key=lambda leftover: -leftover.time)


def _read_header(path: Path) -> Leftover | None:
    lines = list(_lines(path))
    header = lines[0] if lines else {}
    if header.get("format") != _FORMAT or header.get("version") != _VERSION:
        raise ModelError("Not a journal of this version", str(path))
    if _is_running(header["pid"]):
        return None
    titles: list[str] = []
    undone: list[str] = []
    for line in lines[1:]:
        if "edit" in line:
            if not line.get("joined"):
                titles.append(str(line["edit"]))
                undone.clear()
        elif "undo" in line and titles:
            undone.append(titles.pop())
        elif "redo" in line and undone:
            titles.append(undone.pop())
    base = BaseFile(header["path"], header["size"], header["mtime_ns"])
    return Leftover(path, base, float(header["time"]), tuple(titles))


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """Whole lines; the last one may have been cut by the crash."""
    with open(path, encoding="utf-8", errors="surrogatepass") as file:
        for number, text in enumerate(file):
            if not text.endswith("\n"):
                return
            try:
                line = json.loads(text)
            except (ValueError, RecursionError) as error:
                raise ModelError("The journal is damaged", f"Line {number + 1} is not JSON.") from error
            if not isinstance(line, dict):
                raise ModelError("The journal is damaged", f"Line {number + 1} is not an object.")
            yield line


def _is_running(pid: int) -> bool:
    if pid == os.getpid():
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def recover(document: Document, leftover: Leftover) -> int:
    """Do again what a journal holds, on the document of its file as just opened; returns how many lines.

    The journal is marked before it starts, so that one that brings the program down is not offered again. When a
    line does not apply, what came before it stays, and ModelError says how far it got.
    """
    tried = leftover.path.with_suffix(_SUFFIX + _TRIED)
    leftover.path.replace(tried)
    numbers = Numbers(document.model)
    count = 0
    lines = _lines(tried)
    if next(lines)["objects"] != numbers.fingerprint:
        raise ModelError("The journal does not fit the model", f"It was begun on other contents; kept as {tried}.")
    for number, line in enumerate(lines, 2):
        try:
            _redo_line(document, numbers, line)
        except (ModelError, KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise ModelError(
                f"{count} edits were recovered, then line {number} of the journal did not apply",
                f"{error}. The journal was kept as {tried}.",
            ) from error
        count += 1
    if count:
        document.mark_unsaved()
    tried.unlink()
    _base_path(tried).unlink(missing_ok=True)
    return count


def _redo_line(document: Document, numbers: Numbers, line: dict[str, Any]) -> None:
    if "undo" in line:
        document.undo()
    elif "redo" in line:
        document.current.latest = document.current.children[line["redo"]]
        document.redo()
    else:
        if not line.get("joined"):
            document.end_gesture()
        with document.edit(str(line["edit"]), merge=str(line.get("merge", ""))) as edit:
            for step in line["steps"]:
                edit.do(decode(step, numbers))


def discard(leftover: Leftover) -> None:
    """Throw a journal away."""
    leftover.path.unlink(missing_ok=True)
    _base_path(leftover.path).unlink(missing_ok=True)


def _set_aside(path: Path) -> None:
    try:
        path.rename(path.with_suffix(_SUFFIX + _TRIED))
    except OSError:
        pass  # it will be met again, and again not be readable
