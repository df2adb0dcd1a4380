"""The graphs, groups and nodes of a model as a tree whose branches are made when they are opened."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from PySide6.QtCore import QAbstractItemModel, QModelIndex, QObject, QPersistentModelIndex, Qt

from model.graph import Function, Graph, Model, Node
from model.queries.scopes import Scope, ScopeTree, scope_tree
from viewer.icons import dot, icon
from viewer.text import count_text, display, plural
from viewer.theme import categories, operator_category

Index = QModelIndex | QPersistentModelIndex

#: What a row stands for: a Graph, Scope or Node.
ObjectRole = int(Qt.ItemDataRole.UserRole)


@dataclass(slots=True, eq=False)
class Row:
    """One line of the tree; `children` is None until someone opens it."""

    subject: Model | Graph | Scope | Node
    parent: Row | None
    place: int = 0
    children: list[Row] | None = None
    scopes: ScopeTree | None = field(default=None, repr=False)  # of a graph's row
    rows: tuple[list[Row], dict[object, Row]] | None = field(default=None, repr=False)  # by subject
    told: tuple[str, ...] | None = field(default=None, repr=False)  # what a view was told last of a node

    def child(self, subject: object) -> Row | None:
        """The child that stands for an object, if it is built; the first call looks through all."""
        if self.children is None:
            return None
        if self.rows is None or self.rows[0] is not self.children:
            self.rows = (self.children, {row.subject: row for row in self.children})
        return self.rows[1].get(subject)


class OutlineModel(QAbstractItemModel):
    """Columns: name and operator. GUI thread; rows are built branch by branch, so a large model costs nothing."""

    def __init__(self, model: Model, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._root = Row(model, None)

    # -- building ------------------------------------------------------------------------------------------------

    def _children(self, row: Row) -> list[Row]:
        if row.children is None:
            row.children = [Row(subject, row, place) for place, subject in enumerate(self._subjects(row))]
        return row.children

    def _subjects(self, row: Row) -> list[Any]:
        match row.subject:
            case Model() as model:
                return [*model.root_graphs()]
            case Graph() as graph:
                row.scopes = scope_tree(graph)
                return _inside(row.scopes.root)
            case Scope() as scope:
                return _inside(scope)
            case Node() as node:
                return list(node.bodies)

    def rebuild(self) -> None:
        """Everything anew, after graphs came or went."""
        self.beginResetModel()
        self._root.children = None
        self.endResetModel()

    def restructured(self, graphs: set[Graph]) -> None:
        """Nodes of these graphs came, went or moved: their branches close and are made anew when opened."""
        for graph in graphs:
            row = self._row_of_graph(graph)
            if row is None or row.children is None:
                continue
            index = self._index(row)
            count = len(row.children)
            if count:
                self.beginRemoveRows(index, 0, count - 1)
                row.children = []
                self.endRemoveRows()
            subjects = self._subjects(row)
            if subjects:
                self.beginInsertRows(index, 0, len(subjects) - 1)
                row.children = [Row(subject, row, place) for place, subject in enumerate(subjects)]
                self.endInsertRows()

    def renamed(self, nodes: set[Node]) -> None:
        """Anything about these nodes changed. A view hears of it only if it shows that: it measures its columns anew."""
        for node in nodes:
            row = self._find(node, build=False)
            if row is not None and row.told not in (None, _identity(node)):
                row.told = None
                for column in (0, 1):  # each by itself: a range makes a tree view paint everything
                    index = self._index(row, column)
                    self.dataChanged.emit(index, index)

    # -- finding -------------------------------------------------------------------------------------------------

    def index_of(self, subject: Node | Graph) -> QModelIndex:
        """The row of a node or graph, building the branches on the way; an invalid index when there is none."""
        row = self._find(subject, build=True)
        return QModelIndex() if row is None else self._index(row)

    def _find(self, subject: Node | Graph, *, build: bool) -> Row | None:
        if isinstance(subject, Graph):
            return self._row_of_graph(subject, build=build)
        graph = subject.graph
        row = None if graph is None else self._row_of_graph(graph, build=build)
        if row is None or (row.children is None and not build):
            return None
        self._children(row)
        scope = row.scopes.of.get(subject) if row.scopes is not None else None
        for step in _steps_to(scope):
            inner = self._child(row, step, build)
            if inner is None:
                return None
            row = inner
        return self._child(row, subject, build)

    def _row_of_graph(self, graph: Graph, *, build: bool = False) -> Row | None:
        owner = graph.owner
        if isinstance(owner, Node):
            parent = self._find(owner, build=build)
        else:
            parent = self._root
        if parent is None:
            return None
        return self._child(parent, graph, build)

    def _child(self, row: Row, subject: object, build: bool) -> Row | None:
        if build or row is self._root:
            self._children(row)
        return row.child(subject)

    def _index(self, row: Row, column: int = 0) -> QModelIndex:
        return QModelIndex() if row is self._root else self.createIndex(row.place, column, row)

    # -- QAbstractItemModel --------------------------------------------------------------------------------------

    def index(self, row: int, column: int, parent: Index = QModelIndex()) -> QModelIndex:
        """Qt asks for a child."""
        children = self._children(self._row(parent))
        if not (0 <= row < len(children) and 0 <= column < 2):
            return QModelIndex()
        return self.createIndex(row, column, children[row])

    def parent(self, index: Index = QModelIndex()) -> QModelIndex:  # type: ignore[override]
        """Qt asks for the parent."""
        row = self._row(index).parent
        return QModelIndex() if row is None or row is self._root else self._index(row)

    def rowCount(self, parent: Index = QModelIndex()) -> int:
        """How many children a row has; builds that branch."""
        return 0 if parent.column() > 0 else len(self._children(self._row(parent)))

    def hasChildren(self, parent: Index = QModelIndex()) -> bool:
        """Whether a row can be opened, without building the branch."""
        row = self._row(parent)
        if row.children is not None:
            return bool(row.children)
        match row.subject:
            case Node() as node:
                return bool(node.bodies)
            case Graph() as graph:
                return len(graph.nodes) > 0
        return True

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: ARG002 - Qt
        """Name and operator."""
        return 2

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Column titles."""
        if orientation == Qt.Orientation.Horizontal and role == Qt.ItemDataRole.DisplayRole:
            return ("Name", "Operator")[section]
        return None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """What a cell shows."""
        row = self._row(index)
        if role == ObjectRole:
            return row.subject
        if role == Qt.ItemDataRole.DisplayRole:
            if isinstance(row.subject, Node):
                row.told = _identity(row.subject)
            return _texts(row.subject)[index.column()]
        if role in (Qt.ItemDataRole.ToolTipRole, Qt.ItemDataRole.AccessibleTextRole):
            return ", ".join(part for part in _texts(row.subject, 2000) if part)
        if role == Qt.ItemDataRole.DecorationRole and index.column() == 0 and isinstance(row.subject, (Graph, Scope)):
            return icon("outline" if isinstance(row.subject, Graph) else "group")
        if role == Qt.ItemDataRole.DecorationRole and index.column() == 0 and isinstance(row.subject, Node):
            return dot(categories()[self._category(row.subject)].color)
        return None

    def _category(self, node: Node) -> str:
        """As on the canvas: calls of the model's own functions have a colour for themselves."""
        model = self._root.subject
        called = isinstance(model, Model) and model.function(node.domain, node.op_type, node.overload) is not None
        return "function" if called else operator_category(node.domain, node.op_type)

    def _row(self, index: Index) -> Row:
        return index.internalPointer() if index.isValid() else self._root


