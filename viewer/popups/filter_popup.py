"""Popup with a line edit and a list of matching choices, to choose one of many."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol

from PySide6.QtCore import (
    QAbstractListModel,
    QEvent,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QPoint,
    QSignalBlocker,
    Qt,
)
from PySide6.QtGui import QColor, QFont, QFontMetrics, QKeyEvent, QPainter
from PySide6.QtWidgets import QFrame, QLabel, QLineEdit, QListView, QStyledItemDelegate, QVBoxLayout, QWidget

from onnx_workbench.viewer.style.tooltips import plain_tip
from onnx_workbench.viewer.widgets.plain_label import plain_label

Index = QModelIndex | QPersistentModelIndex


class FilterRow(Protocol):
    """A row of a filter popup; one that is not enabled is shown, but cannot be chosen."""

    @property
    def title(self) -> str: ...
    @property
    def tip(self) -> str: ...
    @property
    def accessible_text(self) -> str: ...
    @property
    def enabled(self) -> bool: ...


#: A row and the matching positions in its title.
Match = tuple[Any, tuple[int, ...]]

#: Roles of the row itself and of the positions in its title that match, for delegates.
ROW = Qt.ItemDataRole.UserRole
POSITIONS = Qt.ItemDataRole.UserRole + 1


class FilterModel(QAbstractListModel):
    """The matching rows, best first."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._matches: Sequence[Match] = ()

    @property
    def rows(self) -> list[Any]:
        """The rows, each a FilterRow."""
        return [row for row, _ in self._matches]

    def set(self, matches: Sequence[Match]) -> None:
        """Show these."""
        self.beginResetModel()
        self._matches = matches
        self.endResetModel()

    def refresh(self) -> None:
        """Show which rows are enabled now."""
        if self._matches:
            self.dataChanged.emit(self.index(0), self.index(len(self._matches) - 1))

    def rowCount(self, parent: Index = QModelIndex()) -> int:
        return 0 if parent.isValid() else len(self._matches)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        row: FilterRow = self._matches[index.row()][0]
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return row.title
            case Qt.ItemDataRole.AccessibleTextRole:
                return row.accessible_text
            case Qt.ItemDataRole.ToolTipRole:
                return plain_tip(row.tip) or None
            case _ if role == ROW:
                return row
            case _ if role == POSITIONS:
                return self._matches[index.row()][1]
        return None

    def flags(self, index: Index) -> Qt.ItemFlag:
        if not index.isValid():  # the view queries the clicked row again after the popup has removed its rows
            return Qt.ItemFlag.NoItemFlags
        row: FilterRow = self._matches[index.row()][0]
        enabled = Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable
        return enabled if row.enabled else Qt.ItemFlag.NoItemFlags


