"""ConvTranspose and Col2Im: scatter-add into windows; DeformConv with its displaced taps."""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from math import prod
from typing import Any

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.onnx.nn.convolution import conv_window
from onnx_workbench.exec.kernels.registry import keeps, kernel
from onnx_workbench.exec.kernels.shared.dtypes import compute_dtype, narrow, widen
from onnx_workbench.exec.kernels.shared.windows import Tap, Window
from onnx_workbench.exec.values.arrays import Array, check_size, empty, zeros
from onnx_workbench.exec.values.limits import checkpoint
from onnx_workbench.model.analysis.output_sizes import same_transposed_size, transposed_size


class _Taps:
    """Weights (C, M/group, kernel…) as the matrix that gives all taps."""

    def __init__(self, w: Array, group: int) -> None:
        self.shape = w.shape
        self.packed = _pack(widen(w), group)


def _kept_taps(w: Array, _zero_point: Array | None, attributes: dict[str, Any]) -> _Taps | None:
    group = attributes.get("group", 1)
    return None if w.ndim < 3 or group < 1 or w.shape[0] % group else _Taps(w, group)


@keeps(1, _kept_taps)
@kernel("ConvTranspose", since=1)
def conv_transpose_1(
    x: Array,
    w: Array | _Taps,
    b: Array | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: tuple[int, ...] | None = None,
    group: int = 1,
    kernel_shape: tuple[int, ...] | None = None,
    output_padding: tuple[int, ...] | None = None,
    output_shape: tuple[int, ...] | None = None,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Array:
    """Return the gradient of a convolution: each input (N, C, …) adds its kernel (C, M/group, …) to the output."""
    view = _transposed_window(
        x.shape, w.shape, group, kernel_shape, auto_pad, dilations, output_padding, output_shape, pads, strides
    )
    packed = w.packed if isinstance(w, _Taps) else _pack(widen(w), group)
    return _conv_transpose(x, packed, b, view, group, w.shape[1])


def _pack(w: Array, group: int) -> Array:
    """Reshape (C, M/group, kernel…) to (group, kernel × M/group, C/group): taps outermost, as they are summed."""
    channels, outputs = w.shape[0] // group, w.shape[1]
    taps = prod(w.shape[2:])
    split = w.reshape(group, channels, outputs, taps)
    return np.ascontiguousarray(split.transpose(0, 3, 2, 1).reshape(group, taps * outputs, channels))


@lru_cache(maxsize=256)
def _transposed_window(
    x: tuple[int, ...],
    w: tuple[int, ...],
    group: int,
    kernel_shape: tuple[int, ...] | None,
    auto_pad: str,
    dilations: tuple[int, ...] | None,
    output_padding: tuple[int, ...] | None,
    output_shape: tuple[int, ...] | None,
    pads: tuple[int, ...] | None,
    strides: tuple[int, ...] | None,
) -> Window:
    """Return the window of the convolution this is the gradient of: it slides over the output, one position per
    input.
    """
    rank = len(x) - 2
    if rank < 1 or len(w) != len(x) or group < 1 or w[0] != x[1] or w[0] % group:
        msg = f"X has shape {x}, W {w} and group is {group}; expected (N, C, …) and (C, M/group, …)"
        raise KernelError(msg)
    kernel_sizes = w[2:]
    if kernel_shape is not None and tuple(kernel_shape) != kernel_sizes:
        msg = f"kernel_shape is {tuple(kernel_shape)}; expected {kernel_sizes} as W has"
        raise KernelError(msg)
    strides = _per_axis("strides", strides, rank, 1, 1)
    dilations = _per_axis("dilations", dilations, rank, 1, 1)
    extra = _per_axis("output_padding", output_padding, rank, 0, 0)
    both = _per_axis("pads", pads, 2 * rank, 0, 0)
    axes = zip(x[2:], kernel_sizes, dilations, strides, extra, strict=True)
    full = [transposed_size(n, (k - 1) * d + 1, s, 0, 0, e) for n, k, d, s, e in axes]
    if output_shape is not None:
        wanted = list(output_shape[-rank:])  # some exporters add batch and channels
        if len(wanted) < rank:
            msg = f"output_shape is {list(output_shape)}; expected {rank} sizes"
            raise KernelError(msg)
    elif auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        wanted = list(map(same_transposed_size, x[2:], strides))
    else:
        if auto_pad == "VALID":
            both = (0,) * (2 * rank)
        sizes = tuple(f - both[i] - both[rank + i] for i, f in enumerate(full))
        return _checked(Window(sizes, kernel_sizes, strides, dilations, both[:rank], both[rank:], x[2:]))
    total = [max(f - o, 0) for f, o in zip(full, wanted, strict=True)]
    less, more = tuple(t // 2 for t in total), tuple(t - t // 2 for t in total)
    begin, end = (less, more) if auto_pad == "SAME_UPPER" else (more, less)
    return _checked(Window(tuple(wanted), kernel_sizes, strides, dilations, begin, end, x[2:]))


def _checked(view: Window) -> Window:
    if min(view.sizes) < 0:
        given = f"the output would have the spatial shape {view.sizes}; pads are larger than what the windows cover"
        msg = f"{given}; expected sizes from 0"
        raise KernelError(msg)
    return view


def _per_axis(name: str, values: tuple[int, ...] | None, count: int, default: int, least: int) -> tuple[int, ...]:
    if values is None:
        return (default,) * count
    if len(values) != count or min(values, default=least) < least:
        msg = f"{name} is {tuple(values)}, expected {count} numbers not below {least}"
        raise KernelError(msg)
    return tuple(values)


def _conv_transpose(x: Array, packed: Array, b: Array | None, view: Window, group: int, outputs: int) -> Array:
    images, channels = x.shape[:2]
    dtype = compute_dtype(x.dtype)
    source = np.ascontiguousarray(widen(x)).reshape(images, group, channels // group, prod(x.shape[2:]))
    covered = all(k >= s or s == 1 for k, s in zip(view.kernel, view.strides, strict=True)) and not any(view.begin)
    apart = covered and all(
        k == s and d == 1 and size == n * s
        for k, s, d, size, n in zip(view.kernel, view.strides, view.dilations, view.sizes, view.output, strict=True)
    )
    shape = (images, group * outputs, *view.sizes)
    out = empty(shape, dtype) if apart else zeros(shape, dtype)
    taps = prod(view.kernel)
    if out.size and x.size and packed.size:
        for image in range(images):
            check_size((group, taps, outputs, *view.output), dtype)
            columns = np.matmul(packed, source[image]).reshape(group, *view.kernel, outputs, *view.output)
            if apart:  # each output has one tap of one input
                each = (at for pair in zip(view.output, view.kernel, strict=True) for at in pair)
                order = [at for axis in range(view.rank) for at in (2 + view.rank + axis, 1 + axis)]
                out[image].reshape(group, outputs, *each)[...] = columns.transpose(0, 1 + view.rank, *order)
                continue
            target = out[image].reshape(group, outputs, *view.sizes)
            add_windows(np.moveaxis(columns, range(1, 1 + view.rank), range(view.rank)), target, view)
    if b is not None:
        out += widen(b).astype(dtype, copy=False).reshape(-1, *(1,) * view.rank)
    return narrow(out, x.dtype)


def add_windows(columns: Array, out: Array, view: Window) -> None:
    """Add columns (kernel…, any…, positions…) to out (any…, sizes…) at their taps."""
    for combination in product(*(view.taps(axis) for axis in range(view.rank))):
        checkpoint()
        source: tuple[Any, ...] = (*(tap.index for tap in combination), ..., *map(_positions, combination))
        index: tuple[Any, ...] = (..., *(tap.source for tap in combination))
        part, target = columns[source], out[index]
        if out.dtype.kind == "b":
            np.logical_or(target, part, out=target)
        else:
            np.add(target, part, out=target)


def _positions(tap: Tap) -> slice:
    return slice(tap.low, tap.high)


@kernel("Col2Im", since=18)
def col2im_18(
    x: Array,
    image_shape: Array,
    block_shape: Array,
    *,
    dilations: tuple[int, ...] | None = None,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Array:
    """Sum the columns (N, C × block, L) of windows at their positions in an image (inverse of im2col)."""
    sizes = tuple(int(v) for v in image_shape.reshape(-1))
    block = tuple(int(v) for v in block_shape.reshape(-1))
    if x.ndim != 3 or len(sizes) != len(block) or min((*sizes, *block), default=0) < 1:
        given = f"input has shape {x.shape}, image_shape is {sizes} and block_shape {block}"
        msg = f"{given}; expected (N, C × block, L) and two lists of as many sizes from 1"
        raise KernelError(msg)
    weights = np.lib.stride_tricks.as_strided(x.reshape(-1)[:1], (1, 1, *block), (0,) * (2 + len(block)))
    image = np.lib.stride_tricks.as_strided(x.reshape(-1)[:1], (1, 1, *sizes), (0,) * (2 + len(block)))
    view = conv_window(image, weights, 1, None, None, "NOTSET", dilations, pads, strides)
    taps = prod(block)
    if x.shape[1] % taps or x.shape[2] != prod(view.output):
        msg = (
            f"input has shape {x.shape}, expected a multiple of {taps} rows and {prod(view.output)} columns "
            f"for windows of {block} on an image of {sizes}"
        )
        raise KernelError(msg)
    images, channels = x.shape[0], x.shape[1] // taps
    dtype = compute_dtype(x.dtype)
    columns = widen(x).reshape(images, channels, *block, *view.output)
    out = zeros((images, channels, *sizes), dtype)
    add_windows(np.moveaxis(columns, range(2, 2 + view.rank), range(view.rank)), out, view)
    return narrow(out, x.dtype)


@kernel("DeformConv", since=19)
def deform_conv_19(
    x: Array,
    w: Array,
    offset: Array,
    b: Array | None = None,
    mask: Array | None = None,
    *,
    dilations: tuple[int, ...] | None = None,
    group: int = 1,
    kernel_shape: tuple[int, ...] | None = None,
    offset_group: int = 1,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Array:
    """Deformable convolution: taps displaced by `offset` (N, groups × taps × rank, out…) and weighted by `mask`."""
    view = conv_window(x, w, group, kernel_shape, b, "NOTSET", dilations, pads, strides)
    taps, images = prod(view.kernel), x.shape[0]
    if offset_group < 1 or x.shape[1] % offset_group:
        msg = f"offset_group is {offset_group}; expected a number that divides {x.shape[1]} channels"
        raise KernelError(msg)
    dtype = compute_dtype(x.dtype)
    moved = _expect(offset, (images, offset_group * taps * view.rank, *view.output), "offset")
    moved = moved.reshape(images, offset_group, taps, view.rank, *view.output)
    weight = None
    if mask is not None:
        weight = _expect(mask, (images, offset_group * taps, *view.output), "mask")
        weight = weight.reshape(images, offset_group, taps, *view.output)
    matrices = widen(w).reshape(group, w.shape[0] // group, prod(w.shape[1:]))
    source = widen(x).reshape(images, offset_group, x.shape[1] // offset_group, *view.sizes)
    out = empty((images, w.shape[0], *view.output), dtype)
    for image in range(images):
        columns = np.concatenate(
            [
                _sample_taps(source[image, g], moved[image, g], None if weight is None else weight[image, g], view)
                for g in range(offset_group)
            ]
        )
        rows = columns.reshape(group, matrices.shape[2], prod(view.output))
        out[image] = np.matmul(matrices, rows).reshape(out.shape[1:])
    if b is not None:
        out += widen(b).reshape(-1, *(1,) * view.rank)
    return narrow(out, x.dtype)


def _expect(value: Array, shape: tuple[int, ...], name: str) -> Array:
    if value.shape != shape:
        msg = f"{name} has shape {value.shape}, expected {shape}"
        raise KernelError(msg)
    return widen(value)


def _sample_taps(x: Array, offset: Array, mask: Array | None, view: Window) -> Array:
    """Interpolate x (C, sizes…) linearly at each tap displaced by offset (taps, rank, out…): (C, taps, out…)."""
    checkpoint()
    result = zeros((x.shape[0], *offset.shape[:1], *view.output), x.dtype)
    lows: list[Array] = []
    parts: list[Array] = []
    for axis in range(view.rank):
        tap = np.indices(view.kernel)[axis].reshape(-1, *(1,) * view.rank) * view.dilations[axis]
        start = np.arange(view.output[axis]) * view.strides[axis] - view.begin[axis]
        at = offset[:, axis] + tap + start.reshape(-1, *(1,) * (view.rank - 1 - axis))
        low = np.floor(at)
        lows.append(low)
        parts.append((at - low).astype(x.dtype))
    for corner in product((0, 1), repeat=view.rank):
        share: Any = np.ones((), x.dtype)
        index: list[Any] = [slice(None)]
        for axis, up in enumerate(corner):
            position = lows[axis] + up
            inside = (position >= 0) & (position < view.sizes[axis])
            share = share * (parts[axis] if up else 1 - parts[axis]) * inside
            index.append(np.where(inside, position, 0).astype(np.intp))
        # An element of no share does not count, were it an infinity.
        result += np.where(share == 0, 0, x[tuple(index)] * share)
    return result if mask is None else result * mask
