"""Builder of a graph's drawing: its boxes with their texts and sizes, and the edges between them.

    drawing = build(graph, options, expanded, ids, measure)          # at once
    for _ in (builder := Builder(...)).steps(): ...                  # or in chunks of some milliseconds

Reads the model, so on the thread that owns it. About 15 µs a node, half of it when the cards are cached.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from onnx_workbench.model.analysis.folded_nodes import (
    NOTHING_FOLDED,
    FoldedNodes,
    Purpose,
    find_folded_nodes,
)
from onnx_workbench.model.analysis.groups import scope_tree
from onnx_workbench.model.analysis.name_scopes import AT_A_GLANCE, Scope, ScopeTree
from onnx_workbench.model.analysis.topology import outer_values
from onnx_workbench.model.analysis.value_types import TypeOf, declared_type
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, Value
from onnx_workbench.model.schemas import traits
from onnx_workbench.viewer.canvas.paint.fonts import canvas_fonts
from onnx_workbench.viewer.canvas.scene.box_factory import BoxFactory
from onnx_workbench.viewer.canvas.scene.drawing import (
    Box,
    Button,
    Drawing,
    DrawingOptions,
    Kind,
    TextMeasure,
)
from onnx_workbench.viewer.canvas.scene.node_text import MOST_FOLDED, FoldTag
from onnx_workbench.viewer.style.labels import name_of

#: Limit for the boxes of a drawing; further parts stay closed. Guards against recursive functions.
MOST_BOXES = 400_000

# What a graph shows at first.
_HARDLY_ANY, _LEAST_BOXES, _FEW_BOXES = 2, 5, 24
_NEARLY_ALL, _HALF = 0.9, 0.5  # shares of all nodes in a group: the first says nothing about them

_SLICE = 400
_MOST_EDGES = 2_000  # limit for the edges drawn to one node


class Ids:
    """Numbers of keys, stable for the lifetime of the view, by which a layout matches boxes."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}

    def __getitem__(self, key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers))


