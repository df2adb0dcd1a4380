"""Direct access to numpy's OpenBLAS: accumulating products (GEMM with beta = 1), and the number of threads.

`numpy.matmul` overwrites its output. A convolution is a sum of products, so without `gemm_add` each of them would need
another array and another pass. The OpenBLAS in numpy's wheels is called where it is found and passes a self-test;
elsewhere numpy computes the same in two steps.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from onnx_workbench.exec.kernels.allocation import Array

_ROW_MAJOR = 101
_NO_TRANSPOSE = 111
_Gemm = Callable[..., None]

#: OpenBLAS's names of the processors for which it has small-matrix kernels.
_UNPACKED_ON = (b"SkylakeX", b"Cooperlake", b"SapphireRapids")


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


def has_gemm_add() -> bool:
    """Return whether `gemm_add` runs without a temporary here."""
    return _gemm("f") is not None


def set_threads(count: int) -> int:
    """Set the number of BLAS threads and return the previous one; (1 and no effect where it is inaccessible)."""
    functions = _thread_functions()
    if functions is None:
        return 1
    get, put = functions
    before = int(get())
    if before != count:
        put(count)
    return before


@cache
def multiplies_unpacked() -> bool:
    """Return whether BLAS multiplies small float32 matrices without packing: OpenBLAS does on processors with
    AVX-512.
    """
    name = _symbol("scipy_openblas_get_corename64_", "openblas_get_corename64_", "openblas_get_corename")
    if name is None:
        return False
    name.restype, name.argtypes = ctypes.c_char_p, ()
    return name() in _UNPACKED_ON


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
def _libraries() -> tuple[ctypes.CDLL, ...]:
    """Return numpy's extension module (which exports its BLAS on most systems) and the libraries beside numpy."""
    package = Path(np.__file__).parent
    found = []
    extension = sys.modules.get("numpy._core._multiarray_umath")
    names = [getattr(extension, "__file__", None), *sorted(package.parent.glob("numpy.libs/*openblas*"))]
    for name in names:
        try:
            found.append(ctypes.CDLL(str(name)))
        except (OSError, TypeError):  # not a library of this system: numpy is used as it is
            continue
    return tuple(found)


def _symbol(*names: str) -> Any:
    for library in _libraries():
        for name in names:
            function = getattr(library, name, None)
            if function is not None:
                return function
    return None


@cache
def _thread_functions() -> tuple[Callable[[], int], Callable[[int], None]] | None:
    get = _symbol("scipy_openblas_get_num_threads64_", "openblas_get_num_threads64_", "openblas_get_num_threads")
    put = _symbol("scipy_openblas_set_num_threads64_", "openblas_set_num_threads64_", "openblas_set_num_threads")
    if get is None or put is None:
        return None
    get.restype, get.argtypes = ctypes.c_int, ()
    put.restype, put.argtypes = None, (ctypes.c_int,)
    return get, put


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
