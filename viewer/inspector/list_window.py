"""Window for a list or text attribute that is too large for a field: elements in a virtual list."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, Qt
from PySide6.QtGui import QAction, QGuiApplication, QKeySequence, QTextOption
from PySide6.QtWidgets import (
    QAbstractItemView,
    QDialog,
    QHBoxLayout,
    QHeaderView,
    QLabel,
    QPlainTextEdit,
    QPushButton,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from onnx_workbench.model.edits import attributes as edits
from onnx_workbench.model.edits.tensors import read_block
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.attributes import Attribute, AttributeKind
from onnx_workbench.model.ir.graph import Node
from onnx_workbench.model.text.attributes import attribute_source, number_source, parse_attribute, plainest
from onnx_workbench.model.text.formatting import display, plural
from onnx_workbench.viewer.document.model_signals import is_in_model
from onnx_workbench.viewer.inspector.common import name_of, one_line
from onnx_workbench.viewer.property_tree.editors import escaped, needs_escapes, unescaped
from onnx_workbench.viewer.property_tree.validating_delegate import ValidatingDelegate
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.style.theme import monospace, theme
from onnx_workbench.viewer.widgets.dialog_buttons import close_button

Index = QModelIndex | QPersistentModelIndex

_PASTE_TIP = "Paste over the elements from the selected one on, or replace the selected ones"


class ElementModel(QAbstractTableModel):
    """The elements of a list attribute; each change is one edit of the document."""

    values: tuple[Any, ...] = ()  # a class attribute: the view may ask while Python has already cleared the object

    def __init__(self, window: ListWindow) -> None:
        super().__init__(window)
        self._window = window

    def set(self, values: tuple[Any, ...]) -> None:
        """Show these; an equal number of them only repaints."""
        if len(values) == len(self.values):
            self.values = values
            if values:
                self.dataChanged.emit(self.index(0, 0), self.index(len(values) - 1, 0))
            return
        self.beginResetModel()
        self.values = values
        self.endResetModel()

    def rowCount(self, parent: Index = QModelIndex()) -> int:
        return 0 if parent.isValid() else len(self.values)

    def columnCount(self, _parent: Index = QModelIndex()) -> int:
        return 1

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if role == Qt.ItemDataRole.DisplayRole:
            return str(section) if orientation == Qt.Orientation.Vertical else "Value"
        return None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if role not in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.EditRole):
            return None
        text = self.source(index)
        return text if role == Qt.ItemDataRole.EditRole else display(text, 300)

    def source(self, index: Index) -> str:
        """Return the text of an element for editing."""
        value = self.values[index.row()]
        return value if isinstance(value, str) else number_source(value, self._window.kind.element)

    def flags(self, _index: Index) -> Qt.ItemFlag:
        return Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable | Qt.ItemFlag.ItemIsEditable

    def setData(self, index: Index, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:
        if role != Qt.ItemDataRole.EditRole:
            return False
        try:
            element = parse_attribute(str(value), self._window.kind.element)
        except ModelError as error:
            self._window.show_error(error)
            return False
        row = index.row()
        return self._window.set_value((*self.values[:row], element, *self.values[row + 1 :]))

    def refusal(self) -> str:
        """Return why the last text was refused."""
        return self._window.status.text()


class ListWindow(QDialog):
    """Non-modal. Edits apply to the document immediately and can be undone."""

    def __init__(self, workspace: Workspace, node: Node, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.workspace = workspace
        self._node = node
        self._name = name
        self.kind = node.attributes[name].kind
        self._shown: str | None = None  # the attribute's text
        self._is_escaped = False
        self.setWindowTitle(f"{one_line(name, 40)} of {name_of(node)}")
        self.resize(420, 560)
        self.status = QLabel(self)
        self.status.setTextFormat(Qt.TextFormat.PlainText)
        self.status.setWordWrap(True)
        layout = QVBoxLayout(self)
        if self.kind.is_list:
            self._build_list(layout)
        else:
            self._build_text(layout)
        layout.addWidget(self.status)
        box = close_button()
        box.rejected.connect(self.close)
        layout.addWidget(box)
        workspace.changes.changed.connect(self._refresh)
        self._refresh()

    def _build_list(self, layout: QVBoxLayout) -> None:
        self.elements = ElementModel(self)
        self.table = QTableView(self)
        self.table.setTabKeyNavigation(False)
        self.table.setModel(self.elements)
        self.table.setItemDelegate(ValidatingDelegate(self.table))
        self.table.setFont(monospace())
        self.table.setAccessibleName("Elements")
        self.table.horizontalHeader().setStretchLastSection(True)
        self.table.horizontalHeader().hide()
        self.table.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        self.table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.table.setWordWrap(False)
        row = QHBoxLayout()
        for title, tip, keys, run in (
            ("&Add", "Insert an element after the current one", QKeySequence("Ins"), self.add),
            ("&Remove", "Remove the selected elements", QKeySequence("Del"), self.remove),
            ("&Paste", _PASTE_TIP, QKeySequence(QKeySequence.StandardKey.Paste), self.paste),
            (
                "&Copy",
                "Copy the selected elements, or all, as text",
                QKeySequence(QKeySequence.StandardKey.Copy),
                self.copy,
            ),
        ):
            button = QPushButton(title, self)
            button.setToolTip(tip)
            button.setAutoDefault(False)
            button.clicked.connect(run)
            row.addWidget(button)
            action = QAction(title, self.table)
            action.setShortcut(keys)
            action.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
            action.triggered.connect(run)
            self.table.addAction(action)
        layout.addWidget(self.table, 1)
        layout.addLayout(row)

    def _build_text(self, layout: QVBoxLayout) -> None:
        self.text = QPlainTextEdit(self)
        self.text.setAccessibleName("Text")
        self.text.setWordWrapMode(QTextOption.WrapMode.WrapAnywhere)  # finding words in a long line takes minutes
        take = QPushButton("&Take", self)
        take.setToolTip("Set the attribute to this text. Closing the window does the same")
        take.clicked.connect(self.take_text)
        layout.addWidget(self.text, 1)
        layout.addWidget(take)

    @property
    def attribute(self) -> Attribute | None:
        """Return the current attribute, or None when it was removed."""
        found = self._node.attributes.get(self._name) if is_in_model(self._node) else None
        return found if found is not None and found.kind is self.kind else None

    def _refresh(self, _change: object = None) -> None:
        attribute = self.attribute
        if attribute is None:
            self.close()
            return
        value: Any = attribute.value
        if self.kind.is_list:
            values = value or ()
            if values is not self.elements.values:
                self.elements.set(values)
            self._show_status(plural(len(values), "element"))
        elif value != self._shown:  # else typed text would be discarded by every edit made elsewhere
            self._show_text(str(value or ""))

    def _show_text(self, text: str) -> None:
        self._shown = text
        self._is_escaped = needs_escapes(text)
        self.text.setPlainText(escaped(text) if self._is_escaped else text)
        self.text.document().setModified(False)
        self._show_status(plural(len(text), "character"))

    def take_text(self) -> None:
        """Set the attribute to the typed text."""
        if self.text.document().isModified():
            typed = self.text.toPlainText()
            self._shown = unescaped(typed) if self._is_escaped else typed
            self.text.document().setModified(False)
            self.set_value(self._shown)

    def done(self, result: int) -> None:
        """Commit the typed text."""
        if not self.kind.is_list and self.attribute is not None:
            self.take_text()
        super().done(result)

    def _show_status(self, text: str) -> None:
        self.status.setStyleSheet("")
        self.status.setText(text)

    def show_error(self, error: ModelError) -> None:
        """Show an error."""
        self.status.setStyleSheet(f"color: {theme().error.name()};")
        self.status.setText(display(" – ".join(p for p in (error.title, error.detail) if p), 400))

    def set_value(self, value: Any) -> bool:
        """Set the attribute."""
        try:
            with self.workspace.document.edit(f"Set {one_line(self._name, 40)} of {name_of(self._node)}") as edit:
                edits.set_attribute(edit, self._node, self._name, value, self.kind)
        except ModelError as error:
            self.show_error(error)
            return False
        return True

    def add(self) -> None:
        """Insert an element after the current one."""
        values = self.elements.values
        current = self.table.currentIndex().row()
        index = current + 1 if current >= 0 else len(values)
        self.set_value((*values[:index], plainest(self.kind.element), *values[index:]))
        self.table.setCurrentIndex(self.elements.index(index, 0))

    def _chosen(self) -> list[int]:
        """Return the selected rows, in order."""
        return sorted(index.row() for index in self.table.selectionModel().selectedRows())

    def remove(self) -> None:
        """Remove the selected elements."""
        chosen = set(self._chosen())
        if chosen:
            self.set_value(tuple(v for i, v in enumerate(self.elements.values) if i not in chosen))

    def paste(self) -> None:
        """Paste the clipboard's list over the elements from the selected one on, or in place of several."""
        try:
            pasted = parse_attribute(self._clipboard_text(), self.kind)
        except ModelError as error:
            self.show_error(error)
            return
        values, chosen = self.elements.values, self._chosen()
        if not chosen:
            self.set_value((*values, *pasted))
        elif len(chosen) == 1:
            self.set_value((*values[: chosen[0]], *pasted, *values[chosen[0] + len(pasted) :]))
        else:
            gone = set(chosen)
            after = (v for i, v in enumerate(values) if i > chosen[0] and i not in gone)
            self.set_value((*values[: chosen[0]], *pasted, *after))

    def _clipboard_text(self) -> str:
        from onnx_workbench.viewer.document.clipboard import is_of_cells

        text = QGuiApplication.clipboard().text()
        if self.kind is AttributeKind.STRINGS:
            return text.replace("\t", ",")
        return ",".join(cell for row in read_block(text, 1, cells=is_of_cells()) for cell in row)

    def copy(self) -> None:
        """Copy the selected elements as text, or all."""
        attribute = self.attribute
        if attribute is not None:
            values = tuple(self.elements.values[row] for row in self._chosen())
            text = attribute_source(replace(attribute, value=values) if values else attribute)
            QGuiApplication.clipboard().setText(text.encode("utf-8", "replace").decode("utf-8"))
