"""Fold biases, scales, normalisation and pads into the weights of convolutions and matrix products."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_workbench.model.analysis.node_constants import ints, number, plain, real, text
from onnx_workbench.model.edits.rewriter import GraphRewriter
from onnx_workbench.model.ir.graph import Node, Value
from onnx_workbench.model.ir.types import ElementType
from onnx_workbench.model.simplify.context import MatchContext
from onnx_workbench.model.simplify.passes import Match, Pass, describe
from onnx_workbench.model.simplify.rules.eliminations import pads_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MUL_BEFORE = "fuse_preceding_mul_into_conv"
_CONVOLUTIONS = ("Conv", "ConvTranspose")


@dataclass(frozen=True, slots=True)
class Affine:
    """y = x * scale + shift per output channel; None means 1 and 0."""

    scale: NDArray[Any] | None = None
    shift: NDArray[Any] | None = None


def _into_weights(
    context: MatchContext, pass_id: str, op_types: Sequence[str], takers: Sequence[str]
) -> Iterator[Match]:
    for node in context.nodes(*op_types):
        for index, value in enumerate(node.inputs[:2]):
            inner = context.producer(value, *takers)
            if inner is None or context.sole_user(value) is not node:
                continue
            channels = _channels(context, inner)
            affine = None if channels is None else affine_of(context, node, index, channels)
            if affine is not None and channels is not None and can_absorb(context, inner, affine):
                if affine.scale is not None and context.refuses_large(pass_id, node, inner.inputs[1]):
                    continue
                yield Match(
                    f"{describe(node)} is folded into the weights of {describe(inner)}",
                    (inner, node),
                    partial(_absorb, context, inner, node, affine),
                )
                break


def _channels(context: MatchContext, node: Node) -> int | None:
    """Return the output channels of a convolution, or columns of a Gemm."""
    tensor = context.constant(node.inputs[1]) if len(node.inputs) > 1 else None
    if tensor is None:
        return None
    if node.op_type == "Gemm":
        return tensor.shape[0 if number(node, "transB") else 1] if len(tensor.shape) == 2 else None
    if len(tensor.shape) < 3:
        return None
    return tensor.shape[0] if node.op_type == "Conv" else tensor.shape[1] * number(node, "group")


def affine_of(context: MatchContext, node: Node, place: int, channels: int) -> Affine | None:
    """Return a node's per-channel affine function, if it has one."""
    if node.op_type == "BatchNormalization":
        return _normalization(context, node, channels) if place == 0 else None
    other = node.inputs[1 - place] if len(node.inputs) == 2 else None
    vector = _per_channel(context, node, node.inputs[place], other, channels)
    if vector is None:
        return None
    match node.op_type:
        case "Add":
            return Affine(shift=vector)
        case "Sub" if place == 0:
            return Affine(shift=-vector)
        case "Mul":
            return Affine(scale=vector)
        case "Div" if place == 0 and np.all(vector != 0):
            return Affine(scale=1 / vector)
        case _:
            return None


def _per_channel(
    context: MatchContext, node: Node, data: Value | None, constant: Value | None, channels: int
) -> NDArray[Any] | None:
    """Return a constant that broadcasts over all but the channel axis, as a vector; in double precision."""
    tensor, rank = context.constant(constant), context.facts.rank(data)
    if tensor is None or rank is None or not context.is_float(data, constant) or context.opset(node) < 7:
        return None
    shape = tuple(tensor.shape)
    if len(shape) > rank or tensor.size not in (1, channels):
        return None
    padded = (1,) * (rank - len(shape)) + shape
    if padded != tuple(channels if a == 1 and tensor.size > 1 else 1 for a in range(rank)):
        return None
    array = context.array(constant)
    return None if array is None else np.broadcast_to(array.reshape(-1).astype(np.float64), (channels,))


def _normalization(context: MatchContext, node: Node, channels: int) -> Affine | None:
    if number(node, "training_mode") or not context.unused_from(node, 1) or number(node, "spatial", 1) != 1:
        return None
    if context.opset(node) < 7 and number(node, "is_test") != 1:
        return None
    arrays = [context.array(v) for v in node.inputs[1:5]]
    parameters = [a.astype(np.float64) for a in arrays if a is not None and a.shape == (channels,)]
    if len(parameters) != 4 or not context.is_float(*node.inputs[:2]):
        return None
    gamma, beta, mean, variance = parameters
    deviation = np.sqrt(variance + real(node, "epsilon"))
    if not np.all(deviation > 0):
        return None
    scale = gamma / deviation
    return Affine(scale, beta - mean * scale)


