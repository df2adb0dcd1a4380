"""The editable ONNX model: what it is, how it is read, changed and written. Knows no Qt and no kernels.

The names below are the front door, imported when first used: `from onnx_workbench.model import Graph, load, save`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnx_workbench.model.document import Document
    from onnx_workbench.model.errors import ModelError
    from onnx_workbench.model.graph import Function, Graph, Model, Node, Value
    from onnx_workbench.model.io.read import load, load_operator_set
    from onnx_workbench.model.io.save import save

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
    "Document": "onnx_workbench.model.document",
    "Function": "onnx_workbench.model.graph",
    "Graph": "onnx_workbench.model.graph",
    "Model": "onnx_workbench.model.graph",
    "ModelError": "onnx_workbench.model.errors",
    "Node": "onnx_workbench.model.graph",
    "Value": "onnx_workbench.model.graph",
    "load": "onnx_workbench.model.io.read",
    "load_operator_set": "onnx_workbench.model.io.read",
    "save": "onnx_workbench.model.io.save",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(home), name)
