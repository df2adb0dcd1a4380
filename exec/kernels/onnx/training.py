"""ai.onnx.preview.training: Gradient, and one step of Adagrad, Adam and Momentum for any number of tensors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.context import Context
from onnx_workbench.exec.kernels.onnx.gradients import elementwise, layout, linear, reductions
from onnx_workbench.exec.kernels.onnx.gradients.tape import backward
from onnx_workbench.exec.kernels.registry import kernel
from onnx_workbench.exec.kernels.shared.axes import one_element
from onnx_workbench.exec.values.arrays import Array

TRAINING = "ai.onnx.preview.training"
#: Importing them registers their rules.
RULES = (elementwise, layout, linear, reductions)


def _groups(inputs: Sequence[Array], kinds: int) -> list[Sequence[Array]]:
    """Regroup X1, X2, …, G1, G2, … to tuples (X1, G1, …), (X2, G2, …)."""
    count, rest = divmod(len(inputs), kinds)
    if rest or not count:
        msg = f"{len(inputs)} tensors; expected a multiple of {kinds}"
        raise KernelError(msg)
    groups = [inputs[i::count] for i in range(count)]
    for group in groups:
        if any(x.shape != group[0].shape for x in group):
            msg = f"a tensor and what goes with it have shapes {[list(x.shape) for x in group]}; expected the same"
            raise KernelError(msg)
    return groups


def _transposed(results: Sequence[Sequence[Array]]) -> tuple[Array, ...]:
    return tuple(value for kind in zip(*results, strict=True) for value in kind)


def _like(x: Array, *values: Array) -> list[Array]:
    return [np.asarray(v, x.dtype) for v in values]


@kernel("Adagrad", since=1, domain=TRAINING)
def adagrad_1(
    r: Array,
    t: Array,
    *inputs: Array,
    decay_factor: float = 0.0,
    epsilon: float = 9.999999974752427e-07,
    norm_coefficient: float = 0.0,
) -> tuple[Array, ...]:
    """New tensors, then their new sums of squared gradients."""
    rate = one_element(r, "R") / (1 + one_element(t, "T") * decay_factor)
    results = []
    for x, gradient, squares in _groups(inputs, 3):
        regular = norm_coefficient * x + gradient
        new_squares = squares + regular * regular
        results.append(_like(x, x - rate * regular / (np.sqrt(new_squares) + epsilon), new_squares))
    return _transposed(results)


@kernel("Adam", since=1, domain=TRAINING)
def adam_1(
    r: Array,
    t: Array,
    *inputs: Array,
    alpha: float = 0.8999999761581421,
    beta: float = 0.9990000128746033,
    epsilon: float = 9.999999974752427e-07,
    norm_coefficient: float = 0.0,
    norm_coefficient_post: float = 0.0,
) -> tuple[Array, ...]:
    """New tensors, then the new averages of their gradients, then those of the squares."""
    r, t = one_element(r, "R"), one_element(t, "T")
    rate = r * np.sqrt(1 - beta**t) / (1 - alpha**t) if t > 0 else r
    results = []
    for x, gradient, average, squares in _groups(inputs, 4):
        regular = norm_coefficient * x + gradient
        new_average = alpha * average + (1 - alpha) * regular
        new_squares = beta * squares + (1 - beta) * regular * regular
        new = x - rate * new_average / (np.sqrt(new_squares) + epsilon)
        results.append(_like(x, (1 - norm_coefficient_post) * new, new_average, new_squares))
    return _transposed(results)


@kernel("Momentum", since=1, domain=TRAINING)
def momentum_1(
    r: Array, t: Array, *inputs: Array, alpha: float, beta: float, mode: str, norm_coefficient: float
) -> tuple[Array, ...]:
    """New tensors, then their new momenta; `mode` is standard or nesterov."""
    if mode not in ("standard", "nesterov"):
        msg = f"mode is {mode!r}; expected standard or nesterov"
        raise KernelError(msg)
    r, share = one_element(r, "R"), beta if one_element(t, "T") > 0 else 1.0
    results = []
    for x, gradient, velocity in _groups(inputs, 3):
        regular = norm_coefficient * x + gradient
        new_velocity = alpha * velocity + share * regular
        direction = new_velocity if mode == "standard" else regular + alpha * new_velocity
        results.append(_like(x, x - r * direction, new_velocity))
    return _transposed(results)


@kernel("Gradient", since=1, domain=TRAINING)
def gradient_1(
    ctx: Context, *inputs: Array, xs: Sequence[str], y: str, zs: Sequence[str] | None = None
) -> tuple[Array, ...]:
    """dy/dx for each x in `xs`, at the given values of xs and zs; a y of several elements is summed."""
    names = [*xs, *(zs or ())]
    if len(names) != len(inputs) or len(set(names)) != len(names):
        msg = (
            f"xs and zs name {len(names)} values, {len(set(names))} of them distinct; expected {len(inputs)}, each once"
        )
        raise KernelError(msg)
    if ctx.body_runner is None:
        msg = "the run cannot evaluate a part of its graph, which Gradient needs"
        raise KernelError(msg)
    by_name = dict(zip(names, inputs, strict=True))
    region = ctx.body_runner(by_name, y)
    return tuple(backward(region, y, by_name, xs))
