"""The types of values: what the model says, and how to hand on who knows more."""

from __future__ import annotations

from collections.abc import Callable

from onnx_workbench.model.ir.graph import Value
from onnx_workbench.model.ir.types import Type

#: Tells the type of a value, None when it is not known: `declared_type`, or what inference found.
TypeOf = Callable[[Value], Type | None]


def declared_type(value: Value) -> Type | None:
    """The type the file declares, else that of the constant. Reads no file."""
    if value.type is None and value.initializer is not None:
        return value.initializer.type
    return value.type
