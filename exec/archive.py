"""Arrays and values of a run in .npy and .npz files, which numpy and every tool around it can read."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterable, Iterator
from math import prod
from pathlib import Path
from typing import IO

import numpy as np

from exec.arrays import Array, SparseArray
from exec.context import RuntimeValue
from model.types import ElementType


def read_array(file: IO[bytes], size: int) -> Array:
    """The array in a .npy file of `size` bytes; ValueError or EOFError when it is none.

    What its header claims is held against the size before anything is allocated; pickles are never loaded.
    """
    version = np.lib.format.read_magic(file)
    header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = header(file)
    needed, found = prod(int(d) for d in shape) * dtype.itemsize, size - file.tell()
    if needed > found and not dtype.hasobject:
        msg = f"{found:,} bytes of values; {needed:,} were expected"
        raise ValueError(msg)
    file.seek(0)
    array: Array = np.lib.format.read_array(file, allow_pickle=False)
    return array


def read_arrays(path: Path, limit: int) -> Iterator[tuple[str, Array]]:
    """The arrays of an .npz file by name, none of more bytes than `limit`; what zipfile and read_array raise."""
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if not member.filename.endswith(".npy"):
                continue
            name = member.filename.removesuffix(".npy")
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                msg = f"array {name!r} is packed in a way that numpy does not write"
                raise ValueError(msg)
            if member.file_size > limit:
                msg = f"array {name!r} has {member.file_size:,} bytes; at most {limit:,} are read"
                raise ValueError(msg)
            with archive.open(member) as file:
                yield name, read_array(file, member.file_size)


def write_npz(path: Path, values: Iterable[tuple[str, RuntimeValue]], *, compress: bool = False) -> list[str]:
    """Write values by name; returns the keys. Element types numpy lacks are widened: bfloat16, float8 … to float32.

    Sequences become ``name[0]``, ``name[1]`` …; maps ``name__keys`` and ``name__values``; an empty optional leaves
    nothing. A key that is taken already gets ``~2``. One value at a time is held; the file is whole or not there.
    """
    keys: dict[str, None] = {}
    target = path.resolve()
    regular = target.is_file() or not target.exists()
    partial = target.with_name(f".{target.name[:80]}.{os.getpid()}.part") if regular else target
    try:
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED) as archive:
            for name, value in values:
                for key, array in _arrays(name, value):
                    key = _unused(key, keys)
                    with archive.open(f"{key}.npy", "w", force_zip64=True) as file:
                        np.lib.format.write_array(file, np.asanyarray(array), allow_pickle=False)
        if regular:
            partial.replace(target)
    finally:
        if regular:
            partial.unlink(missing_ok=True)
    return list(keys)


def _unused(key: str, keys: dict[str, None]) -> str:
    """A key that is text, as names in files need not be, and that no other value has."""
    key = found = key.encode("utf-8", "replace").decode()
    number = 1
    while found in keys:
        number += 1
        found = f"{key}~{number}"
    keys[found] = None
    return found


def _arrays(name: str, value: RuntimeValue) -> Iterator[tuple[str, Array]]:
    if isinstance(value, np.ndarray):
        yield name, plain_array(value)
    elif isinstance(value, SparseArray):
        yield f"{name}__values", plain_array(value.values)
        yield f"{name}__indices", value.indices
        yield f"{name}__shape", np.array(value.shape, np.int64)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _arrays(f"{name}[{index}]", item)
    elif isinstance(value, dict):
        yield f"{name}__keys", np.array(list(value))
        yield f"{name}__values", np.array(list(value.values()))


def plain_array(array: Array) -> Array:
    """An array of a type that numpy knows by itself, equal in value."""
    if array.dtype.kind == "O":
        texts = array.astype(str)
        return texts if texts.size else np.empty(array.shape, "U1")
    if array.dtype.isbuiltin == 1:
        return array
    kind = ElementType.from_numpy(array.dtype)
    return array.astype(np.int8 if kind.is_integer else np.float32)
