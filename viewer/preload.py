"""Imports ahead of time, on a worker thread, so that the GUI thread need not wait for them."""

from __future__ import annotations

from importlib import import_module

from onnx_workbench.viewer.panel_list import PANELS


def import_view() -> None:
    """Import the modules of a document's tab, including numpy, and of the initially open panels."""
    for name in ("files.document_tab", "canvas.graph_view"):
        import_module(f"onnx_workbench.viewer.{name}")
    import_module("onnx_workbench.model.recovery.journal")
    for info in PANELS:
        if info.open_at_first:
            info.load()


def import_runs() -> None:
    """Import what running a model and looking at its values need, and the other panels."""
    import_module("onnx_workbench.viewer.run.session.controller")
    for info in PANELS:
        info.load()
