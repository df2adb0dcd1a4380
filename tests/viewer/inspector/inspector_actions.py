"""Hands for tests of the inspector: find a row, open its field, write, press, choose; and a model to do it on."""

import numpy as np
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QApplication

from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.steps import InsertNode, SetGraphInputs, SetInitializer
from onnx_workbench.model.ir.attributes import make_attribute
from onnx_workbench.model.ir.graph import Graph, Model, Node, Value
from onnx_workbench.model.ir.tensors import ArrayTensor
from onnx_workbench.model.ir.types import ElementType, Shape, TensorType
from onnx_workbench.viewer.inspector.panel import InspectorPanel
from onnx_workbench.viewer.run.workspace import Workspace


def shown(qtbot, workspace):
    panel = InspectorPanel(workspace)
    qtbot.addWidget(panel)
    panel.resize(380, 900)
    with qtbot.waitExposed(panel):
        panel.show()
    return panel


def index(panel, *path):
    found = panel.tree.rows.find(*path)
    assert found.isValid(), path
    parent = found.siblingAtColumn(0).parent()
    while parent.isValid():
        panel.tree.expand(parent)
        parent = parent.parent()
    panel.tree.scrollTo(found)
    return found


def row(panel, *path):
    found = panel.tree.rows.row(panel.tree.rows.find(*path))
    assert found is not None, path
    return found


def begin(qtbot, panel, *path, column=1):
    """Double-click a cell; returns the field that opened."""
    found = index(panel, *path).siblingAtColumn(column)
    area = panel.tree.visualRect(found)
    position = area.topLeft()
    position += area.center() - area.topLeft()
    position.setX(area.left() + 12)
    qtbot.mouseClick(panel.tree.viewport(), Qt.MouseButton.LeftButton, pos=position)
    qtbot.mouseDClick(panel.tree.viewport(), Qt.MouseButton.LeftButton, pos=position)
    assert panel.tree.editor is not None, path
    return panel.tree.editor


def write(qtbot, panel, *path, text, column=1):
    """Double-click, type, Enter."""
    editor = begin(qtbot, panel, *path, column=column)
    editor.selectAll()
    qtbot.keyClick(editor, Qt.Key.Key_Delete)
    qtbot.keyClicks(editor, text)
    modifier = Qt.KeyboardModifier.ControlModifier if editor.field.lines else Qt.KeyboardModifier.NoModifier
    qtbot.keyClick(editor, Qt.Key.Key_Return, modifier)


def press(qtbot, panel, *path, title):
    """Click the button of a row."""
    found = index(panel, *path)
    for action, area in panel.tree.buttons(found):
        if action.title == title:
            qtbot.mouseClick(panel.tree.viewport(), Qt.MouseButton.LeftButton, pos=area.center())
            return
    raise AssertionError([a.title for a, _ in panel.tree.buttons(found)])


def choose(panel, *path, titles):
    """Trigger an entry of a row's context menu, through submenus."""
    menu = panel.tree.menu(index(panel, *path))
    for title in titles[:-1]:
        menu = next(a.menu() for a in menu.actions() if a.text() == title)
    action = next(a for a in menu.actions() if a.text().partition("\t")[0] == titles[-1])
    action.trigger()


def relu(workspace):
    return workspace.model.graph.nodes.first


def conv_workspace():
    """A Conv with a weight, a Cast, a Concat and a Constant."""
    graph = Graph("net")
    x = Value("x", TensorType(ElementType.FLOAT, Shape((1, 3, 8, 8))))
    flags = Value("flags", TensorType(ElementType.BOOL, Shape((2,))))
    SetGraphInputs(graph, (x, flags)).apply()
    weight = Value("w")
    SetInitializer(graph, weight, ArrayTensor(np.arange(24, dtype=np.float32).reshape(2, 3, 2, 2) - 4)).apply()
    conv = Node(
        "Conv", (x, weight), (Value("c"),), name="conv", attributes={"strides": make_attribute("strides", (1, 1))}
    )
    InsertNode(graph, conv).apply()
    cast = Node("Cast", (conv.outputs[0],), (Value("h"),), name="cast", attributes={"to": make_attribute("to", 10)})
    InsertNode(graph, cast).apply()
    concat = Node(
        "Concat", (x, conv.outputs[0]), (Value("y"),), name="cat", attributes={"axis": make_attribute("axis", 1)}
    )
    InsertNode(graph, concat).apply()
    model = Model(graph, opset=18)
    return Workspace(Document(model), title="net"), conv, cast, concat


def drag(qtbot, panel, path, onto, *, below=False, escape=False):
    """Drag a row with the left button to before another one, or behind it."""
    viewport = panel.tree.viewport()
    for place in (path, onto):
        index(panel, *place)  # scrolls there
    start = panel.tree.visualRect(panel.tree.rows.find(*path).siblingAtColumn(0)).center()
    area = panel.tree.visualRect(panel.tree.rows.find(*onto).siblingAtColumn(0))
    end = QPoint(start.x(), area.bottom() - 1 if below else area.top() + 1)
    qtbot.mousePress(viewport, Qt.MouseButton.LeftButton, pos=start)
    for step in (1, 2, 3):
        position = start + (end - start) * step / 3
        event = QMouseEvent(
            QEvent.Type.MouseMove,
            QPointF(position),
            QPointF(viewport.mapToGlobal(position)),
            Qt.MouseButton.NoButton,
            Qt.MouseButton.LeftButton,
            Qt.KeyboardModifier.NoModifier,
        )
        QApplication.sendEvent(viewport, event)
        viewport.grab()
    if escape:
        qtbot.keyClick(panel.tree, Qt.Key.Key_Escape)
    qtbot.mouseRelease(viewport, Qt.MouseButton.LeftButton, pos=end)
