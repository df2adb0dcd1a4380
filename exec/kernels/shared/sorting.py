"""Sorting in steps (merge sort of runs), so that long sorts can be cancelled."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from onnx_workbench.exec.values.arrays import Array
from onnx_workbench.exec.values.limits import checkpoint

#: Elements per run. Longer runs come from merging two: numpy's stable sort detects sorted runs.
PART = 1 << 20


def _in_parts(values: Array, sort: Callable[[slice], None]) -> None:
    """Call `sort` for runs of a flat array, then for pairs of sorted runs, up to the whole."""
    length = len(values)
    width = PART // 16 if values.dtype.hasobject else PART  # texts take longer to compare
    for start in range(0, length, width):
        checkpoint()
        sort(slice(start, start + width))
    while width < length:
        width *= 2
        for start in range(0, length, width):
            checkpoint()
            if start + width // 2 < length:
                sort(slice(start, start + width))


def sort(values: Array) -> None:
    """Sort a flat array in place."""

    def run(part: slice) -> None:
        values[part] = np.sort(values[part], kind="stable" if part.stop - part.start > PART else None)

    _in_parts(values, run)


def argsort(keys: Array) -> Array:
    """Return the indices that sort a flat array, as np.argsort with kind="stable"."""
    order = np.arange(len(keys))

    def run(part: slice) -> None:
        given = order[part]
        order[part] = given[np.argsort(keys[given], kind="stable")]

    _in_parts(keys, run)
    return order


def smallest(values: Array, count: int) -> Array:
    """Return the `count` smallest elements of a flat array without duplicates, in order."""
    while len(values) > max(2 * PART, 4 * count):
        kept = []
        for start in range(0, len(values), max(PART, 2 * count)):
            checkpoint()
            part = values[start : start + max(PART, 2 * count)]
            kept.append(np.partition(part, count - 1)[:count] if count < len(part) else part)
        values = np.concatenate(kept)
    if count < len(values) <= 2 * PART:
        values = np.partition(values, count - 1)[:count]
    values = values.copy()
    sort(values)
    return values[:count]


def distinct(values: Array) -> tuple[Array, Array, Array]:
    """Return of the distinct elements of a flat array, in order: first positions, inverse indices, counts.

    NaNs are one element, the last.
    """
    order = argsort(values)
    ordered = values[order]
    new = np.ones(len(order), bool)
    new[1:] = ordered[1:] != ordered[:-1]
    if len(order) and values.dtype.kind in "fc" and np.isnan(ordered[-1]):
        new[1:] &= ~(np.isnan(ordered[1:]) & np.isnan(ordered[:-1]))
    checkpoint()
    first = np.flatnonzero(new)
    which = np.empty(len(order), np.int64)
    which[order] = np.cumsum(new) - 1
    return order[first], which, np.diff(first, append=len(order))
