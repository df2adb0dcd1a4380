"""Problems panel: all problems of the model, kept up to date, each with location and fix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QModelIndex, QPoint, Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import (
    QHeaderView,
    QMenu,
    QPushButton,
)

from onnx_workbench.model.checks import Problem
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, Value
from onnx_workbench.model.progress import SILENT, Progress
from onnx_workbench.model.text.formatting import display, plural
from onnx_workbench.viewer.document.model_signals import is_in_model
from onnx_workbench.viewer.document.navigation import graph_of
from onnx_workbench.viewer.document.problem_checker import find_problems
from onnx_workbench.viewer.panel import Panel
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.style.icons import icon
from onnx_workbench.viewer.style.theme import theme
from onnx_workbench.viewer.style.tooltips import plain_tip, wrapped
from onnx_workbench.viewer.tables.row_model import Column, Index, RowModel
from onnx_workbench.viewer.tables.row_table import RowTable
from onnx_workbench.viewer.widgets.elided_label import ElidedLabel

if TYPE_CHECKING:
    from onnx_workbench.model.history.working_copy import WorkingCopy
    from onnx_workbench.viewer.workflows.background_edit import EditOutcome

_FIX_ALL = "Fix all problems"
_COLUMNS = (Column("Problem"), Column("Details"), Column("Location"))


class ProblemModel(RowModel[Problem, Column]):
    """The known problems."""

    def texts(self, row: Problem) -> tuple[str, str, str]:
        return row.message, row.detail, _short_place(row.place)

    def tip(self, row: Problem, _column: int) -> str:
        fix = f"\nFix: {display(row.fix.title, 300)}" if row.fix is not None else ""
        return display(f"{row.severity}: {row.message}\n{row.detail}", 700, keep_lines=True) + fix

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if role == Qt.ItemDataRole.DecorationRole and index.column() == 0:
            severity = self.rows[index.row()].severity
            colors = {"error": theme().error, "warning": theme().warning, "info": theme().muted}
            return icon(severity, colors[severity])
        return super().data(index, role)


def _short_place(place: object) -> str:
    match place:
        case Node():
            return f"{place.op_type} {place.name}"
        case Value():
            return f"value {place.name}"
        case Graph():
            return f"graph {place.name}"
        case Function():
            return f"function {place.name}"
        case Model():
            return "model"
        case _:
            return str(place or "")


class ProblemsPanel(Panel):
    """The list, checked incrementally while idle; a click shows the location."""

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        self.model = ProblemModel(_COLUMNS, self)
        self.table = RowTable(self.model, "Problems", self)
        header = self.table.horizontalHeader()
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        header.setSectionResizeMode(1, QHeaderView.ResizeMode.Stretch)
        self.table.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.summary = ElidedLabel(self)
        self.fix_button = QPushButton("Fix", self)
        self.fix_button.setToolTip("Fix the selected problem; can be undone")
        self.fix_all_button = QPushButton("Fix all", self)
        self.fix_all_button.setToolTip(
            wrapped(
                "Apply all safe fixes, also of notes: remove unused initializers and nodes, and outputs that no node "
                "computes. One edit; can be undone"
            )
        )
        self.lay_out(self.table, self.summary, self.fix_button, self.fix_all_button)
        self.table.activated.connect(self._go)
        self.table.clicked.connect(self._go)
        self.table.customContextMenuRequested.connect(self._on_menu)
        self.table.selectionModel().currentChanged.connect(lambda *_: self._update_buttons())
        self.fix_button.clicked.connect(self.fix_current)
        self.fix_all_button.clicked.connect(self.fix_all)
        workspace.problems.changed.connect(self._on_known)
        workspace.problems.checking_changed.connect(self._on_known)
        workspace.problems.start()
        self._on_known()

    def _on_known(self) -> None:
        known = self.workspace.problems
        if list(known.all) != self.model.rows:
            self.model.set_rows(list(known.all))
        parts = [
            plural(known.count("error"), "error"),
            plural(known.count("warning"), "warning"),
            plural(known.count("info"), "note"),
        ]
        checking = " · checking…" if known.checking else ""
        self.summary.setText((" · ".join(parts) if known.all else "No problems") + checking)
        self.summary.setToolTip(plain_tip(self.summary.text()))
        self._update_buttons()

    def _update_buttons(self) -> None:
        current = self._current()
        self.fix_button.setEnabled(current is not None and current.fix is not None)
        self.fix_all_button.setEnabled(any(p.fix is not None for p in self.model.rows))

    def _current(self) -> Problem | None:
        row = self.table.currentIndex().row()
        return self.model.rows[row] if 0 <= row < len(self.model.rows) else None

    def _go(self, index: QModelIndex) -> None:
        place = self.model.rows[index.row()].place
        if isinstance(place, (Node, Value, Graph, Function, Model)):
            self.workspace.navigation.reveal(place)

    def _on_menu(self, position: QPoint) -> None:
        problem = self._current()
        if problem is None:
            return
        menu = QMenu(self)
        go = QAction("Go to the place", menu)
        go.triggered.connect(lambda: self._go(self.table.currentIndex()))
        menu.addAction(go)
        if problem.fix is not None:
            mend = QAction(display(problem.fix.title, 80), menu)
            mend.triggered.connect(self.fix_current)
            menu.addAction(mend)
        menu.popup(self.table.viewport().mapToGlobal(position))

    def fix_current(self) -> None:
        """Fix the selected problem, as one edit."""
        problem = self._current()
        if problem is not None and problem.fix is not None:
            failed = _apply_fixes(self.workspace.document, problem.fix.title, [problem])
            if failed is not None:
                self.workspace.messages.report(failed)

    def fix_all(self) -> None:
        """Fix everything fixable, as one edit; a fix that no longer applies is skipped."""
        _fix_all_in_copy(self.workspace)


def _is_there(place: object) -> bool:
    """Return whether the object of a problem still exists: after a bulk edit the list is outdated until all is
    checked.
    """
    if not isinstance(place, (Node, Value, Graph, Function, Model)):
        return True
    graph = graph_of(place)
    return graph is not None and is_in_model(graph)


def _apply_fixes(
    document: Document, title: str, problems: list[Problem], progress: Progress = SILENT
) -> ModelError | None:
    """Apply fixes; returns why the last failing one could not be applied."""
    failed: ModelError | None = None
    with document.edit(title):
        for problem in progress.paced(problems, of=len(problems)):
            if problem.fix is not None and _is_there(problem.place):
                try:
                    with document.edit(title) as edit:
                        problem.fix.apply(edit)
                except ModelError as error:
                    failed = error
                except ValueError as error:
                    failed = ModelError("A fix no longer applies", str(error))
    return failed


def _fix_all_in_copy(workspace: Workspace) -> None:
    """Find and fix the problems of a working copy: a fix refers to the model it was found in."""
    from onnx_workbench.viewer.workflows.background_edit import EditOutcome, edit_in_background, known_of

    def work(copy: WorkingCopy, progress: Progress) -> EditOutcome:
        document = copy.document
        problems = find_problems(document.model, known_of(workspace, copy), progress)
        failed = _apply_fixes(document, _FIX_ALL, problems, progress)
        warning = None if failed is None else (failed.title, failed.detail, copy.original(failed.place))
        return EditOutcome(copy.steps(), warning=warning)

    edit_in_background(workspace, _FIX_ALL, work)
