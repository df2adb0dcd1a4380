"""Polynomials over symbolic dimensions: sizes and costs while a dimension such as ``batch`` is unknown."""

from __future__ import annotations

import math
import operator
import re
import struct
from collections.abc import Callable, Iterable, Mapping

_LONGEST = 200  # longest formula that is parsed
_FUNCTIONS: Mapping[str, Callable[[int, int], int]] = {
    "div(": operator.floordiv,
    "mod(": operator.mod,
    "max(": max,
    "min(": min,
}
_LARGEST_FACTOR = 1e30
_FORMULA = re.compile(r"[*]| [-+] |(div|mod|max|min|floor)\(|^-")
_MOST_TERMS = 64  # longer formulas are not useful to read


class Polynomial:
    """An immutable polynomial with integer coefficients, such as ``3·batch·seq + 12``."""

    __slots__ = ("_terms",)

    def __init__(self, content: int | str | Mapping[tuple[str, ...], int] = 0) -> None:
        if isinstance(content, Mapping):
            terms = dict(content)
        else:
            terms = {(content,): 1} if isinstance(content, str) else {(): content}
        self._terms = {symbols: factor for symbols, factor in terms.items() if factor}

    @property
    def terms(self) -> Mapping[tuple[str, ...], int]:
        """Coefficients by products of symbols; the empty product is the constant."""
        return self._terms

    @property
    def constant(self) -> int | None:
        """The number it is, None when it depends on a symbol."""
        if not self._terms:
            return 0
        return self._terms[()] if set(self._terms) == {()} else None

    @property
    def symbols(self) -> frozenset[str]:
        """The symbols it depends on."""
        return frozenset(name for symbols in self._terms for name in symbols)

    def __add__(self, other: Polynomial | int) -> Polynomial:
        if isinstance(other, int):
            other = Polynomial(other)
        terms = dict(self._terms)
        other.add_to(terms)
        return Polynomial(terms)

    __radd__ = __add__

    def __mul__(self, other: Polynomial | int) -> Polynomial:
        if isinstance(other, int):
            return Polynomial({symbols: factor * other for symbols, factor in self._terms.items()})
        terms: dict[tuple[str, ...], int] = {}
        for mine, a in self._terms.items():
            for theirs, b in other._terms.items():
                symbols = tuple(sorted((*mine, *theirs)))
                terms[symbols] = terms.get(symbols, 0) + a * b
        return Polynomial(terms)

    __rmul__ = __mul__

    def add_to(self, terms: dict[tuple[str, ...], int]) -> None:
        """Add it to a running sum. Linear in its own length, not that of the sum."""
        for symbols, factor in self._terms.items():
            terms[symbols] = terms.get(symbols, 0) + factor

    def bind(self, values: Mapping[str, int]) -> Polynomial:
        """Substitute numbers for some symbols."""
        terms: dict[tuple[str, ...], int] = {}
        for symbols, factor in self._terms.items():
            for name in symbols:
                factor *= values.get(name, 1)
            kept = tuple(name for name in symbols if name not in values)
            terms[kept] = terms.get(kept, 0) + factor
        return Polynomial(terms)

    @property
    def is_too_long(self) -> bool:
        """Whether it has too many terms to be readable."""
        return len(self._terms) > _MOST_TERMS

    def __eq__(self, other: object) -> bool:
        if isinstance(other, int):
            other = Polynomial(other)
        return isinstance(other, Polynomial) and self._terms == other._terms

    def __hash__(self) -> int:
        return hash(frozenset(self._terms.items()))

    def __str__(self) -> str:
        if not self._terms:
            return "0"
        parts = []
        for symbols, factor in sorted(self._terms.items(), key=lambda t: (-len(t[0]), t[0])):
            text = "·".join(_powers(symbols))
            parts.append(f"{factor:,}" if not symbols else text if factor == 1 else f"{factor:,}·{text}")
        return " + ".join(parts).replace("+ -", "− ")

    def __repr__(self) -> str:
        return f"<Polynomial {self}>"


def _powers(symbols: tuple[str, ...]) -> Iterable[str]:
    for name in dict.fromkeys(symbols):
        count = symbols.count(name)
        yield name if count == 1 else f"{name}^{count}"


def is_name(text: str) -> bool:
    """Return whether a dimension is a plain symbol, and no formula such as ``min(512, seq)``."""
    return not _FORMULA.search(text)


def parse(text: str, values: Mapping[str, int] | None = None) -> Polynomial:
    """Parse a symbol or formula, such as ``4*batch`` or ``div(T - 1, 2) + 1``, with some symbols as numbers.

    Only the forms that shape inference writes are parsed; anything else is a symbol.
    """
    bound = values or {}
    if text in bound:
        return Polynomial(bound[text])
    if len(text) > _LONGEST or not _FORMULA.search(text):
        return Polynomial(text)
    try:
        reader = _Reader(text, bound)
        result = reader.sum()
    except (ValueError, RecursionError):
        return Polynomial(text)
    return result if reader.is_done else Polynomial(text)


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

    def sum(self) -> Polynomial:
        """Parse terms with plus and minus between them."""
        result = self._term()
        while self._next() in (" + ", " - "):
            sign = 1 if self._take() == " + " else -1
            result = result + self._term() * sign
        return result

    def _term(self) -> Polynomial:
        result = self._factor()
        while self._next() == "*":
            self._take()
            result = result * self._factor()
        return result

    def _factor(self) -> Polynomial:
        part = self._take()
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
            return Polynomial(int(part))
        sign, name = (-1, part[1:]) if part.startswith("-") else (1, part)
        return Polynomial(self._values.get(name, name)) * sign

    def _grouped(self) -> Polynomial:
        result = self.sum()
        self._expect(")")
        return result

    def _floor(self) -> Polynomial:
        factor = float(self._take())
        self._expect("*")
        size = self._factor()
        self._expect(")")
        if not 0 < factor < _LARGEST_FACTOR:
            raise ValueError("no factor")
        if size.constant is not None:
            return Polynomial(floor_of_product(factor, size.constant))
        return Polynomial(floor_text(factor, _plain(size)))

    def _expect(self, part: str) -> None:
        if self._take() != part:
            raise ValueError(f"no {part}")

    def _call(self, function: str) -> Polynomial:
        a = self.sum()
        self._expect(", ")
        b = self.sum()
        self._expect(")")
        if a.constant is not None and b.constant is not None and (b.constant or function not in ("div(", "mod(")):
            return Polynomial(_FUNCTIONS[function](a.constant, b.constant))
        return Polynomial(f"{function}{_plain(a)}, {_plain(b)})")

    def _next(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take(self) -> str:
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


def _plain(amount: Polynomial) -> str:
    return ungrouped(amount).replace("·", "*").replace("−", "-")


def ungrouped(amount: Polynomial | int | str) -> str:
    """Format an amount without thousands separators; commas in ``div(T, 2)`` stay."""
    return re.sub(r"(?<=\d),(?=\d)", "", str(amount))
