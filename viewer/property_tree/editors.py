"""Editor widgets for fields: a line with suggestions, or several lines. They emit requests for the delegate."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import (
    QAbstractListModel,
    QEvent,
    QItemSelectionModel,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QSignalBlocker,
    QSize,
    Qt,
    QTimer,
    Signal,
)
from PySide6.QtGui import QAction, QKeyEvent, QKeySequence, QPainter, QShowEvent, QTextOption
from PySide6.QtWidgets import (
    QAbstractItemView,
    QAbstractSpinBox,
    QCompleter,
    QLabel,
    QLineEdit,
    QListView,
    QPlainTextEdit,
    QStyle,
    QStyleOptionViewItem,
    QWidget,
)

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.text.formatting import display
from onnx_workbench.viewer.property_tree.rows import LONGEST_TEXT, PropertyField, Suggestion
from onnx_workbench.viewer.style.icons import icon
from onnx_workbench.viewer.style.theme import monospace, theme
from onnx_workbench.viewer.style.tooltips import plain_tip
from onnx_workbench.viewer.widgets.whole_text import WholeTextDelegate

_MOST_SHOWN = 200
_WIDEST = 560  # limit for the px of a list of suggestions, unless its field is wider
_LEAST_ERROR = 260  # px of width
_NOTE = Qt.ItemDataRole.UserRole + 1
_ESCAPE = re.compile(r"\\\\|\\x([89a-fA-F][0-9a-fA-F])")


class LineField(QLineEdit):
    """Single-line editor. Enter and a click on a suggestion request commit, Esc cancel, Up and Down step a number."""

    commit_requested = Signal()
    cancel_requested = Signal()
    stepped = Signal()

    def __init__(self, field: PropertyField, parent: QWidget) -> None:
        super().__init__(parent)
        self.field = field
        self._is_escaped = False
        self.setMaxLength(1 << 24)
        if field.mono:
            self.setFont(monospace())
        self.setPlaceholderText(field.hint)
        self._suggestions = _SuggestionModel(self)
        self._completer: QCompleter | None = None
        self._list: _SuggestionList | None = None
        self._choices = field.choices()
        if self._choices or field.suggest is not None:
            self._add_popup()

    def _add_popup(self) -> None:
        view = self._list = _SuggestionList()
        completer = self._completer = QCompleter(self._suggestions, self)
        completer.setPopup(view)
        completer.setCompletionMode(QCompleter.CompletionMode.UnfilteredPopupCompletion)
        completer.setMaxVisibleItems(14)
        view.setItemDelegate(_SuggestionDelegate(view))
        view.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        view.setUniformItemSizes(True)
        self.setCompleter(completer)
        completer.activated.connect(lambda *_: QTimer.singleShot(0, self, self.commit_requested.emit))
        self.textEdited.connect(self._fill)
        drop = QAction(icon("drop-down"), "Choices", self)
        drop.triggered.connect(self.drop_down)
        self.addAction(drop, QLineEdit.ActionPosition.TrailingPosition)

    def text_now(self) -> str:
        """Return the current text."""
        return _unescaped(self.text()) if self._is_escaped else self.text()

    def set_text(self, text: str) -> None:
        """Set the initial text, all of it selected."""
        self._is_escaped = _needs_escapes(text)
        self.setText(_escaped(text) if self._is_escaped else text)
        self.selectAll()
        self._fill("")

    def _fill(self, typed: str) -> None:
        words = typed.lower()
        fitting = [c for c in self._choices if words in c.text.lower()]
        if self._choices and not fitting:
            fitting = list(self._choices)
        if self.field.suggest is not None and (typed or not self._choices):
            fitting += [s for s in self.field.suggest(typed) if s not in fitting]
        self._suggestions.set(fitting[:_MOST_SHOWN])
        if self._list is not None:
            self._list.widen()

    def drop_down(self) -> None:
        """Show all suggestions."""
        if self._completer is not None:
            self._fill("")
            self._completer.setCompletionPrefix("")
            self._completer.complete()
            self._point_at_present()

    def _point_at_present(self) -> None:
        """Select the current value in the list of suggestions."""
        texts = self._suggestions.texts()
        if self._list is not None and self.text() in texts:
            with QSignalBlocker(self):
                index = self._list.model().index(texts.index(self.text()), 0)
                self._list.selectionModel().setCurrentIndex(index, QItemSelectionModel.SelectionFlag.ClearAndSelect)
            self._list.scrollTo(index, QListView.ScrollHint.PositionAtCenter)

    @property
    def is_dropped_down(self) -> bool:
        """Return whether the suggestions are visible."""
        return self._list is not None and self._list.isVisible()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key = event.key()
        if key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            event.accept()
            if self._list is not None:
                self._list.hide()
            self.commit_requested.emit()
        elif key == Qt.Key.Key_Escape:
            event.accept()
            if self._list is not None and self._list.isVisible():
                self._list.hide()
            else:
                self.cancel_requested.emit()
        elif key in (Qt.Key.Key_Up, Qt.Key.Key_Down) and self.field.step is not None:
            event.accept()
            self.setText(self.field.step(self.text(), 1 if key == Qt.Key.Key_Up else -1))
            self.selectAll()
            self.stepped.emit()
        elif key in (Qt.Key.Key_Up, Qt.Key.Key_Down) and self._completer is not None:
            event.accept()
            if not self.is_dropped_down:
                self.drop_down()
        else:
            super().keyPressEvent(event)
            event.accept()  # else the view around it would scroll on keys such as Ctrl+End


class TextField(QPlainTextEdit):
    """Multi-line editor. Ctrl+Enter requests commit, Esc cancel."""

    commit_requested = Signal()
    cancel_requested = Signal()
    stepped = Signal()  # never emitted; for the same interface as LineField

    def __init__(self, field: PropertyField, parent: QWidget) -> None:
        super().__init__(parent)
        self.field = field
        self._is_escaped = False
        self.setTabChangesFocus(True)
        self.setPlaceholderText(field.hint or "Ctrl+Enter accepts, Esc cancels")
        if field.mono:
            self.setFont(monospace())

    def text_now(self) -> str:
        """Return the current text."""
        return _unescaped(self.toPlainText()) if self._is_escaped else self.toPlainText()

    def set_text(self, text: str) -> None:
        """Set the initial text, all of it selected."""
        if len(text) > LONGEST_TEXT:  # searching word boundaries in a long line takes minutes
            self.setWordWrapMode(QTextOption.WrapMode.WrapAnywhere)
        self._is_escaped = _needs_escapes(text)
        self.setPlainText(_escaped(text) if self._is_escaped else text)
        self.selectAll()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and event.modifiers() & (
            Qt.KeyboardModifier.ControlModifier
        ):
            event.accept()
            self.commit_requested.emit()
        elif event.key() == Qt.Key.Key_Escape:
            event.accept()
            self.cancel_requested.emit()
        else:
            super().keyPressEvent(event)


Editor = LineField | TextField


class FieldError(QLabel):
    """Why the text of a field was refused: below the field, or above it where there is no room."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setWordWrap(True)
        self.hide()

    def show_error(self, error: ModelError, field: QWidget) -> None:
        """Show an error beside a field of the same parent."""
        colors = theme()
        self.setStyleSheet(
            f"background: {colors.panel.name()}; color: {colors.error.name()};"
            f" border: 1px solid {colors.error.name()}; padding: 4px;"
        )
        self.setText(display("\n".join(filter(None, (error.title, error.detail))), 600, keep_lines=True))
        field.setAccessibleDescription(self.text())
        self.place(field)
        self.show()
        self.raise_()

    def place(self, field: QWidget) -> None:
        """Follow a field that has moved."""
        around = self.parentWidget()
        assert around is not None
        beside, room = field.geometry(), around.rect()
        width = min(max(beside.width(), _LEAST_ERROR), room.width() - 8)
        height = self.heightForWidth(width)
        top = beside.bottom() + 1
        if top + height > room.bottom():
            top = max(0, beside.top() - height)
        self.setGeometry(max(4, min(beside.left(), room.right() - 4 - width)), top, width, height)


