"""What is run, in which order: a snapshot compiled into steps over numbered slots.

Calls of model-local functions are replaced by the nodes of the function, so that constants are known and nodes
timed inside them as anywhere else; bodies of If, Loop and Scan become plans of their own. Nothing here computes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from onnx_workbench.exec.engine.input_types import KernelGuard, Kind
from onnx_workbench.exec.engine.operations import Operation
from onnx_workbench.exec.engine.snapshot import GraphSnapshot, NodeSnapshot
from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.context import Context, RuntimeValue
from onnx_workbench.exec.kernels.registry import KernelFunction
from onnx_workbench.exec.results.node_table import NodeResult, State
from onnx_workbench.exec.results.slot_map import Path, SlotMap, StepLayout, Steps, ValueKey
from onnx_workbench.model.ir.types import Type

if TYPE_CHECKING:
    from onnx_workbench.exec.engine.autodiff_region import RegionFinder
    from onnx_workbench.exec.engine.subgraph_breakpoints import SubgraphStepper

T = TypeVar("T")

#: Of what a plan is given: see Plan.code_for.
Kinds = tuple[Kind | tuple[int, Kind], ...]


class Missing:
    """What a slot holds when there is no value; None is a value (an empty optional)."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<no value>"


MISSING = Missing()

#: The slot that always holds None: what an input left out reads.
NONE_SLOT = 0


class Code(NamedTuple):
    """A step as the loop wants it: the result of call(get(slots)), or call(*get(slots)), goes to slot `out`."""

    call: KernelFunction
    get: Callable[[list[RuntimeValue]], Any]
    single: bool  # one input
    out: int  # 0 when the node has not exactly one named output, its first
    free: tuple[int, ...]  # slots nobody reads afterwards
    step: Step

    def guarded(self) -> Code:
        """The same, refusing inputs of types that the operator does not take; see Plan.code_for."""
        operation, node = self.step.operation, self.step.node
        if operation.problem:
            return self
        call = KernelGuard(self.call, node.op_type, operation.opset, node.domain)
        return Code(call, self.get, self.single, self.out, self.free, self.step)


@dataclass(slots=True, eq=False)
class Step:
    """One node to run. `captured` are outer slots that its bodies read; `token` is set when all inputs are constant."""

    index: int
    node: NodeSnapshot
    path: Path
    operation: Operation
    ins: tuple[int, ...]
    outs: tuple[int, ...]
    captured: tuple[int, ...]
    call: KernelFunction
    context: Context | None
    bodies: tuple[BodyPlan, ...]
    token: int = 0
    key: int = 0  # what it computes, whatever its inputs
    folded: bool = False
    bound: bool = False  # weights prepared
    plain: Code | None = None  # as in a run that keeps everything

    @property
    def reads(self) -> tuple[int, ...]:
        """All slots it depends on."""
        return self.ins + self.captured

    def fill(self, slots: list[RuntimeValue], values: Sequence[RuntimeValue]) -> None:
        """Put the values of its outputs where they are read."""
        for slot, value in zip(self.outs, values, strict=True):
            if slot:
                slots[slot] = value

    def layout(self) -> StepLayout:
        """What results need to know of it."""
        return StepLayout(self.index, self.node.node, self.path, self.reads, self.outs, bool(self.bodies))

    def row(self) -> NodeResult:
        """What is the same of it in all results."""
        node = self.node
        return NodeResult(node.node, self.path, node.operator, node.title, State.WAITING)

    def code(self, free: tuple[int, ...] = ()) -> Code:
        """The step as the loop wants it."""
        if not free and self.plain is not None:
            return self.plain
        count = len(self.ins)
        get: Callable[[list[RuntimeValue]], Any] = itemgetter(*self.ins) if count else _nothing
        single_out = self.outs[0] if len(self.outs) == 1 else 0
        code = Code(self.call, get, count == 1, single_out, free, self)
        if not free and self.bound:
            self.plain = code
        return code


def _nothing(_slots: list[RuntimeValue]) -> tuple[()]:
    return ()


