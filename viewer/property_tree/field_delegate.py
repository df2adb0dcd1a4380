"""Editing of cells in fields, for property lists and tables: a refused text stays, with the reason next to it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Protocol, cast

from PySide6.QtCore import QAbstractItemModel, QEvent, QModelIndex, QObject, QPersistentModelIndex, QRect, Qt, QTimer
from PySide6.QtGui import QFocusEvent, QKeyEvent
from PySide6.QtWidgets import QAbstractItemView, QStyleOptionViewItem, QWidget

from onnx_workbench.model.errors import ModelError
from onnx_workbench.viewer.property_tree.editors import (
    Editor,
    FieldError,
    LineField,
    TextField,
    is_own_shortcut,
    make_editor,
    saves_or_closes,
)
from onnx_workbench.viewer.property_tree.rows import PropertyField, Suggestion
from onnx_workbench.viewer.style.theme import theme
from onnx_workbench.viewer.widgets.whole_text import WholeTextDelegate

Index = QModelIndex | QPersistentModelIndex

_LINES = 7  # of a field for texts of several
_LEAST_WIDTH = 240  # px of such a field
_ELSEWHERE = (QEvent.Type.MouseButtonPress, QEvent.Type.MouseButtonDblClick, QEvent.Type.ContextMenu)


class FieldDelegate(WholeTextDelegate):
    """Opens one field at a time, which stays open while its text is refused: typed text is lost by Esc alone.

    Subclasses say which field a cell has, and write its text.
    """

    def __init__(self, view: QAbstractItemView) -> None:
        super().__init__(view)
        self._view = view
        self.editor: Editor | None = None
        self._index = QPersistentModelIndex()
        self._first = ""  # the text at the beginning
        self._begun = ""  # the text that was written last
        self._error = FieldError(view.viewport())
        self._viewport = view.viewport()
        self._viewport.installEventFilter(self)

    @abstractmethod
    def field_at(self, index: Index) -> PropertyField | None:
        """Return the field of a cell, if it has one."""

    @abstractmethod
    def title_of(self, index: Index) -> str:
        """Return the name of a cell for screen readers."""

    @abstractmethod
    def write(self, text: str, *, again: bool) -> None:
        """Write the text of the open field, `again`: after another one; ModelError where it is refused."""

    def createEditor(self, parent: QWidget, _option: QStyleOptionViewItem, index: Index) -> QWidget:
        field = self.field_at(index)
        assert field is not None
        editor = make_editor(field, parent)
        editor.setAccessibleName(self.title_of(index))
        editor.commit_requested.connect(self.commit_and_close)
        editor.cancel_requested.connect(self.cancel)
        self.editor = editor
        self._index = QPersistentModelIndex(index)
        return editor

    def setEditorData(self, editor: QWidget, index: Index) -> None:
        """Set the text once only: later changes of the model do not disturb what the user is typing."""
        field = self.field_at(index)
        if editor is not self.editor or field is None or editor.property("begun"):
            return
        editor.setProperty("begun", True)
        self.editor.set_text(field.source())
        self._first = self._begun = self.editor.text_now()

    def setModelData(self, _editor: QWidget, _model: QAbstractItemModel, _index: Index) -> None:
        """Does nothing: `commit` sets the data, since it may be refused."""

    def updateEditorGeometry(self, editor: QWidget, option: QStyleOptionViewItem, _index: Index) -> None:
        """Place the editor over the cell; several lines extend below it, or above it at the end of the view."""
        rect = QRect(option.rect)
        if isinstance(editor, TextField):
            room = self._view.viewport().rect()
            rect.setHeight(editor.fontMetrics().height() * _LINES + 12)
            rect.setWidth(max(rect.width(), _LEAST_WIDTH))
            rect.moveBottom(min(rect.bottom(), max(room.bottom(), rect.height())))
            rect.moveRight(min(rect.right(), room.right()))
        editor.setGeometry(rect)
        self._error.place(editor)

    def commit(self) -> bool:
        """Write the typed text; return False if it is refused, with the error shown below the field."""
        editor = self.editor
        if editor is None or (text := editor.text_now()) == self._begun:
            return True
        begun, self._begun = self._begun, text  # new rows may close the field, which commits again
        try:
            self.write(text, again=begun != self._first)
        except ModelError as error:
            self._begun = begun
            self._show_error(error)
            return False
        if self.editor is editor:  # the edit may have closed it
            self._clear_error()
        return True

    def commit_and_close(self) -> bool:
        """Write the typed text and close the field, unless it is refused."""
        if not self.commit():
            return False
        self._close()
        return True

    def cancel(self) -> None:
        """Close the field, and take back what was written from it."""
        if self.editor is not None and self._begun != self._first:
            self.editor.set_text(self._first)
            self.commit()
        self._close()

    def go_on(self, hint: WholeTextDelegate.EndEditHint) -> None:
        """Open the next or the previous field, as Tab does."""
        if self.commit():
            self._close(hint)

    def _close(self, hint: WholeTextDelegate.EndEditHint = WholeTextDelegate.EndEditHint.NoHint) -> None:
        editor = self.editor
        self._let_go()
        if editor is not None:
            had_focus = editor.hasFocus()
            self.closeEditor.emit(editor, hint)
            if had_focus and self.editor is None:
                self._view.setFocus()

    def _let_go(self) -> None:
        self._clear_error()
        self.editor = None

    def destroyEditor(self, editor: QWidget, index: Index) -> None:
        if editor is self.editor:
            self._let_go()
        super().destroyEditor(editor, index)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Commit on Tab, on a press elsewhere, and if the focus leaves, but for its list or another window."""
        if watched is self._viewport:
            return event.type() in _ELSEWHERE and not self._may_leave()
        if watched is not self.editor:
            return False
        if is_own_shortcut(event) or (saves_or_closes(event) and not self.commit()):
            event.accept()
            return True
        if event.type() == QEvent.Type.KeyPress:
            key = cast("QKeyEvent", event).key()
            if key in (Qt.Key.Key_Tab, Qt.Key.Key_Backtab):
                is_next = key == Qt.Key.Key_Tab
                self.go_on(self.EndEditHint.EditNextItem if is_next else self.EndEditHint.EditPreviousItem)
                return True
        elif event.type() == QEvent.Type.FocusOut:
            reason = cast("QFocusEvent", event).reason()
            if reason not in (Qt.FocusReason.PopupFocusReason, Qt.FocusReason.ActiveWindowFocusReason):
                self.commit_and_close()
        return False

    def _may_leave(self) -> bool:
        """Close the field; return False where it keeps the focus for a refused text, which must not be lost."""
        if self.commit_and_close():
            return True
        if self.editor is not None:
            self.editor.setFocus()
        return False

    # -- errors ----------------------------------------------------------------------------------------------

    def _show_error(self, error: ModelError) -> None:
        if self.editor is not None:
            self.editor.setStyleSheet(f"border: 1px solid {theme().error.name()};")
            self._error.show_error(error, self.editor)

    @property
    def error_text(self) -> str:
        """The error of the open field; empty if there is none."""
        return "" if self._error.isHidden() else self._error.text()

    def _clear_error(self) -> None:
        self._error.hide()
        if self.editor is not None:
            self.editor.setStyleSheet("")


