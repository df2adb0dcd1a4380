"""Products with weights of float8 or float4 whose blocks have a scale each."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.microsoft.activations import plus
from onnx_workbench.exec.kernels.microsoft.blocks import unpacked
from onnx_workbench.exec.kernels.microsoft.onnx_calls import MICROSOFT, onnx
from onnx_workbench.exec.kernels.registry import kernel
from onnx_workbench.exec.kernels.shared.axes import scalar_float
from onnx_workbench.exec.kernels.shared.dtypes import cast, decode, narrow, widen
from onnx_workbench.exec.values.arrays import Array, check_size
from onnx_workbench.exec.values.statistics import describe

_E4M3 = np.dtype(ml_dtypes.float8_e4m3fn)
_E2M1 = np.dtype(ml_dtypes.float4_e2m1fn)


@kernel("MatMulBlockQuantizedFp8Weight", since=1, domain=MICROSOFT)
def matmul_block_quantized_fp8_weight_1(
    a: Array,
    b: Array,
    b_scale: Array,
    a_scale: Array | None = None,
    bias: Array | None = None,
    *,
    block_size: int = 128,
) -> Array:
    """A times the transpose of float8 weights [N, K]; with `a_scale` A is rounded to float8 of that scale first."""
    wide = widen(a)
    if a_scale is not None:
        factor = np.float32(scalar_float(a_scale, "a_scale"))
        wide = decode(cast(wide / factor, _E4M3), np.float32) * factor
    return _product(a, wide, _scaled(decode(b, np.float32), b_scale, block_size), bias)


@kernel("MatMulBlockQuantizedFp4Weight", since=1, domain=MICROSOFT)
def matmul_block_quantized_fp4_weight_1(
    a: Array,
    b: Array,
    weight_scale: Array,
    weight_scale_2: Array,
    _input_scale: Array | None = None,  # of activations of 4 bits, which A is not
    bias: Array | None = None,
    *,
    block_size: int = 16,
) -> Array:
    """A times the transpose of weights [N, K], two of E2M1 in a byte, their scales E4M3 in bytes and one of all."""
    if b.ndim != 2 or b.dtype != np.uint8 or weight_scale.dtype != np.uint8:
        msg = f"B is {describe(b)}, weight_scale {describe(weight_scale)}; expected bytes [N, K / 2] and bytes"
        raise KernelError(msg)
    check_size((b.shape[0], 2 * b.shape[1]), np.float32)
    codes = unpacked(b, 4, 2 * b.shape[1])
    weights = _scaled(decode(codes.view(_E2M1), np.float32), decode(weight_scale.view(_E4M3), np.float32), block_size)
    return _product(a, widen(a), weights * np.float32(scalar_float(weight_scale_2, "weight_scale_2")), bias)


def _scaled(weights: Array, scales: Array, block_size: int) -> Array:
    """Weights [N, K] times the scales [N, blocks] of their blocks."""
    if weights.ndim != 2 or block_size < 1 or scales.shape != (len(weights), -(-weights.shape[1] // block_size)):
        msg = f"weights {weights.shape} and scales {scales.shape}; expected (N, K) and (N, K / {block_size} rounded up)"
        raise KernelError(msg)
    spread = np.repeat(scales, min(block_size, max(1, weights.shape[1])), 1)[:, : weights.shape[1]]
    return np.asarray(weights * spread)


def _product(a: Array, wide: Array, weights: Array, bias: Array | None) -> Array:
    if not a.ndim or a.shape[-1] != weights.shape[1]:
        msg = f"A has shape {a.shape}; expected {weights.shape[1]} columns"
        raise KernelError(msg)
    y = np.asarray(onnx("MatMul", 13, wide, weights.T.astype(wide.dtype, copy=False)))
    return narrow(plus(y, None if bias is None else widen(bias)), a.dtype)
