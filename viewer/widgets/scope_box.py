"""Scope of a tool: the whole model, or the selection."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QComboBox, QWidget

from onnx_workbench.model.ir.graph import Node
from onnx_workbench.model.text.formatting import plural
from onnx_workbench.viewer.document.context import DocumentContext

_PART = 1


class ScopeBox(QComboBox):
    """Offers the whole model and the last selection; `changed` signals another scope.

    Selections that a dialog makes for display are ignored: see `display_only`.
    """

    changed = Signal()

    def __init__(self, workspace: DocumentContext, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._workspace = workspace
        self._nodes: tuple[Node, ...] = ()
        self._is_display_only = False
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        self.addItems(["Whole model", ""])
        self._update_selection()
        self.currentIndexChanged.connect(lambda _: self.changed.emit())
        workspace.selection.changed.connect(self._update_selection)

    @property
    def nodes(self) -> tuple[Node, ...] | None:
        """Return the selected nodes, without those in their subgraphs; None: the whole model."""
        return self._nodes if self.currentIndex() == _PART else None

    @contextmanager
    def display_only(self) -> Iterator[None]:
        """Context in which selections are for display only."""
        self._is_display_only = True
        try:
            yield
        finally:
            self._is_display_only = False

    def _update_selection(self) -> None:
        nodes = self._workspace.selection.nodes
        if self._is_display_only or (not nodes and self._nodes):
            return
        self._nodes = nodes
        self.setItemText(_PART, f"Selection ({plural(len(nodes), 'node')})")
        if self.currentIndex() == _PART:
            self.changed.emit()
