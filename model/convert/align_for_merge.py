"""Adapt a model to another one before merging: opset versions, functions whose names are taken, and types."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from onnx_workbench.model.analysis.scoping import unique_name, visible_values
from onnx_workbench.model.analysis.value_types import declared_type
from onnx_workbench.model.convert import ConversionReport, convert_opset
from onnx_workbench.model.diff import do_the_same
from onnx_workbench.model.edits.copy_paste import nodes_of_other_meaning
from onnx_workbench.model.edits.functions import rename_function
from onnx_workbench.model.edits.rewriter import GraphRewriter
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document, Transaction
from onnx_workbench.model.inference.infer import compatible, infer
from onnx_workbench.model.ir.graph import Graph, Model, Value
from onnx_workbench.model.ir.types import ElementType, TensorType, Type
from onnx_workbench.model.progress import SILENT, Progress

Key = tuple[str, str, str]


def clashing_functions(here: Model, other: Model) -> set[Key]:
    """Return functions of the other model that share a key with one here that does something else."""
    pairs = ((function, here.function(*function.key)) for function in other.functions)
    return {function.key for function, present in pairs if present is not None and not do_the_same(present, function)}


def align(
    document: Document, imports: Mapping[str, int], clashes: Collection[Key], progress: Progress = SILENT
) -> ConversionReport:
    """Convert the document's model to the given version of ai.onnx, and rename clashing functions.

    Infers types: not for the GUI thread. ModelError names what the version cannot express.
    """
    model = document.model
    report = ConversionReport()
    version = imports.get("")
    if version is not None and any(nodes_of_other_meaning(model, imports)):
        before = model.opset_imports.get("")
        with document.edit("Convert operator set") as edit:
            try:
                report = convert_opset(edit, version, progress)
            except ModelError as error:
                title = f"The other model cannot be converted to opset {version}"
                advice = f"Convert this model to opset {before} first."
                raise ModelError(title, f"{error.title}. {error.detail.rstrip('.')}. {advice}", error.place) from error
            report.changed(f"converted from opset {before} to {version}", model)
    taken = {f.name for f in model.functions} | {key[1] for key in clashes}
    for function in model.functions:
        if function.key in clashes:
            name = unique_name(function.name, taken)
            taken.add(name)
            report.changed(f"function {function.name} is called {name}, as its name is taken", function)
            with document.edit("Rename function") as edit:
                rename_function(edit, function, name=name)
    return report


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
