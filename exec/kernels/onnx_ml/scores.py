"""Post transforms of scores and the choice of class labels; as ONNX Runtime where the specification is silent."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.values.arrays import Array
from onnx_workbench.exec.values.statistics import describe

TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


def transformed(scores: Array, name: str) -> Array:
    """Scores [N, E] after a post transform, in their type."""
    match name:
        case "NONE":
            return scores
        case "LOGISTIC":
            return logistic(scores)
        case "SOFTMAX":
            return _softmax(scores, np.ones_like(scores, bool))
        case "SOFTMAX_ZERO":
            # Scores of zero are left out and stay zero; NaN is none of them.
            return _softmax(scores, ~(np.abs(scores) <= 1e-7))
        case "PROBIT":
            return _probit(scores)
    msg = f"post_transform is {name!r}; expected one of {', '.join(TRANSFORMS)}"
    raise KernelError(msg)


def regression(scores: Array, name: str) -> Array:
    """Apply the post transform of a regressor: a single target supports only PROBIT, as in ONNX Runtime."""
    if name in TRANSFORMS and name != "PROBIT" and scores.shape[1] == 1:
        return scores
    return transformed(scores, name)


def logistic(x: Array) -> Array:
    """1 / (1 + exp(-x)) without overflow."""
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, np.ones_like(small), small) / (1 + small))


def _softmax(scores: Array, counted: Array) -> Array:
    if not scores.size:
        return scores
    powers = np.exp(scores - scores.max(1, keepdims=True))
    powers = np.where(counted, powers, 0).astype(scores.dtype)
    total = powers.sum(1, keepdims=True)
    return np.asarray(powers / np.where(total == 0, 1, total).astype(scores.dtype))


def _probit(x: Array) -> Array:
    """sqrt(2) erfinv(2x - 1), by the approximation of Winitzki that ONNX Runtime uses."""
    y = 2 * x - 1
    log = np.log((1 - y) * (1 + y))
    first = 2 / (np.pi * 0.147) + 0.5 * log
    inverse = np.sign(y) * np.sqrt(-first + np.sqrt(first * first - log / 0.147))
    return np.asarray((np.sqrt(2) * inverse).astype(x.dtype))


def two_columns(score: Array, kind: str, post_transform: str) -> Array:
    """Expand one score [N, 1] of a two-class model to two; `kind` distinguishes probabilities from margins."""
    if post_transform == "PROBIT":
        return transformed(score, post_transform)
    if post_transform == "LOGISTIC":
        return np.concatenate([logistic(-score), logistic(score)], 1)
    if kind == "probability":
        return np.concatenate([1 - score, score], 1)
    return np.concatenate([-score, score], 1)


def class_labels(ints: Sequence[int] | None, strings: Sequence[str] | None) -> Array:
    """Return the labels of a classifier as int64 or objects of str; KernelError unless exactly one list is given."""
    if bool(ints) == bool(strings):
        msg = "expected class labels as integers or as strings, and only as one of them"
        raise KernelError(msg)
    if strings:
        labels = np.empty(len(strings), object)
        labels[:] = list(strings)
        return labels
    return np.array(ints, np.int64)


def matrix(x: Array, what: str = "X") -> Array:
    """Return the input as [N, F]: one row for a 1-D input; KernelError for more than two dimensions."""
    if not isinstance(x, np.ndarray) or x.ndim not in (1, 2) or x.dtype.kind not in "fiub":
        msg = f"{what} is {describe(x)}; expected numbers of shape [N, F]"
        raise KernelError(msg)
    return x.reshape(1, -1) if x.ndim == 1 else x
