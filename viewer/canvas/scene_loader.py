"""Brings a graph onto the canvas: draws it up in chunks, lays it out in a task, and hands over the scene.

Small graphs are done at once. After an edit the layout starts from the one before, so that the rest stays in place.
"""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from PySide6.QtCore import QObject, QTimer, Signal

from onnx_workbench.model import schemas
from onnx_workbench.model.analysis.value_types import TypeOf
from onnx_workbench.model.ir.graph import Graph, Node, Value
from onnx_workbench.model.progress import SILENT, Progress
from onnx_workbench.viewer.canvas.layout import Layout, layout, relayout
from onnx_workbench.viewer.canvas.paint.fonts import Fonts
from onnx_workbench.viewer.canvas.scene.box_factory import BoxFactory
from onnx_workbench.viewer.canvas.scene.builder import DrawingBuilder, Ids
from onnx_workbench.viewer.canvas.scene.drawing import Drawing, DrawingOptions, Kind
from onnx_workbench.viewer.canvas.scene.patch_drawing import DrawingPatch, patch, patched, retyped
from onnx_workbench.viewer.canvas.scene.scene import Scene, request
from onnx_workbench.viewer.canvas.scene.update_drawing import restructured
from onnx_workbench.viewer.core.context import DocumentContext
from onnx_workbench.viewer.core.event_loop import CHUNK_SECONDS
from onnx_workbench.viewer.core.model_signals import ChangeSet, is_large
from onnx_workbench.viewer.core.tasks import Task
from onnx_workbench.viewer.style.formatting import plural

#: Up to so many boxes a layout takes less time than a person notices, and is not worth a thread.
AT_ONCE = 150

_LARGE = 20_000
_FEW_RESIZED = 16  # boxes: each costs a pass over all edges


@dataclass(frozen=True, eq=False)
class _Wanted:
    """Request of the next scene."""

    graph: Graph
    options: DrawingOptions
    expanded: Callable[[], Iterable[Hashable]]


