"""Arithmetic on symbolic dimensions: polynomials in canonical form, so that equal sizes compare equal.

A size is a Python int where known, else a Size. Symbols of dimensions are never negative; symbols of other integers
begin with ``!``.
"""

from __future__ import annotations

import hashlib
import math
import operator
import re
import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import gcd, inf

_LONGEST = 200  # longest formula that is parsed
_FUNCTIONS: Mapping[str, Callable[[int, int], int]] = {
    "div(": operator.floordiv,
    "mod(": operator.mod,
    "max(": max,
    "min(": min,
}
_FORMULA = re.compile(r"[*]| [-+] |(div|mod|max|min|floor)\(|^-")

Monomial = tuple[str, ...]  # sorted symbols, repeated for powers; empty for the constant term

_LONGEST_FORMULA = 120
_MOST_TERMS, _MOST_FACTORS = 32, 32  # beyond these a size becomes a symbol
_LONGEST_SYMBOL = 1000  # maximum number of characters; operations on symbols double them
_LARGEST_FACTOR = 1e30
_LARGEST_DIMENSION = 1 << 24  # of a single axis: larger counts need not fit 32 bits
_LARGEST_INT32 = (1 << 31) - 1
_EXACT_DIVISOR = 1024  # factors with such divisors do not round sizes of any possible tensor


@dataclass(frozen=True, slots=True)
class Size:
    """A sum of products of symbols; `terms` are sorted and never zero."""

    terms: tuple[tuple[Monomial, int], ...]

    def __add__(self, other: AnySize) -> AnySize:
        total = dict(self.terms)
        for monomial, factor in _terms(other):
            total[monomial] = total.get(monomial, 0) + factor
        return _made(total)

    __radd__ = __add__

    def __neg__(self) -> AnySize:
        return self * -1

    def __sub__(self, other: AnySize) -> AnySize:
        return self + other * -1

    def __rsub__(self, other: AnySize) -> AnySize:
        return self * -1 + other

    def __mul__(self, other: AnySize) -> AnySize:
        total: dict[Monomial, int] = {}
        for a, x in self.terms:
            for b, y in _terms(other):
                monomial = tuple(sorted(a + b))
                total[monomial] = total.get(monomial, 0) + x * y
        return _made(total)

    __rmul__ = __mul__

    @property
    def symbols(self) -> frozenset[str]:
        """The symbols it depends on."""
        return frozenset(name for monomial, _ in self.terms for name in monomial)

    def bind(self, values: Mapping[str, int]) -> AnySize:
        """Substitute numbers for some symbols."""
        terms: dict[Monomial, int] = {}
        for monomial, factor in self.terms:
            left = tuple(name for name in monomial if name not in values)
            number = math.prod(values[name] for name in monomial if name in values)
            terms[left] = terms.get(left, 0) + factor * number
        return of_terms(terms)

    def __str__(self) -> str:
        terms = list(reversed(self.terms))
        terms.sort(key=lambda term: term[1] < 0)
        parts = [_term_text(monomial, factor) for monomial, factor in terms]
        return " + ".join(parts).replace("+ -", "- ")


AnySize = int | Size


def _term_text(monomial: Monomial, factor: int) -> str:
    if not monomial:
        return str(factor)
    names = "*".join(monomial)
    return names if factor == 1 else f"-{names}" if factor == -1 else f"{factor}*{names}"


def symbol(name: str) -> Size:
    """Return the size of a symbol; a very long one gets a short unique name."""
    if len(name) > _LONGEST_SYMBOL:
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
        name = f"{'!' if name.startswith('!') else ''}long?{digest}"
    return Size((((name,), 1),))


def divide(a: AnySize, b: AnySize) -> AnySize | None:
    """Divide, rounding towards zero; a new symbol where it is not exact; None for division by zero."""
    if isinstance(a, int) and isinstance(b, int):
        return None if b == 0 else (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)
    exact = _divided_evenly(a, b)
    if exact is not None:
        return exact
    lowest = least(a)
    if isinstance(b, int) and lowest is not None and -b < lowest < 0:
        return symbol(f"max(div({a}, {b}), 0)")  # 0 / 2 and -1 / 2 are both 0
    return _opaque("div", a, b, is_positive=_is_never_above(0, a) and _is_never_above(0, b))


