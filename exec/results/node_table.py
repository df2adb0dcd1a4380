"""Outcomes of the nodes of a run: one row for each, stored by columns so that many thousands cost next to nothing."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from onnx_workbench.exec.results.slot_map import Path, SlotKeys


class State(enum.Enum):
    """Outcome of a node in a run."""

    DONE = "computed"
    KEPT = "kept from an earlier run"
    CONSTANT = "constant"
    FAILED = "failed"
    SKIPPED = "skipped"
    WAITING = "not reached"
    UNNEEDED = "not needed"


#: States by the numbers they have in columns.
STATES = tuple(State)
CODES = {state: code for code, state in enumerate(STATES)}


def _ranks(*states: State) -> NDArray[np.int64]:
    """Return the precedence of each state by code: the first of these that occurs stands for several nodes."""
    return np.argsort([CODES[state] for state in states])


#: What is told first of the nodes of a call, and of a node that became several things in several calls.
_IN_CALL = _ranks(State.FAILED, State.SKIPPED, State.WAITING, State.DONE, State.KEPT, State.CONSTANT, State.UNNEEDED)
_OVER_CALLS = _ranks(State.FAILED, State.SKIPPED, State.DONE, State.KEPT, State.CONSTANT, State.WAITING, State.UNNEEDED)


@dataclass(frozen=True, slots=True)
class Failure:
    """Failure of a node that gave no values. `inner` is the failure inside its body."""

    node: int
    path: Path
    title: str
    operator: str
    opset: int
    inputs: tuple[str, ...]  # name, type and shape of each
    reason: str
    kind: str  # KernelError, MissingKernelError, LimitError, or another exception's class
    inner: Failure | None = None

    @property
    def account(self) -> str:
        """Describe what was computed from what and why that failed, where the node is named already."""
        version = f" ({self._version})" if self._version else ""
        return f"{self.operator}{version}{self._reason}"

    def __str__(self) -> str:
        if not self.title or self.title == self.operator:
            return self.account
        return f"{self.title!r} ({', '.join(filter(None, (self.operator, self._version)))}){self._reason}"

    @property
    def _version(self) -> str:
        return f"opset {self.opset}" if self.opset else ""  # what is around the node may fail: a cycle, a recursion

    @property
    def _reason(self) -> str:
        given = f" with {', '.join(self.inputs)}" if self.inputs else ""
        return f"{given}: {self.reason if self.inner is None else f'in its body, {self.inner}'}"


@dataclass(slots=True)
class NodeResult:
    """One node of a run. `seconds` and `nbytes` (of its outputs) are those of the run that computed it."""

    node: int
    path: Path
    operator: str
    title: str
    state: State
    seconds: float = 0.0
    nbytes: int = 0
    failure: Failure | None = None
    because: Failure | None = None  # whose failure made it impossible
    turns: int = 0  # how often it ran; of a node inside a body, where `seconds` is their sum
    inside: Path = ()  # the nodes whose bodies it is in, outermost first


@dataclass(eq=False)
class NodeTable(Sequence[NodeResult]):
    """Nodes in run order, by columns; rows are made lazily. Immutable once shared.

    `states` are indices in STATES, `causes` indices in `failures` or -1: the failure of a node that failed, or for
    which a skipped one was skipped. `bare` makes a row of what is the same in every run; it is not serialised.
    """

    keys: SlotKeys
    states: NDArray[np.uint8]
    seconds: NDArray[np.float64]
    nbytes: NDArray[np.int64]
    causes: NDArray[np.int32]
    failures: Sequence[Failure] = ()
    bare: Callable[[int], NodeResult] | None = field(default=None, repr=False)

    @classmethod
    def blank(cls, keys: SlotKeys, state: State, bare: Callable[[int], NodeResult] | None = None) -> NodeTable:
        """One whose nodes are all in one state."""
        size = len(keys)
        states, causes = np.full(size, CODES[state], np.uint8), np.full(size, -1, np.int32)
        return cls(keys, states, np.zeros(size), np.zeros(size, np.int64), causes, (), bare)

    @classmethod
    def of(cls, rows: Iterable[NodeResult]) -> NodeTable:
        """Return the table of existing rows."""
        known = list(rows)
        keys = SlotKeys.of((row.node, row.path) for row in known)
        failures = _Numbered()
        causes = [failures.place(row.failure or row.because) for row in known]
        return cls(
            keys,
            np.array([CODES[row.state] for row in known], np.uint8),
            np.array([row.seconds for row in known], np.float64),
            np.array([row.nbytes for row in known], np.int64),
            np.array(causes, np.int32),
            failures.failures,
            lambda place: replace(known[place]),
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return NodeTable, (self.keys, self.states, self.seconds, self.nbytes, self.causes, self.failures)

    def __len__(self) -> int:
        return len(self.keys)

    @overload
    def __getitem__(self, place: int) -> NodeResult: ...
    @overload
    def __getitem__(self, place: slice) -> list[NodeResult]: ...
    def __getitem__(self, place: int | slice) -> NodeResult | list[NodeResult]:
        if isinstance(place, slice):
            return list(self._made(np.arange(len(self))[place]))
        (row,) = self._made(np.array([range(len(self))[place]]))
        return row

    def __iter__(self) -> Iterator[NodeResult]:
        return self._made(np.arange(len(self)))

    def _made(self, places: NDArray[np.int64]) -> Iterator[NodeResult]:
        columns = (self.states, self.seconds, self.nbytes, self.causes)
        for place, state, seconds, nbytes, cause in zip(
            places.tolist(), *(column[places].tolist() for column in columns), strict=True
        ):
            row = self._bare(place)
            row.state, row.seconds, row.nbytes = STATES[state], seconds, nbytes
            row.failure = row.because = None
            if cause >= 0 and row.state is State.FAILED:
                row.failure = self.failures[cause]
            elif cause >= 0:
                row.because = self.failures[cause]
            yield row

    def _bare(self, place: int) -> NodeResult:
        return self.bare(place) if self.bare is not None else NodeResult(*self.keys.at(place), "", "", State.WAITING)

    def put(self, places: Sequence[int] | NDArray[np.int64], rows: NodeTable) -> None:
        """Take what became of some nodes, at their places here, from a table of them. This one has no failures yet."""
        self.states[places], self.seconds[places], self.nbytes[places] = rows.states, rows.seconds, rows.nbytes
        self.causes[places], self.failures = rows.causes, rows.failures

    def fail(self, causes: Mapping[int, Failure], state: State) -> None:
        """Nodes failed, or were skipped: why, by place."""
        numbered = _Numbered(self.failures)
        for place, failure in causes.items():
            self.states[place], self.causes[place] = CODES[state], numbered.place(failure)
        self.failures = numbered.failures

    # -- all together ----------------------------------------------------------------------------------------

    def places(self, *states: State) -> NDArray[np.int64]:
        """The rows in one of some states, in order."""
        return np.flatnonzero(np.isin(self.states, [CODES[state] for state in states]))

    @cached_property
    def counts(self) -> Counter[State]:
        """Number of nodes in each state."""
        counted = np.bincount(self.states, minlength=len(STATES)).tolist()
        return Counter({state: count for state, count in zip(STATES, counted, strict=True) if count})

    def failed(self) -> Iterator[tuple[int, Failure]]:
        """The nodes that failed, by row, and why."""
        found = self.places(State.FAILED)
        for place, cause in zip(found.tolist(), self.causes[found].tolist(), strict=True):
            if cause >= 0:
                yield place, self.failures[cause]

    @cached_property
    def calls(self) -> NodeTable:
        """Calls of functions as one node each: sums, the state that says most, and whose failure led to it."""
        numbers, rows, begins = self.keys.inside
        keys = SlotKeys(numbers, np.zeros(len(numbers), np.int32), ((),))
        return self._together(keys, rows, begins, _IN_CALL)[0] if len(numbers) else NodeTable.blank(keys, State.DONE)

    @cached_property
    def once(self) -> NodeTable:
        """Each node once, over all calls of its function: sums, the state that says most, and how often it ran."""
        keys = self.keys
        if keys.is_first.all():
            return self
        rows, begins = keys.by_number
        order = np.flatnonzero(keys.is_first)
        own = SlotKeys(keys.numbers[order], keys.calls[order], keys.paths)
        found, which = self._together(own, rows, begins, _OVER_CALLS)
        ran = np.isin(self.states[rows], [CODES[State.DONE], CODES[State.KEPT]])
        turns = np.where(np.diff(begins, append=len(rows)) > 1, np.add.reduceat(ran, begins, dtype=np.int64), 0)

        def bare(place: int) -> NodeResult:
            return replace(self._bare(int(which[place])), turns=int(turns[place]))

        return replace(found, bare=bare)

    def _together(
        self, keys: SlotKeys, rows: NDArray[np.int64], begins: NDArray[np.int64], ranks: NDArray[np.int64]
    ) -> tuple[NodeTable, NDArray[np.int64]]:
        """A table of groups of rows, which begin at `begins`, and the first row of the foremost state in each."""
        found = ranks[self.states[rows]]
        foremost = np.repeat(np.minimum.reduceat(found, begins), np.diff(begins, append=len(rows)))
        telling = np.flatnonzero(found == foremost)
        which = rows[telling[np.searchsorted(telling, begins)]]
        seconds, nbytes = (np.add.reduceat(column[rows], begins) for column in (self.seconds, self.nbytes))
        return NodeTable(keys, self.states[which], seconds, nbytes, self.causes[which], self.failures), which


class ByNumber(Mapping[int, NodeResult]):
    """Outcomes by node number over all calls of its function; calls have the sums of their nodes."""

    def __init__(self, table: NodeTable, inner: Iterable[NodeResult]) -> None:
        self._table = table
        calls: dict[int, list[NodeResult]] = {}
        for one in inner:
            if table.keys.find(one.node) is None:
                calls.setdefault(one.node, []).append(one)
        self._inner = {number: _summed(rows) for number, rows in calls.items()}

    def __getitem__(self, number: int) -> NodeResult:
        for table in self._table.calls, self._table.once:
            place = table.keys.find(number)
            if place is not None:
                return table[place]
        return self._inner[number]

    def __iter__(self) -> Iterator[int]:
        table = self._table
        yield from table.once.keys.numbers.tolist()
        yield from self._inner
        calls = table.calls.keys.numbers.tolist()
        yield from (call for call in calls if table.keys.find(call) is None and call not in self._inner)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def items(self) -> ItemsView[int, NodeResult]:
        """Pairs of numbers and results; made one after the other."""
        return _Items(self)

    def failed(self) -> list[int]:
        """Numbers of those that failed."""
        keys, table = self._table.keys, self._table
        places = [place for place, _ in table.failed()]
        found = dict.fromkeys(keys.numbers[places].tolist())
        found.update(dict.fromkeys(number for number, one in self._inner.items() if one.failure is not None))
        found.update(dict.fromkeys(call for place in places for call in keys.at(place)[1]))
        return list(found)


class _Items(ItemsView[int, NodeResult]):
    """All rows as one sequence, without a lookup for each."""

    def __init__(self, rows: ByNumber) -> None:
        super().__init__(rows)
        self._rows = rows

    def __iter__(self) -> Iterator[tuple[int, NodeResult]]:
        rows = self._rows
        table = rows._table
        calls = {one.node: one for one in table.calls}
        for one in table.once:
            yield one.node, calls.pop(one.node, one)
        for number, inner in rows._inner.items():
            yield number, calls.pop(number, inner)
        yield from calls.items()


def _summed(rows: Sequence[NodeResult]) -> NodeResult:
    """Sum one node over several calls of its function: the first state by precedence, sums, and how often it ran."""
    first = min(rows, key=lambda one: _OVER_CALLS[CODES[one.state]])
    if len(rows) == 1:
        return first
    return replace(
        first,
        seconds=sum(one.seconds for one in rows),
        nbytes=sum(one.nbytes for one in rows),
        turns=sum(one.turns or one.state in (State.DONE, State.KEPT) for one in rows),
    )


class _Numbered:
    """Failures, each once: many nodes may be skipped for one."""

    def __init__(self, known: Iterable[Failure] = ()) -> None:
        self.failures = list(known)
        self._places = {id(failure): place for place, failure in enumerate(self.failures)}

    def place(self, failure: Failure | None) -> int:
        """Return its index in `failures`, appending it if it is new; -1: there is none."""
        if failure is None:
            return -1
        place = self._places.setdefault(id(failure), len(self.failures))
        if place == len(self.failures):
            self.failures.append(failure)
        return place
