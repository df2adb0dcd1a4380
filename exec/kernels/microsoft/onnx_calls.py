"""Call kernels of the default domain, from which most contrib operators are composed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.context import Context
from onnx_workbench.exec.kernels.registry import find
from onnx_workbench.exec.values.arrays import Array

MICROSOFT = "com.microsoft"


def onnx(op_type: str, opset: int, *inputs: Array | None, wanted: Sequence[bool] = (True,), **attributes: Any) -> Any:
    """Run an operator of the default domain at an opset version."""
    kernel = find(op_type, opset)
    leading = (Context(op_type, opset, wanted=wanted),) if kernel.takes_context else ()
    return kernel.function(*leading, *inputs, **attributes)


#: What fused operators may name, and the standard operator of that.
_ACTIVATIONS = {
    name: name
    for name in (
        "Celu", "Clip", "Elu", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Mish", "Relu", "Selu", "Sigmoid",
        "Softmax", "Softplus", "Softsign", "Swish", "Tanh", "ThresholdedRelu",
    )
} | {"SiLU": "Swish", "Silu": "Swish"}  # fmt: skip


def activate(
    x: Array, name: str | None, alpha: float | None = None, beta: float | None = None, gamma: float | None = None
) -> Array:
    """Apply the activation that a fused operator names, with the parameters that the standard operator has.

    None is the identity; a parameter that is omitted has the default of the standard operator.
    """
    if not name:
        return x
    if _operator(name) == "Clip":
        low, high = (None if v is None else np.array(v, x.dtype) for v in (alpha, beta))
        return np.asarray(onnx("Clip", 13, x, low, high))
    values = {"alpha": alpha, "beta": beta, "gamma": gamma}
    given: dict[str, Any] = {key: values[key] for key in _parameters(name) if values[key] is not None}
    return np.asarray(onnx(_operator(name), 24, x, **given))


def activate_in_order(x: Array, name: str | None, parameters: Sequence[float]) -> Array:
    """Apply an activation whose parameters are a list, in the order in which the standard operator has them."""
    if not name:
        return x
    return activate(x, name, **dict(zip(_parameters(name), parameters, strict=False)))


def _operator(name: str) -> str:
    if name not in _ACTIVATIONS:
        msg = f"activation is {name!r}; expected one of {', '.join(sorted(_ACTIVATIONS))}"
        raise KernelError(msg)
    return _ACTIVATIONS[name]


def _parameters(name: str) -> list[str]:
    """Return which of alpha, beta and gamma an activation has."""
    if _operator(name) == "Clip":
        return ["alpha", "beta"]
    attributes = find(_operator(name), 24).attributes
    return [parameter for parameter in ("alpha", "beta", "gamma") if parameter in attributes]


def channels_first(x: Array) -> Array:
    """(N, …, C) as (N, C, …), a view."""
    _check_channels(x)
    return np.moveaxis(x, -1, 1)


def channels_last(x: Array) -> Array:
    """(N, C, …) as (N, …, C), a view."""
    _check_channels(x)
    return np.moveaxis(x, 1, -1)


def _check_channels(x: Array) -> None:
    if x.ndim < 2:
        msg = f"an input has shape {list(x.shape)}; expected a batch and channels"
        raise KernelError(msg)
