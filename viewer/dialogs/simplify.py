"""Simplify dialog: passes with their matches as a preview, shown on the graph; then applied and verified."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QHBoxLayout,
    QLabel,
    QProgressBar,
    QStackedWidget,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)
from shiboken6 import isValid

from onnx_workbench.exec.transform.simplify import Simplification, SimplifyOutcome, refusal_counts, size_table
from onnx_workbench.model.budget import WINDOW_TENSOR
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.working_copy import WorkingCopy
from onnx_workbench.model.ir.graph import Model, Node, Value
from onnx_workbench.model.progress import Progress
from onnx_workbench.model.simplify.pass_list import all_passes
from onnx_workbench.model.simplify.passes import Pass, SimplifyOptions
from onnx_workbench.model.simplify.pipeline import Survey, chosen_passes
from onnx_workbench.model.text.formatting import display, number_text, plural
from onnx_workbench.viewer.dialogs.simplify_matches import MatchTree, make_tree
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.style.tooltips import plain_tip
from onnx_workbench.viewer.widgets.dialog_buttons import without_icons
from onnx_workbench.viewer.widgets.scope_box import ScopeBox
from onnx_workbench.viewer.widgets.whole_text import WholeTextDelegate
from onnx_workbench.viewer.workflows.apply_edits import apply_edits
from onnx_workbench.viewer.workflows.working_copies import copy_model

if TYPE_CHECKING:
    from onnx_workbench.viewer.core.tasks import Task

#: On a copy of the model of a revision: what passes find.
Surveyed = tuple[Simplification, int, Survey]


class SimplifyDialog(QDialog):
    """Modeless dialog: choosing a match selects and shows its nodes on the graph."""

    _title = "Simplify"
    _done = "Simplified"
    _key = "simplify"  # a later search of the same kind takes the place of an earlier one

    def __init__(self, workspace: Workspace, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(self._title)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.resize(620, 640)
        self.workspace = workspace
        self._task: Task[Any] | None = None  # started last
        self._is_done = False
        self._work: Simplification | None = None  # on a working copy of the current model, once it was searched
        self._is_applying = False
        self._is_stopped = False  # stopped by the user, and not restarted since
        self._arrange()
        self.buttons.accepted.connect(self.apply)
        self.buttons.rejected.connect(self.reject)
        self.passes.shown.connect(self._show_match)
        self.passes.choice_changed.connect(self._enable)
        self.scope.changed.connect(self._on_change)
        workspace.changes.changed.connect(self._on_change)
        self.search()

    def _arrange(self) -> None:
        self.scope = ScopeBox(self.workspace)
        self.scope.setAccessibleName("Where to simplify")
        self.state = QLabel()
        self.state.setTextFormat(Qt.TextFormat.PlainText)
        self.state.setWordWrap(True)
        self.passes = MatchTree()
        self.report = QTreeWidget()
        self.report.setItemDelegate(WholeTextDelegate(self.report))
        make_tree(self.report, "Changes", ("", "Before", "After"))
        self.pages = QStackedWidget()
        self.pages.addWidget(self.passes)
        self.pages.addWidget(self.report)
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setFixedHeight(6)
        self.buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Ok | QDialogButtonBox.StandardButton.Cancel)
        self.ok = self.buttons.button(QDialogButtonBox.StandardButton.Ok)
        self.cancel = self.buttons.button(QDialogButtonBox.StandardButton.Cancel)
        self.ok.setText(self._title)
        without_icons(self.buttons.buttons())
        above = QHBoxLayout()
        above.addWidget(self.state, 1)
        above.addWidget(self.scope, 0, Qt.AlignmentFlag.AlignTop)
        layout = QVBoxLayout(self)
        layout.addLayout(above)
        for part in (self.pages, self.bar, self.buttons):
            layout.addWidget(part)

    def _searched(self) -> Sequence[Pass]:
        """Return the passes whose matches are listed."""
        return all_passes()

    def _chosen(self) -> Callable[[Model, Progress], Sequence[Pass]]:
        """Return what makes the passes that are run on a copy, those with a match that is checked, in a task.

        ModelError, now or then, where they cannot be made.
        """
        passes = chosen_passes(self.passes.choice().passes)
        return lambda _, __: passes

    def _may_differ(self) -> bool:
        """Return whether the model may compute something else afterwards."""
        return False

    def _entry_title(self) -> str:
        """Return the title of the entry in the history; empty for that of the passes."""
        return ""

    # -- what there is to do -------------------------------------------------------------------------------------

    def search(self) -> None:
        """Search for matches in a working copy, off the GUI thread."""
        self._work = None
        self._lock(False)
        self._start("Searching for matches…")
        workspace, options_of, passes = self.workspace, self._options(), self._searched()

        def survey(progress: Progress) -> Surveyed:
            copy, revision = copy_model(workspace, progress)
            work = Simplification(copy)
            return work, revision, work.survey(passes, options=options_of(copy), progress=progress)

        self._task = workspace.tasks.start(
            "Searching for matches",
            survey,
            done=self._list,
            failed=self._failed,
            finished=self._stopped,
            supersede=self._key,
        )

    def _options(self) -> Callable[[WorkingCopy], SimplifyOptions]:
        """Return a function that makes the chosen options for a copy of the model."""
        nodes, only = self.scope.nodes, self.passes.choice().only
        return lambda copy: SimplifyOptions(
            work_limit=WINDOW_TENSOR, nodes=None if nodes is None else copy.copies(nodes), only=only
        )

    def _start(self, text: str) -> None:
        if self._task is not None:
            self._task.cancel()
        self._is_stopped = False
        self.state.setText(text)
        self.bar.setRange(0, 0)
        self.bar.setVisible(True)
        self.ok.setEnabled(False)

    def _lock(self, is_working: bool) -> None:
        for part in (self.scope, self.passes):
            part.setEnabled(not is_working)

    def _failed(self, error: BaseException, untouched: Simplification | None = None) -> None:
        self._work = untouched or self._work
        self._lock(False)
        self.state.setText(display(str(error), 500))

    def _stopped(self) -> None:
        if self._task is None or self._task.finished:
            self.bar.setVisible(False)
            self._is_applying = False
            if self._task is not None and self._task.cancelled:
                self._is_stopped = True
                self._lock(False)
                self.state.setText(f"Search stopped. {self._title} starts again.")
            self._enable()

    def _list(self, surveyed: Surveyed) -> None:
        work, revision, survey = surveyed
        if revision != self.workspace.document.revision:
            return  # it is being searched again
        self._work = work
        self.passes.fill(self._searched(), survey.found, work.copy.original)
        total = sum(map(len, survey.found.values()))
        self._describe(survey, total)

    def _describe(self, survey: Survey, total: int) -> None:
        held = f" Left unchanged: {plural(len(survey.refusals), 'place')}." if survey.refusals else ""
        held += "".join(f"\n{display(reason, 300)}" for reason in survey.failed.values())
        self.state.setText(
            f"{plural(total, 'match', 'matches')}. A pass can create matches for other passes.{held}"
            if total
            else f"No matches.{held}"
        )

    def _enable(self) -> None:
        if self.pages.currentWidget() is self.passes:
            can_start = bool(self.passes.choice().passes) and self._work is not None
            self.ok.setEnabled(can_start or self._is_stopped)

    def _show_match(self, things: tuple[Node | Value, ...]) -> None:
        self.workspace.highlights.mark("matches", things)
        if things and self._work is not None:
            with self.scope.display_only():
                self.workspace.navigation.reveal_all(things)

    def _on_change(self, *_: object) -> None:
        if self.pages.currentWidget() is self.passes and not self._is_applying:
            self.search()

    # -- doing it ------------------------------------------------------------------------------------------------

    def apply(self) -> None:
        """Simplify the copy, compare, and apply the steps; afterwards the button closes the dialog."""
        if self.pages.currentWidget() is self.report:
            self.accept()
            return
        work, self._work = self._work, None
        if work is None:
            self.search()
            return
        try:
            chosen = self._chosen()
        except ModelError as error:
            self._work = work
            self.state.setText(display(str(error), 500))
            return
        options = self._options()(work.copy)
        revision, begun, title = self.workspace.document.revision, False, self._entry_title()

        def run(progress: Progress) -> SimplifyOutcome:
            nonlocal begun
            passes = chosen(work.copy.document.model, progress)
            begun = True
            return work.run(passes, options=options, progress=progress, title=title)

        self._lock(True)
        self._start("Changing a copy and comparing outputs…")
        self._task = self.workspace.tasks.start(
            self._title,
            run,
            done=lambda outcome: self._carry_over(outcome, revision) if isValid(self) else None,
            failed=lambda error: self._failed(error, None if begun else work),
            finished=self._stopped,
            lane="mutate",
            supersede=self._key,
            makes="edit",
        )

    def _carry_over(self, outcome: SimplifyOutcome, revision: int) -> None:
        workspace = self.workspace
        if revision != workspace.document.revision:
            return  # it changed in the meantime, and is being searched again
        if outcome.agreement.agrees is False and not self._may_differ():
            self._report(outcome)
            return
        self._is_applying = True
        self._start(f"Changing the model: {plural(outcome.steps, 'step')}…")
        self._task = workspace.tasks.start(
            self._title,
            lambda progress: apply_edits(workspace, outcome.entries, revision, outcome.recording, progress),
            done=lambda is_applied: self._applied(outcome, is_applied) if isValid(self) else None,
            failed=self._failed,
            finished=self._stopped,
            makes="edit",
        )

    def _applied(self, outcome: SimplifyOutcome, is_applied: bool) -> None:
        self._is_applying = False
        if is_applied:
            self._report(outcome)
        else:  # the model was changed meanwhile
            self.search()

    def _report(self, outcome: SimplifyOutcome) -> None:
        """Show the report in place of the matches."""
        self.pages.setCurrentWidget(self.report)
        self.scope.setVisible(False)
        self.workspace.highlights.mark("matches", [])
        titles = {p.id: p.title for p in all_passes()}
        agreement = display(str(outcome.agreement), 300)
        if outcome.agreement.agrees is False and not self._may_differ():
            self.state.setText(f"Nothing was changed, because afterwards {agreement}.")
        elif not outcome.report.applied:
            self.state.setText("Nothing was changed.")
        else:
            self.state.setText(f"{self._done}; {agreement}.")
        for cells in size_table(outcome.report)[1:]:
            self._row(self.report.invisibleRootItem(), *cells)
        applied = self._row(self.report.invisibleRootItem(), "Passes")
        for identifier, count in outcome.report.applied.items():
            self._row(applied, titles.get(identifier, identifier), "", number_text(count))
        refused = self._row(self.report.invisibleRootItem(), "Not done")
        for (identifier, reason), count in refusal_counts(outcome.report).items():
            self._row(refused, display(f"{titles.get(identifier, identifier)}: {reason}", 200), "", number_text(count))
        for identifier, reason in outcome.report.failed.items():
            self._row(refused, display(f"{titles.get(identifier, identifier)}: {reason}", 200))
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
        item.setToolTip(0, plain_tip(cells[0]))
        parent.addChild(item)
        return item

    def done(self, result: int) -> None:
        """Cancel running work and an edit that is not applied yet; remove the marks."""
        if self._is_done:  # as when it is closed while a question about it is open
            return
        self._is_done = True
        if self._task is not None:
            self._task.cancel()
        self.workspace.highlights.mark("matches", [])
        self.scope.changed.disconnect(self._on_change)
        self.workspace.changes.changed.disconnect(self._on_change)
        super().done(result)
