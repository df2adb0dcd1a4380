"""Mixture of experts: MoE and QMoE route each token to its top-k experts and combine their results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.microsoft.activations import gelu
from onnx_workbench.exec.kernels.microsoft.blocks import unpacked
from onnx_workbench.exec.kernels.microsoft.onnx_calls import MICROSOFT, activate
from onnx_workbench.exec.kernels.registry import kernel
from onnx_workbench.exec.kernels.shared.dtypes import narrow, widen
from onnx_workbench.exec.values.arrays import Array, check_size, zeros
from onnx_workbench.exec.values.limits import checkpoint

#: Maps an expert's number to its weights [outputs, inputs] in a wide type and its bias.
_Layer = Callable[[int], tuple[Array, Array | None]]


@dataclass(frozen=True, slots=True)
class _Rules:
    """The attributes both operators share."""

    activation: str
    alpha: float
    beta: float
    limit: float | None
    fusion: int
    k: int
    normalize: bool


@kernel("MoE", since=1, domain=MICROSOFT)
def moe_1(
    x: Array,
    router_probs: Array,
    fc1_weights: Array,
    fc1_bias: Array | None,
    fc2_weights: Array,
    fc2_bias: Array | None = None,
    fc3_weights: Array | None = None,
    fc3_bias: Array | None = None,
    *,
    activation_alpha: float = 1.0,
    activation_beta: float = 0.0,
    activation_type: str = "relu",
    k: int = 1,
    normalize_routing_weights: int = 0,
    swiglu_fusion: int = 0,
    swiglu_limit: float | None = None,
    use_sparse_mixer: int = 0,
) -> Array:
    """Return a mixture of experts of two or three layers, weights [experts, outputs, inputs]."""
    if use_sparse_mixer:
        msg = "use_sparse_mixer needs a GPU in ONNX Runtime too; expected 0"
        raise KernelError(msg)
    rules = _Rules(
        activation_type, activation_alpha, activation_beta, swiglu_limit, swiglu_fusion, k,
        bool(normalize_routing_weights),
    )  # fmt: skip
    third = None if fc3_weights is None else _plain(fc3_weights, fc3_bias)
    return _mixed(
        x, router_probs, router_probs, _plain(fc1_weights, fc1_bias), _plain(fc2_weights, fc2_bias), third, rules
    )


def _plain(weights: Array, bias: Array | None) -> _Layer:
    if weights.ndim != 3:
        msg = f"weights of shape {weights.shape}; expected (experts, outputs, inputs)"
        raise KernelError(msg)
    return lambda e: (widen(weights[e]), None if bias is None else widen(bias[e]))


def _mixed(
    x: Array, router: Array, weigher: Array, first: _Layer, second: _Layer, third: _Layer | None, rules: _Rules
) -> Array:
    if x.ndim not in (2, 3):
        msg = f"input of shape {x.shape}; expected (tokens, hidden) or (batch, sequence, hidden)"
        raise KernelError(msg)
    tokens = widen(x).reshape(-1, x.shape[-1])
    experts = router.shape[1] if router.ndim == 2 else 0
    if len(router) != len(tokens) or weigher.shape != router.shape or not 1 <= rules.k <= experts:
        msg = (
            f"input {x.shape}, router_probs {router.shape}, k {rules.k}; expected a row per token and k of the experts"
        )
        raise KernelError(msg)
    chosen, shares = _routes(widen(router), widen(weigher), weigher is not router, rules)
    result = zeros(tokens.shape, tokens.dtype)
    for expert in range(experts):
        rows, index = np.nonzero(chosen == expert)
        if not rows.size:
            continue
        checkpoint()
        inner = _linear(tokens[rows], first(expert))
        gated = None if third is None else _linear(tokens[rows], third(expert))
        y = _linear(_activated(inner, gated, rules), second(expert))
        result[rows] += y * shares[rows, index][:, None]  # a token names an expert once
    return narrow(result.reshape(x.shape), x.dtype)


def _routes(router: Array, weigher: Array, separate: bool, rules: _Rules) -> tuple[Array, Array]:
    """Return the experts of each token, and the weights of their results."""
    order = np.argsort(-router, 1, kind="stable")[:, : rules.k]
    if separate:
        shares = np.take_along_axis(weigher, order, 1)
    else:
        powers = np.exp(router - router.max(1, keepdims=True))
        shares = np.take_along_axis(powers / powers.sum(1, keepdims=True), order, 1)
    if rules.normalize:
        shares = shares / shares.sum(1, keepdims=True)
    return order, shares


def _linear(x: Array, layer: tuple[Array, Array | None]) -> Array:
    weights, bias = layer
    if weights.shape[1] != x.shape[1]:
        msg = f"weights of {weights.shape} for {x.shape[1]} inputs; expected (outputs, {x.shape[1]})"
        raise KernelError(msg)
    y = x @ weights.T.astype(x.dtype, copy=False)
    return np.asarray(y if bias is None else y + bias)


def _activated(x: Array, gate: Array | None, rules: _Rules) -> Array:
    if rules.activation == "swiglu":
        return _swiglu(x, gate, rules)
    names = {"relu": "Relu", "silu": "SiLU", "identity": None}
    if rules.activation == "gelu":
        y = gelu(x, tanh=True)
    elif rules.activation in names:
        y = activate(x, names[rules.activation])
    else:
        msg = f"activation_type is {rules.activation!r}; expected {', '.join(names)}, gelu or swiglu"
        raise KernelError(msg)
    return y if gate is None else np.asarray(y * gate)


def _swiglu(x: Array, gate: Array | None, rules: _Rules) -> Array:
    if gate is not None:
        g, linear = x, gate
    elif rules.fusion == 1:
        g, linear = x[:, ::2], x[:, 1::2]
    else:
        g, linear = np.split(x, 2, axis=1)
    if rules.limit is not None:
        g, linear = np.minimum(g, rules.limit), np.clip(linear, -rules.limit, rules.limit)
    sigmoid = 0.5 * (1 + np.tanh(0.5 * rules.alpha * g))
    return np.asarray(g * sigmoid * (linear + rules.beta), x.dtype)


@kernel("QMoE", since=1, domain=MICROSOFT)
def qmoe_1(
    x: Array,
    router_probs: Array,
    fc1_weights: Array,
    fc1_scales: Array,
    fc1_bias: Array | None,
    fc2_weights: Array,
    fc2_scales: Array,
    fc2_bias: Array | None = None,
    fc3_weights: Array | None = None,
    fc3_scales: Array | None = None,
    fc3_bias: Array | None = None,
    fc1_zero_points: Array | None = None,
    fc2_zero_points: Array | None = None,
    fc3_zero_points: Array | None = None,
    router_weights: Array | None = None,
    *more: Array | None,
    activation_alpha: float = 1.0,
    activation_beta: float = 0.0,
    activation_type: str = "relu",
    block_size: int | None = None,
    expert_weight_bits: int = 4,
    k: int = 1,
    normalize_routing_weights: int = 0,
    quant_type: str = "int",
    swiglu_fusion: int = 0,
    swiglu_limit: float | None = None,
    use_sparse_mixer: int = 0,
    **hints: int,
) -> Array:
    """MoE whose weights are codes of 4 or 8 bits, with a scale per row or per block of a row."""
    if (
        use_sparse_mixer
        or quant_type != "int"
        or any(v is not None for v in more)
        or hints.get("weights_prepacked", -1) > 0
    ):
        msg = f"quant_type is {quant_type!r}; expected int, no sparse mixer, and weights laid out for no GPU"
        raise KernelError(msg)
    # ONNX Runtime's CPU kernel normalizes the weights of the chosen experts in any case.
    rules = _Rules(
        activation_type, activation_alpha, activation_beta, swiglu_limit, swiglu_fusion, k,
        bool(normalize_routing_weights) or router_weights is None,
    )  # fmt: skip

    def layer(weights: Array, scales: Array, zero: Array | None, bias: Array | None) -> _Layer:
        return lambda e: (
            _expanded(weights[e], scales[e], None if zero is None else zero[e], expert_weight_bits, block_size),
            None if bias is None else widen(bias[e]),
        )

    third = None
    if fc3_weights is not None and fc3_scales is not None:
        third = layer(fc3_weights, fc3_scales, fc3_zero_points, fc3_bias)
    first = layer(fc1_weights, fc1_scales, fc1_zero_points, fc1_bias)
    second = layer(fc2_weights, fc2_scales, fc2_zero_points, fc2_bias)
    weigher = router_probs if router_weights is None else router_weights
    return _mixed(x, router_probs, weigher, first, second, third, rules)


def _expanded(codes: Array, scales: Array, zero: Array | None, bits: int, block_size: int | None) -> Array:
    """Dequantize one expert's matrix to float32."""
    if codes.ndim != 2 or bits not in (4, 8):
        msg = f"weights of shape {codes.shape} and {bits} bits; expected a matrix of 4 or 8 bits per expert"
        raise KernelError(msg)
    width = codes.shape[1] * (8 // bits)
    check_size((len(codes), width), np.float32)
    factor = widen(scales).reshape(len(codes), -1)
    size = min(block_size or width, width)
    if factor.shape[1] * size < width:
        msg = f"{factor.shape[1]} scales a row for {width} weights in blocks of {size}; expected one for each block"
        raise KernelError(msg)
    wide = unpacked(codes, bits, width).astype(np.float32)
    if zero is None:
        wide -= 1 << (bits - 1)
    else:
        points = unpacked(zero.reshape(len(codes), -1), bits, factor.shape[1]).astype(np.float32)
        wide -= np.repeat(points, size, 1)[:, :width]
    wide *= np.repeat(factor, size, 1)[:, :width]
    return wide
