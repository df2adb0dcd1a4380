"""Rows that show quantization annotations: the scale and the zero point of a value; Edit Message changes them."""

from __future__ import annotations

from collections.abc import Sequence

from onnx_workbench.model.ir.graph import Graph, QuantizationAnnotation, Value
from onnx_workbench.model.text.formatting import display
from onnx_workbench.viewer.inspector.common import editing_message, go, many, section
from onnx_workbench.viewer.property_tree.rows import PropertyRow
from onnx_workbench.viewer.run.workspace import Workspace


def annotations_section(workspace: Workspace, graph: Graph) -> list[PropertyRow]:
    """Return the section of quantization annotations of a graph, if it has any."""
    annotations = graph.quantization_annotations
    if not annotations:
        return []

    def rows() -> Sequence[PropertyRow]:
        return many(
            len(annotations),
            lambda index: _annotation_row(workspace, annotations[index], index),
            opens=lambda index: bool(annotations[index].parameters),
        )

    actions = [editing_message(workspace)]
    return [section("quantization", "Quantization annotations", len(annotations), rows, actions=actions, common=False)]


def annotation_of(workspace: Workspace, value: Value) -> list[PropertyRow]:
    """Return the annotation of a value in its graph, if any."""
    annotations = value.graph.quantization_annotations if value.graph is not None else ()
    own = next((annotation for annotation in annotations if annotation.value is value), None)
    if own is None:
        return []
    rows = _parameter_rows(workspace, own)
    return [section("quantization", "Quantization", len(rows), rows, common=False)]


def _annotation_row(workspace: Workspace, annotation: QuantizationAnnotation, index: int) -> PropertyRow:
    row = PropertyRow(f"annotation {index}", display(annotation.value.name, 200))
    row.text = ", ".join(f"{display(n, 30)} = {display(v.name, 60)}" for n, v in annotation.parameters)
    row.children = _parameter_rows(workspace, annotation)
    row.actions = (go(workspace, annotation.value),)
    return row


def _parameter_rows(workspace: Workspace, annotation: QuantizationAnnotation) -> list[PropertyRow]:
    return [
        PropertyRow(
            f"parameter {name}",
            display(name, 80),
            display(value.name, 200),
            middle=True,
            target=value,
            tip=display(name, 400),
            actions=(go(workspace, value),),
        )
        for name, value in annotation.parameters
    ]