class SceneLoader(QObject):
    """Makes scenes for one canvas; the newest request wins. GUI thread only."""

    scene_ready = Signal(object)  # Scene
    state_changed = Signal()

    def __init__(
        self, workspace: DocumentContext, fonts: Fonts, type_of: TypeOf, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._workspace = workspace
        self._fonts = fonts
        self._type_of = type_of
        self._ids = Ids()
        self._cards: BoxFactory | None = None
        self._steps: Iterator[None] | None = None
        self._builder: DrawingBuilder | None = None
        self._task: Task[Scene] | None = None
        self._layout: Layout | None = None  # the one a new layout may start from
        self._drawing = QTimer(self, interval=0)
        self._drawing.timeout.connect(self._go_on)
        self._waiting: _Wanted | None = None
        self.state = ""  # notice while there is no scene yet

    @property
    def is_busy(self) -> bool:
        """Return whether a scene is being made."""
        under_way = (self._steps, self._task, self._waiting)
        return self._workspace.grouping.is_searching or any(part is not None for part in under_way)

    def load(
        self,
        graph: Graph,
        options: DrawingOptions,
        expanded: Callable[[], Iterable[Hashable]],
        *,
        previous: Layout | None = None,
    ) -> None:
        """Draw a graph and lay it out; `scene_ready` follows, at once for a small one.

        `expanded` is called for the open groups once the groups are known.
        """
        self.stop()
        self._layout = previous
        wanted = self._waiting = _Wanted(graph, options, expanded)
        if not schemas.is_loaded():
            self._workspace.tasks.start(
                "Load operator signatures",
                lambda _progress: schemas.preload(),
                finished=lambda: self._find_groups(wanted),
            )
        else:
            self._find_groups(wanted)

    def _find_groups(self, wanted: _Wanted) -> None:
        if self._waiting is not wanted:
            return
        if wanted.options.are_grouped(wanted.graph):
            self._workspace.grouping.when_ready(wanted.graph, lambda: self._find_blocks(wanted))
        else:
            self._draw(wanted)

    def _find_blocks(self, wanted: _Wanted) -> None:
        if self._waiting is not wanted:
            return
        grouping, graph = self._workspace.grouping, wanted.graph
        asked = wanted.options.groups is True
        if grouping.prepare(graph, asked=asked, ready=lambda: grouping.when_ready(graph, lambda: self._draw(wanted))):
            self._set_state("Looking for blocks that repeat …")
        else:
            self._draw(wanted)

    def _draw(self, wanted: _Wanted) -> None:
        if self._waiting is not wanted:
            return
        self._waiting = None
        graph, options = wanted.graph, wanted.options
        if self._cards is None or self._cards.options != options:
            self._cards = BoxFactory(self._fonts, options)
        expanded = frozenset(wanted.expanded())
        tree_of = self._workspace.grouping.tree
        self._builder = DrawingBuilder(graph, options, expanded, self._ids, self._cards, self._type_of, tree_of)
        self._steps = self._builder.steps()
        self._set_state(f"Drawing {plural(len(graph.nodes), 'node')} …")
        self._go_on()
        if self._steps is not None:
            self._drawing.start()

    def stop(self) -> None:
        """Cancel the pending scene."""
        self._drawing.stop()
        self._steps = self._builder = self._waiting = None
        self._workspace.grouping.stop()
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def forget(self, nodes: Collection[Node], values: Collection[Value] = ()) -> None:
        """Invalidate the boxes of changed objects. Of very many all are, which takes no longer than one."""
        if self._cards is not None and is_large(nodes, values):
            self._cards = BoxFactory(self._fonts, self._cards.options)
        elif self._cards is not None:
            self._cards.forget(nodes)
            for node in nodes:
                if node.op_type == "Constant":
                    for output in node.outputs:
                        self._cards.forget(output.consumers if output is not None else ())
            for value in values:
                self._cards.forget(value.consumers)
                if value.producer is not None:
                    self._cards.forget([value.producer])
                    for output in value.producer.outputs:
                        self._cards.forget(output.consumers if output is not None else ())

    def patch(self, drawing: Drawing, touched: ChangeSet) -> DrawingPatch | None:
        """Return the changes to boxes of a drawing by an edit that `can_patch` allows; None if it has to be redrawn."""
        if self._cards is None or self._cards.options != drawing.options:
            return None
        return patch(drawing, touched, self._cards, self._type_of)

    def retyped(self, scene: Scene, indices: Iterable[int]) -> DrawingPatch | None:
        """Return the changes to pills of a scene by new types of values; None if it has to be redrawn."""
        if self._cards is None or self._cards.options != scene.drawing.options:
            return None
        return retyped(scene.drawing, indices, self._cards, self._type_of)

    def load_patched(self, scene: Scene, change: DrawingPatch) -> None:
        """Lay out what is drawn with some boxes of other sizes; `scene_ready` follows, at once for a small step."""
        self.load_drawing(patched(scene.drawing, change), scene.layout, len(change.boxes))

    def restructured(self, drawing: Drawing, touched: ChangeSet, options: DrawingOptions) -> Drawing | None:
        """The drawing after an edit of its structure, if that can be had by drawing only what the edit touched."""
        if self._cards is None or not self._cards.options == drawing.options == options:
            return None
        return restructured(drawing, touched, self._cards, self._ids, self._type_of)

    def load_drawing(self, drawing: Drawing, previous: Layout, resized: int = 0) -> None:
        """Lay out what is drawn already; `scene_ready` follows, at once for a small step.

        `resized` is how many boxes may have another size than in the layout before.
        """
        self.stop()
        self._layout = previous
        self._lay_out(drawing, resized)

    def _go_on(self) -> None:
        steps, builder = self._steps, self._builder
        if steps is None or builder is None:
            return
        end = time.perf_counter() + CHUNK_SECONDS
        for _ in steps:
            if time.perf_counter() > end:
                return
        self._drawing.stop()
        self._steps = self._builder = None
        self._lay_out(builder.drawing)

    def _lay_out(self, drawing: Drawing, resized: int = 0) -> None:
        previous = self._layout
        is_small_step = resized <= _FEW_RESIZED and _is_small_step(previous, len(drawing.boxes))
        if len(drawing.boxes) <= AT_ONCE or is_small_step:
            self._finish(place(drawing, previous))
            return
        self._set_state(f"Laying out {plural(len(drawing.boxes), 'node')} …")
        task = self._workspace.tasks.start(
            "Lay out graph",
            lambda progress: place(drawing, previous, progress),
            done=self._finish,
            finished=lambda: self._on_finished(task),
        )
        self._task = task

    def _on_finished(self, task: Task[Scene]) -> None:
        if self._task is task:
            self._task = None
            if task.cancelled:
                self._set_state("The layout was stopped. Press L to lay the graph out again.")

    def _finish(self, scene: Scene) -> None:
        self._task = None
        self._set_state("")
        self.scene_ready.emit(scene)

    def _set_state(self, state: str) -> None:
        if state != self.state:
            self.state = state
            self.state_changed.emit()


def place(drawing: Drawing, previous: Layout | None = None, progress: Progress = SILENT) -> Scene:
    """Lay out from scratch, or after a small change from the layout before. Any thread, while the model is
    unchanged.

    A large scene is returned with its lookup tables built, so that the GUI thread need not wait for them.
    """
    wanted = request(drawing)
    scene = Scene(drawing, layout(wanted, progress) if previous is None else relayout(previous, wanted, progress))
    if len(scene.boxes) > _LARGE:
        scene.prepare()
        _return_memory()
    return scene


def _return_memory() -> None:
    """Have the C library give back what a large layout left free: 200 MB at 100,000 nodes. glibc only."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


def _is_small_step(previous: Layout | None, boxes: int) -> bool:
    """Return whether the layout before leaves so little to do that the edit may show at once."""
    return previous is not None and abs(len(previous.positions) - boxes) <= 3 and boxes <= _LARGE


def concerns(drawing: Drawing, touched: ChangeSet) -> bool:
    """Return whether a change touched anything drawn: in the graph shown, in its bodies, or in a function expanded
    in it.
    """
    if touched.model or touched.removed:
        return True
    graphs: set[Graph | None] = set(touched.structure)
    graphs.update(node.graph for node in touched.nodes)
    graphs.update(value.graph for value in touched.values)
    roots = {graph.root for graph in drawing.graphs}
    return any(graph is None or graph.root in roots for graph in graphs)


def nearest_box(scene: Scene, x: float, y: float) -> int:
    """The box whose middle is nearest to a point, containers aside; -1 in an empty scene."""
    if not len(scene.rects):
        return -1
    middle = scene.rects[:, :2] + scene.rects[:, 2:] / 2
    distance = (middle[:, 0] - x) ** 2 + (middle[:, 1] - y) ** 2
    distance[scene.kinds == Kind.CONTAINER] = np.inf  # moves and grows with what lies in it
    return int(np.argmin(distance))
