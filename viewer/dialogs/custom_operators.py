"""Dialog of the open operator-set documents: shows their operators; opens and closes documents."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QFileDialog,
    QHeaderView,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)
from shiboken6 import isValid

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.text.formatting import display, plural
from onnx_workbench.viewer.dialogs.text_prompt import ErrorLabel
from onnx_workbench.viewer.extensions.custom_operators import OpenOperatorSet, documents
from onnx_workbench.viewer.popups.operator_palette import OperatorEntry, first_sentence, signature
from onnx_workbench.viewer.style.tooltips import plain_tip
from onnx_workbench.viewer.widgets.dialog_buttons import close_button
from onnx_workbench.viewer.widgets.plain_label import plain_label
from onnx_workbench.viewer.widgets.whole_text import WholeTextDelegate

_DOCUMENT = Qt.ItemDataRole.UserRole


class CustomOperatorsDialog(QDialog):
    """Documents as a tree: below each its operators with signature and first sentence."""

    _open: ClassVar[CustomOperatorsDialog | None] = None

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self.setWindowTitle("Custom operators")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.resize(720, 460)
        hint = plain_label(
            "Open files of operator sets (OperatorSetProto): their operators are offered in the palette and checked "
            "like built-in ones. They replace built-in operators of the same name."
        )
        self.tree = QTreeWidget()
        self.tree.setItemDelegate(WholeTextDelegate(self.tree))
        self.tree.setAccessibleName("Custom operators")
        self.tree.setHeaderLabels(["Operator", "Since", "Signature", "Description"])
        self.tree.header().setSectionResizeMode(QHeaderView.ResizeMode.Interactive)
        self.tree.header().resizeSection(0, 220)
        self.tree.header().resizeSection(2, 180)
        self.tree.currentItemChanged.connect(self._on_current)
        self.error = ErrorLabel()
        buttons = close_button(self)
        self.add_button = buttons.addButton("&Open…", QDialogButtonBox.ButtonRole.ActionRole)
        self.add_button.clicked.connect(self._choose_files)
        self.remove_button = buttons.addButton("&Forget", QDialogButtonBox.ButtonRole.ActionRole)
        self.remove_button.clicked.connect(self._remove)
        layout = QVBoxLayout(self)
        for widget in (hint, self.tree, self.error, buttons):
            layout.addWidget(widget)
        documents().changed.connect(self.refresh)
        self.refresh()

    @classmethod
    def show_for(cls, window: QWidget) -> CustomOperatorsDialog:
        """Raise the dialog, or open it."""
        if cls._open is None or not isValid(cls._open):
            cls._open = cls(window)
        cls._open.show()
        cls._open.raise_()
        return cls._open

    def refresh(self) -> None:
        """List the open documents."""
        self.tree.clear()
        for document in documents().opened:
            content = document.content
            title = f"{display(content.domain or 'ai.onnx', 60)} {content.version}"
            top = QTreeWidgetItem(self.tree, [title, "", plural(len(document.schemas), "operator"), ""])
            top.setText(3, display(document.path.name, 80))
            top.setToolTip(3, plain_tip(display(str(document.path), 500)))
            top.setData(0, _DOCUMENT, document)
            for schema in document.schemas:
                row = [
                    display(schema.name, 80),
                    str(schema.since_version),
                    signature(OperatorEntry(schema.name, schema.domain, schema=schema)),
                    first_sentence(schema.doc),
                ]
                QTreeWidgetItem(top, row)
            top.setExpanded(True)
        self._on_current()

    def _on_current(self, *_: object) -> None:
        self.remove_button.setEnabled(self._current() is not None)

    def _current(self) -> OpenOperatorSet | None:
        item = self.tree.currentItem()
        while item is not None and item.parent() is not None:
            item = item.parent()
        return None if item is None else item.data(0, _DOCUMENT)

    def _choose_files(self) -> None:
        names, _ = QFileDialog.getOpenFileNames(
            self, "Open operator sets", "", "Operator sets (*.onnxopset *.onnx *.pb)"
        )
        for name in names:
            self.add(Path(name))

    def add(self, path: Path) -> None:
        """Open a document; errors are shown here."""
        self.error.show_error(None)
        try:
            documents().open(path)
        except ModelError as error:
            self.error.show_error(error)

    def _remove(self) -> None:
        document = self._current()
        if document is not None:
            documents().close(document)
