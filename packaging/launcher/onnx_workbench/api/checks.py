"""What is wrong with a model, and the types of its values."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from onnx_workbench.api.files import model_of
from onnx_workbench.arguments import as_document, nodes_of
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.graph import Model, Node
from onnx_workbench.model.progress import SILENT, Progress

if TYPE_CHECKING:
    from onnx_workbench.model.checks.problem import Problem
    from onnx_workbench.model.history.document import Document
    from onnx_workbench.model.inference.infer import InferredTypes


def check(model: Model | Document, *, infer_types: bool = True, progress: Progress = SILENT) -> list[Problem]:
    """Find every problem of a model: rules of the specification, signatures, types that cannot be. Errors come first.

    A Problem has a `severity` ("error", "warning" or "info"), a `rule`, a `message`, a `detail`, and its `place`: the
    node, value, graph, function or model. `infer_types` false goes by declared types alone, which takes a tenth of
    the time. A model without a problem gives an empty list.

    >>> import onnx_workbench as ow
    >>> model = ow.load(sample)
    >>> softmax = next(node for node in model.graph.nodes if node.op_type == "Softmax")
    >>> with ow.Document(model).edit("Break it") as edit:
    ...     ow.edits.disconnect(edit, softmax, 0)
    >>> problem = ow.check(model)[0]
    >>> problem.severity, problem.place is softmax
    ('error', True)
    """
    from onnx_workbench.model.checks.models import check_model
    from onnx_workbench.model.checks.problem import Problem, errors_first

    model = model_of(model)
    problems: list[Problem] = []
    if model.source is not None:
        for text in model.source.problems:
            is_lost = text == model.source.truncation
            problems.append(Problem("reading", "error" if is_lost else "warning", text, model))
    problems += check_model(model)
    if infer_types:
        problems += _inferred_problems(model, problems, progress)
    return errors_first(problems)


def _inferred_problems(model: Model, known: Sequence[Problem], progress: Progress) -> Iterable[Problem]:
    """Problems that show once types are inferred, beside those known already."""
    from onnx_workbench.model.checks.inferred import beside, check_inferred, is_other_kind
    from onnx_workbench.model.checks.problem import error, warning
    from onnx_workbench.model.inference.infer import disagreements
    from onnx_workbench.model.inference.infer import infer as infer_types
    from onnx_workbench.model.text.formatting import type_text

    inferred = infer_types(model, progress=progress)
    yield from beside(known, check_inferred(inferred))
    for value, declared, found in disagreements(model, inferred):
        make = error if is_other_kind(declared, found) else warning
        message = f"{value.name} is declared {type_text(declared)}"
        yield make("declared-type", message, value, f"Inferred from its inputs: {type_text(found)}.")


def infer(
    model: Model | Document,
    *,
    rules: Mapping[str, str] | None = None,
    nodes: Collection[Node] | None = None,
    write: bool = True,
    progress: Progress = SILENT,
) -> InferredTypes:
    """Infer types and shapes of all values, and declare them in the model unless `write` is false.

    `rules` tells the types of operators that nobody knows: ``{"my.domain::Quant": "same as input 0"}``. With `nodes`,
    only types of what these make are declared. Takes about half a second for 10,000 nodes.

    Returns the types by Value (`types`), what nodes cannot work on (`misfits`), and how many declarations were
    `written`. ModelError: a rule says nothing.

    >>> import onnx_workbench as ow
    >>> model = ow.load(sample)
    >>> inferred = ow.infer(model)
    >>> str(inferred.types[model.graph.outputs[0]])
    'float[batch,10]'
    """
    from onnx_workbench.model.analysis.node_subset import part_of
    from onnx_workbench.model.edits.declare_types import declare_all
    from onnx_workbench.model.inference.custom_rules import rule_of_text
    from onnx_workbench.model.inference.infer import infer as infer_types

    for operator, rule in (rules or {}).items():
        if "::" not in operator or rule_of_text(rule) is None:
            raise ModelError(f"'{operator}={rule}' is not a rule", 'Write it as "my.domain::Operator=same as input 0".')
    document = as_document(model)
    nodes = nodes_of(nodes, document.model)
    inferred = infer_types(document.model, rules, progress)
    if not write:
        return inferred
    with document.edit("Write inferred types") as edit:
        written = declare_all(edit, inferred, None if nodes is None else part_of(nodes), progress)
    return replace(inferred, written=written)
