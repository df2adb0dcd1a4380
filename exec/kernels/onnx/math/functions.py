"""Functions of one tensor: signs and rounding, roots and exponentials, trigonometry, the error function."""

from __future__ import annotations

import math

import numpy as np

from onnx_workbench.exec.kernels.registry import kernel
from onnx_workbench.exec.kernels.shared.blocks import apply, elementwise, temporary
from onnx_workbench.exec.kernels.shared.dtypes import FLOAT64, is_float
from onnx_workbench.exec.values.arrays import Array
from onnx_workbench.exec.values.limits import checkpoint


def _register(op_type: str, since: int, ufunc: np.ufunc) -> None:
    def function(x: Array) -> Array:
        return apply(ufunc, x)

    kernel(op_type, since=since)(function)


_register("Abs", 1, np.absolute)
_register("Neg", 1, np.negative)
_register("Sign", 9, np.sign)
_register("Ceil", 1, np.ceil)
_register("Floor", 1, np.floor)
_register("Round", 11, np.rint)
_register("Sqrt", 1, np.sqrt)
_register("Exp", 1, np.exp)
_register("Log", 1, np.log)
_register("Reciprocal", 1, np.reciprocal)
_register("Sin", 7, np.sin)
_register("Cos", 7, np.cos)
_register("Tan", 7, np.tan)
_register("Asin", 7, np.arcsin)
_register("Acos", 7, np.arccos)
_register("Atan", 7, np.arctan)
_register("Sinh", 9, np.sinh)
_register("Cosh", 9, np.cosh)
_register("Asinh", 9, np.arcsinh)
_register("Acosh", 9, np.arccosh)
_register("Atanh", 9, np.arctanh)


# erf(x) = tanh(x·g(x²)) with g a polynomial of degree 6 fitted to atanh(erf(x))/x on [0, 4.2], the error weighted by
# its effect on erf (6e-8 at most). Its roots are three complex pairs a ± bi, so g is a product of (s - a)² + b²:
# sums of squares, which cost fewer passes than Horner's rule and cannot cancel.
_ERF_FACTOR = 1.589503656012789e-07
_ERF_ROOTS = (
    (-6.240601826490485, 4.370825553864384),
    (5.013597263578566, 15.342130830990566),
    (20.055380316348362, 8.197626577201918),
)


def tanh_erf(x: Array, target: Array, scale: float = 1.0) -> None:
    """Fill a flat float32 piece with erf(x·scale), to 2.5e-7."""
    square, factor = temporary("erf.square", x), temporary("erf.factor", x)
    np.square(x, square)
    # With s = (x·scale)², each factor is divided by scale⁴ and the product multiplied by it again.
    for index, (real, imaginary) in enumerate(_ERF_ROOTS):
        out = target if index == 0 else factor
        np.subtract(square, np.float32(real / scale**2), out)
        np.square(out, out)
        np.add(out, np.float32((imaginary / scale**2) ** 2), out)
        if index:
            np.multiply(target, factor, target)
    np.multiply(target, np.float32(_ERF_FACTOR * scale**13), target)
    np.multiply(target, x, target)
    np.tanh(target, target)


def exact_erf(x: Array, target: Array) -> None:
    """Fill a flat float64 piece with the error function, one element after the other."""
    checkpoint()
    target[...] = list(map(math.erf, x.tolist()))


@kernel("Erf", since=9)
def erf_9(x: Array) -> Array:
    """Return the error function: to 2.5e-7 in float32 and shorter types, to the last digit in double and integers."""
    if not is_float(x.dtype):
        return elementwise(exact_erf, x.astype(FLOAT64)).astype(x.dtype)
    return elementwise(exact_erf if x.dtype == FLOAT64 else tanh_erf, x)
