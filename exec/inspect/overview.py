"""Facts about values of a run: changes since another run, wrong declarations.

The functions are module-level, so that `RunResult.apply` can run them in the worker process.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from onnx_workbench.exec.inspect.compare import ValueDifference, compare_values
from onnx_workbench.exec.results.run_result import RunResult
from onnx_workbench.exec.results.slot_map import ValueKey
from onnx_workbench.exec.results.values import MISSING, same_value
from onnx_workbench.exec.values.arrays import RuntimeValue
from onnx_workbench.exec.values.statistics import Statistics, ValueInfo, describe
from onnx_workbench.model.ir.types import (
    Dimension,
    ElementType,
    MapType,
    SequenceType,
    Shape,
    SparseTensorType,
    TensorType,
    Type,
)
from onnx_workbench.model.progress import SILENT, Progress


def changed_values(result: RunResult, before: RunResult) -> list[int]:
    """Return the numbers of main-graph values that both runs kept and that differ in any bit.

    If only one of the runs is in a worker, its values are transferred, except those whose type or shape differs.
    """
    changed = []
    for key, slot in result.layout.slots.items():
        other = before.layout.slots.get(key)
        if key[0] or other is None:
            continue
        ours, theirs = result.slots[slot], before.slots[other]
        if ours is MISSING or theirs is MISSING:
            info, known = result.info(key), before.info(key)
            if info is None or known is None:
                continue
            if (info.kind, info.element_type, info.shape) != (known.kind, known.element_type, known.shape):
                changed.append(key[1])
                continue
            ours, theirs = _available_value(result, key), _available_value(before, key)
        if ours is theirs or ours is MISSING or theirs is MISSING:
            continue
        if not same_value(ours, theirs):
            changed.append(key[1])
    return changed


def _available_value(result: RunResult, key: ValueKey) -> RuntimeValue:
    """Return a value from this process or a worker; MISSING if it would have to be computed in this process."""
    return result.find(key) if result.remote is None else result.value(key)


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A value whose type or shape contradicts its declaration."""

    key: ValueKey
    found: ValueInfo
    declared: Type


def contradictions(result: RunResult, declared: Mapping[int, Type], progress: Progress = SILENT) -> list[Contradiction]:
    """Find values that contradict their declaration, by number: in the graph, in functions, in subgraphs.

    A value computed in several calls is reported once. Reads no elements.
    """
    by_number: dict[int, Contradiction] = {}
    inside = ((path, number) for path, values in result.bodies.items() for number in values)
    for key in progress.paced(chain(result.layout.slots, inside)):
        kind = declared.get(key[1])
        info = result.info(key) if kind is not None and key[1] not in by_number else None
        if kind is not None and info is not None and not info.fits(kind):
            by_number[key[1]] = Contradiction(key, info, kind)
    return list(by_number.values())


def tensor_type(
    found: ValueInfo, declared: Type, inferred: Type | None = None, calls: Collection[ValueInfo] = ()
) -> Type | None:
    """Return the actual type of a tensor to replace a contradicting declaration; None for other values.

    Symbols of the declared shape are kept if the rank is right; a wrong size becomes unknown if the inferred size is
    unknown, or if the size differs among the `calls` of the value's function.
    """
    if found.element_type is None:
        return None
    shapes = {found.shape, *(call.shape for call in calls)}
    kind = SparseTensorType if found.kind == "sparse" else TensorType
    if len(set(map(len, shapes))) > 1:
        return kind(found.element_type)
    by_axis = zip(*shapes, strict=True)
    dims: tuple[Dimension, ...] = tuple([sizes[0] if len(set(sizes)) == 1 else None for sizes in by_axis])
    kept, free = (_dims_of(type_, len(dims)) or dims for type_ in (declared, inferred))
    dims = tuple(
        [
            d if d == n or not isinstance(d, int) else n if isinstance(f, int) else f
            for d, n, f in zip(kept, dims, free, strict=True)
        ]
    )
    return kind(found.element_type, Shape(dims))


def _dims_of(type_: Type | None, rank: int) -> tuple[Dimension, ...]:
    """Return the dimensions of a tensor type if it has the rank, else ()."""
    dims = type_.shape.dims if isinstance(type_, TensorType) and type_.shape is not None else ()
    return dims if len(dims) == rank else ()


def actual_type(value: RuntimeValue, declared: Type) -> Type | None:
    """Return the actual type of any value to replace a contradicting declaration; None if unknown."""
    if isinstance(value, list):
        element = actual_type(value[0], TensorType(ElementType.UNDEFINED)) if value else None
        if isinstance(element, TensorType) and len({one.shape for one in value if isinstance(one, np.ndarray)}) != 1:
            element = replace(element, shape=None)
        return None if element is None else SequenceType(element)
    return _type_of_map(value) if isinstance(value, dict) else tensor_type(describe(value), declared)


def _type_of_map(value: Mapping[object, RuntimeValue]) -> Type | None:
    first = next(iter(value.items()), None)
    if first is None:
        return None
    key_type = ElementType.STRING if isinstance(first[0], str) else ElementType.INT64
    held = np.asarray(first[1])
    element = ElementType.STRING if isinstance(first[1], str) else describe(held).element_type
    return None if element is None else MapType(key_type, TensorType(element, Shape(held.shape)))


@dataclass(frozen=True, slots=True)
class WatchedValue:
    """A value and how it differs from an earlier run; `statistics` for tensors only."""

    info: ValueInfo
    statistics: Statistics | None
    difference: ValueDifference | None = None
    mean_before: float | None = None


def watch(result: RunResult, keys: Sequence[ValueKey], before: RunResult | None = None) -> list[WatchedValue]:
    """Compare some values with an earlier run, in the order of the keys; values not computed have the info of None."""
    watched = []
    for key in keys:
        info = result.info(key)
        if info is None:
            watched.append(WatchedValue(describe(None), None))
            continue
        facts = result.statistics(key)
        earlier = before.find(key) if before is not None else MISSING
        if before is None or earlier is MISSING:
            watched.append(WatchedValue(info, facts))
            continue
        facts_before = before.statistics(key)
        difference = compare_values(result.value(key), earlier)
        watched.append(WatchedValue(info, facts, difference, None if facts_before is None else facts_before.mean))
    return watched
