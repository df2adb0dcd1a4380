"""Wires: connecting, disconnecting, renaming and typing values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from onnx_workbench.model import schemas
from onnx_workbench.model.analysis.scoping import is_visible, makes_cycle, needed_from, value_named
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.history.steps import InsertNode, RemoveNode, SetField, SetInput, SetInputs
from onnx_workbench.model.ir.devices import with_names
from onnx_workbench.model.ir.graph import Graph, Node, Value
from onnx_workbench.model.ir.name_index import ancestor_in, comes_before
from onnx_workbench.model.ir.types import Type
from onnx_workbench.model.progress import SILENT, Progress


def why_not_connect(node: Node, value: Value) -> str:
    """Why `value` must not feed `node`, in words; empty when it may. For refusing and for showing while dragging."""
    if node.graph is None or not is_visible(value, node.graph):
        return f"{value.name} is not visible here: a node sees values of its own graph and of the graphs around it."
    if makes_cycle(node, value):
        return f"{value.name} depends on {node.title}, so this would be a cycle."
    return ""


def type_mismatch(node: Node, index: int, value: Value, type_: Type | None = None) -> str:
    """Why `value` does not fit this input, in words; empty when it does or nobody knows.

    `type_` is what the value is known to be; without it what is declared counts.
    """
    graph, known = node.graph, type_ or value.type
    if graph is None or known is None:
        return ""
    schema = schemas.find(node.op_type, graph.opset_imports.get(node.domain, 1), node.domain)
    parameter = schema.input(index) if schema is not None else None
    if parameter is None or parameter.allows(known):
        return ""
    return f"{node.op_type} takes {', '.join(sorted(parameter.types))} here; {value.name} is {known}."


def connect(edit: Transaction, node: Node, index: int, value: Value) -> None:
    """Connect input `index` of a node to a value, growing the list where the operator takes more inputs.

    Refuses cycles and values the node cannot see. Nodes are moved where the file's order would be broken.
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
    schema = schemas.find(node.op_type, node.graph.opset_imports.get(node.domain, 1), node.domain)
    if schema is not None and schema.is_signature_known and index >= schema.max_inputs:
        raise ModelError(
            f"{node.title} has no input {index}", f"{node.op_type} takes at most {schema.max_inputs} inputs.", node
        )


def disconnect(edit: Transaction, node: Node, index: int) -> None:
    """Leave an input out; one of a variadic list, or a trailing one, goes away altogether."""
    disconnect_inputs(edit, node, [index])


def disconnect_inputs(edit: Transaction, node: Node, indices: Iterable[int]) -> None:
    """Leave inputs of a node out, as `disconnect` does, which for very many costs much less than one by one."""
    assert node.graph is not None
    schema = schemas.find(node.op_type, node.graph.opset_imports.get(node.domain, 1), node.domain)
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
    """Keep the file's order legal after `node` came to use `value`: move the producer and what it needs before it."""
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
    """Change a value's name; every use follows by itself, texts that name it (bindings, sharding) are adapted."""
    old, graph = value.name, value.graph
    if name == old:
        return
    if not name:
        raise ModelError("A value needs a name", "An empty name means that an optional value is left out.", value)
    if graph is not None:
        other = value_named(graph, name)
        if other is not None:
            raise ModelError(
                f"There is a value named {name} already",
                f"{_where(other)} has it; a name stands for one value in a graph and its bodies.",
                other,
            )
    edit.do(SetField(value, "name", name))
    follow_names(edit, {value: old})


def _where(value: Value) -> str:
    if value.producer is not None:
        return f"An output of {value.producer.title}"
    return "An initializer" if value.initializer is not None else "A graph input"


def follow_names(edit: Transaction, before: Mapping[Value, str]) -> None:
    """Adapt the texts that name values (bindings, sharding) after they were renamed; `before` is what they were called.

    All at once, for values may take each other's names. Costs the number of values and of their uses.
    """
    follow_in_sharding(edit, before)
    _follow_in_bindings(edit, before)


def follow_in_sharding(edit: Transaction, before: Mapping[Value, str]) -> None:
    """Let nodes say by the new names how their inputs and outputs are spread over devices."""
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


def _follow_in_bindings(edit: Transaction, before: Mapping[Value, str]) -> None:
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
    """Declare a value's type, or (None) take the declaration back."""
    set_types(edit, {value: type})


def set_types(edit: Transaction, types: Mapping[Value, Type | None], progress: Progress = SILENT) -> None:
    """Declare the types of many values; costs no more than looking at each list of declarations once."""
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
