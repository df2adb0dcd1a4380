"""Whole texts on hover wherever a list, tree or table cuts them, and check boxes that are seen in the dark."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QModelIndex, QPersistentModelIndex, Qt
from PySide6.QtGui import QHelpEvent
from PySide6.QtWidgets import QAbstractItemView, QStyledItemDelegate, QStyleOptionViewItem, QToolTip

from onnx_workbench.viewer.style.theme import outline_palette, theme
from onnx_workbench.viewer.style.tooltips import plain_tip

_Index = QModelIndex | QPersistentModelIndex


class WholeTextDelegate(QStyledItemDelegate):
    """Delegate whose tooltip has the text of an item that is cut and has no other tooltip: that of every view."""

    def initStyleOption(self, option: QStyleOptionViewItem, index: _Index) -> None:
        super().initStyleOption(option, index)
        if theme().is_dark and option.features & QStyleOptionViewItem.ViewItemFeature.HasCheckIndicator:
            option.palette = outline_palette(theme())  # not the view's: its header and grid would be as bright

    def helpEvent(
        self, event: QHelpEvent, view: QAbstractItemView, option: QStyleOptionViewItem, index: _Index
    ) -> bool:
        if event.type() is not QEvent.Type.ToolTip or index.data(Qt.ItemDataRole.ToolTipRole):
            return super().helpEvent(event, view, option, index)
        visible = option.rect.intersected(view.viewport().rect())
        is_cut = self.sizeHint(option, index).width() > visible.width()
        tip = plain_tip(str(index.data(Qt.ItemDataRole.DisplayRole) or "")) if is_cut else ""
        QToolTip.showText(event.globalPos(), tip, view.viewport(), visible)
        return bool(tip)
