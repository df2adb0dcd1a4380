"""Watch panel: values over runs, with their changes since the previous run."""

from __future__ import annotations

from typing import Any

from PySide6.QtWidgets import QPushButton
from shiboken6 import isValid

from onnx_workbench.exec.inspect.overview import WatchedValue, watch
from onnx_workbench.exec.results.slot_map import ValueKey
from onnx_workbench.model.ir.graph import Node, Value
from onnx_workbench.model.ir.types import element_type_text
from onnx_workbench.model.text.formatting import number_text, plural, shape_text
from onnx_workbench.viewer.document.model_signals import is_in_model
from onnx_workbench.viewer.panel import Panel
from onnx_workbench.viewer.run.results.run_record import RunRecord
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.style.labels import name_of
from onnx_workbench.viewer.style.tooltips import wrapped
from onnx_workbench.viewer.tables.number_table import NumberCell, NumberColumn, NumberRow, NumberTable
from onnx_workbench.viewer.widgets.plain_label import plain_label

_COLUMNS = (
    NumberColumn("Value", 0, number=False),
    NumberColumn("Type", 20, number=False),
    NumberColumn("Minimum", 10),
    NumberColumn("Maximum", 10),
    NumberColumn("Mean", 10),
    NumberColumn("Deviation", 10),
    NumberColumn("Zeros", 7),
    NumberColumn("NaN, inf", 8),
    NumberColumn("Δ mean", 11, "Change of the mean since the previous run"),
    NumberColumn("Largest |Δ|", 10, "Largest change of an element since the previous run", amount=True),
)


class WatchPanel(Panel):
    """The list of watched values."""

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        self.table = NumberTable("Watched values", _COLUMNS)
        self.hint = plain_label(wraps=False)
        self.pin_button = QPushButton("Watch selected")
        self.pin_button.setToolTip(wrapped("Watch the selected values, or the outputs of the selected nodes"))
        self.unpin_button = QPushButton("Remove")
        self.unpin_button.setToolTip("Remove the selected rows")
        self.lay_out(self.table, self.hint, self.pin_button, self.unpin_button)
        self._pinned: tuple[Value, ...] = ()  # as shown
        self._known: dict[Value, WatchedValue] = {}
        self.pin_button.clicked.connect(lambda: workspace.trigger("run.pin"))
        self.unpin_button.clicked.connect(lambda: workspace.results.unpin(self.table.selected()))
        self.table.chosen.connect(workspace.navigation.reveal)
        self.table.selectionModel().selectionChanged.connect(lambda *_: self._show_buttons())
        workspace.results.changed.connect(self._on_results)
        workspace.selection.changed.connect(self._show_buttons)
        workspace.changes.values_changed.connect(self._show)
        self._show()
        self.refresh_when_visible()

    def _on_results(self, values: object) -> None:
        if values is None or self._pinned != self.workspace.results.pinned:
            self.refresh_when_visible()

    def refresh(self) -> None:
        """Read the watched values of the last run."""
        results = self.workspace.results
        self._pinned = results.pinned
        record, before = results.current, results.previous
        if record is None or not results.pinned:
            self._known = {}
            self._show()
            return
        keys = {value: key for value in results.pinned if results.has(value) and (key := record.key(value)) is not None}
        self.workspace.tasks.start(
            "Reading watched values",
            lambda _progress: _watched_values(record, before, list(keys.values())),
            done=lambda found: self._set_values(dict(zip(keys, found, strict=False))) if isValid(self) else None,
            supersede="watch",
        )

    def _set_values(self, known: dict[Value, WatchedValue]) -> None:
        self._known = known
        self._show()

    def _show(self, _values: object = None) -> None:
        results = self.workspace.results
        self.hint.setText(
            plural(len(results.pinned), "value")
            if results.pinned
            else "Watch values to see how they change from run to run."
        )
        self.table.set_rows([NumberRow(value, self._cells(value)) for value in results.pinned])
        self._show_buttons()

    def _cells(self, value: Value) -> tuple[NumberCell, ...]:
        role = "muted" if self.workspace.results.is_stale(value) else ""
        watched = self._known.get(value)
        name = NumberCell(name_of(value), role=role, tip=f"{name_of(value)}: out of date" if role else name_of(value))
        if not is_in_model(value):
            return (name, NumberCell("not in the model", role="muted"), *[NumberCell("")] * 8)
        if watched is None:
            awaited = " yet" if self.workspace.results.is_awaited(value) else ""
            return (name, NumberCell(f"not computed{awaited}", role="muted"), *[NumberCell("")] * 8)
        info, facts, change = watched.info, watched.statistics, watched.difference
        tensor = info.kind == "tensor" and info.element_type is not None
        kind = (
            f"{element_type_text(info.element_type)} {shape_text(info.shape)}"
            if tensor and info.element_type
            else str(info)
        )
        cells = [name, NumberCell(kind, role=role)]
        if facts is None:
            return (*cells, *[NumberCell("")] * 8)
        cells += [_number(x) for x in (facts.minimum, facts.maximum, facts.mean, facts.deviation)]
        cells.append(NumberCell(f"{facts.zeros / facts.size:.1%}" if facts.size else "", facts.zeros))
        cells.append(NumberCell(number_text(facts.non_finite), facts.non_finite, "error" if facts.non_finite else ""))
        if watched.mean_before is not None and facts.mean is not None:
            cells.append(_signed(facts.mean - watched.mean_before))
        else:
            cells.append(NumberCell(""))
        if change is None:
            cells.append(NumberCell(""))
        elif change.problem:
            cells.append(NumberCell("other shape", role="changed", tip=change.problem))
        else:
            cells.append(
                NumberCell(number_text(change.max_abs, 5), change.max_abs, "changed" if change.max_abs else "muted")
            )
        return tuple(cells)

    def _show_buttons(self) -> None:
        items = self.workspace.selection.items
        self.pin_button.setEnabled(any(isinstance(item, (Node, Value)) for item in items))
        self.unpin_button.setEnabled(bool(self.table.selected()))


def _number(number: Any) -> NumberCell:
    return NumberCell("") if number is None else NumberCell(number_text(number, 5), float(number))


def _signed(number: float) -> NumberCell:
    sign = "+" if number > 0 else ""
    return NumberCell(f"{sign}{number_text(number, 5)}", number, "changed" if number else "muted")


def _watched_values(record: RunRecord, before: RunRecord | None, keys: list[ValueKey]) -> list[WatchedValue]:
    """Compute off the GUI thread."""
    try:
        if before is not None:
            return record.result.apply(watch, keys, before.result)
    except LookupError:
        pass  # the values of the previous run are lost
    try:
        return record.result.apply(watch, keys)
    except LookupError:
        return []
