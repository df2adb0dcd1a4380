"""Recovery after a crash: find journals, replay their edits, delete them."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.step_codec import decode
from onnx_workbench.model.io.reader.source import Source, open_file, require_regular
from onnx_workbench.model.ir.graph import Value
from onnx_workbench.model.ir.tensors import Tensor
from onnx_workbench.model.progress import SILENT, Cancelled, Progress
from onnx_workbench.model.recovery.journal_files import SUFFIX, base_path, data_path, lone_files, remove, remove_files
from onnx_workbench.model.recovery.log import FORMAT, VERSION, BaseFile
from onnx_workbench.model.recovery.object_ids import ReadIds, read_base_ids
from onnx_workbench.model.sandbox import is_running, start_of

_TRIED = ".tried"  # a replay failed or was incomplete, and this was reported
_TRYING = ".trying-"  # and the id and start time of the process that replays it
_DISCARDED = ".discarded-"  # and the time at which the user discarded it, in seconds
DAYS_KEPT: Final = 30  # that a journal set aside is kept
DAYS_DISCARDED: Final = 7  # that a journal is kept which the user discarded
_STEPS: Final = ',"steps":['
_STEP: Final = '{"do":'
_LONGEST_LINE: Final = 1 << 28  # bytes; a rename of 100,000 nodes takes 10 million
_MOST_COUNTED: Final = 100_000  # lines after a damaged one


@dataclass(frozen=True, slots=True)
class RecoverableJournal:
    """A journal of a program that died: its base file, the time of its last edit, and the titles of its edits."""

    path: Path
    base: BaseFile
    time: float
    titles: tuple[str, ...]  # of the edits in force at the end, undone ones left out
    is_unsaved: bool = False  # whether the model was in no file even before the first edit
    is_copy: bool = False  # whether the document with the edits did not belong to the file
    name: str = ""  # of the file that the document belonged to
    title: str = ""  # of the document
    follows: str = ""  # the name of the journal in whose place it is, if its file is there
    damage: Damage | None = None  # up to which it is replayed

    @property
    def fits(self) -> bool:
        """Return whether the file is still the one the edits were made on."""
        return self.base.is_unchanged()

    @property
    def was_cut_short(self) -> bool:
        """Return whether the program died while it replayed this journal."""
        return _TRYING in self.path.name

    @property
    def baseline(self) -> Path | None:
        """Path of the baseline model, for a document without a file; None if it was removed."""
        path = base_path(self.path)
        return path if not self.base.path and path.exists() else None

    @property
    def discarded(self) -> float | None:
        """Time at which the user discarded it, or None."""
        _, mark, seconds = self.path.name.partition(_DISCARDED)
        return float(seconds) if mark else None


def find_journals(
    folder: Path, tell: Callable[[Path, str], object] | None = None, progress: Progress = SILENT
) -> Iterator[RecoverableJournal]:
    """Return the journals in a folder whose program is not running any more, newest first.

    Unreadable ones are set aside for `DAYS_KEPT` and reported to `tell` with their new path and the reason. Data files
    without a journal are deleted; of two journals for the file before and after a save, the one that does not fit.
    """
    if not folder.is_dir():
        return
    _remove_old(folder)
    for path in lone_files(folder):
        if not _is_in_use(path):
            remove(path)
    journals = []
    for path in (*folder.glob(f"*{SUFFIX}"), *_cut_short(folder)):
        try:
            recoverable = _read_header(path, progress)
        except (ModelError, OSError, ArithmeticError, ValueError, LookupError, TypeError) as error:
            aside = None if _is_in_use(path) else _set_aside(path)
            if aside is not None and tell is not None:
                tell(aside, _why(error))
            continue
        if recoverable is not None:
            journals.append(recoverable)
    yield from sorted(_of_the_files_there(journals), key=lambda recoverable: -recoverable.time)


def find_discarded(folder: Path, progress: Progress = SILENT) -> list[RecoverableJournal]:
    """Return the journals that the user discarded in the last `DAYS_DISCARDED`, the one discarded last first."""
    journals = []
    for path, _ in _discarded(folder):
        with contextlib.suppress(ModelError, OSError, ArithmeticError, ValueError, LookupError, TypeError):
            recoverable = _read_header(path, progress)
            if recoverable is not None:
                journals.append(recoverable)
    return sorted(journals, key=lambda recoverable: -(recoverable.discarded or 0))


def _discarded(folder: Path) -> Iterator[tuple[Path, float]]:
    """Return the paths of discarded journals with the times at which they were discarded."""
    for path in folder.glob(f"*{SUFFIX}{_DISCARDED}*"):
        seconds = path.name.rpartition(_DISCARDED)[2]
        if seconds.isascii() and seconds.isdigit():
            yield path, float(seconds)


def _why(error: Exception) -> str:
    """Return why a journal cannot be read, for the user."""
    if isinstance(error, ModelError):
        return error.detail
    return str(error) if isinstance(error, OSError) else "Its first line is incomplete."


def _of_the_files_there(found: Sequence[RecoverableJournal]) -> list[RecoverableJournal]:
    """Delete the journals superseded by a save that was in progress, and return the others."""
    named = {recoverable.path.name.partition(".")[0]: recoverable for recoverable in found}
    gone = []
    for recoverable in found:
        before = named.get(recoverable.follows.partition(".")[0])
        if before is not None and not _follows(before, recoverable):  # else both follow each other
            gone.append(before if recoverable.fits else recoverable)
    for recoverable in gone:
        discard(recoverable)
    return [recoverable for recoverable in found if recoverable not in gone]


def _follows(one: RecoverableJournal, other: RecoverableJournal) -> bool:
    """Return whether the header of a journal names the other as the one in whose place it is."""
    return one.follows.partition(".")[0] == other.path.name.partition(".")[0]


def _is_in_use(path: Path) -> bool:
    """Return whether the process in a file's name is running; it may not have written the header yet."""
    number = path.name.removeprefix(".").partition("-")[0]
    return number.isascii() and number.isdigit() and is_running(int(number))


