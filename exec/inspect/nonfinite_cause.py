"""Describes why a node computed NaN or infinities."""

from __future__ import annotations

from collections.abc import Sequence
from math import isinf, isnan
from typing import Any

import numpy as np

from onnx_workbench.exec.values.arrays import Array, RuntimeValue
from onnx_workbench.exec.values.finiteness import kinds_of
from onnx_workbench.model.ir.types import ElementType
from onnx_workbench.model.schemas import traits

_SIGNS = {"Add": "+", "Sub": "-", "Mul": "×", "Div": "/", "Pow": "^", "Mod": "mod"}
_FUNCTIONS = {"Sqrt": "square root", "Log": "logarithm", "Acos": "acos", "Asin": "asin", "Acosh": "acosh",
              "Atanh": "atanh", "Exp": "exp", "Reciprocal": "reciprocal", "Tan": "tan", "Cosh": "cosh", "Sinh": "sinh",
              "Cast": "cast"}  # fmt: skip
_SUMS = {"MatMul", "Gemm", "Conv", "ConvTranspose", "ReduceSum", "ReduceMean", "ReduceSumSquare", "ReduceL2", "CumSum",
         "Einsum", "GlobalAveragePool", "AveragePool", "Sum", "Mean"}  # fmt: skip


def cause_of(
    operator: str,
    index: tuple[int, ...],
    outcome: float,
    inputs: Sequence[tuple[str, RuntimeValue]],
    kind: ElementType | int | None,
) -> str:
    """Describe why an element of a result is not finite, such as "square root of -385.7"; empty if it is unknown.

    `inputs` are names and values of the inputs of its operator, `kind` the type of its elements.
    """
    arrays = [value for _, value in inputs if isinstance(value, np.ndarray) and value.dtype.kind in "fiuV"]
    if isinf(outcome) and isinstance(kind, ElementType) and not any(kinds_of(array) for array in arrays):
        overflow = f"exceeds {_largest(kind)}, the largest {kind.text}"
    else:
        overflow = ""
    if traits.find(operator).is_elementwise and len(arrays) == len(inputs):
        return _of_elements(operator, [_element(array, index) for array in arrays], outcome, overflow)
    if overflow:
        return f"{'the sum' if operator in _SUMS else 'the result'} {overflow}"
    bad = next((name for name, value in inputs if kinds_of(value)), "")
    return f"its input {bad!r} has infinities" if bad and isnan(outcome) else ""


def _of_elements(operator: str, numbers: list[Any], outcome: float, overflow: str) -> str:
    texts = [f"{float(number):.6g}" for number in numbers]
    if operator in _SIGNS and len(texts) == 2:
        expression = f"{texts[0]} {_SIGNS[operator]} {texts[1]}"
        is_plain = operator == "Div" and float(numbers[1]) == 0
        return f"{expression} {overflow}" if overflow and not is_plain else f"{expression} is {_named(outcome)}"
    if operator in _FUNCTIONS and len(texts) == 1:
        expression = f"{_FUNCTIONS[operator]} of {texts[0]}"
        is_plain = not float(numbers[0]) or operator == "Atanh"
        return f"{expression} {overflow}" if overflow and not is_plain else f"{expression} is {_named(outcome)}"
    return f"the result {overflow}" if overflow else ""


def _named(number: float) -> str:
    return "NaN" if isnan(number) else "infinite" if number > 0 else "minus infinity"


def _element(array: Array, index: tuple[int, ...]) -> Any:
    """Return the element that is broadcast to an index."""
    last = index[len(index) - array.ndim :] if array.ndim else ()
    return array[tuple(0 if size == 1 else at for size, at in zip(array.shape, last, strict=True))]


def _largest(kind: ElementType) -> str:
    from ml_dtypes import finfo

    describe: Any = finfo
    return f"{float(describe(kind.numpy_dtype).max):.6g}"
