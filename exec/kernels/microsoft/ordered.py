"""Quantized operators with matrices in cuBLASLt memory orders (QOrdered…)."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.microsoft.activations import gelu
from onnx_workbench.exec.kernels.microsoft.attention import (
    causal_bias,
    mask_bias,
    merge_heads,
    split_heads,
    sum_biases,
)
from onnx_workbench.exec.kernels.microsoft.onnx_calls import MICROSOFT, onnx
from onnx_workbench.exec.kernels.registry import kernel
from onnx_workbench.exec.kernels.shared.dtypes import dtype_of, narrow, widen
from onnx_workbench.exec.values.arrays import Array

_COL, _ROW, _COL32 = 0, 1, 2
_WIDTH = 32


def _by_rows(x: Array, order: int) -> Array:
    """Convert matrices of the last two axes from a memory order to row-major."""
    lead, rows, columns = _sizes(x, order)
    if order == _COL:
        return x.reshape(*lead, columns, rows).swapaxes(-1, -2).reshape(x.shape)
    if order == _COL32:
        parts = x.reshape(*lead, columns // _WIDTH, rows, _WIDTH)
        return np.moveaxis(parts, -3, -2).reshape(x.shape)
    return x


def _in_order(x: Array, order: int) -> Array:
    """Return an array of the same shape whose matrices of the last two axes have a memory order."""
    lead, rows, columns = _sizes(x, order)
    if order == _COL:
        return np.ascontiguousarray(x.reshape(*lead, rows, columns).swapaxes(-1, -2)).reshape(x.shape)
    if order == _COL32:
        parts = x.reshape(*lead, rows, columns // _WIDTH, _WIDTH)
        return np.ascontiguousarray(np.moveaxis(parts, -2, -3)).reshape(x.shape)
    return x


def _sizes(x: Array, order: int) -> tuple[tuple[int, ...], int, int]:
    if order not in (_COL, _ROW, _COL32):
        msg = f"order {order}; expected 0 (by columns), 1 (by rows) or 2 (by 32 columns): others are a device's own"
        raise KernelError(msg)
    shape = (1, *x.shape) if x.ndim < 2 else x.shape
    if x.ndim < 1 or (order == _COL32 and shape[-1] % _WIDTH):
        msg = f"a matrix of shape {x.shape} in order {order}; expected a multiple of {_WIDTH} columns"
        raise KernelError(msg)
    return shape[:-2], shape[-2], shape[-1]


def _codes(x: Array, scale: Array) -> Array:
    """round(x / scale) saturated to 8 bits."""
    codes = np.rint(x / _number(scale))
    return np.asarray(np.clip(codes, -128, 127).astype(np.int8))


def _number(scale: Array) -> np.float32:
    if scale.size != 1:
        msg = f"a scale of shape {scale.shape}; expected a single number"
        raise KernelError(msg)
    return np.float32(scale.reshape(()))


def _real(x: Array, scale: Array) -> Array:
    """Codes times a scale, one or one per column, float32."""
    if scale.size != 1 and scale.shape != x.shape[-1:]:
        given = f"a scale of shape {scale.shape} for codes of shape {x.shape}"
        msg = f"{given}; expected one number, or one for each column"
        raise KernelError(msg)
    factor = scale.reshape(()) if scale.size == 1 else scale
    return np.asarray(x.astype(np.float32) * factor.astype(np.float32))


@kernel("QuantizeWithOrder", since=1, domain=MICROSOFT)
def quantize_with_order_1(x: Array, scale_input: Array, *, order_input: int, order_output: int) -> Array:
    """round(x / scale) in 8 bits, in another order."""
    return _in_order(_codes(_by_rows(widen(x), order_input), scale_input), order_output)


@kernel("DequantizeWithOrder", since=1, domain=MICROSOFT)
def dequantize_with_order_1(x: Array, scale_input: Array, *, order_input: int, order_output: int, to: int) -> Array:
    """x · scale, in another order, as float or float16."""
    return narrow(_in_order(_real(_by_rows(x, order_input), scale_input), order_output), dtype_of(to))


@kernel("QOrderedMatMul", since=1, domain=MICROSOFT)
def qordered_matmul_1(
    a: Array,
    scale_a: Array,
    b: Array,
    scale_b: Array,
    scale_y: Array,
    bias: Array | None = None,
    c: Array | None = None,
    scale_c: Array | None = None,
    *,
    order_A: int,
    order_B: int,
    order_Y: int,
) -> Array:
    """Return a · B + bias + C of 8-bit matrices with their scales, quantized again."""
    left, right = _by_rows(a, order_A), _by_rows(b, order_B)
    # Sums of products of 8 bits are exact in float64.
    product = np.asarray(onnx("MatMul", 13, left.astype(np.float64), right.astype(np.float64)), np.float32)
    total = _real(product, scale_b) * _number(scale_a)
    if bias is not None:
        total = total + bias
    if c is not None and scale_c is not None:
        total = total + _real(_by_rows(c, order_Y), scale_c)
    return _in_order(_codes(total, scale_y), order_Y)


@kernel("QOrderedGelu", since=1, domain=MICROSOFT)
def qordered_gelu_1(
    x: Array,
    scale_x: Array,
    scale_y: Array,
    *,
    _order_X: int | None = None,  # an element goes where it came from
    _order_Y: int | None = None,
) -> Array:
    """Return the exact Gelu of x · scale_X, quantized again."""
    return _codes(gelu(_real(x, scale_x)), scale_y)


@kernel("QOrderedLayerNormalization", since=1, domain=MICROSOFT)
def qordered_layer_normalization_1(
    x: Array,
    scale_x: Array,
    scale: Array,
    b: Array | None,
    scale_y: Array,
    *,
    axis: int = -1,
    epsilon: float = 9.999999747378752e-06,
    order_X: int = _ROW,
    order_Y: int = _ROW,
) -> Array:
    """Layer normalization of x · scale_X, quantized again."""
    wide = _real(_by_rows(x, order_X), scale_x)
    shift = None if b is None else widen(b)
    y, _, _ = onnx("LayerNormalization", 17, wide, widen(scale), shift, axis=axis, epsilon=epsilon)
    return _in_order(_codes(y, scale_y), order_Y)


@kernel("QOrderedAttention", since=1, domain=MICROSOFT)
def qordered_attention_1(
    x: Array,
    scale_input: Array,
    scale_q_gemm: Array,
    scale_k_gemm: Array,
    scale_v_gemm: Array,
    q_weight: Array,
    k_weight: Array,
    v_weight: Array,
    scale_q_weight: Array,
    scale_k_weight: Array,
    scale_v_weight: Array,
    q_bias: Array,
    k_bias: Array,
    v_bias: Array,
    scale_qkt_gemm: Array | None,
    scale_qkt_softmax: Array | None,
    scale_values_gemm: Array,
    mask_index: Array | None = None,
    past: Array | None = None,
    attention_bias: Array | None = None,
    *,
    num_heads: int,
    order_input: int,
    order_output: int,
    order_weight: int,
    qkv_hidden_sizes: Sequence[int] | None = None,
    unidirectional: int = 0,
) -> Array:
    """Attention whose projections, scores, shares and output are rounded to 8 bits each."""
    if past is not None or attention_bias is not None or qkv_hidden_sizes:
        msg = "past, attention_bias and qkv_hidden_sizes are not supported in ONNX Runtime either; expected none"
        raise KernelError(msg)
    heads = []
    for weight, scale, bias, out in (
        (q_weight, scale_q_weight, q_bias, scale_q_gemm),
        (k_weight, scale_k_weight, k_bias, scale_k_gemm),
        (v_weight, scale_v_weight, v_bias, scale_v_gemm),
    ):
        codes = qordered_matmul_1(
            x, scale_input, weight, scale, out, bias, order_A=order_input, order_B=order_weight, order_Y=_ROW
        )
        heads.append(split_heads(_real(codes, out), num_heads, "the projection"))
    q, k, v = heads
    scores = np.matmul(q, k.swapaxes(-1, -2)) / np.float32(sqrt(q.shape[3] or 1))
    if scale_qkt_gemm is not None:
        scores = _real(_codes(scores, scale_qkt_gemm), scale_qkt_gemm)
    hidden = sum_biases(
        mask_bias(mask_index, q.shape[0], q.shape[2], k.shape[2]),
        causal_bias(q.shape[2], k.shape[2]) if unidirectional else None,
    )
    shares = onnx("Softmax", 13, scores if hidden is None else scores + hidden, axis=-1)
    if scale_qkt_softmax is not None:
        shares = _real(_codes(shares, scale_qkt_softmax), scale_qkt_softmax)
    return _in_order(_codes(merge_heads(np.matmul(shares, v)), scale_values_gemm), order_output)
