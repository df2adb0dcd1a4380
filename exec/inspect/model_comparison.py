"""Comparison of runs of two models, value by value: matched by address, quantized values with their counterparts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from onnx_workbench.exec.inputs.feeds import in_precision_of
from onnx_workbench.exec.inputs.sources import make_feeds
from onnx_workbench.exec.inspect.compare import ComparedValue, Tolerance, ValueDifference, compare_values, compare_with
from onnx_workbench.exec.inspect.overview import is_compatible
from onnx_workbench.exec.inspect.tolerances import INTEGER_VALUES, RelativeErrors, tolerance, type_error
from onnx_workbench.exec.results.run_file import Address
from onnx_workbench.exec.results.run_result import Inside, RunResult, value_keys
from onnx_workbench.exec.results.slot_map import ValueKey
from onnx_workbench.exec.results.value_paths import ValuePaths, body_values
from onnx_workbench.exec.values.arrays import RuntimeValue
from onnx_workbench.exec.values.statistics import describe
from onnx_workbench.model.analysis.quantized_values import Counterpart, counterparts, is_quantized
from onnx_workbench.model.ir.graph import Graph, Model, Value
from onnx_workbench.model.progress import SILENT, Progress


class ModelRun:
    """A run of a model, with lookup of its values by address. Reads the model: its thread only."""

    def __init__(self, model: Model, result: RunResult) -> None:
        self.model, self.result = model, result
        graphs = list(model.graphs())
        nodes = {node.id: node for graph in graphs for node in graph.nodes}
        values = {value.id: value for graph in graphs for value in graph.values()}
        self.paths = ValuePaths(model.graph, nodes.get, values.get)
        self.inside: Inside = body_values(result, nodes.get, values.get)
        self.errors = RelativeErrors(result)

    def has(self, key: ValueKey) -> bool:
        """Return whether the run computed a value."""
        return self.result.info(key) is not None


@dataclass(frozen=True, slots=True)
class ValuePair:
    """Values of two runs that represent the same quantity."""

    ours: Counterpart
    theirs: Counterpart


@dataclass(frozen=True, slots=True)
class RunPart:
    """A value of a run by its key; with a `scale`, integers that represent (value − zero_point) · scale.

    Scale and zero point are arrays, or keys of the same run.
    """

    key: ValueKey
    name: str
    scale: Any = None
    zero_point: Any = None

    def read(self, result: RunResult, progress: Progress = SILENT) -> RuntimeValue:
        """Return the value, dequantized if it has a scale; LookupError if it is unavailable."""
        found: Any = result.value(self.key, progress=progress)
        if self.scale is None:
            return found
        scale, zero_point = (
            np.asarray(result.value(p, progress=progress) if isinstance(p, tuple) else p, np.float32)
            for p in (self.scale, 0 if self.zero_point is None else self.zero_point)
        )
        return (found.astype(np.float32) - zero_point) * scale


def run_part(part: Counterpart) -> RunPart:
    """Return the RunPart of a value of a main graph. Reads the model."""
    scale, zero_point = (_parameter(value) for value in (part.scale, part.zero_point))
    return RunPart(((), part.value.id), part.value.name, scale, zero_point)


def _parameter(value: Value | None) -> Any:
    if value is None:
        return None
    tensor = value.initializer
    return np.asarray(tensor.numpy()) if tensor is not None and hasattr(tensor, "numpy") else ((), value.id)


def compare_models(ours: ModelRun, reference: ModelRun) -> list[ComparedValue]:
    """Compare corresponding values in runs of two models, in the order of the first.

    Values inside functions and bodies are matched by the names of the nodes around them and their own; inputs and
    outputs whose names differ, by position; values of a quantized and a float model by their counterparts. Reads every
    element.
    """
    pairs = pair_values(ours.model.graph, reference.model.graph)
    rows = []
    for key in value_keys(ours.result, ours.inside):
        if not ours.has(key):
            continue
        address = ours.paths.of(key)
        if address is None:
            continue
        if len(address) > 1:
            other = reference.paths.find(address)
            if other is not None and reference.has(other):
                name = " › ".join(address)
                difference = compare_values(ours.result.value(key), reference.result.value(other))
                rows.append(_row(ours, key, name, name, difference, reference.errors.of(other)))
            continue
        for pair in pairs.get(key[1], ()):
            other = (), pair.theirs.value.id
            if reference.has(other):
                mine, theirs = run_part(pair.ours).read(ours.result), run_part(pair.theirs).read(reference.result)
                difference = compare_values(mine, theirs)
                error = max(reference.errors.of(other), _quantized_error(pair))
                rows.append(_row(ours, key, pair.ours.value.name, pair.theirs.value.name, difference, error))
    return rows


def _quantized_error(pair: ValuePair) -> float:
    """Return the relative error that quantization explains, if one of the values is dequantized for the comparison."""
    return INTEGER_VALUES if pair.ours.scale is not None or pair.theirs.scale is not None else 0.0


def compare_values_at(ours: ModelRun, values: Mapping[Address, RuntimeValue]) -> list[ComparedValue]:
    """Compare a run with values given by address, in run order."""
    found = ((ours.paths.find(address), address, value) for address, value in values.items())
    by_key = {key: (address, value) for key, address, value in found if key is not None and ours.has(key)}
    rows = []
    for key in value_keys(ours.result, ours.inside):
        if key in by_key:
            address, value = by_key[key]
            name = " › ".join(address)
            rows.append(_row(ours, key, name, name, compare_values(ours.result.value(key), value), _error_of(value)))
    return rows


def compare_arrays(ours: ModelRun, arrays: Mapping[str, RuntimeValue]) -> list[ComparedValue]:
    """Compare a run with named arrays, matched as in `compare_with`."""
    rows = compare_with(ours.result, arrays)
    return [_row(ours, row.key, row.name, row.other, row.difference, _error_of(arrays[row.other])) for row in rows]


def _error_of(value: RuntimeValue) -> float:
    return type_error(describe(value).element_type)


def _row(
    ours: ModelRun, key: ValueKey, name: str, other: str, difference: ValueDifference, reference_error: float
) -> ComparedValue:
    return with_type_tolerance(ComparedValue(key, name, other, difference), ours.errors, reference_error)


def compare_parts(ours: RunResult, parts: Sequence[tuple[RunPart, RuntimeValue]]) -> list[ValueDifference]:
    """Compare values of a run, each with a value that represents the same. Reads every element."""
    return [compare_values(part.read(ours), other) for part, other in parts]


def pair_values(ours: Graph, theirs: Graph) -> dict[int, list[ValuePair]]:
    """Return pairs of values of two main graphs, by the number of our value.

    They are matched by name, inputs and outputs also by position; of a quantized and a float graph, by counterparts.
    """
    found: dict[int, list[ValuePair]] = {}
    if is_quantized(ours) != is_quantized(theirs):
        if is_quantized(theirs):
            pairs = [ValuePair(Counterpart(value), part) for value, part in counterparts(ours, theirs).items()]
        else:
            pairs = [ValuePair(part, Counterpart(value)) for value, part in counterparts(theirs, ours).items()]
    else:
        named = {value.name: value for value in theirs.values() if value.initializer is None and value.is_defined}
        both = [(value, named.get(value.name)) for value in ours.values() if value.initializer is None and value.name]
        pairs = [ValuePair(Counterpart(a), Counterpart(b)) for a, b in both if b is not None]
    paired = {pair.ours.value for pair in pairs} | {pair.theirs.value for pair in pairs}
    for mine, other in ((ours.required_inputs, theirs.required_inputs), (ours.outputs, theirs.outputs)):
        for a, b in by_position(mine, other):
            if a not in paired and b not in paired:
                pairs.append(ValuePair(Counterpart(a), Counterpart(b)))
    for pair in pairs:
        found.setdefault(pair.ours.value.id, []).append(pair)
    return found


def by_position(ours: Sequence[Value], theirs: Sequence[Value]) -> Iterator[tuple[Value, Value]]:
    """Yield pairs of inputs, or of outputs, of two graphs: by name, the others in order if their numbers are equal."""
    names = {value.name: value for value in theirs}
    yield from ((value, names[value.name]) for value in ours if value.name in names)
    known = {value.name for value in ours}
    left, right = [v for v in ours if v.name not in names], [v for v in theirs if v.name not in known]
    if len(left) == len(right):
        yield from zip(left, right, strict=True)


def with_type_tolerance(row: ComparedValue, errors: RelativeErrors, reference_error: float) -> ComparedValue:
    """Return a row with the tolerance for its element types and scale; `errors` are those of our run."""
    error, is_integer = errors.of(row.key), errors.is_quantized(row.key)
    return replace(row, tolerance=tolerance(row.difference, max(error, reference_error), is_quantized=is_integer))


def with_tolerance(rows: Sequence[ComparedValue], rtol: float | None, atol: float | None) -> list[ComparedValue]:
    """Return rows with the given tolerance, where None is 0; unchanged if both are None."""
    if rtol is None and atol is None:
        return list(rows)
    return [replace(row, tolerance=Tolerance(rtol or 0.0, atol or 0.0)) for row in rows]


def feeds_of(ours: Graph, theirs: Graph, feeds: Mapping[str, RuntimeValue], seed: int = 0) -> dict[str, RuntimeValue]:
    """Return inputs of another graph: the values fed to ours, floats in the precision it declares; others random."""
    return make_feeds(theirs, given=shared_feeds(ours, theirs, feeds), seed=seed)


def shared_feeds(ours: Graph, theirs: Graph, feeds: Mapping[str, RuntimeValue]) -> dict[str, RuntimeValue]:
    """Return the values fed to our inputs by the names of another graph's inputs, floats in the precision it declares.

    Inputs whose names differ, matched by position, are left out if the value does not fit their declared type.
    """
    given = {}
    for mine, other in by_position([v for v in ours.inputs if v.name in feeds], theirs.inputs):
        value = in_precision_of(other.type, feeds[mine.name])
        if mine.name == other.name or other.type is None or is_compatible(describe(value), other.type):
            given[other.name] = value
    return given


def operators_of(result: RunResult) -> dict[ValueKey, tuple[str, str]]:
    """Return operator and name of the nodes that computed the values of a run."""
    nodes = {(node.path, node.node): (node.operator, node.title) for node in result.nodes}
    makers = {slot: nodes.get((step.path, step.node)) for step in result.layout.steps for slot in step.outs if slot}
    found = ((key, makers.get(slot)) for key, slot in result.layout.slots.items())
    return {key: maker for key, maker in found if maker is not None}
