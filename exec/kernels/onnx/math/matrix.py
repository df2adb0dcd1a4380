"""Matrix products and determinants: MatMul, Gemm, MatMulInteger, QLinearMatMul, Einsum, Det."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.registry import kernel, prepares
from onnx_workbench.exec.kernels.shared.blocks import PIECE
from onnx_workbench.exec.kernels.shared.broadcast import check_one_type, unidirectional
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
from onnx_workbench.exec.kernels.shared.products import LONGEST, matmul_stack
from onnx_workbench.exec.kernels.shared.weights import LaidOut
from onnx_workbench.exec.kernels.threads import parallel_for, split, threads
from onnx_workbench.exec.values.arrays import Array, check_size, empty


def product(a: Array, b: Array) -> Array:
    """Return a @ b of float32 or float64 arrays with numpy's rules for ranks, by BLAS throughout."""
    shape = _product_shape(a, b)
    result = empty(shape, a.dtype)
    if not (a.size and b.size):
        result[...] = 0  # empty sums, if the result has elements
        return result
    work = result.size * a.shape[-1]
    if a.ndim > 2 and b.ndim == 2:
        # One large product instead of many small ones.
        _flat_product(_for_blas(a.reshape(-1, a.shape[-1])), _for_blas(b), result.reshape(-1, b.shape[1]), work)
        return result
    a, b = _for_blas(a), _for_blas(b)
    if min(a.ndim, b.ndim) < 2 or (len(shape) == 2 and _pieces(work) == 1):
        np.matmul(a, b, result)
    elif len(shape) == 2:
        _flat_product(a, b, result, work)
    elif _pieces(work) == 1 or not a.ndim == b.ndim == len(shape):
        matmul_stack(a, b, result)
    else:
        _stack_product(a, b, result, work)
    return result


def _flat_product(a: Array, b: Array, out: Array, work: int) -> None:
    """Multiply two matrices in pieces along the longer side, for threads and limit checks."""
    rows = len(out) >= out.shape[1]
    parts = split(max(out.shape), _pieces(work))

    def part(index: int) -> None:
        here = slice(*parts[index])
        if rows:
            np.matmul(a[here], b, out[here])
        else:
            np.matmul(a, b[:, here], out[:, here])

    parallel_for(part, len(parts), work)


