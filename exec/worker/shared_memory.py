"""Transfer of values between two processes: large arrays through shared memory, the rest as messages.

The writer writes an array to a file in a private folder (in memory, /dev/shm, if the system has it) and sends its
name; the reader maps the file and deletes it at once, so that the memory is freed with the last array that uses it,
whichever process ends first. If that file system is full (containers often give it 64 MB), the folder for temporary
files is used. On Windows, where a mapped file cannot be deleted, named mappings are used instead.
"""

from __future__ import annotations

import errno
import mmap
import os
import shutil
import stat
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from onnx_workbench.exec.values.arrays import Array, RuntimeValue, SparseArray
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.types import ElementType
from onnx_workbench.model.sandbox import PREFIX, make_own_folder

#: Arrays below this size go as messages.
SHARED_BYTES = 1 << 15

_FULL = (errno.ENOSPC, errno.EDQUOT) if sys.platform != "win32" else ()


@dataclass(frozen=True, slots=True)
class SharedArray:
    """An array in shared memory; it can be decoded once."""

    name: str
    element_type: ElementType
    shape: tuple[int, ...]


class SharedMemoryExchange:
    """One side of the exchange. Both use the same folder: the program makes it by `create`, either side removes it."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._spare = Path(tempfile.gettempdir()) / f"{Path(folder).name}-spare"
        self._open: dict[str, mmap.mmap] = {}  # on Windows: kept until the reader has them

    @classmethod
    def create(cls) -> SharedMemoryExchange:
        """Create a private folder; remove the folders of processes that have ended."""
        base = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else Path(tempfile.gettempdir())  # noqa: S108 - memory, not disk
        return cls(str(make_own_folder(base)))

    def remove(self) -> None:
        """Remove the folder; mapped files stay until they are unmapped."""
        for mapping in self._open.values():
            mapping.close()
        self._open.clear()
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.rmtree(self._spare, ignore_errors=True)

    # -- writing ---------------------------------------------------------------------------------------------

    def encode(self, value: RuntimeValue) -> Any:
        """Return the message for a value: the value itself, but its large arrays as SharedArray."""
        if isinstance(value, np.ndarray) and value.nbytes >= SHARED_BYTES and value.dtype.kind != "O":
            kind = ElementType.from_numpy(value.dtype)
            return self.encode_pieces(lambda: [value.reshape(-1)], kind, value.shape)
        return _with_arrays(value, self.encode)

    def encode_pieces(
        self, pieces: Callable[[], Iterable[Array]], element_type: ElementType, shape: tuple[int, ...]
    ) -> SharedArray:
        """Return the message for a large array that comes in flat pieces; `pieces` may be called twice."""
        name, size = uuid.uuid4().hex, prod(shape) * element_type.numpy_dtype.itemsize
        if sys.platform == "win32":
            memory = mmap.mmap(-1, size, tagname=PREFIX + name)
            for content in map(_content, pieces()):
                memory.write(content)
            self._open[name] = memory
        else:
            self._write(name, pieces, size)
        return SharedArray(name, element_type, shape)

    def _write(self, name: str, pieces: Callable[[], Iterable[Array]], size: int) -> None:
        # Written, not copied into a mapping: a full file system is then an OSError instead of a SIGBUS. It is also
        # twice as fast, as no page is cleared first.
        for folder in (Path(self.folder), self._spare):
            if folder == self._spare:
                _make_private(folder)
            try:
                _write_file(folder / name, map(_content, pieces()))
                return
            except OSError as error:
                (folder / name).unlink(missing_ok=True)
                if error.errno not in _FULL:
                    raise
        msg = f"{size:,} bytes fit neither into {Path(self.folder).parent} nor into {self._spare.parent}."
        raise ModelError("There is no space to transfer a value", msg)

    def release(self, name: str) -> None:
        """Close the mapping: the reader has decoded the array. Only Windows keeps mappings open."""
        memory = self._open.pop(name, None)
        if memory is not None:
            memory.close()

    # -- reading ---------------------------------------------------------------------------------------------

    def decode(self, sent: Any) -> RuntimeValue:
        """Return the value that was sent; large arrays are read-only views of the shared memory."""
        return self._decode_array(sent) if isinstance(sent, SharedArray) else _with_arrays(sent, self.decode)

    def _decode_array(self, sent: SharedArray) -> Array:
        dtype = sent.element_type.numpy_dtype
        size = prod(sent.shape) * dtype.itemsize
        if sys.platform == "win32":
            memory = mmap.mmap(-1, size, tagname=PREFIX + sent.name, access=mmap.ACCESS_READ)
        else:
            path = Path(self.folder) / sent.name
            if not path.exists():
                path = self._spare / sent.name
            descriptor = os.open(path, os.O_RDONLY)
            try:
                memory = mmap.mmap(descriptor, size, access=mmap.ACCESS_READ)
            finally:
                os.close(descriptor)
                path.unlink(missing_ok=True)
        return np.frombuffer(memory, dtype).reshape(sent.shape)

    def discard(self, message: Any) -> None:
        """Free the shared arrays of a message that nobody waits for."""
        if isinstance(message, tuple):
            for part in message:
                self.discard(part)
        else:
            self.decode(message)


def _with_arrays(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return a value with its parts changed."""
    match value:
        case SparseArray():
            return SparseArray(change(value.values), change(value.indices), value.shape)
        case list():
            return [change(item) for item in value]
        case dict():
            return {key: change(item) for key, item in value.items()}
    return value


def _content(array: Array) -> memoryview:
    return np.ascontiguousarray(array).view(np.uint8).data


def _write_file(path: Path, contents: Iterable[memoryview]) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        for content in contents:
            left = content
            while left:
                left = left[os.write(descriptor, left) :]
    finally:
        os.close(descriptor)


def _make_private(folder: Path) -> None:
    """Create a folder that no other user can read; if it exists, ModelError unless it is such a folder of this user."""
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
            raise ModelError("There is no space to transfer a value", f"{folder} belongs to another user.") from None
