"""Attention with its projections, multi-head and grouped-query attention, and rotary embedding.

All are expressed by Attention of the default domain with an additive mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.microsoft.activations import plus
from onnx_workbench.exec.kernels.microsoft.cache import appended
from onnx_workbench.exec.kernels.microsoft.onnx_calls import MICROSOFT, onnx
from onnx_workbench.exec.kernels.microsoft.tensors import restore_padding_1
from onnx_workbench.exec.kernels.registry import kernel
from onnx_workbench.exec.kernels.shared.axes import scalar_int
from onnx_workbench.exec.kernels.shared.dtypes import narrow, widen
from onnx_workbench.exec.values.arrays import Array, check_size, zeros

#: Additive mask of hidden keys without a mask_filter_value.
_FILTER = -10000.0


def split_heads(x: Array, heads: int, name: str) -> Array:
    """(B, S, heads · size) as (B, heads, S, size), a view."""
    if x.ndim != 3 or heads < 1 or x.shape[2] % heads:
        msg = f"{name} has shape {x.shape}; expected (batch, sequence, a multiple of {heads} heads)"
        raise KernelError(msg)
    return x.reshape(x.shape[0], x.shape[1], heads, x.shape[2] // heads).transpose(0, 2, 1, 3)


def merge_heads(x: Array) -> Array:
    """(B, heads, S, size) as (B, S, heads · size)."""
    return x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], x.shape[1] * x.shape[3])


def attend(q: Array, k: Array, v: Array, bias: Array | None, scale: float | None, softcap: float = 0.0) -> Array:
    """Softmax attention of (B, heads, S, size); `bias` is added to the scores."""
    if bias is not None:
        bias = np.broadcast_to(bias, (q.shape[0], q.shape[1], q.shape[2], k.shape[2]))
    result = onnx(
        "Attention", 24, q, k, v, bias, scale=scale or 1 / sqrt(q.shape[3] or 1), softcap=softcap
    )  # fmt: skip
    return np.asarray(result[0])


def mask_bias(mask: Array | None, batch: int, queries: int, keys: int, value: float | None = None) -> Array | None:
    """Convert a mask in any of the forms of `mask_index` to an additive one, (B or 1, 1, S or 1, T).

    `value` is the mask_filter_value.
    """
    if mask is None:
        return None
    key = np.arange(keys)
    if mask.ndim == 1:
        if mask.shape[0] == batch or mask.shape[0] == 3 * batch + 2:  # lengths
            seen = key < mask[:batch, None]
        elif mask.shape[0] == 2 * batch:  # ends, then starts
            seen = (key < mask[:batch, None]) & (key >= mask[batch:, None])
        else:
            msg = f"a mask of {mask.shape[0]} numbers for a batch of {batch}; expected 1, 2 or 3 (and 2) per entry"
            raise KernelError(msg)
        seen = seen[:, None, None, :]
    elif mask.ndim == 2:
        seen = mask[:, None, None, :] != 0
    elif mask.ndim == 3:
        seen = mask[:, None] != 0
    else:
        seen = mask[:, :, keys - queries : keys, :keys] != 0
    try:
        check_size((batch, 1, queries, keys), np.float32)
        np.broadcast_shapes(seen.shape, (batch, 1, queries, keys))
    except ValueError:
        given = f"a mask of shape {mask.shape} does not fit {batch} × {queries} queries × {keys} keys"
        msg = f"{given}; expected a value per key, or per query and key"
        raise KernelError(msg) from None
    return np.where(seen, np.float32(0), np.float32(_FILTER if value is None else value))


def causal_bias(queries: int, keys: int) -> Array:
    """Return the additive causal mask; the last query sees all keys."""
    check_size((queries, keys), np.float32)
    seen = np.tri(queries, keys, keys - queries, dtype=bool)
    return np.where(seen, np.float32(0), np.finfo(np.float32).min)


def sum_biases(*biases: Array | None) -> Array | None:
    """Return the sum of all additive masks; None if there are none."""
    total = None
    for bias in biases:
        if bias is not None:
            # Two masks of the lowest number must not become -inf.
            low = np.finfo(np.float32).min
            total = bias if total is None else np.maximum(total + widen(bias), low)
    return total


def self_attention(
    q: Array,
    k: Array,
    v: Array,
    *,
    mask: Array | None,
    past: Array | None,
    place: Array | None = None,
    shared: int | None = None,
    attention_bias: Array | None,
    unidirectional: int,
    mask_value: float | None,
    scale: float | None,
) -> tuple[Array, Array]:
    """Attention of heads already split, with `past` [2, B, heads, P, size]; returns the merged output and the new past.

    Queries, keys and values are wide. `shared`: the past is a buffer, written from `place` on.
    """
    whole = k, v
    if past is not None:
        if past.ndim != 5 or past.shape[0] != 2:
            msg = f"past has shape {past.shape}; expected (2, batch, heads, length, size)"
            raise KernelError(msg)
        news = zip(widen(past), (k, v), strict=True)
        pairs = [appended(before, now, place, None, bool(shared)) for before, now in news]
        whole, (k, v) = (pairs[0][0], pairs[1][0]), (pairs[0][1], pairs[1][1])
    queries, keys = q.shape[2], k.shape[2]
    bias = sum_biases(
        mask_bias(mask, q.shape[0], queries, keys, mask_value),
        causal_bias(queries, keys) if unidirectional else None,
        attention_bias,
    )
    present = np.stack(whole) if k.shape == v.shape else np.zeros((0,), k.dtype)
    return merge_heads(attend(q, k, v, bias, scale)), present


@kernel("Attention", since=1, domain=MICROSOFT)
def attention_1(
    x: Array,
    weights: Array,
    bias: Array | None = None,
    mask_index: Array | None = None,
    past: Array | None = None,
    attention_bias: Array | None = None,
    past_sequence_length: Array | None = None,
    *,
    do_rotary: int | None = None,
    mask_filter_value: float | None = None,
    num_heads: int,
    past_present_share_buffer: int | None = None,
    qkv_hidden_sizes: Sequence[int] | None = None,
    _rotary_embedding_dim: int | None = None,  # means something with do_rotary only
    scale: float | None = None,
    unidirectional: int = 0,
) -> tuple[Array, Array]:
    """Self-attention with the projection of queries, keys and values in one product."""
    if do_rotary:
        msg = "do_rotary needs a GPU in ONNX Runtime too, and how it rotates is not documented; expected 0"
        raise KernelError(msg)
    if x.ndim != 3 or weights.ndim != 2:
        msg = f"input {x.shape} and weights {weights.shape}; expected 3 and 2 dimensions"
        raise KernelError(msg)
    projected = plus(onnx("MatMul", 13, widen(x), widen(weights)), None if bias is None else widen(bias))
    q, k, v = split_projections(projected, num_heads, qkv_hidden_sizes)
    y, present = self_attention(
        q, k, v, mask=mask_index, past=past, place=past_sequence_length, shared=past_present_share_buffer,
        attention_bias=attention_bias, unidirectional=unidirectional, mask_value=mask_filter_value, scale=scale,
    )  # fmt: skip
    return narrow(y, x.dtype), narrow(present, x.dtype)


def split_projections(x: Array, heads: int, sizes: Sequence[int] | None = None) -> tuple[Array, Array, Array]:
    """Queries, keys and values side by side in the last axis, each split into heads."""
    widths = list(sizes) if sizes else [x.shape[2] // 3] * 3
    if len(widths) != 3 or sum(widths) != x.shape[2] or min(widths) < 1:
        given = f"{x.shape[2]} columns cannot be queries, keys and values of {widths}"
        msg = f"{given}; expected three widths from 1 with that sum"
        raise KernelError(msg)
    first, second = widths[0], widths[0] + widths[1]
    parts = (x[..., :first], x[..., first:second], x[..., second:])
    q, k, v = (split_heads(p, heads, "the projection") for p in parts)
    return q, k, v


@kernel("MultiHeadAttention", since=1, domain=MICROSOFT)
def multi_head_attention_1(
    query: Array,
    key: Array | None = None,
    value: Array | None = None,
    bias: Array | None = None,
    key_padding_mask: Array | None = None,
    attention_bias: Array | None = None,
    past_key: Array | None = None,
    past_value: Array | None = None,
    past_sequence_length: Array | None = None,
    cache_indirection: Array | None = None,
    *,
    mask_filter_value: float | None = None,
    num_heads: int,
    scale: float | None = None,
    unidirectional: int = 0,
) -> tuple[Array, Array, Array]:
    """Attention of projected queries, keys and values; any of the layouts ONNX Runtime packs them in."""
    q, k, v = _unpacked(query, key, value, bias, num_heads)
    shared = past_sequence_length is not None
    present_key, k = appended(past_key, k, past_sequence_length, cache_indirection, shared)
    present_value, v = appended(past_value, v, past_sequence_length, cache_indirection, shared)
    queries, keys = q.shape[2], k.shape[2]
    total = sum_biases(
        mask_bias(key_padding_mask, q.shape[0], queries, keys, mask_filter_value),
        causal_bias(queries, keys) if unidirectional else None,
        attention_bias,
    )
    return merge_heads(attend(q, k, v, total, scale)), present_key, present_value


def _unpacked(
    query: Array, key: Array | None, value: Array | None, bias: Array | None, heads: int
) -> tuple[Array, Array, Array]:
    """Queries, keys and values as (B, heads, S, size), with their biases."""
    if query.ndim == 5:  # (B, S, heads, 3, size)
        q, k, v = (query[:, :, :, i].transpose(0, 2, 1, 3) for i in range(3))
        kept = False
    elif key is None:
        msg = f"query of shape {query.shape} without a key; expected (batch, sequence, heads, 3, size)"
        raise KernelError(msg)
    else:
        q = split_heads(query, heads, "query")
        kept = key.ndim == 4 and value is not None
        if key.ndim == 5:  # (B, S, heads, 2, size)
            k, v = (key[:, :, :, i].transpose(0, 2, 1, 3) for i in range(2))
        elif value is None:
            msg = f"key of shape {key.shape} without a value; expected (batch, sequence, heads, 2, size)"
            raise KernelError(msg)
        elif kept:  # from the cache of a cross attention, biased already
            k, v = key, value
        else:
            k, v = split_heads(key, heads, "key"), split_heads(value, heads, "value")
    if bias is None:
        return q, k, v
    own = heads * q.shape[3]
    q = plus(q, _head_bias(bias[:own], heads))
    if kept:
        return q, k, v
    return q, plus(k, _head_bias(bias[own : 2 * own], heads)), plus(v, _head_bias(bias[2 * own :], heads))


def _head_bias(bias: Array, heads: int) -> Array:
    if bias.size % heads or not bias.size:
        msg = f"a bias of {bias.size} numbers for {heads} heads; expected as many for each head"
        raise KernelError(msg)
    return bias.reshape(1, heads, 1, -1)


@kernel("RotaryEmbedding", since=1, domain=MICROSOFT)
def rotary_embedding_1(
    x: Array,
    position_ids: Array,
    cos_cache: Array,
    sin_cache: Array,
    *,
    interleaved: int | None = None,
    _is_packed_batching: int | None = None,  # is about scratch memory
    num_heads: int | None = None,
    rotary_embedding_dim: int | None = None,
    scale: float | None = None,
) -> Array:
    """Rotate pairs by angles of their positions; input (B, S, hidden) or (B, heads, S, size)."""
    if scale not in (None, 1.0):
        msg = f"scale is {scale}; expected 1"
        raise KernelError(msg)
    if x.ndim not in (3, 4) or cos_cache.ndim != 2:
        msg = f"input of shape {x.shape} and caches of shape {cos_cache.shape}; expected 3 or 4 and 2 dimensions"
        raise KernelError(msg)
    rotated = rotary_embedding_dim or 0
    flat = x.ndim == 3
    if flat:
        size = x.shape[2] // num_heads if rotated and num_heads else 2 * cos_cache.shape[1]
        heads = split_heads(x, x.shape[2] // size if size else 0, "input")
    else:
        heads = x
    batch, _, steps, _ = heads.shape
    places = position_ids
    if places.size == 1 and (batch, steps) != (1, 1):
        places = np.broadcast_to(places.reshape(()) + np.arange(steps), (batch, steps))
    y = rotate(heads, places.reshape(batch, steps), cos_cache, sin_cache, bool(interleaved))
    return merge_heads(y) if flat else y


def rotate(x: Array, places: Array, cos_cache: Array | None, sin_cache: Array | None, interleaved: bool) -> Array:
    """Rotary embedding of (B, heads, S, size) at positions (B, S); the caches' width determines how much is rotated."""
    if cos_cache is None or sin_cache is None:
        msg = "do_rotary needs cos_cache and sin_cache"
        raise KernelError(msg)
    check_places(places, cos_cache, sin_cache)
    return turned(x, cos_cache[places], sin_cache[places], interleaved)


