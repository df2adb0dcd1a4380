"""Extensions in the window: listed in the preferences, off until ticked, and their operators run."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt

from onnx_workbench.model import extensions, schemas
from onnx_workbench.model.history.steps import SetField
from onnx_workbench.viewer.dialogs.preferences import PreferencesDialog
from onnx_workbench.viewer.dialogs.simplify import SimplifyDialog
from onnx_workbench.viewer.popups.operator_palette import operators
from onnx_workbench.viewer.program.settings import EXTENSION_FILES, EXTENSIONS
from tests.end_to_end.test_extensions import EXAMPLE, MODEL
from tests.model import builders
from tests.viewer.opening import opened, run, titles


@pytest.fixture(autouse=True)
def _unload():
    yield
    for extension in extensions.loaded():
        extensions.unload(extension.source)


def preferences(window):
    run(window, "edit.preferences")
    (dialog,) = window.findChildren(PreferencesDialog)
    return dialog.extensions


def menu_of(window):
    """The menu Extensions as it is now, None while it is not there."""
    window.actions_binding.refresh()
    (found,) = [action for action in window.menuBar().actions() if action.text() == "E&xtensions"]
    return found.menu() if found.isVisible() else None


def tick(listed, row, state=Qt.CheckState.Checked):
    listed.list.item(row).setCheckState(state)


RULE = """
from onnx_workbench import node_check

@node_check("no-relu")
def no_relu(node):
    if node.op_type == "Relu":
        yield "There is a Relu"
