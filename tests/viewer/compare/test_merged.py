"""Two compared models as one graph: what is seen, what selecting there does, and that edits come back to it."""

import pytest
from PySide6.QtCore import QPointF, Qt
from PySide6.QtTest import QTest

from onnx_workbench.model.edits import interface, nodes
from onnx_workbench.model.io.writer.save import save
from onnx_workbench.model.ir.graph import Node
from onnx_workbench.viewer.canvas.rename_field import RenameField
from onnx_workbench.viewer.compare.registry import comparison_of
from onnx_workbench.viewer.program.settings import COMPARE_MERGED
from tests.model import builders

TEXT = """
long (float[N, 4] x, bool flag) => (float[N, 4] y)
{
    [one] a = Relu (x)
    [two] b = Exp (a)
    [three] c = Sin (b)
    [four] d = Sqrt (c)
    [five] y = If (flag) <
        then_branch: graph = yes () => (float[N, 4] yes_out) { [inner] yes_out = Abs (d) },
        else_branch: graph = no () => (float[N, 4] no_out) { [other] no_out = Neg (d) }
    >
}
"""


@pytest.fixture
def files(tmp_path):
    """A model, and one with a node more, one less, another operator, another body and one input more."""
    document = builders.document(TEXT)
    old, new = tmp_path / "old.onnx", tmp_path / "new.onnx"
    save(document.model, old)
    with document.edit("Edit") as edit:
        nodes.insert_on_edge(edit, builders.value(document, "a"), "Tanh")
        nodes.delete_and_bridge(edit, [builders.node(document, "three")])
        nodes.change_operator(edit, builders.node(document, "four"), "Floor")
        nodes.insert_on_edge(edit, builders.value(document, "yes_out"), "Ceil")
        interface.add_input(edit, document.model.graph, "more")
    save(document.model, new)
    return old, new


@pytest.fixture
def merged(window, qtbot, files):
    """The tabs of both, shown as one graph."""
    window.files.open(files)
    qtbot.waitUntil(lambda: len(window.tabs()) == 2 and not window.files.pending)
    old, new = window.tabs()
    window.area.compare(old, new)
    qtbot.mouseClick(new.beside.bar.merged, Qt.MouseButton.LeftButton)
    settle(qtbot, new)
    return old, new


def settle(qtbot, tab):
    """Wait until the graph shows both documents as they are now."""

    def is_there():
        merged, comparing = tab.beside.merged, comparison_of(tab.workspace)
        if merged is None or merged.view is None or merged.view.scene is None or merged.view.scenes.is_busy:
            return False
        known = {node for pair in merged._union.sides.values() for node in pair if isinstance(node, Node)}
        wanted = {n for w in (comparing.old, comparing.new) for g in w.model.graphs() for n in g.nodes}
        return known == wanted

    qtbot.waitUntil(is_there)


def node(tab, name):
    """The node of a name in the merged graph, which has one of each here."""
    (found,) = (n for g in tab.canvas.workspace.model.graphs() for n in g.nodes if name in (n.name, n.op_type))
    return found


def signs(view):
    """What is marked: by sign, titles of nodes and names of pills."""
    boxes = view.scene.boxes
    return {
        sign: {getattr(boxes[box].subject, "name", "") or boxes[box].title for box in view.marks.boxes[sign].tolist()}
        for sign in "+−~→="
        if len(view.marks.boxes.get(sign, ()))
    }


def wires(view, mark):
    drawing = view.scene.drawing
    return {(drawing.boxes[s].title, drawing.boxes[t].title) for s, t in drawing.edges[view.marks.edges[mark]].tolist()}


def click(view, item):
    left, top, width, height = view.scene.rect(view.scene.drawing.boxes_of(item)[0])
    place = QPointF(*view.viewport.to_widget(left + width / 2, top + min(height / 2, 10))).toPoint()
    QTest.mouseClick(view, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier, place)


@pytest.mark.long
def test_both_are_in_one_graph_with_signs_colours_and_wires(merged):
    old, new = merged
    view = new.canvas
    assert view is not new.view
    assert view.isVisible()
    assert not old.view.isVisible()
    assert not new.view.isVisible()
    operators = [n.op_type for n in view.workspace.model.graph.nodes]
    assert operators == ["Relu", "Tanh", "Exp", "Sin", "Floor", "If"]
    assert signs(view) == {"+": {"Tanh", "more"}, "−": {"three"}, "~": {"two", "four", "five"}}
    assert wires(view, "came") == {("Tanh", "Exp"), ("Exp", "Floor"), ("Relu", "Tanh")}
    assert wires(view, "went") == {("Relu", "Exp"), ("Exp", "Sin"), ("Sin", "Floor")}
    four = view.scene.boxes[view.scene.drawing.boxes_of(node(new, "four"))[0]]
    assert [(row.name, row.text) for row in four.rows if "before" in row.name] == [("operator (before)", "Sqrt")]
    colors = {text: color.name() for text, color in view.colouring.legend.entries}
    assert set(colors) >= {"+ added", "− removed", "~ changed"}
    assert len(set(colors.values())) == len(colors)


