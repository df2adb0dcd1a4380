"""Cache blocking of elementwise work in several passes: pieces that fit the second-level cache.

A pass over an array larger than the cache costs memory bandwidth, several passes over one piece do not. The pieces are
also the unit of work for threads, and of widening float16 and bfloat16 to float32 without a whole wide copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from math import prod
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from onnx_workbench.exec.kernels.shared.dtypes import compute_dtype, widen
from onnx_workbench.exec.kernels.shared.scratch import scratch
from onnx_workbench.exec.kernels.threads import parallel_for, split, threads
from onnx_workbench.exec.values.arrays import UNCHECKED, Array, empty
from onnx_workbench.exec.values.limits import checkpoint

#: Elements of one piece: long enough to amortize numpy's call overhead, and a few of them in float32 fit one MiB.
PIECE = 1 << 16
#: Smaller arrays are not worth another thread: one pass over them takes less than half a millisecond.
PARALLEL = 1 << 20

#: numpy compares with one number an element at a time: from so many on, clip takes a quarter of that for each, and half
#: a microsecond more to call.
_CLIPPED = 4096

#: Numbers of 16 bits, and how many a function of one must have to be looked up: a table may take as long as so many.
_CODES = 1 << 16
_LOOKED_UP = 4 * _CODES

#: Fills the last argument from the ones before; all are flat, contiguous and of one wide type. Sources are read-only,
#: the target may hold intermediate results.
Fill = Callable[..., None]


def elementwise(fill: Fill, *inputs: Array) -> Array:
    """Return the array of the inputs' common shape and type computed by `fill`; float16 and shorter in float32.

    ``fill(source, …, target)`` is called for flat pieces, on several threads when the array is large.
    """
    shape, dtype = inputs[0].shape, inputs[0].dtype
    if len(inputs) == 1 and dtype.char in "fd" and inputs[0].nbytes <= UNCHECKED and inputs[0].flags.c_contiguous:
        small = np.empty(shape, dtype)
        fill(inputs[0].reshape(-1), small.reshape(-1))
        return small
    result = empty(shape, dtype)
    wide = compute_dtype(dtype)
    if result.size <= PIECE and wide == dtype:
        fill(*(a.reshape(-1) for a in inputs), result.reshape(-1))
        return result
    sources = [a.reshape(-1) for a in inputs]
    target = result.reshape(-1)
    if len(inputs) == 1 and dtype.itemsize == 2 and result.size >= _LOOKED_UP:
        _look_up(elementwise(fill, np.arange(_CODES, dtype=np.uint16).view(dtype)), sources[0], target)
        return result

    def one(part: slice) -> None:
        if wide == dtype:
            fill(*(s[part] for s in sources), target[part])
        else:
            piece = scratch("elementwise", target[part].shape, wide)
            fill(*(widen(s[part]) for s in sources), piece)
            target[part] = piece

    in_pieces(one, target.size)
    return result


def _look_up(table: Array, source: Array, target: Array) -> None:
    """Fill flat `target` with the entries of a table for all numbers of 16 bits; no conversions, which cost most."""
    codes, entries, found = source.view(np.uint16), table.view(np.uint16), target.view(np.uint16)

    def one(part: slice) -> None:
        np.take(entries, codes[part], out=found[part], mode="clip")

    in_pieces(one, target.size)


def by_pieces(shape: Sequence[int], dtype: DTypeLike, make: Callable[[int, int], Array]) -> Array:
    """Build an array from `make(start, stop)`, which returns a range of rows, in pieces."""
    result = empty(shape, dtype)
    step = max(1, PIECE // max(1, prod(shape[1:])))
    for begin in range(0, len(result), step):
        checkpoint()
        end = min(begin + step, len(result))
        result[begin:end] = make(begin, end)
    return result


def parts(count: int, each: int = 1) -> Iterator[slice]:
    """Yield ranges of `each` elements, checking for cancellation in between."""
    step = max(1, (1 << 20) // max(1, each))
    for start in range(0, count, step):
        checkpoint()
        yield slice(start, start + step)


def in_pieces(one: Callable[[slice], None], size: int, piece: int = PIECE, parallel: int = PARALLEL) -> None:
    """Call one(part) for pieces of range(size), on the available threads from a size of `parallel` on."""

    def run(start: int, stop: int) -> None:
        for begin in range(start, stop, piece):
            checkpoint()
            one(slice(begin, min(begin + piece, stop)))

    workers = threads() if size >= parallel else 1
    if workers == 1:
        run(0, size)
        return
    parts = split(size, 2 * workers)  # two each, so that a delayed thread does less
    parallel_for(lambda index: run(*parts[index]), len(parts))


def apply(ufunc: np.ufunc, x: Array) -> Array:
    """Apply a unary numpy function, in the wide type where the type of `x` is a short one."""
    is_quick = x.dtype.char in "fdbhilqBHILQ" or (x.dtype.char == "e" and has_quick_halves(ufunc))
    if is_quick and (x.size < PARALLEL or threads() == 1):
        result = np.empty(x.shape, x.dtype)
        ufunc(x, result)
        return result
    return elementwise(ufunc, x)


@cache
def has_quick_halves(ufunc: np.ufunc) -> bool:
    """Return whether numpy computes the function for several float16 at a time, as it does for many with AVX-512.

    Else it converts them one by one, or calls the C library for each.
    """
    if ufunc in (np.absolute, np.negative, np.sign):  # changes or compares bits
        return True
    dispatched = np.lib.introspect.opt_func_info(func_name=f"^{ufunc.__name__}$", signature="float16")
    return any(not loop["current"].startswith("baseline") for loops in dispatched.values() for loop in loops.values())


def at_least(x: Array, least: Any, out: Array | None = None) -> Array:
    """Return max(x, least) for one number; NaN wins."""
    if x.size >= _CLIPPED and x.dtype.char in "fd":
        return x.clip(least, np.inf, out)
    return np.asarray(np.maximum(x, least, out=out))


def at_most(x: Array, most: Any, out: Array | None = None) -> Array:
    """Return min(x, most) for one number; NaN wins."""
    if x.size >= _CLIPPED and x.dtype.char in "fd":
        return x.clip(-np.inf, most, out)
    return np.asarray(np.minimum(x, most, out=out))


@lru_cache(maxsize=64)
def ones(length: int, dtype: np.dtype[Any]) -> Array:
    """Return a column of ones: the product with it sums rows of moderate length fastest."""
    column = np.ones((length, 1), dtype)
    column.flags.writeable = False
    return column


def temporary(slot: str, like: Array) -> Array:
    """Working memory of the size and type of a piece, for use inside a `fill`."""
    return scratch(slot, like.shape, like.dtype)
