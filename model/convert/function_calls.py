"""Functions whose inner types depend on the call, which a precision conversion cannot convert as one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from onnx_workbench.model.analysis.call_graph import Operator, callers, callers_of
from onnx_workbench.model.analysis.value_types import TypeOf
from onnx_workbench.model.convert.report import ConversionReport
from onnx_workbench.model.edits.functions import inline_calls
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.ir.graph import Function, Model, Node, Value
from onnx_workbench.model.ir.types import ElementType, OptionalType, SequenceType, TensorType, Type
from onnx_workbench.model.progress import SILENT, Progress
from onnx_workbench.model.schemas import traits

_Kind = ElementType | int | None
_MOST_NAMED = 3


def is_told_by_calls(node: Node) -> bool:
    """Return whether a node's output type is determined by an attribute that each call of its function gives."""
    if not node.attributes:
        return False
    facts = traits.of(node)
    deciding = (*facts.value_attributes, facts.type_attribute)
    return any(attribute.reference and name in deciding for name, attribute in node.attributes.items())


def functions_that_differ(model: Model, source: ElementType, type_of: TypeOf) -> list[Function]:
    """Return the functions that take or give the source type in some calls and another in others. Walks over all
    nodes.
    """
    deciding, calls = _deciding(model), callers(model)
    return [
        function
        for key, function in {f.key: f for f in model.functions}.items()
        if _is_split([[innermost(type_of(v)) if v else None for v in call.inputs] for call in calls[key]], source)
        or (key in deciding and _differ([call.outputs for call in calls[key]], source, type_of))
    ]


def _is_split(given: Sequence[Sequence[_Kind]], source: ElementType) -> bool:
    """Return whether an input has the source type in some calls and a known different type in others."""
    return any(source in kinds and len(set(kinds) - {None}) > 1 for kinds in zip_longest(*given))


def _differ(outputs: Sequence[Sequence[Value | None]], source: ElementType, type_of: TypeOf) -> bool:
    kinds = {tuple(innermost(type_of(v)) if v is not None else None for v in made) for made in outputs}
    return len(kinds) > 1 and any(source in some for some in kinds)


def _deciding(model: Model) -> dict[Operator, Function]:
    """Return the functions with attributes that determine a type, directly or through calls."""
    nodes = {f.key: [node for graph in f.body.walk() for node in graph.nodes] for f in model.functions}
    deciding = {f.key: f for f in model.functions if any(map(is_told_by_calls, nodes[f.key]))}
    while True:
        outer = {
            f.key: f
            for f in model.functions
            if f.key not in deciding
            and any(n.operator in deciding and any(a.reference for a in n.attributes.values()) for n in nodes[f.key])
        }
        if not outer:
            return deciding
        deciding |= outer


def inline_calls_that_differ(
    edit: Transaction, source: ElementType, type_of: TypeOf, progress: Progress = SILENT
) -> ConversionReport:
    """Inline the calls of such functions. Types must be inferred again afterwards."""
    report, differing = ConversionReport(), functions_that_differ(edit.model, source, type_of)
    if differing:
        count = inline_calls(edit, callers_of(edit.model, {f.key for f in differing}), progress)
        names = ", ".join(f.name for f in differing[:_MOST_NAMED]) + (" and others" if differing[_MOST_NAMED:] else "")
        calls = "1 call" if count == 1 else f"{count:,} calls"
        report.changed(f"{calls} inlined: those of {names} differ in types", edit.model)
    return report


def innermost(kind: Type | None) -> _Kind:
    """Return the element type of a tensor, also inside a sequence or an optional."""
    while isinstance(kind, (SequenceType, OptionalType)):
        kind = kind.element
    return kind.element_type if isinstance(kind, TensorType) else None
