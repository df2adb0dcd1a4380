"""What each layer of a quantized model loses by itself: it is run on the values of the float model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from onnx_workbench.exec.inspect.compare import ValueDifference, compare_values
from onnx_workbench.exec.inspect.model_comparison import ModelRun
from onnx_workbench.exec.kernels.context import RuntimeValue
from onnx_workbench.exec.session import Session
from onnx_workbench.model.analysis.quantized_values import counterparts
from onnx_workbench.model.edits.interface import add_input
from onnx_workbench.model.edits.values import connect
from onnx_workbench.model.history.working_copy import WorkingCopy
from onnx_workbench.model.ir.graph import Model, Node, Value
from onnx_workbench.model.progress import SILENT, Progress


@dataclass(frozen=True, slots=True)
class _Boundary:
    """Where a value is quantized: the float value, what is quantized for it, and what that is to be compared with."""

    value: Value
    quantize: Node
    raw: Value
    expected: Value


def local_losses(
    precise: ModelRun,
    quantized: Model,
    feeds: Mapping[str, RuntimeValue],
    *,
    seed: int = 0,
    time_limit: float | None = None,
    progress: Progress = SILENT,
) -> dict[str, ValueDifference]:
    """Return what each quantized layer loses, by the name of its result in the float model.

    Every QuantizeLinear gets the value of the float model instead of what came before it, so that errors of earlier
    layers are left out; the result of each layer is compared before it is quantized itself. Cost: a copy and a run of
    the quantized model, all of whose values are kept.
    """
    boundaries = [found for found in _boundaries(precise, quantized) if precise.has(((), found.value.id))]
    work = WorkingCopy(quantized, progress)
    graph, given = work.document.model.graph, dict(feeds)
    with work.document.edit("Feed each layer") as edit:
        for found in boundaries:
            fed = add_input(edit, graph, f"{found.raw.name}_float", found.raw.type)
            connect(edit, work.copy_of(found.quantize), 0, fed)
            given[fed.name] = precise.result.value(found.value)
    result = Session(work.document).run(given, seed=seed, time_limit=time_limit, progress=progress)
    losses = {}
    for found in boundaries:
        raw = work.copy_of(found.raw)
        if found.raw.producer is not None and result.info(raw) is not None and precise.has(((), found.expected.id)):
            expected = precise.result.value(found.expected)
            losses[found.value.name] = compare_values(result.value(raw), expected)
    return losses


def _boundaries(precise: ModelRun, quantized: Model) -> list[_Boundary]:
    found = counterparts(precise.model.graph, quantized.graph)
    float_of = {part.value: value for value, part in found.items() if part.scale is None}
    boundaries = []
    for value, part in found.items():
        dequantize = part.value.producer
        integers = dequantize.inputs[0] if dequantize is not None and dequantize.op_type == "DequantizeLinear" else None
        quantize = None if integers is None else integers.producer
        if quantize is not None and quantize.op_type == "QuantizeLinear" and quantize.inputs[0] is not None:
            raw = quantize.inputs[0]
            boundaries.append(_Boundary(value, quantize, raw, float_of.get(raw, value)))
    return boundaries