class WritableModel(Protocol):
    """A model whose cells are edited as text."""

    def source(self, index: Index) -> str:
        """Return the complete text of a cell; not through Qt, which drops bytes that are not UTF-8."""

    def write(self, index: Index, text: str) -> object:
        """Write a text into a cell; ModelError where it is refused."""


class CellDelegate(FieldDelegate):
    """Edits the cells of a table with a `WritableModel`. `choices` of a cell open at once as a list."""

    def __init__(
        self, view: QAbstractItemView, choices: Callable[[Index], Sequence[Suggestion]] = lambda _index: ()
    ) -> None:
        super().__init__(view)
        self._choices = choices

    def createEditor(self, parent: QWidget, option: QStyleOptionViewItem, index: Index) -> QWidget:
        editor = super().createEditor(parent, option, index)
        if isinstance(editor, LineField):
            QTimer.singleShot(0, editor, editor.drop_down)
        return editor

    def field_at(self, index: Index) -> PropertyField:
        text, choices = _model(index).source(index), self._choices(index)
        lines = "\n" in text and not choices
        return PropertyField("", lambda: text, lambda _edit, _text: None, lambda: choices, lines=lines)

    def title_of(self, index: Index) -> str:
        return str(index.model().headerData(index.column(), Qt.Orientation.Horizontal) or "Value")

    def write(self, text: str, *, again: bool) -> None:
        del again
        if self._index.isValid():
            _model(self._index).write(self._index, text)


def _model(index: Index) -> WritableModel:
    return cast("WritableModel", index.model())
