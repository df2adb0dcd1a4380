"""The slots and steps of the values of a run."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import ItemsView, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import overload

import numpy as np
from numpy.typing import NDArray

from onnx_workbench.exec.results.columns import ColumnTable, Keys, Lists

#: Path of a call of a function: the numbers of the calling nodes, outermost first; empty in the main graph.
Path = tuple[int, ...]

#: A value of a run: the path of the function call it is in (empty outside) and its number.
ValueKey = tuple[Path, int]

#: A node of a run that runs its body repeatedly: the path of the function call it is in and its number.
LoopKey = tuple[Path, int]

#: The slot that always holds None; omitted inputs read it.
NONE_SLOT = 0


@dataclass(slots=True, unsafe_hash=True)
class StepLayout:
    """Slots that a step reads and writes. Immutable; not frozen only because that takes several times as long."""

    index: int
    node: int
    path: Path
    reads: tuple[int, ...]
    outs: tuple[int, ...]
    has_bodies: bool = False


@dataclass(eq=False)
class Steps(ColumnTable, Sequence[StepLayout]):
    """Steps of a plan in run order."""

    keys: Keys
    reads: Lists
    outs: Lists
    has_bodies: NDArray[np.bool_]

    @classmethod
    def of(cls, steps: Iterable[StepLayout]) -> Steps:
        """Return the table of steps, whose `index` must be their position."""
        rows = list(steps)
        return cls(
            Keys.of((row.node, row.path) for row in rows),
            Lists.of([row.reads for row in rows]),
            Lists.of([row.outs for row in rows]),
            np.array([row.has_bodies for row in rows], bool),
        )

    def __len__(self) -> int:
        return len(self.keys)

    @overload
    def __getitem__(self, row: int) -> StepLayout: ...
    @overload
    def __getitem__(self, row: slice) -> list[StepLayout]: ...
    def __getitem__(self, row: int | slice) -> StepLayout | list[StepLayout]:
        if isinstance(row, slice):
            return list(self)[row]
        row = range(len(self))[row]
        return StepLayout(row, *self.keys.at(row), self.reads.at(row), self.outs.at(row), bool(self.has_bodies[row]))

    def __iter__(self) -> Iterator[StepLayout]:
        keys, columns = self.keys, (self.reads, self.outs, self.has_bodies.tolist())
        paths = map(keys.paths.__getitem__, keys.calls.tolist())
        return map(StepLayout, range(len(self)), keys.numbers.tolist(), paths, *columns)


@dataclass(eq=False)
class Slots(ColumnTable, Mapping[ValueKey, int]):
    """The slot of each value; `entries` are the keys of the values."""

    entries: Keys
    slots: NDArray[np.int32]

    @classmethod
    def of(cls, slots: Mapping[ValueKey, int]) -> Slots:
        """Return the table of a mapping, in its order."""
        entries = Keys.of((value, path) for path, value in slots)
        return cls(entries, np.fromiter(slots.values(), np.int32, len(slots)))

    def __len__(self) -> int:
        return len(self.slots)

    def __iter__(self) -> Iterator[ValueKey]:
        paths, calls = self.entries.paths, self.entries.calls.tolist()
        return zip(map(paths.__getitem__, calls), self.entries.numbers.tolist(), strict=True)

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
        """Numbers of the values sorted by path, their rows, and the range of each path."""
        entries = self.entries
        order = np.lexsort((entries.numbers, entries.calls))
        ends = np.searchsorted(entries.calls[order], np.arange(len(entries.paths) + 1)).tolist()
        return (
            array("q", entries.numbers[order].tobytes()),
            order,
            dict(zip(entries.paths, pairwise(ends), strict=True)),
        )

    def inside(self) -> Iterator[ValueKey]:
        """Yield the keys of values inside calls of functions."""
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
        """Return the name of a value for messages."""
        return self.names.get(value, f"value {value}")
