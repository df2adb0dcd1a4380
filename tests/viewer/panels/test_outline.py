"""The outline while the model is edited: rows come and go one by one, groups and what is open stay."""

import random

import pytest
from PySide6.QtCore import QModelIndex, QPersistentModelIndex, Qt, QTimer
from PySide6.QtTest import QAbstractItemModelTester
from PySide6.QtWidgets import QStyleOptionViewItem

from onnx_workbench.model.analysis import stacks
from onnx_workbench.model.analysis.name_scopes import Scope
from onnx_workbench.model.edits import nodes, values
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.steps import InsertNode, RemoveNode, SetAttribute, SetField, SetGraphInputs, SetInput
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.writer.save import to_bytes
from onnx_workbench.model.ir.attributes import make_attribute
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, Value
from onnx_workbench.viewer.canvas.graph_view import GraphView
from onnx_workbench.viewer.canvas.scene.drawing import DrawingOptions
from onnx_workbench.viewer.document import grouping
from onnx_workbench.viewer.panels.outline import OutlinePanel
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.style.theme import theme
from onnx_workbench.viewer.tables import outline_rows
from onnx_workbench.viewer.tables.outline_model import ObjectRole, OutlineModel
from onnx_workbench.viewer.tables.two_tone import TextsRole
from onnx_workbench.viewer.tasks import event_loop
from tests.model import builders
from tests.viewer.canvas.graphs import long_chain, residual


@pytest.fixture
def blocks(qtbot, monkeypatch):
    """Ten groups of three nodes in a row, and a node beside each that is in none."""
    monkeypatch.setattr(stacks, "_LEAST", 100)
    yield from _outline_of_groups(qtbot)


@pytest.fixture
def stacked(qtbot):
    """The same with the ten groups in a stack."""
    yield from _outline_of_groups(qtbot)


@pytest.fixture
def with_constants(qtbot, monkeypatch):
    """The same with a constant in each group, one that all share, and one for each node outside."""
    monkeypatch.setattr(stacks, "_LEAST", 100)
    yield from _outline_of_groups(qtbot, constants=True)


def _outline_of_groups(qtbot, *, constants=False):
    graph = Graph("net")
    value = Value("x", None, graph)
    shared = Node("Constant", (), (Value("shared"),), name="shared")
    if constants:
        InsertNode(graph, shared).apply()
    names = [name for block in range(10) for name in (*(f"net/b{block}/n{i}" for i in range(3)), f"free{block}")]
    for number, name in enumerate(names):
        operands = (value,)
        if constants and not name.endswith("n2"):
            operand = shared if name.endswith("n1") else Node("Constant", (), (Value(f"k{number}"),), name=f"{name}.k")
            operands = (value, operand.outputs[0])
            if operand is not shared:
                InsertNode(graph, operand).apply()
        node = Node("Relu" if len(operands) == 1 else "Add", operands, (Value(f"v{number}"),), name=name)
        InsertNode(graph, node).apply()
        if "free" not in name:
            value = node.outputs[0]
    workspace = Workspace(Document(Model(graph, opset=21)), title="net")
    panel = OutlinePanel(workspace)
    qtbot.addWidget(panel)
    panel.show()
    tester = QAbstractItemModelTester(panel.model, QAbstractItemModelTester.FailureReportingMode.Fatal)
    yield panel
    del tester
    workspace.close()


def rows(model, parent=None):
    """Every index below one, each before those in it."""
    parent = parent or QModelIndex()
    for row in range(model.rowCount(parent)):
        index = model.index(row, 0, parent)
        yield index
        yield from rows(model, index)


def shown_nodes(panel):
    return [index.data(ObjectRole) for index in rows(panel.model) if isinstance(index.data(ObjectRole), Node)]


def assert_right(panel):
    """Every node once, in the order of the graph within each group, and where `index_of` says."""
    graph = panel.workspace.model.graph
    everything = list(graph.nodes)
    found = shown_nodes(panel)
    assert len(found) == len(everything)
    assert set(found) == set(everything)
    for parent in [QModelIndex(), *rows(panel.model)]:
        inside = [panel.model.index(r, 0, parent) for r in range(panel.model.rowCount(parent))]
        mine = [i.data(ObjectRole) for i in inside if isinstance(i.data(ObjectRole), Node)]
        assert mine == sorted(mine, key=everything.index)
        subject = parent.data(ObjectRole)
        if isinstance(subject, Scope):
            assert subject.count == sum(1 for _ in subject.all_nodes()) > 0
    for node in found:
        assert panel.model.index_of(node).data(ObjectRole) is node


