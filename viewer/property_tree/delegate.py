"""Item delegate of property lists: painting and in-place editing."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from PySide6.QtCore import QAbstractItemModel, QEvent, QModelIndex, QObject, QPersistentModelIndex, QRect, QSize, Qt
from PySide6.QtGui import QFocusEvent, QFont, QFontMetrics, QHelpEvent, QKeyEvent, QPainter
from PySide6.QtWidgets import (
    QAbstractItemView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QToolTip,
    QWidget,
)

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
from onnx_workbench.viewer.property_tree.model import RowRole
from onnx_workbench.viewer.property_tree.rows import PropertyField, PropertyRow, RowAction
from onnx_workbench.viewer.style.icons import icon
from onnx_workbench.viewer.style.theme import Theme, monospace, theme
from onnx_workbench.viewer.style.tooltips import plain_tip
from onnx_workbench.viewer.widgets.whole_text import WholeTextDelegate

if TYPE_CHECKING:
    from onnx_workbench.viewer.property_tree.tree import PropertyTree

Index = QModelIndex | QPersistentModelIndex

ICON = 14
_GAP = 6
_NARROWEST = 8  # narrower than this only the ellipsis would be visible
_TEXT_LINES = 7
_EMPTY = "–"  # minimum width of an editable text
_ALWAYS = ("add", "go")  # the buttons visible without the pointer, when they are the last


class PropertyDelegate(WholeTextDelegate):
    """Delegate of one tree. An editor stays open while its text is invalid, with the error below it."""

    def __init__(self, tree: PropertyTree) -> None:
        super().__init__(tree)
        self._tree = tree
        self.editor: Editor | None = None
        self._index = QPersistentModelIndex()
        self._key: tuple[str, ...] = ()
        self._begun = ""
        self._first = ""
        self._error = FieldError(tree.viewport())

    # -- painting --------------------------------------------------------------------------------------------

    def sizeHint(self, option: QStyleOptionViewItem, _index: Index) -> QSize:
        return QSize(40, max(QFontMetrics(option.font).height() + 7, ICON + 6))

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        row: PropertyRow | None = index.data(RowRole)
        if row is None:
            return
        colors = theme()
        rect: QRect = option.rect
        state: QStyle.StateFlag = option.state
        painter.save()
        painter.setClipRect(rect)
        hovered = bool(state & QStyle.StateFlag.State_MouseOver)
        chosen = self._tree.currentIndex().siblingAtColumn(0) == index.sibling(index.row(), 0)
        if row.style == "section":
            self._paint_section(painter, rect, row, colors, hovered=hovered or chosen)
        elif index.column() == 0:
            self._paint_label(painter, rect, row, colors)
        else:
            self._paint_value(painter, rect, row, colors, hovered=hovered or chosen)
        painter.restore()

    def _paint_section(self, painter: QPainter, rect: QRect, row: PropertyRow, colors: Theme, *, hovered: bool) -> None:
        font = QFont(self._tree.font())
        font.setWeight(QFont.Weight.DemiBold)
        painter.setFont(font)
        painter.setPen(colors.text)
        area = rect.adjusted(2, 0, -_GAP, 0)
        width = QFontMetrics(font).horizontalAdvance(row.label)
        painter.drawText(area, Qt.AlignmentFlag.AlignVCenter, row.label)
        area.setLeft(area.left() + width + 8)
        area.setRight(self._paint_buttons(painter, area, row, shown=hovered))
        painter.setFont(self._tree.font())
        painter.setPen(colors.muted)
        self._draw(painter, area, row.text, Qt.TextElideMode.ElideRight)

    def _paint_label(self, painter: QPainter, rect: QRect, row: PropertyRow, colors: Theme) -> None:
        painter.setPen(colors.muted)
        painter.setFont(self._tree.font())
        named = row.label_field is not None or row.middle or row.label == row.key  # names differ at their ends
        mode = Qt.TextElideMode.ElideMiddle if named else Qt.TextElideMode.ElideRight
        self._draw(painter, rect.adjusted(2, 0, -_GAP, 0), row.label, mode)

    def _paint_value(self, painter: QPainter, rect: QRect, row: PropertyRow, colors: Theme, *, hovered: bool) -> None:
        area = rect.adjusted(4, 0, -4, 0)
        area.setRight(self._paint_buttons(painter, area, row, shown=hovered))
        if row.bars:
            part, parts = row.part
            whole = QRect(area.left(), area.top() - part * area.height(), area.width(), parts * area.height())
            _paint_bars(painter, whole.adjusted(0, 4, 0, -4), row.bars, colors)
            return
        font = monospace(self._tree.font().pointSizeF()) if row.mono else self._tree.font()
        painter.setFont(font)
        metrics = QFontMetrics(font)
        if row.note:
            wanted = metrics.horizontalAdvance(row.note) + 2
            free = area.width() - metrics.horizontalAdvance(row.text) - _GAP - 1
            note_width = min(wanted, max(free, area.width() // 3))
            note = QRect(area.right() - note_width + 1, area.top(), note_width, area.height())
            painter.setPen(colors.muted)
            self._draw(painter, note, row.note, Qt.TextElideMode.ElideRight)
            area.setRight(note.left() - _GAP)
        pen = {"muted": colors.muted, "error": colors.error, "warning": colors.warning}.get(row.style, colors.text)
        empty = not row.text and row.field is not None
        painter.setPen(colors.muted if empty else pen)
        mode = Qt.TextElideMode.ElideMiddle if row.middle else Qt.TextElideMode.ElideRight
        self._draw(painter, area, _EMPTY if empty else row.text, mode)

    def helpEvent(self, event: QHelpEvent, view: QAbstractItemView, option: QStyleOptionViewItem, index: Index) -> bool:
        row: PropertyRow | None = index.data(RowRole)
        if row is None or event.type() is not QEvent.Type.ToolTip:
            return super().helpEvent(event, view, option, index)
        tip = plain_tip("\n".join(filter(None, (self._cut_text(option.rect, row, index.column()), row.tip))))
        QToolTip.showText(event.globalPos(), tip, view.viewport(), option.rect)
        return bool(tip)

    def _cut_text(self, rect: QRect, row: PropertyRow, column: int) -> str:
        """Return the text of a cell where it is drawn with an ellipsis."""
        font = monospace(self._tree.font().pointSizeF()) if row.mono and column else self._tree.font()
        width = QFontMetrics(font).horizontalAdvance
        if row.style == "section" or row.bars:
            return ""
        if column == 0:
            return row.label if width(row.label) > rect.width() - 2 - _GAP else ""
        buttons = button_rects(rect.adjusted(4, 0, -4, 0), row)
        room = min((button.left() for _, button in buttons), default=rect.right() - 4) - rect.left() - 4
        needed = width(row.text) + (width(row.note) + _GAP + 3 if row.note else 0)
        shown = " ".join(filter(None, (row.text, row.note)))
        return (row.whole or shown) if needed > room or row.whole not in ("", shown) else ""

    def _draw(self, painter: QPainter, area: QRect, text: str, mode: Qt.TextElideMode) -> None:
        metrics = painter.fontMetrics()
        if text and area.width() >= min(_NARROWEST, metrics.horizontalAdvance(text)):
            shown = metrics.elidedText(text, mode, area.width())
            flags = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft | Qt.TextFlag.TextSingleLine
            painter.drawText(area, int(flags), shown)

    def _paint_buttons(self, painter: QPainter, area: QRect, row: PropertyRow, *, shown: bool) -> int:
        """Draw the buttons at the row's end; return the right limit for the text."""
        rects = button_rects(area, row)
        if not shown:
            rects = [one for one in rects[:1] if one[0].id in _ALWAYS]
        if not rects:
            return area.right()
        for action, rect in rects:
            mode = (True, False)[not action.enabled]
            pixmaps = icon(action.icon, theme().muted)
            pixmaps.paint(painter, rect, mode=pixmaps.Mode.Normal if mode else pixmaps.Mode.Disabled)
        return rects[-1][1].left() - _GAP

    def editorEvent(self, event: QEvent, model: QAbstractItemModel, option: QStyleOptionViewItem, index: Index) -> bool:
        del event, model, option, index
        return False

    # -- editing ---------------------------------------------------------------------------------------------

    def createEditor(self, parent: QWidget, _option: QStyleOptionViewItem, index: Index) -> QWidget:
        field = self._field(index)
        assert field is not None
        editor = make_editor(field, parent)
        row: PropertyRow = index.data(RowRole)
        editor.setAccessibleName(row.label or field.title)
        editor.commit_requested.connect(self.commit_and_close)
        editor.cancel_requested.connect(self.cancel)
        editor.stepped.connect(lambda: self.commit(gesture=True))
        self.editor = editor
        self._index = QPersistentModelIndex(index)
        self._key = self._tree.rows.path(index)
        return editor

    def setEditorData(self, editor: QWidget, index: Index) -> None:
        """Set the text once only: later changes of the model do not disturb what the user is typing."""
        field = self._field(index)
        if editor is not self.editor or field is None or editor.property("begun"):
            return
        editor.setProperty("begun", True)
        self.editor.set_text(field.source())
        self._begun = self._first = self.editor.text_now()

    def setModelData(self, _editor: QWidget, _model: QAbstractItemModel, _index: Index) -> None:
        """Does nothing: `commit` sets the data, since it may be refused."""

    def updateEditorGeometry(self, editor: QWidget, option: QStyleOptionViewItem, index: Index) -> None:
        """Place the editor over the cell; multi-line ones extend below it, or above it at the end of the view."""
        rect = QRect(option.rect)
        if isinstance(editor, TextField):
            height = QFontMetrics(editor.font()).height() * _TEXT_LINES + 12
            room = self._tree.viewport().rect()
            rect.setLeft(min(rect.left(), room.left() + 16))
            rect.setHeight(height)
            if rect.bottom() > room.bottom():
                rect.moveBottom(max(room.bottom(), height))
        elif index.column() == 0:
            rect.setLeft(rect.left() - 2)
        editor.setGeometry(rect)
        self._error.place(editor)

    def _field(self, index: Index) -> PropertyField | None:
        row: PropertyRow | None = index.data(RowRole)
        if row is None:
            return None
        return row.label_field if index.column() == 0 else row.field

    def commit(self, *, gesture: bool = False) -> bool:
        """Apply the typed text; return False if it is refused, with the error shown below the field."""
        editor = self.editor
        if editor is None:
            return True
        text = editor.text_now()
        field = self._field(self._index) if self._tree.rows.path(self._index) == self._key else None
        if field is None or text == self._begun:
            return True
        document, begun = self._tree.document, self._begun
        self._begun = text  # new rows may close the field, which commits again
        try:
            merge = "/".join(("field", *self._key, str(self._index.column())))
            with document.edit(field.title, merge=merge if gesture or self._first != begun else "") as edit:
                field.apply(edit, text)
        except ModelError as error:
            self._begun = begun
            self._show_error(error)
            return False
        if self.editor is editor:  # the edit may have closed it
            self._clear_error()
        return True

    def commit_and_close(self) -> bool:
        """Apply the typed text and close the editor, unless it is refused."""
        if self.editor is None:
            return True
        if not self.commit():
            return False
        self._close()
        return True

    def cancel(self) -> None:
        """Close the editor and revert the steps made in it."""
        editor = self.editor
        if editor is not None and self._begun != self._first:
            if isinstance(editor, LineField):
                editor.set_text(self._first)
            self.commit(gesture=True)
        self._close()

    def _close(self) -> None:
        editor, self.editor = self.editor, None
        self._clear_error()
        self._tree.document.end_gesture()
        if editor is not None:
            had_focus = editor.hasFocus()
            self.closeEditor.emit(editor, QStyledItemDelegate.EndEditHint.NoHint)
            if had_focus:
                self._tree.setFocus()

    def destroyEditor(self, editor: QWidget, index: Index) -> None:
        if editor is self.editor:
            self.editor = None
            self._clear_error()
            self._tree.document.end_gesture()
        super().destroyEditor(editor, index)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Commit and open the next field on Tab; commit if the focus leaves, except to its list or another window."""
        if watched is not self.editor:
            return False
        if is_own_shortcut(event) or (saves_or_closes(event) and not self.commit()):
            event.accept()
            return True
        if event.type() == QEvent.Type.KeyPress:
            key = cast("QKeyEvent", event).key()
            if key in (Qt.Key.Key_Tab, Qt.Key.Key_Backtab):
                index = self._index.sibling(self._index.row(), 1)
                if self.commit_and_close():
                    self._tree.edit_next(index, 1 if key == Qt.Key.Key_Tab else -1)
                return True
        elif event.type() == QEvent.Type.FocusOut:
            reason = cast("QFocusEvent", event).reason()
            if reason not in (Qt.FocusReason.PopupFocusReason, Qt.FocusReason.ActiveWindowFocusReason):
                self.commit_and_close()
                if self._tree.is_updating:  # not by the user: new rows have moved the field out of view
                    self._tree.setFocus()
        return False

    # -- errors ----------------------------------------------------------------------------------------------

    def _show_error(self, error: ModelError) -> None:
        if self.editor is None:
            self._tree.refused.emit(error)
            return
        self.editor.setStyleSheet(f"border: 1px solid {theme().error.name()};")
        self._error.show_error(error, self.editor)

    @property
    def error_text(self) -> str:
        """Return the error of the open field; empty if there is none."""
        return "" if self._error.isHidden() else self._error.text()

    def _clear_error(self) -> None:
        self._error.hide()
        if self.editor is not None:
            self.editor.setStyleSheet("")


def button_rects(area: QRect, row: PropertyRow) -> list[tuple[RowAction, QRect]]:
    """Return the rectangles of a row's buttons, from the right."""
    found = []
    right = area.right()
    for action in reversed([a for a in row.actions if a.icon]):
        found.append((action, QRect(right - ICON + 1, area.center().y() - ICON // 2, ICON, ICON)))
        right -= ICON + _GAP
    return found


def _paint_bars(painter: QPainter, area: QRect, bars: tuple[int, ...], colors: Theme) -> None:
    most = max(bars) or 1
    width = min(area.width(), 320) / len(bars)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(colors.edge)
    for number, count in enumerate(bars):
        if count:
            height = max(1, round(area.height() * count / most))
            left, right = round(area.left() + number * width), round(area.left() + (number + 1) * width)
            painter.drawRect(left, area.bottom() - height, max(1, right - left), height)
    painter.setPen(colors.border)
    painter.drawLine(area.left(), area.bottom(), round(area.left() + len(bars) * width), area.bottom())
