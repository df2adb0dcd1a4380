"""The editable ONNX model: what it is, how it is read, changed and written. Knows no Qt and no kernels.

The names below are the front door, imported when first used: `from onnx_workbench.model import Graph, load, save`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnx_workbench.model.errors import ModelError
    from onnx_workbench.model.history.document import Document
    from onnx_workbench.model.io.reader.read import load, load_operator_set
    from onnx_workbench.model.io.writer.save import save
    from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, Value

__all__ = [
    "Document",
    "Function",
    "Graph",
    "Model",
    "ModelError",
    "Node",
    "Value",
    "load",
    "load_operator_set",
    "save",
]

_HOMES = {
    "Document": "onnx_workbench.model.history.document",
    "Function": "onnx_workbench.model.ir.graph",
    "Graph": "onnx_workbench.model.ir.graph",
    "Model": "onnx_workbench.model.ir.graph",
    "ModelError": "onnx_workbench.model.errors",
    "Node": "onnx_workbench.model.ir.graph",
    "Value": "onnx_workbench.model.ir.graph",
    "load": "onnx_workbench.model.io.reader.read",
    "load_operator_set": "onnx_workbench.model.io.reader.read",
    "save": "onnx_workbench.model.io.writer.save",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(home), name)
