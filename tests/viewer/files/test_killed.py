"""A kill at the very moment an edit shows: the next start does all of it again, whatever its size."""

import numpy as np
import pytest

from onnx_workbench.model.edits import functions, nodes
from onnx_workbench.model.edits.nodes import rename_node
from onnx_workbench.model.history.steps import SetInitializer
from onnx_workbench.model.io.writer.save import save
from onnx_workbench.model.ir.graph import Value
from onnx_workbench.model.ir.tensors import ArrayTensor
from onnx_workbench.viewer.compare.model_comparison import ModelComparison
from onnx_workbench.viewer.dialogs.merge import MergeDialog
from onnx_workbench.viewer.program.folders import journal_folder
from onnx_workbench.viewer.workflows.edit_many import edit_many
from tests.model import builders
from tests.model.recovery.recorded_work import killed_now
from tests.model.snapshots import assert_linked, snapshot
from tests.viewer.background_work import task_of, wait_for_background_work
from tests.viewer.files.large import ELEMENTS, large_document
from tests.viewer.opening import opened
from tests.viewer.tensor_view.tensor_actions import panel_of

pytestmark = pytest.mark.long

MANY = 2_500


class Killed:
    """What each next start would do again if the program was killed when a change of a document shows."""

    def __init__(self, document):
        self.states = []
        self._document = document
        document.subscribe(lambda _change: self.look())

    def look(self):
        again, leftover = killed_now(journal_folder())
        assert snapshot(again.model) == snapshot(self._document.model)
        assert_linked(again.model)
        self.states.append(leftover.titles)


@pytest.mark.usefixtures("dead")
def test_values_of_a_file_and_what_is_done_behind_them(qtbot, window, large_file, tmp_path):
    workspace = opened(window, qtbot, large_file).workspace
    document, value = workspace.document, builders.value(workspace.document, "w")
    np.save(tmp_path / "v.npy", np.full(ELEMENTS, 7, np.float32))
    panel, killed = panel_of(qtbot, window, value), Killed(document)
    panel.pane.editing.import_file(tmp_path / "v.npy", "", lambda _text, resume: resume())
    qtbot.waitUntil(lambda: bool(killed.states))
    rename_last(document)
    document.undo()
    titles = ("Import v.npy into w", "Rename")
    assert killed.states == [titles[:1], titles, titles[:1]]
    panel.pane.editing.compute([], "x * 0.5")
    qtbot.waitUntil(lambda: len(killed.states) == 4)
    assert value.initializer.numpy()[0] == 3.5


def rename_last(document):
    with document.edit("Rename") as edit:
        rename_node(edit, document.model.graph.nodes.last, "renamed")


@pytest.mark.usefixtures("dead")
def test_edits_made_while_bytes_are_written_are_on_file(qtbot, being_written, delayed):
    workspace, _ = being_written
    killed = Killed(workspace.document)
    rename_last(workspace.document)
    assert killed.states == [("Rename",)]
    delayed.set()
    qtbot.waitUntil(lambda: len(killed.states) == 2)
    assert killed.states[-1] == ("Rename", "Import v.npy into w")


@pytest.mark.usefixtures("dead")
def test_what_is_stopped_while_its_bytes_are_written_is_not_done(qtbot, being_written, delayed):
    workspace, task = being_written
    task.cancel()
    qtbot.waitUntil(lambda: task not in workspace.tasks.running)
    delayed.set()
    killed = Killed(workspace.document)
    rename_last(workspace.document)
    assert killed.states == [("Rename",)]
    assert workspace.journal.problem == ""
    assert builders.value(workspace.document, "w").initializer.numpy()[1] == 1


def test_bytes_that_find_no_room_are_no_trouble_for_the_edit(qtbot, window, large_file, monkeypatch):
    workspace = opened(window, qtbot, large_file).workspace
    monkeypatch.setattr(
        "onnx_workbench.model.recovery.journal_files.data_path", lambda path: path
    )  # which is there already
    value = builders.value(workspace.document, "w")
    panel_of(qtbot, window, value).pane.editing.fill([], "2")
    qtbot.waitUntil(lambda: value.initializer.numpy()[0] == 2)
    qtbot.waitUntil(lambda: "not being kept" in workspace.journal.problem)
    assert [m.title for m in window.tab.message_bar.messages] == ["A crash would lose edits"]


