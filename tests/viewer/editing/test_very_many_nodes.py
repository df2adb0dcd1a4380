"""What is done to very many chosen things is done on a copy, while the window goes on, as one edit, written first."""

from __future__ import annotations

import json
import threading

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication

from onnx_workbench.model.edits import copy_paste
from onnx_workbench.model.edits.interface import add_outputs
from onnx_workbench.model.history.steps import SetAttribute, SetField
from onnx_workbench.model.ir.attributes import make_attribute
from onnx_workbench.viewer.dialogs.find_replace import FindReplaceDialog
from onnx_workbench.viewer.dialogs.text_prompt import TextPrompt
from onnx_workbench.viewer.document import clipboard
from onnx_workbench.viewer.panels.node_table import NodeTablePanel
from onnx_workbench.viewer.panels.problems import ProblemsPanel
from onnx_workbench.viewer.program.folders import journal_folder
from onnx_workbench.viewer.widgets import busy_cursor
from onnx_workbench.viewer.workflows import edit_many
from tests.model import builders
from tests.model.recovery.crash import abandon
from tests.model.recovery.recorded_work import recovered
from tests.model.snapshots import assert_linked, snapshot

pytestmark = pytest.mark.long


def chosen(action):
    def act(desk):
        desk.select(desk.node("second"), desk.node("third"))
        desk.run(action)

    return act


def paste(desk):
    desk.select(desk.node("second"), desk.node("third"))
    desk.run("edit.copy")
    desk.run("edit.paste")


def chosen_values(action, *names):
    def act(desk):
        desk.select(*map(desk.value, names))
        desk.run(action)

    return act


def take_from_the_outputs(desk):
    graph = desk.workspace.graph
    if len(graph.outputs) == 1:
        builders.one_edit(desk.document, add_outputs, graph, [desk.value("r")])
    desk.select(*graph.outputs)
    desk.run("graph.remove_output")


def constant_nodes_to_inputs(desk):
    if desk.value("w").producer is None:
        chosen_values("value.to_constant", "w", "b")(desk)
        wait_for_end(desk)
    chosen_values("value.to_input", "w", "b")(desk)


def give_values(desk):
    chosen_values("value.only_constant", *(value.name for value in desk.workspace.graph.inputs))(desk)
    dialog = desk.child(TextPrompt)
    dialog.fields[0].setText("float[2,4] = 0.5")
    dialog.try_accept()


def delete_value_too(desk):
    desk.select(desk.node("second"), desk.value("w"))
    desk.run("edit.delete")


def move_into_a_function(desk):
    desk.select(desk.node("second"), desk.node("third"))
    desk.run("node.extract_function")
    dialog = desk.child(TextPrompt)
    dialog.fields[0].setText("Gate")
    dialog.try_accept()


def dialog_of(desk, find, replace):
    desk.run("edit.replace")
    dialog = desk.child(FindReplaceDialog)
    dialog.pattern.setText(find)
    dialog.replacement.setText(replace)
    for kind, box in dialog.kinds.items():
        box.setChecked(kind in ("node names", "value names"))
    dialog.search()
    while dialog.is_searching:  # a slow machine lists them over several turns
        dialog._search.next_chunk()
    return dialog


def replace_names(desk):
    dialog_of(desk, "r", "R").apply()


def table_of(desk):
    panel = NodeTablePanel(desk.workspace)
    desk.qtbot.addWidget(panel)
    panel.show()
    panel.operator.setCurrentIndex(0)
    panel.operator.activated.emit(0)
    desk.qtbot.waitUntil(lambda: not panel._search.running and panel.model.rowCount() == 4)
    return panel


def set_cells(desk):
    panel = table_of(desk)
    panel.table.selectColumn(0)
    QApplication.clipboard().setText("\n".join(f"node {number}" for number in range(4)))
    panel.paste_cells()


def fix_all(desk):
    node = desk.node("second")
    if "nonsense" not in node.attributes:
        with desk.document.edit("Break") as edit:
            for name in ("nonsense", "more"):
                edit.do(SetAttribute(node, name, make_attribute(name, 1)))
    panel = ProblemsPanel(desk.workspace)
    desk.qtbot.addWidget(panel)
    panel.show()
    desk.qtbot.waitUntil(lambda: sum(problem.fix is not None for problem in panel.model.rows) > 1)
    panel.fix_all()


@pytest.fixture
def file_desk(desk, qtbot, tmp_path):
    """The model of a file, whose edits are kept, and no other document: of one in no file a journal is begun soon."""
    desk.window.area.remove_tab(desk.window.tab)
    path = builders.model_file(tmp_path / "chain.onnx", builders.CHAIN)
    with qtbot.waitSignal(desk.window.files.opened):
        desk.window.files.open([path])
    desk.settle()
    return desk


