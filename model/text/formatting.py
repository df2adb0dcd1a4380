"""Formatting of shapes, types, numbers and texts from files, used everywhere in the program. No Qt."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, log10
from typing import TYPE_CHECKING, Literal

from onnx_workbench.model.ir.types import (
    MapType,
    OpaqueType,
    OptionalType,
    SequenceType,
    Shape,
    SparseTensorType,
    TensorType,
    element_type_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from onnx_workbench.model.ir.types import Dimension, Type

_NAMED_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
_DEEPEST_TYPE = 6
_MOST_DIMENSIONS = 24
_PLURAL_ENDING = "s"  # translated to nothing where nouns have no plural


def display(
    text: str, limit: int = 200, *, elide: Literal["middle", "end"] = "middle", keep_lines: bool = False
) -> str:
    """Make a text from a file safe for a label: at most `limit` characters, nothing invisible in it.

    Control, bidirectional and other unprintable characters become escapes such as ``\\\\u202e``, so that a name cannot
    hide or reorder adjacent text. `keep_lines` keeps line breaks and tabs, for documentation. Linear in `limit`, not in
    the length of the text.
    """
    if len(text) > limit:
        head = limit - 1 if elide == "end" else limit // 2
        tail = limit - 1 - head
        text = f"{text[:head]}…{text[len(text) - tail :]}" if tail else f"{text[:head]}…"
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or (keep_lines and c in "\n\t") else _escape(c) for c in text)


def _escape(character: str) -> str:
    named = _NAMED_ESCAPES.get(character)
    if named is not None:
        return named
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that was not UTF-8, kept by surrogateescape
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def dimension_text(dimension: Dimension) -> str:
    """Format a dimension: a number, a symbol, or ``?`` if unknown."""
    if dimension is None or dimension == "":
        return "?"
    return display(dimension, 40) if isinstance(dimension, str) else str(dimension)


def shape_text(
    shape: Shape | Iterable[Dimension] | None, dimension: Callable[[Dimension], str] = dimension_text
) -> str:
    """Format a shape as ``1×3×224×224``, ``[3]`` for a single dimension, which would look like a value; ``scalar`` for
    rank 0; the first of very many dimensions with their number.

    Empty for an unknown rank.
    """
    if shape is None:
        return ""
    dims = shape.dims if isinstance(shape, Shape) else tuple(shape)
    text = "×".join(dimension(d) for d in dims[:_MOST_DIMENSIONS]) if dims else "scalar"
    if len(dims) > _MOST_DIMENSIONS:
        text += f"×… ({len(dims):,} dimensions)"
    return f"[{text}]" if len(dims) == 1 else text


def type_text(type: Type | None, dimension: Callable[[Dimension], str] = dimension_text) -> str:
    """Format a type as ``float 1×3×224×224`` or ``seq(int64 N)``; ``?`` if it is not declared."""
    return _type_text(type, dimension, 0)


def _type_text(type_: Type | None, dimension: Callable[[Dimension], str], depth: int) -> str:
    if type_ is None:
        return "?"
    if depth > _DEEPEST_TYPE:
        return "…"
    match type_:
        case TensorType():
            return f"{element_type_text(type_.element_type)} {shape_text(type_.shape, dimension)}".rstrip()
        case SparseTensorType():
            return f"sparse {element_type_text(type_.element_type)} {shape_text(type_.shape, dimension)}".rstrip()
        case SequenceType():
            return f"seq({_type_text(type_.element, dimension, depth + 1)})"
        case MapType():
            return f"map({element_type_text(type_.key_type)}, {_type_text(type_.value, dimension, depth + 1)})"
        case OptionalType():
            return f"optional({_type_text(type_.element, dimension, depth + 1)})"
        case OpaqueType():
            return f"opaque({display(type_.domain, 60)}.{display(type_.name, 60)})"


def bytes_text(count: int) -> str:
    """Format a size in bytes with three digits: ``512 B``, ``1.93 GB`` (powers of 1000, as file managers count)."""
    return f"{count} B" if abs(count) < 1000 else _scaled(count, ("kB", "MB", "GB", "TB", "PB"))


def count_text(count: int) -> str:
    """Format a count with three digits: ``812``, ``25.6 M``."""
    return number_text(count) if abs(count) < 10_000 else _scaled(count, ("k", "M", "G", "T", "P"))


def _scaled(count: int, units: Sequence[str]) -> str:
    """Format a number with three digits in the first of some units, a thousand times the one before, that it fits."""
    size, power = count / 1000, 0
    while abs(size) >= 999.5 and power < len(units) - 1:
        size, power = size / 1000, power + 1
    return f"{size:.{_decimals(size)}f} {units[power]}"


def _decimals(size: float) -> int:
    return 2 if abs(size) < 9.995 else 1 if abs(size) < 99.95 else 0


def number_text(number: float, digits: int = 6) -> str:
    """Format a number: integers grouped by thousands, floats with `digits` significant digits.

    Infinity in letters: its sign looks like that of equality in a small font.
    """
    if isinstance(number, int):
        return f"{number:,}"
    if number != number:  # NaN, without importing math for it
        return "NaN"
    if number in (float("inf"), float("-inf")):
        return "inf" if number > 0 else "−inf"
    return f"{number:.{digits}g}"


def digits_apart(low: float, high: float, least: int) -> int:
    """Return the number of significant digits, at least `least`, that distinguish numbers in a range."""
    half = high / 2 - low / 2
    shared = max(abs(low), abs(high)) / 2 / half if half > 0 else 0.0
    return least + (min(floor(log10(shared)), 14) if shared > 1 else 0)


def plural(count: int, noun: str, nouns: str | None = None) -> str:
    """Format a count with its noun: ``1 node``, ``1,204 nodes``."""
    return f"{number_text(count)} {noun if count == 1 else nouns or noun + _PLURAL_ENDING}"


def left_out_text(names: Sequence[str]) -> str:
    """Describe what is in no part of a model."""
    listed = display(", ".join(names), 300, elide="end")
    return f"In neither part, because no computed value uses it: {listed}"


def duration_text(seconds: float) -> str:
    """Format a duration with three digits: ``340 µs``, ``12.3 ms``, ``2 min 5 s``."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 1:
        return f"{seconds * 1e3:.3g} ms"
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"
