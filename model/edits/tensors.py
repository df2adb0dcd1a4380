"""Change the values of tensors: initializers, Constant nodes and tensor attributes.

Functions that compute a new tensor are pure and may take long: run them off the GUI thread for large tensors.
`set_tensor_at` is the edit that stores the result.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from onnx_workbench.model.analysis.node_constants import constant_tensor
from onnx_workbench.model.edits.initializers import RoundingReport, convert, fit_type, set_constant_tensor, set_tensor
from onnx_workbench.model.edits.tensor_expressions import TensorExpression
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.history.steps import SetAttribute
from onnx_workbench.model.io.tensors.mapped_arrays import copied_array, whole_array
from onnx_workbench.model.ir.attributes import Attribute, AttributeKind
from onnx_workbench.model.ir.graph import Node, Value
from onnx_workbench.model.ir.tensors import ArrayTensor, SparseTensor, Tensor
from onnx_workbench.model.ir.types import ElementType
from onnx_workbench.model.text.elements import fit, parse_element, with_points

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: A part of a tensor: one entry per axis, as numpy's basic indexing takes them.
Region = tuple[int | slice, ...]

_BLOCK = 1 << 18
_GROUPED = re.compile(r"\s*[-+−]?\d{1,3}(,\d{3})+\.\d+\s*")  # as spreadsheets show numbers, thousands apart
_WHOLE_OR_DECIMAL = re.compile(r"[-+−]?\d+(?:,\d+)?(?:[eE][-+]?\d+)?")


@dataclass(frozen=True, slots=True)
class TensorLocation:
    """Location of a tensor: an initializer, a Constant node, or an attribute of a node (one of a list by `index`)."""

    owner: Value | Node
    attribute: str = ""
    index: int | None = None


def tensor_at(place: TensorLocation) -> Tensor | SparseTensor | None:
    """Return the tensor at a location, or None."""
    owner = place.owner
    if isinstance(owner, Value):
        return owner.initializer
    if not place.attribute:
        return constant_tensor(owner)
    attribute = owner.attributes.get(place.attribute)
    value: Any = None if attribute is None or attribute.reference else attribute.value
    if isinstance(value, tuple) and place.index is not None:
        value = value[place.index] if place.index < len(value) else None
    return value if isinstance(value, (Tensor, SparseTensor)) else None


def set_tensor_at(edit: Transaction, place: TensorLocation, tensor: Tensor | SparseTensor) -> None:
    """Replace the tensor at a location; declared types that no longer fit follow."""
    owner = place.owner
    if isinstance(owner, Value):
        set_tensor(edit, owner, tensor)
    elif place.attribute:
        _set_attribute_tensor(edit, owner, place, tensor)
    else:
        set_constant_tensor(edit, owner, tensor)
        _declare(edit, owner, tensor)


def _set_attribute_tensor(edit: Transaction, node: Node, place: TensorLocation, tensor: Tensor | SparseTensor) -> None:
    old = node.attributes.get(place.attribute)
    if old is None:
        raise ModelError(f"{node.title} has no attribute {place.attribute}", "It was removed.", node)
    kind = AttributeKind.SPARSE_TENSOR if isinstance(tensor, SparseTensor) else AttributeKind.TENSOR
    if kind is not old.kind.element and node.op_type == "Constant" and not node.domain:
        set_tensor_at(edit, TensorLocation(node), tensor)
        return
    value: Any = tensor
    if place.index is not None:
        if kind is not old.kind.element:
            raise ModelError(f"{place.attribute} holds {old.kind.name.lower()}", "A list holds one kind.", node)
        kind = old.kind
        if not isinstance(old.value, tuple) or place.index >= len(old.value):
            raise ModelError(f"{place.attribute} of {node.title} has no tensor {place.index}", "", node)
        value = (*old.value[: place.index], tensor, *old.value[place.index + 1 :])
    edit.do(SetAttribute(node, old.name, Attribute(old.name, kind, value, old.doc_string, "", old.source)))
    if node.op_type == "Constant" and not node.domain:
        _declare(edit, node, tensor)


def _declare(edit: Transaction, constant: Node, tensor: Tensor | SparseTensor) -> None:
    output = constant.outputs[0] if constant.outputs else None
    if output is not None:
        fit_type(edit, output, tensor)


# -- values --------------------------------------------------------------------------------------------------------


def set_element(tensor: Tensor, index: tuple[int, ...], text: str) -> ArrayTensor:
    """Set one element from text; ModelError says why a text is not accepted."""
    value = parse_element(text, kind_of(tensor))
    return _changed(tensor, lambda array: array.__setitem__(index, value))


def fill(tensor: Tensor, regions: Sequence[Region], text: str) -> ArrayTensor:
    """Set every element of some regions (none: the whole tensor) from one text."""
    value = parse_element(text, kind_of(tensor))

    def change(array: NDArray[Any]) -> None:
        for region in regions or (all_of(tensor),):
            array[region] = value

    return _changed(tensor, change)


def paste(
    tensor: Tensor, rows: Sequence[Sequence[str]], index_of: Callable[[int, int], tuple[int, ...]]
) -> ArrayTensor:
    """Set a block of elements from texts; `index_of` maps row and column of the block to the element's index.

    ModelError names the first invalid text and its cell; the whole paste is then refused.
    """
    kind = kind_of(tensor)
    values = []
    for row, texts in enumerate(rows):
        for column, text in enumerate(texts):
            try:
                values.append((index_of(row, column), parse_element(text, kind)))
            except ModelError as error:
                place = f"Row {row + 1}, column {column + 1} of what is pasted. "
                raise ModelError(error.title, place + error.detail) from error

    def change(array: NDArray[Any]) -> None:
        for index, value in values:
            array[index] = value

    return _changed(tensor, change)


def read_block(text: str, room: int | None = None, *, cells: bool = False) -> list[list[str]]:
    """Parse a block of numbers in spreadsheet clipboard format: separated by tabs, else semicolons, commas or blanks.

    1,500.25 stays one cell, which is then refused, rather than becoming 1 and 500.25. Between tabs or semicolons 0,5 is
    a half if all numbers are written so; 1,500 alone is ambiguous and refused. The same rules apply to a single column:
    if `room` has only one column, or only some lines have a comma. `cells` is True for text that came from a
    spreadsheet, which separates by tabs only.
    """
    lines = text.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n").split("\n")
    if cells:
        return with_points([[cell.strip().strip('"') for cell in line.split("\t")] for line in lines])
    if _is_column(lines, room):
        return with_points([[line.strip()] for line in lines])
    marks = "\t;" if all(map(_GROUPED.fullmatch, lines)) else "\t;,"
    mark = next((m for m in marks if any(m in line for line in lines)), None)
    rows = [[cell.strip().strip('"') for cell in line.split(mark)] for line in lines]
    return with_points(rows) if mark is not None and mark in "\t;" else rows


def _is_column(lines: list[str], room: int | None) -> bool:
    """Return whether several lines are one column of numbers, some with a decimal comma."""
    cells = [line.strip() for line in lines]
    with_comma = sum("," in cell for cell in cells)
    is_sure = room == 1 or with_comma < len(cells)
    return len(cells) > 1 <= with_comma and is_sure and all(map(_WHOLE_OR_DECIMAL.fullmatch, cells))


def read_texts(text: str) -> list[list[str]]:
    """Parse a block of texts in spreadsheet clipboard format: tab-separated, quoted where a cell has tabs, lines or
    quotes.
    """
    return list(csv.reader(io.StringIO(text, newline=""), delimiter="\t"))


def block_source(rows: Iterable[Sequence[str]]) -> str:
    """Format a block so that `read_texts` and spreadsheets read it."""
    written = io.StringIO(newline="")
    csv.writer(written, delimiter="\t", lineterminator="\n").writerows(rows)
    return written.getvalue().removesuffix("\n")


def compute(tensor: Tensor, text: str, regions: Sequence[Region] = ()) -> tuple[ArrayTensor, int]:
    """Apply an expression to some regions (none: the whole tensor); returns the tensor and the number of rounded
    results.

    Integers are rounded to the nearest. ModelError when a result does not fit the type; nothing wraps around.
    """
    kind = kind_of(tensor)
    if kind is ElementType.STRING:
        raise ModelError("Strings cannot be computed with", "Expressions work on numbers.")
    expression = TensorExpression(text)
    array = copied_array(tensor)
    copy = remade(tensor, array)
    reduced = expression.reduce(lambda: (_wide(piece, kind) for piece in copy.pieces()))
    rounded = 0
    for region in regions or (all_of(tensor),):
        part = array[(*region, ...)]
        flat = part.reshape(-1) if part.flags.c_contiguous else part.flat
        for start in range(0, part.size, _BLOCK):
            block = np.array(flat[start : start + _BLOCK])
            positions = np.arange(start, start + block.size, dtype=np.int64)
            values, lost = fit(_evaluated(expression, block, positions, reduced, kind), kind)
            flat[start : start + _BLOCK] = values
            rounded += lost
    return copy, rounded


def _evaluated(
    expression: TensorExpression,
    block: NDArray[Any],
    positions: NDArray[Any],
    reduced: dict[str, Any],
    kind: ElementType,
) -> NDArray[Any]:
    result = expression(_wide(block, kind), positions, reduced)
    if kind.is_int and result.dtype.kind in "iu":
        # 64-bit integers overflow silently; the same computation in floating point detects it.
        check = expression(block.astype(np.float64), positions.astype(np.float64), reduced)
        near = np.abs(check.astype(np.float64) - result.astype(np.float64)) <= 1e-6 * np.abs(check) + 1
        if not near.all():
            raise ModelError("A result does not fit 64 bits", f"It is about {float(check[~near][0]):.6g}.")
    return result


def _wide(array: NDArray[Any], kind: ElementType) -> NDArray[Any]:
    """Convert to the type in which expressions are computed."""
    if kind is ElementType.BOOL:
        return array
    if kind.is_int:
        return array if kind is ElementType.UINT64 else array.astype(np.int64)
    return array.astype(np.complex128 if kind.is_complex else np.float64)


def all_of(tensor: Tensor) -> Region:
    """Return the region that covers the whole tensor."""
    return (slice(None),) * len(tensor.shape)


def kind_of(tensor: Tensor) -> ElementType:
    """Return the element type; ModelError when it is unknown or the values cannot be read."""
    kind = tensor.element_type
    if tensor.problem:
        raise ModelError("The values are not available", tensor.problem, tensor.name)
    if not isinstance(kind, ElementType) or kind is ElementType.UNDEFINED:
        raise ModelError("The values cannot be changed", f"Their element type {int(kind)} is not known.", tensor.name)
    return kind


def _changed(tensor: Tensor, change: Callable[[NDArray[Any]], object]) -> ArrayTensor:
    array = copied_array(tensor)
    change(array)
    return remade(tensor, array)


def remade(tensor: Tensor, array: NDArray[Any], kind: ElementType | None = None, *, source: Any = None) -> ArrayTensor:
    """Return a tensor of other values with the same name and texts, stored externally if the old one was."""
    return ArrayTensor(
        array,
        kind_of(tensor) if kind is None else kind,
        name=tensor.name,
        doc_string=tensor.doc_string,
        metadata=dict(tensor.metadata),
        source=tensor.source if source is None else source,
    )


# -- shape, type, storage --------------------------------------------------------------------------------------------


def reshape(tensor: Tensor, shape: tuple[int, ...]) -> ArrayTensor:
    """Return the same elements in another shape; one dimension may be -1."""
    return remade(tensor, whole_array(tensor).reshape(resolved_shape(tensor, shape)))


def resolved_shape(tensor: Tensor | SparseTensor, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return another shape for as many elements, in which one dimension may be given as -1; else ModelError."""
    if shape.count(-1) > 1 or any(d < -1 for d in shape):
        raise ModelError("Not a shape", "Dimensions are 0 or more; one may be -1, the remaining size.")
    size, known = prod(tensor.shape), prod(d for d in shape if d != -1)
    if known and size % known == 0:
        shape = tuple(size // known if d == -1 else d for d in shape)
    if -1 in shape or prod(shape) != size:
        listed = "×".join(map(str, shape)) or "scalar"
        raise ModelError(f"{size:,} elements do not fit {listed}", f"The shape now is {list(tensor.shape)}.")
    return shape


def retype(
    tensor: Tensor, kind: ElementType, cast: Callable[[NDArray[Any], ElementType], NDArray[Any]]
) -> tuple[ArrayTensor, RoundingReport]:
    """Convert the element type; also returns the loss. `cast` is the ONNX cast of exec, passed in."""
    kind_of(tensor)
    try:
        made, report = convert(tensor, kind, cast)
    except (ValueError, TypeError) as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(f"The values cannot become {kind.text}", str(error)) from error
    return remade(tensor, made.numpy(), kind), report


def store(tensor: Tensor, *, external: bool) -> ArrayTensor:
    """Return the tensor marked to be saved as external data, or inside the model. Reads the values."""
    from onnx_workbench.model.io.tensors.proto_tensor import storage_mark

    if external and kind_of(tensor) is ElementType.STRING:
        raise ModelError("Strings cannot be stored in a data file", "The format allows it for numbers only.")
    return remade(tensor, whole_array(tensor), source=storage_mark(external=external))


def tensor_locations(owner: Value | Node) -> Iterator[TensorLocation]:
    """Return the locations of all tensors of a value or node."""
    if isinstance(owner, Value):
        if owner.initializer is not None:
            yield TensorLocation(owner)
        elif owner.producer is not None and constant_tensor(owner.producer) is not None:
            yield TensorLocation(owner.producer)
        return
    if constant_tensor(owner) is not None:
        yield TensorLocation(owner)
        return
    for name, attribute in owner.attributes.items():
        if attribute.reference:
            continue
        if isinstance(attribute.value, (Tensor, SparseTensor)):
            yield TensorLocation(owner, name)
        elif attribute.kind in (AttributeKind.TENSORS, AttributeKind.SPARSE_TENSORS):
            for index in range(len(cast("tuple[Tensor, ...]", attribute.value or ()))):
                yield TensorLocation(owner, name, index)
