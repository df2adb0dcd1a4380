"""Which nodes call the functions of a model."""

from __future__ import annotations

from collections.abc import Collection

from model.graph import Model, Node

#: What a node calls and a function is called by: domain, operator type or name, overload.
Operator = tuple[str, str, str]


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
