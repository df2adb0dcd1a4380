"""Activation functions; the `fill_` functions work on flat contiguous pieces and serve other kernels too."""

from __future__ import annotations

from functools import partial
from math import pi, sqrt

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.onnx.math.functions import exact_erf, tanh_erf
from onnx_workbench.exec.kernels.registry import kernel
from onnx_workbench.exec.kernels.shared.blocks import PARALLEL, apply, at_least, at_most, elementwise, temporary
from onnx_workbench.exec.kernels.shared.broadcast import broadcast_shape, check_one_type, unidirectional
from onnx_workbench.exec.kernels.shared.dtypes import FLOAT64, compute_dtype, narrow, widen
from onnx_workbench.exec.kernels.threads import threads
from onnx_workbench.exec.values.arrays import Array

_LOWEST, _HIGHEST = -3.4028234663852886e38, 3.4028234663852886e38  # of float32, as the attributes' defaults


# --- rectifiers and clips --------------------------------------------------------------------------------------


def fill_relu(x: Array, target: Array) -> None:
    """max(x, 0)."""
    at_least(x, x.dtype.type(0), target)


@kernel("Relu", since=1)
def relu_1(x: Array) -> Array:
    """max(x, 0)."""
    if (x.dtype.char not in "fd" and compute_dtype(x.dtype) != x.dtype) or (x.size >= PARALLEL and threads() > 1):
        return elementwise(fill_relu, x)
    return at_least(x, x.dtype.type(0))


@kernel("LeakyRelu", since=1)
def leaky_relu_1(x: Array, *, alpha: float = 0.009999999776482582) -> Array:
    """`x` where it is not negative, alpha·x where it is."""

    def fill(x: Array, target: Array) -> None:
        if 0 < alpha <= 1:  # 0 times an infinity is NaN
            np.multiply(x, alpha, target)
            np.maximum(x, target, out=target)
            return
        negative = temporary("leaky", x)
        at_most(x, 0, negative)
        np.multiply(negative, alpha, negative)
        at_least(x, 0, target)
        np.add(target, negative, target)

    return elementwise(fill, x)


@kernel("ThresholdedRelu", since=1)  # dropped before ONNX's first release; ONNX Runtime has it
@kernel("ThresholdedRelu", since=10)
def thresholded_relu_10(x: Array, *, alpha: float = 1.0) -> Array:
    """`x` where it is above alpha, else 0."""

    def fill(x: Array, target: Array) -> None:
        target.fill(0)
        np.copyto(target, x, where=np.greater(x, alpha))

    return elementwise(fill, x)


def _prelu(x: Array, slope: Array) -> Array:
    check_one_type(x, slope)
    wide, factor = unidirectional(widen(x), broadcast_shape(x, slope)), widen(slope)
    if factor.size and factor.min() > 0 and factor.max() <= 1:  # 0 times an infinity is NaN
        result = np.asarray(np.multiply(wide, factor))
        np.maximum(wide, result, out=result)
        return narrow(result, x.dtype)
    negative = at_most(wide, 0)
    np.multiply(negative, factor, out=negative)
    result = at_least(wide, 0)
    np.add(result, negative, out=result)
    return narrow(result, x.dtype)


@kernel("PRelu", since=1)
def prelu_1(x: Array, slope: Array) -> Array:
    """The slope has one element or one per channel (axis 1)."""
    if slope.size == 1:
        slope = slope.reshape(())
    elif slope.ndim == 1 and x.ndim > 1:
        slope = slope.reshape(slope.shape + (1,) * (x.ndim - 2))
    return _prelu(x, slope)


@kernel("PRelu", since=7)
def prelu_7(x: Array, slope: Array) -> Array:
    """`x` where it is not negative, slope·x where it is.

    The specification broadcasts the slope to `x`; here, as in ONNX Runtime, each is broadcast to the other.
    """
    return _prelu(x, slope)


@kernel("Clip", since=1)
def clip_1(x: Array, *, max_: float | None = None, min_: float | None = None) -> Array:
    """Bounds as attributes, both optional."""
    return clip_6(x, max_=_HIGHEST if max_ is None else max_, min_=_LOWEST if min_ is None else min_)