def test_what_is_open_stays_open_when_nodes_come_and_go(blocks):
    document, tree = blocks.workspace.document, blocks.tree
    node = next(n for n in document.model.graph.nodes if n.name == "net/b4/n1")
    group = blocks.model.index_of(node).parent()
    tree.expand(group.parent())
    tree.expand(group)
    made = builders.one_edit(document, nodes.insert_on_edge, node.outputs[0], "Neg")
    assert_right(blocks)
    builders.one_edit(document, nodes.delete_and_bridge, [node])
    assert_right(blocks)
    sibling = next(n for n in document.model.graph.nodes if n.name == "net/b4/n0")
    assert tree.isExpanded(blocks.model.index_of(sibling).parent())
    scopes = blocks.workspace.grouping.tree(document.model.graph).of
    assert blocks.model.index_of(made).parent().data(ObjectRole) is scopes[made]  # as on the canvas


def test_nodes_without_names_are_called_after_what_they_give(blocks, received):
    document, model = blocks.workspace.document, blocks.model
    node, named = list(document.model.graph.nodes)[:2]
    index = model.index_of(node)
    named_look = index.data(Qt.ItemDataRole.ForegroundRole)
    builders.one_edit(document, nodes.rename_node, node, "")
    index = model.index_of(node)
    assert index.data() == "v0"
    assert index.data(Qt.ItemDataRole.ForegroundRole) == theme().muted != named_look
    assert "unnamed" in index.data(Qt.ItemDataRole.AccessibleTextRole)
    assert "unnamed" not in model.index_of(named).data(Qt.ItemDataRole.AccessibleTextRole)
    report = received(model.dataChanged)
    builders.one_edit(document, values.rename_value, node.outputs[0], "first")
    assert index in report
    assert index.data() == "first"


def test_graphs_and_operators_are_called_as_they_are_now(blocks, qtbot, received):
    document, model, tree = blocks.workspace.document, blocks.model, blocks.tree
    blocks.resize(60, 300)
    blocks.show()
    tree.expandAll()
    qtbot.waitUntil(lambda: tree.columnWidth(0) >= tree.sizeHintForColumn(0))
    root, narrow = model.index(0, 0), tree.columnWidth(0)
    assert root.data() == document.model.graph.name
    report = received(model.dataChanged)
    builders.do(document, SetField(document.model.graph, "name", "renamed"))
    assert root in report
    assert root.data() == "renamed"
    node = next(iter(document.model.graph.nodes))
    builders.do(document, SetField(node, "op_type", "ThresholdedRelu" * 9))
    qtbot.waitUntil(lambda: tree.columnWidth(0) >= tree.sizeHintForColumn(0) > narrow)


def test_a_row_reads_operator_then_name_and_group_then_size(blocks, qtbot):
    blocks.resize(150, 300)
    blocks.show()
    blocks.tree.expandAll()
    node = next(n for n in blocks.workspace.document.model.graph.nodes if n.name == "net/b4/n1")
    index = blocks.model.index_of(node)
    assert index.data(TextsRole) == (node.op_type, "n1")
    assert index.parent().data(TextsRole) == ("b4", f"{blocks.model.rowCount(index.parent())} nodes")
    option = QStyleOptionViewItem()
    blocks.tree.itemDelegate().initStyleOption(option, index)
    assert option.text == f"{node.op_type}  n1"
    qtbot.waitUntil(lambda: blocks.tree.columnWidth(0) >= blocks.tree.sizeHintForColumn(0))
    assert blocks.tree.visualRect(index).right() < blocks.tree.columnWidth(0)
    builders.do(blocks.workspace.document, SetField(node, "name", "net/b4/" + "long_" * 40))
    qtbot.waitUntil(lambda: blocks.tree.horizontalScrollBar().maximum() > 500)


def test_functions_of_one_name_are_reported_apart_by_their_overloads(blocks, received):
    document, model = blocks.workspace.document, blocks.model
    listed = tuple(Function("scale", "local", overload) for overload in ("", "wide"))
    builders.do(document, SetField(document.model, "functions", listed))
    first, second = (model.index(row, 0) for row in (1, 2))
    assert (first.data(), second.data()) == ("ƒ scale", "ƒ scale:wide")
    report = received(model.dataChanged)
    builders.do(document, SetField(listed[0], "overload", "narrow"))
    assert first in report
    assert first.data() == "ƒ scale:narrow"


