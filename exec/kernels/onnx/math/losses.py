"""NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss."""

from __future__ import annotations

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.onnx.math.softmax import log_softmax
from onnx_workbench.exec.kernels.registry import kernel
from onnx_workbench.exec.kernels.shared.dtypes import narrow, widen
from onnx_workbench.exec.values.arrays import Array, check_size


def _loss(x: Array, target: Array, weight: Array | None, ignore_index: int | None, reduction: str) -> Array:
    """Return the weighted mean, sum or array of -x[n, target[n, …], …]."""
    if x.ndim < 2 or target.shape != x.shape[:1] + x.shape[2:]:
        msg = f"scores have shape {list(x.shape)} and labels {list(target.shape)}; expected [N, C, …] and [N, …]"
        raise KernelError(msg)
    if reduction not in ("none", "sum", "mean"):
        msg = f"attribute reduction is {reduction!r}; expected none, sum or mean"
        raise KernelError(msg)
    classes = x.shape[1]
    if weight is not None and weight.shape != (classes,):
        msg = f"weights have shape {list(weight.shape)}; expected one per class, [{classes}]"
        raise KernelError(msg)
    ignored = np.asarray(target == ignore_index) if ignore_index is not None else np.zeros(target.shape, bool)
    labels = np.where(ignored, 0, target)
    if labels.size and not 0 <= labels.min() <= labels.max() < classes:
        msg = f"labels are within [{labels.min()}, {labels.max()}]; expected within [0, {classes - 1}]"
        raise KernelError(msg)
    check_size(target.shape, np.float32)
    wide = widen(x)
    loss = -np.take_along_axis(wide, labels[:, np.newaxis], axis=1)[:, 0]
    factors = np.ones(target.shape, wide.dtype) if weight is None else widen(weight)[labels]
    factors[ignored] = 0
    loss[ignored] = 0
    loss *= factors
    if reduction == "none":
        return narrow(loss, x.dtype)
    total = loss.sum(dtype=wide.dtype)
    if reduction == "mean":
        total = total / factors.sum(dtype=wide.dtype)
    return narrow(np.asarray(total), x.dtype)


@kernel("NegativeLogLikelihoodLoss", since=12)
def negative_log_likelihood_loss_12(
    x: Array,
    target: Array,
    weight: Array | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Array:
    """Return the loss of log-probabilities [N, C, …] under the labels [N, …]."""
    return _loss(x, target, weight, ignore_index, reduction)


@kernel("SoftmaxCrossEntropyLoss", since=12)
def softmax_cross_entropy_loss_12(
    scores: Array,
    labels: Array,
    weights: Array | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> tuple[Array, Array]:
    """Return the same of log-softmax of `scores`, which is the second output."""
    log_prob = log_softmax(scores, 1)
    return _loss(log_prob, labels, weights, ignore_index, reduction), log_prob
