"""Rows of several objects: common fields, edited for all of them as one edit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter

from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, Value
from onnx_workbench.model.text.formatting import display, plural
from onnx_workbench.viewer.document.selection import Item
from onnx_workbench.viewer.property_tree.rows import PropertyField, PropertyRow, RowAction
from onnx_workbench.viewer.run.workspace import Workspace

#: With more objects only a count is shown: creating the rows of each would take too long.
MOST = 1000

_NOUNS: dict[type, str] = {Node: "node", Value: "value", Graph: "graph", Function: "function", Model: "model"}


def many_rows(
    workspace: Workspace, items: Sequence[Item], rows_of: Callable[[Item], Sequence[PropertyRow]]
) -> list[PropertyRow]:
    """Return a summary of the objects, and the rows common to all."""
    selection = workspace.selection
    kinds = selection.kinds if items is selection.items else Counter(map(type, items))
    summary = PropertyRow("selected", "Selected", ", ".join(plural(n, _NOUNS[kind]) for kind, n in kinds.items()))
    rows = [summary]
    if len(kinds) > 1:
        return rows
    first = items[0]
    if isinstance(first, Node):
        rows += _operators(workspace, selection.nodes)
    if len(items) > MOST:
        summary.note = f"up to {MOST:,} can be edited at once here"
        return rows
    return [*rows, *_joined(workspace, [list(rows_of(item)) for item in items])]


def _operators(workspace: Workspace, nodes: Sequence[Node]) -> list[PropertyRow]:
    """Return the count of each operator, with an action that selects only those; counted on demand for very many
    nodes.
    """
    counts = Counter[str]()

    def select(op_type: str) -> None:
        workspace.selection.set([node for node in nodes if node.op_type == op_type])

    def rows() -> list[PropertyRow]:
        counts.update(() if counts else map(attrgetter("op_type"), nodes))
        operators = []
        for op_type, count in counts.most_common():
            row = PropertyRow(f"operator {op_type}", display(op_type, 80), str(count))
            row.actions = (RowAction("Select only these", partial(select, op_type), "filter", "go"),)
            operators.append(row)
        return operators

    if len(nodes) > MOST:
        return [PropertyRow("operators", "Operators", "", style="section", children=rows)]
    if len(rows()) < 2:
        return []
    return [PropertyRow("operators", "Operators", str(len(counts)), style="section", children=rows, expanded=True)]


def _joined(workspace: Workspace, lists: list[list[PropertyRow]]) -> list[PropertyRow]:
    """Join rows with a key that every list has; in the order of the first."""
    by_key = [{row.key: row for row in rows if row.common} for rows in lists]
    joined = []
    for key in by_key[0]:
        same = [rows[key] for rows in by_key if key in rows]
        if len(same) == len(lists):
            joined.append(_join(workspace, same))
    return joined


def _join(workspace: Workspace, same: list[PropertyRow]) -> PropertyRow:
    first = same[0]
    row = PropertyRow(first.key, first.label, first.text, first.note, first.style, first.mono, first.middle)
    row.help = first.help if all(other.help == first.help for other in same) else None
    row.expanded = first.expanded
    if any(other.text != first.text or other.style != first.style for other in same):
        counts = Counter(other.text for other in same)
        row.text = f"{len(counts)} different" if first.style != "section" else ""
        row.note = ""
        row.style = "muted" if first.style != "section" else "section"
        row.tip = "\n".join(f"{count} × {text or '(empty)'}" for text, count in counts.most_common(8))
    row.field = _joined_field([other.field for other in same], different=row.text != first.text)
    row.actions = tuple(
        RowAction(action.title, partial(_run_all, workspace, same, action), action.icon, action.id)
        for action in first.actions
        if action.id == "remove" and all(any(a.id == "remove" for a in other.actions) for other in same)
    )
    if first.children is not None and first.style == "section":
        row.children = lambda: _joined(workspace, [list(other.rows()) for other in same])
    return row


def _joined_field(fields: Sequence[PropertyField | None], *, different: bool) -> PropertyField | None:
    editable = [field for field in fields if field is not None and field.open is None]
    if len(editable) < len(fields):
        return None
    first = editable[0]

    def apply(edit: Transaction, text: str) -> None:
        for field in editable:
            field.apply(edit, text)

    return PropertyField(
        f"{first.title} and {len(editable) - 1} more",
        str if different else first.source,
        apply,
        choices=first.choices,
        suggest=first.suggest,
        step=None if different else first.step,
        lines=first.lines,
        mono=first.mono,
        hint="different values" if different else first.hint,
    )


def _run_all(workspace: Workspace, same: list[PropertyRow], action: RowAction) -> None:
    """Run each object's own action in one edit: nested edits join the outer one."""
    with workspace.document.edit(f"{action.title} of {len(same)}"):
        for row in same:
            for own in row.actions:
                if own.id == action.id:
                    own.run()