@pytest.mark.long
def test_operators_that_come_back_have_the_room_they_had(blocks, qtbot):
    """It was given up once every node was gone, and never taken again."""
    document, tree = blocks.workspace.document, blocks.tree
    blocks.resize(60, 300)
    for node in document.model.graph.nodes:
        builders.do(document, SetField(node, "op_type", "ThresholdedRelu"))
    tree.expandAll()
    qtbot.waitUntil(lambda: tree.columnWidth(0) >= tree.sizeHintForColumn(0))
    builders.one_edit(document, nodes.delete, list(document.model.graph.nodes))
    blocks.resize(61, 300)
    document.undo()
    qtbot.waitUntil(lambda: not any(timer.isActive() for timer in blocks.findChildren(QTimer)))
    assert tree.columnWidth(0) >= tree.sizeHintForColumn(0)


def test_opening_every_row_measures_columns_once(blocks, qtbot, monkeypatch):
    measured = []
    blocks.tree.collapseAll()
    qtbot.wait(1)
    monkeypatch.setattr(blocks.tree, "sizeHintForColumn", lambda column: measured.append(column) or 50)
    blocks.tree.expandAll()
    qtbot.waitUntil(lambda: bool(measured))
    assert len(measured) == 1


def below(panel):
    """Every row that the tree has, in view or not."""
    found, index = [], panel.model.index(0, 0)
    while index.isValid():
        found.append(index.data())
        index = panel.tree.indexBelow(index)
    return found


@pytest.fixture
def opening(blocks, qtbot, monkeypatch):
    """The outline with its first row closed, chosen and being opened with all below it, a row a turn."""
    blocks.tree.collapseAll()
    blocks.tree.setCurrentIndex(blocks.model.index(0, 0))
    monkeypatch.setattr(event_loop, "CHUNK_SECONDS", 0)
    qtbot.keyClick(blocks.tree, Qt.Key.Key_Asterisk)
    assert blocks.opening.running
    assert len(below(blocks)) < len(list(rows(blocks.model)))
    return blocks.opening


def test_a_star_opens_all_below_a_row_bit_by_bit(blocks, qtbot, monkeypatch, opening):
    """Of 100,000 rows it took a second and more in which the window did nothing else."""
    measured = []
    monkeypatch.setattr(blocks.tree, "sizeHintForColumn", lambda column: measured.append(column) or 50)
    qtbot.waitUntil(lambda: not opening.running)
    assert below(blocks) == [index.data() for index in rows(blocks.model)]
    qtbot.waitUntil(lambda: bool(measured))
    assert len(measured) == 1


def test_closing_a_row_stops_opening_all(blocks, qtbot, opening):
    qtbot.keyClick(blocks.tree, Qt.Key.Key_Left)
    assert not opening.running
    assert len(below(blocks)) == 1
    qtbot.keyClick(blocks.tree, Qt.Key.Key_Right)
    assert 1 < len(below(blocks)) < len(list(rows(blocks.model)))


def test_rows_may_go_and_come_while_all_are_opened(blocks, qtbot, opening):
    document = blocks.workspace.document
    first = [node for node in document.model.graph.nodes if node.name.startswith("net/b0")]
    builders.one_edit(document, nodes.delete, first)
    document.undo()
    qtbot.waitUntil(lambda: not opening.running)
    assert_right(blocks)
    assert "b9" in below(blocks)
    blocks.tree.setCurrentIndex(blocks.model.index(0, 0))
    qtbot.keyClick(blocks.tree, Qt.Key.Key_Asterisk)
    qtbot.waitUntil(lambda: not opening.running)
    assert below(blocks) == [index.data() for index in rows(blocks.model)]


def test_edits_of_nodes_do_not_measure_columns_again(blocks, qtbot, monkeypatch):
    document, measured = blocks.workspace.document, []
    blocks.resize(120, 300)
    node = next(iter(document.model.graph.nodes))
    monkeypatch.setattr(blocks.tree, "sizeHintForColumn", lambda column: measured.append(column) or 50)
    builders.do(document, SetField(node, "op_type", "ThresholdedRelu" * 5))
    qtbot.waitUntil(lambda: len(measured) == 1)
    for name in ("net/b0/i0", "net/b0/l0"):
        builders.do(document, SetField(node, "name", name))
        qtbot.wait(1)
    assert len(measured) == 1


