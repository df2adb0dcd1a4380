"""Layers of a quantized model with what each costs: as a table, as colours on the graph, and as a plot of ranges."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QCheckBox, QLabel, QSizePolicy, QSplitter, QVBoxLayout, QWidget

from onnx_workbench.exec.transform.quantization.plan import fixed_tensor
from onnx_workbench.model.ir.graph import Node
from onnx_workbench.model.text.formatting import bytes_text, display, number_text
from onnx_workbench.viewer.plots.histogram import Histogram
from onnx_workbench.viewer.plots.loss_curve import LossCurve
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.style.tooltips import plain_tip
from onnx_workbench.viewer.tables.number_table import NumberCell, NumberColumn, NumberRow, NumberTable
from onnx_workbench.viewer.widgets.plain_label import plain_label

if TYPE_CHECKING:
    from onnx_workbench.exec.transform.quantization.quantize import LayerLoss
    from onnx_workbench.exec.transform.quantization.ranges import Histogram as Distribution
    from onnx_workbench.exec.transform.quantization.ranges import Scale
    from onnx_workbench.viewer.run.session.quantization import Trial

_COLUMNS = (
    NumberColumn("Keep in float", number=False, tip="Ticked layers stay in float when it is measured again"),
    NumberColumn("Operator", 14, number=False),
    NumberColumn("Weights", 9, tip="Bytes of its constants before", amount=True),
    NumberColumn("Saves", 9, tip="Bytes less if this layer alone is quantized", amount=True),
    NumberColumn("Alone (dB)", 13, tip="Signal to noise of the outputs if this layer alone is quantized"),
    NumberColumn("Layer (dB)", 13, tip="Signal to noise of its output, with the layers before it quantized"),
    NumberColumn("Local (dB)", 13, tip="Signal to noise of its output, with the layers before it in float"),
    NumberColumn("Why in float", 18, number=False, tip="Why it stays in float"),
)
_SAVES, _ALONE, _ACCUMULATED = 3, 4, 5
_BARS = 160
_TITLE = "Error of quantization (%)"


def ratio_text(snr: float | None) -> str:
    """Return a signal-to-noise ratio with its unit."""
    return "" if snr is None else "equal" if snr == inf else f"{snr:.1f} dB"


class QuantizedLayers(QWidget):
    """What quantization costs, layer by layer, worst first; a click goes to the node."""

    kept_changed = Signal()

    def __init__(self, workspace: Workspace) -> None:
        super().__init__()
        self._workspace = workspace
        self.kept: set[str] = set()  #: names of layers that the user keeps in float
        self._choosable: set[str] = set()  # names of layers that are quantized, or kept by the user
        self._nodes: Mapping[str, Node] = {}
        self._layers: list[LayerLoss] = []
        self._ranges: Mapping[str, tuple[Distribution, Scale]] = {}
        self.table = NumberTable("Layers", _COLUMNS)
        self.table.source.tick_of = self._is_kept
        self.table.source.ticked.connect(self._keep)
        self.table.chosen.connect(self._go)
        self.table.selectionModel().selectionChanged.connect(self._on_selected)
        self.plot = Histogram()
        self.plot.set_logarithmic(on=True)
        self.curve = LossCurve()
        self.curve.setToolTip("Layers that cost most are kept in float. A click sets what to reach")
        self.caption = plain_label(wraps=False)
        self.caption.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.colour = QCheckBox("Colour graph")
        self.colour.setToolTip("Colour the nodes by the error of their outputs")
        self.colour.setChecked(True)
        self.colour.toggled.connect(self._colour)
        self._arrange()

    def _arrange(self) -> None:
        self._distribution, self._sizes = (QWidget() for _ in range(2))
        below = QSplitter()
        for holder, caption, plot in (
            (self._distribution, self.caption, self.plot),
            (self._sizes, QLabel("Size against loss"), self.curve),
        ):
            column = QVBoxLayout(holder)
            column.setContentsMargins(0, 4, 0, 0)
            column.addWidget(caption)
            column.addWidget(plot, 1)
            holder.hide()
            below.addWidget(holder)
        parts = QSplitter(Qt.Orientation.Vertical)
        parts.addWidget(self.table)
        parts.addWidget(below)
        parts.setStretchFactor(0, 2)
        parts.setStretchFactor(1, 1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(parts, 1)
        layout.addWidget(self.colour)
        self._on_selected()

    def show_trial(self, trial: Trial) -> None:
        """List the layers of a quantization."""
        report, self._nodes, self._ranges = trial.report, trial.nodes, trial.ranges
        self._layers = report.layers
        self._choosable = {layer.name for layer in report.layers if not layer.kept or layer.name in self.kept}
        self.table.set_rows([NumberRow(layer, self._cells(layer)) for layer in report.layers])
        has_alone = any(layer.alone is not None for layer in report.layers)
        for column in (_SAVES, _ALONE):
            self.table.show_column(column, shown=has_alone)
        self._sizes.setVisible(self.curve.show_points(report.curve))
        self.table.sort_by(_ALONE if has_alone else _ACCUMULATED, descending=False)  # worst first
        self._colour()

    def _cells(self, layer: LayerLoss) -> tuple[NumberCell, ...]:
        node = self._nodes.get(layer.name)
        tensors = [] if node is None else [fixed_tensor(value) for value in node.inputs]
        size = sum(tensor.nbytes for tensor in tensors if tensor is not None)
        return (
            NumberCell(display(layer.name, 80), tip=display(layer.name, 500)),
            NumberCell(layer.operator, role="muted"),
            NumberCell(bytes_text(size) if size else "", size),
            NumberCell("" if layer.saved is None else bytes_text(layer.saved), layer.saved or 0),
            _ratio(layer.alone),
            _ratio(layer.accumulated),
            _ratio(layer.local),
            NumberCell(display(layer.kept, 120), role="muted", tip=display(layer.kept, 500)),
        )

    def _go(self, layer: LayerLoss) -> None:
        node = self._nodes.get(layer.name)
        if node is not None and node.graph is not None:
            self._workspace.navigation.reveal(node)

    def _is_kept(self, layer: LayerLoss) -> bool | None:
        """Return whether the user keeps a layer in float; None where it cannot be quantized."""
        return layer.name in self.kept if layer.name in self._choosable else None

    def _keep(self, layer: LayerLoss, is_kept: bool) -> None:
        (self.kept.add if is_kept else self.kept.discard)(layer.name)
        self.kept_changed.emit()

    def _on_selected(self, *_: object) -> None:
        chosen = self.table.selected()
        self._show_range(self._nodes.get(chosen[0].name) if chosen else None)

    def _show_range(self, node: Node | None) -> None:
        """Plot the distribution of what a layer reads, with the range that is represented."""
        value = next((v.name for v in (node.inputs if node is not None else ()) if v and v.name in self._ranges), None)
        counts, edges = ((), ()) if value is None else self._ranges[value][0].coarse(_BARS)
        self._distribution.setVisible(bool(counts))
        if value is None or not counts:
            return
        ends = self._ranges[value][1].ends
        low, high = (number_text(end, 4) for end in ends)
        self.caption.setText(f"Range {low} to {high} of {display(value, 60)}")
        self.caption.setToolTip(plain_tip(f"Values of {display(value, 500)} in calibration, and the range chosen"))
        self.plot.show_range(ends)
        self.plot.show_counts(counts, edges)

    # -- colours -------------------------------------------------------------------------------------------------

    def _colour(self, *_: object) -> None:
        errors = {
            node: 100 * 10 ** (-loss / 20)
            for layer in self._layers
            if (loss := layer.accumulated if layer.alone is None else layer.alone) is not None and loss < inf
            if (node := self._nodes.get(layer.name)) is not None
        }
        if errors and self.colour.isChecked():
            self._workspace.runs.overlays.show(errors, _TITLE)
        else:
            self.uncolour()

    def uncolour(self) -> None:
        """Remove the colours."""
        overlays = self._workspace.runs.overlays
        if overlays.has(_TITLE):
            overlays.choose("")


def _ratio(snr: float | None) -> NumberCell:
    return NumberCell("", inf) if snr is None else NumberCell("equal" if snr == inf else f"{snr:.1f}", snr)