@dataclass(slots=True, eq=False)
class Plan:
    """Steps in run order over `size` slots; `template` is what the slots hold before a run."""

    steps: list[Step]
    size: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    constants: dict[int, int]  # slot → number of a tensor
    tokens: dict[int, int]  # slot → token, where constant
    undefined: dict[int, int]  # slot → number of a value that nothing defines
    slots: dict[ValueKey, int]
    names: Mapping[int, str]
    notes: list[str] = field(default_factory=list)  # those of operations are with them
    template: list[RuntimeValue] = field(default_factory=list)
    code: list[Code] = field(default_factory=list)
    producers: dict[int, Step] = field(default_factory=dict)  # slot → step
    given: set[int] = field(default_factory=set)  # slots the template holds
    ready: bool = False  # of a body: constants in place, code made
    bodied: list[Step] = field(default_factory=list)  # steps that run plans of their own
    finders: list[RegionFinder] = field(default_factory=list)
    everything: list[Step] | None = None  # what a run of all values computes, once constants are folded; see code
    folded: list[int] = field(default_factory=list)  # the other steps, by index
    straight: bool = False  # steps are the graph's own nodes in their order
    base: Plan | None = None  # the plan this one was patched from, until its values are numbered
    changed: frozenset[int] = frozenset()  # which steps are others than there
    looked_at: tuple[int, ...] = ()  # of a body: slots whose kinds decide those of all others
    good: Kinds | None = None  # with which the inputs of all steps were found to be of types their operators take
    _guarded: list[Code] = field(default_factory=list)
    _layout: SlotMap | None = None
    _told: tuple[str, ...] | None = None

    def code_for(self, kinds: Kinds) -> list[Code]:
        """`code` for values of these kinds, guarded until one run with such values came through.

        Types follow from types, so a run need not look at those of every node again.
        """
        if kinds == self.good:
            return self.code
        if len(self._guarded) != len(self.code):
            self._guarded = [code.guarded() for code in self.code]
        return self._guarded

    def came_through(self, kinds: Kinds) -> None:
        """Everything was computed of values of these kinds. Bodies may give other types the next time."""
        if not any(step.bodies for step in self.bodied):
            self.good = kinds

    def told(self) -> tuple[str, ...]:
        """What a person should know of the plan, of the operations in it and of those in bodies."""
        if self._told is None:
            notes = list(self.notes)
            for step in self.steps:
                notes += [f"{step.node.title}: {note}" for note in step.operation.notes]
                for body in step.bodies:
                    notes += body.plan.told()
            self._told = tuple(dict.fromkeys(notes))
        return self._told

    def step_of(self, node: int, path: Path = ()) -> Step | None:
        """The step of a node; for a call of a function, its last step."""
        found = None
        for step in self.steps:
            if (step.node.node == node and step.path == path) or step.path[: len(path) + 1] == (*path, node):
                found = step
        return found

    def name(self, value: int) -> str:
        """The name of a value for messages."""
        return self.names.get(value, f"value {value}")

    def output_names(self) -> list[str]:
        """Names of the outputs, for messages."""
        by_slot = {slot: self.name(key[1]) for key, slot in self.slots.items()}
        return [by_slot.get(s, "?") for s in self.outputs]

    def layout(self) -> SlotMap:
        """What results need to know of it: light, and fit for another process."""
        if self._layout is None:
            self._layout = SlotMap(self.slots, self.outputs, self.names, Steps.of(s.layout() for s in self.steps))
        return self._layout


@dataclass(slots=True, eq=False)
class BodyPlan:
    """A body as a plan, and what it captures: pairs of outer and inner slots. Given to the kernel as a Body."""

    attribute: str
    plan: Plan
    graph: GraphSnapshot
    captures: tuple[tuple[int, int], ...]
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    input_types: tuple[Type | None, ...]
    output_types: tuple[Type | None, ...]
    outer: list[RuntimeValue] = field(default_factory=list)  # slots around it in the run going on
    runner: Callable[[BodyPlan, Sequence[RuntimeValue]], list[RuntimeValue]] | None = None
    walk: SubgraphStepper | None = None  # of the run going on, where somebody stops in bodies

    def __call__(self, inputs: Sequence[RuntimeValue]) -> list[RuntimeValue]:
        """Run the body once."""
        assert self.runner is not None
        return self.runner(self, inputs)

    def loop(self, state: T) -> AbstractContextManager[T]:
        """What a kernel that runs it turn by turn keeps between turns: `state`, or where it was stopped in before."""
        return nullcontext(state) if self.walk is None else self.walk.loop(self.plan, state)


def refusal(problem: str, error: type[Exception] = KernelError) -> KernelFunction:
    """What stands in for a kernel that cannot run: says why."""
    return partial(_refuse, error, problem)


def _refuse(error: type[Exception], problem: str, *_inputs: RuntimeValue) -> RuntimeValue:
    raise error(problem)
