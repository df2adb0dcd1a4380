"""Rows for a graph: interface, constants, texts; also the signature of a function, which is its body's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Literal

from onnx_workbench.model.analysis.scoping import names_taken
from onnx_workbench.model.edits import interface, properties
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, Value
from onnx_workbench.model.text.formatting import display
from onnx_workbench.model.text.types import parse_type
from onnx_workbench.viewer.inspector.common import (
    ValueSuggestions,
    add_row,
    description_row,
    go,
    many,
    metadata_section,
    movable,
    moved,
    name_of,
    removing,
    rename_field,
    section,
    show_type,
    text_field,
    text_row,
)
from onnx_workbench.viewer.inspector.initializers import initializers_section
from onnx_workbench.viewer.inspector.quantization import annotations_section
from onnx_workbench.viewer.inspector.types import value_type_field
from onnx_workbench.viewer.inspector.values import owner_text
from onnx_workbench.viewer.popups.connect import VisibleValues, find_value
from onnx_workbench.viewer.property_tree.rows import PropertyField, PropertyRow, RowAction
from onnx_workbench.viewer.run.workspace import Workspace

Side = Literal["input", "output"]

_MOST_OPERATORS = 4  # that are counted in the overview


def graph_rows(workspace: Workspace, graph: Graph) -> list[PropertyRow]:
    """Return all rows of a graph."""
    field = text_field(
        f"Rename {name_of(graph)}", graph.name, lambda edit, text: properties.set_text(edit, graph, "name", text)
    )
    belongs = PropertyRow("owner", "Location", owner_text(graph), common=False)
    if isinstance(graph.owner, (Node, Function)):
        owner = graph.owner
        belongs.actions = (go(workspace, owner),)
    return [
        text_row("name", "Name", graph.name, field, common=False, middle=True),
        belongs,
        PropertyRow("nodes", "Nodes", f"{len(graph.nodes):,}", common=False),
        *_overview(workspace, graph),
        ports_section(workspace, graph, "input"),
        ports_section(workspace, graph, "output"),
        initializers_section(workspace, graph),
        *annotations_section(workspace, graph),
        description_row(graph),
        metadata_section(workspace, graph),
    ]


def _overview(workspace: Workspace, graph: Graph) -> list[PropertyRow]:
    """Return rows of what kind of model this is, for its main graph: it is what shows when a file opens."""
    model = graph.owner
    if not isinstance(model, Model):
        return []
    opsets = [f"{domain} {version}".strip() for domain, version in model.opset_imports.items()]
    made_by = f"{model.producer_name} {model.producer_version}".strip()
    versions = " · ".join([f"IR {model.ir_version}", *([f"opset {', '.join(opsets)}"] if opsets else [])])
    counts = Counter(map(attrgetter("op_type"), graph.nodes)).most_common()
    most = " · ".join(f"{display(operator, 30)} {count:,}" for operator, count in counts[:_MOST_OPERATORS])
    more = f" · {len(counts) - _MOST_OPERATORS} more" if len(counts) > _MOST_OPERATORS else ""
    rows = [PropertyRow("model", "Model", versions, tip=versions, actions=(go(workspace, model),), common=False)]
    if made_by:
        rows.append(PropertyRow("producer", "Producer", display(made_by, 200), tip=display(made_by), common=False))
    return [*rows, PropertyRow("operators", "Operators", most + more, tip=most + more, common=False)]


def ports_section(workspace: Workspace, graph: Graph, side: Side) -> PropertyRow:
    """Return the section of inputs or outputs of a graph: rename, set type, move, remove and add."""
    ports = _ports(graph, side)

    def port_rows(indices: Sequence[int], *last: PropertyRow) -> Sequence[PropertyRow]:
        return many(len(indices), lambda i: _port_row(workspace, graph, side, ports, indices[i]), *last)

    required: Sequence[int] = range(len(ports))
    defaults: Sequence[int] = ()
    if side == "input" and isinstance(graph.owner, Model):  # before IR version 4 every initializer is an input
        required = [index for index, value in enumerate(ports) if value.initializer is None]
        defaults = [index for index, value in enumerate(ports) if value.initializer is not None]

    def rows() -> Sequence[PropertyRow]:
        last = [_add_port(workspace, graph, side)]
        if defaults:
            count = f"{len(defaults):,}"
            last.insert(0, PropertyRow("default inputs", "with a default", count, children=lambda: port_rows(defaults)))
        return port_rows(required, *last)

    batch: tuple[RowAction, ...] = ()
    if side == "input" and isinstance(graph.owner, Model):
        batch = (RowAction("Set batch dimension…", lambda: workspace.trigger("graph.batch")),)
    title = "Inputs" if side == "input" else "Outputs"
    expanded = len(required) <= 60
    return section(f"{side}s", title, len(required), rows, common=False, expanded=expanded, actions=batch)


def _ports(graph: Graph, side: Side) -> tuple[Value, ...]:
    return graph.inputs if side == "input" else graph.outputs


def _port_row(workspace: Workspace, graph: Graph, side: Side, ports: Sequence[Value], index: int) -> PropertyRow:
    value = ports[index]
    declared = value.type
    row = PropertyRow(f"{side} {index} {value.name}", display(value.name, 200), middle=True)
    row.tip = display(value.name, 400)
    row.target = value
    row.label_field = rename_field(value)
    row.field = value_type_field(value)
    type_ = declared or workspace.types.type_of(value)
    show_type(workspace, row, type_)
    if declared is None:
        row.mono, row.style = False, "muted"
        row.note = "inferred" if type_ is not None else ""
    if side == "input" and value.initializer is not None:
        row.note = "has a default"
    of = f"{side} {name_of(value)}"
    movable(workspace, row, f"Move {of}", index, len(ports), lambda edit, to: move_port(edit, graph, side, index, to))
    row.actions = (
        *row.actions,
        removing(workspace, f"Remove {of}", _remover(graph, side, value), f"Remove {side}"),
        go(workspace, value),
    )
    return row


def move_port(edit: Transaction, graph: Graph, side: Side, index: int, to: int) -> None:
    """Move an input or output in its list; calls of a function follow."""
    reorder = interface.reorder_inputs if side == "input" else interface.reorder_outputs
    reorder(edit, graph, moved(_ports(graph, side), index, to))


def _remover(graph: Graph, side: Side, value: Value) -> Callable[[Transaction], object]:
    remove = interface.remove_input if side == "input" else interface.remove_output
    return lambda edit: remove(edit, graph, value)


def _add_port(workspace: Workspace, graph: Graph, side: Side) -> PropertyRow:
    if side == "input":

        def add_input(edit: Transaction, text: str) -> None:
            name, colon, kind = text.partition(":")
            name = name.strip()
            if not name or name in names_taken(graph):
                raise ModelError(
                    f"A value named {display(name, 60)} already exists" if name else "An input needs a name",
                    "Write name: type, for example x: float[N,3].",
                )
            interface.add_input(edit, graph, name, parse_type(kind) if colon else None)

        field = PropertyField(f"Add input to {name_of(graph)}", str, add_input, hint="name: float[N,3]")
        return add_row("Add input", field)

    def judge(value: Value) -> str:
        return "is already an output" if value in graph.outputs else ""

    def add_output(edit: Transaction, text: str) -> None:
        workspace.types.make_output(edit, graph, find_value(graph, text))

    visible = ValueSuggestions(workspace, VisibleValues(graph), judge)
    field = PropertyField(
        f"Add output to {name_of(graph)}", str, add_output, suggest=visible.suggest, hint="name of a value"
    )
    return add_row("Add output", field)
