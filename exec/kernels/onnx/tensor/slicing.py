"""Slice, Split, Concat and Tile, and the operators that rearrange blocks: DepthToSpace, ReverseSequence …"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.context import Context
from onnx_workbench.exec.kernels.registry import kernel, prepares
from onnx_workbench.exec.kernels.shared.axes import KEPT_SHAPES, integers, normal_axes, normal_axis, scalar_int
from onnx_workbench.exec.values.arrays import UNCHECKED, Array, check_size, zeros
from onnx_workbench.exec.values.statistics import describe
from onnx_workbench.model.analysis.output_sizes import split_evenly


@kernel("Slice", since=1)
def slice_1(data: Array, *, axes: Sequence[int] | None = None, ends: Sequence[int], starts: Sequence[int]) -> Array:
    """Return a view of the elements from `starts` to `ends` of the axes."""
    return slice_axes(data, starts, ends, axes, None)


@kernel("Slice", since=10)
def slice_10(data: Array, starts: Array, ends: Array, axes: Array | None = None, steps: Array | None = None) -> Array:
    """With the bounds as inputs, and with steps, which may be negative."""
    return slice_axes(
        data,
        integers(starts, "starts"),
        integers(ends, "ends"),
        None if axes is None else integers(axes, "axes"),
        None if steps is None else integers(steps, "steps"),
    )


@prepares(slice_10)
def prepare_slice(constants: Sequence[Array | None]) -> Callable[..., Array] | None:
    """Read constant bounds once, and clamp them once for each shape."""
    try:
        bounds = [None if c is None else integers(c, "a bound") for c in constants[1:]]
    except KernelError:
        return None  # the plain kernel reports the error when it runs
    starts, ends, axes, steps = [*bounds, None, None, None, None][:4]
    if starts is None or ends is None:
        return None
    known: dict[tuple[int, ...], tuple[slice, ...]] = {}

    def run(
        data: Array, now_starts: Array, now_ends: Array, now_axes: Array | None = None, now_steps: Array | None = None
    ) -> Array:
        if (now_axes is None) != (axes is None) or (now_steps is None) != (steps is None):
            return slice_10(data, now_starts, now_ends, now_axes, now_steps)
        shape = data.shape
        index = known.get(shape)
        if index is None:
            index = _index(shape, starts, ends, axes, steps)
            if len(known) < KEPT_SHAPES:
                known[shape] = index
        return data[index]

    return run


def slice_axes(
    data: Array,
    starts: Sequence[int],
    ends: Sequence[int],
    axes: Sequence[int] | None,
    steps: Sequence[int] | None,
) -> Array:
    """Return a view by the bounds of each axis, clamped as Slice demands, which differs slightly from Python."""
    return data[_index(data.shape, starts, ends, axes, steps)]


def _index(
    shape: tuple[int, ...],
    starts: Sequence[int],
    ends: Sequence[int],
    axes: Sequence[int] | None,
    steps: Sequence[int] | None,
) -> tuple[slice, ...]:
    """Return the index of a view of an array of this shape."""
    places = range(len(starts)) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(places) == len(steps):
        counts = f"{len(starts)} starts, {len(ends)} ends, {len(places)} axes and {len(steps)} steps"
        msg = f"{counts}; expected as many of each"
        raise KernelError(msg)
    index = [slice(None)] * len(shape)
    for axis, start, end, step in zip(places, starts, ends, steps, strict=True):
        position = normal_axis(axis, len(shape), "axes")
        index[position] = _bounds(start, end, step, shape[position])
    return tuple(index)


def _bounds(start: int, end: int, step: int, length: int) -> slice:
    if step == 0:
        msg = "a step is 0; expected any other number"
        raise KernelError(msg)
    start += length if start < 0 else 0
    end += length if end < 0 else 0
    if step > 0:
        return slice(min(max(start, 0), length), min(max(end, 0), length), step)
    start = min(max(start, 0), length - 1)
    end = min(max(end, -1), length - 1)
    if length == 0 or start <= end:
        return slice(0, 0)
    # A stop of -1 would mean the last element to Python.
    return slice(start, None if end < 0 else end, step)


@kernel("Split", since=1)
def split_1(
    ctx: Context,
    x: Array,
    lengths: Array | None = None,
    *,
    axis: int | None = None,
    split: Sequence[int] | None = None,
) -> tuple[Array, ...]:
    """The lengths are an input, of the type of the data, or an attribute; without either the parts are equal."""
    sizes = split if lengths is None else integers(lengths.astype(np.int64), "split")
    return split_axis(x, axis or 0, sizes, ctx.outputs)


@kernel("Split", since=2)
def split_2(ctx: Context, x: Array, *, axis: int = 0, split: Sequence[int] | None = None) -> tuple[Array, ...]:
    """The lengths are an attribute; without it the parts are equal."""
    return split_axis(x, axis, split, ctx.outputs)


@kernel("Split", since=13)
def split_13(ctx: Context, x: Array, split: Array | None = None, *, axis: int = 0) -> tuple[Array, ...]:
    """The lengths are an input; without it the parts are equal."""
    return split_axis(x, axis, None if split is None else integers(split, "split"), ctx.outputs)


@kernel("Split", since=18)
def split_18(
    ctx: Context, x: Array, split: Array | None = None, *, axis: int = 0, num_outputs: int | None = None
) -> tuple[Array, ...]:
    """With `num_outputs` the last parts may be shorter."""
    if split is not None:
        return split_axis(x, axis, integers(split, "split"), ctx.outputs)
    count = ctx.outputs if num_outputs is None else num_outputs
    if count != ctx.outputs:
        msg = f"num_outputs is {count}, the node has {ctx.outputs} outputs; expected as many"
        raise KernelError(msg)
    length = x.shape[normal_axis(axis, x.ndim)]
    return split_axis(x, axis, split_evenly(length, count, even=False), count)


def split_axis(x: Array, axis: int, lengths: Sequence[int] | None, count: int) -> tuple[Array, ...]:
    """Return views of `count` parts; `lengths` None: equal parts."""
    axis = normal_axis(axis, x.ndim)
    length = x.shape[axis]
    if not lengths:
        if length % count:
            given = f"axis {axis} of length {length} cannot be split into {count} equal parts"
            msg = f"{given}; expected a multiple of {count}"
            raise KernelError(msg)
        lengths = [length // count] * count
    if sum(lengths) != length or min(lengths) < 0 or len(lengths) != count:
        given = f"split {list(lengths)} for {count} outputs does not divide axis {axis} of length {length}"
        msg = f"{given}; expected a length from 0 for each, {length} in sum"
        raise KernelError(msg)
    before = (slice(None),) * axis
    parts, start = [], 0
    for n in lengths:
        parts.append(x[(*before, slice(start, start + n))])
        start += n
    return tuple(parts)


@kernel("Concat", since=1)
def concat_1(*inputs: Array, axis: int | None = None) -> Array:
    """Join along `axis`, 1 when absent."""
    return concat(inputs, 1 if axis is None else axis)


@kernel("Concat", since=4)
def concat_4(*inputs: Array, axis: int) -> Array:
    """Join along `axis`."""
    return concat(inputs, axis)


def concat(parts: Sequence[Array], axis: int) -> Array:
    """Concatenate along an axis; all other dimensions must be equal.

    Tensors of the same rank without elements along the axis are left out, whatever their other sizes, as in ONNX
    Runtime; if all are, the first one determines the shape.
    """
    if not parts:
        msg = "nothing to join; expected one tensor or more"
        raise KernelError(msg)
    if len({part.dtype for part in parts}) == 1 and sum([part.nbytes for part in parts]) <= UNCHECKED:
        with suppress(ValueError):  # other sizes: some may be left out, and the message names them
            return np.concatenate(parts, axis)
    axis = normal_axis(axis, parts[0].ndim)
    first = next((part for part in parts if part.ndim > axis and part.shape[axis]), parts[0])
    length = 0
    joined = []
    for part in parts:
        is_left_out = part.ndim == first.ndim and not part.shape[axis]
        if not is_left_out and (
            part.ndim != first.ndim
            or part.shape[:axis] != first.shape[:axis]
            or part.shape[axis + 1 :] != first.shape[axis + 1 :]
        ):
            shapes = ", ".join(str(p.shape) for p in parts[:8])
            msg = f"shapes {shapes} differ in more than axis {axis}; expected the same sizes elsewhere"
            raise KernelError(msg)
        if part.dtype != first.dtype:
            msg = f"tensors of {describe(first)} and {describe(part)} cannot be joined; expected the same type"
            raise KernelError(msg)
        length += part.shape[axis]
        if not is_left_out:
            joined.append(part)
    if sum([part.nbytes for part in joined]) > UNCHECKED:
        check_size((*first.shape[:axis], length, *first.shape[axis + 1 :]), first.dtype)
    return np.concatenate(joined or [first], axis)


@kernel("Tile", since=1)
def tile_1(x: Array, tiles: Array, axis: Array) -> Array:
    """Repeat along one axis; both numbers are tensors of the type of the input."""
    repeats = [1] * x.ndim
    repeats[normal_axis(scalar_int(axis, "axis"), x.ndim)] = scalar_int(tiles, "tiles")
    return tile(x, repeats)


@kernel("Tile", since=6)
def tile_6(x: Array, repeats: Array) -> Array:
    """Repeat along every axis."""
    return tile(x, integers(repeats, "repeats"))


def tile(x: Array, repeats: Sequence[int]) -> Array:
    """Repeat the input; a view where only axes of length 1 are repeated."""
    if len(repeats) != x.ndim or any(r < 0 for r in repeats):
        msg = f"repeats {list(repeats)} for an input of shape {x.shape}; expected {x.ndim} numbers from 0"
        raise KernelError(msg)
    result = [n * r for n, r in zip(x.shape, repeats, strict=True)]
    check_size(result, x.dtype)
    apart: list[int] = []
    spread: list[int] = []
    for n, r in zip(x.shape, repeats, strict=True):
        if r != 1:
            apart.append(1)
            spread.append(r)
        apart.append(n)
        spread.append(n)
    return np.broadcast_to(x.reshape(apart), spread).reshape(result)


@kernel("CenterCropPad", since=18)
def center_crop_pad_18(x: Array, shape: Array, *, axes: Sequence[int] | None = None) -> Array:
    """Crop or zero-pad to the given lengths, centred."""
    wanted = integers(shape, "shape")
    places = normal_axes(range(x.ndim) if axes is None else axes, x.ndim)
    if len(wanted) != len(places) or any(n < 0 for n in wanted):
        msg = f"shape is {wanted}; expected {len(places)} lengths from 0"
        raise KernelError(msg)
    source = [slice(None)] * x.ndim
    target = [slice(None)] * x.ndim
    result = list(x.shape)
    for axis, n in zip(places, wanted, strict=True):
        have = x.shape[axis]
        result[axis] = n
        if n < have:
            source[axis] = slice((have - n) // 2, (have - n) // 2 + n)
        elif n > have:
            target[axis] = slice((n - have) // 2, (n - have) // 2 + have)
    middle = x[tuple(source)]
    if middle.shape == tuple(result):
        return middle
    if x.dtype.kind == "O":
        check_size(result, x.dtype)
        padded = np.full(result, "", object)
    else:
        padded = zeros(result, x.dtype)
    padded[tuple(target)] = middle
    return padded


@kernel("DepthToSpace", since=1, without=("mode",))
@kernel("DepthToSpace", since=11)
def depth_to_space_11(x: Array, *, blocksize: int, mode: str = "DCR") -> Array:
    """Move depth into blocks of height and width, in depth-column-row order or, from 11 on, column-row-depth."""
    _check_block(x, blocksize, mode)
    batch, depth, height, width = x.shape
    inner = depth // (blocksize * blocksize)
    if inner * blocksize * blocksize != depth:
        msg = f"depth {depth} is no multiple of blocksize² = {blocksize * blocksize}; expected a multiple"
        raise KernelError(msg)
    if mode == "DCR":
        parts = x.reshape(batch, blocksize, blocksize, inner, height, width).transpose(0, 3, 4, 1, 5, 2)
    else:
        parts = x.reshape(batch, inner, blocksize, blocksize, height, width).transpose(0, 1, 4, 2, 5, 3)
    return parts.reshape(batch, inner, height * blocksize, width * blocksize)


@kernel("SpaceToDepth", since=1, without=("mode",))
@kernel("SpaceToDepth", since=28)
def space_to_depth_28(x: Array, *, blocksize: int, mode: str = "DCR") -> Array:
    """Move blocks of height and width into depth, in depth-column-row order or, from 28 on, column-row-depth."""
    _check_block(x, blocksize, mode)
    batch, depth, height, width = x.shape
    if height % blocksize or width % blocksize:
        msg = f"height {height} and width {width} are no multiples of blocksize {blocksize}; expected multiples"
        raise KernelError(msg)
    rows, columns = height // blocksize, width // blocksize
    parts = x.reshape(batch, depth, rows, blocksize, columns, blocksize)
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    return parts.transpose(order).reshape(batch, depth * blocksize * blocksize, rows, columns)


def _check_block(x: Array, blocksize: int, mode: str) -> None:
    if x.ndim != 4 or blocksize < 1 or mode not in ("DCR", "CRD"):
        msg = (
            f"input of shape {x.shape}, blocksize {blocksize}, mode {mode!r}; "
            "expected four dimensions, a blocksize from 1, and DCR or CRD"
        )
        raise KernelError(msg)


@kernel("ReverseSequence", since=10)
def reverse_sequence_10(x: Array, sequence_lens: Array, *, batch_axis: int = 1, time_axis: int = 0) -> Array:
    """Reverse the first sequence_lens[i] steps of each batch entry."""
    batch, time = normal_axes((batch_axis, time_axis), x.ndim, "batch_axis and time_axis")
    lengths = np.asarray(sequence_lens, np.int64)
    steps = x.shape[time]
    if lengths.shape != (x.shape[batch],) or (lengths.size and not 0 <= lengths.min() <= lengths.max() <= steps):
        msg = f"sequence_lens is {lengths.tolist()}; expected {x.shape[batch]} lengths within [0, {steps}]"
        raise KernelError(msg)
    order = np.arange(steps)
    source = np.where(order < lengths[:, None], lengths[:, None] - 1 - order, order)  # [batch, time]
    entries = np.arange(x.shape[batch])[:, None]
    moved = np.moveaxis(x, (batch, time), (0, 1))
    return np.moveaxis(moved[entries, source], (0, 1), (batch, time))


@kernel("Trilu", since=14)
def trilu_14(x: Array, k: Array | None = None, *, upper: int = 1) -> Array:
    """Keep the upper or lower triangle from diagonal `k` on, zero elsewhere."""
    if x.ndim < 2:
        msg = f"input of shape {x.shape}; expected two dimensions or more"
        raise KernelError(msg)
    rows, columns = x.shape[-2:]
    offset = 0 if k is None else scalar_int(k, "k")
    offset = min(max(offset, -rows - 1), columns + 1)
    lower = np.tri(rows, columns, offset - 1 if upper else offset, dtype=bool)
    zero = np.zeros((), x.dtype)
    return np.where(lower, zero, x) if upper else np.where(lower, x, zero)
