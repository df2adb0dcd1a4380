"""Editing of cells of tables and trees: a refused text remains in its field, with the reason next to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, cast

from PySide6.QtCore import QAbstractItemModel, QEvent, QModelIndex, QObject, QPersistentModelIndex, Qt, QTimer
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QAbstractItemView, QStyleOptionViewItem, QWidget

from onnx_workbench.viewer.property_tree.editors import (
    Editor,
    LineField,
    TextField,
    is_own_shortcut,
    saves_or_closes,
)
from onnx_workbench.viewer.property_tree.rows import PropertyField, Suggestion
from onnx_workbench.viewer.style.theme import theme
from onnx_workbench.viewer.style.tooltips import plain_tip
from onnx_workbench.viewer.widgets.whole_text import WholeTextDelegate

Index = QModelIndex | QPersistentModelIndex

_LINES = 7
_FIELDS_OWN = (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Escape)  # keys that the field handles


class ValidatingModel(Protocol):
    """A model whose `setData` returns False only if it refuses a text, and which then has a reason."""

    def source(self, index: Index) -> str:
        """Return the complete text of a cell; not through Qt, which drops bytes that are not UTF-8."""

    def refusal(self) -> str:
        """Return the reason why the last text was refused."""


class ValidatingDelegate(WholeTextDelegate):
    """Delegate of a `ValidatingModel`. Texts of several lines get a larger field, which Ctrl+Enter commits.

    When the model refuses a text, the field is opened again with it, so that typed text is only lost by Esc.
    `choices` of a cell open at once as a list.
    """

    def __init__(
        self, view: QAbstractItemView, choices: Callable[[Index], Sequence[Suggestion]] = lambda _index: ()
    ) -> None:
        super().__init__(view)
        self._view = view
        self._choices = choices
        self._held: tuple[QPersistentModelIndex, str] | None = None  # refused text and its cell
        self._begun = ""
        self.editor: Editor | None = None

    def createEditor(self, parent: QWidget, _option: QStyleOptionViewItem, index: Index) -> QWidget:
        """Return a single-line or multi-line editor, depending on the text."""
        text = _model(index).source(index)
        choices = self._choices(index)
        lines = "\n" in text and not choices
        field = PropertyField("", lambda: text, lambda _edit, _text: None, lambda: choices, lines=lines)
        editor: Editor = TextField(field, parent) if field.lines else LineField(field, parent)
        editor.setAccessibleName(str(index.model().headerData(index.column(), Qt.Orientation.Horizontal) or "Value"))
        editor.commit_requested.connect(lambda: self._finish(editor))
        editor.cancel_requested.connect(lambda: self.closeEditor.emit(editor, self.EndEditHint.NoHint))
        self.editor = editor
        if choices and isinstance(editor, LineField):
            QTimer.singleShot(0, editor, editor.drop_down)
        return editor

    def _finish(self, editor: Editor) -> None:
        self.commitData.emit(editor)
        self.closeEditor.emit(editor, self.EndEditHint.NoHint)

    def setEditorData(self, editor: QWidget, index: Index) -> None:
        """Set the text once: a refused one, else the model's."""
        if not isinstance(editor, (LineField, TextField)) or editor.property("begun"):
            return
        editor.setProperty("begun", True)
        editor.set_text(_model(index).source(index))
        self._begun = editor.text_now()
        held = self._held
        if held is not None and held[0] == index:
            self._held = None
            editor.set_text(held[1])
            reason = _model(index).refusal()
            editor.setStyleSheet(f"border: 1px solid {theme().error.name()};")
            editor.setToolTip(plain_tip(reason))
            editor.setAccessibleDescription(reason)

    def setModelData(self, editor: QWidget, model: QAbstractItemModel, index: Index) -> None:
        """Set the typed text; open the field again if it is refused."""
        if not isinstance(editor, (LineField, TextField)) or (typed := editor.text_now()) == self._begun:
            return
        if not model.setData(index, typed):
            self._held = (QPersistentModelIndex(index), typed)
            QTimer.singleShot(0, self, self._again)

    def _again(self) -> None:
        if self._held is None or not self._held[0].isValid() or not self._view.isVisible():
            self._held = None
            return
        self.edit_cell(self._held[0])

    def edit_cell(self, place: Index) -> None:
        """Open the field of a cell and close any other; no effect if the cell no longer exists."""
        index = place.sibling(place.row(), place.column())
        if not index.flags() & Qt.ItemFlag.ItemIsEditable:
            self._held = None
            return
        if self.editor is not None:
            self.closeEditor.emit(self.editor, self.EndEditHint.NoHint)
        self._view.setCurrentIndex(index)
        self._view.edit(index)

    def destroyEditor(self, editor: QWidget, index: Index) -> None:
        """Clean up after the field was closed."""
        if editor is self.editor:
            self.editor = None
        super().destroyEditor(editor, index)

    def updateEditorGeometry(self, editor: QWidget, option: QStyleOptionViewItem, index: Index) -> None:
        """Place the editor over the cell; several lines extend below it."""
        super().updateEditorGeometry(editor, option, index)
        if isinstance(editor, TextField):
            rect = editor.geometry()
            rect.setHeight(editor.fontMetrics().height() * _LINES)
            rect.setWidth(max(rect.width(), 240))
            room = self._view.viewport().rect()
            rect.moveBottom(min(rect.bottom(), max(room.bottom(), rect.height())))
            rect.moveRight(min(rect.right(), room.right()))
            editor.setGeometry(rect)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Handle Enter and Esc in the field; commit typed text before saving."""
        if watched is self.editor and is_own_shortcut(event):
            event.accept()
            return True
        if watched is self.editor and saves_or_closes(event):
            self.commitData.emit(cast("QWidget", watched))
            if self._held is not None:
                event.accept()
                return True
        if event.type() == QEvent.Type.KeyPress and cast("QKeyEvent", event).key() in _FIELDS_OWN:
            return False
        return super().eventFilter(watched, event)


def _model(index: Index) -> ValidatingModel:
    return cast("ValidatingModel", index.model())
