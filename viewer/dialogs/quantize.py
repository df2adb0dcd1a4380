"""Quantize dialog: how to quantize, what it costs measured on a copy, then as one edit."""

from __future__ import annotations

from math import floor
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDialogButtonBox,
    QFormLayout,
    QLabel,
    QLineEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from onnx_workbench.exec.transform.quantization.plan import METHODS, PRESETS, QuantizeOptions
from onnx_workbench.exec.transform.quantization.quantize import QuantizationReport
from onnx_workbench.exec.transform.quantization.ranges import CALIBRATIONS
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.text.formatting import bytes_text, display, plural
from onnx_workbench.viewer.dialogs.preview import PreviewDialog
from onnx_workbench.viewer.dialogs.quantized_layers import QuantizedLayers, ratio_text
from onnx_workbench.viewer.popups.file_dialogs import ask_file, ask_folder
from onnx_workbench.viewer.run.session.quantization import Request, Trial, attempt
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.style.choices import choice_title
from onnx_workbench.viewer.style.labels import without_mnemonic
from onnx_workbench.viewer.style.tooltips import wrapped
from onnx_workbench.viewer.widgets.dialog_buttons import without_icons
from onnx_workbench.viewer.widgets.flow_layout import in_a_row
from onnx_workbench.viewer.widgets.number_edit import NumberEdit

_RUN_PANEL, _FILE, _FOLDER = "run", "file", "folder"
_INVITATION = "Choose a method and typical inputs. Measure tries it on a copy; the model stays as it is."
_MOST_LINES = 8  # of remarks


