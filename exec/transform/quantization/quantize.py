"""Quantization of a model as one piece of work: on a copy, calibrated, measured against float, then carried over."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path

from onnx_workbench.exec.engine.constant_folding import evaluate
from onnx_workbench.exec.inputs.images import ImageOptions
from onnx_workbench.exec.inputs.recipe import Recipe
from onnx_workbench.exec.inspect.reference import available, run_onnxruntime
from onnx_workbench.exec.inspect.self_check import interface_changes, load_both
from onnx_workbench.exec.transform.isolated import isolated
from onnx_workbench.exec.transform.quantization.calibration import (
    NO_SAMPLES,
    Samples,
    checked_feeds,
    observe,
    samples_of,
    split,
)
from onnx_workbench.exec.transform.quantization.compensation import Products
from onnx_workbench.exec.transform.quantization.plan import Kept, Layer, Plan, QuantizeOptions, has_ranges, plan
from onnx_workbench.exec.transform.quantization.ranges import Histogram, Scale
from onnx_workbench.exec.transform.quantization.rewrite import (
    Quantizer,
    activations,
    compensated_inputs,
    scales_of,
)
from onnx_workbench.exec.transform.sensitivity import Noise, Reference, Sweep, run
from onnx_workbench.model.convert import convert_opset, strip
from onnx_workbench.model.edits.interface import add_input
from onnx_workbench.model.edits.rewriter import GraphRewriter
from onnx_workbench.model.edits.values import connect
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.steps import SetField, SetGraphOutputs
from onnx_workbench.model.history.working_copy import WorkingCopy
from onnx_workbench.model.inference import infer
from onnx_workbench.model.io.writer.save import to_file
from onnx_workbench.model.io.writer.storage_plan import DataLayout, Storage
from onnx_workbench.model.ir.graph import Model, Node, Value
from onnx_workbench.model.ir.types import ElementType, TensorType
from onnx_workbench.model.progress import SILENT, Progress
from onnx_workbench.model.sandbox import make_own_folder
from onnx_workbench.model.simplify.pass_list import all_passes
from onnx_workbench.model.simplify.pipeline import figures, simplify
from onnx_workbench.model.simplify.rules.constants import EXTRACT, FOLD

_ROUNDING = ("DynamicQuantizeLinear", "QuantizeLinear")
#: IR versions that the types of an opset came with.
_IR_VERSIONS = {25: 13, 21: 10, 19: 9, 13: 7}
_BEFORE = (
    EXTRACT.id, FOLD, "fuse_bn_into_conv", "fuse_bn_into_gemm", "fuse_add_bias_into_conv", "fuse_add_into_gemm",
    "fuse_mul_into_conv",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class LayerLoss:
    """A layer, and signal-to-noise ratios in decibels, None where not measured: of its output with everything before
    it quantized (accumulated) or in float (local), and of the model's outputs where it is quantized alone; `saved`
    bytes of constants then. `kept` says why it stays in float.
    """

    name: str
    operator: str
    accumulated: float | None = None
    alone: float | None = None
    kept: str = ""
    local: float | None = None
    saved: int | None = None


@dataclass(slots=True)
class QuantizationReport:
    """What was quantized and what that costs. Ratios are in decibels over all samples kept aside.

    `curve`: for numbers of layers kept in float, costliest first, bytes of constants and the least ratio of an output,
    as far as tried.
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


@dataclass(frozen=True, slots=True)
class Measurement:
    """What a quantization of a copy has found, with which another copy is quantized in the same way, in any process.

    `ranges`: of values by name, what occurred and what was chosen. `left`: numbers of the layers that stay in float.
    """

    report: QuantizationReport
    ranges: Mapping[str, tuple[Histogram, Scale]]
    products: Mapping[str, Products]
    left: frozenset[int]


