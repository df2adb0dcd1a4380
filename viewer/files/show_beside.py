"""Start comparing two open documents in one tab."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnx_workbench.viewer.files.document_area import DocumentArea
    from onnx_workbench.viewer.files.document_tab import DocumentTab


def show_beside(area: DocumentArea, other: DocumentTab, tab: DocumentTab) -> None:
    """Compare a document with another one, side by side, with the list of differences."""
    from onnx_workbench.viewer.compare.model_comparison import ModelComparison
    from onnx_workbench.viewer.files.side_by_side import SideBySide

    if tab not in area.tabs() or other not in area.tabs():
        return  # one was closed while the other was read
    comparing = ModelComparison(other.workspace, tab.workspace)
    area.show_beside(SideBySide(other, tab, comparing))
    tab.workspace.trigger("panel.differences")
