"""Atomic file replacement: at any moment a reader sees either the old or the new file, complete.

The new content is written to a temporary file in the same folder, synced to disk and renamed over the target.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import uuid
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.reader.payloads import JoinedPieces, Payload, Pieces
from onnx_workbench.model.io.reader.source import FileSource, Identity, identity_of, readers_of
from onnx_workbench.model.io.writer.file_attributes import FileAttributes, creation_mode
from onnx_workbench.model.progress import SILENT, Progress
from onnx_workbench.model.sandbox import is_running

#: Bytes that are copied at once, between two cancellation checks. In steps of this size memory is no slower than the
#: kernel's own copies: 0.09 s of CPU for 300 MB, 0.12 s with copy_file_range.
_STEP: Final = 1 << 18

_REASONS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EROFS: "the disk is read-only",
    errno.EACCES: "no permission to write to the folder or file",
    errno.EPERM: "no permission to write to the folder or file",
    errno.ENOENT: "the folder does not exist",
    errno.ENOTDIR: "the folder does not exist",
    errno.EIO: "the disk reports an error",
    errno.ENAMETOOLONG: "the name is too long",
    errno.EFBIG: "the file would be larger than this disk allows",
    errno.EISDIR: "that is a folder",
}


_IN_USE = (5, 32, 33)  # what Windows reports for an open file


def save_error(
    path: Path, error: OSError, *, untouched: bool = True, title: str = "The model could not be saved"
) -> ModelError:
    """Return the ModelError for a failed write."""
    if getattr(error, "winerror", None) in _IN_USE and path.exists() and os.access(path, os.W_OK):
        reason = "another program has the file open"
    else:
        reason = _REASONS.get(error.errno or 0, error.strerror or str(error))
    kept = " The existing file is unchanged." if untouched and os.path.lexists(path) else ""
    return ModelError(title, f"{path}: {reason}.{kept}")


class AtomicFile:
    """A file written under a temporary name; `commit` renames it, `discard` removes it.

    It gets the permissions, owner and extended attributes of the file it replaces; if there is none, at most the
    permissions of `like`, the file it is derived from.
    """

    def __init__(self, path: Path, like: Path | None = None) -> None:
        self.path = path
        self._attributes = FileAttributes.of(path)
        self._temporary = path.with_name(_temporary_name(path.name))
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        for name in ("O_NOFOLLOW", "O_CLOEXEC", "O_BINARY"):
            flags |= getattr(os, name, 0)
        private = 0o600  # until it gets the permissions of the file it replaces
        self._descriptor = os.open(self._temporary, flags, creation_mode(like) if self._attributes is None else private)

    @property
    def descriptor(self) -> int:
        """The open descriptor of the temporary file."""
        return self._descriptor

    def write(self, pieces: Pieces, progress: Progress = SILENT) -> None:
        """Append serialised bytes and parts of other sources."""
        joined = JoinedPieces(pieces)
        for start in range(0, joined.size, _STEP):
            progress.report(start, joined.size)
            self._append(joined.read(start, _STEP))
        for source in {piece.source for piece in pieces if isinstance(piece, Payload)}:
            if isinstance(source, FileSource):
                source.check_unchanged()  # during the last read

    def _append(self, data: bytes) -> None:
        """Write to the system; short writes are continued."""
        view = memoryview(data)
        while view:
            with contextlib.suppress(InterruptedError):
                view = view[os.write(self._descriptor, view) :]

    def finish(self, *, durable: bool = True) -> None:
        """Sync the file to disk, with the attributes of the replaced file.

        Without `durable`, fsync is omitted: a power failure may truncate it.
        """
        if self._attributes is not None:
            self._attributes.apply(self._descriptor)
        if durable:
            os.fsync(self._descriptor)
        descriptor, self._descriptor = self._descriptor, -1
        os.close(descriptor)

    def identity(self) -> Identity:
        """Return the identity that the file will have once it is finished."""
        return identity_of(self._temporary.stat())

    def commit(self) -> None:
        """Rename the file to `path`. Readers of the replaced file continue to read the old content."""
        readers = readers_of(self.path)
        if readers:
            _replace_while_read(self._temporary, self.path, readers)
        else:
            self._temporary.replace(self.path)

    def discard(self) -> None:
        """Remove the temporary file after a failure."""
        with contextlib.suppress(OSError):
            if self._descriptor >= 0:
                os.close(self._descriptor)
        with contextlib.suppress(OSError):
            self._temporary.unlink()


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Write a reproducible file, such as a picture or a table, that replaces `path` on success.

    On failure the old file stays. Links are followed, and nothing is synced to disk. ModelError when it cannot be
    written, or `path` is no regular file.
    """
    target = target_of(path, f"{path.name} cannot be written")
    file: AtomicFile | None = None
    try:
        file = AtomicFile(target)
        with open(file.descriptor, "wb", closefd=False) as stream:
            yield stream
        file.finish(durable=False)
        file.commit()
    except OSError as error:
        reason = _REASONS.get(error.errno or 0, error.strerror or str(error))
        raise ModelError(f"{path.name} cannot be written", f"{path}: {reason}.", str(path)) from error
    finally:
        if file is not None:
            file.discard()


