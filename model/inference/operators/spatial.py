"""Convolutions, pools, resizing and what else works on the spatial axes of [batch, channels, …]."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from onnx_workbench.model.analysis.output_sizes import (
    common_ratio,
    kept_ratio_size,
    same_count,
    same_transposed_size,
    scaled_size,
    transposed_size,
    window_count,
)
from onnx_workbench.model.analysis.symbolic import AnySize
from onnx_workbench.model.inference.operators.node_call import (
    Found,
    NodeCall,
    Rule,
    Sized,
    SizeMismatch,
    at,
    axis_of,
    expect_equal,
    expect_rank,
    merged,
    product,
    replaced,
)
from onnx_workbench.model.ir.types import ElementType

Sizes = tuple[AnySize | None, ...]


def _per_axis(call: NodeCall, name: str, rank: int, otherwise: int, times: int = 1) -> tuple[int, ...]:
    """Return an attribute with one number per spatial axis, or `times` as many."""
    numbers = call.integers(name) or (otherwise,) * (rank * times)
    if len(numbers) != rank * times:
        raise SizeMismatch(f"{name} has {len(numbers)} numbers, expected {rank * times}")
    return numbers


def slid(call: NodeCall, sizes: Sequence[AnySize], kernel: Sequence[AnySize], *, is_pool: bool = False) -> Sizes:
    """Return the number of window positions along each axis."""
    rank = len(sizes)
    if len(kernel) != rank:
        raise SizeMismatch(f"kernel_shape has {len(kernel)} sizes, the input {rank} spatial axes")
    strides, dilations = _per_axis(call, "strides", rank, 1), _per_axis(call, "dilations", rank, 1)
    padding = call.text("auto_pad", "NOTSET")
    pads = _per_axis(call, "pads", rank, 0, 2) if padding in ("NOTSET", "") else (0,) * (2 * rank)
    return tuple(
        _count(call, padding, *axis, is_pool=is_pool)
        for axis in zip(sizes, kernel, strides, dilations, pads, pads[rank:], strict=False)
    )


def _count(
    call: NodeCall,
    padding: str,
    size: AnySize,
    window: AnySize,
    stride: int,
    dilation: int,
    before: int,
    after: int,
    *,
    is_pool: bool,
) -> AnySize | None:
    if padding in ("SAME_UPPER", "SAME_LOWER"):
        return same_count(size, stride)
    if not isinstance(window, int):
        return None
    extent = dilation * (window - 1) + 1
    rounds_up = bool(call.integer("ceil_mode"))
    count = window_count(size, extent, stride, before, after, rounds_up=rounds_up, may_overhang=is_pool)
    if count is None and isinstance(size, int):
        raise SizeMismatch(
            f"A window of {extent} (kernel with dilation) does not fit an axis of {size} padded by {before} and {after}"
        )
    return count


def convolution(data: int = 0, weight: int = 1, kind: ElementType | None = None) -> Rule:
    """Return the rule of a convolution with its data and its weights [M, C/group, …] as these inputs."""

    def rule(call: NodeCall) -> Sequence[Found]:
        dims, weights = call.dims(data), call.dims(weight)
        element = kind or call.kind(data)
        if dims is None or weights is None:
            rank = len(weights or ()) or len(dims or ())
            open_sizes = (at(dims, 0), at(weights, 0), *(None,) * (rank - 2))
            return (Sized(element, open_sizes if rank > 2 else None),)
        expect_rank(dims, "The input", len(weights))
        if len(dims) < 3:
            raise SizeMismatch(f"The input has {len(dims)} dimensions, expected at least 3")
        group = call.integer("group", 1)
        expect_equal(dims[1], product(weights[1], group), "Channels of the input, and those of the weights times group")
        kernel = call.integers("kernel_shape") or weights[2:]
        return (Sized(element, (dims[0], weights[0], *slid(call, dims[2:], kernel))),)

    return rule


def last_channels_convolution(call: NodeCall) -> Sequence[Found]:
    """Convolution with the channels last."""
    dims, weights = call.dims(0), call.dims(1)
    if dims is None or weights is None or len(dims) != len(weights):
        return (None if dims is None or len(dims) < 2 else (dims[0], *(None,) * (len(dims) - 2), at(weights, 0)),)
    return ((dims[0], *slid(call, dims[1:-1], call.integers("kernel_shape") or weights[1:-1]), weights[0]),)


def transposed_convolution(call: NodeCall) -> Sequence[Found]:
    """ConvTranspose: weights are [C, M/group, …]."""
    dims, weights = call.dims(0), call.dims(1)
    if dims is None or weights is None:
        return (None if dims is None else (dims[0], *(None,) * (len(dims) - 1)),)
    expect_rank(dims, "The input", len(weights))
    rank = len(dims) - 2
    expect_equal(dims[1], weights[0], "Channels of the input and of the weights")
    kernel = call.integers("kernel_shape") or weights[2:]
    strides, dilations = _per_axis(call, "strides", rank, 1), _per_axis(call, "dilations", rank, 1)
    pads, further = _per_axis(call, "pads", rank, 0, 2), _per_axis(call, "output_padding", rank, 0)
    wanted, padding = call.integers("output_shape"), call.text("auto_pad", "NOTSET")
    if wanted is not None:
        spatial: Sizes = tuple(wanted[-rank:])  # some exporters add batch and channels
    elif padding in ("SAME_UPPER", "SAME_LOWER"):
        spatial = tuple(map(same_transposed_size, dims[2:], strides))
    else:
        pads = (0,) * (2 * rank) if padding == "VALID" else pads
        axes = zip(dims[2:], kernel, dilations, strides, pads, pads[rank:], further, strict=False)
        spatial = tuple(
            transposed_size(size, (k - 1) * d + 1, stride, before, after, more) if isinstance(k, int) else None
            for size, k, d, stride, before, after, more in axes
        )
    return ((dims[0], product(weights[1], call.integer("group", 1)), *spatial),)


def _pool(call: NodeCall) -> Sequence[Found]:
    dims, kernel = call.dims(0), call.integers("kernel_shape")
    if dims is None or kernel is None:
        return ()
    if len(dims) < 3:
        raise SizeMismatch(f"The input has {len(dims)} dimensions, expected at least 3")
    spatial = slid(call, dims[2:], kernel, is_pool=True)
    return [(*dims[:2], *spatial)] * call.outputs


def _global_pool(call: NodeCall) -> Sequence[Found]:
    dims = call.dims(0)
    return (None if dims is None else (*dims[:2], *(1 for _ in dims[2:])),)


def _unpool(call: NodeCall) -> Sequence[Found]:
    dims, kernel = call.dims(0), call.integers("kernel_shape")
    if dims is None or kernel is None:
        return ()
    if call.input(2) is not None:
        wanted = call.content(2)
        return ((None,) * len(dims) if wanted is None else tuple(wanted.reshape(-1)),)
    rank = len(dims) - 2
    strides, pads = _per_axis(call, "strides", rank, 1), _per_axis(call, "pads", rank, 0, 2)
    axes = zip(dims[2:], kernel, strides, pads, pads[rank:], strict=False)
    spatial = (transposed_size(size, k, stride, a, b, 0) for size, k, stride, a, b in axes)
    return ((*dims[:2], *spatial),)


def _roi_pool(call: NodeCall) -> Sequence[Found]:
    dims, rois, pooled = call.dims(0), call.dims(1), call.integers("pooled_shape")
    return ((at(rois, 0), at(dims, 1), *(pooled or (None, None))),)


def _roi_align(call: NodeCall) -> Sequence[Found]:
    dims, rois = call.dims(0), call.dims(1)
    expect_rank(dims, "The input", 4)
    expect_rank(rois, "rois", 2)
    count = merged(at(rois, 0), at(call.dims(2), 0))
    return ((count, at(dims, 1), call.integer("output_height", 1), call.integer("output_width", 1)),)


def _resize(call: NodeCall) -> Sequence[Found]:
    dims = call.dims(0)
    if dims is None:
        return ()
    wanted_axes = call.integers("axes")
    axes = tuple(range(len(dims))) if wanted_axes is None else tuple(axis_of(a, len(dims)) for a in wanted_axes)
    is_new = call.opset >= 11 and call.node.op_type == "Resize"
    sizes = call.content(3) if is_new else None
    if sizes is not None and sizes.size:
        resized = _to_sizes(call, [dims[a] for a in axes], list(sizes))
    else:
        resized = _by_scales(call, [dims[a] for a in axes], 2 if is_new else 1)
    if resized is None:
        changed = range(len(dims)) if wanted_axes is None else axes
        return (tuple(None if axis in changed else size for axis, size in enumerate(dims)),)
    if len(resized) != len(axes):
        raise SizeMismatch(f"There are {len(resized)} scales or sizes for {len(axes)} axes")
    result: list[AnySize | None] = list(dims)
    for axis, size in zip(axes, resized, strict=True):
        result[axis] = size
    return (result,)


def _to_sizes(call: NodeCall, lengths: Sequence[AnySize], sizes: list[AnySize]) -> Sequence[AnySize | None] | None:
    policy = call.text("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch" or len(sizes) != len(lengths):
        return sizes
    numbers, wanted = ([n for n in have if isinstance(n, int)] for have in (lengths, sizes))
    if len(numbers) < len(lengths) or len(wanted) < len(sizes) or 0 in numbers:
        return None
    ratio = common_ratio(numbers, wanted, policy)
    return [kept_ratio_size(length, ratio) for length in numbers]


def _by_scales(call: NodeCall, lengths: Sequence[AnySize], index: int) -> Sequence[AnySize | None] | None:
    factors = _factors(call, index)
    if factors is None or len(factors) != len(lengths):
        return None
    parts: Sequence[tuple[float, float]] = [(0.0, 1.0)] * len(lengths)
    if call.text("coordinate_transformation_mode") == "tf_crop_and_resize":
        roi = _real_numbers(call, 1)
        if roi is None:
            return None
        if len(roi) == 2 * len(lengths):
            parts = list(zip(roi, roi[len(lengths) :], strict=False))
    return [scaled_size(n, f, *part) for n, f, part in zip(lengths, factors, parts, strict=True)]


def _factors(call: NodeCall, index: int) -> tuple[float, ...] | None:
    """Return the scale factors of Resize or Upsample for each axis."""
    scales = call.attribute("scales")
    if isinstance(scales, tuple):
        return tuple(map(float, scales))
    if call.node.op_type == "Upsample" and call.opset < 7:
        return (1.0, 1.0, float(call.attribute("height_scale", 1)), float(call.attribute("width_scale", 1)))
    return _real_numbers(call, index) or None


def _real_numbers(call: NodeCall, index: int) -> tuple[float, ...] | None:
    value = call.input(index)
    return None if value is None else call.facts.factors.get(value)


def _grid_sample(call: NodeCall) -> Sequence[Found]:
    dims, grid = call.dims(0), call.dims(1)
    if grid is None:
        return ((*dims[:2], *(None,) * (len(dims) - 2)) if dims is not None else None,)
    expect_rank(dims, "The input", len(grid))
    return ((at(dims, 0), at(dims, 1), *grid[1:-1]),)


def _affine_grid(call: NodeCall) -> Sequence[Found]:
    """Sizes are [N, C, H, W] or [N, C, D, H, W]; each point has two or three coordinates."""
    wanted = call.content(1)
    if wanted is None:
        count = call.facts.shape(call.input(1))
        axes = count[0] - 2 if count and count[0] in (4, 5) else None
        return (None if axes is None else (at(call.dims(0), 0), *(None,) * axes, axes),)
    sizes = tuple(wanted.reshape(-1))
    return ((sizes[0], *sizes[2:], len(sizes) - 2),)


def _col2im(call: NodeCall) -> Sequence[Found]:
    dims, image, block = call.dims(0), call.content(1), call.numbers(2)
    if dims is None:
        return ()
    expect_rank(dims, "The input", 3)
    channels = None
    if block is not None and isinstance(dims[1], int):
        count = prod(block)
        if not count or dims[1] % count:
            raise SizeMismatch(f"{dims[1]} is not a multiple of the {count} elements of a block")
        channels = dims[1] // count
    if image is None:
        sizes = call.open_dims(1)
        return (None if sizes is None else (dims[0], channels, *sizes),)
    return ((dims[0], channels, *image.reshape(-1)),)


def _spread(call: NodeCall) -> Sequence[Found]:
    """DepthToSpace."""
    dims, block = call.dims(0), call.integer("blocksize")
    if dims is None or block < 1:
        return ()
    expect_rank(dims, "The input", 4)
    return ((dims[0], _part(dims[1], block * block, "channels"), dims[2] * block, dims[3] * block),)


def _stacked(call: NodeCall) -> Sequence[Found]:
    """SpaceToDepth."""
    dims, block = call.dims(0), call.integer("blocksize")
    if dims is None or block < 1:
        return ()
    expect_rank(dims, "The input", 4)
    return ((dims[0], dims[1] * (block * block), _part(dims[2], block, "rows"), _part(dims[3], block, "columns")),)


def _part(size: AnySize, count: int, what: str) -> AnySize | None:
    from onnx_workbench.model.analysis import symbolic

    if isinstance(size, int) and size % count:
        raise SizeMismatch(f"{size} {what} cannot be divided by {count}")
    return symbolic.dimension(size, count)


def _image(call: NodeCall) -> Sequence[Found]:
    return ((None, None, 1 if call.text("pixel_format", "RGB") == "Grayscale" else 3),)


def _center_crop_pad(call: NodeCall) -> Sequence[Found]:
    dims, wanted = call.dims(0), call.content(1)
    if dims is None:
        return ()
    wanted_axes = call.integers("axes")
    axes = tuple(range(len(dims))) if wanted_axes is None else tuple(axis_of(a, len(dims)) for a in wanted_axes)
    sizes: Sequence[AnySize | None] = (None,) * len(axes) if wanted is None else list(wanted.reshape(-1))
    if len(sizes) != len(axes):
        raise SizeMismatch(f"There are {len(sizes)} sizes for {len(axes)} axes")
    result: Sequence[AnySize | None] = dims
    for axis, size in zip(axes, sizes, strict=True):
        result = replaced(result, axis, size)
    return (result,)


SPATIAL: dict[str, Rule] = {
    "Conv": convolution(),
    "ConvInteger": convolution(kind=ElementType.INT32),
    "QLinearConv": lambda call: tuple(
        found.dims if isinstance(found, Sized) else found for found in convolution(0, 3)(call)
    ),
    "DeformConv": convolution(),
    "ConvTranspose": transposed_convolution,
    "MaxPool": _pool,
    "AveragePool": _pool,
    "LpPool": _pool,
    "GlobalAveragePool": _global_pool,
    "GlobalMaxPool": _global_pool,
    "GlobalLpPool": _global_pool,
    "MaxUnpool": _unpool,
    "MaxRoiPool": _roi_pool,
    "RoiAlign": _roi_align,
    "Resize": _resize,
    "Upsample": _resize,
    "GridSample": _grid_sample,
    "AffineGrid": _affine_grid,
    "Col2Im": _col2im,
    "DepthToSpace": _spread,
    "SpaceToDepth": _stacked,
    "ImageDecoder": _image,
    "CenterCropPad": _center_crop_pad,
}
