"""Profile panel: time and memory by node and by operator, and the live tensors at the peak."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

import numpy as np
from PySide6.QtCore import QPointF, Qt, Signal
from PySide6.QtGui import QColor, QPainterPath, QPen, QPolygonF
from PySide6.QtWidgets import (
    QComboBox,
    QGraphicsPathItem,
    QPushButton,
    QSpinBox,
    QSplitter,
    QStackedWidget,
    QWidget,
)

from onnx_workbench.exec.results.node_table import NodeResult, State
from onnx_workbench.exec.results.run_result import Moment
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.graph import Function, Node
from onnx_workbench.model.progress import Progress
from onnx_workbench.model.text.formatting import bytes_text, count_text, display, duration_text, plural, shape_text
from onnx_workbench.viewer.panel import Panel
from onnx_workbench.viewer.plots.plot import Plot, load_pyqtgraph
from onnx_workbench.viewer.run.results.run_record import RunRecord
from onnx_workbench.viewer.run.results.timings import Timings, measurement
from onnx_workbench.viewer.run.results.value_paths import name_in_run
from onnx_workbench.viewer.run.views.overlays import TITLES, multiply_adds
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.style.labels import name_of
from onnx_workbench.viewer.style.theme import theme
from onnx_workbench.viewer.tables.number_table import MadeRows, NumberCell, NumberColumn, NumberRow, NumberTable
from onnx_workbench.viewer.tables.sorting import Key
from onnx_workbench.viewer.tasks.readers import ModelReader
from onnx_workbench.viewer.widgets.flow_layout import FlowLayout, in_a_column, labelled
from onnx_workbench.viewer.widgets.plain_label import plain_label

#: States of nodes in the table; the others did not run.
_STATES = {State.DONE: "ran", State.KEPT: "kept", State.CONSTANT: "constant"}

#: The overlay of external numbers, from a file or a comparison: listed while it is shown.
_OWN = "own"

_NODE_COLUMNS = (
    NumberColumn("Node", 0, number=False),
    NumberColumn("Operator", 18, number=False),
    NumberColumn("Time", 11, "Time in the run, or mean over the measured runs", amount=True),
    NumberColumn("Min", 11, "Minimum over the measured runs", amount=True),
    NumberColumn("Spread", 11, "Standard deviation over the measured runs", amount=True),
    NumberColumn("Share", 8, amount=True),
    NumberColumn("Output", 20),
    NumberColumn("Memory", 11, amount=True),
    NumberColumn("Multiply-adds", 14, amount=True),
    NumberColumn("State", 12, number=False),
)
_OPERATOR_COLUMNS = (
    NumberColumn("Operator", 0, number=False),
    NumberColumn("Nodes", 9, "Nodes of the model, each counted once", amount=True),
    NumberColumn("Time", 11, amount=True),
    NumberColumn("Share", 9, amount=True),
    NumberColumn("Mean", 11, amount=True),
    NumberColumn("Memory", 12, amount=True),
)


_MEASURED_COLUMNS = 3, 4
_MOST_RUNS = 1000

_Ran = tuple[Node, NodeResult]


@dataclass(frozen=True)
class _Found:
    """The profile of one run: its nodes, sums by operator, and the total seconds."""

    nodes: Sequence[_Ran]
    operators: Mapping[str, Sequence[NodeResult]]  # without constant-folded ones
    seconds: float
    is_partly_kept: bool
    moments: Sequence[Moment]


class ProfilePanel(Panel):
    """Three views of the last run, and the choice of the overlay on the graph.

    A run of very many nodes is processed incrementally, and only while the panel is visible.
    """

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        self._finding = ModelReader(self)
        self.view = QComboBox()
        self.view.setAccessibleName("View of the profile")
        self.view.addItems(["By node", "By operator", "Memory over the run"])
        self.colour = QComboBox()
        self.colour.setAccessibleName("Colour the graph by")
        self.colour.addItem("Operator category", "")
        for kind, title in TITLES.items():
            self.colour.addItem(title, kind)
        self._timings: Timings | None = None  # of several runs
        self.count = QSpinBox()
        self.count.setAccessibleName("Number of runs")
        self.count.setRange(2, _MOST_RUNS)
        self.count.setValue(10)
        self.count.setSuffix(" runs")
        self.measure = QPushButton("Measure")
        self.measure.setToolTip("Run the model this many times with the same inputs, and show mean, minimum and spread")
        self.summary = plain_label(wraps=False)
        self.nodes = NumberTable("Nodes by time", _NODE_COLUMNS)
        self.operators = NumberTable("Operators by time", _OPERATOR_COLUMNS)
        self.memory = _MemoryView(workspace)
        self.stack = QStackedWidget()
        for page in (self.nodes, self.operators, self.memory):
            self.stack.addWidget(page)
        self.entry = self.nodes
        self._lay_out()
        self._connect()
        self._show_measured_columns()
        self.nodes.sort_by(2)
        self.operators.sort_by(2)
        self._show_colour()
        self.refresh()

    def _lay_out(self) -> None:
        row = FlowLayout(8)
        row.setContentsMargins(6, 4, 6, 4)
        for widget in (self.view, self.count, self.measure, self.summary, labelled("Colour the graph by", self.colour)):
            row.addWidget(widget)
        in_a_column(self, row, self.stack)

    def _connect(self) -> None:
        workspace = self.workspace
        self.view.currentIndexChanged.connect(self.stack.setCurrentIndex)
        self.view.currentIndexChanged.connect(lambda _: self.refresh())
        self.colour.activated.connect(lambda _: workspace.runs.overlays.choose(self.colour.currentData()))
        self.measure.clicked.connect(self.measure_times)
        self.nodes.chosen.connect(workspace.navigation.reveal)
        self.operators.chosen.connect(self._select_operator)
        workspace.results.changed.connect(self._on_results)
        workspace.changes.changed.connect(lambda _: self.nodes.source.update_rows())  # names, of functions too
        workspace.highlights.overlay_changed.connect(self._show_colour)

    def _show_colour(self) -> None:
        overlays = self.workspace.runs.overlays
        self.colour.removeItem(self.colour.findData(_OWN))
        if overlays.kind == _OWN:
            self.colour.addItem(display(overlays.title, 40), _OWN)
        self.colour.setCurrentIndex(max(0, self.colour.findData(overlays.kind)))

    @property
    def is_busy(self) -> bool:
        """Return whether a newer run is about to be shown."""
        return self._finding.running

    def _on_results(self, values: object) -> None:
        if values is None:
            self.refresh_when_visible()

    def measure_times(self) -> None:
        """Run the model several times with the inputs of the last run, and show the times of its nodes."""
        record = self.workspace.results.current
        if record is None:
            self.workspace.messages.report(ModelError("There is no run to measure", "Run the model first (F6)."))
            return
        self.measure.setEnabled(False)
        self.workspace.tasks.start(
            "Measuring times",
            measurement(self.workspace, record, self.count.value()),
            done=self._show_times,
            finished=self._end_measuring,
            supersede="measure times",
        )

    def _end_measuring(self) -> None:
        self.measure.setEnabled(True)

    def _show_times(self, timings: Timings) -> None:
        self._timings = timings
        self.refresh()

    @property
    def _measured(self) -> Timings | None:
        """Return the times of several runs, if the run with their inputs is shown."""
        timings = self._timings
        return timings if timings is not None and timings.record is self.workspace.results.current else None

    def _seconds(self, one: _Ran) -> float:
        """Return the time of a node: the mean of several runs if measured."""
        measured = self._measured
        timing = None if measured is None else measured.nodes.get(one[0].id)
        return one[1].seconds if timing is None else timing.mean

    def _show_measured_columns(self) -> None:
        for column in _MEASURED_COLUMNS:
            self.nodes.show_column(column, shown=self._measured is not None)

    def refresh(self) -> None:
        """Show the last run, or the times measured for it."""
        self._finding.stop()
        record = self.workspace.results.current
        self._show_measured_columns()
        if record is None:
            invitation = "Run the model to see where time and memory go."
            self.summary.setText("Running…" if self.workspace.results.is_running else invitation)
            return
        with_memory = self.stack.currentWidget() is self.memory
        self._finding.start(
            lambda progress: self._find(record, progress, with_memory=with_memory),
            lambda found: self._show(record, found),
        )

    def _find(self, record: RunRecord, progress: Progress, *, with_memory: bool) -> _Found:
        every = self.workspace.results.nodes(progress).items()
        computed = [(n, r) for n, r in progress.paced(every) if n.graph is not None and r.state in _STATES]
        seconds, is_partly_kept = 0.0, False
        operators: dict[str, list[NodeResult]] = {}
        for node, result in progress.paced(computed):
            if result.state is State.CONSTANT:
                continue
            operators.setdefault(result.operator, []).append(result)
            is_partly_kept |= result.state is not State.DONE
            if not result.inside and not self._is_inside(node):
                seconds += result.seconds
        moments: Sequence[Moment] = ()
        if with_memory:
            load_pyqtgraph()
            moments = record.result.timeline(progress)
        return _Found(computed, operators, seconds, is_partly_kept, moments)

    def _show(self, record: RunRecord, found: _Found) -> None:
        measured = self._measured
        total = found.seconds if measured is None else measured.total.mean
        kept = " (partly from earlier runs)" if found.is_partly_kept else ""
        count = plural(sum(record.result.counts[state] for state in (State.DONE, State.KEPT)), "node")
        if measured is not None:
            mean, least, spread = (
                duration_text(s) for s in (measured.total.mean, measured.total.least, measured.total.spread)
            )
            self.summary.setText(f"{count} · {measured.count:,} runs: mean {mean}, min {least}, spread {spread}")
        elif total:
            held = "" if found.is_partly_kept else f" · {bytes_text(record.result.peak_bytes)} held"
            self.summary.setText(f"{count} · {duration_text(total)}{kept}{held}")
        else:
            self.summary.setText(f"{count} · no times: {'the file has none' if record.loaded else 'nothing ran'}")
        self.summary.setToolTip(
            "Held: peak memory, with all values kept for inspection.\n"
            "Memory over the run: memory if each value is freed after its last use."
        )
        keys = {2: self._time_key, 5: self._time_key, 7: lambda one: one[1].nbytes}
        rows = MadeRows(found.nodes, lambda one: self._node_row(*one, total), keys, itemgetter(0))
        self.nodes.set_rows(rows)
        self.operators.set_rows(_operator_rows(found.operators, total))
        if found.moments:
            self.memory.show_moments(found.moments)

    def _is_inside(self, node: Node) -> bool:
        """Return whether a node is inside a function, whose call is counted instead."""
        return node.graph is not None and node.graph.root is not self.workspace.model.graph

    def _node_row(self, node: Node, result: NodeResult, total: float) -> NumberRow:
        results = self.workspace.results
        output = next((v for v in node.outputs if v is not None), None)
        info = None if output is None else results.info_of(output)
        macs = multiply_adds(results, node)
        spent = result.state is not State.CONSTANT
        seconds = self._seconds((node, result))
        measured = self._measured
        timing = None if measured is None else measured.nodes.get(node.id)
        times = () if timing is None else (timing.least, timing.spread)
        return NumberRow(
            node,
            (
                NumberCell(self._qualified_name(node, result), tip=display(node.name, 500)),
                NumberCell(display(result.operator, 60)),
                NumberCell(duration_text(seconds), seconds) if spent else NumberCell(""),
                *(NumberCell(duration_text(time), time) for time in times),
                *[NumberCell("")] * (len(_MEASURED_COLUMNS) - len(times)),
                NumberCell(_share(seconds, total), seconds) if spent else NumberCell(""),
                NumberCell("" if info is None or info.kind != "tensor" else shape_text(info.shape)),
                NumberCell(bytes_text(result.nbytes), result.nbytes),
                NumberCell(count_text(macs), macs) if macs else NumberCell(""),
                NumberCell(f"ran {result.runs:,} ×" if result.runs else _STATES[result.state], role="muted"),
            ),
        )

    def _time_key(self, one: _Ran) -> Key:
        """Return the time of a node; constant-folded ones have none and sort last."""
        return "" if one[1].state is State.CONSTANT else self._seconds(one)

    def _qualified_name(self, node: Node, result: NodeResult) -> str:
        """Return a node's name after those of its function and of the nodes around it."""
        around: list[object] = [self.workspace.results.node_by_number(number) for number in result.inside]
        if node.graph is not None and isinstance(function := node.graph.root.owner, Function):
            around.insert(0, function)
        return " › ".join(name_of(n) for n in (*around, node) if n is not None)

    def _select_operator(self, operator: str) -> None:
        nodes = [n for n, r in self.workspace.results.nodes().items() if r.operator == operator]
        self.workspace.selection.set([n for n in nodes if n.graph is self.workspace.graph])


