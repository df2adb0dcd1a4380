"""Statistics panel: cost of the model by operator, scope or node, as a table with bars and on the graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from PySide6.QtCore import (
    QObject,
    QRectF,
    QSignalBlocker,
    Qt,
    QTimer,
)
from PySide6.QtGui import QPainter
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QLineEdit,
    QPushButton,
    QSpinBox,
    QStyleOptionViewItem,
)

from onnx_workbench.model.analysis.name_scopes import DEEPEST
from onnx_workbench.model.analysis.node_subset import part_of
from onnx_workbench.model.analysis.statistics import (
    EACH_CALL,
    ModelStatistics,
    NodeStatistics,
    Total,
    scope_of,
    statistics,
)
from onnx_workbench.model.analysis.symbolic import AnySize, Size, is_name, readable, ungrouped
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.graph import Node, Value
from onnx_workbench.model.ir.types import Type
from onnx_workbench.model.progress import Progress
from onnx_workbench.model.text.dimension_sizes import sizes
from onnx_workbench.model.text.formatting import bytes_text, count_text, display, plural
from onnx_workbench.viewer.panel import Panel
from onnx_workbench.viewer.popups.file_dialogs import ask_save
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.style.theme import theme
from onnx_workbench.viewer.style.tooltips import for_role, plain_tip
from onnx_workbench.viewer.tables.csv_file import write_csv
from onnx_workbench.viewer.tables.keep_selection import KeptSelection
from onnx_workbench.viewer.tables.row_model import Column, Index, SortedRowModel
from onnx_workbench.viewer.tables.row_table import RowTable
from onnx_workbench.viewer.tables.sorting import Key
from onnx_workbench.viewer.tasks.readers import ModelReader, read_model
from onnx_workbench.viewer.widgets.elided_label import ElidedLabel
from onnx_workbench.viewer.widgets.scope_box import ScopeBox
from onnx_workbench.viewer.widgets.undo_forwarding import forward_undo
from onnx_workbench.viewer.widgets.whole_text import WholeTextDelegate

Amount = AnySize | None

_DELAY_MS = 300
_UNBOUND = 1  # size of symbolic dimensions for comparing formulas
_NEARLY_ALL = 0.75  # of the nodes
ShareRole = Qt.ItemDataRole.UserRole + 1

#: Columns: title, field, format of an amount.
COLUMNS: tuple[tuple[str, str, Callable[[int], str]], ...] = (
    ("Nodes", "nodes", count_text),
    ("Parameters", "parameters", count_text),
    ("Weights", "parameter_bytes", bytes_text),
    ("Multiply-adds", "macs", count_text),
    ("Operations", "flops", count_text),
    ("Activations", "activations", count_text),
    ("Activations held", "activation_bytes", bytes_text),
)
_FORMULAS = (
    "Named dimensions are kept in formulas such as 640·batch·seq. Enter numbers for them above the table. "
    "? means unknown because a shape is unknown; sums then end in + ?, and the line above the table shows the "
    "number of such nodes. "
    "Loop bodies count once per iteration, functions once per call, both branches of If count."
)
#: What is counted, by field; shown over the titles of the columns.
TIPS = {
    "nodes": "Number of nodes; those in bodies and functions count once.",
    "parameters": "Elements of the initializers, counted at the first node that uses them.",
    "parameter_bytes": "Size of the initializers in the file.",
    "macs": "Multiplications followed by an addition. Conv: elements of the output × channels in a group × kernel. "
    "ConvTranspose: elements of the input × filters in a group × kernel. MatMul and Gemm: elements of the output × "
    "inner dimension. LSTM, GRU, RNN: steps × batch × elements of both weights. Attention: batch × heads × queries × "
    "keys × the sum of the sizes of a key and a value. Einsum: the product of all letters. Others: none.",
    "flops": "A multiply-add counts as 2. Other operators count 1 per output element (per input element for "
    "reductions, per window element for pooling). Operators that only move values count 0.",
    "activations": "Elements of all node outputs.",
    "activation_bytes": "Memory of all outputs, if all are kept.",
}
GROUPS = {"operator": "By operator", "scope": "By scope", "node": "Node by node"}


def amount_text(amount: Amount, write: Callable[[int], str]) -> str:
    """Format a number, a formula, or ? if unknown."""
    if amount is None:
        return "?"
    return write(amount) if isinstance(amount, int) else display(readable(amount), 80, elide="end")


def magnitude(amount: Amount) -> float:
    """Return the sort key of an amount; symbolic dimensions count as 1."""
    if amount is None:
        return -1.0
    bound = amount.bind(dict.fromkeys(amount.symbols, _UNBOUND)) if isinstance(amount, Size) else amount
    return float(bound) if isinstance(bound, int) else 0.0


def _amount(found: Total | NodeStatistics, name: str) -> Amount:
    """Return a column, over all calls."""
    if isinstance(found, NodeStatistics):
        return found.in_all(name) if name in EACH_CALL else getattr(found, name, 1)
    amount: Amount = getattr(found, name)
    return amount


def _with_what_is_inside(numbers: Mapping[Node, float]) -> dict[Node, float]:
    """Return positive numbers; numbers of nodes in subgraphs are added to the node that owns them."""
    summed: dict[Node, float] = {}
    for node, number in numbers.items():
        holder: object = node
        while isinstance(holder, Node) and number > 0:
            summed[holder] = summed.get(holder, 0.0) + number
            holder = holder.graph.owner if holder.graph is not None else None
    return summed


class StatisticsRow:
    """A row: a group or a node."""

    def __init__(self, title: str, found: Total | NodeStatistics, node: Node | None = None) -> None:
        self.title = title
        self.node = node
        self.amounts: list[Amount] = [_amount(found, name) for _, name, _ in COLUMNS]
        self.leaves_out = [isinstance(found, Total) and found.leaves_out(name) for _, name, _ in COLUMNS]

    def text(self, column: int) -> str:
        """Format an amount; an incomplete sum is marked."""
        amount = self.amounts[column]
        text = amount_text(amount, COLUMNS[column][2])
        if not self.leaves_out[column]:
            return text
        return f"{text} + ?" if magnitude(amount) else "?"


@dataclass(frozen=True)
class _Sums:
    """The shown statistics; `level` of scopes, 0 if they are not distinguished."""

    rows: list[StatisticsRow]
    total: Total
    symbols: AbstractSet[str]
    level: int


@dataclass(frozen=True)
class StatisticsColumn(Column):
    """One statistic of all rows, and its maximum, for the bars; not 0."""

    largest: float = 1.0


class StatisticsModel(SortedRowModel[StatisticsRow, StatisticsColumn]):
    """Table of groups or nodes and their statistics."""

    finds_columns = True

    def __init__(self, parent: QObject | None = None) -> None:
        figures = (StatisticsColumn(title, tip=f"{TIPS[name]}\n\n{_FORMULAS}") for title, name, _ in COLUMNS)
        super().__init__((StatisticsColumn("What"), *figures), parent)
        self.sorted_by = (4, True)

    def sort_key(self, rows: Sequence[StatisticsRow], _column: StatisticsColumn, section: int) -> Callable[[int], Key]:
        if not section:
            return lambda place: rows[place].title
        return lambda place: magnitude(rows[place].amounts[section - 1])

    def find_columns(self, rows: Sequence[StatisticsRow], progress: Progress) -> Sequence[StatisticsColumn]:
        title, *figures = self.columns
        largest = [0.0] * len(figures)
        for row in progress.paced(rows):
            largest = [max(pair) for pair in zip(largest, map(magnitude, row.amounts), strict=True)]
        return [title, *(replace(column, largest=most or 1.0) for column, most in zip(figures, largest, strict=True))]

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        row, column = self.rows[index.row()], index.column() - 1
        if role == Qt.ItemDataRole.DisplayRole:
            return display(row.title, 120) if column < 0 else row.text(column)
        if role in (Qt.ItemDataRole.ToolTipRole, Qt.ItemDataRole.AccessibleTextRole):
            return for_role(display(row.title if column < 0 else readable(row.amounts[column] or 0), 1000), role)
        if role == Qt.ItemDataRole.TextAlignmentRole and column >= 0:
            return int(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        if role == ShareRole and column >= 0:
            return max(magnitude(row.amounts[column]), 0.0) / self.columns[index.column()].largest
        return None


class BarDelegate(WholeTextDelegate):
    """Draws a bar behind a number, relative to the largest in its column."""

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        share = index.data(ShareRole)
        if share:
            area = QRectF(option.rect).adjusted(2, 3, -2, -3)
            area.setLeft(area.right() - area.width() * share)
            painter.fillRect(area, theme().hover)
        super().paint(painter, option, index)


class StatisticsPanel(Panel):
    """Cost of the model. Updates after edits and type inference; clicking a node's row shows the node."""

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        self.found: ModelStatistics | None = None
        self._bound: Mapping[str, int] = {}
        self._is_colouring = False
        self._summing = ModelReader(self)
        self._has_levels = False  # whether a scope level was found or chosen
        self._shown: Mapping[Node, float] = {}
        self.model = StatisticsModel(self)
        self.summary = ElidedLabel(self)
        self._make_choices()
        self.colour = QCheckBox("Colour the graph", self)
        self.colour.setToolTip("Colour nodes by the column the table is sorted by")
        self.save_button = QPushButton("Save as CSV…", self)
        self.table = self._make_table()
        choices = (self.bindings, self.scope, self.group, self.levels, self.colour)
        self.lay_out(self.table, self.summary, *choices, self.save_button, whole=True)
        self._delay = QTimer(self, singleShot=True, interval=_DELAY_MS)
        self._delay.timeout.connect(self._on_delay)
        self._listen()
        self.refresh()

    def _make_choices(self) -> None:
        self.group = QComboBox(self)
        self.group.setAccessibleName("Group by")
        for key, title in GROUPS.items():
            self.group.addItem(title, key)
        self.scope = ScopeBox(self.workspace, self)
        self.scope.setAccessibleName("Grouping of the sums")
        self.levels = QSpinBox(self)
        self.levels.setRange(1, DEEPEST)
        self.levels.setPrefix("Levels: ")
        self.levels.setAccessibleName("Levels of scopes")
        self.levels.setToolTip("How many levels of scopes are listed separately")
        self.levels.hide()
        self.bindings = QLineEdit(self)
        self.bindings.setPlaceholderText("batch=1, seq=128")
        self.bindings.setAccessibleName("Numbers for named dimensions")
        self.bindings.setToolTip("Numbers for named dimensions; others stay in formulas")
        self.bindings.setFixedWidth(150)
        forward_undo(self.bindings)

    def _listen(self) -> None:
        self.group.currentIndexChanged.connect(lambda _: self._show())
        self.scope.changed.connect(self._show)
        self.levels.valueChanged.connect(lambda _: self._show())
        self.bindings.editingFinished.connect(self.refresh)
        self.colour.toggled.connect(lambda _: self._colour())
        self.save_button.clicked.connect(self._save)
        self.workspace.changes.changed.connect(self._on_change)
        self.workspace.types.changed.connect(self._on_change)
        self.workspace.highlights.overlay_changed.connect(self._on_overlay)

    def _make_table(self) -> RowTable:
        table = RowTable(self.model, "Statistics", self)
        table.setItemDelegate(BarDelegate(table))
        header = table.horizontalHeader()
        table.setColumnWidth(0, 150)
        header.setSortIndicator(4, Qt.SortOrder.DescendingOrder)
        for column in range(1, 1 + len(COLUMNS)):
            table.setColumnWidth(column, 60 if column == 1 else 98)
        table.setSortingEnabled(True)
        header.sortIndicatorChanged.connect(lambda *_: self._colour())
        table.selectionModel().currentRowChanged.connect(lambda *_: self._go())
        KeptSelection(table, self._about)
        return table

    # -- finding out ---------------------------------------------------------------------------------------------

    def _on_change(self, *_: object) -> None:
        self._delay.start()

    def _on_delay(self) -> None:
        if self.colour.isChecked():
            self.refresh()  # the graph shows it
        else:
            self.refresh_when_visible()

    def refresh(self) -> None:
        """Count again, in the background."""
        try:
            self._bound = sizes([part.strip() for part in self.bindings.text().split(",") if part.strip()])
        except ModelError as error:
            self.workspace.messages.report(error)
            return
        model, types, bound = self.workspace.model, self._types(), self._bound

        def count(progress: Progress) -> ModelStatistics:
            return statistics(model, lambda value: types.get(value, value.type), bound, progress)

        self.workspace.tasks.start("", partial(read_model, count), done=self._set, supersede="statistics")

    def _types(self) -> dict[Value, Type]:
        inferred = self.workspace.types.inferred
        return dict(inferred.types) if inferred is not None else {}

    def _set(self, found: ModelStatistics) -> None:
        self.found = found
        self._show()

    def _show(self) -> None:
        """Sum up the result, incrementally for very many nodes."""
        found, kind = self.found, self.group.currentData()
        self._summing.stop()
        if found is None:
            return
        nodes = self.scope.nodes
        part = None if nodes is None else part_of(nodes)
        level = self.levels.value() if self._has_levels else 0
        self._summing.start(
            lambda progress: _sums(found, kind, level, progress, part),
            self._show_sums,
        )

    def _show_sums(self, sums: _Sums) -> None:
        if sums.level and not self._has_levels:
            self._has_levels = True
            with QSignalBlocker(self.levels):
                self.levels.setValue(sums.level)
        self.levels.setVisible(self.group.currentData() == "scope")
        self.model.set_rows(sums.rows)
        names = sorted(filter(is_name, sums.symbols))[:3]
        self.bindings.setPlaceholderText(display(", ".join(f"{name}=1" for name in names), 40) or "all have numbers")
        total = sums.total
        unknown = f" · {plural(total.unknown, 'node')} not known" if total.unknown else ""
        if total.unsure:
            unknown += f" · {plural(total.unsure, 'node')} in loops of unknown length counted once"
        self.summary.setText(
            f"{amount_text(total.parameters, count_text)} parameters · "
            f"{amount_text(total.macs, count_text)} multiply-adds · "
            f"{amount_text(total.activation_bytes, bytes_text)} of activations{unknown}"
        )
        self.summary.setToolTip(plain_tip(self.summary.text()))
        self._colour()

    # -- acting --------------------------------------------------------------------------------------------------

    def _colour(self) -> None:
        if self.found is None:
            return
        if not self.colour.isChecked():
            if self._is_colouring:
                self._is_colouring = False
                self.workspace.runs.overlays.choose("")
            return
        column = max(self.table.horizontalHeader().sortIndicatorSection() - 1, 0)
        title, name, _ = COLUMNS[column or 3]
        self._is_colouring = True
        self._shown = _with_what_is_inside({n.node: magnitude(_amount(n, name)) for n in self.found.nodes})
        self.workspace.runs.overlays.show(self._shown, title)

    def _on_overlay(self, numbers: object, _title: str) -> None:
        if self._is_colouring and numbers is not self._shown:
            self._is_colouring = False
            self.colour.setChecked(False)

    def _about(self, number: int) -> Node | str:
        row = self.model.rows[number]
        return row.title if row.node is None else row.node

    def _go(self) -> None:
        index = self.table.currentIndex()
        node = self.model.rows[index.row()].node if 0 <= index.row() < len(self.model.rows) else None
        if node is not None and node.graph is not None:
            with self.scope.display_only():
                self.workspace.navigation.reveal(node)

    def _save(self) -> None:
        suggestion, filters = Path("statistics.csv"), ("Table (*.csv)",)
        path = ask_save(self, self.workspace.settings, "Save as CSV", suggestion, filters, "table")
        if path is not None:
            self.save(path)

    def save(self, path: Path) -> None:
        """Write the table in its order, with full numbers."""
        rows = ([row.title, *("" if a is None else ungrouped(a) for a in row.amounts)] for row in self.model.rows)
        try:
            write_csv(path, chain([["what", *(title.lower() for title, _, _ in COLUMNS)]], rows))
        except ModelError as error:
            self.workspace.messages.report(error)


