"""Popup with a filter field and a list, to choose one of many things: operators, values, inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QAbstractListModel, QEvent, QModelIndex, QObject, QPersistentModelIndex, QPoint, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetrics, QKeyEvent, QPainter
from PySide6.QtWidgets import (
    QFrame,
    QLabel,
    QLineEdit,
    QListView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QVBoxLayout,
    QWidget,
)

from onnx_workbench.model.errors import ModelError
from onnx_workbench.viewer.popups.fuzzy_match import rate
from onnx_workbench.viewer.style.theme import monospace, theme
from onnx_workbench.viewer.style.tooltips import plain_tip

Index = QModelIndex | QPersistentModelIndex

_WIDTH = 640
_ROWS = 9
_MOST = 200  # rows created at once; more letters narrow the list
_CHOICE = Qt.ItemDataRole.UserRole
_POSITIONS = Qt.ItemDataRole.UserRole + 1


@dataclass(frozen=True)
class Choice:
    """One row: `title`, `signature` beside it, `note` at the right and one line of `detail` below.

    Lower `rank` sorts first where the filter does not decide; `reason` says why it cannot be chosen.
    """

    title: str
    run: Callable[[bool], object]  # True: chosen with Shift
    signature: str = ""
    detail: str = ""
    note: str = ""
    words: str = ""
    color: QColor | None = None
    rank: int = 0
    reason: str = ""


class ChoiceModel(QAbstractListModel):
    """The matching choices, best first."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.choices: list[tuple[Choice, tuple[int, ...]]] = []

    def set(self, choices: list[tuple[Choice, tuple[int, ...]]]) -> None:
        """Show these."""
        self.beginResetModel()
        self.choices = choices
        self.endResetModel()

    def rowCount(self, parent: Index = QModelIndex()) -> int:
        return 0 if parent.isValid() else len(self.choices)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        choice, positions = self.choices[index.row()]
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return choice.title
            case Qt.ItemDataRole.AccessibleTextRole:
                parts = (choice.title, choice.signature, choice.note, choice.reason or choice.detail)
                return ", ".join(part for part in parts if part)
            case Qt.ItemDataRole.ToolTipRole:
                return plain_tip(choice.reason or choice.detail) or None
            case _ if role == _CHOICE:
                return choice
            case _ if role == _POSITIONS:
                return positions
        return None

    def flags(self, index: Index) -> Qt.ItemFlag:
        """Disable choices that have a reason, but show them."""
        enabled = Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable
        return Qt.ItemFlag.ItemIsSelectable if self.choices[index.row()][0].reason else enabled


