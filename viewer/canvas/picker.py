"""Selection on a surface: the model objects of boxes and edges, and the box from which keyboard navigation starts."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from onnx_workbench.model.text.formatting import display, plural
from onnx_workbench.viewer.canvas.paint.surface import Surface
from onnx_workbench.viewer.canvas.scene.drawing import Kind
from onnx_workbench.viewer.canvas.scene.scene import Hit
from onnx_workbench.viewer.document.selection import Item, Selection
from onnx_workbench.viewer.style.labels import place_text


class Picker:
    """Selects the objects of clicked boxes; remembers which of several boxes of an object was picked."""

    def __init__(self, surface: Surface, selection: Selection) -> None:
        self._surface = surface
        self._selection = selection
        self._current: Hashable = None  # key of the box that was picked last, by click or arrow key

    def forget(self) -> None:
        """Clear the picked box: another graph is shown."""
        self._current = None

    def current_box(self) -> int:
        """Return the box picked last, else one of the current object; -1 for none."""
        scene = self._surface.scene
        if scene is None:
            return -1
        box = scene.drawing.box_with(self._current)
        if box >= 0:
            return box
        current = self._selection.current
        boxes = scene.drawing.boxes_of(current) if current is not None else []
        return boxes[0] if boxes else -1

    def selection_text(self) -> str:
        """Describe the selection: a group by its name, several objects by their number and the last; "" for none."""
        items, scene, box = self._selection.items, self._surface.scene, self.current_box()
        if not items:
            return ""
        last = place_text(items[-1])
        if len(items) == 1:
            return last
        is_group = scene is not None and box >= 0 and items == (*self.items_of(Hit(box=box)),)
        if is_group and scene is not None:
            return f"group {display(scene.boxes[box].title, 60)}, {plural(len(items), 'node')}"
        return f"{plural(len(items), 'object')}, the last: {last}"

    def items_of(self, hit: Hit | None) -> list[Item]:
        """Return the model objects of a hit."""
        scene = self._surface.scene
        return [*scene.objects_at(hit)] if hit is not None and scene is not None else []

    def is_background(self, hit: Hit) -> bool:
        """Return whether a hit is the background of a container, which is treated as canvas."""
        scene = self._surface.scene
        if scene is None or hit.box < 0:
            return False
        return hit.part == "body" and scene.boxes[hit.box].kind is Kind.CONTAINER

    def click(self, hit: Hit | None, *, extend: bool = False) -> None:
        """Select the objects of a hit; `extend`: toggle them instead. A container's background is treated as canvas."""
        scene = self._surface.scene
        items = [] if hit is None or self.is_background(hit) else self.items_of(hit)
        self._current = scene.boxes[hit.box].key if items and hit and hit.box >= 0 and scene else None
        if not extend:
            self._selection.set(items)
        elif len(items) == 1:
            self._selection.toggle(items[0])
        else:
            self._selection.add(items)

    def select(self, items: Iterable[Item], *, extend: bool = False) -> None:
        """Select several objects; `extend`: in addition to the selection."""
        self._current = None
        (self._selection.add if extend else self._selection.set)(items)

    def select_box(self, box: int) -> None:
        """Select the objects of a box; the arrow keys continue from there."""
        assert self._surface.scene is not None
        self._current = self._surface.scene.boxes[box].key
        self._selection.set(self.items_of(Hit(box=box)))
