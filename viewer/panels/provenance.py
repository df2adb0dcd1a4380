"""Element panel: one element of a value and its receptive field in the node's inputs; step by step upstream."""

from __future__ import annotations

from functools import partial
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QCheckBox,
    QLineEdit,
    QPushButton,
    QSplitter,
    QToolButton,
)

from onnx_workbench.exec.inspect.receptive_field.trace import ElementTrace, TraceOrigin, trace
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.graph import Node, Value
from onnx_workbench.model.progress import Progress
from onnx_workbench.model.text.formatting import display, number_text, plural
from onnx_workbench.viewer.panel import Panel
from onnx_workbench.viewer.program.settings import NAN_ALONE
from onnx_workbench.viewer.run.results.node_calls import call_of, links_of
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.style.icons import icon
from onnx_workbench.viewer.style.labels import name_of
from onnx_workbench.viewer.style.tooltips import plain_tip
from onnx_workbench.viewer.tables.number_table import NumberCell, NumberColumn, NumberRow, NumberTable
from onnx_workbench.viewer.widgets.elided_label import ElidedLabel
from onnx_workbench.viewer.widgets.flow_layout import FlowLayout, in_a_column
from onnx_workbench.viewer.widgets.undo_forwarding import forward_undo

TracedElement = tuple[Value, tuple[int, ...]]

_ORIGINS = (
    NumberColumn("Input", 16, number=False),
    NumberColumn("Elements", 15, number=False),
    NumberColumn("Count", 11),
    NumberColumn("Minimum", 13),
    NumberColumn("Maximum", 13),
    NumberColumn("NaN, inf", 8),
    NumberColumn("Example", 0, "The first non-finite element, else the largest", number=False),
)
_ELEMENTS = (NumberColumn("Index", 0, number=False), NumberColumn("Value", 14))


