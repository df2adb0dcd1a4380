"""Regions of a plan that a kernel runs again: the Gradient operator differentiates them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.context import Region, RegionNode
from onnx_workbench.exec.results.values import MISSING
from onnx_workbench.exec.values.arrays import RuntimeValue

if TYPE_CHECKING:
    from onnx_workbench.exec.engine.operations import Library
    from onnx_workbench.exec.engine.plan import Activation, Plan, PlanStep


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
        plan, executor = self._around.plan, self._around.executor
        assert plan is not None
        assert executor is not None
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
            executor.run_again(plan, step, slots)
        nodes = [_node(plan, step, names) for step in steps]
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


def _node(plan: Plan, step: PlanStep, names: Mapping[int, str]) -> RegionNode:
    def name(slot: int) -> str:
        return names.get(slot, f"#{slot}") if slot else ""

    return RegionNode(
        step.node.op_type,
        step.node.domain,
        step.operation.opset,
        tuple(name(s) for s in step.ins),
        tuple(name(s) for s in step.outs),
        plan.attributes(step),
    )
