"""A model from nothing, made and run with mouse and keyboard alone."""

from __future__ import annotations

import onnx
import onnx.checker
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QMenu

from onnx_workbench.model.io.writer.save import to_bytes
from onnx_workbench.model.ir.graph import Model
from onnx_workbench.viewer.dialogs.new_model import NewModelDialog, new_model
from onnx_workbench.viewer.panels.outline import OutlinePanel
from onnx_workbench.viewer.popups.operator_palette import OperatorPalette, operators
from onnx_workbench.viewer.tables.two_tone import TextsRole
from tests.model import builders
from tests.viewer.editing.conftest import Desk
from tests.viewer.editing.test_wire import body, drag
from tests.viewer.pointer import hover

CONTROL, SHIFT = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.ShiftModifier


@pytest.fixture
def desk(window, qtbot):
    """A window with nothing in it."""
    activate(window, qtbot)
    return Desk(window, qtbot)


def activate(window, qtbot):
    """What a window manager does with the window that is left when a dialog closes."""
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)


def press(desk, key, modifiers=Qt.KeyboardModifier.NoModifier):
    """A key, in the window."""
    activate(desk.window, desk.qtbot)
    QTest.keyClick(desk.view, key, modifiers)


def create(desk, inputs):
    """File › New, with these inputs and no outputs."""
    QTest.keyClick(desk.window, Qt.Key.Key_N, CONTROL)
    desk.qtbot.waitUntil(lambda: any(d.isVisible() for d in desk.window.findChildren(NewModelDialog)))
    dialog = desk.child(NewModelDialog)
    desk.qtbot.waitUntil(lambda: QApplication.focusWidget() is dialog.name)
    for lines, field in ((inputs, dialog.inputs), ([], dialog.outputs)):
        desk.qtbot.mouseClick(field.viewport(), Qt.MouseButton.LeftButton)
        desk.qtbot.keyClick(field, Qt.Key.Key_A, CONTROL)
        desk.qtbot.keyClick(field, Qt.Key.Key_Delete)
        for number, line in enumerate(lines):
            if number:
                desk.qtbot.keyClick(field, Qt.Key.Key_Return)
            desk.qtbot.keyClicks(field, line)
    desk.qtbot.mouseClick(dialog.create_button, Qt.MouseButton.LeftButton)
    desk.qtbot.waitUntil(lambda: desk.window.workspace is not None)
    activate(desk.window, desk.qtbot)
    desk.settle()


def add(desk, operator):
    """Ctrl+Shift+A, what to add, Enter; returns the node."""
    before = set(desk.document.model.graph.nodes)
    press(desk, Qt.Key.Key_A, CONTROL | SHIFT)
    desk.qtbot.waitUntil(lambda: any(p.isVisible() for p in desk.window.findChildren(OperatorPalette)))
    desk.qtbot.keyClicks(QApplication.focusWidget(), operator)
    QTest.keyClick(QApplication.focusWidget(), Qt.Key.Key_Return)
    desk.settle()
    (made,) = set(desk.document.model.graph.nodes) - before
    return made


def wire(desk, start, node, port):
    """Draw from a box to a node, and choose the input in the menu that asks which is meant."""
    drag(desk, start, body(desk, node))
    desk.qtbot.waitUntil(lambda: isinstance(QApplication.activePopupWidget(), QMenu))
    menu = QApplication.activePopupWidget()
    chosen = next(action for action in menu.actions() if action.text() == port)
    desk.qtbot.mouseClick(menu, Qt.MouseButton.LeftButton, pos=menu.actionGeometry(chosen).center())
    desk.settle()


def foot(desk, value):
    """Where the wire of a graph input begins."""
    left, top, width, height = desk.view.scene.rect(desk.box(value))
    return desk.point(left + width / 2, top + height)


def click(desk, node):
    """Let go of what is selected, then choose a node."""
    desk.qtbot.mouseClick(desk.view, Qt.MouseButton.LeftButton, pos=QPoint(4, desk.view.height() - 4))
    hover(desk.view, body(desk, node))
    desk.qtbot.mouseClick(desk.view, Qt.MouseButton.LeftButton, pos=body(desk, node))


