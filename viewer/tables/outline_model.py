"""The graphs, groups and nodes of a model as a tree whose branches are built when expanded."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

from PySide6.QtCore import QModelIndex, QObject, Qt, Signal
from shiboken6 import isValid

from onnx_workbench.model.analysis.name_scopes import Scope
from onnx_workbench.model.ir.graph import Graph, Model, Node
from onnx_workbench.viewer.document.grouping import Grouping
from onnx_workbench.viewer.style.icons import dot, icon
from onnx_workbench.viewer.style.theme import categories, node_category, theme
from onnx_workbench.viewer.style.tooltips import for_role
from onnx_workbench.viewer.tables.outline_rows import Constants, OutlineRow, Stretch
from onnx_workbench.viewer.tables.tree_model import Index, KeyedTreeModel
from onnx_workbench.viewer.tables.two_tone import TextsRole

#: The subject of a row: a Graph, Scope, Stretch or Node.
ObjectRole = int(Qt.ItemDataRole.UserRole)


class OutlineModel(KeyedTreeModel[OutlineRow]):
    """Columns: name and operator. GUI thread.

    Rows are built branch by branch, and that of a large graph when its groups are known, which takes no turn of the
    event loop longer than a few milliseconds; `filled` follows. The groups are those of the canvas. Very many rows
    next to each other come in stretches, so that nothing costs the number of all nodes but `*`, which opens them all.
    """

    filled = Signal(bool)  # the branch of a large graph is there; whether anew, not after an edit

    def __init__(self, model: Model, grouping: Grouping, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.root = OutlineRow(None, 0, model)
        self._grouping = grouping
        self._graphs: dict[Graph, OutlineRow] = {}  # whose branches are built, or will be when their groups are known
        self._waiting: dict[Graph, set[Node]] = {}  # nodes that changed since the groups of their graph were known
        grouping.regrouped.connect(self._fill)
        self.destroyed.connect(self.root.forget_all)

    # -- building ------------------------------------------------------------------------------------------------

    def children_of(self, row: OutlineRow) -> list[OutlineRow]:
        if row.children is None:
            row.set_children(row.branch(self._subjects(row)))
            assert row.children is not None
        return row.children

    def keys_of(self, rows: Sequence[OutlineRow]) -> list[Hashable]:
        """Return keys that outlive edits, after which groups and stretches are other objects."""
        keys: list[Hashable] = []
        for index, row in enumerate(rows):
            match row.subject:
                case Scope() as scope:
                    keys.append(scope.path)
                case Constants():
                    keys.append(Constants)
                case Stretch():
                    keys.append(index)
                case subject:
                    keys.append(subject)
        return keys

    def _subjects(self, row: OutlineRow) -> list[Any]:
        match row.subject:
            case Model() as model:
                return [*model.root_graphs()]
            case Graph() as graph:
                self._graphs[graph] = row
                row.scopes = None
                if not self._grouping.is_ready(graph):
                    self._grouping.prepare(graph)
                    return []
                row.scopes = self._grouping.tree(graph)
                return _inside(row.scopes.root)
            case subject:
                return _below(subject)

    def _fill(self, graph: Graph) -> None:
        """The groups of a graph have become known, or are others now."""
        row = self._graphs.get(graph) if isValid(self) else None
        if row is not None and row.children is not None:
            edited = self._waiting.get(graph)
            self._regroup(row, edited)
            self.filled.emit(edited is None)

    def rebuild(self) -> None:
        """Rebuild everything after graphs were added or removed."""
        self.beginResetModel()
        self.forget(self.root)
        self.endResetModel()

    def forget(self, row: OutlineRow) -> None:
        """A branch is not built any more."""
        for one in row.forget_all():
            if isinstance(one.subject, Graph):
                self._graphs.pop(one.subject, None)

    def regrouped(self, row: OutlineRow) -> None:
        row.rows = None

    # -- following edits -------------------------------------------------------------------------------------------

    def update_nodes(self, nodes: set[Node]) -> None:
        """Update the branches of graphs after nodes were added, removed, moved or renamed, or got other bodies.

        What stays keeps its row, with what is open below it. Of a large graph, nodes that left go and names change at
        once; the rest follows when its groups are known.
        """
        self._open_first(nodes)
        for graph, row in list(self._graphs.items()):
            if self._graphs.get(graph) is not row:  # in a node that has just gone
                continue
            if self._grouping.is_ready(graph):
                self._regroup(row, nodes | self._waiting.get(graph, nodes))
            else:
                self._grouping.prepare(graph)
                self._waiting.setdefault(graph, set()).update(nodes)
                self._follow_at_once(row, nodes)
            self._update_texts(row)

    def _open_first(self, nodes: set[Node]) -> None:
        """Announce the first nodes of a graph to the view, which shows an empty graph as a row that cannot be
        expanded.
        """
        for graph in {node.graph for node in nodes if node.graph is not None}:
            row = self._row_of_graph(graph)
            if row is not None and row.children is None and len(graph.nodes) <= len(nodes):
                row.children = []
                self._graphs[graph] = row
                self._update_texts(row)

    def _regroup(self, row: OutlineRow, nodes: set[Node] | None) -> None:
        """Update the branch of a graph to its groups of now; `nodes` are all that changed, if that is known."""
        assert isinstance(row.subject, Graph)
        tree, before = self._grouping.tree(row.subject), row.scopes
        self._waiting.pop(row.subject, None)
        if row.children is not None and tree is not before:
            row.scopes = tree
            self._update(row, _inside(before.root) if before is not None else [], _inside(tree.root), nodes)

    def _update(self, row: OutlineRow, before: list[Any], after: list[Any], nodes: set[Node] | None) -> None:
        """Show objects below a row that showed those before; what stays keeps its row."""
        if row.children is None or (nodes is not None and before == after and nodes.isdisjoint(after)):
            return
        contents = [(child, child.subject, new.subject) for child, new in self.show_branch(row, row.branch(after))]
        for child, _, subject in contents:
            child.subject = subject
        row.find_stretches()
        for child, old, subject in contents:
            shown = [one.subject for one in child.children or ()] if isinstance(old, Node) else _below(old)
            self._update(child, shown, _below(subject), nodes)
            self._update_texts(child)

    def _follow_at_once(self, row: OutlineRow, nodes: set[Node]) -> None:
        """Remove the rows of nodes that left the graph of a row, and show the names of the others."""
        gone = {node for node in nodes if node.graph is not row.subject}
        pending = [row]
        for one in pending:
            children = one.children or []
            pending += [child for child in children if isinstance(child.subject, (Scope, Stretch))]
            if not gone.isdisjoint(child.subject for child in children):
                self.remove_children(one, keep={child for child in children if child.subject not in gone})
            if not nodes.isdisjoint(child.subject for child in children):
                for child in children:
                    self._update_texts(child)

    def rename(self, nodes: Iterable[Node]) -> None:
        """Update rows after renaming of values: nodes without a name are titled by them."""
        for node in nodes:
            row = self._find(node, build=False)
            if row is not None:
                self._update_texts(row)

    def retitle(self) -> None:
        """Graphs and functions may have other names; bodies are called after their attributes."""
        for row in self.children_of(self.root):
            self._update_texts(row)

    def _update_texts(self, row: OutlineRow) -> None:
        """Emit dataChanged for a row if its texts differ from those shown: the view measures its columns for that."""
        if row.shown_texts is None or row.shown_texts == row.identity():
            return
        row.shown_texts = None
        index = self.index_of_row(row)
        self.dataChanged.emit(index, index)

    # -- finding -------------------------------------------------------------------------------------------------

    def index_of(self, subject: Node | Graph) -> QModelIndex:
        """Return the row of a node or graph, building the branches to it; an invalid index if there is none."""
        row = self._find(subject, build=True)
        return QModelIndex() if row is None else self.index_of_row(row)

    def _find(self, subject: Node | Graph, *, build: bool) -> OutlineRow | None:
        if isinstance(subject, Graph):
            return self._row_of_graph(subject, build=build)
        graph = subject.graph
        row = None if graph is None else self._row_of_graph(graph, build=build)
        if row is None or (row.children is None and not build):
            return None
        self.children_of(row)
        scope = row.scopes.of.get(subject) if row.scopes is not None else None
        for step in _steps_to(scope):
            inner = self._child(row, step, build)
            if inner is None:
                return None
            row = inner
        return self._child(row, subject, build)

    def _row_of_graph(self, graph: Graph, *, build: bool = False) -> OutlineRow | None:
        owner = graph.owner
        if isinstance(owner, Node):
            parent = self._find(owner, build=build)
        else:
            parent = self.root
        if parent is None:
            return None
        return self._child(parent, graph, build)

    def _child(self, row: OutlineRow, subject: object, build: bool) -> OutlineRow | None:
        if build or row is self.root:
            self.children_of(row)
        inner = row.down_to(subject)[-1]
        while build and inner.children is None:
            self.children_of(inner)
            inner = inner.down_to(subject)[-1]
        return inner.child(subject)

    # -- QAbstractItemModel --------------------------------------------------------------------------------------

    def hasChildren(self, parent: Index = QModelIndex()) -> bool:
        row = self.row_at(parent)
        if row.children is not None:
            return bool(row.children)
        match row.subject:
            case Node() as node:
                return bool(node.bodies)
            case Graph() as graph:
                return len(graph.nodes) > 0
        return True

    def columnCount(self, _parent: Index = QModelIndex()) -> int:
        return 1

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        row = self.row_at(index)
        if role == ObjectRole:
            return row.subject
        if role in (Qt.ItemDataRole.DisplayRole, TextsRole):
            row.shown_texts = row.identity()
            return row.title() if role == Qt.ItemDataRole.DisplayRole else row.parts()
        if role in (Qt.ItemDataRole.ToolTipRole, Qt.ItemDataRole.AccessibleTextRole):
            remark = "unnamed, produces" if row.lacks_name() else ""
            return for_role(", ".join(part for part in (remark, *row.texts(2000)) if part), role)
        if role == Qt.ItemDataRole.ForegroundRole and row.lacks_name():
            return theme().muted
        if role == Qt.ItemDataRole.DecorationRole and isinstance(row.subject, (Graph, Scope)):
            return icon("outline" if isinstance(row.subject, Graph) else "group")
        if role == Qt.ItemDataRole.DecorationRole and isinstance(row.subject, Node):
            return dot(categories()[node_category(row.subject)].color)
        return None


def _inside(scope: Scope) -> list[Any]:
    """Inner groups, then nodes, each in the order of the graph."""
    return [*scope.children, *scope.nodes]


def _below(subject: Any) -> list[Any]:
    """Return the objects below one, but those of a graph, whose row has its groups."""
    match subject:
        case Scope() as scope:
            return _inside(scope)
        case Stretch() as stretch:
            return stretch.subjects
        case Node() as node:
            return list(node.bodies)
    return []


def _steps_to(scope: Scope | None) -> list[Scope]:
    steps = []
    while scope is not None and scope.parent is not None:
        steps.append(scope)
        scope = scope.parent
    return steps[::-1]
