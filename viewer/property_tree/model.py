"""Qt model of rows, updated in place, so that focus, expansion and an open editor survive an undo."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import QModelIndex, QObject, Qt, Signal

from onnx_workbench.viewer.property_tree.rows import LazyRows, PropertyRow
from onnx_workbench.viewer.style.tooltips import plain_tip
from onnx_workbench.viewer.tables.tree_model import Index, TreeModel

#: The Row of an index.
RowRole = Qt.ItemDataRole.UserRole + 1
_FLAGS = Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable | Qt.ItemFlag.ItemIsEditable


class _Item:
    """A node of the row tree; its children are created on first access."""

    __slots__ = ("items", "parent", "position", "row", "source")

    def __init__(self, parent: _Item | None, position: int, row: PropertyRow | None, source: LazyRows | None) -> None:
        self.parent = parent
        self.position = position
        self.row = row  # None: to be created from `source`, the parent's lazy rows
        self.source = source
        self.items: list[_Item] | None = None


class PropertyModel(TreeModel):
    """Rows in two columns: label and value. Emits changes of rows, of lazy rows all at once: `many_changed`."""

    many_changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._root = _Item(None, 0, PropertyRow("", ""), None)
        self._root.items = []
        self._may_open = False

    # -- contents --------------------------------------------------------------------------------------------

    def set_rows(self, rows: Sequence[PropertyRow]) -> bool:
        """Show these rows: rows with the same key are updated, others are added or removed.

        Return whether some may have become expandable.
        """
        self._may_open = False
        self._root.row = PropertyRow("", "", children=rows)
        self._update(self._root, rows)
        return self._may_open

    def _update(self, item: _Item, rows: Sequence[PropertyRow]) -> None:
        if item.items is None:
            return
        if isinstance(rows, LazyRows):
            self._update_lazily(item, rows)
            return
        if item.items and item.items[0].source is not None:  # lazy rows, too many to match by key
            self._remove(item, 0, len(item.items) - 1)
        keys = {row.key for row in rows}
        for position in range(len(item.items) - 1, -1, -1):
            if self.row_of(item.items[position]).key not in keys:
                self._remove(item, position, position)
        for position, row in enumerate(rows):
            if self._place_row(item, position, row):
                child = item.items[position]
                self.dataChanged.emit(self._index_of(child), self._index_of(child, 1))

    def _place_row(self, item: _Item, position: int, row: PropertyRow) -> bool:
        """Move or insert a row at `position` among the children; return whether it looks different."""
        items = item.items
        assert items is not None
        found = next((i for i in range(position, len(items)) if self.row_of(items[i]).key == row.key), None)
        if found is None:
            self._may_open = True
            self.beginInsertRows(self._index_of(item), position, position)
            items.insert(position, _Item(item, position, row, None))
            _number(items, position)
            self.endInsertRows()
            return False
        if found != position:
            self.beginMoveRows(self._index_of(item), found, found, self._index_of(item), position)
            items.insert(position, items.pop(found))
            _number(items, position)
            self.endMoveRows()
        child = items[position]
        before = self.row_of(child)
        child.row = row
        self._may_open |= (before.expanded, before.children is None) != (row.expanded, row.children is None)
        if child.items is not None:
            if before.children is not None and row.children is None:
                self._clear(child)
            else:
                rows = row.rows()
                if isinstance(rows, LazyRows) and child.items and child.items[0].source is None:
                    self._clear(child)  # the view would lay out all child rows at once
                    self._may_open = True
                self._update(child, rows)
        return not row.looks_like(before)

    def _update_lazily(self, item: _Item, rows: LazyRows) -> None:
        assert item.items is not None
        have, wanted = len(item.items), len(rows)
        if wanted < have:
            self._remove(item, wanted, have - 1)
        elif wanted > have:
            self._may_open = True
            self.beginInsertRows(self._index_of(item), have, wanted - 1)
            item.items.extend(_Item(item, i, None, rows) for i in range(have, wanted))
            self.endInsertRows()
        for position, child in enumerate(item.items):
            child.row, child.source = None, rows
            if child.items is None:
                continue
            if rows.opens(position):
                self._update(child, self.row_of(child).rows())
            else:
                self._clear(child)
        self.many_changed.emit()  # dataChanged would make QTreeView search all its rows for the range

    def _remove(self, item: _Item, first: int, last: int) -> None:
        assert item.items is not None
        self.beginRemoveRows(self._index_of(item), first, last)
        del item.items[first : last + 1]
        _number(item.items, first)
        self.endRemoveRows()

    def _clear(self, item: _Item) -> None:
        if item.items:
            self._remove(item, 0, len(item.items) - 1)
        item.items = None

    def _index_of(self, item: _Item, column: int = 0) -> QModelIndex:
        return QModelIndex() if item is self._root else self.createIndex(item.position, column, item)

    def is_lazy(self, index: Index) -> bool:
        """Return whether the child rows are lazy, each created on access."""
        items = self._children(self._item(index))
        return bool(items) and items[0].source is not None

    def row_of(self, item: _Item) -> PropertyRow:
        """Return the row of an item, creating it if needed."""
        row = item.row
        if row is None:
            assert item.source is not None
            row = item.row = item.source[item.position]
        return row

    def row(self, index: Index) -> PropertyRow | None:
        """Return the row at an index."""
        return self.row_of(index.internalPointer()) if index.isValid() else None

    def find(self, *path: str) -> QModelIndex:
        """Return the index of the value at a path of keys; invalid if there is none."""
        index = QModelIndex()
        for key in path:
            index = next(
                (i for n in range(self.rowCount(index)) if self._key(i := self.index(n, 0, index)) == key),
                QModelIndex(),
            )
            if not index.isValid():
                return index
        return index.siblingAtColumn(1)

    def _key(self, index: Index) -> str:
        row = self.row(index)
        return "" if row is None else row.key

    def path(self, index: Index) -> tuple[str, ...]:
        """Return the keys from the outermost row to this one."""
        keys: list[str] = []
        while index.isValid():
            keys.append(self._key(index))
            index = index.parent()
        return tuple(reversed(keys))

    # -- Qt --------------------------------------------------------------------------------------------------

    def _children(self, item: _Item) -> list[_Item]:
        if item.items is None:
            rows = self.row_of(item).rows()
            if isinstance(rows, LazyRows):
                item.items = [_Item(item, i, None, rows) for i in range(len(rows))]
            else:
                item.items = [_Item(item, i, row, None) for i, row in enumerate(rows)]
        return item.items

    def _item(self, index: Index) -> _Item:
        return index.internalPointer() if index.isValid() else self._root

    def index(self, row: int, column: int, parent: Index = QModelIndex()) -> QModelIndex:
        if parent.isValid() and parent.column() != 0:
            return QModelIndex()
        items = self._children(self._item(parent))
        return self.createIndex(row, column, items[row]) if 0 <= row < len(items) else QModelIndex()

    def outer_index(self, index: Index) -> QModelIndex:
        """Return the index of the parent row."""
        item = index.internalPointer().parent if index.isValid() else None
        return QModelIndex() if item is None else self._index_of(item)

    def rowCount(self, parent: Index = QModelIndex()) -> int:
        return 0 if parent.column() > 0 else len(self._children(self._item(parent)))

    def hasChildren(self, parent: Index = QModelIndex()) -> bool:
        if parent.column() > 0:
            return False
        item = self._item(parent)
        if item.items is not None:
            return bool(item.items)
        if item.source is not None:
            return item.source.opens(item.position)
        children = self.row_of(item).children
        return children is not None and (callable(children) or len(children) > 0)

    def columnCount(self, _parent: Index = QModelIndex()) -> int:
        return 2

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        row = self.row(index)
        if row is None:
            return None
        if role == RowRole:
            return row
        if role == Qt.ItemDataRole.DisplayRole:
            return row.label if index.column() == 0 else row.text
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return " ".join(part for part in (row.label, row.text, row.note) if part)
        if role == Qt.ItemDataRole.ToolTipRole:
            return plain_tip(row.tip) or None
        return None

    def flags(self, index: Index) -> Qt.ItemFlag:
        """Return the same flags for all rows, without creating them: the view checks for a field before editing."""
        return _FLAGS if index.isValid() else Qt.ItemFlag.NoItemFlags


def _number(items: list[_Item], first: int) -> None:
    for position in range(first, len(items)):
        items[position].position = position
