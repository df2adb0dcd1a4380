"""Find and replace over names, operator types, attributes and texts, with a preview list."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, cast, get_args

from PySide6.QtCore import QModelIndex, QObject, Qt, QTimer
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QFormLayout,
    QHBoxLayout,
    QHeaderView,
    QLineEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)
from shiboken6 import isValid

from onnx_workbench.model.edits.find_replace import Replacement, Where, find_replacements, replace_all
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.ir.graph import Graph, Node
from onnx_workbench.model.progress import Progress
from onnx_workbench.model.text.formatting import display, plural
from onnx_workbench.viewer.dialogs.text_prompt import ErrorLabel
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.style.choices import choice_title
from onnx_workbench.viewer.style.labels import name_of
from onnx_workbench.viewer.tables.row_model import Column, Index, RowModel
from onnx_workbench.viewer.tables.row_table import RowTable
from onnx_workbench.viewer.tasks.event_loop import ChunkedIteration
from onnx_workbench.viewer.widgets.dialog_buttons import close_button
from onnx_workbench.viewer.widgets.plain_label import plain_label
from onnx_workbench.viewer.workflows.edit_many import CopyOf, edit_many

_DELAY_MS = 200
_COLUMNS = (Column("Location"), Column("In"), Column("Before"), Column("After"))
_PADDING = 18  # px
_WHERE: tuple[Where, ...] = get_args(Where)


class ReplacementModel(RowModel[Replacement, Column]):
    """The planned replacements, each with a check box."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(_COLUMNS, parent)
        self._left_out: set[int] = set()

    def set_rows(self, rows: Sequence[Replacement]) -> None:
        """Show these, all checked."""
        self._left_out = set()
        super().set_rows(rows)

    @property
    def count(self) -> int:
        return len(self.rows) - len(self._left_out)

    def chosen(self) -> list[Replacement]:
        """Return the checked ones."""
        return [r for row, r in enumerate(self.rows) if row not in self._left_out]

    def flags(self, index: Index) -> Qt.ItemFlag:
        flags = super().flags(index)
        return flags | Qt.ItemFlag.ItemIsUserCheckable if index.column() == 0 else flags

    def texts(self, row: Replacement) -> tuple[str, ...]:
        where = row.field if row.where == "attribute values" else choice_title(row.where).removesuffix("s")
        return name_of(row.target), where, row.before, row.after

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if role == Qt.ItemDataRole.CheckStateRole and index.column() == 0:
            return Qt.CheckState.Unchecked if index.row() in self._left_out else Qt.CheckState.Checked
        return super().data(index, role)

    def setData(self, index: Index, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:
        if role != Qt.ItemDataRole.CheckStateRole:
            return False
        if Qt.CheckState(value) == Qt.CheckState.Checked:
            self._left_out.discard(index.row())
        else:
            self._left_out.add(index.row())
        self.dataChanged.emit(index, index)
        return True


class FindReplaceDialog(QDialog):
    """Non-modal; the current row is shown on the graph."""

    def __init__(self, window: QWidget, workspace: Workspace) -> None:
        super().__init__(window)
        self._workspace = workspace
        self.setWindowTitle(f"Find and replace – {display(workspace.title, 60)}")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.resize(720, 520)
        self.pattern = _line("Find")
        self.replacement = _line("Replace with")
        self.scope = QComboBox()
        self.scope.setAccessibleName("Where to look")
        self.scope.addItems(["Selected nodes", "This graph", "Whole model"])
        self.scope.setCurrentIndex(0 if len(workspace.selection.nodes) > 1 else 2)
        self.kinds = {kind: QCheckBox(choice_title(kind)) for kind in _WHERE}
        self.kinds["node names"].setChecked(True)
        self.kinds["value names"].setChecked(True)
        self.regex = QCheckBox("Regular expression")
        self.whole = QCheckBox("Whole text")
        self.case = QCheckBox("Match case")
        self.case.setChecked(True)
        self.model = ReplacementModel(self)
        self.table = self._table()
        self.status = plain_label(wraps=False)
        self.error = ErrorLabel()
        buttons = close_button(self)
        self.apply_button = buttons.addButton("&Replace", QDialogButtonBox.ButtonRole.ApplyRole)
        for button in buttons.buttons():
            cast("QPushButton", button).setAutoDefault(button is self.apply_button)
        self.apply_button.setDefault(True)
        self.apply_button.clicked.connect(self.apply)
        self._lay_out(buttons)
        self._delay = QTimer(self, singleShot=True, interval=_DELAY_MS)
        self._delay.timeout.connect(self.search)
        self._search: ChunkedIteration[Replacement] = ChunkedIteration(self._on_found, self, self._on_failed)
        self._found: list[Replacement] = []  # so far
        self._is_asked = False  # to replace when the search has ended
        self._is_replacing = False
        self._done = ""  # what was replaced, until the next search
        self._listen()
        self.search()

    @classmethod
    def show_for(cls, window: QWidget, workspace: Workspace) -> FindReplaceDialog:
        """Raise the dialog of a document, or open one."""
        shown = (one for one in window.findChildren(cls) if one._workspace is workspace and one.isVisible())
        dialog = next(shown, None) or cls(window, workspace)
        dialog.show()
        dialog.raise_()
        dialog.activateWindow()
        dialog.pattern.setFocus()
        dialog.pattern.selectAll()
        return dialog

    def _table(self) -> RowTable:
        table = RowTable(self.model, "Preview")
        header = table.horizontalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.Stretch)
        # fixed to the kinds: sizing by content would query a thousand rows
        header.setSectionResizeMode(1, QHeaderView.ResizeMode.Interactive)
        widest = max(self.fontMetrics().horizontalAdvance(choice_title(kind)) for kind in _WHERE)
        header.resizeSection(1, widest + _PADDING)
        table.selectionModel().currentRowChanged.connect(self._reveal)
        return table

    def _lay_out(self, buttons: QDialogButtonBox) -> None:
        form = QFormLayout()
        form.addRow("Find:", self.pattern)
        form.addRow("Replace with:", self.replacement)
        form.addRow("Look in:", self.scope)
        kinds, options = QHBoxLayout(), QHBoxLayout()
        for box in self.kinds.values():
            kinds.addWidget(box)
        for box in (self.regex, self.whole, self.case):
            options.addWidget(box)
        for row in (kinds, options):
            row.addStretch(1)
            form.addRow("" if row is options else "Fields:", row)
        layout = QVBoxLayout(self)
        layout.addLayout(form)
        layout.addWidget(self.table, 1)
        layout.addWidget(self.error)
        layout.addWidget(self.status)
        layout.addWidget(buttons)

    def _listen(self) -> None:
        later = self._later
        for line in (self.pattern, self.replacement):
            line.textChanged.connect(later)
        for box in (*self.kinds.values(), self.regex, self.whole, self.case):
            box.toggled.connect(later)
        self.scope.currentIndexChanged.connect(later)
        self.model.dataChanged.connect(self._count)
        self._workspace.changes.changed.connect(self._on_change)
        self._workspace.selection.changed.connect(self._on_selection)
        self._workspace.navigation.graph_shown.connect(later)
        self._workspace.closed.connect(self._close_unasked)

    def _later(self, *_: object) -> None:
        self._done, self._is_asked = "", False
        self._delay.start()

    def _on_change(self, *_: object) -> None:
        self._search.stop()  # it belongs to the previous model
        self._later()

    def _on_selection(self) -> None:
        if self.scope.currentIndex() == 0 and not self.table.hasFocus():
            self._delay.start()

    def search(self) -> None:
        """List the replacements, in a large model incrementally."""
        self._delay.stop()
        self.error.show_error(None)
        self._found = []
        try:
            self._search.start(self._find() if self.pattern.text() else iter(()))
        except ModelError as error:
            self._search.stop()
            self._on_failed(error)
            return
        self._search.next_chunk()

    @property
    def is_searching(self) -> bool:
        """Whether the search is still running."""
        return self._search.running

    def _on_found(self, found: list[Replacement], finished: bool) -> None:
        self._found += found
        if finished:
            self._show_found()
            if self._is_asked:
                self._replace()
        else:
            self.status.setText(f"{plural(len(self._found), 'place')} so far")

    def _on_failed(self, error: ModelError) -> None:
        """Clear the list: a partial result would be misleading."""
        self._is_asked = False
        self.error.show_error(error)
        self._found = []
        self._show_found()

    def _show_found(self) -> None:
        self.model.set_rows(self._found)
        self._count()

    def _count(self) -> None:
        chosen = self.model.count
        self.apply_button.setEnabled(chosen > 0 and not self._is_replacing)
        if not self.pattern.text():
            self.status.setText("Enter text to find. The changes are listed here.")
        else:
            nothing = self._done or "Nothing would change."
            self.status.setText(f"{plural(chosen, 'place')} would change." if chosen else nothing)

    def _find(self) -> Iterator[Replacement | None]:
        workspace = self._workspace
        nodes: set[Node] | None = None
        graphs: Iterable[Graph]
        match self.scope.currentIndex():
            case 0:
                nodes = set(workspace.selection.nodes)
                graphs = {node.graph: None for node in nodes if node.graph is not None}
            case 1:
                graphs = [workspace.graph]
            case _:
                graphs = workspace.model.graphs()
        return find_replacements(
            graphs,
            self.pattern.text(),
            self.replacement.text(),
            [kind for kind, box in self.kinds.items() if box.isChecked()],
            regex=self.regex.isChecked(),
            whole=self.whole.isChecked(),
            case=self.case.isChecked(),
            nodes=nodes,
        )

    def apply(self) -> None:
        """Replace in the checked rows, as one edit; when the search for what is entered now has ended."""
        if self._delay.isActive():
            self.search()
        self._is_asked = self._search.running
        if not self._is_asked:
            self._replace()

    def done(self, result: int) -> None:
        if self._is_asked:  # out of sight until it is done
            self.hide()
        else:
            super().done(result)

    def _close_unasked(self) -> None:
        self._is_asked = False
        self.close()

    def _replace(self) -> None:
        self._is_asked = False
        chosen = self.model.chosen()
        title = f"Replace {display(self.pattern.text(), 30)} by {display(self.replacement.text(), 30)}"

        def change(edit: Transaction, copy_of: CopyOf, progress: Progress) -> tuple[()]:
            replace_all(edit, [replace(item, target=copy_of(item.target)) for item in chosen], progress)
            return ()

        def ended(is_made: bool) -> None:
            if isValid(self):
                self._replaced(len(chosen) if is_made else 0)

        self._is_replacing = True
        self._count()
        edit_many(self._workspace, title, len(chosen), change, failed=self._refuse, ended=ended, once=True)
        if self.isHidden():
            self.close()

    def _refuse(self, error: BaseException) -> None:
        if isValid(self) and isinstance(error, ModelError):
            self.error.show_error(error)

    def _replaced(self, count: int) -> None:
        self._is_replacing = False
        if count:
            self._done = f"{plural(count, 'place')} changed."
            self.search()
        else:
            self._count()

    def _reveal(self, index: QModelIndex) -> None:
        if index.isValid() and self.table.hasFocus():
            self._workspace.navigation.reveal(self.model.rows[index.row()].target)


def _line(name: str) -> QLineEdit:
    line = QLineEdit()
    line.setAccessibleName(name)
    return line
