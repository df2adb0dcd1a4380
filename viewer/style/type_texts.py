"""Types of values as text: short, where there is little room, or whole, for tooltips and copying. No Qt."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial

from onnx_workbench.model.analysis.symbolic import condensed
from onnx_workbench.model.ir.graph import Value
from onnx_workbench.model.ir.types import Dimension, TensorType, Type, element_type_text
from onnx_workbench.model.text.formatting import dimension_text, display, shape_text, type_text

_SYMBOL_LIMIT = 16  # characters of a dimension
_WHOLE_LIMIT = 400
#: Ends of words in names of dimensions: after a dot, and before the last word that has a number.
_WORDS = re.compile(r"\.|(?<=[a-z])(?=[A-Z][a-z]*\.\d)")


def dimension_prefix(values: Iterable[Value]) -> str:
    """Return the words that all names of dimensions of some values begin with: ``p2o.Dynamic`` in DynamicDimension.0.

    What it leaves of each name begins with a letter, so that it is not taken for a number.
    """
    shapes = (value.type.shape for value in values if isinstance(value.type, TensorType))
    names = {d for shape in shapes if shape is not None for d in shape.dims if isinstance(d, str) and "." in d}
    first, last = min(names, default=""), max(names, default="")
    for end in reversed([match.end() for match in _WORDS.finditer(first)]):
        if first[:end] == last[:end] and all(name[end : end + 1].isalpha() for name in names):
            return first[:end]
    return ""


def short_type(type_: Type | None, prefix: str = "", limit: int = _SYMBOL_LIMIT) -> str:
    """Return a type with formulas and long symbols shortened, so that the rank remains visible; empty if unknown.

    `prefix` of dimensions is left out, see `dimension_prefix`; `limit` is the most characters of one.
    """
    return "" if type_ is None else type_text(type_, partial(_short_dimension, prefix, limit))


def whole_type(type_: Type | None) -> str:
    """Return a type as the file has it, symbols in full; empty if unknown."""
    return "" if type_ is None else type_text(type_, _whole_dimension)


def edge_text(type_: Type | None, prefix: str = "") -> str:
    """Return the text beside an edge: the short shape, with the element type unless it is float."""
    if isinstance(type_, TensorType) and type_.element_type == 1 and type_.shape is not None:
        return shape_text(type_.shape, partial(_short_dimension, prefix, _SYMBOL_LIMIT))
    return short_type(type_, prefix)


def value_text(value: Value, type_: Type | None = None, prefix: str = "") -> str:
    """Return the short type of a value: `type_`, else the declared one, else that of its constant; empty if unknown."""
    shown = type_ if type_ is not None else value.type
    if shown is None and value.initializer is not None:
        return f"{element_type_text(value.initializer.element_type)} {shape_text(value.initializer.shape)}"
    return short_type(shown, prefix)


def _short_dimension(prefix: str, limit: int, dimension: Dimension) -> str:
    if not isinstance(dimension, str) or not dimension:
        return dimension_text(dimension)
    return display(condensed(dimension).replace(prefix, ""), limit)


def _whole_dimension(dimension: Dimension) -> str:
    return display(dimension, _WHOLE_LIMIT) if isinstance(dimension, str) and dimension else dimension_text(dimension)
