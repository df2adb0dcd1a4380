"""Normalization and gates of recent language models: hyper-connections, gated sums, scaled SiLU."""

from __future__ import annotations

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.microsoft.onnx_calls import MICROSOFT, onnx
from onnx_workbench.exec.kernels.onnx.reduction import mean_over
from onnx_workbench.exec.kernels.registry import kernel
from onnx_workbench.exec.kernels.shared.dtypes import narrow, widen
from onnx_workbench.exec.values.arrays import Array, check_size


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x))."""
    return np.asarray(onnx("Sigmoid", 13, x))


def normalized(x: Array, epsilon: float) -> Array:
    """Return a float32 array over the root mean square of its last axis."""
    return np.asarray(x / np.sqrt(mean_over(np.square(x), (x.ndim - 1,)) + x.dtype.type(epsilon)))


def _branches(x: Array, num_branches: int) -> Array:
    """Streams as (…, C, H), a view."""
    divides = not num_branches or (x.ndim and num_branches <= max(1, x.shape[-1]) and not x.shape[-1] % num_branches)
    if num_branches < 0 or x.ndim < 2 - bool(num_branches) or not divides:
        msg = f"streams of shape {x.shape} with num_branches {num_branches}; expected (…, C, H) or (…, C · H)"
        raise KernelError(msg)
    return x.reshape(*x.shape[:-1], num_branches, x.shape[-1] // num_branches) if num_branches else x


def _per_branch(gate: Array, streams: Array, name: str) -> Array:
    """Reshape a gate of (…, C), (…, C, 1), (…, C, H) or (…, C · H) to broadcast over (…, C, H)."""
    lead, (count, size) = streams.shape[:-2], streams.shape[-2:]
    for shape, form in (
        ((*lead, count), (*lead, count, 1)), ((*lead, count, 1), (*lead, count, 1)),
        ((*lead, count, size), streams.shape), ((*lead, count * size), streams.shape),
    ):  # fmt: skip
        if gate.shape == shape:
            return widen(gate).reshape(form)
    msg = f"{name} of shape {gate.shape} for streams of shape {streams.shape}; expected a number per branch or element"
    raise KernelError(msg)


@kernel("BranchwiseRMSNorm", since=1, domain=MICROSOFT)
def branchwise_rms_norm_1(
    x: Array, scale: Array | None = None, *, epsilon: float = 9.999999747378752e-06, num_branches: int = 0
) -> Array:
    """Each branch over its own root mean square, times a scale per element or per element of a branch."""
    streams = _branches(x, num_branches)
    y = normalized(widen(streams), epsilon)
    if scale is not None:
        flat = scale.ndim == 1 and scale.shape[0] == streams.shape[-2] * streams.shape[-1]
        y = y * widen(scale.reshape(streams.shape[-2:]) if flat else scale)
    return narrow(y.reshape(x.shape), x.dtype)


@kernel("GatedRMSNorm", since=1, domain=MICROSOFT)
def gated_rms_norm_1(
    x: Array, scale: Array, gate: Array, *, activation: str = "silu", epsilon: float = 9.999999747378752e-06
) -> Array:
    """Groups as long as `scale` over their root mean square, times scale and the activated gate."""
    size = scale.shape[0] if scale.ndim == 1 else 0
    if not size or not x.ndim or x.shape[-1] % size or gate.shape != x.shape:
        msg = f"X {x.shape}, scale {scale.shape}, gate {gate.shape}; expected X and gate alike, in groups of the scale"
        raise KernelError(msg)
    if activation not in ("silu", "swish", "sigmoid"):
        msg = f"activation is {activation!r}; expected silu, swish or sigmoid"
        raise KernelError(msg)
    y = normalized(widen(x).reshape(*x.shape[:-1], x.shape[-1] // size, size), epsilon) * widen(scale)
    wide = widen(gate)
    y = y.reshape(x.shape) * (sigmoid(wide) if activation == "sigmoid" else onnx("Swish", 24, wide))
    return narrow(y, x.dtype)


@kernel("GatedAdd", since=1, domain=MICROSOFT)
def gated_add_1(x: Array, y: Array, gate: Array) -> Array:
    """x + y · gate, with one gate for each row."""
    if x.shape != y.shape or gate.shape != (*x.shape[:-1], 1):
        msg = f"X {x.shape}, Y {y.shape}, gate {gate.shape}; expected X and Y alike and a gate per row"
        raise KernelError(msg)
    return np.asarray(onnx("Add", 14, x, onnx("Mul", 14, y, gate)))


@kernel("ScaledSiLU", since=1, domain=MICROSOFT)
def scaled_silu_1(x: Array, scale: Array | None = None, *, alpha: float = 1.0) -> Array:
    """z · sigmoid(z) where z is x times `scale`, or times `alpha` without one; rounded at each step."""
    if scale is not None and scale.size != 1:
        msg = f"scale has shape {scale.shape}; expected a single number"
        raise KernelError(msg)
    wide = widen(x)
    factor = np.asarray(alpha if scale is None else widen(scale).reshape(()), wide.dtype)
    scaled = narrow(wide * factor, x.dtype)
    return np.asarray(onnx("Mul", 14, scaled, onnx("Sigmoid", 13, scaled)))


@kernel("HyperConnectionPreMix", since=1, domain=MICROSOFT)
def hyper_connection_pre_mix_1(
    streams: Array, pre_mix: Array, *, num_branches: int = 0, reduction_scale: float = 1.0
) -> Array:
    """Return the sum of all streams, each times its gate."""
    x = _branches(streams, num_branches)
    total = (widen(x) * _per_branch(pre_mix, x, "pre_mix")).sum(-2)
    return narrow(np.asarray(total * total.dtype.type(reduction_scale)), streams.dtype)


@kernel("HyperConnectionPostMix", since=1, domain=MICROSOFT)
def hyper_connection_post_mix_1(
    streams: Array, block_output: Array, post_mix: Array, stream_mix: Array | None = None, *, num_branches: int = 0
) -> Array:
    """Mix the streams with each other and add a block's output times each stream's gate."""
    x = _branches(streams, num_branches)
    if block_output.shape != (*x.shape[:-2], x.shape[-1]):
        expected = (*x.shape[:-2], x.shape[-1])
        msg = f"block_output of shape {block_output.shape} for streams of shape {x.shape}; expected {expected}"
        raise KernelError(msg)
    total = widen(x)
    if stream_mix is not None:
        total = np.matmul(np.swapaxes(widen(stream_mix), -1, -2), total)
    total = total + _per_branch(post_mix, x, "post_mix") * widen(block_output)[..., None, :]
    return narrow(total.reshape(streams.shape), streams.dtype)


@kernel("EngramGate", since=1, domain=MICROSOFT)
def engram_gate_1(
    key: Array,
    query: Array,
    value: Array,
    key_norm_scale: Array,
    query_norm_scale: Array,
    conv_norm_scale: Array | None = None,
    *,
    epsilon: float = 9.999999747378752e-06,
) -> tuple[Array, Array | None]:
    """Return the value times the gated dot product of normalized keys and queries; also the normalized value."""
    if key.ndim != 4 or query.shape != key.shape or value.shape != (*key.shape[:2], key.shape[3]):
        msg = f"key {key.shape}, query {query.shape}, value {value.shape}; expected (B, S, C, H) twice and (B, S, H)"
        raise KernelError(msg)
    check_size(key.shape, np.float32)
    keys = normalized(widen(key), epsilon) * widen(key_norm_scale)
    queries = normalized(widen(query), epsilon) * widen(query_norm_scale)
    agreement = (keys * queries).sum(-1, keepdims=True) / np.sqrt(np.float32(key.shape[3]))
    gate = sigmoid(np.sign(agreement) * np.sqrt(np.maximum(np.abs(agreement), np.float32(1e-6))))
    gated = gate * widen(value)[:, :, None]
    normed = None if conv_norm_scale is None else normalized(gated, epsilon) * widen(conv_norm_scale)
    return narrow(gated, key.dtype), None if normed is None else narrow(normed, key.dtype)
