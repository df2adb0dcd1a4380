"""One run of a plan: the loop over its steps and those of its bodies, limits and failures.

The loop knows no operators and does little per step: call the kernel, store the result, record the time. Everything
else (cancellation, limits, progress, memory) is done every TICK seconds.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from onnx_workbench.exec.engine.bodies import (
    BreakpointHit,
    ExecutorPass,
    Frame,
    SubgraphObserver,
    SubgraphRecord,
    SubgraphStepper,
    inside,
)
from onnx_workbench.exec.engine.input_types import check_types, expected_inputs, kind_of, signature_misfit, unforeseen
from onnx_workbench.exec.engine.plan import BodyCall, Code, Plan, PlanStep
from onnx_workbench.exec.engine.stored_weights import StoredWeight
from onnx_workbench.exec.errors import KernelError, LimitError, MemoryLimitError, MissingKernelError
from onnx_workbench.exec.results.columns import Keys
from onnx_workbench.exec.results.node_table import CODES, Failure, NodeTable, State
from onnx_workbench.exec.results.slot_map import NONE_SLOT
from onnx_workbench.exec.results.values import MISSING, distinct_bytes
from onnx_workbench.exec.values.arrays import RuntimeValue
from onnx_workbench.exec.values.limits import Limits, checkpoint, set_limits
from onnx_workbench.exec.values.numpy_errors import with_lists
from onnx_workbench.exec.values.statistics import Summary, describe, nbytes, summarise
from onnx_workbench.model.errors import ModelError, errors_to
from onnx_workbench.model.progress import SILENT, Cancelled

#: Limit for the bytes of each constant computed at plan time; larger ones are computed in every run.
FOLD_LIMIT = 1 << 30

#: Seconds between two checks of limits and reports to the observer.
TICK = 0.02


#: Buffer size of numpy, in elements, for operands that are converted or broadcast along short rows: fits the
#: first-level cache. With the default of 8192, adding a value to each row takes twice as long.
_BUFFER = 256

#: Items of a sequence whose types an error names.
_NAMED_ITEMS = 3


Observer = Callable[[NodeTable], None]

T = TypeVar("T")


class StepError(Exception):
    """A step inside a body failed."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure))
        self.failure = failure


#: Exceptions whose messages say what was found and expected.
_MEANT = (KernelError, MissingKernelError, MemoryError, ModelError, StepError)