def _read_header(path: Path, progress: Progress) -> RecoverableJournal | None:
    lines = _lines(path, progress)
    header = next(lines, {})
    if isinstance(header, Damage) or header.get("format") != FORMAT:
        raise ModelError("The journal is damaged", "Its first line is not a journal header.")
    if header.get("version") != VERSION:
        raise ModelError("The journal is of another version of the program", "Another version of the program wrote it.")
    if is_running(header["pid"], header["started"]):
        return None
    titles: list[str] = []
    undone: list[str] = []
    damage = None
    for line in lines:
        if isinstance(line, Damage):
            damage = line
        elif "edit" in line:
            if not line.get("joined"):
                titles.append(str(line["edit"]))
                undone.clear()
        elif "undo" in line and titles:
            undone.append(titles.pop())
        elif "redo" in line and undone:
            titles.append(undone.pop())
    base = BaseFile(str(header["path"]), int(header["size"]), int(header["mtime_ns"]))
    return RecoverableJournal(
        path,
        base,
        path.stat().st_mtime,
        tuple(titles),
        is_unsaved=header["unsaved"] is True and not base.path,
        is_copy=header["copy"] is True,
        name=str(header["name"]),
        title=str(header.get("title", "")),
        follows=str(header["follows"]),
        damage=damage,
    )


@dataclass(frozen=True, slots=True)
class Damage:
    """First unreadable line of a journal, and the least number of edits missing from there on."""

    line: int
    edits: int
    is_long: bool = False

    def __str__(self) -> str:
        edits = "an edit" if self.edits == 1 else f"{self.edits:,} edits"
        found = f"is longer than {_LONGEST_LINE:,} bytes" if self.is_long else "is damaged"
        return f"Line {self.line:,} of the journal {found}: {edits} or more from there on are missing."


class _Steps:
    """The steps of a line, decoded one at a time: all those of a large edit would take many times its text."""

    def __init__(self, line: str, start: int) -> None:
        self._line, self._start = line, start

    def __iter__(self) -> Iterator[Any]:
        """Yield the steps; ValueError where the line is damaged."""
        line, at = self._line, self._start
        if line[at] != "]":
            at -= 1
            while line[at] != "]":
                if not line.startswith(_STEP, at + 1):
                    msg = f"a step should start at character {at + 1:,}"
                    raise ValueError(msg)
                step, at = _decode_next(line, at + 1)
                yield step
                if line[at] not in ",]":
                    msg = f"character {at:,} of the line should be a comma"
                    raise ValueError(msg)
        if line[at:] != "]}\n":
            msg = f"the line should end at character {at:,}"
            raise ValueError(msg)


_decode_next = json.JSONDecoder().raw_decode


