"""Texts of a node on the canvas: its rows for attributes and constants, as short plain texts. No Qt."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

from onnx_workbench.exec.inspect.node_data import Matched
from onnx_workbench.model.analysis.call_graph import called_by
from onnx_workbench.model.analysis.folded_nodes import Purpose
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.attributes import Attribute, AttributeKind
from onnx_workbench.model.ir.devices import ShardingSpec
from onnx_workbench.model.ir.graph import Node, Value
from onnx_workbench.model.ir.tensors import SparseTensor, Tensor
from onnx_workbench.model.ir.types import ElementType, element_type, element_type_text
from onnx_workbench.model.schemas import Schema
from onnx_workbench.model.schemas.attribute_choices import ELEMENT_TYPES
from onnx_workbench.model.text.formatting import display, number_text, plural, shape_text

#: With more rows than this, the last one has the number of omitted rows.
MOST_ROWS = 10
#: Limit for counting folded nodes.
MOST_FOLDED = 99
#: Constants of up to this many elements are written out.
SMALL = 4

_SMALL_BYTES = 256
_TEXT_LIMIT = 80
_MOST_CONSUMERS = 50
#: Limits of 64 bits, which mean "to the end" of an axis.
_LIMITS = {(1 << 63) - 1: "max", -1 << 63: "min"}
#: Lists that equal the default if every element is this number ("if not present, 1 along each axis").
_IMPLIED = {"dilations": 1, "strides": 1, "pads": 0, "output_padding": 0}


class FoldTag(NamedTuple):
    """Tag of a node for folded nodes that only compute its sizes or prepare its weights: number, and whether drawn."""

    purpose: Purpose
    nodes: int
    is_open: bool


class NodeRow(NamedTuple):
    """One row of a node: `subject` is its attribute, value or tag, or the node data; None for "3 more"."""

    name: str
    text: str
    subject: Attribute | Value | FoldTag | Matched | None

    @property
    def is_constant(self) -> bool:
        """Whether it is an input that holds a constant."""
        return isinstance(self.subject, Value)


def attribute_rows(node: Node, schema: Schema | None) -> list[NodeRow]:
    """Return a row for each attribute that differs from its default; bodies have buttons instead."""
    rows = []
    for name, attribute in node.attributes.items():
        if attribute.graphs or (schema is not None and _is_default(attribute, schema)):
            continue
        rows.append(NodeRow(display(name, 40), attribute_text(attribute), attribute))
    return rows


def _is_default(attribute: Attribute, schema: Schema) -> bool:
    """Return whether it equals the default, also if the specification describes that only in prose."""
    if schema.is_default(attribute):
        return True
    implied = _IMPLIED.get(attribute.name)
    formal = schema.attributes.get(attribute.name)
    if implied is None or formal is None or formal.required or attribute.reference:
        return False
    return isinstance(attribute.value, tuple) and set(attribute.value) == {implied}


def constant_row(name: str, value: Value, tensor: Tensor | SparseTensor) -> NodeRow:
    """Return the row of a constant input: its name in the operator's signature, and its value or shape."""
    return NodeRow(display(name, 40), tensor_text(tensor), value)


def input_name(node: Node, index: int, schema: Schema | None) -> str:
    """Return the name of an input in the signature of the operator or function, else that of its value."""
    parameter = schema.input(index) if schema is not None else None
    if parameter is not None:
        return parameter.name
    function = called_by(node)
    if function is not None and index < len(function.body.inputs):
        return function.body.inputs[index].name
    value = node.inputs[index]
    return (value.name if value is not None else "") or f"input {index}"


def limited(rows: list[NodeRow]) -> tuple[NodeRow, ...]:
    """Return the rows to show, limited in number."""
    if len(rows) <= MOST_ROWS:
        return tuple(rows)
    left = len(rows) - MOST_ROWS + 1
    return (*rows[: MOST_ROWS - 1], NodeRow("", f"{left} more", None))


