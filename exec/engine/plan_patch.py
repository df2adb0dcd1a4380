"""A plan after a small edit, made from the plan before it.

While a person works, an edit changes one node of thousands. If it keeps the order of the rest, only that node's
step is made anew; everything else, slots and constants included, is shared with the plan before.
"""

from __future__ import annotations

from dataclasses import replace

from onnx_workbench.exec.engine.lowering import Compiler, LoweringScope
from onnx_workbench.exec.engine.operations import NO_ENVIRONMENT, Library
from onnx_workbench.exec.engine.plan import NONE_SLOT, Plan, Step
from onnx_workbench.exec.engine.snapshot import ModelSnapshot, NodeSnapshot

#: With more nodes changed, planning anew is as quick.
MOST = 16


def patched(plan: Plan, old: ModelSnapshot, new: ModelSnapshot, library: Library, seed: int) -> Plan | None:
    """The plan of `new` made from that of `old` (same seed and same fed initializers), or None when it takes more."""
    changed = _changed(plan, old, new)
    if not changed:
        return None
    library.use(new)
    steps, producers = list(plan.steps), dict(plan.producers)
    result = replace(
        plan, steps=steps, producers=producers, names=new.names, notes=list(plan.notes), finders=list(plan.finders),
        code=[], everything=None, good=None, _guarded=[], _layout=None, _told=None, base=plan,
        changed=frozenset(changed),
    )  # fmt: skip
    for index in changed:
        step = _step(result, new, new.graph.nodes[index], index, library, seed)
        if step is None:
            return None
        gone = steps[index].context
        if gone is not None:  # a long session edits one node thousands of times
            result.finders[:] = [f for f in result.finders if f is not gone.body_runner]
        steps[index] = step
        producers.update({slot: step for slot in step.outs if slot})
    if all(steps[index].layout() == plan.steps[index].layout() for index in changed):
        result._layout = plan.layout()
    return result


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


def _simple(step: Step, old: NodeSnapshot, node: NodeSnapshot, new: ModelSnapshot) -> bool:
    if step.token or step.bodies or node.bodies or step.operation.expands:
        return False
    return old.outputs == node.outputs and (node.domain, node.op_type, node.overload) not in new.functions


def _step(plan: Plan, new: ModelSnapshot, node: NodeSnapshot, index: int, library: Library, seed: int) -> Step | None:
    """The step of a node that changed; None when it has to run at another place or has become a constant."""
    compiler = Compiler(library, new.functions, new.names, seed, new.ir_version)
    scope = LoweringScope((), NO_ENVIRONMENT, new.opset_imports, None)
    for value in (*node.inputs, *node.outputs):
        slot = plan.slots.get(((), value), NONE_SLOT)
        if value and not slot:
            return None
        scope.slots[value] = slot
    for value in node.inputs:
        producer = plan.producers.get(scope.slots[value])
        if producer is not None and producer.index >= index:
            return None
    compiler.plan = Plan([], plan.size, (), (), plan.constants, plan.tokens, {}, plan.slots, new.names)
    tokens = len(plan.tokens)
    if plan.tokens.keys() >= {scope.slots[v] for v in node.inputs}:
        return None
    compiler.node(node, scope)
    (step,) = compiler.plan.steps
    assert len(plan.tokens) == tokens
    step.index = index
    plan.notes.extend(note for note in compiler.plan.notes if note not in plan.notes)
    plan.finders.extend(compiler.plan.finders)
    return None if step.operation.expands else step
