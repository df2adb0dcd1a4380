"""Small models built by hand, and a window to use them in."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QDialog, QWidget
from pytestqt.qtbot import QtBot
from shiboken6 import isValid

from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.steps import InsertNode, SetAttribute, SetField, SetGraphInputs, SetGraphOutputs
from onnx_workbench.model.ir.attributes import Attribute, AttributeKind, make_attribute
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, TrainingInfo, Value
from onnx_workbench.model.ir.types import ElementType, Shape, TensorType
from onnx_workbench.viewer.main_window import MainWindow
from onnx_workbench.viewer.program import garbage_collection
from onnx_workbench.viewer.program.garbage_collection import Collector
from onnx_workbench.viewer.program.settings import Settings
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.style.theme import themes


def chain(*op_types: str, name: str = "chain") -> Graph:
    """A graph of one-input operators in a row, from input ``x`` to output ``y``."""
    graph = Graph(name)
    value = Value("x", TensorType(ElementType.FLOAT, Shape(("batch", 3))), graph)
    SetGraphInputs(graph, (value,)).apply()
    for index, op_type in enumerate(op_types):
        last = index == len(op_types) - 1
        output = Value("y" if last else f"v{index}", None, graph)
        InsertNode(graph, Node(op_type, (value,), (output,), name=f"{op_type}_{index}")).apply()
        value = output
    SetGraphOutputs(graph, (value,)).apply()
    return graph


def model_with_everything() -> Model:
    """Relu, an If with two bodies, a call of a function, and a training graph."""
    graph = chain("Relu", "Neg", name="main")
    bodies = {name: chain("Abs", name=name) for name in ("then_branch", "else_branch")}
    condition = Value("flag", TensorType(ElementType.BOOL, Shape()), graph)
    SetGraphInputs(graph, (*graph.inputs, condition)).apply()
    attributes = {name: Attribute(name, AttributeKind.GRAPH, body) for name, body in bodies.items()}
    branch = Node("If", (condition,), (Value("chosen", None, graph),), name="branch", attributes=attributes)
    InsertNode(graph, branch).apply()
    call = Node("Twice", (graph.outputs[0],), (Value("doubled", None, graph),), name="call", domain="local")
    InsertNode(graph, call).apply()
    model = Model(graph, opset=18)
    function = Function("Twice", "local", body=chain("Softmax", name="Twice"))
    SetField(model, "functions", (function,)).apply()
    SetField(model, "training_info", (TrainingInfo(algorithm=chain("Sub", name="step")),)).apply()
    SetAttribute(next(iter(graph.nodes)), "alpha", make_attribute("alpha", 0.5)).apply()
    return model


_PATIENCE = 120_000  # ms


class PatientBot(QtBot):
    """Waits as long as the busiest machine may take; what never comes is a failure all the same."""

    def waitUntil(self, callback: Callable[[], Any], *, timeout: int = _PATIENCE) -> None:
        """Wait until it returns something true."""
        super().waitUntil(callback, timeout=max(timeout, _PATIENCE))

    def waitSignal(self, signal: Any, *, timeout: int = _PATIENCE, **more: Any) -> Any:
        """Wait for a signal at the end of the block."""
        return super().waitSignal(signal, timeout=max(timeout, _PATIENCE), **more)

    def waitExposed(self, widget: Any, *, timeout: int = _PATIENCE) -> Any:
        """Wait at the end of the block until a widget is on the screen."""
        return super().waitExposed(widget, timeout=max(timeout, _PATIENCE))


@pytest.fixture
def qtbot(qapp: QApplication, request: pytest.FixtureRequest) -> PatientBot:
    """Instead of the one that gives up after seconds, which a busy machine needs for what an idle one does at once."""
    return PatientBot(request)


@pytest.fixture(scope="session", autouse=True)
def collector(qapp: object) -> Iterator[Collector]:
    """Garbage is collected as in the program: on a task's thread it would take Qt objects with it.

    Exempt are not open models but, for good, the million objects of pytest itself: Python would search them all each
    time a document is closed.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(garbage_collection, "exempt_objects", lambda: None)
        patch.setattr(garbage_collection, "include_objects", lambda: None)
        patch.setattr(garbage_collection, "_MOST_INCLUDED", sys.maxsize)
        patch.setattr(garbage_collection, "_MOST_SEARCHED", sys.maxsize)
        gc.collect()
        gc.freeze()
        made = Collector()
        made.start()
        yield made
        made.stop()
        gc.unfreeze()


