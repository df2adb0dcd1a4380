"""Facts about all values of a run at once: what differs from another run, numbers to colour by, wrong declarations.

The functions are module-level, so that `RunResult.apply` can have them computed where the values are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from exec.arrays import Array
from exec.inspection.compare import Difference, compare_values
from exec.inspection.statistics import Statistics, ValueInfo, describe, statistics
from exec.plan import MISSING, ValueKey
from exec.results import RunResult
from exec.values import same_value
from model.types import TensorType, Type


def changed_values(result: RunResult, before: RunResult) -> list[int]:
    """Numbers of values of the main graph that both runs kept and that differ in any bit."""
    changed = []
    for key, slot in result.layout.slots.items():
        other = before.layout.slots.get(key)
        if key[0] or other is None:
            continue
        ours, theirs = result.slots[slot], before.slots[other]
        if ours is theirs or ours is MISSING or theirs is MISSING:
            continue
        if not same_value(ours, theirs):
            changed.append(key[1])
    return changed


@dataclass(frozen=True, slots=True)
class Measure:
    """One tensor in numbers. `saturated` is the share of elements at the extremes of the tensor."""

    info: ValueInfo
    statistics: Statistics
    saturated: float


def measure_values(result: RunResult) -> dict[ValueKey, Measure]:
    """Statistics of every tensor that was kept. Reads every element once or twice."""
    found: dict[ValueKey, Measure] = {}
    known: dict[int, Measure] = {}
    for key, slot in result.layout.slots.items():
        value = result.slots[slot]
        if not isinstance(value, np.ndarray) or value.dtype.kind == "O":
            continue
        if id(value) not in known:
            facts = statistics(value)
            known[id(value)] = Measure(describe(value), facts, _saturated(value, facts))
        found[key] = known[id(value)]
    return found


def _saturated(value: Array, facts: Statistics) -> float:
    """The share of elements equal to the largest or smallest one, zero aside: what clipping leaves behind."""
    if facts.minimum is None or facts.maximum is None or facts.minimum == facts.maximum or value.size < 2:
        return 0.0
    if value.dtype.kind not in "fiu":
        return 0.0
    extremes = [x for x in (facts.minimum, facts.maximum) if x != 0]
    count = sum(int(np.count_nonzero(value == value.dtype.type(x))) for x in extremes)
    return max(0.0, (count - len(extremes)) / value.size)


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A tensor whose type or shape is not the declared one."""

    number: int
    found: ValueInfo
    declared: Type


def contradictions(result: RunResult, declared: Mapping[int, Type]) -> list[Contradiction]:
    """Tensors that contradict what is declared for them, by number of the value. Looks at no element."""
    found = []
    for key in result.layout.slots:
        kind = declared.get(key[1]) if not key[0] else None
        info = result.info(key) if isinstance(kind, TensorType) else None
        if kind is None or info is None or info.kind != "tensor":
            continue
        assert isinstance(kind, TensorType)
        wrong = kind.element_type not in (info.element_type, 0)
        if kind.shape is not None:
            dims = kind.shape.dims
            wrong = wrong or len(dims) != len(info.shape)
            wrong = wrong or any(isinstance(d, int) and d != n for d, n in zip(dims, info.shape, strict=False))
        if wrong:
            found.append(Contradiction(key[1], info, kind))
    return found


@dataclass(frozen=True, slots=True)
class Watched:
    """One value now and in an earlier run; `statistics` of tensors only."""

    info: ValueInfo
    statistics: Statistics | None
    difference: Difference | None = None
    mean_before: float | None = None


def watch(result: RunResult, keys: Sequence[ValueKey], before: RunResult | None = None) -> list[Watched]:
    """What became of some values, in the order of the keys; those that were not computed are nothing of shape ()."""
    watched = []
    for key in keys:
        info = result.info(key)
        if info is None:
            watched.append(Watched(describe(None), None))
            continue
        facts = result.statistics(key)
        earlier = before.find(key) if before is not None else MISSING
        if before is None or earlier is MISSING:
            watched.append(Watched(info, facts))
            continue
        known = before.statistics(key)
        difference = compare_values(result.value(key), earlier)
        watched.append(Watched(info, facts, difference, None if known is None else known.mean))
    return watched
