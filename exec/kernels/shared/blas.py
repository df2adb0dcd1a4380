"""numpy's BLAS: accumulating products (GEMM with beta = 1) where it is OpenBLAS, and one thread whatever it is.

`numpy.matmul` overwrites its output. A convolution is a sum of products, so without `gemm_add` each of them would need
another array and another pass. The OpenBLAS in numpy's wheels is called where it is found and passes a self-test;
elsewhere numpy computes the same in two steps.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from onnx_workbench.exec.values.arrays import Array

_ROW_MAJOR = 101
_NO_TRANSPOSE = 111
_Gemm = Callable[..., None]

#: OpenBLAS's names of the processors for which it has small-matrix kernels.
_UNPACKED_ON = ("SkylakeX", "Cooperlake", "SapphireRapids")


def gemm_add(a: Array, b: Array, out: Array) -> None:
    """Add a @ b to out, in place; float32 or float64 matrices whose rows are contiguous take the quick way."""
    gemm = _gemm(out.dtype.char) if a.dtype == b.dtype == out.dtype else None
    if gemm is None or not (_rows(a) and _rows(b) and _rows(out)):
        out += np.matmul(a, b)
        return
    (m, k), n = a.shape, b.shape[1]
    if b.shape[0] != k or out.shape != (m, n):
        msg = f"shapes {a.shape} @ {b.shape} do not give {out.shape}"
        raise ValueError(msg)
    if not (m and n and k):
        return
    size = out.itemsize
    gemm(
        *(_ROW_MAJOR, _NO_TRANSPOSE, _NO_TRANSPOSE, m, n, k),
        *(1.0, a.ctypes.data, a.strides[0] // size, b.ctypes.data, b.strides[0] // size),
        *(1.0, out.ctypes.data, out.strides[0] // size),
    )


def use_one_thread() -> None:
    """Limit OpenBLAS, MKL or BLIS to one thread in this process, from now on."""
    _controller().limit(limits=1, user_api="blas")


@cache
def multiplies_unpacked() -> bool:
    """Return whether BLAS multiplies small float32 matrices without packing: OpenBLAS does on processors with
    AVX-512.
    """
    return any(library.architecture in _UNPACKED_ON for library in _open_blas())


def _rows(matrix: Array) -> bool:
    """Return whether BLAS can read the matrix by rows: contiguous rows that do not overlap."""
    size = matrix.itemsize
    return (
        matrix.ndim == 2
        and matrix.strides[1] == size
        and matrix.strides[0] >= matrix.shape[1] * size
        and matrix.strides[0] % size == 0
    )


@cache
def _controller() -> Any:
    """Return the BLAS libraries of this process. The import waits until they are asked for."""
    import threadpoolctl  # type: ignore[import-untyped]  # it ships no types

    return threadpoolctl.ThreadpoolController()


def _open_blas() -> list[Any]:
    return [library for library in _controller().lib_controllers if library.internal_api == "openblas"]


def _symbol(*names: str) -> Any:
    for library in _open_blas():
        loaded = ctypes.CDLL(library.filepath)
        for name in names:
            function = getattr(loaded, name, None)
            if function is not None:
                return function
    return None


@cache
def _gemm(char: str) -> _Gemm | None:
    """Return cblas_sgemm or cblas_dgemm with 64-bit sizes, if it exists and passes a self-test."""
    if char not in "fd":
        return None
    name = "sgemm" if char == "f" else "dgemm"
    function = _symbol(f"scipy_cblas_{name}64_", f"cblas_{name}64_")
    if function is None:
        return None
    size, real, pointer = ctypes.c_int64, ctypes.c_float if char == "f" else ctypes.c_double, ctypes.c_void_p
    function.restype = None
    function.argtypes = [
        *([ctypes.c_int] * 3),
        *(size, size, size, real, pointer, size, pointer, size, real, pointer, size),
    ]
    a, b = np.arange(6, dtype=char).reshape(2, 3), np.arange(12, dtype=char).reshape(3, 4)
    out = np.ones((2, 4), char)
    function(
        *(_ROW_MAJOR, _NO_TRANSPOSE, _NO_TRANSPOSE, 2, 4, 3),
        *(1.0, a.ctypes.data, 3, b.ctypes.data, 4, 1.0, out.ctypes.data, 4),
    )
    gemm: _Gemm = function
    return gemm if np.array_equal(out, a @ b + 1) else None
