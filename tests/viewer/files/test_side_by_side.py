"""Two models side by side in one tab: what a user sees and does there, in the real window."""

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QApplication, QVBoxLayout, QWidget

from onnx_workbench.model.edits import attributes, initializers, nodes
from onnx_workbench.model.io.writer.save import save
from onnx_workbench.model.ir.graph import Node, Value
from onnx_workbench.viewer.compare.compare_bar import CompareBar
from onnx_workbench.viewer.compare.registry import comparison_of
from onnx_workbench.viewer.panel import Panel
from onnx_workbench.viewer.panels.run_comparison import RunComparisonPanel
from onnx_workbench.viewer.popups.choice_popup import ChoicePopup
from onnx_workbench.viewer.program.settings import COMPARE_MERGED
from tests.model import builders

pytestmark = pytest.mark.long

LONG = (
    '<ir_version: 10, opset_import: ["" : 21]>\nlong (float[N, 4] x) => (float[N, 4] y)\n{\n'
    + "\n".join(f"[relu_{i}] v{i} = Relu (v{i - 1})" for i in range(1, 40)).replace("(v0)", "(x)")
    + "\n[sin] s = Sin (v39)\n[last] y = Neg (s)\n}"
)


@pytest.fixture
def files(tmp_path):
    """A model, and one in which a node was added, one renamed, and an operator replaced."""
    document = builders.document(LONG)
    old, new = tmp_path / "old.onnx", tmp_path / "new.onnx"
    save(document.model, old)
    with document.edit("Edit") as edit:
        nodes.insert_on_edge(edit, builders.value(document, "v3"), "Neg")
        nodes.rename_node(edit, builders.node(document, "relu_30"), "other")
        nodes.change_operator(edit, builders.node(document, "sin"), "Cos")
    save(document.model, new)
    return old, new


def settled(window, qtbot):
    qtbot.waitUntil(lambda: not window.files.pending and all(not t.view.scenes.is_busy for t in window.tabs()))


def choose(window, qtbot, title):
    """Compare the document in front with what the popup calls `title`."""
    window.actions_binding.run("model.compare")
    popup = window.findChild(ChoicePopup)
    qtbot.waitUntil(popup.isVisible)
    row = next(r for r in range(popup.list.model().rowCount()) if popup.list.model().index(r, 0).data() == title)
    popup.list.setCurrentIndex(popup.list.model().index(row, 0))
    qtbot.keyClick(popup.field, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: (c := comparison_of(window.workspace)) is not None and c.result is not None)
    settled(window, qtbot)


@pytest.fixture
def compared(window, qtbot, files):
    """The window with both models open and compared: tabs of the old and the new one."""
    window.files.open(files)
    qtbot.waitUntil(lambda: len(window.tabs()) == 2)
    settled(window, qtbot)
    choose(window, qtbot, "old.onnx")
    return window.tabs()


def kinds(tab):
    """How the nodes of a document are marked: by sign, their titles."""
    marks = tab.view.marks
    return {
        sign: {marks.scene.boxes[box].subject.title for box in marks.boxes[sign].tolist()}
        for sign in "+−~→="
        if len(marks.boxes.get(sign, ()))
    }


def place_of(view, node):
    """Where a node is in its widget."""
    (box,) = view.scene.drawing.boxes_of(node)
    left, top, width, _ = view.scene.rect(box)
    return np.array(view.viewport.to_widget(left + width / 2, top))


def test_open_and_recent_models_and_the_saved_file_are_offered(window, qtbot, files, tmp_path):
    window.files.open(files)
    qtbot.waitUntil(lambda: len(window.tabs()) == 2)
    settled(window, qtbot)
    save(builders.model(), tmp_path / "third.onnx")
    window.settings.add_recent_file(tmp_path / "third.onnx")
    window.actions_binding.run("model.compare")
    popup = window.findChild(ChoicePopup)
    offered = [popup.list.model().index(r, 0).data() for r in range(popup.list.model().rowCount())]
    models = [title for title in offered if not title.startswith("Values: ")]
    assert models == ["old.onnx", "new.onnx as saved", "third.onnx", "Another model…"]
    assert {"Values: Previous run", "Values: old.onnx", "Values: ONNX Runtime", "Values: a file…"} <= {*offered}
    qtbot.keyClick(popup.field, Qt.Key.Key_Escape)


