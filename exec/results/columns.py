"""Tables stored by columns: compact, quick to compare, and sent to another process as differences.

A table of 100,000 rows is a few arrays; the objects of rows are made on access.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import chain, pairwise
from multiprocessing.reduction import ForkingPickler
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

#: Metadata of a field that is not a column: it is not pickled.
LOCAL = {"local": True}

#: Entries that are unpickled at once, which takes about a millisecond in which no other thread can run.
_PIECE = 1000

_T = TypeVar("_T")


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
        paths: dict[tuple[int, ...], int] = {}
        numbers: list[int] = []
        calls: list[int] = []
        for number, path in keys:
            numbers.append(number)
            calls.append(paths.setdefault(path, len(paths)))
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
        found: dict[int, int] = {}
        pairs = [(found.setdefault(call, len(found)), at) for at, path in enumerate(self.paths) for call in path]
        calls, paths = np.array(pairs, np.int64).reshape(-1, 2).T
        order = np.argsort(self.calls, kind="stable")
        ends = np.searchsorted(self.calls[order], np.arange(len(self.paths) + 1))
        sizes = np.diff(ends)[paths]
        before = np.cumsum(sizes) - sizes
        rows = order[np.repeat(ends[paths] - before, sizes) + np.arange(sizes.sum())]
        which = np.repeat(calls, sizes)
        order = np.lexsort((rows, which))
        return np.fromiter(found, np.int64), rows[order], np.searchsorted(which[order], np.arange(len(found)))


@dataclass(eq=False)
class Lists(ColumnTable):
    """A list of slots for each row, concatenated; `ends` are the indices at which they end."""

    slots: NDArray[np.int32]
    ends: NDArray[np.int64]

    @classmethod
    def of(cls, lists: Sequence[Sequence[int]]) -> Lists:
        """Concatenate lists."""
        slots = np.fromiter(chain.from_iterable(lists), np.int32)
        return cls(slots, np.cumsum(np.fromiter(map(len, lists), np.int64, len(lists)), dtype=np.int64))

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
        found = np.flatnonzero(np.isin(self.slots, np.fromiter(slots, np.int32)))
        return np.unique(np.searchsorted(self.ends, found, "right"))


# -- differences ---------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Changed:
    """The columns of a table that differ."""

    table: type[ColumnTable]
    columns: dict[str, Any]


@dataclass(slots=True)
class _Span:
    """The part of an array that differs, and the size of the array."""

    size: int
    start: int
    part: NDArray[Any]


@dataclass(slots=True)
class _Tail:
    """The rest of a sequence from its first difference, pickled in pieces."""

    start: int
    rest: list[bytes]


@dataclass(slots=True)
class _Entries:
    """The entries of a mapping that differ, pickled in pieces, and the removed keys."""

    fresh: list[bytes]
    gone: list[Any]


@dataclass(slots=True)
class _Other:
    """A value of another kind, not compared in parts."""

    value: Any


def difference(before: _T | None, now: _T) -> Any:
    """Return the difference from which `updated` makes `now`; None if there is none. Without `before`, all of `now`.

    Objects in sequences and mappings must be picklable and comparable by ==.
    """
    if now is before:
        return None
    match now:
        case ColumnTable():
            pairs = ((name, difference(getattr(before, name, None), getattr(now, name))) for name in now.columns())
            changed = {name: found for name, found in pairs if found is not None}
            return _Changed(type(now), changed) if changed or before is None else None
        case np.ndarray():
            return _span(before, now)
        case Mapping():
            known: Mapping[Any, Any] = before or {}  # type: ignore[assignment] # both are of one kind
            absent = object()
            fresh = [(key, value) for key, value in now.items() if known.get(key, absent) != value]
            gone = [key for key in known if key not in now]
            return _Entries(_pack(fresh), gone) if fresh or gone or before is None else None
        case tuple() | list():
            old: Sequence[Any] = () if before is None else before  # type: ignore[assignment] # both are of one kind
            both = enumerate(zip(old, now, strict=False))
            start = next((row for row, (a, b) in both if a is not b and a != b), min(len(old), len(now)))
            is_same = before is not None and start == len(old) == len(now)
            return None if is_same else _Tail(start, _pack(now[start:]))
    return None if now == before else _Other(now)


def updated(before: Any, change: Any) -> Any:
    """Return `before` with a difference applied; itself if there is none."""
    match change:
        case None:
            return before
        case _Changed(table, columns):
            names = table.columns()
            return table(*(updated(getattr(before, name, None), columns.get(name)) for name in names))
        case _Span(size, start, part):
            now = np.empty(size, part.dtype) if before is None or len(before) != size else before.copy()
            now[start : start + len(part)] = part
            return now
        case _Entries(fresh, gone):
            entries = {**(before or {}), **dict(_unpack(fresh))}
            for key in gone:
                del entries[key]
            return entries
        case _Tail(start, rest):
            return (*(before or ())[:start], *_unpack(rest))
    return change.value


def _span(before: Any, now: NDArray[Any]) -> _Span | None:
    if before is None or len(before) != len(now):
        return _Span(len(now), 0, now)
    differing = np.flatnonzero(before != now)
    if not len(differing):
        return None
    return _Span(len(now), int(differing[0]), now[differing[0] : differing[-1] + 1])


def _pack(entries: Sequence[Any]) -> list[bytes]:
    starts = range(0, len(entries), _PIECE)
    return [bytes(ForkingPickler.dumps(entries[start : start + _PIECE])) for start in starts]


def _unpack(pieces: list[bytes]) -> Iterator[Any]:
    for piece in pieces:
        yield from ForkingPickler.loads(piece)
