"""Base of the models of tree views: rows built on access, which keep their identity while others come and go."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect
from collections.abc import Container, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Self, TypeVar, overload

from PySide6.QtCore import QAbstractItemModel, QModelIndex, QObject, QPersistentModelIndex

from onnx_workbench.model.analysis.sequences import out_of_order

Index = QModelIndex | QPersistentModelIndex


@dataclass(slots=True, eq=False)
class TreeRow:
    """A row: the one around it, its last known place among its siblings, and those below, None until they are built."""

    parent: Self | None = field(repr=False)
    place: int
    children: list[Self] | None = field(init=False, default=None, repr=False)


Row = TypeVar("Row", bound=TreeRow)


class KeyedTreeModel(QAbstractItemModel, Generic[Row]):
    """Base of tree models, which say what is below a row (`children_of`) and what a row stays the same by (`keys_of`).

    Qt has two methods `parent`: the owner of the model, and the parent of a row.
    """

    root: Row

    @abstractmethod
    def children_of(self, row: Row) -> list[Row]:
        """Return the rows below one, built when that is asked for the first time."""

    def keys_of(self, rows: Sequence[Row]) -> list[Hashable]:
        """Return the keys of neighbours; where a subclass does not say, each row is its own."""
        return list(rows)

    def forget(self, row: Row) -> None:
        """A row is not shown any more, nor what was below it."""

    def regrouped(self, row: Row) -> None:
        """Other children are below a row, of which views will hear now."""

    # -- changing the rows below one -------------------------------------------------------------------------------

    def show_branch(self, row: Row, branch: list[Row]) -> list[tuple[Row, Row]]:
        """Show a branch below a row. A child with the key of a row of it stays instead, and moves to its place.

        Return the children that stay, each with the row of the branch that it stands for.
        """
        children = row.children
        assert children is not None
        place = {key: index for index, key in enumerate(self.keys_of(branch))}
        stays = {c: place[key] for c, key in zip(children, self.keys_of(children), strict=True) if key in place}
        self.remove_children(row, keep=stays)
        self._sort(row, stays)
        kept, first = {index: child for child, index in stays.items()}, 0
        while first < len(branch):
            end = first
            while end < len(branch) and end not in kept:
                end += 1
            if end > first:
                self.insert_children(row, first, branch[first:end])
            first = end + 1
        return [(kept[index], branch[index]) for index in sorted(kept)]

    def _sort(self, row: Row, place: dict[Row, int]) -> None:
        """Move as few children as possible to bring all into the order of their new places."""
        children, parent = row.children or [], self.index_of_row(row)
        moved = dict.fromkeys(children[at] for at in out_of_order([*place.values()]))
        in_order = [child for child in children if child not in moved]
        for child in moved:
            at = bisect(in_order, place[child], key=place.__getitem__)
            source = children.index(child)
            target = children.index(in_order[at]) if at < len(in_order) else len(children)
            in_order.insert(at, child)
            if target not in (source, source + 1):
                self.beginMoveRows(parent, source, source, parent, target)
                children.insert(target - (target > source), children.pop(source))
                self.endMoveRows()

    def remove_children(self, row: Row, *, keep: Container[Row] = ()) -> None:
        """Remove the children of a row, but those to be kept."""
        children, end = row.children or [], len(row.children or ())
        while end > 0:
            first = end
            while first and children[first - 1] not in keep:
                first -= 1
            if first < end:
                self.beginRemoveRows(self.index_of_row(row), first, end - 1)
                for child in children[first:end]:
                    self.forget(child)
                del children[first:end]
                self.regrouped(row)
                self.endRemoveRows()
            end = first - 1

    def insert_children(self, row: Row, at: int, rows: Sequence[Row]) -> None:
        """Insert rows below one."""
        assert row.children is not None
        self.beginInsertRows(self.index_of_row(row), at, at + len(rows) - 1)
        row.children[at:at] = rows
        self.regrouped(row)
        self.endInsertRows()

    # -- QAbstractItemModel ----------------------------------------------------------------------------------------

    def row_at(self, index: Index) -> Row:
        """Return the row at an index; the root for an invalid one."""
        row: Row = index.internalPointer() if index.isValid() else self.root
        return row

    def index_of_row(self, row: Row, column: int = 0) -> QModelIndex:
        """Return the index of a row; searches its siblings if it is not at its last known place."""
        if row.parent is None:
            return QModelIndex()
        siblings = row.parent.children or []
        if row.place >= len(siblings) or siblings[row.place] is not row:
            row.place = siblings.index(row)
        return self.createIndex(row.place, column, row)

    def index(self, row: int, column: int, parent: Index = QModelIndex()) -> QModelIndex:
        if parent.column() > 0:
            return QModelIndex()
        children = self.children_of(self.row_at(parent))
        if not (0 <= row < len(children) and 0 <= column < self.columnCount()):
            return QModelIndex()
        children[row].place = row
        return self.createIndex(row, column, children[row])

    @overload
    def parent(self, /) -> QObject | None: ...
    @overload
    def parent(self, child: Index, /) -> QModelIndex: ...
    def parent(self, child: Index | None = None, /) -> QObject | QModelIndex | None:
        """Return the owner, or with an index that of the row around it, in the first column."""
        if child is None:
            return super().parent()
        around = self.row_at(child).parent
        return QModelIndex() if around is None else self.index_of_row(around)

    def rowCount(self, parent: Index = QModelIndex()) -> int:
        return 0 if parent.column() > 0 else len(self.children_of(self.row_at(parent)))