def _pieces(work: int) -> int:
    """Return the number of pieces: one per thread, more where each would delay cancellation."""
    return max(threads(work), work // LONGEST)


def _stack_product(a: Array, b: Array, out: Array, work: int) -> None:
    """Multiply two stacks of matrices of equal rank in pieces along the longest axis, for threads and limit checks."""
    axis = max(range(out.ndim - 2), key=lambda i: out.shape[i])
    parts = split(out.shape[axis], _pieces(work))

    def part(index: int) -> None:
        here = (*(slice(None),) * axis, slice(*parts[index]))
        left, right = (x[here] if x.shape[axis] > 1 else x for x in (a, b))
        matmul_stack(left, right, out[here])

    parallel_for(part, len(parts), work)


def _product_shape(a: Array, b: Array) -> tuple[int, ...]:
    """Return the shape of a @ b; KernelError when the shapes do not fit."""
    if a.ndim == b.ndim == 2 and a.shape[1] == b.shape[0]:
        return a.shape[0], b.shape[1]
    fits = a.ndim and b.ndim and a.shape[-1] == b.shape[-2 if b.ndim > 1 else 0]
    try:
        leading = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError:
        fits = False
    if not fits:
        given = f"shapes {list(a.shape)} and {list(b.shape)}"
        msg = f"{given} cannot be multiplied as matrices; expected […, N, K] and […, K, M]"
        raise KernelError(msg)
    return leading + (a.shape[-2:-1] if a.ndim > 1 else ()) + (b.shape[-1:] if b.ndim > 1 else ())


def _for_blas(x: Array) -> Array:
    """Return `x`, copied if its matrices have strided rows and columns, which BLAS cannot read."""
    if x.ndim < 2 or x.itemsize in x.strides[-2:]:
        return x
    return np.ascontiguousarray(x)


def _integer_product(a: Array, b: Array) -> Array:
    """Multiply 32- and 64-bit integers in their type; through BLAS in double where that is exact."""
    depth = max(a.shape[-1], 1) if a.ndim else 1
    if a.size and b.size and depth * _largest(a) * _largest(b) < 1 << 53:
        return product(a.astype(FLOAT64), b.astype(FLOAT64)).astype(a.dtype)
    check_size(_product_shape(a, b), a.dtype)
    return np.asarray(np.matmul(a, b, dtype=a.dtype))


def _largest(x: Array) -> int:
    """Return the largest magnitude as a Python int."""
    return max(abs(int(x.min())), abs(int(x.max())))


@kernel("MatMul", since=1)
def matmul_1(a: Array, b: Array) -> Array:
    """Return the matrix product with numpy's rules for vectors and stacks."""
    check_one_type(a, b)
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
    check_one_type(a, b)
    left = a.T if transA else a
    right = b.T if transB else b
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


def integer_product(a: Array, b: Array) -> Array:
    """Return a @ b, exact, as float32 or float64 holding integers; `a` and `b` are float32 arrays of integers.

    A float32 sum of n products is exact while n·max|a|·max|b| < 2²⁴; longer ones are split into partial sums, and where
    those would be too short the product is computed in double.
    """
    shape = _product_shape(a, b)
    depth = a.shape[-1]
    if not (a.size and b.size):
        return empty(shape, FLOAT32) if 0 in shape else np.zeros(shape, FLOAT32)
    exact = (1 << 24) // max(1, _largest(a) * _largest(b))
    if exact >= depth:
        return product(a, b)
    if exact < 128 or a.ndim < 2 or b.ndim < 2:
        return product(a.astype(FLOAT64), b.astype(FLOAT64))
    result = np.zeros(shape, FLOAT64)
    for start in range(0, depth, exact):
        part = slice(start, start + exact)
        result += product(a[..., part], b[..., part, :])
    return result


def centred(x: Array, zero_point: Array | None, rows: bool = False) -> Array:
    """Return x - zero_point in float32, exact for all types of up to 8 bits."""
    wide = x.astype(FLOAT32)
    if zero_point is not None and zero_point.any():
        shift = _along(zero_point.astype(FLOAT32), rows)
        np.subtract(wide, unidirectional(shift, wide.shape) if shift.ndim else shift, out=wide)
    return wide


def has_exact_sums(b: Array) -> bool:
    """Return whether products of 8-bit integers with a matrix of integers have exact sums in float32, in any order.

    They do below 2²⁴. 8 bits less their zero point are within 255.
    """
    if b.ndim != 2:
        return False
    total = np.zeros(b.shape[1], FLOAT32)
    step = max(1, PIECE // max(1, b.shape[1]))
    for start in range(0, len(b), step):
        total += np.abs(b[start : start + step]).sum(0)
    return bool(255 * total.max(initial=0) < 1 << 24)


def _along(value: Array, rows: bool) -> Array:
    """Reshape a zero point or scale to broadcast over rows (per row) or columns (per column) of a matrix."""
    if value.size == 1:
        return value.reshape(())
    return value.reshape(-1, 1) if rows and value.ndim == 1 else value


@kernel("MatMulInteger", since=10)
def matmul_integer_10(
    a: Array, b: Array, a_zero_point: Array | None = None, b_zero_point: Array | None = None
) -> Array:
    """Return the product of 8-bit integers less their zero points, in int32."""
    return _to_int32(integer_product(centred(a, a_zero_point, rows=True), centred(b, b_zero_point)))


def _to_int32(x: Array) -> Array:
    """Convert integers to int32; sums beyond 32 bits wrap."""
    return x.astype(np.int32) if x.dtype == FLOAT32 else x.astype(np.int64).astype(np.int32)


@prepares(matmul_integer_10)
def prepare_matmul_integer(constants: tuple[Array | None, ...]) -> Callable[..., Array] | None:
    """Convert a constant B once."""
    b = constants[1]
    b_zero_point = constants[3] if len(constants) > 3 else None
    if b is None or (len(constants) > 3 and b_zero_point is None):
        return None
    sums = _integer_sums(b, b_zero_point)

    def run(a: Array, _b: Array, a_zero_point: Array | None = None, _zero: Array | None = None) -> Array:
        return _to_int32(sums(centred(a, a_zero_point, rows=True)))

    return run


def _integer_sums(b: Array, zero_point: Array | None) -> Callable[[Array], Array]:
    """Return what `integer_product` is for a constant B: a function of the centred A."""
    right = centred(b, zero_point)
    is_exact, laid_out = has_exact_sums(right), LaidOut(right)

    def sums(left: Array) -> Array:
        if not is_exact or left.ndim < 2 or not left.size or left.shape[-1] != len(right):
            return integer_product(left, right)
        result = laid_out.product(left)
        return product(left, right) if result is None else result

    return sums


@kernel("QLinearMatMul", since=10)
def qlinear_matmul_10(
    a: Array,
    a_scale: Array,
    a_zero_point: Array,
    b: Array,
    b_scale: Array,
    b_zero_point: Array,
    y_scale: Array,
    y_zero_point: Array,
) -> Array:
    """Return the product of two quantized matrices, quantized: rounded half to even, saturated."""
    total = integer_product(centred(a, a_zero_point, rows=True), centred(b, b_zero_point))
    return _requantized(total, a_scale, b_scale, y_scale, y_zero_point)


@prepares(qlinear_matmul_10)
def prepare_qlinear_matmul(constants: tuple[Array | None, ...]) -> Callable[..., Array] | None:
    """Convert a constant B once."""
    b, b_zero_point = constants[3], constants[5]
    if b is None or b_zero_point is None or is_float8(b.dtype):
        return None
    sums = _integer_sums(b, b_zero_point)

    def run(
        a: Array, a_scale: Array, a_zero: Array, _b: Array, b_scale: Array, _b_zero: Array, y_scale: Array,
        y_zero: Array,
    ) -> Array:  # fmt: skip
        return _requantized(sums(centred(a, a_zero, rows=True)), a_scale, b_scale, y_scale, y_zero)

    return run


def _requantized(total: Array, a_scale: Array, b_scale: Array, y_scale: Array, y_zero_point: Array) -> Array:
    """Return sums of integers in the scale and type of y."""
    factor = widen(_along(a_scale, rows=True)) * widen(_along(b_scale, rows=False))
    factor = np.asarray(factor / widen(_along(y_scale, rows=True)))
    zero_point = _along(y_zero_point, rows=True)
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
