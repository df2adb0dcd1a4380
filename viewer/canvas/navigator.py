"""Navigation in the graph on a surface: to objects, the whole graph, from box to box, into bodies, and to a position.

A jump is recorded in the history; a step to a neighbour is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from PySide6.QtCore import QObject, Signal

from onnx_workbench.model.ir.attributes import Attribute
from onnx_workbench.model.ir.graph import Graph, Node, Value
from onnx_workbench.viewer.canvas import keyboard_navigation
from onnx_workbench.viewer.canvas.expansion import NodeExpansion
from onnx_workbench.viewer.canvas.paint.batch_drawing import Area
from onnx_workbench.viewer.canvas.paint.surface import READABLE, Surface
from onnx_workbench.viewer.canvas.picker import Picker
from onnx_workbench.viewer.canvas.scene.builder import inner_graph
from onnx_workbench.viewer.canvas.scene.drawing import Drawing, Kind, Subject
from onnx_workbench.viewer.canvas.scene.node_text import FoldTag
from onnx_workbench.viewer.canvas.scene.scene import Hit, Scene
from onnx_workbench.viewer.canvas.scene_builder import nearest_box
from onnx_workbench.viewer.canvas.scene_controller import SceneController
from onnx_workbench.viewer.canvas.view_state import ViewPosition
from onnx_workbench.viewer.document.context import DocumentContext
from onnx_workbench.viewer.document.selection import Item, Selection

_PART = 1000  # nodes
_AROUND = 96.0  # pixels around an object that is brought into view
_BORDER = 8.0  # the same if the view should move as little as possible

#: An open group, body or function around an object: its title and its model object.
Frame = tuple[str, Subject]


class Navigator(QObject):
    """Moves the view of a surface. GUI thread only."""

    opened = Signal(object)  # double-clicked Node, Attribute or Value that cannot be entered

    def __init__(
        self,
        surface: Surface,
        context: DocumentContext,
        picker: Picker,
        scenes: SceneController,
        expansion: NodeExpansion,
    ) -> None:
        super().__init__(surface)
        self._surface = surface
        self._context = context
        self._picker = picker
        self._scenes = scenes
        self._expansion = expansion
        self._pending: Callable[[], object] | None = None  # the newest request, repeated in the next scene
        self._edge_node: Node | None = None  # whose edges `step_edge` selects
        navigation = context.navigation
        navigation.view_position = self.position
        navigation.is_drawn = self.is_drawn
        navigation.reveal_requested.connect(self.reveal)
        navigation.scroll_requested.connect(self.scroll_to)
        navigation.area_requested.connect(self._show_selected)
        navigation.parent_shown.connect(self._on_parent_shown)
        navigation.returned.connect(self._on_returned)
        scenes.scene_shown.connect(self._on_scene)

    def forget(self) -> None:
        """Drop the pending request for the next scene: another graph is shown."""
        self._pending = None

    def _on_scene(self) -> None:
        request, self._pending = self._pending, None
        if request is not None:
            request()

    def _on_parent_shown(self, node: Node) -> None:
        self._reveal(node, keeps_zoom=self._scenes.state.scale > 0)

    def _on_returned(self, position: object) -> None:
        self._pending = None
        if isinstance(position, ViewPosition):
            self.to_position(position)

    # -- to the whole graph, a part, or an object ------------------------------------------------------------

    def to_whole(self) -> None:
        """Show everything."""
        self._jump(self._surface.fit)

    def to_beginning(self) -> None:
        """Show the beginning of the graph at the current zoom."""
        self._jump(lambda: self._surface.show_beginning(self._surface.viewport.scale))

    def to_end(self) -> None:
        """Show the end of the graph at the current zoom: its last rank, at the lower or right edge of the view."""
        scene, surface = self._surface.scene, self._surface
        box = keyboard_navigation.last_box(scene) if scene is not None else -1
        if scene is None or box < 0:
            return
        left, top, width, height = scene.rect(box)
        if scene.drawing.options.direction == "down":
            ends = left + width / 2, top + height, surface.width() / 2, surface.height() - 32.0
        else:
            ends = left + width, top + height / 2, surface.width() - 32.0, surface.height() / 2
        self._jump(lambda: surface.scroll_to(*ends))

    def to_selection(self) -> None:
        """Fit the selection into the view."""
        area = self._selected_area()
        if area is not None:
            self._jump(lambda: self._surface.fit_area(area, _AROUND))

    def to_point(self, x: float, y: float) -> None:
        """Centre the view on a point of the scene."""
        self._jump(lambda: self._surface.centre_on(x, y))

    def _jump(self, move: Callable[[], object]) -> None:
        with self._context.navigation.history.jump():
            move()

    def _selected_area(self) -> Area | None:
        scene = self._surface.scene
        if scene is None:
            return None
        drawing, selection = scene.drawing, self._context.selection
        boxes = drawing.boxes_of_nodes(selection.nodes)  # there may be many
        if len(selection.nodes) < len(selection):
            boxes += [b for item in selection.items if not isinstance(item, Node) for b in drawing.boxes_for(item)]
        return scene.bounds_of(boxes)

    def reveal(self, item: Item) -> None:
        """Bring an object into view, opening the groups around it, as soon as there is a scene with it."""
        self._reveal(item, keeps_zoom=False)

    def scroll_to(self, item: Item) -> None:
        """Reveal an object at the current zoom; see `reveal`."""
        self._reveal(item, keeps_zoom=True)

    def _reveal(self, item: Item, *, keeps_zoom: bool) -> None:
        if self._surface.scene is None or self._scenes.is_busy:
            self._pending = partial(self._reveal, item, keeps_zoom=keeps_zoom)
        elif self._expansion.open_around(item):
            self._pending = partial(self._reveal, item, keeps_zoom=keeps_zoom)
            self._scenes.load(keeps_ranks=False)
        elif keeps_zoom:
            area = self._surface.scene.bounds_of(self._surface.scene.drawing.boxes_for(item)[:1])
            if area is not None:
                self._surface.show_area(area, _BORDER)
        else:
            self._to_object(item)

    def _to_object(self, item: Item) -> None:
        """Bring an object into view in a readable size, with the rest of the selection if it fits."""
        surface, scene = self._surface, self._surface.scene
        area = scene.bounds_of(scene.drawing.boxes_for(item)[:1]) if scene is not None else None
        if area is None:
            return
        selected = self._context.selection.items
        whole = self._selected_area() if len(selected) > 1 and item in selected else None
        if whole is not None and (scale := surface.viewport.fitting(whole, _AROUND)) >= READABLE:
            if scale < surface.viewport.scale:
                surface.fit_area(whole, _AROUND)
            area = whole
        if surface.viewport.scale < READABLE:
            surface.centre_at(1.0, (area[0] + area[2]) / 2, (area[1] + area[3]) / 2)
        surface.show_area(area, _AROUND)

    def _show_selected(self) -> None:
        """Bring all of the selection into view as it is drawn: nodes of a closed group by its box."""
        if self._surface.scene is None or self._scenes.is_busy:
            self._pending = self._show_selected
            return
        area = self._selected_area()
        if area is None:
            return
        scale = min(max(self._surface.viewport.scale, READABLE), self._surface.viewport.fitting(area, _AROUND))
        self._surface.centre_at(min(scale, 1.0), (area[0] + area[2]) / 2, (area[1] + area[3]) / 2)

    def walk(self, way: keyboard_navigation.Way) -> None:
        """Select the next box in the direction of an arrow key."""
        scene = self._surface.scene
        if scene is None:
            return
        box = self._end_of_edge(scene, way)
        if box < 0:
            box = self._picker.current_box()
            box = keyboard_navigation.step(scene, box, way) if box >= 0 else keyboard_navigation.first_box(scene)
        if box < 0:
            return
        self._picker.select_box(box)
        area = scene.bounds_of([box])
        if area is not None:
            self._surface.show_area(area, 64.0)

    def _end_of_edge(self, scene: Scene, way: keyboard_navigation.Way) -> int:
        """Return the box to which an arrow key leads from the edges of a selected value; -1 if no edge is selected."""
        value = self._context.selection.current
        if not isinstance(value, Value) or scene.drawing.boxes_of(value):
            return -1
        edges = scene.drawing.edges_of(value)
        return int(scene.drawing.edges[edges[0], 0 if way in ("up", "left") else 1]) if edges else -1

    def step_edge(self, by: int) -> None:
        """Select the next, or with -1 the previous, input or output of a node: of the one that was selected before."""
        scene, current = self._surface.scene, self._context.selection.current
        if scene is None:
            return
        if isinstance(current, Node):
            self._edge_node = current
        node = self._edge_node
        if node is None or (isinstance(current, Value) and current not in (*node.inputs, *node.outputs)):
            consumers = current.consumers if isinstance(current, Value) else ()
            node = self._edge_node = (current.producer if isinstance(current, Value) else None) or next(
                iter(consumers), None
            )
        if node is None:
            return
        drawn = scene.drawing.edges_of
        values = [v for v in dict.fromkeys((*node.inputs, *node.outputs)) if v is not None and drawn(v)]
        if values:
            at = values.index(current) + by if current in values else (0 if by > 0 else -1)
            self._context.selection.set([values[at % len(values)]])

    # -- inside ----------------------------------------------------------------------------------------------

    def push(self, hit: Hit) -> None:
        """Perform the action of a button of a header or tag."""
        match hit.button:
            case "+":
                self._expansion.expand(hit.box)
            case "−":
                self._expansion.collapse(hit.box)
            case "▸" | "▾" if hit.row is not None and isinstance(hit.row.subject, FoldTag):
                self._expansion.toggle_tag(hit.box, hit.row.subject)
            case "ƒ" | "○" if self._surface.scene is not None:
                self._enter(self._surface.scene.boxes[hit.box].subject)
            case _:
                return

    def open(self, hit: Hit) -> None:
        """Open the target of a double-click: a body, function or group, or the producer of an outer value.

        Attributes, other values and plain nodes go to `opened`.
        """
        scene = self._surface.scene
        if scene is None:
            return
        value = scene.value_at(hit)
        if value is not None and hit.box >= 0 and scene.boxes[hit.box].kind is Kind.OUTER and value.is_defined:
            self._context.navigation.reveal(value.producer or value)
        elif value is not None:
            self.opened.emit(value)
        elif hit.row is not None and isinstance(hit.row.subject, Attribute):
            self.opened.emit(hit.row.subject)
        elif hit.box >= 0:
            box = scene.boxes[hit.box]
            if box.kind is Kind.GROUP:
                self._expansion.expand(hit.box)
            elif not self._enter(box.subject) and isinstance(box.subject, Node):
                self.opened.emit(box.subject)

    def _enter(self, subject: object) -> bool:
        inner = inner_graph(subject, self._context.model)
        if inner is not None:
            self._context.navigation.show(inner)
        return inner is not None

    def trail(self) -> list[Frame]:
        """Return the open (or closed) groups, bodies and functions around all of the selection, outermost first."""
        scene, selection = self._surface.scene, self._context.selection
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
        frames = (scene.boxes[box] for box in around)
        return [(box.title, box.subject) for box in frames if box.subject is not selection.current]

    def is_drawn(self, graph: Graph) -> bool:
        """Return whether a graph is drawn now: the shown one, or a body or function open inside it."""
        scene = self._surface.scene
        return scene is not None and graph in scene.drawing.graphs

    # -- positions -------------------------------------------------------------------------------------------

    def position(self) -> ViewPosition | None:
        """Return the part of the graph in view; None while nothing is shown."""
        scene, middle = self._surface.scene, self._surface.middle
        if scene is None:
            return None
        return ViewPosition.beside(scene, nearest_box(scene, *middle), self._surface.zoom, middle)

    def to_position(self, position: ViewPosition) -> None:
        """Restore a saved position in the graph, also if the graph was laid out again meanwhile."""
        scene = self._surface.scene
        if scene is None:
            self._pending = partial(self.to_position, position)
            return
        box = scene.drawing.box_with(position.key)
        centre = position.centre_beside(scene, box) if box >= 0 else position.centre
        self._surface.centre_at(position.scale, *centre)


def _parts_of(selection: Selection, drawing: Drawing) -> Iterator[list[int]]:
    """Yield the boxes of the selection in chunks, as there may be very many and the first ones may suffice."""
    nodes = selection.nodes
    for start in range(0, len(nodes), _PART):
        yield drawing.boxes_of_nodes(nodes[start : start + _PART])
    yield [box for value in selection.values for box in drawing.boxes_for(value)[:1]]


def _containers(scene: Scene, box: int) -> list[int]:
    """Return the containers around a box, outermost first, including itself if it is one or a closed group."""
    found: list[int] = []
    while box >= 0:
        if scene.boxes[box].kind in (Kind.GROUP, Kind.CONTAINER):
            found.append(box)
        box = scene.boxes[box].parent
    return found[::-1]
