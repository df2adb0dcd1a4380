"""Quantize dialog: how to quantize, what it costs measured on a copy, then as one edit."""

from __future__ import annotations

import glob
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QFormLayout,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QProgressBar,
    QPushButton,
    QVBoxLayout,
    QWidget,
)
from shiboken6 import isValid

from onnx_workbench.exec.inputs.sources import File
from onnx_workbench.exec.transform.quantization.calibration import samples_of, split
from onnx_workbench.exec.transform.quantization.plan import METHODS, PRESETS, QuantizeOptions
from onnx_workbench.exec.transform.quantization.quantize import Quantization, QuantizationReport
from onnx_workbench.exec.transform.quantization.ranges import CALIBRATIONS
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.steps import Step
from onnx_workbench.model.progress import Progress
from onnx_workbench.model.recovery.write_ahead import Recording, recording_of
from onnx_workbench.model.text.formatting import bytes_text, display, plural
from onnx_workbench.viewer.dialogs.quantized_layers import QuantizedLayers, ratio_text
from onnx_workbench.viewer.dialogs.text_prompt import ErrorLabel
from onnx_workbench.viewer.popups.file_dialogs import ask_file, ask_folder
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.style.labels import without_mnemonic
from onnx_workbench.viewer.style.tooltips import wrapped
from onnx_workbench.viewer.widgets.dialog_buttons import without_icons
from onnx_workbench.viewer.widgets.number_edit import NumberEdit
from onnx_workbench.viewer.workflows.apply_edits import apply_edits
from onnx_workbench.viewer.workflows.working_copies import copy_model

if TYPE_CHECKING:
    from onnx_workbench.exec.inputs.images import ImageOptions
    from onnx_workbench.exec.values.arrays import RuntimeValue
    from onnx_workbench.viewer.core.tasks import Task

_KEY = "quantize"
_RANDOM, _LAST_RUN, _FILE, _FOLDER = "random", "run", "file", "folder"
_INVITATION = "Choose a method and typical inputs. Measure tries it on a copy; the model stays as it is."
_MOST_LINES = 8  # of remarks


@dataclass(frozen=True, slots=True)
class _Measured:
    """A quantized copy of the model of a revision, and what that costs."""

    report: QuantizationReport
    work: Quantization
    steps: list[Step]
    recording: Recording | None
    revision: int


