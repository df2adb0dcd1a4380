"""One run of a plan: the loop over its steps, its bodies, its limits and what goes wrong on the way.

The loop names no operator and does as little as it can for each: call, store, note the time. Everything else
(cancellation, limits, progress, memory) waits for a tick of the clock; failures switch to a careful loop.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onnx_workbench.exec.engine.input_types import kind_of
from onnx_workbench.exec.engine.lowering import Expansion
from onnx_workbench.exec.engine.operations import Library, Prepared
from onnx_workbench.exec.engine.plan import MISSING, NONE_SLOT, BodyPlan, Code, Plan, Step, refusal
from onnx_workbench.exec.engine.subgraph_breakpoints import BreakpointHit, SubgraphStepper
from onnx_workbench.exec.engine.subgraph_frames import Frame, SubgraphRecord, inside
from onnx_workbench.exec.errors import KernelError, LimitError
from onnx_workbench.exec.inspect.statistics import Summary, nbytes, summarise
from onnx_workbench.exec.kernels.allocation import SparseArray
from onnx_workbench.exec.kernels.context import Limits, RuntimeValue, set_limits
from onnx_workbench.exec.kernels.registry import KernelFunction
from onnx_workbench.exec.results.node_table import CODES, Failure, NodeTable, State
from onnx_workbench.exec.results.run_result import StepError, failure_of
from onnx_workbench.exec.results.slot_map import SlotKeys
from onnx_workbench.exec.results.values import distinct_bytes, refuse_large
from onnx_workbench.model.errors import ModelError, errors_to
from onnx_workbench.model.progress import SILENT, Cancelled

#: Constants computed at plan time may take so many bytes each; larger ones are computed in every run.
FOLD_LIMIT = 1 << 30

#: Seconds between two looks at limits and listeners.
TICK = 0.02


#: Elements numpy goes through at a time where an operand is converted or repeated along shorter rows than this: small
#: enough for the first-level cache. With its default of 8192, one value added to each row takes twice as long.
_BUFFER = 256

#: Seconds that so many steps are expected to take, and all of them.
Estimate = Callable[[int], tuple[float, float]]

Observer = Callable[[NodeTable], None]


class Executor:
    """The state of one run: what each slot holds, how far it is, what failed.

    `execute` may be called again and again; it goes on where it stopped. Use from one thread at a time.
    """

    def __init__(
        self,
        plan: Plan,
        library: Library,
        slots: list[RuntimeValue],
        *,
        limits: Limits,
        ceiling: int,
        observer: Observer | None = None,
    ) -> None:
        self.plan = plan
        self.library = library
        self.slots = slots
        self.limits = limits
        self._most = sys.maxsize if limits.max_bytes is None else limits.max_bytes  # bytes of a value
        self.ceiling = ceiling
        self.observer = observer
        self.code: list[Code] = []
        self.stamps: list[float] = []  # when each step of `code` was finished
        self.sizes: list[int] = []
        self.started: list[float] = [0.0]  # of each call of execute, by position
        self.failures: dict[int, Failure] = {}  # by step index
        self.skipped: dict[int, Failure] = {}
        self.dead: dict[int, Failure] = {}  # slots that will never have a value
        self.summaries: dict[int, Summary] = {}
        self.stopped = ""
        self.walk = SubgraphStepper()  # of the last call of execute
        self.held = self.peak = 0  # bytes
        self.keep: set[int] | None = None  # slots never let go; None: all, as long as the budget lasts
        self._frames: dict[int, Frame] = {}  # by id of the plan
        self._tick = 0.0
        self._told = 0
        self._telling = threading.Lock()
        self._gaps: dict[int, float] = {}  # position → when its step really began
        self._last_reads: dict[int, int] | None = None
        self._expected: Estimate | None = None

    # -- the loop --------------------------------------------------------------------------------------------

    def rewind(self, code: list[Code]) -> None:
        """Stand before the first step of other code; what the slots hold stays."""
        self.code, self.held, self._told = code, 0, 0
        self.stamps.clear()
        self.sizes.clear()
        self._gaps.clear()
        self.failures.clear()
        self.skipped.clear()

    def execute(self, count: int | None = None, expected: Estimate | None = None) -> None:
        """Run the steps of `code` that are left, or the next `count` of them; `stopped` says why it ended early.

        Of the last of `count` steps the observer hears with the next ones, or when someone calls `tell`.
        `expected(n)` gives the seconds the first n steps are expected to take, and all, for the progress.
        """
        self._expected = expected  # only meanwhile: it refers to who refers to this
        self.walk.begin()
        end = len(self.code) if count is None else min(len(self.code), len(self.stamps) + count)
        set_limits(self.limits)
        self._connect(self.plan, self.slots)
        begun = self._gaps[len(self.stamps)] = time.perf_counter() - self.walk.spent
        try:
            with np.errstate(all="ignore"):  # which gives back the buffer size too
                np.setbufsize(_BUFFER)
                if not self.dead and end == len(self.code):
                    self._fast()
                while len(self.stamps) < end and not (self.stopped or self.walk.halted):
                    self._careful(self.code[len(self.stamps)])
        finally:
            set_limits(None)
            self._disconnect(self.plan)
            self.walk.end(time.perf_counter() - begun)
            if count is None:
                self.tell()
            self._expected = None

    def _fast(self) -> None:
        slots, stamps, sizes = self.slots, self.stamps, self.sizes
        clock, array = time.perf_counter, np.ndarray
        held, tick, ceiling, most = self.held, self._tick, self.ceiling, self._most
        stamp, size_of = stamps.append, sizes.append
        with errors_to(self._failed):  # whatever a kernel raises is a result
            try:
                for call, get, single, out, free, step in self.code[len(stamps) :]:
                    result = call(get(slots)) if single else call(*get(slots))
                    if out and type(result) is array:
                        slots[out] = result
                        size = result.nbytes
                    else:
                        size = self._spread(step, result)
                    if size > most:
                        refuse_large(step, slots, most)
                    size_of(size)
                    held += size
                    if free:
                        if held > self.peak:
                            self.peak = held
                        held -= self._free(free)
                    now = clock()
                    stamp(now)
                    if now > tick or held > ceiling:
                        self.held = held
                        self._look(now)
                        held, tick = self.held, self._tick
            finally:
                self.held = held
            self.peak = max(self.peak, held)

    def _careful(self, code: Code) -> None:
        """One step, after something has failed or between two looks of a person."""
        step, slots = code.step, self.slots
        cause = next((self.dead[s] for s in step.reads if s in self.dead), None)
        if cause is not None:
            self._skip(step, cause)
            return
        with errors_to(self._failed):
            result = code.call(code.get(slots)) if code.single else code.call(*code.get(slots))
            size = self._spread(step, result)
            if size > self._most:
                refuse_large(step, slots, self._most)
            self.sizes.append(size)
            self.held += size
            self.peak = max(self.peak, self.held)
            self.held -= self._free(code.free)
            now = time.perf_counter()
            self.stamps.append(now)
            if now > self._tick or self.held > self.ceiling:
                self._look(now)

    def _failed(self, error: Exception) -> None:
        """A step raised, or a look at the clock between two steps did."""
        if isinstance(error, Cancelled):
            self.stopped = "cancelled"
            return
        if isinstance(error, BreakpointHit):
            return  # the walk knows where
        if isinstance(error, (LimitError, StepError)) and self._late():
            self.stopped = "time limit"
            return
        position = len(self.stamps)
        del self.sizes[position:]
        step = self.code[position].step
        failure = failure_of(self.plan, step, self.slots, error)
        self.failures[step.index] = failure
        self._kill(step, failure)
        self.sizes.append(0)
        self.stamps.append(time.perf_counter())

    def _skip(self, step: Step, cause: Failure) -> None:
        self.skipped[step.index] = cause
        self._kill(step, cause)
        self.sizes.append(0)
        self.stamps.append(time.perf_counter())

    def _kill(self, step: Step, cause: Failure) -> None:
        for slot in step.outs:
            if slot:
                self.dead[slot] = cause

    def _late(self) -> bool:
        deadline = self.limits.deadline
        return deadline is not None and time.monotonic() > deadline

    def _look(self, now: float) -> None:
        """Hold cancellation, clock and memory against their limits, and tell the listeners."""
        self._tick = now + TICK
        self.peak = max(self.peak, self.held)
        self.limits.progress.check()
        if self._late():
            msg = "the run reached its time limit"
            raise LimitError(msg)
        if self.held > self.ceiling:
            self._make_room()
        self.tell()

    def tell(self) -> None:
        """Tell the observer which nodes were finished since the last time, and the progress. Any thread."""
        done = len(self.stamps)
        with self._telling:
            begun, self._told = self._told, max(done, self._told)
        if self.observer is not None and done > begun:
            self.observer(self.finished(begun, done))
        expected = self._expected
        if expected is not None and not self.stopped and self.limits.progress is not SILENT:
            spent, total = expected(done)
            with suppress(Cancelled):  # heeded by the next look, or too late
                self.limits.progress.report(spent, total, f"{done} of {len(self.code)} nodes")

    def finished(self, begin: int, end: int) -> NodeTable:
        """What became of the steps of `code` from one position to another, all of which have been gone through."""
        steps = [code.step for code in self.code[begin:end]]
        keys = SlotKeys.of((step.node.node, step.path) for step in steps)
        table = NodeTable.blank(keys, State.DONE, lambda place: steps[place].row())
        table.states[[place for place, step in enumerate(steps) if step.folded]] = CODES[State.CONSTANT]
        table.seconds[:], table.nbytes[:] = self._times(begin, end), self.sizes[begin:end]
        for causes, state in (self.failures, State.FAILED), (self.skipped, State.SKIPPED):
            if causes:
                found = {place: causes[step.index] for place, step in enumerate(steps) if step.index in causes}
                table.fail(found, state)
        return table

    def _times(self, begin: int, end: int) -> NDArray[np.float64]:
        """How long each step took."""
        stamps = np.array(self.stamps[max(begin - 1, 0) : end], np.float64)
        if not begin:
            stamps = np.concatenate([stamps[:1], stamps])  # a clock stands in for what was before the first
        begun = stamps[:-1].copy()
        gaps = self._gaps
        for position in range(begin, end) if end - begin < len(gaps) else gaps.copy():  # of as many as steps at most
            if begin <= position < end and position in gaps:
                begun[position - begin] = gaps[position]
        return stamps[1:] - begun

    def seconds(self, position: int) -> float:
        """How long the step at a position of `code` took."""
        begun = self._gaps.get(position)
        if begun is None:
            begun = self.stamps[position - 1]
        return self.stamps[position] - begun

    # -- slots -----------------------------------------------------------------------------------------------

    def _spread(self, step: Step, result: Any) -> int:
        return spread(step, self.slots, result)

    def _free(self, free: Sequence[int]) -> int:
        slots, size = self.slots, 0
        for slot in free:
            size += nbytes(slots[slot])
            slots[slot] = MISSING
        return size

    def _make_room(self) -> None:
        """Past the budget: let go of values nobody reads any more, largest first, and keep a summary of each.

        Weights and inputs do not count, nor what is a view of them: letting go of values would not free them.
        """
        plan, slots = self.plan, self.slots
        self.held = distinct_bytes(slots) - distinct_bytes(slots[s] for s in plan.given.union(plan.inputs))
        if self.held <= self.ceiling:
            return
        last = self._last_reads
        if last is None:
            last = self._last_reads = {s: i for i, c in enumerate(self.code) for s in c.step.reads}
        position = len(self.stamps) - 1
        keep = self.keep or set()
        produced = {s for c in self.code[: position + 1] for s in c.step.outs if s}
        idle = [
            s for s in produced
            if last.get(s, -1) <= position and s not in keep and s not in self.plan.outputs
            and self.slots[s] is not MISSING
        ]  # fmt: skip
        idle.sort(key=lambda s: nbytes(self.slots[s]), reverse=True)
        target = self.ceiling * 7 // 8
        for slot in idle:
            if self.held <= target:
                return
            value = self.slots[slot]
            self.summaries[slot] = summarise(value)
            self.slots[slot] = MISSING
            self.held -= nbytes(value)
        # What is left is needed further on; look again only when as much was added once more.
        self.ceiling = max(self.ceiling, self.held * 5 // 4)

    # -- bodies ----------------------------------------------------------------------------------------------

    def _connect(self, plan: Plan, slots: list[RuntimeValue]) -> None:
        """Tell the bodies of a plan's steps which values are around them."""
        for finder in plan.finders:
            finder.plan, finder.live, finder.run = plan, slots, self._again
        for step in plan.bodied:
            for body in step.bodies:
                body.outer, body.runner = slots, self.body
                body.walk = self.walk if self.walk.watch is not None else None
            if isinstance(step.call, Expansion):
                step.call.runner = self.expansion

    def _again(self, step: Step, slots: list[RuntimeValue]) -> None:
        """Run a step on other slots than those of the run."""
        live = [body.outer for body in step.bodies]
        if step.context is not None:
            step.context.drawn = 0  # the same numbers once more
        for body in step.bodies:
            body.outer, body.runner = slots, self.body
            _rewind(body.plan)
        spread(step, slots, step.call(*[slots[s] for s in step.ins]))
        for body, outer in zip(step.bodies, live, strict=True):
            body.outer = outer

    def _disconnect(self, plan: Plan) -> None:
        for finder in plan.finders:
            finder.live = finder.run = None
        for step in plan.bodied:
            for body in step.bodies:
                body.outer, body.runner, body.walk = [], None, None
                self._disconnect(body.plan)
        _rewind(plan)

    def body(self, body: BodyPlan, inputs: Sequence[RuntimeValue]) -> list[RuntimeValue]:
        """Run a body once; raises StepError naming the step inside that failed."""
        plan = body.plan
        outer = body.outer
        if not plan.ready:
            for source, inner in body.captures:
                if inner in plan.tokens:
                    plan.template[inner] = outer[source]
                    plan.given.add(inner)
            self._ready(plan)
        slots = plan.template.copy()
        for source, inner in body.captures:
            slots[inner] = outer[source]
        for slot, value in zip(plan.inputs, inputs, strict=True):
            slots[slot] = value
        kinds = tuple([kind_of(slots[slot]) for slot in plan.looked_at])
        watch = self.walk.watch
        code = plan.code_for(kinds) if watch is None else self.walk.steps(plan, slots, watch)
        results = self._frame(plan, slots, code)
        plan.came_through(kinds)
        return results

    def expansion(self, plan: Plan, inputs: Sequence[RuntimeValue]) -> list[RuntimeValue]:
        """Run the function body of an operator that has no kernel."""
        if not plan.ready:
            self._ready(plan)
        slots = plan.template.copy()
        for slot, value in zip(plan.inputs, inputs, strict=False):
            slots[slot] = value
        return self._frame(plan, slots, plan.code)

    def _ready(self, plan: Plan) -> None:
        """Before the first run of an inner plan: constants in place, weights prepared, steps as the loop wants them."""
        bind(plan, self.library, plan.steps)
        slots = plan.template
        rest = []
        for step in plan.steps:
            if step.token and all(slots[s] is not MISSING for s in step.reads) and not step.bodies:
                try:
                    spread(step, slots, step.code().guarded().call(*(slots[s] for s in step.ins)))
                    step.folded = True
                    plan.given.update(step.outs)
                    continue
                except (Cancelled, LimitError):
                    raise
                except Exception:  # noqa: BLE001 - it fails again, and is told, if the body ever gets there
                    step.token = 0
            rest.append(step)
        prepare(plan, self.library, rest)
        plan.code = [step.code() for step in rest]
        plan.ready = True

    def _frame(self, plan: Plan, slots: list[RuntimeValue], code: Iterable[Code]) -> list[RuntimeValue]:
        if plan.bodied:
            self._connect(plan, slots)
        frame = self._frames.get(id(plan))
        if frame is None:
            frame = self._frames[id(plan)] = Frame(plan)
        frame.slots = slots
        clocks = frame.clocks()
        begun = len(clocks)
        clock, array, stamp, most = time.perf_counter, np.ndarray, clocks.append, self._most
        step: Step | None = None
        stamp(clock())
        try:
            for call, get, single, out, _, step in code:
                result = call(get(slots)) if single else call(*get(slots))
                if out and type(result) is array:
                    slots[out] = result
                    size = result.nbytes
                else:
                    size = spread(step, slots, result)
                if size > most:
                    refuse_large(step, slots, most)
                stamp(clock())
            if self.walk.places < self.walk.passed:  # an earlier call of the step has counted this turn
                del clocks[begun:]
            limits = self.limits
            if limits.deadline is not None or limits.progress.cancelled:
                self._check()
        except (Cancelled, StepError, BreakpointHit):
            del clocks[begun:]
            raise
        except Exception as error:
            del clocks[begun:]
            if step is None or (isinstance(error, LimitError) and self._late()):
                raise
            raise StepError(failure_of(plan, step, slots, error)) from error
        results = [slots[s] for s in plan.outputs]
        if any(r is MISSING for r in results):
            names = [n for n, r in zip(plan.output_names(), results, strict=True) if r is MISSING]
            msg = f"nothing in the body defines its output {', '.join(names)}; expected a node that does"
            raise KernelError(msg)
        return results

    def _check(self) -> None:
        self.limits.progress.check()
        if self._late():
            msg = "the run reached its time limit"
            raise LimitError(msg)

    def inside(self, steps: Iterable[Step]) -> SubgraphRecord:
        """What this run has computed in the bodies of steps; it may go on meanwhile."""
        return inside(steps, self._frames.copy())


