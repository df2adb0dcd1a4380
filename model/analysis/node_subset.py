"""Node subsets, to which passes can be limited."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from onnx_workbench.model.analysis.call_graph import callers
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, Value
from onnx_workbench.model.ir.tensors import SparseTensor, Tensor


def part_of(nodes: Iterable[Node]) -> frozenset[Node]:
    """Return the nodes, all in their subgraphs, and the Constant nodes that only they use."""
    whole = {n for node in nodes for n in (node, *(n for b in node.bodies for g in b.walk() for n in g.nodes))}
    taken = {v for node in whole for v in node.inputs if v is not None and v.producer is not None}
    own = (v for v in taken if all(user in whole for user, _ in v.uses))
    makers = [v.producer for v in own if v.producer is not None]
    return frozenset(whole.union(n for n in makers if (n.domain, n.op_type) == ("", "Constant")))


def with_whole_functions(nodes: Collection[Node], model: Model) -> tuple[frozenset[Node], frozenset[Function]]:
    """Return the nodes with those of functions that only they call, and these functions."""
    chosen, whole = part_of(nodes), set[Function]()
    calls = callers(model)
    while True:
        more = [f for f in model.functions if f not in whole and calls[f.key] and chosen.issuperset(calls[f.key])]
        if not more:
            return chosen, frozenset(whole)
        whole.update(more)
        chosen |= part_of(node for function in more for node in function.body.nodes)


def is_made(value: Value, nodes: Collection[Node]) -> bool:
    """Return whether a value is an output of one of the nodes, or belongs to a subgraph of one."""
    is_output = value.producer in nodes
    return is_output or (value.graph is not None and value.graph.owner in nodes)


def is_used(value: Value, nodes: Collection[Node]) -> bool:
    """Return whether one of the nodes uses a value."""
    return any(user in nodes for user, _ in value.uses)


def concerns(item: object, nodes: Collection[Node]) -> bool:
    """Return whether an object is one of the nodes, a value they produce or take, or a subgraph of one."""
    match item:
        case Node():
            return item in nodes
        case Value():
            return is_made(item, nodes) or is_used(item, nodes)
        case Graph():
            return item.owner in nodes
    return False


def tensors_of(nodes: Collection[Node], values: Iterable[Value] = ()) -> frozenset[Tensor]:
    """Return the constants that nodes take, those in their attributes, and those of values; of sparse ones both
    parts.
    """
    tensors: set[Tensor] = set()
    taken = {value: None for node in nodes for value in node.inputs if value is not None} | dict.fromkeys(values)
    held = [attribute.value for node in nodes for attribute in node.attributes.values()]
    within = (content for one in held for content in (one if isinstance(one, tuple) else (one,)))
    for content in (*(value.initializer for value in taken), *within):
        if isinstance(content, Tensor):
            tensors.add(content)
        elif isinstance(content, SparseTensor):
            tensors |= {content.values, content.indices}
    return frozenset(tensors)


def roots(nodes: Iterable[Node]) -> list[Graph]:
    """Return the distinct outermost graphs of the nodes."""
    return list(dict.fromkeys(node.graph.root for node in nodes if node.graph is not None))