def test_both_are_seen_in_one_tab_with_signs_and_a_legend(compared, window):
    old, new = compared
    assert old.view.isVisible()
    assert new.view.isVisible()
    assert old.view.mapToGlobal(QPoint()).x() < new.view.mapToGlobal(QPoint()).x()
    assert kinds(new) == {"+": {"Neg"}, "=": {"other"}, "~": {"relu_4", "sin"}}
    assert kinds(old) == {"=": {"relu_30"}, "~": {"relu_4", "sin"}}
    legend = [text for text, _ in new.view.colouring.legend.entries]
    assert legend == ["~ changed", "+ added", "= renamed"]
    assert window.docks.panel("differences").isVisible()


def test_scrolling_and_zooming_one_moves_the_other(compared):
    old, new = compared
    for number, (leader, follower) in ((10, (new, old)), (25, (old, new))):
        node = builders.node(leader.workspace.document, f"relu_{number}")
        (box,) = leader.view.scene.drawing.boxes_of(node)
        left, top, width, height = leader.view.scene.rect(box)
        leader.view.zoom_to(0.5 + number / 100)
        leader.view.centre_on(left + width / 2, top + height / 2)
        partner = builders.node(follower.workspace.document, f"relu_{number}")
        assert follower.view.zoom == leader.view.zoom
        assert np.abs(place_of(follower.view, partner) - place_of(leader.view, node)).max() < 2
    old.beside.bar.follow.click()
    before = new.view.scenes.view_state()
    old.view.pan_by(0, 400)
    assert new.view.scenes.view_state() == before


def test_who_is_clicked_is_who_actions_mean(compared, window, qtbot):
    old, new = compared
    assert window.workspace is new.workspace
    qtbot.mouseClick(old.view, Qt.MouseButton.LeftButton, pos=QPoint(3, 3))
    assert window.workspace is old.workspace
    assert window.windowTitle().startswith("old.onnx")
    old.workspace.navigation.reveal(builders.node(old.workspace.document, "relu_7"))
    assert new.workspace.selection.current is builders.node(new.workspace.document, "relu_7")
    window.actions_binding.run("edit.delete")
    assert "relu_7" not in {n.name for n in old.workspace.model.graph.nodes}
    assert "relu_7" in {n.name for n in new.workspace.model.graph.nodes}
    qtbot.mouseClick(new.view, Qt.MouseButton.LeftButton, pos=QPoint(3, 3))
    assert window.workspace is new.workspace


def test_going_through_and_copying_a_difference(compared, qtbot):
    old, new = compared
    bar, comparing = new.beside.bar, comparison_of(new.workspace)
    assert not bar.to_left.isEnabled()
    titles = []
    for _ in comparing.result.differences:
        qtbot.mouseClick(bar.next, Qt.MouseButton.LeftButton)
        titles.append(bar.state.text())
    assert titles[0].startswith("1 of 4: ")
    operator = next(i for i, text in enumerate(titles) if "operator" in text)
    for _ in range(len(titles) - 1 - operator):
        qtbot.mouseClick(bar.previous, Qt.MouseButton.LeftButton)
    assert old.workspace.selection.current is builders.node(old.workspace.document, "sin")
    with qtbot.waitSignal(comparing.changed):
        qtbot.mouseClick(bar.to_left, Qt.MouseButton.LeftButton)
    assert builders.node(old.workspace.document, "sin").op_type == "Cos"
    assert bar.state.text() == "3 differences"
    old.workspace.document.undo()
    assert builders.node(old.workspace.document, "sin").op_type == "Sin"


def test_what_differs_in_a_selected_node_is_chosen_and_copied(compared, qtbot, window):
    old, new = compared
    comparing = comparison_of(new.workspace)
    old.workspace.selection.set([builders.node(old.workspace.document, "sin")])
    assert [d.aspect for d in comparing.chosen] == ["operator"]
    assert [d.aspect for d in window.docks.panel("differences").selected()] == ["operator"]
    with qtbot.waitSignal(comparing.changed):
        qtbot.mouseClick(new.beside.bar.to_right, Qt.MouseButton.LeftButton)
    assert builders.node(new.workspace.document, "sin").op_type == "Sin"
    new.workspace.selection.set([builders.node(new.workspace.document, "relu_7")])
    assert comparing.chosen == ()
    assert not new.beside.bar.to_right.isEnabled()


