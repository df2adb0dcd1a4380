"""Selection by click: a press on a box or an edge selects it on release; a drag pans."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QPointF, Qt

from onnx_workbench.viewer.canvas.tools.pan import PanTool
from onnx_workbench.viewer.canvas.tools.tool import Press

if TYPE_CHECKING:
    from onnx_workbench.viewer.canvas.graph_view import GraphView


class PickTool(PanTool):
    """Selects the clicked object, or performs the action of the clicked button."""

    @classmethod
    def wants(cls, _view: GraphView, press: Press) -> bool:
        """Accept a press of the left button on a box or edge."""
        return press.button == Qt.MouseButton.LeftButton and press.hit is not None

    def end(self, position: QPointF) -> None:
        """Perform the action of a header's button if it was pressed and released there."""
        hit = self.press.hit
        if hit is not None and hit.button is not None and not self.moved(position):
            self.view.unsetCursor()
            self.view.navigator.push(hit)
            return
        super().end(position)
