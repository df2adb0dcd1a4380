"""Lifetime and position of dialogs about a document: closed no later than the document."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QPoint, QRect, QSize

if TYPE_CHECKING:
    from PySide6.QtWidgets import QDialog

    from onnx_workbench.viewer.run.workspace import Workspace

_TITLE_BAR = 40  # px that a window manager may add above a dialog


def show_for(workspace: Workspace, dialog: QDialog) -> None:
    """Show a non-modal dialog, which is closed when the document closes or is reloaded."""
    workspace.closed.connect(dialog.reject)
    dialog.show()


def show_aside(workspace: Workspace, dialog: QDialog) -> None:
    """The same, placed where it hides as little of the graph as possible."""
    window = dialog.parentWidget()
    if window is not None:
        screen = window.screen().availableGeometry()
        dialog.resize(dialog.size().boundedTo(screen.size() - QSize(0, _TITLE_BAR)))
        dialog.move(place_beside(window.window().frameGeometry(), dialog.size(), screen))
    show_for(workspace, dialog)


def place_beside(window: QRect, dialog: QSize, screen: QRect) -> QPoint:
    """Return the position right of a window, or as far over it as the screen demands; at half its height. In pixels."""
    right = min(window.right() + 1, screen.right() + 1 - dialog.width())
    top = window.center().y() - dialog.height() // 2
    lowest = screen.bottom() + 1 - dialog.height()
    return QPoint(max(right, screen.left()), max(min(top, lowest), screen.top()))