def test_a_kind_that_is_hidden_is_gone_from_list_graph_and_steps(compared, window, qtbot):
    old, new = compared
    panel = window.docks.panel("differences")
    qtbot.mouseClick(panel.filters["renamed"], Qt.MouseButton.LeftButton)
    assert "=" not in kinds(old)
    assert panel.model.rowCount() == 3
    qtbot.mouseClick(new.beside.bar.next, Qt.MouseButton.LeftButton)
    assert new.beside.bar.state.text().startswith("1 of 3: ")
    window.area.activate(old)
    assert not window.docks.panel("differences").filters["renamed"].isChecked()
    qtbot.mouseClick(window.docks.panel("differences").filters["renamed"], Qt.MouseButton.LeftButton)
    assert kinds(new)["="] == {"other"}


def test_it_fits_a_small_screen_at_125_percent(compared, window):
    """1024 by 700 pixels are 819 by 560 then."""
    for merged in (False, True):
        compared[1].workspace.settings.set(COMPARE_MERGED, merged)
        assert window.docks.panel("differences").isVisible()
        least = window.minimumSizeHint()
        assert (least.width() <= 819, least.height() <= 560) == (True, True), least


def test_a_long_difference_is_cut_and_does_not_widen_the_window(compared, qtbot):
    _, new = compared
    width = new.beside.minimumSizeHint().width()
    with new.workspace.document.edit("Rename") as edit:
        nodes.rename_node(edit, builders.node(new.workspace.document, "sin"), "n" * 300)
    comparing = comparison_of(new.workspace)
    with qtbot.waitSignal(comparing.changed):
        comparing.refresh()
    comparing.choose([d for d in comparing.result.differences if d.kind == "renamed"])
    state = new.beside.bar.state
    assert "n" * 50 in state.text()
    assert new.beside.minimumSizeHint().width() == width
    assert state.fontMetrics().horizontalAdvance(state.text()) > state.width()


def test_a_bar_that_is_narrow_goes_on_in_a_second_line(compared, qtbot):
    holder = QWidget()
    qtbot.addWidget(holder)
    bar = CompareBar(comparison_of(compared[1].workspace))
    QVBoxLayout(holder).addWidget(bar)
    for width, is_wide in ((1200, True), (560, False), (1200, True)):
        holder.resize(width, 120)
        holder.show()
        qtbot.waitUntil(lambda is_wide=is_wide: (bar.stop.y() <= bar.beside.geometry().bottom()) is is_wide)
        assert bar.stop.geometry().right() < bar.width() <= width


def test_running_both_lists_the_largest_error_first(compared, window, qtbot):
    old, new = compared
    qtbot.mouseClick(new.beside.bar.run, Qt.MouseButton.LeftButton)

    def panel():
        found = window.docks.panel("compare") if window.docks.is_open("compare") else None
        return found if isinstance(found, RunComparisonPanel) and found.rows else None

    qtbot.waitUntil(lambda: panel() is not None)
    rows = {row.name: row.difference for row in panel().rows}
    assert {name for name, found in rows.items() if found.max_abs} >= {"y"}
    assert rows["v2"].max_abs == 0
    fed = [tab.workspace.results.current.feeds["x"] for tab in (old, new)]
    assert np.array_equal(*fed)


def test_either_tab_shows_both_and_each_its_own_afterwards(compared, window, qtbot):
    old, new = compared
    window.area.activate(old)
    assert window.workspace is old.workspace
    assert new.view.isVisible()
    qtbot.mouseClick(old.beside.bar.stop, Qt.MouseButton.LeftButton)
    assert old.view.isVisible()
    assert not new.view.isVisible()
    assert comparison_of(old.workspace) is comparison_of(new.workspace) is None
    assert kinds(old) == {}
    assert old.view.colouring is None
    window.area.activate(new)
    assert new.view.isVisible()


def test_closing_one_leaves_the_other_whole(compared, window, qtbot):
    old, new = compared
    window.files.close(old)
    assert window.tabs() == [new]
    assert new.view.isVisible()
    assert window.workspace is new.workspace
    choose(window, qtbot, "new.onnx as saved")
    assert comparison_of(window.workspace).result.differences == []
    assert window.tab.beside.bar.state.text() == "No difference"


