"""Bodies of nodes in a run: the values of their last iteration, the time of their nodes, and stops inside them.

Values of another iteration than the last come from running the node again up to it: see `in_iterations`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import numpy as np

from onnx_workbench.exec.engine.plan import Code, Plan, PlanStep
from onnx_workbench.exec.results.node_table import NO_NODES, Failure, NodeResult, NodeTable, State
from onnx_workbench.exec.results.slot_map import LoopKey, Path
from onnx_workbench.exec.results.values import MISSING
from onnx_workbench.exec.values.arrays import RuntimeValue
from onnx_workbench.exec.values.statistics import nbytes
from onnx_workbench.model.errors import errors_to
from onnx_workbench.model.progress import Cancelled

if TYPE_CHECKING:
    from onnx_workbench.exec.engine.engine import Engine
    from onnx_workbench.exec.engine.request import Request
    from onnx_workbench.exec.results.run_result import RunResult
    from onnx_workbench.model.progress import Progress

T = TypeVar("T")

#: Number of clock values after which those of single iterations are summed up.
_MANY = 1 << 14


# -- values and times ----------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class ExecutorPass:
    """Progress of the executor through a graph, or through one iteration of a body."""

    slots: list[RuntimeValue]
    stamps: list[float]  # clock at the end of each step
    sizes: list[int]  # bytes of the outputs of each step
    dead: dict[int, Failure]  # slots that will never have a value
    ceiling: int  # limit for `held`; beyond it values are released
    held: int = 0  # bytes of values
    peak: int = 0  # of `held`
    checks_types: bool = False  # of the inputs of each step


class Frame:
    """The iterations of one body in one run.

    Every iteration appends to the list of clocks its begin and the end of each of its nodes; another thread may read
    the list meanwhile.
    """

    __slots__ = ("_sums", "begun", "code", "current", "plan")

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.code = plan.code or []
        self.begun = 0  # iterations
        self.current = ExecutorPass([], [], [], {}, sys.maxsize)  # the last iteration
        #: Seconds per node, number of summed iterations, and clocks of the iterations since. Replaced, never changed.
        self._sums: tuple[np.ndarray[tuple[int], np.dtype[np.float64]], int, list[float]]
        self._sums = np.zeros(len(self.code)), 0, []

    def begin(self, slots: list[RuntimeValue]) -> list[float]:
        """Begin an iteration; return the list to which it appends its times. Must be fast for long loops."""
        clocks = self._sums[2]
        if len(clocks) >= _MANY:
            seconds, runs = self.spent()
            clocks = []
            self._sums = seconds, runs, clocks
        self.begun += 1
        current = self.current
        current.slots, current.stamps, current.held = slots, clocks, 0
        current.sizes.clear()
        return clocks

    def spent(self) -> tuple[np.ndarray[tuple[int], np.dtype[np.float64]], int]:
        """Return the seconds of each node over all finished iterations, and the number of these."""
        seconds, runs, clocks = self._sums
        size = len(seconds) + 1
        whole = len(clocks) // size
        if not whole:
            return seconds, runs
        times = np.array(clocks[: whole * size]).reshape(whole, size)
        return seconds + (times[:, 1:] - times[:, :-1]).sum(0), runs + whole


@dataclass(frozen=True, slots=True)
class SubgraphRecord:
    """Values computed in bodies in their last iteration, by path and number, and their nodes.

    `frames` are the bodies, each with the numbers of the nodes around it and whether this run computed it. `made` are
    the values that are not constants, which take memory. `iterations`: number of iterations of each loop in its last
    execution.
    """

    values: dict[Path, dict[int, RuntimeValue]] = field(default_factory=dict)
    frames: list[tuple[Frame, Path, State]] = field(default_factory=list)
    made: list[RuntimeValue] = field(default_factory=list)
    iterations: dict[LoopKey, int] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """Bytes of the values in `made`."""
        return sum(map(nbytes, self.made))

    def record(self, plan: Plan, slots: Sequence[RuntimeValue]) -> None:
        """Add the values of one iteration of a body."""
        for path, places in plan.recorded.items():
            computed = {value: slots[slot] for value, slot in places.items() if slots[slot] is not MISSING}
            self.values.setdefault(path, {}).update(computed)
        self.made.extend([slots[slot] for slot in (*plan.producers, *plan.inputs) if slots[slot] is not MISSING])

    def add(self, other: SubgraphRecord) -> None:
        """Add the values of other bodies."""
        for path, values in other.values.items():
            self.values.setdefault(path, {}).update(values)
        self.frames.extend(other.frames)
        self.made.extend(other.made)
        self.iterations.update(other.iterations)

    def kept(self) -> SubgraphRecord:
        """Return a copy for a later run that reuses the values."""
        frames = [(frame, within, State.KEPT) for frame, within, _ in self.frames]
        return SubgraphRecord(self.values, frames, self.made, self.iterations)

    def nodes(self) -> NodeTable:
        """Return the nodes of the bodies, once the run is over; in the order of the file, after that of their owner."""
        return NodeTable.of(node for frame in self.frames for node in _results(*frame)) if self.frames else NO_NODES


def inside(steps: Iterable[PlanStep], frames: Mapping[int, Frame], loops: Mapping[int, int]) -> SubgraphRecord:
    """Return the values computed in the bodies of steps, at any depth.

    Nodes are in file order, those of a body after its owner. `loops`: by id of the plan of a body, the number of
    iterations that had begun before the last loop over it.
    """
    record = SubgraphRecord()
    pending: list[tuple[PlanStep, Path]] = [(step, ()) for step in steps]
    pending.reverse()
    while pending:
        step, around = pending.pop()
        within: Path = (*around, step.node.node)
        deeper: list[tuple[PlanStep, Path]] = []
        for body in step.bodies:
            frame = frames.get(id(body.plan))
            if frame is not None:
                record.frames.append((frame, within, State.DONE))
                record.record(frame.plan, frame.current.slots)
                if id(body.plan) in loops:
                    record.iterations[step.path, step.node.node] = frame.begun - loops[id(body.plan)]
                deeper += [(body.plan.steps[index], within) for index in body.plan.bodied]
        pending += reversed(deeper)
    return record


def _results(frame: Frame, inside: Path, state: State) -> Iterator[NodeResult]:
    seconds, runs = frame.spent()
    if not runs:
        return
    slots = frame.current.slots
    for spent, code in zip(seconds.tolist(), frame.code, strict=True):
        step = code.step
        size = sum(nbytes(slots[s]) for s in step.outs if s and slots[s] is not MISSING)
        yield NodeResult(
            step.node.node, step.path, step.node.operator, step.node.title, state, spent, size,
            runs=runs, inside=inside,
        )  # fmt: skip


# -- stops inside bodies -------------------------------------------------------------------------------------------


class SubgraphPosition(NamedTuple):
    """A position between two steps of an iteration of a body; None: its beginning or end. `depth`: nesting of bodies.

    `iterations` are the indices of the iterations of the enclosing loops, outermost first, and `loops` the plans of
    their bodies.
    """

    previous: PlanStep | None
    following: PlanStep | None
    depth: int
    iterations: tuple[int, ...] = ()
    loops: tuple[Plan, ...] = ()


class SubgraphObserver(Protocol):
    """Decides where to stop inside bodies."""

    def between(self, plan: Plan, place: SubgraphPosition, slots: list[RuntimeValue]) -> str:
        """Return the reason to stop at a position in a body; empty to go on."""


class BreakpointHit(Exception):
    """Raised to stop inside a body; the node that owns the body does not count as computed."""


@dataclass(slots=True)
class SubgraphStepper:
    """Position of a run in the bodies of the next step.

    The next call computes an interrupted step from its beginning, but its loops from the iteration they were in;
    `watch` is not called again for positions that an earlier call has passed.
    """

    watch: SubgraphObserver | None = None  # called at each position; None: no stops in bodies
    passed: int = 0  # positions that earlier calls have passed
    count: int = 0  # positions reached by this call; entering a loop counts as one
    halted: str = ""  # why `watch` stopped this call
    position: SubgraphPosition | None = None  # the position of that stop
    spent: float = 0.0  # seconds of earlier calls whose work is not repeated
    resumed: int = 0  # finished iterations of the loop entered last, from an earlier call
    _depth: int = 0
    _turns: list[int] = field(default_factory=list)  # `count` at the start of the iteration of each enclosing body
    _begun: dict[int, int] = field(default_factory=dict)  # begun iterations of the enclosing loops, by depth
    _bodies: dict[int, Plan] = field(default_factory=dict)  # plans of the enclosing loops' bodies, by depth
    #: Interrupted loops, by `count` on entry: loop state, `count` at the iteration, and finished iterations.
    _loops: dict[int, tuple[Any, int, int]] = field(default_factory=dict)

    def begin(self) -> None:
        """Reset for the next call."""
        self.halted, self.position, self.count, self._depth, self.resumed = "", None, 0, 0, 0
        self._begun.clear()
        self._bodies.clear()

    def end(self, seconds: float) -> None:
        """End the call. `seconds`: since the first call, or since the last one after which no loop state was kept."""
        if not self.halted:
            self._loops.clear()
        self.spent = seconds if self._loops else 0.0
        self.passed = self.count if self.halted else 0

    def steps(self, plan: Plan, slots: list[RuntimeValue], watch: SubgraphObserver) -> Iterator[Code]:
        """Yield the steps of a body that are not constant; call `watch` before, between and after them."""
        self._turns[self._depth :] = [self.count]
        if self._depth in self._begun:
            self._begun[self._depth] += 1
        iterations = tuple(number - 1 for _, number in sorted(self._begun.items()))
        loops = tuple(loop for _, loop in sorted(self._bodies.items()))
        self._depth += 1
        previous = None
        for step in plan.steps:
            self._check_stop(plan, SubgraphPosition(previous, step, self._depth, iterations, loops), slots, watch)
            if not plan.folded[step.index]:
                yield plan.code_of(step)
            previous = step
        self._check_stop(plan, SubgraphPosition(previous, None, self._depth, iterations, loops), slots, watch)
        self._depth -= 1

    @contextmanager
    def loop(self, body: Plan, state: T) -> Iterator[T]:
        """Provide the state for a loop over a body: `state`, or that of the iteration in which an earlier call stopped.

        The kernel may change it between iterations only.
        """
        self.count += 1  # counts as a position: a kernel may loop several times, also without an iteration
        before, depth = self.count, self._depth
        self._begun[depth], self._bodies[depth] = 0, body
        if before in self._loops:
            state, self.count, self._begun[depth] = self._loops.pop(before)
        self.resumed = self._begun[depth]
        try:
            yield state
        except BreakpointHit:
            if not body.has_drawn:  # else its generators, reset by the next call, would repeat random numbers
                self._loops[before] = state, self._turns[depth], self._begun[depth] - 1
            raise
        finally:
            del self._begun[depth], self._bodies[depth]

    def _check_stop(self, plan: Plan, at: SubgraphPosition, slots: list[RuntimeValue], watch: SubgraphObserver) -> None:
        self.count += 1
        reason = watch.between(plan, at, slots) if self.count > self.passed else ""
        if reason:
            self.position, self.halted = at, reason
            raise BreakpointHit(reason)


# -- other iterations than the last --------------------------------------------------------------------------------


def in_iterations(
    engine: Engine, request: Request, plan: Plan, result: RunResult, chosen: Mapping[LoopKey, int], progress: Progress
) -> RunResult:
    """See RunResult.in_iterations. `request` and `plan` are those of the run with this result."""
    bodies: dict[Path, dict[int, RuntimeValue]] = {path: dict(values) for path, values in result.bodies.items()}
    iterations = dict(result.iterations)
    for step in map(plan.steps.__getitem__, plan.bodied):
        if not any(key in chosen for key, _ in _plans(step)):
            continue
        recorder = _recorded(engine, request, plan, result, step, chosen, progress)
        for key, inner in _plans(step):
            iterations.pop(key, None)
            for path, value in inner.slots:
                bodies.get(path, {}).pop(value, None)
        for path, values in recorder.record.values.items():
            bodies.setdefault(path, {}).update(values)
        iterations.update(recorder.record.iterations)
        whole = step.path, step.node.node
        if whole in result.iterations:  # this run stopped early, the original did not
            iterations[whole] = result.iterations[whole]
    return result.with_bodies(bodies, {}, iterations)


def _recorded(
    engine: Engine,
    request: Request,
    plan: Plan,
    result: RunResult,
    step: PlanStep,
    chosen: Mapping[LoopKey, int],
    progress: Progress,
) -> _Recorder:
    """Run a step again on the same inputs; return the recorded values."""
    reads = set(step.reads)
    known = {key: result.value(key, progress=progress) for key, slot in plan.slots.items() if slot in reads}
    options = replace(request.options, values=(), outputs=False, until=None, fresh=False)
    run = engine.start(replace(request, options=options, breakpoints=()), progress=progress).run
    again = run.plan.step_of(step.node.node, step.path)
    if again is None:
        msg = f"{step.node.title!r} was not planned: {run.stopped or 'it is no longer in the graph'}"
        raise LookupError(msg)
    slots = run.slots.copy()
    for key, value in known.items():
        slots[run.plan.slots[key]] = value
    recorder = _Recorder(again, chosen)
    with errors_to(recorder.fail):
        run.run_watched(again, slots, recorder)
    return recorder


class _Recorder:
    """Observer that records the values in the bodies of a step in the chosen iterations, else in the last ones."""

    def __init__(self, step: PlanStep, chosen: Mapping[LoopKey, int]) -> None:
        self._plans = {id(plan): (key, plan) for key, plan in _plans(step)}
        self._chosen = {number: chosen[key] for number, (key, _) in self._plans.items() if key in chosen}
        self._awaited = set(self._chosen)
        self._slots: dict[int, list[RuntimeValue]] = {}
        self._counts: dict[int, int] = {}

    def between(self, plan: Plan, place: SubgraphPosition, slots: list[RuntimeValue]) -> str:
        """Record the values at the end of an iteration; return a reason to stop once all requested are recorded."""
        previous, following, _, iterations, loops = place
        if previous is not None and following is not None:
            return ""
        around = zip(map(id, loops), iterations, strict=True)
        past = [number for number, iteration in around if iteration > self._chosen.get(number, iteration)]
        if not past and previous is None:
            self._forget_inside(plan)
        if following is not None or past[1:] or (past and past != [id(plan)]):
            return ""
        if loops and loops[-1] is plan:
            self._counts[id(plan)] = iterations[-1] + 1
        if past:
            return ""
        self._slots[id(plan)] = slots
        if len(loops) == 1 and loops[0] is plan and self._chosen.get(id(plan)) == iterations[0]:
            self._awaited.difference_update(number for number in (id(plan), *self._inside(plan)))
        return "" if self._awaited else "the requested iterations are computed"

    def _inside(self, plan: Plan) -> Iterator[int]:
        return (id(inner) for index in plan.bodied for _, inner in _plans(plan.steps[index]))

    def _forget_inside(self, plan: Plan) -> None:
        """Drop the values of inner bodies when another iteration begins: they belong to the previous one."""
        for number in self._inside(plan):
            self._slots.pop(number, None)
            self._counts.pop(number, None)

    def fail(self, error: Exception) -> None:
        """Ignore the failure of a step, as in the run, if all requested values were recorded; else LookupError."""
        if isinstance(error, Cancelled):
            raise error
        if self._awaited:
            msg = f"the iteration was not finished: {error}"
            raise LookupError(msg) from error

    @property
    def record(self) -> SubgraphRecord:
        """The recorded values and the number of iterations of each loop."""
        found = SubgraphRecord()
        for number, slots in self._slots.items():
            found.record(self._plans[number][1], slots)
        found.iterations.update({self._plans[number][0]: count for number, count in self._counts.items()})
        return found


def _plans(step: PlanStep) -> Iterator[tuple[LoopKey, Plan]]:
    """Yield the plans of the bodies of a step at any depth, each with the key of its node."""
    for body in step.bodies:
        yield (step.path, step.node.node), body.plan
        for index in body.plan.bodied:
            yield from _plans(body.plan.steps[index])
