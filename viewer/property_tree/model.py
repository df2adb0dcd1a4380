"""Qt model of rows, updated in place, so that focus, expansion and an open editor survive an undo."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QModelIndex, QObject, Qt, Signal

from onnx_workbench.viewer.property_tree.rows import LazyRows, PropertyRow
from onnx_workbench.viewer.style.tooltips import plain_tip
from onnx_workbench.viewer.tables.tree_model import Index, KeyedTreeModel, TreeRow

#: The Row of an index.
RowRole = Qt.ItemDataRole.UserRole + 1
_FLAGS = Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable | Qt.ItemFlag.ItemIsEditable


@dataclass(slots=True, eq=False)
class _Item(TreeRow):
    """A row of the tree."""

    row: PropertyRow | None = None  # None: to be created from `source`, the lazy rows of the item around it
    source: LazyRows | None = None


class PropertyModel(KeyedTreeModel[_Item]):
    """Rows in two columns: label and value. Emits changes of rows, of lazy rows all at once: `many_changed`."""

    many_changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.root = _Item(None, 0, PropertyRow("", ""))
        self.root.children = []
        self._may_open = False

    # -- contents --------------------------------------------------------------------------------------------

    def set_rows(self, rows: Sequence[PropertyRow]) -> bool:
        """Show these rows: rows with the same key are updated, others are added or removed.

        Return whether some may have become expandable.
        """
        self._may_open = False
        self.root.row = PropertyRow("", "", children=rows)
        self._update(self.root, rows)
        return self._may_open

    def _update(self, item: _Item, rows: Sequence[PropertyRow]) -> None:
        if item.children is None:
            return
        if isinstance(rows, LazyRows):
            self._update_lazily(item, rows)
            return
        if item.children and item.children[0].source is not None:  # lazy rows, too many to match by key
            self.remove_children(item)
        kept = self.show_branch(item, _items_of(item, rows))
        self._may_open |= len(kept) < len(rows)
        for child, new in kept:
            if self._show_row(child, self.row_of(new)):
                self.dataChanged.emit(self.index_of_row(child), self.index_of_row(child, 1))

    def _show_row(self, item: _Item, row: PropertyRow) -> bool:
        """Show another row in an item; return whether it looks different."""
        before = self.row_of(item)
        item.row = row
        self._may_open |= (before.expanded, before.children is None) != (row.expanded, row.children is None)
        if item.children is not None:
            if before.children is not None and row.children is None:
                self._clear(item)
            else:
                rows = row.rows()
                if isinstance(rows, LazyRows) and item.children and item.children[0].source is None:
                    self._clear(item)  # the view would lay out all child rows at once
                    self._may_open = True
                self._update(item, rows)
        return not row.looks_like(before)

    def _update_lazily(self, item: _Item, rows: LazyRows) -> None:
        assert item.children is not None
        have, wanted = len(item.children), len(rows)
        if wanted < have:
            self.remove_children(item, keep={*item.children[:wanted]})
        elif wanted > have:
            self._may_open = True
            self.insert_children(item, have, _items_of(item, rows)[have:])
        for place, child in enumerate(item.children):
            child.row, child.source = None, rows
            if child.children is None:
                continue
            if rows.opens(place):
                self._update(child, self.row_of(child).rows())
            else:
                self._clear(child)
        self.many_changed.emit()  # dataChanged would make QTreeView search all its rows for the range

    def _clear(self, item: _Item) -> None:
        self.remove_children(item)
        item.children = None

    def is_lazy(self, index: Index) -> bool:
        """Return whether the child rows are lazy, each created on access."""
        items = self.children_of(self.row_at(index))
        return bool(items) and items[0].source is not None

    def row_of(self, item: _Item) -> PropertyRow:
        """Return the row of an item, creating it if needed."""
        row = item.row
        if row is None:
            assert item.source is not None
            row = item.row = item.source[item.place]
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

    def children_of(self, row: _Item) -> list[_Item]:
        if row.children is None:
            row.children = _items_of(row, self.row_of(row).rows())
        return row.children

    def keys_of(self, rows: Sequence[_Item]) -> list[Hashable]:
        return [self.row_of(item).key for item in rows]

    def hasChildren(self, parent: Index = QModelIndex()) -> bool:
        if parent.column() > 0:
            return False
        item = self.row_at(parent)
        if item.children is not None:
            return bool(item.children)
        if item.source is not None:
            return item.source.opens(item.place)
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


def _items_of(item: _Item, rows: Sequence[PropertyRow]) -> list[_Item]:
    """Return items of rows below one; those of lazy rows are created when they are asked for."""
    if isinstance(rows, LazyRows):
        return [_Item(item, place, None, rows) for place in range(len(rows))]
    return [_Item(item, place, row) for place, row in enumerate(rows)]
