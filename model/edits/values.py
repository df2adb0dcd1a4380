"""Values and edges: connect, disconnect, rename and declare types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from onnx_workbench.model.analysis.scoping import is_visible, makes_cycle, needed_from, value_named
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.history.steps import InsertNode, RemoveNode, SetField, SetInput, SetInputs
from onnx_workbench.model.ir.devices import with_names
from onnx_workbench.model.ir.graph import Graph, Node, Value
from onnx_workbench.model.ir.name_index import ancestor_in, comes_before
from onnx_workbench.model.ir.types import Type
from onnx_workbench.model.progress import SILENT, Progress
from onnx_workbench.model.schemas.defaults import schema_of


def why_not_connect(node: Node, value: Value) -> str:
    """Return the reason why `value` must not feed `node`; empty if it may. For errors and for feedback while
    dragging.
    """
    if node.graph is None or not is_visible(value, node.graph):
        return f"{value.name} is not visible here: a node sees values of its own graph and of the graphs around it."
    if makes_cycle(node, value):
        return f"{value.name} depends on {node.title}, so this would be a cycle."
    return ""


def connect(edit: Transaction, node: Node, index: int, value: Value) -> None:
    """Connect a value to input `index` of a node, extending a variadic input list if needed.

    ModelError for cycles and values out of scope. Nodes are moved where the topological order would be violated.
    """
    reason = why_not_connect(node, value)
    if reason:
        raise ModelError(f"{value.name} cannot be connected to {node.title}", reason, node)
    count = len(node.inputs)
    if index < count:
        edit.do(SetInput(node, index, value))
    else:
        _require_room(node, index)
        edit.do(SetInputs(node, (*node.inputs, *([None] * (index - count)), value)))
    ensure_order(edit, value, node)


def _require_room(node: Node, index: int) -> None:
    assert node.graph is not None
    schema = schema_of(node)
    if schema is not None and schema.is_signature_known and index >= schema.max_inputs:
        raise ModelError(
            f"{node.title} has no input {index}", f"{node.op_type} takes at most {schema.max_inputs} inputs.", node
        )


def disconnect(edit: Transaction, node: Node, index: int) -> None:
    """Disconnect an input; one of a variadic list, or a trailing one, is removed from the list."""
    disconnect_inputs(edit, node, [index])


def disconnect_inputs(edit: Transaction, node: Node, indices: Iterable[int]) -> None:
    """Disconnect inputs of a node like `disconnect`; linear, where one by one would be quadratic."""
    assert node.graph is not None
    schema = schema_of(node)
    parameters = {index: schema.input(index) if schema is not None else None for index in indices}
    listed = {index for index, parameter in parameters.items() if parameter and parameter.option == "variadic"}
    inputs = enumerate(node.inputs)
    remaining = [None if index in parameters else value for index, value in inputs if index not in listed]
    if len(listed) < len(parameters):
        fewest = schema.min_inputs if schema is not None else 0
        while len(remaining) > fewest and remaining[-1] is None:
            remaining.pop()
    edit.do(SetInputs(node, tuple(remaining)))


def ensure_order(edit: Transaction, value: Value, node: Node) -> None:
    """Restore the topological order after `node` started to use `value`: move its producers before it."""
    producer, graph = value.producer, value.graph
    if producer is None or graph is None:
        return
    anchor = ancestor_in(node, graph)
    if anchor is None or anchor is producer or comes_before(producer, anchor):
        return
    moving = sorted(needed_from(producer, anchor) - {anchor}, key=graph.nodes.place)
    for moved in moving:
        edit.do(RemoveNode(moved))
        edit.do(InsertNode(graph, moved, anchor))


def rename_value(edit: Transaction, value: Value, name: str) -> None:
    """Rename a value; uses follow, and texts that name it (bindings, sharding) are updated."""
    old, graph = value.name, value.graph
    if name == old:
        return
    if not name:
        raise ModelError("A value needs a name", "An empty name means that an optional value is left out.", value)
    if graph is not None:
        other = value_named(graph, name)
        if other is not None:
            raise ModelError(
                f"A value named {name} already exists",
                f"{_where(other)} has it; names are unique in a graph and its bodies.",
                other,
            )
    edit.do(SetField(value, "name", name))
    update_name_references(edit, {value: old})


def _where(value: Value) -> str:
    if value.producer is not None:
        return f"An output of {value.producer.title}"
    return "An initializer" if value.initializer is not None else "A graph input"


def update_name_references(edit: Transaction, before: Mapping[Value, str]) -> None:
    """Update texts that name values (bindings, sharding) after renames; `before` maps values to their old names.

    In one call, because values may swap names. Linear in the number of values and of their uses.
    """
    update_sharding_names(edit, before)
    _update_binding_names(edit, before)


def update_sharding_names(edit: Transaction, before: Mapping[Value, str]) -> None:
    """Update the names in the shardings of nodes."""
    renamed: dict[Node, dict[str, str]] = {}
    for value, old in before.items():
        users = (user for user, _ in value.uses if isinstance(user, Node))
        for node in (*users, value.producer):
            if node is not None and node.device_configurations:
                renamed.setdefault(node, {})[old] = value.name
    for node, names in renamed.items():
        configurations = with_names(node.device_configurations, names)
        if configurations != node.device_configurations:
            edit.do(SetField(node, "device_configurations", configurations))


def _update_binding_names(edit: Transaction, before: Mapping[Value, str]) -> None:
    model = edit.model
    renamed: dict[Graph | None, dict[str, str]] = {}
    for value, old in before.items():
        renamed.setdefault(value.graph, {})[old] = value.name
    for training in model.training_info:
        keys = renamed.get(training.algorithm, {}) | renamed.get(model.graph, {})
        for field, targets in (
            ("initialization_binding", renamed.get(training.initialization, {})),
            ("update_binding", keys),
        ):
            binding: tuple[tuple[str, str], ...] = getattr(training, field)
            changed = tuple((keys.get(key, key), targets.get(target, target)) for key, target in binding)
            if changed != binding:
                edit.do(SetField(training, field, changed))


def set_type(edit: Transaction, value: Value, type: Type | None) -> None:
    """Declare a value's type, or (None) remove the declaration."""
    set_types(edit, {value: type})


def set_types(edit: Transaction, types: Mapping[Value, Type | None], progress: Progress = SILENT) -> None:
    """Declare the types of many values in one pass over each list of declarations."""
    unlisted: dict[Graph, list[Value]] = {}
    for value, type in progress.paced(types.items()):
        edit.do(SetField(value, "type", type))
        graph = value.graph
        if graph is None or type is None:
            continue
        if not (value in graph.inputs or value in graph.outputs or value in graph.declared):
            unlisted.setdefault(graph, []).append(value)
    for graph, values in unlisted.items():
        edit.do(SetField(graph, "declared", (*graph.declared, *values)))
