"""Which nodes call the functions of a model, and which functions nodes call."""

from __future__ import annotations

from collections.abc import Collection

from model.graph import Function, Model, Node

#: What a node calls and a function is called by: domain, operator type or name, overload.
Operator = tuple[str, str, str]


def called_by(node: Node) -> Function | None:
    """The function of its model that a node calls; None for an operator, and for a node in no model."""
    model = None if node.graph is None else node.graph.model
    return None if model is None else model.function(*node.operator)


def callers_of(model: Model, functions: Collection[Operator]) -> list[Node]:
    """The nodes that call functions of these keys, in every graph of the model. One pass over all nodes."""
    if not functions:
        return []
    return [node for graph in model.graphs() for node in graph.nodes if node.operator in functions]


def callers(model: Model) -> dict[Operator, list[Node]]:
    """The nodes that call each function of the model, by its key; none for one that nothing calls. One pass."""
    found: dict[Operator, list[Node]] = {function.key: [] for function in model.functions}
    for node in callers_of(model, found):
        found[node.operator].append(node)
    return found


def functions_used(model: Model, nodes: Collection[Node]) -> tuple[Function, ...]:
    """The functions that nodes call, and those that these call."""
    functions = {f.key: f for f in model.functions}
    wanted: dict[Operator, Function] = {}
    graphs = [g for node in nodes for body in node.bodies for g in body.walk()]
    pending = [*nodes, *(n for g in graphs for n in g.nodes)]
    while pending:
        node = pending.pop()
        key = node.operator
        if key in functions and key not in wanted:
            wanted[key] = functions[key]
            pending.extend(n for g in functions[key].body.walk() for n in g.nodes)
    return tuple(f for f in model.functions if f.key in wanted)
