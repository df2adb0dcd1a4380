"""Dropout, Flatten and Shrink."""

from __future__ import annotations

from math import prod

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.context import Context
from onnx_workbench.exec.kernels.registry import kernel
from onnx_workbench.exec.kernels.shared.axes import one_element, scalar_float
from onnx_workbench.exec.kernels.shared.dtypes import narrow, widen
from onnx_workbench.exec.values.arrays import Array


@kernel("Dropout", since=1)
def dropout_1(ctx: Context, data: Array, *, is_test: int = 0, ratio: float = 0.5) -> tuple[Array, Array | None]:
    """Zero a random share `ratio` of the values, unless is_test; the mask has the type of the data."""
    if is_test:
        return data, None
    output, mask = _drop(ctx, data, ratio, None)
    return output, mask.astype(data.dtype)


@kernel("Dropout", since=7)
@kernel("Dropout", since=10)
def dropout_7(ctx: Context, data: Array, *, _ratio: float = 0.5) -> tuple[Array, Array | None]:
    """Inference only: the data unchanged, and a mask that keeps everything, which is boolean from 10 on."""
    kind = np.dtype(np.bool_) if ctx.opset >= 10 else data.dtype
    return data, np.ones(data.shape, kind) if ctx.outputs > 1 else None


@kernel("Dropout", since=12)
def dropout_12(
    ctx: Context,
    data: Array,
    ratio: Array | None = None,
    training_mode: Array | None = None,
    *,
    seed: int | None = None,
) -> tuple[Array, Array | None]:
    """With training_mode zero a random share and scale the rest by 1 / (1 - ratio), else return the data."""
    share = 0.5 if ratio is None else scalar_float(ratio, "ratio")
    training = training_mode is not None and bool(one_element(training_mode, "training_mode"))
    if not training or share == 0:
        return data, np.ones(data.shape, np.bool_) if ctx.outputs > 1 else None
    return _drop(ctx, data, share, seed)


def _drop(ctx: Context, data: Array, ratio: float, seed: int | None) -> tuple[Array, Array]:
    if not 0 <= ratio < 1:
        msg = f"ratio is {ratio}, expected 0 to below 1"
        raise KernelError(msg)
    if seed is None:
        draws = ctx.rng().random(data.shape)
    else:  # the generator the specification's own test values come from
        draws = np.random.RandomState(seed & 0xFFFFFFFF).uniform(0, 1, data.shape)
    mask = draws >= ratio
    source = widen(data)
    kept = source * mask * source.dtype.type(1 / (1 - ratio))
    return narrow(kept, data.dtype), mask


@kernel("Flatten", since=1)
def flatten_1(x: Array, *, axis: int = 1) -> Array:
    """Return a matrix: the axes before `axis` as rows, the others as columns. A view where memory allows."""
    rank = x.ndim
    if not -rank <= axis <= rank:
        msg = f"axis is {axis}, expected {-rank} to {rank}"
        raise KernelError(msg)
    at = axis + rank if axis < 0 else axis
    return x.reshape(prod(x.shape[:at]), prod(x.shape[at:]))


@kernel("Shrink", since=9)
def shrink_9(x: Array, *, bias: float = 0.0, lambd: float = 0.5) -> Array:
    """Values below -lambd plus bias, above lambd less bias, zero between."""
    source = widen(x)
    if source.dtype.kind in "iu":  # bias may have a fraction, so integers go through float64
        source = source.astype(np.float64)
    scalar = source.dtype.type
    result = np.where(source > scalar(lambd), source - scalar(bias), scalar(0))
    result = np.where(source < scalar(-lambd), source + scalar(bias), result)  # comes first where both are so
    shrunk: Array = result.astype(x.dtype)
    return shrunk
