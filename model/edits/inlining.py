"""Nodes of a graph replaced by those of a function: the part that inlining and rewriting share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from onnx_workbench.model.edits.fresh_names import FreshNames
from onnx_workbench.model.edits.nodes import import_operators
from onnx_workbench.model.history.clone import Cloner
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.history.steps import InsertNode, RemoveNode, SetOutputs
from onnx_workbench.model.ir.attributes import Attribute
from onnx_workbench.model.ir.graph import Function, Graph, Node, Value


def take_out(
    edit: Transaction, graph: Graph, nodes: Collection[Node], outputs: Collection[Value | None]
) -> Node | None:
    """Remove nodes from a graph, so that others can produce these outputs; returns the node after the last of them."""
    after = max(nodes, key=graph.nodes.place).next
    given = set(outputs)
    for node in nodes:
        edit.do(RemoveNode(node))
        if not given.isdisjoint(node.outputs):
            edit.do(SetOutputs(node, tuple(None if v in given else v for v in node.outputs)))
    return after


def insert_body(
    edit: Transaction,
    graph: Graph,
    call: Node,
    outputs: Sequence[Value | None],
    function: Function,
    before: Node | None,
    names: FreshNames,
) -> list[Node]:
    """Insert the nodes of a function, by which they get the inputs and attributes of a call that is in no graph."""
    values: dict[Value, Value | None] = dict(
        zip(function.body.inputs, (*call.inputs, *([None] * len(function.body.inputs))), strict=False)
    )
    passed_through = []
    for formal, actual in zip(function.body.outputs, outputs, strict=False):
        if actual is None:
            continue
        if formal in values:
            passed_through.append((formal, actual))
        else:
            values[formal] = actual
    cloner = Cloner(
        values,
        rename=lambda name: names.value(graph, name),
        rename_node=lambda name: names.node(graph, f"{call.title}/{name}") if name else "",
        substitute=_substitution(function, call),
    )
    for value in function.body.values():
        if value not in values and not value.is_defined:
            cloner.value(value)  # an undefined name becomes a new undefined value
    copies = cloner.nodes(function.body.nodes)
    if passed_through:
        import_operators(edit, graph)
    copies += [
        Node("Identity", (values[formal],), (actual,), name=names.node(graph, f"{call.title}/Identity"))
        for formal, actual in passed_through
    ]
    for copy in copies:
        while copy.inputs and copy.inputs[-1] is None:  # the call left it out
            copy.inputs = copy.inputs[:-1]
        edit.do(InsertNode(graph, copy, before))
    return copies


def _substitution(function: Function, call: Node) -> Callable[[Attribute], Attribute | None]:
    given: Mapping[str, Attribute] = {a.name: a for a in function.attribute_defaults} | dict(call.attributes)

    def substitute(attribute: Attribute) -> Attribute | None:
        actual = given.get(attribute.reference)
        return None if actual is None else replace(actual, name=attribute.name, source=None)

    return substitute