def test_a_copy_stands_in_the_group_of_its_original(blocks):
    document = blocks.workspace.document
    node = next(n for n in document.model.graph.nodes if n.name == "net/b4/n1")
    group = blocks.model.index_of(node).parent()
    (copy,) = builders.one_edit(document, nodes.duplicate, [node])
    assert blocks.model.index_of(copy).parent() == group


def test_a_body_shows_as_soon_as_a_node_has_one(blocks):
    document = blocks.workspace.document
    node = document.model.graph.nodes.first
    list(rows(blocks.model))
    builders.do(document, SetAttribute(node, "body", make_attribute("body", Graph("inner"))))
    index = blocks.model.index_of(node)
    assert blocks.model.rowCount(index) == 1
    document.undo()
    assert blocks.model.rowCount(blocks.model.index_of(node)) == 0


@pytest.fixture
def stretched(monkeypatch, request):
    """The same with so many rows in a branch that they come in stretches."""
    monkeypatch.setattr(outline_rows, "MOST_IN_A_BRANCH", 6)
    monkeypatch.setattr(outline_rows, "IN_A_STRETCH", 5)
    return request.getfixturevalue("blocks")


def titles(model, parent):
    return [model.index(row, 0, parent).data() for row in range(model.rowCount(parent))]


def test_very_many_rows_come_in_stretches(stretched):
    model, tree = stretched.model, stretched.tree
    top = model.index(0, 0)
    assert titles(model, top) == ["net … free1", "free2 … free5", "free6 … free9"]
    assert [model.index(row, 0, top).data(TextsRole)[1] for row in range(3)] == ["1 – 3", "4 – 7", "8 – 11"]
    group = model.index(0, 0, model.index(0, 0, top))
    assert titles(model, group) == ["b0 … b4", "b5 … b9"]
    assert_right(stretched)
    second = model.index(1, 0, top)
    tree.setCurrentIndex(second)
    assert [node.name for node in stretched.workspace.selection.items] == ["free2", "free3", "free4", "free5"]
    assert "free2" in second.data(Qt.ItemDataRole.AccessibleTextRole)


def test_selecting_a_node_in_a_closed_stretch_shows_it(stretched):
    node = next(n for n in stretched.workspace.model.graph.nodes if n.name == "free7")
    stretched.workspace.selection.set([node])
    assert stretched.tree.currentIndex().data(ObjectRole) is node
    assert stretched.tree.isExpanded(stretched.tree.currentIndex().parent())


@pytest.mark.long
def test_stretches_follow_edits(stretched, received):
    document, model = stretched.workspace.document, stretched.model
    top = model.index(0, 0)
    report = received(model.dataChanged)
    last = model.index(2, 0, top)
    assert last.data(TextsRole)[1] == "8 – 11"
    loose = [node for node in document.model.graph.nodes if node.name.startswith("free")]
    builders.one_edit(document, nodes.delete_and_bridge, loose[2:4])
    assert_right(stretched)
    assert titles(model, top) == ["net … free4", "free5 … free9"]
    assert [model.index(row, 0, top).data(TextsRole)[1] for row in range(2)] == ["1 – 4", "5 – 9"]
    assert {model.index(row, 0, top) for row in range(2)} <= set(report)
    builders.one_edit(document, nodes.delete_and_bridge, loose[4:6])
    assert titles(model, top) == ["net … free1", "free6 … free9"]
    assert_right(stretched)
    builders.one_edit(document, nodes.delete, list(document.model.graph.nodes))
    assert titles(model, top) == []
    document.go_to(document.root)
    assert_right(stretched)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(6))
def test_any_edits_leave_stretches_right(stretched, seed):
    test_any_edits_leave_the_outline_right(stretched, seed)


def test_only_what_is_opened_is_built_of_very_many_rows(qtbot, monkeypatch):
    graph = Graph("net")
    value = Value("x", None, graph)
    for number in range(5000):
        node = Node("Relu", (value,), (Value(f"v{number}"),), name=f"n{number}")
        InsertNode(graph, node).apply()
        value = node.outputs[0]
    workspace = Workspace(Document(Model(graph, opset=21)), title="flat")
    panel = OutlinePanel(workspace)
    qtbot.addWidget(panel)
    asked = []
    monkeypatch.setattr(OutlineModel, "hasChildren", lambda model, parent=QModelIndex(): asked.append(parent) or True)
    panel.show()
    qtbot.waitUntil(lambda: panel.model.rowCount(panel.model.index(0, 0)) == 5)
    workspace.selection.set([graph.nodes.last])
    assert panel.tree.currentIndex().data() == "n4999"
    panel.tree.viewport().repaint()
    assert len(asked) < 4000
    workspace.close()


