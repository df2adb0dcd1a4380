"""Ways through the graph of one view: to objects, to the whole, from box to box, inside, and back to a spot.

A jump is noted among the places visited; a step to a neighbour is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from onnx_workbench.model.ir.attributes import Attribute
from onnx_workbench.model.ir.graph import Graph, Node
from onnx_workbench.viewer.canvas import keyboard_navigation
from onnx_workbench.viewer.canvas.paint.batch_drawing import Area
from onnx_workbench.viewer.canvas.paint.surface import READABLE
from onnx_workbench.viewer.canvas.scene.builder import inner_graph
from onnx_workbench.viewer.canvas.scene.drawing import Drawing, Kind, Subject
from onnx_workbench.viewer.canvas.scene.scene import Hit, Scene
from onnx_workbench.viewer.canvas.scene_loader import nearest_box
from onnx_workbench.viewer.canvas.view_state import ViewPosition
from onnx_workbench.viewer.core.selection import Item, Selection

if TYPE_CHECKING:
    from onnx_workbench.viewer.canvas.graph_view import GraphView

_PART = 1000  # nodes
_AROUND = 96.0  # pixels that stay around what is brought into view

#: What is open around something: its title, and what it stands for.
Frame = tuple[str, Subject]


class Navigator:
    """Brings one view somewhere."""

    def __init__(self, view: GraphView) -> None:
        self._view = view

    # -- to the whole, a part, or an object ------------------------------------------------------------------

    def to_whole(self) -> None:
        """Show everything."""
        self._jump(self._view.fit)

    def to_beginning(self) -> None:
        """Show where the graph starts, in a readable size."""
        self._jump(self._view.show_beginning)

    def to_selection(self) -> None:
        """Show what is selected as large as it fits."""
        area = self._selected_area()
        if area is not None:
            self._jump(lambda: self._view.fit_area(area, _AROUND))

    def _jump(self, move: Callable[[], object]) -> None:
        with self._view.workspace.visits.jump():
            move()

    def _selected_area(self) -> Area | None:
        scene = self._view.scene
        if scene is None:
            return None
        drawing, selection = scene.drawing, self._view.workspace.selection
        boxes = drawing.boxes_of_nodes(selection.nodes)  # there may be many
        if len(selection.nodes) < len(selection):
            boxes += [b for item in selection.items if not isinstance(item, Node) for b in drawing.boxes_for(item)]
        return scene.bounds_of(boxes)

    def to_object(self, item: Item) -> None:
        """Bring an object into view, in a readable size; all that is selected with it where that much fits."""
        view, scene = self._view, self._view.scene
        area = scene.bounds_of(scene.drawing.boxes_for(item)[:1]) if scene is not None else None
        if area is None:
            return
        selected = view.workspace.selection.items
        whole = self._selected_area() if len(selected) > 1 and item in selected else None
        if whole is not None and (scale := view.viewport.fitting(whole, _AROUND)) >= READABLE:
            if scale < view.viewport.scale:
                view.fit_area(whole, _AROUND)
            area = whole
        if view.viewport.scale < READABLE:
            view.viewport.scale = 1.0
            view.centre_on((area[0] + area[2]) / 2, (area[1] + area[3]) / 2)
            view.zoom_changed.emit(1.0)
        view.show_area(area, _AROUND)

    def walk(self, way: keyboard_navigation.Way) -> None:
        """Select the box an arrow key leads to."""
        view, scene = self._view, self._view.scene
        if scene is None:
            return
        box = view.current_box()
        box = keyboard_navigation.step(scene, box, way) if box >= 0 else keyboard_navigation.first_box(scene)
        if box < 0:
            return
        view.select_box(box)
        area = scene.bounds_of([box])
        if area is not None:
            view.show_area(area, 64.0)

    # -- inside ----------------------------------------------------------------------------------------------

    def push(self, hit: Hit) -> None:
        """Do what a header's button says."""
        view = self._view
        match hit.button:
            case "+":
                view.expand(hit.box)
            case "−":
                view.collapse(hit.box)
            case "ƒ" | "○" if view.scene is not None:
                self._enter(view.scene.boxes[hit.box].subject)
            case _:
                return

    def open(self, hit: Hit) -> None:
        """Open the target of a double-click: a body, function or group, or the producer of an outer value.

        Attributes, other values and plain nodes go to `opened`.
        """
        view, scene = self._view, self._view.scene
        if scene is None:
            return
        value = scene.value_at(hit)
        if value is not None and hit.box >= 0 and scene.boxes[hit.box].kind is Kind.OUTER and value.is_defined:
            view.workspace.reveal(value.producer or value)
        elif value is not None:
            view.opened.emit(value)
        elif hit.row is not None and isinstance(hit.row.subject, Attribute):
            view.opened.emit(hit.row.subject)
        elif hit.box >= 0:
            box = scene.boxes[hit.box]
            if box.kind is Kind.GROUP:
                view.expand(hit.box)
            elif not self._enter(box.subject) and isinstance(box.subject, Node):
                view.opened.emit(box.subject)

    def _enter(self, subject: object) -> bool:
        workspace = self._view.workspace
        inner = inner_graph(subject, workspace.model)
        if inner is not None:
            workspace.show(inner)
        return inner is not None

    def trail(self) -> list[Frame]:
        """The groups, bodies and functions open around all that is selected, outermost first; a closed group too."""
        scene, selection = self._view.scene, self._view.workspace.selection
        boxes = scene.drawing.boxes_for(selection.current)[:1] if scene is not None and len(selection) else []
        if scene is None or not boxes:
            return []
        around = _containers(scene, boxes[0])
        if around and len(selection) > 1:
            for parts in _parts_of(selection, scene.drawing):
                closed = {box for box in parts if scene.boxes[box].kind is Kind.GROUP}
                for box in closed | {scene.boxes[box].parent for box in parts if box not in closed}:
                    inner = set(_containers(scene, box))
                    around = [frame for frame in around if frame in inner]
                if not around:
                    break
        found = (scene.boxes[box] for box in around)
        return [(box.title, box.subject) for box in found if box.subject is not selection.current]

    def draws(self, graph: Graph) -> bool:
        """Return whether a graph is drawn now: the one shown, or a body or function that is open inside it."""
        scene = self._view.scene
        return scene is not None and graph in scene.drawing.graphs

    # -- spots -----------------------------------------------------------------------------------------------

    def spot(self) -> ViewPosition | None:
        """The part of the graph in view; None while nothing is shown."""
        view, scene = self._view, self._view.scene
        if scene is None:
            return None
        x, y = view.viewport.to_scene(view.width() / 2, view.height() / 2)
        box = nearest_box(scene, x, y)
        if box < 0:
            return ViewPosition(view.zoom, (x, y))
        left, top, width, _ = scene.rect(box)
        return ViewPosition(view.zoom, (x, y), scene.boxes[box].key, (x - left - width / 2, y - top))

    def to_spot(self, spot: ViewPosition) -> None:
        """Bring a part of the graph into view again, also if the graph was laid out again meanwhile."""
        view, scene = self._view, self._view.scene
        if scene is None:
            return
        x, y = spot.centre
        box = scene.drawing.box_with(spot.key)
        if box >= 0:
            left, top, width, _ = scene.rect(box)
            x, y = left + width / 2 + spot.offset[0], top + spot.offset[1]
        view.viewport.scale = spot.scale
        view.centre_on(x, y)
        view.zoom_changed.emit(spot.scale)


def _parts_of(selection: Selection, drawing: Drawing) -> Iterator[list[int]]:
    """Return the boxes of the selection, in chunks: there may be very many, and the first few matter most."""
    nodes = selection.nodes
    for start in range(0, len(nodes), _PART):
        yield drawing.boxes_of_nodes(nodes[start : start + _PART])
    yield [box for value in selection.values for box in drawing.boxes_for(value)[:1]]


def _containers(scene: Scene, box: int) -> list[int]:
    """The containers around a box, outermost first, with itself if it is one or a closed group."""
    found: list[int] = []
    while box >= 0:
        if scene.boxes[box].kind in (Kind.GROUP, Kind.CONTAINER):
            found.append(box)
        box = scene.boxes[box].parent
    return found[::-1]
