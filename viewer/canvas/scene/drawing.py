"""Drawing of a graph before layout: boxes with their texts and sizes, and the edges between them.

Plain data, no Qt: built by `viewer.canvas.scene.builder`, positioned by the layout, painted and exported as a
`viewer.canvas.scene.scene`.
"""

from __future__ import annotations

import enum
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import inf
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from onnx_workbench.exec.inspect.node_data import Matched
from onnx_workbench.model.analysis.folded_nodes import NOTHING_FOLDED, FoldedNodes
from onnx_workbench.model.analysis.name_scopes import AT_A_GLANCE, Scope
from onnx_workbench.model.ir.graph import Graph, Node, Value
from onnx_workbench.viewer.canvas.layout import Direction
from onnx_workbench.viewer.canvas.scene.node_text import FoldTag, NodeRow

#: The model object of a box or edge.
Subject = Node | Value | Graph | Scope

# Measures of a box, px at 100 %.
HEADER = 26.0
ROW = 18.0
ROWS_PADDING = 4.0
SIDE = 9.0  # from the border to a text
BUTTON = 20.0  # side of a button in a header
PILL = 26.0
STACK = 8.0  # visible edges of the cards below a group's card, part of its size
STRIPE = 6.0  # at the left of a group, in the colour of its operator
NARROWEST = 60.0
WIDEST = 300.0


class Style(enum.IntEnum):
    """Purpose of a text."""

    HEADER = 0
    NAME = 1  # of a row, of a pill
    ROW = 2
    LABEL = 3  # beside an edge


class Kind(enum.IntEnum):
    """Kind of a box."""

    NODE = 0
    INPUT = 1  # pill of a graph input
    OUTPUT = 2  # pill of a graph output
    OUTER = 3  # pill of a value from an outer graph, or of one that nothing defines
    GROUP = 4  # a collapsed scope
    CONTAINER = 5  # an expanded scope, body or function; its content lies inside


Button = Literal["+", "−", "ƒ", "○", "▸", "▾"]


@dataclass(slots=True)
class Box:
    """One drawn object. `key` is the same when the graph is drawn again; `parent` is its container.

    `note` is drawn muted in the header if there is room. `buttons` are at the header's right end, left to right:
    + and − expand and collapse, ƒ opens a function, ○ a body. `tags` are the last rows; ▸ and ▾ are their buttons.
    """

    kind: Kind
    subject: Subject
    key: Hashable
    title: str
    note: str
    rows: tuple[NodeRow, ...]
    category: str  # of the header's colour; "" for none
    buttons: tuple[Button, ...]
    parent: int
    width: float
    height: float
    names_width: float = 0.0  # width of the column of row names
    tags: tuple[FoldTag, ...] = ()


class TextMeasure(Protocol):
    """Protocol that measures texts; see viewer.canvas.paint.fonts."""

    def width(self, text: str, style: Style) -> float:
        """Return the width of a text."""

    def elided(self, text: str, style: Style, width: float, *, middle: bool = False) -> str:
        """Return the text, elided if it is too wide."""


@dataclass(frozen=True, slots=True)
class DrawingOptions:
    """Options of a drawing. `groups` None: only in graphs of more than `many` nodes."""

    attributes: bool = True
    initializers: bool = True
    names: bool = False  # the node's name in the header instead of its operator
    fold_shared_constants: bool = True
    fold_nodes: bool = True  # fold nodes that only compute sizes or prepare constants into tags
    kinds: frozenset[str] = frozenset()  # fold nodes of these kinds too, see `find_folded_nodes`
    prefix: str = ""  # of all names of dimensions, left out
    groups: bool | None = None
    many: int = AT_A_GLANCE
    direction: Direction = "down"
    columns: float = inf  # px of length from which graphs much longer than wide are folded into columns
    data: Matched | None = None  # numbers or texts in the boxes of nodes, with their sum or counts in groups

    @property
    def folds(self) -> bool:
        """Whether any nodes are folded into tags."""
        return self.fold_nodes or bool(self.kinds)

    def are_grouped(self, graph: Graph) -> bool:
        """Return whether a graph is drawn with groups."""
        return self.groups if self.groups is not None else len(graph.nodes) > self.many


class _Places:
    """Indices of many objects, most of which have only one: lists are made only for the others."""

    def __init__(self, pairs: Iterable[tuple[object, int]]) -> None:
        self._first: dict[object, int] = {}
        self._more: dict[object, list[int]] = {}
        first, more = self._first, self._more
        for subject, number in pairs:
            earlier = first.setdefault(subject, number)
            if earlier != number:
                more.setdefault(subject, []).append(number)

    def of(self, subject: object) -> list[int]:
        """Return all indices of an object, in order; empty if there are none."""
        first = self._first.get(subject)
        return [] if first is None else [first, *self._more.get(subject, ())]

    def of_all(self, subjects: Sequence[object]) -> list[int]:
        """Return the indices of many objects, unordered."""
        numbers = [number for number in map(self._first.get, subjects) if number is not None]
        if self._more:
            numbers += [number for subject in subjects for number in self._more.get(subject, ())]
        return numbers


