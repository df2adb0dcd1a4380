"""Tensors in Constant nodes, which many exporters write weights as."""

from __future__ import annotations

from onnx_workbench.model.ir.graph import Node
from onnx_workbench.model.ir.tensors import Tensor


def constant_of(node: Node) -> Tensor | None:
    """Return the tensor in a Constant node; None for other nodes and plain numbers."""
    attribute = node.attributes.get("value") if node.op_type == "Constant" and not node.domain else None
    value = None if attribute is None else attribute.value
    return value if isinstance(value, Tensor) else None
