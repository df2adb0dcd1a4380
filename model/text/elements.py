"""Text form of tensor elements: parsing, range checks and formatting."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.types import ElementType

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TRUE = frozenset({"true", "1", "yes", "on"})
_FALSE = frozenset({"false", "0", "no", "off"})
_LONGEST_SHOWN = 40
_finfo: Any = ml_dtypes.finfo  # has no type annotations; supports numpy's types too
_DECIMAL = re.compile(r"[\d_.]+(?:[eE][+-]?[\d_]+)?")
_DECIMAL_COMMA = re.compile(r"[-+−]?\d+,(\d+)(?:[eE][-+]?\d+)?")
_UNIT = re.compile(r"i(?!n)")  # but not that of inf


def parse_element(text: str, kind: ElementType) -> Any:
    """Parse one element as a numpy scalar of the kind's dtype (str for strings).

    Integers in decimal or as 0x…, 0b…; floats also as inf, nan and ∞; complex numbers as 1+2i. Floats are rounded to
    the kind. ModelError says what was expected.
    """
    if kind is ElementType.STRING:
        return text
    word = text.strip().replace("−", "-").replace("∞", "inf")
    if kind is ElementType.BOOL:
        if word.lower() not in _TRUE | _FALSE:
            raise _refused(text, "A bool is true or false.")
        return np.bool_(word.lower() in _TRUE)
    if kind.is_int:
        return _integer(word, text, kind)
    if kind.is_complex:
        return _complex(word, text, kind)
    if not kind.is_float:
        raise _refused(text, f"Elements of type {kind.text} cannot be written.")
    try:
        number = float(word)
    except ValueError:
        raise _refused(text, f"Expected a number for {kind.text}, such as 0.5, 1e-3, inf or nan.") from None
    _check_numbers(word, text, kind)
    return fit(np.array([number]), kind)[0][0]


def is_element(text: str, kind: ElementType) -> bool:
    """Return whether `parse_element` accepts a text."""
    try:
        parse_element(text, kind)
    except ModelError:
        return False
    return True


def parse_elements(texts: Sequence[str], kind: ElementType) -> NDArray[Any]:
    """Parse many elements, flat. ModelError for one that `parse_element` refuses."""
    if kind.is_float or kind.is_int:
        with suppress(ValueError, OverflowError):  # some text has another form, or does not fit
            return _parse_plain(texts, kind)
    found = np.empty(len(texts), kind.numpy_dtype)
    for index, text in enumerate(texts):
        found[index] = parse_element(text, kind)
    return found


def strings(array: NDArray[Any]) -> NDArray[Any]:
    """Return texts as an array of str; bytes are decoded as UTF-8. SystemError for characters that are none."""
    texts = np.empty(array.size, object)
    flat = array.reshape(-1).tolist()
    texts[:] = [text.decode("utf-8", "surrogateescape") if isinstance(text, bytes) else str(text) for text in flat]
    return texts.reshape(array.shape)


def _parse_plain(texts: Sequence[str], kind: ElementType) -> NDArray[Any]:
    """Parse numbers in their usual form; ValueError or OverflowError for any other."""
    if kind.is_int:
        whole = np.array(list(map(int, texts)), np.uint64 if kind is ElementType.UINT64 else np.int64)
        return fit(whole, kind)[0]
    numbers = np.array(list(map(float, texts)), np.float64)
    if not np.isfinite(numbers).all():  # decimals beyond the range of double, too
        raise ValueError
    return fit(numbers, kind)[0]


def _refused(text: str, detail: str) -> ModelError:
    shown = text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…"
    return ModelError(f"{shown!r} is not accepted", detail)


def _integer(word: str, text: str, kind: ElementType) -> Any:
    number: int | float
    try:
        number = int(word, 0) if word[:2].lower() in ("0x", "0b", "0o") or word[:3] == "-0x" else int(word)
    except ValueError:
        try:
            number = float(word)
        except ValueError:
            raise _refused(text, f"Expected a whole number for {kind.text}.") from None
        if not math.isfinite(number) or number != int(number):
            raise _refused(text, f"{kind.text} holds whole numbers only.") from None
        number = int(number)
    low, high = integer_range(kind)
    if not low <= number <= high:
        raise _refused(text, f"{kind.text} holds {low} to {high}.")
    return np.array(number).astype(kind.numpy_dtype)[()]


def _complex(word: str, text: str, kind: ElementType) -> Any:
    try:
        number = complex(_UNIT.sub("j", word.replace(" ", "")))
    except ValueError:
        raise _refused(text, f"Expected a complex number for {kind.text}, such as 1+2i.") from None
    _check_numbers(word, text, kind)
    return fit(np.array([number]), kind)[0][0]


def _check_numbers(word: str, text: str, kind: ElementType) -> None:
    """Raise ModelError for decimals beyond the range of double, which Python reads as infinity."""
    if any(math.isinf(float(number)) for number in _DECIMAL.findall(word)):
        raise _refused(text, f"{kind.text} reaches {_largest(kind):.6g}.")


def _largest(kind: ElementType) -> float:
    """Return the largest finite value of a float kind, or of the parts of a complex one."""
    return float(np.finfo(kind.numpy_dtype).max) if kind.is_complex else float_limits(kind)[0]


def integer_range(kind: ElementType) -> tuple[int, int]:
    """Return the smallest and largest value of an integer kind."""
    signed = kind.name.startswith("INT")
    return (-(1 << kind.bits - 1), (1 << kind.bits - 1) - 1) if signed else (0, (1 << kind.bits) - 1)


def float_limits(kind: ElementType) -> tuple[float, bool, bool]:
    """Return the largest finite value of a float kind, and whether it has infinities and NaN."""
    dtype = kind.numpy_dtype
    if kind in (ElementType.FLOAT, ElementType.DOUBLE, ElementType.FLOAT16):
        return float(np.finfo(dtype).max), True, True
    with np.errstate(all="ignore"):
        special = np.array([np.inf, np.nan], np.float32).astype(dtype).astype(np.float32)
    return float(_finfo(dtype).max), bool(np.isinf(special[0])), bool(np.isnan(special[1]))


def fit(values: NDArray[Any], kind: ElementType) -> tuple[NDArray[Any], int]:
    """Convert numbers to elements of a kind; also returns how many were rounded to integers.

    ModelError names the first number that the kind cannot represent: out of range, NaN where there is none.
    """
    if kind is ElementType.BOOL:
        return values.astype(np.bool_), 0
    if kind.is_int:
        return _fit_integers(values, kind)
    if values.dtype.kind == "c" and not kind.is_complex:
        _refuse_first(values, values.imag != 0, kind, "It is complex.")
        values = values.real
    if kind.is_complex:
        values = values.astype(np.complex128, copy=False)
        largest = _largest(kind)
        parts = np.isfinite(values) & ((np.abs(values.real) > largest) | (np.abs(values.imag) > largest))
        _refuse_first(values, parts, kind, f"Its parts reach {largest:.6g}.")
        return values.astype(kind.numpy_dtype), 0
    return _fit_floats(values.astype(np.float64, copy=False), kind), 0


def _fit_integers(values: NDArray[Any], kind: ElementType) -> tuple[NDArray[Any], int]:
    low, high = integer_range(kind)
    rounded = 0
    if values.dtype.kind == "b":
        values = values.astype(np.int64)
    if values.dtype.kind not in "iu":
        if values.dtype.kind == "c":
            _refuse_first(values, values.imag != 0, kind, "It is complex.")
            values = values.real
        _refuse_first(values, ~np.isfinite(values), kind, "It has neither NaN nor infinity.")
        whole = np.rint(values)
        rounded = int(np.count_nonzero(whole != values))
        values = whole
        outside = (values < float(low)) | (values >= float(high) + 1)
    else:
        outside = np.zeros(values.shape, np.bool_)
        if values.size and int(values.min()) < low:
            outside |= values < low
        if values.size and int(values.max()) > high:
            outside |= values > high
    _refuse_first(values, outside, kind, f"It holds {low} to {high}.")
    wide = np.uint64 if kind is ElementType.UINT64 else np.int64
    return values.astype(wide).astype(kind.numpy_dtype), rounded


def _fit_floats(values: NDArray[np.float64], kind: ElementType) -> NDArray[Any]:
    largest, has_infinity, has_nan = float_limits(kind)
    dtype = kind.numpy_dtype
    size = np.abs(values)
    if kind is ElementType.FLOAT8E8M0:
        _refuse_first(values, values <= 0, kind, "It holds powers of two only.")
    if kind is not ElementType.DOUBLE:
        eps = float(_finfo(dtype).eps)
        limit = largest * (1 + (eps / 4 if kind is not ElementType.FLOAT8E8M0 else 0))
        _refuse_first(values, np.isfinite(values) & (size > limit), kind, f"It reaches {largest:.6g}.")
    if not has_infinity:
        _refuse_first(values, np.isinf(values), kind, "It has no infinity.")
    if not has_nan:
        _refuse_first(values, np.isnan(values), kind, "It has no NaN.")
    with np.errstate(all="ignore"):
        if kind in (ElementType.FLOAT, ElementType.FLOAT16, ElementType.DOUBLE):
            return values.astype(dtype)
        bounded = np.where(np.isfinite(values), np.clip(values, -largest, largest), values)
        return np.asarray(bounded.astype(dtype))


def _refuse_first(values: NDArray[Any], wrong: NDArray[np.bool_], kind: ElementType, detail: str) -> None:
    if wrong.any():
        number = values[wrong].reshape(-1)[0]
        more = int(np.count_nonzero(wrong)) - 1
        also = f" The same goes for {more:,} more." if more else ""
        raise ModelError(f"{number.item():.6g} does not fit {kind.text}", detail + also)


def element_text(value: Any) -> str:
    """Format one element exactly, so that parsing the text gives the same element."""
    if isinstance(value, str):
        return value
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (np.complexfloating, complex)):
        return str(value).strip("()").replace("j", "i")
    if isinstance(value, (np.float16, np.float32, np.float64)):
        return str(value)
    if isinstance(value, np.integer):
        return str(int(value))
    number = float(value)
    return str(int(number)) if "int" in type(value).__name__ else repr(number)


class DecimalCommas:
    """Decimal commas in cells: whether the commas there cannot be anything else."""

    def __init__(self) -> None:
        self._has_points = self._has_others = self._has_decimals = False

    def add(self, cells: Iterable[str]) -> None:
        """Note the cells of a row."""
        for cell in cells:
            self._has_points = self._has_points or "." in cell
            if "," in cell:
                decimal = _DECIMAL_COMMA.fullmatch(cell)
                self._has_others = self._has_others or decimal is None
                self._has_decimals = self._has_decimals or (decimal is not None and len(decimal[1]) != 3)

    @staticmethod
    def are_used(parts: Iterable[DecimalCommas]) -> bool:
        """Return whether all commas are decimal ones; thousands are grouped by three."""
        parts = list(parts)
        return not any(p._has_points or p._has_others for p in parts) and any(p._has_decimals for p in parts)


def with_points(rows: list[list[str]]) -> list[list[str]]:
    """Replace decimal commas by points, where the commas cannot be anything else."""
    commas = DecimalCommas()
    for row in rows:
        commas.add(row)
    return [[cell.replace(",", ".") for cell in row] for row in rows] if DecimalCommas.are_used([commas]) else rows
