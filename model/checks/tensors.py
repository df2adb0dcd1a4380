"""Rules about tensors of initializers and attributes: values present, in one field, and indices sorted."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from onnx_workbench.model.checks.problem import Problem, error
from onnx_workbench.model.ir.tensors import SparseTensor, Tensor
from onnx_workbench.model.ir.types import ElementType

_DATA = frozenset({
    "raw_data", "float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data",
})  # fmt: skip
#: Limit on the bytes of indices that are read; more could block the window.
_MOST_INDICES = 1 << 18


def check_tensor(tensor: Tensor | SparseTensor, what: str, place: Any) -> Iterator[Problem]:
    """Check a tensor, which messages call `what`. Reads no values, only few indices of sparse tensors."""
    if tensor.problem:
        yield error("tensor", f"The values of {what} are not available", place, tensor.problem)
    elif isinstance(tensor, SparseTensor):
        reason = _disorder(tensor)
        if reason:
            yield error("sparse-tensor", f"The indices of {what} are not right", place, reason)
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
            f"They must stand in one place. What is in {counts} counts.",
        )


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
            return f"{row} comes after {rows[number - 1]}; they must ascend."
    return ""