def _rewind(plan: Plan) -> None:
    """Let random operators begin anew, those in bodies too."""
    for finder in plan.finders:
        if finder.context is not None:
            finder.context.drawn = 0
    for step in plan.bodied:
        inner = step.call.plans.values() if isinstance(step.call, Expansion) else [b.plan for b in step.bodies]
        for body in inner:
            _rewind(body)


def spread(step: Step, slots: list[RuntimeValue], result: Any) -> int:
    """Put what a kernel gave into the slots of its outputs; the bytes of it. Numpy scalars become arrays."""
    outs = step.outs
    if not isinstance(result, tuple):
        result = (result,)
    size = 0
    for position, slot in enumerate(outs):
        if slot == NONE_SLOT:
            continue
        if position >= len(result):
            msg = f"the node names {len(outs)} outputs; expected {len(result)} at the most"
            raise KernelError(msg)
        value = result[position]
        if isinstance(value, np.generic):
            value = np.asarray(value)
        slots[slot] = value
        size += value.nbytes if type(value) is np.ndarray else nbytes(value)
    return size


def bind(plan: Plan, library: Library, steps: Iterable[Step]) -> list[int]:
    """Bring the constants that steps read into the plan's template; the slots that are new there.

    Initializers that the file keeps as sparse tensors are tensors like any other to the nodes that read them. A step
    whose constant cannot be read will fail in all runs of this plan. Constants that were read before are brought too:
    those who read them may be kept, and what is inside a called function has no other value to show.
    """
    new = []
    template, given, constants = plan.template, plan.given, plan.constants
    for slot, number in constants.items():
        if slot not in given and isinstance(known := library.constant_read(number), np.ndarray):
            template[slot] = known
            given.add(slot)
            new.append(slot)
    for step in steps:
        for slot in step.reads:
            if slot in constants and slot not in given:
                try:
                    value = library.constant(constants[slot])
                    template[slot] = value.dense() if isinstance(value, SparseArray) else value
                    given.add(slot)
                    new.append(slot)
                except (ModelError, ValueError, LookupError, OSError, LimitError) as error:
                    step.call = refusal(str(error), LimitError if isinstance(error, LimitError) else KernelError)
                    step.token, step.bound = 0, True
                    library.refused = True
    return new


