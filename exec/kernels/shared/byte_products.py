"""Products with constant matrices of 8-bit integers, less their zero points: exact, whoever multiplies.

numpy has no quick products of integers, so BLAS multiplies them in float32, in which their sums are exact. NumKong has
kernels for bytes, which read a quarter of the memory; where the processor multiplies bytes by instructions of its own,
it is faster for nearly all shapes, else for few rows. Its results are the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np

from onnx_workbench.exec.kernels.shared.blocks import PIECE
from onnx_workbench.exec.kernels.shared.broadcast import unidirectional
from onnx_workbench.exec.kernels.shared.dtypes import FLOAT32, FLOAT64, is_float8
from onnx_workbench.exec.kernels.shared.products import LONGEST, product, product_shape
from onnx_workbench.exec.kernels.shared.scratch import copy_transposed
from onnx_workbench.exec.kernels.shared.weights import LaidOut
from onnx_workbench.exec.kernels.threads import parallel_for, split, threads
from onnx_workbench.exec.values.arrays import Array, check_size, empty

#: NumKong's names of processors that multiply bytes and add the products in one instruction (VNNI, AMX, dot product of
#: ARM). With the others it widens bytes to 16 bits first.
_BYTE_INSTRUCTIONS = {
    "alder", "sierra", "icelake", "genoa", "turin", "sapphire", "sapphireamx", "graniteamx", "diamond",
    "neonsdot", "svesdot", "sme", "sme2", "sme2p1",
}  # fmt: skip
_VECTOR_INSTRUCTIONS = {"haswell", "skylake", "neon"}
#: Rows up to which NumKong is faster without instructions for bytes too: the product is bound by reading the matrix.
#: For 4 rows of 512 x 512 it takes 94 us against 121 of BLAS with AVX-512, for 16 rows 246 against 189. 8 steps of a
#: recurrent layer side by side, whose weights are in the cache, lose.
_FEW_ROWS = 4
#: Elements from which that holds: of 128 x 512 the calls around the product take as long as it does.
_LARGE = 1 << 17
#: Depth from which NumKong is faster for more rows: for 256 rows of depth 64 it takes twice as long as BLAS.
_DEEP = 128
#: Depth up to which sums of products of values within 255 fit 32 bits.
_MOST_DEPTH = ((1 << 31) - 1) // (255 * 255)
_ROWS_OF_THREAD = 16


@dataclass(frozen=True, slots=True)
class NumKong:
    """The library, as far as it may be used here; `library` is None where it may not, for the reason in `text`."""

    text: str
    library: Any = None
    has_byte_instructions: bool = False

    def pays(self, rows: int, depth: int, columns: int) -> bool:
        """Return whether a product of these sizes is faster than by BLAS."""
        has_kernel = self.library is not None if rows <= _FEW_ROWS else self.has_byte_instructions
        return has_kernel and _is_large(rows, depth, columns)


def _is_large(rows: int, depth: int, columns: int) -> bool:
    return depth <= _MOST_DEPTH and (depth * columns >= _LARGE if rows <= _FEW_ROWS else depth >= _DEEP)


@cache
def numkong() -> NumKong:
    """Import NumKong and check its products against numpy's, once per process. Takes a tenth of a second."""
    try:
        import numkong as numkong_
    except ImportError:
        return NumKong("numpy (NumKong is not installed)")
    library: Any = numkong_  # its type hints lack the version
    name = f"NumKong {library.__version__}"
    there = {capability for capability, has in library.get_capabilities().items() if has}
    if not there & (_BYTE_INSTRUCTIONS | _VECTOR_INSTRUCTIONS):
        return NumKong(f"numpy ({name} has no kernels for this processor)")
    if not _multiplies_correctly(library):
        return NumKong(f"numpy ({name} computed a wrong product)")
    if there & _BYTE_INSTRUCTIONS:
        return NumKong(name, library, has_byte_instructions=True)
    return NumKong(f"{name} for few rows, else numpy (it has no quicker kernels for this processor)", library)


def numkong_pays(rows: int, depth: int, columns: int) -> bool:
    """Return whether a product of these sizes is faster by NumKong, which small ones do not import."""
    return _is_large(rows, depth, columns) and numkong().pays(rows, depth, columns)


