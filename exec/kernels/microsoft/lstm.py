"""DynamicQuantizeLSTM: 8-bit weights; inputs and hidden states are quantized by their range at every step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, cached_property, partial
from typing import Any

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.microsoft.onnx_calls import MICROSOFT
from onnx_workbench.exec.kernels.microsoft.quantized import dynamic_quantize_matmul_1
from onnx_workbench.exec.kernels.registry import kernel, prepares
from onnx_workbench.exec.kernels.shared.byte_products import ByteMatrix, numkong, numkong_pays
from onnx_workbench.exec.kernels.shared.recurrence import Cell, Times, checked_lengths, directions_of, run_layer
from onnx_workbench.exec.kernels.shared.recurrence import activations as functions_of
from onnx_workbench.exec.values.arrays import Array, zeros

_ONE, _MOST, _HALF = np.float32(1), np.float32(255), np.float32(0.5)
_USUAL = ("sigmoid", "tanh", "tanh")
_ORDER = [1, 0, 2, 3]
_NONE = np.zeros((0, 0), np.float32)
#: Bytes that NumKong's kernels read at a time: rows of another length take them three times as long.
_LINE = 64


def _times(codes: Array, scale: Array, zero: Array) -> Times:
    """Return what multiplies rows by 8-bit weights: DynamicQuantizeMatMul."""
    matrix = ByteMatrix(codes, zero)

    def times(x: Array) -> Array:
        if not x.size:
            return np.zeros((len(x), codes.shape[1]), np.float32)
        return dynamic_quantize_matmul_1(x, matrix, scale, zero)

    return times


def _reordered(x: Array) -> Array:
    """Return values of the gates i, o, f, c (…, 4 · H) in the order of `recurrence_quick`: o, i, f, c."""
    return x if x.size <= 1 else x.reshape(*x.shape[:-1], 4, -1)[..., _ORDER, :].reshape(x.shape)


def _for_quick(x: Array, factor: np.float32 = _ONE) -> Array:
    """Return what scales gates, or is added to them, as `recurrence_quick` wants it: that of the sigmoids halved."""
    result = _reordered(x) * factor
    result[..., : x.shape[-1] // 4 * 3] *= _HALF
    return result


class _Direction:
    """8-bit weights of one direction, of the inputs and of the hidden state, with scales and zero points per tensor or
    column.
    """

    def __init__(self, w: tuple[Array, Array, Array], r: tuple[Array, Array, Array]) -> None:
        codes, scale, zero = w
        columns = 4 * len(r[0])
        self._scale, self._recurrent = np.broadcast_to(r[1].reshape(-1), (columns,)), r
        self._plain = Cell("LSTM", _NONE, _NONE, _NONE, len(r[0]), (), times_w=_times(*w), times_r=_times(*r))
        scales = _for_quick(np.broadcast_to(scale.reshape(-1), (columns,)))
        times = _times(_reordered(codes), scales, _reordered(zero))
        self._quick = replace(self._plain, times_w=times, quantized=self._quantized)

    def cell(self, bias: Array, batch: int, usual: bool, **options: Any) -> Cell:
        """Return the cell; a quick one with it where activations are `usual` and sums exact."""
        cell = replace(self._plain, bias=bias, **options)
        if not usual or not batch or not cell.hidden:
            return cell
        by_bytes = self._by_bytes(batch)
        if not by_bytes and not self._matrix.has_exact_sums:
            return cell
        weights = _NONE if by_bytes else self._matrix.centred
        return replace(
            cell, quick=replace(self._quick, r=weights, bias=_for_quick(bias), input_forget=cell.input_forget)
        )

    def _by_bytes(self, batch: int) -> bool:
        hidden = self._plain.hidden
        return numkong_pays(batch, hidden, 4 * hidden) and self._bytes is not None

    @cached_property
    def _matrix(self) -> ByteMatrix:
        codes, _, zero = self._recurrent
        return ByteMatrix(_reordered(codes), _reordered(zero))

    @cached_property
    def _bytes(self) -> Any:
        """The weights of the hidden state for NumKong, rows below them that add up to minus their sums, and zeros; None
        where the weights less their zero points do not fit.
        """
        codes, _, zero = self._recurrent
        wide = _reordered(codes).astype(np.int16) - _reordered(zero).astype(np.int16)
        if wide.min() < -128 or wide.max() > 127:
            return None
        sums = wide.sum(0, dtype=np.int32)
        depth, count = len(wide), -(-int(np.abs(sums).max()) // 127)
        rows = np.zeros((depth + count + -(depth + count) % _LINE, len(sums)), np.int8)
        rows[:depth] = wide
        rows[depth : depth + count] = np.clip(np.abs(sums) - 127 * np.arange(count)[:, None], 0, 127) * -np.sign(sums)
        return numkong().library.dots_pack(np.ascontiguousarray(rows.T))

    def _quantized(self, out: Array, plain: Callable[[], Callable[[Array], Any]]) -> Callable[[Array], Any]:
        """Return what quantizes the doubled hidden state and writes its product to out (4 × slices, N, H / slices).

        `plain` makes what writes the product of integers with the halved weights there, for where it is not of bytes.
        """
        batch, hidden = out.shape[1], self._plain.hidden
        times = None if self._by_bytes(batch) else plain()
        factors = _for_quick(self._scale, _HALF if times is None else _ONE).reshape(len(out), 1, -1)
        codes, work = np.empty((batch, hidden), np.float32), np.empty_like(factors)
        if times is None:
            library, matrix = numkong().library, self._bytes
            rows = np.empty((batch, matrix.depth), np.int8)
            states, rest = rows[:, :hidden], rows[:, hidden:]
            sums = library.empty((batch, 4 * hidden), dtype="int32")
            total = np.asarray(sums).reshape(batch, len(out), -1).swapaxes(0, 1)

        def multiply(h: Array) -> None:
            at_least, at_most = h.argmin(), h.argmax()
            step = np.float32(max(h.item(at_most), 0.0) - min(h.item(at_least), 0.0)) / _MOST or _ONE
            np.divide(h, step, codes)
            np.rint(codes, codes)
            least, most = max(min(codes.item(at_least), 0.0), -255.0), max(codes.item(at_most), 0.0)
            if most - least > 255:  # both ends were rounded outwards
                np.clip(codes, least, least + 255, codes)
            if times is None:  # moved to fit 8 bits
                shift = -128 - int(least)
                np.add(codes, shift, codes)
                np.copyto(states, codes, casting="unsafe")
                rest.fill(shift)
                library.dots_packed(rows, matrix, out=sums)
                np.copyto(out, total, casting="unsafe")
            else:
                times(codes)
            np.multiply(factors, step, work)
            np.multiply(out, work, out)

        return multiply


def _directions(w: Array, w_scale: Array, w_zero: Array, r: Array, r_scale: Array, r_zero: Array) -> list[_Direction]:
    inputs, recurrent = zip(w, w_scale, w_zero, strict=False), zip(r, r_scale, r_zero, strict=False)
    return [_Direction(*both) for both in zip(inputs, recurrent, strict=False)]


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
    weights = partial(_directions, w, w_scale, w_zero_point, r, r_scale, r_zero_point)
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
    weights = cache(partial(_directions, w, w_scale, w_zero, r, r_scale, r_zero))

    def run(*inputs: Array | None) -> tuple[Array, Array, Array]:
        x, w, r, *others = inputs[:8]
        assert x is not None
        assert w is not None
        assert r is not None
        return _layer(weights, x, w, r, *others, **attributes)

    return run


def _layer(
    weights: Callable[[], list[_Direction]],
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
    state = (len(directions), batch, hidden)
    cells = []
    for d, one in enumerate(weights()):
        bias = np.zeros(4 * hidden, np.float32) if b is None else b[d, : 4 * hidden] + b[d, 4 * hidden :]
        usual = tuple(name.lower() for name in names[3 * d : 3 * d + 3]) == _USUAL and p is None and not clip
        peephole = None if p is None else p[d].reshape(3, hidden)
        cells.append(
            one.cell(
                bias, batch, usual, activations=tuple(functions[3 * d : 3 * d + 3]), clip=clip or None,
                peephole=peephole, input_forget=bool(input_forget),
            )
        )  # fmt: skip
    y = zeros((steps, *state), np.float32)
    h, c = (zeros(state, np.float32) if given is None else given for given in (initial_h, initial_c))
    last_h, last_c = run_layer(cells, x, h, c, lengths, backwards=directions, out=y)
    if not np.isfinite(y).all():
        plain = [replace(cell, quick=None) for cell in cells]
        last_h, last_c = run_layer(plain, x, h, c, lengths, backwards=directions, out=y)
    assert last_c is not None
    return y, last_h, last_c


def _tuple(values: Sequence[float] | None) -> tuple[float, ...] | None:
    return None if values is None else tuple(values)