class ProvenancePanel(Panel):
    """Follows the selected value; Enter or a click on an input continues upstream."""

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        self.traced: TracedElement | None = None
        self.trace: ElementTrace | None = None
        self._way: list[TracedElement] = []
        self._make_controls()
        self.table = NumberTable("Inputs that reach the element", _ORIGINS)
        self.elements = NumberTable("Elements that reach it", _ELEMENTS)
        self._lay_out()
        self._connect()
        if workspace.results.element is not None:
            self.show_element(*workspace.results.element)
        else:
            self._invite()

    def _make_controls(self) -> None:
        self.back = QToolButton()
        self.back.setAutoRaise(True)
        self.back.setIcon(icon("back"))
        self.back.setToolTip("Back to the previous element")
        self.back.setAccessibleName("Back to the previous element")
        self.name = ElidedLabel()
        self.index = QLineEdit()
        self.index.setAccessibleName("Index of the element")
        self.index.setPlaceholderText("index, such as 0, 3, 5")
        self.index.setFixedWidth(150)
        forward_undo(self.index)
        self.value = ElidedLabel()
        self.first_non_finite = QPushButton("First non-finite value")
        self.further = QPushButton("Next")
        self.further.setAccessibleName("Next non-finite value")
        self.nan_alone = QCheckBox("NaN only")
        self.nan_alone.setToolTip("Skip infinities, such as those of an attention mask")
        self.nan_alone.setChecked(self.workspace.settings.get(NAN_ALONE))

    def _lay_out(self) -> None:
        row = FlowLayout()
        row.setContentsMargins(6, 4, 6, 4)
        for widget in (
            self.back,
            self.name,
            self.index,
            self.value,
            self.first_non_finite,
            self.further,
            self.nan_alone,
        ):
            row.addWidget(widget)
        split = QSplitter(Qt.Orientation.Horizontal)
        split.addWidget(self.table)
        split.addWidget(self.elements)
        split.setSizes([740, 240])
        self.elements.setMinimumWidth(28 * self.fontMetrics().averageCharWidth())  # an index and its value
        in_a_column(self, row, split, fills=split)
        self.entry = self.index

    def _connect(self) -> None:
        workspace = self.workspace
        self.back.clicked.connect(self._go_back)
        self.index.returnPressed.connect(self._enter)
        self.first_non_finite.clicked.connect(lambda: workspace.trigger("run.first_non_finite"))
        self.further.clicked.connect(lambda: workspace.trigger("run.next_non_finite"))
        self.nan_alone.toggled.connect(partial(workspace.settings.set, NAN_ALONE))
        workspace.settings.changed.connect(self._on_setting)
        self.table.activated.connect(self._go_upstream)
        self.table.doubleClicked.connect(self._go_upstream)
        self.table.selectionModel().currentChanged.connect(lambda *_: self._show_elements())
        self.elements.chosen.connect(self._go_to_element)
        workspace.results.element_chosen.connect(self.show_element)
        workspace.results.changed.connect(self._on_results)
        workspace.selection.changed.connect(self._on_selection)
        workspace.changes.values_changed.connect(self._on_values_changed)

    def _on_setting(self, key: str) -> None:
        if key == NAN_ALONE.key:
            self.nan_alone.setChecked(self.workspace.settings.get(NAN_ALONE))

    # -- which element ---------------------------------------------------------------------------------------

    def _on_selection(self) -> None:
        current = self.workspace.selection.current
        if isinstance(current, Node):
            current = next((v for v in current.outputs if v is not None), None)
        if isinstance(current, Value) and (self.traced is None or current is not self.traced[0]):
            info = self.workspace.results.info_of(current)
            if info is not None and info.kind == "tensor":
                self._way.clear()
                self._trace(current, (0,) * len(info.shape))

    def show_element(self, value: Value, index: tuple[int, ...]) -> None:
        """Show the origin of an element."""
        self._way.clear()
        self._trace(value, index)

    def _enter(self) -> None:
        if self.traced is None:
            return
        try:
            index = tuple(int(part) for part in self.index.text().replace(",", " ").split())
        except ValueError:
            self._set_text("an index is a list of integers, such as 0, 3, 5")
            return
        self._trace(self.traced[0], index)

    def _go_upstream(self, *_: object) -> None:
        """Select the suspect element of the current input."""
        origin = self._origin()
        if origin is not None:
            self._trace_origin(origin, origin.suspect)

    def _go_to_element(self, index: tuple[int, ...]) -> None:
        origin = self._origin()
        if origin is not None:
            self._trace_origin(origin, index)

    def _trace_origin(self, origin: TraceOrigin, index: tuple[int, ...]) -> None:
        value = self.workspace.results.value_by_number(origin.key[1])
        if value is None or self.traced is None:
            return
        self._way.append(self.traced)
        if origin.key[0]:
            self.workspace.results.show_call(origin.key[0])
        self._trace(value, index)
        self.workspace.navigation.reveal(value)

    def _go_back(self) -> None:
        if self._way:
            value, index = self._way.pop()
            self._trace(value, index)
            self.workspace.navigation.reveal(value)

    def _origin(self) -> TraceOrigin | None:
        chosen = self.table.selected()
        if chosen:
            origin: TraceOrigin = chosen[0]
            return origin
        return self.trace.origins[0] if self.trace is not None and self.trace.origins else None

    # -- showing ---------------------------------------------------------------------------------------------

    def _on_results(self, values: set[Value] | None) -> None:
        if self.traced is None:
            if values is None:
                self._invite()
        elif values is None or self.workspace.results.info_of(self.traced[0]) is None or self.traced[0] in values:
            self._trace(*self.traced)

    def _invite(self) -> None:
        """Show the selected value, or a hint of what is missing."""
        results = self.workspace.results
        is_run = results.current is not None or results.is_running
        self.name.setText("Select a value" if is_run else "Run the model and select a value")
        self._on_selection()

    def _on_values_changed(self, values: set[Value]) -> None:
        if self.traced is not None and self.traced[0] in values:
            self.name.setText(name_of(self.traced[0]))

    def _trace(self, value: Value, index: tuple[int, ...]) -> None:
        self.traced, self.trace = (value, index), None  # the same element of another iteration of a subgraph
        record = self.workspace.results.current
        key = None if record is None else record.key(value)
        self.name.setText(name_of(value))
        self.index.setText(", ".join(map(str, index)))
        self.back.setEnabled(bool(self._way))
        if record is None or key is None:
            is_running = self.workspace.results.is_running
            why = "the run has not reached it yet" if is_running else "not computed: run the model"
            self._show(ElementTrace(None, (), (), why))
            return
        is_going_on = record.unfinished or self.workspace.runs.is_paused
        if is_going_on and record.result.info(key) is None:  # tracing would compute what this run has not reached
            self._show(ElementTrace(None, (), (), "the run has not reached it yet"))
            return
        result, traced, node_of = record.result, self.traced, self.workspace.results.node_by_number
        around = [node_of(number) for number in key[0]]
        is_known = not any(node and self.workspace.results.was_edited(node) for node in (value.producer, *around))
        # with the node as changed since, elements are misnamed
        call = call_of(record, value, node_of) if is_known else None
        links = links_of(record, value, key, node_of) if is_known else []

        def work(progress: Progress) -> ElementTrace:
            try:
                return result.apply(trace, call, key, index, links, progress=progress)
            except LookupError as error:
                raise ModelError("The element cannot be traced", str(error)) from error

        self.workspace.tasks.start(
            "Tracing an element",
            work,
            done=lambda found: self._show(found) if traced == self.traced else None,
            failed=lambda error: self._show(ElementTrace(None, (), (), str(error))),
            supersede="element",
        )

    def _set_text(self, text: str) -> None:
        self.value.setText(text)
        self.value.setToolTip(plain_tip(text))

    def _show(self, found: ElementTrace) -> None:
        self.trace = found
        summary = display(found.problem, 400) if found.problem else f"= {value_text(found.value)}"
        if self.traced is not None and not found.problem:
            is_stale = self.workspace.results.is_stale(self.traced[0])
            summary += ", out of date: edited since the run" if is_stale else _of_no_node(self.traced[0], found)
        self._set_text(summary)
        self.table.set_rows([self._row(origin) for origin in found.origins])
        if found.origins:
            suspects = (row for row, origin in enumerate(found.origins) if origin.non_finite)
            self.table.selectRow(next(suspects, 0))
        self._show_elements()

    def _row(self, origin: TraceOrigin) -> NumberRow:
        value = self.workspace.results.value_by_number(origin.key[1])
        name = "?" if value is None else name_of(value)
        about = str(origin.reach) if origin.reach.exact else f"any of {origin.reach}"
        at = ", ".join(map(str, origin.suspect))
        return NumberRow(
            origin,
            (
                NumberCell(name),
                NumberCell(about, tip=f"{about}\nElements of the input that reach it"),
                NumberCell(f"{origin.reach.count:,}", origin.reach.count),
                _number(origin.low),
                _number(origin.high),
                NumberCell(f"{origin.non_finite:,}", origin.non_finite, "error" if origin.non_finite else "muted"),
                NumberCell(f"[{at}] = {value_text(origin.suspect_value)}", role="error" if origin.non_finite else ""),
            ),
        )

    def _show_elements(self) -> None:
        origin = self._origin()
        rows = []
        if origin is not None:
            for index, element in origin.examples:
                number = float(element) if isinstance(element, (int, float)) else None
                rows.append(
                    NumberRow(
                        index, (NumberCell(f"[{', '.join(map(str, index))}]"), NumberCell(value_text(element), number))
                    )
                )
            self.elements.setToolTip(f"The first of {plural(origin.reach.count, 'element')}" if rows else "")
        self.elements.set_rows(rows)


def _of_no_node(value: Value, found: ElementTrace) -> str:
    """Return the origin of a value without a producer; None for others."""
    if value.producer is not None or found.origins:
        return ""
    is_of_body = value.graph is not None and isinstance(value.graph.owner, Node) and value in value.graph.inputs
    return ", passed by the outer node in the last iteration" if is_of_body else ", not computed by a node"


def _number(number: float | None) -> NumberCell:
    return NumberCell("") if number is None else NumberCell(number_text(number, 5), number)


def value_text(element: Any) -> str:
    """Format an element in a few characters."""
    if isinstance(element, bool) or element is None:
        return str(element).lower() if element is not None else "nothing"
    if isinstance(element, (int, float)):
        return number_text(element, 7)
    return display(str(element), 60)
