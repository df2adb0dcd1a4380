"""DynamicQuantizeLSTM: 8-bit weights; inputs and hidden states are quantized by their range at every step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.allocation import Array, zeros
from onnx_workbench.exec.kernels.context import checkpoint
from onnx_workbench.exec.kernels.microsoft.onnx_calls import MICROSOFT
from onnx_workbench.exec.kernels.microsoft.quantized import dynamic_quantize_matmul_1
from onnx_workbench.exec.kernels.registry import kernel
from onnx_workbench.exec.kernels.shared.recurrence import Activation, checked_lengths, directions_of
from onnx_workbench.exec.kernels.shared.recurrence import activations as functions_of


@dataclass(frozen=True, slots=True)
class _Weights:
    """8-bit weights of one direction, [inputs, 4 · hidden], with scales and zero points per tensor or column."""

    codes: Array
    scale: Array
    zero: Array

    def times(self, x: Array) -> Array:
        """Return x · weights, with `x` quantized by its range first."""
        return dynamic_quantize_matmul_1(x, self.codes, self.scale, self.zero)


@dataclass(frozen=True, slots=True)
class _Gates:
    """Parameters of a step besides the products."""

    bias: Array
    peephole: Array | None  # [i, o, f]
    clip: float
    input_forget: bool
    functions: Sequence[Activation]


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
    directions = directions_of(direction)
    hidden = r.shape[1] if r.ndim == 3 else 0
    if x.ndim != 3 or w.ndim != 3 or r.shape != (len(directions), hidden, 4 * hidden) or (
        w.shape != (len(directions), x.shape[2], 4 * hidden) or hidden_size not in (None, hidden)
    ):  # fmt: skip
        msg = f"X {x.shape}, W {w.shape}, R {r.shape}, direction {direction!r}; expected [D, inputs, 4 · hidden]"
        raise KernelError(msg)
    steps, batch = x.shape[:2]
    lengths = checked_lengths(sequence_lens, steps, batch)
    if lengths is None:
        lengths = np.full(batch, steps)
    names = tuple(activations or ("Sigmoid", "Tanh", "Tanh") * len(directions))
    functions = functions_of(names, _tuple(activation_alpha), _tuple(activation_beta))
    y = zeros((steps, len(directions), batch, hidden), np.float32)
    last_h, last_c = (zeros((len(directions), batch, hidden), np.float32) for _ in range(2))
    for d, backwards in enumerate(directions):
        bias = np.zeros(4 * hidden, np.float32) if b is None else b[d, : 4 * hidden] + b[d, 4 * hidden :]
        gates = _Gates(bias, None if p is None else p[d], clip or 0.0, bool(input_forget), functions[3 * d : 3 * d + 3])
        product = _Weights(w[d], w_scale[d], w_zero_point[d]).times(x.reshape(steps * batch, -1))
        recurrent = _Weights(r[d], r_scale[d], r_zero_point[d])
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
    lengths: Array,
    *,
    backwards: bool,
    out: Array,
) -> tuple[Array, Array]:
    """Run over time; entries keep their state past their length. Backwards, each starts at its own end."""
    h, c = state
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
