"""Gelu and its relatives, alone and fused with a bias."""

from __future__ import annotations

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.context import Context
from onnx_workbench.exec.kernels.microsoft.onnx_calls import MICROSOFT, onnx
from onnx_workbench.exec.kernels.onnx.math.activations import gelu_20
from onnx_workbench.exec.kernels.registry import kernel
from onnx_workbench.exec.kernels.shared.axes import one_element, scalar_float
from onnx_workbench.exec.values.arrays import Array


def plus(x: Array, bias: Array | None) -> Array:
    """Return the sum, or `x` without a bias."""
    return x if bias is None else np.asarray(onnx("Add", 14, x, bias))


def gelu(x: Array, *, tanh: bool = False) -> Array:
    """x·Φ(x), exact or by its approximation with tanh."""
    return np.asarray(onnx("Gelu", 20, x, approximate="tanh" if tanh else "none"))


kernel("Gelu", since=1, domain=MICROSOFT, without=("approximate",))(gelu_20)


@kernel("FastGelu", since=1, domain=MICROSOFT)
def fast_gelu_1(x: Array, bias: Array | None = None) -> Array:
    """Return the approximation with tanh, after a bias."""
    return gelu(plus(x, bias), tanh=True)


@kernel("QuickGelu", since=1, domain=MICROSOFT)
def quick_gelu_1(x: Array, *, alpha: float = 1.7020000219345093) -> Array:
    """x · sigmoid(alpha · x)."""
    return np.asarray(onnx("Swish", 24, x, alpha=alpha))


@kernel("BiasGelu", since=1, domain=MICROSOFT)
def bias_gelu_1(a: Array, b: Array) -> Array:
    """Gelu of the sum."""
    return gelu(plus(a, b))


@kernel("GemmFastGelu", since=1, domain=MICROSOFT)
def gemm_fast_gelu_1(x: Array, w: Array, bias: Array | None = None) -> Array:
    """Return the tanh Gelu of a product and a bias."""
    return gelu(plus(onnx("MatMul", 13, x, w), bias), tanh=True)


@kernel("BiasSplitGelu", since=1, domain=MICROSOFT)
def bias_split_gelu_1(x: Array, bias: Array) -> Array:
    """Return the first half of the last axis times Gelu of the second, after a bias."""
    if not x.ndim or x.shape[-1] % 2:
        msg = f"input of shape {x.shape}; expected an even last dimension"
        raise KernelError(msg)
    left, right = np.split(plus(x, bias), 2, -1)
    return np.asarray(onnx("Mul", 14, left, gelu(np.ascontiguousarray(right))))


@kernel("BiasAdd", since=1, domain=MICROSOFT)
def bias_add_1(x: Array, bias: Array, skip: Array) -> Array:
    """x + bias + skip."""
    return plus(plus(x, bias), skip)


@kernel("BiasSoftmax", since=1, domain=MICROSOFT)
def bias_softmax_1(data: Array, bias: Array, *, axis: int = 1, _is_inner_broadcast: int) -> Array:
    """Softmax of the sum over all axes from `axis` on; the bias broadcasts by its shape."""
    return np.asarray(onnx("Softmax", 11, plus(data, bias), axis=axis))


@kernel("BiasDropout", since=1, domain=MICROSOFT)
def bias_dropout_1(
    ctx: Context,
    data: Array,
    bias: Array,
    residual: Array | None = None,
    ratio: Array | None = None,
    training_mode: Array | None = None,
    *,
    seed: int | None = None,
) -> tuple[Array, Array]:
    """Dropout of data + bias, plus the residual; also the mask."""
    total = plus(data, bias)
    kept = np.ones(total.shape, bool)
    share = 0.5 if ratio is None else scalar_float(ratio, "ratio")
    if training_mode is not None and bool(one_element(training_mode, "training_mode")) and share > 0:
        kept = ctx.rng(seed).random(total.shape) >= share
        total = np.asarray(np.where(kept, total / (1 - share), 0), total.dtype)
    return plus(total, residual), kept


@kernel("BitmaskBiasDropout", since=1, domain=MICROSOFT)
def bitmask_bias_dropout_1(
    ctx: Context,
    data: Array,
    bias: Array,
    residual: Array | None = None,
    ratio: Array | None = None,
    training_mode: Array | None = None,
    *,
    seed: int | None = None,
) -> tuple[Array, Array]:
    """As before; the mask is packed into bits of uint32, lowest first."""
    y, kept = bias_dropout_1(ctx, data, bias, residual, ratio, training_mode, seed=seed)
    return y, _bits(kept)


@kernel("BitmaskDropout", since=1, domain=MICROSOFT)
def bitmask_dropout_1(
    ctx: Context,
    data: Array,
    ratio: Array | None = None,
    training_mode: Array | None = None,
    *,
    seed: int | None = None,
) -> tuple[Array, Array]:
    """Dropout with the mask packed into bits."""
    y, kept = bias_dropout_1(ctx, data, np.zeros(1, data.dtype), None, ratio, training_mode, seed=seed)
    return y, _bits(kept)


def _bits(kept: Array) -> Array:
    """Pack booleans into bits of uint32, the last one padded with zeros."""
    packed = np.packbits(kept.reshape(-1), bitorder="little")
    return np.pad(packed, (0, -len(packed) % 4)).view("<u4").astype(np.uint32)
