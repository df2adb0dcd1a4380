"""State that runs add to a plan and keep for the next run: constants, kernels bound to weights, loop code.

A PlanState belongs to one engine and is written by the executor only. Plans of bodies have separate states, held by the
callables (BodyCall) that run them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property, partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from onnx_workbench.exec.engine.input_types import Kind
from onnx_workbench.exec.engine.operations import Library, Operation, Prepared
from onnx_workbench.exec.engine.plan import BodyPlan, Plan, PlanStep
from onnx_workbench.exec.engine.stored_weights import ReadingCall, StoredWeight
from onnx_workbench.exec.errors import KernelError, LimitError, MissingKernelError
from onnx_workbench.exec.kernels.context import Context, Region, RegionNode
from onnx_workbench.exec.kernels.registry import KernelFunction
from onnx_workbench.exec.results.slot_map import NONE_SLOT, SlotMap
from onnx_workbench.exec.results.values import MISSING
from onnx_workbench.exec.values.arrays import RuntimeValue, SparseArray
from onnx_workbench.exec.values.limits import checkpoint
from onnx_workbench.exec.values.statistics import nbytes
from onnx_workbench.model.errors import ModelError

if TYPE_CHECKING:
    from onnx_workbench.exec.engine.executor import Executor

T = TypeVar("T")

#: Kinds of the inputs of a plan: see PlanState.accepted.
Kinds = tuple[Kind | tuple[int, Kind], ...]

#: Exceptions of reading a constant.
_NOT_READ = (ModelError, ValueError, LookupError, OSError, LimitError)


class Code(NamedTuple):
    """A step as the loop runs it: the result of call(get(slots)), or call(*get(slots)), is stored in slot `out`."""

    call: KernelFunction
    get: Callable[[list[RuntimeValue]], Any]
    single: bool  # one input
    out: int  # 0 when the node has not exactly one named output, its first
    free: tuple[int, ...]  # slots that no later step reads
    step: PlanStep


@dataclass(slots=True, eq=False)
class Activation:
    """The current pass over a plan, for kernels that run bodies or regions of it."""

    executor: Executor | None = None
    state: PlanState | None = None
    slots: list[RuntimeValue] = field(default_factory=list)


class Program(NamedTuple):
    """What a run for the `targets` does that reuses nothing but constants, whose steps are `folded`."""

    targets: frozenset[int] | None  # indices of steps; None: all
    code: list[Code]
    folded: list[int]
    keep: set[int] | None  # slots; None: all
    common: int  # inputs of the graph that every step of the code depends on


class PlanState:
    """Cached state of one plan. `template` holds the contents of the slots before a run.

    By index of the step: `tokens` (of constant steps; 0 for others and for those that cannot be computed), `folded`
    (1: its outputs are in the template) and `bound` (1: its weights have been prepared).
    """

    def __init__(self, plan: Plan, library: Library) -> None:
        self.plan = plan
        self.library = library
        self.template: list[RuntimeValue] = [MISSING] * plan.size
        self.template[NONE_SLOT] = None
        self.tokens = [step.constant for step in plan.steps]
        self.folded = bytearray(len(plan.steps))
        self.bound = bytearray(len(plan.steps))
        self.contexts: dict[int, Context] = {}  # by index of the step
        self.bodies: dict[int, tuple[BodyCall, ...]] = {}  # by index of the step
        self.activation = Activation()
        self.program: Program | None = None  # of the last run that could be repeated
        self.code: list[Code] | None = None  # of a body, once it has run
        self._calls: list[KernelFunction | None] = [None] * len(plan.steps)
        #: Kinds of the inputs of a run that has succeeded. Those of all other values follow from them, so that a run
        #: with the same ones checks no types.
        self.accepted: Kinds | None = None

    @cached_property
    def layout(self) -> SlotMap:
        """The slots and steps of the plan, for results."""
        return self.plan.layout()

    @cached_property
    def weight_bytes(self) -> int:
        """Bytes of all tensors that the plan and the plans of its bodies use, whether or not they have been read."""
        found: set[int] = set()
        pending = [self.plan]
        while pending:
            plan = pending.pop()
            found.update(plan.constants.values())
            pending += [body.plan for index in plan.bodied for body in plan.steps[index].bodies]
        return self.library.tensor_bytes(found)

    # -- calls and code --------------------------------------------------------------------------------------

    def _make_call(self, step: PlanStep) -> KernelFunction:
        operation = step.operation
        if operation.problem:
            is_missing = operation.error == MissingKernelError.__name__
            return refusal(operation.problem, MissingKernelError if is_missing else KernelError)
        kernel = operation.kernel
        assert kernel is not None
        call, attributes = kernel.function, self.attributes(step)
        if kernel.takes_context:
            assert step.context is not None
            context = self.contexts[step.index] = copy(step.context)
            context.body_runner = RegionFinder(self.activation, step, self.library)
            return partial(call, context, **attributes)
        return partial(call, **attributes) if attributes else call

    def attributes(self, step: PlanStep) -> Mapping[str, Any]:
        """Return the attributes that a step's kernel gets, bodies among them."""
        attributes = step.operation.attributes
        if not step.bodies:
            return attributes
        bodies = self.bodies.get(step.index)
        if bodies is None:
            bodies = tuple(BodyCall(body, PlanState(body.plan, self.library), self.activation) for body in step.bodies)
            self.bodies[step.index] = bodies
        return attributes | {body.plan.attribute: body for body in bodies}

    def code_of(self, step: PlanStep, free: tuple[int, ...] = ()) -> Code:
        """Return the code of a step; `free` are slots to empty after it."""
        call, count = self._calls[step.index], len(step.ins)
        if call is None:
            call = self._calls[step.index] = self._make_call(step)
        get: Callable[[list[RuntimeValue]], Any] = itemgetter(*step.ins) if count else _nothing
        single_out = step.outs[0] if len(step.outs) == 1 else 0
        if self.library.reads_on_demand:
            call = ReadingCall(call)
        return Code(call, get, count == 1, single_out, free, step)

    def accept(self, kinds: Kinds) -> None:
        """Record that a run with inputs of these kinds succeeded; not with bodies, whose results may differ in type."""
        if kinds != self.accepted and not any(self.plan.steps[index].bodies for index in self.plan.bodied):
            self.accepted = kinds

    # -- values ----------------------------------------------------------------------------------------------

    def read_constants(self, steps: Iterable[PlanStep]) -> list[int]:
        """Read the constants of steps into the template; return the slots that are new there.

        Sparse initializers become dense. A step whose constant cannot be read fails in all runs of this plan. All
        constants that were read before are added too: the steps that read them may be reused from the cache, and values
        inside a called function have no other source.
        """
        new = []
        library, template, constants = self.library, self.template, self.plan.constants
        for slot, number in constants.items():
            if template[slot] is MISSING and isinstance(known := library.constant_read(number), np.ndarray):
                template[slot] = known
                new.append(slot)
        for step in steps:
            for slot in step.reads:
                if slot in constants and template[slot] is MISSING:
                    checkpoint()
                    try:
                        self._read_constant(slot, may_stay=slot not in self.plan.outputs)
                        new.append(slot)
                    except _NOT_READ as error:
                        kind = LimitError if isinstance(error, LimitError) else KernelError
                        self._calls[step.index] = refusal(str(error), kind)
                        self.tokens[step.index], self.bound[step.index] = 0, 1
                        library.refused = True
        return new

    def _read_constant(self, slot: int, *, may_stay: bool = False) -> None:
        number = self.plan.constants[slot]
        value = (self.library.stored(number) if may_stay else None) or self.library.constant(number)
        self.template[slot] = value.dense() if isinstance(value, SparseArray) else value

    def read_returned_constants(self) -> tuple[list[int], dict[int, str]]:
        """Read constants that are outputs of the graph into the template; return the new slots, and errors by slot."""
        new, problems = [], {}
        for slot in self.plan.outputs:
            if slot in self.plan.constants and self.template[slot] is MISSING:
                try:
                    self._read_constant(slot)
                    new.append(slot)
                except _NOT_READ as error:
                    problems[slot] = str(error)
        return new, problems

    def prepare_weights(self, steps: Iterable[PlanStep]) -> None:
        """Call the `prepare` hooks of kernels, which pack or cast constants and compile attributes such as trees.

        Once for equal operations and constants. Raises Cancelled or LimitError if the run must end.
        """
        tokens, template, library = self.plan.tokens, self.template, self.library
        for step in steps:
            kernel = step.operation.kernel
            if self.bound[step.index] or kernel is None or step.operation.problem:
                continue
            # A prepared function gets no context, so it can only replace a kernel of which one output is wanted.
            if kernel.prepare is None or step.bodies or (kernel.takes_context and len(step.outs) > 1):
                self.bound[step.index] = 1
                continue
            constant = [
                s != NONE_SLOT and template[s] is not MISSING and type(template[s]) is not StoredWeight
                for s in step.ins
            ]
            key = (
                step.operation.number,
                tuple(tokens[s] if known else -bool(s) for s, known in zip(step.ins, constant, strict=True)),
            )
            prepared = library.prepared.get(key)
            if prepared is None:
                checkpoint()
                values = [template[s] if known else None for s, known in zip(step.ins, constant, strict=True)]
                call = _prepared(kernel.prepare, values, step.operation)
                prepared = library.prepared[key] = Prepared(call, sum(map(nbytes, values)) if call is not None else 0)
                library.weight_bytes += prepared.nbytes
            if prepared.call is not None:
                self._calls[step.index] = prepared.call
            self.bound[step.index] = 1

    # -- states of inner plans -------------------------------------------------------------------------------

    def inner(self) -> list[PlanState]:
        """Return the states of bodies."""
        return [body.state for bodies in self.bodies.values() for body in bodies]

    def reset_random(self) -> None:
        """Reset the generators of random operators, including those in bodies."""
        for context in self.contexts.values():
            context.drawn = 0
        for state in self.inner():
            state.reset_random()

    @property
    def has_drawn(self) -> bool:
        """Return whether random numbers have been drawn in the plan, or in the bodies in it."""
        if any(context.drawn for context in self.contexts.values()):
            return True
        return any(state.has_drawn for state in self.inner())

    def release(self) -> None:
        """Drop references to the current run: a reference cycle would keep weights alive."""
        self.activation.executor, self.activation.state, self.activation.slots = None, None, []
        for context in self.contexts.values():
            context.drawn = 0
        for state in self.inner() if self.plan.bodied else ():
            state.release()


