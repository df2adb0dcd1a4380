"""What came out of a run, at a glance: outputs, failures, test data, declarations that are wrong."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHeaderView, QSizePolicy, QTreeWidget, QTreeWidgetItem

from model.graph import Node, Value
from viewer.panels.run.controls import Section, muted
from viewer.places import name_of
from viewer.results import info_of
from viewer.text import display, element_text, shape_text
from viewer.theme import theme
from viewer.workspace import Workspace

_MOST_ROWS = 60


class OutcomeSection(Section):
    """Outputs with their types, and what failed; a click goes there."""

    def __init__(self, workspace: Workspace) -> None:
        super().__init__("Outcome")
        self._workspace = workspace
        self.tree = _Tree()
        self.tree.setAccessibleName("Outcome of the run")
        self.note = muted("Press Run to see the values of every wire.")
        self.add(self.note)
        self.add(self.tree)
        self.tree.itemActivated.connect(self._go)
        self.tree.itemClicked.connect(self._go)
        self._targets: dict[int, Any] = {}
        workspace.results.changed.connect(self._refresh)
        self._refresh()

    def _go(self, item: QTreeWidgetItem, _column: int = 0) -> None:
        target = item.data(0, Qt.ItemDataRole.UserRole)
        if isinstance(target, (Node, Value)):
            self._workspace.reveal(target)

    def _refresh(self, _values: object = None) -> None:
        results = self._workspace.results
        self.tree.clear()
        record = results.current
        self.note.setVisible(record is None)
        self.tree.setVisible(record is not None)
        if record is None:
            return
        outputs = self._branch("Outputs", None)
        for value in self._workspace.model.graph.outputs[:_MOST_ROWS]:
            self._add(outputs, value, self._about(value))
        failed = [(n, r) for n, r in results.nodes().items() if r.failure is not None]
        if failed:
            failures = self._branch(f"Failed ({len(failed)})", theme().error)
            for node, result in failed[:_MOST_ROWS]:
                self._add(failures, node, str(result.failure and result.failure.reason))
        for note in record.result.notes[:_MOST_ROWS]:
            QTreeWidgetItem(self.tree, [display(note, 200)]).setFirstColumnSpanned(True)
        self.tree.expandAll()
        self.tree.fit()

    def _about(self, value: Value) -> str:
        found = self._workspace.results.value_of(value)
        if found is None:
            return "not computed"
        info = info_of(found)
        if info.kind != "tensor" or info.element_type is None:
            return str(info)
        return f"{element_text(info.element_type)} {shape_text(info.shape)}"

    def _branch(self, text: str, color: Any) -> QTreeWidgetItem:
        item = QTreeWidgetItem(self.tree, [text])
        item.setFirstColumnSpanned(True)
        item.setForeground(0, color or theme().muted)
        item.setFlags(Qt.ItemFlag.ItemIsEnabled)
        return item

    def _add(self, branch: QTreeWidgetItem, target: Node | Value, text: str) -> None:
        item = QTreeWidgetItem(branch, [display(name_of(target), 60), display(text, 200)])
        item.setData(0, Qt.ItemDataRole.UserRole, target)
        for column in (0, 1):
            item.setToolTip(column, display(f"{name_of(target)}\n{text}", 1000, keep_lines=True))


class _Tree(QTreeWidget):
    """As high as what is in it, up to a limit."""

    def __init__(self) -> None:
        super().__init__()
        self.setColumnCount(2)
        self.setHeaderHidden(True)
        self.setRootIsDecorated(False)
        self.setIndentation(10)
        self.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.header().setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        self.header().setSectionResizeMode(1, QHeaderView.ResizeMode.Stretch)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def fit(self) -> None:
        """Take the room that the rows need."""
        items = [self.topLevelItem(i) for i in range(self.topLevelItemCount())]
        rows = sum(1 + item.childCount() for item in items if item is not None)
        row = max(self.sizeHintForRow(0), 16)
        self.setFixedHeight(min(rows, 14) * row + 2 * self.frameWidth() + 2)