def check_places(places: Array, cos_cache: Array, sin_cache: Array) -> None:
    """Raise KernelError when positions are outside the caches or these differ in shape."""
    if cos_cache.ndim != 2 or sin_cache.shape != cos_cache.shape:
        msg = f"caches of shape {cos_cache.shape} and {sin_cache.shape}; expected the same (positions, angles)"
        raise KernelError(msg)
    if places.size and not 0 <= int(places.min()) <= int(places.max()) < cos_cache.shape[0]:
        given = f"positions {places.min()} to {places.max()}; the caches have {cos_cache.shape[0]} rows"
        msg = f"{given}; expected within [0, {cos_cache.shape[0] - 1}]"
        raise KernelError(msg)


def turned(x: Array, cos: Array, sin: Array, interleaved: bool) -> Array:
    """Rotate pairs of the last axis of (B, heads, S, size) by angles (B, S, half) given as cosines and sines."""
    half = cos.shape[-1]
    if 2 * half > x.shape[-1]:
        msg = f"{half} angles for heads of {x.shape[-1]}; expected at most half as many"
        raise KernelError(msg)
    return np.asarray(
        onnx("RotaryEmbedding", 23, x, cos, sin, interleaved=int(interleaved), rotary_embedding_dim=2 * half)
    )


@kernel("GroupQueryAttention", since=1, domain=MICROSOFT)
def group_query_attention_1(
    query: Array,
    key: Array | None = None,
    value: Array | None = None,
    past_key: Array | None = None,
    past_value: Array | None = None,
    seqlens_k: Array | None = None,
    total_sequence_length: Array | None = None,
    cos_cache: Array | None = None,
    sin_cache: Array | None = None,
    position_ids: Array | None = None,
    attention_bias: Array | None = None,
    head_sink: Array | None = None,
    k_scale: Array | None = None,
    v_scale: Array | None = None,
    q_norm_weight: Array | None = None,
    k_norm_weight: Array | None = None,
    *,
    causal: int = 1,
    do_rotary: int | None = None,
    k_quant_type: str = "NONE",
    _kv_cache_bit_width: int | None = None,  # belongs to the quantized caches refused below
    kv_num_heads: int,
    local_window_size: int = -1,
    num_heads: int,
    qk_norm_epsilon: float = 9.999999974752427e-07,
    _qk_output: int = 0,  # the optional scores are for debugging
    rotary_interleaved: int | None = None,
    scale: float | None = None,
    sliding_window_cache: int = 0,
    smooth_softmax: int = -1,
    softcap: float | None = None,
    v_quant_type: str = "NONE",
) -> tuple[Array, Array, Array]:
    """Causal attention of groups of query heads with a key and value cache of individual lengths."""
    if (k_quant_type, v_quant_type) != ("NONE", "NONE") or k_scale is not None or v_scale is not None:
        msg = "the cache is quantized; expected one of floating-point numbers"
        raise KernelError(msg)
    if sliding_window_cache or seqlens_k is None or total_sequence_length is None:
        msg = "expected seqlens_k and total_sequence_length, and no sliding window cache"
        raise KernelError(msg)
    q, k, v = grouped(query, key, value, num_heads, kv_num_heads)
    if q_norm_weight is not None and k_norm_weight is not None:
        q = onnx("RMSNormalization", 23, q, q_norm_weight, epsilon=qk_norm_epsilon)
        k = onnx("RMSNormalization", 23, k, k_norm_weight, epsilon=qk_norm_epsilon)
    batch, _, steps, _ = q.shape
    lengths = seqlens_k.reshape(-1).astype(np.int64) + 1
    if lengths.shape != (batch,) or (batch and lengths.min() < 1):
        msg = f"seqlens_k is {seqlens_k.tolist()}; expected {batch} lengths less one"
        raise KernelError(msg)
    total = scalar_int(total_sequence_length, "total_sequence_length")
    before = np.zeros(batch, np.int64) if steps == total else np.maximum(lengths - steps, 0)
    if do_rotary:
        places = before[:, None] + np.arange(steps) if position_ids is None else position_ids.reshape(batch, steps)
        q, k = (rotate(x, places, cos_cache, sin_cache, bool(rotary_interleaved)) for x in (q, k))
    keys, values = (cached(p, x, before, total) for p, x in ((past_key, k), (past_value, v)))
    bias = window_bias(before, steps, keys.shape[2], local_window_size, causal)
    if attention_bias is not None:
        wide = widen(attention_bias)
        bias = bias[..., : wide.shape[-1]] + wide
    seen = bias.shape[-1]
    sinks = head_sink if head_sink is not None else np.zeros(num_heads, np.float32) if smooth_softmax == 1 else None
    y = attend_with_sinks(q, keys[:, :, :seen], values[:, :, :seen], bias, scale, softcap or 0.0, sinks)
    return merge_heads(y), keys, values


