"""Arrays of random numbers, ranges and constants, generated slice by slice with checks for cancellation."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any, Literal

import numpy as np

from onnx_workbench.exec.inputs.feeds import as_elements
from onnx_workbench.exec.values.arrays import Array
from onnx_workbench.exec.values.numpy_errors import in_plain_words
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.types import ElementType
from onnx_workbench.model.progress import SILENT, Progress

#: Elements generated at a time, as float64 or int64 before their conversion.
_SLICE = 1 << 18

_WORDS = np.array(["alpha", "beta", "gamma", "delta"], object)

Distribution = Literal["uniform", "normal"]


def random_array(
    shape: tuple[int, ...],
    kind: ElementType,
    bounds: tuple[float, float],
    distribution: Distribution = "uniform",
    *,
    seed: int,
    progress: Progress = SILENT,
) -> Array:
    """Return random numbers, uniform within `bounds` or normal with mean and deviation `bounds`.

    Integers are uniform and include the upper bound; texts and bool ignore `bounds`. ValueError or OverflowError for
    invalid bounds.
    """
    generator = np.random.default_rng(seed)
    low, high = bounds
    result = np.empty(shape, kind.numpy_dtype)
    flat = result.reshape(-1)
    if kind.is_int:
        as_elements([low, high], kind)
    if kind not in (ElementType.STRING, ElementType.BOOL):
        _check_bounds("uniform" if kind.is_int else distribution, low, high)
    draw = generator.normal if distribution == "normal" else generator.uniform
    wide = np.uint64 if kind is ElementType.UINT64 else np.int64
    with np.errstate(all="ignore"):
        for part in _slices(flat, progress):
            if kind is ElementType.STRING:
                part[:] = _WORDS[generator.integers(0, len(_WORDS), part.size)]
            elif kind is ElementType.BOOL:
                part[:] = generator.random(part.size) < 0.5
            elif kind.is_int:
                part[:] = generator.integers(int(low), int(high), part.size, wide, endpoint=True).astype(part.dtype)
            else:
                part[:] = draw(low, high, part.size).astype(part.dtype)
        if kind.is_complex:
            for part in _slices(flat, progress):
                part.imag = draw(low, high, part.size)
    return result


def range_array(
    shape: tuple[int, ...], kind: ElementType, start: float, step: float, progress: Progress = SILENT
) -> Array:
    """Return start, start + step, … in row-major order."""
    result = np.empty(shape, kind.numpy_dtype)
    done = 0
    with np.errstate(all="ignore"):
        for part in _slices(result.reshape(-1), progress):
            part[:] = (start + step * np.arange(done, done + part.size)).astype(part.dtype)
            done += part.size
    return result


def constant_array(
    content: Any, shape: tuple[int, ...], kind: ElementType, name: str, progress: Progress = SILENT
) -> Array:
    """Return `content` broadcast to `shape`; unchanged if it has more dimensions. `name` is that of the input.

    ModelError if it does not fit.
    """
    title, declared = f"The constant for {name!r} does not fit", f"declared {kind.text}{list(shape)}"
    try:
        array = as_elements(content, kind)
    except (TypeError, ValueError, OverflowError) as error:
        raise ModelError(title, f"{in_plain_words(error) or error}; {declared}") from None
    if array.ndim > len(shape):
        return array
    try:
        stretched = np.broadcast_to(array, shape)
    except ValueError:
        raise ModelError(title, f"its shape is {list(array.shape)}; {declared}") from None
    result = np.empty(shape, array.dtype)
    done = 0
    for part in _slices(result.reshape(-1), progress):
        part[:] = array.reshape(-1) if array.size == 1 else stretched.flat[done : done + part.size]
        done += part.size
    return result


def _slices(flat: Array, progress: Progress) -> Iterator[Array]:
    for start in range(0, flat.size, _SLICE):
        progress.report(start, flat.size)
        yield flat[start : start + _SLICE]


def bytes_needed(shape: tuple[int, ...], kind: ElementType) -> int:
    """Return the bytes of an array, computed in Python ints, which do not overflow."""
    return prod(shape) * kind.numpy_dtype.itemsize


def _check_bounds(distribution: str, low: float, high: float) -> None:
    """Raise ValueError for an empty range or a negative deviation."""
    if distribution == "normal" and high < 0:
        msg = f"the deviation is {high:g}; expected 0 or more"
        raise ValueError(msg)
    if distribution == "uniform" and low > high:
        msg = f"the range is {low:g} to {high:g}; expected the smaller number first"
        raise ValueError(msg)
