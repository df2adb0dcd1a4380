"""The program's icon."""

from __future__ import annotations

from functools import cache

from PySide6.QtGui import QIcon

from onnx_workbench import resources


@cache
def app_icon() -> QIcon:
    """The icon of windows and dialogs; GUI thread only."""
    return QIcon(str(resources.path("icons/app.svg")))
