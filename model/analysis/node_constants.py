"""Read attributes and constant inputs of nodes as plain numbers and texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onnx_workbench.model.ir.graph import Node
from onnx_workbench.model.ir.tensors import ArrayTensor, SparseTensor, Tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from onnx_workbench.model.analysis.values import KnownValues


def plain(node: Node, name: str) -> Any:
    """Return the value of an attribute, None when the node does not have it."""
    attribute = node.attributes.get(name)
    return None if attribute is None else attribute.value


def number(node: Node, name: str, default: int) -> int:
    """An INT attribute."""
    value = plain(node, name)
    return value if isinstance(value, int) else default


def real(node: Node, name: str, default: float) -> float:
    """A FLOAT attribute."""
    value = plain(node, name)
    return float(value) if isinstance(value, (int, float)) else default


def ints(node: Node, name: str) -> tuple[int, ...] | None:
    """An INTS attribute, None when the node does not have it."""
    value = plain(node, name)
    return tuple(value) if isinstance(value, tuple) and all(isinstance(v, int) for v in value) else None


def text(node: Node, name: str, default: str) -> str:
    """A STRING attribute."""
    value = plain(node, name)
    return value if isinstance(value, str) else default


def content_of(facts: KnownValues, node: Node, index: int) -> NDArray[Any] | None:
    """Return the contents of an input, numbers and symbols; None if unknown or left out."""
    value = node.inputs[index] if index < len(node.inputs) else None
    return None if value is None else facts.contents.get(value)


def constant_ints(facts: KnownValues, node: Node, index: int) -> tuple[int, ...] | None:
    """Return the integers in an input, when all are known."""
    found = content_of(facts, node, index)
    if found is None:
        return None
    flat = found.reshape(-1).tolist()
    return tuple(flat) if all(isinstance(v, int) for v in flat) else None


def constant_tensor(node: Node) -> Tensor | SparseTensor | None:
    """Return the value of a Constant node, from whichever attribute holds it; None for other nodes and references."""
    import numpy as np

    if node.op_type != "Constant" or node.domain != "":
        return None
    for name, attribute in node.attributes.items():
        value: Any = attribute.value
        if attribute.reference:
            return None
        match name:
            case "value" | "sparse_value":
                return value if isinstance(value, (Tensor, SparseTensor)) else None
            case "value_float" | "value_floats":
                return ArrayTensor(np.asarray(value, np.float32))
            case "value_int" | "value_ints":
                return ArrayTensor(np.asarray(value, np.int64))
            case "value_string" | "value_strings":
                return ArrayTensor(np.asarray(value, object))
    return None
