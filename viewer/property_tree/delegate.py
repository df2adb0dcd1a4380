"""Item delegate of property lists: painting and in-place editing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QAbstractItemModel, QEvent, QModelIndex, QObject, QPersistentModelIndex, QRect, QSize, Qt
from PySide6.QtGui import QFont, QFontMetrics, QHelpEvent, QPainter
from PySide6.QtWidgets import (
    QAbstractItemView,
    QStyle,
    QStyleOptionViewItem,
    QToolTip,
    QWidget,
)

from onnx_workbench.model.errors import ModelError
from onnx_workbench.viewer.property_tree.editors import TextField
from onnx_workbench.viewer.property_tree.field_delegate import FieldDelegate
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
_EMPTY = "–"  # minimum width of an editable text
_ALWAYS = ("add", "go")  # the buttons visible without the pointer, when they are the last


class PropertyDelegate(FieldDelegate):
    """Paints the rows of a tree with their buttons, and makes an edit of the document of what is typed."""

    def __init__(self, tree: PropertyTree) -> None:
        super().__init__(tree)
        self._tree = tree
        self._key: tuple[str, ...] = ()
        self._is_stepping = False

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

    def createEditor(self, parent: QWidget, option: QStyleOptionViewItem, index: Index) -> QWidget:
        editor = super().createEditor(parent, option, index)
        assert self.editor is not None
        self.editor.stepped.connect(self._step)
        self._key = self._tree.rows.path(index)
        return editor

    def updateEditorGeometry(self, editor: QWidget, option: QStyleOptionViewItem, index: Index) -> None:
        """Several lines get the place of the label too."""
        if isinstance(editor, TextField):
            option.rect.setLeft(min(option.rect.left(), 16))
        elif index.column() == 0:
            option.rect.setLeft(option.rect.left() - 2)
        super().updateEditorGeometry(editor, option, index)

    def field_at(self, index: Index) -> PropertyField | None:
        row: PropertyRow | None = index.data(RowRole)
        if row is None:
            return None
        return row.label_field if index.column() == 0 else row.field

    def title_of(self, index: Index) -> str:
        row: PropertyRow = index.data(RowRole)
        field = self.field_at(index)
        return row.label or ("" if field is None else field.title)

    def write(self, text: str, *, again: bool) -> None:
        field = self.field_at(self._index) if self._tree.rows.path(self._index) == self._key else None
        if field is None:
            return
        merge = "/".join(("field", *self._key, str(self._index.column())))
        with self._tree.document.edit(field.title, merge=merge if again or self._is_stepping else "") as edit:
            field.apply(edit, text)

    def _step(self) -> None:
        """Write a number that an arrow key has changed: steps are one entry of the history."""
        self._is_stepping = True
        self.commit()
        self._is_stepping = False

    def go_on(self, hint: WholeTextDelegate.EndEditHint) -> None:
        index = self._index.sibling(self._index.row(), 1)
        if self.commit_and_close():
            self._tree.edit_next(index, 1 if hint == self.EndEditHint.EditNextItem else -1)

    def _let_go(self) -> None:
        super()._let_go()
        self._tree.document.end_gesture()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        is_left = watched is self.editor and event.type() == QEvent.Type.FocusOut
        is_done = super().eventFilter(watched, event)
        if is_left and self._tree.is_updating:  # not by the user: new rows have moved the field out of view
            self._tree.setFocus()
        return is_done

    def _show_error(self, error: ModelError) -> None:
        super()._show_error(error)
        if self.editor is None:
            self._tree.refused.emit(error)


def button_rects(area: QRect, row: PropertyRow) -> list[tuple[RowAction, QRect]]:
    """Return the rectangles of a row's buttons, from the right."""
    buttons = []
    right = area.right()
    for action in reversed([a for a in row.actions if a.icon]):
        buttons.append((action, QRect(right - ICON + 1, area.center().y() - ICON // 2, ICON, ICON)))
        right -= ICON + _GAP
    return buttons


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
