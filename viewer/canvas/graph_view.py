"""The graph in the middle of the window: shows the workspace's graph, and turns mouse and keys into what they mean.

Listens to the workspace (graph shown, selection, changes, settings) and writes to its selection. Painting is
`Surface`, marks and colours are `HighlightedSurface`, drawing up and laying out is `SceneLoader`, edits are
`SceneUpdater`'s, going somewhere is `Navigator`, mouse interactions are `tools`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

from PySide6.QtCore import QEvent, QPointF, Qt, Signal
from PySide6.QtGui import (
    QContextMenuEvent,
    QFocusEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QWidget

from onnx_workbench.model.analysis.value_types import TypeOf
from onnx_workbench.model.ir.graph import Graph, Node, Value
from onnx_workbench.model.ir.types import Type
from onnx_workbench.viewer.canvas.input_handler import EVENTS, InputHandler
from onnx_workbench.viewer.canvas.layout import Direction
from onnx_workbench.viewer.canvas.navigator import Navigator
from onnx_workbench.viewer.canvas.paint.batch_drawing import Area
from onnx_workbench.viewer.canvas.paint.highlighted_surface import HighlightedSurface
from onnx_workbench.viewer.canvas.paint.minimap import Minimap
from onnx_workbench.viewer.canvas.paint.painter import TITLES_FROM
from onnx_workbench.viewer.canvas.paint.surface import READABLE
from onnx_workbench.viewer.canvas.scene.builder import initial_expansion
from onnx_workbench.viewer.canvas.scene.drawing import Box, DrawingOptions, Kind
from onnx_workbench.viewer.canvas.scene.scene import REACH, Hit, Scene
from onnx_workbench.viewer.canvas.scene_loader import SceneLoader, nearest_box
from onnx_workbench.viewer.canvas.scene_updater import SceneUpdater
from onnx_workbench.viewer.canvas.view_state import Anchor, GraphViewState, Pending, ViewPosition
from onnx_workbench.viewer.core.context import DocumentContext
from onnx_workbench.viewer.core.edge_notes import EdgeNote
from onnx_workbench.viewer.core.selection import Item
from onnx_workbench.viewer.core.settings import (
    DIRECTION,
    FOLD_SHARED,
    GROUPS,
    SHOW_ATTRIBUTES,
    SHOW_INITIALIZERS,
    SHOW_NAMES,
)
from onnx_workbench.viewer.style.formatting import plural
from onnx_workbench.viewer.style.labels import place_text

#: Settings that change what is drawn.
_DRAWN = frozenset(o.key for o in (DIRECTION, SHOW_ATTRIBUTES, SHOW_INITIALIZERS, SHOW_NAMES, GROUPS, FOLD_SHARED))
_GROUPS = {"large": None, "always": True, "never": False}


class GraphView(HighlightedSurface):
    """The canvas. GUI thread only."""

    opened = Signal(object)  # Node, Attribute or Value double-clicked that has nothing inside to go to
    loaded = Signal()  # a new scene is shown
    trail_changed = Signal(object)  # list[Frame]: what is open around the selection, see Travel

    def __init__(self, workspace: DocumentContext, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.workspace: DocumentContext = workspace
        self.is_fixed = False  # no wire can be drawn: the model is read-only
        self.hands = InputHandler(self)
        self.travel: Navigator = Navigator(self)
        self._places: dict[Graph, GraphViewState] = {}
        self._graph = workspace.graph
        self._pending = Pending()
        self._types: TypeOf | None = None
        self._shown_first: tuple[float, float, float] | None = None
        self._current: Hashable = None  # key of the box that was clicked or walked to last
        self._loader = SceneLoader(workspace, self.fonts, self.type_of, self)
        self._loader.scene_ready.connect(self._show_scene)
        self._loader.state_changed.connect(self.update)
        self._following = SceneUpdater(self, self._loader)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMouseTracking(True)
        self.grabGesture(Qt.GestureType.PinchGesture)
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.setMinimumSize(160, 120)
        self.setAccessibleName("Graph")
        self.minimap = Minimap(self)
        self._listen()
        self._load(first=True)

    def _listen(self) -> None:
        workspace = self.workspace
        workspace.graph_shown.connect(self._on_graph_shown)
        workspace.reveal_requested.connect(self.reveal)
        workspace.returned.connect(self._on_returned)
        workspace.spot = self.travel.spot
        workspace.draws = self.travel.draws
        workspace.marked.connect(self.set_marks)
        workspace.unmarked.connect(self.take_marks_off)
        workspace.grouped.connect(self.set_groups)
        workspace.overlaid.connect(self.set_overlay)
        workspace.noted.connect(self._on_noted)
        workspace.selection.changed.connect(self._on_selection)
        workspace.selection.hover_changed.connect(self._on_hover)
        workspace.settings.changed.connect(self._on_setting)

    # -- loading ---------------------------------------------------------------------------------------------

    @property
    def options(self) -> DrawingOptions:
        """Drawing options from the settings."""
        get = self.workspace.settings.get
        direction: Direction = "right" if get(DIRECTION) == "right" else "down"
        return DrawingOptions(
            attributes=get(SHOW_ATTRIBUTES),
            initializers=get(SHOW_INITIALIZERS),
            names=get(SHOW_NAMES),
            fold_shared_constants=get(FOLD_SHARED),
            groups=self._place.groups if self._place.groups is not None else _GROUPS[get(GROUPS)],
            direction=direction,
        )

    @property
    def is_busy(self) -> bool:
        """Return whether a newer scene is being made."""
        return self._loader.is_busy or self._following.is_due

    @property
    def hint(self) -> str:
        """Text shown while there are no nodes."""
        return super().hint if self.is_fixed else f"{super().hint} Press Ctrl+Shift+A to add one."

    @property
    def notice(self) -> str:
        """Notice about a scene that is being made or was stopped; empty if there is none."""
        return self._loader.state

    @property
    def _place(self) -> GraphViewState:
        place = self._places.get(self._graph)
        if place is None:
            place = self._places[self._graph] = GraphViewState(set())
        return place

    def _expanded(self) -> set[Hashable]:
        """Return the expanded groups of the graph shown; called once its groups are known, which decide the initial
        ones.
        """
        place, grouping = self._place, self.workspace.grouping
        if place.is_new and self.options.are_grouped(self._graph):
            place.is_new = False
            if not grouping.has_blocks(self._graph):
                place.expanded |= initial_expansion(grouping.tree(self._graph))
        return place.expanded

    def reload(self) -> None:
        """Draw and lay out from scratch; the middle of the view and the selection stay where they are."""
        self.keep_place()
        self._load()

    def keep_place(self) -> None:
        """In the next scene what is in the middle or selected stays where it is now."""
        self._pending.anchor = self._pending.anchor or self._find_anchor()

    def relayout(self) -> None:
        """Lay out from scratch."""
        self._pending.anchor = self._find_anchor()
        self._loader.load(self._graph, self.options, self._expanded)

    def _load(self, *, first: bool = False) -> None:
        previous, scene = None, self.scene
        self._following.forget()
        if scene is not None and not first and scene.drawing.options == self.options:
            previous = scene.layout
        self._loader.load(self._graph, self.options, self._expanded, previous=previous)

    def _on_graph_shown(self, graph: Graph) -> None:
        if graph is self._graph:
            return
        self._remember_place()
        self._graph = graph
        self._pending = Pending()
        self._current = None
        self.set_scene(None)
        self.trail_changed.emit([])
        self._load(first=True)

    def _remember_place(self) -> None:
        if self.scene is not None:
            place = self._place
            place.scale = self.viewport.scale
            place.centre = self.viewport.to_scene(self.width() / 2, self.height() / 2)

    def _show_scene(self, scene: Scene) -> None:
        is_first = self.scene is None
        pending, self._pending = self._pending, Pending()
        if pending.anchor is not None and pending.anchor.seen_from != self._position():
            pending.anchor = self._find_anchor()  # the user navigated elsewhere meanwhile
        self.set_scene(scene)
        self._on_selection()
        self._on_hover()
        if pending.types:
            self.set_types(self._types)
        if is_first:
            self._show_place()
        elif pending.fit:
            self._show_whole_or_beginning()
        elif pending.whole and self.is_fitted:
            self.fit()
        elif pending.anchor is not None:
            self._hold(pending.anchor)
        if pending.spot is not None:
            self.travel.to_spot(pending.spot)
        if pending.reveal:
            self.reveal(pending.reveal[-1])
        self._describe()
        self.loaded.emit()

    def _show_place(self) -> None:
        """Show the last position of this graph, else the whole graph, else its beginning at a readable size."""
        place, scene = self._place, self.scene
        assert scene is not None
        if place.scale:
            self.viewport.scale = place.scale
            self.centre_on(*place.centre)
            self.zoom_changed.emit(place.scale)
        else:
            self._show_whole_or_beginning()
            self._shown_first = self._position()

    def _show_whole_or_beginning(self) -> None:
        self.fit()
        if self.viewport.scale < READABLE:
            self.show_beginning()

    def _find_anchor(self) -> Anchor | None:
        scene = self.scene
        if scene is None or not len(scene.rects):
            return None
        middle = self.viewport.to_scene(self.width() / 2, self.height() / 2)
        box, area = self.current_box(), self.viewport.area
        left, top, _, _ = scene.rect(box)
        if box < 0 or not (area[0] <= left <= area[2] and area[1] <= top <= area[3]):
            box = nearest_box(scene, *middle)
        return self._anchor_at(box)

    def _anchor_at(self, box: int) -> Anchor:
        assert self.scene is not None
        left, top, width, _ = self.scene.rect(box)
        x, y = self.viewport.to_widget(left + width / 2, top)
        return Anchor(self.scene.boxes[box].key, x, y, self._position())

    def _hold(self, anchor: Anchor) -> None:
        scene = self.scene
        box = -1 if scene is None else scene.drawing.box_with(anchor.key)
        if box < 0 and scene is not None and not len(scene.box_grid.in_rect(*self.viewport.area)):
            box = nearest_box(scene, *self.viewport.to_scene(anchor.x, anchor.y))  # all that was in view is gone
        if box >= 0 and scene is not None:
            left, top, width, _ = scene.rect(box)
            self.viewport.put(left + width / 2, top, anchor.x, anchor.y)
        self._moved()

    # -- what changes ----------------------------------------------------------------------------------------

    def _on_setting(self, key: str) -> None:
        if key in _DRAWN:
            self._pending.whole = self._pending.whole or self.is_fitted
            self._following.draw_anew()

    def type_of(self, value: Value) -> Type | None:
        """The type shown for a value: what a provider knows, else what the file declares."""
        return (self._types(value) if self._types is not None else None) or value.type

    def note_of(self, value: Value) -> EdgeNote | None:
        """Return the note of a run beside the edges of a value."""
        return self.workspace.note_of(value)

    def _on_noted(self, values: set[Value] | None) -> None:
        """Rewrite the notes of some values, or of all."""
        if values is None:
            self.repaint_labels()
        elif self.scene is not None and values:
            edges_of = self.scene.drawing.edges_of
            self.repaint_boxes((), {edge for value in values for edge in edges_of(value)})

    def set_types(self, type_of: TypeOf | None) -> None:
        """Show types from elsewhere too, such as shape inference or a run; call again when they changed."""
        self._types = type_of
        if not self._following.retype():
            self._pending.types = True  # pills drawn meanwhile may have the types of before

    def set_option_groups(self, groups: bool | None) -> None:
        """Draw groups (name scopes, or else repeated blocks), or not; None: as the settings say."""
        self._place.groups = groups
        self._pending.fit = True
        self._load()

    @property
    def is_grouped(self) -> bool:
        """Return whether groups are drawn."""
        return self.scene is not None and self.scene.drawing.has_groups

    # -- groups, bodies, functions ---------------------------------------------------------------------------

    def expand(self, box: int) -> None:
        """Open a group, body or function in place."""
        self._set_expanded(box, is_open=True)

    def collapse(self, box: int) -> None:
        """Close an opened group, body or function."""
        self._set_expanded(box, is_open=False)

    def _set_expanded(self, box: int, *, is_open: bool) -> None:
        assert self.scene is not None
        key = self.scene.boxes[box].key
        expanded = self._place.expanded
        (expanded.add if is_open else expanded.discard)(key)
        self.show_area(self.scene.bounds_of([box]) or self.scene.bounds)
        self._pending.anchor = self._anchor_at(box)
        self._load()

    def expand_all(self) -> None:
        """Open every group of this graph, as soon as its groups are known."""
        graph = self._graph
        self.workspace.grouping.when_ready(graph, lambda: self._expand_all(graph))

    def _expand_all(self, graph: Graph) -> None:
        tree = self.workspace.grouping.tree(graph)
        if graph is self._graph and tree.root.children:
            self._place.groups = True
            self._place.is_new = False
            self._place.expanded |= {((), scope.path) for scope in tree.root.walk() if scope is not tree.root}
            self.reload()

    def collapse_all(self) -> None:
        """Close all groups but the outermost few, so that the graph reads as its blocks."""
        self._place.groups = self._place.is_new = True
        self._place.expanded = set()
        self._pending.fit = True
        self.reload()

    def toggle(self) -> None:
        """Open or close the current box, where it can be."""
        box = self.current_box()
        if box < 0 or self.scene is None:
            return
        buttons = self.scene.boxes[box].buttons
        if "+" in buttons:
            self.expand(box)
        elif "−" in buttons:
            self.collapse(box)

    # -- selection -------------------------------------------------------------------------------------------

    def current_box(self) -> int:
        """The box that was clicked or walked to last, else one of the current object; -1 for none."""
        if self.scene is None:
            return -1
        box = self.scene.drawing.box_with(self._current)
        if box >= 0:
            return box
        current = self.workspace.selection.current
        found = self.scene.drawing.boxes_of(current) if current is not None else []
        return found[0] if found else -1

    def items_of(self, hit: Hit | None) -> list[Item]:
        """The model objects a hit means."""
        return [*self.scene.objects_at(hit)] if hit is not None and self.scene is not None else []

    def click(self, hit: Hit | None, *, extend: bool = False) -> None:
        """Select what was hit; extend: toggle it instead. A container's ground counts as canvas."""
        selection = self.workspace.selection
        items = [] if hit is None or self.is_ground(hit) else self.items_of(hit)
        self._current = self.scene.boxes[hit.box].key if items and hit and hit.box >= 0 and self.scene else None
        if not extend:
            selection.set(items)
        elif len(items) == 1:
            selection.toggle(items[0])
        else:
            selection.add(items)

    def is_ground(self, hit: Hit) -> bool:
        """Return whether a hit is the background of a container, which counts as canvas."""
        if self.scene is None or hit.box < 0:
            return False
        return hit.part == "body" and self.scene.boxes[hit.box].kind is Kind.CONTAINER

    def choose(self, items: Iterable[Item], *, extend: bool = False) -> None:
        """Select several at once, in addition where it extends the selection."""
        self._current = None
        (self.workspace.selection.add if extend else self.workspace.selection.set)(items)

    def _describe(self) -> None:
        """Set the accessible description: the graph shown and the selection."""
        shown = plural(len(self.scene.boxes), "box", "boxes") if self.scene is not None else "nothing"
        current = self.workspace.selection.current
        selected = f"; selected: {place_text(current)}" if current is not None else ""
        self.setAccessibleDescription(f"{shown} drawn{selected}")

    def _on_selection(self) -> None:
        self._describe()
        self.trail_changed.emit(self.travel.trail())
        self.set_marks("selected", self.workspace.selection.items)

    def select_box(self, box: int) -> None:
        """Select the objects of a box; the arrow keys continue from there."""
        assert self.scene is not None
        self.workspace.selection.set(self.items_of(Hit(box=box)))
        self._current = self.scene.boxes[box].key

    def _on_hover(self) -> None:
        self.mark_hovered(self.workspace.selection.hover)

    # -- going somewhere: see Travel -------------------------------------------------------------------------

    def go_to(self, x: float, y: float) -> None:
        """Bring a far point of the scene into the middle."""
        with self.workspace.visits.jump():
            super().go_to(x, y)

    def reveal(self, item: Item) -> None:
        """Bring an object into view, opening the groups around it; as soon as there is a scene to see it in."""
        if self.scene is None or self.is_busy:
            self._pending.reveal.append(item)
        elif self._open_groups_of(item):
            self._pending.reveal.append(item)
            self._load()
        else:
            self.travel.to_object(item)

    def _open_groups_of(self, item: Item) -> bool:
        """Open the closed groups an object lies in; whether there were any, so that a new scene is wanted."""
        scene = self.scene
        node = item.producer if isinstance(item, Value) else item
        if scene is None or not isinstance(node, Node):
            return False
        boxes = scene.drawing.boxes_of(node)
        if not boxes and node.op_type == "Constant":  # a row of its consumers, which are in a closed group
            node = next((user for value in node.outputs if value is not None for user in value.consumers), node)
            boxes = scene.drawing.boxes_of(node)
        match node.graph, scene.boxes[boxes[0]] if boxes else None:
            case Graph() as graph, Box(kind=Kind.GROUP, key=(instance, _)):
                scope = self.workspace.grouping.tree(graph).of.get(node)
                while scope is not None and scope.path:
                    self._place.expanded.add((instance, scope.path))
                    scope = scope.parent
                return True
        return False

    def _on_returned(self, spot: object) -> None:
        self._pending.reveal.clear()
        if isinstance(spot, ViewPosition) and self.scene is not None:
            self.travel.to_spot(spot)
        elif isinstance(spot, ViewPosition):
            self._pending.spot = spot

    # -- state kept between starts ---------------------------------------------------------------------------

    def view_state(self) -> dict[str, float]:
        """Position of the view, saved with the file."""
        x, y = self.viewport.to_scene(self.width() / 2, self.height() / 2)
        return {"scale": self.viewport.scale, "x": x, "y": y}

    def restore_view_state(self, state: Any) -> None:
        """Go back to a kept place; nonsense is ignored."""
        if self._place.read(state) and self.scene is not None:
            self._show_place()

    # -- painting --------------------------------------------------------------------------------------------

    def paintEvent(self, event: QPaintEvent) -> None:
        """One frame."""
        super().paintEvent(event)
        if self.scene is None or self.hands.tool is not None:
            painter = QPainter(self)
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            if self.scene is None and self.notice:
                self.paint_notice(painter, self.notice)
            if self.hands.tool is not None:
                self.hands.tool.paint(painter)
            painter.end()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keep the middle and the selection in view; if the user has not moved the view, restore the initial one."""
        was_tiny = not event.oldSize().isValid() or event.oldSize().width() < 8
        is_untouched = self._shown_first == self._position()
        selected = self._selected_in_view()
        super().resizeEvent(event)
        self.minimap.place()
        is_held = self._is_pushed and self.underMouse()
        if self.scene is not None and (was_tiny or (is_untouched and not is_held)):
            self._show_place()
        elif selected is not None and not is_held:
            self.show_area(selected, 8.0)

    def _selected_in_view(self) -> Area | None:
        """Return the rectangle of the last selection if all of it is visible."""
        selected = self.workspace.selection.current
        if self.scene is None or selected is None:
            return None
        area, seen = self.scene.bounds_of(self.scene.drawing.boxes_for(selected)[:1]), self.viewport.area
        if area is None or area[0] < seen[0] or area[1] < seen[1] or area[2] > seen[2] or area[3] > seen[3]:
            return None
        return area

    # -- mouse and keys: see Hands ---------------------------------------------------------------------------

    def hit(self, position: QPointF) -> Hit | None:
        """Return the hit at a point of the widget."""
        if self.scene is None:
            return None
        x, y = self.viewport.to_scene(position.x(), position.y())
        found = self.scene.hit(x, y, min(REACH / self.zoom, 40.0), details=self.zoom >= TITLES_FROM)
        if found is None or found.edge >= 0 or found.part == "body":  # labels lie on edges, boxes on labels
            edge = self.labelled_at(x, y)
            found = Hit(edge=edge) if edge >= 0 else found
        return found

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Start the tool that wants the press; the buttons for back and forward are the window's."""
        if event.button() in (Qt.MouseButton.BackButton, Qt.MouseButton.ForwardButton):
            event.ignore()
        else:
            self.hands.press(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Go on with the tool, or hover."""
        self.hands.move(event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """End the tool."""
        self.hands.release(event)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Open what was hit."""
        self.hands.double_click(event)

    def leaveEvent(self, event: QEvent) -> None:
        """Nothing is under the pointer any more."""
        self.workspace.selection.set_hover(None)
        super().leaveEvent(event)

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Scroll or zoom."""
        self.hands.wheel(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """Request the context menu that fits what is under the pointer."""
        self.hands.menu(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Keys of the canvas; where the window has a shortcut for one, that comes first."""
        if not self.hands.key(event):
            super().keyPressEvent(event)

    def keyReleaseEvent(self, event: QKeyEvent) -> None:
        """Act on the release of the space bar."""
        if not self.hands.let_go(event):
            super().keyReleaseEvent(event)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """An interaction does not go on behind another window."""
        if event.reason() != Qt.FocusReason.PopupFocusReason:
            self.hands.cancel()
        super().focusOutEvent(event)

    def event(self, event: QEvent) -> bool:
        """Handle events without a handler of their own: pinches, tooltips, keys before they are shortcuts."""
        return (isinstance(event, EVENTS) and self.hands.event(event)) or super().event(event)