@pytest.fixture(scope="session", autouse=True)
def clipboard_emptied(qapp: QApplication) -> Iterator[None]:
    """The platform without a screen keeps what was copied until the process ends, when Python is gone: it crashes."""
    yield
    qapp.clipboard().clear()


@pytest.fixture(autouse=True)
def no_window_left(qapp: QApplication) -> Iterator[None]:
    """A test that leaves a window on the screen names itself: the next test's clicks could land there."""
    yield
    left = [window for window in qapp.topLevelWidgets() if window.isVisible()]
    for window in left:
        window.hide()
    assert not left, f"still on the screen: {left}"


@pytest.fixture(autouse=True)
def same_theme() -> Iterator[None]:
    """A test that chose a theme leaves the usual one."""
    yield
    if themes().mode != "system":
        themes().set_mode("system")


@pytest.fixture(autouse=True)
def nothing_pressed(qapp: QApplication) -> None:
    """What the test before pressed is let go: Qt takes Shift for pressed after Ctrl+Shift+T until the next key, and the
    size of a dock for dragged while a button is down.
    """
    if QApplication.mouseButtons() != Qt.MouseButton.NoButton:
        QTest.mouseRelease(QWidget(), QApplication.mouseButtons())
    assert QApplication.mouseButtons() == Qt.MouseButton.NoButton
    if QApplication.keyboardModifiers() != Qt.KeyboardModifier.NoModifier:
        QTest.keyRelease(QWidget(), Qt.Key.Key_Shift)
    assert QApplication.keyboardModifiers() == Qt.KeyboardModifier.NoModifier


@pytest.fixture
def make_window(qtbot: QtBot) -> Iterator[Callable[..., MainWindow]]:
    """`make_window()` is a main window, painted; after the test it goes without asking for what was edited."""
    made: list[MainWindow] = []

    def make(settings: Settings | None = None, size: tuple[int, int] = (1100, 700)) -> MainWindow:
        window = MainWindow(settings or Settings())
        made.append(window)
        window.resize(*size)
        with qtbot.waitExposed(window):
            window.show()
        return window

    yield make
    for window in filter(isValid, made):  # one that the test closed is gone
        for dialog in window.findChildren(QDialog):
            dialog.hide()
        for tab in window.tabs():
            window.area.remove_tab(tab)
        window.close()
    qtbot.wait(0)


@pytest.fixture
def window(make_window: Callable[..., MainWindow]) -> MainWindow:
    """The program's window as at the first start."""
    return make_window()


@pytest.fixture
def document() -> Document:
    """A document of `model_with_everything`."""
    return Document(model_with_everything())


@pytest.fixture
def workspace(qapp: object, document: Document) -> Iterator[Workspace]:
    """A workspace around `document`, without a window."""
    workspace = Workspace(document, title="sample")
    yield workspace
    workspace.close()


@pytest.fixture
def settings(qapp: object) -> Settings:
    """Settings in this test's own folder."""
    return Settings()


@pytest.fixture
def received() -> Callable[[object], list[object]]:
    """`received(signal)` is a list that gets what the signal sends."""

    def listen(signal: object) -> list[object]:
        calls: list[object] = []
        signal.connect(lambda *arguments: calls.append(arguments[0] if arguments else None))
        return calls

    return listen


@pytest.fixture
def write_model(tmp_path: Path) -> Callable[..., Path]:
    """`write_model()` writes a chain of Relus to a file and returns its path."""

    def write(name: str = "net.onnx", nodes: int = 3, graph: str = "net") -> Path:
        names = ["x", *(f"v{i}" for i in range(nodes - 1)), "y"]
        info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["batch", 3]) for n in ("x", "y")]
        body = [helper.make_node("Relu", [names[i]], [names[i + 1]], name=f"relu_{i}") for i in range(nodes)]
        proto = helper.make_graph(body, graph, info[:1], info[1:])
        path = tmp_path / name
        onnx.save(helper.make_model(proto, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
        return path

    return write
