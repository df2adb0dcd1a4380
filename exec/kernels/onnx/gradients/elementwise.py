"""Gradients of elementwise operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import pi, sqrt

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.onnx.gradients.tape import TapeStep, reduced_to, rule
from onnx_workbench.exec.values.arrays import Array

Grads = Sequence[Array | None]

#: d(output)/d(input) of functions of one variable, from input x and output y.
_SLOPES: dict[str, Callable[[Array, Array], Array]] = {
    "Abs": lambda x, _: np.sign(x),
    "Acos": lambda x, _: -1 / np.sqrt(1 - x * x),
    "Acosh": lambda x, _: 1 / np.sqrt(x * x - 1),
    "Asin": lambda x, _: 1 / np.sqrt(1 - x * x),
    "Asinh": lambda x, _: 1 / np.sqrt(x * x + 1),
    "Atan": lambda x, _: 1 / (1 + x * x),
    "Atanh": lambda x, _: 1 / (1 - x * x),
    "Cos": lambda x, _: -np.sin(x),
    "Cosh": lambda x, _: np.sinh(x),
    "Erf": lambda x, _: 2 / sqrt(pi) * np.exp(-x * x),
    "Exp": lambda _, y: y,
    "Log": lambda x, _: 1 / x,
    "Neg": lambda x, _: -np.ones_like(x),
    "Reciprocal": lambda _, y: -y * y,
    "Relu": lambda x, _: (x > 0).astype(x.dtype),
    "Sigmoid": lambda _, y: y * (1 - y),
    "Sin": lambda x, _: np.cos(x),
    "Sinh": lambda x, _: np.cosh(x),
    "Softplus": lambda x, _: _sigmoid(x),
    "Softsign": lambda x, _: 1 / np.square(1 + np.abs(x)),
    "Sqrt": lambda _, y: 0.5 / y,
    "Tan": lambda _, y: 1 + y * y,
    "Tanh": lambda _, y: 1 - y * y,
}


def _sigmoid(x: Array) -> Array:
    return 0.5 * (1 + np.tanh(0.5 * x))


@rule(*_SLOPES)
def one_variable(step: TapeStep, grads: Sequence[Array]) -> Grads:
    """Return the gradient times the slope."""
    return [grads[0] * _SLOPES[step.node.op_type](step.inputs[0], step.outputs[0])]


@rule("Identity", "Dropout")
def unchanged(step: TapeStep, grads: Sequence[Array]) -> Grads:
    """Identity; Dropout scales by its mask."""
    if step.node.op_type == "Identity" or len(step.outputs) < 2 or step.outputs[1] is None:
        x, y = step.inputs[0], step.outputs[0]
        if step.node.op_type == "Identity" or np.array_equal(x, y):
            return [grads[0]]
        return [grads[0] * np.where(x == 0, 0, y / np.where(x == 0, 1, x))]
    kept = np.asarray(step.outputs[1], bool)
    ratio = step.attribute("ratio", 0.5)
    if len(step.inputs) > 1 and step.inputs[1] is not None:
        ratio = float(step.inputs[1])
    training = len(step.inputs) > 2 and step.inputs[2] is not None and bool(step.inputs[2])
    return [grads[0] * kept / (1 - ratio) if training else grads[0]]


@rule("Floor", "Ceil", "Round", "Sign")
def flat(step: TapeStep, _: Sequence[Array]) -> Grads:
    """Zero: these are constant almost everywhere."""
    return [np.zeros_like(step.inputs[0])]


@rule("Cast", "CastLike")
def cast(step: TapeStep, grads: Sequence[Array]) -> Grads:
    """Return the gradient in the type of the input."""
    return [grads[0].astype(step.inputs[0].dtype)]


@rule("LeakyRelu", "Elu", "Celu", "Selu", "ThresholdedRelu", "HardSigmoid", "HardSwish", "Gelu", "Mish", "Swish")
def activations(step: TapeStep, grads: Sequence[Array]) -> Grads:
    """Slopes of activations with attributes."""
    return [grads[0] * _activation_slope(step, step.inputs[0], step.outputs[0])]


def _activation_slope(step: TapeStep, x: Array, y: Array) -> Array:
    get = step.attribute
    one: Array = np.ones_like(x)
    match step.node.op_type:
        case "LeakyRelu":
            return np.where(x < 0, one * get("alpha", 0.01), one)
        case "Elu":
            return np.where(x < 0, y + get("alpha", 1.0), one)
        case "Celu":
            return np.where(x < 0, np.exp(x / get("alpha", 1.0)), one)
        case "Selu":
            alpha, gamma = get("alpha", 1.67326319217681884765625), get("gamma", 1.05070102214813232421875)
            return np.asarray(np.where(x > 0, one * gamma, y + alpha * gamma))
        case "ThresholdedRelu":
            return np.where(x > get("alpha", 1.0), one, 0 * one)
        case "HardSigmoid":
            return np.where((y > 0) & (y < 1), one * get("alpha", 0.2), 0 * one)
        case "HardSwish":
            return np.where(x <= -3, 0 * one, np.where(x >= 3, one, x / 3 + 0.5))
        case "Swish":
            gate = _sigmoid(get("alpha", 1.0) * x)
            return np.asarray(gate + get("alpha", 1.0) * y * (1 - gate))
        case "Mish":
            inner = np.tanh(np.logaddexp(0, x))
            return np.asarray(inner + x * (1 - inner * inner) * _sigmoid(x))
    return _gelu_slope(x, y, tanh=get("approximate", "none") == "tanh")


def _gelu_slope(x: Array, y: Array, *, tanh: bool) -> Array:
    if not tanh:
        # y = x·Φ(x): Φ where x is not 0, and 1/2 there.
        share = np.where(x == 0, 0.5, y / np.where(x == 0, 1, x))
        return np.asarray(share + x * np.exp(-0.5 * x * x) / sqrt(2 * pi), x.dtype)
    inner = np.tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))
    slope = sqrt(2 / pi) * (1 + 3 * 0.044715 * x * x)
    return np.asarray(0.5 * (1 + inner) + 0.5 * x * (1 - inner * inner) * slope, x.dtype)


@rule("Clip")
def clip(step: TapeStep, grads: Sequence[Array]) -> Grads:
    """Pass on where nothing was clipped."""
    return [grads[0] * (step.inputs[0] == step.outputs[0])]


def _both(step: TapeStep, first: Array, second: Array) -> Grads:
    return [reduced_to(first, step.inputs[0].shape), reduced_to(second, step.inputs[1].shape)]


@rule("Add", "Sub", "Mul", "Div", "Pow", "PRelu")
def two_variables(step: TapeStep, grads: Sequence[Array]) -> Grads:
    """Arithmetic; gradients are summed over broadcast axes."""
    a, b = step.inputs[:2]
    g = grads[0]
    if step.attribute("broadcast"):
        given = f"{step.node.op_type} with the broadcast attribute of operator sets 1 to 6 has no rule"
        msg = f"{given}; expected operator set 7 or later"
        raise KernelError(msg)
    match step.node.op_type:
        case "Add":
            return _both(step, g, g)
        case "Sub":
            return _both(step, g, -g)
        case "Mul":
            return _both(step, g * b, g * a)
        case "Div":
            return _both(step, g / b, -g * a / (b * b))
        case "PRelu":
            return _both(step, np.where(a < 0, g * b, g), np.where(a < 0, g * a, 0 * g))
    return _power(step, a, b, g)


def _power(step: TapeStep, a: Array, b: Array, g: Array) -> Grads:
    exponent = np.asarray(b, a.dtype)
    by_base = g * np.where(exponent == 0, 0, exponent * np.power(a, exponent - 1)).astype(a.dtype)
    if b.dtype.kind in "iu":
        return [reduced_to(by_base, a.shape)]
    log = np.log(np.where(a > 0, a, 1))
    return _both(step, by_base, (g * step.outputs[0] * log).astype(b.dtype))


@rule("Max", "Min")
def extremes(step: TapeStep, grads: Sequence[Array]) -> Grads:
    """Distribute equally to the inputs that hold the extreme."""
    y = step.outputs[0]
    hits = [np.asarray(x == y) for x in step.inputs]
    count = np.sum([np.broadcast_to(h, y.shape) for h in hits], axis=0)
    return [reduced_to((grads[0] * h / count).astype(y.dtype), x.shape) for h, x in zip(hits, step.inputs, strict=True)]


@rule("Sum", "Mean")
def sums(step: TapeStep, grads: Sequence[Array]) -> Grads:
    """Pass to every input; of a mean its share."""
    share = 1 / len(step.inputs) if step.node.op_type == "Mean" else 1
    return [reduced_to(grads[0] * share, x.shape) for x in step.inputs]


@rule("Where")
def where(step: TapeStep, grads: Sequence[Array]) -> Grads:
    """Pass to the input that each element came from."""
    condition, x, y = step.inputs
    zero = np.zeros_like(grads[0])
    return [
        None,
        reduced_to(np.where(condition, grads[0], zero), x.shape),
        reduced_to(np.where(condition, zero, grads[0]), y.shape),
    ]
