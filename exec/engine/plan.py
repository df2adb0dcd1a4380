"""The compiled form of a graph: its nodes as steps in run order over numbered slots. Immutable.

Calls of model-local functions are inlined, so that constants inside them are folded and nodes are timed as elsewhere;
bodies of If, Loop and Scan become separate plans. Nothing here computes; the state that runs add is in PlanState.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from onnx_workbench.exec.results.columns import Keys, Lists
from onnx_workbench.exec.results.slot_map import Path, SlotMap, Steps, ValueKey
from onnx_workbench.model.ir.types import Type

if TYPE_CHECKING:
    from onnx_workbench.exec.engine.operations import Operation
    from onnx_workbench.exec.engine.snapshot import NodeSnapshot
    from onnx_workbench.exec.kernels.context import Context


@dataclass(slots=True, eq=False)
class PlanStep:
    """One node to run. Immutable; not frozen only because that takes nine times as long to create.

    `captured` are outer slots that its bodies read; `token` says how its outputs are computed from constants and inputs
    of the graph: 0 if it cannot run, or depends on formal inputs of a body. `inputs` are the inputs it depends on, as a
    mask of Library.input_bit. `context` is copied for the kernel in each PlanState; None if the kernel needs none.
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


@dataclass(frozen=True, eq=False)
class Plan:
    """Steps in run order over `size` slots, made by lowering.Compiler."""

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

    @cached_property
    def recorded(self) -> dict[Path, dict[int, int]]:
        """The slots of the values of a body that results hold, by path and number. Captured values are left out."""
        own = {*self.producers, *self.inputs, *self.constants}
        found: dict[Path, dict[int, int]] = {}
        for (path, value), slot in self.slots.items():
            if slot in own:
                found.setdefault(path, {})[value] = slot
        return found

    def layout(self) -> SlotMap:
        """Return a new table of its slots and steps for results: small and picklable."""
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
