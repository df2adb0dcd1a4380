"""Tour of the window: a card next to each part in turn, with its purpose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QObject, QPoint, QRect, QSize, Qt
from PySide6.QtGui import QCloseEvent, QKeyEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from onnx_workbench.viewer.style.theme import theme

_WIDTH = 420  # px, at the usual font size
_GAP = 10
_LINE = 3


@dataclass(frozen=True)
class TourStep:
    """One stop. `target` returns the widget it is about, shown if it was not; None: the window as a whole."""

    title: str
    text: str
    target: Callable[[], QWidget | None]


class _Outline(QWidget):
    """A line around a part of the window; clicks go through it."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(theme().accent, _LINE))
        painter.drawRoundedRect(self.rect().adjusted(_LINE, _LINE, -_LINE, -_LINE), 6, 6)


class Tour(QFrame):
    """The card with Back, Next and Close. The window stays usable; Escape closes it. Closed with its window."""

    def __init__(self, window: QWidget, steps: Sequence[TourStep]) -> None:
        super().__init__(window)
        self.setObjectName("tour")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setFrameShape(QFrame.Shape.Box)
        self.setLineWidth(2)
        self.setAutoFillBackground(True)
        self.setFixedWidth(round(_WIDTH * self.fontMetrics().averageCharWidth() / 7))
        self.setAccessibleName("Tour")
        self._window, self._steps, self._index = window, tuple(steps), 0
        self._outline = _Outline(window)
        self.title, self.text, self.count = QLabel(), QLabel(), QLabel()
        for label in (self.title, self.text):
            label.setTextFormat(Qt.TextFormat.PlainText)
            label.setWordWrap(True)
        self.count.setTextFormat(Qt.TextFormat.PlainText)
        font = self.title.font()
        font.setBold(True)
        self.title.setFont(font)
        self.back, self.next, self.end = QPushButton("&Back"), QPushButton("&Next"), QPushButton("&Close")
        self.next.setDefault(True)
        row = QHBoxLayout()
        row.addWidget(self.count, 1)
        for button in (self.end, self.back, self.next):
            row.addWidget(button)
        layout = QVBoxLayout(self)
        layout.addWidget(self.title)
        layout.addWidget(self.text)
        layout.addLayout(row)
        self.back.clicked.connect(lambda: self.go(self._index - 1))
        self.next.clicked.connect(lambda: self.go(self._index + 1))
        self.end.clicked.connect(self.close)
        window.installEventFilter(self)
        self.go(0)

    def go(self, index: int) -> None:
        """Show a step; beyond the last one the tour ends."""
        if index >= len(self._steps):
            self.close()
            return
        self._index = max(index, 0)
        step = self._steps[self._index]
        self.title.setText(step.title)
        self.text.setText(step.text)
        self.setAccessibleDescription(f"{step.title}. {step.text}")
        self.count.setText(f"{self._index + 1} of {len(self._steps)}")
        is_last = self._index == len(self._steps) - 1
        self.back.setEnabled(self._index > 0)
        self.next.setText("&Done" if is_last else "&Next")
        self.end.setVisible(not is_last)
        target = step.target()
        self._move_next_to(target)
        self.show()
        self.raise_()
        self.next.setFocus(Qt.FocusReason.OtherFocusReason)

    def _move_next_to(self, target: QWidget | None) -> None:
        """Outline a part of the window and place the card next to it, or over its lower edge if there is no room."""
        self._outline.setVisible(target is not None)
        room, size = self._window.rect(), QSize(self.width(), self.heightForWidth(self.width()))
        area = room
        if target is not None:
            area = QRect(target.mapTo(self._window, QPoint(0, 0)), target.size()).intersected(room)
            self._outline.setGeometry(area)
            self._outline.raise_()
        self.resize(size)
        self.move(_beside(area, size, room))

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if watched is self._window and event.type() == QEvent.Type.Resize and self.isVisible():
            self._move_next_to(self._steps[self._index].target())
        return super().eventFilter(watched, event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        match event.key():
            case Qt.Key.Key_Escape:
                self.close()
            case Qt.Key.Key_Return | Qt.Key.Key_Enter:
                self.next.click()
            case Qt.Key.Key_Left:
                self.go(self._index - 1)
            case Qt.Key.Key_Right:
                self.go(self._index + 1)
            case _:
                super().keyPressEvent(event)

    def closeEvent(self, event: QCloseEvent) -> None:
        self._window.removeEventFilter(self)
        self._outline.close()
        self._outline.deleteLater()
        super().closeEvent(event)


def _beside(area: QRect, size: QSize, room: QRect) -> QPoint:
    """Return the position of a card of a size: right, left or below of an area, else inside it, within the room."""
    middle = area.center().y() - size.height() // 2
    places = (
        QPoint(area.right() + _GAP, middle),
        QPoint(area.left() - _GAP - size.width(), middle),
        QPoint(area.center().x() - size.width() // 2, area.bottom() + _GAP),
        QPoint(area.center().x() - size.width() // 2, area.top() - _GAP - size.height()),
    )
    fitting = (place for place in places[:2] if room.contains(QRect(_within(place, size, room, across=False), size)))
    chosen = next(fitting, None) or next((p for p in places[2:] if room.contains(QRect(p, size))), None)
    if chosen is None:
        chosen = QPoint(area.center().x() - size.width() // 2, area.bottom() - size.height() - 2 * _GAP)
    return _within(chosen, size, room)


def _within(place: QPoint, size: QSize, room: QRect, *, across: bool = True) -> QPoint:
    """Return a place moved into the room; only up and down unless `across`."""
    y = min(max(place.y(), room.top() + _GAP), room.bottom() - size.height() - _GAP)
    x = min(max(place.x(), room.left() + _GAP), room.right() - size.width() - _GAP) if across else place.x()
    return QPoint(x, y)
