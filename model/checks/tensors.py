"""Rules about tensors of initializers and attributes: values present, in one field, and indices sorted."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from onnx_workbench.model.checks.problem import Problem, error
from onnx_workbench.model.io.unknown_fields import unknown_number
from onnx_workbench.model.ir.tensors import SparseTensor, Tensor, element_count
from onnx_workbench.model.ir.types import ElementType

_DATA = frozenset({
    "raw_data", "float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data",
})  # fmt: skip
_DATA_LOCATION = 14  # number of the field
_MOST_ELEMENTS = (1 << 63) - 1
_MOST_NUMBERS = 1 << 16  # maximum number of numbers checked
#: Fields with a wider type than the elements, and the range that fits; bits of floats may have been stored signed.
_NARROW = {
    ElementType.INT8: ("int32_data", -(1 << 7), (1 << 7) - 1),
    ElementType.UINT8: ("int32_data", 0, (1 << 8) - 1),
    ElementType.INT16: ("int32_data", -(1 << 15), (1 << 15) - 1),
    ElementType.UINT16: ("int32_data", 0, (1 << 16) - 1),
    ElementType.UINT32: ("uint64_data", 0, (1 << 32) - 1),
    ElementType.FLOAT16: ("int32_data", -(1 << 15), (1 << 16) - 1),
    ElementType.BFLOAT16: ("int32_data", -(1 << 15), (1 << 16) - 1),
    ElementType.FLOAT8E4M3FN: ("int32_data", -(1 << 7), (1 << 8) - 1),
    ElementType.FLOAT8E4M3FNUZ: ("int32_data", -(1 << 7), (1 << 8) - 1),
    ElementType.FLOAT8E5M2: ("int32_data", -(1 << 7), (1 << 8) - 1),
    ElementType.FLOAT8E5M2FNUZ: ("int32_data", -(1 << 7), (1 << 8) - 1),
    ElementType.INT4: ("int32_data", -(1 << 7), (1 << 8) - 1),
    ElementType.UINT4: ("int32_data", -(1 << 7), (1 << 8) - 1),
}
#: Limit on the bytes of indices that are read; more could block the window.
_MOST_INDICES = 1 << 18


def check_tensor(tensor: Tensor | SparseTensor, what: str, place: Any) -> Iterator[Problem]:
    """Check a tensor, described by `what` in messages. Reads no values, only few indices of sparse tensors."""
    if tensor.problem:
        yield error("tensor", f"The values of {what} are not available", place, tensor.problem)
    elif isinstance(tensor, SparseTensor):
        reason = _excess(tensor) or _disorder(tensor)
        if reason:
            yield error("sparse-tensor", f"The indices of {what} are invalid", place, reason)
    for part in (tensor.values, tensor.indices) if isinstance(tensor, SparseTensor) else (tensor,):
        yield from _check_fields(part, what, place)


def _check_fields(tensor: Tensor, what: str, place: Any) -> Iterator[Problem]:
    """Check that the values are in exactly one field of the message, or in an external file."""
    list_fields = getattr(tensor.source, "ListFields", None)
    filled = [f.name for f, held in list_fields() if f.name in _DATA and len(held)] if list_fields is not None else []
    is_external = tensor.storage == "external" if filled else False
    if len(filled) + is_external > 1:
        places = [*filled, *(["a file"] if is_external else [])]
        counts = "a file" if is_external else "raw_data" if "raw_data" in filled else "the one for its type"
        yield error(
            "tensor-fields",
            f"{what} has its values in {' and '.join(places)}",
            place,
            f"They must be in one place. The values in {counts} are used.",
        )
    location = unknown_number(tensor.source, _DATA_LOCATION)
    if location is not None:
        detail = f"It is {location}; 0 (in the message) and 1 (in another file) are defined. 0 is used."
        yield error("data-location", f"The data_location of {what} is invalid", place, detail)
    yield from _check_range(tensor, what, place)


def _check_range(tensor: Tensor, what: str, place: Any) -> Iterator[Problem]:
    """Check the range of numbers in a field of a wider type; large tensors are skipped."""
    kind = tensor.element_type
    if not isinstance(kind, ElementType) or kind not in _NARROW:
        return
    field, least, most = _NARROW[kind]
    numbers = getattr(tensor.source, field, ())
    if not 0 < len(numbers) <= _MOST_NUMBERS:
        return
    at = next((at for at, number in enumerate(numbers) if not least <= number <= most), None)
    if at is not None:
        detail = (
            f"Number {at} of {field} is {numbers[at]:,}; {least:,} to {most:,} is allowed. Its lowest bits are used."
        )
        yield error("tensor-range", f"{what} has a number that is not a valid {kind.text}", place, detail)


def _excess(tensor: SparseTensor) -> str:
    """Return why no dense tensor of the shape can be; empty if one can."""
    size = element_count(tensor.shape)
    found = f"{list(tensor.shape)} are {size:,} elements; at most {_MOST_ELEMENTS:,} can be."
    return found if size > _MOST_ELEMENTS else ""


def _disorder(tensor: SparseTensor) -> str:
    """Return what is wrong with the indices; empty if nothing, or if there are too many to read."""
    count, rank = math.prod(tensor.values.shape), len(tensor.shape)
    indices = tensor.indices
    if indices.element_type is not ElementType.INT64:
        return "They must be of int64."
    if len(tensor.values.shape) != 1 or indices.shape not in ((count,), (count, rank)):
        return f"{list(indices.shape)} indices do not fit {list(tensor.values.shape)} values of {list(tensor.shape)}."
    if indices.nbytes > _MOST_INDICES or not count:
        return ""
    rows = indices.numpy().reshape(count, -1).tolist()
    sizes = tensor.shape if len(indices.shape) == 2 else (math.prod(tensor.shape),)
    for number, row in enumerate(rows):
        if any(not 0 <= index < size for index, size in zip(row, sizes, strict=True)):
            return f"{row} is outside of {list(sizes)}."
        if number and row <= rows[number - 1]:
            return f"{row} comes after {rows[number - 1]}; they must be in ascending order."
    return ""