@dataclass(slots=True, eq=False)
class _Level:
    """One graph in the drawing: the shown graph, or the content of an expanded subgraph or function."""

    graph: Graph
    instance: Hashable  # () for the shown graph; distinguishes the expansions of a function
    container: int  # box index, -1 for the shown graph
    outer: _Level | None  # for values of outer graphs; None inside a function
    tree: ScopeTree | None
    hidden: FoldedNodes  # nodes folded into tags
    sources: dict[Value, int] = field(default_factory=dict)
    places: dict[Scope, tuple[int, bool]] = field(default_factory=dict)  # box, and whether it is open
    boxes: dict[Node, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class EdgeList:
    """Edges in the form of a Drawing."""

    edges: NDArray[np.int32]
    values: list[Value]
    multiplicity: NDArray[np.int32]
    dashed: NDArray[np.bool_]
    source_ports: NDArray[np.float32]
    target_ports: NDArray[np.float32]


class DrawingBuilder:
    """Builder of the drawing of one graph.

    `expanded` are the keys of open groups, bodies and functions, and of tags whose nodes are drawn; `tree_of` returns
    the groups of a graph, `folds_of` the nodes folded into tags.
    """

    def __init__(
        self,
        graph: Graph,
        options: DrawingOptions,
        expanded: Collection[Hashable],
        ids: Ids,
        cards: BoxFactory,
        type_of: TypeOf,
        tree_of: Callable[[Graph], ScopeTree] = scope_tree,
        folds_of: Callable[[Graph], FoldedNodes] = find_folded_nodes,
    ) -> None:
        self._options = options
        self._expanded = expanded
        self._ids = ids
        self._box_factory = cards
        self._type_of = type_of
        self._boxes: list[Box] = []
        self._box_ids = array("q")
        self._edges = array("i")  # source, target, source, target …
        self._values: list[Value] = []
        self._multiplicity = array("i")
        self._dashed = array("b")
        self._outputs = array("i")  # of each edge's source: output, number of outputs, output …
        self._inputs = array("i")  # of each edge's target: input, number of inputs (0: any place) …
        self._sides = array("d")  # of each edge: length of the sides of its boxes, source, target, source …
        self._merged: dict[tuple[int, int], int] = {}
        self._also: list[tuple[Value, int]] = []
        self._folded: dict[Node, int] = {}
        self._functions: dict[tuple[str, str, str], Function] = {}
        model = graph.model
        if model is not None:
            self._functions = {function.key: function for function in model.functions}
        self._tree_of = tree_of
        self._folds_of = folds_of
        self._unfolded = _unfolded(expanded)
        self._hidden: dict[Node, Node] = {}
        self._passed: set[Node] = set()  # those through which edges lead
        self._behind: set[tuple[Value, int]] = set()  # edges to nodes folded into tags
        self._drawn_elsewhere: dict[Value, bool] = {}
        self._grouped = options.are_grouped(graph)
        self._root = self._level(graph, (), -1, None)
        self._levels = [self._root]

    def steps(self) -> Iterator[None]:
        """Build the drawing, yielding every few milliseconds; afterwards `drawing` is available."""
        levels = self._levels = [self._root]
        for level in levels:  # nested levels are appended during the loop
            for inner in self._draw_nodes(level):
                if inner is None:
                    yield
                else:
                    levels.append(inner)
        for level in levels:
            yield from self._draw_edges(level)

    @property
    def drawing(self) -> Drawing:
        """The finished drawing."""
        wires = self._wires()
        return Drawing(
            graph=self._root.graph,
            options=self._options,
            boxes=self._boxes,
            edges=wires.edges,
            values=wires.values,
            multiplicity=wires.multiplicity,
            dashed=wires.dashed,
            source_ports=wires.source_ports,
            target_ports=wires.target_ports,
            box_ids=np.array(self._box_ids),
            graphs=tuple(level.graph for level in self._levels),
            expanded=frozenset(self._expanded),
            grouped=self._grouped,
            has_groups=self._root.tree is not None and bool(self._root.tree.root.children),
            folded=self._folded,
            hidden=FoldedNodes(self._hidden, self._passed) if self._hidden else NOTHING_FOLDED,
            also=self._also,
        )

    def _level(self, graph: Graph, instance: Hashable, container: int, outer: _Level | None) -> _Level:
        folds = self._folds_of(graph) if self._options.folds else NOTHING_FOLDED
        if instance in self._unfolded:
            shown = {node for user, purpose in self._unfolded[instance] for node in folds.behind(user, purpose)}
            folds = folds.without(shown)
        self._hidden.update(folds.users)
        self._passed.update(folds.passed)
        return _Level(graph, instance, container, outer, self._tree_of(graph) if self._grouped else None, folds)

    def amend(
        self, boxes: list[Box], nodes: Mapping[Node, list[int]], boxes_of: Callable[[object], list[int]]
    ) -> EdgeList:
        """Redraw some nodes of the shown graph among its existing boxes; return the edges that end at them.

        Their cards are stored in `boxes`: appended, or at their old indices in `nodes`.
        """
        level, self._boxes = self._root, boxes
        for node, numbers in nodes.items():
            if numbers:
                old = boxes[numbers[0]]
                boxes[numbers[0]] = self._box_factory.node(node, old.key, old.parent, old.buttons, old.tags)
                level.boxes[node] = numbers[0]
                self._claim(level, node, numbers[0])
            else:
                for _ in self._draw_node(level, node, -1):
                    pass
        for node in nodes:
            for value in node.inputs:
                if value is not None and value not in level.sources and value.producer not in level.hidden:
                    level.sources.update((value, box) for box in boxes_of(value.producer or value)[:1])
        for node in nodes:
            self._draw_edges_to(level, node, level.boxes[node])
        return self._wires()

    def _wires(self) -> EdgeList:
        sides = np.array(self._sides).reshape(-1, 2)
        return EdgeList(
            edges=np.array(self._edges).reshape(-1, 2),
            values=self._values,
            multiplicity=np.array(self._multiplicity),
            dashed=np.array(self._dashed, bool),
            source_ports=_ports(self._outputs, sides[:, 0]),
            target_ports=_ports(self._inputs, sides[:, 1]),
        )

    # -- boxes -----------------------------------------------------------------------------------------------

    def _add(self, box: Box) -> int:
        self._boxes.append(box)
        self._box_ids.append(self._ids[box.key])
        return len(self._boxes) - 1

    def _draw_nodes(self, level: _Level) -> Iterator[_Level | None]:
        for count, value in enumerate(level.graph.inputs):
            if not count % _SLICE:
                yield None
            if value.initializer is None:
                key = (level.instance, value)
                level.sources[value] = self._add(
                    self._box_factory.pill(Kind.INPUT, value, key, level.container, self._type_of(value))
                )
        for count, node in enumerate(level.graph.nodes):
            if not count % _SLICE:
                yield None
            if node in level.hidden or self._is_folded(node) or self._is_behind_tag(level, node):
                continue
            place, is_open = self._place(level, node)
            if not is_open:
                self._folded[node] = place
                level.boxes[node] = place
                self._claim(level, node, place)
                continue
            yield from self._draw_node(level, node, place)
        for count, (node, user) in enumerate(level.hidden.users.items()):
            if not count % _SLICE:
                yield None
            self._hide(level, node, level.boxes[user])

    def _hide(self, level: _Level, node: Node, box: int) -> None:
        """Fold a node into a tag of a box, with the Constants that only such nodes use."""
        self._folded[node] = level.boxes[node] = box
        for value in node.inputs:
            producer = value.producer if value is not None else None
            if producer is not None and producer.op_type == "Constant" and producer not in level.boxes:
                self._folded.setdefault(producer, box)

    def _is_behind_tag(self, level: _Level, node: Node) -> bool:
        """Return whether a Constant is used only by nodes folded into tags."""
        if node.op_type != "Constant" or node.domain or not level.hidden.users:
            return False
        uses = [user for value in node.outputs if value is not None for user, _ in value.uses]
        return bool(uses) and all(user in level.hidden for user in uses)

    def _tags(self, level: _Level, node: Node) -> tuple[FoldTag, ...]:
        if not self._options.folds:
            return ()
        hidden = level.hidden
        tags = [
            FoldTag(purpose, len(hidden.behind(node, purpose, MOST_FOLDED + 1)), is_open=False)
            for purpose in hidden.purposes(node)
        ]
        if level.instance in self._unfolded:
            folds = self._folds_of(level.graph)
            tags += [
                FoldTag(purpose, len(folds.behind(node, purpose, MOST_FOLDED + 1)), is_open=True)
                for user, purpose in self._unfolded[level.instance]
                if user is node and purpose in folds.purposes(node)
            ]
        return tuple(tags)

    def _draw_node(self, level: _Level, node: Node, parent: int) -> Iterator[_Level]:
        key = (level.instance, node)
        bodies = node.bodies
        function = self._functions.get(node.operator) if self._functions else None
        if key in self._expanded and (bodies or function is not None) and len(self._boxes) < MOST_BOXES:
            graphs = bodies or ((function.body,) if function is not None else ())
            index = self._add(self._box_factory.container(node, key, parent, buttons=_container_buttons(bodies)))
            for graph in graphs:
                yield self._open(level, node, graph, index, alone=len(graphs) == 1)
        else:
            buttons = _node_buttons(bodies, function)
            index = self._add(self._box_factory.node(node, key, parent, buttons, self._tags(level, node)))
        level.boxes[node] = index
        self._claim(level, node, index)
        for value in node.inputs:
            if value is not None and value.producer is not None and self._is_folded(value.producer):
                self._folded[value.producer] = index

    def _open(self, level: _Level, node: Node, graph: Graph, index: int, *, alone: bool) -> _Level:
        instance = (level.instance, node, graph)
        container = index
        if not alone:
            container = self._add(
                self._box_factory.container(graph, instance, index, title=name_of(graph), buttons=("○",))
            )
        outer = level if graph.owner is node else None
        return self._level(graph, instance, container, outer)

    def _claim(self, level: _Level, node: Node, box: int) -> None:
        for value in node.outputs:
            if value is not None:
                level.sources[value] = box

    def _place(self, level: _Level, node: Node) -> tuple[int, bool]:
        """Return the container of a node, or the closed group that contains it, and whether it is open."""
        scope = level.tree.of.get(node) if level.tree is not None else None
        if scope is None:
            return level.container, True
        place = level.places.get(scope)
        return place if place is not None else self._place_scope(level, scope)

    def _place_scope(self, level: _Level, scope: Scope) -> tuple[int, bool]:
        chain: list[Scope] = []
        inner: Scope | None = scope
        while inner is not None and inner.parent is not None and inner not in level.places:
            chain.append(inner)
            inner = inner.parent
        place = level.places[inner] if inner is not None and inner in level.places else (level.container, True)
        for part in reversed(chain):
            if place[1]:
                key = (level.instance, part.path)
                if key in self._expanded:
                    place = (self._add(self._box_factory.container(part, key, place[0])), True)
                else:
                    place = (self._add(self._box_factory.group(part, key, place[0], level.hidden)), False)
            level.places[part] = place
        return place

    def _is_folded(self, node: Node) -> bool:
        """Return whether a Constant is shown as a row of its consumers."""
        if node.op_type != "Constant" or node.domain or len(node.outputs) != 1 or node.outputs[0] is None:
            return False
        uses = node.outputs[0].uses
        if not uses or (len(uses) > 1 and not self._options.fold_shared_constants):
            return False
        return all(isinstance(user, Node) and user.graph is node.graph for user, _ in uses)

    # -- edges -----------------------------------------------------------------------------------------------

    def _draw_edges(self, level: _Level) -> Iterator[None]:
        for count, node in enumerate(level.graph.nodes):
            if not count % _SLICE:
                yield
            target = level.boxes.get(node)
            if target is None:
                continue
            if node in level.hidden:
                self._draw_edges_behind(level, node, target)
            else:
                self._draw_edges_to(level, node, target)
        for index, value in enumerate(level.graph.outputs):
            if not index % _SLICE:
                yield
            key = (level.instance, value, index)
            pill = self._add(self._box_factory.pill(Kind.OUTPUT, value, key, level.container, self._type_of(value)))
            source = self._source(level, value) if value.initializer is None else None
            if source is not None:
                self._connect(source[0], pill, value, dashed=source[1], at=(0, 1))

    def _draw_edges_to(self, level: _Level, node: Node, target: int) -> None:
        """Draw the edges to the inputs of a node; at most _MOST_EDGES of them."""
        wired = [
            (source, value, dashed)
            for value in node.inputs[:_MOST_EDGES]
            if value is not None and value.initializer is None and (found := self._source(level, value)) is not None
            for source, dashed in (found,)
        ]
        places = 0 if _takes_any_order(node) else len(wired)
        for position, (source, value, dashed) in enumerate(wired):
            self._connect(source, target, value, dashed=dashed, at=(position, places))
        if node.bodies and self._boxes[target].kind is not Kind.CONTAINER:
            direct = {value for _, value, _ in wired}
            for value in outer_values(node):
                found = self._source(level, value) if value.initializer is None else None
                if found is not None and value not in direct:
                    self._connect(found[0], target, value, dashed=True, at=None)

    def _draw_edges_behind(self, level: _Level, node: Node, target: int) -> None:
        """Draw the edges to a node folded into a tag; not those that only provide shapes of drawn values."""
        if node in level.hidden.passed:
            return  # its edge leads on to its users
        user, trait = level.hidden.users[node], traits.of(node)
        for index, value in enumerate(node.inputs[:_MOST_EDGES]):
            if value is None or value.initializer is not None or value in user.inputs:
                continue
            if value.graph is level.graph and value not in level.sources:
                continue  # from another folded node, or a Constant
            if trait.is_about_shapes and index not in trait.sizes and self._is_drawn_elsewhere(level, value):
                continue
            source = self._source(level, value)
            if source is not None and (value, target) not in self._behind:
                self._behind.add((value, target))
                self._connect(source[0], target, value, dashed=source[1], at=None)

    def _is_drawn_elsewhere(self, level: _Level, value: Value) -> bool:
        """Return whether another edge of a value, which uses its elements, is drawn."""
        is_drawn = self._drawn_elsewhere.get(value)
        if is_drawn is None:
            is_drawn = any(user not in level.hidden for user, _ in value.uses)
            self._drawn_elsewhere[value] = is_drawn
        return is_drawn

    def _source(self, level: _Level, value: Value) -> tuple[int, bool] | None:
        """Return the box of a value's source, and whether that is in an outer graph; None for folded constants."""
        box = level.sources.get(value)
        if box is not None:
            return box, self._boxes[box].kind is Kind.OUTER
        producer = value.producer
        if producer in level.hidden.passed:
            return self._source(level, level.hidden.origin(value))
        if producer in level.hidden:
            return None
        if producer is not None and producer.graph is not None and self._is_folded(producer):
            return None
        outer = level.outer
        while outer is not None:
            box = outer.sources.get(value)
            if box is not None:
                return box, True
            outer = outer.outer
        # A body shown alone uses outer values; a broken file uses undefined names.
        key = (level.instance, value, "outer")
        pill = self._add(self._box_factory.pill(Kind.OUTER, value, key, level.container, self._type_of(value)))
        level.sources[value] = pill
        return pill, True

    def _connect(self, source: int, target: int, value: Value, *, dashed: bool, at: tuple[int, int] | None) -> None:
        boxes = self._boxes
        from_group, to_group = boxes[source].kind is Kind.GROUP, boxes[target].kind is Kind.GROUP
        if from_group or to_group:
            if source == target:
                return
            edge = self._merged.get((source, target))
            if edge is not None:
                if self._values[edge] is not value:
                    self._multiplicity[edge] += 1
                    self._also.append((value, edge))
                return
            self._merged[source, target] = len(self._values)
        self._edges.extend((source, target))
        self._sides.extend((self._side(source), self._side(target)))
        self._values.append(value)
        self._multiplicity.append(1)
        self._dashed.append(dashed)
        origin = self._origin(value)
        if origin is not value:
            self._also.append((origin, len(self._values) - 1))
        producer = origin.producer
        one = boxes[source].kind in (Kind.INPUT, Kind.OUTER) or producer is None
        self._outputs.extend((0, 1) if one or producer is None else (origin.index, len(producer.outputs)))
        self._inputs.extend((-1, 0) if at is None else at)

    def _origin(self, value: Value) -> Value:
        """Return the value that a value is passed on from by folded nodes."""
        return FoldedNodes(self._hidden, self._passed).origin(value) if self._passed else value

    def _side(self, box: int) -> float:
        """Return the length of the side of a box that edges touch; NaN for groups, which have no fixed ports."""
        touched = self._boxes[box]
        if touched.kind is Kind.GROUP:
            return math.nan
        return touched.width if self._options.direction == "down" else touched.height


def build(
    graph: Graph,
    options: DrawingOptions | None = None,
    expanded: Collection[Hashable] = (),
    ids: Ids | None = None,
    measure: TextMeasure | BoxFactory | None = None,
    type_of: TypeOf | None = None,
    tree_of: Callable[[Graph], ScopeTree] = scope_tree,
) -> Drawing:
    """Build the drawing of a graph synchronously."""
    options = DrawingOptions() if options is None else options
    if isinstance(measure, BoxFactory):
        cards = measure
    else:
        if measure is None:
            measure = canvas_fonts()
        cards = BoxFactory(measure, options)
    builder = DrawingBuilder(graph, options, expanded, ids or Ids(), cards, type_of or declared_type, tree_of)
    for _ in builder.steps():
        pass
    return builder.drawing


def tag_key(box: Box, purpose: Purpose) -> Hashable:
    """Return the key of a tag of a box in `expanded`."""
    assert isinstance(box.key, tuple)
    return (*box.key, purpose)


def _unfolded(expanded: Collection[Hashable]) -> dict[Hashable, list[tuple[Node, Purpose]]]:
    """Return the open tags of each instance of a graph: the node with the tag, and the purpose of its nodes."""
    found: dict[Hashable, list[tuple[Node, Purpose]]] = {}
    for key in expanded:
        match key:
            case (instance, Node() as user, "sizes" | "weights" | "folded" as purpose):
                found.setdefault(instance, []).append((user, purpose))
    return found


def inner_graphs(node: Node) -> tuple[Graph, ...]:
    """Return the graphs that are drawn inside an open node: its bodies, or the body of the function it calls."""
    if node.bodies or node.graph is None or node.graph.model is None:
        return node.bodies
    function = node.graph.model.function(*node.operator)
    return () if function is None else (function.body,)


def inner_graph(subject: object, model: Model | None) -> Graph | None:
    """Return the graph to enter from an object: a graph itself, a node's first body, or the function it calls."""
    if isinstance(subject, Graph):
        return subject
    if not isinstance(subject, Node):
        return None
    if subject.bodies:
        return subject.bodies[0]
    function = model.function(*subject.operator) if model is not None else None
    return None if function is None else function.body


def initial_expansion(tree: ScopeTree) -> set[Hashable]:
    """Return the initially expanded groups, which show a model as its parts: about 5 to 60 boxes.

    A group of nearly everything is opened, again and again. Larger ones are opened while few boxes are shown, and those
    of half of all nodes while there is room for what is in them. Stacks stay closed, as they say what repeats, unless
    there is hardly anything else.
    """
    opened: set[Hashable] = set()
    shown = len(tree.root.children) + min(_boxes_of_nodes(tree.root), _FEW_BOXES // 2)
    pending = [scope for scope in tree.root.children if not scope.is_stack or shown <= _HARDLY_ANY]
    while pending:
        scope = max(pending, key=lambda s: s.count)
        pending.remove(scope)
        inner = len(scope.children) + _boxes_of_nodes(scope)
        share = scope.count / max(tree.root.count, 1)
        says_nothing = share >= _NEARLY_ALL and scope.children and not scope.is_stack
        has_room = shown + inner - 1 <= (AT_A_GLANCE if shown < _LEAST_BOXES else _FEW_BOXES)
        is_large = share >= _HALF or (shown < _LEAST_BOXES and scope.count > _FEW_BOXES)
        if not says_nothing and not (has_room and is_large):
            if share < _HALF:
                break  # all others are smaller still; there may be ten thousands
            continue
        opened.add(((), scope.path))
        shown += inner - 1
        pending.extend(child for child in scope.children if not child.is_stack or shown <= _HARDLY_ANY)
    return opened


def _boxes_of_nodes(scope: Scope) -> int:
    return sum(node.op_type != "Constant" for node in scope.nodes)


def _takes_any_order(node: Node) -> bool:
    """Return whether a node's edges may arrive in any order, so that they need no fixed ports."""
    if not traits.of(node).is_commutative:
        return False
    wired = [value for value in node.inputs[:_MOST_EDGES] if value is not None and value.initializer is None]
    return len(set(wired)) == len(wired) > 1  # a value used twice needs two ports


def _node_buttons(bodies: tuple[Graph, ...], function: Function | None) -> tuple[Button, ...]:
    if bodies:
        return ("○", "+") if len(bodies) == 1 else ("+",)
    return ("ƒ", "+") if function is not None else ()


def _container_buttons(bodies: tuple[Graph, ...]) -> tuple[Button, ...]:
    if bodies:
        return ("○", "−") if len(bodies) == 1 else ("−",)
    return ("ƒ", "−")


def _ports(places: array[int], sides: NDArray[np.float64]) -> NDArray[np.float32]:
    """[E] ports of edges, spread evenly along their boxes; NaN if the layout may choose, and at groups."""
    place = np.array(places).reshape(-1, 2)
    ports = sides * (place[:, 0] + 1) / (np.maximum(place[:, 1], 0) + 1)
    return np.where(place[:, 1] > 0, ports, np.nan).astype(np.float32)
