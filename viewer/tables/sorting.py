"""The order of the rows of tables that may have very many."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping

from onnx_workbench.model.progress import SILENT, Progress

Key = float | str

_PER_CHECK = 64
_PART = 1000  # rows sorted between two polls of `progress`


def order_of(
    count: int, key: Callable[[int], Key], *, is_descending: bool = False, progress: Progress = SILENT
) -> list[int]:
    """Return the indices of rows sorted by their keys: numbers, then NaN, then texts, in either direction.

    A merge sort over short parts, which polls `progress` often.
    """
    numbers: dict[int, Key] = {}
    others: dict[int, Key] = {}
    texts: dict[int, Key] = {}
    for index in progress.paced(range(count), _PER_CHECK):
        sort_key = key(index)
        if isinstance(sort_key, str):
            texts[index] = sort_key.casefold()
        else:
            (numbers if sort_key == sort_key else others)[index] = sort_key
    return [*_merged(numbers, is_descending, progress), *others, *_merged(texts, is_descending, progress)]


def _merged(keys: Mapping[int, Key], is_descending: bool, progress: Progress) -> list[int]:
    places = list(keys)
    cuts = progress.paced(range(0, len(places), _PART), 1)
    parts = [sorted(places[cut : cut + _PART], key=keys.__getitem__, reverse=is_descending) for cut in cuts]
    return list(progress.paced(heapq.merge(*parts, key=keys.__getitem__, reverse=is_descending)))
