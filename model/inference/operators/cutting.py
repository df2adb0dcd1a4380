"""Slice, Split, TopK and Range."""

from __future__ import annotations

from collections.abc import Sequence

from onnx_workbench.model.analysis import symbolic
from onnx_workbench.model.analysis.output_sizes import range_count, split_evenly
from onnx_workbench.model.analysis.symbolic import AnySize
from onnx_workbench.model.inference.operators.node_call import (
    Found,
    NodeCall,
    Rule,
    SizeMismatch,
    axis_of,
    expect_equal,
    replaced,
    total,
)
from onnx_workbench.model.ir.types import ElementType

_ENDLESS = (1 << 31) - 1  # ends from here on mean all, from minus this on none


# -- Slice --------------------------------------------------------------------------------------------------------


def slice_bounds(call: NodeCall) -> list[tuple[int, AnySize, AnySize, AnySize]] | None:
    """Return (axis, start, end, step) of a Slice, as given; None when unknown."""
    if call.opset < 10:
        starts: Sequence[AnySize] | None = call.integers("starts")
        ends, axes = call.integers("ends"), call.integers("axes")
        steps: Sequence[AnySize] | None = None
    else:
        read = [call.content(i) for i in range(1, 5)]
        if any(r is None and call.input(i) is not None for i, r in enumerate(read, 1)):
            return None
        starts, ends, axes, steps = (None if r is None else tuple(r.reshape(-1)) for r in read)
    if starts is None or ends is None:
        return None
    axes = tuple(range(len(starts))) if axes is None else axes
    steps = (1,) * len(starts) if steps is None else steps
    if not all(isinstance(a, int) for a in axes) or not len(starts) == len(ends) == len(axes) == len(steps):
        return None
    rank = call.facts.rank(call.input(0))
    if rank is None and any(a < 0 for a in axes):
        return None
    return [(a % rank if rank else a, s, e, t) for a, s, e, t in zip(axes, starts, ends, steps, strict=True)]


def _slice(call: NodeCall) -> Sequence[Found]:
    dims, bounds = call.dims(0), slice_bounds(call)
    if dims is None:
        return (None,)
    axes: Sequence[int] | None = range(len(dims))
    if call.opset < 10:
        axes = call.integers("axes") or axes
    elif call.input(3) is not None:
        axes = call.numbers(3)
    for axis in axes or ():
        axis_of(axis, len(dims))
    if bounds is None:
        axes = None if axes is None else [axis % len(dims) for axis in axes]
        return (tuple(None if axes is None or axis in axes else size for axis, size in enumerate(dims)),)
    result: Sequence[AnySize | None] = dims
    for axis, start, end, step in bounds:
        if step == 0:
            raise SizeMismatch(f"The step of axis {axis} is 0")
        result = replaced(result, axis, _cut(dims[axis], start, end, step))
    return (result,)


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


# -- Split, TopK, Range -------------------------------------------------------------------------------------------


def split_lengths(call: NodeCall, size: AnySize) -> Sequence[AnySize | None]:
    """Return the sizes of the parts of a Split along its axis."""
    is_input = 1 if call.opset < 2 or call.opset >= 13 else None
    has_lengths = call.input(1) is not None if is_input else "split" in call.node.attributes
    if has_lengths or "split" in call.node.attributes:
        content = call.content(1) if is_input and call.input(1) is not None else call.integers("split")
        parts: Sequence[AnySize | None] | None = None if content is None else tuple(content)
        if parts is not None and len(parts) != call.outputs:
            raise SizeMismatch(f"split has {len(parts)} sizes for {call.outputs} outputs")
        if parts is not None:
            expect_equal(total(*parts), size, "The sum of split and the size of the axis")
    else:
        count = call.integer("num_outputs", call.outputs)
        if isinstance(size, int) and call.opset < 18 and size % max(count, 1):
            raise SizeMismatch(f"An axis of {size} cannot be split into {count} equal parts")
        parts = split_evenly(size, count, even=call.opset < 18)
    return (None,) * call.outputs if parts is None else parts


def _split(call: NodeCall) -> Sequence[Found]:
    dims = call.dims(0)
    if dims is None:
        return ()
    axis = axis_of(call.integer("axis"), len(dims))
    return [replaced(dims, axis, part) for part in split_lengths(call, dims[axis])]


def _top_k(call: NodeCall) -> Sequence[Found]:
    dims = call.dims(0)
    if dims is None:
        return ()
    count: AnySize | None = call.integer("k", -1) if call.opset < 10 else call.scalar(1)
    axis = axis_of(call.integer("axis", -1), len(dims))
    size = dims[axis]
    if isinstance(count, int) and isinstance(size, int) and not 0 <= count <= size:
        raise SizeMismatch(f"k is {count} for an axis of {size}")
    return [replaced(dims, axis, count)] * 2


def _range(call: NodeCall) -> Sequence[Found]:
    bounds = [_bound(call, index) for index in range(3)]
    start, limit, step = bounds
    if step == 0:
        raise SizeMismatch("delta is 0")
    if start is None or limit is None or step is None:
        return ((None,),)
    numbers = [bound for bound in bounds if isinstance(bound, (int, float))]
    if len(numbers) == 3:
        return ((range_count(*numbers, is_double=call.kind(0) is ElementType.DOUBLE),),)
    if step != 1 or isinstance(start, float) or isinstance(limit, float):
        return ((None,),)
    count = limit - start
    return ((count if symbolic.is_less(count, 0) is False else None,),)


def _bound(call: NodeCall, index: int) -> AnySize | float | None:
    """Return the number in an input of Range, also one that is not whole."""
    found, value = call.content(index), call.input(index)
    if found is not None and found.size == 1 and isinstance(found.reshape(-1)[0], (int, symbolic.Size)):
        size: AnySize = found.reshape(-1)[0]
        return size
    factors = None if value is None else call.facts.factors.get(value)
    return factors[0] if factors is not None and len(factors) == 1 else None


CUTTING: dict[str, Rule] = {"Slice": _slice, "Split": _split, "TopK": _top_k, "Range": _range}
