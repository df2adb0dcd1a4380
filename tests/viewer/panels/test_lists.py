"""Outline, find, problems and history: through their widgets."""

import sys

import numpy as np
import pytest
from PySide6.QtCore import QModelIndex, QPoint, Qt
from PySide6.QtWidgets import QApplication

from onnx_workbench.model.edits import nodes
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.steps import InsertNode, RemoveNode, SetAttribute, SetField, SetInitializer
from onnx_workbench.model.ir.attributes import make_attribute
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, Value
from onnx_workbench.model.ir.tensors import ArrayTensor
from onnx_workbench.model.ir.types import ElementType, Shape, TensorType
from onnx_workbench.model.text import regular_expressions
from onnx_workbench.viewer.panels.find import FindPanel, fitted
from onnx_workbench.viewer.panels.history import HistoryPanel
from onnx_workbench.viewer.panels.outline import OutlinePanel
from onnx_workbench.viewer.panels.problems import ProblemsPanel
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.tables.outline_model import ObjectRole
from onnx_workbench.viewer.tables.two_tone import TextsRole
from onnx_workbench.viewer.tasks import event_loop
from onnx_workbench.viewer.widgets import busy_cursor
from tests.model import builders


def shown(qtbot, panel):
    qtbot.addWidget(panel)
    panel.resize(400, 300)
    panel.show()
    return panel


def texts(model, parent=None):
    """The visible tree as nested names."""
    parent = parent or QModelIndex()
    found = []
    for row in range(model.rowCount(parent)):
        index = model.index(row, 0, parent)
        inner = texts(model, index)
        found.append((index.data(), inner) if inner else index.data())
    return found


def test_the_outline_lists_every_graph(qtbot, workspace):
    panel = shown(qtbot, OutlinePanel(workspace))
    assert texts(panel.model) == [
        ("main", ["Relu_0", "Neg_1", ("branch", [("then_branch", ["Abs_0"]), ("else_branch", ["Abs_0"])]), "call"]),
        ("ƒ Twice", ["Softmax_0"]),
        ("training: algorithm", ["Sub_0"]),
    ]


def test_the_outline_is_drawn_anew_for_names_not_for_attributes(qtbot, workspace):
    panel = shown(qtbot, OutlinePanel(workspace))
    relu = next(iter(workspace.model.graph.nodes))
    panel.model.index_of(relu).data()
    changed = []
    panel.model.dataChanged.connect(lambda *_: changed.append(1))
    builders.do(workspace.document, SetAttribute(relu, "alpha", make_attribute("alpha", 0.25)))
    assert not changed
    builders.do(workspace.document, SetField(relu, "op_type", "Elu"))
    assert changed
    assert panel.model.index_of(relu).data(TextsRole)[0] == "Elu"


# -- outline --------------------------------------------------------------------------------------------------


def test_rows_have_the_width_they_need_once_the_panel_has_its_size(qtbot, workspace):
    panel = OutlinePanel(workspace)
    qtbot.addWidget(panel)
    panel.resize(80, 300)
    panel.show()
    panel.resize(400, 300)
    tree = panel.tree
    qtbot.waitUntil(lambda: tree.columnWidth(0) == max(tree.viewport().width(), tree.sizeHintForColumn(0)))


def test_choosing_in_the_outline_selects_and_the_other_way_round(qtbot, workspace):
    panel = shown(qtbot, OutlinePanel(workspace))
    relu = workspace.model.graph.nodes.first
    index = panel.model.index_of(relu)
    panel.tree.setCurrentIndex(index)
    assert workspace.selection.items == (relu,)
    inner = workspace.model.graph.nodes[2].bodies[1].nodes.first
    workspace.selection.set([inner])
    assert panel.tree.currentIndex().data(ObjectRole) is inner
    assert workspace.selection.items == (inner,)


