"""Two graphs that keep the same position and zoom while the models that they show are compared."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QObject

from onnx_workbench.model.analysis.name_scopes import Scope
from onnx_workbench.model.ir.graph import Graph
from onnx_workbench.viewer.canvas.graph_view import GraphView
from onnx_workbench.viewer.compare.model_comparison import ModelComparison

_MOST_TRIED = 64  # limit for the boxes around the middle in which a match is searched


class ViewSync(QObject):
    """Synchronizes zoom and position of two graphs by matching the boxes in the middle."""

    def __init__(self, left: GraphView, right: GraphView, comparing: ModelComparison) -> None:
        super().__init__(right)
        self._comparing = comparing
        self._views = left, right
        self._is_on = True
        self._leading = False
        left.viewport_changed.connect(self._on_left)
        right.viewport_changed.connect(self._on_right)
        left.workspace.navigation.graph_shown.connect(self._on_left_graph)
        right.workspace.navigation.graph_shown.connect(self._on_right_graph)
        left.scenes.scene_shown.connect(self._on_right)
        comparing.changed.connect(self._on_right)

    def set_on(self, is_on: bool) -> None:
        """Turn synchronization on or off."""
        self._is_on = is_on
        if is_on:
            self._on_right()

    def _on_left(self) -> None:
        self._lead(*self._views)

    def _on_right(self) -> None:
        self._lead(*reversed(self._views))

    def _lead(self, leader: GraphView, follower: GraphView) -> None:
        if self._leading or not self._is_on or leader.scene is None or follower.scene is None:
            return
        if self._comparing.result is None or follower.scenes.is_busy:
            return
        centre = self._partner_place(leader, follower)
        if centre is None:
            return
        self._leading = True
        try:
            if follower.viewport.scale != leader.viewport.scale:
                follower.viewport.scale = leader.viewport.scale
                follower.zoom_changed.emit(follower.viewport.scale)
            follower.centre_on(*centre)
        finally:
            self._leading = False

    def _partner_place(self, leader: GraphView, follower: GraphView) -> tuple[float, float] | None:
        """Return the position in the follower's scene that corresponds to the middle of the leader's view.

        Interpolated between the nearest matched boxes before and after the middle, so that the view does not jump if
        one side has more boxes in between.
        """
        scene = leader.scene
        assert scene is not None
        middle = np.array(leader.viewport.to_scene(leader.width() / 2, leader.height() / 2))
        boxes = scene.boxes_in(*leader.viewport.area)
        along = 1 if scene.drawing.options.direction == "down" else 0
        at = scene.rects[boxes][:, :2] + scene.rects[boxes][:, 2:] / 2
        order = np.argsort(np.abs(at - middle) @ np.array([1.0, 1.0]), kind="stable")[:_MOST_TRIED]
        sides: dict[bool, tuple[float, np.ndarray[tuple[int], np.dtype[np.float64]]]] = {}
        for index in order.tolist():
            is_before = bool(at[index, along] <= middle[along])
            partner = self._partner_centre(leader, follower, int(boxes[index])) if is_before not in sides else None
            if partner is not None:
                sides[is_before] = float(at[index, along]), partner - at[index]
            if len(sides) == 2:
                break
        if not sides:
            return None
        offsets = [offset for _, offset in sides.values()]
        offset = offsets[0]
        if len(sides) > 1:
            start, end = sides[True][0], sides[False][0]
            share = (float(middle[along]) - start) / max(end - start, 1.0)
            offset = sides[True][1] * (1 - share) + sides[False][1] * share
        x, y = (middle + offset).tolist()
        return x, y

    def _partner_centre(
        self, leader: GraphView, follower: GraphView, box: int
    ) -> np.ndarray[tuple[int], np.dtype[np.float64]] | None:
        assert leader.scene is not None
        assert follower.scene is not None
        assert self._comparing.result is not None
        subject = leader.scene.boxes[box].subject
        inside = subject.all_nodes() if isinstance(subject, Scope) else (subject,)
        partners = (self._comparing.result.partner(item) for item in inside)
        partner = next((p for p in partners if p is not None), None)
        boxes = follower.scene.drawing.boxes_of(partner) if partner is not None else []
        if not boxes:
            return None
        left, top, width, height = follower.scene.rect(boxes[0])
        return np.array([left + width / 2, top + height / 2])

    def _on_left_graph(self, graph: Graph) -> None:
        self._show_partner(graph, self._views[1])

    def _on_right_graph(self, graph: Graph) -> None:
        self._show_partner(graph, self._views[0])

    def _show_partner(self, graph: Graph, follower: GraphView) -> None:
        result = self._comparing.result
        partner = result.partner(graph) if result is not None and self._is_on else None
        if isinstance(partner, Graph):
            follower.workspace.navigation.show(partner)
