"""Fast steps of RNN, GRU and LSTM with the default activations, in as few and cheap numpy calls as possible.

Three things save time. A sigmoid is (1 + tanh(x/2)) / 2, so one tanh serves all gates; the halves are folded into the
weights (and the LSTM's state is kept doubled), so that only 1 + tanh remains. All buffers are preallocated. And the
state's product is split into slices of columns small enough for OpenBLAS to skip packing the weights, which for a
handful of rows costs several times the arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable
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

#: step(number, h, target): write the next h to target (slices, N, H / slices), given h (N, H) and the inputs at a time.
Step = Callable[[int, Array, Array], None]


def run_quick(
    cell: Cell, inputs: Array, h: Array, c: Array | None, out: Array, *, reverse: bool
) -> tuple[Array, Array | None]:
    """Run over inputs (T, N, gates × H), writing each h to out (T, N, H); returns the last h and c."""
    steps, batch = inputs.shape[:2]
    slices = _slices(batch, cell.hidden)
    width = cell.hidden // slices
    # (T, gates, slices, N, width): the layout of the product with the state
    parts = inputs.reshape(steps, batch, inputs.shape[2] // cell.hidden, slices, width).transpose(0, 2, 3, 1, 4)
    targets = out.reshape(steps, batch, slices, width).transpose(0, 2, 1, 3)
    state = np.ascontiguousarray(h)
    if cell.kind == "LSTM":
        assert c is not None
        cells = np.ascontiguousarray(c.reshape(batch, slices, width).transpose(1, 0, 2))
        step, cells = _lstm(cell, parts, cells)
        state = state * 2
    else:
        step = (_gru if cell.kind == "GRU" else _rnn)(cell, parts)
    for number in range(steps - 1, -1, -1) if reverse else range(steps):
        if number % 32 == 0:
            checkpoint()
        step(number, state, targets[number])
        state = out[number]
    if cell.kind == "LSTM":
        np.multiply(out, 0.5, out=out)
        last = cells.transpose(1, 0, 2).reshape(batch, cell.hidden)
        return (state if steps else h), last
    return state, None


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


def _halved_product(cell: Cell, slices: int) -> Callable[[Array, Array], Any]:
    r = cell.packed(slices, lambda: pack_columns(cell.r * cell.r.dtype.type(0.5), slices))
    return lambda h, out: np.matmul(h, r, out)


def _lstm(cell: Cell, parts: Array, c: Array) -> tuple[Step, Array]:
    """Gates i, o, f, g; h is kept doubled (the recurrent weights are halved), c is not."""
    _, _, slices, batch, width = parts.shape
    multiply = cell.product(batch, slices) if cell.product is not None else _halved_product(cell, slices)
    # one buffer of o, i, f, g, c, so that (i, f) times (g, c) is one product of adjacent parts
    buffer = aligned((5, slices, batch, width), parts.dtype)
    buffer[4] = c
    gates, sigmoids, pair, others = buffer[:4], buffer[:3], buffer[1:3], buffer[3:5]
    o, i, f, cells = buffer[0], buffer[1], buffer[2], buffer[4]
    flat = gates.reshape(4 * slices, batch, width)
    products = aligned((2, slices, batch, width), parts.dtype)
    first, second = products
    one, two, half = (np.array(v, parts.dtype) for v in (1, 2, 0.5))  # of no axes: numbers are slower to add

    def step(number: int, h: Array, target: Array) -> None:
        multiply(h, flat)
        np.add(gates, parts[number], gates)
        np.tanh(gates, gates)
        np.add(sigmoids, one, sigmoids)
        if cell.input_forget:
            np.subtract(two, i, f)
        np.multiply(pair, others, products)
        np.add(first, second, cells)
        np.multiply(cells, half, cells)
        np.tanh(cells, first)
        np.multiply(o, first, target)

    return step, cells


def _gru(cell: Cell, parts: Array) -> Step:
    """Gates z, r, h; what r multiplies is halved in advance."""
    _, _, slices, batch, width = parts.shape
    hidden = cell.hidden
    linear = cell.recurrent_bias is not None

    def pack() -> Array:
        weights = cell.r.copy(order="K")
        weights[:, 2 * hidden :] *= weights.dtype.type(0.5)
        return pack_columns(weights, slices)

    r = cell.packed(slices, pack)
    r_gates, r_candidate = r[: 2 * slices], r[2 * slices :]
    buffer = aligned((3, slices, batch, width), parts.dtype)
    gates, z, reset, candidate = buffer[:2], buffer[0], buffer[1], buffer[2]
    whole, flat = buffer.reshape(3 * slices, batch, width), gates.reshape(2 * slices, batch, width)
    work = aligned((slices, batch, width), parts.dtype)
    rows = np.empty((batch, hidden), parts.dtype)
    rows_view = rows.reshape(batch, slices, width).transpose(1, 0, 2)
    bias: Any = 0.5 * cell.recurrent_bias.reshape(slices, 1, width) if cell.recurrent_bias is not None else None
    one, half = np.array(1, parts.dtype), np.array(0.5, parts.dtype)

    def step(number: int, h: Array, target: Array) -> None:
        part = parts[number]
        before = h.reshape(batch, slices, width).transpose(1, 0, 2)
        np.matmul(h, r if linear else r_gates, whole if linear else flat)
        np.add(gates, part[:2], gates)
        np.tanh(gates, gates)
        np.add(gates, one, gates)
        if linear:
            np.add(candidate, bias, candidate)
            np.multiply(candidate, reset, candidate)
        else:
            np.multiply(reset, before, rows_view)
            np.matmul(rows, r_candidate, candidate)
        np.add(candidate, part[2], candidate)
        np.tanh(candidate, candidate)
        np.subtract(before, candidate, work)
        np.multiply(work, z, work)
        np.multiply(work, half, work)
        np.add(candidate, work, target)

    return step


def _rnn(cell: Cell, parts: Array) -> Step:
    _, _, slices, batch, width = parts.shape
    r = cell.packed(slices, lambda: pack_columns(cell.r, slices))
    gate = aligned((slices, batch, width), parts.dtype)

    def step(number: int, h: Array, target: Array) -> None:
        np.matmul(h, r, gate)
        np.add(gate, parts[number, 0], gate)
        np.tanh(gate, target)

    return step