def test_a_node_chosen_in_the_outline_comes_into_view_also_in_a_body(qtbot, workspace, received):
    panel = shown(qtbot, OutlinePanel(workspace))
    revealed = received(workspace.navigation.reveal_requested)
    relu, _, branch = list(workspace.model.graph.nodes)[:3]
    panel.tree.setCurrentIndex(panel.model.index_of(relu))
    assert revealed == [relu]
    inner = branch.bodies[1].nodes.first
    panel.tree.setCurrentIndex(panel.model.index_of(inner))
    assert workspace.graph is branch.bodies[1]
    assert revealed == [relu, inner]


def test_a_double_click_opens_the_graph(qtbot, workspace):
    panel = shown(qtbot, OutlinePanel(workspace))
    function = workspace.model.functions[0]
    index = panel.model.index_of(function.body)
    panel.tree.scrollTo(index)
    position = panel.tree.visualRect(index).center()
    qtbot.mouseClick(panel.tree.viewport(), Qt.MouseButton.LeftButton, pos=position)
    qtbot.mouseDClick(panel.tree.viewport(), Qt.MouseButton.LeftButton, pos=position)
    assert workspace.graph is function.body


def test_the_outline_follows_edits(qtbot, workspace):
    panel = shown(qtbot, OutlinePanel(workspace))
    document, relu = workspace.document, workspace.model.graph.nodes.first
    panel.tree.expandAll()
    builders.do(document, SetField(relu, "name", "renamed"))
    assert panel.model.index_of(relu).data() == "renamed"
    builders.one_edit(document, nodes.delete, [relu])
    assert not panel.model.index_of(relu).isValid()
    document.undo()
    assert panel.model.index_of(relu).isValid()
    builders.do(document, SetField(document.model, "functions", ()))
    assert [t[0] for t in texts(panel.model)] == ["main", "training: algorithm"]


def test_groups_come_from_scopes(qtbot):
    graph = Graph("net")
    for name in ("encoder/layer0/Add", "encoder/layer0/Mul", "encoder/layer1/Add", "encoder/layer1/Mul", "head"):
        InsertNode(graph, Node("Add", name=name)).apply()
    workspace = Workspace(Document(Model(graph)), title="net")
    panel = shown(qtbot, OutlinePanel(workspace))
    assert texts(panel.model) == [
        (
            "net",
            [
                (
                    "encoder",
                    [
                        ("layer0", ["Add", "Mul"]),
                        ("layer1", ["Add", "Mul"]),
                    ],
                ),
                "head",
            ],
        )
    ]
    workspace.selection.set([graph.nodes[3]])
    assert panel.tree.currentIndex().data() == "Mul", "the scopes above say the rest"
    workspace.close()


def test_names_in_files_are_plain_text(qtbot):
    graph = Graph("<b>bold</b>\u202e")
    InsertNode(graph, Node("Relu", name="a\nb" + "x" * 3000)).apply()
    workspace = Workspace(Document(Model(graph)), title="hostile")
    panel = shown(qtbot, OutlinePanel(workspace))
    name = panel.model.index(0, 0, panel.model.index(0, 0)).data()
    assert "\n" not in name
    assert len(name) < 250
    assert panel.model.index(0, 0).data() == "<b>bold</b>\\u202e"
    workspace.close()


# -- find -----------------------------------------------------------------------------------------------------


def found(panel):
    return [item.name for item in panel.matches.items]


def test_typing_finds_and_marks(qtbot, workspace, received):
    panel = shown(qtbot, FindPanel(workspace))
    calls = []
    workspace.highlights.marked.connect(lambda kind, items: calls.append((kind, [i.name for i in items])))
    qtbot.keyClicks(panel.box, "op:abs")
    qtbot.waitUntil(lambda: len(panel.matches.items) == 2)
    assert found(panel) == ["Abs_0", "Abs_0"]
    assert panel.status.text() == "2 matches"
    qtbot.waitUntil(lambda: bool(calls))
    assert calls[-1] == ("matches", ["Abs_0", "Abs_0"])
    panel.box.clear()
    qtbot.waitUntil(lambda: calls[-1] == ("matches", []))


