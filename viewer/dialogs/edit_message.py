"""Edits one protobuf message as text."""

from __future__ import annotations

from typing import Any

from PySide6.QtWidgets import QWidget

from onnx_workbench.model.convert.changed_nodes import nodes_changed_by_opset
from onnx_workbench.model.edits.edit_message import MessageEdit, Target
from onnx_workbench.model.io.reader.import_graph import read_opsets
from onnx_workbench.model.ir.graph import Function, Model
from onnx_workbench.model.text.formatting import display, plural
from onnx_workbench.viewer.dialogs.edit_text import EditTextDialog
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.style.labels import name_of

_TITLES = {"initializer": "tensor", "sparse_initializer": "sparse tensor", "value_info": "declared value"}


def edit_message(window: QWidget, workspace: Workspace, target: Target, field: str = "") -> None:
    """Open the dialog for the message of an object; `field` as for `MessageEdit`. ModelError if it has none."""
    EditTextDialog(workspace, _EditedMessage(target, field), "Edit Message", window).open()


class _EditedMessage(MessageEdit):
    """A message with the texts of the dialog."""

    @property
    def title(self) -> str:
        return f"Edit message of {name_of(self.target)}"

    @property
    def subject(self) -> str:
        of = f"{_TITLES.get(self.field, self.field)} {name_of(self.target)}".strip()
        rest = f"\nWithout {', '.join(self.parts)}: each entry has a message of its own." if self.parts else ""
        kept = "\nA line that begins with unchanged keeps content as it is." * ("unchanged: " in self.text)
        return f"{self.kind} of {of}{rest}{kept}"

    def check(self, text: str) -> str:
        """Read a text; return what an opset number that defines nodes differently means for the model."""
        message: Any = self.read(text)
        target = self.target
        if not isinstance(target, (Model, Function)):
            return ""
        remarks = []
        for domain, version in read_opsets(message.opset_import).items():
            count = len(nodes_changed_by_opset(target, domain, version)) if 0 < version < 1 << 31 else 0
            if count:
                name = display(domain or "ai.onnx", 60)
                remarks.append(f"Opset {version} of {name} defines {plural(count, 'node')} differently.")
        convert = "Model › Convert… changes the nodes along with the number; this dialog does not."
        return "\n".join([*remarks, convert]) if remarks else ""