@dataclass(slots=True, eq=False)
class Drawing:
    """The boxes and edges of one graph. Arrays are of N boxes and E edges.

    An edge carries `values[e]`; with `multiplicity[e]` above 1 it represents several between a group and another
    box. `dashed` edges lead a value of an outer graph into a body. Ports are offsets along the side at which the edge
    starts or ends; NaN if the layout chooses them.
    """

    graph: Graph
    options: DrawingOptions
    boxes: list[Box]
    edges: NDArray[np.int32]  # [E, 2] source, target
    values: list[Value]
    multiplicity: NDArray[np.int32]  # [E]
    dashed: NDArray[np.bool_]  # [E]
    source_ports: NDArray[np.float32]  # [E]
    target_ports: NDArray[np.float32]  # [E]
    box_ids: NDArray[np.int64]  # [N]
    graphs: tuple[Graph, ...] = ()  # the shown graph, and those of open bodies and functions
    expanded: frozenset[Hashable] = frozenset()  # keys of open groups, bodies and functions
    grouped: bool = False  # whether it is drawn with groups
    has_groups: bool = False  # whether the graph has groups
    folded: dict[Node, int] = field(default_factory=dict)  # nodes drawn in the box of another node or of a group
    hidden: FoldedNodes = NOTHING_FOLDED  # nodes folded into tags
    also: list[tuple[Value, int]] = field(default_factory=list)  # further values of edges that represent several
    # lazy lookup tables; a drawing made from this one by `replace` has separate ones
    _kinds: NDArray[np.uint8] | None = field(default=None, init=False)
    _by_subject: _Places | None = field(default=None, init=False)
    _edges_of: _Places | None = field(default=None, init=False)

    def prepare(self) -> None:
        """Build the lazy lookup tables now."""
        self._places()
        self._wires()

    @property
    def kinds(self) -> NDArray[np.uint8]:
        """[N] the Kind of each box."""
        if self._kinds is None:
            self._kinds = np.fromiter((box.kind for box in self.boxes), np.uint8, len(self.boxes))
        return self._kinds

    @property
    def sizes(self) -> NDArray[np.float32]:
        """[N, 2] width, height."""
        flat = [side for box in self.boxes for side in (box.width, box.height)]
        return np.array(flat, np.float32).reshape(-1, 2)

    @property
    def parents(self) -> NDArray[np.int32]:
        """[N] the container of each box, -1 outermost."""
        return np.fromiter((box.parent for box in self.boxes), np.int32, len(self.boxes))

    def boxes_of(self, subject: object) -> list[int]:
        """Return the boxes of an object: one, or one per expansion of a function; or its closed group."""
        boxes = self._places().of(subject)
        if boxes:
            return boxes
        if isinstance(subject, Node):
            number = self.folded.get(subject, -1)
            return [number] if number >= 0 else []
        return []

    def boxes_of_nodes(self, nodes: Sequence[Node]) -> list[int]:
        """Return the boxes of many nodes at once, unordered."""
        folded = [number for number in map(self.folded.get, nodes) if number is not None] if self.folded else []
        return [*self._places().of_all(nodes), *folded]

    def _places(self) -> _Places:
        if self._by_subject is None:
            self._by_subject = _Places(zip((box.subject for box in self.boxes), range(len(self.boxes)), strict=True))
        return self._by_subject

    def edges_of(self, value: Value) -> list[int]:
        """Return the edges that carry a value."""
        return self._wires().of(value)

    def edges_of_all(self, values: Sequence[Value]) -> list[int]:
        """Return the edges that carry any of many values, unordered."""
        return self._wires().of_all(values)

    def boxes_of_values(self, values: Sequence[Value]) -> list[int]:
        """Return the boxes of many values at once, unordered."""
        return self._places().of_all(values)

    def _wires(self) -> _Places:
        if self._edges_of is None:
            numbered = zip(self.values, range(len(self.values)), strict=True)
            self._edges_of = _Places(chain(numbered, self.also))
        return self._edges_of

    def box_with(self, key: Hashable) -> int:
        """Return the box with a key, -1 for none. Linear search: too slow for mouse moves."""
        return next((index for index, box in enumerate(self.boxes) if box.key == key), -1) if key is not None else -1

    def boxes_for(self, subject: object) -> list[int]:
        """Return the boxes to update for an object: its own; for a value, those at its edges or with its constant."""
        boxes = self.boxes_of(subject)
        if boxes or not isinstance(subject, Value):
            return boxes
        ends = [end for edge in self.edges_of(subject) for end in self.edges[edge].tolist()]
        return ends or [box for node in subject.consumers for box in self.boxes_of(node)]

    def __repr__(self) -> str:
        return f"<Drawing of {len(self.boxes)} boxes and {len(self.edges)} edges>"
