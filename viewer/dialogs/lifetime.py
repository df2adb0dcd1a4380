"""How long a dialog about a document lives: no longer than the document is open."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PySide6.QtWidgets import QDialog

    from viewer.workspace import Workspace


def show_for(workspace: Workspace, dialog: QDialog) -> None:
    """Show a dialog beside the window; it is given up when the document closes or is read again."""
    workspace.closed.connect(dialog.reject)
    dialog.show()
