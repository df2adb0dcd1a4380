"""Models made of parts of another: cut out, with missing types inferred, and compared with the whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onnx_workbench.exec.inspect.equivalence import Equivalence
from onnx_workbench.exec.inspect.self_check import check_transformed, require_agreement
from onnx_workbench.model.analysis.value_types import TypeOf
from onnx_workbench.model.budget import COMPARISON_SECONDS
from onnx_workbench.model.edits.declare_types import is_shapeless
from onnx_workbench.model.edits.extract import Extraction, cut_out, require_types
from onnx_workbench.model.inference.infer import infer
from onnx_workbench.model.ir.graph import Graph, Model, Value
from onnx_workbench.model.progress import SILENT, Progress

_SECONDS = 5.0  # that the parts are compared with the model for, before they open


def cut_parts(
    model: Model,
    cuts: Sequence[Extraction],
    *,
    rules: Mapping[str, str] | None = None,
    progress: Progress = SILENT,
) -> list[Model]:
    """Create the extracted models. `rules`: type rules for operators without a schema.

    ModelError names inputs and outputs whose type or shape is neither declared nor inferred. Cost: inference, where an
    input or output of a part is not declared; weights are not read.
    """
    type_of = _types_of(model, [value for cut in cuts for value in (*cut.inputs, *cut.outputs)], rules, progress)
    parts = [cut_out(model, cut, type_of, progress) for cut in cuts]
    for part, cut in zip(parts, cuts, strict=True):
        require_types(part, cut)
    return parts


def _types_of(model: Model, values: Sequence[Value], rules: Mapping[str, str] | None, progress: Progress) -> TypeOf:
    """Return declared types, or inferred ones where these are missing."""
    if all(value.type is not None and not is_shapeless(value.type) for value in values):
        return lambda value: value.type
    return infer(model, rules, progress).type_of


def check_part(
    model: Model,
    part: Model,
    graph: Graph,
    *,
    runs: int = 1,
    time_limit: float = COMPARISON_SECONDS,
    progress: Progress = SILENT,
) -> Equivalence:
    """Check that a part computes the same as the model from the values at its cut, and that its file is accepted.

    `graph` is the one that it was cut out of: values of a body or a function are not compared. Cost: the whole model is
    run; see `check_transformed`.
    """
    if not runs:
        return Equivalence(None, reason="not requested")
    return check_transformed(model, part, runs=runs, part_of=graph, time_limit=time_limit, progress=progress)


def checked_parts(
    model: Model, cuts: Sequence[Extraction], rules: Mapping[str, str], progress: Progress
) -> list[Model]:
    """Return the parts as models, after they were compared with the whole; ModelError if they differ. From a reader."""
    parts = cut_parts(model, cuts, rules=rules, progress=progress)
    for part, of in zip(parts, cuts, strict=True):
        require_agreement(check_part(model, part, of.graph, time_limit=_SECONDS, progress=progress))
    return parts
