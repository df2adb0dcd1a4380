"""Rules about a graph: names, order, definedness, constants, dead nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain

from onnx_workbench.model.analysis.reachable import reachable
from onnx_workbench.model.analysis.scoping import (
    dependencies,
    enclosing,
    names_taken,
    node_on_cycle,
    unique_name,
)
from onnx_workbench.model.analysis.topology import downstream
from onnx_workbench.model.checks.duplicate_metadata import check_keys, check_tensor_keys
from onnx_workbench.model.checks.problem import Fix, Problem, error, info, warning
from onnx_workbench.model.checks.tensors import check_tensor
from onnx_workbench.model.checks.texts import check_texts
from onnx_workbench.model.checks.types import check_interface_types, check_type, symbols_of
from onnx_workbench.model.checks.versions import TYPE_SINCE, raise_ir_version
from onnx_workbench.model.edits.initializers import initializer_to_constant
from onnx_workbench.model.edits.names import regenerate_node_names
from onnx_workbench.model.edits.nodes import sort_nodes
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.history.steps import (
    InsertNode,
    RemoveNode,
    SetField,
    SetGraphInputs,
    SetGraphOutputs,
    SetInitializer,
)
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, QuantizationAnnotation, Value
from onnx_workbench.model.ir.name_index import NameIndex
from onnx_workbench.model.ir.tensors import SparseTensor, Tensor
from onnx_workbench.model.ir.types import ElementType, TensorType
from onnx_workbench.model.progress import Progress

_UNCOMPUTED = "Remove outputs that nothing computes"

SPARSE_SINCE = 6
_QUANTIZATION_KEYS = ("SCALE_TENSOR", "ZERO_POINT_TENSOR")

#: Why a name that is not a C identifier is only an info.
OTHER_NAMES = "The specification allows letters, digits and underscores; most programs accept other names too."

_MOST_LISTED = 8  # names in one message


def check_names(graph: Graph, outer: list[set[str]], progress: Progress) -> Iterator[Problem]:
    """Check value names: present, unique, and none of those in an outer graph (see `names_around`)."""
    seen: dict[str, Value] = {}
    for value in progress.paced(graph.values(progress)):
        if not value.name:
            if value.producer is None:
                yield error(
                    "value-name",
                    "A graph input or initializer has no name",
                    value,
                    "Every value needs one.",
                    Fix("Name it", partial(_name, graph=graph, value=value)),
                )
        elif value.is_defined and value.graph is graph:
            yield from _check_name(graph, value, seen.setdefault(value.name, value), outer)


def names_around(graph: Graph, known: dict[Graph, set[str]], progress: Progress) -> list[set[str]]:
    """Return the names of values that each enclosing graph defines or refers to; `known` keeps those of each graph."""
    levels = [level for level in enclosing(graph) if level is not graph]
    for level in levels:
        if level not in known:
            known[level] = {value.name for value in level.values(progress) if value.graph is level}
    return [known[level] for level in levels]


def _check_name(graph: Graph, value: Value, first: Value, outer: list[set[str]]) -> Iterator[Problem]:
    name = value.name
    if first is not value:
        yield error(
            "duplicate-value",
            f"Two values are named {value.name}",
            value,
            "Each name must be assigned once in a graph.",
            _rename(graph, value),
        )
    elif not name.isascii() and (broken := list(check_texts(value, "a value", (("name", name),)))):
        yield from broken
    elif any(name in names for names in outer):
        yield error(
            "shadowing",
            f"{value.name} hides a value of an outer graph",
            value,
            "Names in a body must differ from those around it.",
            _rename(graph, value),
        )


def check_node_names(graph: Graph, progress: Progress) -> Iterator[Problem]:
    """Report nodes with the same name."""
    seen: dict[str, Node] = {}
    for node in progress.paced(graph.nodes):
        if node.name and seen.setdefault(node.name, node) is not node:
            fix = None
            if graph.model is not None:
                fix = Fix(
                    "Make node names unique",
                    lambda edit: _discard(regenerate_node_names(edit, edit.model, only_missing=True)),
                )
            yield warning("duplicate-node", f"Two nodes are named {node.name}", node, "Node names should differ.", fix)


def _discard(_: object) -> None:
    return None


def _rename(graph: Graph, value: Value) -> Fix:
    def apply(edit: Transaction) -> None:
        edit.do(SetField(value, "name", unique_name(value.name, names_taken(graph))))

    return Fix(f"Rename the second {value.name}", apply)


def _name(edit: Transaction, graph: Graph, value: Value) -> None:
    wanted = "input" if value.is_input else "initializer"
    edit.do(SetField(value, "name", unique_name(wanted, names_taken(graph))))


def check_order(graph: Graph, progress: Progress) -> Iterator[Problem]:
    """Report nodes before their producers (violated topological order), or a node on a cycle."""
    if NameIndex.of(graph).is_sorted:
        return
    done: set[Node] = set()
    late: list[Node] = []
    for node in progress.paced(graph.nodes):
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
            Fix("Sort the nodes", lambda edit: _discard(sort_nodes(edit, graph))),
        )


def is_identifier(name: str) -> bool:
    """Return whether a name is empty or a C identifier, as the specification demands of all names."""
    return not name or (name.isidentifier() and name.isascii())


def check_identifiers(graph: Graph, progress: Progress) -> Iterator[Problem]:
    """Report names that are no C identifiers (nearly every exporter writes some): one info each of names and sizes."""
    names: set[str] = set()
    sizes: set[str] = set()
    things: Iterable[Value | Node] = chain(graph.values(progress), graph.nodes)
    for thing in progress.paced(things):
        if thing.graph is graph and (isinstance(thing, Node) or thing.is_defined):  # not what only bodies refer to
            if not is_identifier(thing.name):
                names.add(thing.name)
            if isinstance(thing, Value):
                sizes.update(symbol for symbol in symbols_of(thing.type) if not is_identifier(symbol))
    of, count = graph.name or "the graph", len(names)
    if names:
        message = (
            f"1 name of {of} is not a C identifier" if count == 1 else f"{count:,} names of {of} are not C identifiers"
        )
        yield info("identifier", message, graph, OTHER_NAMES)
    if sizes:
        found = sorted(sizes)
        listed = ", ".join(found[:_MOST_LISTED]) + (" …" if len(found) > _MOST_LISTED else "")
        message = f"The size {listed} is not named by a C identifier"
        if len(found) > 1:
            message = f"{len(found):,} sizes are not named by C identifiers: {listed}"
        yield info("identifier", message, graph, OTHER_NAMES)


def check_declared(graph: Graph) -> Iterator[Problem]:
    """Report values with more than one value_info. Linear in the number of declarations."""
    if len(set(graph.declared)) == len(graph.declared):
        return
    for value, count in Counter(graph.declared).items():
        if count > 1:
            yield warning(
                "duplicate-declaration",
                f"{value.name} is declared {count} times",
                value if value.is_defined else graph,
                "The value_info of a graph must list a name once; the first is taken.",
                Fix(f"Declare {value.name} once", partial(_declare_once, graph=graph)),
            )


def _declare_once(edit: Transaction, graph: Graph) -> None:
    edit.do(SetField(graph, "declared", tuple(dict.fromkeys(graph.declared))))


def check_interface(graph: Graph, model: Model, progress: Progress) -> Iterator[Problem]:
    """Check name, inputs and outputs of a graph. Linear in their number."""
    if not graph.name and not isinstance(graph.owner, Function):
        yield error(
            "graph-name",
            "The graph has no name",
            graph,
            "A graph's name must not be empty.",
            Fix("Name the graph", lambda edit: edit.do(SetField(graph, "name", "graph"))),
        )
    if isinstance(graph.owner, Function):
        yield from _check_function_body(graph)
    else:  # a function body has the name and the metadata of the function
        yield from check_keys(graph, f"Graph {graph.name}")
        if not is_identifier(graph.name):
            yield info("identifier", f"The graph's name, {graph.name}, is not a C identifier", graph, OTHER_NAMES)
    for value in progress.paced(graph.inputs):
        yield from check_keys(value, value.name)
        yield from check_type(value)
    if len(set(graph.inputs)) < len(graph.inputs):
        yield error(
            "duplicate-input",
            "An input is listed twice",
            graph,
            "Each input must be listed once.",
            Fix("List each input once", lambda edit: edit.do(SetGraphInputs(graph, tuple(dict.fromkeys(graph.inputs)))))
            if graph is model.graph
            else None,
        )
    yield from _check_outputs_computed(graph, model)
    if graph is model.graph:
        yield from check_interface_types(graph, model, progress)
    if isinstance(graph.owner, Node):
        yield from _check_given(graph) if model.ir_version >= 4 else _check_place(graph)
    if graph.quantization_annotations:
        yield from _check_annotations(graph)


def _check_outputs_computed(graph: Graph, model: Model) -> Iterator[Problem]:
    may_go = graph is model.graph and any(v.is_defined for v in graph.outputs)  # a graph needs one
    for value in graph.outputs:
        if not value.is_defined:
            yield error(
                "undefined-output",
                f"Output {value.name} is not computed",
                value,
                "A node must compute it, or it must be an input or initializer.",
                Fix(_UNCOMPUTED, partial(_drop_uncomputed, graph=graph)) if may_go else None,
            )
        elif isinstance(graph.owner, Node) and value.graph is not graph:
            yield error(
                "outer-output",
                f"Output {value.name} is a value of an outer graph",
                graph,
                "A body returns its own values: one of its nodes must compute the output.",
                Fix(f"Return a copy of {value.name}", partial(_copy_outer_outputs, graph=graph)),
            )


def _copy_outer_outputs(edit: Transaction, graph: Graph) -> None:
    """Let an Identity give each output that an outer graph has."""
    copies: dict[Value, Value] = {}
    for value in graph.outputs:
        if value.graph is not graph and value.is_defined and value not in copies:
            copy = copies[value] = Value(unique_name(value.name, names_taken(graph)), value.type)
            edit.do(InsertNode(graph, Node("Identity", (value,), (copy,))))
    edit.do(SetGraphOutputs(graph, tuple(copies.get(value, value) for value in graph.outputs)))


def _drop_uncomputed(edit: Transaction, graph: Graph) -> None:
    edit.do(SetGraphOutputs(graph, tuple(v for v in graph.outputs if v.is_defined)))


def _check_function_body(body: Graph) -> Iterator[Problem]:
    if body.initializers:
        yield error(
            "initializer",
            "A function has initializers",
            body,
            "Only graphs have them; use Constant nodes.",
            Fix("Make them Constant nodes", partial(_make_constants, graph=body)),
        )
    for value, count in Counter(body.outputs).items():
        if count > 1:
            yield error(
                "duplicate-output",
                f"The function returns {value.name} {count} times",
                body,
                "The outputs of a function must differ.",
            )


def _check_annotations(graph: Graph) -> Iterator[Problem]:
    """Check that quantization annotations refer to existing values and use the parameter names of the specification."""
    for annotation in graph.quantization_annotations:
        what = f"A quantization annotation of {annotation.value.name}"
        missing = [v.name for v in (annotation.value, *(v for _, v in annotation.parameters)) if not v.is_defined]
        if missing:
            names = ", ".join(missing)
            fix = Fix(f"Remove {names} from quantization annotations", partial(_annotate_rest, graph, annotation))
            yield warning("quantization", f"{what} refers to {names}", graph, "No value has this name.", fix)
        odd = [key for key, _ in annotation.parameters if key not in _QUANTIZATION_KEYS]
        if odd:
            expected = f"The specification defines: {', '.join(_QUANTIZATION_KEYS)}."
            yield info("quantization", f"{what} sets {', '.join(odd)}", graph, expected)


def _annotate_rest(graph: Graph, annotation: QuantizationAnnotation, edit: Transaction) -> None:
    """Remove dangling references from an annotation, or the annotation itself."""
    there = tuple((key, value) for key, value in annotation.parameters if value.is_defined)
    kept = (replace(annotation, parameters=there),) if there and annotation.value.is_defined else ()
    others = (kept if other is annotation else (other,) for other in graph.quantization_annotations)
    edit.do(SetField(graph, "quantization_annotations", tuple(chain.from_iterable(others))))


def _check_place(body: Graph) -> Iterator[Problem]:
    """Check that constants among a subgraph's inputs (IR version < 4) come after those that the operator passes."""
    is_passed = [value.initializer is None for value in body.inputs]
    if is_passed != sorted(is_passed, reverse=True):
        first = body.inputs[is_passed.index(False)]
        yield error(
            "body-initializer",
            f"{first.name} is a constant and precedes inputs of the body",
            first,
            "The first inputs of the body are passed by the node; constants must follow them.",
        )


