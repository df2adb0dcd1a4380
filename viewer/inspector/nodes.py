"""Rows for a node: operator, name, attributes, inputs and outputs, texts, devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from onnx_workbench.model import schemas
from onnx_workbench.model.analysis.signatures import function_schema, operator_for
from onnx_workbench.model.edits import nodes, values
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.ir.graph import Node, Value
from onnx_workbench.model.schemas import Parameter, Schema
from onnx_workbench.model.text.formatting import display, plural
from onnx_workbench.viewer.inspector.attributes import OpenList, attributes_section
from onnx_workbench.viewer.inspector.common import (
    ValueSuggestions,
    act,
    add_row,
    description_row,
    go,
    inferred_row,
    many,
    metadata_section,
    name_of,
    section,
    show_type,
    text_row,
    type_note,
)
from onnx_workbench.viewer.inspector.devices import devices_section
from onnx_workbench.viewer.inspector.run_rows import run_rows
from onnx_workbench.viewer.inspector.tensors import TensorNumbers, tensor_text
from onnx_workbench.viewer.inspector.types import value_type_field
from onnx_workbench.viewer.popups.connect import InputSource, misfit
from onnx_workbench.viewer.property_tree.rows import Help, PropertyField, PropertyRow, RowAction, Suggestion
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.style.type_texts import whole_type

MOST_WITH_RUNS = 240  # most outputs with run results; further ones are shown at the value


def node_rows(workspace: Workspace, node: Node, numbers: TensorNumbers, open_list: OpenList) -> list[PropertyRow]:
    """Return all rows of a node."""
    schema = schema_of(workspace, node)
    return [
        _operator_row(workspace, node, schema),
        _name_row(node),
        _domain_row(workspace, node, schema),
        *_overload_row(workspace, node),
        attributes_section(workspace, node, schema, numbers, open_list),
        _inputs(workspace, node, schema),
        _outputs(workspace, node, schema),
        description_row(node),
        metadata_section(workspace, node),
        *devices_section(workspace, node),
    ]


def schema_of(workspace: Workspace, node: Node) -> Schema | None:
    """Return the schema of a node: of the called function, else of the operator; None while not loaded."""
    function = workspace.model.function(*node.operator)
    if function is not None:
        return function_schema(function)
    if node.graph is None or not schemas.is_loaded():
        return None
    return schemas.find(node.op_type, node.graph.opset_imports.get(node.domain, 1), node.domain)


@lru_cache(maxsize=64)
def operator_help(schema: Schema) -> Help:
    """Return the documentation of an operator: markdown only from the installed onnx package."""
    trusted = schema.origin == "onnx"
    parts = [schema.doc or "No documentation."]
    if schema.deprecated:
        parts.insert(0, "This operator is deprecated in this version.")
    for title, parameters in (("Inputs", schema.inputs), ("Outputs", schema.outputs)):
        if parameters:
            bold = "**" if trusted else ""
            lines = [_parameter_line(p, bold) for p in parameters]
            parts.append(f"{'### ' if trusted else ''}{title}\n\n" + "\n".join(lines))
    return Help(f"{schema.name} – {schema.domain or 'ai.onnx'} {schema.since_version}", "\n\n".join(parts), trusted)


@lru_cache(maxsize=64)
def _summary(schema: Schema) -> str:
    return display(" ".join(schema.doc.split()), 300, elide="end")


# -- identity --------------------------------------------------------------------------------------------------


def _parameter_line(parameter: Parameter, bold: str) -> str:
    facts = ", ".join(part for part in (parameter.option, parameter.type_name) if part)
    doc = " ".join(parameter.doc.split())
    return f"- {bold}{parameter.name}{bold} ({facts})" + (f": {doc}" if doc else "")


def _operator_row(workspace: Workspace, node: Node, schema: Schema | None) -> PropertyRow:
    field = PropertyField(
        f"Change operator of {name_of(node)}",
        lambda: node.op_type,
        lambda edit, text: nodes.change_operator(edit, node, *operator_for(node, text)),
        suggest=lambda typed: _suggest_operators(workspace, node, typed),
        hint="operator or domain::operator",
    )
    row = PropertyRow("op_type", "Operator", display(node.op_type, 120), field=field, middle=True)
    function = workspace.model.function(*node.operator)
    if function is not None:
        row.note = "function of the model"
        row.actions = (RowAction("Open function", lambda: workspace.navigation.show(function.body), "forward", "go"),)
    elif schema is not None:
        row.note = "deprecated" if schema.deprecated else f"since {schema.since_version}"
    elif schemas.is_loaded():
        row.note, row.style = "unknown operator", "warning"
    if schema is not None:
        row.help = operator_help(schema)
        row.tip = _summary(schema)
    return row


@lru_cache(maxsize=4)
def _operators(imports: tuple[tuple[str, int], ...]) -> tuple[Schema, ...]:
    return tuple(schemas.operators(dict(imports)))


def _suggest_operators(workspace: Workspace, node: Node, typed: str) -> Sequence[Suggestion]:
    words = typed.lower()
    imports = node.graph.opset_imports if node.graph is not None else {}
    operators = [*dict.fromkeys((f.name, f.domain, "function of the model") for f in workspace.model.functions)]
    if schemas.is_loaded():
        operators += [(s.name, s.domain, s.category) for s in _operators(tuple(imports.items()))]
    matching = [one for one in operators if words in one[0].lower()]
    matching.sort(key=lambda one: (not one[0].lower().startswith(words), one[0].lower()))
    return [Suggestion(f"{domain}::{name}" if domain else name, note) for name, domain, note in matching]


def _name_row(node: Node) -> PropertyRow:
    field = PropertyField(
        f"Rename {name_of(node)}", lambda: node.name, lambda edit, text: nodes.rename_node(edit, node, text)
    )
    return text_row("name", "Name", node.name, field, common=False, middle=True)


def _domain_row(workspace: Workspace, node: Node, schema: Schema | None) -> PropertyRow:
    imports = node.graph.opset_imports if node.graph is not None else {}

    def apply(edit: Transaction, text: str) -> None:
        text = text.strip()
        nodes.change_operator(edit, node, node.op_type, "" if text == "ai.onnx" else text, node.overload)

    def choices() -> Sequence[Suggestion]:
        domains = dict.fromkeys(imports, "") | {f.domain: "functions" for f in workspace.model.functions}
        return [Suggestion(d or "ai.onnx", note) for d, note in domains.items()]

    field = PropertyField(
        f"Change domain of {name_of(node)}",
        lambda: node.domain or "ai.onnx",
        apply,
        choices=choices,
    )
    row = PropertyRow("domain", "Domain", display(node.domain or "ai.onnx", 120), field=field)
    version = imports.get(node.domain)
    row.note = f"opset {version}" if version is not None else "not imported"
    if version is None and (schema is None or schema.origin != "function"):
        row.style = "warning"
    return row


def _overload_row(workspace: Workspace, node: Node) -> list[PropertyRow]:
    if not node.overload and workspace.model.function(node.domain, node.op_type) is None:
        return []
    field = PropertyField(
        f"Change overload of {name_of(node)}",
        lambda: node.overload,
        lambda edit, text: nodes.change_operator(edit, node, node.op_type, node.domain, text.strip()),
        choices=lambda: [
            Suggestion(f.overload)
            for f in workspace.model.functions
            if f.overload and (f.domain, f.name) == (node.domain, node.op_type)
        ],
    )
    return [text_row("overload", "Overload", node.overload, field)]


# -- inputs ---------------------------------------------------------------------------------------------------


def _inputs(workspace: Workspace, node: Node, schema: Schema | None) -> PropertyRow:
    count = len(node.inputs)

    def rows() -> Sequence[PropertyRow]:
        formal = len(schema.inputs) if schema is not None else 0
        shown = max(count, formal)
        has_more = schema is None or not schema.is_signature_known or schema.max_inputs > shown
        adding = [_more_inputs(workspace, node, schema)] if has_more and (count >= formal or not shown) else []
        return many(
            shown,
            lambda i: _input_row(workspace, node, i, schema),
            *adding,
            opens=lambda i: i < count and node.inputs[i] is not None,
        )

    return section("inputs", "Inputs", count, rows, expanded=count <= 60, common=False)


def _input_field(workspace: Workspace, node: Node, index: int, name: str) -> PropertyField:
    """Return a field in which a value is chosen by name; empty leaves the input out."""
    source = InputSource(workspace, node, index)

    def judge(value: Value) -> str:
        return "would be a cycle" if source.makes_cycle(value) else source.misfit(value)

    value = source.present
    return PropertyField(
        f"Connect {name} of {name_of(node)}",
        lambda: "" if value is None else value.name,
        source.connect,
        suggest=ValueSuggestions(workspace, source.visible, judge).suggest,
        hint="a value, [1, -1], or w: float[3] = 1",
    )


def _input_row(workspace: Workspace, node: Node, index: int, schema: Schema | None) -> PropertyRow:
    parameter = schema.input(index) if schema is not None else None
    label = _formal(parameter, index, schema.inputs if schema is not None else ())
    row = PropertyRow(f"input {index}", label, help=_parameter_help(parameter, schema), middle=True)
    row.field = _input_field(workspace, node, index, label)
    value = node.inputs[index] if index < len(node.inputs) else None
    if value is None:
        single = parameter is not None and parameter.option == "single"
        needed = single and schema is not None and index < schema.min_inputs
        row.text, row.style = ("required", "error") if needed else ("–", "muted")
        row.note = "" if parameter is None else parameter.type_name
        if index < len(node.inputs):
            row.actions = _disconnecting(workspace, node, index, label)
        return row
    fill_value(workspace, row, value)
    mismatch = misfit(workspace, node, index, value) if schemas.is_loaded() else ""
    if not value.is_defined and not value.is_input:
        row.style, row.tip = "error", "No node produces this value."
    elif mismatch:
        row.style, row.tip = "warning", mismatch
    row.actions = (*_disconnecting(workspace, node, index, label), *row.actions)
    return row


def fill_value(workspace: Workspace, row: PropertyRow, value: Value) -> None:
    """Show a value in a row: its name, type, and a link to it."""
    row.text = display(value.name, 200)
    row.note = type_note(workspace, value)
    row.target = value
    row.whole = f"{display(value.name, 400)} {whole_type(workspace.types.type_of(value))}".rstrip()
    row.children = lambda: _inner(workspace, value)
    row.actions = (go(workspace, value.producer or value, "Go to the producer" if value.producer else "Go there"),)


def _inner(workspace: Workspace, value: Value) -> list[PropertyRow]:
    """Return the main fields of a value, below the row that names it."""
    declared = value.type
    row = PropertyRow("type", "Type", field=value_type_field(value))
    show_type(workspace, row, declared)
    rows = [row]
    type_ = workspace.types.type_of(value)
    if type_ is not None and type_ != declared:
        rows.append(inferred_row(workspace, type_))
    if value.initializer is not None:
        rows.append(PropertyRow("initializer", "Initializer", tensor_text(value.initializer)))
    uses = PropertyRow("uses", "Used", plural(len(value.uses), "time"))
    uses.actions = (RowAction("Show the value", lambda: workspace.selection.set([value]), "forward", "go"),)
    return [*rows, uses]


def _disconnecting(workspace: Workspace, node: Node, index: int, label: str) -> tuple[RowAction, ...]:
    return (
        RowAction(
            "Disconnect",
            act(
                workspace,
                f"Disconnect {label} of {name_of(node)}",
                lambda edit: values.disconnect(edit, node, index),
            ),
            "close",
            "remove",
        ),
    )


def _more_inputs(workspace: Workspace, node: Node, schema: Schema | None) -> PropertyRow:
    parameter = schema.input(len(node.inputs)) if schema is not None else None
    field = _input_field(workspace, node, len(node.inputs), "an input")
    row = PropertyRow("+", "Add input", "name of a value", style="muted", field=field, common=False)
    row.help = _parameter_help(parameter, schema)
    return row


def _formal(parameter: Parameter | None, index: int, all_of_them: Sequence[Parameter]) -> str:
    if parameter is None:
        return str(index)
    if parameter.option == "variadic":
        return f"{parameter.name} {index - len(all_of_them) + 1}"
    return display(parameter.name, 60) or str(index)


@lru_cache(maxsize=512)
def _parameter_help(parameter: Parameter | None, schema: Schema | None) -> Help | None:
    if parameter is None or schema is None:
        return None
    types = sorted(parameter.types)
    allowed = "" if not types else "\n\nAllowed: " + ", ".join(types)
    return Help(
        f"{schema.name}.{parameter.name}", f"{parameter.option}\n\n{parameter.doc}{allowed}", schema.origin == "onnx"
    )


# -- outputs --------------------------------------------------------------------------------------------------


def _outputs(workspace: Workspace, node: Node, schema: Schema | None) -> PropertyRow:
    formal = len(schema.outputs) if schema is not None else 0
    count = len(node.outputs)

    def rows() -> Sequence[PropertyRow]:
        shown = max(count, formal)
        adding = []
        if (schema is None or schema.max_outputs > shown) and count >= formal:
            field = PropertyField(
                f"Add output to {name_of(node)}", str, _output_setter(node, count), hint="name of a new value"
            )
            adding = [add_row("Add output", field)]
        if shown > MOST_WITH_RUNS:
            return many(
                shown,
                lambda i: _output_row(workspace, node, i, schema),
                *adding,
                opens=lambda i: i < count and node.outputs[i] is not None,
            )
        shown_rows = []
        for index in range(shown):
            shown_rows.append(_output_row(workspace, node, index, schema))
            value = node.outputs[index] if index < count else None
            shown_rows += run_rows(workspace, value, f"output {index} computed") if value is not None else []
        return [*shown_rows, *adding]

    return section("outputs", "Outputs", count, rows, expanded=count <= 60, common=False)


def _output_setter(node: Node, index: int) -> Callable[[Transaction, str], object]:
    def apply(edit: Transaction, text: str) -> None:
        if not text:
            raise ModelError("A value needs a name", "Write the name of the new value.")
        output = nodes.produce_output(edit, node, index)
        values.rename_value(edit, output, text)

    return apply


def _output_row(workspace: Workspace, node: Node, index: int, schema: Schema | None) -> PropertyRow:
    parameter = schema.output(index) if schema is not None else None
    label = _formal(parameter, index, schema.outputs if schema is not None else ())
    row = PropertyRow(f"output {index}", label, help=_parameter_help(parameter, schema), middle=True)
    value = node.outputs[index] if index < len(node.outputs) else None
    if value is None:
        row.text, row.style = "–", "muted"
        row.note = "" if parameter is None else parameter.type_name
        row.field = PropertyField(
            f"Produce {label} of {name_of(node)}", str, _output_setter(node, index), hint="name of a new value"
        )
        return row
    fill_value(workspace, row, value)
    row.field = PropertyField(
        f"Rename {name_of(value)}", lambda: value.name, lambda edit, new: values.rename_value(edit, value, new)
    )
    show = RowAction("Show the value", lambda: workspace.selection.set([value]), "forward", "go")
    row.actions = (show,)
    if not value.uses and len(node.outputs) > 1:
        row.actions = (
            RowAction(
                "Omit",
                act(
                    workspace,
                    f"Omit {label} of {name_of(node)}",
                    lambda edit: nodes.drop_output(edit, node, index),
                ),
                "close",
                "remove",
            ),
            show,
        )
    return row
