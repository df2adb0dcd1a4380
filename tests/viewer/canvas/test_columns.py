"""The view of a long graph wrapped into columns."""

from __future__ import annotations

from onnx_workbench.model.edits import nodes
from onnx_workbench.model.edits.interface import add_output
from onnx_workbench.viewer.program.settings import COLUMNS
from tests.model import builders
from tests.viewer.canvas.graphs import Graphs, long_chain
from tests.viewer.canvas.painting import wait


def test_wrapping_keeps_selection_zoom_and_what_is_in_view(show, qtbot):
    chain = long_chain(60)
    view = show(chain.model())
    view.workspace.settings.set(COLUMNS, False)
    wait(qtbot, view)
    node = chain.values["v40"].producer
    view.workspace.selection.set([node])
    view.navigator.reveal(node)
    (box,) = view.scene.drawing.boxes_of(node)
    zoom, high = view.zoom, view.scene.height
    before = view.viewport.to_widget(*view.scene.rects[box, :2])
    view.workspace.settings.set(COLUMNS, True)
    wait(qtbot, view)
    assert view.scene.height < high / 2
    assert view.zoom == zoom
    (box,) = view.scene.drawing.boxes_of(node)
    after = view.viewport.to_widget(*view.scene.rects[box, :2])
    assert abs(after[0] - before[0]) + abs(after[1] - before[1]) < 2
    assert view.workspace.selection.current is node
    x, y = (view.scene.rects[box, :2] + view.scene.rects[box, 2:] / 2).tolist()
    assert view.scene.hit(x, y).box == box
    view.workspace.settings.set(COLUMNS, False)
    wait(qtbot, view)
    assert view.scene.height == high


def test_an_edit_leaves_the_columns(show, qtbot):
    chain = long_chain(60)
    view = show(chain.model())
    wide, count = view.scene.width, len(view.scene.boxes)
    builders.one_edit(view.workspace.document, nodes.delete_and_bridge, [chain.values["v30"].producer])
    wait(qtbot, view)
    assert len(view.scene.boxes) == count - 1
    assert view.scene.width > wide / 2


def test_a_new_output_stands_beside_its_producer(show, qtbot):
    chain = long_chain(60)
    view = show(chain.model())
    builders.one_edit(view.workspace.document, add_output, chain.graph, chain.values["v20"])
    wait(qtbot, view)
    drawing = view.scene.drawing
    (producer,) = drawing.boxes_of(chain.values["v20"].producer)
    (output,) = drawing.boxes_of(chain.values["v20"])
    left, top, width, height = view.scene.rect(producer)
    x, y, _, _ = view.scene.rect(output)
    assert top + height < y < top + 4 * height
    assert abs(x - left) < 4 * width


def test_an_edit_inside_a_wrapped_group_keeps_the_order(show, qtbot):
    """What stands beside each other in a rank stays left and right."""
    blocks = Graphs()
    blocks.input("x", 4)
    last = "x"
    for block in range(60):
        scope = f"/part{block // 30}/block{block}"
        for operator in ("Exp", "Relu", "Tanh"):
            blocks.node(operator, [last], [f"{operator}{block}"], name=f"{scope}/{operator}")
        last = f"sum{block}"
        branches = [f"{operator}{block}" for operator in ("Exp", "Relu", "Tanh")]
        blocks.node("Sum", branches, [last], name=f"/part{block // 30}/Sum{block}")
    blocks.outputs(last)
    view = show(blocks.model())
    view.expansion.expand_all()
    wait(qtbot, view)
    before = beside(view)
    builders.one_edit(view.workspace.document, nodes.delete_and_bridge, [blocks.values["Relu7"].producer])
    wait(qtbot, view)
    after = beside(view)
    assert len(before) > 20
    assert {pair: before[pair] for pair in before.keys() & after.keys()} == {
        pair: after[pair] for pair in before.keys() & after.keys()
    }


def beside(view):
    """Which of two boxes in one rank of one container is further left, by their keys."""
    boxes, rects = view.scene.boxes, view.scene.rects.tolist()
    rows = {}
    for number, (box, rank) in enumerate(zip(boxes, view.scene.layout.ranks.tolist(), strict=True)):
        rows.setdefault((box.parent, rank), []).append(number)
    pairs = ((a, b) for row in rows.values() for a in row for b in row if a < b)
    return {
        frozenset((boxes[a].key, boxes[b].key)): min((rects[n][0], boxes[n].key) for n in (a, b))[1] for a, b in pairs
    }
