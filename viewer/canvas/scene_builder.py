"""Builds scenes for the canvas: finds the groups of a graph, builds its drawing and lays it out.

After an edit the layout starts from the previous one, so that unchanged nodes keep their positions.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Hashable, Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np

from onnx_workbench.model import schemas
from onnx_workbench.model.analysis.folded_nodes import FoldedNodes, find_folded_nodes
from onnx_workbench.model.analysis.value_types import TypeOf
from onnx_workbench.model.ir.graph import Graph, Node, Value
from onnx_workbench.model.progress import SILENT, Progress
from onnx_workbench.model.text.formatting import plural
from onnx_workbench.viewer.canvas.layout import Layout, layout, relayout
from onnx_workbench.viewer.canvas.paint.fonts import Fonts
from onnx_workbench.viewer.canvas.scene.box_factory import BoxFactory
from onnx_workbench.viewer.canvas.scene.builder import DrawingBuilder, Ids, initial_expansion, inner_graphs
from onnx_workbench.viewer.canvas.scene.drawing import Drawing, DrawingOptions, Kind
from onnx_workbench.viewer.canvas.scene.patch_drawing import DrawingPatch, patch, retyped
from onnx_workbench.viewer.canvas.scene.scene import Scene, request
from onnx_workbench.viewer.canvas.scene.update_drawing import restructured
from onnx_workbench.viewer.document.context import DocumentContext
from onnx_workbench.viewer.document.model_signals import ChangeSet, is_large
from onnx_workbench.viewer.program.garbage_collection import return_memory
from onnx_workbench.viewer.tasks.event_loop import run_in_chunks
from onnx_workbench.viewer.tasks.readers import read_model
from onnx_workbench.viewer.tasks.threads import Work

#: Numbers of boxes and of edges up to which a layout takes less time than a user notices and needs no thread.
AT_ONCE = 150
_EDGES_AT_ONCE = 500

_LARGE = 20_000
_FEW_RESIZED = 16  # boxes: each costs a pass over all edges


@dataclass(frozen=True, eq=False)
class SceneRequest:
    """A graph to draw and lay out. `is_new`: the initially open groups are still to be determined.

    `keeps_ranks`: new nodes are placed beside or between existing ones, which takes milliseconds.
    """

    graph: Graph
    options: DrawingOptions
    expanded: frozenset[Hashable]
    is_new: bool
    previous: Layout | None = None  # start of the layout
    keeps_ranks: bool = True
    around: tuple[float, float] | None = None  # where new nodes without edges are wanted, in the previous layout


class SceneBuilder:
    """Builds the scenes of one canvas, and the drawings after edits; caches boxes and folded nodes.

    GUI thread only, but for the work that `work` returns.
    """

    def __init__(self, context: DocumentContext, fonts: Fonts, type_of: TypeOf) -> None:
        self._context = context
        self._fonts = fonts
        self._type_of = type_of
        self._ids = Ids()
        self._box_factory: BoxFactory | None = None
        self._folded: dict[tuple[Graph, bool, frozenset[str]], FoldedNodes] = {}  # cache for unchanged graphs

    def work(self, request: SceneRequest) -> Work[Scene]:
        """Return the work of a task that builds the scene of a graph; of a small one it may be called at once."""
        if self._box_factory is None or self._box_factory.options != request.options:
            self._box_factory = BoxFactory(self._fonts, request.options)
        return partial(self._make_scene, request, self._box_factory)

    def is_small(self, request: SceneRequest) -> bool:
        """Return whether building the scene takes less time than a user notices and needs no thread."""
        graph, is_grouped = request.graph, request.options.are_grouped(request.graph)
        inside = [key[1] for key in request.expanded if isinstance(key, tuple) and isinstance(key[1], Node)]
        graphs = [graph, *(g for node in inside for g in inner_graphs(node))]
        is_found = not is_grouped or self._context.grouping.is_found(graph, asked=request.options.groups is True)
        return (
            sum(len(g.nodes) for g in graphs) <= AT_ONCE and _has_few_edges(graphs) and is_found and schemas.is_loaded()
        )

    def _make_scene(self, request: SceneRequest, cards: BoxFactory, progress: Progress) -> Scene:
        """Find the groups of a graph, draw it and lay it out."""
        schemas.preload()
        expanded = read_model(partial(self._find_groups, request), progress)
        builder = run_in_chunks(self._draw(request, expanded, cards), progress)
        drawing = builder.drawing
        progress.report(0, 0, f"Laying out {plural(len(drawing.boxes), 'node')} …")
        return place(drawing, request.previous, progress, request.around, keeps_ranks=request.keeps_ranks)

    def _find_groups(self, request: SceneRequest, progress: Progress) -> frozenset[Hashable]:
        """Find the groups and folded nodes of a graph, and return the open groups. Reads the model."""
        graph, options, grouping = request.graph, request.options, self._context.grouping
        if options.folds:
            self.folded_nodes(options, graph, progress)
        if not options.are_grouped(graph):
            return request.expanded
        tree = grouping.find(graph, progress, asked=options.groups is True)
        return request.expanded | initial_expansion(tree) if request.is_new else request.expanded

    def folded_nodes(self, options: DrawingOptions, graph: Graph, progress: Progress = SILENT) -> FoldedNodes:
        """Return the nodes of a graph that are folded into tags. Reads the model; any thread."""
        key = (graph, options.fold_nodes, options.kinds)
        folded = self._folded.get(key)
        if folded is None:
            folded = find_folded_nodes(graph, progress, options.kinds, helpers=options.fold_nodes)
            self._folded[key] = folded
        return folded

    def _draw(
        self, request: SceneRequest, expanded: frozenset[Hashable], cards: BoxFactory
    ) -> Generator[None, None, DrawingBuilder]:
        """Draw a graph, pausing every few milliseconds. On the GUI thread, as texts are measured."""
        builder = DrawingBuilder(
            request.graph, request.options, expanded, self._ids, cards, self._type_of,
            self._context.grouping.tree, partial(self.folded_nodes, request.options),
        )  # fmt: skip
        yield from builder.steps()
        return builder

    def forget(self, nodes: Collection[Node], values: Collection[Value]) -> None:
        """Invalidate the boxes of changed objects; for very many, all boxes, which is quicker."""
        self._folded.clear()
        if self._box_factory is not None and is_large(nodes, values):
            self._box_factory = BoxFactory(self._fonts, self._box_factory.options)
        elif self._box_factory is not None:
            self._box_factory.forget(nodes)
            for node in nodes:
                if node.op_type == "Constant":
                    for output in node.outputs:
                        self._box_factory.forget(output.consumers if output is not None else ())
            for value in values:
                self._box_factory.forget(value.consumers)
                if value.producer is not None:
                    self._box_factory.forget([value.producer])
                    for output in value.producer.outputs:
                        self._box_factory.forget(output.consumers if output is not None else ())

    def patch(self, drawing: Drawing, touched: ChangeSet) -> DrawingPatch | None:
        """Return the changes to boxes of a drawing after an edit for which `can_patch` holds; None: redraw it."""
        if self._box_factory is None or self._box_factory.options != drawing.options:
            return None
        return patch(drawing, touched, self._box_factory, self._type_of)

    def retyped(self, scene: Scene, indices: Iterable[int]) -> DrawingPatch | None:
        """Return the changes to pills of a scene after new types of values; None if it must be redrawn."""
        if self._box_factory is None or self._box_factory.options != scene.drawing.options:
            return None
        return retyped(scene.drawing, indices, self._box_factory, self._type_of)

    def restructured(self, drawing: Drawing, touched: ChangeSet, options: DrawingOptions) -> Drawing | None:
        """Return the drawing after an edit of its structure, redrawing only what it touched; None if impossible."""
        if self._box_factory is None or not self._box_factory.options == drawing.options == options:
            return None
        return restructured(drawing, touched, self._box_factory, self._ids, self._type_of)


def place(
    drawing: Drawing,
    previous: Layout | None = None,
    progress: Progress = SILENT,
    around: tuple[float, float] | None = None,
    *,
    keeps_ranks: bool = True,
) -> Scene:
    """Lay out a drawing, from scratch or from a previous layout. Any thread, while the model is unchanged.

    The lookup tables of a large scene are built here, so that the GUI thread need not wait for them.
    """
    wanted = request(drawing)
    if previous is None or not keeps_ranks:
        placed = layout(wanted, progress, previous)
    else:
        placed = relayout(previous, wanted, progress, around)
    scene = Scene(drawing, placed)
    if len(scene.boxes) > _LARGE:
        scene.prepare()
        return_memory()  # 200 MB at 100,000 nodes
    return scene


def _has_few_edges(graphs: Iterable[Graph]) -> bool:
    """Return whether a few graphs of few nodes have so few inputs and outputs that they are laid out at once."""
    ends = sum(len(graph.inputs) + sum(len(node.inputs) for node in graph.nodes) for graph in graphs)
    return ends <= _EDGES_AT_ONCE


def is_quick(drawing: Drawing, previous: Layout, resized: int) -> bool:
    """Return whether a drawing, of which so many boxes were resized, is laid out in less time than a user notices."""
    boxes = len(drawing.boxes)
    is_small_step = abs(len(previous.positions) - boxes) <= 3 and boxes <= _LARGE
    return (boxes <= AT_ONCE and len(drawing.edges) <= _EDGES_AT_ONCE) or (resized <= _FEW_RESIZED and is_small_step)


def concerns(drawing: Drawing, touched: ChangeSet) -> bool:
    """Return whether a change touched anything drawn: in the shown graph, its bodies, or a function open in it."""
    if touched.model or touched.removed:
        return True
    graphs: set[Graph | None] = set(touched.structure)
    graphs.update(node.graph for node in touched.nodes)
    graphs.update(value.graph for value in touched.values)
    roots = {graph.root for graph in drawing.graphs}
    return any(graph is None or graph.root in roots for graph in graphs)


def nearest_box(scene: Scene, x: float, y: float) -> int:
    """Return the box whose middle is nearest to a point, containers aside; -1 in an empty scene."""
    if not len(scene.rects):
        return -1
    middle = scene.rects[:, :2] + scene.rects[:, 2:] / 2
    distance = (middle[:, 0] - x) ** 2 + (middle[:, 1] - y) ** 2
    distance[scene.kinds == Kind.CONTAINER] = np.inf  # containers move and grow with their content
    return int(np.argmin(distance))
