"""Compare panel: each value of the last run against a reference, with the first divergence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from math import inf, isnan
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import ReferenceType, ref

from PySide6.QtWidgets import QCheckBox, QPushButton, QWidget

from onnx_workbench.exec.inspect.compare import ComparedValue as Compared
from onnx_workbench.exec.inspect.compare import Tolerance, ValueDifference
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.graph import Node, Value
from onnx_workbench.model.progress import Progress
from onnx_workbench.model.text.formatting import display, number_text, plural
from onnx_workbench.viewer.dialogs.dialog_lifetime import show_aside
from onnx_workbench.viewer.panel import Panel
from onnx_workbench.viewer.popups.file_dialogs import ask_file, ask_save
from onnx_workbench.viewer.run.results import compare
from onnx_workbench.viewer.run.results.compare import ComparisonOutcome, Prepare, comparison
from onnx_workbench.viewer.run.results.run_record import RunRecord
from onnx_workbench.viewer.run.results.value_paths import name_in_run
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.style.tooltips import wrapped
from onnx_workbench.viewer.tables.csv_file import write_csv
from onnx_workbench.viewer.tables.number_table import MadeRows, NumberCell, NumberColumn, NumberRow, NumberTable
from onnx_workbench.viewer.tables.sorting import Key
from onnx_workbench.viewer.tasks.readers import ModelReader
from onnx_workbench.viewer.widgets.flow_layout import FlowLayout, in_a_column, labelled
from onnx_workbench.viewer.widgets.number_edit import NumberEdit
from onnx_workbench.viewer.widgets.plain_label import plain_label
from onnx_workbench.viewer.widgets.scrolling import scroll_area

if TYPE_CHECKING:
    from onnx_workbench.viewer.tasks.tasks import Task

_COLUMNS = (
    NumberColumn("#", 5, "Position in execution order"),
    NumberColumn("Value", 0, number=False),
    NumberColumn("Operator", 14, number=False),
    NumberColumn("Error", 9, "The smallest t with |a − b| ≤ t + t·|b| for every element", amount=True),
    NumberColumn("SNR", 9, "Signal-to-noise ratio in decibels: 20 dB more is a tenth of the error"),
    NumberColumn("Layer SNR", 13, "SNR of a quantized layer alone (dB): the layer is given the float values"),
    NumberColumn("Largest |Δ|", 11, amount=True),
    NumberColumn("Allowed", 9, "Largest |Δ| allowed for elements near 0"),
    NumberColumn("Relative", 9, "Largest relative difference; unlike the error, large near 0", amount=True),
    NumberColumn("Cosine", 10),
    NumberColumn("Worst element", 14, number=False),
)
_ERROR_COLUMN, _LAYER_COLUMN = 3, 5

#: Shown before anything was compared.
_INVITATION = "Compare the values of the last run with another."

_TOPIC = "compare"  # of its messages
_MOST_NAMES = 6  # limit for listed names of each side, if none match

_CSV = ("value", "operator", "matched with", "error", "largest difference", "largest relative difference", "cosine",
        "snr", "layer snr", "worst element", "problem")  # fmt: skip

#: Legend title of the overlay.
_ERROR, _OLD_ERROR = "Max error", "Max error of an earlier run"


class _Content(QWidget):
    """Scrolls only where the table would have less than its minimum height; by default Qt takes the preferred one."""

    def heightForWidth(self, width: int) -> int:
        layout = self.layout()
        return -1 if layout is None else layout.totalMinimumHeightForWidth(width)


class RunComparisonPanel(Panel):
    """Chooses a reference and lists the differences."""

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        self.rows: list[Compared] = []
        self._outcome = ComparisonOutcome([])
        self._asked: tuple[str, Prepare] | None = None  # the comparison that gave the rows
        self._awaiting: tuple[str, Prepare] | None = None  # the comparison to make after the first run
        self._compared: ReferenceType[RunRecord] | None = None  # the run whose values were compared
        self._verdict: tuple[Compared | None, int] = None, 0  # the first difference, and the number of differences
        self._is_old = False  # whether it is of another run than the shown one
        self._comparison: Task[ComparisonOutcome] | None = None  # begun last
        self._judging, self._heating = ModelReader(self), ModelReader(self)
        self.choose = QPushButton("Compare with…")
        self.choose.clicked.connect(lambda: workspace.trigger("model.compare"))
        self.summary = plain_label(_INVITATION)
        self.summary.setMinimumWidth(40)
        self.divergence = QPushButton("First divergence")
        self.divergence.setToolTip(wrapped("Go to the first value, in execution order, that is outside the tolerances"))
        self.again = QPushButton("Compare again")
        self.again.setToolTip("Compare the current run in the same way")
        self.again.hide()
        self.relative = NumberEdit("Relative tolerance", "by type")
        self.absolute = NumberEdit("Absolute tolerance", "by type")
        for edit in (self.relative, self.absolute):
            edit.number_entered.connect(lambda _: self._show())
            edit.setFixedWidth(64)
            edit.setToolTip(
                wrapped(
                    "Empty: by the element types that a value was computed in, relative to the scale of its tensor. If "
                    "only one of the two tolerances is given, the other is 0"
                )
            )
        self.colour = QCheckBox("Colour graph")
        self.colour.setToolTip("Colour the nodes by the error of their outputs")
        self.colour.setChecked(True)
        self.only = QCheckBox("Differing only")
        self.only.setToolTip("List only values outside the tolerances")
        self.keep_button = QPushButton("Keep in Float…")
        self.keep_button.setToolTip(wrapped("Convert the model, but leave the nodes of the selected rows unchanged"))
        self.clear_button = QPushButton("Clear")
        self.clear_button.setToolTip("Close this comparison")
        self.save_button = QPushButton("Save as CSV…")
        self.table = self.entry = NumberTable("Compared values", _COLUMNS)
        self._lay_out()
        self.divergence.clicked.connect(self.go_to_divergence)
        self.again.clicked.connect(self.compare_again)
        self.colour.toggled.connect(lambda _: self._colour())
        self.only.toggled.connect(lambda _: self._show())
        self.save_button.clicked.connect(self._save)
        self.keep_button.clicked.connect(self.keep_in_float)
        self.clear_button.clicked.connect(self.clear)
        self.table.selectionModel().selectionChanged.connect(lambda *_: self._enable_keep())
        self.table.show_column(_LAYER_COLUMN, shown=False)
        self.table.chosen.connect(self._go)
        workspace.results.changed.connect(self._on_results)
        workspace.results.run_finished.connect(self._on_run_finished)
        workspace.closed.connect(self._judging.stop)
        workspace.closed.connect(self._heating.stop)
        self._show()

    def _lay_out(self) -> None:
        self.summary.setContentsMargins(8, 0, 8, 4)
        self.table.setMinimumHeight(4 * self.fontMetrics().height())
        row = FlowLayout(6)
        row.setContentsMargins(6, 4, 6, 4)
        tolerances = labelled("relative", self.relative), labelled("absolute", self.absolute)
        buttons = self.keep_button, self.save_button, self.clear_button
        for widget in (self.choose, self.again, self.divergence, *tolerances, self.colour, self.only, *buttons):
            row.addWidget(widget)
        content = _Content()
        in_a_column(content, row, self.summary, self.table)
        in_a_column(self, scroll_area(content))

    # -- choosing --------------------------------------------------------------------------------------------

    def compare_again(self) -> None:
        """Compare the current run as the previous one was."""
        if self._asked is not None:
            self.compare(*self._asked)

    def choose_file(self) -> None:
        """Compare with the arrays of a file."""
        path = ask_file(self, self.workspace.settings, "Compare with arrays", ("Arrays (*.npz)", "All files (*)"))
        if path is not None:
            self.compare(path.name, compare.with_npz(self.workspace, path))

    def compare(self, title: str, prepare: Prepare, *_: object) -> None:
        """Compare the last run with a reference, in the background; the model is run first if it was not yet."""
        record = self.workspace.results.current
        if record is None:
            self._awaiting = title, prepare
            self.summary.setText("Running…")
            if not self.workspace.results.is_running:
                self.workspace.runs.run()
            return
        self.summary.setText(f"Comparing: {display(title, 80)}…")
        self.workspace.messages.withdraw(_TOPIC)
        self._comparison = self.workspace.tasks.start(
            "Comparing",
            comparison(self.workspace, record, prepare),
            done=partial(self._set_outcome, title, prepare, record),
            finished=self._finish,
            supersede="compare runs",
        )

    def _on_run_finished(self) -> None:
        """Start the comparison that waits for the first run."""
        awaiting, self._awaiting = self._awaiting, None
        if awaiting is not None and self.workspace.results.current is not None:
            self.workspace.trigger("panel.compare")  # a first run shows its output
            self.compare(*awaiting)
        elif awaiting is not None:
            self._show_outcome()

    def _finish(self) -> None:
        if self._comparison is not None and self._comparison.finished:  # else another one has begun
            self._show()

    # -- showing ---------------------------------------------------------------------------------------------

    def _set_outcome(self, title: str, prepare: Prepare, record: RunRecord, outcome: ComparisonOutcome) -> None:
        self.rows, self._asked, self._compared = outcome.rows, (title, prepare), ref(record)
        self._outcome = outcome
        self.workspace.results.set_reference(record, title, outcome.others)
        self.table.show_column(_LAYER_COLUMN, shown=bool(outcome.local))
        if outcome.lack:
            self.workspace.messages.show("warning", "Not every value could be compared", outcome.lack, topic=_TOPIC)
        if any(row.difference.problem or row.difference.max_abs for row in self.rows):
            if outcome.local:
                self.table.sort_by(_LAYER_COLUMN, descending=False)  # worst first
            else:
                self.table.sort_by(_ERROR_COLUMN)  # else in run order

    def clear(self) -> None:
        """Close the comparison: its rows, its colours, and the reference values in the tensor panel."""
        if self._comparison is not None:
            self._comparison.cancel()
        self.rows, self._asked, self._compared, self._outcome = [], None, None, ComparisonOutcome([])
        self.workspace.results.set_reference(None)
        self.table.show_column(_LAYER_COLUMN, shown=False)
        self._show()

    def keep_in_float(self) -> None:
        """Open the Convert dialog with the nodes of the selected rows left unchanged."""
        names = [name for name, node in self._selected_nodes() if name]
        if not names:
            error = ModelError("The selected nodes have no names", "Name them first: Convert finds nodes by name.")
            self.workspace.messages.report(error)
            return
        from onnx_workbench.viewer.dialogs.convert import ConvertDialog

        dialog = ConvertDialog(self.workspace, self.window())
        dialog.keep_nodes(names)
        show_aside(self.workspace, dialog)

    def _selected_nodes(self) -> list[tuple[str, Node]]:
        """Return the nodes of the selected rows and their names, each once."""
        values = (self.workspace.results.value_by_number(row.key[1]) for row in self.table.selected())
        nodes = dict.fromkeys(value.producer for value in values if value is not None and value.producer is not None)
        return [(node.name, node) for node in nodes]

    def _enable_keep(self) -> None:
        self.keep_button.setEnabled(bool(self.rows) and bool(self._selected_nodes()))

    @property
    def _tolerance(self) -> Tolerance | None:
        """Return the tolerance that was typed; None: each value has its own, by type and scale."""
        relative, absolute = self.relative.number(), self.absolute.number()
        return None if relative is None and absolute is None else Tolerance(relative or 0.0, absolute or 0.0)

    @property
    def _judged(self) -> list[Compared]:
        """Return the rows with the tolerances that apply to them."""
        tolerance = self._tolerance
        return self.rows if tolerance is None else [replace(row, tolerance=tolerance) for row in self.rows]

    @property
    def first(self) -> Compared | None:
        """Return the first value in run order outside the tolerances."""
        return next((row for row in self._judged if not row.is_close), None)

    def _show(self) -> None:
        rows = self._judged
        self._judging.start(
            lambda progress: [i for i, row in enumerate(progress.paced(rows)) if not row.is_close],
            partial(self._show_judged, rows),
        )

    def _show_judged(self, rows: Sequence[Compared], differing: list[int]) -> None:
        first = rows[differing[0]] if differing else None
        self.divergence.setEnabled(first is not None)
        self.save_button.setEnabled(bool(rows))
        self.clear_button.setEnabled(self._asked is not None)
        self._enable_keep()
        self._verdict = first, len(differing)
        self._show_outcome()
        shown = differing if self.only.isChecked() else range(len(rows))
        self.table.set_rows(MadeRows(shown, partial(self._row, rows), _keys(rows), rows.__getitem__))
        self._colour()

    @property
    def _is_of_another(self) -> bool:
        """Return whether the rows are of another run than the shown one."""
        return self._compared is not None and self._compared() is not self.workspace.results.current

    def _show_outcome(self) -> None:
        """Show the result: the number of differences, the first one, and whether another run is shown by now."""
        self._is_old = self._is_of_another
        self.again.setVisible(self._is_old)
        if self._asked is None:
            self.summary.setText(_INVITATION)
            return
        first, off = self._verdict
        count = plural(len(self.rows), "value")
        verdict = f"{off:,} of {count} differ" if off else f"{count} agree"
        where = f", first {self._named(first)}" if first is not None else ""
        result = f"{verdict}{where}" if self.rows else self._why_unmatched()
        old = "Earlier run: " if self._is_old else ""
        self.summary.setText(f"{old}{display(self._asked[0], 60)}: {result}")

    def _why_unmatched(self) -> str:
        """Return the names on both sides if none match."""
        ours = [value.name for value in self.workspace.runs.inputs.graph.outputs]
        return f"no common values. This model has {_names(ours)}; the other has {_names(self._outcome.others.names)}"

    def _on_results(self, values: object) -> None:
        """Update the shown result and the colours when another run is shown: the comparison does not belong to it."""
        overlays = self.workspace.runs.overlays
        if values is not None or self._is_of_another == self._is_old:
            return
        self._show_outcome()
        if self._is_colouring:
            overlays.show(overlays.numbers, self._title)

    @property
    def _is_colouring(self) -> bool:
        return self.workspace.runs.overlays.has(_ERROR, _OLD_ERROR)

    @property
    def _title(self) -> str:
        return _OLD_ERROR if self._is_old else _ERROR

    def _named(self, row: Compared) -> str:
        return name_in_run(self.workspace, row.key, display(row.name, 80))

    def _row(self, rows: Sequence[Compared], index: int) -> NumberRow:
        row, position = rows[index], index + 1
        value = self.workspace.results.value_by_number(row.key[1])
        node = value.producer if value is not None else None
        found, allowed, layer = row.difference, row.tolerance, self._outcome.local.get(row.key)
        role = "" if row.is_close else "error"
        name = self._named(row)
        tip = name if row.other == row.name else f"{name}\nmatched with {display(row.other, 80)}"
        head = (
            NumberCell(f"{position:,}", position),
            NumberCell(name, role=role, tip=tip),
            NumberCell(display(node.op_type, 40) if node is not None else "", role="muted"),
        )
        if found.problem:
            cells = (
                NumberCell("differs", inf, role),
                *[NumberCell("")] * 6,
                NumberCell(display(found.problem, 80), role="muted", tip=display(found.problem, 500)),
            )
            return NumberRow(row, (*head, *cells))
        return NumberRow(
            row,
            (
                *head,
                _number(found.tolerance, role),
                NumberCell(number_text(found.snr, 4), found.snr),
                NumberCell("", inf) if layer is None else NumberCell(number_text(layer.snr, 4), layer.snr),
                _number(found.max_abs),
                NumberCell(number_text(allowed.atol, 3), allowed.atol, tip=_allowed_text(allowed)),
                _number(found.max_rel),
                NumberCell(number_text(found.cosine) if isnan(found.cosine) else f"{found.cosine:.7f}", found.cosine),
                NumberCell(", ".join(map(str, found.worst)) if found.max_abs else "", role="muted", tip=_about(found)),
            ),
        )

    def _colour(self) -> None:
        overlays = self.workspace.runs.overlays
        self._heating.stop()
        if not self.colour.isChecked() or not self._verdict[1]:  # values that agree have no colour
            if self._is_colouring:
                overlays.choose("")
            return
        rows = self._judged
        self._heating.start(
            lambda progress: self._heats(rows, progress),
            lambda numbers: overlays.show(numbers, self._title),
        )

    def _heats(self, rows: Sequence[Compared], progress: Progress) -> dict[Node, float]:
        numbers: dict[Node, float] = {}
        for row in progress.paced(rows):
            value = self.workspace.results.value_by_number(row.key[1])
            if value is not None and value.producer is not None and not row.is_close:
                numbers[value.producer] = max(compare.heat_of(row), numbers.get(value.producer, 0.0))
        return numbers

    def _go(self, row: Compared) -> None:
        value = self.workspace.results.value_by_number(row.key[1])
        if isinstance(value, Value):
            if row.key[0]:
                self.workspace.results.show_call(row.key[0])
            self.workspace.navigation.reveal(value)

    def _save(self) -> None:
        path = ask_save(
            self, self.workspace.settings, "Save as CSV", Path("comparison.csv"), ("Table (*.csv)",), "table"
        )
        if path is not None:
            self.save(path)

    def save(self, path: Path) -> None:
        """Write all rows in execution order, with full numbers."""
        try:
            write_csv(path, chain([_CSV], map(self._as_texts, self.rows)))
        except ModelError as error:
            self.workspace.messages.report(error)

    def _as_texts(self, row: Compared) -> list[str]:
        value, found = self.workspace.results.value_by_number(row.key[1]), row.difference
        node = value.producer if value is not None else None
        layer = self._outcome.local.get(row.key)
        numbers = (found.tolerance, found.max_abs, found.max_rel, found.cosine, found.snr)
        return [
            self._named(row), node.op_type if node is not None else "", row.other,
            *([""] * len(numbers) if found.problem else map(repr, map(float, numbers))),
            "" if layer is None else repr(float(layer.snr)),
            " ".join(map(str, found.worst)), found.problem,
        ]  # fmt: skip

    def go_to_divergence(self) -> None:
        """Select the first divergence."""
        first = self.first
        if first is not None:
            self._go(first)


def _keys(rows: Sequence[Compared]) -> dict[int, Callable[[int], Key]]:
    """Return sort keys of positions and errors."""
    return {0: float, _ERROR_COLUMN: lambda index: compare.error_of(rows[index])}


def _number(number: float, role: str = "") -> NumberCell:
    return NumberCell(number_text(number, 4), number, role)


def _names(names: Sequence[str]) -> str:
    shown = [display(name, 40) for name in names[:_MOST_NAMES]]
    return ", ".join([*shown, *(["…"] if len(names) > _MOST_NAMES else [])]) or "none"


def _allowed_text(allowed: Tolerance) -> str:
    text = f"|Δ| ≤ {allowed.atol:.3g} + {allowed.rtol:.3g}·|b|" if allowed.rtol else f"|Δ| ≤ {allowed.atol:.3g}"
    return text if allowed.snr == inf else f"{text}, or an SNR of {allowed.snr:.0f} dB"


def _about(found: ValueDifference) -> str:
    """Return details that the columns have no room for."""
    ours, theirs = (display(str(x), 40) for x in found.worst_pair)
    at = ", ".join(map(str, found.worst))
    lines = [
        f"at [{at}]: {ours}, reference {theirs}",
        f"mean |Δ| {number_text(found.mean_abs, 4)}",
        f"{found.unequal:,} of {found.size:,} differ",
    ]
    return "\n".join(lines)
