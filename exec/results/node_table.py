"""Outcomes of the nodes of a run."""

from __future__ import annotations

import enum
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import overload

import numpy as np
from numpy.typing import NDArray

from onnx_workbench.exec.results.columns import LOCAL, ColumnTable, Keys
from onnx_workbench.exec.results.slot_map import Path


class State(enum.Enum):
    """Outcome of a node in a run."""

    DONE = "computed"
    KEPT = "kept from an earlier run"
    CONSTANT = "constant"
    FAILED = "failed"
    SKIPPED = "skipped"
    WAITING = "not reached"
    UNNEEDED = "not needed"


#: States of nodes whose values were computed, whether or not they were kept.
RAN = (State.DONE, State.KEPT, State.CONSTANT)

#: States by their codes in columns.
STATES = tuple(State)
CODES = {state: code for code, state in enumerate(STATES)}


def _ranks(*states: State) -> NDArray[np.int64]:
    """Return the precedence of each state by code: several nodes are shown in the first of these states that occurs."""
    return np.argsort([CODES[state] for state in states])


#: Precedence of states among the nodes of one call, and among several calls of one node.
_IN_CALL = _ranks(State.FAILED, State.SKIPPED, State.WAITING, State.DONE, State.KEPT, State.CONSTANT, State.UNNEEDED)
_OVER_CALLS = _ranks(State.FAILED, State.SKIPPED, State.DONE, State.KEPT, State.CONSTANT, State.WAITING, State.UNNEEDED)


@dataclass(frozen=True, slots=True)
class Failure:
    """Failure of a node. `inner` is the failure inside its body."""

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
        """Operator, inputs and reason, without the title of the node."""
        version = f" ({self._version})" if self._version else ""
        return f"{self.operator}{version}{self._reason}"

    def __str__(self) -> str:
        if not self.title or self.title == self.operator:
            return self.account
        return f"{self.title!r} ({', '.join(filter(None, (self.operator, self._version)))}){self._reason}"

    @property
    def _version(self) -> str:
        return f"opset {self.opset}" if self.opset else ""  # 0: not the operator failed: a cycle

    @property
    def _reason(self) -> str:
        given = f" with {', '.join(self.inputs)}" if self.inputs else ""
        return f"{given}: {self.reason if self.inner is None else f'in its body, {self.inner}'}"


@dataclass(slots=True)
class NodeResult:
    """Outcome of one node. `seconds` and `nbytes` (of its outputs) are from the run that computed it."""

    node: int
    path: Path
    operator: str
    title: str
    state: State
    seconds: float = 0.0
    nbytes: int = 0
    failure: Failure | None = None
    because: Failure | None = None  # the failure for which it was skipped
    runs: int = 0  # number of executions in a body; `seconds` is their sum
    inside: Path = ()  # nodes whose bodies contain it, outermost first


#: Operator and title of the node of a row.
Label = Callable[[int], tuple[str, str]]


