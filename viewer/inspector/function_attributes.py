"""Rows for the formal attributes of a function: required ones, and those with a default."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from onnx_workbench.model.edits import function_attributes as formals
from onnx_workbench.model.edits import functions
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.ir.attributes import Attribute, AttributeKind, make_attribute
from onnx_workbench.model.ir.graph import Function
from onnx_workbench.model.text.attributes import attribute_source, convert_value, has_text, parse_any, parse_attribute
from onnx_workbench.model.text.formatting import display
from onnx_workbench.viewer.inspector.attribute_parts import kind_field, kind_text
from onnx_workbench.viewer.inspector.attributes import attribute_text
from onnx_workbench.viewer.inspector.common import (
    act,
    add_row,
    movable,
    moved,
    name_of,
    removing,
    section,
    text_field,
    text_row,
)
from onnx_workbench.viewer.property_tree.rows import PropertyField, PropertyRow, RowAction
from onnx_workbench.viewer.run.workspace import Workspace


def function_attributes(workspace: Workspace, function: Function) -> PropertyRow:
    """Return the section of formal attributes: add, rename, move, set a default, require, describe, remove."""
    count = len(formals.formal_names(function))

    def rows() -> Sequence[PropertyRow]:
        found = [_required_row(workspace, function, i) for i in range(len(function.attributes))]
        found += [_default_row(workspace, function, default) for default in function.attribute_defaults]
        field = PropertyField(
            f"Add attribute to {name_of(function)}",
            str,
            lambda edit, text: _add(edit, function, text),
            hint="name, or name = default",
        )
        return [*found, add_row("Add attribute", field)]

    return section("attributes", "Attributes", count, rows, expanded=count <= 60, common=False)


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


def _row(function: Function, name: str) -> PropertyRow:
    """Return a row with what both kinds have: the name."""
    row = PropertyRow(f"attribute {name}", display(name, 120))
    row.label_field = PropertyField(
        f"Rename attribute {display(name, 40)} of {name_of(function)}",
        lambda: name,
        lambda edit, new: formals.rename(edit, function, name, new.strip()),
    )
    return row


def _removing(workspace: Workspace, function: Function, name: str) -> RowAction:
    title = f"Remove attribute {display(name, 40)} of {name_of(function)}"
    return removing(workspace, title, lambda edit: formals.remove(edit, function, name))


def _required_row(workspace: Workspace, function: Function, index: int) -> PropertyRow:
    name = function.attributes[index]
    row = _row(function, name)
    row.text, row.style = "required", "muted"
    row.field = PropertyField(
        f"Set default of {display(name, 40)}",
        str,
        lambda edit, text: formals.set_default(edit, function, _default(name, text)),
        hint="a default value",
    )

    def move(edit: Transaction, to: int) -> None:
        functions.set_signature(edit, function, attributes=moved(function.attributes, index, to))

    movable(workspace, row, f"Move attribute {display(name, 40)}", index, len(function.attributes), move)
    row.actions = (*row.actions, _removing(workspace, function, name))
    return row


def _default_row(workspace: Workspace, function: Function, default: Attribute) -> PropertyRow:
    name = default.name
    row = _row(function, name)
    row.text, row.note = attribute_text(default), kind_text(default.kind)
    if has_text(default.kind):
        row.field = PropertyField(
            f"Set default of {display(name, 40)}",
            lambda: attribute_source(default),
            lambda edit, text: _set_default(edit, function, default, parse_attribute(text, default.kind)),
            mono=default.kind is not AttributeKind.STRING,
        )
    requiring = act(
        workspace,
        f"Make {display(name, 40)} of {name_of(function)} required",
        lambda edit: formals.require(edit, function, name),
    )
    row.actions = (RowAction("Make it required", requiring), _removing(workspace, function, name))
    row.children = lambda: [_kind_row(function, default), _description_row(function, default)]
    return row


def _set_default(
    edit: Transaction, function: Function, default: Attribute, value: object, kind: AttributeKind | None = None
) -> None:
    made = make_attribute(default.name, value, kind or default.kind)
    formals.set_default(edit, function, replace(made, doc_string=default.doc_string, source=default.source))


def _kind_row(function: Function, default: Attribute) -> PropertyRow:
    row = PropertyRow("kind", "Kind", kind_text(default.kind))
    row.field = kind_field(
        f"Change kind of {display(default.name, 40)}",
        default,
        lambda edit, kind: _set_default(edit, function, default, convert_value(default, kind), kind),
    )
    return row


def _description_row(function: Function, default: Attribute) -> PropertyRow:
    field = text_field(
        f"Describe {display(default.name, 40)} of {name_of(function)}",
        default.doc_string,
        lambda edit, text: formals.set_default(edit, function, replace(default, doc_string=text)),
        lines=True,
    )
    return text_row("doc_string", "Description", default.doc_string, field)
