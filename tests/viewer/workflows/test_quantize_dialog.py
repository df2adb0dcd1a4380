"""Model › Quantize…: what is measured on a copy, shown by layer, kept in float, and made one edit."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from PySide6.QtCore import Qt
from shiboken6 import isValid

import onnx_workbench
from onnx_workbench.exec.session import Session
from onnx_workbench.model import extensions
from onnx_workbench.model.edits.nodes import change_operator, rename_node
from onnx_workbench.model.history.document import Document
from onnx_workbench.viewer.dialogs.quantize import QuantizeDialog
from onnx_workbench.viewer.run.workspace import Workspace
from tests.model.snapshots import snapshot


def two_layers(path):
    rng = np.random.default_rng(7)
    weights = [numpy_helper.from_array(rng.standard_normal((24, 24)).astype(np.float32), name) for name in "wv"]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], "first"),
        helper.make_node("Relu", ["a"], ["b"], "middle"),
        helper.make_node("MatMul", ["b", "v"], ["y"], "last"),
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 24]) for name in "xy")
    graph = helper.make_graph(nodes, "g", [x], [y], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


@pytest.fixture
def dialog(qapp, tmp_path, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "net.onnx"
    two_layers(path)
    rng = np.random.default_rng(8)
    for number in range(3):
        np.savez(tmp_path / f"{number}.npz", x=rng.standard_normal((1, 24)).astype(np.float32))
    workspace = Workspace(Document(onnx_workbench.load(path)), title="two layers")
    dialog = QuantizeDialog(workspace)
    dialog.show()
    dialog.set_data(tmp_path)
    yield dialog
    if isValid(dialog):
        dialog.close()
    workspace.close()


def measure(dialog, qtbot):
    dialog.measure_button.click()
    qtbot.waitUntil(lambda: dialog._task is None or dialog._task.finished)
    qtbot.waitUntil(dialog.form.isEnabled)


def column(dialog, number):
    table = dialog.layers.table.model()
    return [table.index(row, number).data() for row in range(table.rowCount())]


@pytest.mark.long
def test_what_was_measured_becomes_one_edit(dialog, qtbot):
    workspace = dialog.workspace
    before, feeds = snapshot(workspace.model), {"x": np.ones((1, 24), np.float32)}
    expected = Session(workspace.model).run(feeds).values["y"]
    assert not dialog.ok.isEnabled()
    dialog.alone.setChecked(True)
    measure(dialog, qtbot)
    assert snapshot(workspace.model) == before
    assert sorted(column(dialog, 0)) == ["first", "last"]
    qtbot.waitUntil(lambda: column(dialog, 4) == sorted(column(dialog, 4), key=float))
    assert {node.name for node in workspace.highlights.overlay[0]} == {"first", "last"}
    dialog.layers.table.selectRow(0)
    assert dialog.layers.plot.isVisible()
    curve = dialog.layers.curve
    assert curve.isVisible()
    curve.setFocus()
    qtbot.keyClick(curve, Qt.Key.Key_Right)
    assert "layers in float" in curve.text_below()[0]
    qtbot.keyClick(curve, Qt.Key.Key_Return)
    assert dialog.reach.number() is not None
    assert not dialog.ok.isEnabled()  # what is to be reached was not measured
    dialog.reach.clear()
    dialog.reach.textEdited.emit("")
    dialog.ok.click()
    qtbot.waitUntil(lambda: workspace.document.undo_title == "Quantize: static int8")
    qtbot.waitUntil(lambda: workspace.highlights.overlay[0] is None)
    found = Session(workspace.model).run(feeds).values["y"]
    assert 0 < np.abs(found - expected).max() < 0.1 * np.abs(expected).max()
    workspace.document.undo()
    assert snapshot(workspace.model) == before


def tick(dialog, name, state):
    model = dialog.layers.table.model()
    index = model.index(column(dialog, 0).index(name), 0)
    assert index.flags() & Qt.ItemFlag.ItemIsUserCheckable
    model.setData(index, state, Qt.ItemDataRole.CheckStateRole)
    return index


@pytest.mark.long
def test_layers_that_are_ticked_stay_in_float_and_are_taken_back(dialog, qtbot):
    measure(dialog, qtbot)
    qtbot.waitUntil(lambda: len(column(dialog, 0)) == 2)
    names = column(dialog, 0)
    tick(dialog, names[0], Qt.CheckState.Checked)
    assert not dialog.ok.isEnabled()  # other choices were measured
    measure(dialog, qtbot)
    reasons = {names[0]: "you keep it", names[1]: ""}
    qtbot.waitUntil(lambda: dict(zip(column(dialog, 0), column(dialog, 7), strict=True)) == reasons)
    index = tick(dialog, names[0], Qt.CheckState.Unchecked)
    assert not dialog.ok.isEnabled()
    tick(dialog, names[0], Qt.CheckState.Checked)
    assert index.data(Qt.ItemDataRole.CheckStateRole) == Qt.CheckState.Checked
    assert dialog.ok.isEnabled()  # this was measured


@pytest.mark.long
def test_the_inputs_of_the_run_panel_are_measured_on_several_seeds(dialog, qtbot):
    dialog.set_data(None)
    measure(dialog, qtbot)
    assert "The inputs are random" in dialog.state.text()
    assert dialog._trial.report.samples == 3
    assert dialog.ok.isEnabled()
    dialog.workspace.runs.inputs.set_seed(5)
    assert not dialog.ok.isEnabled()


@pytest.mark.long
def test_stop_ends_measuring_and_the_dialog_stays(dialog, qtbot):
    dialog.measure_button.click()
    assert dialog.cancel.text() == "Stop"
    dialog.cancel.click()
    qtbot.waitUntil(dialog.form.isEnabled)
    assert dialog.state.text() == "Stopped. Nothing was changed."
    assert dialog.isVisible()


@pytest.mark.long
def test_an_edit_makes_the_measurement_outdated(dialog, qtbot):
    measure(dialog, qtbot)
    assert dialog.ok.isEnabled()
    with dialog.workspace.document.edit("Rename") as edit:
        rename_node(edit, next(iter(dialog.workspace.graph.nodes)), "renamed")
    assert not dialog.ok.isEnabled()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"z": np.ones((1, 24), np.float32)}, "has no value for x"),
        ({"x": np.full((1, 24), np.nan, np.float32)}, "contains infinities or NaN"),
        ({"x": np.ones((1, 24), np.float32)}, "The data is constant"),
    ],
)
def test_data_that_do_not_fit_are_a_sentence_in_the_dialog(dialog, qtbot, tmp_path, content, said):
    before = snapshot(dialog.workspace.model)
    np.savez(tmp_path / "bad.npz", **content)
    dialog.set_data(tmp_path / "bad.npz")
    measure(dialog, qtbot)
    assert said in dialog.error.text()
    assert not dialog.ok.isEnabled()
    assert snapshot(dialog.workspace.model) == before


@pytest.mark.long
def test_a_crash_while_measuring_is_reported_in_the_dialog(dialog, qtbot, tmp_path):
    crashing = tmp_path / "crashing.py"
    crashing.write_text(
        "import os\nimport onnx_workbench\n\n"
        '@onnx_workbench.kernel("Crash", domain="my.domain")\n'
        "def crash(x):\n    os.abort()\n",
        "utf-8",
    )
    workspace = dialog.workspace
    with workspace.document.edit("Use it") as edit:
        middle = next(node for node in workspace.graph.nodes if node.name == "middle")
        change_operator(edit, middle, "Crash", "my.domain")
    before = snapshot(workspace.model)
    extensions.load(crashing)
    try:
        measure(dialog, qtbot)
    finally:
        extensions.unload(str(crashing))
    assert "Quantizing a copy crashed on this model" in dialog.error.text()
    assert not dialog.ok.isEnabled()
    assert snapshot(workspace.model) == before


def test_types_are_those_of_the_method_and_target(dialog):
    def types():
        return [dialog.type.itemText(at) for at in range(dialog.type.count())]

    assert not dialog.symmetric.isChecked()
    assert not dialog.compensate.isVisible()
    dialog.preset.setCurrentIndex(dialog.preset.findData("tensorrt"))
    assert types() == ["int8", "float8e4m3"]
    assert dialog.symmetric.isChecked()
    assert not dialog.symmetric.isEnabled()
    dialog.method.setCurrentIndex(dialog.method.findData("weights"))
    assert "int4" in types()
    dialog.type.setCurrentIndex(dialog.type.findText("int4"))
    assert dialog.block_size.isVisible()
    assert not dialog.calibration.isVisible()
    dialog.preset.setCurrentIndex(dialog.preset.findData("any"))
    assert not dialog.symmetric.isChecked()  # as the command does for few bits
    dialog.type.setCurrentIndex(dialog.type.findText("int8"))
    assert dialog.symmetric.isChecked()
    assert not dialog.options().compensate
    dialog.compensate.click()
    assert dialog.options().compensate
    dialog.method.setCurrentIndex(dialog.method.findData("static"))
    assert dialog.options().checked().symmetric is False
