"""Opening and closing of groups, bodies and functions in place, and of nodes folded into tags."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from itertools import islice

import numpy as np

from onnx_workbench.model.analysis.folded_nodes import FoldedNodes
from onnx_workbench.model.ir.graph import Graph, Node, Value
from onnx_workbench.viewer.canvas.paint.surface import Surface
from onnx_workbench.viewer.canvas.scene.builder import tag_key
from onnx_workbench.viewer.canvas.scene.drawing import Box, Kind
from onnx_workbench.viewer.canvas.scene.node_text import FoldTag
from onnx_workbench.viewer.canvas.scene.scene import Scene
from onnx_workbench.viewer.canvas.scene_controller import SceneController
from onnx_workbench.viewer.document.grouping import Grouping
from onnx_workbench.viewer.document.selection import Item

_MOST_USES = 50
_BORDER = 8.0  # pixels around the box that is scrolled to


class NodeExpansion:
    """Expands and collapses groups, bodies and functions, and requests a new scene. GUI thread only."""

    def __init__(self, surface: Surface, scenes: SceneController, grouping: Grouping) -> None:
        self._surface = surface
        self._scenes = scenes
        self._grouping = grouping
        self._expanding: Graph | None = None  # all groups of this graph are opened once they are computed
        self._pending: Callable[[Scene], object] | None = None  # scrolls to what was opened, in the next scene
        grouping.regrouped.connect(self._on_regrouped)
        scenes.scene_shown.connect(self._on_scene)

    @property
    def is_grouped(self) -> bool:
        """Whether groups are drawn."""
        return self._surface.scene is not None and self._surface.scene.drawing.has_groups

    def set_grouped(self, groups: bool | None) -> None:
        """Set whether groups (name scopes, or else repeated blocks) are drawn; None: by the settings."""
        self._scenes.state.groups = groups
        self._scenes.load(fit=True)

    def expand(self, box: int) -> None:
        """Open a group, body or function in place."""
        self._set_expanded(box, is_open=True)

    def collapse(self, box: int) -> None:
        """Close an opened group, body or function."""
        self._set_expanded(box, is_open=False)

    def toggle(self, box: int) -> None:
        """Open or close a box if it can be."""
        buttons = self._surface.scene.boxes[box].buttons if self._surface.scene is not None and box >= 0 else ()
        if "+" in buttons:
            self.expand(box)
        elif "−" in buttons:
            self.collapse(box)
        else:
            self.toggle_tags(box)

    def toggle_tag(self, box: int, tag: FoldTag) -> None:
        """Draw the nodes folded into a tag, or fold them again."""
        self._set_tags(box, (tag,), is_open=not tag.is_open)

    def toggle_tags(self, box: int) -> None:
        """Draw the nodes folded into the tags of a box, or fold all of them again."""
        tags = self._surface.scene.boxes[box].tags if self._surface.scene is not None and box >= 0 else ()
        if tags:
            self._set_tags(box, tags, is_open=not all(tag.is_open for tag in tags))

    def _set_tags(self, box: int, tags: Iterable[FoldTag], *, is_open: bool) -> None:
        scene, expanded = self._surface.scene, self._scenes.state.expanded
        assert scene is not None
        user = scene.boxes[box].subject
        self._pending = None
        for tag in tags:
            (expanded.add if is_open else expanded.discard)(tag_key(scene.boxes[box], tag.purpose))
            if is_open and isinstance(user, Node):
                self._pending = partial(self._show_unfolded, scene.drawing.hidden.behind(user, tag.purpose, 1))
        self._scenes.pin_position(box)
        self._scenes.load(keeps_ranks=False)

    def _on_scene(self) -> None:
        show, self._pending = self._pending, None
        if show is not None and self._surface.scene is not None:
            show(self._surface.scene)

    def _show_unfolded(self, nodes: Sequence[Node], scene: Scene) -> None:
        """Scroll to the nearest unfolded node, so that the click has a visible effect."""
        area = scene.bounds_of(scene.drawing.boxes_of_nodes(nodes)[:1])
        if area is not None:
            self._surface.show_area(area, _BORDER)

    def _show_opened(self, key: Hashable, scene: Scene) -> None:
        """Scroll to an opened box: to all of it if it fits into the view, else to its header and first row."""
        viewport, box = self._surface.viewport, scene.drawing.box_with(key)
        if box < 0:
            return
        row = _first_row(scene, box)
        across = 0 if scene.drawing.options.direction == "down" else 1
        middle = scene.rects[:, across] + scene.rects[:, across + 2] / 2
        nearest = min(row, key=lambda one: abs(float(middle[one]) - self._surface.middle[across]), default=box)
        areas = [area for boxes in ([box], row, [nearest]) if (area := scene.bounds_of(boxes)) is not None]
        fitting = (area for area in areas if viewport.fitting(area, _BORDER) >= viewport.scale)
        self._surface.show_area(next(fitting, areas[-1]), _BORDER)

    def _set_expanded(self, box: int, *, is_open: bool) -> None:
        scene, expanded = self._surface.scene, self._scenes.state.expanded
        assert scene is not None
        self._pending = partial(self._show_opened, scene.boxes[box].key) if is_open else None
        (expanded.add if is_open else expanded.discard)(scene.boxes[box].key)
        self._surface.show_area(scene.bounds_of([box]) or scene.bounds)
        self._scenes.pin_position(box)
        self._scenes.load()

    def expand_all(self) -> None:
        """Open every group of this graph, as soon as its groups are computed."""
        graph = self._scenes.graph
        if self._grouping.is_ready(graph):
            self._expand_all(graph)
        else:
            self._expanding = graph
            self._grouping.prepare(graph)

    def _on_regrouped(self, graph: Graph) -> None:
        if graph is self._expanding:
            self._expanding = None
            self._expand_all(graph)

    def _expand_all(self, graph: Graph) -> None:
        tree, state = self._grouping.tree(graph), self._scenes.state
        if graph is self._scenes.graph and tree.root.children:
            state.groups, state.is_new = True, False
            state.expanded |= {((), scope.path) for scope in tree.root.walk() if scope is not tree.root}
            self._scenes.reload()

    def collapse_all(self) -> None:
        """Close all groups, so that the graph shows the outermost ones."""
        state = self._scenes.state
        state.groups, state.is_new = True, False
        state.expanded.clear()
        self._scenes.reload(fit=True)

    def open_around(self, item: Item) -> bool:
        """Mark the closed groups and tags that hide an object as open; return whether there are any.

        If so, a new scene must be loaded.
        """
        scene = self._surface.scene
        node = item.producer if isinstance(item, Value) else item
        if scene is None:
            return False
        if isinstance(item, Value) and any(
            scene.boxes[box].kind is Kind.OUTPUT for box in scene.drawing.boxes_of(item)
        ):
            return False  # visible as an output, even if its producer is hidden
        hidden = scene.drawing.hidden
        node = _behind_tag(item, hidden) or node
        if not isinstance(node, Node):
            return False
        is_drawn = any(scene.boxes[box].subject is node for box in scene.drawing.boxes_of(node))
        if node in hidden and not is_drawn:  # both drawn and folded in a function that is open twice
            return self._open_tags(scene, node)
        return self._open_groups(scene, node)

    def _open_tags(self, scene: Scene, node: Node) -> bool:
        """Open the tag that a node is folded into, or the groups around the node with the tag."""
        hidden = scene.drawing.hidden
        user = hidden.users[node]
        boxes = scene.drawing.boxes_of(user)
        if not boxes or scene.boxes[boxes[0]].subject is not user:
            return self._open_groups(scene, user)
        expanded, box = self._scenes.state.expanded, scene.boxes[boxes[0]]
        purposes = [purpose for purpose in hidden.purposes(user) if node in hidden.behind(user, purpose)]
        closed = {tag_key(box, purpose) for purpose in purposes} - expanded
        expanded |= closed
        return bool(closed)

    def _open_groups(self, scene: Scene, node: Node) -> bool:
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


def _first_row(scene: Scene, box: int) -> list[int]:
    """Return the boxes in the first rank inside a container, or inside the containers in that rank."""
    parents, ranks = scene.drawing.parents, scene.layout.ranks
    row, pending = [], [box]
    for container in pending:  # grows
        inside = np.flatnonzero(parents == container)
        first = inside[ranks[inside] == ranks[inside].min(initial=0x7FFFFFFF)].tolist()
        pending += [inner for inner in first if scene.kinds[inner] == Kind.CONTAINER]
        row += [inner for inner in first if scene.kinds[inner] != Kind.CONTAINER]
    return row


def _behind_tag(item: Item, hidden: FoldedNodes) -> Node | None:
    """Return the folded node that is the only user of an initializer or Constant, which is then hidden with it."""
    value = item
    if isinstance(item, Node) and item.op_type == "Constant":
        value = next((output for output in item.outputs if output is not None), item)
    if not isinstance(value, Value) or not hidden.users:
        return None
    is_constant = value.initializer is not None or (value.producer is not None and value.producer.op_type == "Constant")
    users = [user for user, _ in islice(value.uses, _MOST_USES)] if is_constant else []
    first = users[0] if users else None
    return first if isinstance(first, Node) and all(user in hidden for user in users) else None
