"""Mouse interactions of the canvas, one class each. A press starts the first tool of TOOLS that accepts it."""

from __future__ import annotations

from onnx_workbench.viewer.canvas.tools.pan import PanTool
from onnx_workbench.viewer.canvas.tools.pick import PickTool
from onnx_workbench.viewer.canvas.tools.rubber_band import RubberBandTool
from onnx_workbench.viewer.canvas.tools.tool import Press, Tool
from onnx_workbench.viewer.canvas.tools.wire import WireTool

__all__ = ["TOOLS", "PanTool", "PickTool", "Press", "RubberBandTool", "Tool", "WireTool"]

#: In order of precedence: tools that start at ports first.
TOOLS: tuple[type[Tool], ...] = (RubberBandTool, WireTool, PickTool, PanTool)