class QuantizeDialog(QDialog):
    """Modeless dialog: Measure quantizes a copy and lists what each layer costs, Quantize makes that one edit."""

    def __init__(self, workspace: Workspace, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Quantize")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.resize(680, 640)
        self.workspace = workspace
        self._measured: _Measured | None = None
        self._task: Task[Any] | None = None
        self._path: Path | None = None  # of the data
        self._asked: tuple[object, ...] = ()  # the choices that were measured
        self._is_applying = False
        self.form = QWidget()
        self._make_fields()
        self._make_form()
        self.state = QLabel(_INVITATION)
        self.state.setTextFormat(Qt.TextFormat.PlainText)
        self.state.setWordWrap(True)
        self.state.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.error = ErrorLabel()
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setFixedHeight(6)
        self.bar.hide()
        self.layers = QuantizedLayers(workspace)
        self.layers.keep_toggled.connect(self._toggle_kept)
        self._make_buttons()
        layout = QVBoxLayout(self)
        layout.addWidget(self.form)
        for part in (self.state, self.error):
            layout.addWidget(part)
        layout.addWidget(self.layers, 1)
        layout.addWidget(self.bar)
        layout.addWidget(self.buttons)
        workspace.changes.changed.connect(self._on_change)
        self._enable()

    # -- choices -------------------------------------------------------------------------------------------------

    def _make_fields(self) -> None:
        self.method = QComboBox()
        for name, title in (
            ("static", "static: activations with ranges from calibration"),
            ("dynamic", "dynamic: activations with ranges found when it runs"),
            ("weights", "weights alone"),
        ):
            self.method.addItem(title, name)
        self.preset = QComboBox()
        for name, preset in PRESETS.items():
            self.preset.addItem(f"{name}: {preset.doc}", name)
        self.type, self.calibration = QComboBox(), QComboBox()
        self.calibration.addItems([*CALIBRATIONS])
        self.percentile = NumberEdit("Percentile", "99.99")
        self.block_size = NumberEdit("Block size", "32", count=True)
        self.per_channel = QCheckBox("Scale per channel")
        self.per_channel.setChecked(True)
        self.symmetric = QCheckBox("Symmetric")
        self.symmetric.setToolTip("Zero points in the middle of the type")
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
        for title, field in (
            ("&Method:", self.method),
            ("&Target:", self.preset),
            ("T&ype:", self.type),
            ("&Inputs:", self.data),
            ("&Calibration:", self.calibration),
            ("&Percentile:", self.percentile),
            ("&Block size:", self.block_size),
            ("", _in_a_row(self.per_channel, self.symmetric)),
            ("&Keep in float:", self.keep),
            ("&Reach (dB):", self.reach),
            ("", self.alone),
        ):
            form.addRow(title, field)
            if title:
                field.setAccessibleName(without_mnemonic(title).rstrip(":"))
        self._fill_data()
        for combo in (self.method, self.preset):
            combo.currentIndexChanged.connect(self._on_choice)
        for combo in (self.type, self.calibration):
            combo.currentIndexChanged.connect(self._outdate)
        self.calibration.currentIndexChanged.connect(lambda _: self._show_rows())
        self.data.activated.connect(self._on_data)
        for line in (self.keep, self.percentile, self.block_size, self.reach):
            line.textEdited.connect(self._outdate)
        for box in (self.per_channel, self.symmetric, self.alone):
            box.toggled.connect(self._outdate)
        self._on_choice()

    def _make_buttons(self) -> None:
        self.buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Ok | QDialogButtonBox.StandardButton.Cancel)
        self.ok = self.buttons.button(QDialogButtonBox.StandardButton.Ok)
        self.ok.setText("Quantize")
        self.measure_button = QPushButton("Measure")
        self.measure_button.setToolTip("Quantize a copy and compare it with float")
        self.buttons.addButton(self.measure_button, QDialogButtonBox.ButtonRole.ActionRole)
        without_icons(self.buttons.buttons())
        self.measure_button.clicked.connect(self.measure)
        self.buttons.accepted.connect(self.apply)
        self.buttons.rejected.connect(self.reject)

    def _fill_data(self) -> None:
        """List the sources of inputs; a chosen path keeps its entry."""
        chosen = self.data.currentData()
        self.data.clear()
        if self._path is not None:
            self.data.addItem(display(str(self._path), 60), self._path)
        if self.workspace.results.current is not None:
            self.data.addItem("inputs of the last run", _LAST_RUN)
        self.data.addItem("random", _RANDOM)
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
        self._outdate()

    def set_data(self, path: Path | None) -> None:
        """Choose a file or folder of inputs; None: not one."""
        self._path = path
        self.data.setCurrentIndex(-1)
        self._fill_data()
        self._outdate()

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
        self._show_rows()
        self._outdate()

    def _show_rows(self) -> None:
        is_static = self.method.currentData() == "static"
        self._form.setRowVisible(self.calibration, is_static)
        self._form.setRowVisible(self.percentile, is_static and self.calibration.currentText() == "percentile")
        self._form.setRowVisible(self.block_size, self.type.currentText() in ("int4", "int2"))
        always = PRESETS[self.preset.currentData()].symmetric
        self.symmetric.setEnabled(not always)
        self.symmetric.setChecked(always or self.symmetric.isChecked())

    def options(self) -> QuantizeOptions:
        """Return what was chosen."""
        percentile, block = self.percentile.number(), self.block_size.number()
        return QuantizeOptions(
            method=self.method.currentData(),
            type=self.type.currentText(),
            calibration=self.calibration.currentText(),
            percentile=99.99 if percentile is None else percentile,
            per_channel=self.per_channel.isChecked(),
            symmetric=self.symmetric.isChecked(),
            block_size=32 if block is None else int(block),
            keep=self._kept(),
            preset=self.preset.currentData(),
        )

    def _kept(self) -> list[str]:
        return [part.strip() for part in self.keep.text().split(",") if part.strip()]

    def _toggle_kept(self, names: list[str]) -> None:
        """Keep layers in float that are not kept yet, and quantize those again that are."""
        kept = self._kept()
        for name in names:
            pattern = glob.escape(name).replace(",", "?")  # a comma is between two patterns
            if pattern in kept:
                kept.remove(pattern)
            else:
                kept.append(pattern)
        self.keep.setText(", ".join(kept))
        self._outdate()

    # -- measuring -----------------------------------------------------------------------------------------------

    def _outdate(self, *_: object) -> None:
        """A result of other choices, or of another model, must not be applied; it stays to be looked at."""
        self._show_rows()
        self._enable()

    def _on_change(self, *_: object) -> None:
        if not self._is_applying:
            if self._task is not None:
                self._task.cancel()
            self._enable()

    def _is_current(self) -> bool:
        """Return whether what was measured is of these choices and this model."""
        found = self._measured
        return (
            found is not None
            and not found.report.refused
            and found.revision == self.workspace.document.revision
            and self._asked == self._choices()
        )

    def _choices(self) -> tuple[object, ...]:
        options = self.options()
        return options, self.data.currentData(), self.reach.number(), self.alone.isChecked()

    def _enable(self) -> None:
        if hasattr(self, "buttons"):  # not while the form is made
            is_busy = self._task is not None and not self._task.finished
            self.ok.setEnabled(not is_busy and self._is_current())
            self.measure_button.setEnabled(not is_busy)
            self.form.setEnabled(not is_busy)

    def measure(self) -> None:
        """Quantize a copy in the background and measure the loss."""
        self.error.show_error(None)
        try:
            self._begin()
        except ModelError as error:
            self.error.show_error(error)

    def _begin(self) -> None:
        workspace, self._asked = self.workspace, self._choices()
        options, reach, alone = self.options(), self.reach.number(), self.alone.isChecked()
        options.checked()
        source, image = self._source(), self._image()

        def work(progress: Progress) -> _Measured:
            copy, revision = copy_model(workspace, progress)
            given = source() if callable(source) else source
            samples = split(samples_of(given, copy.document.model.graph, image))
            quantization = Quantization(copy, options, samples)
            report = quantization.run(reach=reach, alone=alone, progress=progress)
            return _Measured(report, quantization, copy.steps(), recording_of(copy), revision)

        self._start("Quantizing a copy and comparing outputs…")
        self._task = workspace.tasks.start(
            "Quantizing a copy",
            work,
            done=lambda measured: self._show(measured) if isValid(self) else None,
            failed=self._failed,
            finished=self._ended,
            supersede=_KEY,
        )
        self._enable()

    def _source(self) -> Path | Callable[[], list[Mapping[str, RuntimeValue]]] | None:
        """Return a path, None for random inputs, or a function that reads those of the last run."""
        chosen = self.data.currentData()
        if isinstance(chosen, Path):
            return chosen
        if chosen == _RANDOM:
            return None
        record = self.workspace.results.current
        if record is None or not self.workspace.results.is_current:
            raise ModelError("The model was not run", "Run it first, or choose other inputs.")
        names = [value.name for value in self.workspace.model.graph.required_inputs]
        return lambda: [{name: record.result.value(name) for name in names}]

    def _image(self) -> ImageOptions | None:
        """Return how the Run panel reads the picture of its input, if it does."""
        sources = self.workspace.runs.inputs.sources.values()
        return next((one.image for one in sources if isinstance(one, File) and one.image is not None), None)

    def _start(self, text: str) -> None:
        self.state.setText(text)
        self.bar.setRange(0, 0)
        self.bar.show()

    def _failed(self, error: BaseException) -> None:
        self.state.setText("Nothing was changed.")
        if isinstance(error, ModelError):
            self.error.show_error(error)

    def _ended(self) -> None:
        if self._task is not None and self._task.finished:
            self.bar.hide()
            if self._task.cancelled:
                self.state.setText("Stopped. Nothing was changed.")
            self._enable()

    def _show(self, measured: _Measured) -> None:
        self._measured, report = measured, measured.report
        self.layers.show_report(report, measured.work.ranges)
        outputs = [f"{display(name, 40)} {ratio_text(snr)}" for name, snr in report.outputs.items()]
        if len(outputs) > _MOST_LINES:
            outputs = [f"the worst of {plural(len(outputs), 'output')} {ratio_text(report.snr)}"]
        size = f"{bytes_text(report.before)} of weights become {bytes_text(report.after)}"
        lines = [
            f"{plural(len(report.quantized), 'layer')} quantized; {size}.",
            f"Signal to noise on {plural(report.checked, 'input')}: {'; '.join(outputs)}." if outputs else "",
            *(display(f"{remark[:1].upper()}{remark[1:]}.", 300) for remark in report.remarks[:_MOST_LINES]),
            f"It cannot be used: {report.refused}." if report.refused else "",
        ]
        self.state.setText("\n".join(filter(None, lines)))

    # -- doing it ------------------------------------------------------------------------------------------------

    def apply(self) -> None:
        """Make what was measured one edit of the document, and close."""
        measured, workspace = self._measured, self.workspace
        if measured is None or not self._is_current():
            self._enable()
            return
        title = f"Quantize: {self.method.currentData()} {self.type.currentText()}"
        self._is_applying = True
        self._start(f"Changing the model: {plural(len(measured.steps), 'step')}…")
        edits = [(title, measured.steps)]
        self._task = workspace.tasks.start(
            "Quantizing",
            lambda progress: apply_edits(workspace, edits, measured.revision, measured.recording, progress),
            done=lambda is_applied: self._applied(is_applied) if isValid(self) else None,
            failed=self._failed,
            finished=self._ended,
            makes="edit",
        )
        self._enable()

    def _applied(self, is_applied: bool) -> None:
        self._is_applying = False
        if is_applied:
            text = f"Quantized; {self.state.text().splitlines()[0]}"
            self._measured = None
            self.accept()
            self.workspace.messages.show("info", text)
        else:  # the model was changed meanwhile
            self.state.setText("The model was changed. Measure again.")

    def done(self, result: int) -> None:
        """Cancel running work, and an edit that is not applied yet."""
        if self._task is not None:
            self._task.cancel()
        with suppress(RuntimeError):  # closed twice
            self.workspace.changes.changed.disconnect(self._on_change)
        self.layers.uncolour()
        super().done(result)


def _in_a_row(*widgets: QWidget) -> QWidget:
    holder = QWidget()
    row = QHBoxLayout(holder)
    row.setContentsMargins(0, 0, 0, 0)
    for widget in widgets:
        row.addWidget(widget)
    row.addStretch(1)
    return holder
