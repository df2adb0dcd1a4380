"""Simplify dialog: passes with their matches as a preview, shown on the graph; then applied and verified."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QHBoxLayout,
    QStackedWidget,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)

from onnx_workbench.exec.transform.simplify import Simplification, SimplifyOutcome, refusal_counts, size_table
from onnx_workbench.model.budget import WINDOW_TENSOR
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.working_copy import WorkingCopy
from onnx_workbench.model.ir.graph import Model, Node, Value
from onnx_workbench.model.progress import Progress
from onnx_workbench.model.simplify.pass_list import all_passes
from onnx_workbench.model.simplify.passes import Pass, SimplifyOptions
from onnx_workbench.model.simplify.pipeline import Survey, chosen_passes
from onnx_workbench.model.simplify.rules.standard_operators import STANDARD
from onnx_workbench.model.text.formatting import display, number_text, plural
from onnx_workbench.viewer.dialogs.preview import PreviewDialog
from onnx_workbench.viewer.dialogs.simplify_matches import MatchTree, make_tree
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.style.tooltips import plain_tip
from onnx_workbench.viewer.widgets.scope_box import ScopeBox
from onnx_workbench.viewer.widgets.whole_text import WholeTextDelegate
from onnx_workbench.viewer.workflows.working_copies import copy_model

#: On a copy of the model of a revision: what passes find.
Surveyed = tuple[Simplification, int, Survey]


class SimplifyDialog(PreviewDialog):
    """Modeless dialog: choosing a match selects and shows its nodes on the graph."""

    _title = "Simplify"
    _done = "Simplified"
    _applied = "Passes"
    _key = "simplify"  # a later search of the same kind takes the place of an earlier one

    def __init__(self, workspace: Workspace, parent: QWidget | None = None) -> None:
        super().__init__(workspace, self._title, parent)
        self.resize(620, 640)
        self._trial: Simplification | None = None  # on a working copy of the current model, once it was searched
        self._arrange()
        self.passes.shown.connect(self._show_match)
        self.passes.choice_changed.connect(self._enable)
        self.scope.changed.connect(self._on_change)
        workspace.changes.changed.connect(self._on_change)
        self.preview()

    def _arrange(self) -> None:
        self.scope = ScopeBox(self.workspace)
        self.scope.setAccessibleName("Where to simplify")
        form = QVBoxLayout(self.form)
        form.setContentsMargins(0, 0, 0, 0)
        form.addWidget(self.scope)
        self.passes = MatchTree()
        self.report = QTreeWidget()
        self.report.setItemDelegate(WholeTextDelegate(self.report))
        make_tree(self.report, "Changes", ("", "Before", "After"))
        self.pages = QStackedWidget()
        self.pages.addWidget(self.passes)
        self.pages.addWidget(self.report)
        self.ok.setText(self._title)
        above = QHBoxLayout()
        above.addWidget(self.state, 1)
        above.addWidget(self.form, 0, Qt.AlignmentFlag.AlignTop)
        layout = QVBoxLayout(self)
        layout.addLayout(above)
        for part in (self.pages, self.error, self.bar, self.buttons):
            layout.addWidget(part)

    def _searched(self) -> Sequence[Pass]:
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

    def preview(self) -> None:
        """Search for matches in a working copy, off the GUI thread."""
        self._trial = None
        self._lock(False)
        workspace, options_of, passes = self.workspace, self._options(), self._searched()

        def survey(progress: Progress) -> Surveyed:
            copy, revision = copy_model(workspace, progress)
            work = Simplification(copy)
            return work, revision, work.survey(passes, options=options_of(copy), progress=progress)

        self._start("Searching for matches…", "Searching for matches", survey, self._list, supersede=self._key)

    def _options(self) -> Callable[[WorkingCopy], SimplifyOptions]:
        """Return a function that makes the chosen options for a copy of the model."""
        nodes, only = self.scope.nodes, self.passes.choice().only
        return lambda copy: SimplifyOptions(
            work_limit=WINDOW_TENSOR, nodes=None if nodes is None else copy.copies(nodes), only=only
        )

    def _lock(self, is_working: bool) -> None:
        super()._lock(is_working)
        self.passes.setEnabled(not is_working)

    def _list(self, surveyed: Surveyed) -> None:
        work, revision, survey = surveyed
        if revision != self.workspace.document.revision:
            return  # it is being searched again
        self._trial, self._revision = work, revision
        self.passes.fill(self._searched(), survey.found, work.copy.original)
        total = sum(map(len, survey.found.values()))
        self._describe(survey, total)

    def _describe(self, survey: Survey, total: int) -> None:
        held = f" Left unchanged: {plural(len(survey.refusals), 'place')}." if survey.refusals else ""
        held += "".join(f"\n{display(reason, 300)}" for reason in survey.failed.values())
        more = " A pass can create matches for other passes." if len(self._searched()) > 1 else ""
        self.state.setText(f"{plural(total, 'match', 'matches')}.{more}{held}" if total else f"No matches.{held}")

    def _enable(self) -> None:
        self.ok.setEnabled(not self._is_busy and bool(self.passes.choice().passes))

    def _show_match(self, things: tuple[Node | Value, ...]) -> None:
        self.workspace.highlights.mark("matches", things)
        if things and self._trial is not None:
            with self.scope.display_only():
                self.workspace.navigation.reveal_all(things)

    def _on_change(self, *_: object) -> None:
        if not self._is_done:
            self.preview()

    # -- doing it ------------------------------------------------------------------------------------------------

    def apply(self) -> None:
        """Simplify the copy, compare, and apply the steps; afterwards the button closes the dialog."""
        if self._is_done:
            self.accept()
            return
        work, self._trial = self._trial, None
        if work is None:
            self.preview()
            return
        options, title = self._options()(work.copy), self._entry_title()

        def run(progress: Progress) -> SimplifyOutcome:
            try:
                passes = chosen(work.copy.document.model, progress)
            except ModelError:
                self._trial = work  # nothing was done to it
                raise
            return work.run(passes, options=options, progress=progress, title=title)

        try:
            chosen = self._chosen()
        except ModelError as error:
            self._trial = work
            self._failed(error)
            return
        self._lock(True)
        self._start(
            "Changing a copy and comparing outputs…",
            self._title,
            run,
            self._carry_over,
            lane="mutate",
            supersede=self._key,
            makes="edit",
        )

    def _carry_over(self, outcome: SimplifyOutcome) -> None:
        if outcome.agreement.agrees is False and not self._may_differ():
            self.preview()  # for another choice
            agreement = display(str(outcome.agreement), 300)
            self.error.show_error(ModelError("Nothing was changed", f"Afterwards {agreement}."))
        elif outcome.steps:
            self._change(outcome.title, outcome.steps, outcome.recording, lambda: self._report(outcome))
        else:
            self._report(outcome)

    def _report(self, outcome: SimplifyOutcome) -> None:
        self.pages.setCurrentWidget(self.report)
        self.scope.setVisible(False)
        self.workspace.highlights.mark("matches", [])
        titles = {p.id: p.title for p in all_passes()}
        agreement = display(str(outcome.agreement), 300)
        self._show_done(f"{self._done}; {agreement}." if outcome.report.applied else "Nothing was changed.")
        for cells in size_table(outcome.report)[1:]:
            self._row(self.report.invisibleRootItem(), *cells)
        applied = self._row(self.report.invisibleRootItem(), self._applied)
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

    def _row(self, parent: QTreeWidgetItem, *cells: str) -> QTreeWidgetItem:
        item = QTreeWidgetItem(list(cells))
        for column in range(1, len(cells)):
            item.setTextAlignment(column, Qt.AlignmentFlag.AlignRight)
        item.setToolTip(0, plain_tip(cells[0]))
        parent.addChild(item)
        return item

    def done(self, result: int) -> None:
        """Remove the marks, too."""
        self.workspace.highlights.mark("matches", [])
        super().done(result)


class StandardOperatorsDialog(SimplifyDialog):
    """The one pass that replaces operators of com.microsoft."""

    _title = "Replace by Standard Operators"
    _done = "Replaced"
    _key = "standard_operators"

    def _arrange(self) -> None:
        super()._arrange()
        self.ok.setText("Replace")

    def _searched(self) -> Sequence[Pass]:
        return [replace(STANDARD, is_default=True)]

    def _entry_title(self) -> str:
        return "Replace by standard operators"
