"""Normalization of input values for the executor, and checks against the declared types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_workbench.exec.values.arrays import Array, RuntimeValue, SparseArray
from onnx_workbench.exec.values.statistics import ValueInfo, describe
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.types import (
    ElementType,
    MapType,
    OptionalType,
    SequenceType,
    SparseTensorType,
    TensorType,
    Type,
)
from onnx_workbench.model.text.elements import strings

if TYPE_CHECKING:
    from onnx_workbench.exec.inputs.recipe import Recipe

#: Input values by number of the value.
Feeds = dict[int, RuntimeValue]


@dataclass(frozen=True, slots=True)
class HeldInput:
    """Handle of an input's value that is held by the process which runs the model, or generated there on demand."""

    recipe: Recipe
    name: str
    info: ValueInfo

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the value."""
        return self.info.shape


def normalise(content: Any, declared: Type | None, name: str) -> RuntimeValue:
    """Convert a value for an input: lists and scalars become arrays of the declared type, texts arrays of str objects,
    dense arrays and matrices of scipy sparse ones where the type is.

    Element types are checked: ModelError names both. Shapes are not, as declarations in real files are often wrong.
    """
    if isinstance(content, HeldInput):
        expected = declared.element_type if isinstance(declared, TensorType) else None
        if isinstance(expected, ElementType) and expected and content.info.element_type is not expected:
            raise _mismatch(name, declared, content)
        return content
    if isinstance(declared, OptionalType):
        return None if content is None else normalise(content, declared.element, name)
    if isinstance(declared, SequenceType):
        if not isinstance(content, (list, tuple)):
            raise _mismatch(name, declared, content)
        return [normalise(v, declared.element, name) for v in content]
    if isinstance(declared, MapType):
        if not isinstance(content, dict):
            raise _mismatch(name, declared, content)
        return {k: normalise(v, declared.value, name) for k, v in content.items()}
    if isinstance(content, SparseArray) or (
        declared is None and (content is None or isinstance(content, (list, dict)))
    ):
        return content
    if content is None:
        raise _mismatch(name, declared, content)
    if isinstance(declared, SparseTensorType):
        return SparseArray.of(_array(content.toarray() if hasattr(content, "tocoo") else content, declared, name))
    return _array(content, declared, name)


def _array(content: Any, declared: Type | None, name: str) -> Array:
    expected = declared.element_type if isinstance(declared, (TensorType, SparseTensorType)) else None
    if not isinstance(expected, ElementType) or expected is ElementType.UNDEFINED:
        expected = None
    given = isinstance(content, (np.ndarray, np.generic))
    try:
        if expected is ElementType.STRING:
            return strings(np.asarray(content))
        array = np.asarray(content) if given or expected is None else as_elements(content, expected)
    except (TypeError, ValueError, OverflowError) as error:
        raise ModelError(f"The value for {name!r} is not a tensor", str(error)) from None
    if array.dtype.kind in "OUST":
        array = strings(array)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    try:
        found = ElementType.from_numpy(array.dtype)
    except ValueError as error:
        raise ModelError(f"The value for {name!r} has no ONNX type", str(error)) from None
    if expected is not None and found is not expected:
        raise _mismatch(name, declared, array)
    return array


def as_elements(content: Any, kind: ElementType) -> Array:
    """Convert numbers or texts to an array of an element type; ValueError, TypeError or OverflowError if impossible."""
    if kind is ElementType.STRING:
        return strings(np.asarray(content))
    with np.errstate(all="ignore"):
        if not kind.is_int and kind is not ElementType.BOOL:
            return np.asarray(content, kind.numpy_dtype)
        array = np.asarray(content)
        if array.size and array.dtype.kind in "US":  # numpy would convert any text to True
            msg = f"{str(array.flat[0])!r} is not a valid {kind.text}"
            raise ValueError(msg)
        if kind is ElementType.BOOL:
            return array.astype(kind.numpy_dtype)
        if array.size:
            signed = kind.text.startswith("int")
            low, past = (-(1 << kind.bits - 1) if signed else 0), 1 << kind.bits - signed
            outside = ~((array >= low) & (array < past) & (np.trunc(array) == array))
            if outside.any():
                msg = f"{array[outside].reshape(-1)[0]} is not a valid {kind.text}"
                raise ValueError(msg)
        return array.astype(kind.numpy_dtype)


def _mismatch(name: str, declared: Type | None, content: Any) -> ModelError:
    found = content.info if isinstance(content, HeldInput) else describe(content)
    return ModelError(f"The value for {name!r} has another type", f"it is {found}; the model declares {declared}")


def in_precision_of(declared: Type | None, value: RuntimeValue) -> RuntimeValue:
    """Cast float values, also in sequences, to the declared float type; return other values unchanged."""
    if isinstance(declared, OptionalType):
        return in_precision_of(declared.element, value)
    if isinstance(declared, SequenceType) and isinstance(value, list):
        return [in_precision_of(declared.element, item) for item in value]
    element = declared.element_type if isinstance(declared, TensorType) else None
    if isinstance(value, np.ndarray) and isinstance(element, ElementType) and element.is_float:
        return value.astype(element.numpy_dtype, copy=False)
    return value
