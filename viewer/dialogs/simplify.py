"""Simplify: passes with what they would do first, each match shown on the graph; then applied, checked and told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QHeaderView,
    QLabel,
    QProgressBar,
    QStackedWidget,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)
from shiboken6 import isValid

from exec.fold import evaluate
from model.graph import Node, Value
from model.passes.rehearsal import Rehearsal
from model.passes.simplify.catalogue import PASSES
from model.passes.simplify.driver import chosen_passes, survey
from model.passes.simplify.framework import Match, Refusal
from viewer.commands.simplify import refusal_counts, table
from viewer.dialogs.buttons import without_icons
from viewer.simplifying import Outcome, Simplification
from viewer.text import display, plural
from viewer.workspace import Workspace

if TYPE_CHECKING:
    from model.progress import Progress
    from viewer.jobs import Job

_MOST_SHOWN = 200  # matches listed below a pass
_ItemRole = Qt.ItemDataRole.UserRole


class SimplifyDialog(QDialog):
    """Stays open beside the graph: choosing a match selects and shows its nodes there."""

    def __init__(self, workspace: Workspace, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Simplify")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.resize(620, 640)
        self._workspace = workspace
        self._job: Job[Any] | None = None
        self._revision = -1
        self.state = QLabel()
        self.state.setTextFormat(Qt.TextFormat.PlainText)
        self.state.setWordWrap(True)
        self.passes = self._make_tree("Passes and their matches", ("Pass", "Matches"))
        self.report = self._make_tree("What was done", ("", "Before", "After"))
        self.pages = QStackedWidget()
        self.pages.addWidget(self.passes)
        self.pages.addWidget(self.report)
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setFixedHeight(6)
        self.buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Ok | QDialogButtonBox.StandardButton.Cancel)
        self.ok = self.buttons.button(QDialogButtonBox.StandardButton.Ok)
        self.cancel = self.buttons.button(QDialogButtonBox.StandardButton.Cancel)
        self.ok.setText("Simplify")
        without_icons(self.buttons.buttons())
        layout = QVBoxLayout(self)
        for part in (self.state, self.pages, self.bar, self.buttons):
            layout.addWidget(part)
        self.buttons.accepted.connect(self.apply)
        self.buttons.rejected.connect(self.reject)
        self.passes.currentItemChanged.connect(self._show_match)
        self.passes.itemChanged.connect(self._enable)
        workspace.changes.changed.connect(self._on_change)
        self.look()

    def _make_tree(self, name: str, columns: tuple[str, ...]) -> QTreeWidget:
        tree = QTreeWidget()
        tree.setAccessibleName(name)
        tree.setHeaderLabels(columns)
        tree.setUniformRowHeights(True)
        tree.header().setStretchLastSection(False)
        tree.header().setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        for column in range(1, len(columns)):
            tree.header().setSectionResizeMode(column, QHeaderView.ResizeMode.ResizeToContents)
            tree.headerItem().setTextAlignment(column, Qt.AlignmentFlag.AlignRight)
        return tree

    # -- what there is to do -------------------------------------------------------------------------------------

    def look(self) -> None:
        """Search for matches, off the GUI thread."""
        rehearsal = Rehearsal(self._workspace.model)
        self._revision = self._workspace.document.revision

        def work(progress: Progress) -> tuple[dict[str, list[Match]], list[Refusal]]:
            return survey(rehearsal.document.model, evaluate=evaluate, progress=progress)

        self._start("Looking for what can be simplified…")
        self._job = self._workspace.jobs.start(
            "Look for simplifications",
            work,
            done=lambda found: self._list(rehearsal, *found) if isValid(self) else None,
            finished=self._stopped,
            supersede="simplify",
        )

    def _start(self, text: str) -> None:
        self.state.setText(text)
        self.bar.setRange(0, 0)
        self.bar.setVisible(True)
        self.ok.setEnabled(False)

    def _stopped(self) -> None:
        if not isValid(self):
            return  # closed while it worked
        self.bar.setVisible(False)
        self._enable()

    def _list(self, rehearsal: Rehearsal, found: dict[str, list[Match]], refusals: list[Refusal]) -> None:
        unchecked = {item.data(0, _ItemRole) for item in self._items() if item.checkState(0) == Qt.CheckState.Unchecked}
        self.passes.blockSignals(True)
        self.passes.clear()
        total = 0
        for one in sorted(PASSES, key=lambda p: not found.get(p.id)):
            matches = found.get(one.id, [])
            total += len(matches)
            item = QTreeWidgetItem([one.title, str(len(matches) or "")])
            item.setTextAlignment(1, Qt.AlignmentFlag.AlignRight)
            item.setToolTip(0, f"{one.doc}\n{one.id}")
            item.setData(0, _ItemRole, one.id)
            item.setFlags(item.flags() | Qt.ItemFlag.ItemIsUserCheckable)
            chosen = one.is_default and one.id not in unchecked
            item.setCheckState(0, Qt.CheckState.Checked if chosen else Qt.CheckState.Unchecked)
            for match in matches[:_MOST_SHOWN]:
                child = QTreeWidgetItem([display(match.description, 160)])
                things = [rehearsal.original(t) for t in (match.nodes or match.values)]
                child.setData(0, _ItemRole, things)
                item.addChild(child)
            if len(matches) > _MOST_SHOWN:
                item.addChild(QTreeWidgetItem([f"… and {len(matches) - _MOST_SHOWN:,} more"]))
            self.passes.addTopLevelItem(item)
        self.passes.blockSignals(False)
        held = f" {plural(len(refusals), 'place')} must stay as it is." if refusals else ""
        self.state.setText(
            f"{plural(total, 'match', 'matches')} now; passes make work for each other, so it may become more.{held}"
            if total
            else f"Nothing matches at first sight.{held}"
        )
        self._enable()

    def _enable(self, *_: object) -> None:
        told = self.pages.currentWidget() is self.report
        self.ok.setEnabled(told or (bool(self._chosen()) and self.bar.isHidden()))

    def _chosen(self) -> list[str]:
        return [item.data(0, _ItemRole) for item in self._items() if item.checkState(0) == Qt.CheckState.Checked]

    def _items(self) -> list[QTreeWidgetItem]:
        rows = range(self.passes.topLevelItemCount())
        return [item for row in rows if (item := self.passes.topLevelItem(row)) is not None]

    def _show_match(self, item: QTreeWidgetItem | None, *_: object) -> None:
        things = None if item is None else item.data(0, _ItemRole)
        shown = [t for t in things if isinstance(t, (Node, Value))] if isinstance(things, list) else []
        self._workspace.mark("matches", shown)
        if shown and self._revision == self._workspace.document.revision:
            self._workspace.reveal_all(shown)

    def _on_change(self, *_: object) -> None:
        if self.pages.currentWidget() is self.passes:
            self.look()

    # -- doing it ------------------------------------------------------------------------------------------------

    def apply(self) -> None:
        """Simplify a copy, compare, and carry it over; after that, the button closes the dialog."""
        if self.pages.currentWidget() is self.report:
            self.accept()
            return
        work = Simplification(self._workspace.model)
        passes = chosen_passes(self._chosen())
        revision = self._workspace.document.revision
        self._start("Simplifying and comparing outputs…")
        self._job = self._workspace.jobs.start(
            "Simplify",
            lambda progress: work.run(passes, progress=progress),
            done=lambda outcome: self._carry_over(outcome, revision) if isValid(self) else None,
            failed=lambda error: self.state.setText(display(str(error), 500)) if isValid(self) else None,
            finished=self._stopped,
            lane="mutate",
            supersede="simplify",
        )

    def _carry_over(self, outcome: Outcome, revision: int) -> None:
        if revision != self._workspace.document.revision:
            self.state.setText("The model was changed in the meantime; nothing was done.")
            return
        self.pages.setCurrentWidget(self.report)
        self._workspace.mark("matches", [])
        if outcome.agreement.agrees is not False:
            outcome.apply(self._workspace.document)
        self._tell(outcome)

    def _tell(self, outcome: Outcome) -> None:
        titles = {p.id: p.title for p in PASSES}
        done = plural(len(outcome.entries), "undo step")
        said = display(str(outcome.agreement), 300)
        if outcome.agreement.agrees is False:
            self.state.setText(f"Nothing was changed, as afterwards {said}.")
        elif not outcome.report.applied:
            self.state.setText("There was nothing to simplify.")
        else:
            self.state.setText(f"Done in {done}; {said}.")
        for cells in table(outcome.report)[1:]:
            self._row(self.report.invisibleRootItem(), *cells)
        applied = self._row(self.report.invisibleRootItem(), "Passes")
        for identifier, count in outcome.report.applied.items():
            self._row(applied, titles[identifier], "", str(count))
        refused = self._row(self.report.invisibleRootItem(), "Not done")
        for reason, count in refusal_counts(outcome.report).items():
            self._row(refused, display(reason, 200), "", str(count))
        for group in (applied, refused):
            group.setExpanded(True)
            group.setHidden(not group.childCount())
        self.ok.setText("Close")
        self.ok.setEnabled(True)
        self.cancel.setVisible(False)

    def _row(self, parent: QTreeWidgetItem, *cells: str) -> QTreeWidgetItem:
        item = QTreeWidgetItem(list(cells))
        for column in range(1, len(cells)):
            item.setTextAlignment(column, Qt.AlignmentFlag.AlignRight)
        item.setToolTip(0, cells[0])
        parent.addChild(item)
        return item

    def done(self, result: int) -> None:
        """Closing stops what is running and takes the marks away."""
        if self._job is not None:
            self._job.cancel()
        self._workspace.mark("matches", [])
        self._workspace.changes.changed.disconnect(self._on_change)
        super().done(result)
