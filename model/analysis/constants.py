"""Constants of a model: values that no caller, training or quantization replaces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from onnx_workbench.model.analysis.node_constants import constant_tensor
from onnx_workbench.model.budget import WINDOW_TENSOR
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.graph import Model, Node, Value
from onnx_workbench.model.ir.tensors import Tensor
from onnx_workbench.model.ir.types import ElementType
from onnx_workbench.model.progress import SILENT, Progress

if TYPE_CHECKING:
    from numpy.typing import NDArray

_REMEMBERED = 1 << 16  # bytes of a constant whose values are cached


class ProtectedValues:
    """Values that training or quantization annotations refer to, collected once: they stay, even without a use."""

    def __init__(self, model: Model, progress: Progress = SILENT) -> None:
        self._main = model.graph
        self._names = set(_names_of_training(model))
        self._annotated = {
            v for g in model.graphs(progress) for a in g.quantization_annotations
            for v in (a.value, *(p for _, p in a.parameters))
        }  # fmt: skip

    def __contains__(self, value: Value) -> bool:
        return value in self._annotated or (value.name in self._names and value.graph is self._main)


def _names_of_training(model: Model) -> Iterator[str]:
    """Yield the names of values of the main graph that training reads or sets."""
    for training in model.training_info:
        for binding in (training.initialization_binding, training.update_binding):
            yield from (key for key, _ in binding)
        for root in (training.initialization, training.algorithm):
            for graph in root.walk() if root is not None else ():
                yield from (value.name for node in graph.nodes for value in node.inputs if value is not None)
                yield from (value.name for value in graph.outputs)


class Constants:
    """Tensors of constant values, and their numbers, of which small ones are cached.

    Numbers that take more than `limit` bytes are not read.
    """

    def __init__(self, model: Model, limit: int = WINDOW_TENSOR, progress: Progress = SILENT) -> None:
        self._limit = limit
        self.protected = ProtectedValues(model, progress)
        self._tensors: dict[Node, Tensor | None] = {}
        self._arrays: dict[Tensor, NDArray[Any]] = {}

    def tensor(self, value: Value | None) -> Tensor | None:
        """Return the tensor of a constant value; None if a caller or training may replace it. Reads no file."""
        if value is None:
            return None
        if value.initializer is not None:
            if not isinstance(value.initializer, Tensor) or value in self.protected or value.is_input:
                return None
            return value.initializer
        producer = value.producer
        if producer is None or producer.op_type != "Constant" or producer.domain:
            return None
        if producer not in self._tensors:
            content = constant_tensor(producer)
            self._tensors[producer] = content if isinstance(content, Tensor) else None
        return self._tensors[producer]

    def is_too_large(self, tensor: Tensor) -> bool:
        """Return whether the numbers of a tensor take more than the limit. Reads no file."""
        kind = tensor.element_type
        return isinstance(kind, ElementType) and tensor.size * kind.numpy_dtype.itemsize > self._limit

    def array(self, value: Value | None) -> NDArray[Any] | None:
        """Return the numbers of a constant; None when it is none, too large or unavailable. May read the file."""
        tensor = self.tensor(value)
        return None if tensor is None else self.read(tensor)

    def read(self, tensor: Tensor) -> NDArray[Any] | None:
        """Return the numbers of a tensor; None when they are too large or unavailable. May read the file."""
        held = self._arrays.get(tensor)
        if held is not None:
            return held
        if tensor.problem or not isinstance(tensor.element_type, ElementType):
            return None
        if self.is_too_large(tensor):
            return None
        try:
            array = tensor.numpy()
        except (ModelError, ValueError, OSError):
            return None
        if array.shape != tuple(tensor.shape):
            return None
        if array.nbytes <= _REMEMBERED:
            self._arrays[tensor] = array
        return array