def test_nodes_come_before_constants_that_are_named_like_them(qtbot):
    graph = Graph("g")
    SetInitializer(graph, Value("conv1_weight"), ArrayTensor(np.zeros(2, np.float32))).apply()
    InsertNode(graph, Node("Conv", name="first")).apply()
    workspace = Workspace(Document(Model(graph)), title="named")
    panel = shown(qtbot, FindPanel(workspace))
    qtbot.keyClicks(panel.box, "conv")
    qtbot.waitUntil(lambda: found(panel) == ["first", "conv1_weight"])
    icons = [panel.matches.index(row).data(Qt.ItemDataRole.DecorationRole) for row in range(2)]
    assert {one.actualSize(panel.list.iconSize()).width() for one in icons} == {16}, "rows line up"
    workspace.close()


@pytest.mark.parametrize("room", [120, 180, 240])
def test_a_narrow_list_shortens_the_name_of_a_match_and_not_its_type(qtbot, workspace, room):
    metrics = FindPanel(workspace).list.fontMetrics()
    value = Value("encoder/layer.11/attention/self/query/MatMul_output_0", TensorType(ElementType.FLOAT, Shape((1, 8))))
    text = fitted(value, metrics, room)
    assert metrics.horizontalAdvance(text) <= room
    assert text.endswith("  float 1×8")
    assert text.startswith("enc" if room > 200 else "")
    node = Node("MatMul", name="encoder/layer.11/attention/self/query/MatMul")
    assert fitted(node, metrics, room).startswith("MatMul  e")
    assert metrics.horizontalAdvance(fitted(node, metrics, room)) <= room
    assert fitted(node, metrics, 2000) == "MatMul  encoder/layer.11/attention/self/query/MatMul"
    long = Value("x", TensorType(ElementType.FLOAT, Shape(tuple(f"dimension_{number}" for number in range(8)))))
    assert fitted(long, metrics, room).startswith("x  float")


def test_arrows_walk_the_results_and_reveal_them(qtbot, workspace):
    panel = shown(qtbot, FindPanel(workspace))
    qtbot.keyClicks(panel.box, "abs")
    qtbot.keyClick(panel.box, Qt.Key.Key_Down)
    bodies = workspace.model.graph.nodes[2].bodies
    assert workspace.graph is bodies[0]
    assert workspace.selection.items == (bodies[0].nodes.first,)
    qtbot.waitUntil(lambda: len(panel.matches.items) == 2)  # a busy machine finds the second a turn later
    qtbot.keyClick(panel.list, Qt.Key.Key_Down)
    assert workspace.graph is bodies[1]
    qtbot.keyClick(panel.list, Qt.Key.Key_Up)
    qtbot.keyClick(panel.list, Qt.Key.Key_Up)
    assert panel.list.currentIndex().row() == 0


def test_results_look_as_on_the_canvas_and_show_types(qtbot):
    graph = Graph("g")
    SetInitializer(graph, Value("weights"), ArrayTensor(np.zeros((2, 3), np.float32))).apply()
    node = Node("Twice", domain="my", name="w")
    InsertNode(graph, node).apply()
    model = Model(graph)
    model.functions = (Function("Twice", "my"),)
    workspace = Workspace(Document(model), title="named")
    panel, outline = shown(qtbot, FindPanel(workspace)), shown(qtbot, OutlinePanel(workspace))
    qtbot.keyClicks(panel.box, "w")
    qtbot.waitUntil(lambda: found(panel) == ["w", "weights"])
    assert panel.matches.index(1).data() == "weights  float 2×3"
    dots = [panel.matches.index(0), outline.model.index_of(node)]
    assert len({index.data(Qt.ItemDataRole.DecorationRole).cacheKey() for index in dots}) == 1
    workspace.close()


