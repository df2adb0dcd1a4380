"""The files of a journal: the log, and a data file for the bytes of large tensors that are in no other file.

`JournalFiles.line` returns when a line and the bytes that it refers to are written. Long writes are made in advance by
a thread, see `JournalFiles.ahead`.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from queue import Queue
from typing import IO, TYPE_CHECKING, Any, Final

from onnx_workbench.model.errors import ModelError, errors_to
from onnx_workbench.model.progress import Cancelled, Progress

if TYPE_CHECKING:
    from onnx_workbench.model.io.reader.payloads import Payload

_LOOK_SECONDS: Final = 2.0  # between two checks whether the file exists
_REST: Final = 2.0  # seconds without a line after which the file is put on the disk
_LONGEST: Final = 10.0  # seconds until it is all the same: what is written meanwhile has to wait, in typing for a frame
_STEP: Final = 1 << 20  # bytes that are in memory at a time
_LARGE: Final = 1 << 25  # bytes of a file from which removing it takes longer than a few milliseconds
SUFFIX: Final = ".journal"
_DATA = ".data"
_BASE = ".onnx"
_BESIDE = re.compile(r"\.?[0-9]+-[0-9a-f]+\.(onnx|data)(\..*)?")  # some being written, or beside the beginning


def new_path(folder: Path) -> Path:
    """Return the path of a new journal of this program."""
    return folder / f"{os.getpid()}-{uuid.uuid4().hex[:16]}{SUFFIX}"


def data_path(journal: Path) -> Path:
    """Return the path of a journal's data file."""
    return journal.with_name(_stem(journal) + _DATA)


def base_path(journal: Path) -> Path:
    """Return the path of the baseline model, for the journal of a document without a file."""
    return journal.with_name(_stem(journal) + _BASE)


def remove_files(journal: Path) -> None:
    """Delete a journal and its files, the journal first: a kill leaves nothing to recover. Ignores disk errors."""
    stem = _stem(journal)
    with contextlib.suppress(OSError):
        paths = [path for path in journal.parent.iterdir() if _stem(path) == stem]
        for path in sorted(paths, key=lambda path: SUFFIX not in path.name):
            (_unlink if SUFFIX in path.name else remove)(path)


def remove(path: Path) -> None:
    """Delete a file, a large one in the background, as gigabytes take seconds. Ignores disk errors.

    A deletion that the end of the program interrupts is completed by the next start.
    """
    size = 0
    with contextlib.suppress(OSError):
        size = path.stat().st_size
    if size < _LARGE:
        _unlink(path)
    else:
        threading.Thread(target=_unlink, args=(path,), name="journal removal", daemon=True).start()