@pytest.mark.usefixtures("dead")
def test_few_nodes_with_large_weights(qtbot, window, large_file):
    workspace = opened(window, qtbot, large_file).workspace
    killed, ended = Killed(workspace.document), []

    def change(edit, copy_of, _progress):
        node = nodes.add_node(edit, workspace.graph, "Neg", [copy_of(workspace.graph.inputs[0])])
        edit.do(SetInitializer(workspace.graph, Value("new"), ArrayTensor(np.ones(ELEMENTS, np.float32))))
        return [node]

    edit_many(workspace, "Paste", 1, change, ended=ended.append)
    assert killed.states == []
    qtbot.waitUntil(lambda: bool(ended))
    assert ended == [True]
    assert killed.states == [("Paste",)]
    assert workspace.selection.nodes == (workspace.graph.nodes.last,)


def called_often():
    """A function and very many calls of it."""
    calls = "\n".join(f"v{n + 1} = local.twice (v{n}, v{n})" for n in range(MANY))
    return builders.document(f"""
        <ir_version: 10, opset_import: ["" : 21, "local" : 1]>
        calls (float[4] v0) => (float[4] v{MANY}) {{ {calls} }}
        <domain: "local", opset_import: ["" : 21]> twice (a, b) => (c) {{ c = Add (a, b) }}
    """)


@pytest.mark.usefixtures("dead")
def test_what_changes_very_many_calls(qtbot, window, tmp_path):
    path = tmp_path / "calls.onnx"
    save(called_often().model, path)
    document = opened(window, qtbot, path).workspace.document
    killed, (function,) = Killed(document), document.model.functions
    with document.edit("Swap") as edit:
        functions.set_signature(edit, function, inputs=tuple(reversed(function.body.inputs)))
    with document.edit("Rename the function") as edit:
        functions.rename_function(edit, function, name="double")
    document.undo()
    assert killed.states == [("Swap",), ("Swap", "Rename the function"), ("Swap",)]


@pytest.mark.usefixtures("dead")
def test_very_many_differences_that_are_copied(qtbot, window, tmp_path):
    old, new = called_often(), called_often()
    with new.edit("Names") as edit:
        for number, node in enumerate(new.model.graph.nodes):
            rename_node(edit, node, f"new {number}")
    save(old.model, tmp_path / "old.onnx")
    save(new.model, tmp_path / "new.onnx")
    here, there = (opened(window, qtbot, tmp_path / f"{name}.onnx").workspace for name in ("old", "new"))
    comparing = ModelComparison(here, there)
    comparing.refresh()
    qtbot.waitUntil(lambda: comparing.result is not None)
    killed = Killed(here.document)
    comparing.copy_into(comparing.result.differences, here)
    qtbot.waitUntil(lambda: bool(killed.states))
    assert len(killed.states[0]) == 1
    assert here.graph.nodes.last.name == f"new {MANY - 1}"
    comparing.close()


def test_a_merge_closed_while_its_weights_are_written_is_off(qtbot, window, tmp_path, delayed):
    path = tmp_path / "calls.onnx"
    save(builders.document().model, path)
    workspace = opened(window, qtbot, path).workspace
    dialog = MergeDialog(window, workspace, workspace.graph, large_document().model, "other.onnx")
    with qtbot.waitExposed(dialog):
        dialog.show()
    dialog.prefix.setText("other_")
    dialog.apply()
    qtbot.waitUntil(lambda: workspace.journal.path is not None)
    task = task_of(qtbot, workspace.tasks, "Merge other.onnx")
    dialog.reject()
    qtbot.waitUntil(lambda: task.finished)
    delayed.set()
    workspace.journal._log._store.flush()
    wait_for_background_work(qtbot)
    assert workspace.document.undo_title is None
