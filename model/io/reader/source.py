"""Byte sources: an open file, bytes in memory, or a stream copied to a private temporary file.

Reads are by position and never through a memory map: a file that another program truncates gives a short
read, which can be reported, where a map kills the process.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import sys
import tempfile
import threading
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.progress import SILENT, Progress

_CHUNK = 1 << 20

#: Whether an open file cannot be replaced or removed, as on Windows.
OPEN_FILES_STAY = sys.platform == "win32"
_STREAMS = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")


class Identity(NamedTuple):
    """Identity of one state of a file, to detect changes."""

    device: int
    inode: int
    size: int
    modified_ns: int


def identity_of(status: os.stat_result) -> Identity:
    """Return the identity in a stat result."""
    return Identity(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


class Source(Protocol):
    """Bytes with random access from any thread."""

    @property
    def name(self) -> str:
        """Name for messages."""

    @property
    def size(self) -> int:
        """Number of bytes."""

    def read(self, offset: int, length: int) -> bytes:
        """Return exactly the requested bytes; ModelError when they are no longer available."""


class BytesSource:
    """Bytes in memory as a source."""

    def __init__(self, data: bytes | memoryview, name: str = "bytes in memory") -> None:
        self._data = data
        self.name = name
        self.size = len(data)

    def read(self, offset: int, length: int) -> bytes:
        """Return the bytes, truncated where the data ends."""
        return bytes(self._data[offset : offset + length])


class FileSource:
    """An open regular file. The descriptor stays open, so a later rename does not matter.

    Every read first compares the file's identity with the one it had when opened: a file that was written
    to in place is reported instead of returning unrelated bytes.
    """

    def __init__(self, descriptor: int, name: str) -> None:
        self._descriptor = descriptor
        self._lock = threading.RLock()
        self._own: Path | None = None  # a link that keeps the content of a replaced file
        self.name = name
        self.identity = identity_of(os.fstat(descriptor))
        if OPEN_FILES_STAY:
            with _holding:
                _held.add(self)
        self.size = self.identity.size
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)

    def __del__(self) -> None:
        self.close()

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._descriptor < 0

    def close(self) -> None:
        """Close the descriptor; later reads raise ModelError."""
        with self._guard():
            self._close()

    def _close(self) -> None:
        descriptor, self._descriptor = getattr(self, "_descriptor", -1), -1
        if descriptor >= 0:
            os.close(descriptor)
        own, self._own = getattr(self, "_own", None), None
        if own is not None:
            with suppress(OSError):
                own.unlink()

    def _guard(self) -> AbstractContextManager[object]:
        """Prevent `released` from closing the descriptor during a read, where it may."""
        return getattr(self, "_lock", nullcontext()) if OPEN_FILES_STAY else nullcontext()

    @contextmanager
    def released(self, link: Path) -> Iterator[None]:
        """Release the file so that another one can replace it, then continue reading from `link`.

        Readers on other threads wait. The previous link is removed, as is an unused one.
        """
        with self._lock:
            if self.closed:
                link.unlink()
                yield
                return
            os.close(self._descriptor)
            self._descriptor = -1
            try:
                yield
            finally:
                before, self._own = self._own, link
                self._descriptor = os.open(link, os.O_RDONLY | _BINARY)
                if before is not None:
                    with suppress(OSError):
                        before.unlink()

    def check_unchanged(self) -> None:
        """Raise ModelError when the file was written to since it was opened."""
        with self._guard():
            self._check_unchanged()

    def _check_unchanged(self) -> None:
        if self._descriptor < 0:
            raise ModelError("The file is closed", f"{self.name} was closed and cannot be read any more.")
        now = identity_of(os.fstat(self._descriptor))
        if now != self.identity:
            raise ModelError(
                "The file changed on disk since it was opened",
                f"{self.name} had {self.identity.size:,} bytes when it was opened and has {now.size:,} now, "
                "or was written to. Reload it to go on.",
            )

    def read(self, offset: int, length: int) -> bytes:
        """Return exactly the requested bytes; ModelError when the file changed, shrank or cannot be read."""
        with self._guard():
            return self._read(offset, length)

    def _read(self, offset: int, length: int) -> bytes:
        self.check_unchanged()
        if offset + length > self.size:
            raise ModelError(
                "The file is too short",
                f"{length:,} bytes at byte {offset:,} of {self.name} are wanted, which has {self.size:,} bytes.",
            )
        parts: list[bytes] = []
        while length:
            try:
                part = self._pread(min(length, 1 << 30), offset)
            except OSError as error:
                raise ModelError("The file cannot be read", f"{self.name}: {error.strerror or error}") from error
            if not part:
                raise ModelError(
                    "The file changed on disk since it was opened",
                    f"{self.name} ended at byte {offset:,} while it was read.",
                )
            parts.append(part)
            offset += len(part)
            length -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _pread(self, length: int, offset: int) -> bytes:
        if hasattr(os, "pread"):
            return os.pread(self._descriptor, length, offset)
        with self._lock:  # Windows has no positional read
            os.lseek(self._descriptor, offset, os.SEEK_SET)
            return os.read(self._descriptor, length)


_holding = threading.Lock()
_held: weakref.WeakSet[FileSource] = weakref.WeakSet()


def readers_of(path: Path) -> list[FileSource]:
    """Return the sources that hold a file open, where that prevents replacing it."""
    try:
        identity = identity_of(path.stat())
    except OSError:
        return []
    with _holding:
        held = list(_held)
    return [source for source in held if not source.closed and source.identity == identity]


def require_regular(path: Path) -> None:
    """Raise ModelError for a folder, a device or a pipe, which might be read for ever.

    A missing file passes, and a name that no file can have.
    """
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return
    if not stat.S_ISREG(mode):
        raise ModelError("This is not a regular file", f"{path} is a folder, a device or a pipe.", str(path))


def open_file(path: str | os.PathLike[str], progress: Progress = SILENT) -> FileSource:
    """Open a regular file (or a stream such as ``/dev/stdin``) for reading by position.

    ModelError when it is missing, a folder, a device, or may not be read.
    """
    name = os.fspath(path)
    try:
        descriptor = os.open(name, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _BINARY)
    except FileNotFoundError as error:
        raise ModelError("The file does not exist", name) from error
    except PermissionError as error:
        if Path(name).is_dir():  # Windows reports this for a folder
            raise ModelError("This is a folder, not a model file", name) from error
        raise ModelError("No permission to read the file", f"{name}: {error.strerror}") from error
    except (OSError, ValueError) as error:
        if getattr(error, "errno", None) == errno.ENXIO:
            raise ModelError("This is not a regular file", f"{name} is a socket.") from error
        raise ModelError("The file cannot be opened", f"{name}: {getattr(error, 'strerror', None) or error}") from error
    try:
        return _checked(descriptor, name, progress)
    except BaseException:
        os.close(descriptor)
        raise


def _checked(descriptor: int, name: str, progress: Progress) -> FileSource:
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return FileSource(descriptor, name)
    if stat.S_ISDIR(mode):
        raise ModelError("This is a folder, not a model file", name)
    if (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)) and name.startswith(_STREAMS):
        os.set_blocking(descriptor, True)
        with open(descriptor, "rb", closefd=False) as stream:
            source = read_stream(stream, name, progress)
        os.close(descriptor)
        return source
    raise ModelError("This is not a regular file", f"{name} is a device or a pipe, which has no end.")


def read_stream(stream: BinaryIO, name: str, progress: Progress = SILENT) -> FileSource:
    """Copy a stream to a private, nameless temporary file and return that as the source.

    ModelError when it cannot be read, or would take more than half of the space there.
    """
    try:
        with tempfile.TemporaryFile() as file:
            folder = tempfile.gettempdir()
            copied, most = 0, shutil.disk_usage(folder).free // 2
            while block := stream.read(_CHUNK):
                if copied + len(block) > most:
                    detail = f"{name} has more than {most:,} bytes, half of the space in {folder}."
                    raise ModelError("The stream is too long", detail)
                file.write(block)
                copied += len(block)
                progress.report(copied, copied + _CHUNK, f"Reading {name}")
            file.flush()
            return FileSource(os.dup(file.fileno()), name)
    except OSError as error:
        raise ModelError("The stream cannot be read", f"{name}: {error.strerror or error}") from error


def standard_input(progress: Progress = SILENT) -> FileSource:
    """Return standard input, read to its end, as a source."""
    stream = sys.stdin
    if stream is None:
        raise ModelError("There is no standard input", "This program was started without one.")
    return read_stream(stream.buffer, "standard input", progress)


_BINARY = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
