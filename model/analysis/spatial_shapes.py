"""Symbolic shapes of convolutions, pooling and resizing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from onnx_workbench.model.analysis import symbolic
from onnx_workbench.model.analysis.node_constants import constant_ints, content_of, ints, number, plain, text
from onnx_workbench.model.analysis.symbolic import AnySize
from onnx_workbench.model.ir.graph import Node

if TYPE_CHECKING:
    from onnx_workbench.model.analysis.values import Dims, KnownValues


def _convolved(facts: KnownValues, node: Node, _opset: int) -> Dims | None:
    data, weights = facts.dims(node.inputs[0]), facts.dims(node.inputs[1])
    if data is None or weights is None or len(data) != len(weights):
        return None
    kernel = ints(node, "kernel_shape") or weights[2:]
    spatial = _slid(node, data[2:], kernel)
    return None if spatial is None else (data[0], weights[0], *spatial)


def _transposed(facts: KnownValues, node: Node, _opset: int) -> Dims | None:
    data, weights = facts.dims(node.inputs[0]), facts.dims(node.inputs[1])
    if data is None or weights is None or len(data) != len(weights):
        return None
    rank, kernel = len(data) - 2, ints(node, "kernel_shape") or weights[2:]
    strides = ints(node, "strides") or (1,) * rank
    dilations = ints(node, "dilations") or (1,) * rank
    pads = ints(node, "pads") or (0,) * (2 * rank)
    further = ints(node, "output_padding") or (0,) * rank
    if text(node, "auto_pad", "NOTSET") != "NOTSET" or ints(node, "output_shape"):
        return None
    spatial = tuple(
        (data[axis + 2] - 1) * strides[axis]
        + ((kernel[axis] - 1) * dilations[axis] + 1 + further[axis] - pads[axis] - pads[axis + rank])
        for axis in range(rank)
    )
    return (data[0], weights[1] * number(node, "group", 1), *spatial)


def _convolved_last(facts: KnownValues, node: Node, _opset: int) -> Dims | None:
    """Channels-last convolution."""
    data, weights = facts.dims(node.inputs[0]), facts.dims(node.inputs[1])
    if data is None or weights is None or len(data) != len(weights):
        return None
    spatial = _slid(node, data[1:-1], ints(node, "kernel_shape") or weights[1:-1])
    return None if spatial is None else (data[0], *spatial, weights[0])


def _pooled(facts: KnownValues, node: Node, _opset: int) -> list[Dims | None] | None:
    data, kernel = facts.dims(node.inputs[0]), ints(node, "kernel_shape")
    if data is None or kernel is None:
        return None
    spatial = _slid(node, data[2:], kernel)
    return None if spatial is None else [(*data[:2], *spatial)] * len(node.outputs)


def _slid(node: Node, dims: Dims, kernel: Dims) -> Dims | None:
    """Return the number of window positions along each dimension."""
    rank = len(dims)
    strides = ints(node, "strides") or (1,) * rank
    dilations = ints(node, "dilations") or (1,) * rank
    pads = ints(node, "pads") or (0,) * (2 * rank)
    padding = text(node, "auto_pad")
    found: list[AnySize] = []
    for axis, (size, window, stride, dilation) in enumerate(zip(dims, kernel, strides, dilations, strict=True)):
        if not isinstance(window, int):
            return None
        if padding in ("SAME_UPPER", "SAME_LOWER"):
            count = symbolic.rounded_up(size, stride)
        else:
            around = (pads[axis], pads[axis + rank]) if padding == "NOTSET" else (0, 0)
            reach = dilation * (window - 1) + 1
            count = _places(size, around, reach, stride, is_up=bool(number(node, "ceil_mode")))
        if count is None:
            return None
        found.append(count)
    return tuple(found)


def _places(size: AnySize, around: tuple[int, int], reach: int, stride: int, *, is_up: bool) -> AnySize | None:
    """Return the number of window positions; with `is_up` including a partial last one, unless it is all padding."""
    before, after = around
    if isinstance(size, int) and size + before + after < reach:
        return None  # which runtimes round differently
    if is_up:
        return symbolic.rounded_up(size + (before + min(after - reach + stride, 0)), stride)
    steps = symbolic.dimension(size + (before + after - reach), stride)
    return None if steps is None else steps + 1


def _globally_pooled(facts: KnownValues, node: Node, _opset: int) -> Dims | None:
    data = facts.dims(node.inputs[0])
    return None if data is None else (*data[:2], *(1 for _ in data[2:]))


def _resized(facts: KnownValues, node: Node, opset: int) -> Dims | None:
    dims = facts.dims(node.inputs[0])
    if dims is None:
        return None
    is_new = opset >= 11 and node.op_type == "Resize"
    axes = ints(node, "axes") or tuple(range(len(dims)))
    wanted = content_of(facts, node, 3) if is_new else None
    if wanted is not None and wanted.size:
        if text(node, "keep_aspect_ratio_policy", "stretch") != "stretch":
            return None
        found: list[AnySize | None] = list(wanted)
    else:
        factors = _factors(facts, node, 2 if is_new else 1)
        if factors is None or text(node, "coordinate_transformation_mode") == "tf_crop_and_resize":
            return None
        found = [symbolic.scaled(dims[a], factor) for a, factor in zip(axes, factors, strict=True)]
    result: list[AnySize | None] = list(dims)
    for axis, size in zip(axes, found, strict=True):
        result[axis] = size
    known = tuple(size for size in result if size is not None)
    return known if len(known) == len(result) else None


def _factors(facts: KnownValues, node: Node, index: int) -> tuple[float, ...] | None:
    """Return the scale factors of Resize or Upsample for each axis."""
    given = plain(node, "scales")
    if isinstance(given, tuple):
        return tuple(map(float, given))
    scales = node.inputs[index] if index < len(node.inputs) else None
    return (facts.factors.get(scales) or None) if scales is not None else None


def _padded(facts: KnownValues, node: Node, opset: int) -> Dims | None:
    dims = facts.dims(node.inputs[0]) or ()
    pads = constant_ints(facts, node, 1) if opset >= 11 else ints(node, "pads")
    axes = constant_ints(facts, node, 3) if len(node.inputs) > 3 and node.inputs[3] else tuple(range(len(dims)))
    if pads is None or axes is None or len(pads) != 2 * len(axes):
        return None
    result = list(dims)
    for axis, before, after in zip(axes, pads, pads[len(axes) :], strict=False):
        result[axis] = result[axis] + (before + after)
    return tuple(result)


def _tiled(facts: KnownValues, node: Node, opset: int) -> Dims | None:
    dims, repeats = facts.dims(node.inputs[0]) or (), content_of(facts, node, 1)
    if opset < 6 or repeats is None or repeats.size != len(dims):
        return None
    if any(symbolic.is_less(count, 0) is not False for count in repeats):
        return None
    return tuple(size * count for size, count in zip(dims, repeats, strict=True))


SPATIAL: dict[str, Callable[[KnownValues, Node, int], Dims | list[Dims | None] | None]] = {
    "Conv": _convolved,
    "ConvTranspose": _transposed,
    "MaxPool": _pooled,
    "AveragePool": _pooled,
    "LpPool": _pooled,
    "Resize": _resized,
    "Upsample": _resized,
    "GlobalAveragePool": _globally_pooled,
    "GlobalMaxPool": _globally_pooled,
    "Pad": _padded,
    "Tile": _tiled,
}

#: The same for operators of com.microsoft.
MICROSOFT: dict[str, Callable[[KnownValues, Node, int], Dims | list[Dims | None] | None]] = {
    "FusedConv": _convolved,
    "NhwcConv": _convolved_last,
}