def test_a_wrong_expression_is_said(qtbot, workspace):
    panel = shown(qtbot, FindPanel(workspace))
    qtbot.keyClicks(panel.box, "name:/(/")
    panel.start()
    assert "not a regular expression" in panel.status.text()
    assert not panel.matches.items


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signal for it")
def test_an_expression_that_takes_too_long_is_said(qtbot, workspace, monkeypatch):
    """It blocked the window until the program was killed."""
    monkeypatch.setattr(regular_expressions, "LIMIT_SECONDS", 0.05)
    builders.do(workspace.document, SetField(workspace.graph.outputs[0], "name", "a" * 40))
    panel = shown(qtbot, FindPanel(workspace))
    qtbot.keyClicks(panel.box, "/Relu|(a+)+b/")
    qtbot.waitUntil(lambda: "takes too long" in panel.status.text())
    assert "1 found before" in panel.status.text()
    assert found(panel) == ["Relu_0"]
    panel.box.clear()
    qtbot.keyClicks(panel.box, "/^a+$/")
    qtbot.waitUntil(lambda: panel.status.text() == "1 match")


def test_results_follow_edits(qtbot, workspace):
    panel = shown(qtbot, FindPanel(workspace))
    qtbot.keyClicks(panel.box, "op:relu")
    qtbot.waitUntil(lambda: found(panel) == ["Relu_0"])
    builders.one_edit(workspace.document, nodes.delete, [workspace.model.graph.nodes.first])
    qtbot.waitUntil(lambda: found(panel) == [])


def test_an_edit_in_the_middle_of_a_search_begins_it_anew(qtbot, monkeypatch):
    monkeypatch.setattr("onnx_workbench.viewer.tasks.event_loop.CHUNK_SECONDS", 0)  # one match a turn
    graph = Graph("g")
    for number in range(8):
        SetInitializer(graph, Value(f"w{number}"), ArrayTensor(np.zeros(2, np.float32))).apply()
    workspace = Workspace(Document(Model(graph)), title="constants")
    panel = shown(qtbot, FindPanel(workspace))
    panel.box.setText("w")
    panel.start()
    qtbot.waitUntil(lambda: len(found(panel)) >= 2)
    builders.do(workspace.document, SetInitializer(graph, next(v for v in graph.initializers if v.name == "w7"), None))
    qtbot.waitUntil(lambda: panel.status.text() == "7 matches")
    assert found(panel) == [f"w{number}" for number in range(7)]
    workspace.close()


# -- problems -------------------------------------------------------------------------------------------------


def broken(workspace):
    relu = workspace.model.graph.nodes.first
    builders.do(workspace.document, SetAttribute(relu, "nonsense", make_attribute("nonsense", 1)))
    return relu


def messages(panel):
    return sorted(p.message for p in panel.model.rows if p.severity == "error")


def test_problems_appear_and_go(qtbot, workspace):
    panel = shown(qtbot, ProblemsPanel(workspace))
    qtbot.waitUntil(lambda: panel.workspace.problems.finished)
    before = messages(panel)
    broken(workspace)
    qtbot.waitUntil(lambda: "Relu_0 has an unknown attribute nonsense" in messages(panel))
    workspace.document.undo()
    qtbot.waitUntil(lambda: messages(panel) == before)


def test_a_problem_leads_to_its_place_and_is_fixed(qtbot, workspace):
    panel = shown(qtbot, ProblemsPanel(workspace))
    relu = broken(workspace)
    qtbot.waitUntil(lambda: "Relu_0 has an unknown attribute nonsense" in messages(panel))
    row = [p.message for p in panel.model.rows].index("Relu_0 has an unknown attribute nonsense")
    index = panel.model.index(row, 0)
    panel.table.scrollTo(index)
    position = panel.table.visualRect(index).center()
    qtbot.mouseClick(panel.table.viewport(), Qt.MouseButton.LeftButton, pos=position)
    assert workspace.selection.items == (relu,)
    assert panel.fix_button.isEnabled()
    qtbot.mouseClick(panel.fix_button, Qt.MouseButton.LeftButton)
    assert "nonsense" not in relu.attributes
    assert workspace.document.undo_title == "Remove nonsense of Relu_0"


