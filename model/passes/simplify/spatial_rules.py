"""How sizes flow through convolutions and pooling, and through what makes pictures larger."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from model.graph import Node
from model.passes.simplify import sizes
from model.passes.simplify.reading import constant_ints, content_of, ints, number, text
from model.passes.simplify.sizes import AnySize

if TYPE_CHECKING:
    from model.passes.simplify.facts import Dims, Facts


def _convolved(facts: Facts, node: Node, _opset: int) -> Dims | None:
    data, weights = facts.dims(node.inputs[0]), facts.dims(node.inputs[1])
    if data is None or weights is None or len(data) != len(weights):
        return None
    kernel = ints(node, "kernel_shape") or weights[2:]
    spatial = _slid(node, data[2:], kernel)
    return None if spatial is None else (data[0], weights[0], *spatial)


def _pooled(facts: Facts, node: Node, _opset: int) -> Dims | None:
    data, kernel = facts.dims(node.inputs[0]), ints(node, "kernel_shape")
    if data is None or kernel is None or number(node, "ceil_mode", 0):
        return None
    spatial = _slid(node, data[2:], kernel)
    return None if spatial is None else (*data[:2], *spatial)


def _slid(node: Node, dims: Dims, kernel: Dims) -> Dims | None:
    """How often a window fits along each dimension."""
    rank = len(dims)
    strides = ints(node, "strides") or (1,) * rank
    dilations = ints(node, "dilations") or (1,) * rank
    pads = ints(node, "pads") or (0,) * (2 * rank)
    padding = text(node, "auto_pad", "NOTSET")
    found: list[AnySize] = []
    for axis, (size, window, stride, dilation) in enumerate(zip(dims, kernel, strides, dilations, strict=True)):
        if not isinstance(window, int):
            return None
        if padding in ("SAME_UPPER", "SAME_LOWER"):
            count = sizes.dimension(size + (stride - 1), stride)
        else:
            around = pads[axis] + pads[axis + rank] if padding == "NOTSET" else 0
            steps = sizes.dimension(size + (around - dilation * (window - 1) - 1), stride)
            count = None if steps is None else steps + 1
        if count is None:
            return None
        found.append(count)
    return tuple(found)


def _globally_pooled(facts: Facts, node: Node, _opset: int) -> Dims | None:
    data = facts.dims(node.inputs[0])
    return None if data is None else (*data[:2], *(1 for _ in data[2:]))


def _resized(facts: Facts, node: Node, opset: int) -> Dims | None:
    """Enlarged by whole factors; others round in ways that depend on the number."""
    dims = facts.dims(node.inputs[0])
    place = 2 if opset >= 11 and node.op_type == "Resize" else 1
    scales = node.inputs[place] if place < len(node.inputs) else None
    factors = facts.factors.get(scales) if scales is not None else None
    if dims is None or factors is None or len(factors) != len(dims) or ints(node, "axes"):
        return None
    return tuple(
        size * int(factor) if factor >= 1 and factor == int(factor) else sizes.undecided("resize", size, str(factor))
        for size, factor in zip(dims, factors, strict=True)
    )


def _padded(facts: Facts, node: Node, opset: int) -> Dims | None:
    dims = facts.dims(node.inputs[0]) or ()
    pads = constant_ints(facts, node, 1) if opset >= 11 else ints(node, "pads")
    axes = constant_ints(facts, node, 3) if len(node.inputs) > 3 and node.inputs[3] else tuple(range(len(dims)))
    if pads is None or axes is None or len(pads) != 2 * len(axes):
        return None
    result = list(dims)
    for axis, before, after in zip(axes, pads, pads[len(axes) :], strict=False):
        result[axis] = result[axis] + (before + after)
    return tuple(result)


def _tiled(facts: Facts, node: Node, opset: int) -> Dims | None:
    dims, repeats = facts.dims(node.inputs[0]) or (), content_of(facts, node, 1)
    if opset < 6 or repeats is None or repeats.size != len(dims):
        return None
    if any(sizes.is_less(count, 0) is not False for count in repeats):
        return None
    return tuple(size * count for size, count in zip(dims, repeats, strict=True))


SPATIAL: dict[str, Callable[[Facts, Node, int], Dims | None]] = {
    "Conv": _convolved,
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