@pytest.mark.long
@pytest.mark.parametrize("seed", range(6))
def test_any_edits_leave_the_outline_right(blocks, seed):
    chance = random.Random(seed)
    document = blocks.workspace.document
    graph = document.model.graph
    list(rows(blocks.model))
    for _ in range(25):
        chosen = chance.sample(list(graph.nodes), min(3, len(graph.nodes)))
        with document.edit("Edit") as edit:
            match chance.randrange(5):
                case 0:
                    nodes.delete(edit, chosen)
                case 1:
                    nodes.duplicate(edit, chosen)
                case 2:
                    nodes.insert_on_edge(edit, chosen[0].outputs[0], "Abs")
                case 3:
                    for node in chosen:
                        edit.do(RemoveNode(node))
                        edit.do(InsertNode(graph, node, chance.choice([None, graph.nodes.first])))
                case 4:
                    values.rename_value(edit, chosen[0].outputs[0], f"r{chance.random()}")
        assert_right(blocks)
        if chance.random() < 0.3:
            document.undo()
            assert_right(blocks)
    document.go_to(document.root)
    assert_right(blocks)


def test_the_outline_says_which_groups_are_left_out(qtbot):
    graph = long_chain(20).model().graph
    for number, node in enumerate(graph.nodes):
        SetField(node, "name", f"/{'ab'[number % 2]}/relu{number}").apply()
    workspace = Workspace(Document(graph.model), title="alternating")
    panel = OutlinePanel(workspace)
    qtbot.addWidget(panel)
    panel.show()
    top = panel.model.index(0, 0)
    panel.model.rowCount(top)
    assert top.data(TextsRole)[1] == "20 nodes · 2 groups left out"
    assert "2 groups left out, because a path leaves and re-enters each: a, b" in top.data(
        Qt.ItemDataRole.AccessibleTextRole
    )
    workspace.close()


def test_constants_are_one_row_after_the_nodes(with_constants):
    model, graph = with_constants.model, with_constants.workspace.model.graph
    top = model.index(0, 0)
    assert titles(model, top) == ["net", *(f"free{n}" for n in range(10)), "10 constants"]
    assert titles(model, model.index(0, 0, top)) == [*(f"b{n}" for n in range(10)), "1 constant"]
    group = model.index(0, 0, model.index(0, 0, top))
    assert titles(model, group) == ["n0", "n1", "n2", "1 constant"]
    node = next(n for n in graph.nodes if n.name == "free3.k")
    with_constants.workspace.selection.set([node])  # as the search does
    current = with_constants.tree.currentIndex()
    assert current.data(ObjectRole) is node
    assert current.parent().data() == "10 constants"


def test_nodes_that_only_rearrange_constants_are_constants_too(with_constants):
    document, model = with_constants.workspace.document, with_constants.model
    graph, top = document.model.graph, model.index(0, 0)
    list(rows(model))
    constant = next(node for node in graph.nodes if node.name == "free3.k")
    with document.edit("Add") as edit:
        passed = nodes.add_node(edit, graph, "Identity", name="passed")
        edit.do(SetInput(passed, 0, constant.outputs[0]))
    assert "passed" not in titles(model, top)
    assert titles(model, top)[-1] == "11 constants"
    builders.do(document, SetInput(passed, 0, graph.nodes.last.outputs[0]))
    assert "passed" in titles(model, top)
    assert titles(model, top)[-1] == "10 constants"


def test_constants_come_go_and_change_their_kind_with_edits(with_constants):
    document, model = with_constants.workspace.document, with_constants.model
    graph, top = document.model.graph, model.index(0, 0)
    list(rows(model))
    constants = [node for node in graph.nodes if node.name.startswith("free") and node.op_type == "Constant"]
    builders.one_edit(document, nodes.delete, constants[:4])
    assert titles(model, top)[-1] == "6 constants"
    builders.do(document, SetField(constants[5], "op_type", "RandomNormal"))
    assert titles(model, top)[-2:] == ["free9", "5 constants"]
    assert "free5.k" in titles(model, top)
    document.go_to(document.root)
    assert titles(model, top)[-1] == "10 constants"
    assert_right(with_constants)
    builders.one_edit(document, nodes.delete, [node for node in graph.nodes if node.op_type == "Constant"])
    assert titles(model, top)[-1] == "free9"


