"""The files of a journal: its lines, and beside them the bytes of large tensors that lie in no other file.

Bytes are written by a thread of its own, and so are lines that wait behind them; a line alone is written at once, and
so is the announcement of one that waits.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any, Final

from model.errors import ModelError

_SYNC_SECONDS: Final = 2.0
_AT_ONCE: Final = 1 << 20  # bytes that the thread which owns the model writes itself
_DATA = ".data"
_BASE = ".onnx"
_BESIDE = re.compile(r"[0-9]+-[0-9a-f]+\.(onnx|data)")

#: The bytes of a tensor in parts, read or packed when they are written.
Parts = Callable[[], Iterable[bytes]]


def data_path(journal: Path) -> Path:
    """Where the bytes of large tensors are kept, for a journal."""
    return journal.with_name(journal.name.partition(".")[0] + _DATA)


def base_path(journal: Path) -> Path:
    """Where the model as it began is kept, for the journal of a document that is in no file."""
    return journal.with_name(journal.name.partition(".")[0] + _BASE)


def remove_files(journal: Path) -> None:
    """Remove a journal and what lies beside it. What the disk does not let go of stays."""
    for path in (journal, base_path(journal), data_path(journal)):
        with contextlib.suppress(OSError):
            path.unlink()


def lone_files(folder: Path) -> Iterator[Path]:
    """What lies in a folder of journals beside a journal that is not there."""
    beside: dict[str, list[Path]] = {}
    for path in folder.iterdir():
        beside.setdefault(path.name.partition(".")[0], []).append(path)
    for paths in beside.values():
        if all(_BESIDE.fullmatch(path.name) for path in paths):
            yield from paths


class Store:
    """An open journal. On the thread that owns the model; `problem` tells what a write in between ran into.

    `failed` is then called, on the thread that writes.
    """

    def __init__(self, path: Path, failed: Callable[[], object] = lambda: None) -> None:
        self.path = path
        self.problem: OSError | ModelError | None = None
        self._failed = failed
        self._lines: IO[str] = open(path, "x", encoding="utf-8", errors="surrogatepass")  # noqa: SIM115 # for long
        self._data: IO[bytes] | None = None
        self._size = 0
        self._waiting: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._idle = threading.Event()
        self._idle.set()
        self._unwritten = 0
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._synced = 0.0

    def begin_with(self, data: bytes) -> None:
        """Write the model as it began: at once, or when there is time for one that is large."""
        if len(data) <= _AT_ONCE:
            base_path(self.path).write_bytes(data)
        else:
            self._put(lambda: base_path(self.path).write_bytes(data))

    def keep(self, length: int, parts: Parts) -> tuple[int, int]:
        """Write so many bytes when there is time; returns their offset and length in the data file."""
        offset, self._size = self._size, self._size + length
        self._put(lambda: self._append(parts))
        return offset, length

    def announce(self, line: dict[str, Any]) -> None:
        """Say now which line comes later, in the order in which they will come."""
        self._write_line({"waiting": line})

    def line(self, line: dict[str, Any], *, announced: bool) -> None:
        """Write a line, after the bytes it speaks of; announce it when it has to wait for them."""
        with self._lock:
            free = not self._unwritten
        if not free:
            if not announced:
                self.announce({key: line[key] for key in line if key != "steps"})
            self._put(lambda: self._write_line(line))
            return
        self._write_line(line)
        if time.monotonic() - self._synced > _SYNC_SECONDS:
            self._synced = time.monotonic()
            descriptor = os.dup(self._lines.fileno())
            threading.Thread(target=_sync, args=(descriptor,), name="journal", daemon=True).start()

    def flush(self) -> None:
        """Wait until all is written."""
        self._idle.wait()

    def close(self, *, remove: bool) -> None:
        """Let go of the files: with what is still to be written, or with everything."""
        if remove:
            self.problem = self.problem or OSError(0, "closed")  # what waits is not wanted any more
        if self._thread is not None:
            self._waiting.put(None)
            self._thread.join()
        for file in (self._lines, self._data):
            if file is not None:
                with contextlib.suppress(OSError):  # it tries once more to write what there was no room for
                    file.close()
        if remove:
            remove_files(self.path)

    # -- writing, on either thread -----------------------------------------------------------------------------

    def _put(self, job: Callable[[], object]) -> None:
        with self._lock:
            self._unwritten += 1
            self._idle.clear()
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="journal data", daemon=True)
            self._thread.start()
        self._waiting.put(job)

    def _work(self) -> None:
        while (job := self._waiting.get()) is not None:
            if self.problem is None:
                try:
                    job()
                except (OSError, ModelError, ValueError, MemoryError) as error:
                    self.problem = error if isinstance(error, (OSError, ModelError)) else OSError(0, str(error))
                    self._failed()
            with self._lock:
                self._unwritten -= 1
                if not self._unwritten:
                    self._idle.set()

    def _append(self, parts: Parts) -> None:
        if self._data is None:
            self._data = open(data_path(self.path), "xb")  # noqa: SIM115 # for as long as the journal
        for part in parts():
            if self.problem is not None:
                return
            self._data.write(part)
        self._data.flush()

    def _write_line(self, line: dict[str, Any]) -> None:
        with self._writing:
            self._lines.write(json.dumps(line, separators=(",", ":")) + "\n")
            self._lines.flush()


def _sync(descriptor: int) -> None:
    """Put the journal on the disk, which may take a while. The last edits a power failure would lose are few."""
    with contextlib.suppress(OSError):
        os.fsync(descriptor)
    os.close(descriptor)
