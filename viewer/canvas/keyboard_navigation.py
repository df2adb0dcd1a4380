"""Keyboard navigation from box to box: along edges, and between neighbours in a rank. No Qt."""

from __future__ import annotations

from typing import Literal

import numpy as np

from onnx_workbench.viewer.canvas.scene.drawing import Kind
from onnx_workbench.viewer.canvas.scene.scene import Scene
from onnx_workbench.viewer.canvas.scene.spatial_grid import Ids

Way = Literal["up", "down", "left", "right"]


def step(scene: Scene, box: int, way: Way) -> int:
    """Return the next box in the direction of an arrow key; the same box if there is none."""
    down = scene.drawing.options.direction == "down"
    forward, backward = ("down", "up") if down else ("right", "left")
    across = 0 if down else 1
    edges = scene.drawing.edges
    if way == forward:
        ends = edges[edges[:, 0] == box, 1]
    elif way == backward:
        ends = edges[edges[:, 1] == box, 0]
    else:
        return _sibling(scene, box, across, after=way in ("right", "down"))
    ends = np.unique(ends[ends != box]).astype(np.intp)
    return _nearest(scene, box, ends, across)


def _nearest(scene: Scene, box: int, found: Ids, across: int) -> int:
    if not len(found):
        return box
    middle = scene.rects[:, across] + scene.rects[:, across + 2] / 2
    return int(found[np.argmin(np.abs(middle[found] - middle[box]))])


def _sibling(scene: Scene, box: int, across: int, *, after: bool) -> int:
    """Return the next box of the same rank; at the end of the rank, the next one at the same height."""
    parents = scene.drawing.parents
    along = 1 - across
    low = scene.rects[:, along]
    high = low + scene.rects[:, along + 2]
    beside = (parents == parents[box]) & (low < high[box]) & (high > low[box])
    beside[box] = False
    starts = scene.rects[:, across]
    further = np.flatnonzero(beside & (starts > starts[box] if after else starts < starts[box]))
    if not len(further):
        return box
    return int(further[np.argmin(np.abs(starts[further] - starts[box]))])


def first_box(scene: Scene) -> int:
    """Return the first box of keyboard navigation: the first input, or the topmost box; -1 in an empty scene."""
    if not len(scene.rects):
        return -1
    inputs = np.flatnonzero(scene.kinds == Kind.INPUT)
    if len(inputs):
        return int(inputs[0])
    along = 1 if scene.drawing.options.direction == "down" else 0
    return int(np.argmin(scene.rects[:, along]))


def last_box(scene: Scene) -> int:
    """Return the first output, or the box that ends last; -1 in an empty scene."""
    if not len(scene.rects):
        return -1
    outputs = np.flatnonzero(scene.kinds == Kind.OUTPUT)
    if len(outputs):
        return int(outputs[0])
    return int(np.argmax(scene.corners[:, 3 if scene.drawing.options.direction == "down" else 2]))