@pytest.mark.long
@pytest.mark.parametrize("most", [3, 1000])
@pytest.mark.parametrize("seed", range(4))
def test_any_edits_leave_constants_right(with_constants, monkeypatch, seed, most):
    monkeypatch.setattr(outline_rows, "MOST_IN_A_BRANCH", most)
    monkeypatch.setattr(outline_rows, "IN_A_STRETCH", 3)
    with_constants.model.rebuild()
    test_any_edits_leave_the_outline_right(with_constants, seed)
    for parent in rows(with_constants.model):
        inside = [with_constants.model.index(r, 0, parent) for r in range(with_constants.model.rowCount(parent))]
        if isinstance(parent.data(ObjectRole), (Graph, Scope)):
            assert not any(getattr(index.data(ObjectRole), "op_type", "") == "Constant" for index in inside)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_any_edits_leave_a_stack_right(stacked, seed):
    assert "b ×10" in [index.data() for index in rows(stacked.model)]
    test_any_edits_leave_the_outline_right(stacked, seed)


def test_a_copied_node_of_a_stack_joins_its_originals_group(stacked):
    test_a_copy_stands_in_the_group_of_its_original(stacked)


def test_a_row_that_goes_leaves_nothing_chosen(blocks):
    document, selection = blocks.workspace.document, blocks.workspace.selection
    node = next(n for n in document.model.graph.nodes if n.name == "free4")
    blocks.tree.setCurrentIndex(blocks.model.index_of(node))
    assert selection.items == (node,)
    builders.one_edit(document, nodes.delete_and_bridge, [node])
    assert selection.items == ()
    assert not blocks.tree.selectionModel().selectedIndexes()


def test_very_many_come_at_once(blocks):
    document = blocks.workspace.document
    list(rows(blocks.model))
    with document.edit("Many") as edit:
        for number in range(300):
            nodes.add_node(edit, document.model.graph, "Abs", name=f"more/n{number}")
    assert_right(blocks)


def test_a_large_graph_fills_when_its_groups_are_known(blocks, qtbot, monkeypatch):
    monkeypatch.setattr(grouping, "AT_ONCE", 3)
    model = load(to_bytes(blocks.workspace.model))
    first = next(iter(model.graph.nodes))
    workspace = Workspace(Document(model), title="the same, just opened")
    panel = OutlinePanel(workspace)
    qtbot.addWidget(panel)
    panel.show()
    assert not shown_nodes(panel)
    with workspace.document.edit("Copy") as edit:  # while they are being looked for
        nodes.duplicate(edit, [first])
    workspace.selection.set([first])
    qtbot.waitUntil(lambda: bool(shown_nodes(panel)))
    assert_right(panel)
    assert panel.tree.currentIndex().data(ObjectRole) is first
    workspace.close()


def test_blocks_that_the_canvas_finds_are_in_the_outline(qtbot):
    count = DrawingOptions().many // 4 + 1
    model = residual(count).model()
    workspace = Workspace(Document(model), title="blocks")
    panel, view = OutlinePanel(workspace), GraphView(workspace)
    qtbot.addWidget(panel)
    qtbot.addWidget(view)
    qtbot.waitUntil(lambda: view.scene is not None and not view.scenes.is_busy)
    assert view.expansion.is_grouped
    stack = panel.model.index(0, 0, panel.model.index(0, 0))
    assert stack.data() == f"Exp-Relu-Tanh ×{count}"
    titles = [panel.model.index(row, 0, stack).data() for row in range(panel.model.rowCount(stack))]
    assert titles[:2] == ["Exp-Relu-Tanh 1", "Exp-Relu-Tanh 2"]
    assert len(shown_nodes(panel)) == len(model.graph.nodes)
    workspace.close()


def test_a_row_that_was_given_up_elsewhere_is_chosen_again(qtbot, blocks):
    workspace = blocks.workspace
    node = workspace.model.graph.nodes.first
    workspace.selection.set([node])
    row = blocks.tree.currentIndex()
    assert row.data(ObjectRole) is node
    workspace.selection.set([])
    assert not blocks.tree.selectionModel().hasSelection()
    middle = blocks.tree.visualRect(row).center()
    qtbot.mouseClick(blocks.tree.viewport(), Qt.MouseButton.LeftButton, pos=middle)
    assert workspace.selection.items == (node,)
    workspace.selection.set([])
    workspace.selection.set([node])
    assert blocks.tree.selectionModel().isSelected(blocks.model.index_of(node))


