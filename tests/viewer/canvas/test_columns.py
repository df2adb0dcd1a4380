"""The view of a long graph wrapped into columns."""

from __future__ import annotations

from onnx_workbench.model.edits import nodes
from onnx_workbench.viewer.core.settings import COLUMNS
from tests.viewer.canvas.graphs import long_chain
from tests.viewer.canvas.painting import wait


def test_wrapping_keeps_selection_zoom_and_what_is_in_view(show, qtbot):
    chain = long_chain(60)
    view = show(chain.model())
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
    view.workspace.settings.set(COLUMNS, True)
    wait(qtbot, view)
    wide, count = view.scene.width, len(view.scene.boxes)
    with view.workspace.document.edit("Delete") as edit:
        nodes.delete_and_bridge(edit, [chain.values["v30"].producer])
    wait(qtbot, view)
    assert len(view.scene.boxes) == count - 1
    assert view.scene.width > wide / 2
