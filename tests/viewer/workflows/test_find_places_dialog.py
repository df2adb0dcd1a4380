"""Find All Such Places: conditions, places on the graph, and what becomes of them, through the real dialog."""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtCore import Qt
from shiboken6 import isValid

from onnx_workbench.exec.session import Session
from onnx_workbench.model.edits.nodes import change_operator
from onnx_workbench.model.edits.rewriter import GraphRewriter
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.steps import SetAttribute, SetField, SetInputs
from onnx_workbench.model.ir.attributes import make_attribute
from onnx_workbench.viewer.dialogs.find_places import FindPlacesDialog
from onnx_workbench.viewer.run.workspace import Workspace
from tests.model import builders
from tests.model.snapshots import snapshot

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[2, 4] x) => (float[2, 4] y)
<float half = {0.5}, float third = {0.3}, float[4] w = {1.0, 2.0, 3.0, 4.0}, float[4] v = {2.0, 2.0, 3.0, 4.0}>
{
    [m1] a = Mul(x, w) [s1] b = Softmax <axis = 1> (a) [h1] c = Mul(b, half)
    [m2] d = Mul(c, v) [s2] e = Softmax <axis = 0> (d) [h2] f = Mul(e, half)
    [m3] g = Mul(f, v) [s3] h = Softmax <axis = 1> (g) [h3] i = Mul(h, third)
    [last] y = Abs(i)
}
"""


@pytest.fixture
def opened(qapp):
    found = []

    def start(*names: str) -> FindPlacesDialog:
        workspace = Workspace(builders.document(MODEL), title="chain")
        nodes = [node for node in workspace.model.graph.nodes if node.name in names]
        dialog = FindPlacesDialog(workspace, nodes)
        dialog.show()
        found.append((dialog, workspace))
        return dialog

    yield start
    for dialog, workspace in found:
        if isValid(dialog):
            dialog.close()
        workspace.close()


def tick(dialog, text: str, state: Qt.CheckState) -> None:
    items = [dialog.conditions.topLevelItem(row) for row in range(dialog.conditions.topLevelItemCount())]
    (item,) = [item for item in items if item.text(0).startswith(text) and item.text(1) != "Shape"]
    item.setCheckState(0, state)


def places(dialog, qtbot) -> list[str]:
    qtbot.waitUntil(lambda: dialog._trial is not None)
    top = dialog.passes.topLevelItem(0)
    return [top.child(row).text(0) for row in range(top.childCount())]


def operators(dialog) -> list[str]:
    return [node.op_type for node in dialog.workspace.model.graph.nodes]


def apply(dialog, qtbot) -> None:
    qtbot.waitUntil(dialog.ok.isEnabled)
    dialog.ok.click()
    qtbot.waitUntil(lambda: dialog.pages.currentWidget() is dialog.report, timeout=60_000)


def computed(dialog) -> np.ndarray:
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    return Session(dialog.workspace.model).run({"x": x}).outputs["y"]


def test_conditions_widen_and_narrow_the_search(opened, qtbot):
    dialog = opened("s1", "h1")
    assert len(places(dialog, qtbot)) == 1
    tick(dialog, "Softmax: axis", Qt.CheckState.Unchecked)
    assert len(places(dialog, qtbot)) == 2
    tick(dialog, "half", Qt.CheckState.Unchecked)
    assert len(places(dialog, qtbot)) == 3
    assert set(dialog.workspace.highlights.marks["matches"]) >= {
        n for n in dialog.workspace.model.graph.nodes if n.name in ("s1", "h1", "s2", "h2", "s3", "h3")
    }


def test_places_become_calls_of_a_function_in_one_entry(opened, qtbot):
    dialog = opened("m1", "s1", "h1")
    document = dialog.workspace.document
    before, values = snapshot(document.model), computed(dialog)
    for text in ("Softmax: axis", "half"):
        tick(dialog, text, Qt.CheckState.Unchecked)
    assert len(places(dialog, qtbot)) == 3
    dialog.name.setText("Scaled")
    apply(dialog, qtbot)
    assert not dialog.way.isVisible()
    assert operators(dialog) == ["Scaled", "Scaled", "Scaled", "Abs"]
    assert [n.attributes["axis"].value for n in document.model.graph.nodes if n.op_type == "Scaled"] == [1, 0, 1]
    np.testing.assert_array_equal(computed(dialog), values)
    document.undo()
    assert snapshot(document.model) == before


def test_a_place_can_be_left_out(opened, qtbot):
    dialog = opened("h1")
    tick(dialog, "half", Qt.CheckState.Unchecked)
    qtbot.waitUntil(lambda: len(places(dialog, qtbot)) == 6)
    top = dialog.passes.topLevelItem(0)
    for row in range(1, 6):
        top.child(row).setCheckState(0, Qt.CheckState.Unchecked)
    apply(dialog, qtbot)
    assert operators(dialog).count("Block") == 1


def test_places_are_replaced_by_a_text(opened, qtbot):
    dialog = opened("h1")
    places(dialog, qtbot)
    dialog.way.setCurrentIndex(2)
    text = dialog.text.toPlainText()
    assert "replacement" in text
    dialog.text.setPlainText(text.replace("}", "  two = Constant <value_float = 2.0> () c = Div (b, two) }"))
    apply(dialog, qtbot)
    assert operators(dialog).count("Div") == 2
    assert "agree" in dialog.state.text()


def test_a_wrong_text_says_where_and_the_dialog_goes_on(opened, qtbot):
    dialog = opened("h1")
    places(dialog, qtbot)
    dialog.way.setCurrentIndex(2)
    dialog.text.setPlainText("replacement (b) => (c) {\n nonsense }")
    qtbot.waitUntil(dialog.ok.isEnabled)
    dialog.ok.click()
    qtbot.waitUntil(lambda: "Line 2" in dialog.error.text())
    qtbot.waitUntil(dialog.ok.isEnabled)
    assert operators(dialog).count("Mul") == 6


def test_a_replacement_that_computes_something_else_is_not_applied(opened, qtbot):
    dialog = opened("s1")
    places(dialog, qtbot)
    dialog.way.setCurrentIndex(1)
    dialog.operator.setText("LogSoftmax")
    qtbot.waitUntil(dialog.ok.isEnabled)
    dialog.ok.click()
    qtbot.waitUntil(dialog.error.isVisible)
    assert "Nothing was changed. Afterwards outputs differ" in dialog.error.text()
    assert "LogSoftmax" not in operators(dialog)
    places(dialog, qtbot)
    dialog.way.setCurrentIndex(0)  # another choice, at once
    apply(dialog, qtbot)
    assert operators(dialog).count("Block") == 2


def test_an_unknown_operator_is_named(opened, qtbot):
    dialog = opened("s1")
    places(dialog, qtbot)
    dialog.way.setCurrentIndex(1)
    dialog.operator.setText("Sofmax")
    qtbot.waitUntil(dialog.ok.isEnabled)
    dialog.ok.click()
    assert "Sofmax" in dialog.error.text()


def do_there(dialog, qtbot) -> None:
    dialog.way.setCurrentIndex(3)
    qtbot.waitUntil(dialog.ok.isEnabled)
    dialog.ok.click()


def node_named(dialog, name: str):
    return next(node for node in dialog.workspace.model.graph.nodes if node.name == name)


def test_what_was_done_to_one_place_is_done_to_the_others(opened, qtbot):
    dialog = opened("s1", "h1")
    tick(dialog, "Softmax: axis", Qt.CheckState.Unchecked)
    tick(dialog, "half", Qt.CheckState.Unchecked)
    assert len(places(dialog, qtbot)) == 3
    document = dialog.workspace.document
    builders.one_edit(document, change_operator, node_named(dialog, "h1"), "Div")
    builders.do(document, SetField(node_named(dialog, "s1"), "name", "weighted"))
    before = snapshot(document.model)
    qtbot.waitUntil(lambda: len(places(dialog, qtbot)) == 2)
    do_there(dialog, qtbot)
    qtbot.waitUntil(lambda: dialog.pages.currentWidget() is dialog.report, timeout=60_000)
    assert dialog.state.text().startswith("Changed; ")  # and that the outputs differ now
    assert operators(dialog) == ["Mul", "Softmax", "Div"] * 3 + ["Abs"]
    names = [node.name for node in document.model.graph.nodes if node.op_type == "Softmax"]
    assert names == ["weighted", "weighted_1", "weighted_2"]
    assert document.undo_title == "Do Here What I Did There"
    document.undo()
    assert snapshot(document.model) == before


def test_only_edits_before_the_dialog_opened_count(opened, qtbot):
    dialog = opened("s3")
    document = dialog.workspace.document
    last, softmax = (node_named(dialog, name) for name in ("last", "s1"))
    builders.do(document, SetAttribute(softmax, "axis", make_attribute("axis", 0)))
    builders.do(document, SetField(last, "name", "final"))
    with document.edit("Insert") as edit:
        rewriter = GraphRewriter(edit)
        made = rewriter.add_node(softmax.graph, "Relu", [softmax.inputs[0]], before=softmax)
        edit.do(SetInputs(softmax, made.outputs))
    qtbot.waitUntil(lambda: len(places(dialog, qtbot)) == 1)
    do_there(dialog, qtbot)
    qtbot.waitUntil(lambda: dialog.pages.currentWidget() is dialog.report, timeout=60_000)
    assert operators(dialog) == ["Mul", "Relu", "Softmax", "Mul", "Mul", "Softmax", "Mul", "Mul", "Relu", "Softmax",
                                 "Mul", "Abs"]  # fmt: skip
    assert [n.attributes["axis"].value for n in document.model.graph.nodes if n.op_type == "Softmax"] == [0, 0, 0]


def test_what_uses_a_place_gets_what_was_put_behind_it(opened, qtbot):
    dialog = opened("h1")
    tick(dialog, "half", Qt.CheckState.Checked)
    assert len(places(dialog, qtbot)) == 2
    first = node_named(dialog, "h1")
    with dialog.workspace.document.edit("Insert behind") as edit:
        rewriter = GraphRewriter(edit)
        made = rewriter.add_node(first.graph, "Relu", [first.outputs[0]], before=first.next)
        user = node_named(dialog, "m2")
        edit.do(SetInputs(user, (made.outputs[0], user.inputs[1])))
    do_there(dialog, qtbot)
    qtbot.waitUntil(lambda: dialog.pages.currentWidget() is dialog.report, timeout=60_000)
    assert operators(dialog) == ["Mul", "Softmax", "Mul", "Relu"] * 2 + ["Mul", "Softmax", "Mul", "Abs"]
    assert "agree" in dialog.state.text()


def test_what_no_other_place_has_is_named_and_nothing_is_done(opened, qtbot):
    dialog = opened("s1")
    tick(dialog, "Softmax: axis", Qt.CheckState.Unchecked)
    assert len(places(dialog, qtbot)) == 3
    document = dialog.workspace.document
    do_there(dialog, qtbot)
    qtbot.waitUntil(lambda: "No place was edited" in dialog.error.text())
    second = node_named(dialog, "s2")
    builders.do(document, SetInputs(second, node_named(dialog, "m1").outputs))
    before = snapshot(document.model)
    do_there(dialog, qtbot)
    qtbot.waitUntil(lambda: "uses a now, and other places have no such value" in dialog.error.text())
    assert snapshot(document.model) == before


def test_doing_the_same_keeps_what_differs_from_place_to_place(opened, qtbot):
    dialog = opened("s1")
    tick(dialog, "Softmax: axis", Qt.CheckState.Unchecked)
    assert len(places(dialog, qtbot)) == 3
    values = computed(dialog)
    workspace = dialog.workspace
    graph = workspace.model.graph
    softmax = node_named(dialog, "s1")
    with workspace.document.edit("Exp of LogSoftmax") as edit:
        rewriter = GraphRewriter(edit)
        log = rewriter.add_node(graph, "LogSoftmax", [softmax.inputs[0]], {"axis": 1}, before=softmax).outputs[0]
        rewriter.replace_node(softmax, "Exp", (log,))
    qtbot.waitUntil(lambda: len(places(dialog, qtbot)) == 2)
    dialog.way.setCurrentIndex(3)
    apply(dialog, qtbot)
    assert operators(dialog).count("LogSoftmax") == 3
    assert [n.attributes["axis"].value for n in graph.nodes if n.op_type == "LogSoftmax"] == [1, 0, 1]
    np.testing.assert_allclose(computed(dialog), values, rtol=1e-5)


def test_nodes_with_others_between_them_are_refused(opened):
    with pytest.raises(ModelError, match="lies between its nodes"):
        opened("m1", "last")