def grouped(
    query: Array, key: Array | None, value: Array | None, heads: int, kv_heads: int
) -> tuple[Array, Array, Array]:
    """Split queries, keys and values into heads, from three inputs or concatenated in one."""
    if key is not None and value is not None:
        return (
            split_heads(query, heads, "query"),
            split_heads(key, kv_heads, "key"),
            split_heads(value, kv_heads, "value"),
        )
    size, rest = divmod(query.shape[-1], heads + 2 * kv_heads)
    if query.ndim != 3 or rest:
        msg = f"query of shape {query.shape}; expected the columns of {heads} + 2 × {kv_heads} heads"
        raise KernelError(msg)
    first, second = heads * size, (heads + kv_heads) * size
    parts = ((query[..., :first], heads), (query[..., first:second], kv_heads), (query[..., second:], kv_heads))
    q, k, v = (split_heads(x, n, "query") for x, n in parts)
    return q, k, v


def cached(past: Array | None, now: Array, before: Array, total: int) -> Array:
    """Return the cache with each entry's new steps after its own `before` old ones."""
    batch, heads, steps, size = now.shape
    room = 0 if past is None else past.shape[2]
    length = max(total, room)
    if past is not None and (past.ndim != 4 or past.shape[:2] != (batch, heads) or past.shape[3] != size):
        msg = f"a cache of shape {past.shape}; expected ({batch}, {heads}, length, {size})"
        raise KernelError(msg)
    if batch and (int(before.max()) + steps > length or int(before.max()) > room):
        given = f"steps {int(before.max())} to {int(before.max()) + steps} for a past of {room} and a cache of {length}"
        msg = f"{given}; expected them to follow the past, within the cache"
        raise KernelError(msg)
    result = zeros((batch, heads, length, size), now.dtype)
    for entry, start in enumerate(before.tolist()):
        if past is not None:
            result[entry, :, :start] = past[entry, :, :start]
        result[entry, :, start : start + steps] = now[entry]
    return result


