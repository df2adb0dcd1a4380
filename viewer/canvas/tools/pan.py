"""Panning: drag on the canvas, or anywhere with the middle button. A click on the canvas clears the selection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QPointF, Qt

from onnx_workbench.viewer.canvas.tools.tool import Press, Tool

if TYPE_CHECKING:
    from onnx_workbench.viewer.canvas.graph_view import GraphView


class PanTool(Tool):
    """Moves the view with the pointer."""

    def __init__(self, view: GraphView, press: Press) -> None:
        super().__init__(view, press)
        self._last = press.position
        self._begin = (view.viewport.x, view.viewport.y)
        self._dragging = False

    @classmethod
    def wants(cls, _view: GraphView, press: Press) -> bool:
        """Accept any press of the left or middle button that no other tool has accepted."""
        return press.button in (Qt.MouseButton.LeftButton, Qt.MouseButton.MiddleButton)

    def move(self, position: QPointF) -> None:
        """Move the view with the pointer."""
        if not self._dragging:
            if not self.moved(position):
                return
            self._dragging = True
            self.view.setCursor(Qt.CursorShape.ClosedHandCursor)
        delta = position - self._last
        self._last = position
        self.view.pan_by(-delta.x(), -delta.y())

    def end(self, position: QPointF) -> None:
        """End the drag; a press without movement is a click."""
        self.view.unsetCursor()
        if not self._dragging and not self.moved(position) and self.press.button == Qt.MouseButton.LeftButton:
            self.view.picker.click(
                self.press.hit, extend=bool(self.press.modifiers & Qt.KeyboardModifier.ControlModifier)
            )

    def cancel(self) -> None:
        """Restore the position at which the drag began."""
        self.view.unsetCursor()
        viewport = self.view.viewport
        ratio = viewport.ratio
        self.view.pan_by((self._begin[0] - viewport.x) / ratio, (self._begin[1] - viewport.y) / ratio)
