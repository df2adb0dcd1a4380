"""Numbers of weights whose errors make up for each other on typical inputs (GPTQ; Frantar et al. 2022)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onnx_workbench.exec.transform.quantization.ranges import Array, QuantizedWeight, rounded, row_scales
from onnx_workbench.model.ir.types import ElementType

_DAMPING = 0.01  # of the mean diagonal, so that inputs that hardly occur do not make the inverse explode


class Products:
    """Sum of the products of the features of an input, over its rows and many runs: of the size of a row squared."""

    def __init__(self) -> None:
        self.sums: NDArray[np.float64] = np.zeros((0, 0))

    def add(self, array: Array) -> None:
        """Count an array whose last axis has the features."""
        if not array.ndim or not array.size:
            return
        rows = array.reshape(-1, array.shape[-1]).astype(np.float64)
        products = rows.T @ rows
        self.sums = self.sums + products if self.sums.size else products


def compensated(
    array: Array, kind: ElementType, products: NDArray[np.float64], *, block: int, symmetric: bool
) -> QuantizedWeight:
    """Quantize a matrix of inputs × outputs, row after row; what a row loses is made up for by the rows that follow.

    Scales are per `block` rows and output, or per output if it is 0, chosen when their first row is reached. Cost:
    cubic in the number of inputs.
    """
    weights = array.astype(np.float64)
    count = len(weights)
    inverse = _inverse_root(products)
    size = block or count
    numbers = np.empty(weights.shape, kind.numpy_dtype)
    scales: list[Any] = []
    zeros: list[Any] = []
    for start in range(0, count, size):
        stop = min(start + size, count)
        scale, zero = row_scales(weights[start:stop].T.astype(np.float32), kind, symmetric=symmetric)
        scales.append(scale)
        zeros.append(zero)
        errors = np.empty((stop - start, weights.shape[1]))
        for row in range(start, stop):
            numbers[row] = rounded(weights[row], scale, zero, kind)
            exact = (numbers[row].astype(np.float64) - zero.astype(np.float64)) * scale
            error = (weights[row] - exact) / inverse[row, row]
            weights[row + 1 : stop] -= np.outer(inverse[row, row + 1 : stop], error)
            errors[row - start] = error
        weights[stop:] -= inverse[start:stop, stop:].T @ errors
    if not block:
        return QuantizedWeight(numbers, scales[0], zeros[0])
    return QuantizedWeight(numbers, np.stack(scales), np.stack(zeros))


def _inverse_root(products: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the upper triangular factor of the inverse of the damped products."""
    mean = float(np.mean(np.diag(products))) or 1.0
    inverse = np.linalg.inv(products + _DAMPING * mean * np.eye(len(products)))
    return np.asarray(np.linalg.cholesky((inverse + inverse.T) / 2).T)
