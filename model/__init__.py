"""The editable ONNX model: what it is, how it is read, changed and written. Knows no Qt and no kernels.

The names below are the front door, imported when first used: `from model import Graph, load, save`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from model.document import Document
    from model.errors import ModelError
    from model.graph import Function, Graph, Model, Node, Value
    from model.io.read import load, load_operator_set
    from model.io.save import save

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
    "Document": "model.document",
    "Function": "model.graph",
    "Graph": "model.graph",
    "Model": "model.graph",
    "ModelError": "model.errors",
    "Node": "model.graph",
    "Value": "model.graph",
    "load": "model.io.read",
    "load_operator_set": "model.io.read",
    "save": "model.io.save",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(home), name)
