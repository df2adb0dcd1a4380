"""Symbolic sizes in floating-point arithmetic: a dimension times 0.5, rounded down, is a dimension again.

A whole number stays a size. Factors without an exact 32-bit product are kept symbolically, as rounding them matters;
such a product can only be rounded down or up.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import gcd

from onnx_workbench.model.analysis import symbolic
from onnx_workbench.model.analysis.symbolic import AnySize, Size

#: Integers up to here are exact in 32 bits.
LARGEST_EXACT = 1 << 24

_LARGEST_DIVISOR = 1024


@dataclass(frozen=True, slots=True)
class SymbolicFloat:
    """A size divided by a number that may not divide it, or multiplied by a factor of 32 bits."""

    size: AnySize
    divisor: int = 1
    factor: float = 1.0


AnyReal = AnySize | SymbolicFloat


def constant(number: float) -> AnyReal | None:
    """Return a floating-point constant."""
    if number.is_integer() and abs(number) < LARGEST_EXACT:
        return int(number)
    if not 0 < number < LARGEST_EXACT:
        return None
    above, below = number.as_integer_ratio()
    return SymbolicFloat(above, below) if below <= _LARGEST_DIVISOR else SymbolicFloat(1, 1, number)


def multiply(a: AnyReal, b: AnyReal) -> AnyReal | None:
    """Return the product of two numbers; None where rounding on the way may matter."""
    if isinstance(a, (int, Size)) and isinstance(b, (int, Size)):
        return a * b
    a, b = (n if isinstance(n, SymbolicFloat) else SymbolicFloat(n) for n in (a, b))
    if 1.0 not in (a.factor, b.factor):
        return None
    factor = a.factor * b.factor
    if factor != 1.0:  # already a product: 3·0.6·T differs from 0.6·3·T
        factored, other = (b, a) if a.factor == 1.0 else (a, b)
        return SymbolicFloat(other.size, 1, factor) if factored.size == other.divisor == 1 else None
    if not (_is_exact_times(a, b.size) and _is_exact_times(b, a.size)):
        return None
    return _made(a.size * b.size, a.divisor * b.divisor)


def _is_exact_times(number: SymbolicFloat, times: AnySize) -> bool:
    """Return whether an integer product is exact in 32 bits: 1 / 49 · 49 is less than 1 there."""
    return _is_power_of_two(number.divisor if isinstance(times, Size) else gcd(number.divisor, times))


def _is_power_of_two(number: int) -> bool:
    return number & (number - 1) == 0


def divide(a: AnyReal, b: AnyReal) -> AnyReal | None:
    """Return the quotient of two numbers; None where the second may not be positive."""
    if isinstance(b, SymbolicFloat) and isinstance(b.size, int) and b.size > 0 and b.factor == 1.0:
        inverse = _made(b.divisor, b.size) if _is_power_of_two(b.divisor) else None
        return None if inverse is None else multiply(a, inverse)
    if not isinstance(b, int) or b <= 0:
        return None
    a = a if isinstance(a, SymbolicFloat) else SymbolicFloat(a)
    return _made(a.size, a.divisor * b) if a.factor == 1.0 else None


def add(a: AnyReal, b: AnyReal, sign: int = 1) -> AnyReal | None:
    """Return the sum or difference of two numbers; None where rounding on the way may matter."""
    if isinstance(a, (int, Size)) and isinstance(b, (int, Size)):
        return a + b * sign
    a, b = (n if isinstance(n, SymbolicFloat) else SymbolicFloat(n) for n in (a, b))
    is_exact = 1 in (a.divisor, b.divisor) or all(_is_power_of_two(n.divisor) for n in (a, b))
    if (a.factor, b.factor) != (1.0, 1.0) or not is_exact:
        return None
    return _made(a.size * b.divisor + b.size * a.divisor * sign, a.divisor * b.divisor)


def rounded(number: AnyReal, *, up: bool = False) -> AnySize | None:
    """Round down, or up; None where the number may be negative."""
    if not isinstance(number, SymbolicFloat):
        return number
    if symbolic.is_less(number.size, 0) is not False:
        return None
    if number.factor != 1.0:
        return None if up else symbolic.scaled(number.size, number.factor)
    return (symbolic.rounded_up if up else symbolic.dimension)(number.size, number.divisor)


def _made(size: AnySize, divisor: int) -> AnyReal | None:
    exact = symbolic.divide(size, divisor) if divisor else None
    if isinstance(size, int):
        fraction = Fraction(size, divisor)
        size, divisor = fraction.numerator, fraction.denominator
        exact = size if divisor == 1 else None
    elif exact is not None and exact * divisor != size:
        exact = None
    return exact if exact is not None else SymbolicFloat(size, divisor) if divisor < LARGEST_EXACT else None