@kernel("Clip", since=6)
def clip_6(x: Array, *, max_: float = _HIGHEST, min_: float = _LOWEST) -> Array:
    """Bounds as attributes; the defaults mean no bound, in double as well."""
    bound = compute_dtype(x.dtype).type
    low = None if min_ <= _LOWEST else np.asarray(bound(min_))
    high = None if max_ >= _HIGHEST else np.asarray(bound(max_))
    return _clip(x, low, high)


@kernel("Clip", since=11)
def clip_11(x: Array, min_: Array | None = None, max_: Array | None = None) -> Array:
    """min(max, max(min, x)) with scalar bounds; the upper one wins where they cross."""
    for name, bound in (("min", min_), ("max", max_)):
        if bound is not None and bound.size != 1:
            msg = f"{name} has shape {list(bound.shape)}; expected a scalar"
            raise KernelError(msg)
    return _clip(x, min_, max_)


def _clip(x: Array, low: Array | None, high: Array | None) -> Array:
    lower = None if low is None else widen(low).reshape(())
    upper = None if high is None else widen(high).reshape(())

    def fill(x: Array, target: Array) -> None:
        np.clip(x, lower, upper, out=target)

    return x if lower is None and upper is None else elementwise(fill, x)


# --- exponential units -----------------------------------------------------------------------------------------


def _exponential_unit(alpha: float, gamma: float, x: Array, target: Array) -> None:
    """gamma·(max(x, 0) + alpha·(exp(min(x, 0)) - 1))."""
    positive = temporary("unit", x)
    at_most(x, 0, target)
    np.expm1(target, target)
    np.multiply(target, alpha * gamma, target)
    at_least(x, 0, positive)
    if gamma != 1:
        np.multiply(positive, gamma, positive)
    np.add(target, positive, target)


@kernel("Elu", since=1)
def elu_1(x: Array, *, alpha: float = 1.0) -> Array:
    """`x` where it is not negative, alpha·(exp(x) - 1) where it is."""
    return elementwise(partial(_exponential_unit, alpha, 1.0), x)


@kernel("Selu", since=1)
def selu_1(x: Array, *, alpha: float = 1.673200011253357, gamma: float = 1.0506999492645264) -> Array:
    """Return the scaled exponential unit with the constants of opset 1."""
    return selu_6(x, alpha=alpha, gamma=gamma)


@kernel("Selu", since=6)
def selu_6(x: Array, *, alpha: float = 1.6732631921768188, gamma: float = 1.0507010221481323) -> Array:
    """gamma·x where x is positive, gamma·alpha·(exp(x) - 1) elsewhere."""
    return elementwise(partial(_exponential_unit, alpha, gamma), x)


@kernel("Celu", since=12)
def celu_12(x: Array, *, alpha: float = 1.0) -> Array:
    """max(0, x) + min(0, alpha·(exp(x/alpha) - 1))."""

    def fill(x: Array, target: Array) -> None:
        positive = temporary("celu", x)
        np.divide(x, alpha, target)
        np.expm1(target, target)
        np.multiply(target, alpha, target)
        at_most(target, 0, target)
        at_least(x, 0, positive)
        np.add(target, positive, target)

    return elementwise(fill, x)


# --- sigmoids --------------------------------------------------------------------------------------------------


def fill_sigmoid(x: Array, target: Array, alpha: float = 1.0) -> None:
    """1 / (1 + exp(-alpha·x)); exp overflows to infinity where the result is 0."""
    if alpha == 1:
        np.negative(x, target)
    else:
        np.multiply(x, -alpha, target)
    np.exp(target, target)
    np.add(target, 1, target)
    np.divide(1, target, target)


@kernel("Sigmoid", since=1)
def sigmoid_1(x: Array) -> Array:
    """1 / (1 + exp(-x))."""
    return elementwise(fill_sigmoid, x)


@kernel("Tanh", since=1)
def tanh_1(x: Array) -> Array:
    """Return the hyperbolic tangent."""
    return apply(np.tanh, x)


@kernel("HardSigmoid", since=1)
def hard_sigmoid_1(x: Array, *, alpha: float = 0.20000000298023224, beta: float = 0.5) -> Array:
    """alpha·x + beta, clipped to [0, 1]."""

    def fill(x: Array, target: Array) -> None:
        np.multiply(x, alpha, target)
        np.add(target, beta, target)
        np.clip(target, 0, 1, out=target)

    return elementwise(fill, x)


