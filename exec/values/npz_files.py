"""Arrays and values of a run in .npy and .npz files, which numpy can read."""

from __future__ import annotations

import contextlib
import errno
import os
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np

from onnx_workbench.exec.values.arrays import Array, RuntimeValue, SparseArray
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.writer.atomic_file import replacing
from onnx_workbench.model.ir.types import ElementType
from onnx_workbench.model.progress import SILENT, Progress

#: JSON that describes how a value is stored: see `NpzArchive.add`.
Stored = Any

#: Limit for nested sequences; ONNX has types of at most two levels.
_DEEPEST = 8


#: Bytes of a key; an entry of a zip file has a name of at most 65,535 with its suffix and number.
_LONGEST_KEY = 65_000


class NpzArchive:
    """An .npz file that is being written; see `writing`."""

    def __init__(self, file: zipfile.ZipFile, progress: Progress = SILENT) -> None:
        self._file = file
        self._progress = progress
        self._taken: set[str] = set()
        self.keys: list[str] = []

    def add(self, name: str, value: RuntimeValue) -> Stored:
        """Write a value; return the JSON with which `stored_value` reads it.

        A tensor is ``{"key": …}``, with ``"type"`` if numpy lacks its type and it is widened: bfloat16, float8 … to
        float32. A sequence is a list of ``name[0]``, ``name[1]`` …; maps and sparse tensors have a key for
        each of their parts; an empty optional is None and writes nothing. ``~2`` is appended to a key already in use.
        """
        if isinstance(value, np.ndarray):
            plain = plain_array(value)
            stored = {"key": self._write(name, plain)}
            widened = value.dtype.kind != "O" and plain.dtype != value.dtype
            return stored | {"type": ElementType.from_numpy(value.dtype).text} if widened else stored
        if isinstance(value, SparseArray):
            return {
                "values": self.add(f"{name}__values", value.values),
                "indices": self._write(f"{name}__indices", value.indices),
                "shape": self._write(f"{name}__shape", np.array(value.shape, np.int64)),
            }
        if isinstance(value, list):
            return [self.add(f"{name}[{index}]", item) for index, item in enumerate(value)]
        if isinstance(value, dict):
            keys = self._write(f"{name}__keys", np.array(list(value)))
            return {"keys": keys, "values": self._write(f"{name}__values", np.array(list(value.values())))}
        return None

    def _write(self, name: str, array: Array) -> str:
        """Write an array under a valid and unique key made from `name`; return the key."""
        key = found = name.encode("utf-8", "replace")[:_LONGEST_KEY].decode("utf-8", "ignore")
        number = 1
        while found in self._taken:
            number += 1
            found = f"{key}~{number}"
        self._taken.add(found)
        self.keys.append(found)
        with self._file.open(f"{found}.npy", "w", force_zip64=True) as file:
            np.lib.format.write_array(_PolledFile(file, self._progress), np.asanyarray(array), allow_pickle=False)
        return found


class _PolledFile:
    """A file to which numpy writes in parts of some megabytes; checks before each part whether it was cancelled."""

    def __init__(self, file: IO[bytes], progress: Progress) -> None:
        self._file = file
        self._progress = progress

    def write(self, data: bytes) -> int:
        """Write; Cancelled if the progress is."""
        self._progress.check()
        return self._file.write(data)


def stored_value(arrays: Mapping[str, Array], stored: Stored, depth: int = 0) -> RuntimeValue:
    """Return a value stored by `NpzArchive.add` from the arrays of the file; KeyError, TypeError or ValueError."""
    if depth > _DEEPEST:
        msg = f"a value is more than {_DEEPEST} sequences deep"
        raise ValueError(msg)
    if stored is None:
        return None
    if isinstance(stored, list):
        return [stored_value(arrays, item, depth + 1) for item in stored]
    if "key" in stored:
        array = arrays[stored["key"]]
        return array.astype(ElementType[stored["type"].upper()].numpy_dtype) if "type" in stored else array
    if "keys" in stored:
        return dict(zip(arrays[stored["keys"]].tolist(), arrays[stored["values"]].tolist(), strict=True))
    shape = tuple(int(d) for d in arrays[stored["shape"]])
    return SparseArray(stored_value(arrays, stored["values"], depth + 1), arrays[stored["indices"]], shape)


@contextlib.contextmanager
def writing(path: Path, *, progress: Progress = SILENT) -> Iterator[NpzArchive]:
    """Open an .npz file for adding values one by one; it is created at the end, and not at all after an exception.

    Into a pipe or device, such as /dev/stdout, they are written directly.
    """
    is_special = path.exists() and not path.is_file() and not path.is_dir()  # a pipe or device
    with (
        _opened(path) if is_special else replacing(path) as content,
        zipfile.ZipFile(content, "w") as file,
    ):
        yield NpzArchive(file, progress)


def _opened(path: Path) -> BinaryIO:
    """Open a pipe or device for writing; ModelError for a pipe that no one reads from, which would wait."""
    try:
        descriptor = os.open(path, os.O_WRONLY | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        no_reader = error.errno == errno.ENXIO
        reason = "it is a pipe or socket that no one reads from" if no_reader else error.strerror or str(error)
        raise ModelError(f"{path.name} cannot be written", f"{path}: {reason}.", str(path)) from error
    os.set_blocking(descriptor, True)
    return open(descriptor, "wb")


def write_npz(path: Path, values: Iterable[tuple[str, RuntimeValue]], progress: Progress = SILENT) -> list[str]:
    """Write values by name as `NpzArchive.add` does; return the keys. Holds one value at a time."""
    with writing(path, progress=progress) as archive:
        for name, value in progress.paced(values, 1):
            archive.add(name, value)
    return archive.keys


def plain_array(array: Array) -> Array:
    """Convert to an array of a built-in numpy type, equal in value."""
    if array.dtype.kind == "O":
        texts = array.astype(str)
        return texts if texts.size else np.empty(array.shape, "U1")
    if array.dtype.isbuiltin != 2:
        return array
    kind = ElementType.from_numpy(array.dtype)
    return array.astype(np.int8 if kind.is_int else np.float32)