def marked(panel):
    """What the rows that look selected stand for."""
    chosen = panel.tree.selectionModel().selectedRows()
    return [index.data() for index in rows(panel.model) if index in chosen]


def click(qtbot, panel, index, keys=Qt.KeyboardModifier.NoModifier):
    panel.tree.scrollTo(index)
    at = panel.tree.visualRect(index).center()
    qtbot.mouseClick(panel.tree.viewport(), Qt.MouseButton.LeftButton, keys, at)


def test_everything_selected_elsewhere_is_marked(qtbot, blocks):
    blocks.resize(300, 2000)
    graph, selection = blocks.workspace.model.graph, blocks.workspace.selection
    everything = list(graph.nodes)
    selection.set(everything)
    group = blocks.model.index_of(everything[0]).parent()
    free = [f"free{number}" for number in range(10)]
    qtbot.waitUntil(lambda: marked(blocks) == [group.parent().data(), *free])
    blocks.tree.expand(group.parent())
    blocks.tree.expand(group)
    among = [*(f"b{number}" for number in range(10)), "n0", "n1", "n2", group.parent().data()]
    qtbot.waitUntil(lambda: sorted(marked(blocks)) == sorted([*among, *free]))
    selection.set([*everything[:2], everything[7]])
    qtbot.waitUntil(lambda: marked(blocks) == ["n0", "n1", "free1"])
    selection.toggle(everything[2])
    qtbot.waitUntil(lambda: marked(blocks) == ["b0", "n0", "n1", "n2", "free1"])
    selection.set([everything[3].outputs[0]])
    qtbot.waitUntil(lambda: marked(blocks) == ["free0"])
    selection.clear()
    qtbot.waitUntil(lambda: marked(blocks) == [])


def test_what_is_selected_elsewhere_is_added_to_and_taken_from(qtbot, blocks):
    blocks.resize(300, 2000)
    graph, selection = blocks.workspace.model.graph, blocks.workspace.selection
    first, second, third, free = list(graph.nodes)[:4]
    group, ctrl = blocks.model.index_of(first).parent(), Qt.KeyboardModifier.ControlModifier
    blocks.tree.collapse(group)
    selection.set([first, second])
    blocks.tree.collapse(group)
    click(qtbot, blocks, blocks.model.index_of(free), ctrl)
    assert selection.items == (first, second, free)
    blocks.tree.expand(group)
    qtbot.waitUntil(lambda: marked(blocks) == ["n0", "n1", "free0"])
    click(qtbot, blocks, blocks.model.index_of(first), ctrl)
    assert selection.items == (second, free)
    click(qtbot, blocks, group, ctrl)
    assert selection.items == (free, first, second, third)
    qtbot.waitUntil(lambda: marked(blocks) == ["b0", "n0", "n1", "n2", "free0"])
    click(qtbot, blocks, blocks.model.index_of(third), ctrl)
    assert selection.items == (free, first, second)
    qtbot.waitUntil(lambda: marked(blocks) == ["n0", "n1", "free0"])
    click(qtbot, blocks, blocks.model.index_of(free))
    assert selection.items == (free,)
    qtbot.waitUntil(lambda: marked(blocks) == ["free0"])


def test_selecting_all_leaves_the_tree_where_it_is(stretched, qtbot):
    top = stretched.tree.indexAt(stretched.tree.viewport().rect().topLeft())
    stretched.workspace.selection.set(stretched.workspace.model.graph.nodes)
    assert stretched.tree.indexAt(stretched.tree.viewport().rect().topLeft()) == top
    assert not any(stretched.tree.isExpanded(i) for i in rows_of_first(stretched))
    chosen = stretched.tree.selectionModel().selectedRows
    qtbot.waitUntil(lambda: all(i in chosen() for i in rows_of_first(stretched)))  # a slow machine marks bit by bit


def rows_of_first(panel):
    """The rows right below the first graph that are in view."""
    top = panel.model.index(0, 0)
    inside = [panel.model.index(row, 0, top) for row in range(panel.model.rowCount(top))]
    return [index for index in inside if panel.tree.visualRect(index).intersects(panel.tree.viewport().rect())]


