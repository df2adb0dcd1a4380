"""Values of a run in an .npz file, which numpy and every tool around it can read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from exec.arrays import Array, SparseArray
from exec.context import RuntimeValue
from model.types import ElementType


def write_npz(path: Path, values: Iterable[tuple[str, RuntimeValue]], *, compress: bool = False) -> list[str]:
    """Write values by name; returns the keys. Element types numpy lacks are widened: bfloat16, float8 … to float32.

    Sequences become ``name[0]``, ``name[1]`` …; maps ``name__keys`` and ``name__values``; nothing is left out.
    """
    arrays = {key: array for name, value in values for key, array in _arrays(name, value)}
    save = np.savez_compressed if compress else np.savez
    with path.open("wb") as file:
        save(file, allow_pickle=False, **arrays)
    return list(arrays)


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