class Executor:
    """State of one run: contents of the slots, position, failures.

    `execute` may be called repeatedly; it continues where it stopped. Use from one thread at a time.
    """

    def __init__(
        self,
        plan: Plan,
        slots: list[RuntimeValue],
        *,
        limits: Limits,
        ceiling: int,
        observer: Observer | None = None,
    ) -> None:
        self.plan = plan
        self.slots = slots
        self.limits = limits
        self._most = sys.maxsize if limits.max_bytes is None else limits.max_bytes  # bytes of a value
        self.observer = observer
        self.code: list[Code] = []
        self.total = 0  # number of steps, until `code` has them all
        self.failures: dict[int, Failure] = {}  # by step index
        self.skipped: dict[int, Failure] = {}
        self.dead: dict[int, Failure] = {}  # slots that will never have a value
        self.main = ExecutorPass(slots, [], [], self.dead, ceiling, checks_types=True)
        self.stamps, self.sizes = self.main.stamps, self.main.sizes  # of the steps of `code` that were finished
        self.summaries: dict[int, Summary] = {}
        self.stopped = ""
        self.subgraphs = SubgraphStepper()  # of the last call of execute
        self.keep: set[int] | None = None  # slots never released; None: all, as long as the budget lasts
        self.common = 0  # inputs of the graph that every step of `code` depends on, as far as is known
        self._frames: dict[int, Frame] = {}  # by id of the plan
        self._loops: dict[int, int] = {}  # iterations that had begun before the last loop, by id of the plan
        self._tick = time.perf_counter() + TICK
        self._notified = 0
        self._notifying = threading.Lock()
        self._retried = -1  # position of the last step for which values were released
        self._gaps: dict[int, float] = {}  # position → when its step really began
        self._last_reads: dict[int, int] | None = None

    # -- the loop --------------------------------------------------------------------------------------------

    def rewind(self, code: list[Code]) -> None:
        """Restart before the first step of other code; the slots keep their values."""
        self.code, self.main.held, self._notified = code, 0, 0
        self.stamps.clear()
        self.sizes.clear()
        self._gaps.clear()
        self.failures.clear()
        self.skipped.clear()

    def execute(self, count: int | None = None) -> None:
        """Run the remaining steps of `code`, or the next `count` of them; `stopped` says why it ended early.

        The last of `count` steps are reported to the observer together with the next ones, or by a call of `notify`.
        """
        if self.plan.bodied:
            self.subgraphs.begin()
        end = len(self.code) if count is None else min(len(self.code), len(self.stamps) + count)
        set_limits(self.limits)
        self._activate(self.plan, self.slots)
        begun = self._gaps[len(self.stamps)] = time.perf_counter() - self.subgraphs.spent
        try:
            with np.errstate(all="ignore"):  # also restores the buffer size
                np.setbufsize(_BUFFER)
                remaining = iter(self.code[len(self.stamps) : end])
                while len(self.stamps) < end and not (self.stopped or self.subgraphs.halted):
                    with errors_to(self._failed):  # any exception of a kernel is a failure of its step
                        self._loop(remaining, self.main)
                    if self._retried == len(self.stamps):  # memory was released: try the step again
                        remaining = iter(self.code[len(self.stamps) : end])
        finally:
            set_limits(None)
            self.plan.release()
            if self.plan.bodied:
                self.subgraphs.end(time.perf_counter() - begun)
            if count is None:
                self.notify()

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to compute."""
        return bool(self.stopped) or len(self.stamps) == len(self.code)

    def _loop(self, code: Iterator[Code], current: ExecutorPass) -> None:
        """Compute steps of the graph, or of one iteration of a body. Raises the exceptions of kernels."""
        slots, dead, ceiling, most = current.slots, current.dead, current.ceiling, self._most
        stamp, size_of, held, tick = current.stamps.append, current.sizes.append, current.held, self._tick
        clock, array, limits = time.perf_counter, np.ndarray, self.limits
        around = limits.held - held  # bytes held outside this body
        checks = current.checks_types
        try:
            for call, get, single, out, free, step in code:
                if dead and self._skips(step):
                    continue
                if checks:
                    check_inputs(step, slots)
                result = call(get(slots)) if single else call(*get(slots))
                if out and type(result) is array:
                    slots[out] = result
                    size = result.nbytes
                else:
                    size = spread(step, slots, result)
                if size > most:
                    refuse_large(step, slots, most)
                size_of(size)
                held += size
                if free:
                    current.peak = max(current.peak, held)
                    held -= self._free(free)
                limits.held = around + held
                now = clock()
                stamp(now)
                if now > tick or held > ceiling:
                    current.held = held
                    self._check_limits(now, current)
                    held, tick, ceiling = current.held, self._tick, current.ceiling
        finally:
            current.held = held
            current.peak = max(current.peak, held)

    def _skips(self, step: PlanStep) -> bool:
        """Skip a step if it reads a value that could not be computed; return whether it was skipped."""
        cause = next((self.dead[s] for s in step.reads if s in self.dead), None)
        if cause is None:
            return False
        self.skipped[step.index] = cause
        self._mark_dead(step, cause)
        self.sizes.append(0)
        self.stamps.append(time.perf_counter())
        return True

    def _failed(self, error: Exception) -> None:
        """Handle an exception of a step, or of the check of limits between two steps."""
        if isinstance(error, Cancelled):
            self.stopped = "cancelled"
            return
        if isinstance(error, BreakpointHit):
            return  # the subgraph stepper has the position
        if isinstance(error, (LimitError, StepError)) and self._is_past_deadline():
            self.stopped = "time limit"
            return
        if self._released_memory_for(error):
            return
        position = len(self.stamps)
        del self.sizes[position:]
        step = self.code[position].step
        failure = failure_of(self.plan, step, self.slots, error)
        self.failures[step.index] = failure
        self._mark_dead(step, failure)
        self.sizes.append(0)
        self.stamps.append(time.perf_counter())

    def _mark_dead(self, step: PlanStep, cause: Failure) -> None:
        for slot in step.outs:
            if slot:
                self.dead[slot] = cause

    def _is_past_deadline(self) -> bool:
        deadline = self.limits.deadline
        return deadline is not None and time.monotonic() > deadline

    def _check_limits(self, now: float, current: ExecutorPass) -> None:
        """Raise Cancelled or LimitError if a limit is exceeded, release memory, notify the observer."""
        self._tick = now + TICK
        checkpoint()
        if self.main.held > self.main.ceiling:
            self._release_values(self.main.ceiling * 7 // 8)
        if self.limits.left < 0:
            self._refuse_result(current)
        self.notify()

    def _refuse_result(self, current: ExecutorPass) -> None:
        """Release the last result, with which the run exceeds its memory limit, and record the failure.

        Kernels check large results before they compute them; this catches results about as large as an input.
        """
        limits, size = self.limits, current.sizes[-1]
        limits.held -= size
        current.held -= size
        try:
            limits.require(size, "its result")
        except MemoryLimitError as error:
            if current is not self.main:
                raise
            step = self.code[len(self.stamps) - 1].step
            failure = self.failures[step.index] = failure_of(self.plan, step, self.slots, error)
            self._mark_dead(step, failure)
            for slot in filter(None, step.outs):
                self.slots[slot] = MISSING
            self.sizes[-1] = 0
        else:
            limits.held += size
            current.held += size

    def _released_memory_for(self, error: Exception) -> bool:
        """Release values for a step that had too little memory; return whether to try it again."""
        position, limits = len(self.stamps), self.limits
        is_direct = isinstance(error, MemoryLimitError)
        is_inside = isinstance(error, StepError) and error.failure.kind == MemoryLimitError.__name__
        if self._retried == position or not (is_direct or is_inside):
            return False
        needed = error.needed if isinstance(error, MemoryLimitError) else limits.memory
        before = limits.held
        self._release_values(max(0, limits.memory - limits.fixed - needed))
        if self.main.held >= before:
            return False
        self._retried = position
        if (context := self.plan.contexts.get(self.code[position].step.index)) is not None:
            context.drawn = 0  # the retry draws the same random numbers
        return True

    def notify(self) -> None:
        """Report the nodes finished since the last call, and the progress, to the observer. Any thread."""
        done = len(self.stamps)
        with self._notifying:
            begun, self._notified = self._notified, max(done, self._notified)
        if self.observer is not None and done > begun:
            self.observer(self.finished(begun, done))
        if not self.stopped and self.limits.progress is not SILENT:
            total = max(self.total, len(self.code))
            with suppress(Cancelled):  # the next check raises it again
                self.limits.progress.report(done, total, f"{done} of {total} nodes")

    def finished(self, begin: int, end: int) -> NodeTable:
        """Return the outcomes of the steps of `code` in a range of positions, all of which have been processed."""
        steps = [code.step for code in self.code[begin:end]]
        keys = Keys.of((step.node.node, step.path) for step in steps)
        table = NodeTable.blank(keys, State.DONE, lambda row: steps[row].label)
        table.states[[index for index, step in enumerate(steps) if self.plan.folded[step.index]]] = CODES[
            State.CONSTANT
        ]
        table.seconds[:], table.nbytes[:] = self.times(begin, end), self.sizes[begin:end]
        for causes, state in (self.failures, State.FAILED), (self.skipped, State.SKIPPED):
            if causes:
                by_row = {index: causes[step.index] for index, step in enumerate(steps) if step.index in causes}
                table.fail(by_row, state)
        return table

    def times(self, begin: int, end: int) -> NDArray[np.float64]:
        """Return the seconds that each of the steps in a range of positions took."""
        stamps = np.array(self.stamps[max(begin - 1, 0) : end], np.float64)
        if not begin:
            stamps = np.concatenate([stamps[:1], stamps])  # the first step has no predecessor: its start is in `_gaps`
        begun = stamps[:-1].copy()
        gaps = self._gaps
        for position in range(begin, end) if end - begin < len(gaps) else gaps.copy():  # iterate over the shorter one
            if begin <= position < end and position in gaps:
                begun[position - begin] = gaps[position]
        return stamps[1:] - begun

    # -- slots -----------------------------------------------------------------------------------------------

    def _free(self, free: Sequence[int]) -> int:
        slots, size = self.slots, 0
        for slot in free:
            size += nbytes(slots[slot])
            slots[slot] = MISSING
        return size

    def _release_values(self, target: int) -> None:
        """Release values that no later step reads, largest first, until `target` bytes are held; keep their summaries.

        Weights, inputs and views of them do not count: releasing those values would free no memory.
        """
        plan, slots, main = self.plan, self.slots, self.main
        main.peak = max(main.peak, main.held)
        main.held = distinct_bytes(slots) - distinct_bytes([*self.plan.template, *(slots[s] for s in plan.inputs)])
        self.limits.held = main.held
        if main.held <= target:
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
        for slot in idle:
            if main.held <= target:
                return
            value = slots[slot]
            self.summaries[slot] = summarise(value)
            slots[slot] = MISSING
            main.held -= nbytes(value)
            self.limits.held = main.held
        # The remaining values are needed later; check again only after a quarter more was added.
        main.ceiling = min(max(main.ceiling, main.held * 5 // 4), self.limits.memory - self.limits.fixed)

    # -- bodies ----------------------------------------------------------------------------------------------

    def _activate(self, plan: Plan, slots: list[RuntimeValue]) -> None:
        """Pass the values in scope to the kernels of a plan that run bodies or regions."""
        activation = plan.activation
        activation.executor, activation.plan, activation.slots = self, plan, slots

    def run_watched(self, step: PlanStep, slots: list[RuntimeValue], watch: SubgraphObserver) -> None:
        """Run a step of the graph on the given slots, until `watch` stops it inside its bodies."""
        set_limits(self.limits)
        self._activate(self.plan, slots)
        self.subgraphs.begin()
        self.subgraphs.watch = watch
        try:
            with np.errstate(all="ignore"), suppress(BreakpointHit):
                np.setbufsize(_BUFFER)
                self.run_again(self.plan, step, slots)
        finally:
            set_limits(None)
            self.plan.release()
            self.subgraphs.watch = None

    def run_again(self, plan: Plan, step: PlanStep, slots: list[RuntimeValue]) -> None:
        """Run a step on the given slots instead of those of the run."""
        around = plan.activation.slots
        if step.index in plan.contexts:
            plan.contexts[step.index].drawn = 0  # draw the same random numbers again
        for body in plan.bodies.get(step.index, ()):
            body.body.plan.reset_random()
        plan.activation.slots = slots
        try:
            spread(step, slots, plan.code_of(step).call(*[slots[s] for s in step.ins]))
        finally:
            plan.activation.slots = around

    @contextmanager
    def loop(self, body: Plan, state: T) -> Iterator[T]:
        """Provide the loop state of a kernel that iterates over a body: `state`, or the one of an interrupted call."""
        frame, subgraphs = self._frames.get(id(body)), self.subgraphs
        begun = 0 if frame is None else frame.begun
        with nullcontext(state) if subgraphs.watch is None else subgraphs.loop(body, state) as given:
            self._loops[id(body)] = begun - subgraphs.resumed
            yield given

    def run_body(self, body: BodyCall, outer: list[RuntimeValue], inputs: Sequence[RuntimeValue]) -> list[RuntimeValue]:
        """Run a body once; `outer` are the slots of the enclosing plan. StepError with the failure of a step inside."""
        plan, captures = body.body.plan, body.body.captures
        if plan.code is None:
            for source, inner in captures:
                if inner in plan.tokens:
                    plan.template[inner] = outer[source]
            plan.code = self._prepare_inner(plan)
        slots = plan.template.copy()
        for source, inner in captures:
            slots[inner] = outer[source]
        for slot, value in zip(plan.inputs, inputs, strict=True):
            slots[slot] = value
        kinds = tuple([kind_of(slots[slot]) for slot in plan.varying])
        watch = self.subgraphs.watch
        code = plan.code if watch is None else self.subgraphs.steps(plan, slots, watch)
        results = self._run_inner(plan, slots, code, checks_types=kinds != plan.accepted)
        plan.accept(kinds)
        return results

    def _prepare_inner(self, plan: Plan) -> list[Code]:
        """Fold the constants and prepare the weights of an inner plan before its first run; return its code."""
        slots = plan.template
        plan.read_constants(plan.steps)
        _, problems = plan.read_returned_constants()
        if problems:
            raise KernelError(next(iter(problems.values())))
        rest = []
        for step in plan.steps:
            is_known = all(slots[s] is not MISSING and type(slots[s]) is not StoredWeight for s in step.reads)
            if plan.step_tokens[step.index] and is_known and not step.bodies:
                try:
                    check_inputs(step, slots)
                    spread(step, slots, plan.code_of(step).call(*[slots[s] for s in step.ins]))
                    plan.folded[step.index] = 1
                    continue
                except (Cancelled, LimitError):
                    raise
                except Exception:  # noqa: BLE001 - it fails again, and is reported, if the body runs this step
                    plan.step_tokens[step.index] = 0
            rest.append(step)
        plan.prepare_weights(rest)
        return [plan.code_of(step) for step in rest]

    def _run_inner(
        self, plan: Plan, slots: list[RuntimeValue], code: Iterable[Code], *, checks_types: bool = False
    ) -> list[RuntimeValue]:
        if plan.bodied or plan.contexts:
            self._activate(plan, slots)
        frame = self._frames.get(id(plan))
        if frame is None:
            frame = self._frames[id(plan)] = Frame(plan)
        clocks = frame.begin(slots)
        frame.current.checks_types = checks_types
        begun = len(clocks)
        clocks.append(time.perf_counter())
        try:
            self._loop(iter(code), frame.current)
            if self.subgraphs.count < self.subgraphs.passed:  # counted by an earlier call of the step
                del clocks[begun:]
            limits = self.limits
            if limits.deadline is not None or limits.progress.cancelled:
                checkpoint()
        except (Cancelled, StepError, BreakpointHit):
            del clocks[begun:]
            raise
        except Exception as error:
            position = len(clocks) - begun - 1
            del clocks[begun:]
            if position == len(frame.code) or (isinstance(error, LimitError) and self._is_past_deadline()):
                raise
            raise StepError(failure_of(plan, frame.code[position].step, slots, error)) from error
        results = [slots[s] for s in plan.outputs]
        if [r for r in results if r is MISSING]:
            names = [n for n, r in zip(plan.output_names(), results, strict=True) if r is MISSING]
            msg = f"nothing in the body defines its output {', '.join(names)}; expected a node that does"
            raise KernelError(msg)
        return results

    def inside(self, steps: Iterable[PlanStep]) -> SubgraphRecord:
        """Return the values this run has computed in the bodies of steps so far. Any thread."""
        return inside(steps, self._frames.copy(), self._loops.copy())


def check_inputs(step: PlanStep, slots: list[RuntimeValue]) -> None:
    """Raise KernelError if the operator of a step does not accept the types of its inputs."""
    operation, node = step.operation, step.node
    if not operation.problem:
        check_types(node.op_type, operation.opset, node.domain, [slots[slot] for slot in step.ins])


def spread(step: PlanStep, slots: list[RuntimeValue], result: Any) -> int:
    """Store the result of a kernel in the slots of its outputs; return its bytes. Numpy scalars become arrays."""
    outs = step.outs
    if not isinstance(result, tuple):
        result = (result,)
    size = 0
    for position, slot in enumerate(outs):
        if slot == NONE_SLOT:
            continue
        if position >= len(result):
            msg = f"the node names {len(outs)} outputs; expected {len(result)} at most"
            raise KernelError(msg)
        value = result[position]
        if isinstance(value, np.generic):
            value = np.asarray(value)
        slots[slot] = value
        size += value.nbytes if type(value) is np.ndarray else nbytes(value)
    return size


# -- failures ----------------------------------------------------------------------------------------------------


def failure_of(plan: Plan, step: PlanStep, slots: list[RuntimeValue], error: BaseException) -> Failure:
    """Return the Failure for an exception of a step."""
    inner = error.failure if isinstance(error, StepError) else None
    reason, kind = str(error) or type(error).__name__, type(error).__name__
    if isinstance(error, Exception) and not isinstance(error, _MEANT):
        values = [slots[s] for s in step.ins]
        name = step.node.op_type, step.operation.opset, step.node.domain
        reason = signature_misfit(*name, values)
        kind = KernelError.__name__ if reason else kind
        reason = reason or f"{unforeseen(error, step.operation.attributes)}{expected_inputs(*name)}"
    return Failure(
        step.node.node,
        step.path,
        step.node.title,
        step.node.operator,
        step.operation.opset,
        tuple(f"{plan.name(v)}: {_described(slots[s])}" for v, s in zip(step.node.inputs, step.ins, strict=False) if s),
        with_lists(reason),
        inner.kind if inner is not None else kind,
        inner,
    )


def _described(value: RuntimeValue) -> str:
    """Return type and shape of an input; of a sequence also those of its first items."""
    text = str(describe(value))
    if not isinstance(value, list) or not value:
        return text
    items = ", ".join(str(describe(item)) for item in value[:_NAMED_ITEMS])
    return f"{text} ({items}{', …' if len(value) > _NAMED_ITEMS else ''})"


def refuse_large(step: PlanStep, slots: list[RuntimeValue], most: int) -> None:
    """Release the outputs of a step and raise LimitError if one takes more than `most` bytes.

    Kernels check results larger than their inputs before they compute them; this catches results as large as an input
    that is over the limit, and sequences, which grow. Views of an input do not count.
    """
    given = [slots[s] for s in step.ins if s]
    arrays = [value for value in given if isinstance(value, np.ndarray)]
    for slot in filter(None, step.outs):
        value = slots[slot]
        if any(value is known for known in given):
            continue
        if isinstance(value, np.ndarray):
            size = 0 if any(np.may_share_memory(value, known) for known in arrays) else value.nbytes
        else:
            size = distinct_bytes([value])
        if size > most:
            text = describe(value)
            for out in filter(None, step.outs):
                slots[out] = MISSING
            msg = f"a result of {text} needs {size:,} bytes, over the limit of {most:,} bytes for a tensor"
            raise LimitError(msg)
