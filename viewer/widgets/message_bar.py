"""Non-modal messages above the graph: what happened, where, what to do."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QGridLayout, QLabel, QPushButton, QSizePolicy, QToolButton, QVBoxLayout, QWidget

from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, Value
from onnx_workbench.model.text.formatting import display
from onnx_workbench.viewer.document.context import DocumentContext
from onnx_workbench.viewer.document.messages import Message
from onnx_workbench.viewer.style.icons import icon
from onnx_workbench.viewer.style.labels import name_of, place_text
from onnx_workbench.viewer.style.theme import theme, themes
from onnx_workbench.viewer.style.tooltips import plain_tip
from onnx_workbench.viewer.widgets.flow_layout import FlowLayout
from onnx_workbench.viewer.widgets.plain_label import plain_label

_INFO_SECONDS = 6
_MOST = 3  # most messages shown; older ones are dropped
_MOST_ASKED = 6  # of those with a question
_SETTLE_MS = 1000  # for which nothing moves under the pointer after a message was answered
_TEXT_CHARACTERS = 40  # least width of the text next to the buttons


class MessageBar(QWidget):
    """Shows messages, newest below; infos disappear by themselves, warnings and errors stay.

    What stays is above what disappears, so that no button moves from below the pointer by itself. The place of a
    message that was answered or withdrawn stays empty for a moment, so that a second click does not answer the next.
    """

    def __init__(self, workspace: DocumentContext | None = None, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._workspace = workspace
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.setSpacing(1)
        self._rows: list[_Row] = []
        self.hide()
        if workspace is not None:
            workspace.messages.shown.connect(self.show_message)
            workspace.messages.withdrawn.connect(self.withdraw)

    @property
    def messages(self) -> list[Message]:
        """Return the shown messages, oldest first."""
        return [row.message for row in self._rows]

    def show_message(self, message: Message) -> None:
        """Show a message; replaces an equal one, or one on its topic, in whose place it stands."""
        place, answered = -1, None
        for row in list(self._rows):
            same_text = (row.message.title, row.message.detail) == (message.title, message.detail)
            if row.message.topic == message.topic and (same_text or message.topic):
                place = self._layout.indexOf(row)
                answered = row if row.is_answered else None
                self._remove(row)
        self._make_room()
        row = _Row(message, self._workspace)
        if answered is not None:
            row.take_place_of(answered)
        row.closed.clicked.connect(partial(self._answered, row))
        for button in row.buttons:
            button.clicked.connect(partial(self._answered, row))
        self._rows.append(row)
        if place < 0 and not _disappears(message):
            staying = (self._layout.indexOf(one) for one in self._rows[:-1] if not _disappears(one.message))
            place = max(staying, default=-1) + 1
        self._layout.insertWidget(place, row)
        row.show()
        self.show()
        if _disappears(message):
            QTimer.singleShot(_INFO_SECONDS * 1000, row, partial(self._remove, row))

    def _make_room(self) -> None:
        """Drop the oldest; questions stay longer than information."""
        while len(self._rows) >= _MOST:
            telling = [row for row in self._rows if not row.buttons]
            if not telling and len(self._rows) < _MOST_ASKED:
                return
            self._remove((telling or self._rows)[0])

    def withdraw(self, topic: str) -> None:
        """Close outdated messages on a topic."""
        for row in list(self._rows):
            if row.message.topic == topic:
                self._answered(row)

    def clear(self) -> None:
        for row in list(self._rows):
            self._remove(row)

    def close_newest(self) -> bool:
        """Close the newest message; False when there is none. Bound to Esc."""
        if not self._rows:
            return False
        self._remove(self._rows[-1])
        return True

    def _answered(self, row: _Row, *_: object) -> None:
        """Remove a message that was answered or withdrawn; those below it move up a little later."""
        place = self._layout.indexOf(row)
        if 0 <= place < self._layout.count() - 1:
            gap = QWidget()
            gap.setFixedHeight(row.height())
            self._layout.insertWidget(place, gap)
            gap.show()
            QTimer.singleShot(_SETTLE_MS, gap, gap.deleteLater)
        self._remove(row)

    def _remove(self, row: _Row, *_: object) -> None:
        if row in self._rows:
            self._rows.remove(row)
            self._layout.removeWidget(row)
            row.hide()
            row.deleteLater()
            self.setVisible(bool(self._rows))


def _disappears(message: Message) -> bool:
    return message.severity == "info" and not message.choices


class _Row(QFrame):
    """A message: icon, text, buttons, close."""

    def __init__(self, message: Message, workspace: DocumentContext | None) -> None:
        super().__init__()
        self.message = message
        self.buttons: list[QPushButton] = []
        self.is_answered = False  # one of the buttons was pressed
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setAutoFillBackground(True)
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(10, 5, 6, 5)
        self._grid.setColumnStretch(1, 1)
        self._icon = QLabel()
        self._grid.addWidget(self._icon, 0, 0, Qt.AlignmentFlag.AlignTop)
        self._grid.addWidget(_text_label(message), 0, 1)
        self._actions = QWidget()
        self._add_buttons(workspace)
        self._grid.addWidget(self._actions, 0, 2, Qt.AlignmentFlag.AlignTop)
        self.closed = QToolButton()
        self.closed.setAutoRaise(True)
        self.closed.setToolTip("Close this message (Esc)")
        self.closed.setAccessibleName("Close this message")
        self._grid.addWidget(self.closed, 0, 3, Qt.AlignmentFlag.AlignTop)
        themes().themeChanged.connect(self._color)
        self._color()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Wrap the buttons below the text where it would get too narrow."""
        super().resizeEvent(event)
        least = self.fontMetrics().averageCharWidth() * _TEXT_CHARACTERS
        if event.size().width() - self._actions.sizeHint().width() < least:
            self._grid.addWidget(self._actions, 1, 1, 1, 3)
        else:
            self._grid.addWidget(self._actions, 0, 2, Qt.AlignmentFlag.AlignTop)

    def _add_buttons(self, workspace: DocumentContext | None) -> None:
        row = FlowLayout()
        self._actions.setLayout(row)
        place = self.message.place
        if workspace is not None and isinstance(place, (Node, Value, Graph, Function, Model)):
            go = QPushButton("Show")
            go.setToolTip(plain_tip(f"Go to {place_text(place)}"))
            go.clicked.connect(partial(workspace.navigation.reveal, place))
            row.addWidget(go)
        for title, call in self.message.choices:
            button = QPushButton(title)
            button.clicked.connect(partial(self._call, call))
            self.buttons.append(button)
            row.addWidget(button)

    def _call(self, call: Callable[[], object], *_: object) -> None:
        self.is_answered = True
        call()

    def take_place_of(self, answered: _Row) -> None:
        """For a moment, be as high as the message that was answered, and take no click that was meant for it."""
        self.setMinimumHeight(answered.height())
        self._actions.setEnabled(False)
        QTimer.singleShot(_SETTLE_MS, self, self._settle)

    def _settle(self) -> None:
        self.setMinimumHeight(0)
        self._actions.setEnabled(True)

    def _color(self) -> None:
        colors = theme()
        color = {"info": colors.accent, "warning": colors.warning, "error": colors.error}[self.message.severity]
        self._icon.setPixmap(icon(self.message.severity, color).pixmap(16, 16))
        self.closed.setIcon(icon("close"))
        self.setBackgroundRole(self.palette().ColorRole.Base)


def _text_label(message: Message) -> QLabel:
    parts = [display(message.title, 300)]
    if message.detail:
        parts.append(display(message.detail, 2000, elide="end", keep_lines=True))
    place = place_text(message.place)
    if place and name_of(message.place) not in parts[0]:
        parts.append(f"At {place}.")
    label = plain_label("\n".join(parts))
    label.setTextInteractionFlags(
        Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
    )
    policy = QSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
    policy.setHeightForWidth(True)
    label.setSizePolicy(policy)
    label.setAccessibleName(f"{message.severity}: {message.title}")
    return label
