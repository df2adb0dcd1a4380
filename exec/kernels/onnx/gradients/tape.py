"""Reverse-mode differentiation (backpropagation) of a region: rules per operator, applied from target to inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.context import Region, RegionNode
from onnx_workbench.exec.kernels.shared.dtypes import is_float
from onnx_workbench.exec.values.arrays import Array, RuntimeValue
from onnx_workbench.exec.values.limits import checkpoint


@dataclass(frozen=True, slots=True)
class TapeStep:
    """A node that ran, as a rule sees it."""

    node: RegionNode
    inputs: Sequence[RuntimeValue]  # None where left out
    outputs: Sequence[RuntimeValue]

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return the node's attribute, or the default where it has none."""
        return self.node.attributes.get(name, default)

    def integers(self, name: str, index: int) -> list[int] | None:
        """Return integers given by an attribute (older opsets) or an input (newer ones); None without either."""
        if name in self.node.attributes:
            return list(self.node.attributes[name])
        if index < len(self.inputs) and self.inputs[index] is not None:
            return [int(v) for v in np.asarray(self.inputs[index]).reshape(-1)]
        return None


#: Maps a step and the gradients of its outputs (zeros where none arrived) to those of its inputs; None, or a shorter
#: list, for inputs without a gradient.
Rule = Callable[[TapeStep, Sequence[Array]], Sequence[Array | None]]
_rules: dict[str, Rule] = {}
R = TypeVar("R", bound=Rule)


def rule(*op_types: str) -> Callable[[R], R]:
    """Register a rule for operators of the default domain."""

    def register(function: R) -> R:
        for op_type in op_types:
            _rules[op_type] = function
        return function

    return register


def differentiable() -> list[str]:
    """Return the operators that have rules."""
    return sorted(_rules)


def backward(region: Region, target: str, given: Mapping[str, Array], wanted: Sequence[str]) -> list[Array]:
    """Return the gradients of the sum of `target` with respect to the wanted given values, each in its value's shape.

    KernelError names the first operator on the way without a rule.
    """
    values = {**region.values, **given}
    start = values.get(target)
    if not isinstance(start, np.ndarray) or not is_float(start.dtype):
        msg = f"{target!r} cannot be differentiated; expected a tensor of floating-point numbers"
        raise KernelError(msg)
    grads: dict[str, Array] = {target: np.ones(start.shape, start.dtype)}
    for node in reversed(region.nodes):
        checkpoint()
        if not any(name in grads for name in node.outputs) or not _reaches(node, values):
            continue
        inputs = [values.get(name) if name else None for name in node.inputs]
        outputs = [values.get(name) if name else None for name in node.outputs]
        arriving = [_arriving(grads, name, value) for name, value in zip(node.outputs, outputs, strict=True)]
        for name, grad in zip(node.inputs, _rule_of(node)(TapeStep(node, inputs, outputs), arriving), strict=False):
            if grad is not None and name:
                _check_shape(node, name, grad, values)
                grads[name] = grads[name] + grad if name in grads else grad
    return [_result(grads, name, values) for name in wanted]


def _reaches(node: RegionNode, values: Mapping[str, RuntimeValue]) -> bool:
    """Return whether any input is differentiable: integers and booleans are not."""
    found = (values.get(name) for name in node.inputs if name)
    return any(isinstance(v, list) or (isinstance(v, np.ndarray) and is_float(v.dtype)) for v in found)


def _arriving(grads: Mapping[str, Array], name: str, value: RuntimeValue) -> Array:
    if name in grads:
        return grads[name]
    return np.zeros_like(value) if isinstance(value, np.ndarray) else np.zeros(())


def _rule_of(node: RegionNode) -> Rule:
    rule = _rules.get(node.op_type) if not node.domain else None
    if rule is None:
        name = f"{node.domain or 'ai.onnx'}::{node.op_type}"
        msg = f"{name} has no rule of differentiation; expected one of {', '.join(differentiable())}"
        raise KernelError(msg)
    return rule


def _check_shape(node: RegionNode, name: str, grad: Array, values: Mapping[str, RuntimeValue]) -> None:
    shape = np.shape(values[name])
    if grad.shape != shape:
        msg = f"the gradient of {node.op_type} by {name!r} has shape {grad.shape}; expected {shape}"
        raise KernelError(msg)


def _result(grads: Mapping[str, Array], name: str, values: Mapping[str, RuntimeValue]) -> Array:
    value = values[name]
    if name in grads:
        return grads[name].astype(value.dtype, copy=False)
    return np.zeros_like(value)


def reduced_to(grad: Array, shape: Sequence[int]) -> Array:
    """Sum `grad` over broadcast axes down to a shape."""
    extra = grad.ndim - len(shape)
    if extra:
        grad = grad.sum(tuple(range(extra)))
    stretched = tuple(i for i, n in enumerate(shape) if n == 1 and grad.shape[i] != 1)
    return np.asarray(grad.sum(stretched, keepdims=True) if stretched else grad)