def _check_given(body: Graph) -> Iterator[Problem]:
    """Check that no input of a subgraph has an initializer from IR version 4 on."""
    for value in body.inputs:
        if value.initializer is not None:
            yield error(
                "body-initializer",
                f"{value.name} is an input and an initializer of a body",
                value,
                "The inputs of the body are passed by the node; constants must have other names.",
            )


def _make_constants(edit: Transaction, graph: Graph) -> None:
    for value in graph.initializers:
        initializer_to_constant(edit, value)


def check_initializer(graph: Graph, value: Value, model: Model) -> Iterator[Problem]:
    """Check all rules about one initializer of a graph."""
    tensor, is_input = value.initializer, value.is_input
    if tensor is None:
        return
    yield from check_tensor(tensor, value.name, value)
    yield from _check_element_type(value, tensor, model)
    if isinstance(tensor, Tensor):
        yield from check_tensor_keys(value, tensor)
    if model.ir_version < 4 and not is_input and isinstance(graph.owner, (Model, Node)):
        yield error(
            "initializer-input",
            f"Initializer {value.name} is not an input",
            value,
            f"IR version {model.ir_version} requires every initializer to be an input; version 4 and later do not.",
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
            f"Its values are {tensor.type}.",
            Fix(f"Declare {value.name} as {tensor.type}", lambda edit: edit.do(SetField(value, "type", tensor.type))),
        )
    if not value.uses and not is_input:
        yield info(
            "unused-initializer",
            f"Initializer {value.name} is not used",
            value,
            _bytes(tensor.nbytes) if tensor.nbytes else "",  # the size of strings is not known
            Fix(f"Remove {value.name}", lambda edit: edit.do(SetInitializer(graph, value, None))),
        )


