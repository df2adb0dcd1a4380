"""Quantization of a model as one piece of work: on a copy, calibrated, measured against float, then carried over."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, log10

import numpy as np

from onnx_workbench.exec.inspect.reference import available, run_onnxruntime
from onnx_workbench.exec.inspect.self_check import interface_changes, load_both
from onnx_workbench.exec.session import Session
from onnx_workbench.exec.transform.quantization.calibration import Samples, checked_feeds, observe
from onnx_workbench.exec.transform.quantization.plan import Kept, Layer, Plan, QuantizeOptions, plan
from onnx_workbench.exec.transform.quantization.ranges import Histogram, Scale
from onnx_workbench.exec.transform.quantization.rewrite import Quantizer, activations, scales_of
from onnx_workbench.exec.values.arrays import RuntimeValue
from onnx_workbench.model.convert import convert_opset, strip
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.steps import SetField
from onnx_workbench.model.history.working_copy import WorkingCopy
from onnx_workbench.model.inference import infer
from onnx_workbench.model.io.writer.save import to_file
from onnx_workbench.model.io.writer.storage_plan import DataLayout, Storage
from onnx_workbench.model.ir.graph import Model, Value
from onnx_workbench.model.progress import SILENT, Progress
from onnx_workbench.model.sandbox import make_own_folder
from onnx_workbench.model.simplify.pass_list import all_passes
from onnx_workbench.model.simplify.pipeline import figures, simplify

#: IR versions that the types of an opset came with.
_IR_VERSIONS = {25: 13, 21: 10, 19: 9, 13: 7}
_BEFORE = ("fuse_bn_into_conv", "fuse_bn_into_gemm")


@dataclass(frozen=True, slots=True)
class LayerLoss:
    """A layer: the signal-to-noise ratio of its output in decibels with everything before it quantized (accumulated),
    and that of the model's outputs where it is quantized alone (None: not measured); `kept` is why it stays in float.
    """

    name: str
    operator: str
    accumulated: float | None = None
    alone: float | None = None
    kept: str = ""


@dataclass(slots=True)
class QuantizationReport:
    """What was quantized and what that costs. Ratios are in decibels over all samples kept aside.

    `curve`: bytes of weights and the least ratio of an output for numbers of layers kept in float, as far as tried.
    """

    layers: list[LayerLoss] = field(default_factory=list)
    outputs: dict[str, float] = field(default_factory=dict)
    before: int = 0  # bytes of constants
    after: int = 0
    samples: int = 0  # for calibration
    checked: int = 0
    curve: list[tuple[int, int, float]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    refused: str = ""  # why the result cannot be used

    @property
    def snr(self) -> float:
        """The least signal-to-noise ratio of an output."""
        return min(self.outputs.values(), default=inf)

    @property
    def quantized(self) -> list[LayerLoss]:
        """Layers that are quantized."""
        return [layer for layer in self.layers if not layer.kept]


class _Noise:
    """Sums for the signal-to-noise ratio of values over several runs."""

    def __init__(self) -> None:
        self._sums: dict[str, tuple[float, float]] = {}
        self.problem = ""

    def add(self, name: str, ours: RuntimeValue, reference: RuntimeValue) -> None:
        """Count a value of both models, if it is a tensor of numbers."""
        if not isinstance(ours, np.ndarray) or not isinstance(reference, np.ndarray) or reference.dtype.kind in "OSU":
            return
        if ours.shape != reference.shape:
            self.problem = self.problem or f"{name} has the shape {list(ours.shape)}, and had {list(reference.shape)}"
            return
        exact, found = reference.astype(np.float64), ours.astype(np.float64)
        if np.isfinite(exact).all() and not np.isfinite(found).all():
            self.problem = self.problem or f"{name} is not finite any more"
            return
        usable = np.isfinite(exact) & np.isfinite(found)
        signal, noise = self._sums.get(name, (0.0, 0.0))
        difference = (found - exact)[usable]
        self._sums[name] = signal + float((exact[usable] ** 2).sum()), noise + float((difference**2).sum())

    def ratios(self) -> dict[str, float]:
        """Return the ratios in decibels by name; infinite for equal values."""
        return {name: _decibels(*sums) for name, sums in self._sums.items()}


def _decibels(signal: float, noise: float) -> float:
    if not noise:
        return inf
    return 10 * log10(signal / noise) if signal else -inf


class Quantization:
    """A copy of a model about to be quantized. Any thread, one at a time."""

    def __init__(self, copy: WorkingCopy, options: QuantizeOptions, samples: Samples) -> None:
        self.copy, self.options, self._samples = copy, options.checked(), samples
        self._histograms: dict[Value, Histogram] = {}
        self.ranges: dict[str, tuple[Histogram, Scale]] = {}  # of values by name: what occurred, and what was chosen
        self._reference: list[tuple[Mapping[str, RuntimeValue], Mapping[str, RuntimeValue]]] = []

    def run(
        self, *, reach: float | None = None, alone: bool = False, progress: Progress = SILENT
    ) -> QuantizationReport:
        """Quantize the copy and measure the loss. Call once. ModelError if data or options do not fit.

        `reach`: keep the fewest layers in float, those that cost most alone, with which all outputs have at least this
        ratio in decibels. `alone`: measure each layer alone without that, too. Cost: a run of both models per sample,
        and for these two one for each layer.
        """
        document = self.copy.document
        untouched = WorkingCopy(document.model, progress).document.model
        report = QuantizationReport(before=figures(document.model).nbytes)
        self._prepare(document, progress)
        decided = plan(document.model, self.options, infer(document.model, progress=progress).type_of)
        if not decided.layers:
            reasons = "; ".join(dict.fromkeys(f"{one.name}: {one.reason}" for one in decided.kept[:5]))
            raise ModelError("Nothing can be quantized", reasons or "The model has no layers with weights.")
        self._calibrate(document.model, decided, report, progress)
        self._measure_float(document.model, decided, progress)
        losses = self._alone(document.model, decided, progress) if alone or reach is not None else {}
        if reach is not None:
            decided = self._reached(document.model, decided, losses, reach, report, progress)
        names = {layer.name: _output(layer) for layer in decided.layers if _is_outermost(layer)}
        scales = self._scales(decided.layers)
        self.ranges = {value.name: (self._histograms[value], scale) for value, scale in scales.items()}
        with document.edit("Quantize") as edit:
            Quantizer(edit, self.options, scales, progress).run(decided.layers)
        report.after = figures(document.model).nbytes
        self._check(untouched, document.model, decided, names, losses, report, progress)
        return report

    def _prepare(self, document: Document, progress: Progress) -> None:
        """Bring the opset to what is needed, make defaults constants, and fold normalization into weights."""
        model, needed = document.model, self.options.opset
        if any(value.initializer is not None for value in model.graph.inputs):
            with document.edit("Make defaults constant") as edit:
                strip(edit, ["defaults"])
        if model.opset_imports.get("", needed) < needed:
            with document.edit("Convert operator set") as edit:
                convert_opset(
                    edit, needed, infer(model, progress=progress).type_of, progress,
                    infer=lambda: infer(model, progress=progress).type_of,
                )  # fmt: skip
        least = next(ir for opset, ir in _IR_VERSIONS.items() if needed >= opset)
        if model.ir_version < least:
            with document.edit("Set the IR version") as edit:
                edit.do(SetField(model, "ir_version", least))
        passes = [one for one in all_passes() if one.id in _BEFORE]
        simplify(document, passes, progress=progress)

    def _calibrate(self, model: Model, decided: Plan, report: QuantizationReport, progress: Progress) -> None:
        values = activations(decided.layers, self.options)
        report.checked = len(self._samples.check)
        if values:
            self._histograms = observe(model, values, self._samples.calibration, progress)
            report.samples = len(self._samples.calibration)
            if not self._samples.is_apart:
                report.remarks.append("the check uses the only sample, which ranges were calibrated with")

    def _scales(self, layers: Sequence[Layer]) -> dict[Value, Scale]:
        wanted = {value: self._histograms[value] for value in activations(layers, self.options)}
        return scales_of(wanted, self.options)

    def _measure_float(self, model: Model, decided: Plan, progress: Progress) -> None:
        """Keep the feeds of the check, and what float computes for outputs and layers."""
        self._reference = []
        for sample in self._samples.check:
            feeds = checked_feeds(sample, model.graph)
            self._reference.append((feeds, _run(model, feeds, _layer_outputs(decided.layers), progress)))

    def _noise(self, model: Model, names: Collection[str], progress: Progress) -> _Noise:
        noise = _Noise()
        for feeds, expected in self._reference:
            found = _run(model, feeds, [name for name in names if name in expected], progress)
            for name, value in found.items():
                noise.add(name, value, expected[name])
        return noise

    def _quantized(self, model: Model, layers: Sequence[Layer], progress: Progress) -> Model:
        """Return a copy of the prepared model with these layers quantized."""
        copy = WorkingCopy(model, progress)
        scales = copy.of_copies(self._scales(layers))
        taken = [replace(layer, node=copy.copy_of(layer.node)) for layer in layers]
        with copy.document.edit("Quantize") as edit:
            Quantizer(edit, self.options, scales, progress).run(taken)
        return copy.document.model

    def _alone(self, model: Model, decided: Plan, progress: Progress) -> dict[str, float]:
        """Return the least ratio of an output for each layer quantized alone."""
        found = {}
        for number, layer in enumerate(decided.layers):
            progress.report(number, len(decided.layers), "Quantizing each layer alone")
            noise = self._noise(self._quantized(model, [layer], progress), (), progress)
            found[layer.name] = -inf if noise.problem else min(noise.ratios().values(), default=inf)
        return found

    def _reached(
        self,
        model: Model,
        decided: Plan,
        alone: Mapping[str, float],
        reach: float,
        report: QuantizationReport,
        progress: Progress,
    ) -> Plan:
        """Keep the fewest of the costliest layers in float, found by bisection. ModelError if none can be quantized."""
        order = sorted(decided.layers, key=lambda layer: alone[layer.name])
        tried: dict[int, float] = {len(order): inf}

        def reaches(count: int) -> bool:
            if count not in tried:
                result = self._quantized(model, _without(decided.layers, order[:count]), progress)
                noise = self._noise(result, (), progress)
                tried[count] = -inf if noise.problem else min(noise.ratios().values(), default=inf)
                report.curve.append((count, figures(result).nbytes, tried[count]))
            return tried[count] >= reach

        low, high = 0, len(order)
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if reaches(middle) else (middle + 1, high)
        report.curve.sort()
        if high == len(order):
            best = max((snr for count, snr in tried.items() if count < len(order)), default=-inf)
            raise ModelError(
                f"{reach:g} dB cannot be reached", f"with one layer quantized or more it is {best:.1f} dB at most"
            )
        reason = f"to reach {reach:g} dB"
        return Plan(
            _without(decided.layers, order[:high]),
            [*decided.kept, *(Kept(o.node, o.name, reason) for o in order[:high])],
        )

    def _check(
        self,
        before: Model,
        after: Model,
        decided: Plan,
        names: Mapping[str, str],
        alone: Mapping[str, float],
        report: QuantizationReport,
        progress: Progress,
    ) -> None:
        """Measure outputs and layers, and load and run the result elsewhere."""
        progress.report(0, 0, "Measuring the loss")
        noise = self._noise(after, names.values(), progress)
        ratios = noise.ratios()
        report.outputs = {v.name: ratios[v.name] for v in after.graph.outputs if v.name in ratios}
        report.layers = [
            LayerLoss(layer.name, layer.node.op_type, ratios.get(names.get(layer.name, "")), alone.get(layer.name))
            for layer in decided.layers
        ]
        report.layers += [
            LayerLoss(one.name, one.node.op_type, None, alone.get(one.name), one.reason) for one in decided.kept
        ]
        loaded = load_both(before, after, progress)
        report.remarks += loaded.remarks
        report.refused = next(interface_changes(before, after), "") or noise.problem or loaded.refused
        if not report.refused and available():
            report.remarks.append(self._elsewhere(after, progress))

    def _elsewhere(self, model: Model, progress: Progress) -> str:
        """Run the result in ONNX Runtime on the first sample of the check; return how well it agrees."""
        folder = make_own_folder()
        try:
            to_file(model, folder / "model.onnx", Storage(DataLayout.INLINE), progress=progress)
            feeds = self._reference[0][0]
            theirs = run_onnxruntime(folder / "model.onnx", feeds)
        except ModelError as error:
            return f"not compared with ONNX Runtime: {error.title} ({error.detail})"
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        noise = _Noise()
        for name, value in _run(model, feeds, (), progress).items():
            noise.add(name, theirs.get(name), value)
        least = min(noise.ratios().values(), default=inf)
        return noise.problem or f"ONNX Runtime computes the same within {least:.1f} dB"


def _run(
    model: Model, feeds: Mapping[str, RuntimeValue], names: Collection[str], progress: Progress
) -> dict[str, RuntimeValue]:
    """Run a model; return its outputs and the named values. ModelError where it fails."""
    outputs = [value.name for value in model.graph.outputs]
    wanted = list(dict.fromkeys([*outputs, *names]))
    result = Session(model, keep=wanted).run(feeds, progress=progress).raise_for_failure()
    return {name: result.values[name] for name in wanted}


def _output(layer: Layer) -> str:
    return next((value.name for value in layer.node.outputs if value is not None), "")


def _is_outermost(layer: Layer) -> bool:
    """Return whether a layer is in the main graph: values of bodies and functions are not compared."""
    return layer.node.graph is not None and isinstance(layer.node.graph.owner, Model)


def _layer_outputs(layers: Sequence[Layer]) -> list[str]:
    """Names of what the layers of the main graph make."""
    return [_output(layer) for layer in layers if _is_outermost(layer)]


def _without(layers: Sequence[Layer], others: Collection[Layer]) -> list[Layer]:
    return [layer for layer in layers if layer not in others]