def make_editor(field: PropertyField, parent: QWidget) -> Editor:
    """Create the editor for a field."""
    return TextField(field, parent) if field.lines else LineField(field, parent)


def _needs_escapes(text: str) -> bool:
    """Return whether a text has bytes that are not UTF-8 (as surrogates), which Qt's editors would drop."""
    return any(0xDC80 <= ord(character) <= 0xDCFF for character in text) if not text.isascii() else False


def _escaped(text: str) -> str:
    """Escape bytes that are not UTF-8 as ``\\\\x80``, and double backslashes."""
    doubled = text.replace("\\", "\\\\")
    return "".join(f"\\x{ord(c) - 0xDC00:02x}" if 0xDC80 <= ord(c) <= 0xDCFF else c for c in doubled)


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda m: "\\" if m[0] == "\\\\" else chr(0xDC00 + int(m[1], 16)), text)


def is_own_shortcut(event: QEvent) -> bool:
    """Return whether a key is handled by an open editor although it is a shortcut of the window."""
    return (
        event.type() == QEvent.Type.ShortcutOverride
        and isinstance(event, QKeyEvent)
        and event.key() in (Qt.Key.Key_Escape, Qt.Key.Key_Return, Qt.Key.Key_Enter)
    )


def commit_focused_editor(window: QWidget) -> None:
    """Commit the text of the focused editor before the document is saved or closed."""
    commit_editor(window.focusWidget())