def _replace_while_read(new: Path, path: Path, readers: list[FileSource]) -> None:
    """Replace a file that this process holds open, where the system does not allow that.

    Each reader gets its own link to the old content, so at every moment the path is the old file or the new.
    """
    links: list[Path] = []
    try:
        for _ in readers:
            link = path.with_name(_temporary_name(path.name))
            os.link(path, link)
            links.append(link)
    except OSError as error:
        for link in links:
            with contextlib.suppress(OSError):
                link.unlink()
        raise OSError(errno.EBUSY, "this disk cannot replace a file that is open; save under another name") from error
    with contextlib.ExitStack() as stack:
        # in a fixed order, to avoid deadlock of two saves
        for reader, link in zip(sorted(readers, key=id), links, strict=True):
            stack.enter_context(reader.released(link))
        new.replace(path)


def target_of(path: Path, title: str = "The model could not be saved") -> Path:
    """Return the file to be replaced: links are resolved, so that a link stays a link.

    ModelError with this title when the target is not a regular file or not writable.
    """
    real = Path(os.path.realpath(path))
    try:
        status = real.stat()
    except OSError as error:
        if isinstance(error, FileNotFoundError) and real.parent.is_dir():
            return real
        raise save_error(path, error, untouched=False, title=title) from error
    if stat.S_ISDIR(status.st_mode):
        raise ModelError(title, f"{path} is a folder.")
    if not stat.S_ISREG(status.st_mode):
        raise ModelError(title, f"{path} is a device or a pipe, not a regular file.")
    if not os.access(real, os.W_OK):
        raise ModelError(title, f"{path} is read-only.")
    return real


#: What systems say that cannot sync a folder.
_NOT_FOR_FOLDERS: Final = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EBADF, errno.EPERM})


def sync_folder(folder: Path) -> None:
    """Sync renames in a folder to the disk. Not needed on systems that cannot open a folder."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    except (OSError, AttributeError):
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NOT_FOR_FOLDERS:
            raise
    finally:
        os.close(descriptor)


def remove_leftovers(path: Path) -> None:
    """Remove temporary files for this path left by killed processes on this computer."""
    start = f".{path.name[:40]}."
    with contextlib.suppress(OSError):
        for entry in os.scandir(path.parent):
            match = _TEMPORARY.search(entry.name) if entry.name.startswith(start) else None
            if match is None or match[1] != _host() or is_running(int(match[2])):
                continue
            with contextlib.suppress(OSError):
                Path(entry.path).unlink()


_TEMPORARY = re.compile(r"\.([0-9a-f]{8})-(\d+)-[0-9a-f]{8}\.saving$")


def _temporary_name(name: str) -> str:
    return f".{name[:40]}.{_host()}-{os.getpid()}-{uuid.uuid4().hex[:8]}.saving"


def _host() -> str:
    return f"{zlib.crc32(os.uname().nodename.encode() if hasattr(os, 'uname') else b''):08x}"