def test_a_model_from_nothing_is_legal_and_runs(desk):
    create(desk, ["a: float[2,3]", "b: float[2,3]"])
    graph = desk.document.model.graph
    a, b = graph.inputs
    desk.qtbot.mouseClick(desk.view, Qt.MouseButton.LeftButton, pos=QPoint(4, desk.view.height() - 4))
    node = add(desk, "add")
    assert node.op_type == "Add"
    wire(desk, foot(desk, a), node, "A")
    drag(desk, foot(desk, b), body(desk, node))  # one input is free: nothing is asked
    assert node.inputs == (a, b)
    click(desk, node)
    relu = add(desk, "relu")
    assert relu.inputs == node.outputs
    click(desk, relu)
    desk.qtbot.waitUntil(lambda: desk.workspace.types.type_of(relu.outputs[0]) is not None)
    press(desk, Qt.Key.Key_O, CONTROL | SHIFT)
    assert graph.outputs == relu.outputs
    desk.qtbot.waitUntil(lambda: desk.workspace.problems.finished)
    assert [problem.severity for problem in desk.workspace.problems.all] == ["info"]  # it lacks a domain
    onnx.checker.check_model(onnx.ModelProto.FromString(to_bytes(desk.document.model)), full_check=True)
    press(desk, Qt.Key.Key_F6)
    results = desk.workspace.results
    desk.qtbot.waitUntil(lambda: results.info_of(relu.outputs[0]) is not None)
    assert results.info_of(relu.outputs[0]).shape == (2, 3)


@pytest.mark.parametrize(("type_", "version"), [("float[3]", 10), ("int2[3]", 13), ("float8e8m0[3]", 12)])
def test_it_claims_the_ir_version_that_its_types_need(type_, version):
    assert new_model("m", 25, f"x: {type_}", f"y: {type_}").ir_version == version


@pytest.mark.long
def test_the_outline_shows_the_first_node(desk):
    create(desk, ["a: float[2,3]"])
    tree = desk.child(OutlinePanel).tree
    top = tree.model().index(0, 0)
    desk.qtbot.waitUntil(lambda: tree.isExpanded(top))
    add(desk, "relu")
    assert tree.model().rowCount(top) == 1
    assert tree.visualRect(tree.model().index(0, 0, top)).isValid()
    assert top.data(TextsRole)[1] == "1 node"


@pytest.mark.long
def test_an_output_without_a_type_is_declared_by_a_fix(desk):
    create(desk, ["a: float[2,3]"])
    relu = add(desk, "relu")
    drag(desk, foot(desk, desk.document.model.graph.inputs[0]), body(desk, relu))
    click(desk, relu)
    press(desk, Qt.Key.Key_O, CONTROL | SHIFT)  # before anybody knows its type
    problems = desk.workspace.problems

    def fixes():
        return [p.fix for p in problems.all if p.rule == "interface-type" and p.fix is not None]

    if relu.outputs[0].type is None:
        desk.qtbot.waitUntil(lambda: bool(fixes()))
        with desk.document.edit(fixes()[0].title) as edit:
            fixes()[0].apply(edit)
    assert relu.outputs[0].type.shape.dims == (2, 3)


def test_the_start_page_offers_a_new_model(desk):
    desk.qtbot.mouseClick(desk.window.start_page.new_button, Qt.MouseButton.LeftButton)
    desk.qtbot.waitUntil(lambda: any(d.isVisible() for d in desk.window.findChildren(NewModelDialog)))


def test_a_model_of_a_future_opset_can_use_other_opsets():
    model = Model(opset=1 << 40)
    model.opset_imports = {"": 1 << 40, "ai.onnx.ml": 5}
    assert {entry.domain for entry in operators(model.graph)} >= {"ai.onnx.ml"}
    assert not any(entry.domain == "" for entry in operators(model.graph))


def test_a_function_is_not_offered_those_that_would_call_themselves():
    model = builders.model("""<ir_version: 10, opset_import: ["" : 21, "f" : 1]>
    g (float[2] x) => (float[2] y) { y = f.Outer (x) }
    <domain: "f", opset_import: ["" : 21, "f" : 1]> Inner (p) => (q) { q = Relu (p) }
    <domain: "f", opset_import: ["" : 21, "f" : 1]> Outer (p) => (q) { q = f.Inner (p) }""")
    inner, outer = model.functions
    offered = [[e.op_type for e in operators(g) if e.function] for g in (model.graph, outer.body, inner.body)]
    assert offered == [["Inner", "Outer"], ["Inner"], []]
