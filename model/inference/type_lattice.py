"""Partial order of types by information: which one is more specific, and their join."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from onnx_workbench.model.ir.types import (
    Dimension,
    MapType,
    OptionalType,
    SequenceType,
    Shape,
    SparseTensorType,
    TensorType,
    Type,
)


def surely_sized(kind: Type | None) -> Type | None:
    """Return the type without sizes that inference only made up a name for: equal names do not imply equal sizes."""
    if isinstance(kind, TensorType) and kind.shape is not None:
        return TensorType(kind.element_type, Shape(tuple(d if weight(d) > 1 else None for d in kind.shape.dims)))
    return kind


def without_dims(kind: Type | None) -> Type | None:
    """Return the type without dimensions: a loop may change the sizes of carried values, rarely the rank."""
    if isinstance(kind, TensorType) and kind.shape is not None:
        return TensorType(kind.element_type, Shape((None,) * kind.shape.rank))
    return kind


def common(a: Type | None, b: Type | None) -> Type | None:
    """Return the common supertype (join) of two types."""
    if a == b or not isinstance(a, TensorType) or not isinstance(b, TensorType):
        return a if a == b else None
    if a.element_type != b.element_type:
        return None
    if a.shape is None or b.shape is None or a.shape.rank != b.shape.rank:
        return TensorType(a.element_type)
    dims = tuple(x if x == y else None for x, y in zip(a.shape.dims, b.shape.dims, strict=True))
    return TensorType(a.element_type, Shape(dims))


def is_full(kind: Type | None) -> bool:
    """Return whether nothing relevant is open: the rank is known."""
    if isinstance(kind, (TensorType, SparseTensorType)):
        return kind.shape is not None and kind.element_type != 0
    if isinstance(kind, (SequenceType, OptionalType)):
        return kind.element is not None
    return kind is not None


def is_partly_open(kind: Type | None) -> bool:
    """Return whether a size of a tensor has neither a number nor a symbol of the file."""
    return isinstance(kind, TensorType) and kind.shape is not None and any(weight(d) < 2 for d in kind.shape.dims)


def weight(dim: Dimension) -> int:
    """Rank a dimension by information: a number, a symbol, a made-up name, or nothing."""
    if dim is None:
        return 0
    return 3 if isinstance(dim, int) else 1 if dim.startswith("unk__") else 2


def is_better(new: Type | None, old: Type | None) -> bool:
    """Return whether a type is more specific than the known one."""
    if new is None or new is old:
        return False
    if old is None or (not is_full(old) and is_full(new)):
        return True
    if isinstance(new, TensorType) and isinstance(old, TensorType) and new.shape is not None and old.shape is not None:
        same_rank = new.shape.rank == old.shape.rank
        return same_rank and sum(map(weight, new.shape.dims)) > sum(map(weight, old.shape.dims))
    return False


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
        dims = (own if weight(own) > 1 else max(own, other, key=weight) for own, other in pairs)
        shape = replace(shape, dims=tuple(dims))
    return replace(found, element_type=declared.element_type, shape=shape)


def pad(first: list[Any], second: list[Any], length: int) -> Iterator[tuple[Any, Any]]:
    """Zip two lists, padding the shorter one."""
    first += [None] * (length - len(first))
    second += [None] * (length - len(second))
    return zip(first[:length], second[:length], strict=True)
