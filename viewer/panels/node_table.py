"""Node table: every node of an operator as a row with its attributes; edits cells, columns and selections at once."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

from PySide6.QtCore import QEvent, QItemSelection, QItemSelectionModel, QObject, Qt, QTimer
from PySide6.QtGui import QGuiApplication, QKeyEvent, QKeySequence, QPalette, QShowEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QComboBox,
    QHBoxLayout,
    QLineEdit,
    QPushButton,
    QVBoxLayout,
)
from shiboken6 import isValid

from onnx_workbench.model.analysis.search import Query, parse
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.ir.graph import Node
from onnx_workbench.model.progress import Progress
from onnx_workbench.model.text.formatting import display, plural
from onnx_workbench.viewer.dialogs.text_prompt import ErrorLabel
from onnx_workbench.viewer.panel import Panel
from onnx_workbench.viewer.panels.node_table_model import NodeTableModel, title_of, write_cells
from onnx_workbench.viewer.property_tree.field_delegate import CellDelegate
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.tables.row_table import RowTable
from onnx_workbench.viewer.tasks.event_loop import ChunkedIteration
from onnx_workbench.viewer.widgets.plain_label import plain_label
from onnx_workbench.viewer.widgets.undo_forwarding import forward_undo
from onnx_workbench.viewer.workflows.edit_many import CopyOf, edit_many

_DELAY_MS = 150
_ALL = "All operators"
_MOST_FREQUENT = "the most frequent one"  # no operator has a name like this
_HELP = "Filter: words, op:Conv, name:/regex/, attr:group=1, dtype:float16 …"


class NodeTablePanel(Panel):
    """Choose an operator, filter, sort; edit cells, or set all selected cells with the field."""

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        self.model = NodeTableModel(workspace.document, workspace.grouping, self)
        self.operator = QComboBox(self)
        self.operator.setAccessibleName("Operator")
        self.operator.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        self.filter = QLineEdit(self)
        self.filter.setPlaceholderText(_HELP)
        self.filter.setAccessibleName("Filter")
        self.filter.setClearButtonEnabled(True)
        forward_undo(self.filter)
        self.bulk = QLineEdit(self)
        forward_undo(self.bulk)
        self.bulk.setPlaceholderText("New value for the selected cells")
        self.bulk.setAccessibleName("New value for the selected cells")
        self.set_button = QPushButton("Set", self)
        self.set_button.setEnabled(False)
        self.table = self._table()
        self.status = plain_label(parent=self, wraps=False)
        self.status.setForegroundRole(QPalette.ColorRole.PlaceholderText)
        self.error = ErrorLabel(self)
        self._lay_out()
        self._counts: Counter[tuple[str, str]] = Counter()
        self._wanted: str | None = None
        self._search: ChunkedIteration[Node] = ChunkedIteration(self._on_found, self, self._on_failed)
        self._found: list[Node] = []
        self._chosen = set[Node]()  # until others are listed
        self._delay = QTimer(self, singleShot=True, interval=_DELAY_MS)
        self._delay.timeout.connect(self.refresh_when_visible)
        self._listen()
        self._choose_first()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._show_selection()

    def _table(self) -> RowTable:
        table = RowTable(self.model, "Nodes", self)
        table.setItemDelegate(CellDelegate(table))
        table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectItems)
        table.setShowGrid(True)
        table.setAlternatingRowColors(True)
        table.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        table.setEditTriggers(
            QAbstractItemView.EditTrigger.DoubleClicked
            | QAbstractItemView.EditTrigger.EditKeyPressed
            | QAbstractItemView.EditTrigger.AnyKeyPressed
        )
        header = table.horizontalHeader()
        header.setSortIndicator(-1, Qt.SortOrder.AscendingOrder)
        header.setSortIndicatorClearable(True)
        table.setSortingEnabled(True)
        table.installEventFilter(self)
        return table

    def _lay_out(self) -> None:
        top, below = QHBoxLayout(), QHBoxLayout()
        top.addWidget(self.operator)
        top.addWidget(self.filter, 1)
        below.addWidget(self.status)
        below.addStretch(1)
        below.addWidget(self.bulk, 1)
        below.addWidget(self.set_button)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(6, 6, 6, 6)
        layout.setSpacing(4)
        layout.addLayout(top)
        layout.addWidget(self.table, 1)
        layout.addWidget(self.error)
        layout.addLayout(below)
        self.entry = self.filter

    def _listen(self) -> None:
        self.filter.textChanged.connect(lambda _text: self._delay.start())
        self.operator.activated.connect(lambda _index: self._on_operator())
        self.bulk.returnPressed.connect(self.set_selected)
        self.set_button.clicked.connect(self.set_selected)
        self.model.modelAboutToBeReset.connect(self._on_listing)
        self.model.modelReset.connect(self._on_listed)
        self.table.selectionModel().selectionChanged.connect(self._on_selection)
        self.workspace.highlights.overlay_changed.connect(self._on_node_data)
        changes = self.workspace.changes
        changes.nodes_changed.connect(self._on_nodes)
        changes.structure_changed.connect(self._on_structure)
        self.workspace.selection.changed.connect(self._show_selection)

    # -- rows and columns ------------------------------------------------------------------------------------

    def _choose_first(self) -> None:
        """Choose the operator of the selected node, or the most frequent one, or all where there is node data."""
        item = self.workspace.selection.current
        self._wanted = _key(item.domain, item.op_type) if isinstance(item, Node) else _MOST_FREQUENT
        if self.workspace.highlights.data is not None:
            self._wanted = None  # data of all operators are to be sorted
        self.refresh()

    def _list_operators(self) -> None:
        """List the operators, most frequent first; the choice is kept."""
        self.operator.clear()
        self.operator.addItem(f"{_ALL} ({self._counts.total():,})", None)
        for (domain, op_type), count in self._counts.most_common():
            title = f"{display(domain, 40)}::{display(op_type, 60)}" if domain else display(op_type, 60)
            self.operator.addItem(f"{title} ({count:,})", _key(domain, op_type))
        if self._wanted is not None:
            wanted = self._wanted
            if wanted == _MOST_FREQUENT:
                wanted = next((_key(*key) for key, _ in self._counts.most_common() if key[1] != "Constant"), wanted)
            row = self.operator.findData(wanted)
            self.operator.setCurrentIndex(max(row, 0))
            self._wanted = self.operator.currentData()

    def _on_operator(self) -> None:
        self._wanted = self.operator.currentData()
        self.refresh()

    def refresh(self) -> None:
        """List the nodes again, in a large model incrementally."""
        self._delay.stop()
        self._search.stop()
        self.error.show_error(None)
        try:
            query = parse(self.filter.text(), self.workspace.types.type_of)
        except ModelError as error:
            self.error.show_error(error)
            return
        self._found = []
        self.model.node_data = self.workspace.highlights.data
        self._search.start(self._matching(query))
        self._search.next_chunk()

    def _matching(self, query: Query) -> Iterator[Node | None]:
        self._counts = Counter()
        for graph in self.workspace.model.graphs():
            for node in graph.nodes:
                self._counts[node.domain, node.op_type] += 1
                yield None
        self._list_operators()
        for graph in self.workspace.model.graphs():
            for node in graph.nodes:
                is_wanted = self._wanted is None or _key(node.domain, node.op_type) == self._wanted
                yield node if is_wanted and query.matches(node) else None

    def _on_found(self, nodes: list[Node], finished: bool) -> None:
        self._found += nodes
        if not finished:
            self.status.setText(f"{plural(len(self._found), 'node')} so far")
            return
        self.model.set_rows(self._found)

    def _on_failed(self, error: ModelError) -> None:
        """Keep the previous list."""
        self.error.show_error(error)
        self.status.setText(plural(len(self.model.rows), "node"))

    def _on_listing(self) -> None:
        self._chosen = set(self._selected_nodes())

    def _on_listed(self) -> None:
        self._fit_columns()
        if self._chosen:
            self._select(self._chosen)
        else:
            self._show_selection()
        self._chosen = set()
        self._show_count()

    def _show_count(self) -> None:
        """Say how many nodes are listed, or selected, and the sum of their node data."""
        chosen = self._selected_nodes()
        text = plural(len(self.model.rows), "node") if len(chosen) < 2 else f"{len(chosen):,} selected"
        data = self.model.node_data
        total = None if data is None else data.of(chosen if len(chosen) > 1 else self.model.rows)
        self.status.setText(text if total is None else f"{text} · {total[0]}: {total[1]}")

    def _select(self, nodes: set[Node]) -> None:
        rows = [row for row, node in enumerate(self.model.rows) if node in nodes] if nodes else []
        chosen = QItemSelection()
        for _, run in groupby(enumerate(rows), key=lambda item: item[1] - item[0]):  # neighbours as one range
            several = [row for _, row in run]
            chosen.select(self.model.index(several[0], 0), self.model.index(several[-1], 0))
        self.table.selectionModel().select(chosen, QItemSelectionModel.SelectionFlag.Select)

    def _fit_columns(self) -> None:
        for section, column in enumerate(self.model.columns):
            least = self.fontMetrics().horizontalAdvance(f"{column.title}00000")
            width = self.table.sizeHintForColumn(section) + 16 if len(self.model.rows) < 2000 else 0
            self.table.setColumnWidth(section, min(max(least, width), 320))

    def _on_node_data(self) -> None:
        """Show other node data, in columns that stand where others stood."""
        if self.model.node_data is self.workspace.highlights.data:
            return
        self.table.horizontalHeader().setSortIndicator(-1, Qt.SortOrder.AscendingOrder)
        self.refresh_when_visible()

    def _on_nodes(self, nodes: set[Node]) -> None:
        self.model.touch(nodes)

    def _on_structure(self, _graphs: object) -> None:
        self._search.stop()
        self.model.stop()
        self._delay.start()

    # -- selecting and editing -------------------------------------------------------------------------------

    def _selected_nodes(self) -> list[Node]:
        rows: set[int] = set()
        for part in self.table.selectionModel().selection().toList():
            rows.update(range(part.top(), part.bottom() + 1))
        return [self.model.rows[row] for row in sorted(rows) if row < len(self.model.rows)]

    def _on_selection(self, *_: object) -> None:
        cells = sum(part.height() * part.width() for part in self.table.selectionModel().selection().toList())
        self.set_button.setEnabled(cells > 0)
        self.set_button.setText(f"Set {plural(cells, 'cell')}" if cells else "Set")
        if self.model.node_data is not None:
            self._show_count()
        if self.table.hasFocus() and cells:
            self.workspace.navigation.reveal_all(self._selected_nodes())

    def _show_selection(self) -> None:
        """Mirror the selection made elsewhere."""
        if not self.isVisible() or self.table.hasFocus():
            return
        chosen = {item for item in self.workspace.selection.items if isinstance(item, Node)}
        if chosen == set(self._selected_nodes()):
            return
        self.table.selectionModel().clearSelection()
        self._select(chosen)
        rows = [part.top() for part in self.table.selectionModel().selection().toList()]
        if rows:
            self.table.scrollTo(self.model.index(min(rows), 0))

    def set_selected(self) -> None:
        """Write the field's text into every selected cell, as one edit."""
        text = self.bulk.text()
        self._change([(row, column, text) for row, column in self._selected_cells()])

    def _selected_cells(self) -> list[tuple[int, int]]:
        """Return the selected rows and columns; without creating indexes, as they may be very many."""
        cells = list[tuple[int, int]]()
        for part in self.table.selectionModel().selection().toList():
            columns = range(part.left(), part.right() + 1)
            cells += [(row, column) for row in range(part.top(), part.bottom() + 1) for column in columns]
        return cells

    def _change(self, texts: Sequence[tuple[int, int, str]]) -> None:
        self.error.show_error(None)
        cells = self.model.cells(texts)
        if not cells:
            return

        def change(edit: Transaction, copy_of: CopyOf, progress: Progress) -> tuple[()]:
            write_cells(edit, [(copy_of(node), column, text) for node, column, text in cells], progress)
            return ()

        edit_many(self.workspace, title_of(cells), len(cells), change, failed=self._refuse)

    def _refuse(self, error: BaseException) -> None:
        if isValid(self) and isinstance(error, ModelError):
            self.error.show_error(error)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if watched is not self.table or not isinstance(event, QKeyEvent):
            return super().eventFilter(watched, event)
        keys = {
            QKeySequence.StandardKey.Copy: self.copy_cells,
            QKeySequence.StandardKey.Paste: self.paste_cells,
            QKeySequence.StandardKey.Delete: self.clear_cells,
        }
        for key, act in keys.items():
            if event.matches(key):
                if event.type() == QEvent.Type.ShortcutOverride:
                    event.accept()
                elif event.type() == QEvent.Type.KeyPress:
                    act()
                return True
        return super().eventFilter(watched, event)

    def copy_cells(self) -> None:
        """Copy the selected cells as tab-separated text for spreadsheets."""
        cells = self.table.selectionModel().selectedIndexes()
        if not cells:
            return
        rows = sorted({index.row() for index in cells})
        columns = sorted({index.column() for index in cells})
        chosen = {(index.row(), index.column()): self.model.source(index) for index in cells}
        out = io.StringIO()
        writer = csv.writer(out, delimiter="\t", lineterminator="\n")
        writer.writerows([[chosen.get((row, column), "") for column in columns] for row in rows])
        QGuiApplication.clipboard().setText(out.getvalue().encode("utf-8", "replace").decode())

    def paste_cells(self) -> None:
        """Paste from the first selected cell on; a single cell fills the selection."""
        cells = self._selected_cells()
        text = QGuiApplication.clipboard().text()
        if not cells or not text:
            return
        first_line = text.splitlines()[0]
        delimiter = "\t" if "\t" in first_line or '"' not in first_line else ","
        try:
            block = [row for row in csv.reader(io.StringIO(text), delimiter=delimiter) if row]
        except csv.Error as error:
            self.error.show_error(ModelError("There is no table on the clipboard", f"{error}."))
            return
        if len(block) == 1 and len(block[0]) == 1:
            self._change([(row, column, block[0][0]) for row, column in cells])
            return
        top, left = min(row for row, _ in cells), min(column for _, column in cells)
        texts = [
            (top + y, left + x, cell)
            for y, row in enumerate(block)
            for x, cell in enumerate(row)
            if top + y < self.model.rowCount() and left + x < self.model.columnCount()
        ]
        self._change(texts)

    def clear_cells(self) -> None:
        """Remove the selected attributes; their defaults apply then."""
        columns = self.model.columns
        self._change([(row, column, "") for row, column in self._selected_cells() if columns[column].attribute])


def _key(domain: str, op_type: str) -> str:
    """Return the item data of an operator; Qt compares strings, but not tuples."""
    return f"{domain}::{op_type}"
