"""Merging another model in: where it goes, what feeds each input, and what comes of it."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialogButtonBox
from shiboken6 import isValid

from onnx_workbench.model.edits import attributes
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.graph import Graph, TrainingInfo
from onnx_workbench.viewer.dialogs.merge import MergeDialog, Place
from onnx_workbench.viewer.property_tree.editors import LineField
from tests.model import builders

OTHER = """
    other (float[N, 4] p, int64[2] q) => (float[N, 4] s, float[3] odd)
    <float[3] odd_w = {1.0, 2.0, 3.0}>
    { s0 = Neg (p)  k = Cast <to: int = 1> (q)  s = Abs (s0)  odd = Relu (odd_w) }
"""


@pytest.fixture
def dialog(desk):
    dialog = MergeDialog(desk.window, desk.workspace, desk.workspace.graph, builders.model(OTHER), "other.onnx")
    with desk.qtbot.waitExposed(dialog):
        dialog.show()
    yield dialog
    if isValid(dialog):
        dialog.hide()


def rows(dialog):
    """The inputs listed, with what feeds them."""
    return {row.value.name: row.giver for row in dialog.inputs.rows}


def choose(dialog, name, text):
    """Open the list of an input and choose the entry with a text."""
    row = [*rows(dialog)].index(name)
    dialog.table.edit(dialog.inputs.index(row, 2))
    editor = dialog.table.findChildren(LineField)[-1]
    entries = editor.completer().popup().model()
    assert text in [entries.index(i, 0).data(Qt.ItemDataRole.EditRole) for i in range(entries.rowCount())]
    editor.setText(text)
    editor.commit_requested.emit()


def test_the_other_model_goes_where_its_types_fit(dialog):
    assert dialog.place.currentText() == "After this model"
    assert rows(dialog) == {"p": "y", "q": ""}
    dialog.set_place(Place.BEFORE)
    assert rows(dialog) == {"x": "s", "unused": ""}
    dialog.set_place(Place.BESIDE)
    assert rows(dialog) == {"p": "", "q": ""}


@pytest.mark.long
@pytest.mark.parametrize(
    ("signature", "place", "fed"),
    [
        ("(uint8[N, 4] x) => (float[N, 4] z)", Place.BEFORE, {"x": "z", "unused": ""}),
        ("(float[N, 4] y) => (float[N] z)", Place.AFTER, {"y": "y"}),
        ("(double[9] x) => (double[9] z)", Place.BESIDE, {"x": ""}),
    ],
)
def test_the_place_is_guessed_from_types(desk, signature, place, fed):
    other = builders.model(f'<ir_version: 10, opset_import: ["" : 21]> g {signature} {{ z = Foo () }}')
    dialog = MergeDialog(desk.window, desk.workspace, desk.workspace.graph, other, "other.onnx")
    assert (dialog.place.currentData(), rows(dialog)) == (place, fed)
    dialog.deleteLater()


@pytest.mark.long
def test_what_feeds_an_input_is_chosen_in_its_list(dialog):
    choose(dialog, "p", "r")
    assert dialog.connections() == {"p": "r"}
    choose(dialog, "p", "")
    assert dialog.connections() == {}
    with pytest.raises(ModelError, match="no value of that name"):
        dialog.feed("p", "no such value")
    assert dialog.connections() == {}


def test_values_of_other_types_are_not_offered(dialog):
    p, q = dialog.inputs.rows
    assert {"y", "r", "c", "x"} <= {value.name for value in dialog.offered(p)}
    assert "y" not in {value.name for value in dialog.offered(q)}


def test_training_graphs_stay_behind_and_both_say_so(dialog, desk, received):
    assert "training" not in dialog.state.text()
    dialog._other.training_info = (TrainingInfo(Graph("start"), Graph("step")),)
    dialog.prefix.setText("b_")
    assert "Not merged: 2 training graphs." in dialog.state.text()
    report = received(desk.workspace.messages.shown)
    dialog.apply()
    desk.qtbot.waitUntil(lambda: not isValid(dialog))
    assert [message.detail for message in report] == ["Not merged: 2 training graphs."]


@pytest.mark.long
def test_it_feeds_an_input_here_as_one_edit(dialog, desk, texts):
    before = texts()
    dialog.set_place(Place.BEFORE)
    assert dialog.feeding() == {"x": "s"}
    assert "Replaces inputs: x." in dialog.state.text()
    dialog.findChild(QDialogButtonBox).button(QDialogButtonBox.StandardButton.Ok).click()
    assert not dialog.ok.isEnabled()
    desk.qtbot.waitUntil(lambda: not isValid(dialog))
    desk.settle()
    graph = desk.workspace.graph
    assert [v.name for v in graph.inputs] == ["unused", "p", "q"]
    assert [v.name for v in graph.outputs] == ["y", "odd"]
    assert desk.node("first").inputs[0].producer.op_type == "Abs"
    desk.run("edit.undo")
    assert texts() == before


def test_outputs_that_feed_it_stay_only_when_asked(dialog, desk):
    dialog.keep.click()
    dialog.apply()
    desk.qtbot.waitUntil(lambda: not isValid(dialog))
    assert [v.name for v in desk.workspace.graph.outputs] == ["y", "s", "odd"]


def test_other_dimensions_are_named(dialog):
    dialog.set_place(Place.BEFORE)
    dialog.feed("x", "odd")
    assert "Their dimensions differ: odd is float [3], x is float N×4." in dialog.state.text()


@pytest.mark.long
def test_inputs_keep_their_public_names(desk):
    """An input here that is fed is gone; one of the other model may have its name."""
    text = "g (uint8[N, 4] x) => (float[N, 4] z) { z = Cast <to = 1> (x) }"
    dialog = MergeDialog(desk.window, desk.workspace, desk.workspace.graph, builders.model(text), "other.onnx")
    assert dialog.feeding() == {"x": "z"}
    dialog.apply()
    desk.qtbot.waitUntil(lambda: not isValid(dialog))
    assert [str(v.type) for v in desk.workspace.graph.inputs if v.name == "x"] == ["uint8[N,4]"]


def test_types_that_are_inferred_later_are_shown_and_choices_stay(dialog, desk, qtbot):
    dialog.feed("p", "c")
    builders.one_edit(desk.document, attributes.set_attribute, desk.node("fourth"), "axis", 0)
    qtbot.waitUntil(lambda: not desk.workspace.tasks.running)
    desk.workspace.types.changed.emit()
    assert dialog.connections()["p"] == "c"


@pytest.mark.long
def test_merging_can_be_stopped(dialog, desk, texts):
    before = texts()
    dialog.apply()
    (task,) = (task for task in desk.workspace.tasks.running if task.title == "Merge other.onnx")
    task.cancel()
    desk.qtbot.waitUntil(dialog.ok.isEnabled)
    assert dialog.isVisible()
    assert texts() == before
    dialog.apply()
    desk.qtbot.waitUntil(lambda: not isValid(dialog))
    assert texts() != before


def test_closing_the_dialog_ends_merging(dialog, desk, texts):
    before = texts()
    dialog.apply()
    dialog.reject()
    desk.qtbot.waitUntil(
        lambda: not [task for task in desk.workspace.tasks.running if task.title == "Merge other.onnx"]
    )
    assert texts() == before


def test_outputs_that_get_other_names_are_named_first(desk):
    other = builders.model(builders.CHAIN)
    dialog = MergeDialog(desk.window, desk.workspace, desk.workspace.graph, other, "other.onnx")
    (clashing,) = (line for line in dialog.state.text().splitlines() if line.startswith("Names in use"))
    assert clashing.rpartition(": ")[2].split(", ")[:3] == ["x", "unused", "y"]
    dialog.deleteLater()


def test_constants_that_may_be_one_are_not_said_to_get_other_names(desk):
    """They come once where they are the same, as in parts of one model."""
    other = builders.model(builders.CHAIN.replace("float[4] b = {0.5, 0.5, 0.5, 0.5}", "float[2] b = {0.5, 0.5}"))
    dialog = MergeDialog(desk.window, desk.workspace, desk.workspace.graph, other, "other.onnx")
    lines = dialog.state.text().splitlines()
    assert "Shared constants, added once: w" in lines
    (clashing,) = (line for line in lines if line.startswith("Names in use"))
    assert "b" in clashing.rpartition(": ")[2].split(", ")
    assert "w" not in clashing.rpartition(": ")[2].split(", ")
    dialog.deleteLater()
