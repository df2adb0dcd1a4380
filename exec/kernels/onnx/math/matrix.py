"""Matrix products and determinants: MatMul, Gemm, MatMulInteger, QLinearMatMul, Einsum, Det."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.registry import keeps, kernel, prepares
from onnx_workbench.exec.kernels.shared.broadcast import check_one_type, unidirectional
from onnx_workbench.exec.kernels.shared.byte_products import (
    ByteMatrix,
    along,
    byte_matrix,
    kept_byte_matrix,
    largest,
    to_int32,
)
from onnx_workbench.exec.kernels.shared.dtypes import (
    FLOAT32,
    FLOAT64,
    cast,
    integer_limits,
    is_float,
    is_float8,
    narrow,
    widen,
)
from onnx_workbench.exec.kernels.shared.products import product, product_shape
from onnx_workbench.exec.kernels.shared.weights import LaidOut
from onnx_workbench.exec.values.arrays import Array, check_size


def _integer_product(a: Array, b: Array) -> Array:
    """Multiply 32- and 64-bit integers in their type; through BLAS in double where that is exact."""
    depth = max(a.shape[-1], 1) if a.ndim else 1
    if a.size and b.size and depth * largest(a) * largest(b) < 1 << 53:
        return product(a.astype(FLOAT64), b.astype(FLOAT64)).astype(a.dtype)
    check_size(product_shape(a, b), a.dtype)
    return np.asarray(np.matmul(a, b, dtype=a.dtype))


@kernel("MatMul", since=1)
def matmul_1(a: Array, b: Array) -> Array:
    """Return the matrix product with numpy's rules for vectors and stacks."""
    if a.dtype != b.dtype:
        check_one_type(a, b)
    if a.dtype.char in "fd":
        return product(a, b)
    if a.dtype.kind in "iu":
        return _integer_product(a, b)
    return narrow(product(widen(a), widen(b)), a.dtype)


@prepares(matmul_1)
def prepare_matmul(constants: tuple[Array | None, ...]) -> Callable[..., Array] | None:
    """Widen constant float16 and bfloat16 weights once, and pack large ones in the layout that products read
    fastest.
    """
    wide = [None if c is None or not is_float(c.dtype) else widen(c) for c in constants]
    weight = None if wide[1] is None else LaidOut(wide[1])
    is_plain = all(w is None or w is c for w, c in zip(wide, constants, strict=True))
    if is_plain and not (weight and weight.may_pay):
        return None

    def run(a: Array, b: Array) -> Array:
        if a.dtype != b.dtype:
            return matmul_1(a, b)
        left, right = (w if w is not None else widen(x) for w, x in zip(wide, (a, b), strict=True))
        result = None if weight is None else weight.product(left)
        return narrow(product(left, right) if result is None else result, a.dtype)

    return run


# --- Gemm ------------------------------------------------------------------------------------------------------


