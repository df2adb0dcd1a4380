"""Attention of sequences without padding: all tokens in one table, with cumulative lengths."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import prod

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.microsoft.activations import plus
from onnx_workbench.exec.kernels.microsoft.attention import attend, split_projections
from onnx_workbench.exec.kernels.microsoft.onnx_calls import MICROSOFT, onnx
from onnx_workbench.exec.kernels.registry import kernel
from onnx_workbench.exec.values.arrays import Array, empty
from onnx_workbench.exec.values.limits import checkpoint


@kernel("PackedAttention", since=1, domain=MICROSOFT)
def packed_attention_1(
    x: Array,
    weights: Array,
    bias: Array,
    token_offset: Array,
    cumulative_sequence_length: Array,
    attention_bias: Array | None = None,
    *,
    num_heads: int,
    qkv_hidden_sizes: Sequence[int] | None = None,
    scale: float | None = None,
) -> Array:
    """Attention of tokens (count, hidden), projected in one product."""
    if x.ndim != 2 or weights.ndim != 2:
        msg = f"input {x.shape} and weights {weights.shape}; expected two dimensions of each"
        raise KernelError(msg)
    projected = plus(onnx("MatMul", 13, x, weights), bias)
    q, k, v = split_projections(projected[None], num_heads, qkv_hidden_sizes)
    return _each(q, k, v, token_offset, cumulative_sequence_length, attention_bias, scale)


@kernel("PackedMultiHeadAttention", since=1, domain=MICROSOFT)
def packed_multi_head_attention_1(
    query: Array,
    key: Array | None,
    value: Array | None,
    bias: Array | None,
    token_offset: Array,
    cumulative_sequence_length: Array,
    attention_bias: Array | None = None,
    *,
    _mask_filter_value: float | None = None,  # there is no padding to hide
    num_heads: int,
    scale: float | None = None,
) -> Array:
    """Attention of projected tokens: three tables, or one (count, heads, 3, size)."""
    if key is None or value is None:
        if query.ndim != 4 or query.shape[2] != 3:
            msg = f"query of shape {query.shape} without key and value; expected (tokens, heads, 3, size)"
            raise KernelError(msg)
        tables = [query[:, :, i].reshape(len(query), -1) for i in range(3)]
    else:
        tables = [query, key, value]
    joined = plus(np.concatenate(tables, 1), bias)
    q, k, v = split_projections(joined[None], num_heads, [t.shape[1] for t in tables])
    return _each(q, k, v, token_offset, cumulative_sequence_length, attention_bias, scale)


def _each(q: Array, k: Array, v: Array, offsets: Array, ends: Array, bias: Array | None, scale: float | None) -> Array:
    """Attention within each sequence; heads are (1, heads, tokens, size)."""
    bounds = ends.reshape(-1).tolist()
    batch = offsets.shape[0] if offsets.ndim == 2 else 0
    if len(bounds) != batch + 1 or bounds[0] != 0 or bounds[-1] != q.shape[2] or bounds != sorted(bounds):
        given = f"cumulative lengths {bounds[:20]} for {batch} sequences of {q.shape[2]} tokens in all"
        msg = f"{given}; expected {batch + 1} rising from 0 to {q.shape[2]}"
        raise KernelError(msg)
    result = empty((q.shape[2], q.shape[1], v.shape[3]), q.dtype)
    for entry, (start, end) in enumerate(itertools.pairwise(bounds)):
        checkpoint()
        rows = slice(start, end)
        added = None
        if bias is not None:
            added = bias[min(entry, len(bias) - 1)][None, :, : end - start, : end - start]
        y = attend(q[:, :, rows], k[:, :, rows], v[:, :, rows], added, scale)
        result[rows] = y[0].transpose(1, 0, 2)
    return result.reshape(q.shape[2], prod(result.shape[1:]))
