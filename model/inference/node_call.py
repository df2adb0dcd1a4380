"""A node as shape inference rules see it, and helpers for several of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from onnx_workbench.model.analysis.symbolic import AnySize, formula, read
from onnx_workbench.model.ir.types import Dimension, ElementType, Shape, TensorType, Type


@dataclass(frozen=True, slots=True)
class NodeCall:
    """A node for a rule: types of its inputs (None: unknown or left out), attributes as Python values."""

    inputs: Sequence[Type | None]
    attributes: Mapping[str, Any]
    outputs: int
    opset: int = 1
    values: Sequence[Sequence[Dimension] | None] = ()  # contents of small integer inputs, where known

    def tensor(self, index: int) -> TensorType | None:
        """Return the type of an input if it is a known tensor."""
        found = self.inputs[index] if index < len(self.inputs) else None
        return found if isinstance(found, TensorType) else None

    def dims(self, index: int) -> tuple[Dimension, ...] | None:
        """Return the dimensions of an input, None when its rank is unknown."""
        found = self.tensor(index)
        return found.shape.dims if found is not None and found.shape is not None else None

    def content(self, index: int) -> Sequence[Dimension] | None:
        """Return the contents of a small integer input, None where unknown."""
        return self.values[index] if index < len(self.values) else None

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return an attribute's value or the default."""
        return self.attributes.get(name, default)


Rule = Callable[[NodeCall], Sequence[Type | None]]


def tensor(element_type: ElementType | int, dims: Sequence[Dimension] | None) -> TensorType:
    """Return a tensor type with dimensions, or of unknown rank."""
    return TensorType(element_type, None if dims is None else Shape(tuple(dims)))


def same_as(index: int, element_type: ElementType | None = None) -> Rule:
    """Return the first output like an input, in another element type if given."""

    def rule(call: NodeCall) -> Sequence[Type | None]:
        given = call.inputs[index] if index < len(call.inputs) else None
        if element_type is None or not isinstance(given, TensorType):
            return (given,)
        return (TensorType(element_type, given.shape),)

    return rule


def broadcast(*shapes: tuple[Dimension, ...] | None) -> tuple[Dimension, ...] | None:
    """Return the dimensions of an elementwise result under numpy broadcasting; None when a rank is unknown."""
    known = [s for s in shapes if s is not None]
    if len(known) < len(shapes):
        return None
    rank = max((len(s) for s in known), default=0)
    result: list[Dimension] = []
    for axis in range(rank):
        dims = {s[axis - rank + len(s)] for s in known if axis - rank + len(s) >= 0} - {1}
        result.append(1 if not dims else next(iter(dims)) if len(dims) == 1 else _one_number(dims))
    return tuple(result)


def _one_number(dims: set[Dimension]) -> Dimension:
    numbers = {d for d in dims if isinstance(d, int)}
    return next(iter(numbers)) if len(numbers) == 1 else None


def matmul_dims(a: tuple[Dimension, ...] | None, b: tuple[Dimension, ...] | None) -> tuple[Dimension, ...] | None:
    """Return the dimensions of numpy.matmul of two tensors."""
    if a is None or b is None or not a or not b:
        return None
    batch = broadcast(a[:-2], b[:-2])
    if batch is None:
        return None
    rows = a[-2:-1] if len(a) > 1 else ()
    columns = b[-1:] if len(b) > 1 else ()
    return (*batch, *rows, *columns)


def swapped(dims: tuple[Dimension, ...] | None, swap: bool) -> tuple[Dimension, ...] | None:
    """Return the dimensions with the last two exchanged, if `swap`."""
    return (*dims[:-2], dims[-1], dims[-2]) if swap and dims is not None and len(dims) > 1 else dims


def divided(size: Dimension, by: Any) -> Dimension:
    """Divide a dimension by a number, where both are known and it is exact."""
    return size // by if isinstance(size, int) and isinstance(by, int) and by > 0 and size % by == 0 else None


def at(dims: Sequence[Dimension] | None, index: int) -> Dimension:
    """Return one dimension, None where there is none or the rank is unknown."""
    return dims[index] if dims is not None and -len(dims) <= index < len(dims) else None


def total(*sizes: Dimension) -> Dimension:
    """Return the sum of dimensions, as a formula where some are symbols; None where one is open."""
    result: AnySize = 0
    for size in sizes:
        if size is None:
            return None
        result = result + (read(size) if isinstance(size, str) else size)
    return to_dimension(result)


def product(*sizes: Dimension) -> Dimension:
    """Return the product of dimensions, likewise."""
    result: AnySize = 1
    for size in sizes:
        if size is None:
            return None
        result = result * (read(size) if isinstance(size, str) else size)
    return to_dimension(result)


def to_dimension(size: AnySize | None) -> Dimension:
    """Return a size as a dimension: a number, or a formula where it has one."""
    return size if size is None or isinstance(size, int) else formula(size)
