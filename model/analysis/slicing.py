"""Symbolic shapes of operators that take parts of a tensor: Slice, Split, TopK."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from onnx_workbench.model.analysis import symbolic
from onnx_workbench.model.analysis.node_constants import content_of, ints, number
from onnx_workbench.model.analysis.symbolic import AnySize
from onnx_workbench.model.ir.graph import Node

if TYPE_CHECKING:
    from onnx_workbench.model.analysis.values import Dims, KnownValues

_ENDLESS = (1 << 31) - 1  # ends from here on mean all, from minus this on none


# -- Slice --------------------------------------------------------------------------------------------------------


def slice_bounds(facts: KnownValues, node: Node, opset: int) -> list[tuple[int, AnySize, AnySize, AnySize]] | None:
    """Return (axis, start, end, step) of a Slice, as given; None when unknown."""
    if opset < 10:
        given = [ints(node, "starts"), ints(node, "ends"), ints(node, "axes")]
        starts, ends, axes = given
        steps: Sequence[AnySize] | None = None
    else:
        read = [content_of(facts, node, i) for i in range(1, 5)]
        present = [i < len(node.inputs) and node.inputs[i] is not None for i in range(1, 5)]
        if any(p and r is None for p, r in zip(present, read, strict=True)):
            return None
        starts, ends, axes, steps = (None if r is None else tuple(r.reshape(-1)) for r in read)
    if starts is None or ends is None:
        return None
    axes = tuple(range(len(starts))) if axes is None else axes
    steps = (1,) * len(starts) if steps is None else steps
    if not all(isinstance(a, int) for a in axes) or not len(starts) == len(ends) == len(axes) == len(steps):
        return None
    rank = facts.rank(node.inputs[0])
    if rank is None and any(a < 0 for a in axes):
        return None
    return [(a % rank if rank else a, s, e, t) for a, s, e, t in zip(axes, starts, ends, steps, strict=True)]


def _sliced(facts: KnownValues, node: Node, opset: int) -> Dims | None:
    dims, bounds = facts.dims(node.inputs[0]), slice_bounds(facts, node, opset)
    if dims is None or bounds is None:
        return None
    result = list(dims)
    for axis, start, end, step in bounds:
        result[axis] = _cut(dims[axis], start, end, step)
    return tuple(result)


def _cut(size: AnySize, start: AnySize, end: AnySize, step: AnySize) -> AnySize:
    """Return the length of a sliced dimension."""
    if isinstance(size, int) and isinstance(start, int) and isinstance(end, int) and isinstance(step, int) and step:
        return len(symbolic.sliced(size, start, end, step))
    length = _length(size, start, end, forwards=step > 0) if isinstance(step, int) and step else None
    if length is None or not isinstance(step, int):
        return symbolic.undecided("slice", size, start, end, step)
    left = symbolic.rounded_up(symbolic.extreme(length, 0, largest=True), abs(step))
    return symbolic.undecided("slice", size, start, end, step) if left is None else left


def _length(size: AnySize, start: AnySize, end: AnySize, *, forwards: bool) -> AnySize | None:
    """Return the distance from start to end, negative where empty; None where the signs are unknown."""
    if _is_endless(start):
        start = size if forwards else -1
    elif _is_endless(-start):
        start = 0
    if _is_endless(end) or _is_endless(-end):
        stop = size if _is_endless(end) else -1
        from_end: bool | None = False
    else:
        from_end = symbolic.is_less(end, 0)
        stop = size + end if from_end else end
    is_negative = symbolic.is_less(start, 0)
    if is_negative is None or from_end is None:
        return None
    begin = size + start if is_negative else start
    if forwards:
        last = stop if from_end else symbolic.extreme(stop, size, largest=False)
        return symbolic.extreme(last - begin, last, largest=False) if is_negative else last - begin
    if is_negative and start != -1:
        begin = symbolic.extreme(begin, 0, largest=True)
    first = begin if start == -1 else symbolic.extreme(begin, size - 1, largest=False)
    return symbolic.extreme(first - stop, first + 1, largest=False) if from_end else first - stop


def _is_endless(bound: AnySize) -> bool:
    return isinstance(bound, int) and bound >= _ENDLESS


# -- Split and TopK -----------------------------------------------------------------------------------------------


def _split(facts: KnownValues, node: Node, opset: int) -> list[Dims | None] | None:
    dims = facts.dims(node.inputs[0])
    if not dims:
        return None
    axis = number(node, "axis") % len(dims)
    given = (len(node.inputs) > 1 and node.inputs[1] is not None) if opset >= 13 else "split" in node.attributes
    if given:
        content = content_of(facts, node, 1) if opset >= 13 else ints(node, "split")
        parts = None if content is None else tuple(content)
    else:
        parts = split_evenly(dims[axis], number(node, "num_outputs", len(node.outputs)), even=opset < 18)
    if parts is None:
        return None
    return [(*dims[:axis], part, *dims[axis + 1 :]) for part in parts]


def split_evenly(size: AnySize, count: int, *, even: bool) -> tuple[AnySize, ...] | None:
    """Return the sizes of `count` parts of a dimension: equal, except for the last if `even` is not required."""
    part = symbolic.dimension(size, count) if even else symbolic.rounded_up(size, count)
    if part is None:
        return None
    last = part if even else symbolic.extreme(size - part * (count - 1), 0, largest=True)
    return (*(part for _ in range(count - 1)), last)


def _top_k(facts: KnownValues, node: Node, opset: int) -> list[Dims | None] | None:
    dims = facts.dims(node.inputs[0])
    if not dims:
        return None
    content = content_of(facts, node, 1) if opset >= 10 else None
    count = number(node, "k", -1) if opset < 10 else None if content is None else content.reshape(-1)[0]
    if count is None:
        return None
    axis = number(node, "axis") % len(dims)
    return [(*dims[:axis], count, *dims[axis + 1 :])] * 2


CUTTING: dict[str, Callable[[KnownValues, Node, int], Dims | list[Dims | None] | None]] = {
    "Slice": _sliced,
    "Split": _split,
    "TopK": _top_k,
}