class FilterPopup(QFrame):
    """Popup over its window; closes when something was chosen or the focus leaves. Esc closes it.

    Subclasses return the rows for a text in `matches`, and `run` the one that is chosen. `width` in pixels and
    `most_rows` without scrolling are upper limits.
    """

    def __init__(
        self, window: QWidget, name: str, delegate: QStyledItemDelegate, *, width: int, most_rows: int
    ) -> None:
        super().__init__(window, Qt.WindowType.Popup)
        self._width, self._most_rows = width, most_rows
        self.setFrameShape(QFrame.Shape.StyledPanel)
        self.setAccessibleName(name)
        self.caption = plain_label()
        self.caption.setForegroundRole(self.palette().ColorRole.PlaceholderText)
        self.caption.setContentsMargins(2, 0, 2, 0)
        self.caption.hide()
        self.field = QLineEdit()
        self.field.setAccessibleName(name)
        self.field.setClearButtonEnabled(True)
        self.field.textChanged.connect(self._filter)
        self.field.installEventFilter(self)
        self.model = FilterModel(self)
        self.list = QListView()
        self.list.setAccessibleName(f"{name}: choices")
        self.list.setModel(self.model)
        self.list.setFrameShape(QFrame.Shape.NoFrame)
        self.list.setUniformItemSizes(True)
        self.list.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.list.setMouseTracking(True)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        delegate.setParent(self.list)
        self.list.setItemDelegate(delegate)
        self.list.clicked.connect(lambda index: self.choose(index.row()))
        self.nothing = QLabel("No matches")
        self.nothing.setContentsMargins(8, 8, 8, 8)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(6, 6, 6, 6)
        layout.setSpacing(4)
        for widget in (self.caption, self.field, self.list, self.nothing):
            layout.addWidget(widget)

    @abstractmethod
    def matches(self, query: str) -> Sequence[Match]:
        """Return the rows that match a text, best first."""

    @abstractmethod
    def run(self, row: Any, shift: bool) -> None:
        """Run the chosen row; shift: it was chosen with Shift."""

    def show_at(self, at: QPoint | None = None) -> None:
        """Show the popup with an empty field: near a global position, or over the window's upper edge."""
        window = self.parentWidget()
        assert window is not None
        self.setFixedWidth(min(self._width, window.width() - 40))
        blocker = QSignalBlocker(self.field)
        self.field.clear()
        blocker.unblock()
        self._filter("")
        self.move(self._position(window, at))
        self.show()
        self.field.setFocus()

    def _position(self, window: QWidget, at: QPoint | None) -> QPoint:
        if at is None:
            return window.mapToGlobal(QPoint((window.width() - self.width()) // 2, 60))
        room = window.screen().availableGeometry()
        return QPoint(
            max(room.left(), min(at.x(), room.right() - self.width())),
            max(room.top(), min(at.y(), room.bottom() - self.sizeHint().height())),
        )

    def _filter(self, query: str) -> None:
        self.model.set(self.matches(query))
        count = self.model.rowCount()
        self._set_row(0)
        self.nothing.setVisible(not count)
        self.list.setVisible(bool(count))
        if count:
            self.list.setFixedHeight(min(self._most_rows, count) * self.list.sizeHintForRow(0) + 4)
        self.adjustSize()

    def _set_row(self, row: int) -> None:
        self.list.setCurrentIndex(self.model.index(max(0, min(self.model.rowCount() - 1, row))))

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Forward navigation keys to the list while the field has the focus."""
        if watched is self.field and isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress:
            page = self._most_rows
            steps = {Qt.Key.Key_PageDown: page, Qt.Key.Key_PageUp: -page, Qt.Key.Key_Down: 1, Qt.Key.Key_Up: -1}
            row = self.list.currentIndex().row()
            if event.key() in steps:
                self._set_row(row + steps[Qt.Key(event.key())])
                return True
            if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
                self.choose(row, shift=bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier))
                return True
        return super().eventFilter(watched, event)

    def choose(self, row: int, *, shift: bool = False) -> None:
        """Close the popup and run a row, if it is enabled."""
        if not 0 <= row < self.model.rowCount():
            return
        chosen: FilterRow = self.model.rows[row]
        if chosen.enabled:
            self.close()
            self.run(chosen, shift)


def draw_title(
    painter: QPainter, font: QFont, title: str, marked: set[int], left: int, base: int, right: int, color: QColor
) -> int:
    """Draw a title with the matching letters bold, elided at `right`; returns its right end."""
    bold = QFont(font)
    bold.setBold(True)
    painter.setPen(color)
    shown = QFontMetrics(font).elidedText(title, Qt.TextElideMode.ElideMiddle, max(right - left, 40))
    if not marked or shown != title:  # in one go: letters of many scripts join
        painter.setFont(font)
        painter.drawText(QPoint(left, base), shown)
        return left + QFontMetrics(font).horizontalAdvance(shown)
    for at, character in enumerate(shown):
        painter.setFont(bold if at in marked else font)
        painter.drawText(QPoint(left, base), character)
        left += painter.fontMetrics().horizontalAdvance(character)
    return left
