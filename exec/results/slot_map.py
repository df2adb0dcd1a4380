"""Slots and steps of the values of a run, by columns: compact, and serialisable for another process."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import ItemsView, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

#: Which call of a function a value belongs to: the numbers of the calling nodes, outermost first.
Path = tuple[int, ...]

#: A value of a run: the path of the function call it is in (empty outside) and its number.
ValueKey = tuple[Path, int]


@dataclass(eq=False)
class SlotKeys:
    """Nodes, or values, of the rows of a table: the number of each, and the index of its path in `paths`."""

    numbers: NDArray[np.int64]
    calls: NDArray[np.int32]
    paths: Sequence[Path]

    @classmethod
    def of(cls, keys: Iterable[tuple[int, Path]]) -> SlotKeys:
        """Make the keys of (number, path) pairs."""
        paths: dict[Path, int] = {}
        numbers: list[int] = []
        calls: list[int] = []
        for number, path in keys:
            numbers.append(number)
            calls.append(paths.setdefault(path, len(paths)))
        return cls(np.array(numbers, np.int64), np.array(calls, np.int32), tuple(paths))

    def __reduce__(self) -> tuple[Any, ...]:
        return SlotKeys, (self.numbers, self.calls, self.paths)  # without what is computed on first use

    def __len__(self) -> int:
        return len(self.numbers)

    def at(self, place: int) -> tuple[int, Path]:
        """Number and path of a row."""
        return int(self.numbers[place]), self.paths[self.calls[place]]

    def outermost(self) -> NDArray[np.int64]:
        """Return for each row the node of the graph itself: the row's own, or the call of a function it is in."""
        own = -1  # no number: those are not negative
        callers = np.array([path[0] if path else own for path in self.paths], np.int64)[self.calls]
        return np.where(callers == own, self.numbers, callers)

    @cached_property
    def _sorted(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        order = np.argsort(self.numbers, kind="stable")
        return self.numbers[order], order

    def find(self, number: int) -> int | None:
        """The first row of a node."""
        numbers, order = self._sorted
        index = int(np.searchsorted(numbers, number))
        return int(order[index]) if index < len(numbers) and numbers[index] == number else None

    @cached_property
    def by_number(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The rows of one node after the other, in the order of their first ones, and where those of each begin."""
        firsts = np.flatnonzero(self.is_first)
        _, order = self._sorted
        known = np.flatnonzero(self.is_first[order])  # where the rows of a number begin in that order
        group = np.empty(len(order), np.int64)
        group[order] = np.repeat(order[known], np.diff(known, append=len(order)))
        rows = np.argsort(group, kind="stable")
        return rows, np.searchsorted(group[rows], firsts)

    @cached_property
    def is_first(self) -> NDArray[np.bool_]:
        """Return whether no earlier row is of the same node."""
        numbers, order = self._sorted
        found = np.ones(len(numbers), bool)
        found[order[1:]] = numbers[1:] != numbers[:-1]
        return found

    @cached_property
    def inside(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """The numbers of calls of functions, the rows in each, or in a call that is in it, and where those begin."""
        places: dict[int, int] = {}
        pairs = [(places.setdefault(call, len(places)), at) for at, path in enumerate(self.paths) for call in path]
        calls, paths = np.array(pairs, np.int64).reshape(-1, 2).T
        order = np.argsort(self.calls, kind="stable")
        ends = np.searchsorted(self.calls[order], np.arange(len(self.paths) + 1))
        sizes = np.diff(ends)[paths]
        before = np.cumsum(sizes) - sizes
        rows = order[np.repeat(ends[paths] - before, sizes) + np.arange(sizes.sum())]
        which = np.repeat(calls, sizes)
        order = np.lexsort((rows, which))
        return np.fromiter(places, np.int64), rows[order], np.searchsorted(which[order], np.arange(len(places)))


@dataclass(eq=False)
class Lists:
    """Many short lists of slots, one after the other; `ends` says where each ends."""

    slots: NDArray[np.int32]
    ends: NDArray[np.int64]

    @classmethod
    def of(cls, lists: Sequence[Sequence[int]]) -> Lists:
        """Pack lists."""
        slots = np.fromiter(chain.from_iterable(lists), np.int32)
        return cls(slots, np.cumsum(np.fromiter(map(len, lists), np.int64, len(lists)), dtype=np.int64))

    def __len__(self) -> int:
        return len(self.ends)

    def at(self, place: int) -> tuple[int, ...]:
        """One of them."""
        begin = int(self.ends[place - 1]) if place else 0
        return tuple(self.slots[begin : int(self.ends[place])].tolist())

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        slots = self.slots.tolist()
        return (tuple(slots[begin:end]) for begin, end in pairwise([0, *self.ends.tolist()]))

    @property
    def places(self) -> NDArray[np.int64]:
        """Return for each slot the index of its list."""
        return np.repeat(np.arange(len(self)), np.diff(self.ends, prepend=0))

    def holders(self, slots: Iterable[int]) -> NDArray[np.int64]:
        """Return the indices of the lists that contain any of some slots, in order."""
        found = np.flatnonzero(np.isin(self.slots, np.fromiter(slots, np.int32)))
        return np.unique(np.searchsorted(self.ends, found, "right"))


@dataclass(frozen=True, slots=True)
class StepLayout:
    """Slots that a step reads and writes."""

    index: int
    node: int
    path: Path
    reads: tuple[int, ...]
    outs: tuple[int, ...]
    has_bodies: bool = False


@dataclass(eq=False)
class Steps(Sequence[StepLayout]):
    """Steps of a plan in run order; a StepLayout is made on access."""

    keys: SlotKeys
    reads: Lists
    outs: Lists
    has_bodies: NDArray[np.bool_]

    @classmethod
    def of(cls, steps: Iterable[StepLayout]) -> Steps:
        """Make the table of steps, which have their position as index."""
        rows = list(steps)
        return cls(
            SlotKeys.of((row.node, row.path) for row in rows),
            Lists.of([row.reads for row in rows]),
            Lists.of([row.outs for row in rows]),
            np.array([row.has_bodies for row in rows], bool),
        )

    def __len__(self) -> int:
        return len(self.keys)

    @overload
    def __getitem__(self, place: int) -> StepLayout: ...
    @overload
    def __getitem__(self, place: slice) -> list[StepLayout]: ...
    def __getitem__(self, place: int | slice) -> StepLayout | list[StepLayout]:
        if isinstance(place, slice):
            return list(self)[place]
        place = range(len(self))[place]
        has_bodies = bool(self.has_bodies[place])
        return StepLayout(place, *self.keys.at(place), self.reads.at(place), self.outs.at(place), has_bodies)

    def __iter__(self) -> Iterator[StepLayout]:
        keys, columns = self.keys, (self.reads, self.outs, self.has_bodies.tolist())
        paths = map(keys.paths.__getitem__, keys.calls.tolist())
        return map(StepLayout, range(len(self)), keys.numbers.tolist(), paths, *columns)


@dataclass(eq=False)
class Slots(Mapping[ValueKey, int]):
    """The slot of each value; `entries` says of which."""

    entries: SlotKeys
    slots: NDArray[np.int32]

    @classmethod
    def of(cls, slots: Mapping[ValueKey, int]) -> Slots:
        """Make the table of a mapping, in its order."""
        entries = SlotKeys.of((value, path) for path, value in slots)
        return cls(entries, np.fromiter(slots.values(), np.int32, len(slots)))

    def __reduce__(self) -> tuple[Any, ...]:
        return Slots, (self.entries, self.slots)  # without what is computed on first use

    def __len__(self) -> int:
        return len(self.slots)

    def __iter__(self) -> Iterator[ValueKey]:
        return zip(
            map(self.entries.paths.__getitem__, self.entries.calls.tolist()), self.entries.numbers.tolist(), strict=True
        )

    def __getitem__(self, key: ValueKey) -> int:
        path, number = key
        numbers, order, spans = self._sorted
        if path in spans:
            begin, end = spans[path]
            index = bisect_left(numbers, number, begin, end)
            if index < end and numbers[index] == number:
                return int(self.slots[order[index]])
        raise KeyError(key)

    def items(self) -> ItemsView[ValueKey, int]:
        """Pairs of keys and slots."""
        return _Pairs(self)

    @cached_property
    def _sorted(self) -> tuple[array[int], NDArray[np.int64], dict[Path, tuple[int, int]]]:
        """The numbers of the values of one path after the other, their rows, and where those of each path are."""
        entries = self.entries
        order = np.lexsort((entries.numbers, entries.calls))
        ends = np.searchsorted(entries.calls[order], np.arange(len(entries.paths) + 1)).tolist()
        return (
            array("q", entries.numbers[order].tobytes()),
            order,
            dict(zip(entries.paths, pairwise(ends), strict=True)),
        )

    def inside(self) -> Iterator[ValueKey]:
        """The keys of values that are in calls of functions."""
        entries = self.entries
        is_inside = np.array([bool(path) for path in entries.paths], bool)
        for row in np.flatnonzero(is_inside[entries.calls]).tolist() if is_inside.any() else ():
            number, path = entries.at(row)
            yield path, number


class _Pairs(ItemsView[ValueKey, int]):
    """All pairs as one sequence, without a lookup for each."""

    def __init__(self, table: Slots) -> None:
        super().__init__(table)
        self._table = table

    def __iter__(self) -> Iterator[tuple[ValueKey, int]]:
        return zip(self._table, self._table.slots.tolist(), strict=True)


@dataclass(eq=False)
class SlotMap:
    """Slot of each value, and the step that fills it."""

    slots: Mapping[ValueKey, int]
    outputs: tuple[int, ...]
    names: Mapping[int, str]
    steps: Steps

    @cached_property
    def table(self) -> Slots:
        """The slots by columns."""
        return self.slots if isinstance(self.slots, Slots) else Slots.of(self.slots)

    def name(self, value: int) -> str:
        """The name of a value for messages."""
        return self.names.get(value, f"value {value}")
