"""Cells of RNN, GRU and LSTM, one direction at a time, over time-major sequences (T, N, features).

The inputs of all steps go through one product before the loop. Cells with the default activations and no clipping,
peepholes or lengths then run in `recurrence_quick`; the steps here support all of that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.shared.recurrence_quick import run_quick
from onnx_workbench.exec.values.arrays import Array, empty
from onnx_workbench.exec.values.limits import checkpoint

Activation = Callable[[Array], Array]

#: The product of rows with weights.
Times = Callable[[Array], Array]


_BACKWARDS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}


def directions_of(direction: str) -> tuple[bool, ...]:
    """Return per direction of a layer whether it runs backwards; KernelError for an unknown one."""
    if direction not in _BACKWARDS:
        msg = f"direction is {direction!r}, expected forward, reverse or bidirectional"
        raise KernelError(msg)
    return _BACKWARDS[direction]


@dataclass(frozen=True, slots=True)
class Cell:
    """One direction of a layer, ready to run: weights transposed for products from the right, as views of W and R."""

    kind: str  # RNN, GRU, LSTM
    w: Array  # (I, gates × H)
    r: Array  # (H, gates × H)
    bias: Array  # (gates × H,), added to the inputs of all steps
    hidden: int
    activations: tuple[Activation, ...]
    clip: float | None = None
    recurrent_bias: Array | None = None  # GRU with linear_before_reset: Rbh, inside the reset
    peephole: Array | None = None  # (3, H): i, o, f
    input_forget: bool = False
    quick: Cell | None = None  # the same with weights for recurrence_quick, where that applies
    times_w: Times | None = None  # where the weights are quantized: what multiplies by them instead of `w`
    times_r: Times | None = None
    #: For recurrence_quick: of a buffer, and what makes the multiplication by `r` into it, one of the quantized state.
    quantized: Callable[[Array, Callable[[], Callable[[Array], Any]]], Callable[[Array], Any]] | None = None
    feedback: Activation | None = None  # (N, H) → (N, A): the values that `r`, then (H + A, gates × H), takes beside h
    _packed: dict[tuple[int, int], Array] = field(default_factory=dict)

    def packed(self, form: tuple[int, int], make: Callable[[], Array]) -> Array:
        """Return the recurrent weights in a number of slices, with those of so many directions, made on first use."""
        weights = self._packed.get(form)
        if weights is None:
            weights = self._packed[form] = make()
        return weights

    @property
    def by_rows(self) -> Array:
        """The recurrent weights with contiguous rows, which small products read fastest; made on first use."""
        return self.packed((0, 1), lambda: np.ascontiguousarray(self.r))


def make_cell(
    kind: str,
    w: Array,
    r: Array,
    b: Array | None,
    activations: tuple[Activation, ...],
    *,
    usual: bool,
    clip: float | None,
    linear_before_reset: bool = False,
    peephole: Array | None = None,
    input_forget: bool = False,
) -> Cell:
    """Pack W (gates × H, I), R (gates × H, H) and B (2 × gates × H); `usual`: the activations are the default."""
    hidden = r.shape[1]
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind]
    if w.shape[0] != gates * hidden or r.shape[0] != gates * hidden:
        msg = f"W has shape {w.shape} and R {r.shape} per direction, expected {gates} × hidden_size rows"
        raise KernelError(msg)
    both = np.zeros((2, gates * hidden), w.dtype) if b is None else b.reshape(2, gates * hidden)
    bias, inner = both[0] + both[1], None
    if linear_before_reset:
        inner = both[1, 2 * hidden :].copy()
        bias[2 * hidden :] = both[0, 2 * hidden :]
    cell = Cell(
        kind,
        w.T,
        r.T,
        bias,
        hidden,
        activations,
        clip,
        inner,
        None if peephole is None else peephole.reshape(3, hidden),
        input_forget,
    )
    return replace(cell, quick=_for_quick(cell)) if usual and clip is None and peephole is None else cell


def _for_quick(cell: Cell) -> Cell:
    """Return the cell with negative weights of a GRU's sigmoid gates, or halved ones of an LSTM's, whose gates are
    reordered from i, o, f, c to o, i, f, c.
    """
    hidden = cell.hidden
    order = np.arange(cell.w.shape[1])
    factor = np.ones(cell.w.shape[1], cell.w.dtype)
    if cell.kind != "RNN":
        gates, value = {"GRU": (2, -1), "LSTM": (3, 0.5)}[cell.kind]
        factor[: gates * hidden] = value
    if cell.kind == "LSTM":
        order[: 2 * hidden] = np.roll(order[: 2 * hidden], hidden)
    w, r = ((weights.T * factor[:, None])[order].T for weights in (cell.w, cell.r))  # whole rows of W and R
    return replace(cell, w=w, r=r, bias=(cell.bias * factor)[order], _packed={})


def run_layer(
    cells: Sequence[Cell],
    x: Array,
    h: Array,
    c: Array | None,
    lengths: Array | None,
    *,
    backwards: Sequence[bool],
    out: Array,
) -> tuple[Array, Array | None]:
    """Run all directions over x (T, N, I) from states h, c (D, N, H), see `run_cell`; out is (T, D, N, H)."""
    if lengths is not None and (lengths == lengths[0]).all():  # as one sequence alone has
        end = int(lengths[0])
        out[end:] = 0
        x, out, lengths = x[:end], out[:end], None
    quick = [cell.quick for cell in cells if cell.quick is not None]
    if lengths is None and len(quick) == len(cells):
        return run_quick(quick, [_inputs(cell, x) for cell in quick], h, c, out, backwards)
    ends = [
        run_cell(cell, x, h[d], None if c is None else c[d], lengths, reverse=reverse, out=out[:, d])
        for d, (cell, reverse) in enumerate(zip(cells, backwards, strict=True))
    ]
    last = [end for _, end in ends if end is not None]
    return np.stack([end for end, _ in ends]), np.stack(last) if last else None


def run_cell(
    cell: Cell, x: Array, h: Array, c: Array | None, lengths: Array | None, *, reverse: bool, out: Array | None
) -> tuple[Array, Array | None]:
    """Run over x (T, N, I) from state h, c (N, H); writes each h to out (T, N, H) and returns the last h and c.

    `lengths` (N,) ends each sequence of the batch early: its state stays and `out` is zero from there on. Feedback is
    zero before the first step.
    """
    inputs = _inputs(cell, x)
    if lengths is not None and reverse:
        time = np.arange(len(x))[:, None]
        order = np.where(time < lengths, lengths - 1 - time, time)
        inputs = np.take_along_axis(inputs, order[:, :, None], axis=0)
    step = {"RNN": _rnn_step, "GRU": _gru_step, "LSTM": _lstm_step}[cell.kind](cell)
    if cell.feedback is not None:
        step = _fed_back(step, cell.feedback)
        h = np.concatenate([h, np.zeros((len(h), len(cell.r) - cell.hidden), x.dtype)], axis=1)
    state = (h.astype(x.dtype), None if c is None else c.astype(x.dtype))
    states = _loop(step, inputs, state, lengths, backwards=reverse and lengths is None)
    for number, state in states:
        if out is not None:
            now = state[0][:, : cell.hidden]
            out[number] = now if lengths is None else now * (number < lengths)[:, None]
    if out is not None and lengths is not None and reverse:
        out[...] = np.take_along_axis(out, order[:, :, None], axis=0)
    return state[0][:, : cell.hidden], state[1]


def _fed_back(step: Step, feedback: Activation) -> Step:
    """Return a step whose hidden state is concatenated with its feedback."""

    def both(gate: Array, h: Array, c: Array | None) -> State:
        h, c = step(gate, h, c)
        return np.concatenate([h, feedback(h)], axis=1), c

    return both


def checked_lengths(sequence_lens: Array | None, steps: int, batch: int) -> Array | None:
    """Return lengths per sequence, None when all run to the end; KernelError for invalid ones."""
    if sequence_lens is None:
        return None
    if sequence_lens.shape != (batch,) or (batch and not 0 <= sequence_lens.min() <= sequence_lens.max() <= steps):
        msg = f"sequence_lens is {sequence_lens.tolist()}, expected {batch} lengths from 0 to {steps}"
        raise KernelError(msg)
    return None if (sequence_lens == steps).all() else sequence_lens.astype(np.int64)


def _inputs(cell: Cell, x: Array) -> Array:
    """Return the contributions of inputs and biases to the gates of all steps: (T, N, gates × H)."""
    steps, batch, width = x.shape
    rows = x.reshape(steps * batch, width)
    if cell.times_w is None:
        result = np.matmul(rows, cell.w, out=empty((len(rows), cell.w.shape[1]), x.dtype))
    else:
        result = cell.times_w(rows)
    return np.add(result, cell.bias, out=result).reshape(steps, batch, len(cell.bias))


State = tuple[Array, "Array | None"]
Step = Callable[[Array, Array, "Array | None"], State]


def _loop(
    step: Step, inputs: Array, state: State, lengths: Array | None, *, backwards: bool
) -> Iterator[tuple[int, State]]:
    """Yield (time, state) of every step; a state is valid until the next."""
    count = inputs.shape[0]
    for number in range(count - 1, -1, -1) if backwards else range(count):
        if number % 16 == 0:
            checkpoint()
        new = step(inputs[number], *state)
        if lengths is not None and not (live := number < lengths).all():
            kept = [
                None if a is None or b is None else np.where(live[:, None], a, b)
                for a, b in zip(new, state, strict=True)
            ]
            assert kept[0] is not None
            new = kept[0], kept[1]
        state = new
        yield number, state


def _rnn_step(cell: Cell) -> Step:
    activation, weights = cell.activations[0], cell.by_rows

    def step(gate: Array, h: Array, _c: Array | None) -> State:
        return activation(_clipped(gate + h @ weights, cell.clip)), None

    return step


def _gru_step(cell: Cell) -> Step:
    hidden, f, g = cell.hidden, cell.activations[0], cell.activations[1]
    r_gates, r_hidden = cell.by_rows[:, : 2 * hidden], cell.by_rows[:, 2 * hidden :]

    def step(gate: Array, h: Array, _c: Array | None) -> State:
        gates = f(_clipped(gate[:, : 2 * hidden] + h @ r_gates, cell.clip))
        z, r = gates[:, :hidden], gates[:, hidden:]
        inner = (r * h) @ r_hidden if cell.recurrent_bias is None else r * (h @ r_hidden + cell.recurrent_bias)
        candidate = g(_clipped(gate[:, 2 * hidden :] + inner, cell.clip))
        return candidate + z * (h - candidate), None

    return step


def _lstm_step(cell: Cell) -> Step:
    hidden, weights = cell.hidden, cell.by_rows
    times = cell.times_r or (lambda h: h @ weights)
    f_act, g_act, h_act = cell.activations

    def step(gate: Array, h: Array, c: Array | None) -> State:
        assert c is not None
        gate = gate + times(h)
        i, o, f, g = (gate[:, k * hidden : (k + 1) * hidden] for k in range(4))
        if cell.peephole is not None:
            i = i + cell.peephole[0] * c
            f = f + cell.peephole[2] * c
        i = f_act(_clipped(i, cell.clip))
        f = 1 - i if cell.input_forget else f_act(_clipped(f, cell.clip))
        c = f * c + i * g_act(_clipped(g, cell.clip))
        if cell.peephole is not None:
            o = o + cell.peephole[1] * c
        return f_act(_clipped(o, cell.clip)) * h_act(c), c

    return step


def _clipped(x: Array, clip: float | None) -> Array:
    return x if clip is None else np.clip(x, -clip, clip)


# Activations


def _sigmoid(x: Array) -> Array:
    return 0.5 * np.tanh(0.5 * x) + 0.5


#: By lower-case name: function of (x, alpha, beta), default alpha and beta (None: takes none).
_FUNCTIONS: dict[str, tuple[Callable[[Array, Any, Any], Array], float | None, float | None]] = {
    "relu": (lambda x, _a, _b: np.maximum(x, 0), None, None),
    "tanh": (lambda x, _a, _b: np.tanh(x), None, None),
    "sigmoid": (lambda x, _a, _b: _sigmoid(x), None, None),
    "affine": (lambda x, a, b: a * x + b, 1.0, 0.0),
    "leakyrelu": (lambda x, a, _b: np.where(x >= 0, x, a * x), 0.01, None),
    "thresholdedrelu": (lambda x, a, _b: np.where(x >= a, x, 0), 1.0, None),
    "scaledtanh": (lambda x, a, b: a * np.tanh(b * x), 1.0, 1.0),
    "hardsigmoid": (lambda x, a, b: np.clip(a * x + b, 0, 1), 0.2, 0.5),
    "elu": (lambda x, a, _b: np.where(x >= 0, x, a * np.expm1(np.minimum(x, 0))), 1.0, None),
    "softsign": (lambda x, _a, _b: x / (1 + np.abs(x)), None, None),
    "softplus": (lambda x, _a, _b: np.logaddexp(x, 0), None, None),
}


def activations(
    names: Sequence[str], alphas: Sequence[float] | None, betas: Sequence[float] | None
) -> list[Activation]:
    """Return the functions of an `activations` attribute; alphas and betas are consumed in order by those that take
    one.
    """
    alpha, beta = iter(alphas or ()), iter(betas or ())
    result = []
    for name in names:
        entry = _FUNCTIONS.get(name.lower())
        if entry is None:
            msg = f"activation {name!r} is not one of {', '.join(sorted(_FUNCTIONS))}"
            raise KernelError(msg)
        function, default_alpha, default_beta = entry
        a = default_alpha if default_alpha is None else next(alpha, default_alpha)
        b = default_beta if default_beta is None else next(beta, default_beta)
        result.append(_bound(function, a, b))
    return result


def _bound(function: Callable[[Array, Any, Any], Array], a: float | None, b: float | None) -> Activation:
    def activation(x: Array) -> Array:
        # Python numbers keep the type of x.
        return function(x, a, b).astype(x.dtype, copy=False)

    return activation
