"""Recovered Files dialog: what unsaved edits of earlier sessions are still kept, also those that were discarded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QVBoxLayout, QWidget

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.progress import Progress
from onnx_workbench.model.recovery.recover import (
    DAYS_DISCARDED,
    RecoverableJournal,
    find_discarded,
    find_journals,
    restore,
)
from onnx_workbench.model.text.formatting import display
from onnx_workbench.viewer.files.recovery import document_name, recover_journal, time_text
from onnx_workbench.viewer.program.folders import journal_folder
from onnx_workbench.viewer.tables.row_model import Column, RowModel
from onnx_workbench.viewer.tables.row_table import RowTable
from onnx_workbench.viewer.widgets.dialog_buttons import close_button
from onnx_workbench.viewer.widgets.plain_label import plain_label

if TYPE_CHECKING:
    from onnx_workbench.viewer.files.documents import Documents

_COLUMNS = (Column("Model", 30), Column("Last Edit", 20), Column("Edits", 8), Column("State"))
_SHOWN_TITLES = 20


class RecoveredFilesDialog(QDialog):
    """Lists the journals of programs that crashed; a double click or Recover opens the model with its edits."""

    def __init__(self, files: Documents, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Recovered files")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.resize(720, 360)
        self._files = files
        self._model = _JournalModel(_COLUMNS, self)
        self._text = plain_label("Looking for unsaved edits…")
        self.table = RowTable(self._model, "Recovered files")
        self.table.set_widths(_COLUMNS)
        self.table.doubleClicked.connect(self._recover_chosen)
        self.table.selectionModel().selectionChanged.connect(self._update_button)
        buttons = close_button(self)
        self.recover_button = buttons.addButton("&Recover", QDialogButtonBox.ButtonRole.ActionRole)
        self.recover_button.clicked.connect(self._recover_chosen)
        layout = QVBoxLayout(self)
        for widget in (self._text, self.table, buttons):
            layout.addWidget(widget)
        self._update_button()
        self._read()

    def _read(self) -> None:
        folder = journal_folder()

        def work(progress: Progress) -> list[RecoverableJournal]:
            return [*find_journals(folder, progress=progress), *find_discarded(folder, progress)]

        self._reading = self._files.tasks.start("Looking for unsaved edits", work, done=self._show)
        self.finished.connect(self._reading.cancel)

    def _show(self, found: list[RecoverableJournal]) -> None:
        self._model.set_rows(found)
        self._text.setText(
            f"Edits of sessions that ended before they were saved. Discarded ones are kept for {DAYS_DISCARDED} days."
            if found
            else "No unsaved edits of earlier sessions are kept."
        )
        if found:
            self.table.selectRow(0)

    def _chosen(self) -> list[RecoverableJournal]:
        return [self._model.rows[index.row()] for index in self.table.selectionModel().selectedRows()]

    def _update_button(self, *_: object) -> None:
        self.recover_button.setEnabled(bool(self._chosen()))

    def _recover_chosen(self, *_: object) -> None:
        chosen = self._chosen()
        if not chosen:
            return
        for journal in chosen:
            try:
                waiting = journal if journal.discarded is None else restore(journal)
            except ModelError as error:
                self._files.area.report(error)
            else:
                self._files.area.message_bar.withdraw(str(waiting.path))
                recover_journal(self._files, waiting)
        self.accept()


class _JournalModel(RowModel[RecoverableJournal, Column]):
    def texts(self, row: RecoverableJournal) -> tuple[str, str, str, str]:
        state = "Not recovered" if row.discarded is None else f"Discarded {time_text(row.discarded)}"
        return document_name(row), time_text(row.time), str(len(row.titles)), state

    def tip(self, row: RecoverableJournal, _column: int) -> str:
        titles = [display(title, 100) for title in row.titles[-_SHOWN_TITLES:]]
        return "\n".join([display(row.base.path, 300), *titles]).strip()
