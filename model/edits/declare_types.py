"""Declare inferred types, without symbols that the model itself does not have."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from onnx_workbench.model.edits.values import set_type, set_types
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.ir.graph import Model, Node, Value
from onnx_workbench.model.ir.types import Dimension, Shape, TensorType, Type, with_sizes
from onnx_workbench.model.progress import SILENT, Progress

if TYPE_CHECKING:
    from onnx_workbench.model.inference.infer import InferredTypes


def size_names(model: Model) -> set[str]:
    """Return the symbols of graph inputs: all that inference knows from the model."""
    names: set[str] = set()

    def collect(size: Dimension) -> Dimension:
        if isinstance(size, str):
            names.add(size)
        return size

    for graph in model.graphs():
        for value in graph.inputs:
            if value.type is not None:
                with_sizes(value.type, collect)
    return names


def is_shapeless(declared: Type | None) -> bool:
    """Return whether it is a tensor of unknown rank, which inputs and outputs of the main graph may not be."""
    return isinstance(declared, TensorType) and declared.shape is None


def declarable(found: Type, declared: Type | None, names: Collection[str]) -> Type:
    """Return the declarable part of an inferred type: numbers and `names` of the model; other sizes stay open.

    Formulas and generated names are left out: other programs would read each as an independent symbol, as would this
    one when a symbol is replaced by a number. The existing declaration stays if the inferred type adds nothing.
    """
    written = with_sizes(found, lambda size: size if not isinstance(size, str) or size in names else None)
    if not isinstance(written, TensorType) or not isinstance(declared, TensorType) or declared.shape is None:
        return written
    if written.element_type == 0 or declared.element_type not in (written.element_type, 0):
        return written
    if written.shape is None:
        return replace(written, shape=declared.shape, denotation=declared.denotation)
    if written.shape.rank != declared.shape.rank:
        return written
    dims = tuple(map(_size, written.shape.dims, declared.shape.dims))
    return replace(written, shape=Shape(dims, declared.shape.denotations), denotation=declared.denotation)


def _size(found: Dimension, declared: Dimension) -> Dimension:
    return found if declared is None or isinstance(found, int) else declared


def declare(edit: Transaction, value: Value, found: Type) -> None:
    """Declare the inferred type of a value as far as possible."""
    set_type(edit, value, declarable(found, value.type, size_names(edit.model)))


def stale_sizes(values: Iterable[Value], inferred: InferredTypes, names: Collection[str]) -> dict[Value, Type]:
    """Return new declarations of values that declare a number where a symbol, or a formula of one, is inferred.

    A symbol of `names` is written; where a formula is inferred the size stays open, as in `declarable`.
    """
    stale: dict[Value, Type] = {}
    for value in values:
        declared, found = value.type, inferred.types.get(value)
        if not isinstance(declared, TensorType) or not isinstance(found, TensorType):
            continue
        if declared.shape is None or found.shape is None or declared.shape.rank != found.shape.rank:
            continue
        dims = tuple(
            (size if size in names else None) if isinstance(old, int) and isinstance(size, str) else old
            for old, size in zip(declared.shape.dims, found.shape.dims, strict=True)
        )
        if dims != declared.shape.dims:
            stale[value] = replace(declared, shape=replace(declared.shape, dims=dims))
    return stale


def declare_all(
    edit: Transaction, inferred: InferredTypes, among: Collection[Node] | None = None, progress: Progress = SILENT
) -> int:
    """Declare inferred types where they add to or differ from the declared ones; return the number of changed values.

    Sizes are written as numbers and as symbols that the model has; see `declarable`. `among` restricts this to values
    that these nodes produce.
    """
    from onnx_workbench.model.analysis.node_subset import is_made

    changed: dict[Value, Type | None] = {}
    names = size_names(edit.model)
    for value, kind in progress.paced(inferred.types.items(), of=len(inferred.types)):
        if value.graph is None or kind == value.type or not (among is None or is_made(value, among)):
            continue
        written = declarable(kind, value.type, names)
        if written != value.type:
            changed[value] = written
    set_types(edit, changed, progress)
    return len(changed)
