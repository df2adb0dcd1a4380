"""Optionals: None where empty, else the value itself."""

from __future__ import annotations

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.registry import kernel
from onnx_workbench.exec.values.arrays import Array, RuntimeValue
from onnx_workbench.model.ir.types import Type


@kernel("Optional", since=15)
def optional_15(x: RuntimeValue = None, *, _type: Type | None = None) -> RuntimeValue:
    """Return the input as an optional; empty without one."""
    return x


@kernel("OptionalGetElement", since=15)
def optional_get_element_15(x: RuntimeValue) -> RuntimeValue:
    """What the optional holds; KernelError when it is empty."""
    if x is None:
        msg = "the optional is empty; expected a value"
        raise KernelError(msg)
    return x


@kernel("OptionalHasElement", since=15)
def optional_has_element_15(x: RuntimeValue) -> Array:
    """Return whether the optional holds a value."""
    return np.array(x is not None)


@kernel("OptionalHasElement", since=18)
def optional_has_element_18(x: RuntimeValue = None) -> Array:
    """The input may be absent, which counts as empty."""
    return np.array(x is not None)