def test_a_problem_of_a_deleted_node_leads_nowhere(qtbot, workspace):
    """After an edit of very much what was known stays listed."""
    panel = shown(qtbot, ProblemsPanel(workspace))
    relu, other = broken(workspace), workspace.model.graph.nodes.first.next
    qtbot.waitUntil(lambda: "Relu_0 has an unknown attribute nonsense" in messages(panel))
    with workspace.document.edit("Change very much") as edit:
        edit.do(RemoveNode(relu))
        edit.repeat(SetField(other, "name", f"n{number}") for number in range(6_000))
    row = [p.message for p in panel.model.rows].index("Relu_0 has an unknown attribute nonsense")
    panel.table.setCurrentIndex(panel.model.index(row, 0))
    panel.table.activated.emit(panel.model.index(row, 0))
    assert workspace.selection.items == ()
    panel.fix_current()
    assert "nonsense" in relu.attributes
    assert workspace.document.undo_title == "Change very much"


def test_everything_is_fixed_as_one_edit(qtbot, workspace):
    panel = shown(qtbot, ProblemsPanel(workspace))
    relu = broken(workspace)
    builders.do(workspace.document, SetAttribute(relu, "more", make_attribute("more", 1)))
    qtbot.waitUntil(lambda: panel.workspace.problems.finished)
    panel.fix_all()
    qtbot.waitUntil(lambda: not relu.attributes.keys() & {"nonsense", "more"})
    workspace.document.undo()
    assert relu.attributes.keys() >= {"nonsense", "more"}


# -- history --------------------------------------------------------------------------------------------------


def test_history_lists_states_and_goes_to_any(qtbot, workspace):
    panel = shown(qtbot, HistoryPanel(workspace))
    model = workspace.model
    for text in ("one", "two", "three"):
        with workspace.document.edit(f"Write {text}") as edit:
            edit.do(SetField(model, "doc_string", text))

    def listed():
        return [panel.model.index(row).data().strip() for row in range(panel.model.rowCount())]

    assert listed() == ["New", "Write one", "Write two", "Write three"]
    index = panel.model.index(1)
    position = panel.list.visualRect(index).center() + QPoint(5, 0)
    qtbot.mouseClick(panel.list.viewport(), Qt.MouseButton.LeftButton, pos=position)
    qtbot.waitUntil(lambda: model.doc_string == "one")
    assert panel.list.currentIndex().row() == 1
    with workspace.document.edit("Write else") as edit:
        edit.do(SetField(model, "doc_string", "else"))
    qtbot.waitUntil(lambda: listed() == ["New", "Write one", "Write two", "Write three", "Write else"])
    panel.list.activated.emit(panel.model.index(3))
    qtbot.waitUntil(lambda: model.doc_string == "three")


def test_an_edit_on_the_way_through_history_stays(qtbot, workspace, monkeypatch):
    monkeypatch.setattr(event_loop, "CHUNK_SECONDS", 0)
    document = workspace.document
    for number in range(500):
        builders.do(document, SetField(workspace.model, "doc_string", str(number)))
    panel = shown(qtbot, HistoryPanel(workspace))
    panel.list.activated.emit(panel.model.index(0))
    assert document.current is not document.root, "the window goes on between two of very many edits"
    with document.edit("Write else") as edit:
        edit.do(SetField(workspace.model, "doc_string", "else"))
    qtbot.waitUntil(lambda: not panel._going.running)
    assert workspace.model.doc_string == "else"


def test_a_way_through_very_many_edits_is_listed_at_its_end(qtbot, workspace):
    """Listing them anew between two of them took as long as all the rest."""
    for number in range(500):
        builders.do(workspace.document, SetField(workspace.model, "doc_string", str(number)))
    panel = shown(qtbot, HistoryPanel(workspace))
    listed = []
    panel.model.modelReset.connect(lambda: listed.append(workspace.document.current))
    panel.list.activated.emit(panel.model.index(0))
    qtbot.waitUntil(lambda: not panel._going.running)
    assert listed == [workspace.document.root]
    assert panel.list.currentIndex().row() == 0


