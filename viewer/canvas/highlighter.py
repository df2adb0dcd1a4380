"""Marks of model objects on a surface, kept when its scene is replaced."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import QObject

from onnx_workbench.model.ir.graph import Node, Value
from onnx_workbench.viewer.canvas.paint.surface import Surface
from onnx_workbench.viewer.canvas.scene.subgraph_boundaries import SubgraphBoundaries


class Highlighter(QObject):
    """Marks objects on a surface by kind, in the current scene and in later ones. GUI thread only."""

    def __init__(self, surface: Surface) -> None:
        super().__init__(surface)
        self._surface = surface
        self._marked: dict[str, dict[object, None]] = {}
        self._boundaries: SubgraphBoundaries | None = None  # of this scene, looked up at the first hover
        surface.scene_changed.connect(self._mark_scene)

    def _mark_scene(self) -> None:
        """Apply the marks to a new scene."""
        self._boundaries = None
        if not any(isinstance(item, Node) and item.graph is not None for item in self._marked.get("traced", ())):
            self._marked.pop("traced", None)  # its nodes were deleted: it would dim all others
        if self._surface.marks is not None:
            for kind, items in self._marked.items():
                self._surface.marks.set(kind, items)

    def mark(self, kind: str, items: Iterable[object]) -> None:
        """Mark objects: "matches", "errors", "stale", "changed" or "traced"; no items removes the marks."""
        all_items = list(items)
        shown = self._marked.get(kind, {})
        if len(shown) == len(all_items) and all(item in shown for item in all_items):
            return
        marked = self._marked[kind] = dict.fromkeys(all_items)
        if self._surface.marks is not None:
            self._surface.marks.set(kind, marked)
        self._surface.update()

    def unmark(self, kind: str, nodes: Iterable[Node]) -> None:
        """Remove the marks of some nodes. Cost: the number of these nodes."""
        marked, nodes = self._marked.get(kind, {}), list(nodes)
        gone = [node for node in nodes if marked.pop(node, node) is None]
        if self._surface.marks is not None and gone:
            self._surface.marks.unmark_nodes(kind, gone)
            self._surface.update()

    def mark_hovered(self, item: object) -> None:
        """Mark the object under the pointer: a node, or the whole path of a value, also across frames of bodies."""
        if self._surface.marks is None:
            return
        items: list[object] = [item] if isinstance(item, (Node, Value)) else []
        if isinstance(item, Value):
            self._boundaries = self._boundaries or SubgraphBoundaries(self._surface.marks.scene.drawing)
            items += self._boundaries.beyond([item])
        self._surface.marks.set("hovered", items)
        self._surface.update()

    @property
    def is_traced(self) -> bool:
        """Whether a trace is marked, and everything else dimmed."""
        return bool(self._marked.get("traced"))