def make_large(monkeypatch):
    monkeypatch.setattr(edit_many, "MANY", 1)


def wait_for_end(desk):
    desk.qtbot.waitUntil(lambda: not desk.workspace.tasks.making("edit"))


@pytest.mark.parametrize(
    ("do", "title"),
    [
        (chosen("edit.delete"), "Delete 2 nodes"),
        (chosen("edit.cut"), "Cut 2 nodes"),
        (chosen("edit.delete_and_bridge"), "Delete and bridge 2 nodes"),
        (chosen("edit.duplicate"), "Duplicate 2 nodes"),
        (chosen("node.disconnect"), "Disconnect 2 nodes"),
        (delete_value_too, "Delete 2 things"),
        (move_into_a_function, "Move 2 nodes into Gate"),
        (paste, "Paste 2 nodes"),
        (replace_names, "Replace r by R"),
        (set_cells, "Set Name of 4 nodes"),
        (fix_all, "Fix all problems"),
        (chosen("graph.make_output"), "Make 2 values outputs"),
        (take_from_the_outputs, "Remove 2 values from the outputs"),
        (chosen_values("value.to_input", "w", "b"), "Make 2 values inputs"),
        (constant_nodes_to_inputs, "Make 2 values inputs"),
        (give_values, "Make 2 values constant"),
    ],
)
def test_it_comes_to_the_same_as_at_once_and_no_crash_takes_it(file_desk, monkeypatch, do, title):
    document = file_desk.document
    do(file_desk)
    wait_for_end(file_desk)
    assert document.undo_title == title
    at_once = snapshot(document.model)
    picked = [getattr(item, "name", None) for item in file_desk.workspace.selection.items]
    document.undo()
    before = document.revision
    make_large(monkeypatch)
    do(file_desk)
    assert document.revision == before, "the window goes on first"
    wait_for_end(file_desk)
    assert document.undo_title == title
    assert snapshot(document.model) == at_once
    assert [getattr(item, "name", None) for item in file_desk.workspace.selection.items] == picked
    journal = file_desk.workspace.journal
    abandon(journal)
    (kept,) = journal_folder().glob("*.journal")
    assert "confirms" in json.loads(kept.read_text().splitlines()[-1]), "what was made was on file before"
    monkeypatch.setattr("onnx_workbench.model.recovery.recover.is_running", lambda *_process: False)
    again = recovered(document, journal_folder())
    assert snapshot(again.model) == at_once
    assert_linked(again.model)


@pytest.fixture
def large(monkeypatch):
    """As with very many."""
    make_large(monkeypatch)


@pytest.mark.usefixtures("large")
def test_what_the_dialog_refuses_stands_in_it(file_desk):
    dialog = dialog_of(file_desk, "(first|fourth)", "second")
    dialog.regex.setChecked(True)
    dialog.search()
    dialog.apply()
    assert not dialog.apply_button.isEnabled(), "it is being done"
    file_desk.qtbot.waitUntil(lambda: "Two would be named second" in dialog.error.text())
    file_desk.qtbot.waitUntil(dialog.apply_button.isEnabled)
    assert file_desk.document.undo_title is None


@pytest.mark.usefixtures("large")
def test_the_dialog_says_what_was_replaced_until_it_is_undone(file_desk):
    dialog = dialog_of(file_desk, "ir", "IR")
    dialog.apply()
    wait_for_end(file_desk)
    file_desk.qtbot.waitUntil(lambda: not dialog._delay.isActive() and not dialog.is_searching)
    assert dialog.status.text() == "2 places changed."
    file_desk.document.undo()
    file_desk.qtbot.waitUntil(lambda: dialog.status.text() == "2 places would change.")


@pytest.mark.usefixtures("large")
def test_a_name_given_meanwhile_is_not_replaced(file_desk):
    dialog = dialog_of(file_desk, "r", "R")
    dialog.apply()
    with file_desk.document.edit("Mine") as edit:
        edit.do(SetField(file_desk.node("first"), "name", "mine"))
    file_desk.qtbot.waitUntil(lambda: "meantime" in dialog.error.text())
    assert file_desk.document.undo_title == "Mine"


@pytest.mark.usefixtures("large")
def test_a_dialog_that_is_closed_meanwhile_takes_nothing_back(file_desk):
    dialog = dialog_of(file_desk, "r", "R")
    dialog.apply()
    dialog.close()
    file_desk.qtbot.waitUntil(lambda: file_desk.document.undo_title == "Replace r by R")


