"""RNN, GRU and LSTM layers, all versions: signatures, layouts and directions around the cells of `recurrence`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.registry import kernel, prepares
from onnx_workbench.exec.kernels.shared.dtypes import compute_dtype, narrow, widen
from onnx_workbench.exec.kernels.shared.recurrence import (
    Cell,
    activations,
    checked_lengths,
    directions_of,
    make_cell,
    run_layer,
)
from onnx_workbench.exec.values.arrays import Array, empty, zeros

_USUAL = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh")}
_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


@dataclass(frozen=True, slots=True)
class _Options:
    """The attributes of the three operators."""

    kind: str
    direction: str = "forward"
    activations: tuple[str, ...] | None = None
    activation_alpha: tuple[float, ...] | None = None
    activation_beta: tuple[float, ...] | None = None
    clip: float | None = None
    hidden_size: int | None = None
    layout: int = 0
    linear_before_reset: int = 0
    input_forget: int = 0
    output_sequence: int = 0  # Y is given whatever it says

    @property
    def reversed(self) -> tuple[bool, ...]:
        """Return per direction whether it runs backwards; KernelError for an unknown direction."""
        return directions_of("forward" if self.direction == "foward" else self.direction)  # as GRU-1 spells its default


def _cells(options: _Options, w: Array, r: Array, b: Array | None, p: Array | None) -> list[Cell]:
    """Return one packed cell per direction from W (D, gates × H, I), R (D, gates × H, H), B and P."""
    count = len(options.reversed)
    hidden = r.shape[-1] if r.ndim else 0
    gates = _GATES[options.kind]
    if w.ndim != 3 or r.shape != (count, gates * hidden, hidden) or w.shape[:2] != r.shape[:2]:
        msg = (
            f"W has shape {w.shape} and R {r.shape}, expected ({count}, {gates} × hidden_size, input_size) and "
            f"({count}, {gates} × hidden_size, hidden_size)"
        )
        raise KernelError(msg)
    if options.hidden_size is not None and options.hidden_size != hidden:
        msg = f"hidden_size is {options.hidden_size}, but R has shape {r.shape}; expected {hidden}"
        raise KernelError(msg)
    for name, value, columns in (("B", b, 2 * gates * hidden), ("P", p, 3 * hidden)):
        if value is not None and value.shape != (count, columns):
            msg = f"{name} has shape {value.shape}, expected ({count}, {columns})"
            raise KernelError(msg)
    usual = _USUAL[options.kind]
    names = options.activations or usual * count
    each = len(usual)
    if len(names) < count * each:
        msg = f"activations lists {len(names)}, expected {each} per direction"
        raise KernelError(msg)
    functions = activations(names, options.activation_alpha, options.activation_beta)
    return [
        make_cell(
            options.kind,
            widen(w[d]),
            widen(r[d]),
            None if b is None else widen(b[d]),
            tuple(functions[d * each : (d + 1) * each]),
            usual=[n.lower() for n in names[d * each : (d + 1) * each]] == [n.lower() for n in usual],
            clip=None if options.clip is None or options.clip < 0 else options.clip,  # no number is in [0.5, -0.5]
            linear_before_reset=bool(options.linear_before_reset),
            peephole=None if p is None else widen(p[d]),
            input_forget=bool(options.input_forget),
        )
        for d in range(count)
    ]


def _run(
    options: _Options,
    cells: list[Cell],
    x: Array,
    sequence_lens: Array | None,
    initial_h: Array | None,
    initial_c: Array | None,
) -> tuple[Array, Array, Array | None]:
    """Run all directions over X; outputs Y, Y_h and (LSTM) Y_c in the layout of the attributes."""
    if x.ndim != 3 or x.shape[2] != cells[0].w.shape[0]:
        msg = f"X has shape {x.shape}, expected 3 axes with {cells[0].w.shape[0]} inputs last"
        raise KernelError(msg)
    dtype = compute_dtype(x.dtype)
    source = np.ascontiguousarray(widen(x).swapaxes(0, 1) if options.layout else widen(x))
    steps, batch = source.shape[:2]
    count, hidden = len(cells), cells[0].hidden
    shape = (count, batch, hidden)
    h = _state(initial_h, shape, options.layout, dtype, "initial_h")
    c = _state(initial_c, shape, options.layout, dtype, "initial_c") if options.kind == "LSTM" else None
    lengths = checked_lengths(sequence_lens, steps, batch)
    y = empty((steps, *shape), dtype)
    last_h, last_c = run_layer(cells, source, h, c, lengths, backwards=options.reversed, out=y)
    if options.layout:
        y, last_h = y.transpose(2, 0, 1, 3), last_h.swapaxes(0, 1)
        last_c = None if last_c is None else last_c.swapaxes(0, 1)
    return narrow(y, x.dtype), narrow(last_h, x.dtype), None if last_c is None else narrow(last_c, x.dtype)


def _state(value: Array | None, shape: tuple[int, ...], layout: int, dtype: np.dtype[Any], name: str) -> Array:
    if value is None:
        return zeros(shape, dtype)
    state = value.swapaxes(0, 1) if layout and value.ndim == 3 else value
    if state.shape != shape:
        msg = f"{name} has shape {value.shape}, expected {shape}, or with layout 1 the first two swapped"
        raise KernelError(msg)
    return widen(state)


# RNN


@kernel("RNN", since=1, without=("layout",))
@kernel("RNN", since=7, without=("layout", "output_sequence"))
@kernel("RNN", since=14, without=("output_sequence",))
def rnn_14(
    x: Array,
    w: Array,
    r: Array,
    b: Array | None = None,
    sequence_lens: Array | None = None,
    initial_h: Array | None = None,
    *,
    activation_alpha: tuple[float, ...] | None = None,
    activation_beta: tuple[float, ...] | None = None,
    activations: tuple[str, ...] = ("Tanh", "Tanh"),
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
    output_sequence: int = 0,
) -> tuple[Array, Array]:
    """H = f(X W^T + H R^T + biases) for every step; all H and the last. With layout 1 the batch comes first."""
    return _plain("RNN", locals())[:2]


# GRU


@kernel("GRU", since=1, without=("layout", "linear_before_reset"), defaults={"direction": "foward"})
@kernel("GRU", since=3, without=("layout",))
@kernel("GRU", since=7, without=("layout", "output_sequence"))
@kernel("GRU", since=14, without=("output_sequence",))
def gru_14(
    x: Array,
    w: Array,
    r: Array,
    b: Array | None = None,
    sequence_lens: Array | None = None,
    initial_h: Array | None = None,
    *,
    activation_alpha: tuple[float, ...] | None = None,
    activation_beta: tuple[float, ...] | None = None,
    activations: tuple[str, ...] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
    linear_before_reset: int = 0,
    output_sequence: int = 0,
) -> tuple[Array, Array]:
    """Gated recurrent units: gates z and r, candidate h; all H and the last. With layout 1 the batch comes first.

    linear_before_reset multiplies by r after the product with Rh instead of before.
    """
    return _plain("GRU", locals())[:2]


# LSTM


@kernel("LSTM", since=1, without=("layout",))
@kernel("LSTM", since=7, without=("layout", "output_sequence"))
@kernel("LSTM", since=14, without=("output_sequence",))
def lstm_14(
    x: Array,
    w: Array,
    r: Array,
    b: Array | None = None,
    sequence_lens: Array | None = None,
    initial_h: Array | None = None,
    initial_c: Array | None = None,
    p: Array | None = None,
    *,
    activation_alpha: tuple[float, ...] | None = None,
    activation_beta: tuple[float, ...] | None = None,
    activations: tuple[str, ...] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    input_forget: int = 0,
    layout: int = 0,
    output_sequence: int = 0,
) -> tuple[Array, Array, Array | None]:
    """Long short-term memory: gates i, o, f and cell c, with optional peepholes; all H, the last H and C.

    With layout 1 the batch comes first.
    """
    return _plain("LSTM", locals())


_INPUTS = ("x", "w", "r", "b", "sequence_lens", "initial_h", "initial_c", "p")


def _plain(kind: str, given: dict[str, Any]) -> tuple[Array, Array, Array | None]:
    """Run a layer with the inputs and attributes of a call, by name."""
    options = _Options(kind, **{name: value for name, value in given.items() if name not in _INPUTS})
    inputs: list[Any] = [given.get(name) for name in _INPUTS]
    x, w, r, b, lengths, h, c, p = inputs
    return _run(options, _cells(options, w, r, b, p), x, lengths, h, c)


# Constant weights are packed once


def _prepare(kind: str, constants: Sequence[Array | None], **attributes: Any) -> Callable[..., Any] | None:
    padded = [*constants, *[None] * (8 - len(constants))]
    w, r, b, p = padded[1], padded[2], padded[3], padded[7]
    if w is None or r is None:
        return None
    options = _Options(kind, **attributes)
    cells = _cells(options, w, r, b, p)

    def run(*inputs: Array | None) -> tuple[Array | None, ...]:
        given: list[Array | None] = [*inputs, *[None] * (8 - len(inputs))]
        x, bias, lengths, h, c, peephole = given[0], *given[3:]
        assert x is not None
        packed = cells
        if (bias is not None and b is None) or (peephole is not None and p is None):  # not constant after all
            packed = _cells(options, w, r, bias, peephole)
        return _run(options, packed, x, lengths, h, c)[: 3 if kind == "LSTM" else 2]

    return run


prepares(rnn_14)(partial(_prepare, "RNN"))
prepares(gru_14)(partial(_prepare, "GRU"))
prepares(lstm_14)(partial(_prepare, "LSTM"))