def window_bias(before: Array, steps: int, keys: int, window: int, causal: int) -> Array:
    """Return the additive mask of a sliding window: 0 for visible keys, the lowest number for others, (B, 1, S, T)."""
    check_size((len(before), steps, keys), np.float32)
    position = before[:, None, None] + np.arange(steps)[:, None]
    key = np.arange(keys)
    seen = key <= position if causal else key < (before + steps)[:, None, None]
    if window >= 0:
        seen = seen & (key > position - window)
    return np.where(seen, np.float32(0), np.finfo(np.float32).min)[:, None]


def attend_with_sinks(
    q: Array, k: Array, v: Array, bias: Array, scale: float | None, softcap: float, sinks: Array | None
) -> Array:
    """Attention with optional sinks per head: a score that takes part in the softmax and contributes nothing."""
    if sinks is None:
        return attend(q, k, v, bias, scale, softcap)
    batch, heads, steps, size = q.shape
    group = heads // k.shape[1]
    wide = widen(q).reshape(batch, k.shape[1], group * steps, size)
    scores = np.matmul(wide, np.swapaxes(widen(k), -1, -2)).reshape(batch, heads, steps, k.shape[2])
    scores *= scores.dtype.type(scale or 1 / sqrt(size or 1))
    if softcap:
        scores = np.tanh(scores / softcap) * softcap
    scores = scores + bias
    sink = widen(sinks).reshape(1, -1, 1, 1)
    largest = np.maximum(scores.max(-1, keepdims=True), sink)
    powers = np.exp(scores - largest)
    powers /= powers.sum(-1, keepdims=True) + np.exp(sink - largest)
    y = np.matmul(powers.reshape(batch, k.shape[1], group * steps, k.shape[2]), widen(v))
    return narrow(y.reshape(batch, heads, steps, v.shape[3]), q.dtype)


