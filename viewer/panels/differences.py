"""Differences panel: list of the differences to another document; navigates both and copies changes."""

from __future__ import annotations

from typing import Any, Literal

from PySide6.QtCore import (
    QItemSelectionModel,
    QPoint,
    QSignalBlocker,
    Qt,
)
from PySide6.QtGui import QAction
from PySide6.QtWidgets import (
    QMenu,
    QPushButton,
    QToolButton,
)

from onnx_workbench.model.diff import Difference
from onnx_workbench.model.text.formatting import count_text, display, plural
from onnx_workbench.viewer.compare.difference_text import SIGNS, WORDS, aspect_text, location
from onnx_workbench.viewer.compare.model_comparison import ModelComparison
from onnx_workbench.viewer.compare.registry import comparison_of
from onnx_workbench.viewer.panel import Panel
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.style.theme import theme
from onnx_workbench.viewer.style.tooltips import plain_tip
from onnx_workbench.viewer.tables.row_model import Column, Index, RowModel
from onnx_workbench.viewer.tables.row_table import RowTable
from onnx_workbench.viewer.widgets.elided_label import ElidedLabel

_TITLES = ("Kind", "Where", "What")  # then its form on either side
_KINDS = ("added", "removed", "changed", "renamed", "moved")


class DifferenceModel(RowModel[Difference, Column]):
    """The differences of the visible kinds."""

    def name_sides(self, old: str, new: str) -> None:
        """Show the compared documents in the titles; empty: none."""
        sides = (
            f"{side}: {display(title, 60)}" if title else side for side, title in (("Before", old), ("After", new))
        )
        self.columns = [Column(title, tip=title) for title in (*_TITLES, *sides)]
        self.headerDataChanged.emit(Qt.Orientation.Horizontal, 0, len(self.columns) - 1)

    def texts(self, row: Difference) -> tuple[str, ...]:
        after = str(row.numbers) if row.numbers is not None and not row.numbers.problem else row.after
        return WORDS[row.kind], location(row.place), aspect_text(row.aspect) or "all of it", row.before, after

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if role == Qt.ItemDataRole.ForegroundRole and index.column() == 0:
            colors = theme()
            return {
                "added": colors.added, "removed": colors.removed, "changed": colors.edited, "moved": colors.moved
            }.get(self.rows[index.row()].kind)  # fmt: skip
        return super().data(index, role)