def prepare(plan: Plan, library: Library, steps: Iterable[Step]) -> None:
    """Let kernels pack or cast the constants that steps read, once for equal operations and constants."""
    given, tokens, template = plan.given, plan.tokens, plan.template
    for step in steps:
        kernel = step.operation.kernel
        if step.bound or kernel is None or step.operation.problem:
            continue
        step.bound = True
        # A prepared function gets no context, so it may only stand for a node that wants the first output alone.
        if kernel.prepare is None or step.bodies or (kernel.takes_context and len(step.outs) > 1):
            continue
        constant = [s != NONE_SLOT and s in given for s in step.ins]
        if not any(constant):
            continue
        key = (
            step.operation.number,
            tuple(tokens[s] if known else -bool(s) for s, known in zip(step.ins, constant, strict=True)),
        )
        if key not in library.prepared:
            values = [template[s] if known else None for s, known in zip(step.ins, constant, strict=True)]
            call = _prepared(kernel.prepare, values, step)
            library.prepared[key] = Prepared(call, sum(map(nbytes, values)) if call is not None else 0)
            library.weight_bytes += library.prepared[key].nbytes
        step.call = library.prepared[key].call or step.call


def _prepared(hook: Callable[..., KernelFunction | None], values: list[Any], step: Step) -> KernelFunction | None:
    try:
        with np.errstate(all="ignore"):
            return hook(values, **step.operation.attributes)
    except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, MemoryError):
        return None  # the plain kernel meets the same trouble and says so for the node
