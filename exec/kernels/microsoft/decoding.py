"""Attention of one new token per step with a cache, and block-sparse attention."""

from __future__ import annotations

from math import sqrt

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.microsoft.activations import plus
from onnx_workbench.exec.kernels.microsoft.attention import (
    attend,
    grouped,
    mask_bias,
    merge_heads,
    rotate,
    split_heads,
    split_projections,
    sum_biases,
)
from onnx_workbench.exec.kernels.microsoft.cache import appended
from onnx_workbench.exec.kernels.microsoft.onnx_calls import MICROSOFT, onnx
from onnx_workbench.exec.kernels.registry import kernel
from onnx_workbench.exec.kernels.shared.axes import scalar_int
from onnx_workbench.exec.kernels.shared.dtypes import narrow, widen
from onnx_workbench.exec.values.arrays import Array, check_size


@kernel("DecoderMaskedMultiHeadAttention", since=1, domain=MICROSOFT)
def decoder_masked_multi_head_attention_1(
    query: Array,
    key: Array | None = None,
    value: Array | None = None,
    mask_index: Array | None = None,
    attention_bias: Array | None = None,
    past_key: Array | None = None,
    past_value: Array | None = None,
    past_sequence_length: Array | None = None,
    _beam_width: Array | None = None,  # determined by the shape of cache_indirection
    cache_indirection: Array | None = None,
    bias: Array | None = None,
    *,
    mask_filter_value: float | None = None,
    num_heads: int,
    output_qk: int | None = None,
    past_present_share_buffer: int | None = None,
    scale: float | None = None,
) -> tuple[Array, Array | None, Array | None, Array | None]:
    """Attention of one token over its cache, or over an encoder's; cache_indirection maps beams to histories."""
    if key is not None and value is not None and key.ndim == 4:
        _check_token(query)
        own = None if bias is None else bias[: query.shape[2]]
        q = split_heads(plus(query, own), num_heads, "query")
        _check_cross(q, key, value)
        y, scores = _one_step(q, key, value, mask_index, attention_bias, mask_filter_value, scale)
        return y, None, None, scores if output_qk else None
    packed, sizes = query, None
    if key is not None and value is not None:
        packed, sizes = np.concatenate([query, key, value], 2), (query.shape[2], key.shape[2], value.shape[2])
    _check_token(packed)
    q, k, v = split_projections(plus(packed, bias), num_heads, sizes)
    shared = bool(past_present_share_buffer)
    present_key, k = appended(past_key, k, past_sequence_length, cache_indirection, shared)
    present_value, v = appended(past_value, v, past_sequence_length, cache_indirection, shared)
    y, scores = _one_step(q, k, v, mask_index, attention_bias, mask_filter_value, scale)
    return y, present_key, present_value, scores if output_qk else None


def _check_token(query: Array) -> None:
    if query.ndim != 3 or query.shape[1] != 1:
        msg = f"query of shape {query.shape}; expected (batch, 1, hidden)"
        raise KernelError(msg)


def _check_cross(q: Array, k: Array, v: Array) -> None:
    if k.shape[:2] != q.shape[:2] or k.shape[3] != q.shape[3] or v.shape[:3] != k.shape[:3]:
        msg = f"query heads {q.shape}, key {k.shape}, value {v.shape}; expected the same batch, heads and lengths"
        raise KernelError(msg)


def _one_step(
    q: Array,
    k: Array,
    v: Array,
    mask: Array | None,
    attention_bias: Array | None,
    fill: float | None,
    scale: float | None,
) -> tuple[Array, Array]:
    """Return the merged output, and the scores before softmax."""
    bias = sum_biases(mask_bias(mask, q.shape[0], 1, k.shape[2], fill), attention_bias)
    scores = np.matmul(widen(q), np.swapaxes(widen(k), -1, -2))
    scores *= scores.dtype.type(scale or 1 / sqrt(q.shape[3] or 1))
    if bias is not None:
        scores = scores + bias
    return merge_heads(attend(q, k, v, bias, scale)), narrow(scores, q.dtype)