def test_a_file_that_is_read_again_is_compared_again(compared, window, qtbot, files):
    old, new = compared
    document = builders.document(LONG)
    builders.one_edit(document, nodes.change_operator, builders.node(document, "last"), "Abs")
    save(document.model, files[0])
    window.files.reload(old)
    qtbot.waitUntil(lambda: window.tabs()[0] is not old)
    fresh = window.tabs()[0]
    qtbot.waitUntil(lambda: (c := comparison_of(fresh.workspace)) is not None and c.result is not None)
    settled(window, qtbot)
    assert fresh.beside is new.beside
    assert kinds(fresh)["~"] == {"relu_4", "sin", "last"}


def test_a_body_is_shown_on_both_sides_and_its_owner_is_marked(window, qtbot, tmp_path):
    document = builders.document(builders.BRANCHES)
    old, new = tmp_path / "old.onnx", tmp_path / "new.onnx"
    save(document.model, old)
    with document.edit("Edit") as edit:
        nodes.rename_node(edit, builders.node(document, "inner"), "other")
        attributes.set_attribute(edit, builders.node(document, "call"), "factor", 3.0)
    save(document.model, new)
    window.files.open([old, new])
    qtbot.waitUntil(lambda: len(window.tabs()) == 2)
    settled(window, qtbot)
    choose(window, qtbot, "old.onnx")
    left, right = window.tabs()
    choice = builders.node(right.workspace.document, "choose")
    assert kinds(right) == {"~": {"choose", "call"}}
    right.workspace.navigation.show(choice.bodies[0])
    assert left.workspace.graph is builders.node(left.workspace.document, "choose").bodies[0]
    settled(window, qtbot)
    assert kinds(left) == {"=": {"inner"}}
    right.workspace.navigation.go_up()
    assert left.workspace.graph is left.workspace.model.graph


def test_who_uses_a_constant_that_went_is_marked_on_both_sides(window, qtbot, tmp_path):
    text = """g (float[4] x) => (float[4] y)
        { [one] c = Constant<value = float[1] {2.0}>() [two] a = Mul(x, c) [three] y = Relu(a) }"""
    document = builders.document(text)
    save(document.model, tmp_path / "old.onnx")
    builders.one_edit(document, initializers.constant_to_initializer, builders.node(document, "one"))
    save(document.model, tmp_path / "new.onnx")
    window.files.open([tmp_path / "old.onnx", tmp_path / "new.onnx"])
    qtbot.waitUntil(lambda: len(window.tabs()) == 2)
    settled(window, qtbot)
    choose(window, qtbot, "old.onnx")
    old, new = ({n.name: kind for n, kind in side.items()} for side in comparison_of(window.workspace).kinds)
    assert old == {"one": "removed", "two": "changed"}
    assert new == {"two": "changed"}


def test_what_partners_are_is_reported_in_objects_of_the_documents(compared):
    _, new = compared
    result = comparison_of(new.workspace).result
    here = {item for item in result.matching.new_of.values() if isinstance(item, (Node, Value))}
    assert here <= {*new.workspace.model.graph.nodes, *new.workspace.model.graph.values()}


def test_keys_go_through_all_tabs_from_either_side(compared, window, qtbot):
    old, new = compared
    window.files.open_sample()
    qtbot.waitUntil(lambda: len(window.tabs()) == 3 and not window.files.pending)
    for tab in (old, new, window.tabs()[2]):
        window.actions_binding.run("go.next_tab")
        assert window.area._tabs.currentWidget() is tab
        if tab.beside is not None:
            tab.beside.set_front(old)


@pytest.mark.parametrize("side", [0, 1])
def test_closing_a_compared_document_leaves_none_of_its_panels(compared, window, qtbot, side):
    closed, kept = compared[side], compared[1 - side].workspace
    window.docks.open("inspector")
    closed.beside.set_front(closed)
    window.docks.open("outline")
    window.files.forget(closed)
    qtbot.waitUntil(lambda: window.workspace is kept)
    qtbot.waitUntil(lambda: {panel.workspace for panel in _panels()} == {kept})


def _panels():
    return [widget for widget in QApplication.allWidgets() if isinstance(widget, Panel)]