def _sums(whole: ModelStatistics, kind: str, level: int, progress: Progress, part: Collection[Node] | None) -> _Sums:
    """Return the groups of a kind; without a scope level the best one is chosen."""
    among = whole if part is None else whole.among(part)
    total, symbols = among.total(progress), among.symbols(progress)
    if kind == "node":
        rows = [StatisticsRow(_title(n.node), n, n.node) for n in progress.paced(among.nodes)]
    elif kind == "operator":
        rows = [
            StatisticsRow(name, sum_) for name, sum_ in among.by(lambda node: node.qualified_op_type, progress).items()
        ]
    else:
        level = level or _first_level(among, progress)
        groups = among.by(partial(scope_of, depth=level), progress)
        rows = [StatisticsRow(name or "(no scope)", sum_) for name, sum_ in groups.items()]
    return _Sums(rows, total, symbols, level)


def _first_level(found: ModelStatistics, progress: Progress) -> int:
    """Return the first level at which no scope holds nearly all: the outermost is often the whole model."""
    for level in range(1, DEEPEST):
        counts = Counter(scope_of(n.node, level) for n in progress.paced(found.nodes))
        del counts[""]
        if counts and max(counts.values()) <= _NEARLY_ALL * counts.total():
            return level
    return 1


def _title(node: Node) -> str:
    return f"{node.op_type}  {node.name}" if node.name else f"[{node.op_type}]"
