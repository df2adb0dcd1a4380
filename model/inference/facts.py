"""Known facts about values: types, sizes as numbers or symbols, and the contents of small integer tensors.

Facts stay valid while passes rewrite the graph, since rewriting changes how a value is computed, not its contents.
Declared types of inner values are ignored: only conclusions from inputs and constants count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_workbench.model.analysis.symbolic import AnySize, formula, is_never_negative, read, symbol
from onnx_workbench.model.analysis.symbolic_floats import constant
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.graph import Value
from onnx_workbench.model.ir.tensors import Tensor
from onnx_workbench.model.ir.types import (
    MOST_DIMENSIONS,
    UNNAMED,
    Dimension,
    ElementType,
    Shape,
    TensorType,
    Type,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

Dims = tuple[AnySize, ...]

#: Larger integer tensors are data, not shapes.
LARGEST_CONTENTS = 64

_MOST_FACTORS = 16  # a region of interest of four or five dimensions has as many bounds

_INTEGERS = frozenset({ElementType.INT32, ElementType.INT64})


class Facts:
    """What is known about values, filled node by node in topological order."""

    def __init__(self, outer: Facts | None = None) -> None:
        """Facts that share the numbers of their symbols with others, so that no two have the same symbol."""
        self._elements: dict[Value, ElementType] = {}
        self._dims: dict[Value, Dims] = {}
        self._others: dict[Value, Type] = {}  # types that are no dense tensors
        self.contents: dict[Value, NDArray[Any]] = {}  # object arrays of sizes and bools
        self.factors: dict[Value, tuple[float, ...]] = {}  # contents of floating-point numbers and small vectors
        self.differences: set[AnySize] = set()  # such as T - 2: dimensions, so not negative; assumed not 0
        self._fresh: Iterator[int] = count(1) if outer is None else outer._fresh
        self._types: dict[tuple[ElementType, Dims | None], TensorType] = {}  # many values have equal ones

    # -- learning ------------------------------------------------------------------------------------------------

    def seed(self, value: Value, kind: Type | None) -> None:
        """Add facts from a type, if nothing is known of the value."""
        if not isinstance(kind, TensorType):
            if kind is not None:
                self._others.setdefault(value, kind)
            return
        self.set_element_type(value, kind.element_type)
        if kind.shape is not None and value not in self._dims:
            self.set_dims(value, tuple(map(self.size, kind.shape.dims)))

    def learn_constant(self, value: Value, tensor: Tensor) -> None:
        """Add a constant."""
        if isinstance(tensor.element_type, ElementType):
            self._elements[value] = tensor.element_type
        self._dims[value] = tuple(tensor.shape)
        is_factor = tensor.element_type is ElementType.FLOAT and len(tensor.shape) <= 1 and tensor.size <= _MOST_FACTORS
        is_content = tensor.element_type in (*_INTEGERS, ElementType.BOOL) and 0 <= tensor.size <= LARGEST_CONTENTS
        if not is_factor and not is_content:
            return
        try:
            array = tensor.numpy()
        except (ModelError, OSError, ValueError):
            return
        if array.shape != tuple(tensor.shape):
            return
        if is_factor:
            self.factors[value] = tuple(array.reshape(-1).tolist())
            sizes = [constant(factor) for factor in self.factors[value]]
            if not any(size is None for size in sizes):
                self.contents[value] = np.empty(array.shape, object)
                self.contents[value].reshape(-1)[:] = sizes
        else:
            self.contents[value] = _objects(array)

    def set_element_type(self, value: Value, kind: ElementType | int | None) -> None:
        """Set the element type of a tensor, if it is not known."""
        if isinstance(kind, ElementType) and kind is not ElementType.UNDEFINED:
            self._elements.setdefault(value, kind)

    def set_dims(self, value: Value, dims: Sequence[AnySize | None]) -> None:
        """Set the dimensions of a tensor (None: an unknown size), or replace those of unknown size."""
        if len(dims) > MOST_DIMENSIONS:
            return
        sizes = tuple(self.unknown_size() if d is None or _is_no_size(d) else d for d in dims)
        self.differences.update(size for size in sizes if not isinstance(size, int) and not is_never_negative(size))
        before = self._dims.get(value)
        if before is None:
            self._dims[value] = sizes
        elif len(before) == len(sizes):
            self._dims[value] = tuple(b if is_unknown(a) else a for a, b in zip(before, sizes, strict=True))

    def set_contents(self, value: Value, contents: NDArray[Any]) -> None:
        """Set the elements of a small integer tensor."""
        if contents.size <= LARGEST_CONTENTS:
            self.contents[value] = contents
            self._dims.setdefault(value, contents.shape)

    def unknown_number(self) -> AnySize:
        """Return a new symbol for an unknown number, which may be negative."""
        return symbol(self._unique("!"))

    def name_contents(self, value: Value) -> None:
        """Assign a symbol to each element of a small integer vector of unknown contents."""
        if value in self.contents or self._elements.get(value) not in _INTEGERS:
            return
        shape = self.shape(value)
        if shape is None or len(shape) > 1 or (shape and shape[0] > LARGEST_CONTENTS):
            return
        array = np.empty(shape, object)
        array.reshape(-1)[:] = [self.unknown_number() for _ in range(array.size)]
        self.contents[value] = array

    def unknown_size(self) -> AnySize:
        """Return a new symbol for an unknown dimension."""
        return symbol(self._unique("?"))

    def size(self, dim: Dimension) -> AnySize:
        """Return the size of a declared dimension."""
        if isinstance(dim, int):
            return dim if dim >= 0 else self.unknown_size()
        # The marks belong to symbols that are made here.
        return read(dim) if dim and dim != UNNAMED and not dim.startswith(("?", "!")) else self.unknown_size()

    def _unique(self, mark: str) -> str:
        return f"{mark}{next(self._fresh)}"

    # -- changes by passes and trials ----------------------------------------------------------------------------

    def forget(self, values: Iterable[Value]) -> None:
        """Remove all facts about values."""
        for value in values:
            for facts in (self._elements, self._dims, self._others, self.contents, self.factors):
                facts.pop(value, None)

    def adopt(self, others: Facts) -> None:
        """Add the facts about other values."""
        self._elements |= others._elements
        self._dims |= others._dims
        self._others |= others._others
        self.contents |= others.contents
        self.factors |= others.factors
        self.differences |= others.differences

    def same(self, new: Value, old: Value) -> None:
        """Copy the facts of an old value to a new one."""
        if old in self._elements:
            self._elements[new] = self._elements[old]
        if old in self._dims:
            self._dims[new] = self._dims[old]
        if old in self.contents:
            self.contents[new] = self.contents[old]
        if old in self._others:
            self._others[new] = self._others[old]

    def set_type(self, value: Value, element: ElementType | None, dims: Dims | None) -> None:
        """Set the facts of a value created by a pass."""
        if element is not None:
            self._elements[value] = element
        if dims is not None:
            self._dims[value] = dims

    # -- queries -------------------------------------------------------------------------------------------------

    def element_type(self, value: Value | None) -> ElementType | None:
        """Return the element type of a tensor, or None."""
        return None if value is None else self._elements.get(value)

    def dims(self, value: Value | None) -> Dims | None:
        """Return the dimensions of a tensor, symbols where unknown; None when the rank is unknown."""
        return None if value is None else self._dims.get(value)

    def rank(self, value: Value | None) -> int | None:
        """Return the number of dimensions, or None."""
        dims = self.dims(value)
        return None if dims is None else len(dims)

    def shape(self, value: Value | None) -> tuple[int, ...] | None:
        """Return the dimensions when all are numbers, else None."""
        dims = self.dims(value)
        if dims is None:
            return None
        numbers = tuple(d for d in dims if isinstance(d, int))
        return numbers if len(numbers) == len(dims) else None

    def other(self, value: Value | None) -> Type | None:
        """Return the type of a value that is no dense tensor, or None."""
        return None if value is None else self._others.get(value)

    def type_of(self, value: Value | None) -> Type | None:
        """Return the type of a value with sizes as numbers and formulas, None where unknown."""
        if value is None:
            return None
        kind = self._elements.get(value)
        return self._others.get(value) if kind is None else self.tensor_type(kind, self._dims.get(value))

    def tensor_type(self, kind: ElementType, dims: Dims | None) -> TensorType:
        """Return a tensor type with these sizes."""
        key = kind, dims
        found = self._types.get(key)
        if found is None:
            shape = None if dims is None else Shape(tuple(map(to_dimension, dims)))
            found = self._types[key] = TensorType(kind, shape)
        return found

    def known(self) -> Iterable[Value]:
        """Return the values whose type is known."""
        return (*self._elements, *self._others)


def to_dimension(size: AnySize | None) -> Dimension:
    """Return a size as a dimension: a number, or a formula where it has one."""
    return size if size is None or isinstance(size, int) else formula(size)


def is_unknown(size: AnySize) -> bool:
    """Return whether a size is a symbol made for an unknown one."""
    return not isinstance(size, int) and str(size).startswith("?")


def _is_no_size(size: AnySize) -> bool:
    return isinstance(size, int) and not 0 <= size < 1 << 63


def _objects(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array of Python objects, which can mix numbers and symbols."""
    result = np.empty(array.shape, object)
    result.reshape(-1)[:] = array.reshape(-1).tolist()
    return result