def _divided_evenly(a: AnySize, b: AnySize) -> AnySize | None:
    """Return the exact quotient; None where there is none, or b may be 0."""
    divisor = list(_terms(b))
    if len(divisor) < 2:
        return _exact(a, *divisor[0]) if divisor else None
    names = sorted({name for monomial, _ in (*_terms(a), *divisor) for name in monomial})

    def rank(term: tuple[Monomial, int]) -> list[int]:
        return [term[0].count(name) for name in names]

    result: AnySize = 0
    for _ in range(_MOST_TERMS):
        if a == 0:
            return result
        first = _exact(_made(dict([max(_terms(a), key=rank)])), *max(divisor, key=rank))
        if first is None:
            return None
        result, a = result + first, a - first * b
    return None


def _exact(a: AnySize, monomial: Monomial, factor: int) -> AnySize | None:
    result: dict[Monomial, int] = {}
    for own, count in _terms(a):
        left = list(own)
        for name in monomial:
            if name not in left:
                return None
            left.remove(name)
        if count % factor:
            return None
        result[tuple(left)] = count // factor
    return _made(result)


def quotient(a: AnySize, b: AnySize) -> Size:
    """Return a dimension that is known to be an exact quotient, although its terms do not show it."""
    return symbol(f"div({a}, {b})")


def dimension(numerator: AnySize, divisor: int) -> AnySize | None:
    """Return numerator / divisor rounded down, known to be non-negative."""
    if isinstance(numerator, int):
        return numerator // divisor if divisor > 0 else None
    exact = _exact(numerator, (), divisor) if divisor else None
    if exact is not None or divisor <= 0:
        return exact
    return symbol(f"div({numerator}, {divisor})")


def rounded_up(numerator: AnySize, divisor: int) -> AnySize | None:
    """Return numerator / divisor rounded up, known to be non-negative."""
    return dimension(numerator + (divisor - 1), divisor)


def scaled(size: AnySize, factor: float) -> AnySize | None:
    """Multiply a dimension by a 32-bit factor, rounded down, as Resize does; None where that is no size."""
    if not 0 < factor < _LARGEST_FACTOR:
        return None
    above, below = factor.as_integer_ratio()
    if below <= _EXACT_DIVISOR:
        return dimension(size * above, below)
    return floor_of_product(factor, size) if isinstance(size, int) else symbol(floor_text(factor, str(size)))


def sliced(size: int, start: int, end: int, step: int) -> range:
    """Return the range that a Slice takes; unlike Python it clamps a start before the first element.

    ValueError for a step of 0.
    """
    if step < 0 and start < -size:
        start = 0 if size else -1
    return range(*slice(start, end, step).indices(size))


def undecided(operation: str, *operands: AnySize | str) -> Size:
    """Return a symbol for an unresolved operation: equal for equal operations."""
    return symbol(f"{operation}?({', '.join(map(str, operands))})")


def is_at_most(part: AnySize, whole: AnySize) -> bool:
    """Return whether `part` is `whole` or, if that is larger, a number from 1 on."""
    limit, comma, rest = str(part).removeprefix("min(").partition(", ")
    return bool(comma) and limit.isdecimal() and int(limit) > 0 and rest == f"{whole})"


def formula(size: AnySize) -> str | None:
    """Format in the file's symbols, such as ``4*batch + 1``.

    None where it has others, or divides something possibly negative: formulas round down and ONNX towards zero.
    """
    text = str(size).replace("!", "") if not re.search(r"\?|!\d|!div", str(size)) else ""
    return text if text and len(text) <= _LONGEST_FORMULA else None


def remainder(a: AnySize, b: AnySize) -> AnySize | None:
    """Return a modulo b with the sign of b, as the operator Mod; None for division by zero."""
    if isinstance(a, int) and isinstance(b, int):
        return None if b == 0 else a % b
    divisor = list(_terms(b))
    if len(divisor) == 1 and _exact(a, *divisor[0]) is not None:
        return 0
    return _opaque("mod", a, b, is_positive=_is_never_above(0, b))


def signed_remainder(a: AnySize, b: AnySize) -> AnySize | None:
    """Return a modulo b with the sign of a, as Mod with fmod; None where either may be negative."""
    if isinstance(a, int) and isinstance(b, int):
        return None if b == 0 else abs(a) % abs(b) * (-1 if a < 0 else 1)
    return remainder(a, b) if _is_never_above(0, a) and _is_never_above(0, b) else None


