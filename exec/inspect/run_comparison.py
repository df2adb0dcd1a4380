"""Comparison of a run with another run or with given values, value by value.

Pairs say which values represent the same; one function compares them all, each within the tolerance of its types.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from onnx_workbench.exec.inputs.feeds import in_precision_of
from onnx_workbench.exec.inputs.sources import make_feeds
from onnx_workbench.exec.inspect.compare import ComparedValue, Tolerance, ValueDifference, compare_values
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


@dataclass(frozen=True, slots=True)
class RunPart:
    """A value of a run by its key; with a `scale`, integers that represent (value − zero_point) · scale.

    Scale and zero point are arrays, or keys of the same run.
    """

    key: ValueKey
    name: str
    scale: Any = None
    zero_point: Any = None

    def read(self, result: RunResult | None, progress: Progress = SILENT) -> RuntimeValue:
        """Return the value, dequantized if it has a scale; LookupError if it is unavailable."""
        assert result is not None
        found: Any = result.value(self.key, progress=progress)
        if self.scale is None:
            return found
        scale, zero_point = (
            np.asarray(result.value(p, progress=progress) if isinstance(p, tuple) else p, np.float32)
            for p in (self.scale, 0 if self.zero_point is None else self.zero_point)
        )
        return (found.astype(np.float32) - zero_point) * scale

    def error(self, errors: RelativeErrors | None) -> float:
        """Return its relative error due to precision; `errors` are those of the run."""
        own = errors.of(self.key) if errors is not None else 0.0
        return own if self.scale is None else max(own, INTEGER_VALUES)


@dataclass(frozen=True, slots=True)
class GivenValue:
    """A value of a reference that is at hand, with the relative error due to its precision."""

    name: str
    value: RuntimeValue

    def read(self, _result: RunResult | None, _progress: Progress = SILENT) -> RuntimeValue:
        """Return the value."""
        return self.value

    def error(self, _errors: RelativeErrors | None) -> float:
        """Return its relative error due to precision."""
        return type_error(describe(self.value).element_type)


class Pair(NamedTuple):
    """A value of a run, and the value of a reference that represents the same."""

    ours: RunPart
    theirs: RunPart | GivenValue


def compare(
    ours: RunResult,
    pairs: Sequence[Pair],
    reference: RunResult | None = None,
    *,
    error: float = 0.0,
    is_elsewhere: bool = False,
    progress: Progress = SILENT,
) -> list[ComparedValue]:
    """Compare the pairs whose values both runs have, in the process of ours; each with the tolerance by its types.

    `error` is the relative error of the reference where its types do not determine it. `is_elsewhere`: its values are
    in another process, and are read from there first. LookupError: values are lost. Cost: reads every element.
    """
    both = [pair for pair in pairs if ours.info(pair.ours.key) is not None and _is_there(pair.theirs, reference)]
    sent = both
    if is_elsewhere:
        sent = [Pair(a, GivenValue(b.name, b.read(reference, progress))) for a, b in both]
    given = () if reference is None or is_elsewhere else (reference,)
    differences = ours.apply(differences_of, sent, *given, progress=progress)
    errors, others = RelativeErrors(ours), None if reference is None else RelativeErrors(reference)
    rows = []
    for (a, b), difference in zip(both, differences, strict=True):
        allowed = max(errors.of(a.key), INTEGER_VALUES if a.scale is not None else 0.0, b.error(others), error)
        held = tolerance(difference, allowed, is_quantized=errors.is_quantized(a.key))
        rows.append(ComparedValue(a.key, a.name, b.name, difference, held))
    return rows


def _is_there(part: RunPart | GivenValue, result: RunResult | None) -> bool:
    return isinstance(part, GivenValue) or (result is not None and result.info(part.key) is not None)


def differences_of(ours: RunResult, pairs: Sequence[Pair], reference: RunResult | None = None) -> list[ValueDifference]:
    """Return the differences of pairs of values; for `RunResult.apply`."""
    return [compare_values(a.read(ours), b.read(reference)) for a, b in pairs]


# -- which values represent the same


def same_values(ours: RunResult, reference: RunResult, inside: Inside | None = None) -> list[Pair]:
    """Pair the values of two runs of one model, in our order: by path and name, in subgraphs by key."""
    names = {(k[0], reference.layout.name(k[1])): k for k in reference.layout.slots}
    pairs = []
    for key in value_keys(ours, inside):
        name = ours.layout.name(key[1])
        other = names.get((key[0], name)) if key in ours.layout.slots else reference.key(key)
        if other is not None:
            pairs.append(Pair(RunPart(key, name), RunPart(other, name)))
    return pairs


def given_values(
    ours: RunResult, values: Mapping[ValueKey, tuple[str, RuntimeValue]], inside: Inside | None = None
) -> list[Pair]:
    """Pair values that are given by keys of a run, each with a name, in run order."""
    keys = [key for key in value_keys(ours, inside) if key in values]
    return [Pair(RunPart(key, values[key][0]), GivenValue(*values[key])) for key in keys]


def named_arrays(ours: RunResult, arrays: Mapping[str, RuntimeValue]) -> list[Pair]:
    """Pair arrays of another framework, in run order: by name, the rest by shape where that is unambiguous."""
    left = dict(arrays)
    matched: dict[ValueKey, str] = {}
    keys = [key for key in value_keys(ours) if ours.info(key) is not None]
    outermost = sorted(keys, key=lambda key: len(key[0]))  # names in the graph before equal ones in functions
    for written in (str, _plain):
        for key in outermost:
            name = written(ours.layout.name(key[1]))
            if key not in matched and name in left:
                matched[key] = name
                del left[name]
    shapes = Counter(getattr(array, "shape", None) for array in left.values())
    for name, array in left.items():
        shape = getattr(array, "shape", None)
        if shapes[shape] > 1:
            continue
        fitting = [k for k in keys if k not in matched and (info := ours.info(k)) is not None and info.shape == shape]
        if len(fitting) == 1:
            matched[fitting[0]] = name
    return [
        Pair(RunPart(key, ours.layout.name(key[1])), GivenValue(matched[key], arrays[matched[key]]))
        for key in keys
        if key in matched
    ]


def _plain(name: str) -> str:
    """Return a name as written by frameworks that allow no slashes, colons or dots in names."""
    return "".join(c if c.isalnum() else "_" for c in name).strip("_")


class ModelRun:
    """A run of a model, with lookup of its values by address. Reads the model: its thread only."""

    def __init__(self, model: Model, result: RunResult) -> None:
        self.model, self.result = model, result
        graphs = list(model.graphs())
        nodes = {node.id: node for graph in graphs for node in graph.nodes}
        values = {value.id: value for graph in graphs for value in graph.values()}
        self.paths = ValuePaths(model.graph, nodes.get, values.get)
        self.inside: Inside = body_values(result, nodes.get, values.get)

    def has(self, key: ValueKey) -> bool:
        """Return whether the run computed a value."""
        return self.result.info(key) is not None


def values_of_models(ours: ModelRun, reference: ModelRun) -> list[Pair]:
    """Pair the values of runs of two models, in the order of the first.

    Values inside functions and bodies are matched by the names of the nodes around them and their own; those of the
    main graphs as `pair_values` does.
    """
    pairs = pair_values(ours.model.graph, reference.model.graph)
    matches = []
    for key in value_keys(ours.result, ours.inside):
        address = ours.paths.of(key)
        if address is None:
            continue
        if len(address) == 1:
            matches += pairs.get(key[1], [])
        elif (other := reference.paths.find(address)) is not None:
            name = " › ".join(address)
            matches.append(Pair(RunPart(key, name), RunPart(other, name)))
    return matches


def values_at(ours: ModelRun, values: Mapping[Address, RuntimeValue]) -> list[Pair]:
    """Pair values given by address, in run order."""
    found = ((ours.paths.find(address), address, value) for address, value in values.items())
    by_key = {key: (" › ".join(address), value) for key, address, value in found if key is not None}
    return given_values(ours.result, by_key, ours.inside)


def run_part(part: Counterpart) -> RunPart:
    """Return the RunPart of a value of a main graph. Reads the model."""
    scale, zero_point = (_parameter(value) for value in (part.scale, part.zero_point))
    return RunPart(((), part.value.id), part.value.name, scale, zero_point)


def _parameter(value: Value | None) -> Any:
    if value is None:
        return None
    tensor = value.initializer
    return np.asarray(tensor.numpy()) if tensor is not None and hasattr(tensor, "numpy") else ((), value.id)


def pair_values(ours: Graph, theirs: Graph) -> dict[int, list[Pair]]:
    """Return pairs of values of two main graphs, by the number of our value.

    They are matched by name, inputs and outputs also by position; of a quantized and a float graph, by counterparts.
    """
    by_number: dict[int, list[Pair]] = {}
    if is_quantized(ours) != is_quantized(theirs):
        if is_quantized(theirs):
            pairs = [(Counterpart(value), part) for value, part in counterparts(ours, theirs).items()]
        else:
            pairs = [(part, Counterpart(value)) for value, part in counterparts(theirs, ours).items()]
    else:
        named = {value.name: value for value in theirs.values() if value.initializer is None and value.is_defined}
        both = [(value, named.get(value.name)) for value in ours.values() if value.initializer is None and value.name]
        pairs = [(Counterpart(a), Counterpart(b)) for a, b in both if b is not None]
    paired = {part.value for pair in pairs for part in pair}
    for mine, other in ((ours.required_inputs, theirs.required_inputs), (ours.outputs, theirs.outputs)):
        for a, b in by_position(mine, other):
            if a not in paired and b not in paired:
                pairs.append((Counterpart(a), Counterpart(b)))
    for mine_part, other_part in pairs:
        by_number.setdefault(mine_part.value.id, []).append(Pair(run_part(mine_part), run_part(other_part)))
    return by_number


def by_position(ours: Sequence[Value], theirs: Sequence[Value]) -> Iterator[tuple[Value, Value]]:
    """Yield pairs of inputs, or of outputs, of two graphs: by name, the others in order if their numbers are equal."""
    names = {value.name: value for value in theirs}
    yield from ((value, names[value.name]) for value in ours if value.name in names)
    names_here = {value.name for value in ours}
    left, right = [v for v in ours if v.name not in names], [v for v in theirs if v.name not in names_here]
    if len(left) == len(right):
        yield from zip(left, right, strict=True)


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
    shared = {}
    for mine, other in by_position([v for v in ours.inputs if v.name in feeds], theirs.inputs):
        value = in_precision_of(other.type, feeds[mine.name])
        if mine.name == other.name or other.type is None or describe(value).fits(other.type):
            shared[other.name] = value
    return shared


def operators_of(result: RunResult) -> dict[ValueKey, tuple[str, str]]:
    """Return operator and name of the nodes that computed the values of a run."""
    nodes = {(node.path, node.node): (node.operator, node.title) for node in result.nodes}
    makers = {slot: nodes.get((step.path, step.node)) for step in result.layout.steps for slot in step.outs if slot}
    found = ((key, makers.get(slot)) for key, slot in result.layout.slots.items())
    return {key: maker for key, maker in found if maker is not None}
