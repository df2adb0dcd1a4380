"""Rows for a value: name, types, producer and consumers, constant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from onnx_workbench.model.edits import interface, values
from onnx_workbench.model.edits.constants import set_default_values
from onnx_workbench.model.edits.declare_types import declare
from onnx_workbench.model.ir.graph import Function, Graph, Node, TrainingInfo, Value
from onnx_workbench.model.ir.tensors import Tensor
from onnx_workbench.model.text.formatting import display
from onnx_workbench.viewer.inspector.common import (
    act,
    description_row,
    go,
    inferred_row,
    many,
    metadata_section,
    name_of,
    removing,
    rename_field,
    section,
    show_type,
    text_row,
)
from onnx_workbench.viewer.inspector.initializers import removing_initializer
from onnx_workbench.viewer.inspector.quantization import annotation_of
from onnx_workbench.viewer.inspector.run_rows import run_rows
from onnx_workbench.viewer.inspector.tensors import TensorNumbers, tensor_rows, tensor_text, tensor_texts
from onnx_workbench.viewer.inspector.types import denotation_row, value_type_field
from onnx_workbench.viewer.property_tree.rows import PropertyField, PropertyRow, RowAction
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.style.labels import first_output


def value_rows(workspace: Workspace, value: Value, numbers: TensorNumbers) -> list[PropertyRow]:
    """Return all rows of a value."""
    rows = [
        text_row("name", "Name", value.name, rename_field(value), common=False, middle=True),
        _type_row(workspace, value),
    ]
    inferred = workspace.types.type_of(value)
    if inferred is not None and inferred != value.type:
        rows.append(inferred_row(workspace, inferred, common=False))
    if value.initializer is None:
        rows += run_rows(workspace, value)
    rows += denotation_row(value)
    rows.append(_origin_row(workspace, value))
    rows.append(_role_row(workspace, value))
    if value.initializer is not None:
        rows.append(_initializer(workspace, value, numbers))
    elif value.is_input and value.graph is not None and not isinstance(value.graph.owner, (Node, Function)):
        rows.append(_default_row(value))
    rows.append(_uses(workspace, value))
    rows += annotation_of(workspace, value)
    rows += [description_row(value), metadata_section(workspace, value)]
    return rows


def _type_row(workspace: Workspace, value: Value) -> PropertyRow:
    declared = value.type
    row = PropertyRow("type", "Type", field=value_type_field(value))
    show_type(workspace, row, declared)
    inferred = workspace.types.type_of(value)
    if declared is not None and value not in (value.graph.inputs if value.graph else ()):
        title = f"Remove type of {name_of(value)}"
        remove = removing(workspace, title, lambda edit: values.set_type(edit, value, None), "Remove the declaration")
        row.actions = (remove,)
    elif declared is None and inferred is not None:
        run = act(workspace, f"Set type of {name_of(value)}", lambda edit: declare(edit, value, inferred))
        row.actions = (RowAction("Declare what was inferred", run, "add", "add"),)
    return row


def _origin_row(workspace: Workspace, value: Value) -> PropertyRow:
    producer = value.producer
    if producer is not None:
        row = PropertyRow(
            "producer", "Producer", display(producer.title, 200), producer.op_type, middle=True, common=False
        )
        row.actions = (go(workspace, producer),)
        return row
    if value.is_input:
        text = "graph input with a default" if value.initializer is not None else "graph input"
    elif value.initializer is not None:
        text = "initializer"
    else:
        return PropertyRow("producer", "Producer", "no producer", style="error", common=False)
    row = PropertyRow("producer", "Producer", text, common=False)
    if value.graph is not None:
        row.note = display(value.graph.name, 80)
        row.actions = (_to_graph(workspace, value.graph),)
    return row


def _to_graph(workspace: Workspace, graph: Graph) -> RowAction:
    return RowAction("Go to the graph", lambda: workspace.selection.set([graph]), "forward", "go")


def _role_row(workspace: Workspace, value: Value) -> PropertyRow:
    """Return a row that says whether it is an output, with conversions."""
    graph = value.graph
    row = PropertyRow("role", "Graph output", common=False)
    if graph is None:
        return row
    name = name_of(value)
    actions: list[RowAction] = []
    if value in graph.outputs:
        row.text = f"output {graph.outputs.index(value)}"
        change = partial(interface.remove_output, graph=graph, value=value)
        actions.append(removing(workspace, f"Remove output {name}", change, "Remove from outputs"))
    else:
        row.text, row.style = "no", "muted"
        run = act(workspace, f"Make {name} an output", lambda edit: workspace.types.make_output(edit, graph, value))
        actions.append(RowAction("Make it an output", run, "add", "add"))
    row.actions = (*actions, *_turning(workspace, value, graph))
    return row


def _turning(workspace: Workspace, value: Value, graph: Graph) -> Iterator[RowAction]:
    """Return conversions of a constant. Inputs of subgraphs and functions are determined by their nodes."""
    name = name_of(value)
    if value.initializer is not None and value.is_input:
        run = act(
            workspace,
            f"Make {name} a constant",
            lambda edit: interface.input_to_initializer_only(edit, graph, value),
        )
        yield RowAction("Make it a constant", run)
        return
    producer = value.producer
    is_of_node = producer is not None and producer.op_type == "Constant" and not producer.domain
    if isinstance(graph.owner, Function) or (value.initializer is None and not is_of_node):
        return
    if not isinstance(graph.owner, Node):
        yield RowAction("Make it a graph input", lambda: workspace.trigger("value.to_input"))
    if is_of_node:
        yield RowAction("Turn into initializer", lambda: workspace.trigger("node.to_initializer"))
        return
    if not isinstance(graph.owner, Node):
        keep = act(
            workspace,
            f"Make {name} an input",
            lambda edit: interface.initializer_to_input(edit, graph, value, keep_default=True),
        )
        yield RowAction("Make it a graph input with this default", keep)
    yield RowAction("Turn into Constant node", lambda: workspace.trigger("value.to_constant"))


def _default_row(value: Value) -> PropertyRow:
    """Return a row for the default of an input without one."""
    field = PropertyField(
        f"Give {name_of(value)} a default",
        str,
        lambda edit, text: set_default_values(edit, value, text),
        hint="values, or float[1,3] = 0.5",
        mono=True,
    )
    return PropertyRow("default", "Default", "none", style="muted", field=field, common=False)


def _initializer(workspace: Workspace, value: Value, numbers: TensorNumbers) -> PropertyRow:
    tensor = value.initializer
    assert tensor is not None
    opening = RowAction("Open values", lambda: workspace.trigger("panel.tensor"), "tensor", "go")
    actions = [opening] if isinstance(tensor, Tensor) else []
    if not value.uses or value.is_input:
        actions.append(removing_initializer(workspace, value))
    row = section(
        "initializer",
        "Initializer",
        0,
        lambda: [
            *tensor_rows(tensor, numbers, with_statistics=True, opening=(opening,)),
            *tensor_texts(workspace, tensor),
        ],
        expanded=True,
        actions=actions,
        common=False,
    )
    row.text = tensor_text(tensor)
    return row


def _uses(workspace: Workspace, value: Value) -> PropertyRow:
    def rows() -> Sequence[PropertyRow]:
        uses = list(value.uses)
        return many(len(uses), lambda number: _use(workspace, number, *uses[number]))

    return section("uses", "Used by", len(value.uses), rows, common=False)


def _use(workspace: Workspace, number: int, user: Node | Graph, index: int) -> PropertyRow:
    if isinstance(user, Graph):
        row = PropertyRow(f"use {number}", f"output {index}", display(user.name or "graph", 200), "graph")
        row.actions = (_to_graph(workspace, user),)
        return row
    name = display(user.name or first_output(user), 200)
    row = PropertyRow(f"use {number}", user.op_type, name, f"input {index}", middle=True)
    row.style = "normal" if user.name else "muted"
    row.target = user
    row.actions = (go(workspace, user),)
    return row


def owner_text(graph: Graph) -> str:
    """Describe the owner of a graph."""
    match graph.owner:
        case Node():
            return f"body of {display(graph.owner.title, 120)}"
        case Function():
            return f"function {display(graph.owner.name, 120)}"
        case TrainingInfo():
            return "training"
        case _:
            return "main graph"