class BodyCall:
    """A body as passed to the kernel of its node: see kernels.context.Body."""

    def __init__(self, plan: BodyPlan, state: PlanState, around: Activation) -> None:
        self.plan = plan
        self.state = state
        self._around = around
        self.input_names, self.output_names = plan.input_names, plan.output_names
        self.input_types, self.output_types = plan.input_types, plan.output_types

    def __call__(self, inputs: Sequence[RuntimeValue]) -> list[RuntimeValue]:
        """Run the body once."""
        executor = self._around.executor
        assert executor is not None
        return executor.run_body(self, self._around.slots, inputs)

    def loop(self, state: T) -> AbstractContextManager[T]:
        """Return a context with the loop state of its kernel: `state`, or the one of an interrupted call."""
        executor = self._around.executor
        assert executor is not None
        return executor.loop(self.state, state)


class RegionFinder:
    """Runs the steps between given values and a target again, in the graph that contains the step of a node.

    The Gradient operator differentiates them.
    """

    def __init__(self, around: Activation, step: PlanStep, library: Library) -> None:
        self._around = around
        self._path = step.path
        self._library = library

    def __call__(self, given: Mapping[str, RuntimeValue], target: str) -> Region:
        """Run the region that computes `target` from the given values; KernelError names missing values."""
        state, executor = self._around.state, self._around.executor
        assert state is not None
        assert executor is not None
        plan = state.plan
        by_name = {plan.name(value): slot for (path, value), slot in plan.slots.items() if path == self._path}
        names = {slot: name for name, slot in by_name.items()}
        missing = [name for name in (*given, target) if name not in by_name]
        if missing:
            msg = f"the graph has no value named {', '.join(map(repr, missing))}; expected one that it computes"
            raise KernelError(msg)
        slots = self._around.slots.copy()
        fixed = {by_name[name]: value for name, value in given.items()}
        slots_given = set(fixed)
        for slot, value in fixed.items():
            slots[slot] = value
        steps = self._between(plan, slots, slots_given, by_name[target])
        for step in steps:
            executor.run_again(state, step, slots)
        nodes = [_node(state, step, names) for step in steps]
        values = {names.get(s, f"#{s}"): slots[s] for step in steps for s in (*step.ins, *step.outs) if s}
        values.update({name: slots[by_name[name]] for name in (*given, target)})
        return Region(nodes, values)

    def _between(self, plan: Plan, slots: list[RuntimeValue], given: set[int], target: int) -> list[PlanStep]:
        """Return the steps from the given slots to the target, in run order; reads the constants they need."""
        wanted: dict[int, PlanStep] = {}
        pending = [target]
        while pending:
            slot = pending.pop()
            if slot in given or slot == 0:
                continue
            step = plan.producer(slot)
            if step is None:
                if slots[slot] is MISSING and slot in plan.constants:
                    slots[slot] = self._library.constant(plan.constants[slot])
                if slots[slot] is MISSING:
                    msg = "a value it depends on is not available; expected it among xs or zs"
                    raise KernelError(msg)
            elif step.index not in wanted:
                wanted[step.index] = step
                pending.extend(step.reads)
        return [wanted[index] for index in sorted(wanted)]


