"""Command palette (Ctrl+Shift+P): filter commands by typing, Enter runs one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QModelIndex, QObject, QPersistentModelIndex, QPoint, QSize, Qt, QTimer
from PySide6.QtGui import QFont, QKeyEvent, QPainter
from PySide6.QtWidgets import (
    QFrame,
    QLabel,
    QLineEdit,
    QListWidget,
    QListWidgetItem,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QVBoxLayout,
    QWidget,
)

from onnx_workbench.viewer.popups.fuzzy_match import rate
from onnx_workbench.viewer.style.theme import theme

_WIDTH = 620
_ROWS = 14
_ENTRY = Qt.ItemDataRole.UserRole
_POSITIONS = Qt.ItemDataRole.UserRole + 1
_TAKE_MS = 5  # between two batches of added entries
_WITH_KEYS = 0.1  # bonus for entries with a shortcut
_DISABLED = 15  # malus for entries that are disabled now


@dataclass(frozen=True)
class PaletteEntry:
    """A command. `where` is its menu, `words` are synonyms, `tip` describes it.

    `is_possible` is called often while the palette is open: it must be cheap.
    """

    title: str
    run: Callable[[], object]
    where: str = ""
    shortcut: str = ""
    words: str = ""
    tip: str = ""
    is_possible: Callable[[], bool] = lambda: True

    @property
    def enabled(self) -> bool:
        """Whether it can be run now."""
        return self.is_possible()


class CommandPalette(QFrame):
    """A filter field and a list over the window's upper edge; closes on choice or loss of focus."""

    def __init__(self, window: QWidget) -> None:
        super().__init__(window, Qt.WindowType.Popup)
        self.setFrameShape(QFrame.Shape.StyledPanel)
        self.setAccessibleName("Command palette")
        self.field = QLineEdit()
        self.field.setPlaceholderText("Type what you want to do")
        self.field.setAccessibleName("Command")
        self.field.setClearButtonEnabled(True)
        self.field.textChanged.connect(self._filter)
        self.field.installEventFilter(self)
        self.list = QListWidget()
        self.list.setAccessibleName("Commands")
        self.list.setFrameShape(QFrame.Shape.NoFrame)
        self.list.setUniformItemSizes(True)
        self.list.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.setItemDelegate(_EntryDelegate(self.list))
        self.list.itemClicked.connect(self._choose)
        self._nothing = QLabel("No matches")
        self._nothing.setContentsMargins(8, 8, 8, 8)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(6, 6, 6, 6)
        layout.addWidget(self.field)
        layout.addWidget(self.list)
        layout.addWidget(self._nothing)
        self._entries: list[PaletteEntry] = []
        self._more: Iterator[Iterable[PaletteEntry]] = iter(())
        self._take = QTimer(self, interval=_TAKE_MS)
        self._take.timeout.connect(self._take_more)
        self._recent: dict[str, None] = {}  # titles chosen before, newest last

    def open(self, entries: Iterable[PaletteEntry], more: Iterator[Iterable[PaletteEntry]] | None = None) -> None:
        """Show the palette over its window with these entries.

        The items of the generator `more` are added while the palette is shown, one per event-loop iteration.
        """
        self._entries = list(entries)
        self._more = iter(()) if more is None else more
        self._take.start()
        self.field.clear()
        self._filter("")
        window = self.parentWidget()
        assert window is not None
        width = min(_WIDTH, window.width() - 40)
        self.setFixedWidth(width)
        self.move(window.mapToGlobal(QPoint((window.width() - width) // 2, 60)))
        self.show()
        self.field.setFocus()

    def _take_more(self) -> None:
        part = next(self._more, None) if self.isVisible() else None
        if part is None:
            self._take.stop()
            return
        known = {(entry.title, entry.where) for entry in self._entries}
        fresh = [entry for entry in part if (entry.title, entry.where) not in known]
        if fresh:
            self._entries += fresh
            row = self.list.currentRow()
            # the best match is current unless the user moved
            at = self.list.item(row).data(_ENTRY) if row > 0 else None
            self._filter(self.field.text())
            if at is not None:
                self.list.setCurrentRow(self.shown().index(at))

    def refresh(self) -> None:
        """Update which entries are enabled, in place, as the user may be about to choose one."""
        if not self.isVisible():
            return
        for row in range(self.list.count()):
            _show_enabled(self.list.item(row))
        self.list.setCurrentRow(self.list.currentRow())  # a disabled one was not selected either

    def shown(self) -> list[PaletteEntry]:
        """Return the matching entries, best first."""
        return [self.list.item(row).data(_ENTRY) for row in range(self.list.count())]

    def _filter(self, query: str) -> None:
        rated = []
        for order, entry in enumerate(self._entries):
            rating = rate(query, entry.title, entry.words, f"{entry.where} {entry.tip}")
            if rating is not None:
                score, positions = rating
                if not query and entry.title in self._recent:
                    score += 1 + list(self._recent).index(entry.title)
                if query and entry.shortcut:
                    score += _WITH_KEYS
                if not entry.enabled:
                    score -= _DISABLED
                rated.append((-score, order, entry, positions))
        rated.sort(key=lambda row: row[:2])
        self.list.clear()
        for *_, entry, positions in rated:
            item = QListWidgetItem(entry.title)
            item.setData(_ENTRY, entry)
            item.setData(_POSITIONS, positions)
            item.setData(Qt.ItemDataRole.AccessibleTextRole, f"{entry.title}, {entry.where}, {entry.shortcut}")
            _show_enabled(item)
            self.list.addItem(item)
        self.list.setCurrentRow(0)
        self._nothing.setVisible(not rated)
        self.list.setVisible(bool(rated))
        if rated:
            self.list.setFixedHeight(min(_ROWS, len(rated)) * self.list.sizeHintForRow(0) + 4)
        self.adjustSize()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Forward navigation keys to the list while the field has the focus."""
        if watched is self.field and isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress:
            key = event.key()
            page = {Qt.Key.Key_PageDown: _ROWS, Qt.Key.Key_PageUp: -_ROWS, Qt.Key.Key_Down: 1, Qt.Key.Key_Up: -1}
            if key in page:
                row = self.list.currentRow() + page[Qt.Key(key)]
                self.list.setCurrentRow(max(0, min(self.list.count() - 1, row)))
                return True
            if key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
                item = self.list.currentItem()
                if item is not None:
                    self._choose(item)
                return True
        return super().eventFilter(watched, event)

    def _choose(self, item: QListWidgetItem) -> None:
        entry: PaletteEntry = item.data(_ENTRY)
        if not entry.enabled:
            return
        self._recent.pop(entry.title, None)
        self._recent[entry.title] = None
        self.close()
        entry.run()


def _show_enabled(item: QListWidgetItem) -> None:
    entry: PaletteEntry = item.data(_ENTRY)
    choice = Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable
    flags = choice if entry.enabled else Qt.ItemFlag.NoItemFlags
    if item.flags() != flags:
        item.setFlags(flags)


class _EntryDelegate(QStyledItemDelegate):
    """Title with the matching letters marked, muted menu, shortcut at the right."""

    def sizeHint(self, option: QStyleOptionViewItem, _index: QModelIndex | QPersistentModelIndex) -> QSize:
        return QSize(_WIDTH // 2, option.fontMetrics.height() + 10)

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        entry: PaletteEntry = index.data(_ENTRY)
        colors = theme()
        selected = bool(option.state & QStyle.StateFlag.State_Selected)
        enabled = bool(option.state & QStyle.StateFlag.State_Enabled)
        painter.save()
        if selected:
            painter.fillRect(option.rect, colors.accent)
        text = colors.accent_text if selected else colors.text if enabled else colors.stale
        muted = colors.accent_text if selected else colors.muted if enabled else colors.stale
        rect = option.rect.adjusted(8, 0, -8, 0)
        painter.setPen(muted)
        painter.drawText(rect, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight, entry.shortcut)
        left = rect.left()
        marked = set(index.data(_POSITIONS))
        bold = QFont(option.font)
        bold.setBold(True)
        for at, character in enumerate(entry.title):
            painter.setFont(bold if at in marked else option.font)
            painter.setPen(text)
            painter.drawText(QPoint(left, rect.center().y() + option.fontMetrics.ascent() // 2 - 1), character)
            left += painter.fontMetrics().horizontalAdvance(character)
        painter.setFont(option.font)
        painter.setPen(muted)
        painter.drawText(QPoint(left + 12, rect.center().y() + option.fontMetrics.ascent() // 2 - 1), entry.where)
        painter.restore()
