"""Keeps the scene of a surface up to date with its document, and the view's position when the scene changes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any

from PySide6.QtCore import QObject, Signal

from onnx_workbench.model.analysis.value_types import TypeOf
from onnx_workbench.model.ir.graph import Graph, Value
from onnx_workbench.model.ir.types import Type
from onnx_workbench.model.progress import SILENT
from onnx_workbench.model.text.formatting import plural
from onnx_workbench.viewer.canvas.layout import Direction, Layout
from onnx_workbench.viewer.canvas.open_parts import OpenParts
from onnx_workbench.viewer.canvas.paint.surface import Surface
from onnx_workbench.viewer.canvas.picker import Picker
from onnx_workbench.viewer.canvas.scene.drawing import Drawing, DrawingOptions
from onnx_workbench.viewer.canvas.scene.scene import Scene
from onnx_workbench.viewer.canvas.scene_builder import SceneBuilder, SceneRequest, is_quick, nearest_box, place
from onnx_workbench.viewer.canvas.scene_updater import SceneUpdater
from onnx_workbench.viewer.canvas.view_state import GraphViewState, ViewPosition
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
from onnx_workbench.viewer.tasks.tasks import Task
from onnx_workbench.viewer.tasks.threads import Work

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

    pinned: ViewPosition | None = None  # from which the view is to keep its distance to a box, unless it moves
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
        self._task: Task[Scene] | None = None  # that builds the newest scene
        self._notice = ""
        self._builder = SceneBuilder(context, surface.fonts, self.type_of)
        self._updater = SceneUpdater(self, self._builder, surface, context)
        context.tasks.progressed.connect(self._on_progress)
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
        return self._task is not None or self._updater.is_due

    @property
    def notice(self) -> str:
        """Notice about a scene that is being built or was stopped; empty if there is none."""
        return self._notice

    def type_of(self, value: Value) -> Type | None:
        """Return the type shown for a value: from the provider (see `set_types`), else the declared one."""
        return (self._types(value) if self._types is not None else None) or value.type

    def set_types(self, type_of: TypeOf | None) -> None:
        """Set a provider of types, such as shape inference or a run; call again when they changed."""
        self._types = type_of
        was_fitted, was_untouched = self._surface.is_fitted, self.is_untouched
        if not self._updater.retype():
            self._pending.types = True  # pills drawn meanwhile may show old types
        elif self.is_busy:
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
        self._build(previous, keeps_ranks=keeps_ranks)

    def reload(self, *, fit: bool = False) -> None:
        """Draw the graph again; the middle of the view and the selection keep their positions."""
        self.pin_position()
        self.load(fit=fit)

    def relayout(self) -> None:
        """Lay out from scratch."""
        self._pending.pinned = self._position_to_pin()
        self._build(None)

    def _build(self, previous: Layout | None, *, keeps_ranks: bool = True) -> None:
        """Draw the graph and lay it out, from a previous layout if there is one."""
        state, graph = self.state, self._graph
        around = self._surface.middle if self._surface.scene is not None else None
        request = SceneRequest(
            graph, self.options, frozenset(state.expanded), state.is_new, previous, keeps_ranks, around
        )
        notice = f"Drawing {plural(len(graph.nodes), 'node')} …"
        self._start(self._builder.work(request), notice, at_once=self._builder.is_small(request))

    def lay_out(self, drawing: Drawing, previous: Layout, resized: int = 0) -> None:
        """Lay out a drawing that an edit changed. `resized`: number of boxes whose size may differ from before."""
        work = partial(place, drawing, previous, around=self._surface.middle)
        notice = f"Laying out {plural(len(drawing.boxes), 'node')} …"
        self._start(work, notice, at_once=is_quick(drawing, previous, resized))

    def _start(self, work: Work[Scene], notice: str, *, at_once: bool) -> None:
        """Build and show a scene, now or in a task; it replaces one that is being built."""
        replaced, self._task = self._task, None
        if replaced is not None:
            replaced.cancel()
        if at_once:
            self._show_scene(work(SILENT))
            return
        self._set_notice(notice)
        task = self._task = self._context.tasks.start(
            "Laying out the graph", work, done=self._show_scene, finished=lambda: self._on_finished(task)
        )

    def _on_progress(self, task: Task[Any]) -> None:
        if task is self._task and task.text:
            self._set_notice(task.text)

    def _on_finished(self, task: Task[Scene]) -> None:
        if self._task is task:
            self._task = None
            self._set_notice("The layout was stopped. Press L to lay the graph out again.")

    def _set_notice(self, notice: str) -> None:
        if notice != self._notice:
            self._notice = notice
            self._surface.update()

    def pin_position(self, box: int | None = None) -> None:
        """Keep the position of a box (or else of the selection or the middle of the view) in the next scene."""
        if box is not None:
            self._pending.pinned = self._position_beside(box)
        else:
            self._pending.pinned = self._pending.pinned or self._position_to_pin()

    # -- the position in a new scene -------------------------------------------------------------------------

    def _show_scene(self, scene: Scene) -> None:
        self._task = None
        self._set_notice("")
        surface, state = self._surface, self.state
        is_first = surface.scene is None
        state.expanded |= scene.drawing.expanded
        state.is_new = state.is_new and not scene.drawing.grouped
        pending, self._pending = self._pending, _Pending()
        if pending.pinned is not None and not pending.pinned.is_seen(surface.zoom, surface.middle):
            pending.pinned = self._position_to_pin()  # the user navigated elsewhere meanwhile
        surface.set_scene(scene)
        if is_first:
            self.restore_position()
        elif pending.fit:
            self._show_whole_or_beginning()
        elif pending.whole and surface.is_fitted:
            surface.fit()
        elif pending.pinned is not None:
            self._return_to(scene, pending.pinned)
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

    def _position_to_pin(self) -> ViewPosition | None:
        """Return the position of the view beside the selection if that is in view, else beside the nearest box."""
        scene = self._surface.scene
        if scene is None or not len(scene.rects):
            return None
        box, area = self._picker.current_box(), self._surface.viewport.area
        left, top, _, _ = scene.rect(box)
        if box < 0 or not (area[0] <= left <= area[2] and area[1] <= top <= area[3]):
            box = nearest_box(scene, *self._surface.middle)
        return self._position_beside(box)

    def _position_beside(self, box: int) -> ViewPosition:
        assert self._surface.scene is not None
        return ViewPosition.beside(self._surface.scene, box, self._surface.zoom, self._surface.middle)

    def _return_to(self, scene: Scene, position: ViewPosition) -> None:
        """Move the view as far as the box of a position has moved."""
        box = scene.drawing.box_with(position.key)
        if box < 0 and not len(scene.box_grid.in_rect(*self._surface.viewport.area)):
            box = nearest_box(scene, *position.place)  # everything that was in view was removed
        if box >= 0:
            self._surface.centre_on(*position.centre_beside(scene, box))
        else:
            self._surface.pan_by(0, 0)  # keeps the view within the new scene
