"""Whether a step of a recording fits the model: steps themselves trust the edits that make them."""

from __future__ import annotations

from collections.abc import Iterable

from onnx_workbench.model.history.steps import (
    InsertNode,
    MoveUses,
    RemoveNode,
    SetAttribute,
    SetGraphInputs,
    SetInitializer,
    SetInput,
    SetOutputs,
    Step,
)
from onnx_workbench.model.ir.graph import Graph, Node, Value


def why_unsound(step: Step) -> str:
    """Return why a step would break the links between objects if it were applied now; empty if it would not."""
    match step:
        case InsertNode():
            return _insertion(step.graph, step.node, step.before)
        case RemoveNode(node=node):
            return "" if node.graph is not None else f"{node.title} is in no graph"
        case SetInput(node=node, index=index):
            count = len(node.inputs)
            return "" if 0 <= index < count else f"input {index} of {node.title}, which has {count}"
        case SetAttribute(node=node, attribute=attribute, name=name, index=index):
            if attribute is not None and attribute.name != name:
                return f"the attribute {attribute.name} as {name}"
            if index is not None and index < 0:
                return f"position {index} for an attribute"
            owned = attribute is not None and any(graph.owner not in (None, node) for graph in attribute.graphs)
            return "a body that another node has" if owned else ""
        case SetOutputs(node=node, outputs=outputs):
            return _made_twice(node, outputs)
        case SetGraphInputs(graph=graph, inputs=inputs):
            foreign = next((v for v in inputs if v.producer is not None or v.graph not in (None, graph)), None)
            return "" if foreign is None else f"{foreign.name} as an input, which something else defines"
        case SetInitializer(graph=graph, value=value, index=index):
            if value.producer is not None or value.graph not in (None, graph):
                return f"{value.name} as a constant, which something else defines"
            return f"position {index} for a constant" if index is not None and index < 0 else ""
        case MoveUses():
            return _moved(step)
    return ""


def _insertion(graph: Graph, node: Node, before: Node | None) -> str:
    if node.graph is not None or before is node:
        return f"{node.title} to be inserted, which is in a graph" if before is not node else "a node before itself"
    if before is not None and before.graph is not graph:
        return f"{before.title} as the next node, which is in another graph"
    if any(graph is inner for body in node.bodies for inner in body.walk()):
        return f"{node.title} to be inserted into its own body"
    return _made_twice(node, node.outputs)


def _made_twice(node: Node, outputs: Iterable[Value | None]) -> str:
    seen: set[Value] = set()
    for value in outputs:
        if value is None:
            continue
        if value in seen or value.producer not in (None, node) or value.is_input or value.initializer is not None:
            return f"{value.name} as an output, which something else defines"
        seen.add(value)
    return ""


def _moved(step: MoveUses) -> str:
    held = set(step.source.uses)
    lost = next((use for use in step.uses if use not in held), None)
    return "" if lost is None else f"a use of {step.source.name} that does not exist"
