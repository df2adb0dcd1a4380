"""Running a part of a graph a second time, on other values: what Gradient differentiates."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from onnx_workbench.exec.engine.operations import Library
from onnx_workbench.exec.engine.plan import MISSING, Plan, Step
from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.context import Context, Region, RegionNode, RuntimeValue
from onnx_workbench.exec.results.slot_map import Path


class RegionFinder:
    """Finds and runs the steps between given values and a target, in the graph that one node is in.

    `plan` is the one that is run (after an edit, plans share finders), `live` holds the values of the run going on.
    `used` says that somebody asked: the results of that node then depend on more than its inputs.
    """

    def __init__(self, plan: Plan, path: Path, library: Library) -> None:
        self.plan = plan
        self._path = path
        self._library = library
        self.live: list[RuntimeValue] | None = None
        self.run: Callable[[Step, list[RuntimeValue]], None] | None = None
        self.used = False
        self.context: Context | None = None  # of the node

    def __call__(self, given: Mapping[str, RuntimeValue], target: str) -> Region:
        """The region that makes `target` of the given values, run on them; KernelError names what is not there."""
        assert self.live is not None
        self.used = True
        plan = self.plan
        by_name = {plan.name(value): slot for (path, value), slot in plan.slots.items() if path == self._path}
        names = {slot: name for name, slot in by_name.items()}
        missing = [name for name in (*given, target) if name not in by_name]
        if missing:
            msg = f"the graph has no value named {', '.join(map(repr, missing))}; expected one that it computes"
            raise KernelError(msg)
        slots = self.live.copy()
        fixed = {by_name[name]: value for name, value in given.items()}
        slots_given = set(fixed)
        for slot, value in fixed.items():
            slots[slot] = value
        steps = self._between(slots, slots_given, by_name[target])
        assert self.run is not None
        for step in steps:
            self.run(step, slots)
        nodes = [self._node(step, names) for step in steps]
        values = {names.get(s, f"#{s}"): slots[s] for step in steps for s in (*step.ins, *step.outs) if s}
        values.update({name: slots[by_name[name]] for name in (*given, target)})
        return Region(nodes, values)

    def _between(self, slots: list[RuntimeValue], given: set[int], target: int) -> list[Step]:
        """Steps that the target depends on, up to the given slots, in run order; constants are read on the way."""
        plan = self.plan
        wanted: dict[int, Step] = {}
        pending = [target]
        while pending:
            slot = pending.pop()
            if slot in given or slot == 0:
                continue
            step = plan.producers.get(slot)
            if step is None:
                if slots[slot] is MISSING and slot in plan.constants:
                    slots[slot] = self._library.constant(plan.constants[slot])
                if slots[slot] is MISSING:
                    msg = "a value it depends on is neither given nor known; expected it among xs or zs"
                    raise KernelError(msg)
            elif step.index not in wanted:
                wanted[step.index] = step
                pending.extend(step.reads)
        return [wanted[index] for index in sorted(wanted)]

    def _node(self, step: Step, names: Mapping[int, str]) -> RegionNode:
        def name(slot: int) -> str:
            return names.get(slot, f"#{slot}") if slot else ""

        return RegionNode(
            step.node.op_type,
            step.node.domain,
            step.operation.opset,
            tuple(name(s) for s in step.ins),
            tuple(name(s) for s in step.outs),
            step.operation.attributes | {b.attribute: b for b in step.bodies},
        )
