"""Breadcrumb above the graph: model › graph › node › subgraph › group. A click on a part shows it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QLabel, QSizePolicy, QToolButton, QWidget

from onnx_workbench.model.analysis.name_scopes import Scope
from onnx_workbench.model.ir.graph import Function, Graph, TrainingInfo
from onnx_workbench.model.text.formatting import display
from onnx_workbench.viewer.document.context import DocumentContext
from onnx_workbench.viewer.document.selection import Item
from onnx_workbench.viewer.style.labels import name_of, path_to
from onnx_workbench.viewer.style.tooltips import plain_tip
from onnx_workbench.viewer.widgets.flow_layout import clear_layout

_Target = Item | Scope
_KINDS = {Function: "function", TrainingInfo: "training"}


class Breadcrumb(QWidget):
    """Parts are buttons. The shown graph is emphasized; after it come the groups around the selection."""

    def __init__(self, workspace: DocumentContext, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._workspace = workspace
        self._layout = QHBoxLayout(self)
        self._layout.setContentsMargins(8, 2, 8, 2)
        self._layout.setSpacing(2)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        workspace.navigation.graph_shown.connect(self.refresh)
        workspace.changes.changed.connect(self.refresh)
        workspace.changes.state_changed.connect(self.refresh)
        self._parts: list[tuple[str, _Target]] = []
        self._frames: list[tuple[str, _Target]] = []
        self.refresh()

    @property
    def parts(self) -> list[tuple[str, _Target]]:
        """Return texts and objects, from the model inwards."""
        return list(self._parts)

    def set_frames(self, frames: Sequence[tuple[str, _Target]]) -> None:
        """Set the expanded groups around the selection, outermost first."""
        self._frames = list(frames)
        self.refresh()

    def refresh(self, *_: object) -> None:
        """Update from the workspace."""
        parts = self._path()
        if parts == self._parts:
            return
        self._parts = parts
        clear_layout(self._layout)
        for index, (text, item) in enumerate(parts):
            if index:
                self._layout.addWidget(_separator())
            self._layout.addWidget(self._button(text, item, is_shown=item is self._workspace.graph))
        self._layout.addStretch(1)

    def _path(self) -> list[tuple[str, _Target]]:
        workspace = self._workspace
        graph = workspace.graph
        parts: list[tuple[str, _Target]] = [(display(workspace.title, 40), workspace.model)]
        owner = graph.root.owner
        kind = _KINDS.get(type(owner), "")
        for step in path_to(graph):
            name = name_of(step)
            parts.append((f"{kind} {name}" if kind and step is graph.root else name, step))
        return parts + self._frames

    def _button(self, text: str, item: _Target, *, is_shown: bool) -> QToolButton:
        button = QToolButton()
        button.setText(text.replace("&", "&&"))
        button.setAutoRaise(True)
        button.setAccessibleName(f"Go to {text}")
        button.setToolTip(plain_tip(name_of(item)) if isinstance(item, Graph) else "")
        if is_shown:
            font = button.font()
            font.setBold(True)
            button.setFont(font)
        button.clicked.connect(partial(self._go, item))
        return button

    def _go(self, item: _Target) -> None:
        if isinstance(item, Scope):
            self._workspace.navigation.reveal_all(list(item.all_nodes()))
        elif isinstance(item, Graph):
            self._workspace.navigation.show(item)
            self._workspace.selection.set([item])
        else:
            self._workspace.navigation.reveal(item)


def _separator() -> QLabel:
    label = QLabel("›")
    label.setAlignment(Qt.AlignmentFlag.AlignCenter)
    label.setForegroundRole(label.palette().ColorRole.PlaceholderText)
    return label
