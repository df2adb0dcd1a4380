"""Numbers and texts from elsewhere in the window: in boxes, groups and the node table, and their differences."""

import pytest
from onnx import TensorProto, helper, save
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFileDialog, QPushButton

from onnx_workbench.viewer.canvas.scene.drawing import Kind
from onnx_workbench.viewer.dialogs.text_dialog import TextDialog
from onnx_workbench.viewer.popups.choice_popup import ChoicePopup
from onnx_workbench.viewer.program.settings import GROUPS
from tests.viewer.background_work import wait_for_readers
from tests.viewer.run.run_actions import idle, node, opened

HOSTILE = "<b>bold</b>\n\u202eright to left"


@pytest.fixture
def workspace(window, qtbot, tmp_path):
    """A model with two groups of two nodes, and one node outside."""
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="/first/relu"),
        helper.make_node("Sigmoid", ["a"], ["b"], name="/first/sigmoid"),
        helper.make_node("Tanh", ["b"], ["c"], name="/second/tanh"),
        helper.make_node("Exp", ["c"], ["d"], name="/second/exp"),
        helper.make_node("Neg", ["d"], ["y"], name="neg"),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
    save(helper.make_model(helper.make_graph(nodes, "g", ends[:1], ends[1:])), tmp_path / "m.onnx")
    return opened(window, qtbot, tmp_path / "m.onnx")


@pytest.fixture
def open_data(window, qtbot, workspace, tmp_path, monkeypatch):
    """Open files with these contents by the menu, as one choice; the texts of all messages so far."""
    messages = []
    workspace.messages.shown.connect(lambda message: messages.append((message.title, message.detail)))

    def load(**files):
        for name, text in files.items():
            (tmp_path / f"{name}.csv").write_text(text, "utf-8")
        chosen = [str(tmp_path / f"{name}.csv") for name in files]
        monkeypatch.setattr(QFileDialog, "getOpenFileNames", lambda *_: (chosen, ""))
        workspace.trigger("run.colour_file")
        settled(window, qtbot, workspace)
        return messages

    return load


def settled(window, qtbot, workspace):
    idle(qtbot, workspace)
    qtbot.waitUntil(lambda: not window.tab.view.scenes.is_busy)


def rows(window, kind):
    """The texts of the data in the boxes of a kind, by title."""
    scene = window.tab.canvas.scene
    data = scene.drawing.options.data
    boxes = [box for box in scene.boxes if box.kind is kind]
    return {box.title: next((row.text for row in box.rows if row.subject is data), None) for box in boxes}


def test_boxes_have_the_number_and_groups_the_sum(window, qtbot, workspace, open_data):
    messages = open_data(times="node,ms\n/first/relu,1.5\n/first/sigmoid,2\n/second/tanh,-1e300\nnobody,5\n")
    assert rows(window, Kind.NODE) == {"Relu": "1.5", "Sigmoid": "2", "Tanh": "-1e+300", "Exp": None, "Neg": None}
    assert messages == [("3 of 4 names in times.csv match", "Not in the model: nobody")]
    workspace.settings.set(GROUPS, "always")
    settled(window, qtbot, workspace)
    window.tab.view.expansion.collapse_all()
    settled(window, qtbot, workspace)
    assert rows(window, Kind.GROUP) == {"first": "ms, sum of 2: 3.5", "second": "ms: -1e+300"}
    workspace.trigger("run.colour_none")
    settled(window, qtbot, workspace)
    assert not any("ms" in row.text for box in window.tab.canvas.scene.boxes for row in box.rows)
    assert workspace.document.undo_title is None, "nothing of it is in the model"


