"""A surface whose marks and colours belong to model objects, and so outlive the scene they are shown in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QWidget

from onnx_workbench.model.ir.graph import Node, Value
from onnx_workbench.viewer.canvas.paint.surface import Surface
from onnx_workbench.viewer.canvas.scene import coloring
from onnx_workbench.viewer.canvas.scene.coloring import Coloring
from onnx_workbench.viewer.canvas.scene.scene import Scene
from onnx_workbench.viewer.canvas.scene.subgraph_boundaries import SubgraphBoundaries
from onnx_workbench.viewer.style.theme import theme, themes

#: More marked objects than this are found in the scene over several turns of the event loop, so many in each.
_AT_ONCE = 5000
_PER_TURN = 2000


@dataclass
class _Search:
    """Many marked objects that are being found: all, those left, and what shows the others."""

    items: Sequence[object]
    left: Iterator[object]
    boxes: list[int] = field(default_factory=list)
    edges: list[int] = field(default_factory=list)
    gone: set[Node] = field(default_factory=set)  # marked no longer
    in_vain: list[Node] = field(default_factory=list)  # those of them that had been found


class HighlightedSurface(Surface):
    """Marks objects and colours nodes, now and in every scene that follows."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._shades: Callable[[Scene], Coloring] | None = None
        self._shows_devices = False
        self._marked: dict[str, dict[object, None]] = {}
        self._searches: dict[str, _Search] = {}  # by kind; the marks of before are shown meanwhile
        self._searching = QTimer(self, interval=0)
        self._searching.timeout.connect(self._search_on)
        self._crossings: SubgraphBoundaries | None = None  # of this scene, looked up at the first hover
        themes().themeChanged.connect(self._apply_shades)

    def set_scene(self, scene: Scene | None) -> None:
        """Show a scene, marked and coloured as the one before."""
        self._crossings = None
        for kind, search in self._searches.items():
            self._marked[kind] = dict.fromkeys(item for item in search.items if item not in search.gone)
        self._searches.clear()
        if not any(isinstance(item, Node) and item.graph is not None for item in self._marked.get("traced", ())):
            self._marked.pop("traced", None)  # its nodes were deleted: it would dim all that is left
        super().set_scene(scene)
        if self._shades is not None:
            self._apply_shades()
        if self.marks is not None:
            for kind, items in self._marked.items():
                self.marks.set(kind, items)

    # -- colours ---------------------------------------------------------------------------------------------

    def set_overlay(self, numbers: Mapping[Node, float] | None, title: str = "") -> None:
        """Colour nodes by a number each (time, size, error), with a legend; None: by category again."""
        if numbers is None:
            self._set_shades(None)
        else:
            self._set_shades(lambda scene: coloring.by_heat(scene, theme(), numbers, title))

    def set_groups(
        self, keys: Mapping[Node, str] | None, title: str = "", own: Mapping[str, str] | None = None
    ) -> None:
        """Colour nodes by a word each, with a legend; words in `own` have those colours. None: by category again."""
        if keys is None:
            self._set_shades(None)
        else:
            self._set_shades(lambda scene: coloring.by_key(scene, theme(), keys, title, own))

    def set_devices(self, *, shown: bool) -> None:
        """Colour nodes by the device or pipeline stage their configurations name."""

        def by_device(scene: Scene) -> Coloring:
            nodes = [box.subject for box in scene.boxes if isinstance(box.subject, Node)]
            return coloring.by_key(scene, theme(), coloring.device_keys(nodes), "Device")

        self._set_shades(by_device if shown else None)
        self._shows_devices = shown

    @property
    def shows_devices(self) -> bool:
        """Return whether nodes have the colour of their device or pipeline stage."""
        return self._shows_devices

    def _set_shades(self, shades: Callable[[Scene], Coloring] | None) -> None:
        self._shades = shades
        self._shows_devices = False
        was_fitted = self.is_fitted
        self._apply_shades()
        if was_fitted:  # the legend that comes or goes is not to hide nodes
            self.fit()

    def _apply_shades(self) -> None:
        if self.scene is not None:
            self.set_colouring(self._shades(self.scene) if self._shades is not None else None)

    # -- marks -----------------------------------------------------------------------------------------------

    def set_marks(self, kind: str, items: Iterable[object]) -> None:
        """Mark objects: "matches", "errors", "stale", "changed" or "traced"; none takes the marks away."""
        all_items = list(items)
        shown = self._marked.get(kind, {}) if self._searches.pop(kind, None) is None else None
        if shown is not None and len(shown) == len(all_items) and all(item in shown for item in all_items):
            return
        if self.marks is not None and len(all_items) > _AT_ONCE:
            self._marked[kind] = {}  # those that are found
            self._searches[kind] = _Search(all_items, iter(all_items))
            self._searching.start()
        else:
            marked = self._marked[kind] = dict.fromkeys(all_items)
            if self.marks is not None:
                self.marks.set(kind, marked)
        self.update()

    def _search_on(self) -> None:
        """Find some more of what is marked; show all of a kind together."""
        if self.marks is None or not self._searches:
            self._searching.stop()
            return
        kind, search = next(iter(self._searches.items()))
        some = list(islice(search.left, _PER_TURN))
        if some:
            marked, gone = self._marked[kind], search.gone
            new = dict.fromkeys(item for item in some if item not in gone and item not in marked)
            marked.update(new)
            boxes, edges = self.marks.find(new)
            search.boxes += boxes
            search.edges += edges
            return
        del self._searches[kind]
        self.marks.put(kind, search.boxes, search.edges)
        self.marks.take_off(kind, search.in_vain)
        self.update()

    def take_marks_off(self, kind: str, nodes: Iterable[Node]) -> None:
        """Mark some nodes no longer. Costs what they are, however many are marked."""
        marked, nodes = self._marked.get(kind, {}), list(nodes)
        gone = [node for node in nodes if marked.pop(node, node) is None]
        search = self._searches.get(kind)
        if search is not None:
            search.gone.update(nodes)
            search.in_vain += gone
        elif self.marks is not None and gone:
            self.marks.take_off(kind, gone)
            self.update()

    def mark_hovered(self, item: object) -> None:
        """Mark what is under the pointer: a node, or the whole path of a value, also beyond the frames of bodies."""
        if self.marks is None:
            return
        items: list[object] = [item] if isinstance(item, (Node, Value)) else []
        if isinstance(item, Value):
            self._crossings = self._crossings or SubgraphBoundaries(self.marks.scene.drawing)
            items += self._crossings.beyond([item])
        self.marks.set("hovered", items)
        self.update()

    @property
    def is_traced(self) -> bool:
        """Return whether all but a trace is dimmed."""
        return bool(self._marked.get("traced")) or "traced" in self._searches
