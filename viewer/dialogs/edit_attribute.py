"""Edits an attribute that is too long for a field as text: lists one element a line."""

from __future__ import annotations

import re
from dataclasses import dataclass

from PySide6.QtWidgets import QWidget

from onnx_workbench.model.edits.attributes import set_attribute
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.ir.attributes import Attribute
from onnx_workbench.model.ir.graph import Node
from onnx_workbench.model.text.attributes import attribute_source, parse_attribute
from onnx_workbench.model.text.formatting import display, plural
from onnx_workbench.viewer.dialogs.edit_text import EditTextDialog
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.style.labels import name_of

_LOST = re.compile("[\u00a0\u2028\u2029\udc80-\udcff]")  # characters that Qt's editor does not keep


def edit_attribute(window: QWidget, workspace: Workspace, node: Node, attribute: Attribute) -> None:
    """Open the dialog for an attribute of a node."""
    EditTextDialog(workspace, _EditedAttribute(node, attribute), "Edit Attribute", window).open()


@dataclass(frozen=True)
class _EditedAttribute:
    """A list or a string."""

    node: Node
    attribute: Attribute

    @property
    def subject(self) -> str:
        return f"{display(self.attribute.name, 40)} of {name_of(self.node)}"

    @property
    def title(self) -> str:
        return f"Set {self.subject}"

    @property
    def text(self) -> str:
        lines = attribute_source(self.attribute, separator=",\n")
        if not isinstance(self.attribute.value, tuple):
            return lines
        return _LOST.sub(lambda found: f"\\u{ord(found[0]):04x}", lines)

    def _value(self, text: str) -> object:
        return parse_attribute(text, self.attribute.kind)

    def check(self, text: str) -> str:
        """Read a text; return how long it is."""
        value = self._value(text)
        return plural(len(value), "element") if isinstance(value, tuple) else plural(len(text), "character")

    def apply(self, edit: Transaction, text: str) -> None:
        """Set the attribute, unless it was changed or removed meanwhile."""
        if self.node.attributes.get(self.attribute.name) is not self.attribute:
            raise ModelError("The attribute has changed", "Open it again to edit its current content.", self.node)
        set_attribute(edit, self.node, self.attribute.name, self._value(text), self.attribute.kind)