def _share(seconds: float, total: float) -> str:
    return f"{seconds / total:.1%}" if total else ""


def _operator_rows(groups: Mapping[str, Sequence[NodeResult]], total: float) -> list[NumberRow]:
    rows = []
    for operator, members in groups.items():
        seconds = sum(r.seconds for r in members)
        size = sum(r.nbytes for r in members)
        cells = (
            NumberCell(display(operator, 80)),
            NumberCell(f"{len(members):,}", len(members)),
            NumberCell(duration_text(seconds), seconds),
            NumberCell(_share(seconds, total), seconds),
            NumberCell(duration_text(seconds / len(members)), seconds / len(members)),
            NumberCell(bytes_text(size), size),
        )
        rows.append(NumberRow(operator, cells))
    return rows


class _MemoryView(QSplitter):
    """The curve, and the live tensors at the chosen moment."""

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(Qt.Orientation.Horizontal)
        self._workspace = workspace
        self.curve = MemoryCurve()
        self.table = NumberTable(
            "Tensors alive",
            [
                NumberColumn("Tensor", 0, number=False),
                NumberColumn("Shape", 18),
                NumberColumn("Memory", 11, amount=True),
            ],
        )
        self.where = plain_label()
        self.where.setContentsMargins(6, 2, 6, 2)
        side = QWidget()
        in_a_column(side, self.where, self.table)
        self.addWidget(self.curve)
        self.addWidget(side)
        self.setSizes([600, 400])
        self.curve.pointed.connect(self._show_alive)
        self.curve.chosen.connect(self._go)
        self.table.chosen.connect(workspace.navigation.reveal)
        self.table.sort_by(2)

    def show_moments(self, moments: Sequence[Moment]) -> None:
        """Show a run, with the peak chosen."""
        self.curve.set_moments(moments)

    def _show_alive(self, moment: Moment) -> None:
        results = self._workspace.results
        record = results.current
        node = results.node_by_number(moment.node)
        if record is None:
            return
        rows = []
        largest = 0, ""
        for key in moment.alive:
            info, value = record.result.info(key), results.value_by_number(key[1])
            if info is not None and value is not None:
                shape = shape_text(info.shape) if info.kind == "tensor" else str(info)
                name = name_in_run(self._workspace, key, name_of(value))
                cells = NumberCell(name, tip=name), NumberCell(shape), NumberCell(bytes_text(info.nbytes), info.nbytes)
                rows.append(NumberRow(value, cells))
                largest = max(largest, (info.nbytes, name))
        peak = "Peak: " if moment.live_bytes == max(one.live_bytes for one in self.curve.moments) else ""
        at = name_of(node) if node is not None else "?"
        held = f"; largest {display(largest[1], 40)}, {bytes_text(largest[0])}" if largest[0] else ""
        self.where.setText(f"{peak}{bytes_text(moment.live_bytes)} alive at {at}{held}")
        self.table.set_rows(rows)

    def _go(self, moment: Moment) -> None:
        node = self._workspace.results.node_by_number(moment.node)
        if node is not None:
            self._workspace.navigation.reveal(node)