@kernel("HardSwish", since=14)
def hard_swish_14(x: Array) -> Array:
    """x·max(0, min(1, x/6 + 1/2))."""

    def fill(x: Array, target: Array) -> None:
        np.multiply(x, 1 / 6, target)
        np.add(target, 0.5, target)
        np.clip(target, 0, 1, out=target)
        np.multiply(target, x, target)  # last, as the largest values would overflow before

    return elementwise(fill, x)


@kernel("Softplus", since=1)
def softplus_1(x: Array) -> Array:
    """log(exp(x) + 1), written so that it neither overflows nor loses small results."""

    def fill(x: Array, target: Array) -> None:
        positive = temporary("softplus", x)
        np.absolute(x, target)
        np.negative(target, target)
        np.exp(target, target)
        np.log1p(target, target)
        at_least(x, 0, positive)
        np.add(target, positive, target)

    return elementwise(fill, x)


@kernel("Softsign", since=1)
def softsign_1(x: Array) -> Array:
    """x / (1 + |x|)."""

    def fill(x: Array, target: Array) -> None:
        np.absolute(x, target)
        np.add(target, 1, target)
        np.divide(x, target, target)

    return elementwise(fill, x)


@kernel("Mish", since=18)
def mish_18(x: Array) -> Array:
    """x·tanh(softplus(x)), which is x·n/(n + 2) with n = e·(e + 2) and e = exp(x)."""

    def fill(x: Array, target: Array) -> None:
        other = temporary("mish", x)
        # From 20 on the quotient is 1 to the last digit even in double, and e² must not overflow.
        at_most(x, 20, target)
        np.exp(target, target)
        np.add(target, 2, other)
        np.multiply(target, other, target)
        np.add(target, 2, other)
        np.divide(target, other, target)
        np.multiply(target, x, target)

    return elementwise(fill, x)


def fill_swish(x: Array, target: Array, alpha: float = 1.0) -> None:
    """x·sigmoid(alpha·x)."""
    np.multiply(x, -alpha, target)
    np.exp(target, target)
    np.add(target, 1, target)
    np.divide(x, target, target)


@kernel("Swish", since=24)
def swish_24(x: Array, *, alpha: float = 1.0) -> Array:
    """x·sigmoid(alpha·x)."""
    return elementwise(partial(fill_swish, alpha=alpha), x)


@kernel("SwiGLU", since=28)
def swiglu_28(a: Array, b: Array, *, alpha: float = 1.0) -> Array:
    """swish(a)·b of two tensors of one shape."""
    if a.shape != b.shape:
        msg = f"inputs A {list(a.shape)} and B {list(b.shape)} differ in shape; expected the same shape"
        raise KernelError(msg)

    def fill(gate: Array, linear: Array, target: Array) -> None:
        fill_swish(gate, target, alpha)
        np.multiply(target, linear, target)

    return elementwise(fill, a, b)


# --- Gelu ------------------------------------------------------------------------------------------------------


def fill_gelu(x: Array, target: Array) -> None:
    """x·(1 + erf(x/√2)) / 2."""
    if x.dtype == FLOAT64:
        np.multiply(x, sqrt(0.5), target)
        exact_erf(target, target)
    else:
        tanh_erf(x, target, sqrt(0.5))
    _gate_half(x, target)


def fill_gelu_tanh(x: Array, target: Array) -> None:
    """x·(1 + tanh(√(2/π)·(x + 0.044715·x³))) / 2."""
    np.square(x, target)
    np.multiply(target, 0.044715 * sqrt(2 / pi), target)
    np.add(target, sqrt(2 / pi), target)
    np.multiply(target, x, target)
    np.tanh(target, target)
    _gate_half(x, target)


def _gate_half(x: Array, target: Array) -> None:
    np.add(target, 1, target)
    np.multiply(target, 0.5, target)
    np.multiply(target, x, target)  # last, as the largest values would overflow before


@kernel("Gelu", since=20)
def gelu_20(x: Array, *, approximate: str = "none") -> Array:
    """x·Φ(x) with the normal distribution function Φ, or its approximation by tanh."""
    fills = {"none": fill_gelu, "tanh": fill_gelu_tanh}
    if approximate not in fills:
        msg = f"attribute approximate is {approximate!r}; expected none or tanh"
        raise KernelError(msg)
    return elementwise(fills[approximate], x)
