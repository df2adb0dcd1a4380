"""Types of the values that feed the inputs of a model to be merged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from onnx_workbench.model.analysis.scoping import visible_values
from onnx_workbench.model.analysis.value_types import declared_type
from onnx_workbench.model.edits.rewriter import GraphRewriter
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.inference.infer import compatible, infer
from onnx_workbench.model.ir.graph import Graph, Value
from onnx_workbench.model.ir.types import ElementType, TensorType, Type
from onnx_workbench.model.progress import SILENT, Progress


@dataclass(frozen=True, slots=True)
class CastBetween:
    """A value here that an input of the other model takes only after a Cast."""

    value: Value
    kind: ElementType
    input: str
    problem: tuple[str, str]  # title and detail


def casts_between(
    graph: Graph, part: Graph, links: Mapping[str, str], progress: Progress = SILENT
) -> list[CastBetween]:
    """Compare the types of values here with those of the other graph's inputs that they feed, by name.

    Returns the Casts that are needed; ModelError where no Cast helps. Types are inferred where none is declared.
    """
    here, inputs = visible_values(graph), {value.name: value for value in part.inputs}
    pairs = [(here[name], inputs[fed]) for fed, name in links.items() if name in here and fed in inputs]
    model = graph.model
    is_declared = all(declared_type(value) is not None for value, _ in pairs)
    type_of = declared_type if is_declared or model is None else infer(model, progress=progress).type_of
    casts = []
    for value, wanted in pairs:
        ours, theirs = type_of(value), wanted.type
        if ours is None or theirs is None or compatible(ours, theirs):
            continue
        title = f"{value.name} cannot feed {wanted.name}"
        detail = f"{value.name} is {ours}; {wanted.name} takes {theirs}."
        kind = _castable(ours, theirs)
        if kind is None:
            raise ModelError(title, detail, value)
        casts.append(CastBetween(value, kind, wanted.name, (title, f"{detail} A Cast would convert it (--cast).")))
    return casts


def _castable(ours: Type, theirs: Type) -> ElementType | None:
    """Return the element type to cast to where that makes the types fit."""
    if not isinstance(ours, TensorType) or not isinstance(theirs, TensorType):
        return None
    kind = theirs.element_type
    fits = compatible(replace(ours, element_type=kind), theirs)
    return kind if fits and isinstance(kind, ElementType) else None


def insert_casts(edit: Transaction, graph: Graph, casts: Sequence[CastBetween]) -> dict[str, str]:
    """Insert the Casts; returns the names of their outputs by the inputs that these feed."""
    rewriter = GraphRewriter(edit)
    return {cast.input: rewriter.cast(cast.value, cast.kind, graph).name for cast in casts}
