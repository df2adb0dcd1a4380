"""Products of block-quantized matrices with a shared, normalized input, fused into one operator."""

from __future__ import annotations

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.microsoft.activations import plus
from onnx_workbench.exec.kernels.microsoft.blocks import matmul_nbits_1
from onnx_workbench.exec.kernels.microsoft.normalization import over_root_mean_square
from onnx_workbench.exec.kernels.microsoft.onnx_calls import MICROSOFT, activate
from onnx_workbench.exec.kernels.registry import kernel
from onnx_workbench.exec.values.arrays import Array


def _normed(a: Array, skip: Array | None, scale: Array | None, epsilon: float) -> tuple[Array, Array | None]:
    """Return the input plus skip, RMS-normalized (not without a scale), and that sum."""
    if scale is None and skip is not None:
        msg = "skip is given without norm_scale; expected both, norm_scale alone or neither"
        raise KernelError(msg)
    total = plus(a, skip)
    if scale is None:
        return a, None
    return over_root_mean_square(total, scale, total.ndim - 1, epsilon)[0], None if skip is None else total


@kernel("MatMulNBitsMlp", since=1, domain=MICROSOFT)
def matmul_nbits_mlp_1(
    a: Array,
    skip: Array | None,
    norm_scale: Array | None,
    gate_b: Array,
    gate_scales: Array,
    gate_bias: Array | None,
    up_b: Array,
    up_scales: Array,
    up_bias: Array | None = None,
    *,
    K: int,
    N: int,
    _accuracy_level: int = 0,  # allows less accuracy, which is not needed here
    activation: str,
    bits: int = 4,
    block_size: int,
    epsilon: float = 9.999999747378752e-06,
) -> tuple[Array, Array | None]:
    """Return the activation of one product times another product of the same input (gated MLP)."""
    x, total = _normed(a, skip, norm_scale, epsilon)
    gate, up = (
        matmul_nbits_1(x, b, scales, None, None, bias, K=K, N=N, bits=bits, block_size=block_size)
        for b, scales, bias in ((gate_b, gate_scales, gate_bias), (up_b, up_scales, up_bias))
    )
    return np.multiply(activate(gate, activation.capitalize()), up), total


@kernel("MatMulNBitsQkv", since=1, domain=MICROSOFT)
def matmul_nbits_qkv_1(
    a: Array,
    skip: Array | None,
    norm_scale: Array,
    q_b: Array,
    q_scales: Array,
    q_bias: Array | None,
    k_b: Array,
    k_scales: Array,
    k_bias: Array | None,
    v_b: Array,
    v_scales: Array,
    v_bias: Array | None = None,
    *,
    K: int,
    Nkv: int,
    Nq: int,
    _accuracy_level: int = 0,  # allows less accuracy, which is not needed here
    bits: int = 4,
    block_size: int,
    epsilon: float = 9.999999974752427e-07,
) -> tuple[Array, Array, Array, Array | None]:
    """Queries, keys and values of the same normalized input."""
    x, total = _normed(a, skip, norm_scale, epsilon)
    q, k, v = (
        matmul_nbits_1(x, b, scales, None, None, bias, K=K, N=size, bits=bits, block_size=block_size)
        for b, scales, bias, size in (
            (q_b, q_scales, q_bias, Nq), (k_b, k_scales, k_bias, Nkv), (v_b, v_scales, v_bias, Nkv),
        )
    )  # fmt: skip
    return q, k, v, total
