"""What differs between two orders of a sequence."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence


def out_of_order(places: Sequence[int]) -> list[int]:
    """Return the fewest indices whose removal leaves the sequence ascending: all but a longest increasing
    subsequence.
    """
    tails: list[int] = []
    tail_at: list[int] = []
    before: list[int] = []
    for index, value in enumerate(places):
        position = bisect_left(tails, value)
        before.append(tail_at[position - 1] if position else -1)
        if position == len(tails):
            tails.append(value)
            tail_at.append(index)
        else:
            tails[position] = value
            tail_at[position] = index
    kept = set()
    index = tail_at[-1] if tail_at else -1
    while index >= 0:
        kept.add(index)
        index = before[index]
    return [i for i in range(len(places)) if i not in kept]