"""
ONE_NODE = '<ir_version: 9, opset_import: ["" : 17]> one (float[2] x) => (float[2] y) { y = Relu (x) }'


def test_rules_show_in_open_models_once_they_are_ticked(window, qtbot, tmp_path):
    model, rule = tmp_path / "one.onnx", tmp_path / "rule.py"
    builders.model_file(model, ONE_NODE)
    rule.write_text(RULE, "utf-8")
    problems = opened(window, qtbot, model).workspace.problems
    qtbot.waitUntil(lambda: problems.finished)

    def found():
        return [problem.message for problem in problems.all if problem.rule == "no-relu"]

    listed = preferences(window)
    listed.add(rule)
    tick(listed, 0)
    qtbot.waitUntil(lambda: found() == ["There is a Relu"])
    tick(listed, 0, Qt.CheckState.Unchecked)
    qtbot.waitUntil(lambda: found() == [])


@pytest.mark.long
def test_a_file_is_listed_and_loaded_once_it_is_ticked(window, qtbot, tmp_path):
    tab = opened(window, qtbot, builders.model_file(tmp_path / "net.onnx", MODEL))
    listed = preferences(window)
    listed.add(EXAMPLE)
    assert listed.list.count() == 1
    assert listed.list.item(0).checkState() == Qt.CheckState.Unchecked
    assert extensions.loaded() == []
    assert schemas.find("Twice", 2, "my.ops") is None
    tick(listed, 0)
    assert schemas.find("Twice", 2, "my.ops") is not None
    assert window.settings.get(EXTENSIONS) == (str(EXAMPLE),)
    assert "7 additions" in listed.list.item(0).text()
    assert {"Twice", "SplitHalf"} <= {entry.op_type for entry in operators(tab.workspace.graph)}  # in the palette
    value = next(value for value in tab.workspace.graph.values() if value.name == "d")
    qtbot.waitUntil(lambda: str(tab.workspace.types.type_of(value)) == "float[2,6]")
    run(window, "run.run")
    qtbot.waitUntil(lambda: tab.workspace.results.current is not None and not tab.workspace.runs.is_running)
    builders.do(tab.workspace.document, SetField(tab.workspace.graph.nodes.first, "name", ""))
    qtbot.waitUntil(lambda: any(problem.rule == "my-ops-name" for problem in tab.workspace.problems.all))
    result = tab.workspace.results.current.result
    assert result.missing_outputs == {}
    tick(listed, 0, Qt.CheckState.Unchecked)
    assert schemas.find("Twice", 2, "my.ops") is None
    assert window.settings.get(EXTENSIONS) == ()
    assert window.settings.get(EXTENSION_FILES) == (str(EXAMPLE),)
    listed.list.setCurrentRow(0)
    listed.remove_button.click()
    assert listed.list.count() == 0
    assert window.settings.get(EXTENSION_FILES) == ()


def test_one_that_cannot_be_loaded_is_reported_and_stays_off(window, tmp_path):
    path = tmp_path / "broken.py"
    path.write_text("raise RuntimeError('<b>no</b> luck')", encoding="utf-8")
    listed = preferences(window)
    listed.add(path)
    tick(listed, 0)
    assert listed.list.item(0).checkState() == Qt.CheckState.Unchecked
    assert "The extension broken.py cannot be loaded" in listed.error.text()
    assert "no" in listed.error.text()
    assert window.settings.get(EXTENSIONS) == ()


def test_its_actions_are_in_a_menu_and_the_palette_with_undo(window, qtbot, tmp_path):
    tab = opened(window, qtbot, builders.model_file(tmp_path / "net.onnx", MODEL.replace("[halves] ", "")))
    assert menu_of(window) is None
    extensions.load(EXAMPLE)
    (entry,) = menu_of(window).actions()
    assert entry.text() == "Name Nodes of my.ops"
    assert entry.isEnabled()
    _, split = tab.workspace.graph.nodes
    entry.trigger()
    assert split.name == "SplitHalf_0"
    assert titles(tab) == ["Name Nodes of my.ops"]
    assert tab.message_bar.messages[0].detail == "1 nodes have a new name."
    run(window, "edit.undo")
    assert split.name == ""
    window.open_palette()
    (row,) = [row for row in window.palette_popup.matching() if row.where == "Extensions"]
    window.palette_popup.run(row, False)
    window.palette_popup.close()
    assert split.name == "SplitHalf_0"
    entry.trigger()  # which has nothing to do now
    assert "There is nothing to name" in titles(tab)
    extensions.unload(str(EXAMPLE))
    assert menu_of(window) is None


def test_a_mistake_in_an_action_is_reported_and_changes_nothing(window, qtbot, tmp_path):
    path = tmp_path / "wrong & broken.py"
    path.write_text(
        "from onnx_workbench import action\n@action('Break & Burn')\ndef burn(document, selection):\n    1 / 0\n",
        encoding="utf-8",
    )
    window.files.open_sample()
    qtbot.waitUntil(lambda: bool(window.tabs()))
    extensions.load(path)
    (entry,) = menu_of(window).actions()
    assert entry.text() == "Break && Burn"
    entry.trigger()
    (report,) = [message for message in window.tab.message_bar.messages if "failed" in message.title]
    assert report.title == "Break & Burn of wrong & broken.py failed"
    assert report.detail == "wrong & broken.py, line 4: ZeroDivisionError: division by zero"


@pytest.mark.long
def test_its_files_open_as_new_documents_whose_values_have_its_view(window, qtbot, tmp_path):
    path = tmp_path / "two.twice"
    path.write_text("2", encoding="utf-8")
    extensions.load(EXAMPLE)
    tab = opened(window, qtbot, path)
    assert tab.workspace.title == "two.twice"
    assert tab.path is None  # so that Save writes no model over it
    run(window, "run.run")
    qtbot.waitUntil(lambda: tab.workspace.results.current is not None and not tab.workspace.runs.is_running)
    window.docks.open("tensor")
    tab.workspace.selection.set([tab.workspace.graph.outputs[0]])
    pane = window.docks.open("tensor").pane
    qtbot.waitUntil(lambda: pane.reader is not None)
    pane.choose_view("Signs")
    qtbot.waitUntil(lambda: pane.stack.currentWidget() is pane.custom)
    table = pane.custom.table
    assert [table.horizontalHeaderItem(i).text() for i in range(4)] == ["position", "negative", "zero", "positive"]
    assert table.rowCount() == pane.reader.size
    extensions.unload(str(EXAMPLE))
    pane.choose_view("Table")
    pane.choose_view("Signs")
    qtbot.waitUntil(lambda: "The view no longer exists" in pane.notice.text())


@pytest.mark.long
def test_its_pass_is_listed_and_runs_in_the_dialog(window, qtbot, tmp_path):
    path = builders.model_file(tmp_path / "net.onnx", MODEL.replace(" <plus = 1.0>", ""))
    failing = tmp_path / "failing.py"
    failing.write_text(
        "from onnx_workbench import simplify_pass\n@simplify_pass('fails')\ndef fails(context):\n    return 1 / 0\n",
        encoding="utf-8",
    )
    tab = opened(window, qtbot, path)
    extensions.load(EXAMPLE)
    extensions.load(failing)
    run(window, "model.simplify")
    (dialog,) = window.findChildren(SimplifyDialog)
    qtbot.waitUntil(dialog.ok.isEnabled)
    assert dialog.passes.topLevelItem(0).text(0) == "Twice to add"
    assert dialog.passes.topLevelItem(0).child(0).text(0) == "double becomes Add"
    assert "The pass fails failed: failing.py, line 4: ZeroDivisionError" in dialog.state.text()
    dialog.apply()
    qtbot.waitUntil(lambda: dialog.ok.text() == "Close")
    assert [node.op_type for node in tab.workspace.graph.nodes] == ["Add", "SplitHalf"]
    assert "outputs agree" in dialog.state.text()
    dialog.close()
    run(window, "edit.undo")
    assert [node.op_type for node in tab.workspace.graph.nodes] == ["Twice", "SplitHalf"]


@pytest.mark.long
def test_a_file_of_its_reader_that_is_opened_again_is_shown(window, qtbot, tmp_path):
    listed = preferences(window)
    listed.add(EXAMPLE)
    tick(listed, 0)
    path = tmp_path / "net.twice"
    path.write_text("3", encoding="utf-8")
    window.files.open([path])
    first = opened(window, qtbot, path)  # asked for twice before it is read
    assert first.path is None
    other = opened(window, qtbot, _written(tmp_path))
    assert window.tab is other
    window.files.open([path])
    assert window.tab is first
    assert len(window.tabs()) == 2


def _written(folder):
    return builders.model_file(folder / "other.onnx", MODEL)