@kernel("DecoderMaskedSelfAttention", since=1, domain=MICROSOFT)
def decoder_masked_self_attention_1(
    x: Array,
    weights: Array,
    bias: Array,
    mask_index: Array | None,
    past: Array,
    attention_bias: Array | None,
    past_sequence_length: Array,
    _beam_width: Array | None = None,  # determined by the shape of cache_indirection
    cache_indirection: Array | None = None,
    *,
    do_rotary: int | None = None,
    mask_filter_value: float | None = None,
    num_heads: int,
    past_present_share_buffer: int | None = None,
    scale: float | None = None,
) -> tuple[Array, Array]:
    """Return the same with the projection in one product and one cache for keys and values."""
    if do_rotary or past.ndim != 5 or past.shape[0] != 2:
        msg = f"do_rotary {do_rotary}, past of shape {past.shape}; expected none and (2, batch, heads, length, size)"
        raise KernelError(msg)
    packed = plus(onnx("MatMul", 13, x, weights), bias)
    _check_token(packed)
    q, k, v = split_projections(packed, num_heads)
    shared = bool(past_present_share_buffer)
    present_key, k = appended(past[0], k, past_sequence_length, cache_indirection, shared)
    present_value, v = appended(past[1], v, past_sequence_length, cache_indirection, shared)
    y, _ = _one_step(q, k, v, mask_index, attention_bias, mask_filter_value, scale)
    return y, np.stack([present_key, present_value])


@kernel("DecoderAttention", since=1, domain=MICROSOFT)
def decoder_attention_1(
    query: Array,
    key: Array,
    q_weight: Array,
    kv_weight: Array,
    bias: Array,
    key_padding_mask: Array | None,
    key_cache: Array | None,
    value_cache: Array | None,
    static_kv: Array,
    use_past: Array,
    has_layer_state: Array,
    has_key_padding_mask: Array,
    *,
    mask_filter_value: float | None = None,
    num_heads: int,
) -> tuple[Array, Array, Array]:
    """Self or cross attention of (sequence, batch, hidden) with or without its cache, as four inputs say."""
    if query.ndim != 3 or key.ndim != 3 or bias.shape != (3 * query.shape[2],):
        msg = f"query {query.shape}, key {key.shape}, bias {bias.shape}; expected two of rank 3 and (3 · hidden,)"
        raise KernelError(msg)
    cross, past = bool(static_kv), bool(use_past) and bool(has_layer_state)
    hidden = query.shape[2]
    q = _projected(query, q_weight, bias[:hidden], num_heads, 1)[0]
    if cross and past:
        if key_cache is None or value_cache is None:
            msg = "static_kv and use_past need key_cache and value_cache"
            raise KernelError(msg)
        k, v = key_cache, value_cache
    else:
        k, v = _projected(key if cross else query, kv_weight, bias[hidden:], num_heads, 2)
        if past:
            k, v = appended(key_cache, k, None, None, False)[0], appended(value_cache, v, None, None, False)[0]
    hidden_keys = None
    if bool(has_key_padding_mask) and key_padding_mask is not None:
        hidden_keys = mask_bias(
            ~key_padding_mask.astype(bool), q.shape[0], q.shape[2], k.shape[2],
            mask_filter_value,
        )  # fmt: skip
    y = attend(q, k, v, hidden_keys, None)
    return np.ascontiguousarray(merge_heads(y).transpose(1, 0, 2)), k, v


def _projected(x: Array, weight: Array, bias: Array, heads: int, count: int) -> list[Array]:
    """Apply concatenated projections to (S, B, hidden), and split each into heads."""
    y = plus(onnx("MatMul", 13, x.transpose(1, 0, 2), weight), bias)
    return [split_heads(part, heads, "the projection") for part in np.split(y, count, 2)]


