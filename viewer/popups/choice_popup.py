"""Filter popup of things with a signature and a description: operators, values, inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QPoint, QSize, Qt
from PySide6.QtGui import QColor, QFontMetrics, QPainter
from PySide6.QtWidgets import QStyle, QStyleOptionViewItem, QWidget

from onnx_workbench.model.errors import ModelError
from onnx_workbench.viewer.popups.filter_popup import POSITIONS, ROW, FilterPopup, Index, Match, draw_title
from onnx_workbench.viewer.popups.fuzzy_match import rate
from onnx_workbench.viewer.style.theme import monospace, theme
from onnx_workbench.viewer.widgets.whole_text import WholeTextDelegate

_WIDTH = 640
_ROWS = 9
_MOST = 200  # rows created at once; more letters narrow the list


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

    @property
    def enabled(self) -> bool:
        return not self.reason

    @property
    def tip(self) -> str:
        """The reason why it cannot be chosen, or its detail."""
        return self.reason or self.detail

    @property
    def accessible_text(self) -> str:
        """All texts of its row, for screen readers."""
        return ", ".join(part for part in (self.title, self.signature, self.note, self.tip) if part)


class ChoicePopup(FilterPopup):
    """Filter popup of choices, deleted when it closes.

    `others` creates choices from the typed text that cannot be listed. Errors of a choice go to `report`.
    """

    def __init__(self, window: QWidget, name: str, report: Callable[[ModelError], None]) -> None:
        super().__init__(window, name, _ChoiceDelegate(), width=_WIDTH, most_rows=_ROWS)
        self._report = report
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
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
        self.nothing.setText(nothing)
        self.show_at(at)

    def matching(self) -> list[Choice]:
        """Return the matching choices, best first."""
        return self.model.rows

    def matches(self, query: str) -> Sequence[Match]:
        rated = []
        for order, choice in enumerate(self._choices):
            rating = rate(query, choice.title, f"{choice.note} {choice.words}")
            if rating is not None:
                rated.append((bool(choice.reason), choice.rank - rating[0], order, choice, rating[1]))
        rated.sort(key=lambda row: row[:3])
        listed = [(choice, positions) for *_, choice, positions in rated[:_MOST]]
        return [*listed, *((choice, ()) for choice in self._others(query.strip()))]

    def run(self, row: Choice, shift: bool) -> None:
        try:
            row.run(shift)
        except ModelError as error:
            self._report(error)


class _ChoiceDelegate(WholeTextDelegate):
    """Two lines: title, signature and note; below them the detail or the reason."""

    def sizeHint(self, option: QStyleOptionViewItem, _index: Index) -> QSize:
        return QSize(_WIDTH // 2, 2 * option.fontMetrics.height() + 12)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        choice: Choice = index.data(ROW)
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
        marked = set(index.data(POSITIONS))
        left = draw_title(painter, option.font, choice.title, marked, area.left(), base, right, text)
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
