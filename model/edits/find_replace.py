"""Find and replace over names, operator types, attributes and texts, with a preview of the changes."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from onnx_workbench.model.analysis.scoping import values_named
from onnx_workbench.model.edits.attributes import rename_attribute
from onnx_workbench.model.edits.nodes import change_operator
from onnx_workbench.model.edits.values import update_name_references
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.history.steps import SetAttribute, SetField
from onnx_workbench.model.ir.attributes import Attribute, AttributeKind
from onnx_workbench.model.ir.graph import Function, Graph, Node, Value
from onnx_workbench.model.ir.name_index import NameIndex
from onnx_workbench.model.progress import SILENT, Progress
from onnx_workbench.model.text.attributes import attribute_source, has_text, parse_attribute
from onnx_workbench.model.text.regular_expressions import RegularExpression

Where = Literal["node names", "value names", "operator types", "attribute names", "attribute values", "texts"]
_Substitute = Callable[[str], str]

_LONGEST = 10_000  # list elements searched at most: longer lists are data


@dataclass(frozen=True, slots=True)
class Replacement:
    """One match of find-and-replace, for the preview."""

    target: Node | Value
    where: Where
    field: str
    before: str
    after: str


def find_replacements(
    graphs: Iterable[Graph],
    pattern: str,
    replacement: str,
    where: Collection[Where],
    *,
    regex: bool = False,
    whole: bool = False,
    case: bool = True,
    nodes: Collection[Node] | None = None,
) -> Iterator[Replacement | None]:
    """Yield what `replace_all` would change, incrementally: None for an object without a match.

    `nodes` restricts the search to a selection. ModelError at once for an invalid expression or replacement, and during
    iteration for an expression that exceeds its time limit. Attribute values are searched as `attribute_source` writes
    them, strings in lists one by one; lists of more than 10,000 elements are skipped.
    """
    if not pattern:
        raise ModelError("Nothing to find", "Write what to look for.")
    expression = RegularExpression(pattern if regex else re.escape(pattern), ignores_case=not case)
    template = replacement if regex else replacement.replace("\\", r"\\")
    return _found(graphs, expression.replacing(template, whole=whole), where, nodes)


def _found(
    graphs: Iterable[Graph], substitute: _Substitute, where: Collection[Where], nodes: Collection[Node] | None
) -> Iterator[Replacement | None]:
    def match(target: Node | Value, kind: Where, field: str, text: str) -> Replacement | None:
        after = substitute(text)
        return None if after == text else Replacement(target, kind, field, text, after)

    for graph in graphs:
        chosen = graph.nodes if nodes is None else [n for n in graph.nodes if n in nodes]
        if "value names" in where:
            for value in graph.values() if nodes is None else _outputs(chosen):
                yield match(value, "value names", "name", value.name)
        for node in chosen:
            yield None
            if "node names" in where:
                yield match(node, "node names", "name", node.name)
            if "operator types" in where:
                yield match(node, "operator types", "op_type", node.op_type)
            if "texts" in where:
                yield match(node, "texts", "doc_string", node.doc_string)
            if "attribute values" in where:
                yield from (_in_value(node, attribute, substitute) for attribute in node.attributes.values())
            if "attribute names" in where:  # last: until then the values are found by the old ones
                yield from (match(node, "attribute names", name, name) for name in node.attributes)


def _outputs(nodes: Iterable[Node]) -> Iterator[Value]:
    return (value for node in nodes for value in node.outputs if value is not None)


def _in_value(node: Node, attribute: Attribute, substitute: _Substitute) -> Replacement | None:
    value: Any = attribute.value
    if attribute.reference or not has_text(attribute.kind) or (attribute.kind.is_list and len(value) > _LONGEST):
        return None
    before = attribute_source(attribute)
    if attribute.kind is AttributeKind.STRINGS:
        after = attribute_source(replace(attribute, value=tuple(map(substitute, value))))
    else:
        after = substitute(before)
    return None if after == before else Replacement(node, "attribute values", attribute.name, before, after)


def replace_all(edit: Transaction, replacements: Iterable[Replacement], progress: Progress = SILENT) -> None:
    """Apply replacements; ModelError, and nothing changed, when one of them fails.

    That is when two values or nodes would get the same name, or an attribute cannot hold a value. Nodes are renamed
    last, so that error messages use the names the user knows.
    """
    replacements = sorted(replacements, key=lambda item: item.where == "node names")
    _refuse_clashes(replacements)
    before = {item.target: item.target.name for item in replacements if isinstance(item.target, Value)}
    for item in progress.paced(replacements, of=len(replacements)):
        target = item.target
        if isinstance(target, Value) or item.where in ("node names", "texts"):
            edit.do(SetField(target, item.field, item.after))
        elif item.where == "operator types":
            change_operator(edit, target, item.after, target.domain)
        elif item.where == "attribute names":
            rename_attribute(edit, target, item.before, item.after)
        else:
            edit.do(SetAttribute(target, item.field, _changed(target, item)))
    update_name_references(edit, before)


def _changed(node: Node, item: Replacement) -> Attribute:
    attribute = node.attributes[item.field]
    try:
        return replace(attribute, value=parse_attribute(item.after, attribute.kind))
    except ModelError as error:
        raise ModelError(f"{item.field} of {node.title} cannot be {item.after}", error.detail, node) from error


def _refuse_clashes(replacements: list[Replacement]) -> None:
    """Raise ModelError for name clashes. Linear in the number of replacements."""
    renamed = {r.target: r.after for r in replacements if r.where in ("node names", "value names")}
    holder_by_name: dict[tuple[Graph, type, str], Node | Value] = {}
    for target, name in renamed.items():
        if target.graph is None:
            continue
        if not name:
            if isinstance(target, Value):
                raise ModelError("A value would lose its name", f"{target.name} would become empty.", target)
            continue
        holders: Iterable[Node | Value]
        if isinstance(target, Node):
            holders = NameIndex.of(target.graph).nodes(name)
        else:
            holders = values_named(target.graph, name)
        first = holder_by_name.setdefault((_space(target, target.graph), type(target), name), target)
        if _is_twice(first, target) or any(holder not in renamed for holder in holders):
            raise ModelError(f"Two would be named {name}", "Names are unique in a graph and its bodies.", target)


def _space(target: Node | Value, graph: Graph) -> Graph:
    """Return the outermost graph in which a name is unique: training graphs have a namespace apart from the main
    graph.
    """
    model = graph.model
    if isinstance(target, Node) or model is None or isinstance(graph.root.owner, Function):
        return graph.root
    return model.graph


def _is_twice(first: Node | Value, second: Node | Value) -> bool:
    """Return whether two replacements create a new duplicate; two training graphs may share a name already."""
    if first is second or first.graph is None or second.graph is None:
        return False
    return first.graph.root is second.graph.root or first.name != second.name