def tag_row(tag: FoldTag) -> NodeRow:
    """Return the row of a tag: ``sizes ▸ 7``."""
    count = str(tag.nodes) if tag.nodes <= MOST_FOLDED else f"{MOST_FOLDED}+"
    return NodeRow(tag.purpose, f"{'▾' if tag.is_open else '▸'} {count}", tag)


def attribute_text(attribute: Attribute) -> str:
    """Return the value of an attribute in at most about 80 characters."""
    if attribute.reference:
        return f"@{display(attribute.reference, 40)}"
    value = attribute.value
    if attribute.name in ELEMENT_TYPES and isinstance(value, int):
        return element_type_text(element_type(value))
    if isinstance(value, tuple):
        return _list_text(attribute.kind, value)
    return _element_text(attribute.kind, value)


def _list_text(kind: AttributeKind, values: tuple[object, ...]) -> str:
    shown = [_element_text(kind.element, value) for value in values[:8]]
    if len(values) > len(shown):
        shown.append(f"… {number_text(len(values))} values")
    return f"[{display(', '.join(shown), _TEXT_LIMIT - 2, elide='end')}]"


def _element_text(kind: AttributeKind, value: object) -> str:
    match value:
        case str():
            return display(value, _TEXT_LIMIT, elide="end") if value else '""'
        case float():
            return number_text(value, 6)
        case int():
            return _LIMITS.get(value) or (str(value) if abs(value) < 10**18 else f"{value:.6g}")
        case Tensor() | SparseTensor():
            return tensor_text(value)
        case None:
            return kind.name.lower()
        case _:
            return "graph" if kind is AttributeKind.GRAPH else display(str(value), _TEXT_LIMIT, elide="end")


def tensor_text(tensor: Tensor | SparseTensor) -> str:
    """Return a constant's value if it is small and in memory, else its shape. Reads no file."""
    if isinstance(tensor, Tensor) and tensor.size <= SMALL and tensor.storage in ("memory", "inline"):
        text = _values_text(tensor)
        if text is not None:
            return text
    shape = tuple(tensor.shape)
    prefix = "sparse " if isinstance(tensor, SparseTensor) else ""
    if len(shape) == 1:
        return prefix + plural(shape[0], "value")  # a single number would look like the value itself
    return prefix + (shape_text(shape) if shape else element_type_text(tensor.element_type))


def _values_text(tensor: Tensor) -> str | None:
    if not isinstance(tensor.element_type, ElementType) or tensor.nbytes > _SMALL_BYTES or not tensor.size:
        return None
    try:
        values = tensor.numpy().reshape(-1).tolist()
    except (ModelError, ValueError):
        return None  # the shape is shown instead; the tensor panel shows the problem
    texts = [_scalar_text(value) for value in values[:SMALL]]
    joined = ", ".join(texts)
    return joined if not tensor.shape else f"[{joined}]"


def _scalar_text(value: object) -> str:
    if isinstance(value, str):
        return f'"{display(value, 24, elide="end")}"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return number_text(value, 5)
    if isinstance(value, int):
        return _LIMITS.get(value) or (str(value) if abs(value) < 10**10 else f"{value:.4g}")
    return display(str(value), 24, elide="end")


def split_text(value: Value, nodes: Iterable[Node | None] | None = None) -> str:
    """Return the split of a value by the first device configuration that has one: ``axis 0 ÷ 2``; else "".

    Reads the given nodes, or all producers and consumers of the value.
    """
    for node in (value.producer, *islice(value.consumers, _MOST_CONSUMERS)) if nodes is None else nodes:
        for configuration in node.device_configurations if node is not None else ():
            for spec in configuration.sharding:
                if spec.tensor_name == value.name:
                    return cut_text(spec)
    return ""


def cut_text(spec: ShardingSpec) -> str:
    """Return a split as text: ``axis 0 ÷ 2``."""
    axes = [(d.axis, " and ".join(str(n) for _, n in d.shards[:4])) for d in spec.dimensions[:4]]
    return ", ".join(f"axis {axis} ÷ {parts}" for axis, parts in axes) or "on every device"
