"""Mouse interactions of the canvas, one class each. A press starts the first tool of TOOLS that wants it."""

from __future__ import annotations

from viewer.canvas.tools.band import BandTool
from viewer.canvas.tools.pan import PanTool
from viewer.canvas.tools.pick import PickTool
from viewer.canvas.tools.tool import Press, Tool
from viewer.canvas.tools.wire import WireTool

__all__ = ["TOOLS", "BandTool", "PanTool", "PickTool", "Press", "Tool", "WireTool"]

#: In the order they are asked. A tool that starts at ports stands before the others.
TOOLS: tuple[type[Tool], ...] = (BandTool, WireTool, PickTool, PanTool)