def test_the_node_table_has_them_in_columns_that_sort(window, qtbot, workspace, open_data):
    open_data(times="node,ms,device\n/first/relu,1.5,CPU\n/first/sigmoid,20,GPU\n/second/tanh,-3,CPU\n")
    panel = window.docks.open("node_table")
    wait_for_readers(qtbot)
    titles = [column.title for column in panel.model.columns]
    assert titles[:5] == ["Name", "ms", "device", "Group", "ms, sum of the group"]
    panel.table.sortByColumn(1, Qt.SortOrder.DescendingOrder)
    wait_for_readers(qtbot)
    model = panel.table.model()
    shown = [[model.index(row, column).data() for column in range(5)] for row in range(3)]
    assert shown == [
        ["/first/sigmoid", "20", "GPU", "first", "21.5"],
        ["/first/relu", "1.5", "CPU", "first", "21.5"],
        ["/second/tanh", "-3", "CPU", "second", "-3"],
    ]
    assert panel.status.text() == "5 nodes · ms, sum of 3: 18.5"
    assert not model.index(0, 1).flags() & Qt.ItemFlag.ItemIsEditable
    panel.table.selectRow(0)
    panel.bulk.setText("4")
    panel.set_selected()
    assert "not part of the model" in panel.error.text()
    workspace.trigger("run.colour_none")
    qtbot.waitUntil(lambda: "ms" not in [column.title for column in panel.model.columns])


def test_all_names_are_listed_and_none_is_taken_for_html(window, qtbot, workspace, open_data):
    open_data(times=f'neg,1\n"{HOSTILE}",2\n/second/exp,nan\n')
    button = next(one for one in window.tab.message_bar.findChildren(QPushButton) if one.text() == "List Names")
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    dialog = window.findChild(TextDialog)
    text = dialog.text.toPlainText()
    assert text.startswith("Not in the model: 1\n<b>bold</b>")
    assert "\u202e" not in text
    assert text.endswith("No finite number: 1\n/second/exp: nan\n\nMatched: 1\nneg")
    dialog.close()


def test_texts_are_categories_with_a_legend(window, workspace, open_data):
    open_data(devices="neg,GPU\n/second/exp,CPU\n/second/tanh,CPU\n")
    legend = window.tab.canvas.colouring.legend
    assert (legend.title, [text for text, _ in legend.entries]) == ("devices", ["CPU", "GPU"])
    assert rows(window, Kind.NODE)["Neg"] == "GPU"


def test_a_further_column_is_chosen_in_a_popup(window, qtbot, workspace, open_data):
    open_data(times="node,ms,device\n/first/relu,1.5,CPU\nneg,20,GPU\n")
    workspace.trigger("run.data_column")
    popup = window.findChildren(ChoicePopup)[-1]
    assert [row.title for row in popup.matching()] == ["ms", "device"]
    popup.run(popup.matching()[1], False)
    settled(window, qtbot, workspace)
    assert rows(window, Kind.NODE)["Neg"] == "GPU"
    popup.close()


def test_two_files_give_their_difference_at_once_or_in_turn(window, qtbot, workspace, open_data):
    messages = open_data(before="neg,1\n/second/exp,2\n", after="neg,5\n/second/tanh,2\n")
    assert workspace.runs.overlays.numbers == {node(workspace, "neg"): 4}
    assert messages[-1] == ("after.csv minus before.csv", "3 of 3 names match; 2 nodes in only one of the two")
    workspace.trigger("run.colour_none")
    open_data(third="neg,7\n")
    button = next(one for one in window.tab.message_bar.findChildren(QPushButton) if one.text().startswith("Subtract"))
    assert button.text() == "Subtract after.csv"
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    settled(window, qtbot, workspace)
    assert workspace.runs.overlays.numbers == {node(workspace, "neg"): 2}
    messages = open_data(other="nobody,3\n")
    assert messages[-1] == ("other.csv has no data of this model", "0 of 1 name match a node or value, such as nobody")
    assert workspace.runs.overlays.numbers == {node(workspace, "neg"): 2}, "the colours stay"
    messages = open_data(a="neg,1\n", b="neg,2\n", c="neg,3\n")
    assert messages[-1][0] == "3 files of node data were chosen"
