"""Command palette (Ctrl+Shift+P): filter commands by typing, Enter runs one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QPoint, QSize, Qt
from PySide6.QtGui import QHideEvent, QPainter
from PySide6.QtWidgets import QStyle, QStyleOptionViewItem, QWidget

from onnx_workbench.viewer.popups.filter_popup import POSITIONS, ROW, FilterPopup, Index, Match, draw_title
from onnx_workbench.viewer.popups.fuzzy_match import rate
from onnx_workbench.viewer.style.theme import theme
from onnx_workbench.viewer.widgets.whole_text import WholeTextDelegate

_WIDTH = 620
_ROWS = 14
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
        return self.is_possible()

    @property
    def accessible_text(self) -> str:
        """All texts of its row, for screen readers."""
        return ", ".join(part for part in (self.title, self.where, self.shortcut) if part)


class CommandPalette(FilterPopup):
    """Filter popup of commands; those chosen before come first while nothing is typed."""

    def __init__(self, window: QWidget) -> None:
        super().__init__(window, "Command", _EntryDelegate(), width=_WIDTH, most_rows=_ROWS)
        self.field.setPlaceholderText("Type what you want to do")
        self._entries: list[PaletteEntry] = []
        self._recent: dict[str, None] = {}  # titles chosen before, newest last

    def open(self, entries: Iterable[PaletteEntry]) -> None:
        """Show the palette over its window with these entries."""
        self._entries = list(entries)
        self.show_at()

    def hideEvent(self, event: QHideEvent) -> None:
        """Release the entries, which hold the document."""
        super().hideEvent(event)
        self._entries = []
        self.model.set(())

    def refresh(self) -> None:
        """Show which entries are enabled now, in place, as the user may be about to choose one."""
        if self.isVisible():
            self.model.refresh()

    def matching(self) -> list[PaletteEntry]:
        """Return the matching entries, best first."""
        return self.model.rows

    def matches(self, query: str) -> Sequence[Match]:
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
        return [(entry, positions) for *_, entry, positions in rated]

    def run(self, row: PaletteEntry, _shift: bool) -> None:
        self._recent.pop(row.title, None)
        self._recent[row.title] = None
        row.run()


class _EntryDelegate(WholeTextDelegate):
    """Title with the matching letters marked, muted menu, shortcut at the right."""

    def sizeHint(self, option: QStyleOptionViewItem, _index: Index) -> QSize:
        return QSize(_WIDTH // 2, option.fontMetrics.height() + 10)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        entry: PaletteEntry = index.data(ROW)
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
        base = rect.center().y() + option.fontMetrics.ascent() // 2 - 1
        right = rect.right() - option.fontMetrics.horizontalAdvance(entry.shortcut) - 12
        left = draw_title(painter, option.font, entry.title, set(index.data(POSITIONS)), rect.left(), base, right, text)
        painter.setFont(option.font)
        painter.setPen(muted)
        painter.drawText(QPoint(left + 12, base), entry.where)
        painter.restore()
