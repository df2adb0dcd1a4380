"""Question before the number of an opset import becomes one that changes what nodes mean."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtWidgets import QMessageBox, QWidget

from onnx_workbench.model import schemas
from onnx_workbench.model.edits import properties
from onnx_workbench.model.ir.graph import Function, Model, Node
from onnx_workbench.model.text.formatting import display, plural
from onnx_workbench.viewer.document.model_signals import is_in_model
from onnx_workbench.viewer.popups.questions import open_question, question
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.style.labels import name_of

_MOST_OPERATORS = 10
_MOST_NAMES = 4


def ask_about_opset(
    window: QWidget, workspace: Workspace, target: Model | Function, domain: str, version: int, changed: Sequence[Node]
) -> None:
    """Offer a conversion instead of a new opset number that defines these nodes differently."""
    from onnx_workbench.viewer.dialogs.convert import OLDEST_OPSET  # which brings the executor with it

    name = display(domain or "ai.onnx", 60)

    def change() -> None:
        if not is_in_model(target):
            return
        with workspace.document.edit(f"Set opset {name} of {name_of(target)}") as edit:
            properties.set_opset(edit, target, domain, version)

    def convert() -> None:
        workspace.conversion_requested.emit(version, "", None)

    can_convert = not domain and OLDEST_OPSET <= version <= schemas.newest_opset()
    other = (
        "Convert rewrites them so that the model computes the same."
        if can_convert
        else "There is no converter for this version."
    )
    box = question(
        window,
        "Convert model?" if can_convert else "Change opset number?",
        f"Opset {version} of {name} defines {plural(len(changed), 'node')} differently.",
        f"{_by_operator(changed)}\n\n{other} Changing only the version number leaves the nodes as they are; they may "
        "compute something else or become invalid.",
    )
    default = box.addButton(QMessageBox.StandardButton.Cancel)
    if can_convert:
        default = box.addButton("&Convert…", QMessageBox.ButtonRole.AcceptRole)
        default.clicked.connect(convert)
    box.addButton("Change &Number Only", QMessageBox.ButtonRole.DestructiveRole).clicked.connect(change)
    box.setDefaultButton(default)
    workspace.closed.connect(open_question(box).reject)


def _by_operator(nodes: Sequence[Node]) -> str:
    """List nodes by operator type, one line each, some by name."""
    by_type: dict[str, list[Node]] = {}
    for node in nodes:
        by_type.setdefault(node.op_type, []).append(node)
    lines = []
    for op_type, found in list(by_type.items())[:_MOST_OPERATORS]:
        names = ", ".join(name_of(node) for node in found[:_MOST_NAMES])
        more = f" and {len(found) - _MOST_NAMES} more" if len(found) > _MOST_NAMES else ""
        lines.append(f"{display(op_type, 60)}: {names}{more}")
    if len(by_type) > _MOST_OPERATORS:
        lines.append(f"and {plural(len(by_type) - _MOST_OPERATORS, 'other operator')}")
    return "\n".join(lines)
