"""Summaries of values: statistics, a small histogram, a sign of clipping; for notes, tables and colours.

`summarize` is module-level, so that `RunResult.apply` can run it in the worker process.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from onnx_workbench.exec.results.run_result import RunResult
from onnx_workbench.exec.results.slot_map import ValueKey
from onnx_workbench.exec.values.arrays import Array
from onnx_workbench.exec.values.statistics import Statistics, statistics

#: Bars of the histogram.
BARS = 24
#: Elements sampled for the histogram, evenly spaced.
_SAMPLE = 1 << 15


@dataclass(frozen=True, slots=True)
class ValueSummary:
    """Summary of a tensor. `counts` has `BARS` entries from the smallest to the largest element, or none.

    The statistics are exact; the counts are of a sample. Both are empty for strings and complex numbers. `saturated` is
    the share of elements at the extremes of the tensor.
    """

    statistics: Statistics
    counts: tuple[int, ...] = ()
    saturated: float = 0.0


def summarize(result: RunResult, keys: Sequence[ValueKey]) -> list[ValueSummary | None]:
    """Return summaries of some values, in their order; None for a value that was not computed or is not a tensor.

    Reads every element once or twice, except of arrays summarized before. Values that were not kept have statistics
    alone.
    """
    return [_summary_at(result, key) for key in keys]


def _summary_at(result: RunResult, key: ValueKey) -> ValueSummary | None:
    value = result.find(key)
    if not isinstance(value, np.ndarray):
        facts = result.statistics(key)
        return None if facts is None else ValueSummary(facts)
    cached = _known.get(id(value))
    if cached is not None and cached[0]() is value:
        return cached[1]
    summary = summary_of(value)
    number = id(value)
    _known[number] = weakref.ref(value, lambda _gone: _known.pop(number, None)), summary
    return summary


def summary_of(array: Array) -> ValueSummary:
    """Return the summary of one array. Reads every element once or twice."""
    facts = statistics(array)
    return ValueSummary(facts, _outline(array, facts), _saturated(array, facts))


#: Cache by id of the array: values that a run reuses are the same arrays in the next.
_known: dict[int, tuple[weakref.ref[Array], ValueSummary]] = {}


def _outline(value: Array, facts: Statistics) -> tuple[int, ...]:
    if facts.minimum is None or facts.maximum is None:
        return ()
    low, high = float(facts.minimum), float(facts.maximum)
    numbers = _sample(value)
    with np.errstate(all="ignore"):
        # Halved, so that the range does not overflow.
        places = (
            (numbers / 2 - low / 2) / (high / 2 - low / 2) * BARS if high > low else np.full(numbers.shape, BARS / 2)
        )
    places = places[np.isfinite(places)]
    bars = np.clip(places.astype(np.intp), 0, BARS - 1)
    return tuple(np.bincount(bars, minlength=BARS).tolist())


def _sample(value: Array) -> Array:
    step = -(-value.size // _SAMPLE)
    if step % 2 == 0:
        step += 1  # an even step would sample only some of the channels of most shapes
    if value.flags.c_contiguous:
        return value.reshape(-1)[::step].astype(np.float64)
    return value.flat[::step].astype(np.float64)


def _saturated(value: Array, facts: Statistics) -> float:
    """Return the share of elements equal to the maximum or minimum, except zeros: a sign of clipping."""
    if facts.minimum is None or facts.maximum is None or facts.minimum == facts.maximum or value.size < 2:
        return 0.0
    if value.dtype.kind == "b":
        return 0.0
    extremes = [x for x in (facts.minimum, facts.maximum) if x != 0]
    count = sum(int(np.count_nonzero(value == value.dtype.type(x))) for x in extremes)
    return max(0.0, (count - len(extremes)) / value.size)
