"""Small widgets for the sections of the Run panel."""

from __future__ import annotations

from PySide6.QtCore import QSignalBlocker, Qt
from PySide6.QtGui import QFont, QPalette, QWheelEvent
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QLabel, QSizePolicy, QSpinBox, QVBoxLayout, QWidget

from onnx_workbench.viewer.widgets.flow_layout import in_a_column
from onnx_workbench.viewer.widgets.plain_label import plain_label


class Section(QWidget):
    """A heading with widgets below it."""

    def __init__(self, title: str) -> None:
        super().__init__()
        heading = QLabel(title)
        font = QFont(heading.font())
        font.setWeight(QFont.Weight.DemiBold)
        heading.setFont(font)
        self._heading = QHBoxLayout()
        self._heading.setContentsMargins(0, 0, 0, 0)
        self._heading.addWidget(heading, 1)
        self.rows = QVBoxLayout()
        self.rows.setContentsMargins(0, 0, 0, 0)
        self.rows.setSpacing(6)
        in_a_column(self, self._heading, self.rows, spacing=6)

    def add(self, widget: QWidget) -> None:
        """Append a widget."""
        self.rows.addWidget(widget)


class Combo(QComboBox):
    """A combo box that ignores the wheel and may be narrower than its longest entry."""

    def __init__(self, name: str, entries: list[tuple[str, object]]) -> None:
        super().__init__()
        self.setAccessibleName(name)
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.setMinimumContentsLength(7)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        for text, data in entries:
            self.addItem(text, data)

    def choose(self, data: object) -> None:
        """Select the entry with this data without signals; compared with ==, which findData does for few types only."""
        with QSignalBlocker(self):
            self.setCurrentIndex(next((i for i in range(self.count()) if self.itemData(i) == data), 0))

    def wheelEvent(self, event: QWheelEvent) -> None:
        event.ignore()


class Spin(QSpinBox):
    """A spin box that ignores the wheel."""

    def __init__(self, name: str, low: int, high: int) -> None:
        super().__init__()
        self.setAccessibleName(name)
        self.setRange(low, high)
        self.setKeyboardTracking(False)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)

    def wheelEvent(self, event: QWheelEvent) -> None:
        event.ignore()


def muted(text: str = "") -> QLabel:
    """Return a label for secondary text; plain text, wrapped."""
    label = plain_label(text)
    label.setForegroundRole(QPalette.ColorRole.PlaceholderText)
    return label
