"""References of recordings to objects of a model: by id (`recovery.object_ids`) or by name (`scripts`)."""

from __future__ import annotations

from typing import Any, Protocol

from onnx_workbench.model.io.reader.payloads import Payload
from onnx_workbench.model.io.tensors.proto_tensor import TensorFiles
from onnx_workbench.model.ir.tensors import Tensor


class WriteReferences(Protocol):
    """References from a recording that is being written to objects of a model."""

    def of(self, target: Any) -> Any:
        """Return the reference to an object of the model; None if it is not in the model."""

    def new(self, made: Any) -> Any:
        """Return a reference for a new object."""

    def tensor(self, tensor: Tensor) -> Any:
        """Return a reference to a tensor of the opened file instead of its values; None if it is not one."""

    def store(self, piece: Payload) -> Any:
        """Store bytes outside the entry and return a reference to them; None when the entry must contain them."""


class ReadReferences(Protocol):
    """Lookup of objects by the references of a recording."""

    def find(self, reference: Any, kind: type[Any]) -> Any:
        """Return the object of a reference; raise ModelError when there is none."""

    def add(self, made: Any, reference: Any) -> None:
        """Register a new object that the recording adds, under its reference."""

    def find_tensor(self, reference: Any) -> Tensor:
        """Return the tensor of the opened file that a reference names."""

    def get(self, reference: Any) -> bytes:
        """Return the bytes of a reference that `store` returned."""

    @property
    def files(self) -> TensorFiles:
        """Access to the external files of tensors."""


class References(WriteReferences, ReadReferences, Protocol):
    """References for both writing and reading: for recordings that are compared with the model they are read into."""
