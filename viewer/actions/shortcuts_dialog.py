"""Searchable list of all shortcuts."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeySequence
from PySide6.QtWidgets import (
    QDialog,
    QHeaderView,
    QLineEdit,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)

from onnx_workbench.viewer.actions import actions
from onnx_workbench.viewer.style.labels import without_mnemonic
from onnx_workbench.viewer.widgets.dialog_buttons import close_button
from onnx_workbench.viewer.widgets.whole_text import WholeTextDelegate

#: Mouse gestures on the graph, listed as well.
MOUSE = (
    ("Pan", "Drag the background"),
    ("Zoom at the pointer", "Ctrl+wheel, pinch"),
    ("Add to or remove from the selection", "Ctrl+click"),
    ("Select a rectangle", "Shift+drag"),
    ("Connect", "Drag from port to port; drop on the background to add an operator"),
    ("Open a body or function", "Double-click"),
    ("Go to the producer of an outer value", "Double-click its dashed pill"),
    ("Context menu", "Right-click, Shift+F10"),
    ("Back and forward between places", "Side buttons of the mouse"),
)

#: Keys in the rows of the inspector, which are not actions.
INSPECTOR = (
    ("Edit the value", "Return"),
    ("Edit the name", "Shift+F2"),
    ("Go to the named object", "Shift+Return"),
    ("Remove, or reset to the default", "Del"),
    ("Add to the list", "Ins"),
    ("Move up in a list (or drag the row)", "Alt+Up"),
    ("Move down in a list (or drag the row)", "Alt+Down"),
    ("Accept text of several lines", "Ctrl+Return"),
)

#: Keys in the tensor views, which are not actions either.
VALUES = (
    ("Go from cell to cell of a picture", "Shift+arrows"),
    ("Select the cell or point, to trace its element", "Return"),
    ("Zoom a picture, or fit it", "+, −, 0"),
    ("Move a picture", "Arrows"),
    ("Read lines, bars or the memory of a run", "Left, Right"),
    ("Go from line to line", "Up, Down"),
)

_FIRST_RECENT = "file.recent.1"
_SAME_AGAIN = frozenset(f"file.recent.{number}" for number in range(2, 10))


class ShortcutsDialog(QDialog):
    """Non-modal, so that it can be read while working."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Keyboard and mouse")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.resize(720, 620)
        self.field = QLineEdit()
        self.field.setPlaceholderText("Search")
        self.field.setAccessibleName("Search shortcuts")
        self.field.setClearButtonEnabled(True)
        self.field.textChanged.connect(self._filter)
        self.tree = QTreeWidget()
        self.tree.setItemDelegate(WholeTextDelegate(self.tree))
        self.tree.setAccessibleName("Shortcuts")
        self.tree.setHeaderLabels(["Action", "Keys"])
        self.tree.header().setSectionResizeMode(0, QHeaderView.ResizeMode.ResizeToContents)
        self.tree.setRootIsDecorated(False)
        self._fill()
        buttons = close_button(self)
        layout = QVBoxLayout(self)
        layout.addWidget(self.field)
        layout.addWidget(self.tree)
        layout.addWidget(buttons)

    def _fill(self) -> None:
        groups: dict[str, QTreeWidgetItem] = {}
        for one in actions():
            if not one.keys or one.id in _SAME_AGAIN:
                continue
            name = without_mnemonic(one.place.menu.value) if one.place else "Other"
            keys = ", ".join(_native(text) for text in one.keys)
            self._add(groups, name, one.plain_title, f"{keys} …" if one.id == _FIRST_RECENT else keys)
        for title, keys in INSPECTOR:
            self._add(groups, "Inspector", title, _native(keys))
        for group, gestures in (("Values", VALUES), ("Mouse", MOUSE)):
            for title, gesture in gestures:
                self._add(groups, group, title, gesture)
        self.tree.expandAll()

    def _add(self, groups: dict[str, QTreeWidgetItem], group: str, title: str, keys: str) -> None:
        if group not in groups:
            groups[group] = QTreeWidgetItem(self.tree, [group])
            font = groups[group].font(0)
            font.setBold(True)
            groups[group].setFont(0, font)
            groups[group].setFlags(Qt.ItemFlag.ItemIsEnabled)
        QTreeWidgetItem(groups[group], [title, keys])

    def _filter(self, text: str) -> None:
        wanted = text.lower().split()
        for row in range(self.tree.topLevelItemCount()):
            group = self.tree.topLevelItem(row)
            if group is None:
                continue
            shown = 0
            for index in range(group.childCount()):
                child = group.child(index)
                assert child is not None
                fits = all(word in f"{child.text(0)} {child.text(1)}".lower() for word in wanted)
                child.setHidden(not fits)
                shown += fits
            group.setHidden(shown == 0)


def _native(keys: str) -> str:
    return QKeySequence(keys).toString(QKeySequence.SequenceFormat.NativeText)
