"""Problems found with inferred types: inputs that an operator does not accept, for each call of a function."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

from onnx_workbench.model.checks.nodes import check_types
from onnx_workbench.model.checks.problem import Problem, error, warning
from onnx_workbench.model.ir.types import Type
from onnx_workbench.model.schemas.defaults import schema_of
from onnx_workbench.model.schemas.schema import type_text

if TYPE_CHECKING:
    from onnx_workbench.model.inference.engine import TypeMismatch
    from onnx_workbench.model.inference.infer import InferredTypes
    from onnx_workbench.model.ir.graph import Node


def check_inferred(inferred: InferredTypes) -> Iterator[Problem]:
    """Return the problems that inference found. Linear in their number."""
    return (_problem(misfit) for misfit in inferred.misfits if misfit.node.graph is not None)


def is_other_kind(declared: Type, found: Type) -> bool:
    """Return whether declared and inferred element types differ, which no runtime accepts; otherwise only sizes
    differ.
    """
    texts = type_text(declared), type_text(found)
    return None not in texts and texts[0] != texts[1]


def beside(known: Collection[Problem], found: Iterable[Problem]) -> Iterator[Problem]:
    """Return the problems found with inferred types, without nodes already reported by declared types."""
    reported = {problem.place for problem in known if problem.rule == "type"}
    return (problem for problem in found if problem.rule != "type" or problem.place not in reported)


def _constant_problem(node: Node) -> Problem:
    """Return the problem of a Constant before opset 9 that is not floating-point, as some exporters wrote."""
    version = node.graph.opset_imports.get("", 1) if node.graph is not None else 1
    return warning(
        "type",
        f"{node.title} has a value that Constant does not support at opset {version}",
        node,
        "Before opset 9, Constant supports floating-point tensors only. Runtimes accept others too.",
    )


def _problem(misfit: TypeMismatch) -> Problem:
    node = misfit.node
    assert node.graph is not None
    where = f" in the call {' › '.join(call.title for call in misfit.calls)}" if misfit.calls else ""
    pairs = zip(node.inputs, misfit.types, strict=False)  # an edit may have happened since
    types = {value: kind for value, kind in pairs if value is not None and kind is not None}
    given = ", ".join(f"{value.name} is {kind}" for value, kind in types.items())
    if misfit.is_computed:
        detail = f"{misfit.reason}. {given}. ONNX Runtime and this program compute it; others may reject it."
        return warning(
            "beyond-specification",
            f"{node.title} has inputs that the specification does not allow{where}",
            node,
            detail,
        )
    if misfit.is_type:
        schema = schema_of(node)
        found = None if schema is None else next(check_types(node, schema, types.get), None)
        if node.op_type == "Constant" and not node.domain:
            return _constant_problem(node)
        if found is not None:
            return error("type", f"{found.message}{where}", node, found.detail)
        return error("type", f"{node.title} does not accept its input types{where}", node, f"{misfit.reason}: {given}.")
    make = error if misfit.is_sure else warning
    detail = f"{misfit.reason.rstrip('. ')}. {given}.".lstrip(". ")
    return make("shape", f"Shape inference of {node.title} failed{where}", node, detail)
