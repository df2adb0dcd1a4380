"""Constants, ranges, identity matrices and random numbers."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, prod
from typing import Any

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.context import Context
from onnx_workbench.exec.kernels.registry import kernel
from onnx_workbench.exec.kernels.shared.axes import integers
from onnx_workbench.exec.kernels.shared.blocks import by_pieces
from onnx_workbench.exec.kernels.shared.dtypes import FLOAT32, FLOAT64, cast, dtype_of, is_float, widen
from onnx_workbench.exec.values.arrays import Array, SparseArray, check_size, empty, full, zeros
from onnx_workbench.exec.values.limits import checkpoint
from onnx_workbench.model.analysis.output_sizes import range_count
from onnx_workbench.model.ir.types import ElementType

_FLOAT = int(ElementType.FLOAT)


_PLAIN = ("value_float", "value_floats", "value_int", "value_ints", "value_string", "value_strings")


@kernel("Constant", since=1)
def constant_1(*, value: Array) -> Array:
    """Return the tensor of the attribute."""
    return value


@kernel("Constant", since=11, without=_PLAIN)
@kernel("Constant", since=12)
def constant_12(
    *,
    sparse_value: SparseArray | None = None,
    value: Array | None = None,
    value_float: float | None = None,
    value_floats: tuple[float, ...] | None = None,
    value_int: int | None = None,
    value_ints: tuple[int, ...] | None = None,
    value_string: str | None = None,
    value_strings: tuple[str, ...] | None = None,
) -> Array:
    """Return the tensor of whichever attribute is given: numbers become float32 or int64, texts strings."""
    plain: tuple[tuple[Any, Any], ...] = (
        (value_float, np.float32),
        (value_floats, np.float32),
        (value_int, np.int64),
        (value_ints, np.int64),
        (value_string, object),
        (value_strings, object),
    )
    values = (sparse_value, value, *(np.array(v, dtype) for v, dtype in plain if v is not None))
    present = [v for v in values if v is not None]
    if len(present) != 1:
        msg = f"{len(present)} attributes give a value; expected exactly one"
        raise KernelError(msg)
    return present[0].dense() if isinstance(present[0], SparseArray) else present[0]


@kernel("ConstantOfShape", since=9)
def constant_of_shape_9(shape: Array, *, value: Array | None = None) -> Array:
    """Return a tensor of a shape filled with one value, float32 zeros without one."""
    dims = _dimensions(integers(shape, "input"))
    if value is None:
        return zeros(dims, FLOAT32)
    if value.size != 1:
        msg = f"attribute value has shape {list(value.shape)}; expected one element"
        raise KernelError(msg)
    return full(dims, value.reshape(())[()], value.dtype)


def _dimensions(dims: Sequence[int]) -> tuple[int, ...]:
    """Return the dimensions; KernelError if one is negative."""
    if any(d < 0 for d in dims):
        msg = f"shape {list(dims)} has a negative dimension; expected sizes from 0"
        raise KernelError(msg)
    return tuple(dims)


@kernel("EyeLike", since=9)
def eye_like_9(x: Array, *, dtype: int | None = None, k: int = 0) -> Array:
    """Ones on the k-th diagonal, of the shape of the input."""
    if x.ndim != 2:
        msg = f"input has shape {list(x.shape)}; expected a matrix"
        raise KernelError(msg)
    result = zeros(x.shape, x.dtype if dtype is None else dtype_of(dtype))
    rows, columns = x.shape
    length = min(rows + min(k, 0), columns - max(k, 0))
    if length > 0:
        index = np.arange(length)
        result[index - min(k, 0), index + max(k, 0)] = 1
    return result


# --- Range -----------------------------------------------------------------------------------------------------


@kernel("Range", since=11, without=("stash_type",))
@kernel("Range", since=27)
def range_27(start: Array, limit: Array, delta: Array, *, stash_type: int = _FLOAT) -> Array:
    """start, start + delta, … up to but without limit; of float16 and bfloat16 computed in `stash_type`."""
    is_short = is_float(start.dtype) and start.dtype.itemsize == 2
    working = dtype_of(stash_type) if is_short else start.dtype
    for name, value in (("start", start), ("limit", limit), ("delta", delta)):
        if value.size != 1:
            msg = f"{name} has shape {list(value.shape)}; expected a scalar"
            raise KernelError(msg)
    first, last, step = (widen(v).reshape(()).item() for v in (start, limit, delta))
    if step == 0 or not (isfinite(first) and isfinite(last) and isfinite(step)):
        msg = f"start {first}, limit {last}, delta {step} describe no range; expected finite numbers and delta not 0"
        raise KernelError(msg)
    count = range_count(first, last, step, is_double=working.itemsize > 4)
    check_size((count,), FLOAT64)

    # i·delta in the working type, as the specification has it, and not a sum of rounded steps.
    def piece(begin: int, end: int) -> Array:
        values = np.arange(begin, end, dtype=np.int64).astype(working)
        values *= working.type(step)
        values += working.type(first)
        return cast(values, start.dtype)

    return by_pieces((count,), start.dtype, piece)


# --- random numbers --------------------------------------------------------------------------------------------


def _normal(
    ctx: Context, shape: Sequence[int], dtype: int | np.dtype[Any], mean: float, scale: float, seed: float | None
) -> Array:
    kind = dtype if isinstance(dtype, np.dtype) else dtype_of(dtype)
    check_size(_dimensions(shape), FLOAT64)
    wide = np.float64 if kind == FLOAT64 else np.float32
    rng = ctx.rng(seed)

    def piece(start: int, stop: int) -> Array:
        return cast(np.asarray(rng.standard_normal(stop - start, wide) * scale + mean, wide), kind)

    return by_pieces((prod(shape),), kind, piece).reshape(tuple(shape))


def _uniform(
    ctx: Context, shape: Sequence[int], dtype: int | np.dtype[Any], low: float, high: float, seed: float | None
) -> Array:
    kind = dtype if isinstance(dtype, np.dtype) else dtype_of(dtype)
    check_size(_dimensions(shape), FLOAT64)
    wide = np.float64 if kind == FLOAT64 else np.float32
    rng = ctx.rng(seed)

    def piece(start: int, stop: int) -> Array:
        return cast(np.asarray(rng.random(stop - start, wide) * (high - low) + low, wide), kind)

    return by_pieces((prod(shape),), kind, piece).reshape(tuple(shape))


@kernel("RandomNormal", since=1)
def random_normal_1(
    ctx: Context,
    *,
    dtype: int = _FLOAT,
    mean: float = 0.0,
    scale: float = 1.0,
    seed: float | None = None,
    shape: tuple[int, ...],
) -> Array:
    """Normally distributed numbers; the same ones for the same seed, or run seed and node name."""
    return _normal(ctx, shape, dtype, mean, scale, seed)


@kernel("RandomUniform", since=1)
def random_uniform_1(
    ctx: Context,
    *,
    dtype: int = _FLOAT,
    high: float = 1.0,
    low: float = 0.0,
    seed: float | None = None,
    shape: tuple[int, ...],
) -> Array:
    """Numbers equally distributed in [low, high)."""
    return _uniform(ctx, shape, dtype, low, high, seed)


@kernel("RandomNormalLike", since=1)
def random_normal_like_1(
    ctx: Context,
    x: Array,
    *,
    dtype: int | None = None,
    mean: float = 0.0,
    scale: float = 1.0,
    seed: float | None = None,
) -> Array:
    """Normally distributed numbers in the shape of the input."""
    return _normal(ctx, x.shape, x.dtype if dtype is None else dtype, mean, scale, seed)


@kernel("RandomUniformLike", since=1)
def random_uniform_like_1(
    ctx: Context,
    x: Array,
    *,
    dtype: int | None = None,
    high: float = 1.0,
    low: float = 0.0,
    seed: float | None = None,
) -> Array:
    """Numbers equally distributed in [low, high) in the shape of the input."""
    return _uniform(ctx, x.shape, x.dtype if dtype is None else dtype, low, high, seed)


@kernel("Bernoulli", since=15)
def bernoulli_15(ctx: Context, x: Array, *, dtype: int | None = None, seed: float | None = None) -> Array:
    """1 with the probability the input gives, else 0."""
    kind = x.dtype if dtype is None else dtype_of(dtype)
    hits = np.asarray(ctx.rng(seed).random(x.shape) < x.astype(FLOAT64))
    return cast(hits, kind)


@kernel("Multinomial", since=7)
def multinomial_7(
    ctx: Context, x: Array, *, dtype: int = int(ElementType.INT32), sample_size: int = 1, seed: float | None = None
) -> Array:
    """Class numbers [batch, sample_size] drawn with the unnormalised log-probabilities [batch, classes]."""
    if x.ndim != 2 or not x.shape[1]:
        msg = f"input has shape {list(x.shape)}; expected [batch, classes] with at least one class"
        raise KernelError(msg)
    result = empty(_dimensions((x.shape[0], sample_size)), dtype_of(dtype))
    weights = x.astype(FLOAT64)
    weights = np.exp(weights - weights.max(axis=1, keepdims=True))
    borders = np.cumsum(weights, axis=1)
    borders /= borders[:, -1:]
    rng = ctx.rng(seed)
    for row, border in zip(result, borders, strict=True):
        checkpoint()
        row[...] = np.searchsorted(border, rng.random(sample_size), side="right").clip(max=x.shape[1] - 1)
    return result
