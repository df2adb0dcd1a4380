"""Graph inputs and outputs: add, remove, reorder, and set their dimensions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from onnx_workbench.model.analysis.scoping import by_graph, is_visible, names_taken, unique_name
from onnx_workbench.model.analysis.topology import downstream
from onnx_workbench.model.edits.functions import set_signature
from onnx_workbench.model.edits.initializers import INITIALIZERS_ALONE_SINCE, initializers_to_constants
from onnx_workbench.model.edits.subgraph_interface import (
    add_body_inputs,
    add_body_outputs,
    remove_body_inputs,
    remove_body_outputs,
)
from onnx_workbench.model.edits.values import disconnect_inputs, set_type, set_types, update_sharding_names
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.history.steps import SetField, SetGraphInputs, SetGraphOutputs, SetInitializer
from onnx_workbench.model.ir.graph import Function, Graph, Node, Value
from onnx_workbench.model.ir.types import UNNAMED, Dimension, Shape, TensorType, Type
from onnx_workbench.model.progress import SILENT, Progress


def add_input(edit: Transaction, graph: Graph, name: str = "input", type: Type | None = None) -> Value:
    """Add a graph input under a free name; for a subgraph also a matching, unconnected input of its node."""
    value = Value(unique_name(name, names_taken(graph)), type)
    if isinstance(graph.owner, Node):
        add_body_inputs(edit, graph, graph.owner, [value])
    else:
        _set_inputs(edit, graph, (*graph.inputs, value))
    return value


def remove_input(edit: Transaction, graph: Graph, value: Value) -> None:
    """Remove a graph input; for a subgraph also the matching input of its node, see `model.edits.subgraph_interface`.

    ModelError while nodes use it and it has no initializer as a replacement.
    """
    remove_inputs(edit, graph, [value])


def remove_inputs(edit: Transaction, graph: Graph, values: Sequence[Value], progress: Progress = SILENT) -> None:
    """Remove graph inputs like `remove_input`; linear, where one by one would be quadratic."""
    for value in values:
        if value not in graph.inputs:
            raise ModelError(f"{value.name} is not an input of {graph.name or 'the graph'}", "", value)
        if value.uses and value.initializer is None:
            raise ModelError(
                f"Input {value.name} is used", "Disconnect it first, or give it an initializer as its constant.", value
            )
    leaving = set(values)
    if leaving and isinstance(graph.owner, Node):
        remove_body_inputs(edit, graph, graph.owner, {i for i, v in enumerate(graph.inputs) if v in leaving})
    elif leaving:
        _set_inputs(edit, graph, tuple(v for v in graph.inputs if v not in leaving))
    for value in progress.paced(values, of=len(values)):
        if value.initializer is not None and value.type == value.initializer.type:
            edit.do(SetField(value, "type", None))  # only an input must declare its type


def remove_unused_inputs(edit: Transaction, graph: Graph, progress: Progress = SILENT) -> int:
    """Remove unused inputs of a graph; returns how many. Before IR version 4 their defaults go with them."""
    unused = [value for value in graph.inputs if not value.uses]
    if edit.model.ir_version < INITIALIZERS_ALONE_SINCE:
        for value in unused:
            if value.initializer is not None:
                edit.do(SetInitializer(graph, value, None))
    remove_inputs(edit, graph, unused, progress)
    return len(unused)


def remove_values(edit: Transaction, values: Collection[Value], progress: Progress = SILENT) -> None:
    """Remove values as far as possible: their connections, constants, and entries among inputs and outputs.

    A graph output with consumers only loses its connections; once it has none, it stops being an output.
    """
    wires: dict[Node, list[int]] = {}
    feeding = set()
    for value in values:
        for user, index in value.uses:
            if isinstance(user, Node):
                wires.setdefault(user, []).append(index)
                feeding.add(value)
    for node, indices in progress.paced(wires.items(), of=len(wires)):
        disconnect_inputs(edit, node, indices)
    for graph, own in by_graph(values).items():
        for value in progress.paced(own, of=len(own)):
            if value.initializer is not None:
                edit.do(SetInitializer(graph, value, None))
        remove_outputs(edit, graph, [value for value in own if value in graph.outputs and value not in feeding])
        remove_inputs(edit, graph, [value for value in own if value in graph.inputs and value not in graph.outputs])


def add_output(edit: Transaction, graph: Graph, value: Value) -> None:
    """Make a value a graph output; for a subgraph its node gets an output too."""
    add_outputs(edit, graph, [value])


def add_outputs(edit: Transaction, graph: Graph, values: Sequence[Value]) -> None:
    """Make values graph outputs; linear, where one by one would be quadratic."""
    for value in values:
        if value in graph.outputs:
            raise ModelError(f"{value.name} is an output already", "", value)
        if not is_visible(value, graph):
            raise ModelError(
                f"{value.name} is not visible here", "A graph returns values of its own or around it.", value
            )
    if values and isinstance(graph.owner, Node):
        add_body_outputs(edit, graph, graph.owner, dict.fromkeys(values))
    elif values:
        _set_outputs(edit, graph, (*graph.outputs, *dict.fromkeys(values)))


def remove_output(edit: Transaction, graph: Graph, value: Value) -> None:
    """Remove a graph output but keep its value; for a subgraph also the matching output of its node."""
    remove_outputs(edit, graph, [value])


def remove_outputs(edit: Transaction, graph: Graph, values: Sequence[Value]) -> None:
    """Remove graph outputs but keep their values; linear, where one by one would be quadratic."""
    for value in values:
        if value not in graph.outputs:
            raise ModelError(f"{value.name} is not an output of {graph.name or 'the graph'}", "", value)
    leaving = set(values)
    if leaving and isinstance(graph.owner, Node):
        remove_body_outputs(edit, graph, graph.owner, {i for i, v in enumerate(graph.outputs) if v in leaving})
    elif leaving:
        _set_outputs(edit, graph, tuple(v for v in graph.outputs if v not in leaving))


def _set_inputs(edit: Transaction, graph: Graph, inputs: tuple[Value, ...]) -> None:
    """Set the inputs; for a function they are its signature, which its calls follow."""
    if isinstance(graph.owner, Function):
        set_signature(edit, graph.owner, inputs=inputs)
    else:
        edit.do(SetGraphInputs(graph, inputs))


def _set_outputs(edit: Transaction, graph: Graph, outputs: tuple[Value, ...]) -> None:
    if isinstance(graph.owner, Function):
        set_signature(edit, graph.owner, outputs=outputs)
    else:
        edit.do(SetGraphOutputs(graph, outputs))


def redirect_output(edit: Transaction, graph: Graph, index: int, value: Value) -> None:
    """Make an output of the graph return another value under the same name, if that value may be renamed."""
    old = graph.outputs[index]
    if value is old:
        return
    if value in graph.outputs:
        raise ModelError(f"{value.name} is an output already", "A graph returns a value once.", value)
    if not is_visible(value, graph):
        raise ModelError(f"{value.name} is not visible here", "A graph returns values of its own or around it.", value)
    edit.do(SetGraphOutputs(graph, (*graph.outputs[:index], value, *graph.outputs[index + 1 :])))
    if value.graph is graph and value.producer is not None and old.producer is not None:
        before = {old: old.name, value: value.name}
        edit.do(SetField(old, "name", unique_name(old.name, names_taken(graph))))
        edit.do(SetField(value, "name", before[old]))
        update_sharding_names(edit, before)
        if value.type is None:
            edit.do(SetField(value, "type", old.type))


def reorder_inputs(edit: Transaction, graph: Graph, order: Sequence[Value]) -> None:
    """Reorder the inputs; `order` holds exactly the present ones."""
    if len(order) != len(graph.inputs) or set(order) != set(graph.inputs):
        raise ModelError("The new order must hold every input once", f"There are {len(graph.inputs)} inputs.", graph)
    _set_inputs(edit, graph, tuple(order))


def reorder_outputs(edit: Transaction, graph: Graph, order: Sequence[Value]) -> None:
    """Reorder the outputs; `order` holds exactly the present ones."""
    if sorted(map(id, order)) != sorted(map(id, graph.outputs)):
        raise ModelError("The new order must hold every output once", f"There are {len(graph.outputs)}.", graph)
    _set_outputs(edit, graph, tuple(order))


def set_dimension(edit: Transaction, value: Value, axis: int, dimension: Dimension) -> None:
    """Set one dimension of a tensor's declared shape: a number, a symbol (dynamic axis), or None for unknown."""
    kind = value.type
    if not isinstance(kind, TensorType) or kind.shape is None:
        raise ModelError(f"{value.name} has no declared shape", "Declare its type with a shape first.", value)
    dims = kind.shape.dims
    if not -len(dims) <= axis < len(dims):
        raise ModelError(f"{value.name} has no axis {axis}", f"Its shape is {kind.shape}.", value)
    check_dimension(dimension, value)
    axis %= len(dims)
    changed = (*dims[:axis], dimension, *dims[axis + 1 :])
    set_type(edit, value, replace(kind, shape=Shape(changed, kind.shape.denotations)))


