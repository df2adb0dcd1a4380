"""A window with a document to edit, and hands for it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import QPoint, QPointF
from PySide6.QtWidgets import QFileDialog, QWidget
from pytestqt.qtbot import QtBot

from onnx_workbench.model.history.document import Document
from onnx_workbench.model.ir.graph import Model, Node, Value
from onnx_workbench.viewer.files.document_tab import DocumentTab
from onnx_workbench.viewer.main_window import MainWindow
from onnx_workbench.viewer.run.workspace import Workspace
from tests.model import builders
from tests.viewer.background_work import wait_for_readers


class Desk:
    """A window, the document in front, and what tests do with them."""

    def __init__(self, window: MainWindow, qtbot: QtBot) -> None:
        self.window = window
        self.qtbot = qtbot

    def open(self, model: Model | str = builders.CHAIN, title: str = "test") -> DocumentTab:
        """Open a model, or ONNX text, in a tab of its own and wait until it is drawn."""
        if isinstance(model, str):
            model = builders.model(model)
        tab = DocumentTab(Workspace(Document(model), self.window.settings, title=title))
        self.window.area.add_tab(tab)
        self.settle()
        return tab

    @property
    def workspace(self) -> Workspace:
        workspace = self.window.workspace
        assert workspace is not None
        return workspace

    @property
    def document(self) -> Document:
        return self.workspace.document

    @property
    def view(self):
        assert self.window.tab is not None
        return self.window.tab.view

    def node(self, name: str) -> Node:
        return builders.node(self.document, name)

    def value(self, name: str) -> Value:
        return builders.value(self.document, name)

    def select(self, *items: object) -> None:
        self.workspace.selection.set(items)

    def run(self, action_id: str) -> None:
        """Choose an action, as from a menu."""
        self.window.actions_binding.run(action_id)

    def messages(self) -> list[str]:
        assert self.window.tab is not None
        return [message.title for message in self.window.tab.message_bar.messages]

    def settle(self) -> None:
        """Wait until what was asked for is open, and the graph is drawn as it is now."""
        self.qtbot.waitUntil(
            lambda: not self.window.files.pending and not any(t.workspace.tasks.running for t in self.window.tabs()),
        )
        self.qtbot.waitUntil(
            lambda: all(tab.view.scene is not None and not tab.view.scenes.is_busy for tab in self.window.tabs()),
        )
        wait_for_readers(self.qtbot)

    def child(self, kind: type[QWidget]):
        """The visible window or widget of a kind."""
        found = [w for w in self.window.findChildren(kind) if w.isVisible()]
        assert found, f"no {kind.__name__} is open"
        return found[-1]

    def box(self, subject: object) -> int:
        return self.view.scene.drawing.boxes_of(subject)[0]

    def point(self, x: float, y: float) -> QPoint:
        """A point of the scene, in the view."""
        return QPointF(*self.view.viewport.to_widget(x, y)).toPoint()


@pytest.fixture
def desk(window: MainWindow, qtbot: QtBot) -> Desk:
    """A window with the chain of tests.model.builders open."""
    desk = Desk(window, qtbot)
    desk.open()
    return desk


@pytest.fixture
def texts(desk: Desk) -> Callable[[], str]:
    """The model as comparable text."""
    from onnx_workbench.model.io.writer.save import to_bytes

    return lambda: to_bytes(desk.document.model).hex()


@pytest.fixture
def no_system_dialogs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody chooses a file or a folder, and nothing outside the program is opened."""
    for name in ("getOpenFileNames", "getOpenFileName", "getSaveFileName"):
        empty = [] if name.endswith("s") else ""
        monkeypatch.setattr(QFileDialog, name, lambda *_, empty=empty, **__: (empty, ""))
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda *_, **__: "")
    monkeypatch.setattr("PySide6.QtGui.QDesktopServices.openUrl", lambda _: True)
