"""Result of a run, by value and by node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import chain, repeat
from operator import is_not
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from onnx_workbench.exec.results.node_table import NO_NODES, RAN, Failure, NodeResult, NodeTable, State
from onnx_workbench.exec.results.slot_map import NONE_SLOT, LoopKey, Path, SlotMap, ValueKey
from onnx_workbench.exec.results.values import MISSING
from onnx_workbench.exec.values.arrays import RuntimeValue, SparseArray
from onnx_workbench.exec.values.statistics import Statistics, Summary, ValueInfo, describe, nbytes, statistics
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.graph import Node, Value
from onnx_workbench.model.progress import SILENT, Progress

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ValueLifetimes:
    """Indices of the first and last step at which each value of a run is alive, in the order they are made."""

    keys: Sequence[ValueKey]
    first: NDArray[np.int64]
    last: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Moment:
    """Memory at one step of a run, if every tensor were freed after its last use."""

    node: int
    path: Path
    live_bytes: int
    step: int
    lifetimes: ValueLifetimes = field(
        repr=False, compare=False
    )  # shared by all moments: a list for each would need too much memory

    @property
    def alive(self) -> list[ValueKey]:
        """Keys of the values alive at this step."""
        all_ = self.lifetimes
        return [all_.keys[i] for i in np.flatnonzero((all_.first <= self.step) & (self.step <= all_.last)).tolist()]


class RunMemory(NamedTuple):
    """Bytes that a run held besides its values: weights (peak, with copies in the layout of kernels), inputs, and
    buffers in which kernels compute (peak).

    `limit` bounds these and the values together; 0 if unknown.
    """

    limit: int = 0
    weights: int = 0
    inputs: int = 0
    buffers: int = 0


NO_MEMORY = RunMemory()


@dataclass(frozen=True, slots=True)
class RunNumber:
    """Reference to a result in a message to the worker process."""

    number: int


#: See RunResult.in_iterations. The result is an argument, so that no reference cycle arises.
Iterate = Callable[["RunResult", Mapping[LoopKey, int], Progress], "RunResult"]

#: Returns a value that is not in the result; raises LookupError if it cannot, Cancelled if the progress is.
Fetch = Callable[[ValueKey, Progress], RuntimeValue]


class RemoteRun(Protocol):
    """The run in the worker process that holds the values of a result."""

    def apply(self, function: Callable[..., Any], arguments: Sequence[Any], progress: Progress) -> Any:
        """Return `function(result, *arguments)`, computed in the worker; see RunResult.apply."""
        ...


@dataclass(eq=False, repr=False)
class RunResult:
    """Values, times, memory and errors of one run; does not change afterwards.

    `state` identifies the state of the document it was computed for. `stopped` is the reason of an early end: empty,
    ``cancelled``, ``time limit``, ``crash`` or ``stopped``. `peak_bytes` is the peak of the values that the run held,
    `memory` the rest.
    """

    layout: SlotMap
    slots: list[RuntimeValue]
    build_nodes: Callable[[], NodeTable]
    summaries: Mapping[int, Summary] = field(default_factory=dict)  # by slot
    fetch: Fetch | None = None
    remote: RemoteRun | None = None  # None: the values are in this process
    caller_progress: Progress = SILENT  # of the caller of the function that uses this result: see apply
    state: int = 0
    seed: int = 0
    seconds: float = 0.0
    peak_bytes: int = 0
    memory: RunMemory = NO_MEMORY
    stopped: str = ""
    notes: tuple[str, ...] = ()
    bodies: Mapping[Path, dict[int, RuntimeValue]] = field(default_factory=dict)  # values of the last iteration
    body_summaries: Mapping[ValueKey, Summary] = field(default_factory=dict)
    build_inner: Callable[[], NodeTable] = lambda: NO_NODES
    iterations: Mapping[LoopKey, int] = field(default_factory=dict)  # of each loop, in its last execution
    iterate: Iterate | None = None

    def __repr__(self) -> str:
        return f"<RunResult with {len(self.values)} values{f', {self.early_end}' if self.stopped else ''}>"

    def __copy__(self) -> RunResult:
        copied = object.__new__(RunResult)
        copied.__dict__.update(self.__dict__)
        return copied

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the session: a pickled or deeply copied result has the values that the run kept."""
        names = {number: self.layout.name(number) for _, number in self.layout.slots}
        state = {each.name: getattr(self, each.name) for each in fields(self)}
        state["layout"] = replace(self.layout, names=names)
        state["build_nodes"] = _Built(self.nodes)
        state["inner"] = _Built(self.inner)
        state["bodies"], state["iterations"] = dict(self.bodies), dict(self.iterations)
        state["summaries"], state["body_summaries"] = dict(self.summaries), dict(self.body_summaries)
        return state | {"fetch": None, "remote": None, "iterate": None, "caller_progress": SILENT}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, inner=state["inner"]())

    @cached_property
    def nodes(self) -> NodeTable:
        """Outcome, time and memory of every node of the plan, in run order."""
        return self.build_nodes()

    @cached_property
    def inner(self) -> NodeTable:
        """Nodes in bodies, with their times over all iterations."""
        return self.build_inner()

    @cached_property
    def failures(self) -> list[Failure]:
        """Nodes that failed, in run order."""
        return [failure for _, failure in self.nodes.failed()]

    @property
    def counts(self) -> Counter[State]:
        """Number of nodes in each state."""
        return self.nodes.counts

    @cached_property
    def computed_bytes(self) -> int:
        """Bytes of the values that this run computed itself."""
        return int(self.nodes.nbytes[self.nodes.rows(State.DONE)].sum())

    @property
    def ok(self) -> bool:
        """Whether every requested value was computed."""
        return not self.stopped and not (self.counts[State.FAILED] or self.counts[State.SKIPPED])

    @property
    def early_end(self) -> str:
        """Why the run ended early, and at which node; empty if it did not."""
        waiting = self.nodes.rows(State.WAITING)[:1].tolist() if self.stopped else []
        if not waiting:
            return self.stopped
        node = self.nodes[waiting[0]]
        return f"{self.stopped}, at {node.title!r} ({node.operator})"

    def raise_for_failure(self) -> RunResult:
        """Return itself; ModelError with the first failure unless every requested value was computed."""
        if self.ok:
            return self
        cause = next((cause for n in self.nodes if (cause := n.failure or n.because) is not None), None)
        if cause is not None:
            raise ModelError(f"{cause.operator} failed", str(cause))
        raise ModelError("The run did not finish", self.early_end or "some nodes were skipped")

    def fill_caches(self) -> RunResult:
        """Fill all lazy caches and return itself, so that another thread, which must not wait, finds them filled."""
        _ = self.failures, self.inner, self.counts, self.computed_bytes, self.failed, self.calls_of
        nothing = 0
        _ = self.nodes[:1], self.by_node.find(nothing), self.layout.slots.get(((), nothing))  # sorts
        return self

    # -- values ----------------------------------------------------------------------------------------------

    @property
    def values(self) -> RunValues:
        """Values of the main graph by name."""
        return RunValues(self)

    @property
    def outputs(self) -> dict[str, RuntimeValue]:
        """Computed outputs of the graph by name; LookupError if a value was in the worker and is lost."""
        reached = (key for key in self.output_keys() if self.info(key) is not None)
        return {self.layout.name(key[1]): self.value(key) for key in reached}

    @cached_property
    def missing_outputs(self) -> dict[str, str]:
        """The outputs of the graph that were not computed, by name, with the reason. Cost: a pass over all nodes."""
        return self._missing([key for key in self.output_keys() if self.info(key) is None])

    def why_missing(self, value: Value | str | ValueKey) -> str:
        """Return why a value was not computed. Cost: a pass over all nodes."""
        key = self.key(value)
        return "the model has no such value" if key is None else next(iter(self._missing([key]).values()))

    def _missing(self, keys: Sequence[ValueKey]) -> dict[str, str]:
        slots = {self.layout.slots[key] for key in keys}
        if not slots:
            return {}
        makers = {slot: (step.path, step.node) for step in self.layout.steps for slot in step.outs if slot in slots}
        nodes = set(makers.values())
        rows = {key: row for row in self.nodes if (key := (row.path, row.node)) in nodes}
        reasons = {}
        for key in keys:
            maker = makers.get(self.layout.slots[key])
            reasons[self.layout.name(key[1])] = self._why_not_made(None if maker is None else rows.get(maker))
        return reasons

    def _why_not_made(self, maker: NodeResult | None) -> str:
        if maker is None:
            return self.early_end or "nothing in the model defines it"
        if maker.failure is not None:
            return str(maker.failure)
        if maker.because is not None:
            cause = maker.because.reason if maker.because.operator == "value" else maker.because
            return f"{maker.title!r} ({maker.operator}) was not run: {cause}"
        if maker.state in RAN:
            return f"{maker.title!r} ({maker.operator}) was run, but the run did not keep this value"
        return self.early_end or f"{maker.title!r} ({maker.operator}) was not run"

    @property
    def computed(self) -> NDArray[np.bool_]:
        """Mask of the slots that have been computed, whether or not their values were kept."""
        mask = np.fromiter(map(is_not, self.slots, repeat(MISSING)), bool, len(self.slots))
        mask[np.fromiter(self.summaries, np.int64, len(self.summaries))] = True
        return mask

    def output_keys(self) -> list[ValueKey]:
        """Keys of the outputs of the graph, in order."""
        by_slot: dict[int, ValueKey] = {}
        for key, slot in self.layout.slots.items():
            if not key[0]:
                by_slot.setdefault(slot, key)
        return [by_slot[s] for s in self.layout.outputs if s in by_slot]

    def key(self, value: Value | str | ValueKey, path: Path = ()) -> ValueKey | None:
        """Return the key of a value object or name; None if the run has no such value."""
        if isinstance(value, str):
            return self._by_name.get(value) if not path else None
        found = (path, value.id) if isinstance(value, Value) else value
        return found if found in self.layout.slots or self._in_bodies(*found) else None

    @cached_property
    def _by_name(self) -> dict[str, ValueKey]:
        names = self.layout.names
        return {names[k[1]]: k for k in self.layout.slots if not k[0] and k[1] in names}

    def _in_bodies(self, path: Path, number: int) -> bool:
        return number in self.bodies.get(path, {})

    def find(self, value: Value | str | ValueKey, path: Path = ()) -> RuntimeValue:
        """Return a kept value, or MISSING; never computes. Its arrays are read-only, as later runs share them."""
        key = self.key(value, path)
        if key is None:
            return MISSING
        slot = self.layout.slots.get(key)
        found = self.bodies.get(key[0], {}).get(key[1], MISSING) if slot is None else self.slots[slot]
        return _protected(found)

    def value(self, value: Value | str | ValueKey, path: Path = (), *, progress: Progress = SILENT) -> RuntimeValue:
        """Return a value, computed again if it was not kept; LookupError with the reason if that is impossible.

        Cancelled if the `progress` of the caller is.
        """
        self.caller_progress.check()
        found = self.find(value, path)
        if found is not MISSING:
            return found
        key = self.key(value, path)
        if key is None:
            msg = f"no value {value!r} in this run"
            raise LookupError(msg)
        if self.fetch is not None:
            return _protected(self.fetch(key, self.caller_progress if progress is SILENT else progress))
        msg = f"value {self.layout.name(key[1])!r} was not computed"
        raise LookupError(msg)

    def in_iterations(self, chosen: Mapping[LoopKey, int], progress: Progress = SILENT) -> RunResult:
        """Return this result with the values in bodies from the chosen iterations, counted from 0, instead of the last.

        They are computed again. If a loop has fewer iterations (within the chosen one of the loop around it), its
        last one is used. LookupError if that fails, Cancelled if the `progress` of the caller is.
        """
        if self.iterate is None:
            msg = "the run keeps the values of the last iteration only"
            raise LookupError(msg)
        return self.iterate(self, chosen, self.caller_progress if progress is SILENT else progress)

    def with_bodies(
        self,
        bodies: Mapping[Path, dict[int, RuntimeValue]],
        summaries: Mapping[ValueKey, Summary],
        iterations: Mapping[LoopKey, int],
    ) -> RunResult:
        """Return this result with other values in bodies."""
        found = copy(self)
        found.bodies, found.body_summaries, found.iterations = bodies, summaries, iterations
        found.__dict__.pop("calls_of", None)
        return found

    def info(self, value: Value | str | ValueKey, path: Path = ()) -> ValueInfo | None:
        """Return type, shape and bytes of a value, also if it was not kept; None if it was not computed."""
        found = self.find(value, path)
        if found is not MISSING:
            return describe(found)
        summary = self._summary(value, path)
        return summary.info if summary is not None else None

    def statistics(self, value: Value | str | ValueKey, path: Path = ()) -> Statistics | None:
        """Return statistics of a tensor, also if it was not kept. Reads every element the first time."""
        found = self.find(value, path)
        if found is not MISSING:
            return statistics(found) if describe(found).kind == "tensor" else None
        summary = self._summary(value, path)
        if summary is None or summary.statistics is not None or self.remote is None:
            return summary.statistics if summary is not None else None
        try:
            return self.apply(RunResult.statistics, self.key(value, path))
        except (LookupError, ModelError):
            return None  # the worker cannot

    def apply(self, function: Callable[..., T], *arguments: Any, progress: Progress = SILENT) -> T:
        """Return `function(self, *arguments)`, computed in the worker if the values are there.

        `function` must be a module-level function of this package. Arguments may be other results; if one of them is
        in this process, the function runs here and fetches values as needed. LookupError if the values are lost. Once
        `progress` is cancelled, reading a value raises Cancelled; a function that computes long between reads may poll
        `caller_progress`, and report its progress there.
        """
        if self.remote is None or any(isinstance(a, RunResult) and a.remote is None for a in arguments):
            return function(*(_with_progress(a, progress) for a in (self, *arguments)))
        answer: T = self.remote.apply(function, arguments, progress)
        return answer

    def _summary(self, value: Value | str | ValueKey, path: Path) -> Summary | None:
        key = self.key(value, path)
        if key is None:
            return None
        slot = self.layout.slots.get(key)
        return self.body_summaries.get(key) if slot is None else self.summaries.get(slot)

    # -- nodes and memory ------------------------------------------------------------------------------------

    def node(self, node: Node, path: Path = ()) -> NodeResult | None:
        """Return the outcome of a node; for a call of a function, that of its last node. Passes over all nodes."""
        found = None
        for result in chain(self.nodes, self.inner):
            if result.path == path and result.node == node.id:
                return result
            if result.path[: len(path) + 1] == (*path, node.id):
                found = result
        return found

    @cached_property
    def by_node(self) -> NodeTable:
        """Each node once, with sums over all calls of its function; calls have the sums of their nodes."""
        return self.nodes.by_number(self.inner)

    @cached_property
    def failed(self) -> list[int]:
        """Numbers of the nodes that failed, calls of functions and nodes in bodies among them."""
        failed = [row for row, _ in self.nodes.failed()]
        numbers = dict.fromkeys(self.by_node.keys.numbers[self.by_node.rows(State.FAILED)].tolist())
        numbers.update(dict.fromkeys(self.nodes.keys.numbers[failed].tolist()))
        return list(numbers)

    @cached_property
    def calls_of(self) -> Mapping[int, list[Path]]:
        """Paths of the calls in which each value inside functions and bodies was computed, by number of the value."""
        paths: dict[int, list[Path]] = {}
        inside = ((path, value) for path, values in self.bodies.items() for value in values)
        for path, value in chain(self.layout.table.inside(), inside):
            paths.setdefault(value, []).append(path)
        return paths

    def in_calls(self, number: int) -> list[ValueInfo]:
        """Return type, shape and bytes of a value inside functions or bodies in each of their calls."""
        infos = (self.info((path, number)) for path in self.calls_of.get(number, ()))
        return [info for info in infos if info is not None]

    def timeline(self, progress: Progress = SILENT) -> list[Moment]:
        """Return the memory at each step, if tensors were freed after their last use."""
        steps, table = self.layout.steps, self.layout.table
        made, at = steps.outs.slots, steps.outs.rows
        made, at = made[made != NONE_SLOT], at[made != NONE_SLOT]
        sizes = np.fromiter(map(self._slot_bytes, progress.paced(made.tolist())), np.int64, len(made))
        last = np.full(len(self.slots), -1)
        np.maximum.at(last, steps.reads.slots, steps.reads.rows)
        last[list(self.layout.outputs)] = len(steps)
        until = np.where(last[made] < 0, at, last[made])
        row = np.full(len(self.slots), -1)
        row[table.slots] = np.arange(len(table))
        is_named = row[made] >= 0
        named = [table.entries.at(index)[::-1] for index in progress.paced(row[made[is_named]].tolist())]
        lifetimes = ValueLifetimes(named, at[is_named], until[is_named])
        live = _alive(len(steps), at, until, sizes).tolist()
        keys = map(steps.keys.at, progress.paced(range(len(steps))))
        return [Moment(*key, size, step, lifetimes) for step, (key, size) in enumerate(zip(keys, live, strict=True))]

    def _slot_bytes(self, slot: int) -> int:
        value = self.slots[slot]
        if value is MISSING:
            summary = self.summaries.get(slot)
            return summary.info.nbytes if summary is not None else 0
        return nbytes(value)