def test_groups_that_are_closed_show_how_many_nodes_they_hold_now(blocks, qtbot, received):
    """They went on showing the count of before until something else had them painted."""
    document, tree = blocks.workspace.document, blocks.tree
    node = next(n for n in document.model.graph.nodes if n.name == "net/b4/n1")
    group = blocks.model.index_of(node).parent()
    tree.expand(group.parent())
    tree.collapse(group)
    qtbot.waitUntil(lambda: blocks.tree.isVisible() and bool(tree.visualRect(group).height()))
    tree.grab()  # it has been seen
    assert group.data(TextsRole)[1] == "3 nodes"
    report = received(blocks.model.dataChanged)
    builders.one_edit(document, nodes.delete_and_bridge, [node])
    assert group in report
    assert group.data(TextsRole)[1] == "2 nodes"
    document.undo()
    assert group.data(TextsRole)[1] == "3 nodes"


def test_renaming_very_many_nodes_shows_at_once(blocks, qtbot, monkeypatch):
    """The outline was empty until the groups were known."""
    monkeypatch.setattr(grouping, "AT_ONCE", 5)
    document, tree, graph = blocks.workspace.document, blocks.tree, blocks.workspace.model.graph
    free = next(n for n in graph.nodes if n.name == "free3")
    with document.edit("Rename all") as edit:
        for node in graph.nodes:
            nodes.rename_node(edit, node, node.name.replace("free", "other").replace("b4", "c4"))
    assert not blocks.workspace.grouping.is_ready(graph)
    assert tree.indexAbove(blocks.model.index_of(free)).isValid()
    assert blocks.model.index_of(free).data() == "other3"
    qtbot.waitUntil(lambda: "c4" in [index.data() for index in rows(blocks.model)])
    assert_right(blocks)


def test_closed_groups_of_every_graph_show_how_many_nodes_they_hold(blocks, received):
    """Those of all graphs but the first went on showing the count of before."""
    document, tree, model = blocks.workspace.document, blocks.tree, blocks.model
    source = Value("s")
    body = Graph("body")
    SetGraphInputs(body, (source,)).apply()
    for number in range(6):
        InsertNode(body, Node("Relu", (source,), (Value(f"w{number}"),), name=f"net/f{number // 3}/m{number}")).apply()
    builders.do(document, SetField(document.model, "functions", (Function("f", "local", body=body),)))
    counts = []
    gone = [next(n for n in document.model.graph.nodes if n.name == "net/b4/n1"), body.nodes.last]
    for node in gone:
        group = model.index_of(node).parent()
        tree.expand(group.parent())
        tree.collapse(group)
        counts.append(QPersistentModelIndex(group))
    tree.grab()  # they have been seen
    assert [count.data(TextsRole)[1] for count in counts] == ["3 nodes", "3 nodes"]
    report = received(model.dataChanged)
    builders.one_edit(document, nodes.delete, [gone[1]])
    assert QModelIndex(counts[1]) in report


def test_long_rows_that_are_closed_no_longer_widen_the_outline(blocks, qtbot):
    blocks.resize(160, 400)
    builders.do(blocks.workspace.document, SetField(shown_nodes(blocks)[0], "name", "net/b0/" + "long" * 30))
    bar = blocks.tree.horizontalScrollBar()
    blocks.tree.expandAll()
    qtbot.waitUntil(lambda: bar.maximum() > 0)
    before = bar.maximum()
    blocks.tree.collapse(blocks.model.index(0, 0))
    qtbot.waitUntil(lambda: bar.maximum() < before // 4)  # what is left is short, in whatever font


def test_rows_that_fit_leave_nothing_to_scroll_to_after_a_reset(blocks, qtbot):
    blocks.resize(900, 400)
    blocks.model.beginResetModel()
    blocks.model.endResetModel()
    tree = blocks.tree
    qtbot.waitUntil(lambda: tree.columnWidth(0) == tree.viewport().width())
    qtbot.waitUntil(lambda: tree.horizontalScrollBar().maximum() == 0)


def test_a_name_of_megabytes_is_measured_as_it_is_shown(blocks):
    """It blocked the window for over a second at each edit of its node."""
    workspace = blocks.workspace
    builders.do(workspace.document, SetField(workspace.graph.nodes[0], "name", "n" * 100_000))
    assert blocks._room < 10_000
