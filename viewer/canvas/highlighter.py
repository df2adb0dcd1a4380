"""Marks of model objects on a surface, now and in every scene that follows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from PySide6.QtCore import QObject, QTimer

from onnx_workbench.model.ir.graph import Node, Value
from onnx_workbench.viewer.canvas.paint.surface import Surface
from onnx_workbench.viewer.canvas.scene.subgraph_boundaries import SubgraphBoundaries

#: More marked objects than this are found in the scene in chunks of so many, one per iteration of the event loop.
_AT_ONCE = 5000
_CHUNK = 2000


@dataclass
class _Search:
    """Many marked objects that are being found: all, those left, and what shows the others."""

    items: Sequence[object]
    left: Iterator[object]
    boxes: list[int] = field(default_factory=list)
    edges: list[int] = field(default_factory=list)
    gone: set[Node] = field(default_factory=set)  # marked no longer
    in_vain: list[Node] = field(default_factory=list)  # those of them that had been found


class Highlighter(QObject):
    """Marks objects on a surface by kind; finds them in each scene it shows. GUI thread only."""

    def __init__(self, surface: Surface) -> None:
        super().__init__(surface)
        self._surface = surface
        self._marked: dict[str, dict[object, None]] = {}
        self._searches: dict[str, _Search] = {}  # by kind; the marks of before are shown meanwhile
        self._searching = QTimer(self, interval=0)
        self._searching.timeout.connect(self._search_on)
        self._boundaries: SubgraphBoundaries | None = None  # of this scene, looked up at the first hover
        surface.scene_changed.connect(self._mark_scene)

    def _mark_scene(self) -> None:
        """Mark a new scene like the one before."""
        self._boundaries = None
        for kind, search in self._searches.items():
            self._marked[kind] = dict.fromkeys(item for item in search.items if item not in search.gone)
        self._searches.clear()
        if not any(isinstance(item, Node) and item.graph is not None for item in self._marked.get("traced", ())):
            self._marked.pop("traced", None)  # its nodes were deleted: it would dim all that is left
        if self._surface.marks is not None:
            for kind, items in self._marked.items():
                self._surface.marks.set(kind, items)

    def mark(self, kind: str, items: Iterable[object]) -> None:
        """Mark objects: "matches", "errors", "stale", "changed" or "traced"; none takes the marks away."""
        all_items = list(items)
        shown = self._marked.get(kind, {}) if self._searches.pop(kind, None) is None else None
        if shown is not None and len(shown) == len(all_items) and all(item in shown for item in all_items):
            return
        if self._surface.marks is not None and len(all_items) > _AT_ONCE:
            self._marked[kind] = {}  # those that are found
            self._searches[kind] = _Search(all_items, iter(all_items))
            self._searching.start()
        else:
            marked = self._marked[kind] = dict.fromkeys(all_items)
            if self._surface.marks is not None:
                self._surface.marks.set(kind, marked)
        self._surface.update()

    def _search_on(self) -> None:
        """Find some more of what is marked; show all of a kind together."""
        if self._surface.marks is None or not self._searches:
            self._searching.stop()
            return
        kind, search = next(iter(self._searches.items()))
        some = list(islice(search.left, _CHUNK))
        if some:
            marked, gone = self._marked[kind], search.gone
            new = dict.fromkeys(item for item in some if item not in gone and item not in marked)
            marked.update(new)
            boxes, edges = self._surface.marks.find(new)
            search.boxes += boxes
            search.edges += edges
            return
        del self._searches[kind]
        self._surface.marks.put(kind, search.boxes, search.edges)
        self._surface.marks.take_off(kind, search.in_vain)
        self._surface.update()

    def unmark(self, kind: str, nodes: Iterable[Node]) -> None:
        """Mark some nodes no longer. Costs what they are, however many are marked."""
        marked, nodes = self._marked.get(kind, {}), list(nodes)
        gone = [node for node in nodes if marked.pop(node, node) is None]
        search = self._searches.get(kind)
        if search is not None:
            search.gone.update(nodes)
            search.in_vain += gone
        elif self._surface.marks is not None and gone:
            self._surface.marks.take_off(kind, gone)
            self._surface.update()

    def mark_hovered(self, item: object) -> None:
        """Mark what is under the pointer: a node, or the whole path of a value, also beyond the frames of bodies."""
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
        """Return whether all but a trace is dimmed."""
        return bool(self._marked.get("traced")) or "traced" in self._searches