@kernel("SparseAttention", since=1, domain=MICROSOFT)
def sparse_attention_1(
    query: Array,
    key: Array | None,
    value: Array | None,
    past_key: Array,
    past_value: Array,
    block_row_indices: Array,
    block_col_indices: Array,
    total_sequence_length: Array,
    key_total_sequence_lengths: Array,
    cos_cache: Array | None = None,
    sin_cache: Array | None = None,
    *,
    do_rotary: int | None = None,
    kv_num_heads: int,
    num_heads: int,
    rotary_interleaved: int | None = None,
    scale: float | None = None,
    sparse_block_size: int,
) -> tuple[Array, Array, Array]:
    """Causal block-sparse attention: each block of queries sees the blocks of keys that its layout lists."""
    q, k, v = grouped(query, key, value, num_heads, kv_num_heads)
    batch, _, steps, _ = q.shape
    total = scalar_int(total_sequence_length, "total_sequence_length")
    lengths = key_total_sequence_lengths.reshape(-1).astype(np.int64)
    if lengths.shape != (batch,) or (batch and not 1 <= int(lengths.min()) <= int(lengths.max()) <= total):
        msg = f"key_total_sequence_lengths is {lengths.tolist()}; expected {batch} lengths within [1, {total}]"
        raise KernelError(msg)
    before = np.zeros(batch, np.int64) if steps == total else np.maximum(lengths - steps, 0)
    if do_rotary:
        places = before[:, None] + np.arange(steps)
        q, k = (rotate(x, places, cos_cache, sin_cache, bool(rotary_interleaved)) for x in (q, k))
    keys, values = (_stored(p, x, before, total) for p, x in ((past_key, k), (past_value, v)))
    seen = _block_bias(block_row_indices, block_col_indices, sparse_block_size, before, steps, total)
    repeats, rest = divmod(num_heads, seen.shape[1])
    if rest:
        msg = f"{seen.shape[1]} layouts of blocks for {num_heads} heads; expected a divisor"
        raise KernelError(msg)
    bias = np.tile(seen, (1, repeats, 1, 1))
    return merge_heads(attend(q, keys[:, :, :total], values[:, :, :total], bias, scale)), keys, values


def _stored(past: Array, now: Array, before: Array, total: int) -> Array:
    """Return a buffer of `past` with each entry's new steps after its own `before` old ones."""
    batch, heads, steps, size = now.shape
    room = past.shape[2] if past.ndim == 4 else 0
    if past.shape != (batch, heads, room, size) or total > room or int(before.max(initial=0)) + steps > room:
        msg = f"a cache of shape {past.shape}; expected ({batch}, {heads}, {total} or more, {size})"
        raise KernelError(msg)
    result = past.copy()
    for entry, start in enumerate(before.tolist()):
        result[entry, :, start : start + steps] = now[entry]
    return result


def _block_bias(rows: Array, columns: Array, size: int, before: Array, steps: int, total: int) -> Array:
    """Return the additive mask, 0 for visible keys, the lowest number for others, (B, layouts, steps, total)."""
    if rows.ndim != 2 or columns.ndim != 2 or len(rows) != len(columns) or not len(rows) or size < 1:
        msg = f"block indices {rows.shape} and {columns.shape}, size {size}; expected (layouts, …) twice"
        raise KernelError(msg)
    blocks = rows.shape[1] - 1
    check_size((len(rows), blocks, blocks), np.uint8)
    check_size((len(before), len(rows), steps, total), np.float32)
    if blocks * size < total:
        msg = f"{blocks} blocks of {size} for {total} keys; expected blocks for all keys"
        raise KernelError(msg)
    layout = np.zeros((len(rows), blocks, blocks), bool)
    for number, (starts, found) in enumerate(zip(rows, columns, strict=True)):
        counts = np.diff(starts)
        used = found[: int(starts[-1])]
        if counts.min(initial=0) < 0 or len(used) != counts.sum() or (
            used.size and not 0 <= int(used.min()) <= int(used.max()) < blocks
        ):  # fmt: skip
            given = f"the indices of layout {number} are not those of {blocks} × {blocks} blocks"
            msg = f"{given}; expected rising row starts and the columns they count"
            raise KernelError(msg)
        layout[number, np.repeat(np.arange(blocks), counts), used] = True
    position = np.minimum(before[:, None] + np.arange(steps), total - 1)
    key = np.arange(total)
    visible = layout[:, (position // size)[:, :, None], key // size]  # (layouts, B, steps, total)
    visible = visible.transpose(1, 0, 2, 3) & (key <= position[:, :, None])[:, None]
    return np.where(visible, np.float32(0), np.finfo(np.float32).min)
