"""Start page while no document is open: recent files, open, drop area."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QListWidget,
    QListWidgetItem,
    QPushButton,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from onnx_workbench.model.text.formatting import display
from onnx_workbench.viewer.program.settings import RECENT_FILES, Settings
from onnx_workbench.viewer.style.icons import icon
from onnx_workbench.viewer.style.theme import themes
from onnx_workbench.viewer.style.tooltips import plain_tip
from onnx_workbench.viewer.widgets.plain_label import plain_label
from onnx_workbench.viewer.widgets.scrolling import scroll_area
from onnx_workbench.viewer.widgets.whole_text import WholeTextDelegate

_COLUMN_WIDTH = 560
_ROW_HEIGHT = 28


class StartPage(QWidget):
    """Offers recent files; requests opening through signals."""

    open_requested = Signal()
    new_requested = Signal()
    sample_requested = Signal()
    file_requested = Signal(str)

    def __init__(self, settings: Settings, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._settings = settings
        self._column = self._make_column()
        self.waiting = _muted("")
        self.waiting.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.waiting.hide()
        middle = QWidget()
        row = QHBoxLayout(middle)
        row.setContentsMargins(24, 72, 24, 48)
        row.addStretch(1)
        row.addWidget(self._column)
        row.addWidget(self.waiting)
        row.addStretch(1)
        outer = QHBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.addWidget(scroll_area(middle))
        # It stays behind the graph later, and must not limit the size of docks.
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Ignored)
        settings.changed.connect(self._on_setting)
        themes().themeChanged.connect(self._color)
        self.refresh()

    def _make_column(self) -> QWidget:
        column = QWidget(self)
        column.setFixedWidth(_COLUMN_WIDTH)
        layout = QVBoxLayout(column)
        layout.setSpacing(8)
        title = _label("ONNX Workbench", scale=1.8, bold=True)
        title.setAccessibleName("ONNX Workbench")
        layout.addWidget(title)
        layout.addWidget(_muted("Open a model, see it as a graph, change anything in it, and run it."))
        layout.addSpacing(12)
        layout.addLayout(self._buttons())
        layout.addSpacing(16)
        self._heading = _label("Recent files", bold=True)
        layout.addWidget(self._heading)
        self._list = self._recent_list()
        layout.addWidget(self._list, 1)
        layout.addSpacing(8)
        layout.addWidget(_muted("Or drop .onnx files anywhere in this window."))
        layout.addStretch(1)
        return column

    def _buttons(self) -> QHBoxLayout:
        row = QHBoxLayout()
        self.open_button = QPushButton(icon("open"), "Open a model…")
        self.open_button.setToolTip("Open (Ctrl+O)")
        self.open_button.setDefault(True)
        self.open_button.clicked.connect(self.open_requested)
        self.new_button = QPushButton("New model…")
        self.new_button.setToolTip("Create a model with inputs and outputs only (Ctrl+N)")
        self.new_button.clicked.connect(self.new_requested)
        self.sample_button = QPushButton("Open the sample model")
        self.sample_button.setToolTip("A small network that recognises handwritten digits")
        self.sample_button.clicked.connect(self.sample_requested)
        for button in (self.open_button, self.new_button, self.sample_button):
            button.setMinimumHeight(32)
            row.addWidget(button)
        row.addStretch(1)
        return row

    def _recent_list(self) -> QListWidget:
        files = QListWidget()
        files.setItemDelegate(WholeTextDelegate(files))
        files.setAccessibleName("Recent files")
        files.setFrameShape(QListWidget.Shape.NoFrame)
        files.viewport().setAutoFillBackground(False)
        files.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        files.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)  # all rows show; the page scrolls
        files.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        files.setUniformItemSizes(True)
        files.setIconSize(QSize(16, 16))
        files.itemActivated.connect(self._open_item)
        files.itemClicked.connect(self._open_item)
        return files

    @property
    def recent(self) -> QListWidget:
        """The list of recent files."""
        return self._list

    def show_waiting(self, text: str) -> None:
        """Show only a line such as “Opening model.onnx…”; an empty text restores the page."""
        self.waiting.setText(text)
        self.waiting.setVisible(bool(text))
        self._column.setVisible(not text)

    def refresh(self) -> None:
        """Reload the recent files."""
        self._list.clear()
        for number, path in enumerate(self._settings.recent_files(), start=1):
            item = QListWidgetItem(f"{display(path.name, 80)}    {display(_folder_text(path), 90)}")
            shortcut = f" (Ctrl+{number})" if number <= 9 else ""
            item.setToolTip(plain_tip(display(str(path), 1000) + shortcut))
            item.setData(Qt.ItemDataRole.UserRole, str(path))
            item.setSizeHint(QSize(0, _ROW_HEIGHT))
            self._list.addItem(item)
        self._list.setFixedHeight(self._list.count() * _ROW_HEIGHT)
        self._heading.setVisible(self._list.count() > 0)
        self._list.setVisible(self._list.count() > 0)

    def _open_item(self, item: QListWidgetItem) -> None:
        self.file_requested.emit(item.data(Qt.ItemDataRole.UserRole))

    def _color(self) -> None:
        self.open_button.setIcon(icon("open"))

    def _on_setting(self, key: str) -> None:
        if key == RECENT_FILES.key:
            self.refresh()


def _folder_text(path: Path) -> str:
    """Return the folder, with the home folder as ~."""
    try:
        return str(Path("~") / path.parent.relative_to(Path.home()))
    except (ValueError, RuntimeError):
        return str(path.parent)


def _label(text: str, *, scale: float = 1.0, bold: bool = False) -> QLabel:
    label = QLabel(text)
    font = label.font()
    font.setPointSizeF(font.pointSizeF() * scale)
    font.setBold(bold)
    label.setFont(font)
    return label


def _muted(text: str) -> QLabel:
    label = plain_label(text, wraps=False)
    label.setForegroundRole(label.palette().ColorRole.PlaceholderText)
    return label
