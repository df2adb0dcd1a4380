"""DynamicQuantizeLSTM: 8-bit weights; inputs and hidden states are quantized by their range at every step."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.allocation import Array, zeros
from onnx_workbench.exec.kernels.context import checkpoint
from onnx_workbench.exec.kernels.microsoft.onnx_calls import MICROSOFT
from onnx_workbench.exec.kernels.microsoft.quantized import dynamic_quantize_matmul_1
from onnx_workbench.exec.kernels.onnx.math.matrix import centred, has_exact_sums
from onnx_workbench.exec.kernels.registry import kernel, prepares
from onnx_workbench.exec.kernels.shared.recurrence import Activation, checked_lengths, directions_of
from onnx_workbench.exec.kernels.shared.recurrence import activations as functions_of
from onnx_workbench.exec.kernels.shared.weights import LaidOut

_ZERO, _ONE, _MOST = np.float32(0), np.float32(1), np.float32(255)
_HALF = np.array(0.5, np.float32)  # an array of no axes: numbers take longer to multiply by
_USUAL = ("sigmoid", "tanh", "tanh")


class _Weights:
    """8-bit weights of one direction, [inputs, 4 · hidden], with scales and zero points per tensor or column."""

    def __init__(self, codes: Array, scale: Array, zero: Array) -> None:
        self._plain = codes, scale, zero
        self._scale = scale.reshape(()) if scale.size == 1 else scale
        self._centred = centred(codes, zero)
        self._laid_out = LaidOut(self._centred)
        self._is_exact = has_exact_sums(self._centred)

    def times(self, x: Array) -> Array:
        """Return x · weights, with `x` quantized by its range first: DynamicQuantizeMatMul in few calls."""
        low, high = np.minimum.reduce(x, None, initial=_ZERO), np.maximum.reduce(x, None, initial=_ZERO)
        span = high - low
        if not self._is_exact or x.dtype != np.float32 or not math.isfinite(span):
            return dynamic_quantize_matmul_1(x, *self._plain)
        scale = span / _MOST if span > 0 else _ONE
        zero = min(max(np.rint(-low / scale), _ZERO), _MOST)
        codes = x / scale
        np.rint(codes, codes)
        np.maximum(codes, -zero, out=codes)
        np.minimum(codes, _MOST - zero, out=codes)
        result = self._laid_out.product(codes)
        if result is None:
            result = np.matmul(codes, self._centred)
        result *= scale * self._scale
        return result


def _directions(codes: Array, scale: Array, zero: Array) -> list[_Weights]:
    return [_Weights(*one) for one in zip(codes, scale, zero, strict=False)]


@dataclass(frozen=True, slots=True)
class _Gates:
    """Parameters of a step besides the products."""

    bias: Array
    peephole: Array | None  # [i, o, f]
    clip: float
    input_forget: bool
    functions: Sequence[Activation]
    is_usual: bool  # the default functions and nothing else


@kernel("DynamicQuantizeLSTM", since=1, domain=MICROSOFT)
def dynamic_quantize_lstm_1(
    x: Array,
    w: Array,
    r: Array,
    b: Array | None,
    sequence_lens: Array | None,
    initial_h: Array | None,
    initial_c: Array | None,
    p: Array | None,
    w_scale: Array,
    w_zero_point: Array,
    r_scale: Array,
    r_zero_point: Array,
    *,
    activation_alpha: Sequence[float] | None = None,
    activation_beta: Sequence[float] | None = None,
    activations: Sequence[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    input_forget: int = 0,
) -> tuple[Array, Array, Array]:
    """All hidden states, the last ones and the last cells; W and R are [directions, inputs, 4 · hidden]."""
    weights = _directions(w, w_scale, w_zero_point), _directions(r, r_scale, r_zero_point)
    return _layer(
        weights, x, w, r, b, sequence_lens, initial_h, initial_c, p, activation_alpha=activation_alpha,
        activation_beta=activation_beta, activations=activations, clip=clip, direction=direction,
        hidden_size=hidden_size, input_forget=input_forget,
    )  # fmt: skip


@prepares(dynamic_quantize_lstm_1)
def prepare_dynamic_quantize_lstm(
    constants: tuple[Array | None, ...], **attributes: Any
) -> Callable[..., tuple[Array, Array, Array]] | None:
    """Centre constant weights once."""
    w, r, *scales = (constants[index] for index in (1, 2, 8, 9, 10, 11))
    w_scale, w_zero, r_scale, r_zero = scales
    if w is None or r is None or w_scale is None or w_zero is None or r_scale is None or r_zero is None:
        return None
    weights = _directions(w, w_scale, w_zero), _directions(r, r_scale, r_zero)

    def run(*inputs: Array | None) -> tuple[Array, Array, Array]:
        x, w, r, *others = inputs[:8]
        assert x is not None
        assert w is not None
        assert r is not None
        return _layer(weights, x, w, r, *others, **attributes)

    return run


def _layer(
    weights: tuple[list[_Weights], list[_Weights]],
    x: Array,
    w: Array,
    r: Array,
    b: Array | None,
    sequence_lens: Array | None,
    initial_h: Array | None,
    initial_c: Array | None,
    p: Array | None,
    *,
    activation_alpha: Sequence[float] | None = None,
    activation_beta: Sequence[float] | None = None,
    activations: Sequence[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    input_forget: int = 0,
) -> tuple[Array, Array, Array]:
    directions = directions_of(direction)
    hidden = r.shape[1] if r.ndim == 3 else 0
    if x.ndim != 3 or w.ndim != 3 or r.shape != (len(directions), hidden, 4 * hidden) or (
        w.shape != (len(directions), x.shape[2], 4 * hidden) or hidden_size not in (None, hidden)
    ):  # fmt: skip
        msg = f"X {x.shape}, W {w.shape}, R {r.shape}, direction {direction!r}; expected [D, inputs, 4 · hidden]"
        raise KernelError(msg)
    steps, batch = x.shape[:2]
    lengths = checked_lengths(sequence_lens, steps, batch)
    names = tuple(activations or ("Sigmoid", "Tanh", "Tanh") * len(directions))
    functions = functions_of(names, _tuple(activation_alpha), _tuple(activation_beta))
    y = zeros((steps, len(directions), batch, hidden), np.float32)
    last_h, last_c = (zeros((len(directions), batch, hidden), np.float32) for _ in range(2))
    for d, backwards in enumerate(directions):
        bias = np.zeros(4 * hidden, np.float32) if b is None else b[d, : 4 * hidden] + b[d, 4 * hidden :]
        usual = tuple(name.lower() for name in names[3 * d : 3 * d + 3]) == _USUAL
        is_usual = usual and p is None and not clip and not input_forget
        gates = _Gates(
            bias, None if p is None else p[d], clip or 0.0, bool(input_forget), functions[3 * d : 3 * d + 3], is_usual
        )
        product = weights[0][d].times(x.reshape(steps * batch, -1))
        recurrent = weights[1][d]
        h = last_h[d] if initial_h is None else initial_h[d]
        c = last_c[d] if initial_c is None else initial_c[d]
        last_h[d], last_c[d] = _direction(
            product.reshape(steps, batch, -1), recurrent, gates, (h, c), lengths, backwards=backwards, out=y[:, d]
        )
    return y, last_h, last_c


def _tuple(values: Sequence[float] | None) -> tuple[float, ...] | None:
    return None if values is None else tuple(values)


def _direction(
    product: Array,
    recurrent: _Weights,
    gates: _Gates,
    state: tuple[Array, Array],
    lengths: Array | None,
    *,
    backwards: bool,
    out: Array,
) -> tuple[Array, Array]:
    """Run over time; entries keep their state past their length. Backwards, each starts at its own end.

    `lengths` None: all run to the end.
    """
    h, c = state
    if lengths is None:
        step_of = _usual_step if gates.is_usual else _step
        for step in range(len(product) - 1, -1, -1) if backwards else range(len(product)):
            if step % 32 == 0:
                checkpoint()
            total = recurrent.times(h)
            total += product[step]
            h, c = step_of(total, gates, c)
            out[step] = h
        return h, c
    entries = np.arange(len(lengths))
    for step in range(int(lengths.max(initial=0))):
        checkpoint()
        active = step < lengths
        index = np.where(active, lengths - 1 - step, 0) if backwards else np.full(len(lengths), step)
        new_h, new_c = _step(product[index, entries] + recurrent.times(h), gates, c)
        h = np.where(active[:, None], new_h, h)
        c = np.where(active[:, None], new_c, c)
        out[index[active], entries[active]] = new_h[active]
    return h, c


def _usual_step(total: Array, gates: _Gates, c: Array) -> tuple[Array, Array]:
    """Return what `_step` does for the default functions, with one tanh for all gates; overwrites `total`."""
    hidden = c.shape[1]
    total += gates.bias
    sigmoids = total[:, : 3 * hidden]
    sigmoids *= _HALF
    np.tanh(total, total)
    sigmoids *= _HALF
    sigmoids += _HALF
    i, o, f, g = (total[:, k * hidden : (k + 1) * hidden] for k in range(4))
    new_c = f * c
    i *= g
    new_c += i
    return o * np.tanh(new_c), new_c


def _step(total: Array, gates: _Gates, c: Array) -> tuple[Array, Array]:
    hidden = c.shape[1]
    gate, inner, outer = gates.functions
    i, o, f, g = np.split(total + gates.bias, 4, axis=1)
    if gates.peephole is not None:
        p_i, p_o, p_f = gates.peephole[:hidden], gates.peephole[hidden : 2 * hidden], gates.peephole[2 * hidden :]
        i, f = i + p_i * c, f + p_f * c
    i = gate(_clipped(i, gates.clip))
    f = 1 - i if gates.input_forget else gate(_clipped(f, gates.clip))
    new_c = f * c + i * inner(_clipped(g, gates.clip))
    if gates.peephole is not None:
        o = o + p_o * new_c
    return gate(_clipped(o, gates.clip)) * outer(new_c), new_c


def _clipped(x: Array, clip: float) -> Array:
    return np.asarray(np.clip(x, -clip, clip)) if clip else x