def check_dimension(dimension: Dimension, place: object = None) -> None:
    """Raise ModelError for a dimension that cannot be stored: negative, over 64 bits, or an empty symbol."""
    if isinstance(dimension, int) and not 0 <= dimension < 1 << 63:
        raise ModelError(f"{dimension} cannot be a dimension", "A dimension is 0 or more and fits 64 bits.", place)
    if isinstance(dimension, str) and not dimension.strip():
        raise ModelError("A dimension symbol is empty", "Write a name, a number, or ? for unknown.", place)


def set_batch(edit: Transaction, graph: Graph, batch: Dimension) -> int:
    """Set the batch dimension (axis 0) of all inputs and outputs of a graph, and replace its old symbol everywhere.

    Inner values that declared the old number or symbol on axis 0 follow. Inputs with an initializer, scalars, outputs
    that no input reaches and outputs that begin with another size, such as a number of detections, do not change.
    Returns the number of changed values.
    """
    check_dimension(batch, graph)
    old = {_first_dimension(v) for v in graph.required_inputs} - {None}
    changed = 0
    batched = [value for value in graph.required_inputs if _rank(value)]
    reached = downstream(batched)

    def has_batch(output: Value) -> bool:
        first = _first_dimension(output)
        return output in reached and (not old or first in {*old, None, UNNAMED})

    for value in (*batched, *(v for v in graph.outputs if v not in batched and has_batch(v))):
        if _rank(value) and _first_dimension(value) != batch:
            set_dimension(edit, value, 0, batch)
            changed += 1
    symbols = {d for d in old if isinstance(d, str)}
    changed += substitute_dimensions(edit, graph, dict.fromkeys(symbols, batch))
    for value in list(graph.declared):
        if _rank(value) and _first_dimension(value) in old and _first_dimension(value) != batch:
            set_dimension(edit, value, 0, batch)
            changed += 1
    return changed


