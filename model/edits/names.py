"""Names of many things at once: find and replace, regenerating, prefixes."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal

from model import schemas
from model.document import Transaction
from model.edits.nodes import change_operator
from model.errors import ModelError
from model.graph import Graph, Model, Node, Value
from model.queries.scope import Taken, names_taken, node_names, unique_name
from model.steps import SetAttribute, SetField

Where = Literal["node names", "value names", "operator types", "attributes", "texts"]


@dataclass(frozen=True, slots=True)
class Replacement:
    """One place find-and-replace would change, for the preview."""

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
) -> list[Replacement]:
    """What `replace_all` would change. `nodes` restricts it to a selection. ModelError for a wrong expression."""
    matcher = _matcher(pattern, regex=regex, whole=whole, case=case)
    found: list[Replacement] = []

    def look(target: Node | Value, kind: Where, field: str, text: str) -> None:
        try:
            after = matcher.sub(replacement if regex else replacement.replace("\\", r"\\"), text)
        except (re.error, IndexError) as error:
            raise ModelError(f"The replacement {replacement!r} does not work", str(error)) from error
        if after != text:
            found.append(Replacement(target, kind, field, text, after))

    for graph in graphs:
        chosen = [n for n in graph.nodes if nodes is None or n in nodes]
        if "value names" in where:
            for value in _values(graph, chosen, everything=nodes is None):
                look(value, "value names", "name", value.name)
        for node in chosen:
            if "node names" in where:
                look(node, "node names", "name", node.name)
            if "operator types" in where:
                look(node, "operator types", "op_type", node.op_type)
            if "texts" in where:
                look(node, "texts", "doc_string", node.doc_string)
            if "attributes" in where:
                for name, attribute in node.attributes.items():
                    if isinstance(attribute.value, str):
                        look(node, "attributes", name, attribute.value)
    return found


def _matcher(pattern: str, *, regex: bool, whole: bool, case: bool) -> re.Pattern[str]:
    if not pattern:
        raise ModelError("Nothing to find", "Write what to look for.")
    expression = pattern if regex else re.escape(pattern)
    if whole:
        expression = rf"\A(?:{expression})\Z"
    try:
        return re.compile(expression, 0 if case else re.IGNORECASE)
    except re.error as error:
        raise ModelError(f"{pattern!r} is not a regular expression", str(error)) from error


def _values(graph: Graph, nodes: list[Node], *, everything: bool) -> Iterable[Value]:
    if everything:
        return graph.values()
    return [v for node in nodes for v in node.outputs if v is not None]


def replace_all(edit: Transaction, replacements: Iterable[Replacement]) -> None:
    """Carry out replacements; refused as a whole when two values or nodes would end with the same name."""
    replacements = list(replacements)
    _refuse_clashes(replacements)
    for item in replacements:
        target = item.target
        if item.where == "operator types":
            assert isinstance(target, Node)
            change_operator(edit, target, item.after, target.domain)
        elif item.where == "attributes":
            assert isinstance(target, Node)
            from dataclasses import replace

            attribute = replace(target.attributes[item.field], value=item.after)
            edit.do(SetAttribute(target, item.field, attribute))
        else:
            edit.do(SetField(target, item.field, item.after))


def _refuse_clashes(replacements: list[Replacement]) -> None:
    renamed = {r.target: r.after for r in replacements if r.where in ("node names", "value names")}
    roots = {t.graph.root for t in renamed if t.graph is not None}
    for root in roots:
        holders: dict[tuple[type, str], Node | Value] = {}
        for graph in root.walk():
            for target in (*graph.values(), *graph.nodes):
                name = renamed.get(target, target.name)
                if target in renamed and isinstance(target, Value) and not name:
                    raise ModelError("A value would lose its name", f"{target.name} would become empty.", target)
                other = holders.setdefault((type(target), name), target)
                if name and other is not target and (target in renamed or other in renamed):
                    raise ModelError(
                        f"Two would be named {name}", "Names are unique in a graph and its bodies.", target
                    )


def regenerate_node_names(edit: Transaction, model: Model, *, only_missing: bool = False) -> int:
    """Name nodes by operator type and number; with `only_missing` only those that lack a name of their own.

    Returns how many changed.
    """
    count = 0
    for root in model.root_graphs():
        seen: set[str] = set()
        taken: Taken | set[str] = node_names(root) if only_missing else set()
        for graph in root.walk():
            for node in graph.nodes:
                if only_missing and node.name and node.name not in seen:
                    seen.add(node.name)
                    continue
                name = unique_name(f"{node.op_type}_0", taken)
                taken.add(name)
                seen.add(name)
                if name != node.name:
                    edit.do(SetField(node, "name", name))
                    count += 1
    return count


def regenerate_value_names(edit: Transaction, model: Model) -> int:
    """Name the outputs of nodes after their node; inputs, outputs and initializers of graphs keep theirs."""
    count = 0
    for root in model.root_graphs():
        taken = names_taken(root)
        for graph in root.walk():
            for node in graph.nodes:
                for index, value in enumerate(node.outputs):
                    if value is None or value.is_output:
                        continue
                    wanted = f"{node.title}_output_{index}"
                    if value.name != wanted and wanted not in taken:
                        edit.do(SetField(value, "name", wanted))
                        count += 1
    return count


def regenerate_initializer_names(edit: Transaction, model: Model) -> int:
    """Name initializers after the first node that uses them and what they are to it; those that are inputs keep theirs.

    Returns how many changed.
    """
    count = 0
    for root in model.root_graphs():
        taken = names_taken(root)
        for graph in root.walk():
            for value in list(graph.initializers):
                use = next(((user, index) for user, index in value.uses if isinstance(user, Node)), None)
                if use is None or value.is_input or value.is_output:
                    continue
                wanted = f"{use[0].title}_{_part(*use)}"
                if value.name == wanted:
                    continue
                name = unique_name(wanted, taken)
                taken.add(name)
                edit.do(SetField(value, "name", name))
                count += 1
    return count


def _part(node: Node, index: int) -> str:
    """What the operator's signature calls an input."""
    assert node.graph is not None
    schema = schemas.find(node.op_type, node.graph.opset_imports.get(node.domain, 1), node.domain)
    formal = schema.input(index) if schema is not None else None
    if formal is None or not formal.name:
        return f"input_{index}"
    return f"{formal.name}_{index}" if formal.option == "variadic" else formal.name
