"""Small array operations that several phases of the layout share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Index = NDArray[np.int64]
Real = NDArray[np.float64]
Mask = NDArray[np.bool_]


def spans(starts: NDArray[Any], counts: NDArray[Any]) -> Index:
    """Return the concatenation of `arange(start, start + count)` for every pair."""
    counts = counts.astype(np.int64)
    total = int(counts.sum())
    ends = np.cumsum(counts)
    first: Index = np.repeat(starts - (ends - counts), counts)
    return first + np.arange(total)


def offsets(keys: NDArray[Any], size: int) -> Index:
    """[size + 1] where each key begins once items are sorted by key."""
    result = np.zeros(size + 1, np.int64)
    np.cumsum(np.bincount(keys, minlength=size), out=result[1:])
    return result


def rank_within(keys: NDArray[Any]) -> Index:
    """Return for sorted keys 0, 1, 2 … within every run of equal ones."""
    n = len(keys)
    if n == 0:
        return np.zeros(0, np.int64)
    places = np.arange(n)
    new = np.empty(n, bool)
    new[0] = True
    np.not_equal(keys[1:], keys[:-1], out=new[1:])
    return places - np.maximum.accumulate(np.where(new, places, 0))


def dense(*keys: NDArray[Any]) -> tuple[Index, int]:
    """Number the distinct rows of several columns, in sorted order; return the numbers and their count."""
    n = len(keys[0])
    if n == 0:
        return np.zeros(0, np.int64), 0
    order = np.lexsort(keys[::-1])
    new = np.zeros(n, bool)
    for key in keys:
        new[1:] |= key[order][1:] != key[order][:-1]
    result = np.empty(n, np.int64)
    result[order] = np.cumsum(new)
    return result, int(result[order[-1]]) + 1


def components(n: int, a: Index, b: Index) -> Index:
    """Label every vertex with the smallest vertex it is connected to."""
    label = np.arange(n)
    while True:
        la, lb = label[a], label[b]
        apart = la != lb
        if not apart.any():
            return label
        a, b, la, lb = a[apart], b[apart], la[apart], lb[apart]
        np.minimum.at(label, np.maximum(la, lb), np.minimum(la, lb))
        while True:
            jumped = label[label]
            if np.array_equal(jumped, label):
                break
            label = jumped


def extremes(points: Real) -> tuple[Real, Real]:
    """Return the minimum and maximum of each column; column by column, which is much faster in numpy."""
    columns = [points[:, column] for column in range(points.shape[1])]
    return np.array([c.min() for c in columns]), np.array([c.max() for c in columns])
