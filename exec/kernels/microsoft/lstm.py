"""DynamicQuantizeLSTM: 8-bit weights; inputs and hidden states are quantized by their range at every step."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.microsoft.onnx_calls import MICROSOFT
from onnx_workbench.exec.kernels.microsoft.quantized import dynamic_quantize_matmul_1
from onnx_workbench.exec.kernels.registry import kernel, prepares
from onnx_workbench.exec.kernels.shared.byte_products import ByteMatrix, PackedBytes
from onnx_workbench.exec.kernels.shared.recurrence import Activation, Cell, checked_lengths, directions_of
from onnx_workbench.exec.kernels.shared.recurrence import activations as functions_of
from onnx_workbench.exec.kernels.shared.recurrence_quick import pack_columns, run_quick
from onnx_workbench.exec.values.arrays import Array, zeros
from onnx_workbench.exec.values.limits import checkpoint

_ONE, _MOST = np.float32(1), np.float32(255)
_HALF = np.float32(0.5)
_USUAL = ("sigmoid", "tanh", "tanh")


def _range(x: Array) -> tuple[float, float]:
    """Return the least and the largest value and 0, by calls that are quick for few values."""
    return min(x.item(x.argmin()), 0.0), max(x.item(x.argmax()), 0.0)


def _quantized(x: Array, low: float, high: float) -> tuple[Array, Any, int]:
    """Return x as integers in 256 steps from `low` to `high`, less that of 0, the step, and the integer of 0 counted
    from the lowest: DynamicQuantizeLinear.
    """
    scale = np.float32(high - low) / _MOST or _ONE
    least, most = np.rint(low / scale), np.rint(high / scale)
    zero = min(-int(least), 255)
    codes = x / scale
    np.rint(codes, codes)
    if most - least > _MOST:  # both ends were rounded outwards
        np.clip(codes, -zero, 255 - zero, codes)
    return codes, scale, zero


def _byte_product(codes: Array, zero: int, packed: PackedBytes) -> Array:
    """Return the product of what `_quantized` returns, moved to where it fits int8."""
    return packed.product((codes + (zero - 128)).astype(np.int8), zero - 128)


class _Weights:
    """8-bit weights of one direction, [inputs, 4 · hidden], with scales and zero points per tensor or column."""

    def __init__(self, codes: Array, scale: Array, zero: Array) -> None:
        self._plain = codes, scale, zero
        self.scale = scale.reshape(()) if scale.size == 1 else scale
        self.matrix = ByteMatrix(codes, zero)

    def times(self, x: Array) -> Array:
        """Return x · weights, with `x` quantized by its range first: DynamicQuantizeMatMul in few calls."""
        low, high = _range(x) if x.size else (0.0, 0.0)
        packed = self.matrix.packed(len(x))
        is_finite = x.dtype == np.float32 and math.isfinite(np.float32(high - low))
        if not is_finite or not (packed or self.matrix.has_exact_sums):
            return dynamic_quantize_matmul_1(x, *self._plain)
        codes, step, zero = _quantized(x, low, high)
        total = self.matrix.product_of_integers(codes) if packed is None else _byte_product(codes, zero, packed)
        result: Array = total.astype(np.float32, copy=False)
        result *= step * self.scale
        return result

    def reordered(self) -> _Weights:
        """Return the weights of the gates i, o, f, c as `recurrence_quick` wants them: o, i, f, c."""
        codes, scale, zero = (
            x if x.size == 1 else x.reshape(-1, 4, x.shape[-1] // 4)[:, _ORDER].reshape(x.shape) for x in self._plain
        )
        return _Weights(codes, scale, zero)


_ORDER = [1, 0, 2, 3]


class _Direction:
    """8-bit weights of one direction: of the inputs, and of the hidden state."""

    def __init__(self, w: tuple[Array, Array, Array], r: tuple[Array, Array, Array]) -> None:
        self.inputs, self.recurrent = _Weights(*w), _Weights(*r)

    @cached_property
    def _reordered(self) -> _Weights:
        return self.recurrent.reordered()

    @cached_property
    def _cell(self) -> Cell:
        none = np.zeros((0, 0), np.float32)
        return Cell("LSTM", none, none, none, self.recurrent.matrix.shape[0], (), product=self._product)

    def quick(self, batch: int) -> Cell | None:
        """Return the weights of the hidden state for the default activations; None if their sums may be inexact."""
        matrix = self._reordered.matrix
        return self._cell if matrix.packed(batch) is not None or matrix.has_exact_sums else None

    def _product(self, batch: int, slices: int) -> Callable[[Array, Array], Any]:
        """Return what multiplies the doubled hidden state by the weights, those of the sigmoids halved."""
        weights = self._reordered
        hidden = weights.matrix.shape[0]
        factors: Array = np.broadcast_to(weights.scale, (4 * hidden,)).reshape(4, slices, 1, -1) * _HALF
        factors[:3] *= _HALF
        factors = factors.reshape(4 * slices, 1, -1)
        packed = weights.matrix.packed(batch)
        if packed is None:
            r = self._cell.packed((slices, 1), lambda: pack_columns(weights.matrix.centred, slices))

        def multiply(h: Array, out: Array) -> None:
            codes, step, zero = _quantized(h, *_range(h))
            if packed is None:
                np.matmul(codes, r, out)
            else:
                parts = _byte_product(codes, zero, packed).reshape(batch, len(out), -1)
                np.copyto(out, parts.swapaxes(0, 1), casting="unsafe")
            np.multiply(out, step * factors, out)

        return multiply


def _for_quick(gates: Array) -> Array:
    """Return (…, 4, H) of the gates i, o, f, c in the order of `recurrence_quick`, those of the sigmoids halved."""
    result: Array = gates[..., _ORDER, :]
    result[..., :3, :] *= _HALF
    return result


def _directions(w: Array, w_scale: Array, w_zero: Array, r: Array, r_scale: Array, r_zero: Array) -> list[_Direction]:
    inputs, recurrent = zip(w, w_scale, w_zero, strict=False), zip(r, r_scale, r_zero, strict=False)
    return [_Direction(*both) for both in zip(inputs, recurrent, strict=False)]


@dataclass(frozen=True, slots=True)
class _Gates:
    """Parameters of a step besides the products and biases."""

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
    weights = _directions(w, w_scale, w_zero_point, r, r_scale, r_zero_point)
    return _layer(
        weights, x, w, r, b, sequence_lens, initial_h, initial_c, p, activation_alpha=activation_alpha,
        activation_beta=activation_beta, activations=activations, clip=clip, direction=direction,
        hidden_size=hidden_size, input_forget=input_forget,
    )  # fmt: skip


@prepares(dynamic_quantize_lstm_1)
def prepare_dynamic_quantize_lstm(
    constants: tuple[Array | None, ...], **attributes: Any
) -> Callable[..., tuple[Array, Array, Array]] | None:
    """Keep constant weights in the form that products read fastest."""
    w, r, *scales = (constants[index] for index in (1, 2, 8, 9, 10, 11))
    w_scale, w_zero, r_scale, r_zero = scales
    if w is None or r is None or w_scale is None or w_zero is None or r_scale is None or r_zero is None:
        return None
    weights = _directions(w, w_scale, w_zero, r, r_scale, r_zero)

    def run(*inputs: Array | None) -> tuple[Array, Array, Array]:
        x, w, r, *others = inputs[:8]
        assert x is not None
        assert w is not None
        assert r is not None
        return _layer(weights, x, w, r, *others, **attributes)

    return run


def _layer(
    weights: list[_Direction],
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
        gates = _Gates(None if p is None else p[d], clip or 0.0, bool(input_forget), functions[3 * d : 3 * d + 3])
        product = weights[d].inputs.times(x.reshape(steps * batch, -1)).reshape(steps, batch, 4 * hidden)
        product += bias
        h = last_h[d] if initial_h is None else initial_h[d]
        c = last_c[d] if initial_c is None else initial_c[d]
        end = None
        if usual and p is None and not clip and lengths is None and product.size:
            end = _run_quick(weights[d], product, gates, (h, c), backwards=backwards, out=y[:, d])
        if end is None:
            end = _run(product, weights[d].recurrent, gates, (h, c), lengths, backwards=backwards, out=y[:, d])
        last_h[d], last_c[d] = end
    return y, last_h, last_c


def _tuple(values: Sequence[float] | None) -> tuple[float, ...] | None:
    return None if values is None else tuple(values)


def _run_quick(
    weights: _Direction, product: Array, gates: _Gates, state: tuple[Array, Array], *, backwards: bool, out: Array
) -> tuple[Array, Array | None] | None:
    """Return what `_run` does for the default functions and no lengths; None if that is not possible."""
    cell = weights.quick(product.shape[1])
    if cell is None:
        return None
    inputs = _for_quick(product.reshape(*product.shape[:2], 4, -1)).reshape(product.shape)
    h, c = (one[None] for one in state)
    cell = replace(cell, input_forget=gates.input_forget)
    end, last = run_quick([cell], [inputs], h, c, out[:, None], [backwards])
    return (end[0], None if last is None else last[0]) if np.isfinite(out).all() else None


def _run(
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
        for step in range(len(product) - 1, -1, -1) if backwards else range(len(product)):
            if step % 32 == 0:
                checkpoint()
            h, c = _step(product[step] + recurrent.times(h), gates, c)
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


def _step(total: Array, gates: _Gates, c: Array) -> tuple[Array, Array]:
    hidden = c.shape[1]
    gate, inner, outer = gates.functions
    i, o, f, g = np.split(total, 4, axis=1)
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
