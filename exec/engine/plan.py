"""The compiled form of a graph: its nodes as steps in run order over numbered slots, and what runs add to it.

Calls of model-local functions are inlined, so that constants inside them are folded and nodes are timed as elsewhere;
bodies of If, Loop and Scan become separate plans. What runs add are constants, kernels bound to weights, loop code.
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
from onnx_workbench.exec.engine.regions import RegionFinder
from onnx_workbench.exec.engine.stored_weights import ReadingCall, StoredWeight
from onnx_workbench.exec.errors import KernelError, LimitError, MissingKernelError
from onnx_workbench.exec.kernels.context import Context
from onnx_workbench.exec.kernels.registry import KernelFunction
from onnx_workbench.exec.results.columns import Keys, Lists
from onnx_workbench.exec.results.slot_map import NONE_SLOT, Path, SlotMap, Steps, ValueKey
from onnx_workbench.exec.results.values import MISSING
from onnx_workbench.exec.values.arrays import RuntimeValue, SparseArray
from onnx_workbench.exec.values.limits import checkpoint
from onnx_workbench.exec.values.statistics import nbytes
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.types import Type

if TYPE_CHECKING:
    from onnx_workbench.exec.engine.executor import Executor
    from onnx_workbench.exec.engine.snapshot import NodeSnapshot

T = TypeVar("T")

#: Kinds of the inputs of a plan: see Plan.accepted.
Kinds = tuple[Kind | tuple[int, Kind], ...]

#: Exceptions of reading a constant.
_NOT_READ = (ModelError, ValueError, LookupError, OSError, LimitError)


@dataclass(slots=True, eq=False)
class PlanStep:
    """One node to run. Immutable; not frozen only because that takes nine times as long to create.

    `captured` are outer slots that its bodies read; `token` says how its outputs are computed from constants and inputs
    of the graph: 0 if it cannot run, or depends on formal inputs of a body. `inputs` are the inputs it depends on, as a
    mask of Library.input_bit. `context` is copied for the kernel in each Plan; None if the kernel needs none.
    """

    index: int
    node: NodeSnapshot
    path: Path
    operation: Operation
    ins: tuple[int, ...]
    outs: tuple[int, ...]
    captured: tuple[int, ...]
    bodies: tuple[BodyPlan, ...]
    context: Context | None
    token: int
    inputs: int

    @property
    def constant(self) -> int:
        """Token of its outputs if they are the same in every run, else 0."""
        return 0 if self.inputs else self.token

    @property
    def reads(self) -> tuple[int, ...]:
        """All slots that it reads, also in its bodies."""
        return self.ins + self.captured if self.captured else self.ins

    @property
    def label(self) -> tuple[str, str]:
        """Operator and title, in the form that results hold."""
        return self.node.operator, self.node.title


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
    plan: Plan | None = None
    slots: list[RuntimeValue] = field(default_factory=list)


class Program(NamedTuple):
    """What a run for the `targets` does that reuses nothing but constants, whose steps are `folded`."""

    targets: frozenset[int] | None  # indices of steps; None: all
    code: list[Code]
    folded: list[int]
    keep: set[int] | None  # slots; None: all
    common: int  # inputs of the graph that every step of the code depends on


@dataclass(eq=False)
class Plan:
    """Steps in run order over `size` slots, made by lowering.Compiler, and what runs add and keep for the next run.

    `template` holds the contents of the slots before a run. By index of the step: `step_tokens` (of constant steps; 0
    for others and for those that cannot be computed), `folded` (1: its outputs are in the template) and `bound` (1: its
    weights have been prepared). These belong to one engine and are written by the executor only.
    """

    library: Library
    steps: tuple[PlanStep, ...]
    size: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    constants: Mapping[int, int]  # slot → number of a tensor
    tokens: Mapping[int, int]  # slot → token of its content, where that is known: see PlanStep
    undefined: Mapping[int, int]  # slot → number of a value that nothing defines
    slots: Mapping[ValueKey, int]
    producers: Mapping[int, int]  # slot → index of a step
    bodied: tuple[int, ...]  # indices of steps with inner plans
    input_bits: Mapping[int, int]  # slot of an input of the main graph, or a fed initializer → bit in PlanStep.inputs
    varying: tuple[int, ...]  # of a body: inputs and captured slots that are not constant
    names: Mapping[int, str]  # of values, by number; a live view of the model
    notes: tuple[str, ...]  # for the user, also about its bodies

    def __post_init__(self) -> None:
        count = len(self.steps)
        self.template: list[RuntimeValue] = [MISSING] * self.size
        self.template[NONE_SLOT] = None
        self.step_tokens = [step.constant for step in self.steps]
        self.folded, self.bound = bytearray(count), bytearray(count)
        self.contexts: dict[int, Context] = {}  # by index of the step
        self.bodies: dict[int, tuple[BodyCall, ...]] = {}  # by index of the step
        self.activation = Activation()
        self.program: Program | None = None  # of the last run that could be repeated
        self.code: list[Code] | None = None  # of a body, once it has run
        self._calls: list[KernelFunction | None] = [None] * count
        #: Kinds of the inputs of a run that has succeeded. Those of all other values follow from them, so that a run
        #: with the same ones checks no types.
        self.accepted: Kinds | None = None

    @cached_property
    def recorded(self) -> dict[Path, dict[int, int]]:
        """The slots of the values of a body that results hold, by path and number. Captured values are left out."""
        own = {*self.producers, *self.inputs, *self.constants}
        slots_by_path: dict[Path, dict[int, int]] = {}
        for (path, value), slot in self.slots.items():
            if slot in own:
                slots_by_path.setdefault(path, {})[value] = slot
        return slots_by_path

    @cached_property
    def layout(self) -> SlotMap:
        """The slots and steps, for results: small and picklable."""
        steps = self.steps
        table = Steps(
            Keys.of_columns([step.node.node for step in steps], [step.path for step in steps]),
            Lists.of([step.ins + step.captured if step.captured else step.ins for step in steps]),
            Lists.of([step.outs for step in steps]),
            np.array([bool(step.bodies) for step in steps], bool),
        )
        return SlotMap(self.slots, self.outputs, self.names, table)

    def producer(self, slot: int) -> PlanStep | None:
        """Return the step that fills a slot; None for inputs and constants."""
        index = self.producers.get(slot)
        return None if index is None else self.steps[index]

    def step_of(self, node: int, path: Path = ()) -> PlanStep | None:
        """Return the step of a node; for a call of a function, its last step."""
        found = None
        for step in self.steps:
            if (step.node.node == node and step.path == path) or step.path[: len(path) + 1] == (*path, node):
                found = step
        return found

    def name(self, value: int) -> str:
        """Return the name of a value for messages."""
        return self.names.get(value, f"value {value}")

    def output_names(self) -> list[str]:
        """Names of the outputs, for messages."""
        by_slot = {slot: self.name(key[1]) for key, slot in self.slots.items()}
        return [by_slot.get(s, "?") for s in self.outputs]

    @cached_property
    def weight_bytes(self) -> int:
        """Bytes of all tensors that the plan and the plans of its bodies use, whether or not they have been read."""
        found: set[int] = set()
        pending: list[Plan] = [self]
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
            bodies = self.bodies[step.index] = tuple(BodyCall(body, self.activation) for body in step.bodies)
        return attributes | {call.body.attribute: call for call in bodies}

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
        if kinds != self.accepted and not any(self.steps[index].bodies for index in self.bodied):
            self.accepted = kinds

    # -- values ----------------------------------------------------------------------------------------------

    def read_constants(self, steps: Iterable[PlanStep]) -> list[int]:
        """Read the constants of steps into the template; return the slots that are new there.

        Sparse initializers become dense. A step whose constant cannot be read fails in all runs of this plan. All
        constants that were read before are added too: the steps that read them may be reused from the cache, and values
        inside a called function have no other source.
        """
        new = []
        library, template, constants = self.library, self.template, self.constants
        for slot, number in constants.items():
            if template[slot] is MISSING and isinstance(known := library.constant_read(number), np.ndarray):
                template[slot] = known
                new.append(slot)
        for step in steps:
            for slot in step.reads:
                if slot in constants and template[slot] is MISSING:
                    checkpoint()
                    try:
                        self._read_constant(slot, may_stay=slot not in self.outputs)
                        new.append(slot)
                    except _NOT_READ as error:
                        kind = LimitError if isinstance(error, LimitError) else KernelError
                        self._calls[step.index] = refusal(str(error), kind)
                        self.step_tokens[step.index], self.bound[step.index] = 0, 1
                        library.refused = True
        return new

    def _read_constant(self, slot: int, *, may_stay: bool = False) -> None:
        number = self.constants[slot]
        value = (self.library.stored(number) if may_stay else None) or self.library.constant(number)
        self.template[slot] = value.dense() if isinstance(value, SparseArray) else value

    def read_returned_constants(self) -> tuple[list[int], dict[int, str]]:
        """Read constants that are outputs of the graph into the template; return the new slots, and errors by slot."""
        new, problems = [], {}
        for slot in self.outputs:
            if slot in self.constants and self.template[slot] is MISSING:
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
        tokens, template, library = self.tokens, self.template, self.library
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

    # -- inner plans -----------------------------------------------------------------------------------------

    def inner(self) -> list[Plan]:
        """Return the plans of bodies that have been prepared."""
        return [call.body.plan for calls in self.bodies.values() for call in calls]

    def reset_random(self) -> None:
        """Reset the generators of random operators, including those in bodies."""
        for context in self.contexts.values():
            context.drawn = 0
        for plan in self.inner():
            plan.reset_random()

    @property
    def has_drawn(self) -> bool:
        """Return whether random numbers have been drawn in the plan, or in the bodies in it."""
        if any(context.drawn for context in self.contexts.values()):
            return True
        return any(plan.has_drawn for plan in self.inner())

    def release(self) -> None:
        """Drop references to the current run: a reference cycle would keep weights alive."""
        self.activation.executor, self.activation.plan, self.activation.slots = None, None, []
        for context in self.contexts.values():
            context.drawn = 0
        for plan in self.inner() if self.bodied else ():
            plan.release()


@dataclass(frozen=True, slots=True, eq=False)
class BodyPlan:
    """The plan of a body; `captures` are pairs of an outer slot and a slot of this plan."""

    attribute: str
    plan: Plan
    captures: tuple[tuple[int, int], ...]
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    input_types: tuple[Type | None, ...]
    output_types: tuple[Type | None, ...]


class BodyCall:
    """A body as passed to the kernel of its node: see kernels.context.Body."""

    def __init__(self, body: BodyPlan, around: Activation) -> None:
        self.body = body
        self._around = around
        self.input_names, self.output_names = body.input_names, body.output_names
        self.input_types, self.output_types = body.input_types, body.output_types

    def __call__(self, inputs: Sequence[RuntimeValue]) -> list[RuntimeValue]:
        """Run the body once."""
        executor = self._around.executor
        assert executor is not None
        return executor.run_body(self, self._around.slots, inputs)

    def loop(self, state: T) -> AbstractContextManager[T]:
        """Return a context with the loop state of its kernel: `state`, or the one of an interrupted call."""
        executor = self._around.executor
        assert executor is not None
        return executor.loop(self.body.plan, state)


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
