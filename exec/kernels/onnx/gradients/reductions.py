"""Gradients of reductions, softmax, normalisations and losses."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from onnx_workbench.exec.kernels.onnx.gradients.tape import TapeStep, rule
from onnx_workbench.exec.kernels.onnx.reduction import mean_over
from onnx_workbench.exec.kernels.shared.axes import normal_axes, normal_axis
from onnx_workbench.exec.values.arrays import Array

Grads = Sequence[Array | None]


def _axes(step: TapeStep) -> tuple[int, ...]:
    rank = step.inputs[0].ndim
    axes = step.integers("axes", 1)
    if not axes:
        return () if step.attribute("noop_with_empty_axes", 0) else tuple(range(rank))
    return normal_axes(axes, rank)


def _kept(value: Array, axes: Sequence[int], rank: int) -> Array:
    """Return a reduced value with its axes restored at length 1."""
    return value if value.ndim == rank else np.expand_dims(value, tuple(axes))


@rule(
    "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum",
    "ReduceLogSumExp", "ReduceSumSquare",
)  # fmt: skip
def reductions(step: TapeStep, grads: Sequence[Array]) -> Grads:
    """Broadcast the gradient over the reduced axes, times the slope of the reduction."""
    x = step.inputs[0]
    axes = _axes(step)
    y, g = _kept(step.outputs[0], axes, x.ndim), _kept(grads[0], axes, x.ndim)
    count = prod(x.shape[a] for a in axes)
    return [np.asarray(g * _slope(step.node.op_type, x, y, axes, count), x.dtype)]


def _slope(op_type: str, x: Array, y: Array, axes: tuple[int, ...], count: int) -> Array:
    match op_type:
        case "ReduceMean":
            return np.full_like(x, 1 / count)
        case "ReduceMax" | "ReduceMin":
            hit = x == y
            return np.asarray(hit / hit.sum(axes, keepdims=True))
        case "ReduceProd":
            return _others_product(x, axes)
        case "ReduceL1":
            return np.sign(x)
        case "ReduceL2":
            return np.asarray(x / np.where(y == 0, 1, y))
        case "ReduceLogSum":
            return np.asarray(np.ones_like(x) / x.sum(axes, keepdims=True))
        case "ReduceLogSumExp":
            return np.asarray(np.exp(x - y))
        case "ReduceSumSquare":
            return np.multiply(x, 2)
    return np.ones_like(x)


def _others_product(x: Array, axes: tuple[int, ...]) -> Array:
    """Return for each element the product of the others, correct for zeros too."""
    zero = x == 0
    zeros = zero.sum(axes, keepdims=True)
    rest = np.prod(np.where(zero, 1, x), axes, keepdims=True)
    return np.where(zeros == 0, rest / np.where(zero, 1, x), np.where(zero & (zeros == 1), rest, 0))


def _softmax_axes(step: TapeStep) -> tuple[int, ...]:
    x = step.inputs[0]
    if step.node.opset >= 13:
        return (normal_axis(step.attribute("axis", -1), x.ndim),)
    return tuple(range(normal_axis(step.attribute("axis", 1), x.ndim), x.ndim))


@rule("Softmax")
def softmax(step: TapeStep, grads: Sequence[Array]) -> Grads:
    """y (g - sum of g y)."""
    y, g = step.outputs[0], grads[0]
    return [y * (g - (g * y).sum(_softmax_axes(step), keepdims=True))]


@rule("LogSoftmax")
def log_softmax(step: TapeStep, grads: Sequence[Array]) -> Grads:
    """g - softmax · sum of g."""
    return [grads[0] - np.exp(step.outputs[0]) * grads[0].sum(_softmax_axes(step), keepdims=True)]


@rule("LayerNormalization")
def layer_normalization(step: TapeStep, grads: Sequence[Array]) -> Grads:
    """By the input, scale and bias."""
    x, scale = step.inputs[:2]
    axes = tuple(range(normal_axis(step.attribute("axis", -1), x.ndim), x.ndim))
    centred = x - mean_over(x, axes)
    inverse = 1 / np.sqrt(mean_over(centred * centred, axes) + step.attribute("epsilon", 1e-5))
    normal = centred * inverse
    g = grads[0] * scale
    by_x = inverse * (g - mean_over(g, axes) - normal * mean_over(g * normal, axes))
    return [by_x, _like(grads[0] * normal, scale), _like(grads[0], step.inputs[2] if len(step.inputs) > 2 else None)]


def _like(grad: Array, parameter: Array | None) -> Array | None:
    """Sum over the leading axes that a parameter lacks."""
    if parameter is None:
        return None
    return np.asarray(grad.sum(tuple(range(grad.ndim - parameter.ndim))))


@rule("BatchNormalization")
def batch_normalization(step: TapeStep, grads: Sequence[Array]) -> Grads:
    """With the running statistics as constants, which is what inference uses."""
    x, scale, _, mean, variance = step.inputs[:5]
    column = (-1, *(1,) * (x.ndim - 2))
    inverse = (1 / np.sqrt(variance + step.attribute("epsilon", 1e-5))).reshape(column)
    over = (0, *range(2, x.ndim))
    normal = (x - mean.reshape(column)) * inverse
    g = grads[0]
    return [g * scale.reshape(column) * inverse, (g * normal).sum(over), g.sum(over)]


@rule("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss")
def losses(step: TapeStep, grads: Sequence[Array]) -> Grads:
    """By the scores or log-probabilities; labels and class weights are constants."""
    scores, labels = step.inputs[:2]
    bias = step.inputs[2] if len(step.inputs) > 2 else None
    weights, hot = _weights(step, scores, labels, bias)
    g = grads[0]
    match step.attribute("reduction", "mean"):
        case "mean":
            weights = weights * g / weights.sum()
        case "sum":
            weights = weights * g
        case _:
            weights = weights * g
    weights = np.expand_dims(weights, 1)
    if step.node.op_type == "NegativeLogLikelihoodLoss":
        return [np.asarray(-(hot * weights), scores.dtype)]
    shifted = np.exp(scores - scores.max(1, keepdims=True))
    by_scores = (shifted / shifted.sum(1, keepdims=True) - hot) * weights
    if len(grads) > 1 and grads[1].shape == scores.shape:
        total = grads[1].sum(1, keepdims=True)
        by_scores = by_scores + grads[1] - shifted / shifted.sum(1, keepdims=True) * total
    return [np.asarray(by_scores, scores.dtype)]


def _weights(step: TapeStep, scores: Array, labels: Array, given: Array | None) -> tuple[Array, Any]:
    """Weight of each label, 0 where it is ignored, and the labels one-hot along axis 1."""
    ignored = step.attribute("ignore_index")
    counted = np.ones(labels.shape, bool) if ignored is None else labels != ignored
    safe = np.where(counted, labels, 0)
    weights = counted.astype(scores.dtype) if given is None else np.where(counted, given[safe], 0)
    classes = np.arange(scores.shape[1]).reshape(-1, *(1,) * (scores.ndim - 2))
    return weights, np.expand_dims(safe, 1) == classes
