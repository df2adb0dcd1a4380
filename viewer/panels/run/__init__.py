"""The Run panel: inputs, limits and breakpoints of a run, and what came out of it."""

from onnx_workbench.viewer.panels.run.panel import RunPanel

__all__ = ["RunPanel"]
