"""Text form of attribute values: ``1, 3, 3``, ``[0.5, inf]``, ``"SAME_UPPER"``, ``float[N,3]``."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.attributes import Attribute, AttributeKind, make_attribute, round_float
from onnx_workbench.model.text.types import parse_type, type_source

_INT = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]+|[0-9](?:_?[0-9])*)")
_MOST_DIGITS = 400
_TEXT_KINDS = frozenset({
    AttributeKind.FLOAT, AttributeKind.INT, AttributeKind.STRING, AttributeKind.FLOATS, AttributeKind.INTS,
    AttributeKind.STRINGS, AttributeKind.TYPE_PROTO, AttributeKind.TYPE_PROTOS,
})  # fmt: skip


def has_text(kind: AttributeKind) -> bool:
    """Return whether values of a kind have a text form; tensors and graphs have none."""
    return kind in _TEXT_KINDS


def attribute_source(attribute: Attribute, limit: int | None = None, separator: str = ", ") -> str:
    """Format a value so that `parse_attribute` reads it back. `limit` truncates lists, ending in ``…``."""
    value: Any = attribute.value
    if value is None:
        return ""
    match attribute.kind:
        case AttributeKind.STRINGS:
            texts = [json.dumps(v, ensure_ascii=False) for v in (value if limit is None else value[:limit])]
        case AttributeKind.INTS | AttributeKind.FLOATS:
            element = attribute.kind.element
            texts = [number_source(v, element) for v in (value if limit is None else value[:limit])]
        case AttributeKind.TYPE_PROTOS:
            texts = [type_source(v) for v in (value if limit is None else value[:limit])]
        case AttributeKind.TYPE_PROTO:
            return type_source(value)
        case AttributeKind.STRING:
            return str(value)
        case AttributeKind.INT | AttributeKind.FLOAT:
            return number_source(value, attribute.kind)
        case _:
            return ""
    more = ", …" if limit is not None and len(value) > limit else ""
    return separator.join(texts) + more


def number_source(number: float, kind: AttributeKind) -> str:
    """Format an int or float attribute; floats as the shortest text of their 32 bits, with a point or exponent."""
    if kind is AttributeKind.INT:
        return str(number)
    if number != number or number in (float("inf"), float("-inf")):
        return str(number)
    exact = round_float(number)
    for digits in range(6, 10):
        text = f"{number:.{digits}g}"
        try:
            if round_float(float(text)) == exact:
                break
        except ValueError:  # rounded up beyond the largest
            continue
    return text if re.search(r"[.e]", text) else f"{text}.0"


def parse_attribute(text: str, kind: AttributeKind) -> Any:
    """Parse an attribute value of a kind; ModelError on malformed text.

    Lists are comma-separated, their brackets optional; strings in lists may be quoted.
    """
    match kind:
        case AttributeKind.INT:
            return parse_int(text)
        case AttributeKind.FLOAT:
            return parse_float(text)
        case AttributeKind.STRING:
            return text
        case AttributeKind.INTS:
            return tuple(parse_int(part) for part in _parts(text))
        case AttributeKind.FLOATS:
            return tuple(parse_float(part) for part in _parts(text))
        case AttributeKind.STRINGS:
            return tuple(_strings(text))
        case AttributeKind.TYPE_PROTO:
            return parse_type(text)
        case AttributeKind.TYPE_PROTOS:
            return tuple(map(parse_type, _types(text)))
        case _:
            raise ModelError(f"{kind.name} is not written as text", "Open it to change it.")


def parse_any(text: str) -> tuple[Any, AttributeKind]:
    """Parse a value of unknown kind: a number, a list, or else a string (quotes are removed).

    ModelError for numbers that an attribute cannot hold.
    """
    text = text.strip()
    kind = _number_kind([text])
    if kind is not None:
        return parse_attribute(text, kind), kind
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'":
        strings = tuple(_strings(text))
        return (strings, AttributeKind.STRINGS) if len(strings) > 1 else (strings[0], AttributeKind.STRING)
    if text.startswith("[") or "," in text:
        kind = _number_kind(_parts(text)) if _is_bracketed(text) else None
        if kind is not None:
            several = AttributeKind.INTS if kind is AttributeKind.INT else AttributeKind.FLOATS
            return parse_attribute(text, several), several
        if text.startswith("["):
            return parse_attribute(text, AttributeKind.STRINGS), AttributeKind.STRINGS
    return text, AttributeKind.STRING


def _is_bracketed(text: str) -> bool:
    """Return whether the brackets of a list are balanced: both or neither."""
    try:
        _inside(text)
    except ModelError:
        return False
    return True


def _number_kind(texts: list[str]) -> AttributeKind | None:
    """Return INT or FLOAT if all texts are numbers, of whatever size."""
    if all(_INT.fullmatch(text.strip().replace("−", "-")) for text in texts):
        return AttributeKind.INT
    return AttributeKind.FLOAT if all(map(_is_number, texts)) else None


def _is_number(text: str) -> bool:
    try:
        float(text.strip().replace("−", "-").replace("∞", "inf"))
    except ValueError:
        return bool(_INT.fullmatch(text.strip()))
    return True


def convert_value(attribute: Attribute, kind: AttributeKind) -> Any:
    """Convert the value to another kind as far as possible, else return that kind's default (0, "", an empty list)."""
    value: Any = attribute.value
    if attribute.kind is kind and value is not None:
        return value
    if not isinstance(value, tuple):
        value = () if value is None else (value,)
    try:
        values = tuple(
            _converted(v, attribute.kind.element, kind.element) for v in (value if kind.is_list else value[:1])
        )
    except ValueError:
        return plainest(kind)
    return values if kind.is_list else values[0] if values else plainest(kind)


