"""Row for a value's last run result: shape, non-finite elements, range; with a link to its numbers."""

from __future__ import annotations

from onnx_workbench.model.ir.graph import Value
from onnx_workbench.model.ir.types import ElementType, Shape, TensorType
from onnx_workbench.viewer.property_tree.rows import PropertyRow, RowAction
from onnx_workbench.viewer.run.views.edge_notes import summary_line
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.style.type_texts import edge_text


def run_rows(workspace: Workspace, value: Value, key: str = "run") -> list[PropertyRow]:
    """Return one row, nothing for a value without a result. The range is computed later the first time."""
    if not workspace.has_runs:
        return []
    text = _text(workspace, value)
    if not text:
        return []
    stale = workspace.results.is_stale(value)
    row = PropertyRow(key, "Computed", text, "out of date" if stale else "", mono=True, common=False, tip=text)
    row.style = "muted" if stale or workspace.results.is_awaited(value) else "normal"
    row.actions = (RowAction("Show the numbers", lambda: _open(workspace, value), "forward", "go"),)
    return [row]


def _open(workspace: Workspace, value: Value) -> None:
    workspace.selection.set([value])
    workspace.trigger("panel.tensor")


def _text(workspace: Workspace, value: Value) -> str:
    results = workspace.results
    info = None if results.value_of(value) is None else results.info_of(value)
    if info is None:
        return "not yet" if value.initializer is None and results.is_awaited(value) else ""
    if info.kind != "tensor" or not isinstance(info.element_type, ElementType):
        return str(info)
    text = edge_text(TensorType(info.element_type, Shape(info.shape)))
    summary = results.summaries.of(value)
    return text if summary is None else "  ".join(filter(None, (text, summary_line(summary, info.element_type))))
