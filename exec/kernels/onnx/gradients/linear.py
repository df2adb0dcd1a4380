"""Gradients of products and of sliding windows: MatMul, Gemm, Conv, pooling."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from onnx_workbench.exec.kernels.onnx.gradients.tape import TapeStep, reduced_to, rule
from onnx_workbench.exec.values.arrays import Array, zeros
from onnx_workbench.exec.values.limits import checkpoint

Grads = Sequence[Array | None]


@rule("MatMul")
def matmul(step: TapeStep, grads: Sequence[Array]) -> Grads:
    """g · bᵀ and aᵀ · g; vectors count as a row or column."""
    a, b = step.inputs
    left = a[None, :] if a.ndim == 1 else a
    right = b[:, None] if b.ndim == 1 else b
    g = grads[0]
    if a.ndim == 1:
        g = np.expand_dims(g, -2 if b.ndim > 1 else -1)
    if b.ndim == 1:
        g = np.expand_dims(g, -1)
    by_left = reduced_to(np.matmul(g, np.swapaxes(right, -1, -2)), left.shape)
    by_right = reduced_to(np.matmul(np.swapaxes(left, -1, -2), g), right.shape)
    return [by_left.reshape(a.shape), by_right.reshape(b.shape)]


@rule("Gemm")
def gemm(step: TapeStep, grads: Sequence[Array]) -> Grads:
    """alpha · A' · B' + beta · C."""
    a, b = step.inputs[:2]
    g = grads[0] * step.attribute("alpha", 1.0)
    left = a.T if step.attribute("transA", 0) else a
    right = b.T if step.attribute("transB", 0) else b
    by_left, by_right = g @ right.T, left.T @ g
    found: list[Array | None] = [
        by_left.T if step.attribute("transA", 0) else by_left,
        by_right.T if step.attribute("transB", 0) else by_right,
    ]
    if len(step.inputs) > 2 and step.inputs[2] is not None:
        found.append(reduced_to(grads[0] * step.attribute("beta", 1.0), step.inputs[2].shape))
    return found


class _Windows:
    """Strides, dilations and pads of a sliding window, and the part of the padded input that each tap sees."""

    def __init__(self, step: TapeStep, kernel: Sequence[int]) -> None:
        x, y = step.inputs[0], step.outputs[0]
        rank = len(kernel)
        self.kernel = kernel
        self.strides = list(step.attribute("strides") or (1,) * rank)
        self.dilations = list(step.attribute("dilations") or (1,) * rank)
        self.counts = y.shape[2:]
        self.shape = x.shape
        self.pads = self._pads(step)
        # As far as the last window reaches, whatever the pads say.
        self.room = [
            max(begin + n, (count - 1) * s + (k - 1) * d + 1)
            for begin, n, count, s, k, d in zip(
                self.pads, x.shape[2:], self.counts, self.strides, kernel, self.dilations, strict=True
            )
        ]

    def _pads(self, step: TapeStep) -> list[int]:
        """Return the padding before each axis."""
        rank = len(self.kernel)
        auto = step.attribute("auto_pad", "NOTSET")
        if auto in ("NOTSET", ""):
            return list(step.attribute("pads") or (0,) * 2 * rank)[:rank]
        if auto == "VALID":
            return [0] * rank
        begins = []
        for i, n in enumerate(self.shape[2:]):
            reach = (self.counts[i] - 1) * self.strides[i] + (self.kernel[i] - 1) * self.dilations[i] + 1
            total = max(reach - n, 0)
            begins.append(total // 2 if auto == "SAME_UPPER" else total - total // 2)
        return begins

    def padded(self, x: Array, fill: float = 0.0) -> Array:
        """Pad both sides of the spatial axes."""
        result = zeros((*x.shape[:2], *self.room), x.dtype)
        if fill:
            result[...] = fill
        result[self._inside()] = x
        return result

    def cut(self, padded: Array) -> Array:
        """Remove the padding."""
        return padded[self._inside()]

    def _inside(self) -> tuple[slice, ...]:
        spatial = (slice(b, b + n) for b, n in zip(self.pads, self.shape[2:], strict=True))
        return (slice(None), slice(None), *spatial)

    def taps(self) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
        """Yield each kernel position, and the part of the padded array that it meets over all windows."""
        for index in product(*(range(k) for k in self.kernel)):
            checkpoint()
            spatial = (
                slice(p * d, p * d + (count - 1) * s + 1, s)
                for p, d, count, s in zip(index, self.dilations, self.counts, self.strides, strict=True)
            )
            yield index, (slice(None), slice(None), *spatial)


@rule("Conv")
def conv(step: TapeStep, grads: Sequence[Array]) -> Grads:
    """Accumulate tap by tap: gradients of weights and of inputs."""
    x, w = step.inputs[:2]
    g = grads[0]
    group = step.attribute("group", 1)
    windows = _Windows(step, w.shape[2:])
    padded = windows.padded(x)
    by_padded, by_w = np.zeros_like(padded), np.zeros_like(w)
    batch, outer = g.shape[0], w.shape[0] // group
    flat_g = g.reshape(batch, group, outer, -1)
    for index, part in windows.taps():
        met = padded[part].reshape(batch, group, w.shape[1], -1)
        weights = w[(..., *index)].reshape(group, outer, w.shape[1])
        by_w[(..., *index)] = np.einsum("bgop,bgip->goi", flat_g, met, optimize=True).reshape(w.shape[:2])
        gone = np.matmul(np.swapaxes(weights, 1, 2), flat_g)
        by_padded[part] += gone.reshape(padded[part].shape)
    found: list[Array | None] = [windows.cut(by_padded), by_w]
    if len(step.inputs) > 2 and step.inputs[2] is not None:
        found.append(g.sum((0, *range(2, g.ndim))))
    return found


@rule("MaxPool")
def max_pool(step: TapeStep, grads: Sequence[Array]) -> Grads:
    """Pass to the first position in each window that holds the maximum."""
    x, y = step.inputs[0], step.outputs[0]
    windows = _Windows(step, step.attribute("kernel_shape"))
    padded = windows.padded(x, -np.inf)
    result = np.zeros_like(padded)
    waiting = np.ones(y.shape, bool)
    for _, part in windows.taps():
        hit = (padded[part] == y) & waiting
        result[part] += grads[0] * hit
        waiting &= ~hit
    return [windows.cut(result)]


@rule("AveragePool")
def average_pool(step: TapeStep, grads: Sequence[Array]) -> Grads:
    """Spread over each window, divided by its element count."""
    x = step.inputs[0]
    windows = _Windows(step, step.attribute("kernel_shape"))
    if step.attribute("count_include_pad", 0):
        counted = np.ones((1, 1, *windows.room), x.dtype)
    else:
        counted = windows.padded(np.ones_like(x[:1, :1]))
    count = np.zeros((1, 1, *windows.counts), x.dtype)
    for _, part in windows.taps():
        count += counted[part]
    result = zeros((*x.shape[:2], *windows.room), x.dtype)
    for _, part in windows.taps():
        result[part] += grads[0] / count
    return [windows.cut(result)]


@rule("GlobalAveragePool")
def global_average_pool(step: TapeStep, grads: Sequence[Array]) -> Grads:
    """Spread equally over all positions."""
    x = step.inputs[0]
    share = np.asarray(x.shape[2:]).prod()
    return [np.broadcast_to(grads[0] / share, x.shape).astype(x.dtype)]
