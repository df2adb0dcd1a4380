"""Rules about declared types."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from onnx_workbench.model.checks.problem import Fix, Problem, error, warning
from onnx_workbench.model.checks.texts import check_texts
from onnx_workbench.model.checks.versions import TYPE_SINCE, raise_ir_version
from onnx_workbench.model.history.steps import SetField
from onnx_workbench.model.ir.graph import Graph, Model, Value
from onnx_workbench.model.ir.types import (
    MOST_DIMENSIONS,
    ElementType,
    MapType,
    OpaqueType,
    OptionalType,
    SequenceType,
    Shape,
    SparseTensorType,
    TensorType,
    Type,
)
from onnx_workbench.model.progress import Progress

_KEYS = frozenset({
    ElementType.INT8, ElementType.INT16, ElementType.INT32, ElementType.INT64, ElementType.UINT8, ElementType.UINT16,
    ElementType.UINT32, ElementType.UINT64, ElementType.STRING,
})  # fmt: skip
_MOST_LEVELS = 64
_OPTIONAL_SINCE = 8


def check_type(value: Value) -> Iterator[Problem]:
    """Check the declared type of a value, if any."""
    declared = value.type
    if isinstance(declared, TensorType) and declared.shape is not None:
        if declared.shape.rank >= MOST_DIMENSIONS:
            detail = f"The first {MOST_DIMENSIONS:,} are shown; no runtime takes more than 64."
            yield error("value-type", f"{value.name} is declared with very many dimensions", value, detail)
        yield from _check_sizes(value, declared, declared.shape)
        sizes = (("size", dim) for dim in declared.shape.dims if isinstance(dim, str))
        yield from check_texts(value, f"the type of {value.name}", sizes)
    if isinstance(declared, TensorType) and type(declared.element_type) is ElementType and declared.element_type:
        return  # the common case
    reason = "" if declared is None else _reason(declared)
    if reason:
        yield error("value-type", f"{value.name} is declared {declared}", value, reason)


def _check_sizes(value: Value, declared: TensorType, shape: Shape) -> Iterator[Problem]:
    """Check that sizes are not negative; programs that write -1 mean an unknown dimension."""
    if not any(type(dim) is int and dim < 0 for dim in shape.dims):
        return
    dims = tuple(None if isinstance(dim, int) and dim < 0 else dim for dim in shape.dims)
    mended = replace(declared, shape=replace(shape, dims=dims))
    yield warning(
        "negative-size",
        f"{value.name} is declared {declared}",
        value,
        "Sizes are 0 or more; an open size has a name or nothing.",
        Fix(f"Declare {value.name} as {mended}", lambda edit: edit.do(SetField(value, "type", mended))),
    )


def _reason(declared: Type) -> str:
    """Return why no value can have this type; empty if one can."""
    level: Type | None = declared
    for _ in range(_MOST_LEVELS):
        match level:
            case TensorType() | SparseTensorType():
                return _element_reason(level.element_type)
            case SequenceType() | OptionalType():
                level = level.element
            case MapType():
                if level.key_type not in _KEYS:
                    return "The keys of a map must be whole numbers or strings."
                level = level.value
            case OpaqueType():
                return ""
            case _:
                return "It needs key and value types."
    return ""


def _element_reason(element_type: ElementType | int) -> str:
    if element_type is ElementType.UNDEFINED:
        return "It needs an element type."
    if not isinstance(element_type, ElementType):
        return f"There is no element type {int(element_type)}."
    return ""


def symbols_of(declared: Type | None) -> Iterator[str]:
    """Return the symbols in a tensor type."""
    if isinstance(declared, (TensorType, SparseTensorType)) and declared.shape is not None:
        yield from (dim for dim in declared.shape.dims if isinstance(dim, str))


def check_interface_types(graph: Graph, model: Model, progress: Progress) -> Iterator[Problem]:
    """Check that inputs and outputs of the main graph declare types and ranks."""
    for value in progress.paced(dict.fromkeys((*graph.inputs, *graph.outputs))):
        if value.initializer is not None:
            continue
        declared = value.type
        if declared is None:
            detail = "Inputs and outputs of the main graph need one."
            yield error("interface-type", f"{value.name} has no type", value, detail)
        elif isinstance(declared, (TensorType, SparseTensorType)) and declared.shape is None:
            detail = "Inputs and outputs of the main graph need a rank; sizes may be open."
            yield error("interface-shape", f"{value.name} has no shape", value, detail)
        since = _since(declared)
        if since > model.ir_version >= 1:
            yield warning(
                "element-type-version",
                f"{value.name} is declared {declared}",
                value,
                f"That type requires IR version {since}; the model has {model.ir_version}.",
                raise_ir_version(since),
            )


def _since(declared: Type | None) -> int:
    """Return the IR version that introduced a type; 1 if it always existed."""
    since = 1
    for _ in range(_MOST_LEVELS):
        match declared:
            case TensorType() | SparseTensorType():
                kind = declared.element_type
                return max(since, TYPE_SINCE.get(kind, 1) if isinstance(kind, ElementType) else 1)
            case SequenceType() | OptionalType():
                since = max(since, _OPTIONAL_SINCE if isinstance(declared, OptionalType) else 1)
                declared = declared.element
            case _:
                return since
    return since