def _inside(scope: Scope) -> list[Any]:
    """Inner groups where their first node stands among the nodes, so that the outline reads in run order."""
    return [*scope.children, *scope.nodes]


def _steps_to(scope: Scope | None) -> list[Scope]:
    """The groups from the outermost to this one."""
    steps = []
    while scope is not None and scope.parent is not None:
        steps.append(scope)
        scope = scope.parent
    return steps[::-1]


def graph_title(graph: Graph) -> str:
    """What to call a graph in a list: its function, its attribute, or its own name."""
    owner = graph.owner
    if isinstance(owner, Function):
        return f"ƒ {owner.name}"
    if isinstance(owner, Node):
        return next((a.name for a in owner.attributes.values() if graph in a.graphs), "body")
    if owner is not None and not isinstance(owner, Model):
        return f"training: {'initialization' if owner.initialization is graph else 'algorithm'}"
    return graph.name or "graph"


def _identity(node: Node) -> tuple[str, ...]:
    """All of a node that its row depends on."""
    return node.name, node.op_type, node.domain, node.overload


def _texts(subject: object, limit: int = 200) -> tuple[str, str]:
    match subject:
        case Graph():
            return display(graph_title(subject), limit), plural(len(subject.nodes), "node")
        case Scope():
            return display(subject.name, limit), count_text(subject.count)
        case Node():
            return display(subject.name or "(unnamed)", limit), display(subject.op_type, limit)
    return "", ""
