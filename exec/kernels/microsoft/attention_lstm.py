"""AttnLSTM: an LSTM whose input includes the attention over a memory at the previous step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.microsoft.onnx_calls import MICROSOFT, onnx
from onnx_workbench.exec.kernels.registry import kernel
from onnx_workbench.exec.kernels.shared.recurrence import (
    Activation,
    checked_lengths,
    directions_of,
    make_cell,
    run_cell,
)
from onnx_workbench.exec.kernels.shared.recurrence import activations as functions_of
from onnx_workbench.exec.values.arrays import Array, empty, zeros


@kernel("AttnLSTM", since=1, domain=MICROSOFT)
def attn_lstm_1(
    x: Array,
    w: Array,
    r: Array,
    b: Array | None,
    sequence_lens: Array | None,
    initial_h: Array | None,
    initial_c: Array | None,
    p: Array | None,
    qw: Array,
    mw: Array,
    v: Array,
    m: Array,
    memory_seq_lens: Array | None = None,
    aw: Array | None = None,
    *,
    activation_alpha: Sequence[float] | None = None,
    activation_beta: Sequence[float] | None = None,
    activations: Sequence[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    input_forget: int = 0,
) -> tuple[Array, Array, Array]:
    """All hidden states (T, D, N, H), the last ones and the last cells (D, N, H)."""
    directions = directions_of(direction)
    _check_ranks([a for a in (x, w, r, m, mw, aw) if a is not None])
    (steps, batch, inputs), hidden, state = x.shape, r.shape[2], (len(directions), x.shape[1], r.shape[2])
    _check_shapes(
        [x, w, r, b, initial_h, initial_c, p, qw, mw, v, m, aw], state, hidden if hidden_size is None else hidden_size
    )
    lengths = checked_lengths(sequence_lens, steps, batch)
    memory = checked_lengths(memory_seq_lens, m.shape[1], batch)
    names = activations or ("Sigmoid", "Tanh", "Tanh") * len(directions)
    functions = functions_of(names, activation_alpha, activation_beta)
    if len(functions) != 3 * len(directions):
        msg = f"activations lists {len(functions)}; expected 3 per direction"
        raise KernelError(msg)
    h, c = (zeros(state, x.dtype) if given is None else given.copy() for given in (initial_h, initial_c))
    y = empty((steps, *state), x.dtype)
    for d, backwards in enumerate(directions):
        cell = make_cell(
            "LSTM", w[d, :, :inputs], r[d], None if b is None else b[d], tuple(functions[3 * d : 3 * d + 3]),
            usual=False, clip=clip or None, peephole=None if p is None else p[d], input_forget=bool(input_forget),
        )  # fmt: skip
        attend = _attention(m, memory, qw[d], mw[d], v[d], None if aw is None else aw[d])
        cell = replace(cell, r=np.concatenate([cell.r, w[d, :, inputs:].T]), feedback=attend)
        h[d], c[d] = run_cell(cell, x, h[d], c[d], lengths, reverse=backwards, out=y[:, d])
    return y, h, c


def _check_ranks(given: Sequence[Array]) -> None:
    """Raise KernelError for inputs of wrong rank."""
    if any(array.ndim != 3 for array in given):
        msg = f"X, W, R, M, MW and AW of rank {[array.ndim for array in given]}; expected three axes each"
        raise KernelError(msg)


def _check_shapes(given: Sequence[Array | None], state: tuple[int, ...], hidden: int) -> None:
    """Raise KernelError for inputs whose shapes do not fit together."""
    x, w, r, b, h, c, p, qw, mw, v, m, aw = given
    assert x is not None
    assert m is not None
    assert mw is not None
    count, batch, _ = state
    depth, attended = m.shape[2], mw.shape[2]
    read = depth if aw is None else aw.shape[-1]
    for name, array, shape in (
        ("W", w, (count, 4 * hidden, x.shape[2] + read)), ("R", r, (count, 4 * hidden, hidden)),
        ("B", b, (count, 8 * hidden)), ("initial_h", h, (count, batch, hidden)),
        ("initial_c", c, (count, batch, hidden)), ("P", p, (count, 3 * hidden)),
        ("QW", qw, (count, hidden, attended)), ("MW", mw, (count, depth, attended)), ("V", v, (count, attended)),
        ("M", m, (batch, m.shape[1], depth)), ("AW", aw, (count, depth + hidden, read)),
    ):  # fmt: skip
        if array is not None and array.shape != shape:
            msg = f"{name} has shape {array.shape}; expected {shape}"
            raise KernelError(msg)


def _attention(
    memory: Array, lengths: Array | None, query_weight: Array, memory_weight: Array, v: Array, layer: Array | None
) -> Activation:
    """Bahdanau attention of hidden states (N, H) over the memory (N, S, depth)."""
    if lengths is not None:
        memory = memory * (np.arange(memory.shape[1]) < lengths[:, None])[:, :, None]
    keys = onnx("MatMul", 13, memory, memory_weight)

    def attend(h: Array) -> Array:
        scores = np.tanh(keys + (h @ query_weight)[:, None]) @ v
        if lengths is not None:
            scores[np.arange(memory.shape[1]) >= lengths[:, None]] = -np.inf
        context = np.matmul(onnx("Softmax", 13, scores, axis=-1)[:, None], memory)[:, 0]
        return np.asarray(context if layer is None else np.concatenate([h, context], axis=1) @ layer)

    return attend