class MemoryCurve(Plot):
    """Bytes alive over the run order; one moment is always marked, a click chooses its node."""

    pointed = Signal(object)  # Moment
    chosen = Signal(object)  # Moment

    def __init__(self) -> None:
        super().__init__()
        self.moments: list[Moment] = []
        self._live = np.zeros(0, np.int64)  # bytes, for each of them
        self._curve: QGraphicsPathItem | None = None
        self.setMinimumSize(120, 80)
        self.setAccessibleName("Memory over the run")

    def set_moments(self, moments: Sequence[Moment]) -> None:
        """Show a run with its peak chosen."""
        self.moments = list(moments)
        self._live = np.fromiter((moment.live_bytes for moment in self.moments), np.int64, len(self.moments))
        self.at = None
        if self.moments:
            if self._curve is None:
                self._curve = QGraphicsPathItem()
                self.area.addItem(self._curve, ignoreBounds=True)
                self.area.getViewBox().setMouseEnabled(x=True, y=False)
                self.area.getViewBox().sigXRangeChanged.connect(self._draw)
                self.restyle()
            self.limit((0.0, float(len(self.moments))), (0.0, 1.05 * max(int(self._live.max()), 1)))
            self._draw()
            self.mark(int(self._live.argmax()))
        elif self._curve is not None:
            self._curve.setPath(QPainterPath())
            self.move_cursor(None)
        self.update()

    def _draw(self, *_range: object) -> None:
        """Draw the steps of the visible part; of moments at the same pixel the highest."""
        count = len(self.moments)
        if self._curve is None or not count:
            return
        low, high = self.area.getViewBox().viewRange()[0]
        first, end = max(int(low), 0), min(int(high) + 1, count)
        parts = max(1, min(end - first, self.width()))
        starts = np.arange(parts) * (end - first) // parts
        heights = np.maximum.reduceat(self._live[first:end], starts).tolist()
        edges = (first + np.append(starts, end - first)).tolist()
        points = [QPointF(first, 0)]
        for left, right, y in zip(edges[:-1], edges[1:], heights, strict=True):
            points += [QPointF(left, y), QPointF(right, y)]
        path = QPainterPath()
        path.addPolygon(QPolygonF([*points, QPointF(end, 0), points[0]]))
        self._curve.setPath(path)

    def restyle(self) -> None:
        self.name_axes("node", "memory")
        if self._curve is not None:
            fill = QColor(theme().accent)
            fill.setAlpha(70)
            pen = QPen(theme().accent, 1)
            pen.setCosmetic(True)
            self._curve.setPen(pen)
            self._curve.setBrush(fill)

    def numbers(self) -> str:
        return "\n".join(["step\tbytes", *(f"{step}\t{size}" for step, size in enumerate(self._live.tolist(), 1))])

    def left_texts(self, values: list[float], _spacing: float) -> list[str]:
        return [bytes_text(round(v)) for v in values]

    def bottom_texts(self, values: list[float], _spacing: float) -> list[str]:
        return [f"{round(v):,}" if v == round(v) else "" for v in values]

    def text_below(self) -> tuple[str, bool]:
        if self.at is None:
            return "", False
        return f"{bytes_text(self.moments[self.at].live_bytes)} alive at step {self.at + 1:,}", True

    def point_count(self) -> int:
        return len(self.moments)

    def point_near(self, x: float) -> int:
        return int(x)

    def mark(self, point: int) -> None:
        before = self.at
        super().mark(point)
        if self.at is not None and self.at != before:
            self.pointed.emit(self.moments[self.at])

    def hide_marker(self) -> None:
        """Keep the moment whose tensors are listed."""

    def show_marker(self) -> None:
        if self.at is not None:
            self.move_cursor(self.at + 0.5)

    def choose(self) -> None:
        """Select the node computed at the marked moment."""
        if self.at is not None:
            self.chosen.emit(self.moments[self.at])
