"""The graphs, groups and nodes of a model as a tree whose branches are built when expanded."""

from __future__ import annotations

from bisect import bisect_left, insort_left
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

from PySide6.QtCore import QModelIndex, QObject, Qt, Signal
from shiboken6 import isValid

from onnx_workbench.model.analysis.name_scopes import Path, Scope, is_constant, scope_path
from onnx_workbench.model.ir.graph import Graph, Model, Node
from onnx_workbench.model.ir.name_index import comes_before
from onnx_workbench.viewer.core.grouping import Grouping
from onnx_workbench.viewer.style.icons import dot, icon
from onnx_workbench.viewer.style.theme import categories, node_category, theme
from onnx_workbench.viewer.style.tooltips import for_role
from onnx_workbench.viewer.tables.outline_rows import Constants, OutlineRow, Stretch
from onnx_workbench.viewer.tables.tree_model import Index, TreeModel
from onnx_workbench.viewer.tables.two_tone import TextsRole

#: The subject of a row: a Graph, Scope, Stretch or Node.
ObjectRole = int(Qt.ItemDataRole.UserRole)

#: With more changed nodes than this, the branches of their graphs are rebuilt.
_MOST_SINGLY = 200


class OutlineModel(TreeModel):
    """Columns: name and operator. GUI thread.

    Rows are built branch by branch, and that of a large graph when its groups are known, which takes no turn of the
    event loop longer than a few milliseconds; `filled` follows. The groups are those of the canvas. Very many rows
    next to each other come in stretches, so that nothing costs the number of all nodes but `*`, which opens them all.
    """

    filled = Signal()  # the branch of a large graph is there

    def __init__(self, model: Model, grouping: Grouping, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._root = OutlineRow(model, None)
        self._grouping = grouping
        self._graphs: dict[Graph, OutlineRow] = {}  # whose branches are built, or will be when their groups are known
        self._counted: set[tuple[OutlineRow, Scope]] = (
            set()
        )  # in branches of graphs: contain more or fewer nodes than shown
        grouping.regrouped.connect(self._fill)
        self.destroyed.connect(self._root.forget_all)

    # -- building ------------------------------------------------------------------------------------------------

    def _children(self, row: OutlineRow) -> list[OutlineRow]:
        if row.children is None:
            row.set_children(row.branch(self._subjects(row)))
            assert row.children is not None
        return row.children

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
                row.scopes = self._grouping.tree(graph)  # which is ours after the next edit: then it makes another
                return _inside(row.scopes.root)
            case Scope() as scope:
                return _inside(scope)
            case Stretch() as stretch:
                return stretch.subjects
            case Node() as node:
                return list(node.bodies)

    def _fill(self, graph: Graph) -> None:
        """The groups of a graph have become known, or are others now."""
        row = self._graphs.get(graph) if isValid(self) else None
        if row is not None and row.children is not None:
            self._set_children(row, self._subjects(row))
            self.filled.emit()

    def rebuild(self) -> None:
        """Rebuild everything after graphs were added or removed."""
        self.beginResetModel()
        self._forget(self._root)
        self.endResetModel()

    def _forget(self, row: OutlineRow) -> None:
        """A branch is not built any more."""
        for one in row.forget_all():
            if isinstance(one.subject, Graph):
                self._graphs.pop(one.subject, None)

    # -- following edits -------------------------------------------------------------------------------------------

    def update_nodes(self, nodes: set[Node]) -> None:
        """Update the rows of nodes that were added, removed, moved or renamed, or got other bodies. Costs those
        rows.

        If they are very many, the branches of their graphs are collapsed and rebuilt; if none was removed, as soon as
        the groups are known.
        """
        self._open_first(nodes)
        if len(nodes) > _MOST_SINGLY:
            for row in self._built():
                self._rebuild_branch(row, nodes)
            return
        for row in self._built():
            self._remove_deleted(row, nodes)
        while sum(self._remove_moved(row, node) for row in self._built() for node in nodes):
            pass  # after a removal, a remaining neighbour may be at a wrong position
        for row in self._built():  # after all that went: places are compared among nodes that are there
            for node in nodes:
                self._add_to_branch(row, node)
        self._update_counts()

    def _rebuild_branch(self, row: OutlineRow, nodes: set[Node]) -> None:
        """Rebuild the branch of a graph if any of these is or was in it."""
        graph = row.subject
        assert isinstance(graph, Graph)
        if any(node.graph is not graph and self._holder(row, node) for node in nodes):
            self._set_children(row, self._subjects(row))
        elif any(node.graph is graph for node in nodes):
            if self._grouping.is_ready(graph) or not row.children:
                self._set_children(row, self._subjects(row))
                return
            self._grouping.prepare(graph)
            first, last = (self._index(row.children[end]) for end in (0, -1))
            self.dataChanged.emit(first, last)  # of a range the view paints everything, by its names of now

    def _open_first(self, nodes: set[Node]) -> None:
        """Announce the first nodes of a graph to the view, which shows an empty graph as a row that cannot be
        expanded.
        """
        for graph in {node.graph for node in nodes if node.graph is not None}:
            row = self._row_of_graph(graph)
            if row is not None and row.children is None and len(graph.nodes) <= len(nodes):
                row.children = []
                self._set_children(row, self._subjects(row))
                self._update_texts(row)

    def _built(self) -> Iterator[OutlineRow]:
        """Yield the rows of graphs whose branches are built."""
        for graph, row in list(self._graphs.items()):
            if self._graphs.get(graph) is row:
                yield row

    def _remove_deleted(self, row: OutlineRow, nodes: set[Node]) -> None:
        """Remove the nodes that left its graph from the branch of a graph."""
        gone: dict[Scope, set[Node]] = {}
        for node in nodes:
            scope = self._holder(row, node) if node.graph is not row.subject else None
            if scope is not None:
                gone.setdefault(scope, set()).add(node)
        for scope, those in gone.items():
            scope.nodes[:] = [node for node in scope.nodes if node not in those]
            for node in those:
                self._remove_node(row, scope, node)

    def _remove_moved(self, row: OutlineRow, node: Node) -> bool:
        """Remove a node that is elsewhere now from the branch of a graph; return whether it was there."""
        scope = self._holder(row, node)
        if scope is None or (_is_in_order(scope, node) and self._is_among_its_kind(row, scope, node)):
            return False
        scope.nodes.remove(node)
        self._remove_node(row, scope, node)
        return True

    def _is_among_its_kind(self, row: OutlineRow, scope: Scope, node: Node) -> bool:
        """Return whether a node is among the constants as it should, which its operator decides."""
        around = self._row_of_scope(row, scope)
        if around is None or around.children is None:
            return True
        return any(isinstance(one.subject, Constants) for one in around.down_to(node)) == is_constant(node)

    def _add_to_branch(self, row: OutlineRow, node: Node) -> None:
        """Insert a node into the branch of its graph."""
        if node.graph is not row.subject or row.children is None or row.scopes is None:
            return
        if self._holder(row, node) is None:
            self._insert_node(row, node)
        elif (shown := self._find(node, build=False)) is not None:
            self._update_bodies(shown, node)
            self._update_texts(shown)

    def _update_bodies(self, row: OutlineRow, node: Node) -> None:
        bodies = list(node.bodies)
        if [child.subject for child in row.children or ()] != bodies:
            self._set_children(row, bodies)

    def _set_children(self, row: OutlineRow, subjects: list[Any]) -> None:
        """Replace the children of a row."""
        index, before = self._index(row), row.children
        if before:
            self.beginRemoveRows(index, 0, len(before) - 1)
            for child in before:
                self._forget(child)
            row.set_children([])
            self.endRemoveRows()
        if subjects:
            branch = row.branch(subjects)
            self.beginInsertRows(index, 0, len(branch) - 1)
            row.set_children(branch)
            self.endInsertRows()

    def _holder(self, row: OutlineRow, node: Node) -> Scope | None:
        """Return the scope whose row shows a node in the branch of a graph; None if the branch does not show it."""
        if row.children is None or row.scopes is None:
            return None
        return row.scopes.of.get(node) or (row.scopes.root if row.holds(node) else None)

    def _remove_node(self, row: OutlineRow, scope: Scope, node: Node) -> None:
        """Remove the row of a node that left its scope, and scopes that are empty then."""
        assert row.scopes is not None
        row.scopes.of.pop(node, None)
        self._remove(self._row_of_scope(row, scope), node)
        self._count(row, scope, -1)
        while scope.parent is not None and not scope.count:
            scope.parent.children.remove(scope)
            self._remove(self._row_of_scope(row, scope.parent), scope)
            scope = scope.parent

    def _insert_node(self, row: OutlineRow, node: Node) -> None:
        """Add a node to its innermost existing scope, or to a new one with a neighbour of the same scope."""
        assert row.scopes is not None
        scope, path = _scope_for(row.scopes.root, node)
        mate = _counterpart(scope, node, path)
        if mate is not None:
            other, shared = mate
            inner = Scope(shared, "/".join(shared[len(scope.path) :]), scope, nodes=[other])
            self._count(row, inner, 1)
            self._insert(row, scope, inner, scope.children)
            scope.nodes.remove(other)
            self._remove_node(row, scope, other)
            row.scopes.of[other] = inner
            scope = inner
        self._insert(row, scope, node, scope.nodes)
        self._count(row, scope, 1)
        if scope.parent is not None:
            row.scopes.of[node] = scope

    def _count(self, row: OutlineRow, scope: Scope | None, by: int) -> None:
        """A scope in the branch of a graph, and those around it, hold more or fewer nodes."""
        while scope is not None:
            scope.count += by
            self._counted.add((row, scope))
            scope = scope.parent

    def _remove(self, row: OutlineRow | None, subject: Node | Scope) -> None:
        """Remove the row of an object, and its stretches when nothing else is in them."""
        if row is None:
            return
        rows = row.down_to(subject)
        gone = rows[-1].child(subject)
        for outer, inner in reversed([*pairwise(rows)]):
            assert isinstance(inner.subject, Stretch)
            assert outer.stretches is not None
            del outer.stretches[subject]
            inner.subject.subjects.remove(subject)
            if not inner.subject.subjects:
                gone = inner
        if gone is not None:
            self._remove_row(gone)

    def _remove_row(self, gone: OutlineRow) -> None:
        row, index = gone.parent, self._index_in_parent(gone)
        assert row is not None
        assert row.children is not None
        self.beginRemoveRows(self._index(row), index, index)
        self._forget(gone)
        del row.children[index]
        if row.rows is not None:
            del row.rows[gone.subject]
        self.endRemoveRows()

    def _insert(self, graph_row: OutlineRow, scope: Scope, subject: Node | Scope, siblings: list[Any]) -> None:
        insort_left(siblings, subject, key=_position)
        row = self._row_of_scope(graph_row, scope)
        if row is not None and row.children is not None:
            self._insert_into(row, subject)

    def _insert_into(self, row: OutlineRow, subject: Node | Scope) -> None:
        """Insert an object below a row, in the order of the graph, or into a stretch there."""
        if isinstance(row.subject, Stretch):
            insort_left(row.subject.subjects, subject, key=_order)
        if row.children is None:
            return
        is_loose = isinstance(row.subject, (Graph, Scope)) and isinstance(subject, Node) and is_constant(subject)
        added = Constants([subject]) if is_loose else subject
        index = bisect_left(row.children, _order(added), key=lambda one: _order(one.subject))
        stretch = _stretch_at(row.children, index, among_constants=is_loose)
        if stretch is not None:
            row.stretches = {} if row.stretches is None else row.stretches
            row.stretches[subject] = stretch
            self._insert_into(stretch, subject)
            return
        self.beginInsertRows(self._index(row), index, index)
        made = OutlineRow(added, row, index)
        row.children.insert(index, made)
        if row.rows is not None:
            row.rows[added] = made
        if is_loose:
            row.stretches = {**(row.stretches or {}), subject: made}
        self.endInsertRows()

    def _row_of_scope(self, row: OutlineRow, scope: Scope) -> OutlineRow | None:
        """Return the row of a scope in the branch of a graph, if it is built."""
        found: OutlineRow | None = row
        for step in _steps_to(scope):
            found = None if found is None else found.down_to(step)[-1].child(step)
        return found

    def rename(self, nodes: Iterable[Node]) -> None:
        """Update rows after renaming of values: nodes without a name are titled by them."""
        for node in nodes:
            row = self._find(node, build=False)
            if row is not None:
                self._update_texts(row)

    def retitle(self) -> None:
        """Graphs and functions may have other names; bodies are called after their attributes."""
        for row in self._children(self._root):
            self._update_texts(row)

    def _update_counts(self) -> None:
        """Update the counts in the rows of graphs and of groups whose nodes changed."""
        counted, self._counted = self._counted, set()
        for one in (*self._built(), *(self._row_of_scope(row, scope) for row, scope in counted)):
            if one is not None:
                self._update_texts(one)
                self._update_stretches(one)

    def _update_stretches(self, row: OutlineRow) -> None:
        for stretch in {id(one): one for one in (row.stretches or {}).values()}.values():
            self._update_texts(stretch)
            self._update_stretches(stretch)

    def _update_texts(self, row: OutlineRow) -> None:
        """Emit dataChanged for a row if its texts differ from those shown: the view measures its columns for that."""
        if row.shown_texts is None or row.shown_texts == row.identity():
            return
        row.shown_texts = None
        index = self._index(row)
        self.dataChanged.emit(index, index)

    # -- finding -------------------------------------------------------------------------------------------------

    def index_of(self, subject: Node | Graph) -> QModelIndex:
        """Return the row of a node or graph, building the branches to it; an invalid index if there is none."""
        row = self._find(subject, build=True)
        return QModelIndex() if row is None else self._index(row)

    def _find(self, subject: Node | Graph, *, build: bool) -> OutlineRow | None:
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

    def _row_of_graph(self, graph: Graph, *, build: bool = False) -> OutlineRow | None:
        owner = graph.owner
        if isinstance(owner, Node):
            parent = self._find(owner, build=build)
        else:
            parent = self._root
        if parent is None:
            return None
        return self._child(parent, graph, build)

    def _child(self, row: OutlineRow, subject: object, build: bool) -> OutlineRow | None:
        if build or row is self._root:
            self._children(row)
        inner = row.down_to(subject)[-1]
        while build and inner.children is None:
            self._children(inner)
            inner = inner.down_to(subject)[-1]
        return inner.child(subject)

    def _index(self, row: OutlineRow) -> QModelIndex:
        return QModelIndex() if row is self._root else self.createIndex(self._index_in_parent(row), 0, row)

    def _index_in_parent(self, row: OutlineRow) -> int:
        """Return the index of a row among its siblings; searches them if it is not at its last index."""
        siblings = row.parent.children if row.parent is not None else None
        assert siblings is not None
        if row.place >= len(siblings) or siblings[row.place] is not row:
            row.place = siblings.index(row)
        return row.place

    # -- QAbstractItemModel --------------------------------------------------------------------------------------

    def index(self, row: int, column: int, parent: Index = QModelIndex()) -> QModelIndex:
        children = self._children(self._row(parent))
        if not (0 <= row < len(children) and 0 <= column < 2):
            return QModelIndex()
        child = children[row]
        child.place = row
        return self.createIndex(row, column, child)

    def outer_index(self, index: Index) -> QModelIndex:
        row = self._row(index).parent
        return QModelIndex() if row is None or row is self._root else self._index(row)

    def rowCount(self, parent: Index = QModelIndex()) -> int:
        return len(self._children(self._row(parent)))

    def hasChildren(self, parent: Index = QModelIndex()) -> bool:
        row = self._row(parent)
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
        row = self._row(index)
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

    def _row(self, index: Index) -> OutlineRow:
        return index.internalPointer() if index.isValid() else self._root


def _inside(scope: Scope) -> list[Any]:
    """Inner groups, then nodes, each in the order of the graph."""
    return [*scope.children, *scope.nodes]


def _position(subject: Node | Scope) -> int:
    """Return the index in the list of its graph of a node, or of the first node of a scope."""
    node = next(subject.all_nodes()) if isinstance(subject, Scope) else subject
    assert node.graph is not None
    return node.graph.nodes.place(node)


def _order(subject: Any) -> tuple[int, int]:
    """Return what the rows of a branch are sorted by: groups, then nodes, each in the order of the graph, constants."""
    match subject:
        case Constants():
            return 2, 0
        case Stretch():
            return _order(subject.subjects[0])
    return int(isinstance(subject, Node)), _position(subject)


def _stretch_at(rows: list[OutlineRow], index: int, *, among_constants: bool) -> OutlineRow | None:
    """Return the stretch that an object with this index among rows belongs into."""
    row = next(iter(rows[index if among_constants else max(index - 1, 0) :]), None)
    if row is None or not isinstance(row.subject, Stretch):
        return None
    return row if isinstance(row.subject, Constants) == among_constants else None


def _is_in_order(scope: Scope, node: Node) -> bool:
    """Return whether a node is positioned between its neighbours of the same scope."""
    index = bisect_left(scope.nodes, _position(node), key=_position)
    if scope.nodes[index : index + 1] != [node]:
        return False  # or so it looks, where others moved too: then it is put in again
    near = scope.nodes[max(index - 1, 0) : index + 2]
    return all(map(comes_before, near, near[1:]))


def _scope_for(root: Scope, node: Node) -> tuple[Scope, Path]:
    """Return the innermost existing scope of a node, and the scope path in its name."""
    path = scope_path(node)
    scope = root
    while True:
        inside = (c for child in scope.children for c in (child.children if child.is_stack else (child,)))
        inner = next((c for c in inside if path[: len(c.path)] == c.path), None)
        if inner is None:
            return scope, path
        scope = inner


def _counterpart(scope: Scope, node: Node, path: Path) -> tuple[Node, Path] | None:
    """Return a neighbour that shares a deeper, not yet existing scope with this node, and that scope's path."""
    if len(path) <= len(scope.path):
        return None
    index = bisect_left(scope.nodes, _position(node), key=_position)
    for other in scope.nodes[max(index - 1, 0) : index + 1]:
        shared = path
        while shared != scope_path(other)[: len(shared)]:
            shared = shared[:-1]
        if len(shared) > len(scope.path):
            return other, shared
    return None


def _steps_to(scope: Scope | None) -> list[Scope]:
    """Return the groups from the outermost to this one."""
    steps = []
    while scope is not None and scope.parent is not None:
        steps.append(scope)
        scope = scope.parent
    return steps[::-1]
