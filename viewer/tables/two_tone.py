"""Rows of two texts: a title, then more in the muted colour."""

from __future__ import annotations

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QSize, Qt
from PySide6.QtGui import QPainter, QPalette
from PySide6.QtWidgets import QApplication, QStyle, QStyleOptionViewItem, QWidget

from onnx_workbench.viewer.style.theme import theme
from onnx_workbench.viewer.widgets.whole_text import WholeTextDelegate

_Index = QModelIndex | QPersistentModelIndex
_GAP = 8  # px between the two texts

#: Role of the two texts of an index: tuple[str, str].
TextsRole = Qt.ItemDataRole.UserRole + 40


class TwoToneDelegate(WholeTextDelegate):
    """Draws the texts of `TextsRole` one after the other; the display role is for search and other views."""

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: _Index) -> None:
        own = QStyleOptionViewItem(option)
        self.initStyleOption(own, index)
        title, more = index.data(TextsRole)
        style = own.widget.style() if isinstance(own.widget, QWidget) else QApplication.style()
        area = style.subElementRect(QStyle.SubElement.SE_ItemViewItemText, own, own.widget)
        area.adjust(style.pixelMetric(QStyle.PixelMetric.PM_FocusFrameHMargin, own, own.widget) + 1, 0, 0, 0)
        own.text = ""
        style.drawControl(QStyle.ControlElement.CE_ItemViewItem, own, painter, own.widget)
        chosen = bool(own.state & QStyle.StateFlag.State_Selected)
        role = QPalette.ColorRole.HighlightedText if chosen else QPalette.ColorRole.Text
        painter.save()
        painter.setFont(own.font)
        painter.setPen(own.palette.color(role))
        painter.drawText(area, Qt.AlignmentFlag.AlignVCenter, title)
        area.adjust(own.fontMetrics.horizontalAdvance(title) + _GAP, 0, 0, 0)
        painter.setPen(own.palette.color(role) if chosen else theme().muted)
        painter.drawText(area, Qt.AlignmentFlag.AlignVCenter, more)
        painter.restore()

    def initStyleOption(self, option: QStyleOptionViewItem, index: _Index) -> None:
        super().initStyleOption(option, index)
        option.text = "  ".join(index.data(TextsRole))

    def sizeHint(self, option: QStyleOptionViewItem, index: _Index) -> QSize:
        return super().sizeHint(option, index) + QSize(_GAP, 0)