def extreme(a: AnySize, b: AnySize, *, largest: bool) -> AnySize:
    """Return the larger or smaller of two sizes."""
    if _is_never_above(a, b):
        return b if largest else a
    if _is_never_above(b, a):
        return a if largest else b
    is_positive = (any if largest else all)(_is_never_above(0, size) for size in (a, b))
    first, second = sorted((a, b), key=lambda size: (isinstance(size, int) is largest, str(size)))
    return _opaque("max" if largest else "min", first, second, is_positive=is_positive)


def _is_never_above(a: AnySize, b: AnySize) -> bool:
    return is_never_negative(b - a)


def is_equal(a: AnySize, b: AnySize) -> bool | None:
    """Return whether two sizes are equal; None where that depends on the symbols."""
    difference = a - b
    if isinstance(difference, int):
        return difference == 0
    lowest = least(difference)
    highest = least(-difference)
    if (lowest is not None and lowest > 0) or (highest is not None and highest > 0):
        return False
    constant = sum(factor for monomial, factor in difference.terms if not monomial)
    step = gcd(*(factor for monomial, factor in difference.terms if monomial))
    return False if constant % step else None  # an even number is never an odd one


def is_less(a: AnySize, b: AnySize) -> bool | None:
    """Return whether a < b; None where that depends on the symbols."""
    difference = b - a
    if isinstance(difference, int):
        return difference > 0
    lowest = least(difference)
    if lowest is not None and lowest > 0:
        return True
    highest = least(-difference)
    return False if highest is not None and highest >= 0 else None


def is_never_negative(size: AnySize) -> bool:
    """Return whether a size is at least 0 whatever its symbols stand for."""
    lowest = least(size)
    return lowest is not None and lowest >= 0


def least(size: AnySize) -> int | None:
    """Return a lower bound, as no dimension is negative; None when there is none."""
    constant = 0
    for monomial, factor in _terms(size):
        if not monomial:
            constant = factor
        elif factor < 0 or any(name.startswith("!") for name in monomial):
            return None
    return constant


def bound(size: AnySize) -> int:
    """Return an upper bound of the magnitude of a size, as long as no dimension is larger than 2**24."""
    total = 0
    for monomial, factor in _terms(size):
        largest = abs(factor)
        for name in monomial:
            largest *= _LARGEST_INT32 if name.startswith("!") else _LARGEST_DIMENSION ** (1 + name.count("*"))
        total += largest
    return total


def may_vanish(size: AnySize, given: Collection[str] = ()) -> bool:
    """Return whether it may be 0 although plain dimensions and the symbols `given` are not: rounded-down quotients
    may.
    """
    return not isinstance(size, int) and _least_of_some(size, given) < 1


def _least_of_some(size: AnySize, given: Collection[str]) -> float:
    constant = 0.0
    for monomial, factor in _terms(size):
        if not monomial or (factor > 0 and all(_is_some(name, given) for name in monomial)):
            constant += factor
        elif factor < 0:
            return -inf
    return constant


def _is_some(name: str, given: Collection[str]) -> bool:
    if name in given or not name.startswith(("div(", "mod(", "floor(")):
        return True
    parts = _quotient_parts(name)
    return parts is not None and _least_of_some(read(parts[0]), given) >= parts[1]


def product(sizes: Iterator[AnySize] | tuple[AnySize, ...]) -> AnySize:
    """Return the number of elements of a shape."""
    total: AnySize = 1
    for size in sizes:
        total = total * size
    return total


def _terms(size: AnySize) -> tuple[tuple[Monomial, int], ...]:
    if isinstance(size, Size):
        return size.terms
    return (((), int(size)),) if size else ()


def of_terms(terms: Mapping[Monomial, int]) -> AnySize:
    """Return the sum of terms, however many there are."""
    kept = tuple(sorted((m, n) for m, n in terms.items() if n))
    if not kept:
        return 0
    return kept[0][1] if len(kept) == 1 and not kept[0][0] else Size(kept)


def add_to(size: AnySize, terms: dict[Monomial, int]) -> None:
    """Add a size to a running sum. Linear in its own length, not that of the sum."""
    for monomial, factor in _terms(size):
        terms[monomial] = terms.get(monomial, 0) + factor


def _made(terms: dict[Monomial, int]) -> AnySize:
    size = of_terms(terms)
    if isinstance(size, int):
        return size
    is_large = len(size.terms) > _MOST_TERMS or any(len(monomial) > _MOST_FACTORS for monomial, _ in size.terms)
    return symbol(f"!sum({size})") if is_large else size