class Quantization:
    """A copy of a model about to be quantized. Any thread, one at a time."""

    def __init__(self, copy: WorkingCopy, options: QuantizeOptions, samples: Samples = NO_SAMPLES) -> None:
        self.copy, self.options, self._samples = copy, options.checked(), samples
        self._histograms: dict[Value, Histogram] = {}
        self._products: Mapping[Value, Products] = {}
        self.found: Measurement | None = None  # by `run`

    def run(
        self, *, reach: float | None = None, alone: bool = False, progress: Progress = SILENT
    ) -> QuantizationReport:
        """Quantize the copy and measure the loss. Call once. ModelError if data or options do not fit.

        `reach`: keep the fewest layers in float, those that cost most alone, with which all outputs have at least this
        ratio in decibels. `alone`: measure what each layer costs alone, and the curve, without that, too. Cost: three
        runs of the model per sample, and for these two some more for each layer.
        """
        document = self.copy.document
        untouched = WorkingCopy(document.model, progress).document.model
        report = QuantizationReport(before=figures(document.model).nbytes)
        decided = self._decide(document, progress)
        layers = decided.layers
        if not layers:
            reasons = "; ".join(dict.fromkeys(f"{one.name}: {one.reason}" for one in decided.kept[:5]))
            raise ModelError("Nothing can be quantized", reasons or "The model has no layers with weights.")
        self._calibrate(document.model, decided, report, progress)
        feeds = [checked_feeds(sample, document.model.graph) for sample in self._samples.check]
        outputs = {layer.node: _output(layer) for layer in decided.layers if _is_outermost(layer)}
        self._reference = Reference(document.model, feeds, outputs.values(), progress)
        local = self._local(document.model, decided.layers, progress)
        losses = {
            layer.node: LayerLoss(layer.name, layer.node.op_type, local=local.get(layer.node))
            for layer in decided.layers
        }
        if reach is not None or alone:
            decided = self._swept(document.model, decided, losses, reach, report, progress)
        scales, remaining = self._scales(decided.layers), {layer.node for layer in decided.layers}
        self.found = Measurement(
            report,
            {value.name: (self._histograms[value], scale) for value, scale in scales.items()},
            {value.name: products for value, products in self._products.items()},
            frozenset(number for number, layer in enumerate(layers) if layer.node not in remaining),
        )
        if self.options.method == "static":
            taken = [layer for layer in decided.layers if layer.node.op_type != "Gather"]
            if count := sum(not has_ranges(layer.node) for layer in taken):
                report.remarks.append(
                    f"layers in bodies and functions, and recurrent ones, have no ranges: of {count} weights alone are "
                    "quantized"
                )
        self._quantize(document, decided.layers, scales, self._products, progress)
        report.after = figures(document.model).nbytes
        self._check(untouched, document.model, decided, losses, outputs, report, progress)
        return report

    def repeat(self, found: Measurement, progress: Progress = SILENT) -> None:
        """Quantize the copy as a measurement of the same model and options decided. Runs nothing. Call once."""
        document = self.copy.document
        decided = self._decide(document, progress)
        layers = [layer for number, layer in enumerate(decided.layers) if number not in found.left]
        scales = {value: found.ranges[value.name][1] for value in activations(layers, self.options)}
        products = {value: found.products[value.name] for value in compensated_inputs(layers, self.options)}
        self._quantize(document, layers, scales, products, progress)

    def _decide(self, document: Document, progress: Progress) -> Plan:
        self._prepare(document, progress)
        return plan(document.model, self.options, infer(document.model, progress=progress).type_of)

    def _quantize(
        self,
        document: Document,
        layers: Sequence[Layer],
        scales: Mapping[Value, Scale],
        products: Mapping[Value, Products],
        progress: Progress,
    ) -> None:
        with document.edit("Quantize") as edit:
            Quantizer(edit, self.options, scales, progress, products=products).run(layers)

    def _prepare(self, document: Document, progress: Progress) -> None:
        """Bring the opset to what is needed, and fold defaults, constants, and normalization into weights. Traces of
        Python code go: in small models they take more than the weights.
        """
        model, needed = document.model, self.options.opset
        with document.edit("Strip traces and make defaults constant") as edit:
            strip(edit, ["traces", "defaults"])
        if model.opset_imports.get("", needed) < needed:
            with document.edit("Convert operator set") as edit:
                convert_opset(edit, needed, progress)
        least = next(ir for opset, ir in _IR_VERSIONS.items() if needed >= opset)
        if model.ir_version < least:
            with document.edit("Set the IR version") as edit:
                edit.do(SetField(model, "ir_version", least))
        passes = [one for one in all_passes() if one.id in _BEFORE]
        simplify(document, passes, evaluate=evaluate, progress=progress)

    def _calibrate(self, model: Model, decided: Plan, report: QuantizationReport, progress: Progress) -> None:
        values = activations(decided.layers, self.options)
        multiplied = compensated_inputs(decided.layers, self.options)
        samples = self._samples.calibration
        report.checked = len(self._samples.check)
        if values:
            self._histograms = observe(model, values, samples, Histogram, progress)
        if multiplied:
            self._products = observe(model, multiplied, samples, Products, progress)
        if values or multiplied:
            report.samples = len(samples)
            if not self._samples.is_apart:
                report.remarks.append("the check uses the only sample, which ranges were calibrated with")

    def _scales(self, layers: Sequence[Layer]) -> dict[Value, Scale]:
        wanted = {value: self._histograms[value] for value in activations(layers, self.options)}
        return scales_of(wanted, self.options)

    def _quantized(self, model: Model, layers: Sequence[Layer], progress: Progress) -> Model:
        """Return a copy of the prepared model with these layers quantized."""
        copy = WorkingCopy(model, progress)
        scales = copy.of_copies(self._scales(layers))
        taken = [replace(layer, node=copy.copy_of(layer.node)) for layer in layers]
        self._quantize(copy.document, taken, scales, copy.of_copies(self._products), progress)
        return copy.document.model

    def _local(self, model: Model, layers: Sequence[Layer], progress: Progress) -> dict[Node, float]:
        """Return the ratio of the output of each layer of the main graph on float inputs: a twin beside it is quantized
        in its place.
        """
        copy = WorkingCopy(model, progress)
        scales = copy.of_copies(self._scales(layers))
        graph = copy.document.model.graph
        twins: list[Layer] = []
        values: dict[str, str] = {}  # names of what layers make by those of what their twins make
        layer_of: dict[str, Node] = {}
        with copy.document.edit("Quantize twins of all layers") as edit:
            rewriter = GraphRewriter(edit)
            for layer in layers:
                if not _is_outermost(layer):
                    continue
                node = copy.copy_of(layer.node)
                outputs = tuple(v and Value(rewriter.names.value(graph, f"{v.name}_local")) for v in node.outputs)
                twin = Node(node.op_type, node.inputs, outputs, domain=node.domain, attributes=node.attributes)
                rewriter.insert(graph, [twin], node.next)
                first = next(value for value in outputs if value is not None)
                edit.do(SetGraphOutputs(graph, (*graph.outputs, first)))
                twins.append(replace(layer, node=twin))
                values[first.name], layer_of[first.name] = _output(layer), layer.node
            Quantizer(edit, self.options, scales, progress, products=copy.of_copies(self._products)).run(twins)
        ratios = self._reference.noise(copy.document.model, values, progress).ratios()
        return {node: ratios[name] for name, node in layer_of.items() if name in ratios}

    def _swept(
        self,
        model: Model,
        decided: Plan,
        losses: dict[Node, LayerLoss],
        reach: float | None,
        report: QuantizationReport,
        progress: Progress,
    ) -> Plan:
        """Measure what each layer costs alone, and keep the fewest in float with which a ratio is reached."""

        def change(layers: Sequence[Layer]) -> Model:
            return self._quantized(model, layers, progress)

        sweep = Sweep(decided.layers, change, self._reference, "Quantizing each layer alone", progress)
        before = figures(model).nbytes
        for layer, ratio in sweep.alone.items():
            losses[layer.node] = replace(losses[layer.node], alone=ratio, saved=before - sweep.sizes[layer])
        sweep.trace()
        left = [] if reach is None else sweep.fewest(reach)
        report.curve = sweep.curve
        kept = [Kept(layer.node, layer.name, f"to reach {reach:g} dB") for layer in left]
        return Plan([layer for layer in decided.layers if layer not in left], [*decided.kept, *kept])

    def _check(
        self,
        before: Model,
        after: Model,
        decided: Plan,
        losses: Mapping[Node, LayerLoss],
        outputs: Mapping[Node, str],
        report: QuantizationReport,
        progress: Progress,
    ) -> None:
        """Measure outputs and layers, and load and run the result elsewhere."""
        progress.report(0, 0, "Measuring the loss")
        noise = self._reference.noise(after, {name: name for name in outputs.values()}, progress)
        ratios = noise.ratios()
        report.outputs = {v.name: ratios[v.name] for v in after.graph.outputs if v.name in ratios}
        report.layers = [
            replace(losses[layer.node], accumulated=ratios.get(outputs.get(layer.node, ""))) for layer in decided.layers
        ]
        report.layers += [
            replace(losses.get(one.node, LayerLoss(one.name, one.node.op_type)), kept=one.reason)
            for one in decided.kept
        ]
        loaded = load_both(before, after, progress)
        report.remarks += loaded.remarks
        report.refused = next(interface_changes(before, after), "") or noise.problem or loaded.refused
        if not report.refused and available():
            report.remarks.append(self._elsewhere(after, progress))

    def _elsewhere(self, model: Model, progress: Progress) -> str:
        """Run the result in ONNX Runtime on the first sample of the check; return how well each layer agrees.

        The numbers that each layer takes are rounded from what ONNX Runtime found: one that is rounded otherwise, as it
        lies between two, changes all that follow by more than any other difference.
        """
        folder = make_own_folder()
        try:
            to_file(model, folder / "model.onnx", Storage(DataLayout.INLINE), progress=progress)
            feeds = self._reference.runs[0][0]
            theirs = run_onnxruntime(folder / "model.onnx", feeds)
        except ModelError as error:
            return f"not compared with ONNX Runtime: {error.title} ({error.detail})"
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        copy = WorkingCopy(model, progress)
        graph, given = copy.document.model.graph, dict(feeds)
        raw: list[str] = []
        with copy.document.edit("Give ONNX Runtime's values to each layer") as edit:
            for node in list(graph.nodes):
                value = node.inputs[0] if node.op_type in _ROUNDING else None
                if value is not None and value.name in theirs:
                    taken = add_input(edit, graph, f"{value.name}_given", TensorType(ElementType.FLOAT))
                    connect(edit, node, 0, taken)
                    given[taken.name] = theirs[value.name]
                    raw.append(value.name)
        noise = Noise()
        for name, found in run(copy.document.model, given, raw, progress).items():
            noise.add(name, theirs.get(name), found)
        if noise.least == inf:
            return "ONNX Runtime computes exactly the same in each layer"
        return noise.problem or f"ONNX Runtime computes the same in each layer within {noise.least:.1f} dB"


def measure_isolated(
    model: Model,
    options: QuantizeOptions,
    source: Path | Recipe,
    image: ImageOptions | None = None,
    *,
    reach: float | None = None,
    alone: bool = False,
    progress: Progress = SILENT,
) -> Measurement:
    """Quantize a copy in a child process, which the window does not wait for, see `Quantization.run` and `samples_of`;
    the model is left as it is.
    """
    return isolated(_measured, model, "Quantizing a copy", progress)(options, source, image, reach, alone)


def _measured(
    model: Model,
    progress: Progress,
    options: QuantizeOptions,
    source: Path | Recipe,
    image: ImageOptions | None,
    reach: float | None,
    alone: bool,
) -> Measurement:
    work = Quantization(WorkingCopy(model, progress), options, split(samples_of(source, model.graph, image)))
    work.run(reach=reach, alone=alone, progress=progress)
    assert work.found is not None
    return work.found


def _output(layer: Layer) -> str:
    return next((value.name for value in layer.node.outputs if value is not None), "")


def _is_outermost(layer: Layer) -> bool:
    """Return whether a layer is in the main graph: values of bodies and functions are not compared."""
    return layer.node.graph is not None and isinstance(layer.node.graph.owner, Model)
