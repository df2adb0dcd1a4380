"""Adapt a model to another one before merging: opset versions, and functions whose names are taken."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from onnx_workbench.model.analysis.scoping import unique_name
from onnx_workbench.model.convert import ConversionReport, convert_opset
from onnx_workbench.model.diff import do_the_same
from onnx_workbench.model.edits.copy_paste import nodes_of_other_meaning
from onnx_workbench.model.edits.functions import rename_function
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.ir.graph import Model
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