def _lines(path: Path, progress: Progress | None = None) -> Generator[dict[str, Any] | Damage]:
    """Yield the lines up to the first damaged one, then that Damage. An incomplete last line is ignored.

    With progress, the steps of each line are checked too.
    """
    require_regular(path)
    with open(path, "rb") as file:
        pieces = iter(partial(file.readline, _LONGEST_LINE + 1), b"")
        for number, text in enumerate(pieces, 1):
            line = _object(text, progress)
            if line is not None:
                yield line
            elif text.endswith(b"\n") or b"\0" in text or len(text) > _LONGEST_LINE:
                rest = (_object(text, progress) for text in islice(pieces, _MOST_COUNTED))
                edits = 1 + sum(1 for line in rest if line is not None and not line.get("joined"))
                yield Damage(number, edits, len(text) > _LONGEST_LINE)
                return


def _object(text: bytes, progress: Progress | None) -> dict[str, Any] | None:
    """Return the JSON object in a complete line; None if there is none. With progress, its steps are checked too."""
    if not (text.startswith(b"{") and text.endswith(b"}\n")):
        return None
    try:
        content = text.decode("utf-8", "surrogatepass")
        start = content.find(_STEPS)  # in no text, where quotes are escaped
        if start < 0:
            line = json.loads(content)
        else:
            line = json.loads(f"{content[:start]}}}")
            line["steps"] = steps = _Steps(content, start + len(_STEPS))
            for _ in () if progress is None else progress.paced(steps):
                pass
    except (ValueError, TypeError, RecursionError):
        return None
    return line if isinstance(line, dict) else None


def recover(
    document: Document,
    recoverable: RecoverableJournal,
    when_kept: Callable[[Callable[[], object]], object] = lambda call: call(),
    progress: Progress = SILENT,
) -> int:
    """Replay a journal on a freshly opened document of its base file; return the number of edits, undos and redos.

    The journal is renamed during the replay, so that one that crashes the program is offered with a warning. If a line
    does not apply, the lines before it stay applied, and ModelError says how far it got. `when_kept` receives the
    function that deletes the journal, to be called once the edits are stored elsewhere. A damaged journal is replayed
    up to the damage and then set aside.
    """
    process = os.getpid()
    trying = _called(recoverable.path, f"{_TRYING}{process}-{start_of(process)}")
    tried = _called(recoverable.path, _TRIED)
    try:
        recoverable.path.replace(trying)
    except OSError as error:
        raise ModelError("The journal no longer exists", f"{recoverable.path}: {error.strerror}.") from error
    data, source = data_path(trying), document.model.source
    kept = open_file(data) if data.exists() else None
    if recoverable.is_unsaved:
        document.mark_unsaved()
    try:
        with contextlib.closing(_lines(trying)) as lines:
            replay = _Replay(document, None if source is None else source.data, kept)
            whole = islice(lines, None if recoverable.damage is None else recoverable.damage.line - 1)
            count = _redo(replay, progress.paced(whole, 1), tried)
    except ModelError:
        _move_aside(trying, tried)
        raise
    except Cancelled:
        with contextlib.suppress(OSError):
            trying.replace(recoverable.path)
        raise
    finally:
        if kept is not None:
            kept.close()
    if count:
        document.mark_unsaved()
    with contextlib.suppress(OSError):
        trying.replace(recoverable.path)
    when_kept(
        partial(discard, recoverable) if recoverable.damage is None else partial(_move_aside, recoverable.path, tried)
    )
    return count


def _redo(replay: _Replay, lines: Iterable[dict[str, Any] | Damage], tried: Path) -> int:
    count = 0
    for number, line in enumerate(lines, 1):
        if isinstance(line, Damage):  # since the journal was found
            break
        if "format" in line:
            try:
                replay.set_objects(line["objects"])
            except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
                raise ModelError("The journal is damaged", f"{error!r}. It was kept as {tried}.") from error
            except ModelError as error:
                raise ModelError(error.title, f"{error.detail} It was kept as {tried}.") from error
            continue
        try:
            is_done = replay.do(line)
        except (ModelError, KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError) as error:
            raise ModelError(
                f"{count} edits were recovered, then line {number} of the journal did not apply",
                f"{error}. The journal was kept as {tried}.",
            ) from error
        count += is_done
    return count


