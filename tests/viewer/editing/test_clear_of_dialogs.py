"""What is shown on the graph is not shown below a dialog."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, QRect
from PySide6.QtWidgets import QDialog


@pytest.mark.long
@pytest.mark.parametrize("is_right", [True, False])
def test_what_is_brought_into_view_lies_beside_a_dialog(desk, is_right):
    desk.window.resize(1200, 800)
    desk.open()
    view = desk.view
    dialog = QDialog(desk.window)
    half = view.width() // 2
    dialog.resize(half, view.height())
    dialog.move(view.mapToGlobal(QPoint(half if is_right else 0, 0)))
    dialog.show()
    covered = QRect(view.mapFromGlobal(dialog.frameGeometry().topLeft()), dialog.frameGeometry().size())
    assert covered.intersects(view.rect())
    for name in ("first", "second", "third"):
        left, top, width, height = view.scene.rect(desk.box(desk.node(name)))
        view.centre_on(*view.viewport.to_scene(*_away(view, desk.point(left + width / 2, top + height / 2), covered)))
        desk.workspace.navigation.reveal(desk.node(name))
        desk.settle()
        left, top, width, height = view.scene.rect(desk.box(desk.node(name)))
        box = QRect(desk.point(left, top), desk.point(left + width, top + height))
        assert not box.intersects(covered)
        assert view.rect().contains(box)


def _away(view, box, covered):
    """The point of the view to be its middle so that a point comes to lie below a dialog."""
    wanted = covered.center()
    return box.x() + view.width() / 2 - wanted.x(), box.y() + view.height() / 2 - wanted.y()
