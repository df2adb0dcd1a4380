"""Receptive fields of convolutions and pools: windows of the input, and the matching weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from onnx_workbench.exec.inspect.receptive_field.indices import (
    ElementReach,
    EvaluatedNode,
    Positions,
    at_index,
    point,
    quantized_by,
    wider,
)


def _windows(
    node: EvaluatedNode, at: tuple[int, ...], spatial: Sequence[int], kernel: Sequence[int]
) -> tuple[list[Positions], list[Positions]]:
    """Return per spatial axis the used input positions and the matching kernel positions."""
    rank = len(spatial)
    strides = list(node.attributes.get("strides") or [1] * rank)
    dilations = list(node.attributes.get("dilations") or [1] * rank)
    outs = node.outputs[0][2:]
    pads = _pads(node, spatial, kernel, strides, dilations, outs)
    inside: list[Positions] = []
    taps: list[Positions] = []
    for d in range(rank):
        start = at[2 + d] * strides[d] - pads[d]
        used = [k for k in range(kernel[d]) if 0 <= start + k * dilations[d] < spatial[d]]
        taps.append(range(used[0], used[-1] + 1) if used else ())
        inside.append(
            range(start + used[0] * dilations[d], start + used[-1] * dilations[d] + 1, dilations[d]) if used else ()
        )
    return inside, taps


def _pads(
    node: EvaluatedNode,
    spatial: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    outs: Sequence[int],
) -> list[int]:
    auto = node.attributes.get("auto_pad", "NOTSET")
    if auto == "VALID":
        return [0] * len(spatial)
    if auto not in ("SAME_UPPER", "SAME_LOWER"):
        return list(node.attributes.get("pads") or [0] * (2 * len(spatial)))[: len(spatial)]
    total = [
        max(0, (o - 1) * s + (k - 1) * d + 1 - n)
        for o, s, k, d, n in zip(outs, strides, kernel, dilations, spatial, strict=True)
    ]
    return [t // 2 if auto == "SAME_UPPER" else t - t // 2 for t in total]


#: Positions of scales and zero points of a convolution: per tensor, for weights and bias also per channel.
_CONV_SCALES = {"QLinearConv": (1, 2, 4, 5, 6, 7), "ConvInteger": (2, 3)}


def conv(node: EvaluatedNode, at: tuple[int, ...], _shape: tuple[int, ...]) -> list[ElementReach] | None:
    """Return a window of the input in all channels of the group, the matching weights, the bias."""
    quantized = node.op_type == "QLinearConv"
    x_at, w_at, b_at = (0, 3, 8) if quantized else (0, 1, 2)
    x, w = node.shape(x_at), node.shape(w_at)
    if x is None or w is None:
        return None
    group = int(node.attributes.get("group", 1))
    per_group = w[0] // group
    first = at[1] // per_group * w[1]
    inside, taps = _windows(node, at, x[2:], w[2:])
    reached = [
        ElementReach(x_at, (point(at[0]), range(first, first + w[1]), *inside)),
        _weights(node, w_at, at[1], taps),
    ]
    if node.op_type != "ConvInteger" and node.shape(b_at) is not None:
        reached.append(at_index(b_at, at[1:2]))
    for position in _CONV_SCALES.get(node.op_type, ()):
        reached += quantized_by(node, position, (), at[1])
    if node.op_type in _FUSED and node.shape(3) is not None:
        reached.append(at_index(3, at))
    return reached


def _weights(node: EvaluatedNode, position: int, channel: int, taps: Sequence[Positions]) -> ElementReach:
    """Return the weights that meet elements; the whole kernel if a weight that meets padding is not finite.

    Padding is zero: times a finite weight it vanishes, times another it gives NaN.
    """
    w = node.inputs[position]
    assert w is not None
    met = ElementReach(position, (point(channel), range(w.shape[1]), *taps))
    return wider(met, ElementReach(position, (point(channel), *map(range, w.shape[1:]))), w)


#: Convolutions that add a fourth input to their result.
_FUSED = frozenset({"FusedConv", "NhwcFusedConv"})


def channels_last(node: EvaluatedNode, at: tuple[int, ...], _shape: tuple[int, ...]) -> list[ElementReach] | None:
    """Return a convolution of (N, H, W, C); the weights are laid out as in Conv."""
    inputs = [np.moveaxis(a, -1, 1) if a is not None and i in (0, 3) else a for i, a in enumerate(node.inputs)]
    moved = replace(node, inputs=inputs, outputs=[(s[0], s[-1], *s[1:-1]) for s in node.outputs])
    reached = conv(moved, (at[0], at[-1], *at[1:-1]), ())
    return reached and [
        replace(r, axes=(r.axes[0], *r.axes[2:], r.axes[1])) if r.input in (0, 3) else r for r in reached
    ]


def conv_transpose(node: EvaluatedNode, at: tuple[int, ...], shape: tuple[int, ...]) -> list[ElementReach] | None:
    """Return the elements whose windows contain the output element, the matching weights of each, and the bias."""
    x, w = node.shape(0), node.shape(1)
    if x is None or w is None:
        return None
    rank = len(x) - 2
    group = int(node.attributes.get("group", 1))
    strides = list(node.attributes.get("strides") or [1] * rank)
    dilations = list(node.attributes.get("dilations") or [1] * rank)
    pads = _transposed_pads(node, x[2:], w[2:], shape[2:])
    channels, own = x[1] // group, at[1] // w[1]
    inside: list[tuple[int, ...]] = []
    taps: list[tuple[int, ...]] = []
    for d in range(rank):
        pairs = [
            ((at[2 + d] + pads[d] - k * dilations[d]) // strides[d], k)
            for k in range(w[2 + d])
            if (at[2 + d] + pads[d] - k * dilations[d]) % strides[d] == 0
        ]
        pairs = sorted((i, k) for i, k in pairs if 0 <= i < x[2 + d])
        inside.append(tuple(i for i, _ in pairs))
        taps.append(tuple(sorted(k for _, k in pairs)))
    first = range(own * channels, (own + 1) * channels)
    reached = [
        ElementReach(0, (point(at[0]), first, *inside)),
        ElementReach(1, (first, point(at[1] % w[1]), *taps)),
    ]
    if node.shape(2) is not None:
        reached.append(at_index(2, at[1:2]))
    return reached


def _transposed_pads(
    node: EvaluatedNode, sizes: Sequence[int], kernel: Sequence[int], outs: Sequence[int]
) -> list[int]:
    """Return the cropping before each spatial axis."""
    rank = len(sizes)
    auto = node.attributes.get("auto_pad", "NOTSET")
    if "output_shape" not in node.attributes and auto not in ("SAME_UPPER", "SAME_LOWER"):
        given = None if auto == "VALID" else node.attributes.get("pads")
        return list(given or [0] * rank)[:rank]
    strides = node.attributes.get("strides") or [1] * rank
    dilations = node.attributes.get("dilations") or [1] * rank
    extra = node.attributes.get("output_padding") or [0] * rank
    total = [
        max(0, s * (n - 1) + e + (k - 1) * d + 1 - o)
        for s, n, e, k, d, o in zip(strides, sizes, extra, kernel, dilations, outs, strict=True)
    ]
    return [t // 2 if auto == "SAME_UPPER" else t - t // 2 for t in total]


def pool(node: EvaluatedNode, at: tuple[int, ...], _shape: tuple[int, ...]) -> list[ElementReach] | None:
    """Return the window in the channel."""
    x = node.shape(0)
    if x is None:
        return None
    inside, _taps = _windows(node, at, x[2:], node.attributes["kernel_shape"])
    return [ElementReach(0, (point(at[0]), point(at[1]), *inside))]


def global_pool(node: EvaluatedNode, at: tuple[int, ...], _shape: tuple[int, ...]) -> list[ElementReach] | None:
    """Return the whole channel."""
    x = node.shape(0)
    return None if x is None else [ElementReach(0, (point(at[0]), point(at[1]), *map(range, x[2:])))]