def can_absorb(context: MatchContext, node: Node, affine: Affine) -> bool:
    """Return whether the weights and bias of a node are constants without other users."""
    if not context.is_float(*[v for v in node.inputs[:3] if v is not None]) or number(node, "group", 1) < 1:
        return False
    weights = node.inputs[1]
    if affine.scale is not None and not (context.is_readable(weights) and _is_own(weights, node)):
        return False  # copying shared weights would make the file larger
    if node.op_type == "Gemm" and (real(node, "alpha"), real(node, "beta")) != (1.0, 1.0):
        return False
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    if bias is None:
        return node.op_type != "Gemm" or context.opset(node) >= 7
    tensor, channels = context.constant(bias), _channels(context, node)
    if tensor is None or context.array(bias) is None:
        return False
    return tensor.size == 1 or (tensor.size == channels and tensor.shape[-1] == channels)


def _is_own(value: Value | None, node: Node) -> bool:
    return value is not None and all(user is node for user, _ in value.uses)


def _absorb(context: MatchContext, node: Node, after: Node, affine: Affine, rewriter: GraphRewriter) -> None:
    held, channels = context.constant(node.inputs[1]), _channels(context, node)
    assert held is not None
    assert isinstance(held.element_type, ElementType)
    assert channels is not None
    old = context.array(node.inputs[2]) if len(node.inputs) > 2 and node.inputs[2] is not None else None
    bias = np.zeros(channels) if old is None else np.broadcast_to(old.reshape(-1).astype(np.float64), (channels,))
    new: Any = node.inputs[1]
    if affine.scale is not None:
        weights = context.read(held)
        assert weights is not None
        bias = bias * affine.scale
        new = _scaled(node, weights, affine.scale)
    if affine.shift is not None:
        bias = bias + affine.shift
    with np.errstate(over="ignore"):
        narrow = bias.astype(held.element_type.numpy_dtype)
    needs_bias = old is not None or affine.shift is not None
    rewriter.set_inputs(node, (node.inputs[0], new, narrow) if needs_bias else (node.inputs[0], new))
    target, source = after.outputs[0], node.outputs[0]
    assert target is not None
    assert source is not None
    rewriter.replace_value(target, source)


