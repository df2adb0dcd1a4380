"""Base of the models of tree views."""

from __future__ import annotations

from typing import overload

from PySide6.QtCore import QAbstractItemModel, QModelIndex, QObject, QPersistentModelIndex

Index = QModelIndex | QPersistentModelIndex


class TreeModel(QAbstractItemModel):
    """Base of tree models. Qt has two methods `parent`: the owner of the model, and the parent of a row."""

    @overload
    def parent(self, /) -> QObject | None: ...
    @overload
    def parent(self, child: Index, /) -> QModelIndex: ...
    def parent(self, child: Index | None = None, /) -> QObject | QModelIndex | None:
        """Return the owner, or with an index that of the row around it."""
        return super().parent() if child is None else self.outer_index(child)

    def outer_index(self, _child: Index) -> QModelIndex:
        """Return the index of the row around a row, in the first column; none for rows of the outermost level."""
        return QModelIndex()
