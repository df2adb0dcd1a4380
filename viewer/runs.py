"""Runs the model of one document."""
from __future__ import annotations

from PySide6.QtCore import QObject


class RunControl(QObject):
    """See the next change."""

    def close(self) -> None:
        """Nothing yet."""
