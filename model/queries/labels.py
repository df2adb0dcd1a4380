"""What a node is, apart from its name and its wires: equal labels do the same to their inputs."""

from __future__ import annotations

from collections.abc import Hashable

from model.attributes import Attribute
from model.graph import Node, Value
from model.tensors import SparseTensor, Tensor

_INLINE = 64  # elements of a tensor attribute that tell nodes apart


def node_label(node: Node, operator: Hashable = None) -> Hashable:
    """Operator (or what is given instead) and attributes.

    Bodies count by their number of nodes, long tensors by type and shape alone.
    """
    told = (node.domain, node.op_type, node.overload) if operator is None else operator
    return told, frozenset(map(_attribute_label, node.attributes.values()))


def exact_label(node: Node) -> Hashable | None:
    """The label with which inputs and outputs are present; None where a label alone would not prove nodes alike."""
    for attribute in node.attributes.values():
        value = attribute.value
        if attribute.graphs or isinstance(value, SparseTensor):
            return None
        if isinstance(value, Tensor) and not _is_told(value):
            return None
        if isinstance(value, tuple) and any(isinstance(v, (Tensor, SparseTensor)) for v in value):
            return None
    present = tuple(v is not None for v in node.inputs), tuple(v is not None for v in node.outputs)
    return node_label(node), present


def leaf_label(value: Value) -> Hashable:
    """Type and shape of a constant; None for what is not one."""
    tensor = value.initializer
    return None if tensor is None else (int(tensor.element_type), tuple(tensor.shape))


def _is_told(tensor: Tensor) -> bool:
    return tensor.size <= _INLINE and not tensor.problem


def _attribute_label(attribute: Attribute) -> Hashable:
    value = attribute.value
    if attribute.graphs:
        content: Hashable = tuple(len(graph.nodes) for graph in attribute.graphs)
    elif isinstance(value, Tensor):
        content = (value.element_type, value.shape, str(value.numpy().tolist()) if _is_told(value) else "")
    elif isinstance(value, SparseTensor):
        content = (value.element_type, value.shape)
    else:
        content = repr(value)
    return attribute.name, int(attribute.kind), content, attribute.reference
