"""LinearRegressor, LinearClassifier, SVMRegressor and SVMClassifier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.onnx_ml.scores import (
    class_labels,
    logistic,
    matrix,
    regression,
    transformed,
    two_columns,
)
from onnx_workbench.exec.kernels.registry import kernel
from onnx_workbench.exec.values.arrays import Array

ML = "ai.onnx.ml"


@kernel("LinearRegressor", since=1, domain=ML)
def linear_regressor_1(
    x: Array,
    *,
    coefficients: Sequence[float] | None = None,
    intercepts: Sequence[float] | None = None,
    post_transform: str = "NONE",
    targets: int = 1,
) -> Array:
    """x · coefficientsᵀ + intercepts, [N, targets] float32."""
    scores = _linear(matrix(x), coefficients or (), targets, intercepts)
    return regression(scores, post_transform)


def _linear(x: Array, coefficients: Sequence[float], rows: int, intercepts: Sequence[float] | None) -> Array:
    used = rows * x.shape[1]
    if rows < 1 or len(coefficients) < used:
        given = f"{len(coefficients)} coefficients for {rows} outputs of {x.shape[1]} features"
        msg = f"{given}; expected one for each feature of each of 1 or more outputs"
        raise KernelError(msg)
    # Models with more coefficients than their input has features exist; ONNX Runtime reads the first ones.
    weights = np.array(coefficients[:used], np.float32).reshape(rows, -1)
    scores = x.astype(np.float32, copy=False) @ weights.T
    if intercepts:
        if len(intercepts) != rows:
            msg = f"{len(intercepts)} intercepts; expected {rows}"
            raise KernelError(msg)
        scores += np.array(intercepts, np.float32)
    return np.asarray(scores)


@kernel("LinearClassifier", since=1, domain=ML)
def linear_classifier_1(
    x: Array,
    *,
    classlabels_ints: Sequence[int] | None = None,
    classlabels_strings: Sequence[str] | None = None,
    coefficients: Sequence[float],
    intercepts: Sequence[float] | None = None,
    _multi_class: int = 0,  # both kinds are the same sums; post_transform distinguishes them
    post_transform: str = "NONE",
) -> tuple[Array, Array]:
    """Return the label of each row, and its scores, one per class."""
    x = matrix(x)
    labels = class_labels(classlabels_ints, classlabels_strings)
    rows = len(intercepts) if intercepts else len(coefficients) // max(x.shape[1], 1)
    scores = _linear(x, coefficients, rows, intercepts)
    if rows == 1 and len(labels) == 2:
        chosen = labels[(scores[:, 0] > 0).astype(np.intp)]
        return chosen, two_columns(scores, "probability", post_transform)
    if rows > len(labels):
        msg = f"{len(labels)} class labels for {rows} scores; expected one for each score"
        raise KernelError(msg)
    return labels[scores.argmax(1)], transformed(scores, post_transform)


@dataclass(frozen=True, slots=True)
class _SvmKernel:
    kind: str
    gamma: float
    coef0: float
    degree: float

    @classmethod
    def of(cls, kind: str, params: Sequence[float] | None) -> _SvmKernel:
        if kind not in ("LINEAR", "POLY", "RBF", "SIGMOID") or (params and len(params) != 3):
            msg = (
                f"kernel_type {kind!r} with {len(params or ())} parameters; expected LINEAR, POLY, RBF or SIGMOID and 3"
            )
            raise KernelError(msg)
        gamma, coef0, degree = params or (0.0, 0.0, 0.0)
        return cls(kind, gamma, coef0, degree)

    def between(self, x: Array, vectors: Array) -> Array:
        """Kernel matrix [rows of x, vectors], float32 products as in the libraries these models come from."""
        if x.shape[1] != vectors.shape[1]:
            msg = f"input of {x.shape[1]} features; the support vectors have {vectors.shape[1]}; expected as many"
            raise KernelError(msg)
        if self.kind == "RBF":
            # |x|² - 2xv + |v|² loses digits where x is near v: it is formed in float64.
            wide, other = x.astype(np.float64), vectors.astype(np.float64)
            squares = (wide * wide).sum(1)[:, None] - 2 * (wide @ other.T) + (other * other).sum(1)
            return np.asarray(np.exp(-self.gamma * np.maximum(squares, 0)).astype(np.float32))
        products = x @ vectors.T
        if self.kind == "LINEAR":
            return np.asarray(products)
        inner = np.float32(self.gamma) * products + np.float32(self.coef0)
        return np.asarray(np.tanh(inner) if self.kind == "SIGMOID" else np.power(inner, np.float32(self.degree)))


@kernel("SVMRegressor", since=1, domain=ML)
def svm_regressor_1(
    x: Array,
    *,
    coefficients: Sequence[float] | None = None,
    kernel_params: Sequence[float] | None = None,
    kernel_type: str = "LINEAR",
    n_supports: int = 0,
    one_class: int = 0,
    post_transform: str = "NONE",
    rho: Sequence[float] | None = None,
    support_vectors: Sequence[float] | None = None,
) -> Array:
    """Weighted kernel sums over the support vectors, or a linear function without any; the sign for a one-class
    model.
    """
    rows = matrix(x).astype(np.float32, copy=False)
    weights = np.array(coefficients or (), np.float32)
    if n_supports > 0:
        vectors = _vectors(support_vectors, n_supports)
        features = _SvmKernel.of(kernel_type, kernel_params).between(rows, vectors)
    else:
        features = rows
    if not rho or len(weights) != features.shape[1]:
        msg = f"{len(weights)} coefficients and {len(rho or ())} rho; expected {features.shape[1]} and 1"
        raise KernelError(msg)
    scores = features @ weights[:, None] + np.float32(rho[0])
    if one_class:
        return np.where(scores > 0, np.float32(1), np.float32(-1))
    return regression(np.asarray(scores), post_transform)


def _vectors(values: Sequence[float] | None, count: int) -> Array:
    flat = np.array(values or (), np.float32)
    if not len(flat) or len(flat) % count:
        msg = f"support_vectors has {len(flat)} numbers; expected a multiple of {count}"
        raise KernelError(msg)
    return flat.reshape(count, -1)


@kernel("SVMClassifier", since=1, domain=ML)
def svm_classifier_1(
    x: Array,
    *,
    classlabels_ints: Sequence[int] | None = None,
    classlabels_strings: Sequence[str] | None = None,
    coefficients: Sequence[float] | None = None,
    kernel_params: Sequence[float] | None = None,
    kernel_type: str = "LINEAR",
    post_transform: str = "NONE",
    prob_a: Sequence[float] | None = None,
    prob_b: Sequence[float] | None = None,
    rho: Sequence[float] | None = None,
    support_vectors: Sequence[float] | None = None,
    vectors_per_class: Sequence[int] | None = None,
) -> tuple[Array, Array]:
    """The label of each row and its scores: per pair of classes, or per class with Platt scaling (prob_a, prob_b)."""
    rows = matrix(x).astype(np.float32, copy=False)
    labels = class_labels(classlabels_ints, classlabels_strings)
    weights = np.array(coefficients or (), np.float32)
    offsets = np.array(rho or (), np.float32)
    if not offsets.size:
        msg = "rho is missing; expected a number for each pair of classes"
        raise KernelError(msg)
    if not vectors_per_class or not sum(vectors_per_class):
        scores = _linear(rows, coefficients or (), len(labels), None) + offsets[0]
        return _svm_result(scores, scores.argmax(1), labels, weights, post_transform, paired=False)
    counts = list(vectors_per_class)
    if len(counts) != len(labels) or min(counts) < 0:
        msg = f"vectors_per_class is {counts}; expected {len(labels)} counts"
        raise KernelError(msg)
    vectors = _vectors(support_vectors, sum(counts))
    features = _SvmKernel.of(kernel_type, kernel_params).between(rows, vectors)
    scores, votes = _pairs(features, counts, weights, offsets)
    if prob_a:
        scores = _probabilities(scores, prob_a, prob_b or (), len(labels))
        return labels[votes.argmax(1)], transformed(scores, post_transform)
    return _svm_result(scores, votes.argmax(1), labels, weights, post_transform, paired=len(labels) == 2)


def _svm_result(
    scores: Array, chosen: Array, labels: Array, weights: Array, post_transform: str, *, paired: bool
) -> tuple[Array, Array]:
    if paired:
        kind = "margin" if post_transform == "NONE" else "probability"
        return labels[chosen], two_columns(scores, kind, post_transform)
    if len(labels) == 2 and scores.shape[1] == 2:
        best = scores.max(1)
        positive = bool((weights >= 0).all())
        chosen = np.where((best >= 0.5) if positive else (best > 0), 1, chosen)
    return labels[chosen], transformed(scores, post_transform)


def _pairs(features: Array, counts: Sequence[int], weights: Array, rho: Array) -> tuple[Array, Array]:
    """Return one score per pair of classes, and the number of pairs that each class won."""
    classes = len(counts)
    pairs = classes * (classes - 1) // 2
    if weights.size != (classes - 1) * features.shape[1] or rho.size < pairs:
        msg = (
            f"{weights.size} coefficients and {rho.size} rho; expected {(classes - 1) * features.shape[1]} and {pairs}"
        )
        raise KernelError(msg)
    table = weights.reshape(classes - 1, -1)
    ends = np.cumsum(counts)
    columns = [slice(int(end) - n, int(end)) for end, n in zip(ends, counts, strict=True)]
    scores = np.empty((len(features), pairs), np.float32)
    votes = np.zeros((len(features), classes), np.int64)
    pair = 0
    for i in range(classes):
        for j in range(i + 1, classes):
            ours = features[:, columns[i]] @ table[j - 1, columns[i]]
            theirs = features[:, columns[j]] @ table[i, columns[j]]
            scores[:, pair] = ours + theirs + rho[pair]
            won = scores[:, pair] > 0
            votes[:, i] += won
            votes[:, j] += ~won
            pair += 1
    return scores, votes


def _probabilities(scores: Array, prob_a: Sequence[float], prob_b: Sequence[float], classes: int) -> Array:
    """Class probabilities from those of the pairs, by the second method of Wu, Lin and Weng (2004)."""
    if len(prob_a) < scores.shape[1] or len(prob_b) < scores.shape[1]:
        msg = f"{len(prob_a)} prob_a and {len(prob_b)} prob_b; expected {scores.shape[1]} of each"
        raise KernelError(msg)
    count = scores.shape[1]
    margin = scores * np.array(prob_a[:count], np.float32) + np.array(prob_b[:count], np.float32)
    wins = np.clip(1 - logistic(margin).astype(np.float64), 1e-7, 1 - 1e-7)
    rates = np.zeros((len(scores), classes, classes))
    first, second = np.triu_indices(classes, 1)
    rates[:, first, second] = wins
    rates[:, second, first] = 1 - wins
    return np.asarray(_coupled(rates).astype(np.float32))


def _coupled(rates: Array) -> Array:
    """Iterate the pairwise coupling to its fixed point, for all rows together; at most 100 iterations as in libsvm."""
    rows, classes, _ = rates.shape
    q = -rates.transpose(0, 2, 1) * rates
    diagonal = np.arange(classes)
    q[:, diagonal, diagonal] = (rates * rates).sum(1)
    p = np.full((rows, classes), 1 / classes)
    tolerance = 0.005 / classes
    active = np.ones(rows, bool)
    for _ in range(max(100, classes)):
        qp = np.einsum("nij,nj->ni", q, p)
        pqp = (p * qp).sum(1)
        active &= np.abs(qp - pqp[:, None]).max(1) >= tolerance
        if not active.any():
            break
        here, p_here, qp_here, pqp_here = q[active], p[active], qp[active], pqp[active]
        for t in range(classes):
            diff = (pqp_here - qp_here[:, t]) / here[:, t, t]
            p_here[:, t] += diff
            scale = 1 + diff
            pqp_here = (pqp_here + diff * (diff * here[:, t, t] + 2 * qp_here[:, t])) / scale / scale
            qp_here = (qp_here + diff[:, None] * here[:, t]) / scale[:, None]
            p_here /= scale[:, None]
        p[active] = p_here
    return p
