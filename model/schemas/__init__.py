"""Operator schemas per domain and version.

The first lookup imports the onnx package (about 0.2 s): do it off the GUI thread with `preload`.
"""

from onnx_workbench.model.schemas.registry import (
    find,
    has_changed,
    is_loaded,
    newest_opset,
    operators,
    preload,
    register,
    unregister,
    versions,
)
from onnx_workbench.model.schemas.schema import AttributeSchema, Parameter, Schema

__all__ = [
    "AttributeSchema",
    "Parameter",
    "Schema",
    "find",
    "has_changed",
    "is_loaded",
    "newest_opset",
    "operators",
    "preload",
    "register",
    "unregister",
    "versions",
]
