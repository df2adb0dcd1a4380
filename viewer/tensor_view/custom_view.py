"""The widget for views of extensions: a text, a picture or a table, whatever the view returned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from PySide6.QtWidgets import QAbstractItemView, QStackedWidget, QTableWidget, QTableWidgetItem, QWidget

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.text.formatting import display
from onnx_workbench.viewer.extensions import custom_views
from onnx_workbench.viewer.extensions.custom_views import Table
from onnx_workbench.viewer.plots.matrix_view import MatrixImage, MatrixView
from onnx_workbench.viewer.style.theme import monospace, themes
from onnx_workbench.viewer.tensor_view.small_widgets import text_view
from onnx_workbench.viewer.widgets.whole_text import WholeTextDelegate

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from onnx_workbench.viewer.tensor_view.readers import Reader

_MOST_BYTES = 1 << 30  # of a value that is given to a view as a whole
_MOST_SHOWN = 500  # characters of a cell
_ROOM = 6  # px of a row around its text


class CustomView(QStackedWidget):
    """Shows what `show_value` returned."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.text = text_view("Text of an extension")
        self.picture = MatrixView()
        self.table = QTableWidget()
        self.table.setItemDelegate(WholeTextDelegate(self.table))
        self.table.setAccessibleName("Table of an extension")
        self.table.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.table.setTabKeyNavigation(False)
        rows = self.table.verticalHeader()
        rows.hide()
        rows.setDefaultSectionSize(self.table.fontMetrics().height() + _ROOM)
        for widget in (self.text, self.picture, self.table):
            self.addWidget(widget)
        themes().themeChanged.connect(self._use_font)
        self._use_font()

    def _use_font(self) -> None:
        self.text.setFont(monospace())

    def show_result(self, found: str | Table | NDArray[np.uint8]) -> None:
        """Show a text, a table, or the pixels of an image."""
        if isinstance(found, str):
            self.text.setPlainText(found)
            self.setCurrentWidget(self.text)
        elif isinstance(found, Table):
            self._show_table(found)
            self.setCurrentWidget(self.table)
        else:
            self.picture.show_picture(MatrixImage(found[..., [2, 1, 0, 3]]))
            self.setCurrentWidget(self.picture)

    def _show_table(self, found: Table) -> None:
        width = max(len(found.headings), *map(len, found.rows), 1)
        more = [("…",)] if found.is_cut else []
        rows = [*found.rows, *more]
        self.table.clear()
        self.table.setColumnCount(width)
        self.table.setRowCount(len(rows))
        padded = [*found.headings, *[""] * (width - len(found.headings))]
        self.table.setHorizontalHeaderLabels([display(text, 80) for text in padded])
        for number, row in enumerate(rows):
            for column, text in enumerate(row):
                self.table.setItem(number, column, QTableWidgetItem(display(text, _MOST_SHOWN)))
        self.table.resizeColumnsToContents()


def show_whole(view: str, reader: Reader) -> Any:
    """Read a complete value and return the result of a view for it; ModelError if it is too large."""
    array = reader.flat(0, 0)
    if reader.size * array.itemsize > _MOST_BYTES:
        raise ModelError("Too large for this view", f"It shows values of up to {_MOST_BYTES >> 20} MiB.")
    return custom_views.show_value(view, reader.flat(0, reader.size).reshape(reader.shape))