def _scaled(node: Node, weights: NDArray[Any], scale: NDArray[Any]) -> NDArray[Any]:
    if node.op_type == "Gemm":
        shaped = scale.reshape(-1, 1) if number(node, "transB") else scale.reshape(1, -1)
    elif node.op_type == "Conv":
        shaped = scale.reshape(-1, *(1,) * (weights.ndim - 1))
    else:  # [in, out per group, ...]; the groups divide the inputs
        groups = number(node, "group")
        each = scale.reshape(groups, 1, -1)
        shaped = np.broadcast_to(each, (groups, weights.shape[0] // groups, weights.shape[1]))
        shaped = shaped.reshape(weights.shape[0], weights.shape[1], *(1,) * (weights.ndim - 2))
    with np.errstate(over="ignore"):
        scaled: NDArray[Any] = (weights.astype(np.float64) * shaped).astype(weights.dtype)
    return scaled


def _mul_before(context: MatchContext) -> Iterator[Match]:
    """Fold a factor before a convolution or matrix product into its weights."""
    for node in context.nodes("Conv", "Gemm"):
        before = context.producer(node.inputs[0], "Mul", "Div")
        weights = context.constant(node.inputs[1]) if len(node.inputs) > 1 else None
        if before is None or weights is None or context.sole_user(node.inputs[0]) is not node:
            continue
        for index in (0, 1):
            affine = affine_of(context, before, index, 1)
            factor, source = None if affine is None else affine.scale, before.inputs[index]
            if factor is None or source is None or not np.isfinite(factor).all() or not _is_own(node.inputs[1], node):
                continue
            if context.is_float(source, node.inputs[1]) and context.is_readable(node.inputs[1]):
                if context.refuses_large(_MUL_BEFORE, node, node.inputs[1]):
                    continue
                yield Match(f"{describe(before)} is folded into the weights of {describe(node)}", (before, node),
                            partial(_scale_weights, context, node, source, factor))  # fmt: skip
                break


def _scale_weights(
    context: MatchContext, node: Node, source: Value, factor: NDArray[Any], rewriter: GraphRewriter
) -> None:
    weights = context.array(node.inputs[1])
    assert weights is not None
    rewriter.set_inputs(node, (source, _scaled(node, weights, factor), *node.inputs[2:]))


# -- pads ---------------------------------------------------------------------------------------------------------


def _pad_into(context: MatchContext, op_types: tuple[str, ...]) -> Iterator[Match]:
    for node in context.nodes(*op_types):
        pad = context.producer(node.inputs[0], "Pad")
        if pad is None or context.sole_user(node.inputs[0]) is not node or text(pad, "mode") != "constant":
            continue
        pads = pads_of(context, pad)
        rank = context.facts.rank(pad.inputs[0])
        if pads is None or rank is None or rank < 3 or len(pads) != 2 * rank or any(p < 0 for p in pads):
            continue
        if any(pads[a] for a in (0, 1, rank, rank + 1)) or text(node, "auto_pad") != "NOTSET":
            continue
        if not _pad_value_fits(context, pad, -np.inf if node.op_type == "MaxPool" else 0.0) or not _pool_agrees(
            node, rank, pads
        ):
            continue
        old = ints(node, "pads") or (0,) * (2 * (rank - 2))
        if len(old) != 2 * (rank - 2):
            continue
        total = tuple(o + p for o, p in zip(old, (*pads[2:rank], *pads[rank + 2 :]), strict=True))
        kernel = ints(node, "kernel_shape")
        if node.op_type != "Conv" and (kernel is None or not _below_kernel(total, kernel)):
            continue
        yield Match(
            f"{describe(pad)} is folded into {describe(node)}",
            (pad, node),
            partial(_set_pads, node, pad, total),
        )


def _below_kernel(pads: tuple[int, ...], kernel: tuple[int, ...]) -> bool:
    """Return whether the pads are smaller than the window, as pools require."""
    return all(p < k for p, k in zip(pads, kernel * 2, strict=True))


def _pool_agrees(node: Node, rank: int, pads: tuple[int, ...]) -> bool:
    if number(node, "ceil_mode") or (node.op_type == "MaxPool" and len(node.outputs) > 1):
        return False
    if node.op_type != "AveragePool":
        return True
    own = ints(node, "pads")
    if number(node, "count_include_pad"):
        return True
    # Averages over what Pad added count it; those over the pool's own pads do not. A mixture cannot be expressed.
    return False if own is not None and any(own) else not any(pads[2:rank]) and not any(pads[rank + 2 :])


def _pad_value_fits(context: MatchContext, pad: Node, wanted: float) -> bool:
    if context.opset(pad) < 11:
        content: float | None = real(pad, "value")
    elif len(pad.inputs) < 3 or pad.inputs[2] is None:
        content = 0.0
    else:
        array = context.array(pad.inputs[2])
        content = None if array is None or array.size != 1 or array.dtype == object else float(array.reshape(-1)[0])
    return content == wanted


def _set_pads(node: Node, pad: Node, total: tuple[int, ...], rewriter: GraphRewriter) -> None:
    rewriter.set_attribute(node, "pads", list(total))
    if plain(node, "auto_pad") is not None:
        rewriter.set_attribute(node, "auto_pad", None)
    rewriter.set_inputs(node, (pad.inputs[0], *node.inputs[1:]))


def _into(pass_id: str, title: str, text: str, op_types: Sequence[str], takers: Sequence[str]) -> Pass:
    return Pass(pass_id, title, text, partial(_into_weights, pass_id=pass_id, op_types=op_types, takers=takers))


PASSES = (
    _into("fuse_bn_into_conv", "BatchNormalization into Conv",
          "Folds normalisation into the weights of Conv and ConvTranspose.", ("BatchNormalization",), _CONVOLUTIONS),
    _into("fuse_bn_into_gemm", "BatchNormalization into Gemm",
          "Folds normalisation into the matrix.", ("BatchNormalization",), ("Gemm",)),
    _into("fuse_add_bias_into_conv", "Add into Conv", "Turns an addition per channel into the bias.",
          ("Add", "Sub"), _CONVOLUTIONS),
    _into("fuse_add_into_gemm", "Add into Gemm", "Turns an addition per column into the bias.",
          ("Add", "Sub"), ("Gemm",)),
    _into("fuse_mul_into_conv", "Mul into Conv and Gemm", "Folds a factor per channel into the weights.",
          ("Mul", "Div"), (*_CONVOLUTIONS, "Gemm")),
    Pass(_MUL_BEFORE, "Mul before Conv and Gemm", "Folds a factor into the weights after it.",
         _mul_before),
    Pass("fuse_pad_into_conv", "Pad into Conv", "Turns zero padding into the pads of the convolution.",
         partial(_pad_into, op_types=("Conv",))),
    Pass("fuse_pad_into_pool", "Pad into pooling",
         "Turns padding into the pads of a pool, if equivalent.",
         partial(_pad_into, op_types=("AveragePool", "LpPool", "MaxPool"))),
)  # fmt: skip