def _bytes(count: int) -> str:
    return "1 byte." if count == 1 else f"{count:,} bytes."


def _list_as_input(edit: Transaction, graph: Graph, value: Value) -> None:
    tensor = value.initializer
    if value.type is None and isinstance(tensor, Tensor):
        edit.do(SetField(value, "type", tensor.type))
    edit.do(SetGraphInputs(graph, (*graph.inputs, value)))


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
    since = TYPE_SINCE.get(kind) if isinstance(kind, ElementType) else None
    if isinstance(tensor, SparseTensor) and model.ir_version < SPARSE_SINCE:
        yield warning(
            "ir-version-contents",
            f"{value.name} is sparse",
            value,
            f"Sparse initializers require IR version {SPARSE_SINCE}; the model has {model.ir_version}.",
            raise_ir_version(SPARSE_SINCE),
        )
    if since is not None and model.ir_version < since:
        assert isinstance(kind, ElementType)
        yield warning(
            "element-type-version",
            f"{value.name} is {kind.text}",
            value,
            f"That type requires IR version {since}; the model has {model.ir_version}.",
            raise_ir_version(since),
        )


def check_dead(graph: Graph, progress: Progress) -> Iterator[Problem]:
    """Report dead nodes, of whose results none reaches an output of the graph; none in a graph without outputs."""
    if not graph.outputs:
        return
    used = chain(graph.outputs, _used_by_training(graph, progress))
    alive = dict.fromkeys(v.producer for v in used if v.producer is not None)
    alive = reachable(alive, lambda node: (v.producer for v in dependencies(node) if v.graph is graph), progress)
    for node in progress.paced(graph.nodes):
        if node not in alive:
            yield info(
                "dead-node",
                f"{node.title} is unused",
                node,
                "None of its outputs reaches an output of the graph.",
                Fix(f"Remove {node.title}", partial(_remove_dead, node=node)),
            )


def _used_by_training(graph: Graph, progress: Progress) -> Iterator[Value]:
    """Return the values of the main graph that the training algorithms use. Walks over their graphs."""
    model = graph.model
    for training in model.training_info if model is not None and graph is model.graph else ():
        for inner in training.algorithm.walk(progress) if training.algorithm is not None else ():
            used = chain(inner.outputs, chain.from_iterable(node.inputs for node in inner.nodes))
            yield from (value for value in used if value is not None and value.graph is graph)


def _remove_dead(edit: Transaction, node: Node) -> None:
    """Remove a dead node and its users, which are dead as well and would refer to undefined values."""
    graph = node.graph
    if graph is None:  # removed with one of its producers
        return
    for other in [node, *downstream([v for v in node.outputs if v is not None])]:
        if isinstance(other, Node) and other.graph is graph:
            edit.do(RemoveNode(other))
