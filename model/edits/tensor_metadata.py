"""Name, description and metadata of a tensor; its values do not change and are not read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from onnx_workbench.model.edits.properties import with_entry, with_key
from onnx_workbench.model.edits.tensors import TensorLocation, set_tensor_at, tensor_at
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.ir.graph import Value
from onnx_workbench.model.ir.tensors import SparseTensor, Tensor

#: The part of a sparse tensor (values, indices) to edit; a dense tensor is its values.
Part = Literal["values", "indices"]


def set_tensor_name(edit: Transaction, place: TensorLocation, text: str, part: Part = "values") -> None:
    """Set a tensor's name; ModelError for an initializer, whose name is that of its value."""
    if isinstance(place.owner, Value) and part == "values":
        raise ModelError("An initializer has the name of its value", "Rename the value instead.", place.owner)
    _replace_part(edit, place, part, _part(place, part).with_texts(name=text))


def describe_tensor(edit: Transaction, place: TensorLocation, text: str, part: Part = "values") -> None:
    """Set the doc_string of a tensor."""
    _replace_part(edit, place, part, _part(place, part).with_texts(doc_string=text))


def set_tensor_metadata(
    edit: Transaction, place: TensorLocation, key: str, text: str | None, part: Part = "values"
) -> None:
    """Set or (None) remove one entry of a tensor's metadata_props."""
    _set_metadata_part(edit, place, part, with_entry(_part(place, part).metadata, key, text, place.owner))


def rename_tensor_metadata(edit: Transaction, place: TensorLocation, old: str, new: str, part: Part = "values") -> None:
    """Rename a key of a tensor's metadata_props, keeping its position."""
    _set_metadata_part(edit, place, part, with_key(_part(place, part).metadata, old, new, place.owner))


def _part(place: TensorLocation, part: Part) -> Tensor:
    tensor = tensor_at(place)
    if isinstance(tensor, SparseTensor):
        return tensor.values if part == "values" else tensor.indices
    if tensor is None or part == "indices":
        raise ModelError("There is no such tensor any more", "It was removed or replaced.", place.owner)
    return tensor


def _set_metadata_part(edit: Transaction, place: TensorLocation, part: Part, entries: Mapping[str, str]) -> None:
    _replace_part(edit, place, part, _part(place, part).with_texts(metadata=entries))


def _replace_part(edit: Transaction, place: TensorLocation, part: Part, made: Tensor) -> None:
    old = tensor_at(place)
    if not isinstance(old, SparseTensor):
        set_tensor_at(edit, place, made)
    elif part == "values":
        set_tensor_at(edit, place, SparseTensor(made, old.indices, old.shape, old.source))
    else:
        set_tensor_at(edit, place, SparseTensor(old.values, made, old.shape, old.source))
