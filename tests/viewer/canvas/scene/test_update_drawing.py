"""After an edit of the structure the drawing is the one that drawing everything anew would give."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from onnx_workbench.model.edits import nodes
from onnx_workbench.model.history.steps import SetField, SetInput
from onnx_workbench.model.ir.graph import Function
from onnx_workbench.viewer.canvas.scene.box_factory import BoxFactory
from onnx_workbench.viewer.canvas.scene.builder import build
from onnx_workbench.viewer.canvas.scene.drawing import DrawingOptions
from tests.model import builders
from tests.viewer.canvas.graphs import Graphs, residual
from tests.viewer.canvas.painting import wait


def report(drawing):
    """All that a drawing says, whatever the numbers of its boxes and edges are."""
    boxes = Counter(
        (b.key, b.kind, b.title, b.note, b.rows, b.buttons, b.width, b.height, b.parent) for b in drawing.boxes
    )
    ends = [[drawing.boxes[end].key for end in pair] for pair in drawing.edges.tolist()]
    numbers = [drawing.multiplicity, drawing.dashed, drawing.source_ports, drawing.target_ports]
    rest = np.nan_to_num(np.stack([np.asarray(n, float) for n in numbers], 1), nan=-1.0).round(2).tolist()
    wires = zip(ends, drawing.values, rest, strict=True)
    return boxes, Counter((*pair, value, *more) for pair, value, more in wires)


def assert_right(view, options):
    drawing = view.scene.drawing
    fresh = build(view.workspace.graph, options, measure=view.fonts)
    assert report(drawing) == report(fresh)
    assert len(set(drawing.box_ids.tolist())) == len(drawing.boxes)
    for index, box in enumerate(drawing.boxes):
        assert index in drawing.boxes_of(box.subject)
    rects = view.scene.rects
    apart = (rects[:, None, :2] >= rects[None, :, :2] + rects[None, :, 2:] - 0.5).any(2)
    assert (apart | apart.T | np.eye(len(rects), dtype=bool)).all()  # no two boxes overlap


@pytest.mark.parametrize("seed", range(6))
def test_any_edits_are_drawn_as_if_from_the_beginning(show, qtbot, seed):
    chance = random.Random(seed)
    view = show(residual(12).model())
    document, graph = view.workspace.document, view.workspace.graph
    for _ in range(25):
        every = list(graph.nodes)
        node = chance.choice(every[:-1])
        match chance.randrange(5):
            case 0:
                builders.one_edit(document, nodes.insert_on_edge, node.outputs[0], "Relu")
            case 1 if len(every) > 5:
                builders.one_edit(document, nodes.delete_and_bridge, chance.sample(every, 2))
            case 2:
                builders.one_edit(document, nodes.duplicate, [node])
            case 3:
                document.undo()
            case 4:
                earlier = chance.choice(every[: every.index(node) + 1])
                taker = every[every.index(node) + 1]
                if earlier is not taker:
                    builders.do(document, SetInput(taker, 0, earlier.outputs[0]))
        wait(qtbot, view)
        assert_right(view, DrawingOptions())


def test_an_inserted_node_is_drawn_without_looking_at_the_others(show, qtbot, monkeypatch):
    view = show(residual(12).model())
    looked = []
    measure = BoxFactory._header

    def header(factory, node):
        looked.append(node)
        return measure(factory, node)

    monkeypatch.setattr(BoxFactory, "_header", header)
    node = next(iter(view.workspace.graph.nodes))
    new = builders.one_edit(view.workspace.document, nodes.insert_on_edge, node.outputs[0], "Relu")
    wait(qtbot, view)
    assert new in looked
    assert len(looked) <= 5
    assert len(view.scene.drawing.boxes_of(new)) == 1


def test_edits_in_quick_succession_are_all_drawn(show, qtbot):
    view = show(residual(4).model())
    document = view.workspace.document
    node = next(iter(view.workspace.graph.nodes))
    for _ in range(3):
        builders.one_edit(document, nodes.insert_on_edge, node.outputs[0], "Relu")
    wait(qtbot, view)
    assert_right(view, DrawingOptions())


def test_constants_in_rows_are_drawn_from_the_beginning(show, qtbot):
    g = Graphs()
    g.input("x", 2)
    g.constant("w", np.zeros(2, np.float32))
    g.node("Constant", [], ["k"], value_float=1.0)
    g.node("Add", ["x", "k"], ["a"])
    g.node("Add", ["a", "w"], ["b"])
    g.node("Relu", ["b"], ["c"])
    g.outputs("c")
    view = show(g.model())
    document = view.workspace.document
    for name in ("a", "b"):
        builders.one_edit(document, nodes.insert_on_edge, g.values[name], "Relu")
        wait(qtbot, view)
        assert_right(view, DrawingOptions())
    builders.one_edit(document, nodes.delete_and_bridge, [g.values["a"].producer])
    wait(qtbot, view)
    assert_right(view, DrawingOptions())


def test_constants_in_rows_of_other_nodes_are_still_found(show, qtbot):
    g = Graphs()
    g.input("x", 2)
    last = "x"
    for index in range(4):
        g.node("Relu", [last], [f"r{index}"])
        last = f"r{index}"
    g.node("Constant", [], ["k"], value_float=1.0)
    g.node("Add", [last, "k"], ["a"])
    g.outputs("a")
    view = show(g.model())
    document, constant = view.workspace.document, g.values["k"].producer
    view.workspace.selection.set([constant])
    builders.one_edit(document, nodes.delete_and_bridge, [g.values["r0"].producer, g.values["r1"].producer])
    wait(qtbot, view)
    assert_right(view, DrawingOptions())
    add = view.scene.drawing.boxes_of(g.values["a"].producer)
    assert view.scene.drawing.boxes_of(constant) == add
    assert view.marks.boxes["selected"].tolist() == add


def test_a_node_that_calls_a_function_from_now_on_has_its_buttons(show, qtbot):
    g, body = Graphs(), Graphs("Twice")
    g.input("x", 2)
    g.node("Relu", ["x"], ["r"])
    g.node("Relu", ["r"], ["y"])
    g.outputs("y")
    body.input("a")
    body.node("Add", ["a", "a"], ["b"])
    body.outputs("b")
    view = show(g.model(Function("Twice", "local", body=body.graph)))
    node = g.values["r"].producer
    with view.workspace.document.edit("Call") as edit:
        nodes.insert_on_edge(edit, g.values["r"], "Relu")
        edit.do(SetField(node, "op_type", "Twice"))
        edit.do(SetField(node, "domain", "local"))
    wait(qtbot, view)
    assert_right(view, DrawingOptions())