def test_listeners_hear_of_a_walk_through_history_once(qtbot, workspace):
    """The journal receives each; views took 20 ms an edit. A long edit is reported alone: it may touch very much."""
    for number in range(60):
        with workspace.document.edit("Write") as edit:
            for step in range(150 if number == 30 else 1):
                edit.do(SetField(workspace.model, "doc_string", f"{number} {step}"))
    panel = shown(qtbot, HistoryPanel(workspace))
    each, report = [], []
    workspace.document.subscribe(each.append)
    workspace.changes.changed.connect(report.append)
    panel.list.activated.emit(panel.model.index(0))
    qtbot.waitUntil(lambda: not panel._going.running)
    assert len(each) == 60
    assert len(report) < len(each)
    assert [step for change in report for step in change.steps] == [step for change in each for step in change.steps]
    (long,) = [change for change in report if len(change.steps) >= 100]
    assert len(long.steps) == 150
    assert report[-1].state == workspace.document.root.id


def test_the_pointer_shows_that_a_walk_through_history_is_long(qtbot, workspace, monkeypatch):
    with workspace.document.edit("Write much") as edit:
        edit.repeat(SetField(workspace.model, "doc_string", str(number)) for number in range(100))
    panel = shown(qtbot, HistoryPanel(workspace))
    pointers = []

    def look(_change):
        pointer = QApplication.overrideCursor()
        pointers.append(None if pointer is None else pointer.shape())

    workspace.document.subscribe(look)
    for most in (101, 100):
        monkeypatch.setattr(busy_cursor, "_MANY", most)
        for row in (0, 1):
            panel.list.activated.emit(panel.model.index(row))
            qtbot.waitUntil(lambda: not panel._going.running)
    assert pointers == [None] * 2 + [Qt.CursorShape.WaitCursor] * 2
    assert QApplication.overrideCursor() is None


def test_double_clicking_a_branch_goes_to_the_row_it_showed(qtbot, workspace):
    """With the first click the branch moves left and others move away, so that the second meets another row."""
    panel = shown(qtbot, HistoryPanel(workspace))
    start = workspace.document.current
    for branch in (("one",), ("two", "three")):
        workspace.document.go_to(start)
        for text in branch:
            with workspace.document.edit(f"Write {text}") as edit:
                edit.do(SetField(workspace.model, "doc_string", text))
    assert [panel.model.index(row).data().strip() for row in range(4)][1] == "Write one"
    position = panel.list.visualRect(panel.model.index(1)).center() + QPoint(5, 0)
    for press in (qtbot.mouseClick, qtbot.mouseDClick, qtbot.mouseRelease):
        press(panel.list.viewport(), Qt.MouseButton.LeftButton, pos=position)
    qtbot.waitUntil(lambda: workspace.model.doc_string == "one")
    assert panel.model.index(1).data().strip() != "Write one"


def test_escape_leaves_find_and_takes_the_marks_away(qtbot, workspace):
    panel = shown(qtbot, FindPanel(workspace))
    marks, asked = [], []
    workspace.highlights.marked.connect(lambda kind, items: marks.append((kind, len(items))))
    workspace.action_requested.connect(asked.append)
    panel.box.setText("op:Relu")
    qtbot.waitUntil(lambda: bool(marks))
    assert marks[-1][0] == "matches"
    assert marks[-1][1] > 0
    qtbot.keyClick(panel.box, Qt.Key.Key_Escape)
    assert marks[-1] == ("matches", 0)
    assert asked == ["go.graph"]


def test_the_next_and_previous_match_go_around(qtbot, workspace):
    panel = shown(qtbot, FindPanel(workspace))
    panel.box.setText("op:Abs")
    panel.step(1)
    qtbot.waitUntil(lambda: len(panel.matches.items) == 2)  # a busy machine finds the second a turn later
    found = panel.matches.items
    assert workspace.selection.current is found[0]
    panel.step(1)
    assert workspace.selection.current is found[1]
    panel.step(1)
    assert workspace.selection.current is found[0]
    panel.step(-1)
    assert workspace.selection.current is found[1]
