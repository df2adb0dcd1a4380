"""References of recordings to the objects of a model: by ids, see `recovery.object_ids`, or names, see `scripts`."""

from __future__ import annotations

from typing import Any, Protocol

from onnx_workbench.model.io.reader.payloads import Payload
from onnx_workbench.model.io.tensors.proto_tensor import TensorFiles
from onnx_workbench.model.ir.tensors import Tensor


class WriteReferences(Protocol):
    """References to objects of a model in a recording that is being written."""

    def of(self, target: Any) -> Any:
        """Return the reference to an object of the model; None for one that is not in it."""

    def new(self, made: Any) -> Any:
        """The reference a new object gets."""

    def tensor(self, tensor: Tensor) -> Any:
        """Return a reference to a tensor of the opened file instead of its values; None if it is not one."""

    def store(self, piece: Payload) -> Any:
        """A reference to bytes that are too many for a line; None when they must be in it all the same."""


class ReadReferences(Protocol):
    """References of a recording, resolved to objects."""

    def find(self, reference: Any, kind: type[Any]) -> Any:
        """The object a reference means; ModelError when there is none."""

    def add(self, made: Any, reference: Any) -> None:
        """A new object comes with what is being read, under this reference."""

    def find_tensor(self, reference: Any) -> Tensor:
        """The tensor of the opened file."""

    def get(self, reference: Any) -> bytes:
        """The bytes of a reference that `put` gave."""

    @property
    def files(self) -> TensorFiles:
        """File access of tensors whose values are in other files."""


class References(WriteReferences, ReadReferences, Protocol):
    """Both: recordings that are compared with the model they are read into."""