class DifferencesPanel(Panel):
    """The list; a selected row is shown in both graphs, on Enter again."""

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        self.model = DifferenceModel((), self)
        self.model.name_sides("", "")
        self._comparing: ModelComparison | None = None
        self.table = self._make_table()
        self.summary = ElidedLabel(self)
        self.choose_button = QPushButton("Compare with…", self)
        self.choose_button.setToolTip("Choose another model to compare with this one")
        self.choose_button.clicked.connect(lambda: workspace.trigger("model.compare"))
        self.to_left = self._copy_button("← Copy", "old")
        self.to_right = self._copy_button("Copy →", "new")
        self.end_button = QPushButton("Stop comparing", self)
        self.end_button.clicked.connect(self._end)
        self.filters = {kind: self._filter(kind) for kind in _KINDS}
        buttons = (self.to_left, self.to_right, self.end_button, self.choose_button)
        self.lay_out(self.table, self.summary, *self.filters.values(), *buttons)
        workspace.comparison_changed.connect(self._show_comparison)
        self._show_comparison()

    def _make_table(self) -> RowTable:
        table = RowTable(self.model, "Differences", self)
        table.horizontalHeader().setStretchLastSection(True)
        for column, width in enumerate((90, 210, 130, 130)):
            table.setColumnWidth(column, width)
        table.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        table.customContextMenuRequested.connect(self._on_menu)
        table.activated.connect(lambda _index: self._go())
        table.selectionModel().selectionChanged.connect(lambda *_: self._go())
        return table

    def _copy_button(self, text: str, side: Literal["old", "new"]) -> QPushButton:
        button = QPushButton(text, self)
        button.clicked.connect(lambda: self._copy(side))
        return button

    def _filter(self, kind: str) -> QToolButton:
        button = QToolButton(self)
        button.setCheckable(True)
        button.setChecked(True)
        button.setAutoRaise(True)
        button.setToolTip(f"Show what is {kind}")
        button.setAccessibleName(f"Show what is {kind}")
        button.toggled.connect(lambda on: self._hide(kind, hidden=not on))
        return button

    def serves(self, workspace: Workspace) -> bool:
        """Return True for both documents: the list and its current row are kept when switching between them."""
        comparing = self._comparing
        return super().serves(workspace) or (comparing is not None and comparison_of(workspace) is comparing)

    # -- the comparison ------------------------------------------------------------------------------------------

    def _show_comparison(self) -> None:
        if self._comparing is not None:
            self._comparing.changed.disconnect(self._show)
            self._comparing.chosen_changed.disconnect(self._select_chosen)
        self._comparing = comparison_of(self.workspace)
        if self._comparing is not None:
            self._comparing.changed.connect(self._show)
            self._comparing.chosen_changed.connect(self._select_chosen)
        self._show()

    def _show(self) -> None:
        comparing = self._comparing
        result = comparing.result if comparing is not None else None
        differences = result.differences if result is not None else []
        for kind, button in self.filters.items():
            with QSignalBlocker(button):
                button.setChecked(comparing is None or kind not in comparing.hidden)
            count = sum(d.kind == kind for d in differences)
            button.setText(f"{SIGNS[kind]} {count_text(count)}")
            button.setVisible(bool(count))
        shown = comparing.shown if comparing is not None else []
        titles = (comparing.old.label, comparing.new.label) if comparing is not None else ("", "")
        self.model.name_sides(*titles)
        self.model.set_rows(shown)
        self.summary.setText(self._summary(differences))
        self.summary.setToolTip(plain_tip(self.summary.text()))
        self.end_button.setVisible(comparing is not None)
        self._update_buttons()

    def _hide(self, kind: str, *, hidden: bool) -> None:
        if self._comparing is not None:
            self._comparing.hide(kind, hidden=hidden)

    def _summary(self, differences: list[Difference]) -> str:
        comparing = self._comparing
        if comparing is None:
            return "Not compared with another model"
        name = display(comparing.other(self.workspace).label, 60)
        if comparing.result is None:
            return f"Comparing with {name}…"
        counted = plural(len(differences), "difference") if differences else "No difference"
        return f"{counted} from {name}" if comparing.side(self.workspace) == "new" else f"{counted} to {name}"

    def _update_buttons(self) -> None:
        chosen = bool(self.selected())
        comparing = self._comparing
        for button, side in ((self.to_left, "old"), (self.to_right, "new")):
            button.setVisible(comparing is not None)
            button.setEnabled(chosen)
            if comparing is not None:
                into = display(getattr(comparing, side).label, 60)
                tip = f"Copy the selected differences to {into}; can be undone"
                button.setToolTip(plain_tip(tip))

    def _select_chosen(self) -> None:
        comparing = self._comparing
        if comparing is None or tuple(self.selected()) == comparing.chosen:
            return
        rows = {id(difference): row for row, difference in enumerate(self.model.rows)}
        chosen = [rows[id(d)] for d in comparing.chosen if id(d) in rows]
        with QSignalBlocker(self.table.selectionModel()):
            self.table.clearSelection()
            for row in chosen:
                index = self.model.index(row, 0)
                flags = QItemSelectionModel.SelectionFlag
                self.table.selectionModel().select(index, flags.Select | flags.Rows)
        if chosen:
            self.table.scrollTo(self.model.index(chosen[-1], 0))
        self.table.viewport().update()
        self._update_buttons()

    def selected(self) -> list[Difference]:
        """Return the differences of the selected rows."""
        return [self.model.rows[index.row()] for index in self.table.selectionModel().selectedRows()]

    # -- acting --------------------------------------------------------------------------------------------------

    def _go(self) -> None:
        self._update_buttons()
        if self._comparing is not None:
            self._comparing.choose(self.selected())

    def _copy(self, side: Literal["old", "new"]) -> None:
        comparing = self._comparing
        if comparing is not None:
            comparing.copy_into(self.selected(), comparing.old if side == "old" else comparing.new)

    def _end(self) -> None:
        if self._comparing is not None:
            self._comparing.close()

    def _on_menu(self, position: QPoint) -> None:
        if self._comparing is None or not self.selected():
            return
        menu = QMenu(self)
        for title, run in (
            ("Go to the place", self._go),
            (f"Copy to {display(self._comparing.old.title, 60)}", lambda: self._copy("old")),
            (f"Copy to {display(self._comparing.new.title, 60)}", lambda: self._copy("new")),
        ):
            action = QAction(title, menu)
            action.triggered.connect(run)
            menu.addAction(action)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.popup(self.table.viewport().mapToGlobal(position))
