"""Applicable kinds of view for a value, and the default one."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from onnx_workbench.model.ir.graph import Node, Value
from onnx_workbench.model.ir.types import ElementType
from onnx_workbench.viewer.extensions import custom_views
from onnx_workbench.viewer.tensor_view.feature_maps import plane_axis
from onnx_workbench.viewer.tensor_view.pictures import channel_axis

if TYPE_CHECKING:
    from onnx_workbench.viewer.tensor_view.readers import TensorSlice
    from onnx_workbench.viewer.tensor_view.tensor_source import TensorSource

#: Table, Heat map, Feature maps, Attention, Image, Lines, Text, Tree, or the title of one that an extension added.
View = str

#: Views that show planes side by side.
MOSAICS: tuple[View, ...] = ("Feature maps", "Attention")

#: Operators allowed between the weights of an attention and the MatMul, and limit for their number.
_PASSING, _MOST_PASSED = ("Cast", "Dropout", "Identity", "Reshape"), 8

_LONG = 2000  # elements from which a series of floats is seen as a line rather than as numbers
_LARGE = 8  # a plane of at least this many rows and columns is worth an image


def views_of(subject: TensorSource) -> tuple[View, ...]:
    """Return the applicable views, behind them those of extensions."""
    if subject.kind == "tree":
        return ("Tree",)
    if subject.kind == "none" or subject.problem or subject.waiting:
        return ()
    own = _own_views_of(subject)
    return (*own, *(title for title in custom_views.titles() if title not in own))


def _own_views_of(subject: TensorSource) -> tuple[View, ...]:
    if subject.element_type is ElementType.STRING:
        return ("Table", "Text")
    rank = len(subject.shape)
    if rank == 0:
        return ("Table", "Text")
    if rank == 1:
        return ("Table", "Lines", "Heat map", "Text")
    pictures: tuple[View, ...] = ("Heat map", "Lines", "Image")
    return ("Table", *(("Feature maps", "Attention") if rank >= 3 else ()), *pictures, "Text")


def first_view(subject: TensorSource) -> View | None:
    """Return the default view: numbers for weights, images for run values."""
    offered = views_of(subject)
    if not offered:
        return None
    if subject.target.value is None or "Heat map" not in offered:
        return offered[0]
    shape = subject.shape
    if _is_signal(subject):
        return "Lines"
    if len(shape) < 2:
        return offered[0]
    producer = subject.target.value.producer
    if isinstance(producer, Node) and _is_attention(producer, subject.target.value, shape):
        return "Attention"
    channels = channel_axis(shape)
    if channels is not None and len(shape) <= 4:
        sides = [d for a, d in enumerate(shape) if a != channels][-2:]
        if min(sides) >= _LARGE and (shape[channels] == 3 or subject.element_type is ElementType.UINT8):
            return "Image"
    if len(shape) >= 3 and min(shape[-2:]) > 2 and shape[-3] > 1:
        return "Feature maps"
    return "Heat map" if min(shape[-2:]) >= _LARGE else "Table"


def _is_signal(subject: TensorSource) -> bool:
    """Return whether a value is one long series of floats, such as sound."""
    kind = subject.element_type
    is_float = isinstance(kind, ElementType) and kind.is_float
    return is_float and bool(subject.shape) and _LONG <= max(subject.shape) == prod(subject.shape)


def _is_attention(producer: Node, value: Value, shape: tuple[int, ...]) -> bool:
    """Return whether a value is the weights of an attention: a Softmax over keys that a MatMul applies."""
    if producer.op_type != "Softmax" or len(shape) < 3 or shape[-2] < 2 or not _is_over_last(producer, len(shape)):
        return False
    weights = [value]
    for one in weights:
        for node in one.consumers:
            if node.op_type in ("MatMul", "Einsum"):
                return True
            if node.op_type in _PASSING and len(weights) < _MOST_PASSED and node.outputs[0] is not None:
                weights.append(node.outputs[0])
    return False


def _is_over_last(softmax: Node, rank: int) -> bool:
    axis = softmax.attributes.get("axis")
    number = axis.value if axis is not None and isinstance(axis.value, int) else -1
    return number in (-1, rank - 1)


def seen_at_once(view: View, shape: tuple[int, ...], which: TensorSlice) -> int | None:
    """Return the axis, besides rows and columns, of which a view shows all positions."""
    if view in MOSAICS:
        return plane_axis(shape, which)
    return channel_axis(shape) if view == "Image" else None
