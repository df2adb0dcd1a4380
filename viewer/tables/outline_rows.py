"""One line of the outline: its object, its children, and its texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Self, TypeVar

from onnx_workbench.model.analysis.name_scopes import Path, Scope, ScopeTree, is_constant
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, Value
from onnx_workbench.model.schemas import traits
from onnx_workbench.model.text.formatting import count_text, display, number_text, plural
from onnx_workbench.viewer.style.labels import first_output
from onnx_workbench.viewer.tables.tree_model import TreeRow

T = TypeVar("T")

#: A view asks about each row of an open branch before it draws it: with more of them a user would wait.
MOST_IN_A_BRANCH = 2000
IN_A_STRETCH = 1000
_REARRANGING = frozenset({"tensor", "constant", "quantization"})  # categories of operators
_SHORT = 200  # characters of a text in a row; tooltips have more


@dataclass(slots=True, eq=False)
class Stretch:
    """Neighbours of a branch that has too many to be shown at once."""

    subjects: list[Scope | Node]

    def all_nodes(self) -> Iterator[Node]:
        """Every node in it, and in its scopes."""
        for subject in self.subjects:
            if isinstance(subject, Scope):
                yield from subject.all_nodes()
            else:
                yield subject


@dataclass(slots=True, eq=False)
class Constants(Stretch):
    """The nodes of a graph or group that give constants: exporters make hundreds, which would hide what it computes."""


def _gives_constant(node: Node) -> bool:
    """Return whether a node is a Constant, or copies, converts or rearranges constants alone."""
    if is_constant(node):
        return True
    if traits.of(node).category not in _REARRANGING or traits.of(node).is_stochastic or not node.inputs:
        return False
    return all(value is None or _is_weight(value) for value in node.inputs)


def _is_weight(value: Value) -> bool:
    if value.producer is not None:
        return is_constant(value.producer)
    return value.initializer is not None and not value.is_input


def divided(subjects: list[T]) -> list[list[T]]:
    """Stretches of about the same length, in order."""
    count = -(-len(subjects) // IN_A_STRETCH)
    bounds = [len(subjects) * number // count for number in range(count + 1)]
    return [subjects[start:end] for start, end in pairwise(bounds)]


Subject = Model | Graph | Scope | Stretch | Node


@dataclass(slots=True, eq=False)
class OutlineRow(TreeRow):
    """A line of the tree. Very many children of a row are shown in stretches, to which `stretches` maps objects."""

    subject: Subject
    scopes: ScopeTree | None = field(default=None, repr=False)  # of a graph's row
    stretches: dict[object, OutlineRow] | None = field(default=None, repr=False)
    rows: dict[object, OutlineRow] | None = field(default=None, repr=False)  # children by subject
    shown_texts: tuple[str, ...] | None = field(default=None, repr=False)  # the texts last given to a view

    def child(self, subject: object) -> OutlineRow | None:
        """Return the child of an object, if it is built; the first call searches all."""
        if self.children is None:
            return None
        if self.rows is None:
            self.rows = {row.subject: row for row in self.children}
        return self.rows.get(subject)

    def down_to(self, subject: object) -> list[OutlineRow]:
        """Return this row and the stretches below it that contain an object, as far as they are built."""
        rows = [self]
        while (inner := (rows[-1].stretches or {}).get(subject)) is not None:
            rows.append(inner)
        return rows

    def branch(self, subjects: list[Any]) -> list[OutlineRow]:
        """Build the child rows: in a graph or scope the constants in one, the last; very many rows in stretches."""
        shown: list[Any] = subjects
        constants: list[Scope | Node] = []
        if isinstance(self.subject, (Graph, Scope)):
            constants = [one for one in subjects if isinstance(one, Node) and _gives_constant(one)]
            if constants:
                held = set(constants)
                shown = [one for one in subjects if one not in held]
        if len(shown) > MOST_IN_A_BRANCH and isinstance(self.subject, (Graph, Scope, Constants)):
            shown = [Stretch(part) for part in divided(shown)]
        if constants:
            shown = [*shown, Constants(constants)]
        return [OutlineRow(self, index, subject) for index, subject in enumerate(shown)]

    def set_children(self, branch: list[Self]) -> None:
        """Set the children."""
        self.children = branch
        self.find_stretches()

    def find_stretches(self) -> None:
        """Note which objects are in which stretches, after other children came or went."""
        self.rows = self.stretches = None
        for row in self.children or ():
            if isinstance(row.subject, Stretch):
                self.stretches = self.stretches or {}
                self.stretches.update(dict.fromkeys(row.subject.subjects, row))

    def forget_all(self) -> list[OutlineRow]:
        """Drop all rows below it; return it and them."""
        forgotten = [self]
        for row in forgotten:
            forgotten.extend(row.children or ())
            row.children = row.rows = row.stretches = None
        return forgotten

    # -- texts ---------------------------------------------------------------------------------------------------

    def title(self) -> str:
        """Return the title without the name of the parent row."""
        around = self.parent
        while around is not None and isinstance(around.subject, Stretch):
            around = around.parent
        if isinstance(self.subject, Node) and around is not None and isinstance(around.subject, Scope):
            return _name_within(self.subject, around.subject)
        return self.texts()[0]

    def texts(self, limit: int = _SHORT) -> tuple[str, str]:
        """Name and operator, or how many nodes."""
        match self.subject:
            case Graph() as graph:
                left_out = self.scopes.left_out if self.scopes is not None else ()
                size = plural(len(graph.nodes), "node")
                return display(graph_title(graph), limit), _left_out_text(size, left_out, limit) if left_out else size
            case Scope() as scope:
                return display(scope.name, limit), count_text(scope.count)
            case Constants(constants):
                return plural(len(constants), "constant"), ""
            case Stretch() as stretch:
                first, last = (_name_of(stretch.subjects[end], limit // 2) for end in (0, -1))
                return f"{first} … {last}", self._numbers(stretch)
            case Node() as node:
                return _name_of(node, limit), display(node.op_type, limit)
        return "", ""

    def parts(self) -> tuple[str, str]:
        """Return both texts in display order: the operator of a node before its name, a group before its size."""
        match self.subject:
            case Node() as node:
                return display(node.op_type, 200) or "(no operator)", self.title()
            case Scope() as scope:
                return self.title(), plural(scope.count, "node")
        return self.title(), self.texts()[1]

    def _numbers(self, stretch: Stretch) -> str:
        """Return the numbers of its contents among those of its siblings, counted from one."""
        assert self.parent is not None
        before = 0
        for row in self.parent.children or ():
            if row is self or not isinstance(row.subject, Stretch):
                break
            before += len(row.subject.subjects)
        return f"{number_text(before + 1)} – {number_text(before + len(stretch.subjects))}"

    def identity(self) -> tuple[str, ...]:
        """All that the row's identity depends on."""
        subject = self.subject
        more = (subject.domain, subject.overload) if isinstance(subject, Node) else ()
        return (*self.texts(), *more)

    def lacks_name(self) -> bool:
        """Return whether its title is the name of the node's first output."""
        return isinstance(self.subject, Node) and not self.subject.name and bool(first_output(self.subject))


