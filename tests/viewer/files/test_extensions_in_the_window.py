"""Extensions in the window: listed in the preferences, off until ticked, and their operators run."""

from __future__ import annotations

import onnx.parser
import pytest
from PySide6.QtCore import Qt

from onnx_workbench.model import extensions, schemas
from onnx_workbench.model.history.steps import SetField
from onnx_workbench.viewer.core.settings import EXTENSION_FILES, EXTENSIONS
from onnx_workbench.viewer.dialogs.preferences import PreferencesDialog
from onnx_workbench.viewer.popups.operator_palette import operators
from tests.end_to_end.test_extensions import EXAMPLE, MODEL
from tests.viewer.opening import opened, run


@pytest.fixture(autouse=True)
def _unload():
    yield
    for extension in extensions.loaded():
        extensions.unload(extension.source)


def preferences(window):
    run(window, "edit.preferences")
    (dialog,) = window.findChildren(PreferencesDialog)
    return dialog.extensions


def tick(listed, row, state=Qt.CheckState.Checked):
    listed.list.item(row).setCheckState(state)


def test_a_file_is_listed_and_loaded_once_it_is_ticked(window, qtbot, tmp_path):
    path = tmp_path / "net.onnx"
    path.write_bytes(onnx.parser.parse_model(MODEL).SerializeToString())
    tab = opened(window, qtbot, path)
    listed = preferences(window)
    listed.add(EXAMPLE)
    assert listed.list.count() == 1
    assert listed.list.item(0).checkState() == Qt.CheckState.Unchecked
    assert extensions.loaded() == []
    assert schemas.find("Twice", 2, "my.ops") is None
    tick(listed, 0)
    assert schemas.find("Twice", 2, "my.ops") is not None
    assert window.settings.get(EXTENSIONS) == (str(EXAMPLE),)
    assert "3 additions" in listed.list.item(0).text()
    assert {"Twice", "SplitHalf"} <= {entry.op_type for entry in operators(tab.workspace.graph)}  # in the palette
    value = next(value for value in tab.workspace.graph.values() if value.name == "d")
    qtbot.waitUntil(lambda: str(tab.workspace.types.type_of(value)) == "float[2,6]")
    run(window, "run.run")
    qtbot.waitUntil(lambda: tab.workspace.results.current is not None and not tab.workspace.runs.is_running)
    with tab.workspace.document.edit("Rename") as edit:
        edit.do(SetField(tab.workspace.graph.nodes.first, "name", ""))
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


def test_one_that_cannot_be_loaded_is_told_and_stays_off(window, tmp_path):
    path = tmp_path / "broken.py"
    path.write_text("raise RuntimeError('<b>no</b> luck')", encoding="utf-8")
    listed = preferences(window)
    listed.add(path)
    tick(listed, 0)
    assert listed.list.item(0).checkState() == Qt.CheckState.Unchecked
    assert "The extension broken.py cannot be loaded" in listed.error.text()
    assert "no" in listed.error.text()
    assert window.settings.get(EXTENSIONS) == ()