@dataclass(eq=False)
class NodeTable(ColumnTable, Sequence[NodeResult]):
    """Nodes in run order, by columns; rows are made on access.

    `states` are indices in STATES, `causes` indices in `failures` or -1: the failure of a failed node, or for which a
    node was skipped. `runs` is the number of executions, if more than one or in a body, else 0; `inside` are indices in
    `scopes`, the nodes whose bodies contain it.
    """

    keys: Keys
    states: NDArray[np.uint8]
    seconds: NDArray[np.float64]
    nbytes: NDArray[np.int64]
    causes: NDArray[np.int32]
    runs: NDArray[np.int64]
    inside: NDArray[np.int32]
    failures: Sequence[Failure] = ()
    scopes: Sequence[Path] = ((),)
    label: Label | None = field(default=None, repr=False, metadata=LOCAL)

    @classmethod
    def blank(cls, keys: Keys, state: State, label: Label | None = None) -> NodeTable:
        """Return a table whose nodes are all in one state."""
        size = len(keys)
        states, causes = np.full(size, CODES[state], np.uint8), np.full(size, -1, np.int32)
        numbers, inside = np.zeros(size, np.int64), np.zeros(size, np.int32)
        return cls(keys, states, np.zeros(size), numbers, causes, numbers.copy(), inside, label=label)

    @classmethod
    def of(cls, rows: Iterable[NodeResult]) -> NodeTable:
        """Return the table of existing rows."""
        results = list(rows)
        failures, scopes = _Numbered(), dict[Path, int]({(): 0})
        labels = [(row.operator, row.title) for row in results]
        return cls(
            Keys.of((row.node, row.path) for row in results),
            np.array([CODES[row.state] for row in results], np.uint8),
            np.array([row.seconds for row in results], np.float64),
            np.array([row.nbytes for row in results], np.int64),
            np.array([failures.number(row.failure or row.because) for row in results], np.int32),
            np.array([row.runs for row in results], np.int64),
            np.array([scopes.setdefault(row.inside, len(scopes)) for row in results], np.int32),
            failures.failures,
            tuple(scopes),
            labels.__getitem__,
        )

    @classmethod
    def joined(cls, tables: Sequence[NodeTable]) -> NodeTable:
        """Return the rows of tables one after the other."""
        failures, scopes = _Numbered(), dict[Path, int]()
        causes, inside, ends = [], [], [0]
        for table in tables:
            numbers = [failures.number(failure) for failure in table.failures]
            causes.append(np.array([*numbers, -1], np.int32)[table.causes])
            places = [scopes.setdefault(scope, len(scopes)) for scope in table.scopes]
            inside.append(np.array(places, np.int32)[table.inside])
            ends.append(ends[-1] + len(table))

        def label(row: int) -> tuple[str, str]:
            which = bisect_right(ends, row) - 1
            return tables[which].label_of(row - ends[which])

        return cls(
            Keys.of(chain.from_iterable(table.keys for table in tables)),
            np.concatenate([table.states for table in tables]),
            np.concatenate([table.seconds for table in tables]),
            np.concatenate([table.nbytes for table in tables]),
            np.concatenate(causes),
            np.concatenate([table.runs for table in tables]),
            np.concatenate(inside),
            failures.failures,
            tuple(scopes),
            label,
        )

    def __len__(self) -> int:
        return len(self.keys)

    @overload
    def __getitem__(self, row: int) -> NodeResult: ...
    @overload
    def __getitem__(self, row: slice) -> list[NodeResult]: ...
    def __getitem__(self, row: int | slice) -> NodeResult | list[NodeResult]:
        if isinstance(row, slice):
            return list(self._results(np.arange(len(self))[row]))
        (found,) = self._results(np.array([range(len(self))[row]]))
        return found

    def __iter__(self) -> Iterator[NodeResult]:
        return self._results(np.arange(len(self)))

    def _results(self, rows: NDArray[np.int64]) -> Iterator[NodeResult]:
        keys, failures, scopes = self.keys, self.failures, self.scopes
        paths, label, failed = keys.paths, self.label or self.label_of, CODES[State.FAILED]
        columns = (
            keys.numbers, keys.calls, self.states, self.seconds, self.nbytes, self.causes, self.runs, self.inside,
        )  # fmt: skip
        for row, number, call, state, seconds, nbytes, cause, runs, inside in zip(
            rows.tolist(), *(column[rows].tolist() for column in columns), strict=True
        ):
            operator, title = label(row)
            failure = because = None
            if cause >= 0:
                failure, because = (failures[cause], None) if state == failed else (None, failures[cause])
            yield NodeResult(
                number, paths[call], operator, title, STATES[state], seconds, nbytes, failure, because, runs,
                scopes[inside],
            )  # fmt: skip

    def label_of(self, row: int) -> tuple[str, str]:
        """Operator and title of the node of a row; empty without `label`."""
        return ("", "") if self.label is None else self.label(row)

    def assign(self, places: Sequence[int] | NDArray[np.int64], rows: NodeTable) -> None:
        """Copy the outcomes in `rows` to the rows `places` of this table, which must not have failures yet."""
        self.states[places], self.seconds[places], self.nbytes[places] = rows.states, rows.seconds, rows.nbytes
        self.causes[places], self.failures = rows.causes, rows.failures

    def fail(self, causes: Mapping[int, Failure], state: State) -> None:
        """Set the state (FAILED or SKIPPED) and the failure of nodes, by row."""
        numbered = _Numbered(self.failures)
        for row, failure in causes.items():
            self.states[row], self.causes[row] = CODES[state], numbered.number(failure)
        self.failures = numbered.failures

    def find(self, number: int) -> NodeResult | None:
        """Return the first row of a node."""
        row = self.keys.find(number)
        return None if row is None else self[row]

    # -- queries over all rows -------------------------------------------------------------------------------

    def rows(self, *states: State) -> NDArray[np.int64]:
        """Return the rows in one of some states, in order."""
        return np.flatnonzero(np.isin(self.states, [CODES[state] for state in states]))

    @cached_property
    def counts(self) -> Counter[State]:
        """Number of nodes in each state."""
        counted = np.bincount(self.states, minlength=len(STATES)).tolist()
        return Counter({state: count for state, count in zip(STATES, counted, strict=True) if count})

    def failed(self) -> Iterator[tuple[int, Failure]]:
        """Yield the row and failure of each failed node."""
        rows = self.rows(State.FAILED)
        for row, cause in zip(rows.tolist(), self.causes[rows].tolist(), strict=True):
            if cause >= 0:
                yield row, self.failures[cause]

    def take(self, rows: NDArray[np.int64]) -> NodeTable:
        """Return a table of some rows."""
        label = self.label
        return NodeTable(
            self.keys.take(rows), self.states[rows], self.seconds[rows], self.nbytes[rows], self.causes[rows],
            self.runs[rows], self.inside[rows], self.failures, self.scopes,
            None if label is None else lambda row: label(int(rows[row])),
        )  # fmt: skip

    def by_number(self, inner: NodeTable) -> NodeTable:
        """Return each node once: sums over calls of its function, calls as sums of their nodes, then nodes in bodies.

        `inner`: the nodes in bodies.
        """
        calls, once, deeper = self._calls(), self._once(), inner._once()
        if not len(calls) and not len(deeper):
            return once
        called, own, within = calls.keys.numbers, once.keys.numbers, deeper.keys.numbers
        parts = once.take(np.flatnonzero(~np.isin(own, called))), calls
        return NodeTable.joined([*parts, deeper.take(np.flatnonzero(~np.isin(within, np.concatenate([own, called]))))])

    def _calls(self) -> NodeTable:
        """Return one row for each call of a function: sums of its nodes, the foremost state, and its failure."""
        numbers, rows, begins = self.keys.inside
        if not len(numbers):
            return NO_NODES
        found = self._sums(rows, begins, _IN_CALL)
        keys = Keys(numbers, np.zeros(len(numbers), np.int32), ((),))
        return replace(found, keys=keys, runs=np.zeros(len(numbers), np.int64), label=None)

    def _once(self) -> NodeTable:
        """Return each node once: sums over all calls of its function, the foremost state, the number of executions."""
        if self.keys.is_first.all():
            return self
        rows, begins = self.keys.by_number
        found = self._sums(rows, begins, _OVER_CALLS)
        ran = np.isin(self.states, [CODES[State.DONE], CODES[State.KEPT]])
        runs = np.add.reduceat(np.where(self.runs > 0, self.runs, ran)[rows], begins)
        return replace(found, runs=np.where(np.diff(begins, append=len(rows)) > 1, runs, found.runs))

    def _sums(self, rows: NDArray[np.int64], begins: NDArray[np.int64], ranks: NDArray[np.int64]) -> NodeTable:
        """Return one row for each group of rows: its first row in the foremost state, with the sums of the group.

        `begins`: indices in `rows` at which groups begin. `ranks`: precedence of states by code.
        """
        found = ranks[self.states[rows]]
        foremost = np.repeat(np.minimum.reduceat(found, begins), np.diff(begins, append=len(rows)))
        telling = np.flatnonzero(found == foremost)
        first = self.take(rows[telling[np.searchsorted(telling, begins)]])
        seconds, nbytes = (np.add.reduceat(column[rows], begins) for column in (self.seconds, self.nbytes))
        return replace(first, seconds=seconds, nbytes=nbytes)


class _Numbered:
    """Numbers failures, each once: many nodes may be skipped for the same one."""

    def __init__(self, known: Iterable[Failure] = ()) -> None:
        self.failures = list(known)
        self._numbers = {id(failure): number for number, failure in enumerate(self.failures)}

    def number(self, failure: Failure | None) -> int:
        """Return its index in `failures`, appending it if it is new; -1 for None."""
        if failure is None:
            return -1
        number = self._numbers.setdefault(id(failure), len(self.failures))
        if number == len(self.failures):
            self.failures.append(failure)
        return number


#: Shared empty table, for runs without bodies: making one takes as long as a small node.
NO_NODES = NodeTable.blank(Keys.of(()), State.DONE)
