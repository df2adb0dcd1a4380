"""Call graph: which nodes call the functions of a model, and which nodes contain a part of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from onnx_workbench.model.analysis.reachable import reachable
from onnx_workbench.model.analysis.scoping import enclosing
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, Value
from onnx_workbench.model.progress import SILENT, Progress

#: Key of a function: domain, operator type or name, overload.
Operator = tuple[str, str, str]


def called_by(node: Node) -> Function | None:
    """Return the model function that a node calls; None for an operator, and for a node in no model."""
    model = None if node.graph is None else node.graph.model
    return None if model is None else model.function(*node.operator)


def callers_of(model: Model, functions: Collection[Operator]) -> list[Node]:
    """Return the nodes that call functions of these keys, in every graph of the model. One pass over all nodes."""
    if not functions:
        return []
    return [node for graph in model.graphs() for node in graph.nodes if node.operator in functions]


def callers(model: Model) -> dict[Operator, list[Node]]:
    """Return the callers of each function of the model, by its key; empty for uncalled ones. One pass."""
    calls: dict[Operator, list[Node]] = {function.key: [] for function in model.functions}
    for node in callers_of(model, calls):
        calls[node.operator].append(node)
    return calls


def operators_in(model: Model, progress: Progress = SILENT) -> dict[Operator, Counter[Operator]]:
    """Return the operators that each function of a model calls, by its key, with their number. One pass."""
    return {
        function.key: Counter(
            node.operator for graph in function.body.walk(progress) for node in progress.paced(graph.nodes)
        )
        for function in reversed(model.functions)  # of several with one key the first is what nodes call
    }


def expanded_sizes(contents: Mapping[Operator, Counter[Operator]]) -> dict[Operator, tuple[int, int]]:
    """Return, for each function, the number of calls and of new nodes when one call of it is inlined, nested ones
    included.

    `contents` are the operators in each function. Functions that call themselves, and those that call them, are left
    out. Linear in the number of operators, as nothing is inlined.
    """
    waiting = {key: len(found.keys() & contents.keys()) for key, found in contents.items()}  # callees of unknown size
    callers: dict[Operator, list[Operator]] = {key: [] for key in contents}
    for key, found in contents.items():
        for callee in found.keys() & contents.keys():
            callers[callee].append(key)
    sizes: dict[Operator, tuple[int, int]] = {}
    ready = [key for key, count in waiting.items() if not count]
    while ready:
        key = ready.pop()
        inner = [(count, *sizes[callee]) for callee, count in contents[key].items() if callee in contents]
        calls = 1 + sum(count * calls for count, calls, _ in inner)
        sizes[key] = calls, contents[key].total() + sum(count * (made - 1) for count, _, made in inner)
        for caller in callers[key]:
            waiting[caller] -= 1
            if not waiting[caller]:
                ready.append(caller)
    return sizes


def holders(model: Model, places: Iterable[object]) -> list[Node]:
    """Return the nodes whose subgraphs or called functions contain some parts of the model, at any depth.

    Linear in their number, plus one pass over all nodes for parts of functions.
    """
    owners: dict[Node, None] = {}
    calls: dict[Operator, list[Node]] | None = None
    pending = dict.fromkeys(map(_graph_of, places))  # very many parts are in few graphs
    while pending:
        graph, _ = pending.popitem()
        for around in () if graph is None else enclosing(graph):
            owner = around.owner
            if isinstance(owner, Node):
                owners[owner] = None
            elif isinstance(owner, Function) and model.function(*owner.key) is owner:
                calls = callers(model) if calls is None else calls
                new = [call for call in calls[owner.key] if call not in owners]
                owners.update(dict.fromkeys(new))
                pending.update(dict.fromkeys(map(_graph_of, new)))
    return list(owners)


def _graph_of(part: object) -> Graph | None:
    """Return the graph that a part of a model is or is in; None for the model itself."""
    match part:
        case Node() | Value():
            return part.graph
        case Graph():
            return part
        case Function():
            return part.body
    return None


def functions_used(model: Model, nodes: Collection[Node]) -> tuple[Function, ...]:
    """Return the functions that nodes call, directly or indirectly."""

    def called(graphs: Iterable[Graph]) -> list[Function | None]:
        return [model.function(*node.operator) for graph in graphs for node in graph.nodes]

    inner = called(graph for node in nodes for body in node.bodies for graph in body.walk())
    first = [f for f in (*(model.function(*node.operator) for node in nodes), *inner) if f is not None]
    wanted = reachable(first, lambda function: called(function.body.walk()))
    return tuple(f for f in model.functions if f in wanted)