def _alive(
    count: int, first: NDArray[np.int64], last: NDArray[np.int64], sizes: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the bytes alive at each step. `first` and `last` are steps of each value; one with last < first stays."""
    alive = np.zeros(count + 1, np.int64)
    np.add.at(alive, first, sizes)
    ends = last >= first
    np.subtract.at(alive, np.minimum(last[ends] + 1, count), sizes[ends])
    return np.cumsum(alive[:count])


class _Built:
    """A table of nodes with their operators and titles, which otherwise belong to the plan, for a pickled result."""

    def __init__(self, table: NodeTable) -> None:
        self._table = replace(table, label=None)
        self._labels = [table.label_of(row) for row in range(len(table))]

    def __call__(self) -> NodeTable:
        return replace(self._table, label=self._labels.__getitem__)


class RunValues(Mapping[str, Any]):
    """Values of the main graph by name; those that were not kept are computed again on access."""

    def __init__(self, result: RunResult) -> None:
        self._result = result

    def __repr__(self) -> str:
        return f"<RunValues {list(self)}>"

    def __getitem__(self, name: str) -> RuntimeValue:
        try:
            return self._result.value(name)
        except LookupError as error:
            raise KeyError(str(error)) from None

    def __iter__(self) -> Iterator[str]:
        for name, key in self._result._by_name.items():
            slot = self._result.layout.slots[key]
            if self._result.slots[slot] is not MISSING or slot in self._result.summaries:
                yield name

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _protected(value: RuntimeValue) -> RuntimeValue:
    """Make the arrays of a value read-only; return the value."""
    if isinstance(value, np.ndarray):
        value.flags.writeable = False
    elif isinstance(value, SparseArray):
        value.values.flags.writeable = value.indices.flags.writeable = False
    elif isinstance(value, (list, dict)):
        for part in value.values() if isinstance(value, dict) else value:
            _protected(part)
    return value


def _with_progress(result: T, progress: Progress) -> T:
    """Return a copy of a result that raises Cancelled once `progress` is cancelled; any other argument as it is."""
    if progress is SILENT or not isinstance(result, RunResult):
        return result
    heeds = copy(result)
    heeds.caller_progress = progress
    return heeds


#: The values in the subgraphs of a node, by its call path and number.
Inside = Mapping[ValueKey, Sequence[ValueKey]]


def value_keys(result: RunResult, inside: Inside | None = None) -> Iterator[ValueKey]:
    """Yield the keys of values in run order: inputs, then the outputs of each node; outputs of calls by outer names.

    Keys `inside` a node come before its outputs, or first of all if the run has no such node.
    """
    outermost = sorted(result.layout.slots.items(), key=lambda item: -len(item[0][0]))
    by_slot = {slot: key for key, slot in outermost}
    computed = {slot for step in result.layout.steps for slot in step.outs}
    for key, slot in result.layout.slots.items():
        if not key[0] and slot not in computed and result.slots[slot] is not MISSING:
            yield key
    within = dict(inside or {})
    mine = {key: within.pop(key) for step in result.layout.steps if (key := (step.path, step.node)) in within}
    for keys in within.values():
        yield from keys
    for step in result.layout.steps:
        yield from mine.get((step.path, step.node), ())
        for slot in step.outs:
            if slot and slot in by_slot:
                yield by_slot[slot]
