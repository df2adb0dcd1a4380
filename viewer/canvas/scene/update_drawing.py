"""Incremental update of a drawing after nodes were added, removed or rewired: only these and their edges are redrawn.

For graphs drawn without groups, which may be large; with closed groups there are few boxes, and all are redrawn.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from onnx_workbench.model.analysis.call_graph import called_by
from onnx_workbench.model.analysis.folded_nodes import may_fold
from onnx_workbench.model.analysis.value_types import TypeOf
from onnx_workbench.model.ir.graph import Graph, Node, Value
from onnx_workbench.viewer.canvas.scene.box_factory import BoxFactory
from onnx_workbench.viewer.canvas.scene.builder import DrawingBuilder, Ids
from onnx_workbench.viewer.canvas.scene.drawing import Drawing, Kind
from onnx_workbench.viewer.document.model_signals import ChangeSet

_MOST = 500  # limit for nodes whose edges are redrawn


def restructured(drawing: Drawing, touched: ChangeSet, cards: BoxFactory, ids: Ids, type_of: TypeOf) -> Drawing | None:
    """Return the drawing after a change; None if it must be drawn from scratch.

    The changed objects must have been invalidated in the box factory. Boxes keep their indices, except those moved
    to indices of removed boxes. Cost: the size of the change, and a copy of the drawing.
    """
    graph = drawing.graph
    if not _is_simple(drawing, touched) or not _are_interface(drawing, graph):
        return None
    wired = {node for node in touched.nodes if node.graph is graph}
    for value in touched.values:
        wired.update(node for node in value.consumers if node.graph is graph)
        if len(wired) > _MOST:
            return None
    if not all(map(_is_plain, wired)) or not _are_folds_kept(drawing, touched, wired):
        return None
    builder = DrawingBuilder(graph, drawing.options, (), ids, cards, type_of, folds_of=lambda _graph: drawing.hidden)
    change = _Change(drawing, builder, wired)
    change.remove(node for node in touched.nodes if node.graph is not graph)
    return change.drawing(ids)


def _is_simple(drawing: Drawing, touched: ChangeSet) -> bool:
    """Return whether only nodes of the shown graph changed, and each is drawn as a box."""
    graph = drawing.graph
    is_flat = not drawing.grouped and len(drawing.graphs) == 1 and not drawing.also
    own = all(node.graph is graph or node.graph is None for node in touched.nodes)
    makers = {value.producer for value in touched.values}
    constants = any(node is not None and node.op_type == "Constant" for node in {*touched.nodes, *makers})
    users = (user for value in touched.values for user, _ in value.uses)
    taken = all(isinstance(user, Node) and user.graph is graph for user in users)  # not by outputs or in bodies
    return is_flat and own and not constants and taken and not touched.model and touched.structure == {graph}


def _are_folds_kept(drawing: Drawing, touched: ChangeSet, wired: Collection[Node]) -> bool:
    """Return whether the same nodes are folded into tags as before."""
    if not drawing.options.folds:
        return True
    if drawing.options.kinds:
        return False
    values = {*touched.values, *(value for node in wired for value in node.inputs)}
    concerned = {*touched.nodes, *wired, *(value.producer for value in values if value is not None)}
    hidden = drawing.hidden
    if any(node in hidden or (node.graph is not None and may_fold(node, hidden)) for node in concerned if node):
        return False
    return not any(drawing.boxes[box].tags for node in concerned if node for box in drawing.boxes_of(node))


def _are_interface(drawing: Drawing, graph: Graph) -> bool:
    """Return whether all pills are inputs and outputs of the graph, not outer values."""
    shown: dict[Kind, list[object]] = {Kind.INPUT: [], Kind.OUTPUT: [], Kind.OUTER: []}
    kinds = drawing.kinds
    for index in np.flatnonzero(np.isin(kinds, list(shown))).tolist():
        shown[Kind(int(kinds[index]))].append(drawing.boxes[index].subject)
    inputs = set(graph.required_inputs)
    outputs = list(graph.outputs)
    return set(shown[Kind.INPUT]) == inputs and shown[Kind.OUTPUT] == outputs and not shown[Kind.OUTER]


def _is_plain(node: Node) -> bool:
    """Return whether a node has no inner graph, and its inputs are from boxes of its graph or shown in its rows."""
    if node.bodies or node.op_type == "Constant" or called_by(node) is not None:
        return False
    return all(value is None or value.initializer is not None or _has_box(value, node) for value in node.inputs)


def _has_box(value: Value, user: Node) -> bool:
    if value.producer is None:
        return value.graph is user.graph and value.is_input
    return value.producer.graph is user.graph and value.producer.op_type != "Constant"


class _Change:
    """A change of a drawing: appended boxes, new edges of some nodes, then removals."""

    def __init__(self, drawing: Drawing, builder: DrawingBuilder, wired: Iterable[Node]) -> None:
        self._old = drawing
        self._boxes = drawing.boxes.copy()
        boxes_of_wired = {node: drawing.boxes_of(node) for node in wired}
        self._redrawn = [numbers[0] for numbers in boxes_of_wired.values() if numbers]
        before = [self._boxes[index] for index in self._redrawn]
        self._edges = builder.amend(self._boxes, boxes_of_wired, drawing.boxes_of)
        now = [self._boxes[index] for index in self._redrawn]
        self._stretched = [(i, a, b) for i, a, b in zip(self._redrawn, before, now, strict=True) if a is not b]
        self._gone: list[int] = []

    def remove(self, nodes: Iterable[Node]) -> None:
        """Remove nodes that are no longer in the graph."""
        for node in nodes:
            self._gone += self._old.boxes_of(node)

    def drawing(self, ids: Ids) -> Drawing:
        """Return the changed drawing."""
        old, made = self._old, self._edges
        stale = np.zeros(len(self._boxes), bool)
        stale[self._redrawn] = True
        gone = np.zeros(len(self._boxes), bool)
        gone[self._gone] = True
        keep = ~(stale | gone)[old.edges[:, 1]] & ~gone[old.edges[:, 0]]
        source_ports, target_ports = old.source_ports.copy(), old.target_ports.copy()
        self._stretch(source_ports)
        number, box_ids = self._fill_gaps(ids)
        kept = keep.tolist()
        return replace(
            old,
            boxes=self._boxes,
            edges=number[np.concatenate([old.edges[keep], made.edges])].astype(np.int32),
            values=[*compress(old.values, kept), *made.values],
            multiplicity=np.concatenate([old.multiplicity[keep], made.multiplicity]),
            dashed=np.concatenate([old.dashed[keep], made.dashed]),
            source_ports=np.concatenate([source_ports[keep], made.source_ports]),
            target_ports=np.concatenate([target_ports[keep], made.target_ports]),
            box_ids=box_ids,
            folded=self._renumbered(old.folded, number),
        )

    def _renumbered(self, folded: dict[Node, int], number: NDArray[np.int64]) -> dict[Node, int]:
        """Return the boxes that show Constants by their new indices; these edits change no Constant."""
        return {node: int(number[index]) for node, index in folded.items()} if self._gone else folded

    def _stretch(self, source_ports: NDArray[np.float32]) -> None:
        """Scale the ports of edges at boxes whose sizes changed."""
        down = self._old.options.direction == "down"
        for index, before, now in self._stretched:
            ratio = now.width / before.width if down else now.height / before.height
            if ratio != 1.0:
                source_ports[self._old.edges[:, 0] == index] *= ratio

    def _fill_gaps(self, ids: Ids) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Move the last boxes into the gaps of removed ones; return the new index of each box, and the ids left."""
        boxes, gone = self._boxes, set(self._gone)
        number = np.arange(len(boxes))
        left = len(boxes) - len(gone)
        holes = sorted(index for index in gone if index < left)
        movers = [index for index in range(left, len(boxes)) if index not in gone]
        new = np.array([ids[box.key] for box in boxes[len(self._old.boxes) :]], np.int64)
        box_ids = np.concatenate([self._old.box_ids, new])
        for hole, mover in zip(holes, movers, strict=True):
            boxes[hole], number[mover], box_ids[hole] = boxes[mover], hole, box_ids[mover]
        del boxes[left:]
        return number, box_ids[:left]
