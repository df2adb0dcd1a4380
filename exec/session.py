"""A model and what its runs have computed: `Session(load(path)).run({name: array}).values[name]`."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypedDict, Unpack

import numpy as np

from onnx_workbench.exec.engine.engine import Engine
from onnx_workbench.exec.engine.execution import Execution, ExecutionOptions
from onnx_workbench.exec.engine.executor import Observer
from onnx_workbench.exec.engine.plan import MISSING, Plan, PlanStep
from onnx_workbench.exec.engine.snapshot import ModelSnapshot, SnapshotCache
from onnx_workbench.exec.engine.subgraph_breakpoints import SubgraphPosition
from onnx_workbench.exec.inputs.feeds import Feeds, normalise
from onnx_workbench.exec.inspect.nonfinite import NAN, Sought, beginning, kinds_of
from onnx_workbench.exec.inspect.statistics import describe
from onnx_workbench.exec.kernels.context import RuntimeValue
from onnx_workbench.exec.results.node_table import Failure
from onnx_workbench.exec.results.run_result import RunResult
from onnx_workbench.exec.results.slot_map import Path, ValueKey
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.ir.graph import Graph, Model, Node, Value
from onnx_workbench.model.ir.types import TensorType, Type
from onnx_workbench.model.progress import SILENT, Progress

#: What may be asked for: every value, only the outputs, or names and Value objects.
Wanted = Literal["all", "outputs"] | Iterable[str | Value]


@dataclass(frozen=True, slots=True)
class Breakpoint:
    """Breakpoint: before `node`, after `value` is computed, or, for `value` or any value, when a condition holds.

    Conditions: ``non-finite``; ``above``: an element with |x| > `limit`; ``shape``: other than declared; and, for any
    value that a node makes, ``beginnings`` and ``nan``: NaN or an infinity, or NaN alone, begins there.
    """

    node: Node | None = None
    value: Value | None = None
    condition: Literal["", "non-finite", "above", "shape", "beginnings", "nan"] = ""
    limit: float = 0.0


class RunQuestion(TypedDict, total=False):
    """Options of a run beside its inputs."""

    values: Wanted  # what to compute and keep; "all" by default
    seed: int  # of random operators
    memory_limit: int | None  # bytes of a single value; half of the machine's memory by default
    time_limit: float | None  # seconds
    until: Node | None  # compute only what this node needs, and the node
    path: Path  # of the call of a function that `until` is in
    breakpoints: Sequence[Breakpoint]  # with any, everything is recomputed: a run cannot stop at cached values
    fresh: bool  # recompute everything


@dataclass(frozen=True, slots=True)
class Request:
    """Request of a run: made on the thread that owns the model, performed on any."""

    snapshot: ModelSnapshot
    feeds: Feeds
    options: ExecutionOptions
    breakpoints: tuple[Condition, ...] = ()


class Runs:
    """Base of sessions: turns the model and the options into a request.

    `request` reads the model, so it belongs on the thread that owns it; `run` is `request` and performing it.
    """

    def __init__(self, model: Model | Document, graph: Graph | None = None) -> None:
        self._document = model if isinstance(model, Document) else None
        self.model = model.model if isinstance(model, Document) else model
        self.snapshots = SnapshotCache(self.model, graph)
        self._taken: tuple[int, ModelSnapshot] | None = None  # for which revision of the document
        self._preparing = threading.RLock()  # a background reader may prepare for a request of another thread

    @property
    def graph(self) -> Graph:
        """The graph that is run."""
        return self.snapshots.graph or self.model.graph

    def request(self, feeds: Mapping[Any, Any] | None = None, **asked: Unpack[RunQuestion]) -> Request:
        """Return the argument of `perform` and `steps`: the current model, and values for the inputs by name or
        Value.

        ModelError when a value has another type than declared or belongs to no input. After an edit it costs about
        0.6 µs per node, the first time 8 µs, see `prepare`; without one nothing.
        """
        snapshot = self.prepare()
        until, memory_limit = asked.get("until"), asked.get("memory_limit")
        options = ExecutionOptions(
            values=wanted_keys(self.snapshots, asked.get("values", "all")),
            until=None if until is None else (asked.get("path", ()), self.snapshots.nodes[until]),
            seed=asked.get("seed", 0),
            memory_limit=default_memory_limit() if memory_limit is None else memory_limit,
            time_limit=asked.get("time_limit"),
            fresh=asked.get("fresh", False) or bool(asked.get("breakpoints")),
            watched=bool(asked.get("breakpoints")),
        )
        given = feeds_by_number(self.snapshots, feeds or {})
        conditions = tuple(compile_breakpoint(b, self.snapshots) for b in asked.get("breakpoints", ()))
        return Request(snapshot, given, options, conditions)

    @property
    def is_prepared(self) -> bool:
        """Return whether `request` has nothing to read: the document is unchanged since the last read."""
        return self._taken is not None and self._document is not None and self._taken[0] == self._document.revision

    def prepare(self, progress: Progress = SILENT) -> ModelSnapshot:
        """Read the model for the requests to come, checking `progress` every few nodes."""
        document = self._document
        with self._preparing:
            if self._taken is not None and self.is_prepared:
                return self._taken[1]
            snapshot = self.snapshots.take(state=0 if document is None else document.current.id, progress=progress)
            if document is not None:
                self._taken = document.revision, snapshot
            return snapshot

    def number(self, thing: Value | Node) -> int:
        """The number results know a value or node by; 0 when it has none yet."""
        return (self.snapshots.nodes if isinstance(thing, Node) else self.snapshots.values).find(thing)


class Session(Runs):
    """Runs one graph of a model in this process and remembers what it computed.

    A later run computes only what an edit or another feed changed. `budget` is how many bytes of values are kept
    (see default_budget); what does not fit leaves a summary and is computed again on demand. Values in results are
    those that later runs go on from: copy one before changing it.
    Use from one thread at a time; the model is read by `request`, `run` and `steps`, on the calling thread.
    """

    def __init__(self, model: Model | Document, *, graph: Graph | None = None, budget: int | None = None) -> None:
        super().__init__(model, graph)
        self._engine = Engine(default_budget() if budget is None else budget)

    def run(
        self,
        feeds: Mapping[Any, Any] | None = None,
        *,
        progress: Progress = SILENT,
        observer: Observer | None = None,
        **asked: Unpack[RunQuestion],
    ) -> RunResult:
        """Run with values for the inputs; takes what `request` takes. Failures and limits are in the result.

        ModelError when an input that is needed is not given, or when `values` names one that does not exist.
        """
        return self.perform(self.request(feeds, **asked), progress=progress, observer=observer)

    def perform(self, request: Request, *, progress: Progress = SILENT, observer: Observer | None = None) -> RunResult:
        """Perform a request, to the first breakpoint or the end."""
        stepper = self.steps(request, progress=progress, observer=observer)
        stepper.go_on()
        return stepper.result()

    def steps(
        self,
        request: Request | Mapping[Any, Any] | None = None,
        *,
        progress: Progress = SILENT,
        observer: Observer | None = None,
        **asked: Unpack[RunQuestion],
    ) -> Stepper:
        """A run to go through node by node, from a request or from what `request` takes. Constants are computed now."""
        if not isinstance(request, Request):
            request = self.request(request, **asked)
        return start(self._engine, request, self.number, self.snapshots.nodes.object, progress, observer)

    def forget(self) -> None:
        """Release all computed values; weights prepared for kernels stay."""
        self._engine.forget()


def start(
    engine: Engine,
    request: Request,
    number: Callable[[Value | Node], int],
    node_of: Callable[[int], Any],
    progress: Progress = SILENT,
    observer: Observer | None = None,
) -> Stepper:
    """Plan a request and stand before its first step."""
    execution = engine.start(request.snapshot, request.feeds, request.options, progress=progress, observer=observer)
    return Stepper(engine, execution, request, number, node_of)


class Stepper:
    """A run that waits: `step` computes one node, `go_on` runs to the next breakpoint or the end.

    Iterating steps. `position` and `next_node` say where it is, `reason` why it stopped. Where a breakpoint has
    stopped it inside a body, steps go on inside, node by node and turn by turn, until they lead out; the way there
    from the beginning of the turn is computed once more for each.
    """

    def __init__(
        self,
        engine: Engine,
        execution: Execution,
        request: Request,
        number: Callable[[Value | Node], int],
        node_of: Callable[[int], Any],
    ) -> None:
        self._engine = engine
        self._execution = execution
        self._request = request
        self._stops = _Stops(request.breakpoints, engine.library.constant)
        self._begun = False
        self._last: PlanStep | None = None  # what it has computed last
        self._inside: SubgraphPosition | None = None  # where it waits in a body of the next step
        self._number = number
        self._node_of = node_of
        self.reason = ""

    @property
    def done(self) -> bool:
        """Return whether nothing is left to compute."""
        return self._execution.done

    @property
    def position(self) -> int:
        """Number of nodes processed."""
        return len(self._execution.run.stamps)

    @property
    def total(self) -> int:
        """Number of nodes of the run."""
        return len(self._execution.run.code)

    @property
    def constants(self) -> Collection[int]:
        """Slots that hold constants of the model."""
        return self._execution.plan.constants.keys()

    @property
    def last_key(self) -> tuple[Path, int] | None:
        """Path and number of the node that it has stopped behind, be it in a body; None before the first."""
        last = self._last if self._inside is None else self._inside.previous
        return None if last is None else (last.path, last.node.node)

    @property
    def last_node(self) -> tuple[Path, Node] | None:
        """The node that it has stopped behind, and the call of a function it is in; see `last_key`."""
        key = self.last_key
        return None if key is None else (key[0], self._node_of(key[1]))

    @property
    def next_key(self) -> tuple[Path, int] | None:
        """Path and number of the node `step` computes next; at the end of an iteration of a body, of the node that
        owns it.
        """
        inside = self._inside
        step = (inside and inside.following) or self._execution.next_step
        return None if step is None else (step.path, step.node.node)

    @property
    def next_node(self) -> tuple[Path, Node] | None:
        """The node `step` computes next, and the call of a function it is in; see `next_key`."""
        key = self.next_key
        return None if key is None else (key[0], self._node_of(key[1]))

    def tell(self) -> None:
        """Report finished nodes to the observer now, instead of when the current node is. Any thread."""
        self._execution.run.tell()

    def step(self) -> bool:
        """Compute one node, or inside a body to its end or the next turn; False when there was none left.

        What has bodies is computed whole, unless a breakpoint inside stops it.
        """
        step = self._execution.next_step
        if step is None or self.done:
            return False
        self._begun = True
        depth = self._inside.depth if self._inside is not None else 0
        self.reason = self._past(step, replace(self._stops, depth=depth) if depth else self._stops)
        self.tell()
        return True

    def go_on(self) -> str:
        """Run to the next breakpoint or the end; why it stopped, empty at the end."""
        self.reason = ""
        if not self._stops.conditions:
            self._execution.advance()
            return ""
        standing = self._begun  # where the user has stopped, going on begins
        if not standing:
            self._begun = True
            self.reason = self._given()
        while not self.reason and (step := self._execution.next_step) is not None and not self.done:
            self.reason = "" if standing else self._before(step)
            standing = False
            if not self.reason:
                self.reason = self._past(step, self._stops)
        self.tell()
        return self.reason

    def _before(self, step: PlanStep) -> str:
        run = self._execution.run
        previous = run.code[self.position - 1].step if self.position else None
        return self._stops.before(step, previous)

    def _past(self, step: PlanStep, stops: _Stops) -> str:
        """Compute a step, going on from where it waits; why to stop inside its bodies, or behind it."""
        run = self._execution.run
        walk = run.walk
        walk.watch, self._inside = stops if stops.conditions else None, None
        self._execution.advance(1)
        walk.watch = None
        if walk.halted:
            self._inside = walk.place
            return f"in {step.node.title!r}, {walk.halted}"
        self._last = step
        return self._stops.after(self._execution.plan, step, run.slots)

    def _given(self) -> str:
        """Return why to stop before anything is computed: because of an input."""
        slots, plan = self._execution.run.slots, self._execution.plan
        for breakpoint_, watched in self._stops.of(plan):
            for slot in watched.intersection(plan.inputs):
                reason = "" if slots[slot] is MISSING else breakpoint_.holds(breakpoint_.value, slots[slot])
                if reason:
                    return f"before the first node: {plan.name(breakpoint_.value)!r} {reason}"
        return ""

    def __iter__(self) -> Iterator[Node]:
        while (following := self.next_node) is not None and self.step():
            yield following[1]

    def result(self) -> RunResult:
        """Everything computed so far; may be called again and again."""
        result = self._execution.finish()
        result.number = self._number
        result.state = self._request.snapshot.state
        result.fetch = self._recompute
        if not result.stopped and not self.done:
            result.stopped = f"stopped {self.reason}".rstrip()
        return result

    def _recompute(self, key: ValueKey, progress: Progress) -> RuntimeValue:
        options = replace(self._request.options, values=(key,), outputs=False, until=None, fresh=False)
        execution = self._engine.start(self._request.snapshot, self._request.feeds, options, progress=progress)
        execution.advance()
        progress.check()
        run, slot = execution.run, execution.plan.slots[key]
        if run.slots[slot] is MISSING and slot in execution.plan.constants:
            return self._engine.library.constant(execution.plan.constants[slot])
        if run.slots[slot] is MISSING:
            failure: Failure | None = run.dead.get(slot)
            msg = f"value {execution.plan.name(key[1])!r} was not computed: {failure or run.stopped or 'unknown'}"
            raise LookupError(msg)
        execution.finish()
        return run.slots[slot]


@dataclass(frozen=True, slots=True)
class _Stops:
    """The breakpoints of a run, in its graph and in bodies; and any node of bodies no deeper than `depth`."""

    conditions: Sequence[Condition]
    constant: Callable[[int], RuntimeValue]
    depth: int = 0
    _watched: dict[int, list[tuple[Condition, set[int]]]] = field(default_factory=dict)  # by id of a plan
    _kinds: dict[tuple[int, int], int] = field(default_factory=dict)  # what is not finite, by plan and slot

    def of(self, plan: Plan) -> list[tuple[Condition, set[int]]]:
        """Each breakpoint with the slots of its value in a plan."""
        found = self._watched.get(id(plan))
        if found is None:
            slots = plan.slots.items()
            found = [(c, {s for (_, v), s in slots if v == c.value}) for c in self.conditions]
            self._watched[id(plan)] = found
        return found

    def before(self, step: PlanStep, previous: PlanStep | None) -> str:
        """Return why to stop before a step that follows `previous`, or empty."""
        return f"before {step.node.title!r}" if any(c.before(step, previous) for c in self.conditions) else ""

    def after(self, plan: Plan, step: PlanStep, slots: Sequence[RuntimeValue]) -> str:
        """Return why to stop after a step, or empty."""
        found = (
            condition.after(plan, step, slots, watched)
            if condition.sought is None
            else self._begins(plan, step, slots, condition.sought)
            for condition, watched in self.of(plan)
        )
        return next(filter(None, found), "")

    def _begins(self, plan: Plan, step: PlanStep, slots: Sequence[RuntimeValue], sought: Sought) -> str:
        """Return whether something that is not finite begins at a step; bodies are checked inside."""
        given = gives = 0
        for slot in step.outs:
            kinds = kinds_of(slots[slot]) if slot and slots[slot] is not MISSING else 0
            self._kinds[id(plan), slot] = kinds
            gives |= kinds
        if not gives or step.bodies:
            return ""
        for slot in step.reads:
            if slots[slot] is not MISSING:
                given |= kinds_of(slots[slot])
            elif slot in plan.constants:
                given |= kinds_of(self.constant(plan.constants[slot]))
            else:  # let go since
                given |= self._kinds.get((id(plan), slot), 0)
        begins = beginning(step.node.op_type, given, gives, sought)
        what = "NaN" if begins & NAN else "an infinity"
        return f"after {step.node.title!r}: {what} begins" if begins else ""

    def between(self, plan: Plan, place: SubgraphPosition, slots: list[RuntimeValue]) -> str:
        """Return why to stop between two steps of a body, or empty."""
        previous, following, depth = place
        reason = "" if previous is None else self.after(plan, previous, slots)
        if reason or following is None:
            return reason
        return f"before {following.node.title!r}" if depth <= self.depth else self.before(following, previous)


@dataclass(frozen=True, slots=True)
class Condition:
    """A breakpoint in numbers, fit for another process."""

    node: int
    value: int
    condition: str
    limit: float
    declared: Mapping[int, Type | None]

    @property
    def sought(self) -> Sought | None:
        """Return the condition if it is about a beginning."""
        return "nan" if self.condition == "nan" else "beginnings" if self.condition == "beginnings" else None

    def before(self, step: PlanStep, previous: PlanStep | None) -> bool:
        """Return whether to stop before a step that follows `previous`: that of the node, or the first of its call."""
        if not self.node or step.node.node == self.node:
            return bool(self.node)
        call = _call(step, self.node)
        return bool(call) and (previous is None or _call(previous, self.node) != call)

    def after(self, plan: Plan, step: PlanStep, slots: Sequence[RuntimeValue], watched: Collection[int]) -> str:
        """Return why to stop after a step, or empty; `watched` are the slots of `value`."""
        if self.node:
            return ""
        for number, slot in zip(step.node.outputs, step.outs, strict=True):
            if not slot or slots[slot] is MISSING or (self.value and slot not in watched):
                continue
            reason = self.holds(self.value or number, slots[slot])
            if reason:
                return f"after {step.node.title!r}: {plan.name(number)!r} {reason}"
        return ""

    def holds(self, number: int, value: RuntimeValue) -> str:
        """Return how a value meets the condition; `number` is of the value that was declared."""
        if not self.condition:
            return "is there"
        if not isinstance(value, np.ndarray):
            return ""
        if self.condition == "shape":
            return shape_conflict(self.declared.get(number), value)
        if value.dtype.kind in "OUSb" or not value.size:
            return ""
        numbers = value if value.dtype.kind in "iufc" else value.astype(np.float32)
        if self.condition == "non-finite":
            return "" if numbers.dtype.kind in "iu" or np.isfinite(numbers).all() else "is not finite everywhere"
        if numbers.dtype.kind == "c":
            numbers = np.abs(numbers.astype(np.complex128))
        limit = self.limit
        if numbers.dtype.kind == "f" and np.isfinite(limit):
            # It is rounded to the type of the numbers, so that 0.1 is not above 0.1, but not to an infinity.
            limit = min(limit, float(np.finfo(numbers.dtype).max))
        above = ((numbers > limit) | (numbers < -limit)).any()  # not the largest: it may be NaN
        return f"has an element above {self.limit:g}" if above else ""


def _call(step: PlanStep, node: int) -> Path:
    """The call of a function by a node that a step is part of; empty when it is in none."""
    return step.path[: step.path.index(node) + 1] if node in step.path else ()


def compile_breakpoint(breakpoint_: Breakpoint, snapshots: SnapshotCache) -> Condition:
    """A breakpoint in numbers; the declared types are read now, on the thread that owns the model."""
    declared: dict[int, Type | None] = {}
    if breakpoint_.condition == "shape":
        declared = {snapshots.values[v]: v.type for graph in snapshots.model.graphs() for v in graph.values()}
    return Condition(
        snapshots.nodes[breakpoint_.node] if breakpoint_.node is not None else 0,
        snapshots.values[breakpoint_.value] if breakpoint_.value is not None else 0,
        breakpoint_.condition,
        breakpoint_.limit,
        declared,
    )


def shape_conflict(declared: Type | None, value: RuntimeValue) -> str:
    """Return how a tensor contradicts its declared type; empty if it does not."""
    if not isinstance(declared, TensorType) or not isinstance(value, np.ndarray):
        return ""
    found = describe(value)
    same = declared.element_type in (found.element_type, 0)
    if declared.shape is not None:
        dims = declared.shape.dims
        same = same and len(dims) == value.ndim
        same = same and all(d == n for d, n in zip(dims, value.shape, strict=False) if isinstance(d, int) and d >= 0)
    return "" if same else f"is {found}, declared {declared}"


def wanted_keys(snapshots: SnapshotCache, values: Wanted) -> tuple[ValueKey | str, ...] | None:
    """Return the content of `Options.values` for a request."""
    if isinstance(values, str):
        return None if values == "all" else () if values == "outputs" else (values,)
    return tuple(v if isinstance(v, str) else ((), snapshots.values[v]) for v in values)


def feeds_by_number(snapshots: SnapshotCache, feeds: Mapping[Any, Any]) -> Feeds:
    """Feeds by number of the value, each held against the declared type."""
    graph = snapshots.graph or snapshots.model.graph
    by_name = {v.name: v for v in (*graph.initializers, *graph.inputs)}
    given: Feeds = {}
    for key, content in feeds.items():
        value = key if isinstance(key, Value) else by_name.get(key)
        if value is None or (value not in graph.inputs and value.initializer is None):
            names = ", ".join(repr(v.name) for v in graph.inputs)
            raise ModelError("No such input", f"the graph has no input {key!r}; it has {names or 'none'}")
        declared = value.type
        if declared is None and value.initializer is not None:
            declared = TensorType(value.initializer.element_type)
        given[snapshots.values[value]] = normalise(content, declared, value.name)
    return given


def physical_memory() -> int:
    """Return the bytes of physical memory; 8 GB if unknown."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 8 << 30


def default_budget() -> int:
    """Return the default budget of a session's values in bytes: a quarter of the machine's memory, at most 8 GB."""
    return min(physical_memory() // 4, 8 << 30)


def default_memory_limit() -> int:
    """Return the default limit of a single value in bytes."""
    return physical_memory() // 2