@kernel("RelativePositionBias", since=1, domain=MICROSOFT)
def relative_position_bias_1(
    bias_table: Array, query_length: Array, key_length: Array, *, is_bidirectional: int = 0, max_distance: int
) -> Array:
    """Return the bias of T5: one number per head and bucket of distances, (1, heads, queries, keys)."""
    queries, keys = scalar_int(query_length, "query_length"), scalar_int(key_length, "key_length")
    if bias_table.ndim != 2:
        msg = f"bias_table has shape {bias_table.shape}; expected (buckets, heads)"
        raise KernelError(msg)
    buckets, heads = bias_table.shape
    if queries < 0 or keys < 0 or max_distance < 2 or buckets < 4:
        msg = f"{queries} queries, {keys} keys, max_distance {max_distance}, {buckets} buckets; expected more"
        raise KernelError(msg)
    check_size((heads, queries, keys), np.int64)
    distance = np.arange(queries)[:, None] - np.arange(keys)
    offset = np.zeros_like(distance)
    if is_bidirectional:
        buckets //= 2
        offset = np.where(distance < 0, buckets, 0)
        distance = np.abs(distance)
    else:
        distance = np.maximum(distance, 0)
    exact = buckets // 2
    ratio = np.log(np.maximum(distance, 1) / np.float32(exact)) / np.log(max_distance / np.float32(exact))
    far = np.minimum(exact + (ratio * (buckets - exact)).astype(np.int64), buckets - 1)
    bucket = offset + np.where(distance < exact, distance, far)
    return np.ascontiguousarray(bias_table[bucket].transpose(2, 0, 1)[None])


