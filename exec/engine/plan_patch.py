"""The plan after a small edit, made from the plan before it.

Most edits change one node of thousands. If such an edit keeps the order of the rest, only that node's step is
compiled; everything else, slots and constants included, is shared with the plan before.
"""

from __future__ import annotations

from dataclasses import replace

from onnx_workbench.exec.engine.lowering import compile_step
from onnx_workbench.exec.engine.operations import Library
from onnx_workbench.exec.engine.plan import Plan, PlanStep
from onnx_workbench.exec.engine.plan_state import PlanState
from onnx_workbench.exec.engine.snapshot import ModelSnapshot, NodeSnapshot

#: With more nodes changed, compiling all of them is as quick.
MOST = 16


def patched(state: PlanState, old: ModelSnapshot, new: ModelSnapshot, library: Library, seed: int) -> PlanState | None:
    """The plan of `new` and its state, from those of `old`, of the same seed and fed initializers.

    None when it takes more than compiling single steps.
    """
    plan = state.plan
    changed = _changed(plan, old, new)
    if not changed:
        return None
    library.use(new)
    steps = list(plan.steps)
    for index in changed:
        step = compile_step(plan, new, index, library, seed)
        if step is None:
            return None
        steps[index] = step
    return state.patched(replace(plan, steps=tuple(steps)), changed)


def _changed(plan: Plan, old: ModelSnapshot, new: ModelSnapshot) -> list[int]:
    """Indices of the nodes that changed, empty when anything else did or a node is not simple."""
    a, b = old.graph, new.graph
    same = (
        plan.straight
        and not plan.undefined
        and len(a.nodes) == len(b.nodes)
        and (a.inputs, a.outputs, a.initializers) == (b.inputs, b.outputs, b.initializers)
        and old.opset_imports == new.opset_imports
        and old.ir_version == new.ir_version
        and [f.uid for f in old.functions.values()] == [f.uid for f in new.functions.values()]
    )
    if not same:
        return []
    changed = [i for i, (x, y) in enumerate(zip(a.nodes, b.nodes, strict=True)) if x is not y and x.uid != y.uid]
    if len(changed) > MOST:
        return []
    return changed if all(_simple(plan.steps[i], a.nodes[i], b.nodes[i], new) for i in changed) else []


def _simple(step: PlanStep, old: NodeSnapshot, node: NodeSnapshot, new: ModelSnapshot) -> bool:
    if step.token or step.bodies or node.bodies or step.operation.expands:
        return False
    return old.outputs == node.outputs and (node.domain, node.op_type, node.overload) not in new.functions
