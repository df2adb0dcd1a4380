"""Operators that change the shape of their input, or put parts of inputs together."""

from __future__ import annotations

from collections.abc import Container, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_workbench.model.analysis import symbolic
from onnx_workbench.model.analysis.symbolic import AnySize
from onnx_workbench.model.inference.facts import Dims
from onnx_workbench.model.inference.operators.node_call import (
    Found,
    NodeCall,
    Rule,
    SizeMismatch,
    axis_of,
    broadcast,
    expect_equal,
    expect_rank,
    replaced,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray


def reshaped(
    have: Dims, wanted: Sequence[AnySize], *, allow_zero: bool, dimensions: Container[AnySize] = ()
) -> Dims | None:
    """Return the dimensions after Reshape; None when an entry might be -1.

    `dimensions` are sizes of some tensor, and therefore not negative.
    """
    result: list[AnySize | None] = []
    for axis, size in enumerate(wanted):
        if isinstance(size, int) and size == 0 and not allow_zero:
            if axis >= len(have):
                return None
            result.append(have[axis])
        elif isinstance(size, int) and size == -1:
            result.append(None)
        elif not symbolic.is_never_negative(size) and size not in dimensions:
            return None
        else:
            result.append(size)
    if not allow_zero:
        _copy_where_zero(have, result, dimensions)
    others = tuple(d for d in result if d is not None)
    if len(others) == len(result):
        return others
    if len(others) != len(result) - 1:
        return None
    whole, rest = symbolic.product(have), symbolic.product(others)
    left = symbolic.divide(whole, rest)
    if left is None:
        return None
    if symbolic.least(left) is None:  # not divisible symbolically, but it is a size
        left = symbolic.quotient(whole, rest)
    return tuple(left if d is None else d for d in result)


def _copy_where_zero(have: Dims, result: list[AnySize | None], dimensions: Container[AnySize]) -> None:
    """Handle sizes that may be 0, as T // 2 for T = 1: such an entry copies the input's size.

    None stands for the inferred entry, which a single zero entry then is too. Several of them, without an inferred one,
    are kept: were one of them 0, the element counts would differ.
    """
    names = {name for d in have if isinstance(d, symbolic.Size) and len(d.terms) == 1 for name in d.terms[0][0]}
    places = {
        axis: size
        for axis, (size, copied) in enumerate(zip(result, have, strict=False))
        if size is not None and size != copied and size not in dimensions and symbolic.may_vanish(size, names)
    }
    if None in result:
        for axis, size in places.items():
            copied = have[axis]
            result[axis] = (
                symbolic.extreme(size, 1, largest=True) if copied == 1 else symbolic.undecided("0", size, copied)
            )
    elif len(places) == 1:
        result[min(places)] = None


def _expect_same_count(have: Dims, wanted: Sequence[AnySize], *, allow_zero: bool) -> None:
    """Raise SizeMismatch if a shape has another number of elements than the input, where both are numbers."""
    copied = [axis for axis, size in enumerate(wanted) if size == 0 and not allow_zero]
    if copied and copied[-1] >= len(have):
        raise SizeMismatch(f"Entry {copied[-1]} of the shape is 0, the input has {len(have)} dimensions")
    sizes = [have[axis] if axis in copied else size for axis, size in enumerate(wanted)]
    if not all(isinstance(size, int) for size in (*have, *sizes)):
        return
    whole, rest = symbolic.product(have), symbolic.product(tuple(size for size in sizes if size != -1))
    is_whole = whole == rest if -1 not in sizes else rest != 0 and symbolic.remainder(whole, rest) == 0
    if not is_whole and (whole or rest):
        raise SizeMismatch(f"The input has {whole} elements, the shape is {list(wanted)}")


def vector(values: Sequence[AnySize]) -> NDArray[Any]:
    """Return a vector of sizes."""
    array = np.empty(len(values), object)
    array[:] = list(values)
    return array


def _reshape(call: NodeCall) -> Sequence[Found]:
    have = call.dims(0)
    wanted = call.content(1) if call.opset >= 5 else vector(call.integers("shape") or ())
    if wanted is None or wanted.ndim != 1:
        return (call.open_dims(1),)
    sizes, allow_zero = wanted.tolist(), bool(call.integer("allowzero"))
    facts = call.facts
    if have is not None:
        _expect_same_count(have, sizes, allow_zero=allow_zero)
    dims = None if have is None else reshaped(have, sizes, allow_zero=allow_zero, dimensions=facts.differences)
    if dims is None:  # at least the rank is known
        return (tuple(s if isinstance(s, int) and s > 0 else None for s in sizes),)
    graph = call.node.graph
    is_always_run = graph is not None and graph.root is graph
    if -1 in sizes and is_always_run and have is not None and not symbolic.may_vanish(symbolic.product(have)):
        facts.differences.add(dims[sizes.index(-1)])  # an exact quotient, so not 0 where data has elements
    return (dims,)


def _expand(call: NodeCall) -> Sequence[Found]:
    have, wanted = call.dims(0), call.content(1)
    if wanted is None or wanted.ndim != 1:
        sizes = call.open_dims(1)
        return (None if have is None or sizes is None else (None,) * max(len(have), len(sizes)),)
    sizes = tuple(None if symbolic.least(s) is None else s for s in wanted.tolist())
    if have is None:
        return (None,)
    return (broadcast(have, tuple(call.facts.unknown_size() if s is None else s for s in sizes)),)


def _transpose(call: NodeCall) -> Sequence[Found]:
    dims, order = call.dims(0), call.integers("perm")
    if dims is None:
        return (None if order is None else (None,) * len(order),)
    order = tuple(reversed(range(len(dims)))) if order is None else order
    if sorted(a % len(dims) if dims else a for a in order) != list(range(len(dims))):
        raise SizeMismatch(f"perm is {list(order)}, expected each of the {len(dims)} axes once")
    return (tuple(dims[a] for a in order),)


def axes_of(call: NodeCall) -> tuple[int, ...] | None:
    """Return the axes of Squeeze or Unsqueeze; None when left out or unknown."""
    return call.numbers(1) if call.opset >= 13 else call.integers("axes")


def _unsqueeze(call: NodeCall) -> Sequence[Found]:
    axes, dims = axes_of(call), call.dims(0)
    if dims is None:
        return (None,)
    if axes is None:
        sizes = (None,) if call.facts.rank(call.input(1)) == 0 else call.open_dims(1)
        return (None if sizes is None else (None,) * (len(dims) + len(sizes)),)
    rank = len(dims) + len(axes)
    new = {axis_of(a, rank) for a in axes}
    if len(new) < len(axes):
        raise SizeMismatch(f"axes are {list(axes)}, some twice")
    left = iter(dims)
    return (tuple(1 if a in new else next(left) for a in range(rank)),)


def _squeeze(call: NodeCall) -> Sequence[Found]:
    axes, dims = axes_of(call), call.dims(0)
    if dims is None:
        return (None,)
    if axes is None:
        if call.opset >= 13 and call.input(1) is not None:
            return (None,)
        numbers = [d for d in dims if isinstance(d, int)]
        return (tuple(d for d in numbers if d != 1) if len(numbers) == len(dims) else None,)
    gone = {axis_of(a, len(dims)) for a in axes}
    for axis in sorted(gone):
        expect_equal(dims[axis], 1, f"Axis {axis}, which is removed, and 1")
    return (tuple(d for a, d in enumerate(dims) if a not in gone),)


def ignored_concat_inputs(inputs: Sequence[Dims | None], axis: int) -> set[int]:
    """Return the inputs of Concat without elements along the axis and with other sizes, which runtimes leave out."""
    with_dims = [dims for dims in inputs if dims is not None]
    if len(with_dims) < len(inputs) or any(len(dims) != len(with_dims[0]) for dims in with_dims):
        return set()
    first = next((n for n, dims in enumerate(with_dims) if dims[axis] != 0), 0)
    return {n for n, d in enumerate(with_dims) if n != first and d[axis] == 0 and _differ(d, with_dims[first], axis)}


def _differ(a: Dims, b: Dims, axis: int) -> bool:
    pairs = [pair for number, pair in enumerate(zip(a, b, strict=True)) if number != axis]
    return any(isinstance(x, int) and isinstance(y, int) and x != y for x, y in pairs)


def _concat(call: NodeCall) -> Sequence[Found]:
    return (joined(call, [call.dims(i) for i in range(len(call.node.inputs))]),)


def joined(call: NodeCall, parts: Sequence[Dims | None]) -> list[AnySize | None] | None:
    """The dimensions of parts one after the other along the attribute `axis`; None where none of them is known."""
    with_dims = [dims for dims in parts if dims is not None]
    if not with_dims:
        return None
    rank = len(with_dims[0])
    for dims in with_dims:
        expect_rank(dims, "An input", rank)
    axis = axis_of(call.integer("axis", 1), rank)
    left_out = ignored_concat_inputs(parts, axis)
    kept = [dims for number, dims in enumerate(with_dims) if number not in left_out]
    result: list[AnySize | None] = []
    for index, column in enumerate(zip(*kept, strict=True)):  # all equal: take a number where one has it
        numbers = [d for d in column if isinstance(d, int)]
        if index != axis and len(set(numbers)) > 1:
            raise SizeMismatch(f"Inputs have different sizes on axis {index}: {', '.join(map(str, numbers))}")
        result.append(next(iter(numbers), column[0]))
    whole = len(with_dims) == len(parts)
    result[axis] = reduce(lambda a, b: a + b, (dims[axis] for dims in with_dims)) if whole else None
    return result


def _gather(call: NodeCall) -> Sequence[Found]:
    data, indices = call.dims(0), call.dims(1)
    if data is None or indices is None:
        return (None,)
    return (replaced(data, axis_of(call.integer("axis"), len(data)), *indices),)


def _gather_elements(call: NodeCall) -> Sequence[Found]:
    data, indices = call.dims(0), call.dims(1)
    if data is not None and indices is not None:
        expect_rank(indices, "indices", len(data))
        axis_of(call.integer("axis"), len(data))
    return (indices,)


def _gather_nd(call: NodeCall) -> Sequence[Found]:
    data, indices = call.dims(0), call.dims(1)
    if data is None or not indices:
        return (None,)
    depth = indices[-1]
    if not isinstance(depth, int):
        return (None,)
    first = call.integer("batch_dims") + depth
    if first > len(data):
        raise SizeMismatch(f"Indices have {depth} numbers each, the input {len(data)} dimensions")
    return ((*indices[:-1], *data[first:]),)


def _flatten(call: NodeCall) -> Sequence[Found]:
    dims = call.dims(0)
    if dims is None:
        return ((None, None),)
    axis = call.integer("axis", 1)
    if not -len(dims) <= axis <= len(dims):
        raise SizeMismatch(f"axis is {axis}, expected {-len(dims)} to {len(dims)}")
    axis = axis + len(dims) if axis < 0 else axis
    return ((symbolic.product(dims[:axis]), symbolic.product(dims[axis:])),)


def _tile(call: NodeCall) -> Sequence[Found]:
    dims, repeats = call.dims(0), call.content(1)
    if dims is None:
        return (None,)
    if call.opset < 6:  # how often, and along which axis
        count, axis = call.scalar(1), call.scalar(2)
        is_known = isinstance(axis, int) and count is not None
        axis = axis_of(axis, len(dims)) if isinstance(axis, int) else 0
        return (replaced(dims, axis, dims[axis] * count) if is_known and count is not None else (None,) * len(dims),)
    if repeats is None:
        return ((None,) * len(dims),)
    if repeats.size != len(dims):
        raise SizeMismatch(f"There are {repeats.size} repeats for {len(dims)} axes")
    return (
        tuple(
            size * count if symbolic.is_less(count, 0) is False else None
            for size, count in zip(dims, repeats.reshape(-1), strict=True)
        ),
    )


def _pad(call: NodeCall) -> Sequence[Found]:
    dims = call.dims(0)
    if dims is None:
        return (None,)
    pads = call.numbers(1) if call.opset >= 11 else call.integers("pads") or call.integers("paddings")
    axes: Sequence[int] | None = call.numbers(3) if call.input(3) is not None else range(len(dims))
    if pads is None or axes is None:
        return ((None,) * len(dims),)
    if len(pads) != 2 * len(axes):
        raise SizeMismatch(f"There are {len(pads)} pads, expected {2 * len(axes)}")
    result: Sequence[AnySize | None] = dims
    for given, before, after in zip(axes, pads, pads[len(axes) :], strict=False):
        axis = axis_of(given, len(dims))
        result = replaced(result, axis, dims[axis] + (before + after))
    if any(isinstance(size, int) and size < 0 for size in result):
        raise SizeMismatch(f"Negative pads are larger than the input: sizes would be {result}")
    return (result,)


def _constant_of_shape(call: NodeCall) -> Sequence[Found]:
    wanted = call.content(0)
    if wanted is None:
        return (call.open_dims(0),)
    sizes = [None if symbolic.least(size) is None else size for size in wanted.reshape(-1)]
    if any(isinstance(size, int) and size < 0 for size in sizes):
        raise SizeMismatch(f"The shape is {sizes}, with a negative size")
    return (sizes,)


def _one_hot(call: NodeCall) -> Sequence[Found]:
    dims = call.dims(0)
    if dims is None:
        return (None,)
    axis = axis_of(call.integer("axis", -1), len(dims) + 1)
    return ((*dims[:axis], call.scalar(1), *dims[axis:]),)


def _compress(call: NodeCall) -> Sequence[Found]:
    dims, axis = call.dims(0), call.attribute("axis")
    if axis is None or dims is None:
        return ((None,) if axis is None else None,)
    return (replaced(dims, axis_of(axis, len(dims)), None),)


def _expand_dims(call: NodeCall) -> Sequence[Found]:
    """com.microsoft's ExpandDims, with one axis as an input."""
    dims, axis = call.dims(0), call.scalar(1)
    if dims is None or not isinstance(axis, int):
        return (None if dims is None else (None,) * (len(dims) + 1),)
    axis = axis_of(axis, len(dims) + 1)
    return ((*dims[:axis], 1, *dims[axis:]),)


RESHAPING: dict[str, Rule] = {
    "Reshape": _reshape,
    "Expand": _expand,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Concat": _concat,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "Flatten": _flatten,
    "Tile": _tile,
    "Pad": _pad,
    "ConstantOfShape": _constant_of_shape,
    "OneHot": _one_hot,
    "Compress": _compress,
    "ExpandDims": _expand_dims,
}