class QuantizeDialog(PreviewDialog):
    """Modeless dialog: Measure quantizes a copy and lists what each layer costs, Quantize makes that one edit."""

    def __init__(self, workspace: Workspace, parent: QWidget | None = None) -> None:
        super().__init__(workspace, "Quantize", parent)
        self.resize(760, 660)
        self._trial: Trial | None = None
        self._path: Path | None = None  # of the data
        self._asked: Request | None = None  # that was measured
        self._make_fields()
        self._make_form()
        self.state.setText(_INVITATION)
        self.state.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.layers = QuantizedLayers(workspace)
        self._make_buttons()
        layout = QVBoxLayout(self)
        for part in (self.form, self.state, self.error, self.layers, self.bar, self.buttons):
            layout.addWidget(part)
        layout.setStretchFactor(self.layers, 1)
        self.layers.kept_changed.connect(self._enable)
        self.layers.curve.chosen.connect(self._set_reach)
        workspace.changes.changed.connect(self._on_change)
        workspace.runs.inputs.changed.connect(self._enable)
        self._on_choice()

    # -- choices -------------------------------------------------------------------------------------------------

    def _make_fields(self) -> None:
        self.method = QComboBox()
        for name in METHODS:
            self.method.addItem(choice_title(name), name)
        self.preset = QComboBox()
        for name, preset in PRESETS.items():
            self.preset.addItem(f"{name}: {preset.doc}", name)
        self.type, self.calibration = QComboBox(), QComboBox()
        for name in CALIBRATIONS:
            self.calibration.addItem(choice_title(name), name)
        self.percentile = NumberEdit("Percentile", f"{QuantizeOptions().percentile:g}")
        self.block_size = NumberEdit("Block size", str(QuantizeOptions().block_size), count=True)
        self.per_channel = QCheckBox("Scale per channel")
        self.per_channel.setChecked(True)
        self.symmetric = QCheckBox("Symmetric")
        self.symmetric.setToolTip("Zero points in the middle of the type")
        self.compensate = QCheckBox("Compensate errors (GPTQ)")
        self.compensate.setToolTip(wrapped("Choose weights of matrices so that their errors cancel out on the inputs"))
        self.data = QComboBox()
        self.data.setToolTip(
            wrapped(
                "A file is .npz, .json or a picture; a folder has such files or test_data_set folders. Pictures are "
                "read as the Run panel reads the one of its input. Every fourth sample is kept aside for the loss"
            )
        )
        self.keep = QLineEdit()
        self.keep.setPlaceholderText("Softmax, */attention/*")
        self.keep.setToolTip(wrapped("Operators, or patterns of node names, that stay in float"))
        self.reach = NumberEdit("Reach", "no limit")
        self.reach.setToolTip(
            wrapped("Keep the fewest layers in float with which all outputs have this signal-to-noise ratio")
        )
        self.alone = QCheckBox("Measure each layer alone")
        self.alone.setToolTip(wrapped("Quantize one layer at a time and measure the outputs: one run for each layer"))
        for edit in (self.percentile, self.block_size, self.reach):
            edit.setFixedWidth(80)

    def _make_form(self) -> None:
        self._form = form = QFormLayout(self.form)
        form.setContentsMargins(0, 0, 0, 0)
        form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        for title, *fields in (
            ("&Method:", self.method),
            ("&Target and type:", self.preset, self.type),
            ("&Inputs:", self.data),
            ("&Calibration:", self.calibration),
            ("&Percentile:", self.percentile),
            ("&Block size:", self.block_size),
            ("", self.per_channel, self.symmetric, self.compensate),
            ("&Keep in float:", self.keep),
            ("&Reach (dB):", self.reach, self.alone),
        ):
            form.addRow(title, fields[0] if len(fields) == 1 else in_a_row(*fields, is_left=True))
            label = form.itemAt(form.rowCount() - 1, QFormLayout.ItemRole.LabelRole)
            if label is not None and isinstance(text := label.widget(), QLabel):
                text.setBuddy(fields[0])
                fields[0].setAccessibleName(without_mnemonic(title).rstrip(":"))
        self.type.setAccessibleName("Type")
        self._fill_data()
        for combo in (self.method, self.preset, self.type):
            combo.currentIndexChanged.connect(self._on_choice)
        self.calibration.currentIndexChanged.connect(self._show_rows)
        self.data.activated.connect(self._on_data)
        for line in (self.keep, self.percentile, self.block_size, self.reach):
            line.textEdited.connect(self._enable)
        for box in (self.per_channel, self.symmetric, self.compensate, self.alone):
            box.toggled.connect(self._enable)

    def _make_buttons(self) -> None:
        self.ok.setText("Quantize")
        self.measure_button = QPushButton("Measure")
        self.measure_button.setToolTip("Quantize a copy and compare it with float")
        self.buttons.addButton(self.measure_button, QDialogButtonBox.ButtonRole.ActionRole)
        without_icons(self.buttons.buttons())
        self.measure_button.clicked.connect(self.preview)

    def _fill_data(self) -> None:
        """List the sources of inputs; a chosen path keeps its entry."""
        chosen = self.data.currentData()
        self.data.clear()
        if self._path is not None:
            self.data.addItem(display(str(self._path), 60), self._path)
        self.data.addItem("inputs of the Run panel", _RUN_PANEL)
        self.data.addItem("File…", _FILE)
        self.data.addItem("Folder…", _FOLDER)
        kept = next((at for at in range(self.data.count()) if self.data.itemData(at) == chosen), 0)
        self.data.setCurrentIndex(kept if chosen not in (_FILE, _FOLDER) else 0)

    def _on_data(self, *_: object) -> None:
        chosen = self.data.currentData()
        if chosen in (_FILE, _FOLDER):
            settings = self.workspace.settings
            filters = ("Inputs (*.npz *.json *.png *.jpg *.jpeg *.bmp)", "All files (*)")
            path = (
                ask_folder(self, settings, "Inputs for calibration")
                if chosen == _FOLDER
                else ask_file(self, settings, "Inputs for calibration", filters)
            )
            self.set_data(path or self._path)
        self._enable()

    def set_data(self, path: Path | None) -> None:
        """Choose a file or folder of inputs; None: not one."""
        self._path = path
        self.data.setCurrentIndex(-1)
        self._fill_data()
        self._enable()

    def _on_choice(self, *_: object) -> None:
        """Offer the types of the method and target, and the fields that mean something for them."""
        method, chosen = self.method.currentData(), self.type.currentText()
        preset = PRESETS[self.preset.currentData()]
        types = [name for name in preset.types if name in METHODS["static"]] if method == "static" else METHODS[method]
        self.type.blockSignals(True)
        self.type.clear()
        self.type.addItems(types)
        self.type.setCurrentIndex(max(self.type.findText(chosen), 0))
        self.type.blockSignals(False)
        options = QuantizeOptions(method=method, preset=self.preset.currentData(), type=self.type.currentText())
        self.symmetric.setChecked(bool(options.checked().symmetric))
        self.symmetric.setEnabled(not preset.symmetric)
        self.compensate.setVisible(method == "weights")
        self._show_rows()

    def _show_rows(self, *_: object) -> None:
        is_static = self.method.currentData() == "static"
        self._form.setRowVisible(self.calibration, is_static)
        self._form.setRowVisible(self.percentile, is_static and self.calibration.currentData() == "percentile")
        self._form.setRowVisible(self.block_size, self.type.currentText() in ("int4", "int2"))
        self._enable()

    def options(self) -> QuantizeOptions:
        """Return what was chosen."""
        percentile, block = self.percentile.number(), self.block_size.number()
        return QuantizeOptions(
            method=self.method.currentData(),
            type=self.type.currentText(),
            calibration=self.calibration.currentData(),
            percentile=QuantizeOptions().percentile if percentile is None else percentile,
            per_channel=self.per_channel.isChecked(),
            symmetric=self.symmetric.isChecked(),
            block_size=QuantizeOptions().block_size if block is None else int(block),
            keep=tuple(part.strip() for part in self.keep.text().split(",") if part.strip()),
            preset=self.preset.currentData(),
            compensate=self.compensate.isChecked() and self.method.currentData() == "weights",
        )

    # -- measuring -----------------------------------------------------------------------------------------------

    def _set_reach(self, snr: float) -> None:
        """Set what to reach to a ratio that was measured, rounded down so that it can be reached again."""
        self.reach.setText(f"{floor(10 * snr) / 10:g}")
        self._enable()

    def _request(self) -> Request:
        inputs = self.workspace.runs.inputs.recipe()
        path = self._path if self.data.currentData() == self._path else None
        return Request(
            self.options(),
            inputs,
            path,
            self.reach.number(),
            self.alone.isChecked(),
            frozenset(self.layers.kept),
            inputs.signature if path is None else None,
        )

    def _is_current(self) -> bool:
        """Return whether what was measured is of these choices and this model."""
        trial = self._trial
        is_known = trial is not None and not trial.report.refused and self._asked == self._request()
        return is_known and self._revision == self.workspace.document.revision

    def _enable(self, *_: object) -> None:
        """What was measured for other choices must not be applied; it stays to be looked at."""
        is_busy = self._is_busy
        self.ok.setEnabled(not is_busy and self._is_current())
        self.measure_button.setEnabled(not is_busy)
        self.form.setEnabled(not is_busy)
        self.layers.setEnabled(not is_busy)
        self.cancel.setText("Stop" if is_busy else "Cancel")

    def _on_change(self, *_: object) -> None:
        if not self._is_done:
            if self._task is not None:
                self._task.cancel()
            self._enable()

    def preview(self) -> None:
        """Quantize a copy in the background and measure the loss."""
        request, workspace = self._request(), self.workspace
        try:
            request.options.checked()
        except ModelError as error:
            self._failed(error)
            return
        self._asked = request
        self._start(
            "Quantizing a copy and comparing outputs…",
            "Quantizing a copy",
            lambda progress: attempt(workspace, request, progress),
            self._show,
            supersede="quantize",
        )
        self._enable()

    def _ended(self) -> None:
        super()._ended()
        self._enable()

    def _show(self, trial: Trial) -> None:
        self._trial, self._revision = trial, trial.revision
        self.layers.show_trial(trial)
        self.state.setText(report_text(trial.report))

    # -- doing it ------------------------------------------------------------------------------------------------

    def apply(self) -> None:
        """Make what was measured one edit of the document, and close."""
        if self._trial is not None and self._is_current():
            title = f"Quantize: {self.method.currentData()} {self.type.currentText()}"
            self._change(title, self._trial.steps, self._trial.recording, self._applied)

    def _applied(self) -> None:
        assert self._trial is not None
        self.accept()
        self.workspace.messages.show("info", size_text(self._trial.report))

    def _cancel(self) -> None:
        """Stop measuring; close where nothing runs."""
        if self._is_busy and self._task is not None:
            self._task.cancel()
        else:
            self.reject()

    def done(self, result: int) -> None:
        """Remove the colours from the graph, too."""
        self.layers.uncolour()
        super().done(result)


def size_text(report: QuantizationReport) -> str:
    """Return how many layers are quantized, and the bytes of constants before and after."""
    size = f"{bytes_text(report.before)} of weights become {bytes_text(report.after)}"
    return f"{plural(len(report.quantized), 'layer')} quantized; {size}."


def report_text(report: QuantizationReport) -> str:
    """Describe what a quantization costs, or why it cannot be used."""
    outputs = [f"{display(name, 40)} {ratio_text(snr)}" for name, snr in report.outputs.items()]
    if len(outputs) > _MOST_LINES:
        outputs = [f"the worst of {plural(len(outputs), 'output')} {ratio_text(report.snr)}"]
    lines = [
        size_text(report),
        f"Signal to noise on {plural(report.checked, 'input')}: {'; '.join(outputs)}." if outputs else "",
        *(display(f"{remark[:1].upper()}{remark[1:]}.", 300) for remark in report.remarks[:_MOST_LINES]),
        f"It cannot be used: {report.refused}." if report.refused else "",
    ]
    return "\n".join(filter(None, lines))