class _Replay:
    """Replays the lines of a journal in order."""

    def __init__(self, document: Document, base: Source | None, kept: Source | None) -> None:
        self.document = document
        self._base, self._kept = base, kept
        self._objects: dict[int, Any] = {}
        self._tensors: dict[int, Tensor] = {}
        self._references = self._reading()
        self._ahead: dict[int, tuple[Iterator[dict[str, Any]], ReadIds]] = {}  # steps written before they were applied

    def set_objects(self, objects: Mapping[str, Any]) -> None:
        """Assign the ids in the journal's header to the objects of the model, which is as read from its base file."""
        self._objects = read_base_ids(self.document.model, objects)
        self._tensors = {
            number: value.initializer
            for number, value in self._objects.items()
            if isinstance(value, Value) and isinstance(value.initializer, Tensor)
        }
        self._references = self._reading()

    def _reading(self, kept_from: int = 0) -> ReadIds:
        sources = {"base": (self._base, 0), "kept": (self._kept, kept_from)}
        return ReadIds(self.document.model, self._objects, self._tensors, sources)

    def do(self, line: dict[str, Any]) -> bool:
        """Replay one line; return whether it changed the document."""
        document = self.document
        if "ahead" in line:
            self._ahead[line["ahead"]] = (iter(line["steps"]), self._reading(int(line["bytes"])))
            return False
        if "undo" in line:
            document.undo()
        elif "redo" in line:
            document.current.latest = document.current.children[line["redo"]]
            document.redo()
        else:
            self._edit(line)
        return True

    def _edit(self, line: dict[str, Any]) -> None:
        steps, references = line.get("steps", ()), self._references
        if "confirms" in line:
            written, references = self._ahead[line["of"]]
            steps = list(islice(written, line["confirms"]))
            if len(steps) != line["confirms"]:
                msg = f"{line['confirms']} steps were expected before it, not {len(steps)}"
                raise ValueError(msg)
        if not line.get("joined"):
            self.document.end_gesture()
        with self.document.edit(str(line["edit"]), merge=str(line.get("merge", ""))) as edit:
            for step in steps:
                edit.do(decode(step, references))


def discard(recoverable: RecoverableJournal) -> None:
    """Delete a journal and its files."""
    remove_files(recoverable.path)


def discard_for_now(recoverable: RecoverableJournal) -> RecoverableJournal:
    """Have a journal offered no more, and keep it for `DAYS_DISCARDED`; returns it as it is called from then on.

    Raises ModelError on a disk error.
    """
    return _renamed(recoverable, f"{_DISCARDED}{time.time():.0f}")


def restore(recoverable: RecoverableJournal) -> RecoverableJournal:
    """Have a discarded journal offered again; returns it as it is called from then on. ModelError on a disk error."""
    return _renamed(recoverable, "")


def _renamed(recoverable: RecoverableJournal, end: str) -> RecoverableJournal:
    path = _called(recoverable.path, end)
    try:
        recoverable.path.replace(path)
    except OSError as error:
        raise ModelError("The journal cannot be renamed", f"{recoverable.path}: {error.strerror}.") from error
    return replace(recoverable, path=path)


def _set_aside(path: Path) -> Path | None:
    """Set an unreadable journal aside; return its new path, None if it was empty or could not be moved."""
    with contextlib.suppress(OSError):
        if not path.stat().st_size:  # its program died before it wrote anything
            remove_files(path)
            return None
        tried = _called(path, _TRIED)
        return tried if _move_aside(path, tried) else None
    return None


def _move_aside(path: Path, tried: Path) -> bool:
    """Set a journal aside for `DAYS_KEPT` from now; return False on a disk error."""
    with contextlib.suppress(OSError):
        path.replace(tried)
        os.utime(tried)
        return True
    return False


def _called(path: Path, end: str) -> Path:
    """Return the path of a journal that is being replayed or was set aside."""
    return path.with_name(f"{path.name.partition('.')[0]}{SUFFIX}{end}")


def _cut_short(folder: Path) -> Iterator[Path]:
    """Return the journals whose replay was interrupted because the program died."""
    for path in folder.glob(f"*{SUFFIX}{_TRYING}*"):
        number, _, started = path.name.rpartition(_TRYING)[2].partition("-")
        if number.isascii() and number.isdigit() and not is_running(int(number), started):
            yield path


def _remove_old(folder: Path) -> None:
    """Delete journals that were set aside more than `DAYS_KEPT`, or discarded more than `DAYS_DISCARDED` ago."""
    for path, when in _discarded(folder):
        if when < time.time() - DAYS_DISCARDED * 24 * 3600:
            remove_files(path)
    oldest = time.time() - DAYS_KEPT * 24 * 3600
    for path in folder.glob(f"*{SUFFIX}{_TRIED}"):
        with contextlib.suppress(OSError):
            if path.stat().st_mtime < oldest:
                remove_files(path)
