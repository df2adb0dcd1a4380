"""What two types say together, and what they have in common."""

from __future__ import annotations

from dataclasses import replace

from onnx_workbench.model.ir.types import (
    MapType,
    OptionalType,
    SequenceType,
    Shape,
    SparseTensorType,
    TensorType,
    Type,
)


def common(a: Type | None, b: Type | None) -> Type | None:
    """Return the common supertype (join) of two types."""
    if isinstance(a, (SequenceType, OptionalType)) and type(a) is type(b):
        return replace(a, element=common(a.element, b.element))
    if a == b or not isinstance(a, TensorType) or not isinstance(b, TensorType):
        return a if a == b else None
    if a.element_type != b.element_type:
        return None
    if a.shape is None or b.shape is None or a.shape.rank != b.shape.rank:
        return TensorType(a.element_type)
    dims = tuple(x if x == y else None for x, y in zip(a.shape.dims, b.shape.dims, strict=True))
    return TensorType(a.element_type, Shape(dims))


def refined(found: Type, declared: Type | None) -> Type:
    """Refine an inferred type by a declaration where it leaves sizes and parts open.

    An inferred symbol stays where a number is declared: such numbers are outdated when an input becomes dynamic.
    """
    if found == declared:
        return found
    if isinstance(found, (SequenceType, OptionalType)) and type(declared) is type(found):
        element = declared.element if found.element is None else refined(found.element, declared.element)
        return replace(found, element=element)
    if isinstance(found, MapType) and isinstance(declared, MapType) and found.key_type == declared.key_type:
        return replace(found, value=declared.value if found.value is None else refined(found.value, declared.value))
    if (
        not isinstance(found, (TensorType, SparseTensorType)) or not isinstance(declared, type(found))
        or found.element_type not in (0, declared.element_type)
    ):  # fmt: skip
        return found
    shape = found.shape
    if shape is None:
        shape = declared.shape
    elif declared.shape is not None and declared.shape.rank == shape.rank:
        pairs = zip(shape.dims, declared.shape.dims, strict=True)
        dims = (other if own is None else own for own, other in pairs)
        shape = replace(shape, dims=tuple(dims))
    return replace(found, element_type=declared.element_type, shape=shape)
