"""Fast steps of RNN, GRU and LSTM with the default activations, in as few and cheap numpy calls as possible.

Three things save time. A sigmoid of an LSTM is (1 + tanh(x/2)) / 2, so one tanh serves all gates; the halves are folded
into the weights (and the state is kept doubled), so that only 1 + tanh remains. What one of a GRU would multiply is
divided by 1 + exp(-x). All buffers are preallocated. And the state's product is split into slices of columns small
enough for OpenBLAS to skip packing the weights, which for a handful of rows costs several times the arithmetic; one row
is multiplied by the weights as they are stored. The directions of a small layer share all calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_workbench.exec.kernels.shared.products import UNPACKED
from onnx_workbench.exec.kernels.shared.scratch import aligned, copy_transposed
from onnx_workbench.exec.values.arrays import Array
from onnx_workbench.exec.values.limits import checkpoint

if TYPE_CHECKING:
    from onnx_workbench.exec.kernels.shared.recurrence import Cell

#: Rows × columns × depth of a product that OpenBLAS computes fastest; up to `UNPACKED` it needs no packing.
_SLICE = 300_000
_FEW = 64  # rows

#: Bytes of recurrent weights up to which directions run side by side: those of all then stay in the second-level cache.
_BESIDE = 1 << 20

#: step(number, h, before, target): write the next h to target (D, slices, N, H / slices), given the inputs at a number
#: and h twice, as rows (D, 1, N, H), of one direction (N, H), and in the layout of the target.
Step = Callable[[int, Array, Array, Array], None]


def run_quick(
    cells: Sequence[Cell], inputs: Sequence[Array], h: Array, c: Array | None, out: Array, backwards: Sequence[bool]
) -> tuple[Array, Array | None]:
    """Run the directions of a layer, which differ in their weights only, each over its inputs (T, N, gates × H).

    Writes each h to out (T, D, N, H); returns the last h and c (D, N, H). Small ones run side by side, so that each
    call of numpy serves all.
    """
    if len(cells) > 1 and (cells[0].quantized is not None or sum(cell.r.nbytes for cell in cells) > _BESIDE):
        each = [
            run_quick([cell], [inputs[d]], h[d : d + 1], None if c is None else c[d : d + 1], out[:, d : d + 1], [turn])
            for d, (cell, turn) in enumerate(zip(cells, backwards, strict=True))
        ]
        last = [end for _, end in each if end is not None]
        return np.concatenate([end for end, _ in each]), np.concatenate(last) if last else None
    inputs = [one[::-1] if turn else one for one, turn in zip(inputs, backwards, strict=True)]
    if len(cells) == 1:
        return _run(cells, inputs, h, c, out[::-1] if backwards[0] else out)
    states = np.empty(out.shape, out.dtype)  # in the order of the steps
    ends = _run(cells, inputs, h, c, states)
    for d, turn in enumerate(backwards):
        out[:, d] = states[::-1, d] if turn else states[:, d]
    return ends


def _run(
    cells: Sequence[Cell], inputs: Sequence[Array], h: Array, c: Array | None, out: Array
) -> tuple[Array, Array | None]:
    (steps, count, batch, hidden), kind = out.shape, cells[0].kind
    slices = _slices(batch, hidden)
    width = hidden // slices
    # (T, gates, D, slices, N, width): the layout of the product with the state
    shape = (steps, batch, inputs[0].shape[2] // hidden, slices, width)
    each = [one.reshape(shape).transpose(0, 2, 3, 1, 4) for one in inputs]
    parts = each[0][:, :, None]
    if count > 1:
        parts = np.empty((*each[0].shape[:2], count, *each[0].shape[2:]), out.dtype)
        for d, part in enumerate(each):
            parts[:, :, d] = part
    targets = out.reshape(steps, count, batch, slices, width).swapaxes(2, 3)
    state = np.ascontiguousarray(h)
    before = state.reshape(count, batch, slices, width).swapaxes(1, 2)
    if kind == "LSTM":
        assert c is not None
        step, now = _lstm(cells, parts, c.reshape(before.shape[0], batch, slices, width).swapaxes(1, 2))
        state = state * 2
    else:
        step = (_gru if kind == "GRU" else _rnn)(cells, parts)
    rows_of = out[:, 0] if count == 1 else out[:, :, None]
    state = state.reshape(rows_of.shape[1:])
    for number, (rows, target) in enumerate(zip(rows_of, targets, strict=True)):
        if number % 32 == 0:
            checkpoint()
        step(number, state, before, target)
        state, before = rows, target
    last = state.reshape(h.shape)
    if kind == "LSTM":
        np.multiply(out, 0.5, out=out)
        return (last if steps else h), now.swapaxes(1, 2).reshape(h.shape)
    return last, None


@cache
def _slices(batch: int, hidden: int) -> int:
    """Return the number of slices into which the columns of a gate are split."""
    if batch == 1 or batch > _FEW:  # a vector product packs nothing anyway, and for many rows packing pays
        return 1
    for most, least_width in ((_SLICE, 64), (UNPACKED, 32)):
        for count in range(1, hidden // least_width + 1):
            if hidden % count == 0 and batch * (hidden // count) * hidden <= most:
                return count
    return 1


def pack_columns(r: Array, slices: int) -> Array:
    """(H, gates × H), of contiguous columns or rows, as (gates × slices, H, width)."""
    hidden = r.shape[0]
    width = hidden // slices
    packed = aligned((r.shape[1] // width, hidden, width), r.dtype)
    if r.flags.c_contiguous:  # 8-bit weights are stored so
        np.copyto(packed, r.reshape(hidden, -1, width).swapaxes(0, 1))
        return packed
    for rows, target in zip(r.T.reshape(-1, width, hidden), packed, strict=True):
        copy_transposed(rows, target)
    return packed


def _packed(cells: Sequence[Cell], slices: int, weights_of: Callable[[Cell], Array]) -> Array:
    """Return the recurrent weights of all directions as (gates, D, slices, H, width), made on first use."""

    def make() -> Array:
        packed = [pack_columns(weights_of(cell), slices) for cell in cells]
        if len(packed) == 1:
            return packed[0].reshape(-1, 1, slices, *packed[0].shape[1:])
        shape = (len(packed[0]) // slices, len(cells), slices, *packed[0].shape[1:])
        both = aligned(shape, packed[0].dtype)
        for d, one in enumerate(packed):
            both[:, d] = one.reshape(-1, slices, *one.shape[1:])
        return both

    return cells[0].packed((slices, len(cells)), make)


def _stack(matrices: Array) -> Array:
    """Return (gates, D, slices, R, C) of one direction as (gates × slices, R, C), which matmul goes through faster."""
    gates, directions, slices, *sides = matrices.shape
    return matrices.reshape(gates * slices, *sides) if directions == 1 else matrices


def _products(
    cells: Sequence[Cell], parts: Array, weights_of: Callable[[Cell], Array]
) -> Callable[[slice, Array], Callable[[Array], Any]]:
    """Return what makes a function of h that writes its product with the weights of some gates to a buffer for them."""
    _, _, count, slices, batch, width = parts.shape
    if count == 1 == batch:
        columns = cells[0].packed((1, 0), lambda: _aligned_columns(weights_of(cells[0])))

        def of_row(gates: slice, out: Array) -> Callable[[Array], Any]:
            some, row = columns[:, gates.start * width : gates.stop * width], out.reshape(1, -1)
            return lambda h: np.dot(h, some, row)

        return of_row
    matrices = _packed(cells, slices, weights_of)

    def of_rows(gates: slice, out: Array) -> Callable[[Array], Any]:
        some, stack = _stack(matrices[gates]), _stack(out)
        return lambda h: np.matmul(h, some, stack)

    return of_rows


def _aligned_columns(r: Array) -> Array:
    """Copy (H, gates × H) so that each of its columns is contiguous."""
    result = aligned(r.T.shape, r.dtype)
    np.copyto(result, r.T)
    return result.T


def _lstm(cells: Sequence[Cell], parts: Array, c: Array) -> tuple[Step, Array]:
    """Gates i, o, f, g; h is kept doubled (the recurrent weights are halved), c is not."""
    _, _, count, slices, batch, width = parts.shape
    # one buffer of o, i, f, g, c, so that (i, f) times (g, c) is one product of adjacent parts
    buffer = aligned((5, count, slices, batch, width), parts.dtype)
    buffer[4] = c
    gates, sigmoids, pair, others = buffer[:4], buffer[:3], buffer[1:3], buffer[3:5]
    o, i, f, now = buffer[0], buffer[1], buffer[2], buffer[4]
    products = aligned((2, count, slices, batch, width), parts.dtype)
    first, second = products
    one, two, half = (np.array(v, parts.dtype) for v in (1, 2, 0.5))  # of no axes: numbers are slower to add
    quantized, forgets = cells[0].quantized, cells[0].input_forget

    def plain() -> Callable[[Array], Any]:
        return _products(cells, parts, lambda cell: cell.r * half)(slice(0, 4), gates)

    multiply = plain() if quantized is None else quantized(_stack(gates), plain)

    def step(number: int, h: Array, _before: Array, target: Array) -> None:
        multiply(h)
        np.add(gates, parts[number], gates)
        np.tanh(gates, gates)
        np.add(sigmoids, one, sigmoids)
        if forgets:
            np.subtract(two, i, f)
        np.multiply(pair, others, products)
        np.add(first, second, now)
        np.multiply(now, half, now)
        np.tanh(now, first)
        np.multiply(o, first, target)

    return step, now


def _gru(cells: Sequence[Cell], parts: Array) -> Step:
    """Gates z, r, h; the weights of z and r are negative, and 1 + exp of them divides what the gates would multiply."""
    _, _, count, slices, batch, width = parts.shape
    hidden, one = slices * width, np.array(1, parts.dtype)
    biases = [cell.recurrent_bias for cell in cells if cell.recurrent_bias is not None]
    buffer = aligned((3, count, slices, batch, width), parts.dtype)
    gates, z, reset, candidate = buffer[:2], buffer[0], buffer[1], buffer[2]
    work = aligned(candidate.shape, parts.dtype)
    product_of = _products(cells, parts, lambda cell: cell.r)
    multiply = product_of(slice(0, 3), buffer) if biases else product_of(slice(0, 2), gates)
    multiply_reset = product_of(slice(2, 3), buffer[2:])
    last = parts[:, 2]
    if biases:  # they are added with the inputs of the gates
        last = last.copy()
        parts = parts.copy()
        parts[:, 2] = np.stack(biases).reshape(count, slices, 1, width)
    rows = np.empty((count, 1, batch, hidden) if count > 1 else (batch, hidden), parts.dtype)
    rows_view = rows.reshape(count, batch, slices, width).swapaxes(1, 2)

    def step(number: int, h: Array, before: Array, target: Array) -> None:
        multiply(h)
        if biases:
            np.add(buffer, parts[number], buffer)
        else:
            np.add(gates, parts[number, :2], gates)
        np.exp(gates, gates)
        np.add(gates, one, gates)
        if biases:
            np.divide(candidate, reset, candidate)
        else:
            np.divide(before, reset, rows_view)
            multiply_reset(rows)
        np.add(candidate, last[number], candidate)
        np.tanh(candidate, candidate)
        np.subtract(before, candidate, work)
        np.divide(work, z, work)
        np.add(candidate, work, target)

    return step


def _rnn(cells: Sequence[Cell], parts: Array) -> Step:
    gate = aligned((1, *parts.shape[2:]), parts.dtype)
    multiply = _products(cells, parts, lambda cell: cell.r)(slice(0, 1), gate)

    def step(number: int, h: Array, _before: Array, target: Array) -> None:
        multiply(h)
        np.add(gate, parts[number], gate)
        np.tanh(gate[0], target)

    return step