def _node(state: PlanState, step: PlanStep, names: Mapping[int, str]) -> RegionNode:
    def name(slot: int) -> str:
        return names.get(slot, f"#{slot}") if slot else ""

    return RegionNode(
        step.node.op_type,
        step.node.domain,
        step.operation.opset,
        tuple(name(s) for s in step.ins),
        tuple(name(s) for s in step.outs),
        state.attributes(step),
    )


def fill(step: PlanStep, slots: list[RuntimeValue], values: Sequence[RuntimeValue]) -> None:
    """Store the values of a step's outputs in their slots."""
    for slot, value in zip(step.outs, values, strict=True):
        if slot:
            slots[slot] = value


def refusal(problem: str, error: type[Exception] = KernelError) -> KernelFunction:
    """Return a function that raises `error`, in place of a kernel that cannot run."""
    return partial(_refuse, error, problem)


def _refuse(error: type[Exception], problem: str, *_inputs: RuntimeValue) -> RuntimeValue:
    raise error(problem)


def _nothing(_slots: list[RuntimeValue]) -> tuple[()]:
    return ()


def _prepared(
    hook: Callable[..., KernelFunction | None], values: list[Any], operation: Operation
) -> KernelFunction | None:
    try:
        with np.errstate(all="ignore"):
            return hook(values, **operation.attributes)
    except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, MemoryError):
        checkpoint()  # raises if the cause was the time limit of the run
        return None  # the plain kernel fails too, and the failure of the node is reported
