"""Linear attention with a recurrent state, its gates, and the causal convolution before it."""

from __future__ import annotations

from itertools import pairwise
from math import prod

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.microsoft.attention import merge_heads, split_heads
from onnx_workbench.exec.kernels.microsoft.gated import sigmoid
from onnx_workbench.exec.kernels.microsoft.ngrams import captures, sequence_ranges
from onnx_workbench.exec.kernels.microsoft.onnx_calls import MICROSOFT, onnx
from onnx_workbench.exec.kernels.onnx.nn.attention import recur
from onnx_workbench.exec.kernels.registry import kernel
from onnx_workbench.exec.kernels.shared.dtypes import narrow, widen
from onnx_workbench.exec.values.arrays import Array, check_size, empty, zeros

_RULES = ("linear", "gated", "delta", "gated_delta")

#: Most states that one call may return.
_MAX_WINDOW = 8


def _repeated(x: Array, heads: int, name: str) -> Array:
    """Repeat the heads of axis 1 up to a number."""
    have = x.shape[1]
    if have == heads:
        return x
    if not have or heads % have:
        msg = f"{have} heads of {name} cannot be shared by {heads}; expected a number that divides {heads}"
        raise KernelError(msg)
    return np.repeat(x, heads // have, 1)


def _last_state(past: Array | None, window: int, shape: tuple[int, ...]) -> Array:
    """Return the initial state, float32."""
    if not 0 <= window <= _MAX_WINDOW:
        msg = f"state_window is {window}; expected 0 to {_MAX_WINDOW}"
        raise KernelError(msg)
    expected = (window, *shape) if window else shape
    if past is None:
        return zeros(shape, np.float32)
    if past.shape != expected:
        msg = f"past_state has shape {past.shape}; expected {expected}"
        raise KernelError(msg)
    return np.array(widen(past[-1] if window else past))


@kernel("LinearAttention", since=1, domain=MICROSOFT)
def linear_attention_1(
    query: Array,
    key: Array,
    value: Array,
    past_state: Array | None = None,
    decay: Array | None = None,
    beta: Array | None = None,
    *,
    _chunk_size: int = 64,  # a hint for devices
    kv_num_heads: int,
    q_num_heads: int,
    scale: float = 0.0,
    state_window: int = 0,
    update_rule: str = "gated_delta",
) -> tuple[Array, Array]:
    """Linear attention: a state per head that decays, is updated by keys and values, and is read by queries, per
    step.
    """
    if update_rule not in _RULES:
        msg = f"update_rule is {update_rule!r}; expected one of {', '.join(_RULES)}"
        raise KernelError(msg)
    q, v = (widen(split_heads(x, n, name)) for x, n, name in (
        (query, q_num_heads, "query"), (value, kv_num_heads, "value")))  # fmt: skip
    batch, _, steps, size = q.shape
    k = widen(split_heads(key, key.shape[-1] // size if key.ndim and size else 0, "key"))
    if (len(k), k.shape[2]) != (batch, steps) or (len(v), v.shape[2]) != (batch, steps):
        msg = f"query {query.shape}, key {key.shape}, value {value.shape}; expected the same batch and time"
        raise KernelError(msg)
    k = _repeated(k, kv_num_heads, "key")
    q = _repeated(q, max(q_num_heads, kv_num_heads), "query")
    if q.shape[1] % kv_num_heads:
        msg = f"{q_num_heads} query heads cannot share {kv_num_heads} key heads; expected a multiple of the key heads"
        raise KernelError(msg)
    gates = _gates(decay, beta, update_rule, kv_num_heads, (batch, steps))
    shape = (batch, kv_num_heads, size, v.shape[3])
    state = _last_state(past_state, state_window, shape)
    kept = zeros((max(state_window, 1), *shape), np.float32)
    y = recur(q * np.float32(scale or 1 / np.sqrt(size)), k, v, state, *gates, kept)
    kept[-1] = state
    present = narrow(kept, query.dtype if past_state is None else past_state.dtype)
    return narrow(merge_heads(y), query.dtype), present if state_window else present[0]


def _gates(
    decay: Array | None, beta: Array | None, rule: str, heads: int, lead: tuple[int, int]
) -> tuple[Array | None, Array | None]:
    """Return the factors of the state (B, heads, T, size or 1) and of its update (B, heads, T), as the rule needs."""
    factors: list[Array | None] = [None, None]
    for index, (gate, name, needed) in enumerate(
        ((decay, "decay", rule.startswith("gated")), (beta, "beta", rule.endswith("delta")))
    ):
        if not needed:
            continue
        if gate is None:
            msg = f"update_rule {rule!r} needs the input {name}"
            raise KernelError(msg)
        if gate.ndim != 3 or gate.shape[:2] != lead:
            msg = f"{name} has shape {gate.shape}; expected {lead[0]} × {lead[1]} steps"
            raise KernelError(msg)
        factors[index] = widen(split_heads(gate, 1 if gate.shape[2] == 1 else heads, name))
    forget, rate = factors
    if rate is not None:
        rate = np.broadcast_to(rate[..., 0], (lead[0], heads, lead[1]))
    return None if forget is None else np.exp(forget), rate


@kernel("LinearAttentionGate", since=1, domain=MICROSOFT)
def linear_attention_gate_1(
    a: Array, dt_bias: Array, decay_scale: Array, b: Array | None = None
) -> tuple[Array, Array | None]:
    """decay_scale · softplus(a + dt_bias), and sigmoid(b), computed in float32."""
    decay = widen(decay_scale) * onnx("Softplus", 22, widen(a) + widen(dt_bias))
    return narrow(np.asarray(decay), a.dtype), None if b is None else narrow(sigmoid(widen(b)), b.dtype)


@kernel("CausalConvWithState", since=1, domain=MICROSOFT)
def causal_conv_with_state_1(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    past_state: Array | None = None,
    *,
    activation: str = "none",
    channels_last: int = 0,
    dilation: int = 1,
    ndim: int = 1,
    state_window: int = 0,
) -> tuple[Array, Array]:
    """Depthwise causal convolution with a state of previous inputs; also returns the new state."""
    if ndim != 1:
        msg = f"ndim is {ndim}; expected 1, as ONNX Runtime has it"
        raise KernelError(msg)
    if activation not in ("none", "silu", "swish") or dilation < 1:
        msg = f"activation {activation!r}, dilation {dilation}; expected none, silu or swish, and 1 or more"
        raise KernelError(msg)
    rows = np.moveaxis(x.reshape(*x.shape[:2], prod(x.shape[2:])), 1, 2) if channels_last and x.ndim > 2 else x
    if rows.ndim != 3 or weight.ndim != 3 or weight.shape[:2] != (rows.shape[1], 1) or not weight.shape[2]:
        msg = f"input {x.shape} and weight {weight.shape}; expected (batch, channels, time) and (channels, 1, size)"
        raise KernelError(msg)
    batch, channels, steps = rows.shape
    taps = weight.shape[2]
    before = (taps - 1) * dilation
    check_size((batch, channels, before + steps), np.float32)
    inner = x.shape[2:] if channels_last else ()
    state = _last_state(past_state, state_window, (batch, before, *inner) if inner else (batch, channels, before))
    if inner:
        state = np.moveaxis(state.reshape(batch, before, channels), 1, 2)
    whole = np.concatenate([state, widen(rows)], 2)
    y: Array = zeros((batch, channels, steps), np.float32)
    if bias is not None:
        y += widen(bias)[:, None]
    wide = widen(weight)
    for tap in range(taps):
        y += whole[:, :, tap * dilation : tap * dilation + steps] * wide[:, :, tap]
    if activation != "none":
        y = onnx("Swish", 24, y)
    slots = [
        whole[:, :, end : end + before] if end >= 0 and (end or not state_window) else np.zeros_like(state)
        for end in range(steps - max(state_window, 1) + 1, steps + 1)
    ]
    if inner:
        slots = [np.moveaxis(s, 1, 2).reshape(batch, before, *inner) for s in slots]
        y = np.moveaxis(y, 1, 2).reshape(x.shape)
    present = narrow(np.stack(slots), x.dtype)
    return narrow(np.ascontiguousarray(y), x.dtype), present if state_window else present[0]


@kernel("VarlenCausalConvWithState", since=1, domain=MICROSOFT)
def varlen_causal_conv_with_state_1(
    x: Array,
    weight: Array,
    cumulative_sequence_length: Array,
    bias: Array | None,
    initial_state: Array,
    capture_count: Array | None = None,
    *,
    activation: str = "none",
    dilation: int = 1,
    state_update_capacity: int = 0,
) -> tuple[Array, Array, Array | None]:
    """Return the same for concatenated sequences (tokens, channels); also returns states after the requested tokens."""
    ranges = sequence_ranges(cumulative_sequence_length, x.shape)
    if x.ndim != 2 or initial_state.ndim != 3 or len(initial_state) != len(ranges):
        msg = f"input {x.shape}, states {initial_state.shape}; expected (tokens, channels) and {len(ranges)} of rank 2"
        raise KernelError(msg)
    captured = captures(capture_count, state_update_capacity, ranges)
    check_size(x.shape, np.float32)
    rows, states = [], []
    for (start, end), state in zip(ranges, initial_state, strict=True):
        y, after = causal_conv_with_state_1(
            x[start:end].T[None], weight, bias, state[None], activation=activation, dilation=dilation
        )
        rows.append(y[0].T)
        states.append(after)
    updates: Array = zeros((len(ranges), state_update_capacity, x.shape[1]), x.dtype)
    for update, (start, _), count in zip(updates, ranges, captured, strict=False):
        update[:count] = x[start : start + count]
    return np.concatenate(rows), np.concatenate(states), updates if state_update_capacity else None


@kernel("GatedDeltaNet", since=1, domain=MICROSOFT)
def gated_delta_net_1(
    query: Array,
    key: Array | None = None,
    value: Array | None = None,
    cu_seqlens: Array | None = None,
    decay: Array | None = None,
    beta: Array | None = None,
    initial_state: Array | None = None,
    a_log: Array | None = None,
    dt_bias: Array | None = None,
    _capture_count: Array | None = None,  # belongs to the state updates refused below
    _state_update_active: Array | None = None,
    *,
    beta_activation: str = "none",
    _chunk_size: int = 64,  # a hint for devices
    gate_activation: str = "none",
    qk_l2_norm: int = 0,
    scale: float = 0.0,
    state_update_capacity: int = 0,
    update_rule: str = "gated_delta",
) -> tuple[Array, Array]:
    """Linear attention over concatenated sequences, each with its own state, (B, heads, d_v, d_k)."""
    if state_update_capacity or update_rule not in _RULES:
        msg = f"state_update_capacity {state_update_capacity}, update_rule {update_rule!r}; expected 0 and a known rule"
        raise KernelError(msg)
    q, k, v, lead = _net_heads(query, key, value, initial_state)
    count, heads, size = len(q), v.shape[1], q.shape[2]
    if qk_l2_norm:
        q, k = (x / np.sqrt(np.square(x).sum(-1, keepdims=True) + np.float32(1e-6)) for x in (q, k))
    q, k = (_repeated(x, heads, "query and key") for x in (q, k))
    factor = rate = None
    if update_rule.startswith("gated"):
        factor = _net_decay(_net_gate(decay, "decay", (count, heads)), a_log, dt_bias, gate_activation)
    if update_rule.endswith("delta"):
        rate = _net_gate(beta, "beta", (count, heads))
        rate = sigmoid(rate) if beta_activation == "sigmoid" else rate
    bounds = _net_bounds(cu_seqlens, lead, initial_state)
    expected = (len(bounds) - 1, heads, v.shape[2], size)
    if initial_state is not None and initial_state.shape != expected:
        msg = f"initial_state has shape {initial_state.shape}; expected {expected}"
        raise KernelError(msg)
    final: Array = zeros(expected, np.float32)
    if initial_state is not None:
        final[:] = initial_state
    y = empty((count, heads, v.shape[2]), np.float32)
    q = q * np.float32(scale or 1 / np.sqrt(size))
    for state, (begin, end) in zip(final, pairwise(bounds), strict=True):
        # Tokens of one sequence as (1, heads, tokens, size).
        queries, keys, values = (x[begin:end].swapaxes(0, 1)[None] for x in (q, k, v))
        forget, update = (None if x is None else x[begin:end].swapaxes(0, 1)[None] for x in (factor, rate))
        turned = state.swapaxes(-1, -2)[None].copy()
        part = recur(queries, keys, values, turned, forget, None if update is None else update[..., 0])
        y[begin:end] = part[0].swapaxes(0, 1)
        state[:] = turned[0].swapaxes(-1, -2)
    return narrow(y.reshape(*lead, *y.shape[1:]), query.dtype), final


def _net_heads(
    query: Array, key: Array | None, value: Array | None, state: Array | None
) -> tuple[Array, Array, Array, tuple[int, ...]]:
    """Queries, keys and values as float32 (tokens, heads, size), and the axes of the tokens."""
    if key is not None and value is not None:
        if query.ndim not in (3, 4) or key.shape != query.shape or value.shape[:-2] != query.shape[:-2]:
            msg = f"query {query.shape}, key {key.shape}, value {value.shape}; expected (tokens, heads, size) of each"
            raise KernelError(msg)
        q, k, v = (widen(x).reshape(-1, *x.shape[-2:]) for x in (query, key, value))
        return q, k, v, query.shape[:-2]
    if state is None or state.ndim != 4 or query.ndim not in (2, 3):
        msg = f"packed query of shape {query.shape}; expected (tokens, width) and an initial_state of 4 dimensions"
        raise KernelError(msg)
    _, heads, depth, size = state.shape
    width, rest = divmod(query.shape[-1] - heads * depth, 2 * size or 1)
    if rest or width < 1:
        given = f"{query.shape[-1]} columns cannot be queries, keys and values of a state of shape {state.shape}"
        msg = f"{given}; expected {heads * depth} and a multiple of {2 * size}"
        raise KernelError(msg)
    flat = widen(query).reshape(-1, query.shape[-1])
    q, k, v = np.split(flat, [width * size, 2 * width * size], 1)
    tokens = len(flat)
    return (
        q.reshape(tokens, width, size),
        k.reshape(tokens, width, size),
        v.reshape(tokens, heads, depth),
        (query.shape[:-1]),
    )


def _net_gate(gate: Array | None, name: str, lead: tuple[int, int]) -> Array:
    """Return a gate as (tokens, heads, size or 1)."""
    if gate is None or gate.size % (lead[0] * lead[1] or 1):
        msg = f"{name} is {None if gate is None else gate.shape}; expected a number per token and {lead[1]} heads"
        raise KernelError(msg)
    return widen(gate).reshape(*lead, -1) if gate.size else np.zeros((*lead, 1), np.float32)


def _net_decay(decay: Array, a_log: Array | None, dt_bias: Array | None, activation: str) -> Array:
    """Return the factor of the state, (tokens, heads, size or 1)."""
    if activation == "none":
        return np.exp(decay)
    if activation != "qwen" or a_log is None or dt_bias is None:
        msg = f"gate_activation is {activation!r}; expected none, or qwen with a_log and dt_bias"
        raise KernelError(msg)
    fall = np.exp(widen(a_log))[:, None] * onnx("Softplus", 22, decay + widen(dt_bias)[:, None])
    return np.asarray(np.exp(-fall))


def _net_bounds(ends: Array | None, lead: tuple[int, ...], state: Array | None) -> list[int]:
    """Return the bounds of each sequence in the table of tokens."""
    count = int(np.prod(lead))
    if ends is not None:
        bounds = [int(e) for e in ends.reshape(-1)]
    else:
        batch = lead[0] if len(lead) == 2 else len(state) if state is not None else 0
        bounds = list(range(0, count + 1, count // batch)) if batch and count >= batch and not count % batch else []
    if len(bounds) < 2 or bounds[0] != 0 or bounds[-1] != count or bounds != sorted(bounds):
        msg = f"{count} tokens in sequences that end at {bounds[:20]}; expected cu_seqlens or sequences of one length"
        raise KernelError(msg)
    return bounds