@kernel("GatedRelativePositionBias", since=1, domain=MICROSOFT)
def gated_relative_position_bias_1(
    query_layer: Array,
    query_bias: Array,
    rel_pos: Array,
    weight: Array,
    bias: Array,
    eco_a: Array,
    token_offset: Array | None = None,
    *,
    num_heads: int,
) -> Array:
    """Position bias times a gate computed from each query, (B, heads, S, S)."""
    query = query_layer if token_offset is None else restore_padding_1(query_layer, token_offset)
    q = split_heads(plus(query, query_bias), num_heads, "query_layer")
    if weight.ndim != 2 or weight.shape[1] % 2 or weight.shape != (q.shape[3], bias.size):
        msg = f"weight {weight.shape} and bias {bias.shape}; expected ({q.shape[3]}, an even D) and (D,)"
        raise KernelError(msg)
    projected = np.matmul(widen(q), widen(weight)) + widen(bias)
    gates = onnx("Sigmoid", 13, projected.reshape(*projected.shape[:3], 2, -1).sum(-1))
    factor = gates[..., :1] * (gates[..., 1:] * widen(eco_a) - 1) + 2
    check_size((*q.shape[:3], rel_pos.shape[-1]), np.float32)
    return narrow(np.asarray(factor * widen(rel_pos)), query_layer.dtype)
