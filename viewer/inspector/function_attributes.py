"""Rows for the formal attributes of a function; Edit Message changes their order, kinds and descriptions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from onnx_workbench.model.edits import function_attributes as formals
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.ir.attributes import Attribute, AttributeKind, make_attribute
from onnx_workbench.model.ir.graph import Function
from onnx_workbench.model.text.attributes import attribute_source, has_text, parse_any, parse_attribute
from onnx_workbench.model.text.formatting import display
from onnx_workbench.viewer.inspector.attribute_parts import kind_text
from onnx_workbench.viewer.inspector.attributes import attribute_text
from onnx_workbench.viewer.inspector.common import act, add_row, editing_message, name_of, removing, section
from onnx_workbench.viewer.property_tree.rows import PropertyField, PropertyRow, RowAction
from onnx_workbench.viewer.run.workspace import Workspace


def function_attributes(workspace: Workspace, function: Function) -> PropertyRow:
    """Return the section of formal attributes: add, rename, set a default, require, remove."""
    count = len(formals.formal_names(function))

    def rows() -> Sequence[PropertyRow]:
        attributes = [_row(workspace, function, name, None) for name in function.attributes]
        attributes += [_row(workspace, function, default.name, default) for default in function.attribute_defaults]
        field = PropertyField(
            f"Add attribute to {name_of(function)}",
            str,
            lambda edit, text: _add(edit, function, text),
            hint="name, or name = default",
        )
        return [*attributes, add_row("Add attribute", field)]

    return section(
        "attributes",
        "Attributes",
        count,
        rows,
        expanded=count <= 60,
        common=False,
        actions=[editing_message(workspace)],
    )


def _add(edit: Transaction, function: Function, text: str) -> None:
    name, equals, rest = text.partition("=")
    name = name.strip()
    if name in formals.formal_names(function):
        raise ModelError(f"There is an attribute {display(name, 60)} already", "Edit the existing row.", function)
    if equals:
        formals.set_default(edit, function, _default(name, rest))
    else:
        formals.require(edit, function, name)


def _default(name: str, text: str) -> Attribute:
    value, kind = parse_any(text)
    return make_attribute(name, value, kind)


def _row(workspace: Workspace, function: Function, name: str, default: Attribute | None) -> PropertyRow:
    of = f"{display(name, 40)} of {name_of(function)}"
    row = PropertyRow(f"attribute {name}", display(name, 120), "required", style="muted")
    row.label_field = PropertyField(
        f"Rename attribute {of}", lambda: name, lambda edit, new: formals.rename(edit, function, name, new.strip())
    )

    def apply(edit: Transaction, text: str) -> None:
        attribute = _default(name, text)
        if default is not None:  # it stays what it is
            attribute = make_attribute(name, parse_attribute(text, default.kind), default.kind)
            attribute = replace(attribute, doc_string=default.doc_string, source=default.source)
        formals.set_default(edit, function, attribute)

    if default is None or has_text(default.kind):
        row.field = PropertyField(
            f"Set default of {display(name, 40)}",
            lambda: "" if default is None else attribute_source(default),
            apply,
            mono=default is not None and default.kind is not AttributeKind.STRING,
            hint="a default value",
        )
    row.actions = (removing(workspace, f"Remove attribute {of}", lambda edit: formals.remove(edit, function, name)),)
    if default is not None:
        row.text, row.note, row.style = attribute_text(default), kind_text(default.kind), "normal"
        requiring = act(workspace, f"Make {of} required", lambda edit: formals.require(edit, function, name))
        row.actions = (RowAction("Make it required", requiring), *row.actions)
    return row