def _converted(value: Any, old: AttributeKind, new: AttributeKind) -> Any:
    """Convert one value to another kind; ValueError where that is meaningless."""
    if old is new:
        return value
    if has_text(old) and new is AttributeKind.STRING:
        return attribute_source(Attribute("", old, value))
    if old is AttributeKind.FLOAT and new is AttributeKind.INT and math.isfinite(value):
        value = math.trunc(value)
    elif old is AttributeKind.STRING and has_text(new):
        value = parse_attribute(value, new)
    return make_attribute("", value, new).value


def plainest(kind: AttributeKind) -> Any:
    """Return the default initial value of a kind."""
    from onnx_workbench.model.ir.graph import Graph
    from onnx_workbench.model.ir.types import ElementType, TensorType

    if kind.is_list:
        return ()
    match kind:
        case AttributeKind.INT:
            return 0
        case AttributeKind.FLOAT:
            return 0.0
        case AttributeKind.STRING:
            return ""
        case AttributeKind.GRAPH:
            return Graph("body")
        case AttributeKind.TYPE_PROTO:
            return TensorType(ElementType.FLOAT)
        case AttributeKind.TENSOR | AttributeKind.SPARSE_TENSOR:
            import numpy as np

            from onnx_workbench.model.ir.tensors import ArrayTensor, SparseTensor

            if kind is AttributeKind.TENSOR:
                return ArrayTensor(np.zeros((), np.float32))
            return SparseTensor(ArrayTensor(np.zeros(0, np.float32)), ArrayTensor(np.zeros(0, np.int64)), (1,))
        case _:
            raise ModelError(f"A {kind.name.lower()} has no default value", "Choose another kind.")


def parse_int(text: str) -> int:
    """Parse a 64-bit integer, decimal or hexadecimal."""
    text = text.strip().replace("−", "-")
    if not _INT.fullmatch(text) or len(text) > _MOST_DIGITS:
        raise ModelError(f"{_short(text)} is not a whole number", "Write something like 3, -1 or 0x10.")
    number = int(text, 16 if "x" in text.lower() else 10)
    if not -(1 << 63) <= number < 1 << 63:
        raise ModelError(f"{_short(text)} is too large", "Integers in ONNX have 64 bits.")
    return number


def parse_float(text: str) -> float:
    """Parse a float, rounded to the 32 bits that files store; accepts ``inf`` and ``nan``."""
    text = text.strip().replace("−", "-").replace("∞", "inf")
    try:
        number = float(text)
    except ValueError:
        raise ModelError(f"{_short(text)} is not a number", "Write something like 0.5, 1e-5 or inf.") from None
    try:
        if math.isfinite(number) or "inf" in text.lower() or math.isnan(number):
            return round_float(number)
    except ValueError:
        pass
    raise ModelError(f"{_short(text)} is too large", "Floats in attributes have 32 bits.")


def _parts(text: str) -> list[str]:
    """Split a list into its items without brackets; a trailing comma is allowed."""
    text = _inside(text)
    if not text:
        return []
    parts = re.split(r"\s*[,;\n]\s*", text) if re.search(r"[,;\n]", text) else text.split()
    if parts and not parts[-1]:
        parts.pop()
    return parts


def _inside(text: str) -> str:
    text = text.strip()
    for opening, closing in ("[]", "()", "{}"):
        if text.startswith(opening) and text.endswith(closing):
            return text[1:-1].strip()
        if text.startswith(opening) or text.endswith(closing):
            raise ModelError(f"A bracket is missing in {_short(text)}", "Write 1, 2, 3 or [1, 2, 3].")
    return text


_IN_QUOTES = re.compile(r'"(?:[^"\\]|\\.)*+"', re.DOTALL)


def _types(text: str) -> list[str]:
    """Split a list of types; a comma inside brackets or quotes belongs to a type."""
    text = text.strip()
    if text.startswith("["):
        text = _inside(text)
    found, depth, start = [], 0, 0
    plain = _IN_QUOTES.sub(lambda quoted: " " * len(quoted[0]), text)
    for position, character in enumerate(plain):
        depth += (character in "[(") - (character in "])")
        if character in ",;\n" and depth == 0:
            found.append(text[start:position])
            start = position + 1
    return [part for part in (*found, text[start:]) if part.strip()]


_QUOTED = re.compile(r'\s*("(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\')\s*(,|$)')


def _strings(text: str) -> list[str]:
    stripped = text.strip()
    if stripped.startswith("[") and stripped.endswith("]"):
        stripped = stripped[1:-1].strip()
    found, position = [], 0
    while position < len(stripped):
        quoted = _QUOTED.match(stripped, position)
        if quoted is not None:
            found.append(_unquote(quoted[1]))
            position = quoted.end()
            continue
        comma = stripped.find(",", position)
        end = len(stripped) if comma < 0 else comma
        found.append(stripped[position:end].strip())
        position = end + 1
    return found


def _unquote(text: str) -> str:
    body = text[1:-1]
    if text[0] == '"':
        try:
            return str(json.loads(text, strict=False))
        except json.JSONDecodeError:
            return body
    return body.replace("\\'", "'")


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:39] + "…") if text else "An empty string"