class ChoicePopup(QFrame):
    """Opens over its window, closes when something was chosen or the focus leaves. Esc closes it.

    `others` creates choices from the typed text that cannot be listed. Errors of a choice go to `report`.
    """

    def __init__(self, window: QWidget, name: str, report: Callable[[ModelError], None]) -> None:
        super().__init__(window, Qt.WindowType.Popup)
        self._report = report
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setFrameShape(QFrame.Shape.StyledPanel)
        self.setAccessibleName(name)
        self.caption = QLabel()
        self.caption.setTextFormat(Qt.TextFormat.PlainText)
        self.caption.setForegroundRole(self.palette().ColorRole.PlaceholderText)
        self.caption.setWordWrap(True)
        self.caption.setContentsMargins(2, 0, 2, 0)
        self.field = QLineEdit()
        self.field.setAccessibleName(name)
        self.field.setClearButtonEnabled(True)
        self.field.textChanged.connect(self._filter)
        self.field.installEventFilter(self)
        self.model = ChoiceModel(self)
        self.list = QListView()
        self.list.setAccessibleName(f"{name}: choices")
        self.list.setModel(self.model)
        self.list.setFrameShape(QFrame.Shape.NoFrame)
        self.list.setUniformItemSizes(True)
        self.list.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.list.setMouseTracking(True)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.setItemDelegate(_ChoiceDelegate(self.list))
        self.list.clicked.connect(lambda index: self.choose(index.row()))
        self._nothing = QLabel()
        self._nothing.setContentsMargins(8, 8, 8, 8)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(6, 6, 6, 6)
        layout.setSpacing(4)
        for widget in (self.caption, self.field, self.list, self._nothing):
            layout.addWidget(widget)
        self._choices: Sequence[Choice] = ()
        self._others: Callable[[str], Iterable[Choice]] = lambda _text: ()

    def open(
        self,
        choices: Iterable[Choice],
        *,
        caption: str = "",
        placeholder: str = "",
        nothing: str = "No matches",
        others: Callable[[str], Iterable[Choice]] | None = None,
        at: QPoint | None = None,
    ) -> None:
        """Show the popup: near a global position, or over the window's upper edge."""
        self._choices = sorted(choices, key=lambda choice: (bool(choice.reason), choice.rank))
        self._others = others or (lambda _text: ())
        self.caption.setText(caption)
        self.caption.setVisible(bool(caption))
        self.field.setPlaceholderText(placeholder)
        self._nothing.setText(nothing)
        window = self.parentWidget()
        assert window is not None
        self.setFixedWidth(min(_WIDTH, window.width() - 40))
        self.field.blockSignals(True)
        self.field.clear()
        self.field.blockSignals(False)
        self._filter("")
        self.move(self._place(window, at))
        self.show()
        self.field.setFocus()

    def _place(self, window: QWidget, at: QPoint | None) -> QPoint:
        if at is None:
            return window.mapToGlobal(QPoint((window.width() - self.width()) // 2, 60))
        room = window.screen().availableGeometry()
        return QPoint(
            max(room.left(), min(at.x(), room.right() - self.width())),
            max(room.top(), min(at.y(), room.bottom() - self.sizeHint().height())),
        )

    def shown(self) -> list[Choice]:
        """Return the matching choices, best first."""
        return [choice for choice, _ in self.model.choices]

    def _filter(self, query: str) -> None:
        rated = []
        for order, choice in enumerate(self._choices):
            rating = rate(query, choice.title, f"{choice.note} {choice.words}")
            if rating is not None:
                rated.append((bool(choice.reason), choice.rank - rating[0], order, choice, rating[1]))
        rated.sort(key=lambda row: row[:3])
        rows = [(choice, positions) for *_, choice, positions in rated[:_MOST]]
        rows += [(choice, ()) for choice in self._others(query.strip())]
        self.model.set(rows)
        if rows:
            self.list.setCurrentIndex(self.model.index(0))
        self._nothing.setVisible(not rows)
        self.list.setVisible(bool(rows))
        if rows:
            self.list.setFixedHeight(min(_ROWS, len(rows)) * self.list.sizeHintForRow(0) + 4)
        self.adjustSize()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Forward navigation keys to the list while the field has the focus."""
        if watched is self.field and isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress:
            key = event.key()
            steps = {Qt.Key.Key_PageDown: _ROWS, Qt.Key.Key_PageUp: -_ROWS, Qt.Key.Key_Down: 1, Qt.Key.Key_Up: -1}
            if key in steps:
                row = self.list.currentIndex().row() + steps[Qt.Key(key)]
                row = max(0, min(self.model.rowCount() - 1, row))
                self.list.setCurrentIndex(self.model.index(row))
                return True
            if key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
                self.choose(
                    self.list.currentIndex().row(),
                    shift=bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier),
                )
                return True
        return super().eventFilter(watched, event)

    def choose(self, row: int, *, shift: bool = False) -> None:
        """Choose a row, unless it has a reason against it."""
        if not 0 <= row < self.model.rowCount():
            return
        choice = self.model.choices[row][0]
        if choice.reason:
            return
        self.close()
        try:
            choice.run(shift)
        except ModelError as error:
            self._report(error)


class _ChoiceDelegate(QStyledItemDelegate):
    """Two lines: title, signature and note; below them the detail or the reason."""

    def sizeHint(self, option: QStyleOptionViewItem, _index: Index) -> QSize:
        return QSize(_WIDTH // 2, 2 * option.fontMetrics.height() + 12)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        choice: Choice = index.data(_CHOICE)
        colors = theme()
        chosen = bool(option.state & QStyle.StateFlag.State_Selected) and not choice.reason
        painter.save()
        rect = option.rect
        if chosen:
            painter.fillRect(rect, colors.accent)
        elif option.state & QStyle.StateFlag.State_Selected:
            painter.fillRect(rect, colors.alternate)
        text = colors.accent_text if chosen else colors.stale if choice.reason else colors.text
        muted = colors.accent_text if chosen else colors.muted
        if choice.color is not None:
            painter.fillRect(rect.left() + 2, rect.top() + 5, 4, rect.height() - 10, choice.color)
        area = rect.adjusted(14, 5, -8, -5)
        line = option.fontMetrics.height()
        painter.setFont(option.font)
        painter.setPen(muted)
        painter.drawText(area, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignTop, choice.note)
        right = area.right() - option.fontMetrics.horizontalAdvance(choice.note) - 12
        base = area.top() + option.fontMetrics.ascent()
        left = self._title(painter, option.font, choice, set(index.data(_POSITIONS)), area.left(), base, right, text)
        if choice.signature and right - left > 40:
            font = monospace(option.font.pointSizeF() - 1)
            painter.setFont(font)
            painter.setPen(muted)
            shown = QFontMetrics(font).elidedText(choice.signature, Qt.TextElideMode.ElideRight, right - left - 10)
            painter.drawText(QPoint(left + 10, base), shown)
        painter.setFont(option.font)
        painter.setPen(colors.warning if choice.reason and not chosen else muted)
        detail = option.fontMetrics.elidedText(
            choice.reason or choice.detail, Qt.TextElideMode.ElideRight, area.width()
        )
        painter.drawText(QPoint(area.left(), base + line + 2), detail)
        painter.restore()

    def _title(
        self,
        painter: QPainter,
        font: QFont,
        choice: Choice,
        marked: set[int],
        left: int,
        base: int,
        right: int,
        color: QColor,
    ) -> int:
        """Draw the title with the matching letters bold; returns its right end."""
        bold = QFont(font)
        bold.setBold(True)
        painter.setPen(color)
        shown = QFontMetrics(font).elidedText(choice.title, Qt.TextElideMode.ElideMiddle, max(right - left, 40))
        if not marked or shown != choice.title:  # in one go: letters of many scripts join
            painter.setFont(font)
            painter.drawText(QPoint(left, base), shown)
            return left + QFontMetrics(font).horizontalAdvance(shown)
        for at, character in enumerate(shown):
            painter.setFont(bold if at in marked else font)
            painter.drawText(QPoint(left, base), character)
            left += painter.fontMetrics().horizontalAdvance(character)
        return left
