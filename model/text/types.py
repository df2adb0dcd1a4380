"""Text form of types: ``float[batch,3,224,224]``, ``seq(tensor(int64))``, ``optional(float[?])``."""

from __future__ import annotations

import json
import re

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.types import (
    Dimension,
    ElementType,
    MapType,
    OpaqueType,
    OptionalType,
    SequenceType,
    Shape,
    SparseTensorType,
    TensorType,
    Type,
    with_sizes,
)

#: Other names of element types, of other programs.
ALIASES = {
    "float32": "float", "float64": "double", "half": "float16", "fp16": "float16", "bf16": "bfloat16", "str": "string",
    "boolean": "bool",
}  # fmt: skip
_INNER = re.compile(r"(seq|sequence|optional|sparse_tensor|tensor|map|opaque)\s*\((.*)\)", re.DOTALL)
_TENSOR = re.compile(r"(type \d+|[a-z]\w*)\s*(?:\[(.*)\])?", re.DOTALL | re.IGNORECASE)
#: The form in which types are shown: ``float 1×3``.
_SHOWN = re.compile(r"(type \d+|[a-z]\w*)\s+(\S.*)", re.DOTALL | re.IGNORECASE)
#: Token: a dimension in quotes, an operator of a formula, a separator between dimensions, or any character.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"|\s+[-+*/%]\s+|\s*[,×]\s*|\s+x\s+|x|\s+|.', re.DOTALL)
_DEEPEST = 20


def type_source(type: Type) -> str:
    """Format a type so that `parse_type` reads it back; denotations are left out."""
    return str(with_sizes(type, _dimension_source))


def _dimension_source(dimension: Dimension) -> Dimension:
    """Format a dimension, with quotes around a symbol that would be misread."""
    if not isinstance(dimension, str):
        return dimension
    try:
        is_plain = parse_dimensions(dimension) == (dimension,)
    except ModelError:
        is_plain = False
    return dimension if is_plain else json.dumps(dimension, ensure_ascii=False)


def parse_type(text: str) -> Type:
    """Parse a type; ModelError on malformed text.

    A tensor is an element type with its shape in brackets: ``float[1,N,?]``, ``float[]`` for a scalar, ``float`` for
    any shape. ``×``, ``x`` and spaces may stand for commas; a name with one of these in it is put in quotes. The form
    in which types are shown is read too: ``float 1×N×?``, ``float scalar``, ``sparse float 3×4``.
    """
    return _parse(text.strip(), text, 0)


def _parse(text: str, whole: str, depth: int) -> Type:
    if depth > _DEEPEST:
        raise ModelError("The type is nested too deeply", f"At most {_DEEPEST} levels.")
    match = _INNER.fullmatch(text)
    if match is None and text.startswith("sparse "):
        dense = _tensor(text.removeprefix("sparse "), whole)
        return SparseTensorType(dense.element_type, dense.shape)
    if match is None:
        return _tensor(text, whole)
    kind, inner = match[1], match[2].strip()
    if kind == "tensor":
        return _tensor(inner, whole)
    if kind == "sparse_tensor":
        dense = _tensor(inner, whole)
        return SparseTensorType(dense.element_type, dense.shape)
    if kind == "opaque":
        domain, _, name = inner.rpartition(".") if "." in inner else inner.rpartition(",")
        return OpaqueType(domain.strip(), name.strip())
    if kind == "map":
        key, comma, value = inner.partition(",")
        if not comma:
            raise ModelError(f"{text} is not a map type", "Write map(key type, value type).")
        return MapType(parse_element_type(key), _inner(value.strip(), whole, depth))
    element = _inner(inner, whole, depth)
    return OptionalType(element) if kind == "optional" else SequenceType(element)


def _inner(text: str, whole: str, depth: int) -> Type | None:
    return None if text in ("", "?") else _parse(text, whole, depth + 1)


def _tensor(text: str, whole: str) -> TensorType:
    match = _TENSOR.fullmatch(text.strip()) or _SHOWN.fullmatch(text.strip())
    if match is None:
        raise ModelError(f"{whole!r} is not a type", "Write something like float[batch,3,224,224] or seq(int64[?]).")
    kind = parse_element_type(match[1])
    if match[2] is None:
        return TensorType(kind, None)
    return TensorType(kind, Shape(() if match[2] == "scalar" else parse_dimensions(match[2])))


def parse_element_type(text: str) -> ElementType:
    """Parse an element type by its name (``float``, ``float32``, ``int8`` …) or number."""
    name = text.strip().lower()
    name = ALIASES.get(name, name)
    if name.startswith("type ") and name[5:].isdecimal():
        name = name[5:]
    try:
        return ElementType(int(name)) if name.isdecimal() else ElementType[name.upper()]
    except (KeyError, ValueError):
        near = ", ".join(e.text for e in ElementType if e)
        raise ModelError(f"{text.strip()!r} is not an element type", f"There are: {near}.") from None


def parse_dimensions(text: str) -> tuple[Dimension, ...]:
    """Parse dimensions separated by commas, × or spaces: numbers, symbols, ``?`` for unknown. Empty text: none.

    A symbol may be a formula such as ``past + 1`` or ``max(a, b)``, or anything in quotes.
    """
    return tuple(_dimension(part) for part in _split(text.strip().strip("[]")) if part)


def _split(text: str) -> list[str]:
    """Split at separators; parentheses, quotes and operands of an operator stay together."""
    parts, depth = [""], 0
    for found in _TOKEN.findall(text):
        depth += (found == "(") - (found == ")")
        between = found.strip() in ("", ",", "×") or (found.strip() == "x" and (found != "x" or parts[-1].isdecimal()))
        if between and depth == 0:
            parts.append("")
        else:
            parts[-1] += found
    if depth:
        raise ModelError(
            f"A parenthesis is missing in {text!r}", "Put the name of a dimension in quotes if it has one."
        )
    return parts


def _dimension(text: str) -> Dimension:
    if text in ("?", "-1", "unk"):
        return None
    if re.fullmatch(r"[0-9]{1,19}", text):
        number = int(text)
        if number < 1 << 63:
            return number
    if text[0] == '"':
        try:
            if name := json.loads(text, strict=False):
                return str(name)
        except json.JSONDecodeError:
            pass
    if text[0] in '-+0123456789"' or not text.isprintable():
        raise ModelError(f"{text!r} cannot be a dimension", "Write a number of 0 or more, a name, or ? for unknown.")
    return text