def graph_title(graph: Graph) -> str:
    """Return the title of a graph in a list: its function, its attribute, or its own name."""
    owner = graph.owner
    if isinstance(owner, Function):
        return f"ƒ {owner.title}"
    if isinstance(owner, Node):
        return next((a.name for a in owner.attributes.values() if graph in a.graphs), "body")
    if owner is not None and not isinstance(owner, Model):
        return f"training: {'initialization' if owner.initialization is graph else 'algorithm'}"
    return graph.name or "graph"


def _left_out_text(size: str, left_out: Sequence[Path], limit: int) -> str:
    """Return the size of a graph with how many scopes are no groups; with a high limit also which and why."""
    count = plural(len(left_out), "group")
    if limit <= _SHORT:
        return f"{size} · {count} left out"
    names = display(", ".join("/".join(path) for path in left_out), limit)
    return f"{size}. {count} left out, because a path leaves and re-enters each: {names}"


def _name_within(node: Node, around: Scope) -> str:
    """Return a node's name without the prefix of its scope."""
    name = node.name.removeprefix("/")
    for separator in "/." if around.path else "":
        prefix = separator.join(around.path) + separator
        if name.startswith(prefix) and name != prefix:
            return display(name.removeprefix(prefix), 200)
    return _name_of(node, 200)


def _name_of(subject: Scope | Node, limit: int) -> str:
    if isinstance(subject, Scope):
        return display(subject.name, limit)
    return display(subject.name or first_output(subject) or "(unnamed)", limit)