def substitute_dimensions(edit: Transaction, graph: Graph, values: Mapping[str, Dimension]) -> int:
    """Substitute symbols in all declared shapes of the graph and its subgraphs; return the number of changed values.

    `UNNAMED` is not a symbol and stays.
    """
    changed: dict[Value, Type | None] = {}
    for level in graph.walk():
        for value in level.values():
            kind = value.type
            if not isinstance(kind, TensorType) or kind.shape is None:
                continue
            dims = tuple(values.get(d, d) if isinstance(d, str) and d != UNNAMED else d for d in kind.shape.dims)
            if dims != kind.shape.dims:
                changed[value] = replace(kind, shape=Shape(dims, kind.shape.denotations))
    set_types(edit, changed)
    return len(changed)


def _rank(value: Value) -> int:
    return value.type.shape.rank if isinstance(value.type, TensorType) and value.type.shape is not None else 0


def _first_dimension(value: Value) -> Dimension:
    kind = value.type
    if isinstance(kind, TensorType) and kind.shape is not None and kind.shape.rank:
        return kind.shape.dims[0]
    return None


def input_to_initializer_only(edit: Transaction, graph: Graph, value: Value) -> None:
    """Turn an input with a default (an initializer) into a plain constant."""
    inputs_to_initializers_only(edit, graph, [value])


def inputs_to_initializers_only(edit: Transaction, graph: Graph, values: Sequence[Value]) -> None:
    """Turn inputs with a default (an initializer) into plain constants, in bulk.

    Before IR version 4, where every initializer has to be an input, they become Constant nodes.
    """
    for value in values:
        if value.initializer is None:
            raise ModelError(f"{value.name} has no initializer", "Give it one to make it a constant.", value)
    remove_inputs(edit, graph, values)
    if edit.model.ir_version < INITIALIZERS_ALONE_SINCE:
        initializers_to_constants(edit, values)


def initializer_to_input(edit: Transaction, graph: Graph, value: Value, *, keep_default: bool = False) -> None:
    """Turn a constant into a graph input of its type; with `keep_default` its values remain as the default."""
    initializers_to_inputs(edit, graph, [value], keep_default=keep_default)


def initializers_to_inputs(
    edit: Transaction,
    graph: Graph,
    values: Sequence[Value],
    *,
    keep_default: bool = False,
    progress: Progress = SILENT,
) -> None:
    """Turn constants into graph inputs; linear, where one by one would be quadratic."""
    types: dict[Value, Type | None] = {}
    for value in values:
        if value.initializer is None:
            raise ModelError(f"{value.name} is not an initializer", "", value)
        if value.type is None:
            types[value] = value.initializer.type
    set_types(edit, types, progress)
    added = [value for value in dict.fromkeys(values) if value not in graph.inputs]
    if added and isinstance(graph.owner, Node):
        add_body_inputs(edit, graph, graph.owner, added)
    elif added:
        edit.do(SetGraphInputs(graph, (*graph.inputs, *added)))
    if not keep_default:
        for value in progress.paced(values, of=len(values)):
            edit.do(SetInitializer(graph, value, None))
