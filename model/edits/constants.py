"""Parse new constants from text: ``bias: float[4]``, ``axes = 0, 2``, ``scale: float16[2,2] = 0.5``, ``[1, -1]``."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from onnx_workbench.model.analysis.scoping import names_taken
from onnx_workbench.model.budget import WINDOW_TENSOR
from onnx_workbench.model.edits.initializers import add_initializer, define_constant, set_tensor
from onnx_workbench.model.edits.tensors import fill, paste
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.ir.attributes import AttributeKind
from onnx_workbench.model.ir.graph import Function, Graph, Node, Value
from onnx_workbench.model.ir.tensors import ArrayTensor
from onnx_workbench.model.ir.types import ElementType, TensorType, Type
from onnx_workbench.model.text.attributes import parse_any, parse_attribute
from onnx_workbench.model.text.types import parse_type, type_source

_MOST_DIMENSIONS = 64  # of a numpy array
_HOW = "Write name = 1, 2, 3 or name: float[2,3], or both: name: float[2,3] = 0.5."

_WRITTEN = re.compile(r"\s*[^\s=:][^=]*?(=\s*\S|:\s*[a-z])")

_TYPED = re.compile(r"\s*([a-z]\w*\s*(?:\[[^\]=]*\])?)\s*=(.*)", re.DOTALL)

_LITERAL = re.compile(r"\s*(\[|[-−]?\.?[0-9])")
_POINT = re.compile(r"(?<=[0-9])\.(?![0-9])")  # "1." is not a JSON number

_KINDS = {
    AttributeKind.INT: ElementType.INT64,
    AttributeKind.FLOAT: ElementType.FLOAT,
    AttributeKind.STRING: ElementType.STRING,
}


def parse_constant(text: str) -> tuple[str, ArrayTensor]:
    """Parse a name and a tensor. Without values the tensor is zeros; one value fills it; else one value per element."""
    head, equals, values = text.partition("=")
    name, colon, kind = (part.strip() for part in head.partition(":"))
    if not name or not (equals or colon):
        raise ModelError("A constant needs a name and a type or values", _HOW)
    return name, _typed(kind, values.strip(), given=bool(equals)) if colon else _untyped(values)


def reads_as_constant(text: str) -> bool:
    """Return whether a text looks like a constant rather than the name of a value such as ``conv:0``; constant time."""
    return _WRITTEN.match(text) is not None


def add_constant(edit: Transaction, graph: Graph, text: str) -> Value:
    """Parse a text and add it to a graph as a constant; ModelError when it is malformed or its name is taken."""
    name, tensor = parse_constant(text)
    if name in names_taken(graph):
        raise ModelError(f"A value named {name} already exists", "Choose another name.", graph)
    return add_initializer(edit, graph, tensor, name)


def reads_as_literal(text: str) -> bool:
    """Return whether a text is a number, or begins like a list of numbers: ``3``, ``0.5``, ``[1, -1]``."""
    return _LITERAL.match(text) is not None


def parse_literal(text: str, kinds: Sequence[ElementType]) -> ArrayTensor:
    """Parse a number or a list, which may be nested: ``3``, ``[1, -1]``, ``[[0.5, 1], [2, 3]]``.

    Its element type is the first of `kinds` that holds the numbers as written. ModelError when the text is malformed,
    rows have different lengths, or no type fits.
    """
    try:
        content = json.loads(_POINT.sub(r"\g<0>0", text.replace("−", "-")))
        values = np.array(content)
    except (ValueError, RecursionError):
        raise ModelError(f"{text[:60]!r} is not a list of numbers", "Write 3, [1, -1] or [[1, 2], [3, 4]].") from None
    if values.dtype.kind not in "iufb" or values.ndim > _MOST_DIMENSIONS:
        raise ModelError(f"{text[:60]!r} is not a list of numbers", "Write 3, [1, -1] or [[1, 2], [3, 4]].")
    if not values.size:
        values = values.astype(np.int64)  # no element needs a fraction
    for kind in kinds:
        if (values.dtype.kind == "f" and kind.is_int) or (values.dtype.kind == "b") != (kind is ElementType.BOOL):
            continue
        if values.size and kind.is_int and not np.array_equal(values.astype(kind.numpy_dtype), values):
            continue
        return ArrayTensor(values.astype(kind.numpy_dtype), kind)
    raise ModelError(f"{text[:60]!r} does not fit {', '.join(kind.text for kind in kinds)}", _HOW)


def set_default_values(edit: Transaction, value: Value, text: str) -> None:
    """Set the default values of a graph input: ``1, 2``, or with a type ``float[1,3] = 0.5``.

    Without values they are zeros. ModelError for inputs of subgraphs and functions, which are always passed, for values
    that are not tensors, and for open dimensions.
    """
    graph = value.graph
    if graph is None or value not in graph.inputs or isinstance(graph.owner, (Node, Function)):
        raise ModelError(f"{value.name} cannot have a default", "Inputs of the main graph and of training do.", value)
    typed = _TYPED.fullmatch(text)
    kind, values = typed.groups() if typed else ("" if value.type is None else type_source(value.type), text)
    if not kind and not values.strip():
        raise ModelError(f"{value.name} has no type", "Write its values, or its type too: float[1,3] = 0.5.", value)
    tensor = _typed(kind, values.strip(), given=bool(values.strip())) if kind else _untyped(values)
    define_constant(edit, graph, value, tensor)
    set_tensor(edit, value, tensor)  # the declared type follows


def _untyped(text: str) -> ArrayTensor:
    if text.lstrip().startswith("[["):
        raise ModelError("Lists within lists need a type", "Write name: float[2,2] = 1, 2, 3, 4.")
    value, kind = parse_any(text)
    element = _KINDS[kind.element]
    return ArrayTensor(np.array(value, object if element is ElementType.STRING else element.numpy_dtype), element)


def _typed(text: str, values: str, *, given: bool) -> ArrayTensor:
    kind = parse_type(text)
    if not isinstance(kind, TensorType) or not isinstance(kind.element_type, ElementType) or not kind.element_type:
        raise ModelError(f"{text} is not a tensor type", _HOW)
    is_text = kind.element_type is ElementType.STRING
    listed = _listed(values, is_text=is_text) if given else []
    dims: tuple[Any, ...] = kind.shape.dims if kind.shape is not None else (len(listed),) if len(listed) > 1 else ()
    if not all(isinstance(d, int) for d in dims):
        raise ModelError(
            f"{kind} leaves dimensions open", "Dimensions of a constant are numbers, as in float[1,3] = 0.5."
        )
    if not _is_small(kind.element_type, dims):
        raise ModelError(f"{kind} is too large to be written here", "Make it smaller and import the values.")
    tensor = zeros(kind.element_type, dims)
    if not listed:
        return tensor
    if len(listed) == 1:
        return fill(tensor, (), listed[0])
    if len(listed) != tensor.size:
        raise ModelError(f"{len(listed)} values for {tensor.size} elements", "Write one, or one for each element.")
    return paste(tensor, [listed], lambda _, column: tuple(int(i) for i in np.unravel_index(column, dims)))


def _is_small(element_type: ElementType, dims: tuple[int, ...]) -> bool:
    size = prod(max(d, 1) for d in dims) * max(1, element_type.bits // 8)
    return len(dims) <= _MOST_DIMENSIONS and size <= WINDOW_TENSOR


def zeros(element_type: ElementType, dims: tuple[int, ...]) -> ArrayTensor:
    """Return a tensor of zeros, or of empty strings."""
    is_text = element_type is ElementType.STRING
    return ArrayTensor(np.full(dims, "", object) if is_text else np.zeros(dims, element_type.numpy_dtype), element_type)


def zeros_of(type_: Type | None) -> Callable[[], ArrayTensor] | None:
    """Return a factory of zeros of a declared type; None if it is not a tensor, has open dimensions or is very
    large.
    """
    if not isinstance(type_, TensorType) or type_.shape is None or not isinstance(type_.element_type, ElementType):
        return None
    element_type, dims = type_.element_type, type_.shape.dims
    closed = tuple(d for d in dims if isinstance(d, int))
    if not element_type or len(closed) < len(dims) or not _is_small(element_type, closed):
        return None
    return partial(zeros, element_type, closed)


def _listed(values: str, *, is_text: bool) -> list[str]:
    """Parse the elements: strings with or without quotes, numbers in brackets nested to any depth."""
    if is_text:
        return list(parse_attribute(values, AttributeKind.STRINGS))
    return [part.strip() for part in re.sub(r"[\[\]]", " ", values).split(",") if part.strip()]
