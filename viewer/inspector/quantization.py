"""Rows for quantization annotations: the scale and the zero point of a value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from onnx_workbench.model.edits import properties
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.ir.graph import Graph, QuantizationAnnotation, Value
from onnx_workbench.model.text.formatting import display
from onnx_workbench.viewer.inspector.common import ValueSuggestions, act, add_row, go, many, name_of, section
from onnx_workbench.viewer.popups.connect import VisibleValues, find_value
from onnx_workbench.viewer.property_tree.rows import PropertyField, PropertyRow, RowAction
from onnx_workbench.viewer.run.workspace import Workspace

#: The parameters that ONNX defines for quantization annotations.
_KNOWN = ("SCALE_TENSOR", "ZERO_POINT_TENSOR")
_MOST_OPEN = 20


def annotations_section(workspace: Workspace, graph: Graph) -> PropertyRow:
    """Return the section of quantization annotations of a graph."""
    annotations = graph.quantization_annotations

    def add(edit: Transaction, text: str) -> None:
        added = QuantizationAnnotation(find_value(graph, text), ())
        properties.set_quantization_annotations(edit, graph, (*annotations, added))

    visible = ValueSuggestions(workspace, VisibleValues(graph))
    adding = PropertyField(
        f"Annotate a value of {name_of(graph)}", str, add, suggest=visible.suggest, hint="name of a value"
    )

    def rows() -> Sequence[PropertyRow]:
        last = add_row("Add annotation", adding)
        return many(
            len(annotations), lambda index: _annotation_row(workspace, graph, index), last, opens=lambda _index: True
        )

    return section("quantization", "Quantization annotations", len(annotations), rows, common=False)


def annotation_of(workspace: Workspace, value: Value) -> list[PropertyRow]:
    """Return the annotation of a value in its graph, if any."""
    graph = value.graph
    annotations = graph.quantization_annotations if graph is not None else ()
    index = next((i for i, annotation in enumerate(annotations) if annotation.value is value), None)
    if graph is None or index is None:
        return []
    row = section(
        "quantization",
        "Quantization",
        len(annotations[index].parameters),
        lambda: _parameter_rows(workspace, graph, index),
        common=False,
    )
    row.actions = (_removing(workspace, graph, index),)
    return [row]


def _annotation_row(workspace: Workspace, graph: Graph, index: int) -> PropertyRow:
    annotation = graph.quantization_annotations[index]
    of = name_of(annotation.value)
    row = PropertyRow(f"annotation {index}", display(annotation.value.name, 200))
    row.text = ", ".join(f"{display(n, 30)} = {display(v.name, 60)}" for n, v in annotation.parameters)
    row.children = lambda: _parameter_rows(workspace, graph, index)
    row.expanded = len(graph.quantization_annotations) <= _MOST_OPEN  # placeholder for a new one
    row.field = PropertyField(
        f"Annotate {of}",
        lambda: ", ".join(f"{n} = {v.name}" for n, v in annotation.parameters),
        lambda edit, text: _annotate(edit, graph, index, text),
        hint="SCALE_TENSOR = name, ZERO_POINT_TENSOR = name",
    )
    row.actions = (_removing(workspace, graph, index), go(workspace, annotation.value))
    return row


def _removing(workspace: Workspace, graph: Graph, index: int) -> RowAction:
    of = name_of(graph.quantization_annotations[index].value)
    removing = act(workspace, f"Remove annotation of {of}", lambda edit: _set_annotation(edit, graph, index, None))
    return RowAction("Remove", removing, "delete", "remove")


def _parameter_rows(workspace: Workspace, graph: Graph, index: int) -> list[PropertyRow]:
    """Return rows for present parameters, and empty ones for the other known parameters."""
    parameters = dict(graph.quantization_annotations[index].parameters)
    visible = ValueSuggestions(workspace, VisibleValues(graph))
    names = [*parameters, *(name for name in _KNOWN if name not in parameters)]
    return [_parameter_row(workspace, graph, index, name, parameters.get(name), visible) for name in names]


def _parameter_row(
    workspace: Workspace, graph: Graph, index: int, name: str, value: Value | None, visible: ValueSuggestions
) -> PropertyRow:
    annotation = graph.quantization_annotations[index]

    def apply(edit: Transaction, text: str) -> None:
        parameters = dict(annotation.parameters)
        if text.strip():
            parameters[name] = find_value(graph, text.strip())
        else:
            parameters.pop(name, None)
        _set_annotation(edit, graph, index, replace(annotation, parameters=tuple(parameters.items())))

    title = f"Set {display(name, 40)} of {name_of(annotation.value)}"
    row = PropertyRow(
        f"parameter {name}", display(name, 80), "none" if value is None else display(value.name, 200), middle=True
    )
    row.tip = display(name, 400)
    row.field = PropertyField(
        title, lambda: "" if value is None else value.name, apply, suggest=visible.suggest, hint="name of a value"
    )
    if value is None:
        row.style = "muted"
        return row
    row.target = value
    removing = act(workspace, title.replace("Set", "Remove", 1), lambda edit: apply(edit, ""))
    row.actions = (RowAction("Remove", removing, "delete", "remove"), go(workspace, value))
    return row


def _annotate(edit: Transaction, graph: Graph, index: int, text: str) -> None:
    parameters = []
    for part in filter(None, (p.strip() for p in text.split(","))):
        name, equals, value = (p.strip() for p in part.partition("="))
        if not equals:
            raise ModelError(f"{display(part, 60)} is not a parameter", "Write SCALE_TENSOR = name of a value.")
        parameters.append((name, find_value(graph, value)))
    annotation = replace(graph.quantization_annotations[index], parameters=tuple(parameters))
    _set_annotation(edit, graph, index, annotation)


def _set_annotation(edit: Transaction, graph: Graph, index: int, annotation: QuantizationAnnotation | None) -> None:
    have = graph.quantization_annotations
    middle = () if annotation is None else (annotation,)
    properties.set_quantization_annotations(edit, graph, (*have[:index], *middle, *have[index + 1 :]))