@kernel("Gemm", since=11)
def gemm_11(
    a: Array,
    b: Array,
    c: Array | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Array:
    """alpha·A·B + beta·C with A and B optionally transposed and C broadcast to the product."""
    if a.ndim != 2 or b.ndim != 2:
        msg = f"A has shape {list(a.shape)} and B {list(b.shape)}; expected two matrices"
        raise KernelError(msg)
    if a.dtype != b.dtype:
        check_one_type(a, b)
    left = a.T if transA else a
    right = b.T if transB else b
    if a.dtype.char in "fd":
        return _scaled(product(left, right), c, alpha, beta)
    if a.dtype.kind in "iu":
        return _integer_gemm(left, right, c, alpha, beta)
    return narrow(_scaled(product(widen(left), widen(right)), c, alpha, beta), a.dtype)


def _scaled(result: Array, c: Array | None, alpha: float, beta: float) -> Array:
    """alpha·result + beta·C, in place."""
    if alpha != 1:
        np.multiply(result, alpha, out=result)
    if c is not None and beta != 0:
        addend = widen(c)
        _add_into(result, addend if beta == 1 else np.asarray(addend * result.dtype.type(beta)))
    return result


def _integer_gemm(a: Array, b: Array, c: Array | None, alpha: float, beta: float) -> Array:
    result = _integer_product(a, b)
    if alpha != 1:
        result = (result * FLOAT64.type(alpha)).astype(result.dtype)
    if c is not None and beta != 0:
        _add_into(result, c if beta == 1 else np.asarray(c * FLOAT64.type(beta)).astype(result.dtype))
    return result


def _add_into(result: Array, addend: Array) -> None:
    try:
        np.add(result, addend, out=result)
    except ValueError:
        given = f"C has shape {list(addend.shape)}, which cannot be broadcast to {list(result.shape)}"
        msg = f"{given}; expected sizes of 1 or the same, from the last axis on"
        raise KernelError(msg) from None


@kernel("Gemm", since=7)
def gemm_7(
    a: Array,
    b: Array,
    c: Array,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Array:
    """C is required."""
    return gemm_11(a, b, c, alpha=alpha, beta=beta, transA=transA, transB=transB)


@kernel("Gemm", since=1)
def gemm_1(
    a: Array,
    b: Array,
    c: Array,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    _broadcast: int = 0,  # what fits without it needs no permission
    transA: int = 0,
    transB: int = 0,
) -> Array:
    """C is broadcast according to `broadcast`; one that fits anyway is accepted."""
    return gemm_11(a, b, c, alpha=alpha, beta=beta, transA=transA, transB=transB)


@prepares(gemm_11, gemm_7, gemm_1)
def prepare_gemm(constants: tuple[Array | None, ...], **attributes: Any) -> Callable[..., Array] | None:
    """Widen constant float16 and bfloat16 weights once, and pack large ones in the layout that products read
    fastest.
    """
    b = constants[1] if len(constants) > 1 else None
    if b is None or not is_float(b.dtype) or b.ndim != 2:
        return None
    attributes.pop("broadcast", None)
    wide = widen(b)
    weight = LaidOut(wide.T if attributes.get("transB") else wide)
    if wide is b and not weight.may_pay:
        return None
    is_turned, alpha, beta = attributes.get("transA"), attributes.get("alpha", 1.0), attributes.get("beta", 1.0)

    def run(a: Array, b: Array, c: Array | None = None) -> Array:
        check_one_type(a, b)
        left = widen(a)
        result = weight.product(left.T if is_turned else left) if a.ndim == 2 and a.dtype == b.dtype else None
        if result is None:
            return narrow(gemm_11(left, wide, c, **attributes), b.dtype)
        return narrow(_scaled(result, c, alpha, beta), b.dtype)

    return run


# --- quantized products ----------------------------------------------------------------------------------------


@keeps(1, kept_byte_matrix, 3)
@kernel("MatMulInteger", since=10)
def matmul_integer_10(
    a: Array, b: Array | ByteMatrix, a_zero_point: Array | None = None, b_zero_point: Array | None = None
) -> Array:
    """Return the product of 8-bit integers less their zero points, in int32."""
    return to_int32(byte_matrix(b, b_zero_point).product(a, a_zero_point))


@keeps(3, kept_byte_matrix, 5)
@kernel("QLinearMatMul", since=10)
def qlinear_matmul_10(
    a: Array,
    a_scale: Array,
    a_zero_point: Array,
    b: Array | ByteMatrix,
    b_scale: Array,
    b_zero_point: Array,
    y_scale: Array,
    y_zero_point: Array,
) -> Array:
    """Return the product of two quantized matrices, quantized: rounded half to even, saturated."""
    total = byte_matrix(b, b_zero_point).product(a, a_zero_point)
    return _requantized(total, a_scale, b_scale, y_scale, y_zero_point)


def _requantized(total: Array, a_scale: Array, b_scale: Array, y_scale: Array, y_zero_point: Array) -> Array:
    """Return sums of integers in the scale and type of y."""
    factor = widen(along(a_scale, rows=True)) * widen(along(b_scale, rows=False))
    factor = np.asarray(factor / widen(along(y_scale, rows=True)))
    zero_point = along(y_zero_point, rows=True)
    unidirectional(factor, total.shape), unidirectional(zero_point, total.shape)
    result = np.asarray(total.astype(FLOAT32, copy=False) * factor)
    dtype = y_zero_point.dtype
    if is_float8(dtype):
        return cast(np.asarray(result + zero_point.astype(FLOAT32)), dtype)
    np.rint(result, out=result)
    np.add(result, zero_point.astype(result.dtype), out=result)
    return np.asarray(np.clip(result, *integer_limits(dtype), out=result).astype(dtype))


# --- Einsum and Det --------------------------------------------------------------------------------------------


@kernel("Einsum", since=12)
def einsum_12(*inputs: Array, equation: str) -> Array:
    """Return the sum of products an equation such as ``bij,bjk->bik`` describes."""
    dtype = inputs[0].dtype if inputs else FLOAT32
    check_size(_einsum_shape(equation, inputs), dtype)
    try:
        result = np.einsum(equation.replace(" ", ""), *(widen(x) for x in inputs), optimize=len(inputs) > 1)
    except (ValueError, IndexError, KeyError, TypeError):
        given = f"equation {equation!r} cannot be computed"
        msg = f"{given}; expected one size for each letter, and behind -> letters of the terms alone, each once"
        raise KernelError(msg) from None
    return narrow(np.asarray(result), dtype) if is_float(dtype) else np.asarray(result).astype(dtype, copy=False)


def _einsum_shape(equation: str, inputs: tuple[Array, ...]) -> tuple[int, ...]:
    """Return the output's shape, or an upper bound of it for equations that einsum will refuse."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    sizes: dict[str, int] = {}
    counts: dict[str, int] = {}
    ellipsis: tuple[int, ...] = ()
    terms = left.split(",")
    if len(terms) != len(inputs):
        msg = f"equation {equation!r} has {len(terms)} terms for {len(inputs)} inputs; expected one for each"
        raise KernelError(msg)
    for term, x in zip(terms, inputs, strict=True):
        before, dots, after = term.partition("...")
        if len(before) + len(after) > x.ndim or (not dots and len(before) != x.ndim):
            given = f"term {term!r} of equation {equation!r} does not fit an input of shape {list(x.shape)}"
            msg = f"{given}; expected a letter for each axis"
            raise KernelError(msg)
        letters = before + after
        dims = x.shape[: len(before)] + x.shape[x.ndim - len(after) :]
        middle = x.shape[len(before) : x.ndim - len(after)]
        ellipsis = middle if len(middle) > len(ellipsis) or prod(middle) > prod(ellipsis) else ellipsis
        for letter, size in zip(letters, dims, strict=True):
            sizes[letter] = max(size, sizes.get(letter, 0))
            counts[letter] = counts.get(letter, 0) + 1
    output = right.replace("...", "") if arrow else "".join(c for c in counts if counts[c] == 1)
    return ellipsis + tuple(sizes.get(c, 1) for c in output)


@kernel("Det", since=11)
def det_11(x: Array) -> Array:
    """Return the determinants of the matrices in the last two axes."""
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        msg = f"input has shape {list(x.shape)}; expected square matrices in the last two axes"
        raise KernelError(msg)
    return narrow(np.asarray(np.linalg.det(widen(x))), x.dtype)