def is_too_long(size: AnySize) -> bool:
    """Return whether a size exceeds the limit of terms, so that a symbol must replace it."""
    return isinstance(size, Size) and any(name.startswith(("!sum(", "!long?")) for name in size.symbols)


def _opaque(operation: str, a: AnySize, b: AnySize, *, is_positive: bool) -> Size:
    return symbol(f"{'' if is_positive else '!'}{operation}({a}, {b})")


# -- texts --------------------------------------------------------------------------------------------------------


def is_name(text: str) -> bool:
    """Return whether a dimension is a plain symbol, and no formula such as ``min(512, seq)``."""
    return not _FORMULA.search(text)


def parse(text: str, values: Mapping[str, int] | None = None) -> AnySize:
    """Parse a symbol or formula, such as ``4*batch`` or ``div(T - 1, 2) + 1``, with some symbols as numbers.

    Only the forms that shape inference writes are parsed; anything else is a symbol.
    """
    bound = values or {}
    if text in bound:
        return bound[text]
    if len(text) > _LONGEST or not _FORMULA.search(text):
        return symbol(text)
    try:
        reader = _Reader(text, bound)
        result = reader.sum()
    except (ValueError, RecursionError):
        return symbol(text)
    return result if reader.is_done else symbol(text)


def read(text: str) -> AnySize:
    """Parse a dimension's symbol or formula; one that may be negative by its terms becomes one symbol."""
    size = parse(text)
    return size if least(size) is not None else symbol(f"({text})")


def readable(size: AnySize) -> str:
    """Format for people: ``2,000·batch·seq + 12``, longer products first."""
    if isinstance(size, int):
        return f"{size:,}"
    parts = []
    for monomial, factor in sorted(size.terms, key=lambda term: (-len(term[0]), term[0])):
        text = "·".join(_powers(monomial))
        parts.append(f"{factor:,}" if not monomial else text if factor == 1 else f"{factor:,}·{text}")
    return " + ".join(parts).replace("+ -", "− ")


def ungrouped(amount: AnySize | str) -> str:
    """Format an amount without thousands separators; commas in ``div(T, 2)`` stay."""
    return re.sub(r"(?<=\d),(?=\d)", "", amount if isinstance(amount, str) else readable(amount))


def condensed(text: str) -> str:
    """Shorten a formula for a label: quotients by numbers simplified, no spaces; rounded down as in Python, up as ⌈ ⌉.

    ``div(div(H - 2, 2) - 1, 2) + 1`` is ``H//4``, ``div(H + 1, 2)`` is ``⌈H/2⌉``.
    """
    return _condensed_text(_simplified(parse(text)))


def _quotient_parts(name: str) -> tuple[str, int] | None:
    """Return the numerator and the divisor of ``div(T - 1, 2)``."""
    above, _, below = name.removeprefix("div(").removesuffix(")").rpartition(", ")
    return (above, int(below)) if name.startswith("div(") and below.isdecimal() and int(below) else None


def _simplified(size: AnySize) -> AnySize:
    total: AnySize = 0
    for monomial, factor in _terms(size):
        product: AnySize = factor
        for name in monomial:
            parts = _quotient_parts(name)
            product = product * (
                symbol(name) if parts is None else _rounded_down(_simplified(parse(parts[0])), parts[1])
            )
        total = total + product
    return total


def _rounded_down(numerator: AnySize, divisor: int) -> AnySize:
    """Return a quotient with all multiples of the divisor outside of it, and a quotient in it worked in."""
    whole: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for monomial, factor in _terms(numerator):
        is_multiple = factor % divisor == 0
        whole[monomial] = factor // divisor if is_multiple or not monomial else 0
        rest[monomial] = 0 if is_multiple else factor if monomial else factor % divisor
    constant = rest.pop((), 0)
    left = of_terms(rest)
    if left == 0:
        return of_terms(whole)
    inner = (
        _quotient_parts(left.terms[0][0][0]) if isinstance(left, Size) and str(left) == left.terms[0][0][0] else None
    )
    if inner is not None:
        return of_terms(whole) + _rounded_down(parse(inner[0]) + constant * inner[1], inner[1] * divisor)
    return of_terms(whole) + quotient(left + constant, divisor)


def _condensed_text(size: AnySize) -> str:
    if isinstance(size, int):
        return str(size)
    terms = list(reversed(size.terms))
    terms.sort(key=lambda term: term[1] < 0)
    parts = []
    for monomial, factor in terms:
        names = [_condensed_name(name) for name in monomial]
        if len(names) > 1 or factor not in (1, -1):
            names = [f"({name})" if "//" in name else name for name in names]
        numbers = [str(factor)] if not monomial or factor not in (1, -1) else []
        parts.append(("-" if monomial and factor == -1 else "") + "*".join(numbers + names))
    return "+".join(parts).replace("+-", "-")


