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


def activate(
    x: Array, name: str | None, alpha: float | None = None, beta: float | None = None, _gamma: float | None = None
) -> Array:
    """Apply the activation that a fused operator names; None is the identity."""
    match name or "":
        case "":
            return x
        case "Relu" | "Tanh" | "Sigmoid" | "Softplus" | "Softsign" | "Gelu" | "HardSwish" | "Elu" | "Softmax":
            return np.asarray(onnx(name or "", 20, x))
        case "LeakyRelu":
            return np.asarray(onnx("LeakyRelu", 20, x, alpha=0.01 if alpha is None else alpha))
        case "HardSigmoid":
            share, shift = 0.2 if alpha is None else alpha, 0.5 if beta is None else beta
            return np.asarray(onnx("HardSigmoid", 20, x, alpha=share, beta=shift))
        case "Clip":
            low, high = (None if v is None else np.array(v, x.dtype) for v in (alpha, beta))
            return np.asarray(onnx("Clip", 13, x, low, high))
        case "SiLU" | "Silu" | "Swish":
            return np.asarray(onnx("Swish", 24, x))
    msg = f"activation is {name!r}; expected Relu, Tanh, Sigmoid, LeakyRelu, HardSigmoid, Clip, Gelu or the like"
    raise KernelError(msg)


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
