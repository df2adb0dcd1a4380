"""Opening and closing groups, bodies and functions in place."""

from __future__ import annotations

from onnx_workbench.model.ir.graph import Graph, Node, Value
from onnx_workbench.viewer.canvas.paint.surface import Surface
from onnx_workbench.viewer.canvas.scene.drawing import Box, Kind
from onnx_workbench.viewer.canvas.scene_controller import SceneController
from onnx_workbench.viewer.core.grouping import Grouping
from onnx_workbench.viewer.core.selection import Item


class NodeExpansion:
    """Opens and closes what is drawn as one box, and has the scene made anew. GUI thread only."""

    def __init__(self, surface: Surface, scenes: SceneController, grouping: Grouping) -> None:
        self._surface = surface
        self._scenes = scenes
        self._grouping = grouping

    @property
    def is_grouped(self) -> bool:
        """Return whether groups are drawn."""
        return self._surface.scene is not None and self._surface.scene.drawing.has_groups

    def set_grouped(self, groups: bool | None) -> None:
        """Draw groups (name scopes, or else repeated blocks), or not; None: as the settings say."""
        self._scenes.state.groups = groups
        self._scenes.load(fit=True)

    def expand(self, box: int) -> None:
        """Open a group, body or function in place."""
        self._set_expanded(box, is_open=True)

    def collapse(self, box: int) -> None:
        """Close an opened group, body or function."""
        self._set_expanded(box, is_open=False)

    def toggle(self, box: int) -> None:
        """Open or close a box, where it can be."""
        buttons = self._surface.scene.boxes[box].buttons if self._surface.scene is not None and box >= 0 else ()
        if "+" in buttons:
            self.expand(box)
        elif "−" in buttons:
            self.collapse(box)

    def _set_expanded(self, box: int, *, is_open: bool) -> None:
        scene, expanded = self._surface.scene, self._scenes.state.expanded
        assert scene is not None
        (expanded.add if is_open else expanded.discard)(scene.boxes[box].key)
        self._surface.show_area(scene.bounds_of([box]) or scene.bounds)
        self._scenes.keep_position(box)
        self._scenes.load()

    def expand_all(self) -> None:
        """Open every group of this graph, as soon as its groups are known."""
        graph = self._scenes.graph
        self._grouping.when_ready(graph, lambda: self._expand_all(graph))

    def _expand_all(self, graph: Graph) -> None:
        tree, state = self._grouping.tree(graph), self._scenes.state
        if graph is self._scenes.graph and tree.root.children:
            state.groups, state.is_new = True, False
            state.expanded |= {((), scope.path) for scope in tree.root.walk() if scope is not tree.root}
            self._scenes.reload()

    def collapse_all(self) -> None:
        """Close all groups but the outermost few, so that the graph reads as its blocks."""
        state = self._scenes.state
        state.groups = state.is_new = True
        state.expanded.clear()
        self._scenes.reload(fit=True)

    def open_around(self, item: Item) -> bool:
        """Record the closed groups an object lies in as open; return whether there are any: a new scene is due."""
        scene = self._surface.scene
        node = item.producer if isinstance(item, Value) else item
        if scene is None or not isinstance(node, Node):
            return False
        boxes = scene.drawing.boxes_of(node)
        if not boxes and node.op_type == "Constant":  # a row of its consumers, which are in a closed group
            node = next((user for value in node.outputs if value is not None for user in value.consumers), node)
            boxes = scene.drawing.boxes_of(node)
        match node.graph, scene.boxes[boxes[0]] if boxes else None:
            case Graph() as graph, Box(kind=Kind.GROUP, key=(instance, _)):
                scope = self._grouping.tree(graph).of.get(node)
                while scope is not None and scope.path:
                    self._scenes.state.expanded.add((instance, scope.path))
                    scope = scope.parent
                return True
        return False