def described(_: bytes) -> bytes:
    """Return what multiplies bytes on this machine, for `run_isolated`."""
    return numkong().text.encode()


def _multiplies_correctly(library: Any) -> bool:
    """Return whether sums are exact, of the largest values too, for sizes that fill no register."""
    random = np.random.default_rng(0)
    for rows, depth, columns in ((1, 67, 33), (37, 131, 19)):
        for values in (np.array((-128, 127)), np.arange(-128, 128)):
            a, b = (random.choice(values, (count, depth)).astype(np.int8) for count in (rows, columns))
            result = np.asarray(library.dots_packed(a, library.dots_pack(b)))
            if result.dtype != np.int32 or not np.array_equal(result, a.astype(np.int32) @ b.T.astype(np.int32)):
                return False
    return True


class ByteMatrix:
    """A constant matrix (K, N) of 8-bit integers less their zero point, per tensor or per column.

    It is converted to what a product needs when the first one does. Any thread.
    """

    def __init__(self, codes: Array, zero_point: Array | None) -> None:
        self._codes, self._zero_point = codes, zero_point

    @property
    def shape(self) -> tuple[int, ...]:
        """(K, N)."""
        return self._codes.shape

    def product(self, a: Array, zero_point: Array | None) -> Array:
        """Return (a - zero_point) @ the matrix: integers in int32, float32 or float64.

        `a` (…, K) is of 8 bits; its zero point is a number, or one per row.
        """
        packed = self.packed(a.size // a.shape[-1] if a.ndim > 1 and a.shape[-1] else 0)
        if packed is None or a.dtype not in _BYTES or a.shape[-1] != packed.depth or (
            zero_point is not None and (zero_point.size != 1 or zero_point.dtype != a.dtype)
        ):  # fmt: skip
            return self.product_of_integers(centred(a, zero_point, rows=True))
        shift = 0 if zero_point is None else int(zero_point.item())
        rows = a.reshape(-1, packed.depth)
        if a.dtype == np.uint8:
            rows, shift = np.bitwise_xor(rows, _SIGN).view(np.int8), shift - 128
        return packed.product(rows, shift).reshape(*a.shape[:-1], packed.columns)

    def product_of_integers(self, left: Array) -> Array:
        """Return left @ the matrix in float32 or float64; `left` are integers within 255, in float32."""
        if not self.has_exact_sums or left.ndim < 2 or not left.size or left.shape[-1] != len(self.centred):
            return integer_product(left, self.centred)
        result = self._laid_out.product(left)
        return product(left, self.centred) if result is None else result

    def packed(self, rows: int) -> PackedBytes | None:
        """Return the matrix as NumKong reads it; None where it is not faster for so many rows."""
        codes = self._codes
        if not rows or codes.ndim != 2 or not codes.size or codes.dtype not in _BYTES:
            return None
        zero = self._zero_point
        if zero is not None and (zero.dtype != codes.dtype or (zero.size != 1 and zero.shape != codes.shape[1:])):
            return None
        return self._packed if numkong_pays(rows, *codes.shape) else None

    @cached_property
    def _packed(self) -> PackedBytes:
        return PackedBytes(self._codes, self._zero_point)

    @cached_property
    def centred(self) -> Array:
        """The matrix in float32."""
        return centred(self._codes, self._zero_point)

    @cached_property
    def has_exact_sums(self) -> bool:
        """Whether products with integers within 255 have exact sums in float32, in any order."""
        return has_exact_sums(self.centred)

    @cached_property
    def _laid_out(self) -> LaidOut:
        return LaidOut(self.centred)


def byte_matrix(matrix: Array | ByteMatrix, zero_point: Array | None) -> ByteMatrix:
    """Return a matrix that a kernel got as an input, or as it is kept."""
    return matrix if isinstance(matrix, ByteMatrix) else ByteMatrix(matrix, zero_point)


def kept_byte_matrix(codes: Array, zero_point: Array | None, attributes: dict[str, Any]) -> ByteMatrix | None:
    """Return what kernels keep of a constant matrix; with transB, of the transposed one."""
    if is_float8(codes.dtype):
        return None
    return ByteMatrix(codes.T if attributes.get("transB") else codes, zero_point)


_BYTES = (np.dtype(np.uint8), np.dtype(np.int8))
_SIGN = np.uint8(128)


class PackedBytes:
    """A matrix (K, N) of 8-bit integers less their zero points, packed by NumKong."""

    def __init__(self, codes: Array, zero_point: Array | None) -> None:
        self.depth, self.columns = codes.shape
        zero = np.zeros(1, np.int32) if zero_point is None else zero_point.reshape(-1).astype(np.int32)
        columns = np.empty((self.columns, self.depth), codes.dtype)
        copy_transposed(codes, columns)
        if codes.dtype == np.uint8:
            columns, zero = np.bitwise_xor(columns, _SIGN, out=columns).view(np.int8), zero - 128
        self._library = numkong().library
        self._matrix = self._library.dots_pack(columns)
        ones = np.ones((1, self.depth), np.int8)
        self._sums = np.asarray(self._library.dots_packed(ones, self._matrix))[0] - self.depth * zero
        self._zero = zero if zero.any() else None
        self._ones = None if self._zero is None else self._library.dots_pack(ones)

    def product(self, rows: Array, zero_point: int) -> Array:
        """Return (rows - zero_point) @ the matrix in int32; `rows` are int8 (M, K).

        (a - x)(b - y) = ab - x (Σb - Ky) - y Σa; where a summand does not fit 32 bits, all still add up to what does.
        """
        rows = np.ascontiguousarray(rows)
        check_size((len(rows), self.columns), np.int32)
        work = rows.size * self.columns
        count = min(max(threads(work), work // LONGEST), len(rows) // _ROWS_OF_THREAD)
        if count > 1:
            result = self._in_pieces(rows, count, work)
        else:
            result = np.asarray(self._library.dots_packed(rows, self._matrix))
        if zero_point:
            result -= zero_point * self._sums
        if self._zero is not None:
            result -= np.asarray(self._library.dots_packed(rows, self._ones)) * self._zero
        return result

    def _in_pieces(self, rows: Array, count: int, work: int) -> Array:
        out = self._library.empty((len(rows), self.columns), dtype="int32")
        parts = split(len(rows), count)

        def part(index: int) -> None:
            start, stop = parts[index]
            self._library.dots_packed(rows, self._matrix, out=out, start_row=start, end_row=stop)

        parallel_for(part, len(parts), work)
        return np.asarray(out)


def integer_product(a: Array, b: Array) -> Array:
    """Return a @ b, exact, as float32 or float64 holding integers; `a` and `b` are float32 arrays of integers.

    A float32 sum of n products is exact while n·max|a|·max|b| < 2²⁴; longer ones are split into partial sums, and where
    those would be too short the product is computed in double.
    """
    shape = product_shape(a, b)
    depth = a.shape[-1]
    if not (a.size and b.size):
        return empty(shape, FLOAT32) if 0 in shape else np.zeros(shape, FLOAT32)
    exact = (1 << 24) // max(1, largest(a) * largest(b))
    if exact >= depth:
        return product(a, b)
    if exact < 128 or a.ndim < 2 or b.ndim < 2:
        return product(a.astype(FLOAT64), b.astype(FLOAT64))
    result = np.zeros(shape, FLOAT64)
    for start in range(0, depth, exact):
        part = slice(start, start + exact)
        result += product(a[..., part], b[..., part, :])
    return result


def to_int32(x: Array) -> Array:
    """Convert integers to int32; sums beyond 32 bits wrap."""
    return x.astype(np.int32, copy=False) if x.dtype != FLOAT64 else x.astype(np.int64).astype(np.int32)


def centred(x: Array, zero_point: Array | None, rows: bool = False) -> Array:
    """Return x - zero_point in float32, exact for all types of up to 8 bits."""
    wide = x.astype(FLOAT32)
    if zero_point is not None and zero_point.any():
        shift = along(zero_point.astype(FLOAT32), rows)
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


def along(value: Array, rows: bool) -> Array:
    """Reshape a zero point or scale to broadcast over rows (per row) or columns (per column) of a matrix."""
    if value.size == 1:
        return value.reshape(())
    return value.reshape(-1, 1) if rows and value.ndim == 1 else value


def largest(x: Array) -> int:
    """Return the largest magnitude as a Python int."""
    return max(abs(int(x.min())), abs(int(x.max())))
