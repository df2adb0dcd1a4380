"""Mouse interaction: started by a press, ended by the release, cancelled by Esc."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QPainter

from onnx_workbench.viewer.canvas.scene.scene import Hit

if TYPE_CHECKING:
    from onnx_workbench.viewer.canvas.graph_view import GraphView

#: A press that moves less than this is a click, in px.
DRAG = 4.0


@dataclass(frozen=True, slots=True)
class Press:
    """Press of a mouse button: positions in the widget, button and modifiers."""

    position: QPointF
    button: Qt.MouseButton
    modifiers: Qt.KeyboardModifier
    hit: Hit | None


class Tool(ABC):
    """One interaction from press to release."""

    def __init__(self, view: GraphView, press: Press) -> None:
        self.view = view
        self.press = press

    @classmethod
    @abstractmethod
    def wants(cls, view: GraphView, press: Press) -> bool:
        """Return whether a press starts this interaction."""

    @abstractmethod
    def move(self, position: QPointF) -> None:
        """Handle a move of the pointer while the button is held."""

    @abstractmethod
    def end(self, position: QPointF) -> None:
        """End the interaction: the button was released."""

    def cancel(self) -> None:  # noqa: B027 - most tools have nothing to restore
        """Restore the state before the press, on Esc or when the pointer is lost."""

    def paint(self, painter: QPainter) -> None:  # noqa: B027 - most tools draw nothing
        """Draw over the graph, in widget coordinates."""

    def moved(self, position: QPointF) -> bool:
        """Return whether the pointer is far enough from the press for a drag."""
        return (position - self.press.position).manhattanLength() >= DRAG
