"""Attention, FlexAttention, LinearAttention and RotaryEmbedding.

Softmax attention goes head by head, so that the scores of one head stay in cache between product, mask, exponential and
second product; the division by the row sums is done on the result, which is smaller than the scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.context import Body, Context
from onnx_workbench.exec.kernels.registry import kernel
from onnx_workbench.exec.kernels.shared.dtypes import compute_dtype, dtype_of, narrow, widen
from onnx_workbench.exec.kernels.shared.scratch import scratch
from onnx_workbench.exec.kernels.threads import parallel_for
from onnx_workbench.exec.values.arrays import Array, check_size, empty
from onnx_workbench.exec.values.limits import checkpoint


@dataclass(frozen=True, slots=True)
class _Rules:
    """Parameters of the scores besides Q and K."""

    scale: float | None
    softcap: float
    is_causal: int
    mode: int
    softmax_precision: int | None
    q_num_heads: int | None
    kv_num_heads: int | None
    left_window: int = -1
    right_window: int = -1


@kernel("Attention", since=23, without=("nonpad_kv_seqlen", "left_window_size", "right_window_size"))
@kernel("Attention", since=24, without=("left_window_size", "right_window_size"))
@kernel("Attention", since=25)
def attention_25(
    ctx: Context,
    q: Array,
    k: Array,
    v: Array,
    attn_mask: Array | None = None,
    past_key: Array | None = None,
    past_value: Array | None = None,
    nonpad_kv_seqlen: Array | None = None,
    *,
    is_causal: int = 0,
    kv_num_heads: int | None = None,
    left_window_size: int = -1,
    q_num_heads: int | None = None,
    qk_matmul_output_mode: int = 0,
    right_window_size: int = -1,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int | None = None,
) -> tuple[Array | None, ...]:
    """Scaled dot-product attention over (N, heads, L, size) or (N, L, heads × size), with a key-value cache.

    `nonpad_kv_seqlen` is the number of filled keys in an external cache, and masks may be shorter; the window sizes
    limit the keys around each query.
    """
    rules = _Rules(
        *(scale, softcap, is_causal, qk_matmul_output_mode, softmax_precision, q_num_heads, kv_num_heads),
        left_window_size,
        right_window_size,
    )
    return _attention(ctx, q, k, v, attn_mask, past_key, past_value, nonpad_kv_seqlen, rules)


def _attention(
    ctx: Context,
    q: Array,
    k: Array,
    v: Array,
    attn_mask: Array | None,
    past_key: Array | None,
    past_value: Array | None,
    nonpad: Array | None,
    rules: _Rules,
) -> tuple[Array | None, ...]:
    flat = q.ndim == 3
    query = _heads(q, rules.q_num_heads, "Q", "q_num_heads")
    key = _heads(k, rules.kv_num_heads, "K", "kv_num_heads")
    value = _heads(v, rules.kv_num_heads, "V", "kv_num_heads")
    past = 0
    if past_key is not None and past_value is not None:
        past = past_key.shape[2] if past_key.ndim == 4 else 0
        key, value = _joined(past_key, key), _joined(past_value, value)
    _check_heads(query, key, value)
    dtype = _precision(q.dtype, rules.softmax_precision)
    total = (query.shape[0], query.shape[1], query.shape[2], key.shape[2])
    offset = np.full(total[0], past, np.int64)
    if nonpad is not None:
        if nonpad.shape != (total[0],):
            msg = f"nonpad_kv_seqlen has shape {nonpad.shape}, expected ({total[0]},)"
            raise KernelError(msg)
        if past_key is None:
            offset = nonpad - total[2]
    bias = None if attn_mask is None else _bias(attn_mask, total, dtype)
    allowed = _allowed(total, offset, nonpad, rules)
    wanted = len(ctx.wanted) > 3 and ctx.wanted[3]
    kept = empty(total, dtype) if wanted else None
    y = _attend(query, key, value, bias, allowed, rules, dtype, kept)
    y = narrow(y, q.dtype)
    if flat:
        y = y.transpose(0, 2, 1, 3).reshape(q.shape[0], q.shape[1], y.shape[1] * y.shape[3])
    return y, key, value, None if kept is None else narrow(kept, q.dtype)


def _heads(x: Array, heads: int | None, name: str, attribute: str) -> Array:
    """Return (N, L, heads × size) or (N, heads, L, size) in the latter layout."""
    if x.ndim == 4:
        return x
    if x.ndim != 3 or not heads or heads < 1 or x.shape[2] % heads:
        msg = f"{name} has shape {x.shape} and {attribute} is {heads}; expected 4 axes, or 3 and a divisor of the last"
        raise KernelError(msg)
    return x.reshape(x.shape[0], x.shape[1], heads, x.shape[2] // heads).transpose(0, 2, 1, 3)


def _joined(past: Array, now: Array) -> Array:
    if past.ndim != 4 or past.shape[:2] != now.shape[:2] or past.shape[3] != now.shape[3]:
        given = f"past has shape {past.shape}, which does not go before {now.shape}"
        msg = f"{given}; expected the same, but for the length of axis 2"
        raise KernelError(msg)
    check_size((*now.shape[:2], past.shape[2] + now.shape[2], now.shape[3]), now.dtype)
    return np.concatenate([past, now], axis=2)


def _check_heads(q: Array, k: Array, v: Array) -> None:
    fits = (
        q.shape[0] == k.shape[0] == v.shape[0]
        and k.shape[1] == v.shape[1] > 0
        and q.shape[1] % k.shape[1] == 0
        and q.shape[3] == k.shape[3]
        and k.shape[2] == v.shape[2]
    )
    if not fits:
        msg = (
            f"Q, K and V are {q.shape}, {k.shape} and {v.shape} as (batch, heads, length, size); expected equal "
            f"batches, query heads a multiple of the others, equal sizes of Q and K, equal lengths of K and V"
        )
        raise KernelError(msg)


def _precision(dtype: np.dtype[Any], softmax_precision: int | None) -> np.dtype[Any]:
    """Return the type to compute in: at least float32, float64 where requested."""
    wanted = dtype if softmax_precision is None else dtype_of(softmax_precision)
    return np.dtype(np.float64) if np.float64 in (wanted, dtype) else compute_dtype(dtype)


def _bias(mask: Array, total: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Convert a mask to an additive one, viewed as (N, heads, Lq, Lk)."""
    if mask.dtype.kind == "b":
        number = np.where(mask, dtype.type(0), dtype.type(-np.inf))
    else:
        number = widen(mask).astype(dtype, copy=False)
    missing = total[3] - number.shape[-1] if number.ndim else 0
    if missing > 0 and number.shape[-1] != 1:
        frame = np.full((*number.shape[:-1], total[3]), -np.inf, dtype)
        frame[..., : number.shape[-1]] = number
        number = frame
    try:
        return np.broadcast_to(number, total)
    except ValueError:
        given = f"attn_mask has shape {mask.shape}, which does not broadcast to {total}"
        msg = f"{given}; expected sizes of 1 or the same, from the last axis on"
        raise KernelError(msg) from None


