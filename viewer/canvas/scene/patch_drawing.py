"""Patches a drawing after an edit that changed texts of boxes, but not the set of boxes and edges.

Most edits are like this: an attribute, a name, a type, elements of a constant. The cost is that of the touched
objects, and the graph is laid out again only if a box changed its size.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from onnx_workbench.model.analysis.value_types import TypeOf
from onnx_workbench.model.history.document import Change
from onnx_workbench.model.history.steps import SetField
from onnx_workbench.model.ir.graph import Graph, Node, Value
from onnx_workbench.viewer.canvas.layout import resize
from onnx_workbench.viewer.canvas.scene.box_factory import BoxFactory
from onnx_workbench.viewer.canvas.scene.drawing import Box, Drawing, Kind
from onnx_workbench.viewer.canvas.scene.scene import Moved, Scene
from onnx_workbench.viewer.document.model_signals import ChangeSet

_PILLS = (Kind.INPUT, Kind.OUTPUT, Kind.OUTER)
#: Fields of the model and its functions that decide what is drawn; others are texts.
_SHAPING = frozenset({"functions", "opset_imports", "name", "domain", "overload", "training_info", "configurations"})
#: Fields of a node that decide its colour, the function it calls, or the devices of its values.
_TURNING = frozenset({"op_type", "domain", "overload", "device_configurations"})


@dataclass(slots=True)
class DrawingPatch:
    """Replacements for boxes, by index, and the edges whose labels may have changed."""

    boxes: dict[int, Box] = field(default_factory=dict)
    edges: list[int] = field(default_factory=list)
    resized: bool = False  # whether a box changed its size


def can_patch(drawing: Drawing, change: Change, touched: ChangeSet) -> bool:
    """Return whether a change keeps the set of boxes, edges and groups."""
    if touched.structure or touched.removed:
        return False
    turning = _TURNING | {"name", "metadata"} if drawing.grouped else _TURNING
    for step in change.steps:
        if not isinstance(step, SetField):
            continue
        target = step.target
        if isinstance(target, Node):
            if step.field in turning:
                return False
        elif isinstance(target, Graph):
            if step.field == "name" and target is not drawing.graph:
                return False
        elif not isinstance(target, Value) and step.field in _SHAPING:
            return False
    return True


def patch(drawing: Drawing, touched: ChangeSet, cards: BoxFactory, type_of: TypeOf) -> DrawingPatch | None:
    """Apply a change for which `can_patch` holds to a drawing; None if it must be redrawn.

    The changed objects must have been invalidated in the box factory. Cost: the size of the change.
    """
    nodes = dict.fromkeys(touched.nodes)
    for node in touched.nodes:
        if node.op_type == "Constant":
            nodes.update((user, None) for value in node.outputs if value is not None for user in value.consumers)
    for value in touched.values:
        nodes.update(dict.fromkeys(value.consumers))
        if value.producer is not None:
            nodes[value.producer] = None
    result = DrawingPatch()
    for node in nodes:
        for index in drawing.boxes_of(node):
            box = drawing.boxes[index]
            if box.kind is Kind.GROUP or box.subject is not node:
                continue  # inside a closed group, or a row of a consumer, which is among the nodes itself
            if box.kind is Kind.CONTAINER:
                return None
            _add(result, index, box, cards.node(node, box.key, box.parent, box.buttons, box.tags))
    for value in touched.values:
        result.edges += drawing.edges_of(value)
        _add_pills(result, drawing, drawing.boxes_of(value), cards, type_of)
    return result


def pills(scene: Scene) -> list[int]:
    """Return the boxes that show the type of their value. Otherwise only labels beside edges show types."""
    found: list[int] = np.flatnonzero(np.isin(scene.kinds, _PILLS)).tolist()
    return found


def retyped(drawing: Drawing, indices: Iterable[int], cards: BoxFactory, type_of: TypeOf) -> DrawingPatch:
    """Return the pills of a drawing changed by new types of their values."""
    result = DrawingPatch()
    _add_pills(result, drawing, indices, cards, type_of)
    return result


def _add_pills(
    result: DrawingPatch, drawing: Drawing, indices: Iterable[int], cards: BoxFactory, type_of: TypeOf
) -> None:
    for index in indices:
        box = drawing.boxes[index]
        value = box.subject
        if box.kind in _PILLS and isinstance(value, Value):
            pill = cards.pill(box.kind, value, box.key, box.parent, type_of(value))
            _add(result, index, box, pill)


def _add(result: DrawingPatch, index: int, old: Box, new: Box) -> None:
    if new != old:  # most attributes are not shown on the card
        result.boxes[index] = new
        result.resized |= (old.width, old.height) != (new.width, new.height)


def replace_boxes(scene: Scene, change: DrawingPatch) -> None:
    """Replace boxes by ones of the same size in a scene."""
    for index, box in change.boxes.items():
        scene.boxes[index] = box


def resize_in_place(scene: Scene, change: DrawingPatch) -> Moved | None:
    """Replace boxes by ones of other sizes in a scene; None, without changes, if others would have to move."""
    boxes = sorted(change.boxes)
    drawing = patched(scene.drawing, change)
    sizes = np.array([(drawing.boxes[index].width, drawing.boxes[index].height) for index in boxes], np.float32)
    resized = resize(scene.layout, np.array(boxes, np.int32), sizes, drawing.source_ports, drawing.target_ports)
    return None if resized is None else scene.adopt(drawing, resized, boxes)


def patched(drawing: Drawing, change: DrawingPatch) -> Drawing:
    """Return the drawing with replaced boxes of any size, to be laid out again."""
    boxes = drawing.boxes.copy()
    stretch = np.ones(len(boxes), np.float32)
    is_down = drawing.options.direction == "down"
    for index, box in change.boxes.items():
        old, boxes[index] = boxes[index], box
        stretch[index] = box.width / old.width if is_down else box.height / old.height
    source_ports = drawing.source_ports * stretch[drawing.edges[:, 0]]
    target_ports = drawing.target_ports * stretch[drawing.edges[:, 1]]
    return replace(drawing, boxes=boxes, source_ports=source_ports, target_ports=target_ports)
