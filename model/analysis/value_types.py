"""Types of values: declared ones, and a callable type for inferred ones."""

from __future__ import annotations

from collections.abc import Callable

from onnx_workbench.model.ir.graph import Value
from onnx_workbench.model.ir.types import Dimension, TensorType, Type

#: Returns the type of a value, None if unknown: `declared_type`, or an inference result.
TypeOf = Callable[[Value], Type | None]


def declared_type(value: Value) -> Type | None:
    """Return the type the file declares, else that of the constant. Reads no file."""
    if value.type is None and value.initializer is not None:
        return value.initializer.type
    return value.type


def dims_of(value: Value, type_of: TypeOf = declared_type) -> tuple[Dimension, ...] | None:
    """Return the sizes of a constant, else those of a tensor's type; None where the rank is unknown."""
    if value.initializer is not None:
        return tuple(value.initializer.shape)
    kind = type_of(value)
    return kind.shape.dims if isinstance(kind, TensorType) and kind.shape is not None else None