@pytest.mark.long
def test_what_is_selected_there_is_selected_in_the_documents(merged, window):
    old, new = merged
    view = new.canvas
    view.fit()
    click(view, node(new, "three"))
    assert window.workspace is old.workspace
    assert old.workspace.selection.items == (builders.node(old.workspace.model, "three"),)
    assert [d.kind for d in comparison_of(new.workspace).chosen] == ["removed"]
    click(view, node(new, "four"))
    assert window.workspace is new.workspace
    assert new.workspace.selection.items == (builders.node(new.workspace.model, "four"),)
    assert old.workspace.selection.items == (builders.node(old.workspace.model, "four"),)


@pytest.mark.long
def test_numbers_of_before_the_comparison_give_way_to_its_colours(window, qtbot, files):
    window.files.open(files)
    qtbot.waitUntil(lambda: len(window.tabs()) == 2 and not window.files.pending)
    old, new = window.tabs()
    new.workspace.highlights.set_overlay({builders.node(new.workspace.document, "two"): 1.0}, "Parameters")
    window.area.compare(old, new)
    qtbot.mouseClick(new.beside.bar.merged, Qt.MouseButton.LeftButton)
    settle(qtbot, new)
    assert {text for text, _ in new.canvas.colouring.legend.entries} >= {"+ added", "− removed", "~ changed"}


@pytest.mark.long
def test_what_was_found_and_coloured_before_it_is_shown_is_shown_too(merged, qtbot):
    old, new = merged
    qtbot.mouseClick(new.beside.bar.beside, Qt.MouseButton.LeftButton)
    for tab, name in ((old, "one"), (new, "two")):
        tab.workspace.highlights.mark("matches", [builders.node(tab.workspace.document, name)])
        tab.workspace.highlights.set_overlay({builders.node(tab.workspace.document, name): 1.0}, f"Time of {name}")
    qtbot.mouseClick(new.beside.bar.merged, Qt.MouseButton.LeftButton)
    settle(qtbot, new)
    view = new.canvas
    assert {view.scene.boxes[box].subject.name for box in view.marks.boxes["matches"].tolist()} == {"one", "two"}
    numbers, title = view.workspace.highlights.overlay
    assert ({node.name for node in numbers}, title) == ({"one", "two"}, "Time of two")
    new.workspace.highlights.set_overlay(None)
    assert {node.name for node in view.workspace.highlights.overlay[0]} == {"one"}
    old.workspace.highlights.set_overlay(None)
    assert view.workspace.highlights.overlay[0] is None


@pytest.mark.long
def test_what_is_found_in_either_document_is_marked_there(merged, qtbot):
    old, new = merged
    view = new.canvas

    def found():
        boxes = view.marks.boxes.get("matches", ())
        return {view.scene.boxes[box].subject.name for box in list(boxes)}

    for tab, names in ((old, ["one", "three"]), (new, ["two"])):
        tab.workspace.highlights.mark("matches", [builders.node(tab.workspace.document, name) for name in names])
    assert found() == {"one", "two", "three"}
    builders.one_edit(new.workspace.document, nodes.insert_on_edge, builders.value(new.workspace.document, "a"), "Tan")
    settle(qtbot, new)
    view = new.canvas
    assert {"one", "three"} <= found()
    old.workspace.highlights.mark("matches", [])
    new.workspace.highlights.mark("matches", [])
    assert found() == set()


@pytest.mark.long
def test_going_through_the_list_goes_through_the_graph(merged, qtbot, window):
    old, new = merged
    comparing = comparison_of(new.workspace)
    panel = window.docks.panel("differences")
    row = next(r for r, d in enumerate(panel.model.rows) if d.kind == "removed" and d.subject == "node")
    panel.table.selectRow(row)
    view = new.canvas
    assert view.workspace.selection.items == (node(new, "three"),)
    assert comparing.chosen == (panel.model.rows[row],)
    assert window.workspace is old.workspace
    assert window.docks.panel("inspector").workspace is old.workspace
    assert window.docks.panel("differences") is panel
    row = next(r for r, d in enumerate(panel.model.rows) if d.kind == "added" and d.new in set(_inner(new)))
    panel.table.selectRow(row)
    assert view.workspace.graph.name == "yes"
    assert view.workspace.selection.items == (node(new, "Ceil"),)
    assert window.workspace is new.workspace
    assert new.workspace.graph.name == "yes"
    window.actions_binding.run("go.up")
    qtbot.waitUntil(lambda: view.workspace.graph.name == "long")


