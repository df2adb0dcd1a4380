"""Sliding-window attention with global tokens (Longformer), and paged attention."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.microsoft.activations import plus
from onnx_workbench.exec.kernels.microsoft.attention import (
    attend,
    attend_with_sinks,
    grouped,
    merge_heads,
    rotate,
    split_projections,
    window_bias,
)
from onnx_workbench.exec.kernels.microsoft.onnx_calls import MICROSOFT, onnx
from onnx_workbench.exec.kernels.registry import kernel
from onnx_workbench.exec.kernels.shared.dtypes import narrow, widen
from onnx_workbench.exec.values.arrays import Array, check_size, empty
from onnx_workbench.exec.values.limits import checkpoint


@kernel("LongformerAttention", since=1, domain=MICROSOFT)
def longformer_attention_1(
    x: Array,
    weight: Array,
    bias: Array,
    mask: Array,
    global_weight: Array,
    global_bias: Array,
    global_attention: Array,
    *,
    num_heads: int,
    window: int,
) -> Array:
    """Longformer: each token attends to its neighbours and the global tokens; these attend to all, with own
    projections.
    """
    if x.ndim != 3 or weight.ndim != 2 or mask.shape != x.shape[:2] or global_attention.shape != x.shape[:2]:
        msg = f"input {x.shape}, weight {weight.shape}, mask {mask.shape}; expected (batch, sequence, hidden) and alike"
        raise KernelError(msg)
    if window < 1:
        msg = f"window is {window}; expected 1 or more"
        raise KernelError(msg)
    length = x.shape[1]
    check_size((x.shape[0], num_heads, length, length), np.float32)
    index = np.arange(length)
    is_global = global_attention != 0
    near = np.abs(index[:, None] - index) <= window
    hidden = np.where(near | is_global[:, None, :], widen(mask)[:, None, :], np.finfo(np.float32).min)
    q, k, v = split_projections(plus(onnx("MatMul", 13, x, weight), bias), num_heads)
    y = attend(q, k, v, hidden[:, None], None)
    if is_global.any():
        q, k, v = split_projections(plus(onnx("MatMul", 13, x, global_weight), global_bias), num_heads)
        y = np.where(is_global[:, None, :, None], attend(q, k, v, widen(mask)[:, None, None, :], None), y)
    return merge_heads(y)


@kernel("PagedAttention", since=1, domain=MICROSOFT)
def paged_attention_1(
    query: Array,
    key: Array | None,
    value: Array | None,
    key_cache: Array,
    value_cache: Array | None,
    cumulative_sequence_length: Array,
    past_seqlens: Array,
    block_table: Array,
    cos_cache: Array | None = None,
    sin_cache: Array | None = None,
    slot_mapping: Array | None = None,
    head_sink: Array | None = None,
    q_norm_weight: Array | None = None,
    k_norm_weight: Array | None = None,
    k_scale: Array | None = None,
    v_scale: Array | None = None,
    _attention_metadata: Array | None = None,  # bounds for a device
    *,
    do_rotary: int | None = None,
    is_causal: int = 1,
    _k_cache_dtype: str = "",  # determined by the cache, unless that is quantized
    k_quant_type: str = "NONE",
    kv_cache_layout: str = "SEPARATE",
    kv_num_heads: int,
    local_window_size: int = -1,
    num_heads: int,
    qk_norm_epsilon: float | None = None,
    rotary_interleaved: int | None = None,
    rotary_offset: int | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    _v_cache_dtype: str = "",
    v_head_size: int | None = None,
    v_quant_type: str = "NONE",
) -> tuple[Array, Array, Array]:
    """Paged attention of concatenated sequences over a cache in blocks, assigned by a block table."""
    if (k_quant_type, v_quant_type, kv_cache_layout) != ("NONE", "NONE", "SEPARATE") or value_cache is None or (
        v_head_size or rotary_offset or k_scale is not None or v_scale is not None
    ):  # fmt: skip
        msg = f"cache {kv_cache_layout}, {k_quant_type}, {v_quant_type}; expected separate ones, not quantized"
        raise KernelError(msg)
    if query.ndim != 2 or key_cache.ndim != 4 or value_cache.shape != key_cache.shape:
        msg = f"query {query.shape}, caches {key_cache.shape}, {value_cache.shape}; expected 2, and 4 dimensions alike"
        raise KernelError(msg)
    wide = (query[None], None if key is None else key[None], None if value is None else value[None])
    q, k, v = grouped(*wide, num_heads, kv_num_heads)
    if q_norm_weight is not None and k_norm_weight is not None:
        epsilon = 1e-6 if qk_norm_epsilon is None else qk_norm_epsilon
        q = onnx("RMSNormalization", 23, q, q_norm_weight, epsilon=epsilon)
        k = onnx("RMSNormalization", 23, k, k_norm_weight, epsilon=epsilon)
    bounds, before = _packed_lengths(cumulative_sequence_length, past_seqlens, q.shape[2])
    if do_rotary:
        places = np.concatenate([b + np.arange(e - s) for (s, e), b in zip(pairwise(bounds), before, strict=True)])
        q, k = (rotate(x, places[None], cos_cache, sin_cache, bool(rotary_interleaved)) for x in (q, k))
    keys, values = key_cache.copy(), value_cache.copy()
    slots = [_slots(block_table, row, b + e - s, key_cache) for row, ((s, e), b) in enumerate(
        zip(pairwise(bounds), before, strict=True))]  # fmt: skip
    written = slot_mapping
    if written is None:
        written = np.concatenate([found[b:] for found, b in zip(slots, before, strict=True)])
    _write(keys, k, written)
    _write(values, v, written)
    y = empty((1, num_heads, q.shape[2], v.shape[3]), q.dtype)
    for (start, end), past, found in zip(pairwise(bounds), before, slots, strict=True):
        checkpoint()
        seen = window_bias(np.array([past]), end - start, len(found), local_window_size, is_causal)
        own, given = (cache.reshape(-1, *cache.shape[2:])[found].swapaxes(0, 1)[None] for cache in (keys, values))
        part = q[:, :, start:end]
        y[:, :, start:end] = attend_with_sinks(part, own, given, seen, scale, softcap or 0.0, head_sink)
    return narrow(merge_heads(y)[0], query.dtype), keys, values


def _packed_lengths(ends: Array, past: Array, tokens: int) -> tuple[list[int], list[int]]:
    """Return the bounds of each sequence in the table, and its past length."""
    bounds, before = ends.reshape(-1).tolist(), past.reshape(-1).tolist()
    if len(bounds) != len(before) + 1 or not before or bounds[0] != 0 or bounds[-1] != tokens or (
        bounds != sorted(bounds) or min(before) < 0
    ):  # fmt: skip
        given = f"cumulative lengths {bounds[:20]} and past lengths {before[:20]} for {tokens} tokens"
        msg = f"{given}; expected lengths rising from 0 to {tokens}, and past lengths from 0 between them"
        raise KernelError(msg)
    return bounds, before


def _slots(table: Array, row: int, count: int, cache: Array) -> Array:
    """Return the cache slots of the first `count` tokens of a sequence."""
    blocks, size = cache.shape[:2]
    if table.ndim != 2 or row >= len(table) or not size or count > table.shape[1] * size:
        given = f"block_table of shape {table.shape} for {count} tokens of sequence {row} in blocks of {size}"
        msg = f"{given}; expected a row for each sequence, with blocks for all its tokens"
        raise KernelError(msg)
    used = table[row, : -(-count // size)].astype(np.int64)
    if used.size and not 0 <= int(used.min()) <= int(used.max()) < blocks:
        msg = f"block_table names blocks {used.min()} to {used.max()} of {blocks}; expected within [0, {blocks - 1}]"
        raise KernelError(msg)
    return np.asarray((used[:, None] * size + np.arange(size)).reshape(-1)[:count])


def _write(cache: Array, now: Array, slots: Array) -> None:
    """Write new entries (1, heads, tokens, size) into a cache; slot -1 is skipped."""
    flat = cache.reshape(-1, *cache.shape[2:])
    rows = now[0].swapaxes(0, 1)
    if slots.shape != (len(rows),) or rows.shape[1:] != flat.shape[1:] or (
        slots.size and not -1 <= int(slots.min()) <= int(slots.max()) < len(flat)
    ):  # fmt: skip
        given = f"{rows.shape} new entries for slots {slots.shape} of a cache of shape {cache.shape}"
        msg = f"{given}; expected entries of shape {flat.shape[1:]}, each with a slot within [-1, {len(flat) - 1}]"
        raise KernelError(msg)
    kept = slots >= 0
    flat[slots[kept]] = rows[kept]