def _unlink(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()


def _stem(path: Path) -> str:
    """Return the stem that a journal shares with its files."""
    return path.name.removeprefix(".").partition(".")[0]


def lone_files(folder: Path) -> Iterator[Path]:
    """Return the files in a folder of journals whose journal is missing."""
    beside: dict[str, list[Path]] = {}
    for path in folder.iterdir():
        beside.setdefault(_stem(path), []).append(path)
    for paths in beside.values():
        if all(_BESIDE.fullmatch(path.name) for path in paths):
            yield from paths


class JournalFiles:
    """Files of an open journal. On the thread that owns the model.

    A failed background write sets `problem` and calls `failed` on the writing thread.
    """

    def __init__(self, path: Path, failed: Callable[[], object] = lambda: None) -> None:
        self.path = path
        self.problem: OSError | ModelError | None = None
        self._failed = failed
        self._lines: IO[str] = open(path, "x", encoding="utf-8", errors="surrogatepass")  # noqa: SIM115 # for long
        self._data: IO[bytes] | None = None
        self._size = 0
        self._aheads = 0  # how many were begun
        self._waiting: Queue[Callable[[], object] | None] = Queue()
        self._thread: threading.Thread | None = None
        self._progress = Progress()
        self._writing = threading.Lock()
        self._written = self._looked = 0.0  # times of the last line, and of the last check that the file exists
        self._will_sync = False

    def keep(self, payload: Payload) -> tuple[int, int]:
        """Write the bytes of a tensor now; returns their offset and length in the data file."""
        place = self._reserve(payload)
        self._write_bytes(place, payload)
        return place, payload.length

    def line(self, line: dict[str, Any], encode: Callable[[Any], Any] | None = None) -> None:
        """Write a line now; `encode` converts what JSON cannot represent."""
        if self.problem is not None:
            raise self.problem
        self._write_line(json_text(line, encode))
        self._written = time.monotonic()
        if self._written > self._looked + _LOOK_SECONDS:
            self._looked = self._written
            if not self.path.exists():  # the folder was cleared by another program, and what is written is lost
                raise OSError(errno.ENOENT, "their file was removed")
        if not self._will_sync:
            self._will_sync = True
            sync(os.dup(self._lines.fileno()), self._await_rest)

    def _await_rest(self) -> None:
        """Block until no line has been written for a moment, at most `_LONGEST` seconds. On the syncing thread."""
        longest = time.monotonic() + _LONGEST
        while (left := min(self._written + _REST, longest) - time.monotonic()) > 0:
            time.sleep(left)
        self._will_sync = False

    def ahead(
        self, steps: Sequence[str], payloads: Sequence[Payload], progress: Progress, ended: Callable[[bool], object]
    ) -> int:
        """Write encoded steps of a future edit in the background, after the bytes that they refer to by index.

        `ended` is called on the writing thread with whether everything was written; `progress` gets reports and can
        cancel. Returns the number by which later lines refer to these steps.
        """
        self._aheads += 1
        start, written, begun = self._size, list[bool](), {"ahead": self._aheads, "bytes": self._size}
        places = [(self._reserve(payload), payload) for payload in payloads]
        size = self._size - start

        def write() -> None:
            for place, payload in places:
                self._write_bytes(place, payload, lambda done: progress.report(done - start, size))
            self._write_line(f'{json_text(begun)[:-1]},"steps":[{",".join(steps)}]}}')
            written.append(True)

        self._enqueue(write, lambda: ended(bool(written)))
        return begun["ahead"]

    def after(self, call: Callable[[], object]) -> None:
        """Call `call`, on either thread, once everything so far is written; never if a write fails."""
        if self._thread is None:
            call()
        else:
            self._enqueue(call)

    def flush(self) -> None:
        """Wait until everything is written."""
        self._waiting.join()

    def close(self) -> None:
        """Write what is queued and close the files."""
        if self._thread is not None:
            self._waiting.put(None)
            self._thread.join()
        for file in (self._lines, self._data):
            if file is not None:
                with contextlib.suppress(OSError):  # it tries once more to write what there was no room for
                    file.close()

    def remove(self) -> None:
        """Close the files and delete them."""
        self.problem = self.problem or OSError(0, "closed")  # drops the queue
        self._progress.cancel()
        self.close()
        remove_files(self.path)

    # -- writing, on either thread -----------------------------------------------------------------------------

    def _enqueue(self, job: Callable[[], object], ended: Callable[[], object] = lambda: None) -> None:
        """Queue a job for the writing thread, skipped after an earlier error; `ended` is called in any case."""

        def do() -> None:
            with errors_to(self._stop_on_error):
                if self.problem is None:
                    job()
            ended()

        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="journal data", daemon=True)
            self._thread.start()
        self._waiting.put(do)

    def _work(self) -> None:
        while (job := self._waiting.get()) is not None:
            job()
            self._waiting.task_done()
        self._waiting.task_done()

    def _stop_on_error(self, error: Exception) -> None:
        if not isinstance(error, Cancelled):  # else it is not wanted any more
            self.problem = error if isinstance(error, (OSError, ModelError)) else OSError(0, str(error))
            self._failed()

    def _reserve(self, payload: Payload) -> int:
        place, self._size = self._size, self._size + payload.length
        return place

    def _write_bytes(self, index: int, payload: Payload, report: Callable[[int], object] = lambda _done: None) -> None:
        end = payload.offset + payload.length
        for start in range(payload.offset, end, _STEP):
            self._progress.check()
            data = payload.source.read(start, min(end - start, _STEP))
            with self._writing:
                if self._data is None:
                    self._data = open(data_path(self.path), "xb")  # noqa: SIM115 # for as long as the journal
                self._data.seek(index + start - payload.offset)
                self._data.write(data)
                self._data.flush()
            report(index + start - payload.offset + len(data))

    def _write_line(self, text: str) -> None:
        with self._writing:
            self._lines.write(text + "\n")
            self._lines.flush()


def json_text(content: Any, encode: Callable[[Any], Any] | None = None) -> str:
    """Return content as compact JSON; `encode` converts what JSON cannot represent."""
    return json.dumps(content, separators=(",", ":"), default=encode)


def sync(descriptor: int, await_rest: Callable[[], object] = lambda: None) -> None:
    """Flush a file to the disk in the background (fsync) and close it, so that a power failure loses few edits."""
    threading.Thread(target=_sync, args=(descriptor, await_rest), daemon=True).start()


def _sync(descriptor: int, await_rest: Callable[[], object]) -> None:
    await_rest()
    with contextlib.suppress(OSError):
        os.fsync(descriptor)
    os.close(descriptor)
