"""Quantization error of each layer of a quantized model alone: the layer is run on values of the float model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from onnx_workbench.exec.inspect.compare import ValueDifference
from onnx_workbench.exec.inspect.run_comparison import GivenValue, ModelRun, Pair, RunPart, differences_of
from onnx_workbench.exec.results.run_result import RunResult
from onnx_workbench.exec.results.slot_map import ValueKey
from onnx_workbench.exec.session import Session
from onnx_workbench.exec.values.arrays import RuntimeValue
from onnx_workbench.model.analysis.quantized_values import counterparts
from onnx_workbench.model.edits.interface import add_input
from onnx_workbench.model.edits.values import connect
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.working_copy import WorkingCopy
from onnx_workbench.model.ir.graph import Graph, Model, Node, Value
from onnx_workbench.model.progress import SILENT, Progress


@dataclass(frozen=True, slots=True)
class _Boundary:
    """A quantized value: the value in the float model, the QuantizeLinear, its input, and the value to compare with."""

    value: Value
    quantize: Node
    raw: Value
    expected: Value


@dataclass(frozen=True)
class FedLayers:
    """A copy of a quantized model in which an input feeds each layer.

    `fed`: keys of a float run by the names of these inputs; `results`: by the name of the value in the float model, the
    key of a layer's result before it is quantized, and the key of the value of the float run to compare it with.
    """

    document: Document
    fed: Mapping[str, ValueKey]
    results: Mapping[str, tuple[ValueKey, ValueKey]]

    def feeds(self, precise: RunResult, feeds: Mapping[str, RuntimeValue]) -> dict[str, RuntimeValue]:
        """Return the values of all inputs; LookupError if the float run lacks one."""
        return {**feeds, **{name: precise.value(key) for name, key in self.fed.items()}}

    def losses(self, precise: RunResult, result: RunResult) -> dict[str, ValueDifference]:
        """Return the error of each layer in a run of the copy, by the name of its result in the float model."""
        both = {
            name: (raw, expected)
            for name, (raw, expected) in self.results.items()
            if result.info(raw) is not None and precise.info(expected) is not None
        }
        pairs = [
            Pair(RunPart(raw, name), GivenValue(name, precise.value(expected)))
            for name, (raw, expected) in both.items()
        ]
        return dict(zip(both, result.apply(differences_of, pairs), strict=True))


def feed_layers(
    precise: Graph,
    quantized: Model,
    has: Callable[[ValueKey], bool] = lambda _key: True,
    progress: Progress = SILENT,
) -> FedLayers:
    """Copy a quantized model so that each QuantizeLinear gets the value of the float model if a run `has` it.

    Reads both models. Cost: a copy of the quantized model without weights.
    """
    boundaries = [found for found in _boundaries(precise, quantized) if has(((), found.value.id))]
    work = WorkingCopy(quantized, progress)
    graph, fed = work.document.model.graph, {}
    with work.document.edit("Feed each layer") as edit:
        for found in boundaries:
            fed_input = add_input(edit, graph, f"{found.raw.name}_float", found.raw.type)
            connect(edit, work.copy_of(found.quantize), 0, fed_input)
            fed[fed_input.name] = (), found.value.id
    results = {
        found.value.name: (((), work.copy_of(found.raw).id), ((), found.expected.id))
        for found in boundaries
        if found.raw.producer is not None
    }
    return FedLayers(work.document, fed, results)


def local_losses(
    precise: ModelRun,
    quantized: Model,
    feeds: Mapping[str, RuntimeValue],
    *,
    seed: int = 0,
    time_limit: float | None = None,
    progress: Progress = SILENT,
) -> dict[str, ValueDifference]:
    """Return the error of each quantized layer, by the name of its result in the float model.

    Every QuantizeLinear gets the value of the float model instead of its input, so that errors of earlier layers do not
    count; the result of each layer is compared before it is quantized. Cost: a copy and a run of the quantized model,
    which keeps all values.
    """
    layers = feed_layers(precise.model.graph, quantized, precise.has, progress)
    inputs = layers.feeds(precise.result, feeds)
    result = Session(layers.document).run(inputs, seed=seed, time_limit=time_limit, progress=progress)
    return layers.losses(precise.result, result)


def _boundaries(precise: Graph, quantized: Model) -> list[_Boundary]:
    counterpart_of = counterparts(precise, quantized.graph)
    float_of = {part.value: value for value, part in counterpart_of.items() if part.scale is None}
    boundaries = []
    for value, part in counterpart_of.items():
        dequantize = part.value.producer
        integers = dequantize.inputs[0] if dequantize is not None and dequantize.op_type == "DequantizeLinear" else None
        quantize = None if integers is None else integers.producer
        if quantize is not None and quantize.op_type == "QuantizeLinear" and quantize.inputs[0] is not None:
            raw = quantize.inputs[0]
            boundaries.append(_Boundary(value, quantize, raw, float_of.get(raw, value)))
    return boundaries
