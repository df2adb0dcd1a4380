"""Values between two processes: large arrays through memory both see, the rest as messages.

The writer puts an array into a file of a private folder (in memory where the system has such a place) and sends its
name; the reader maps it and removes the name at once, so that the memory goes with the last array that uses it,
whoever dies first. On Windows, where a mapped file cannot be removed, named mappings do the same.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from exec.arrays import Array, SparseArray
from exec.context import RuntimeValue
from model.types import ElementType

#: Arrays below this size go as messages.
SHARED_BYTES = 1 << 15

_PREFIX = "onnx-workbench-"
_WINDOWS = os.name == "nt"


@dataclass(frozen=True, slots=True)
class Shared:
    """An array in shared memory, to be taken once."""

    name: str
    element_type: ElementType
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Inline:
    """A small array, as bytes."""

    content: bytes
    element_type: ElementType
    shape: tuple[int, ...]


class Exchange:
    """One side of the exchange; both have the same folder, made by `Exchange.create` and removed by either."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._open: dict[str, mmap.mmap] = {}  # on Windows: kept until the reader has them

    @classmethod
    def create(cls) -> Exchange:
        """A new private folder; folders of processes that are gone are removed."""
        base = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else Path(tempfile.gettempdir())  # noqa: S108 - memory, not disk
        _remove_stale(base)
        return cls(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=base))

    def remove(self) -> None:
        """Remove the folder; what is mapped stays until it is let go."""
        for mapping in self._open.values():
            mapping.close()
        self._open.clear()
        shutil.rmtree(self.folder, ignore_errors=True)

    # -- writing ---------------------------------------------------------------------------------------------

    def put(self, value: RuntimeValue) -> Any:
        """What to send for a value."""
        if isinstance(value, np.ndarray):
            return self._put_array(value)
        if isinstance(value, SparseArray):
            return ("sparse", self.put(value.values), self.put(value.indices), tuple(value.shape))
        if isinstance(value, list):
            return ("list", [self.put(v) for v in value])
        if isinstance(value, dict):
            return ("dict", {k: self.put(v) for k, v in value.items()})
        return ("plain", value)

    def _put_array(self, array: Array) -> Any:
        if array.dtype.kind == "O":
            return ("strings", array.reshape(-1).tolist(), array.shape)
        kind = ElementType.from_numpy(array.dtype)
        if array.nbytes < SHARED_BYTES:
            return Inline(array.tobytes(), kind, array.shape)
        name = uuid.uuid4().hex
        with contextlib.ExitStack() as stack:
            memory = self._create(name, array.nbytes)
            if not _WINDOWS:
                stack.callback(memory.close)
            target: Array | None = np.frombuffer(memory, np.uint8)
            assert target is not None
            np.copyto(target.view(array.dtype).reshape(array.shape), array)
            target = None  # the mapping cannot be closed while an array looks at it
        return Shared(name, kind, array.shape)

    def _create(self, name: str, size: int) -> mmap.mmap:
        if _WINDOWS:
            memory = mmap.mmap(-1, size, tagname=_PREFIX + name)  # type: ignore[call-arg,unused-ignore]  # Windows only
            self._open[name] = memory
            return memory
        descriptor = os.open(Path(self.folder) / name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.ftruncate(descriptor, size)
            return mmap.mmap(descriptor, size)
        finally:
            os.close(descriptor)

    def release(self, name: str) -> None:
        """The reader has taken it."""
        memory = self._open.pop(name, None)
        if memory is not None:
            memory.close()

    # -- reading ---------------------------------------------------------------------------------------------

    def take(self, sent: Any) -> RuntimeValue:
        """The value that was sent; large arrays are read-only views of the shared memory."""
        match sent:
            case Shared():
                return self._take_array(sent)
            case Inline():
                flat = np.frombuffer(bytearray(sent.content), sent.element_type.numpy_dtype)
                return flat.reshape(sent.shape)
            case ("strings", texts, shape):
                array = np.empty(len(texts), object)
                array[:] = texts
                return array.reshape(shape)
            case ("sparse", values, indices, shape):
                return SparseArray(self.take(values), self.take(indices), shape)
            case ("list", items):
                return [self.take(v) for v in items]
            case ("dict", items):
                return {k: self.take(v) for k, v in items.items()}
            case (_, plain):
                return plain
        raise AssertionError(sent)

    def _take_array(self, sent: Shared) -> Array:
        dtype = sent.element_type.numpy_dtype
        size = prod(sent.shape) * dtype.itemsize
        if _WINDOWS:
            memory = mmap.mmap(-1, size, tagname=_PREFIX + sent.name, access=mmap.ACCESS_READ)  # type: ignore[call-arg,unused-ignore]
        else:
            path = Path(self.folder) / sent.name
            descriptor = os.open(path, os.O_RDONLY)
            try:
                memory = mmap.mmap(descriptor, size, access=mmap.ACCESS_READ)
            finally:
                os.close(descriptor)
                path.unlink(missing_ok=True)
        return np.frombuffer(memory, dtype).reshape(sent.shape)

    @staticmethod
    def names(sent: Any) -> Iterator[str]:
        """Names of the shared memory in what was sent."""
        if isinstance(sent, Shared):
            yield sent.name
        elif isinstance(sent, (tuple, list)):
            for item in sent:
                yield from Exchange.names(item)
        elif isinstance(sent, dict):
            for item in sent.values():
                yield from Exchange.names(item)


def _remove_stale(base: Path) -> None:
    """Remove folders whose process was killed together with its worker."""
    if _WINDOWS:
        return  # nothing is ever written there
    for folder in base.glob(f"{_PREFIX}*"):
        owner = folder.name.removeprefix(_PREFIX).split("-")[0]
        if owner.isdigit() and not _alive(int(owner)):
            shutil.rmtree(folder, ignore_errors=True)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
