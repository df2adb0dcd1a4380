"""List of extensions in the preferences: files and installed packages, loaded while they are ticked."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QFileDialog,
    QHBoxLayout,
    QListWidget,
    QListWidgetItem,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from onnx_workbench.model import extensions
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.text.formatting import display, plural
from onnx_workbench.viewer.dialogs.text_prompt import ErrorLabel
from onnx_workbench.viewer.program.settings import EXTENSION_FILES, EXTENSIONS, Settings
from onnx_workbench.viewer.style.tooltips import plain_tip
from onnx_workbench.viewer.widgets.plain_label import plain_label
from onnx_workbench.viewer.widgets.whole_text import WholeTextDelegate

_SOURCE = Qt.ItemDataRole.UserRole


class ExtensionList(QWidget):
    """Extensions with a box each; ticking one executes it, now and whenever the program starts."""

    changed = Signal()  # an extension was loaded or unloaded

    def __init__(self, settings: Settings, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._settings = settings
        hint = plain_label(
            "Extensions add operators, checks, simplifier passes, actions, file formats and views of values. "
            "Ticking one executes its code: tick only what you trust."
        )
        self.list = QListWidget()
        self.list.setItemDelegate(WholeTextDelegate(self.list))
        self.list.setAccessibleName("Extensions")
        self.list.itemChanged.connect(self._on_item)
        self.list.currentItemChanged.connect(self._on_current)
        self.add_button = QPushButton("&Add File…")
        self.add_button.clicked.connect(self._choose_files)
        self.remove_button = QPushButton("&Remove")
        self.remove_button.clicked.connect(self._remove)
        buttons = QHBoxLayout()
        buttons.addWidget(self.add_button)
        buttons.addWidget(self.remove_button)
        buttons.addStretch(1)
        self.error = ErrorLabel()
        layout = QVBoxLayout(self)
        for widget in (hint, self.list, self.error):
            layout.addWidget(widget)
        layout.addLayout(buttons)
        self._refresh()

    def add(self, path: Path) -> None:
        """List a file, not ticked."""
        source = str(path.absolute())
        files = self._settings.get(EXTENSION_FILES)
        if source not in files:
            self._settings.set(EXTENSION_FILES, (*files, source))
        self._refresh()

    def _refresh(self) -> None:
        """List files and entry points, and what is loaded otherwise, as by the command line."""
        loaded = {one.source: one for one in extensions.loaded()}
        ticked = self._settings.get(EXTENSIONS)
        sources = dict.fromkeys((*self._settings.get(EXTENSION_FILES), *extensions.entry_points(), *ticked, *loaded))
        current = self._current()
        self.list.blockSignals(True)
        self.list.clear()
        for source in sources:
            extension = loaded.get(source)
            contents = [] if extension is None else [f"{kind} {name}" for kind, name in extension.contents]
            about = f"  –  {plural(len(contents), 'addition')}" if contents else ""
            item = QListWidgetItem(f"{display(extensions.name_of(source), 80)}{about}", self.list)
            item.setFlags(item.flags() | Qt.ItemFlag.ItemIsUserCheckable)
            item.setCheckState(Qt.CheckState.Checked if extension is not None else Qt.CheckState.Unchecked)
            item.setData(_SOURCE, source)
            lines = [source.removeprefix(extensions.ENTRY), *contents[:20]]
            item.setToolTip(plain_tip("\n".join(display(line, 300) for line in lines)))
            if source == current:
                self.list.setCurrentItem(item)
        self.list.blockSignals(False)
        self._on_current()

    def _on_item(self, item: QListWidgetItem) -> None:
        source = item.data(_SOURCE)
        self.error.show_error(None)
        others = tuple(one for one in self._settings.get(EXTENSIONS) if one != source)
        try:
            if item.checkState() == Qt.CheckState.Checked:
                extensions.load(source)
                others += (source,)
            else:
                extensions.unload(source)
        except ModelError as error:
            self.error.show_error(error)
        self._settings.set(EXTENSIONS, others)
        self._refresh()
        self.changed.emit()

    def _on_current(self, *_: object) -> None:
        self.remove_button.setEnabled(self._current() in self._settings.get(EXTENSION_FILES))

    def _current(self) -> str:
        item = self.list.currentItem()
        return "" if item is None else str(item.data(_SOURCE))

    def _choose_files(self) -> None:
        names, _ = QFileDialog.getOpenFileNames(self, "Add extensions", "", "Python files (*.py)")
        for name in names:
            self.add(Path(name))

    def _remove(self) -> None:
        source = self._current()
        extensions.unload(source)
        for option in (EXTENSIONS, EXTENSION_FILES):
            self._settings.set(option, tuple(one for one in self._settings.get(option) if one != source))
        self._refresh()
        self.changed.emit()
