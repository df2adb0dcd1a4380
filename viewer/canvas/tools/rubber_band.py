"""Rubber band: Shift+drag selects the boxes inside a rectangle; with Ctrl they are added to the selection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen

from onnx_workbench.viewer.canvas.scene.drawing import Kind
from onnx_workbench.viewer.canvas.scene.scene import Hit
from onnx_workbench.viewer.canvas.tools.tool import Press, Tool
from onnx_workbench.viewer.document.selection import Item
from onnx_workbench.viewer.style.theme import theme

if TYPE_CHECKING:
    from onnx_workbench.viewer.canvas.graph_view import GraphView


class RubberBandTool(Tool):
    """The rubber band."""

    def __init__(self, view: GraphView, press: Press) -> None:
        super().__init__(view, press)
        self._rect = QRectF(press.position, press.position)

    @classmethod
    def wants(cls, _view: GraphView, press: Press) -> bool:
        """Accept a press of the left button with Shift."""
        shift = bool(press.modifiers & Qt.KeyboardModifier.ShiftModifier)
        return press.button == Qt.MouseButton.LeftButton and shift

    def move(self, position: QPointF) -> None:
        """Extend the rectangle to the pointer."""
        self._rect = QRectF(self.press.position, position).normalized()
        self.view.update()

    def end(self, position: QPointF) -> None:
        """Select the boxes inside; a click adds the clicked object to the selection."""
        if not self.moved(position):
            self.view.picker.click(self.press.hit, extend=True)
            return
        self._rect = QRectF(self.press.position, position).normalized()
        extend = bool(self.press.modifiers & Qt.KeyboardModifier.ControlModifier)
        self.view.picker.select(self._inside(), extend=extend)

    def _inside(self) -> dict[Item, None]:
        view, rect = self.view, self._rect
        if view.scene is None:
            return {}
        corners = (
            *view.viewport.to_scene(rect.left(), rect.top()),
            *view.viewport.to_scene(rect.right(), rect.bottom()),
        )
        boxes = view.scene.boxes_in(*corners)
        boxes = boxes[view.scene.kinds[boxes] != Kind.CONTAINER]
        return {item: None for box in boxes.tolist() for item in view.picker.items_of(Hit(box=box))}

    def cancel(self) -> None:
        """Leave the selection unchanged."""
        self.view.update()

    def paint(self, painter: QPainter) -> None:
        """Draw the rectangle."""
        colors = theme()
        fill = QColor(colors.accent)
        fill.setAlpha(28)
        painter.setPen(QPen(colors.accent, 1.0))
        painter.setBrush(fill)
        painter.drawRect(self._rect)
