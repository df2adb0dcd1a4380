"""Rules about a graph: names, order, definedness, constants, dead weight."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from model.checks.nodes import check_node
from model.checks.problem import Fix, Problem, error, info, warning
from model.document import Transaction
from model.edits.names import regenerate_node_names
from model.graph import Function, Graph, Model, Node, Value
from model.lookup import Lookup
from model.queries.scope import dependencies, enclosing, names_taken, node_on_cycle, run_order, unique_name
from model.steps import InsertNode, RemoveNode, SetField, SetGraphInputs, SetInitializer, Step
from model.tensors import SparseTensor, Tensor
from model.types import ElementType, Shape, TensorType

#: The IR version that introduced an element type.
_TYPE_SINCE = {
    ElementType.BFLOAT16: 4, ElementType.FLOAT8E4M3FN: 9, ElementType.FLOAT8E4M3FNUZ: 9, ElementType.FLOAT8E5M2: 9,
    ElementType.FLOAT8E5M2FNUZ: 9, ElementType.UINT4: 10, ElementType.INT4: 10, ElementType.FLOAT4E2M1: 11,
    ElementType.FLOAT8E8M0: 12, ElementType.UINT2: 13, ElementType.INT2: 13,
    ElementType.FLOAT6E2M3: 14, ElementType.FLOAT6E3M2: 14,
}  # fmt: skip


#: Nodes or values between two chances for the caller to go on with something else.
_BREATH = 64


def check_graph(graph: Graph, model: Model) -> Iterator[Problem | None]:
    """Every rule broken in a graph and its nodes, not in its bodies. Yields None now and then, for a breath."""
    yield from Lookup.prepare(graph)
    yield from _check_names(graph)
    yield from _check_order(graph)
    yield from _check_interface(graph, model)
    yield from _check_initializers(graph, model)
    imports: Mapping[str, int] = graph.opset_imports
    for count, node in enumerate(graph.nodes):
        yield from check_node(node, imports, model)
        if not count % _BREATH:
            yield None
    yield from _check_dead(graph)


def _check_names(graph: Graph) -> Iterator[Problem | None]:
    outer, known = set(enclosing(graph)) - {graph}, Lookup.of(graph)
    seen: dict[str, Value] = {}
    for count, value in enumerate(graph.values()):
        if not count % _BREATH:
            yield None
        if not value.name:
            if value.producer is None:
                yield error("value-name", "A graph input or initializer has no name", value, "Every value needs one.")
            continue
        other = seen.setdefault(value.name, value)
        if other is not value and value.is_defined and other.is_defined:
            yield error(
                "duplicate-value",
                f"Two values are named {value.name}",
                value,
                "Each name must be assigned once in a graph.",
                _rename(graph, value),
            )
        elif outer and value.is_defined and any(v.graph in outer for v in known.values(value.name)):
            yield error(
                "shadowing",
                f"{value.name} hides a value of an outer graph",
                value,
                "Names in a body must differ from those around it.",
                _rename(graph, value),
            )
    yield from _check_node_names(graph)


def _check_node_names(graph: Graph) -> Iterator[Problem | None]:
    seen: dict[str, Node] = {}
    model = graph.model
    for count, node in enumerate(graph.nodes):
        if not count % _BREATH:
            yield None
        if node.name and seen.setdefault(node.name, node) is not node:
            fix = None
            if model is not None:
                fix = Fix(
                    "Give nodes names of their own",
                    lambda edit: _discard(regenerate_node_names(edit, edit.model, only_missing=True)),
                )
            yield warning("duplicate-node", f"Two nodes are named {node.name}", node, "Node names should differ.", fix)


def _discard(_: object) -> None:
    return None


def _rename(graph: Graph, value: Value) -> Fix:
    def apply(edit: Transaction) -> None:
        edit.do(SetField(value, "name", unique_name(value.name, names_taken(graph))))

    return Fix(f"Rename the second {value.name}", apply)


def _check_order(graph: Graph) -> Iterator[Problem | None]:
    if Lookup.of(graph).is_sorted:
        return
    done: set[Node] = set()
    late: list[Node] = []
    for count, node in enumerate(graph.nodes):
        if not count % _BREATH:
            yield None
        if any(v.graph is graph and v.producer is not None and v.producer not in done for v in dependencies(node)):
            late.append(node)
        done.add(node)
    cyclic = node_on_cycle(graph) if late else None
    if cyclic is not None:
        yield error("cycle", f"{cyclic.title} depends on itself", cyclic, "A graph must have no cycles.")
        return
    for node in late:
        yield error(
            "order",
            f"{node.title} comes before what it uses",
            node,
            "Nodes must be in topological order.",
            Fix("Sort the nodes", lambda edit: sort_nodes(edit, graph)),
        )


def sort_nodes(edit: Transaction, graph: Graph) -> None:
    """Put the nodes of a graph in an order in which each comes after what it uses."""
    order = run_order(graph)
    following: Node | None = None
    for node in reversed(order):
        if node.next is not following:
            edit.do(RemoveNode(node))
            edit.do(InsertNode(graph, node, following))
        following = node


def _check_interface(graph: Graph, model: Model) -> Iterator[Problem]:
    if not graph.name and not isinstance(graph.owner, Function):
        yield error(
            "graph-name",
            "The graph has no name",
            graph,
            "A graph's name must not be empty.",
            Fix("Name the graph", lambda edit: edit.do(SetField(graph, "name", "graph"))),
        )
    if len(set(graph.inputs)) < len(graph.inputs):
        yield error("duplicate-input", "An input is listed twice", graph, "Each input must be listed once.")
    for value in graph.outputs:
        if not value.is_defined:
            yield error("undefined-output", f"Output {value.name} is not computed", value, "Nothing produces it.")
    if graph is not model.graph:
        return
    for value in (*graph.inputs, *graph.outputs):
        if value.type is None and value.initializer is None:
            yield error(
                "interface-type", f"{value.name} has no type", value, "Inputs and outputs of the main graph need one."
            )


def _check_initializers(graph: Graph, model: Model) -> Iterator[Problem | None]:
    inputs = set(graph.inputs)
    if isinstance(graph.owner, Function) and graph.initializers:
        yield error("initializer", "A function has initializers", graph, "Only graphs have them; use Constant nodes.")
    for count, value in enumerate(graph.initializers):
        if not count % _BREATH:
            yield None
        tensor = value.initializer
        if tensor is None:
            continue
        if tensor.problem:
            yield error("tensor", f"The values of {value.name} are not available", value, tensor.problem)
        yield from _check_element_type(value, tensor, model)
        if model.ir_version < 4 and value not in inputs and graph is model.graph:
            yield error(
                "initializer-input",
                f"Initializer {value.name} is not an input",
                value,
                f"IR version {model.ir_version} wants every initializer among the inputs; from 4 on it need not be.",
                Fix(f"List {value.name} as an input", partial(_list_as_input, graph=graph, value=value)),
            )
        if value.producer is not None:
            yield error("duplicate-value", f"{value.name} is an initializer and a node's output", value)
        declared = value.type
        if isinstance(declared, TensorType) and isinstance(tensor, Tensor) and not _agrees(declared, tensor):
            yield error(
                "initializer-type",
                f"{value.name} is declared {declared}",
                value,
                f"Its values are {TensorType(tensor.element_type, Shape(tuple(tensor.shape)))}.",
                Fix(f"Declare {value.name} as it is", partial(_declare, value=value, tensor=tensor)),
            )
        if not value.uses and value not in inputs:
            yield info(
                "unused-initializer",
                f"Initializer {value.name} is not used",
                value,
                f"{tensor.nbytes:,} bytes.",
                Fix(f"Remove {value.name}", partial(_do, step=SetInitializer(graph, value, None))),
            )


def _do(edit: Transaction, step: Step) -> None:
    edit.do(step)


def _list_as_input(edit: Transaction, graph: Graph, value: Value) -> None:
    tensor = value.initializer
    if value.type is None and isinstance(tensor, Tensor):
        _declare(edit, value, tensor)
    edit.do(SetGraphInputs(graph, (*graph.inputs, value)))


def _declare(edit: Transaction, value: Value, tensor: Tensor) -> None:
    edit.do(SetField(value, "type", TensorType(tensor.element_type, Shape(tuple(tensor.shape)))))


def _agrees(declared: TensorType, tensor: Tensor) -> bool:
    if declared.element_type != tensor.element_type:
        return False
    if declared.shape is None:
        return True
    dims = declared.shape.dims
    return len(dims) == len(tensor.shape) and all(
        not isinstance(d, int) or d == n for d, n in zip(dims, tensor.shape, strict=True)
    )


def _check_element_type(value: Value, tensor: Tensor | SparseTensor, model: Model) -> Iterator[Problem]:
    kind = tensor.element_type
    since = _TYPE_SINCE.get(kind) if isinstance(kind, ElementType) else None
    if since is not None and model.ir_version < since:
        assert isinstance(kind, ElementType)
        yield warning(
            "element-type-version",
            f"{value.name} is {kind.text}",
            value,
            f"That type came with IR version {since}; the model says {model.ir_version}.",
            Fix(f"Set the IR version to {since}", lambda edit: edit.do(SetField(edit.model, "ir_version", since))),
        )


def _check_dead(graph: Graph) -> Iterator[Problem | None]:
    """Nodes none of whose results reach an output of the graph."""
    if not graph.outputs:
        return
    alive = {v.producer for v in graph.outputs if v.producer is not None}
    pending = list(alive)
    while pending:
        if not len(alive) % _BREATH:
            yield None
        needed = {v.producer for v in dependencies(pending.pop()) if v.producer is not None and v.graph is graph}
        pending.extend(needed - alive)
        alive |= needed
    for node in graph.nodes:
        if node not in alive:
            yield info(
                "dead-node",
                f"{node.title} computes nothing that is used",
                node,
                "None of its outputs reaches an output of the graph.",
                Fix(f"Remove {node.title}", partial(_do, step=RemoveNode(node))),
            )
