"""Lookup of graphs, nodes and values by names from the user; errors list similar names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, TrainingInfo, Value

Named = TypeVar("Named", Node, Value)

_MOST_LISTED = 20  # names in a message


def graph_named(model: Model, name: str) -> Graph:
    """Return the main graph for "", else the first graph of this name.

    A graph is found by its own name, by that of its function (``domain::name`` or ``name``), by that of the attribute
    that holds it (``then_branch``), or, for a training graph, by ``initialization`` or ``algorithm``. ModelError lists
    the graphs.
    """
    if not name:
        return model.graph
    listed = []
    for graph in model.graphs():
        names = _names_of(graph)
        if name in names:
            return graph
        listed.append(names[-1])
    raise ModelError(f"There is no graph {name!r}", f"The model has {', '.join(listed[:_MOST_LISTED])}.")


def _names_of(graph: Graph) -> list[str]:
    """Return the names by which a graph is found, the most specific one last."""
    owner = graph.owner
    match owner:
        case Function():
            names = [owner.name, owner.title, f"{owner.domain}::{owner.title}"]
        case TrainingInfo():
            names = ["initialization" if owner.initialization is graph else "algorithm"]
        case Node():
            names = [next((a.name for a in owner.attributes.values() if graph in a.graphs), "")]
        case _:
            names = []
    return [name for name in (graph.name, *names) if name] or ["graph"]


def nodes_named(nodes: Iterable[Node], names: Sequence[str]) -> list[Node]:
    """Return the nodes of these names among `nodes`; ModelError with similar names for a missing one."""
    return named_in({node.name: node for node in nodes if node.name}, names, "node")


def all_nodes_named(models: Iterable[Model], names: Sequence[str]) -> list[Node]:
    """Return all nodes of these names in any graph of the models; ModelError for a name that no node has."""
    nodes = [node for model in models for graph in model.graphs() for node in graph.nodes]
    nodes_named(nodes, names)
    wanted = set(names)
    return [node for node in nodes if node.name in wanted]


def node_or_value_named(model: Model, name: str) -> Node | Value:
    """Return the first node of a name in any graph, else the producer of the value of that name, or the value itself.

    ModelError with similar names when there is neither.
    """
    nodes = {node.name: node for graph in model.graphs() for node in reversed(graph.nodes) if node.name}
    if name in nodes:
        return nodes[name]
    for graph in model.graphs():
        for value in graph.values():
            if value.name == name and name:
                return value if value.producer is None else value.producer
    return named_in(nodes, [name], "node")[0]


def values_named(graph: Graph, names: Sequence[str]) -> list[Value]:
    """Return the values of a graph of these names; ModelError with similar names for a missing one."""
    return named_in({value.name: value for value in graph.values()}, names, "value")


def named_in(known: Mapping[str, Named], names: Sequence[str], word: str) -> list[Named]:
    """Return the objects of these names; ModelError with similar names for a missing one. `word` is their kind."""
    missing = [name for name in names if name not in known]
    if missing:
        import difflib

        near = difflib.get_close_matches(missing[0], known, n=3)
        count = f"{len(known):,} {word}{'' if len(known) == 1 else 's'}"
        hint = f"Near it: {', '.join(near)}." if near else f"The graph has {count} with a name."
        raise ModelError(f"There is no {word} {missing[0]!r}", hint)
    return [known[name] for name in names]