def _inner(tab):
    return [n for g in tab.workspace.model.graphs() if g.parent is not None for n in g.nodes]


@pytest.mark.long
def test_what_is_copied_and_edited_shows_where_it_was(merged, qtbot, window):
    _, new = merged
    view = new.canvas
    view.fit()
    scale = view.zoom
    click(view, node(new, "three"))
    qtbot.mouseClick(new.beside.bar.to_right, Qt.MouseButton.LeftButton)
    assert builders.node(new.workspace.model, "three").graph is new.workspace.model.graph
    settle(qtbot, new)
    assert new.canvas is not view
    assert new.canvas.zoom == scale
    assert "three" not in signs(new.canvas).get("−", ())
    click(new.canvas, node(new, "one"))
    assert new.canvas.workspace.selection.items == (node(new, "one"),)
    window.actions_binding.run("edit.rename")
    (field,) = (f for f in new.canvas.findChildren(RenameField) if f.isVisible())
    field.setText("first")
    QTest.keyClick(field, Qt.Key.Key_Return)
    assert builders.node(new.workspace.model, "first")
    settle(qtbot, new)
    qtbot.waitUntil(lambda: signs(new.canvas).get("=") == {"first"})


@pytest.mark.long
def test_no_wire_can_be_drawn(merged):
    _, new = merged
    view = new.canvas
    view.fit()
    box = view.scene.drawing.boxes_of(node(new, "one"))[0]
    (_, (x, y)), *_ = view.scene.inputs(box)
    place = QPointF(*view.viewport.to_widget(x, y)).toPoint()
    before = view.viewport.x
    QTest.mousePress(view, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier, place)
    assert type(view.input_handler.tool).__name__ != "WireTool"
    QTest.mouseRelease(view, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier, place)
    assert view.viewport.x == before


@pytest.mark.long
def test_a_kind_that_is_hidden_is_not_marked(merged):
    _, new = merged
    comparing = comparison_of(new.workspace)
    comparing.hide("removed", hidden=True)
    assert "−" not in signs(new.canvas)
    comparing.hide("removed", hidden=False)
    assert signs(new.canvas)["−"] == {"three"}


@pytest.mark.long
def test_the_choice_is_kept_and_side_by_side_comes_back(merged, qtbot, window):
    old, new = merged
    assert window.settings.get(COMPARE_MERGED)
    window.actions_binding.run("model.compare_merged")
    assert new.beside.merged is None
    assert old.view.isVisible()
    assert new.view.isVisible()
    assert new.canvas is new.view
    assert comparison_of(new.workspace).union is None
    window.actions_binding.run("model.compare_merged")
    settle(qtbot, new)
    qtbot.mouseClick(new.beside.bar.stop, Qt.MouseButton.LeftButton)
    assert new.beside is None
    assert new.view.isVisible()
    window.area.compare(old, new)
    settle(qtbot, new)
    assert new.canvas.isVisible()


@pytest.mark.long
def test_closing_one_of_the_two_leaves_the_other_whole(merged, window):
    old, new = merged
    window.files.close(old)
    assert window.tabs() == [new]
    assert new.beside is None
    assert new.canvas is new.view
    assert new.view.isVisible()


def test_nodes_in_another_order_are_marked_as_moved(window, qtbot, tmp_path):
    text = """
    two (float[4] x) => (float[4] y, float[4] z) { [one] y = Relu (x) [two] z = Exp (x) }"""
    document = builders.document(text)
    save(document.model, tmp_path / "old.onnx")
    builders.one_edit(document, nodes.move_before, builders.node(document, "two"), builders.node(document, "one"))
    save(document.model, tmp_path / "new.onnx")
    window.files.open([tmp_path / "old.onnx", tmp_path / "new.onnx"])
    qtbot.waitUntil(lambda: len(window.tabs()) == 2 and not window.files.pending)
    window.settings.set(COMPARE_MERGED, True)
    window.area.compare(*window.tabs())
    settle(qtbot, window.tabs()[1])
    (moved,) = signs(window.tab.canvas)["→"]
    assert moved in ("one", "two")
    assert [text for text, _ in window.tab.canvas.colouring.legend.entries] == ["→ moved"]
