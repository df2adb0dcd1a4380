"""Values at the frames of expanded bodies and functions, which have other names inside and outside. No Qt."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from onnx_workbench.model.analysis.subgraph_ports import argument, result
from onnx_workbench.model.ir.graph import Graph, Node, Value
from onnx_workbench.viewer.canvas.scene.drawing import Drawing, Kind

_MOST = 200


class SubgraphBoundaries:
    """Pairs of values that are equal on both sides of a frame in one drawing. Cost: the number of boxes."""

    def __init__(self, drawing: Drawing) -> None:
        self._partners: dict[Value, list[Value]] = {}
        inputs = {(graph, value): place for graph in drawing.graphs[1:] for place, value in enumerate(graph.inputs)}
        for box in drawing.boxes:
            value = box.subject
            if box.kind not in (Kind.INPUT, Kind.OUTPUT) or not isinstance(value, Value):
                continue
            match box.key:
                case ((_, Node() as node, Graph() as graph), _):
                    self._join(value, argument(node, graph, inputs.get((graph, value), -1)))
                case ((_, Node() as node, Graph() as graph), _, int(place)):
                    self._join(value, result(node, graph, place))

    def _join(self, inner: Value, outer: Value | None) -> None:
        if outer is not None and outer is not inner:
            self._partners.setdefault(inner, []).append(outer)
            self._partners.setdefault(outer, []).append(inner)

    def beyond(self, values: Iterable[Value]) -> list[Value]:
        """Return the values that equal these on the other sides of frames, transitively."""
        reached = dict.fromkeys(values)
        start = len(reached)
        pending = deque(reached)
        while pending and len(reached) < _MOST:
            for partner in self._partners.get(pending.popleft(), ()):
                if partner not in reached:
                    reached[partner] = None
                    pending.append(partner)
        return list(reached)[start:]