def _allowed(total: tuple[int, ...], offset: Array, nonpad: Array | None, rules: _Rules) -> Array | None:
    """Return which keys each query may see, (N or 1, Lq, Lk); None for all."""
    batch, _, queries, keys = total
    bounded = rules.is_causal or rules.left_window >= 0 or rules.right_window >= 0
    if not bounded and nonpad is None:
        return None
    if (offset == offset[:1]).all() and nonpad is None:
        offset = offset[:1]
    check_size((len(offset), queries, keys), np.bool_)
    at = offset[:, None, None] + np.arange(queries)[:, None]
    key = np.arange(keys)
    allowed = np.ones((len(offset), queries, keys), np.bool_)
    if rules.is_causal:
        allowed &= key <= at
    if rules.left_window >= 0:
        allowed &= key >= at - rules.left_window
    if rules.right_window >= 0:
        allowed &= key <= at + rules.right_window
    if nonpad is not None:
        allowed &= key < nonpad.reshape(batch, 1, 1)
    return allowed


def _attend(
    q: Array,
    k: Array,
    v: Array,
    bias: Array | None,
    allowed: Array | None,
    rules: _Rules,
    dtype: np.dtype[Any],
    kept: Array | None,
) -> Array:
    batch, heads, queries, size = q.shape
    group = heads // k.shape[1]
    scale = rules.scale if rules.scale is not None else 1 / sqrt(size or 1)
    out = empty((batch, heads, queries, v.shape[3]), dtype)

    def one(index: int) -> None:
        n, h = divmod(index, heads)
        query, key = (_as(x, dtype) for x in (q[n, h], k[n, h // group]))
        scores = scratch("attention.scores", (queries, key.shape[0]), dtype)
        np.matmul(query * dtype.type(scale), key.T, out=scores)
        keep = kept[n, h] if kept is not None else None
        _keep(keep, scores, rules.mode == 0)
        if rules.softcap:
            cap = dtype.type(rules.softcap)
            np.multiply(np.tanh(np.divide(scores, cap, out=scores), out=scores), cap, out=scores)
        _keep(keep, scores, rules.mode == 1)
        if bias is not None:
            np.add(scores, bias[n, h], out=scores)
        if allowed is not None:
            # "Attention bias to be added": what is not finite stays NaN, as in the operator's function body.
            np.add(scores, dtype.type(-np.inf), out=scores, where=~allowed[n % len(allowed)])
        _keep(keep, scores, rules.mode == 2)
        total = exponentials(scores)
        if rules.mode == 3 and keep is not None:
            np.divide(scores, total, out=keep)
        np.divide(np.matmul(scores, _as(v[n, h // group], dtype)), total, out=out[n, h])

    if out.size or (kept is not None and kept.size):
        parallel_for(one, batch * heads, 2 * out.size * k.shape[2])
    return out


def _as(x: Array, dtype: np.dtype[Any]) -> Array:
    return widen(x).astype(dtype, copy=False)


def _keep(target: Array | None, scores: Array, now: bool) -> None:
    if now and target is not None:
        target[...] = scores


def exponentials(scores: Array) -> Array:
    """exp(row - its maximum) in place; returns the row sums (L, 1). A row of -inf becomes zeros with sum 1."""
    if not scores.shape[1]:
        return np.ones((scores.shape[0], 1), scores.dtype)
    largest = scores.max(axis=1, keepdims=True)
    largest[np.isneginf(largest)] = 0
    np.subtract(scores, largest, out=scores)
    np.exp(scores, out=scores)
    total = scores @ np.ones((scores.shape[1], 1), scores.dtype)
    total[total == 0] = 1
    return total


@kernel("FlexAttention", since=1, domain="ai.onnx.preview")
def flex_attention_1(
    q: Array,
    k: Array,
    v: Array,
    *,
    prob_mod: Body | None = None,
    scale: float | None = None,
    score_mod: Body | None = None,
    softmax_precision: int | None = None,
) -> Array:
    """Attention over (N, heads, L, size) whose scores and probabilities are modified by subgraphs."""
    if not q.ndim == k.ndim == v.ndim == 4:
        msg = f"Q, K and V have shapes {q.shape}, {k.shape} and {v.shape}, expected 4 axes each"
        raise KernelError(msg)
    _check_heads(q, k, v)
    precision = q.dtype if softmax_precision is None else dtype_of(softmax_precision)
    if softmax_precision is None and q.dtype != np.float64:
        precision = np.dtype(np.float32)
    dtype = compute_dtype(precision)
    group = q.shape[1] // k.shape[1]
    key, value = (np.repeat(_as(x, dtype), group, axis=1) if group > 1 else _as(x, dtype) for x in (k, v))
    factor = scale if scale is not None else 1 / sqrt(q.shape[3] or 1)
    check_size((*q.shape[:3], k.shape[2]), dtype)
    scores = np.matmul(_as(q, dtype) * dtype.type(factor), key.swapaxes(2, 3))
    scores = _modified(scores, score_mod, precision, "score_mod").copy()
    rows = scores.reshape(-1, scores.shape[3])
    np.divide(rows, exponentials(rows), out=rows)
    checkpoint()
    probabilities = _modified(scores, prob_mod, precision, "prob_mod")
    return narrow(np.matmul(probabilities, value).astype(compute_dtype(q.dtype), copy=False), q.dtype)


def _modified(scores: Array, body: Body | None, dtype: np.dtype[Any], name: str) -> Array:
    if body is None:
        return scores
    (result,) = body([narrow(scores, dtype)])
    if not isinstance(result, np.ndarray) or result.shape != scores.shape:
        msg = f"{name} gave {getattr(result, 'shape', type(result).__name__)}, expected the shape {scores.shape}"
        raise KernelError(msg)
    return widen(result).astype(scores.dtype, copy=False)


@kernel("RotaryEmbedding", since=23)
def rotary_embedding_23(
    x: Array,
    cos_cache: Array,
    sin_cache: Array,
    position_ids: Array | None = None,
    *,
    interleaved: int = 0,
    num_heads: int | None = None,
    rotary_embedding_dim: int = 0,
) -> Array:
    """Rotate pairs of (N, heads, L, size) or (N, L, heads × size) by angles given per position."""
    flat = x.ndim == 3
    heads = _heads(x, num_heads, "X", "num_heads")
    source = widen(heads)
    count = rotary_embedding_dim or source.shape[3]
    if not 0 < count <= source.shape[3] or count % 2:
        msg = f"rotary_embedding_dim is {count}, expected an even number up to {source.shape[3]}"
        raise KernelError(msg)
    cos, sin = (_angles(c, position_ids, source, count // 2) for c in (cos_cache, sin_cache))
    out = empty(source.shape, source.dtype)
    if interleaved:
        first, second = slice(0, count, 2), slice(1, count, 2)
    else:
        first, second = slice(0, count // 2), slice(count // 2, count)
    a, b = source[..., first], source[..., second]
    out[..., first] = cos * a - sin * b
    out[..., second] = sin * a + cos * b
    out[..., count:] = source[..., count:]
    result = narrow(out, x.dtype)
    return result.transpose(0, 2, 1, 3).reshape(x.shape) if flat else result


def _angles(cache: Array, positions: Array | None, x: Array, half: int) -> Array:
    """Return a cache of sines or cosines as (N, 1, L, half) for x (N, heads, L, size); N and L may be 1."""
    if positions is not None:
        if cache.ndim != 2 or (positions.size and not 0 <= positions.min() <= positions.max() < len(cache)):
            msg = f"position_ids must lie in the {cache.shape[0]} rows of a cache with 2 axes (shape {cache.shape})"
            raise KernelError(msg)
        cache = cache[positions]
    batch, _, length, _ = x.shape
    if cache.shape not in ((n, steps, half) for n in (1, batch) for steps in (1, length)):
        msg = f"cos_cache or sin_cache has shape {cache.shape} per position, expected ({batch}, {length}, {half})"
        raise KernelError(msg)
    return _as(cache, x.dtype)[:, None]


@kernel("LinearAttention", since=27)
def linear_attention_27(
    query: Array,
    key: Array,
    value: Array,
    past_state: Array | None = None,
    decay: Array | None = None,
    beta: Array | None = None,
    *,
    chunk_size: int = 64,
    kv_num_heads: int,
    q_num_heads: int,
    scale: float = 0.0,
    update_rule: str = "gated_delta",
) -> tuple[Array, Array]:
    """Linear attention with a state (N, heads, dk, dv), decayed, updated and read at every step; also the last
    state.
    """
    del chunk_size  # a hint for other machines
    if update_rule not in ("linear", "gated", "delta", "gated_delta"):
        msg = f"update_rule is {update_rule!r}, expected linear, gated, delta or gated_delta"
        raise KernelError(msg)
    gated, delta = "gated" in update_rule, "delta" in update_rule
    if (gated and decay is None) or (delta and beta is None):
        msg = f"update_rule {update_rule} needs {'decay' if gated and decay is None else 'beta'}, which is missing"
        raise KernelError(msg)
    dtype = np.dtype(np.float32)
    q = _as(_heads(query, q_num_heads, "query", "q_num_heads"), dtype)
    k = _as(_heads(key, kv_num_heads, "key", "kv_num_heads"), dtype)
    v = _as(_heads(value, kv_num_heads, "value", "kv_num_heads"), dtype)
    _check_heads(q, k, v)
    shape = (*k.shape[:2], k.shape[3], v.shape[3])
    if past_state is not None and past_state.shape != shape:
        msg = f"past_state has shape {past_state.shape}, expected {shape}"
        raise KernelError(msg)
    state = np.zeros(shape, dtype) if past_state is None else _as(past_state, dtype).copy()
    forget = None
    if gated and decay is not None:
        forget = np.exp(_as(_heads(decay, kv_num_heads, "decay", "kv_num_heads"), dtype))
        if forget.shape[:3] != k.shape[:3] or forget.shape[3] not in (1, k.shape[3]):
            msg = f"decay has shape {decay.shape}, expected one number for each head or element of key {key.shape}"
            raise KernelError(msg)
    rate = None
    if delta and beta is not None:
        if beta.shape not in ((*key.shape[:2], kv_num_heads), (*key.shape[:2], 1)):
            msg = f"beta has shape {beta.shape}, expected {(*key.shape[:2], kv_num_heads)} or 1 last"
            raise KernelError(msg)
        rate = np.broadcast_to(_as(beta, dtype), (*beta.shape[:2], kv_num_heads)).transpose(0, 2, 1)
    out = recur(q * dtype.type(scale or 1 / sqrt(q.shape[3] or 1)), k, v, state, forget, rate)
    result = out.transpose(0, 2, 1, 3).reshape(out.shape[0], out.shape[2], out.shape[1] * out.shape[3])
    return narrow(result, query.dtype), narrow(state, query.dtype if past_state is None else past_state.dtype)


def recur(
    q: Array,
    k: Array,
    v: Array,
    state: Array,
    forget: Array | None,
    rate: Array | None,
    kept: Array | None = None,
) -> Array:
    """Run the recurrence over time, changing `state` (N, heads, dk, dv); outputs (N, query heads, T, dv).

    q, k and v are (N, heads, T, size), `forget` (N, heads, T, dk or 1) are factors of the state, `rate` (N, heads, T)
    scales the update (delta rule); None adds the values as they are. `kept` receives the states after the last steps.
    """
    batch, heads, steps, size = q.shape
    group = heads // k.shape[1]
    grouped = q.reshape(batch, k.shape[1], group, steps, size)
    out = empty((batch, k.shape[1], group, steps, v.shape[3]), q.dtype)
    for t in range(steps):
        if t % 16 == 0:
            checkpoint()
        now, value = k[:, :, t], v[:, :, t]
        if forget is not None:
            state *= forget[:, :, t, :, None]
        if rate is not None:
            seen = np.matmul(now[:, :, None], state)[:, :, 0]
            value = (value - seen) * rate[:, :, t, None]
        state += now[..., None] * value[:, :, None]
        np.matmul(grouped[:, :, :, t], state, out=out[:, :, :, t])
        if kept is not None and t >= steps - len(kept):
            kept[t - steps] = state
    return out.reshape(batch, heads, steps, v.shape[3])
