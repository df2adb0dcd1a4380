"""Keeps the scene of a surface up to date with its document, and the view's position when the scene changes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from PySide6.QtCore import QObject, Signal

from onnx_workbench.model.analysis.value_types import TypeOf
from onnx_workbench.model.ir.graph import Graph, Value
from onnx_workbench.model.ir.types import Type
from onnx_workbench.viewer.canvas.layout import Direction, Layout
from onnx_workbench.viewer.canvas.open_parts import OpenParts
from onnx_workbench.viewer.canvas.paint.surface import Surface
from onnx_workbench.viewer.canvas.picker import Picker
from onnx_workbench.viewer.canvas.scene.drawing import DrawingOptions
from onnx_workbench.viewer.canvas.scene.scene import Scene
from onnx_workbench.viewer.canvas.scene_loader import SceneLoader, SceneRequest, nearest_box
from onnx_workbench.viewer.canvas.scene_updater import SceneUpdater
from onnx_workbench.viewer.canvas.view_state import Anchor, GraphViewState
from onnx_workbench.viewer.document.context import DocumentContext
from onnx_workbench.viewer.program.settings import (
    COLUMNS,
    DIRECTION,
    FOLD_NODES,
    FOLD_SHARED,
    GROUPS,
    SHOW_ATTRIBUTES,
    SHOW_INITIALIZERS,
    SHOW_NAMES,
)

#: Settings that change what is drawn.
_DRAWN = frozenset(
    option.key
    for option in (DIRECTION, SHOW_ATTRIBUTES, SHOW_INITIALIZERS, SHOW_NAMES, GROUPS, FOLD_SHARED, FOLD_NODES, COLUMNS)
)
_COLUMNS = 1200.0  # px of length from which a graph is wrapped into columns
_GROUPS = {"large": None, "always": True, "never": False}


@dataclass
class _Pending:
    """Position to show when the requested scene is ready. `fit`: show its beginning if the whole is not readable."""

    anchor: Anchor | None = None
    fit: bool = False
    whole: bool = False  # show the whole graph, as before
    types: bool = False  # update the types: they changed meanwhile


class SceneController(QObject):
    """Loads the scene of the shown graph, reloads it after edits and settings, and positions the view in it.

    The positions and open groups of each graph are kept while another one is shown. GUI thread only.
    """

    scene_shown = Signal()  # a new scene is shown and the view positioned

    def __init__(self, surface: Surface, context: DocumentContext, picker: Picker) -> None:
        super().__init__(surface)
        self._surface = surface
        self._context = context
        self._picker = picker
        self._states: dict[Graph, GraphViewState] = {}
        self._graph = context.graph
        self._pending = _Pending()
        self._types: TypeOf | None = None
        self._kinds: frozenset[str] = frozenset()
        self._shown_first: tuple[float, float, float] | None = None
        self._loader = SceneLoader(context, surface.fonts, self.type_of, self)
        self._loader.scene_ready.connect(self._show_scene)
        self._loader.state_changed.connect(surface.update)
        self._updater = SceneUpdater(self, self._loader, surface, context)
        context.settings.changed.connect(self._on_setting)
        context.highlights.overlay_changed.connect(self._on_overlay)

    # -- the graph and its options ---------------------------------------------------------------------------

    @property
    def graph(self) -> Graph:
        """The graph whose scene is shown or being built."""
        return self._graph

    @property
    def options(self) -> DrawingOptions:
        """Drawing options from the settings and of the shown graph."""
        get = self._context.settings.get
        direction: Direction = "right" if get(DIRECTION) == "right" else "down"
        return DrawingOptions(
            attributes=get(SHOW_ATTRIBUTES),
            initializers=get(SHOW_INITIALIZERS),
            names=get(SHOW_NAMES),
            fold_shared_constants=get(FOLD_SHARED),
            fold_nodes=get(FOLD_NODES),
            kinds=self._kinds,
            prefix=self._context.dimension_prefix,
            groups=self.state.groups if self.state.groups is not None else _GROUPS[get(GROUPS)],
            direction=direction,
            columns=_COLUMNS if get(COLUMNS) else inf,
            data=self._context.highlights.data,
        )

    @property
    def folded_kinds(self) -> frozenset[str]:
        """Kinds of nodes that are folded into tags, in all graphs; see `find_folded_nodes`."""
        return self._kinds

    def fold_kinds(self, kinds: Iterable[str]) -> None:
        """Fold the nodes of some kinds, and no others but those that the settings fold."""
        self._kinds = frozenset(kinds)
        self._redraw()

    @property
    def state(self) -> GraphViewState:
        """Open groups and last position of the shown graph; call `load` after changing groups."""
        return self._states.setdefault(self._graph, GraphViewState(set()))

    @property
    def is_busy(self) -> bool:
        """Whether a newer scene is being built."""
        return self._loader.is_busy or self._updater.is_due

    @property
    def notice(self) -> str:
        """Notice about a scene that is being built or was stopped; empty if there is none."""
        return self._loader.state

    def type_of(self, value: Value) -> Type | None:
        """Return the type shown for a value: from the provider (see `set_types`), else the declared one."""
        return (self._types(value) if self._types is not None else None) or value.type

    def set_types(self, type_of: TypeOf | None) -> None:
        """Set a provider of types, such as shape inference or a run; call again when they changed."""
        self._types = type_of
        was_fitted, was_untouched = self._surface.is_fitted, self.is_untouched
        if not self._updater.retype():
            self._pending.types = True  # pills drawn meanwhile may show old types
        elif self._loader.is_busy:
            self._pending.whole = self._pending.whole or was_fitted
        elif was_fitted:  # the pills may have become wider
            self._surface.fit()
            if was_untouched:
                self._shown_first = self._surface.viewport.position

    def _on_overlay(self) -> None:
        """Write other node data into the boxes."""
        scene = self._surface.scene
        if scene is not None and scene.drawing.options.data is not self._context.highlights.data:
            self._redraw()

    def _on_setting(self, key: str) -> None:
        if key in _DRAWN:
            self._redraw()

    def _redraw(self) -> None:
        """Draw everything again with other options; the whole stays in view."""
        self._pending.whole = self._pending.whole or self._surface.is_fitted
        self._updater.request_redraw()

    # -- loading ---------------------------------------------------------------------------------------------

    def show(self, graph: Graph) -> None:
        """Show another graph at its last position, with the same open groups."""
        scene = self._surface.scene
        if scene is not None:
            self.state.scale, self.state.centre = self._surface.viewport.scale, self._surface.middle
            self.state.options, self.state.layout = scene.drawing.options, scene.layout
        self._graph = graph
        self._pending = _Pending()
        self._surface.set_scene(None)
        self.load(first=True)

    def load(self, *, first: bool = False, fit: bool = False, keeps_ranks: bool = True) -> None:
        """Draw the graph again, with a layout near the previous one; `fit`: show the whole or the beginning of it.

        `keeps_ranks` False: ranks are recomputed.
        """
        self._pending.fit = self._pending.fit or fit
        previous, scene = None, self._surface.scene
        if scene is not None and not first and scene.drawing.options == self.options:
            previous = scene.layout
        elif first and self.state.options == self.options:
            previous = self.state.layout
        self._loader.load(replace(self._request(previous), keeps_ranks=keeps_ranks))

    def reload(self, *, fit: bool = False) -> None:
        """Draw the graph again; the middle of the view and the selection keep their positions."""
        self.pin_position()
        self.load(fit=fit)

    def relayout(self) -> None:
        """Lay out from scratch."""
        self._pending.anchor = self._find_anchor()
        self._loader.load(self._request(None))

    def pin_position(self, box: int | None = None) -> None:
        """Keep the position of a box (or else of the selection or the middle of the view) in the next scene."""
        if box is not None:
            self._pending.anchor = self._anchor_at(box)
        else:
            self._pending.anchor = self._pending.anchor or self._find_anchor()

    def _request(self, previous: Layout | None) -> SceneRequest:
        state = self.state
        around = self._surface.middle if self._surface.scene is not None else None
        return SceneRequest(self._graph, self.options, frozenset(state.expanded), state.is_new, previous, around=around)

    # -- the position in a new scene -------------------------------------------------------------------------

    def _show_scene(self, scene: Scene) -> None:
        surface, state = self._surface, self.state
        is_first = surface.scene is None
        state.expanded |= scene.drawing.expanded
        state.is_new = state.is_new and not scene.drawing.grouped
        pending, self._pending = self._pending, _Pending()
        if pending.anchor is not None and pending.anchor.seen_from != surface.viewport.position:
            pending.anchor = self._find_anchor()  # the user navigated elsewhere meanwhile
        surface.set_scene(scene)
        if is_first:
            self.restore_position()
        elif pending.fit:
            self._show_whole_or_beginning()
        elif pending.whole and surface.is_fitted:
            surface.fit()
        elif pending.anchor is not None:
            self._restore_anchor(pending.anchor)
        if pending.types:
            self.set_types(self._types)
        self.scene_shown.emit()

    def restore_position(self) -> None:
        """Show the last position of this graph, else the whole graph, else its beginning at a readable size."""
        if self.state.scale:
            self._surface.centre_at(self.state.scale, *self.state.centre)
        else:
            self._show_whole_or_beginning()
            self._shown_first = self._surface.viewport.position

    @property
    def is_untouched(self) -> bool:
        """Whether the user has not moved the view since the graph was first shown."""
        return self._shown_first == self._surface.viewport.position

    def view_state(self) -> dict[str, float]:
        """Position of the view, saved with the file."""
        x, y = self._surface.middle
        return {"scale": self._surface.viewport.scale, "x": x, "y": y}

    def restore_view_state(self, state: Any) -> None:
        """Restore a saved position; an invalid one is ignored."""
        if self.state.read(state) and self._surface.scene is not None:
            self.restore_position()

    def open_parts(self) -> dict[str, Any]:
        """Return the open parts of the shown graph, saved with the file."""
        parts = OpenParts(self._graph).write(self.state.expanded)
        return {"grouped": not self.state.is_new, "parts": parts, "folded": sorted(self._kinds)}

    def restore_open_parts(self, saved: Any) -> None:
        """Restore open parts; invalid entries are ignored."""
        if not isinstance(saved, dict):
            return
        state, parts = self.state, OpenParts(self._graph).read(saved.get("parts"))
        is_new = state.is_new and saved.get("grouped") is not True
        kinds = saved.get("folded")
        before, self._kinds = self._kinds, frozenset(map(str, kinds)) if isinstance(kinds, list) else self._kinds
        if self._kinds != before or parts != state.expanded or is_new != state.is_new:
            state.expanded, state.is_new = parts, is_new
            self._surface.set_scene(None)
            self.load(first=True)

    def _show_whole_or_beginning(self) -> None:
        """Show the whole graph if its parts can be told apart there, else its beginning."""
        self._surface.fit()
        if not self._surface.is_legible:
            self._surface.show_beginning()

    def _find_anchor(self) -> Anchor | None:
        scene = self._surface.scene
        if scene is None or not len(scene.rects):
            return None
        box, area = self._picker.current_box(), self._surface.viewport.area
        left, top, _, _ = scene.rect(box)
        if box < 0 or not (area[0] <= left <= area[2] and area[1] <= top <= area[3]):
            box = nearest_box(scene, *self._surface.middle)
        return self._anchor_at(box)

    def _anchor_at(self, box: int) -> Anchor:
        scene, viewport = self._surface.scene, self._surface.viewport
        assert scene is not None
        left, top, width, _ = scene.rect(box)
        x, y = viewport.to_widget(left + width / 2, top)
        return Anchor(scene.boxes[box].key, x, y, viewport.position)

    def _restore_anchor(self, anchor: Anchor) -> None:
        scene, viewport = self._surface.scene, self._surface.viewport
        assert scene is not None
        box = scene.drawing.box_with(anchor.key)
        if box < 0 and not len(scene.box_grid.in_rect(*viewport.area)):
            box = nearest_box(scene, *viewport.to_scene(anchor.x, anchor.y))  # everything that was in view was removed
        if box >= 0:
            left, top, width, _ = scene.rect(box)
            self._surface.scroll_to(left + width / 2, top, anchor.x, anchor.y)
        else:
            self._surface.pan_by(0, 0)  # keeps the view within the new scene
