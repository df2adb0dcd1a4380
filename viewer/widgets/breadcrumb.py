"""The line above the graph that says where one is: model › graph › node › body. Each part goes there."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QLabel, QSizePolicy, QToolButton, QWidget

from model.graph import Function, Graph, TrainingInfo
from viewer.places import name_of, path_to
from viewer.selection import Item
from viewer.text import display
from viewer.workspace import Workspace

_KINDS = {Function: "function", TrainingInfo: "training"}


class Breadcrumb(QWidget):
    """Parts are buttons; the last one, the graph shown, selects the graph itself."""

    def __init__(self, workspace: Workspace, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._workspace = workspace
        self._layout = QHBoxLayout(self)
        self._layout.setContentsMargins(8, 2, 8, 2)
        self._layout.setSpacing(2)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        workspace.graph_shown.connect(self.refresh)
        workspace.changes.changed.connect(self.refresh)
        workspace.changes.state_changed.connect(self.refresh)
        self._parts: list[tuple[str, Item]] = []
        self.refresh()

    @property
    def parts(self) -> list[tuple[str, Item]]:
        """The texts and the objects they stand for, from the model inwards."""
        return list(self._parts)

    def refresh(self, *_: object) -> None:
        """Show where the workspace is now."""
        parts = self._path()
        if parts == self._parts:
            return
        self._parts = parts
        while (child := self._layout.takeAt(0)) is not None:
            widget = child.widget()
            if widget is not None:
                widget.deleteLater()
        for index, (text, item) in enumerate(parts):
            if index:
                self._layout.addWidget(_separator())
            self._layout.addWidget(self._button(text, item, last=index == len(parts) - 1))
        self._layout.addStretch(1)

    def _path(self) -> list[tuple[str, Item]]:
        workspace = self._workspace
        graph = workspace.graph
        parts: list[tuple[str, Item]] = [(display(workspace.title, 40), workspace.model)]
        owner = graph.root.owner
        kind = _KINDS.get(type(owner), "")
        for step in path_to(graph):
            name = name_of(step)
            parts.append((f"{kind} {name}" if kind and step is graph.root else name, step))
        return parts

    def _button(self, text: str, item: Item, *, last: bool) -> QToolButton:
        button = QToolButton()
        button.setText(text.replace("&", "&&"))
        button.setAutoRaise(True)
        button.setAccessibleName(f"Go to {text}")
        button.setToolTip(name_of(item) if isinstance(item, Graph) else "")
        if last:
            font = button.font()
            font.setBold(True)
            button.setFont(font)
        button.clicked.connect(partial(self._go, item))
        return button

    def _go(self, item: Item) -> None:
        if isinstance(item, Graph):
            self._workspace.show(item)
            self._workspace.selection.set([item])
        else:
            self._workspace.reveal(item)


def _separator() -> QLabel:
    label = QLabel("›")
    label.setAlignment(Qt.AlignmentFlag.AlignCenter)
    label.setForegroundRole(label.palette().ColorRole.PlaceholderText)
    return label