def _condensed_name(name: str) -> str:
    parts = _quotient_parts(name)
    if parts is None:
        return name
    numerator, divisor = parse(parts[0]), parts[1]
    if divisor > 1 and isinstance(numerator, Size) and dict(numerator.terms).get((), 0) == divisor - 1:
        rest = _condensed_text(numerator - (divisor - 1))
        return f"⌈({rest})/{divisor}⌉" if any(sign in rest for sign in "+-*") else f"⌈{rest}/{divisor}⌉"
    above = _condensed_text(numerator)
    return f"{above if is_name(parts[0]) else f'({above})'}//{parts[1]}"


def _powers(monomial: Monomial) -> Iterable[str]:
    for name in dict.fromkeys(monomial):
        count = monomial.count(name)
        yield name if count == 1 else f"{name}^{count}"


class _Reader:
    """Recursive-descent parser of formulas; ValueError on a syntax error."""

    def __init__(self, text: str, values: Mapping[str, int]) -> None:
        self._tokens = [t for t in re.split(r"( \+ | - |\*|div\(|mod\(|max\(|min\(|floor\(|, |\)|\()", text) if t]
        self._values = values
        self._at = 0

    @property
    def is_done(self) -> bool:
        """Whether everything was read."""
        return self._at == len(self._tokens)

    def sum(self) -> AnySize:
        """Parse terms with plus and minus between them."""
        result = self._term()
        while self._next() in (" + ", " - "):
            sign = 1 if self._next_token() == " + " else -1
            result = result + self._term() * sign
        return result

    def _term(self) -> AnySize:
        result = self._factor()
        while self._next() == "*":
            self._next_token()
            result = result * self._factor()
        return result

    def _factor(self) -> AnySize:
        part = self._next_token()
        if part in _FUNCTIONS:
            return self._call(part)
        if part == "floor(":
            return self._floor()
        if part == "(":
            return self._grouped()
        if part == "-":
            return self._factor() * -1
        if part in (")", "*", ", ", " + ", " - "):
            raise ValueError(part)
        if part.lstrip("-").isdecimal() and len(part) < 20:
            return int(part)
        sign, name = (-1, part[1:]) if part.startswith("-") else (1, part)
        return (self._values[name] if name in self._values else symbol(name)) * sign

    def _grouped(self) -> AnySize:
        result = self.sum()
        self._expect(")")
        return result

    def _floor(self) -> AnySize:
        factor = float(self._next_token())
        self._expect("*")
        size = self._factor()
        self._expect(")")
        if not 0 < factor < _LARGEST_FACTOR:
            raise ValueError("no factor")
        if isinstance(size, int):
            return floor_of_product(factor, size)
        return symbol(floor_text(factor, str(size)))

    def _expect(self, part: str) -> None:
        if self._next_token() != part:
            raise ValueError(f"no {part}")

    def _call(self, function: str) -> AnySize:
        a = self.sum()
        self._expect(", ")
        b = self.sum()
        self._expect(")")
        if isinstance(a, int) and isinstance(b, int) and (b or function not in ("div(", "mod(")):
            return _FUNCTIONS[function](a, b)
        return symbol(f"{function}{a}, {b})")

    def _next(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next_token(self) -> str:
        if self.is_done:
            raise ValueError("it ends early")
        self._at += 1
        return self._tokens[self._at - 1]


def floor_of_product(factor: float, size: int) -> int:
    """Multiply a factor and a size, rounded to 32 bits and then down, as runtimes compute it."""
    product = factor * size
    return math.floor(_of_32_bits(product) if abs(product) < 1 << 63 else product)


def floor_text(factor: float, size: str) -> str:
    """Return the formula of that product, ``floor(0.6*T)``, with the fewest digits that identify the factor."""
    texts = (f"{factor:.{digits}g}" for digits in (6, 7, 8, 9, 17))
    digits = next(text for text in texts if _of_32_bits(float(text)) == _of_32_bits(factor))
    return f"floor({digits}*({size}))" if re.search(r"[*( ]|^-", size) else f"floor({digits}*{size})"


def _of_32_bits(number: float) -> float:
    return float(struct.unpack("<f", struct.pack("<f", number))[0])
