"""Sequence alignment: dynamic time warping, and the first mismatch of predicted tokens."""

from __future__ import annotations

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.microsoft.onnx_calls import MICROSOFT
from onnx_workbench.exec.kernels.registry import kernel
from onnx_workbench.exec.kernels.shared.axes import scalar_int
from onnx_workbench.exec.values.arrays import Array, check_size, full
from onnx_workbench.exec.values.limits import checkpoint


@kernel("DynamicTimeWarping", since=1, domain=MICROSOFT)
def dynamic_time_warping_1(x: Array) -> Array:
    """Return the cheapest path through a cost matrix from its first to its last element, as (2, length) indices."""
    costs = x[0] if x.ndim == 3 and len(x) == 1 else x
    if costs.ndim != 2 or not costs.size:
        msg = f"input has shape {x.shape}; expected (rows, columns) or (1, rows, columns)"
        raise KernelError(msg)
    totals = _totals(costs.astype(np.float32))
    row, column = costs.shape
    path = []
    while row or column:
        path.append((row - 1, column - 1))
        slant, up, left = totals[row - 1, column - 1], totals[row - 1, column], totals[row, column - 1]
        if row == 1 or column == 1:
            # Along an edge there is one predecessor; outside costs are infinite except at the corner.
            row, column = (row - 1, column - 1) if row == column else (row - (column == 1), column - (row == 1))
        elif slant < up and slant < left:
            row, column = row - 1, column - 1
        elif up < slant and up < left:
            row -= 1
        else:
            column -= 1
    return np.array(path[::-1], np.int32).T.copy()


def _totals(costs: Array) -> Array:
    """Return the cost of the cheapest path to each element, with a row and a column of infinities before."""
    rows, columns = costs.shape
    totals = full((rows + 1, columns + 1), np.inf, np.float32)
    totals[0, 0] = 0
    flat = totals.reshape(-1)
    # Elements of a diagonal do not depend on each other.
    for diagonal in range(rows + columns - 1):
        checkpoint()
        row = np.arange(max(0, diagonal - columns + 1), min(rows, diagonal + 1))
        column = diagonal - row
        index = (row + 1) * (columns + 1) + column + 1
        before = np.minimum(flat[index - columns - 2], np.minimum(flat[index - columns - 1], flat[index - 1]))
        flat[index] = costs[row, column] + before
    return totals


@kernel("BifurcationDetector", since=1, domain=MICROSOFT)
def bifurcation_detector_1(
    src_tokens: Array,
    cur_tokens: Array,
    prev_suffix_match_idx: Array,
    pred_tokens: Array | None = None,
    *,
    max_ngram_size: int = 3,
    min_ngram_size: int = 1,
) -> tuple[Array, Array]:
    """Append the predictions up to the first mismatch with the source, and find their suffix in it."""
    if src_tokens.ndim != 1 or cur_tokens.ndim != 1 or (pred_tokens is not None and pred_tokens.ndim != 1):
        msg = f"tokens of shape {src_tokens.shape} and {cur_tokens.shape}; expected one axis"
        raise KernelError(msg)
    tokens = cur_tokens
    if pred_tokens is not None:
        start = scalar_int(prev_suffix_match_idx, "prev_suffix_match_idx")
        if not 0 <= start <= len(src_tokens) or len(pred_tokens) != len(src_tokens) + 1 - start:
            msg = f"{len(pred_tokens)} predictions from {start} of {len(src_tokens)} source tokens; expected one more"
            raise KernelError(msg)
        same = pred_tokens[:-1] == src_tokens[start:]
        kept = len(same) if same.all() else int(np.argmin(same))
        tokens = np.concatenate([cur_tokens, pred_tokens[: kept + 1]])
    suffix = _suffix_end(src_tokens, tokens, min_ngram_size, max_ngram_size)
    return tokens, np.array(suffix, np.int64).reshape(prev_suffix_match_idx.shape)


def _suffix_end(source: Array, tokens: Array, least: int, most: int) -> int:
    """Return where the only occurrence of the last tokens in the source ends; -1 for none or several."""
    if least < 1:
        msg = f"min_ngram_size is {least}; expected 1 or more"
        raise KernelError(msg)
    for size in range(least, min(most, len(tokens), len(source)) + 1):
        check_size((len(source), size), bool)
        grams = np.lib.stride_tricks.sliding_window_view(source, size)
        places = np.flatnonzero((grams == tokens[-size:]).all(1))
        if not len(places):
            return -1
        end = int(places[0]) + size
        if len(places) == 1 or end >= len(source):
            return end
    return -1