@pytest.mark.usefixtures("large")
def test_what_the_table_refuses_stands_below_it(file_desk):
    panel = table_of(file_desk)
    panel.table.selectColumn(1)
    panel.bulk.setText("No such thing!")
    panel.set_selected()
    file_desk.qtbot.waitUntil(lambda: bool(panel.error.text()))
    assert file_desk.document.undo_title is None


@pytest.mark.usefixtures("large")
def test_deleting_twice_deletes_once_and_refuses_nothing(file_desk):
    file_desk.select(file_desk.node("second"), file_desk.node("third"))
    file_desk.run("edit.delete")
    file_desk.run("edit.delete")
    wait_for_end(file_desk)
    assert file_desk.document.undo_title == "Delete 2 nodes"
    file_desk.document.undo()
    assert file_desk.document.undo_title is None
    assert file_desk.messages() == []


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize(
    ("do", "again", "title"),
    [
        (chosen("graph.make_output"), "graph.make_output", "Make 2 values outputs"),
        (take_from_the_outputs, "graph.remove_output", "Remove 2 values from the outputs"),
        (chosen_values("value.to_input", "w", "b"), "value.to_input", "Make 2 values inputs"),
        (constant_nodes_to_inputs, "value.to_input", "Make 2 values inputs"),
    ],
)
def test_what_is_asked_for_twice_is_made_once_and_refuses_nothing(file_desk, do, again, title):
    do(file_desk)
    file_desk.run(again)
    wait_for_end(file_desk)
    assert file_desk.document.undo_title == title
    file_desk.document.undo()
    assert file_desk.document.undo_title != title
    assert file_desk.messages() == []


@pytest.mark.usefixtures("large")
def test_the_pointer_shows_that_much_is_done_undone_and_done_again(file_desk, monkeypatch):
    """The window stands still meanwhile; with little nobody could see the pointer change."""
    shapes = []

    def look(_change):
        cursor = QApplication.overrideCursor()
        shapes.append(None if cursor is None else cursor.shape())

    def shown():
        shapes.clear()
        file_desk.select(file_desk.node("second"), file_desk.node("third"))
        file_desk.run("edit.delete")
        wait_for_end(file_desk)
        file_desk.run("edit.undo")
        file_desk.run("edit.redo")
        file_desk.run("edit.undo")
        assert QApplication.overrideCursor() is None
        return shapes

    file_desk.document.subscribe(look)
    assert shown() == [None] * 4
    monkeypatch.setattr(busy_cursor, "_MANY", 2)
    assert shown() == [Qt.CursorShape.WaitCursor] * 4


@pytest.mark.parametrize("action", ["edit.copy", "edit.cut"])
def test_very_many_are_copied_in_a_task(file_desk, monkeypatch, action):
    monkeypatch.setattr("onnx_workbench.viewer.actions.edit._MANY", 1)
    copy, threads = copy_paste.copy, []
    monkeypatch.setattr(copy_paste, "copy", lambda *given: (threads.append(threading.get_ident()), copy(*given))[1])
    QApplication.clipboard().setText("what was there before")
    file_desk.select(file_desk.node("second"), file_desk.node("third"))
    file_desk.run(action)
    assert not QApplication.clipboard().text(), "nothing else is pasted meanwhile"
    file_desk.qtbot.waitUntil(clipboard.has_nodes)
    file_desk.run("edit.paste")
    wait_for_end(file_desk)
    assert file_desk.document.undo_title == "Paste 2 nodes"
    assert threads
    assert threading.get_ident() not in threads
    file_desk.document.undo()
    assert file_desk.document.undo_title == ("Cut 2 nodes" if action == "edit.cut" else None)


@pytest.mark.parametrize("action", ["edit.duplicate", "edit.delete", "edit.copy"])
def test_a_node_of_very_many_outputs_is_like_many_nodes(desk, monkeypatch, action):
    """Duplicating one of 99,000 blocked the window for 1.7 s."""
    outputs = ", ".join(f"o{number}" for number in range(40))
    desk.open(f'<ir_version: 10, opset_import: ["" : 18]> g (float[40] x) => () {{ [many] {outputs} = Split (x) }}')
    monkeypatch.setattr(edit_many, "MANY", 4)
    monkeypatch.setattr("onnx_workbench.viewer.actions.edit._MANY", 4)
    desk.select(desk.node("many"))
    revision = desk.document.revision
    desk.run(action)
    assert desk.workspace.tasks.running
    assert desk.document.revision == revision, "the window goes on first"
    desk.qtbot.waitUntil(lambda: desk.document.revision != revision or clipboard.has_nodes())
