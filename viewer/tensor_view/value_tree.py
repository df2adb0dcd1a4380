"""Sequences and maps of a run as a tree, and any value as text."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHeaderView, QTreeWidget, QTreeWidgetItem, QWidget

from onnx_workbench.exec.values.arrays import SparseArray
from onnx_workbench.exec.values.statistics import describe
from onnx_workbench.model.text.formatting import display, number_text
from onnx_workbench.viewer.tensor_view.tensor_model import number_cell
from onnx_workbench.viewer.widgets.whole_text import WholeTextDelegate

if TYPE_CHECKING:
    from onnx_workbench.viewer.tensor_view.readers import Reader, TensorSlice

_MOST_CHILDREN = 1000
_MOST_SHOWN = 200
_FIRST = 8


class ValueTree(QTreeWidget):
    """Elements by index or key; branches are filled when they are expanded."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setItemDelegate(WholeTextDelegate(self))
        self.setHeaderLabels(["Element", "Type", "Value"])
        self.setUniformRowHeights(True)
        self.setAccessibleName("Elements of the sequence or map")
        self.header().setSectionResizeMode(0, QHeaderView.ResizeMode.ResizeToContents)
        self.header().setSectionResizeMode(1, QHeaderView.ResizeMode.ResizeToContents)
        self.itemExpanded.connect(self._fill)

    def show_value(self, value: Any) -> None:
        """Show a list or dict."""
        self.clear()
        top = self.invisibleRootItem()
        for item in _items(value):
            top.addChild(item)

    def _fill(self, item: QTreeWidgetItem) -> None:
        if not item.childCount():
            item.addChildren(_items(item.data(0, Qt.ItemDataRole.UserRole)))


def _items(value: Any) -> list[QTreeWidgetItem]:
    pairs = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
    items = []
    for key, inner in pairs[:_MOST_CHILDREN]:
        plain = isinstance(inner, (str, int, float, bool, np.generic))
        kind = type(inner).__name__ if plain else str(describe(inner))
        item = QTreeWidgetItem([display(str(key), 80), kind, value_text(inner)])
        if isinstance(inner, (list, dict)) and inner:
            item.setData(0, Qt.ItemDataRole.UserRole, inner)
            item.setChildIndicatorPolicy(QTreeWidgetItem.ChildIndicatorPolicy.ShowIndicator)
        items.append(item)
    if len(pairs) > _MOST_CHILDREN:
        items.append(QTreeWidgetItem(["…", "", f"{number_text(len(pairs) - _MOST_CHILDREN)} more"]))
    return items


def value_text(value: Any) -> str:
    """Format the first elements of a value in a line."""
    if isinstance(value, np.ndarray):
        first = value.reshape(-1)[:_FIRST]
        text = ", ".join(number_cell(v) for v in first)
        return display(text + (", …" if value.size > _FIRST else ""), 200, elide="end")
    if isinstance(value, dict):
        pairs = [f"{display(str(key), 40)}: {value_text(inner)}" for key, inner in islice(value.items(), _FIRST)]
        return display(", ".join(pairs) + (", …" if len(value) > _FIRST else ""), 200, elide="end")
    if isinstance(value, (list, SparseArray)) or value is None:
        return ""
    return number_cell(value)


def plane_text(reader: Reader, which: TensorSlice) -> str:
    """Format a plane as text, rows in brackets; strings one per line. At most 200 rows and columns."""
    rows, columns = which.size(reader.shape)
    if not rows:
        return "(no elements)"
    shown = reader.plane(which, range(min(rows, _MOST_SHOWN)), range(min(columns, _MOST_SHOWN)))
    count = reader.shape[0] if which.wrap else None
    if shown.dtype == object:
        flat = shown.reshape(-1)[:count]
        lines = [display(str(v), 2000, elide="end", keep_lines=True) for v in flat]
    else:
        cells = [[number_cell(v) for v in row] for row in shown]
        if count is not None:
            cells = [row[: max(0, count - number * which.wrap)] for number, row in enumerate(cells)]
        width = max(len(cell) for row in cells for cell in row)
        lines = ["[ " + "  ".join(cell.rjust(width) for cell in row) + " ]" for row in cells]
    if rows > len(shown) or columns > _MOST_SHOWN:
        lines.append(f"… the first {min(rows, _MOST_SHOWN)} rows and {min(columns, _MOST_SHOWN)} columns")
    return "\n".join(lines)