def commit_editor(field: QWidget | None) -> None:
    """Commit the text of a focused editor: neither shortcuts, menus nor most buttons take the focus away.

    An invalid text remains in it.
    """
    if isinstance(field, QAbstractSpinBox):
        field.interpretText()
    elif isinstance(field, QLineEdit) and field.isModified() and field.hasAcceptableInput():
        field.editingFinished.emit()
    if isinstance(field, (LineField, TextField)):
        field.commit_requested.emit()
    elif isinstance(field, QLineEdit) and (view := _view_around(field)) is not None:
        view.setFocus()


def _view_around(field: QWidget) -> QAbstractItemView | None:
    viewport = field.parentWidget()
    view = None if viewport is None else viewport.parentWidget()
    return view if isinstance(view, QAbstractItemView) else None


def saves_or_closes(event: QEvent) -> bool:
    """Return whether a key saves or closes the document: typed text must be committed first."""
    keys = QKeySequence.StandardKey
    return (
        event.type() == QEvent.Type.ShortcutOverride
        and isinstance(event, QKeyEvent)
        and any(event.matches(key) for key in (keys.Save, keys.SaveAs, keys.Close, keys.Quit))
    )


class _SuggestionModel(QAbstractListModel):
    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._rows: Sequence[Suggestion] = ()

    def set(self, rows: Sequence[Suggestion]) -> None:
        self.beginResetModel()
        self._rows = rows
        self.endResetModel()

    def texts(self) -> list[str]:
        return [one.text for one in self._rows]

    def rowCount(self, parent: QModelIndex | QPersistentModelIndex = QModelIndex()) -> int:
        return 0 if parent.isValid() else len(self._rows)

    def data(self, index: QModelIndex | QPersistentModelIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not 0 <= index.row() < len(self._rows):
            return None
        one = self._rows[index.row()]
        if role == Qt.ItemDataRole.EditRole:
            return one.text
        if role == Qt.ItemDataRole.DisplayRole:
            return display(one.text, 120)
        if role == _NOTE:
            return display(one.note, 120)
        if role == Qt.ItemDataRole.ToolTipRole:
            return plain_tip(display(f"{one.text}\n{one.note}", 400, keep_lines=True)) if one.note else None
        if role == Qt.ItemDataRole.ForegroundRole and not one.fits:
            return theme().muted
        return None


class _SuggestionList(QListView):
    """List at least as wide as its field, wider where its texts need it; stays on the screen."""

    def widen(self) -> None:
        """Fit the width to the listed suggestions."""
        model, metrics = self.model(), self.fontMetrics()
        rows = [model.index(row, 0) for row in range(model.rowCount())]
        texts = (f"{index.data() or ''}{index.data(_NOTE) or ''}" for index in rows)
        longest = sorted(texts, key=len, reverse=True)[:8]
        beside = self.verticalScrollBar().sizeHint().width() + 40
        self.setMinimumWidth(min(max(map(metrics.horizontalAdvance, longest), default=0) + beside, _WIDEST))

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        right = self.screen().availableGeometry().right()
        if self.frameGeometry().right() > right:
            self.move(right - self.width(), self.y())


class _SuggestionDelegate(WholeTextDelegate):
    """A suggestion with its note, muted, at the right."""

    def sizeHint(self, option: QStyleOptionViewItem, _index: QModelIndex | QPersistentModelIndex) -> QSize:
        return QSize(120, option.fontMetrics.height() + 5)

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        colors = theme()
        chosen = bool(option.state & (QStyle.StateFlag.State_Selected | QStyle.StateFlag.State_MouseOver))
        painter.save()
        painter.fillRect(option.rect, colors.hover if chosen else colors.panel)
        area = option.rect.adjusted(5, 0, -5, 0)
        metrics = painter.fontMetrics()
        text, note = str(index.data() or ""), str(index.data(_NOTE) or "")
        room = area.width() - metrics.horizontalAdvance(text) - 10
        if note:
            shown = metrics.elidedText(note, Qt.TextElideMode.ElideRight, max(room, area.width() * 2 // 5))
            painter.setPen(colors.muted)
            painter.drawText(area, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, shown)
            area.setRight(area.right() - metrics.horizontalAdvance(shown) - 10)
        painter.setPen(index.data(Qt.ItemDataRole.ForegroundRole) or colors.text)
        shown = metrics.elidedText(text, Qt.TextElideMode.ElideMiddle, area.width())
        painter.drawText(area, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, shown)
        painter.restore()
