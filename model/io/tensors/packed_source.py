"""Tensor values as bytes, packed in parts on reading, so that large ones are never duplicated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onnx_workbench.model.ir.tensors import Tensor
from onnx_workbench.model.ir.types import ElementType

if TYPE_CHECKING:
    from numpy.typing import NDArray


class PackedSource:
    """The packed bytes of a tensor with an element type of the specification, except STRING. Any thread."""

    def __init__(self, tensor: Tensor, element_type: ElementType) -> None:
        self._tensor = tensor
        self._element_type = element_type
        self.name = tensor.name or "a tensor"
        self._flat: NDArray[Any] | None = None  # of one whose ranges cannot be read
        self.size = (tensor.size * element_type.bits + 7) // 8

    def read(self, offset: int, length: int) -> bytes:
        """Return the requested bytes; packs the elements they belong to."""
        from onnx_workbench.model.io.tensors.packing import group, pack  # numpy, which opening a model avoids

        elements, size = group(self._element_type)
        first, last = offset // size, -(-(offset + length) // size)
        data = pack(self._range(first * elements, last * elements), self._element_type)
        return data[offset - first * size :][:length]

    def _range(self, start: int, stop: int) -> NDArray[Any]:
        from onnx_workbench.model.io.tensors.mapped_arrays import whole_array

        if self._tensor.reads_ranges:
            return self._tensor.read(start, stop)
        if self._flat is None:
            self._flat = whole_array(self._tensor).reshape(-1)
        return self._flat[start:stop]
