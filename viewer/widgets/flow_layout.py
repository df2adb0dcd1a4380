"""Flow layout: a row of widgets that wraps to a new line."""

from __future__ import annotations

from PySide6.QtCore import QPoint, QRect, QSize, Qt
from PySide6.QtWidgets import QHBoxLayout, QLabel, QLayout, QLayoutItem, QVBoxLayout, QWidget


class FlowLayout(QLayout):
    """Left to right, then down; hidden items take no room. An item wider than the layout is clipped to its width."""

    def __init__(self, spacing: int = 6) -> None:
        super().__init__()
        self._items: list[QLayoutItem] = []
        self._filling: set[QWidget] = set()
        self.setSpacing(spacing)
        self.setContentsMargins(0, 0, 0, 0)

    def add_filling(self, widget: QWidget) -> None:
        """Add a widget that needs only its minimum width and expands to the rest of its line."""
        self._filling.add(widget)
        self.addWidget(widget)

    # -- QLayout ---------------------------------------------------------------------------------------------

    def addItem(self, item: QLayoutItem) -> None:
        self._items.append(item)

    def count(self) -> int:
        return len(self._items)

    def itemAt(self, index: int) -> QLayoutItem | None:
        return self._items[index] if 0 <= index < len(self._items) else None

    def takeAt(self, index: int) -> QLayoutItem | None:
        return self._items.pop(index) if 0 <= index < len(self._items) else None

    def expandingDirections(self) -> Qt.Orientation:
        return Qt.Orientation(0)

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        return self._arrange(QRect(0, 0, width, 0), apply=False)

    def setGeometry(self, rect: QRect) -> None:
        super().setGeometry(rect)
        self._arrange(rect, apply=True)

    def sizeHint(self) -> QSize:
        sizes = [item.sizeHint() for item in self._items if not item.isEmpty()]
        width = sum(size.width() for size in sizes) + self.spacing() * max(0, len(sizes) - 1)
        return self._with_margins(QSize(width, max((size.height() for size in sizes), default=0)))

    def minimumSize(self) -> QSize:
        size = QSize()
        for item in self._items:
            if not item.isEmpty():
                size = size.expandedTo(item.minimumSize())
        return self._with_margins(size)

    # -- arranging -------------------------------------------------------------------------------------------

    def _with_margins(self, size: QSize) -> QSize:
        margins = self.contentsMargins()
        return size + QSize(margins.left() + margins.right(), margins.top() + margins.bottom())

    def _arrange(self, rect: QRect, *, apply: bool) -> int:
        """Lay out the items line by line; returns the total height."""
        area = rect.marginsRemoved(self.contentsMargins())
        lines: list[list[tuple[QLayoutItem, QSize]]] = [[]]
        used = 0
        for item in self._items:
            if item.isEmpty():
                continue
            size = self._needed(item, area.width())
            if lines[-1] and used + size.width() > area.width():
                lines.append([])
                used = 0
            lines[-1].append((item, size))
            used += size.width() + self.spacing()
        top = area.top()
        for line in lines:
            high = max((size.height() for _, size in line), default=0)
            if apply:
                self._place_line(line, QRect(area.left(), top, area.width(), high))
            top += high + self.spacing() // 2
        bottom = top - (self.spacing() // 2 if lines else 0)
        return bottom - rect.top() + self.contentsMargins().bottom()

    def _needed(self, item: QLayoutItem, width: int) -> QSize:
        least, hint = item.minimumSize(), item.sizeHint()
        if item.widget() in self._filling:
            return QSize(least.width(), max(least.height(), hint.height()))
        size = hint.boundedTo(QSize(max(width, 0), 1 << 20)).expandedTo(least)
        if item.hasHeightForWidth():
            size.setHeight(item.heightForWidth(size.width()))
        return size

    def _place_line(self, line: list[tuple[QLayoutItem, QSize]], area: QRect) -> None:
        """Place the items of a line next to each other, vertically centred."""
        spare = area.width() - sum(size.width() for _, size in line) - self.spacing() * (len(line) - 1)
        left = area.left()
        for item, size in line:
            if item.widget() in self._filling:
                size.setWidth(size.width() + max(spare, 0))
            item.setGeometry(QRect(QPoint(left, area.top() + (area.height() - size.height()) // 2), size))
            left += size.width() + self.spacing()


def labelled(text: str, widget: QWidget) -> QWidget:
    """Return a widget with its label that wrap together."""
    return in_a_row(QLabel(text), widget)


def in_a_row(*widgets: QWidget, is_left: bool = False) -> QWidget:
    """Return widgets side by side as one; `is_left`: no wider than they need to be."""
    holder = QWidget()
    row = QHBoxLayout(holder)
    row.setContentsMargins(0, 0, 0, 0)
    for widget in widgets:
        row.addWidget(widget)
    if is_left:
        row.addStretch(1)
    return holder


def clear_layout(layout: QLayout) -> None:
    """Remove the widgets of a layout; they are deleted later, as one of them may have asked for it."""
    while (item := layout.takeAt(0)) is not None:
        if (widget := item.widget()) is not None:
            widget.hide()
            widget.deleteLater()


def in_a_column(holder: QWidget, *parts: QWidget | QLayout, fills: QWidget | None = None, spacing: int = 0) -> None:
    """Lay out parts below each other in a widget, without margins; the one that `fills` gets the height left over."""
    column = QVBoxLayout(holder)
    column.setContentsMargins(0, 0, 0, 0)
    column.setSpacing(spacing)
    for part in parts:
        if isinstance(part, QLayout):
            column.addLayout(part)
        else:
            column.addWidget(part, int(part is fills))
