"""Tables stored by columns: compact, and quick to send to another process.

A table of 100,000 rows is a few arrays; the objects of rows are made on access.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import chain, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Metadata of a field that is not a column: it is not pickled.
LOCAL = {"local": True}


class ColumnTable:
    """Base of tables, which are dataclasses: their fields are the columns. Immutable once shared.

    A column is an array, a sequence or mapping of objects, or another table. Only columns are pickled, without cached
    properties.
    """

    @classmethod
    def columns(cls) -> list[str]:
        """Names of the columns."""
        return [one.name for one in fields(cls) if not one.metadata.get("local")]  # type: ignore[arg-type] # a dataclass

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple([getattr(self, name) for name in self.columns()])


# -- kinds of columns ----------------------------------------------------------------------------------------


@dataclass(eq=False)
class Keys(ColumnTable):
    """The node or value of each row: its number, and the index of its `Path` in `paths`."""

    numbers: NDArray[np.int64]
    calls: NDArray[np.int32]
    paths: Sequence[tuple[int, ...]]

    @classmethod
    def of(cls, keys: Iterable[tuple[int, tuple[int, ...]]]) -> Keys:
        """Make the keys of (number, path) pairs."""
        rows = list(keys)
        return cls.of_columns([number for number, _ in rows], [path for _, path in rows])

    @classmethod
    def of_columns(cls, numbers: Sequence[int], around: Sequence[tuple[int, ...]]) -> Keys:
        """Make the keys of numbers and the path of each: twice as quick as of pairs."""
        paths = {path: index for index, path in enumerate(dict.fromkeys(around))}
        calls = [paths[path] for path in around]
        return cls(np.array(numbers, np.int64), np.array(calls, np.int32), tuple(paths))

    def __len__(self) -> int:
        return len(self.numbers)

    def at(self, row: int) -> tuple[int, tuple[int, ...]]:
        """Number and path of a row."""
        return int(self.numbers[row]), self.paths[self.calls[row]]

    def __iter__(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        return zip(self.numbers.tolist(), map(self.paths.__getitem__, self.calls.tolist()), strict=True)

    def take(self, rows: NDArray[np.int64]) -> Keys:
        """Return the keys of some rows."""
        return Keys(self.numbers[rows], self.calls[rows], self.paths)

    def outermost(self) -> NDArray[np.int64]:
        """Return for each row the node of the main graph: its own, or the outermost call of a function around it."""
        own = -1  # numbers are not negative
        callers = np.array([path[0] if path else own for path in self.paths], np.int64)[self.calls]
        return np.where(callers == own, self.numbers, callers)

    @cached_property
    def _sorted(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        order = np.argsort(self.numbers, kind="stable")
        return self.numbers[order], order

    def find(self, number: int) -> int | None:
        """Return the first row of a number."""
        numbers, order = self._sorted
        index = int(np.searchsorted(numbers, number))
        return int(order[index]) if index < len(numbers) and numbers[index] == number else None

    @cached_property
    def by_number(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows grouped by number, groups in the order of their first rows, and the index at which each group begins."""
        firsts = np.flatnonzero(self.is_first)
        _, order = self._sorted
        known = np.flatnonzero(self.is_first[order])  # where the rows of a number begin in that order
        group = np.empty(len(order), np.int64)
        group[order] = np.repeat(order[known], np.diff(known, append=len(order)))
        rows = np.argsort(group, kind="stable")
        return rows, np.searchsorted(group[rows], firsts)

    @cached_property
    def is_first(self) -> NDArray[np.bool_]:
        """Mask of the rows whose number no earlier row has."""
        numbers, order = self._sorted
        found = np.ones(len(numbers), bool)
        found[order[1:]] = numbers[1:] != numbers[:-1]
        return found

    @cached_property
    def inside(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Numbers of calls of functions, the rows within each (also in nested calls), and where those of each begin."""
        row_of_call: dict[int, int] = {}
        pairs = [
            (row_of_call.setdefault(call, len(row_of_call)), at) for at, path in enumerate(self.paths) for call in path
        ]
        calls, paths = np.array(pairs, np.int64).reshape(-1, 2).T
        order = np.argsort(self.calls, kind="stable")
        ends = np.searchsorted(self.calls[order], np.arange(len(self.paths) + 1))
        sizes = np.diff(ends)[paths]
        before = np.cumsum(sizes) - sizes
        rows = order[np.repeat(ends[paths] - before, sizes) + np.arange(sizes.sum())]
        which = np.repeat(calls, sizes)
        order = np.lexsort((rows, which))
        return (
            np.fromiter(row_of_call, np.int64),
            rows[order],
            np.searchsorted(which[order], np.arange(len(row_of_call))),
        )


@dataclass(eq=False)
class Lists(ColumnTable):
    """A list of slots for each row, concatenated; `ends` are the indices at which they end."""

    slots: NDArray[np.int32]
    ends: NDArray[np.int64]

    @classmethod
    def of(cls, lists: Sequence[Sequence[int]]) -> Lists:
        """Concatenate lists."""
        slots = np.array(list(chain.from_iterable(lists)), np.int32)
        return cls(slots, np.cumsum(list(map(len, lists)), dtype=np.int64))

    def __len__(self) -> int:
        return len(self.ends)

    def at(self, row: int) -> tuple[int, ...]:
        """Return the list of a row."""
        begin = int(self.ends[row - 1]) if row else 0
        return tuple(self.slots[begin : int(self.ends[row])].tolist())

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        slots = self.slots.tolist()
        return (tuple(slots[begin:end]) for begin, end in pairwise([0, *self.ends.tolist()]))

    @property
    def rows(self) -> NDArray[np.int64]:
        """The row of the list that each slot is in."""
        return np.repeat(np.arange(len(self)), np.diff(self.ends, prepend=0))

    def holders(self, slots: Iterable[int]) -> NDArray[np.int64]:
        """Return the rows of the lists that contain any of some slots, in order."""
        positions = np.flatnonzero(np.isin(self.slots, np.fromiter(slots, np.int32)))
        return np.unique(np.searchsorted(self.ends, positions, "right"))
