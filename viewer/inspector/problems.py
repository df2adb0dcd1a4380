"""Rows for the problems of an object, each with its fix."""

from __future__ import annotations

from onnx_workbench.model.checks import Problem
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node
from onnx_workbench.model.text.formatting import display
from onnx_workbench.viewer.document.selection import Item
from onnx_workbench.viewer.inspector.common import act, section
from onnx_workbench.viewer.property_tree.rows import Help, PropertyRow, RowAction, Style
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.style.choices import choice_title

_STYLES: dict[str, Style] = {"error": "error", "warning": "warning", "info": "muted"}
_MOST_SHOWN = 100


def problems_of(workspace: Workspace, item: Item) -> list[Problem]:
    """Return the known problems of an object; for a node, also of its initializers and outputs.

    Infos about a whole graph or model apply to nearly every export and are left to the Problems panel.
    """
    places = {id(item)}
    if isinstance(item, Node):
        places.update(map(id, item.outputs))
        places.update(id(value) for value in item.inputs if value is not None and value.initializer is not None)
    least = ("error", "warning") if isinstance(item, (Graph, Function, Model)) else ("error", "warning", "info")
    here = [problem for problem in workspace.problems.all if id(problem.place) in places]
    return [problem for problem in here if problem.severity in least]


def problem_rows(workspace: Workspace, problems: list[Problem]) -> list[PropertyRow]:
    """Return a section of problems; nothing without any."""
    if not problems:
        return []

    def rows() -> list[PropertyRow]:
        shown = [_row(workspace, problem, number) for number, problem in enumerate(problems[:_MOST_SHOWN])]
        left = len(problems) - len(shown)
        return [*shown, PropertyRow("more problems", "", f"{left:,} more are in the Problems panel")] if left else shown

    return [section("problems", "Problems", len(problems), rows, expanded=True, common=False)]


def _row(workspace: Workspace, problem: Problem, number: int) -> PropertyRow:
    text = display(problem.message, 300, elide="end")
    row = PropertyRow(
        f"problem {number} {problem.rule}", choice_title(problem.severity), text, style=_STYLES[problem.severity]
    )
    row.tip = display(f"{problem.message}\n{problem.detail}", 800, keep_lines=True)
    row.help = Help(text, problem.detail)
    fix = problem.fix
    if fix is not None:
        row.actions = (RowAction(display(fix.title, 80), act(workspace, fix.title, fix.apply), "edit", "go"),)
    return row
