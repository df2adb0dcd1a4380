"""Read attributes and constant inputs of nodes as plain numbers and texts."""

from __future__ import annotations

from typing import Any

from onnx_workbench.model.ir.graph import Node, Value
from onnx_workbench.model.ir.tensors import ArrayTensor, SparseTensor, Tensor, element_count
from onnx_workbench.model.schemas.defaults import attribute


def plain(node: Node, name: str) -> Any:
    """Return the value of an attribute, else its default; None without either."""
    return attribute(node, name)


def number(node: Node, name: str, otherwise: int = 0) -> int:
    """Return an INT attribute or its default; `otherwise` where the operator's version has neither."""
    value = attribute(node, name)
    return value if isinstance(value, int) else otherwise


def real(node: Node, name: str, otherwise: float = 0.0) -> float:
    """Return a FLOAT attribute or its default; `otherwise` where the operator's version has neither."""
    value = attribute(node, name)
    return float(value) if isinstance(value, (int, float)) else otherwise


def ints(node: Node, name: str) -> tuple[int, ...] | None:
    """Return an INTS attribute or its default; None without either."""
    value = attribute(node, name)
    return tuple(value) if isinstance(value, tuple) and all(isinstance(v, int) for v in value) else None


def text(node: Node, name: str, otherwise: str = "") -> str:
    """Return a STRING attribute or its default; `otherwise` where the operator's version has neither."""
    value = attribute(node, name)
    return value if isinstance(value, str) else otherwise


def constant_tensor(node: Node) -> Tensor | SparseTensor | None:
    """Return the value of a Constant node, from whichever attribute holds it; None for other nodes and references."""
    if node.op_type != "Constant" or node.domain != "":
        return None
    import numpy as np

    for name, held in node.attributes.items():
        value: Any = held.value
        if held.reference:
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


def constant_size(node: Node) -> tuple[int, int] | None:
    """Count the elements and bytes of a Constant node's tensor; None for other nodes and for plain numbers and texts.

    Imports no numpy.
    """
    held = node.attributes.get("value") if node.op_type == "Constant" and not node.domain else None
    tensor = None if held is None else held.value
    return (element_count(tensor.shape), tensor.nbytes) if isinstance(tensor, Tensor) else None


def tensor_of(value: Value | None) -> Tensor | None:
    """Return the tensor of an initializer, or of the Constant node that makes a value. Reads no file."""
    if value is None:
        return None
    held = value.initializer
    if held is None and value.producer is not None:
        held = constant_tensor(value.producer)
    return held if isinstance(held, Tensor) else None
