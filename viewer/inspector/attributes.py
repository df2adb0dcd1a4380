"""Rows for the attributes of a node: present ones and those of the schema, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

from onnx_workbench.model.edits import attributes as edits
from onnx_workbench.model.edits.function_attributes import refer_as_written
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.ir.attributes import Attribute, AttributeKind
from onnx_workbench.model.ir.graph import Graph, Node
from onnx_workbench.model.ir.tensors import SparseTensor, Tensor
from onnx_workbench.model.ir.types import ElementType
from onnx_workbench.model.schemas import AttributeSchema, Schema
from onnx_workbench.model.schemas.attribute_choices import ELEMENT_TYPES
from onnx_workbench.model.text.attributes import (
    attribute_source,
    has_text,
    number_source,
    parse_any,
    parse_attribute,
    parse_float,
    parse_int,
    plainest,
)
from onnx_workbench.model.text.formatting import display, plural
from onnx_workbench.model.text.types import parse_element_type
from onnx_workbench.viewer.inspector.attribute_parts import (
    adding,
    kind_text,
    of_node,
    parse_kind,
    parts,
    reference_field,
)
from onnx_workbench.viewer.inspector.common import act, add_row, name_of, one_line, removing, section
from onnx_workbench.viewer.inspector.tensors import TensorNumbers, tensor_text
from onnx_workbench.viewer.inspector.types import suggest_types
from onnx_workbench.viewer.property_tree.rows import (
    LONGEST_TEXT,
    Help,
    PropertyField,
    PropertyRow,
    RowAction,
    Suggestion,
)
from onnx_workbench.viewer.run.workspace import Workspace

_SHOWN = 40  # elements of a list

OpenList = Callable[[Node, Attribute], object]


def attributes_section(
    workspace: Workspace, node: Node, schema: Schema | None, numbers: TensorNumbers, open_list: OpenList
) -> PropertyRow:
    """Return the section of present and possible attributes."""
    formal = {} if schema is None else schema.attributes
    names = sorted({*node.attributes, *formal}, key=str.lower)

    def rows() -> Sequence[PropertyRow]:
        shown = []
        for name in names:
            attribute = node.attributes.get(name)
            known = formal.get(name)
            if attribute is not None:
                shown.append(_present(workspace, node, attribute, known, schema, numbers, open_list))
            elif known is not None:
                shown.append(_absent(workspace, node, known, schema))
        return [*shown, _add(node, schema)]

    return section("attributes", "Attributes", len(node.attributes), rows, expanded=bool(names) or schema is None)


def _present(
    workspace: Workspace,
    node: Node,
    attribute: Attribute,
    known: AttributeSchema | None,
    schema: Schema | None,
    numbers: TensorNumbers,
    open_list: OpenList,
) -> PropertyRow:
    name = attribute.name
    row = PropertyRow(name, display(name, 120))
    if schema is not None and known is not None:
        row.tip, row.help = _documentation(schema, name)
    row.text = attribute_text(attribute)
    row.note = kind_text(attribute.kind)
    if attribute.kind is AttributeKind.INT and _is_element_type(name) and not attribute.reference:
        row.note = str(attribute.value)
    if schema is not None and known is None and schema.is_signature_known:
        row.style, row.note = "warning", f"{row.note} · not in {schema.name}"
        row.tip = f"{display(schema.name, 80)} has no such attribute in the imported opset."
    elif known is not None and known.kind is not attribute.kind:
        row.style, row.note = "error", f"{row.note}, expected {kind_text(known.kind)}"
    row.field = _field(node, attribute, known, open_list)
    if known is None:
        row.label_field = PropertyField(
            f"Rename {of_node(node, name)}",
            lambda: name,
            lambda edit, new: edits.rename_attribute(edit, node, name, new.strip()),
        )
    if not attribute.reference:
        _open(workspace, row, attribute)
    row.children = lambda: parts(workspace, node, attribute, known, numbers)
    row.actions = (*row.actions, *_actions(workspace, node, attribute, known))
    return row


def attribute_text(attribute: Attribute) -> str:
    """Format an attribute's value in short."""
    value = attribute.value
    if attribute.reference:
        return f"= {display(attribute.reference, 120)} of the function"
    if attribute.kind is AttributeKind.INT and _is_element_type(attribute.name) and isinstance(value, int):
        return _element_name(value)
    if isinstance(value, (Tensor, SparseTensor)):
        return tensor_text(value)
    if attribute.graphs:
        return ", ".join(f"{display(g.name, 60)} · {plural(len(g.nodes), 'node')}" for g in attribute.graphs[:4])
    if isinstance(value, tuple) and not has_text(attribute.kind):
        return plural(len(value), kind_text(attribute.kind.element))
    text = attribute_source(attribute, _SHOWN)
    if isinstance(value, tuple):
        text = f"[{text}]" if len(value) <= _SHOWN else f"{len(value):,}: [{text}]"
    return one_line(text) if isinstance(value, str) else display(text, 300, elide="end")


def _is_element_type(name: str) -> bool:
    return name in ELEMENT_TYPES


def _element_name(number: int) -> str:
    try:
        return ElementType(number).text
    except ValueError:
        return f"{number} (no element type)"


def _absent(workspace: Workspace, node: Node, known: AttributeSchema, schema: Schema | None) -> PropertyRow:
    row = PropertyRow(known.name, known.name, style="muted")
    if schema is not None:
        row.tip, row.help = _documentation(schema, known.name)
    if known.default is not None:
        row.text = attribute_text(known.default)
        row.note = "default"
    elif known.required:
        row.text, row.note, row.style = "required", kind_text(known.kind), "error"
    else:
        row.text, row.note = "not set", kind_text(known.kind)
    row.field = _field(node, known.default or Attribute(known.name, known.kind), known, None)
    if row.field is None:
        row.note = kind_text(known.kind)
        row.actions = _empty_value_actions(workspace, node, known)
    return row


def _empty_value_actions(workspace: Workspace, node: Node, known: AttributeSchema) -> tuple[RowAction, ...]:
    """Return the actions that create a value without a text form: an empty graph, a default tensor, an empty list."""
    title = f"Set {of_node(node, known.name)}"

    def change(edit: Transaction) -> None:
        edits.set_attribute(edit, node, known.name, plainest(known.kind), known.kind)

    return (RowAction(f"Add a {kind_text(known.kind)}", act(workspace, title, change), "add", "add"),)


def _field(
    node: Node, attribute: Attribute, known: AttributeSchema | None, open_list: OpenList | None
) -> PropertyField | None:
    name, kind = attribute.name, attribute.kind
    if attribute.reference:
        return reference_field(node, attribute, known, partial(_parse, name))
    if not has_text(kind):
        return None

    def apply(edit: Transaction, text: str) -> None:
        if not refer_as_written(edit, node, name, text, kind):
            edits.set_attribute(edit, node, name, _parse(name, kind, text), kind)

    choices = _choices(name, kind, known)
    too_long = isinstance(attribute.value, (tuple, str)) and len(attribute.value) > (
        LONGEST_TEXT // 8 if isinstance(attribute.value, tuple) else LONGEST_TEXT
    )
    return PropertyField(
        f"Set {of_node(node, name)}",
        lambda: _source(attribute),
        apply,
        choices=lambda: choices,
        suggest=suggest_types if kind is AttributeKind.TYPE_PROTO else None,
        step=None if choices else _step(kind),
        lines=kind is AttributeKind.STRING and isinstance(attribute.value, str) and "\n" in attribute.value,
        mono=kind not in (AttributeKind.STRING, AttributeKind.STRINGS),
        hint="1, 2, 3" if kind.is_list else "",
        open=(lambda: open_list(node, attribute)) if too_long and open_list is not None else None,
    )


def _source(attribute: Attribute) -> str:
    value = attribute.value
    if attribute.kind is AttributeKind.INT and _is_element_type(attribute.name) and isinstance(value, int):
        return ElementType(value).text if value in set(ElementType) else str(value)
    return attribute_source(attribute)


def _parse(name: str, kind: AttributeKind, text: str) -> object:
    if kind is AttributeKind.INT and _is_element_type(name):
        try:
            return parse_int(text)
        except ModelError:
            return int(parse_element_type(text))
    return parse_attribute(text, kind)


def _choices(name: str, kind: AttributeKind, known: AttributeSchema | None) -> tuple[Suggestion, ...]:
    if kind is AttributeKind.INT and _is_element_type(name):
        return tuple(Suggestion(e.text, str(int(e))) for e in ElementType if e)
    if known is None or not known.choices:
        return ()
    default = None if known.default is None else known.default.value
    return tuple(Suggestion(str(c), "default" if c == default else "") for c in known.choices)


def _step(kind: AttributeKind) -> Callable[[str, int], str] | None:
    if kind is AttributeKind.INT:
        return lambda text, by: str(parse_int(text) + by) if _reads(parse_int, text) else text
    if kind is AttributeKind.FLOAT:
        return lambda text, by: _stepped(text, by) if _reads(parse_float, text) else text
    return None


def _reads(parse: Callable[[str], object], text: str) -> bool:
    try:
        parse(text)
    except ModelError:
        return False
    return True


def _stepped(text: str, by: int) -> str:
    """Step the last written digit."""
    mantissa, e, exponent = text.strip().lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    try:
        return f"{float(mantissa) + by * 10**-decimals:.{decimals}f}{e}{exponent}"
    except ValueError:
        return number_source(parse_float(text), AttributeKind.FLOAT)


@lru_cache(maxsize=512)
def _documentation(schema: Schema, name: str) -> tuple[str, Help]:
    known = schema.attributes[name]
    facts = [kind_text(known.kind), "required" if known.required else "optional"]
    if known.default is not None:
        facts.append(f"default {attribute_text(known.default)}")
    if known.choices:
        facts.append(f"one of {', '.join(map(str, known.choices))}")
    text = f"{', '.join(facts)}\n\n{known.doc}"
    tip = display(" ".join(known.doc.split()), 400, elide="end")
    return tip, Help(f"{schema.name}.{name}", text, markdown=schema.origin == "onnx")


def _open(workspace: Workspace, row: PropertyRow, attribute: Attribute) -> None:
    """Add the action that opens a value without a text form."""
    values = attribute.value if isinstance(attribute.value, tuple) else (attribute.value,)
    if values and isinstance(values[0], (Tensor, SparseTensor)):
        row.actions = (RowAction("Open values", lambda: workspace.trigger("panel.tensor"), "tensor", "go"),)
    elif attribute.graphs:
        first = attribute.graphs[0]
        row.target = first
        row.actions = tuple(
            RowAction(f"Open {display(g.name, 40)}", _shower(workspace, g), "forward" if g is first else "", "go")
            for g in attribute.graphs
        )


def _shower(workspace: Workspace, graph: Graph) -> Callable[[], object]:
    return lambda: workspace.navigation.show(graph)


def _actions(
    workspace: Workspace, node: Node, attribute: Attribute, known: AttributeSchema | None
) -> tuple[RowAction, ...]:
    name = attribute.name
    of = of_node(node, name)
    title = "Reset to default" if known is not None and not known.required else "Remove"
    remove = removing(workspace, f"Remove {of}", lambda edit: edits.remove_attribute(edit, node, name), title)
    return remove, *adding(workspace, node, attribute)


def _add(node: Node, schema: Schema | None) -> PropertyRow:
    formal = {} if schema is None else schema.attributes

    def add(edit: Transaction, text: str) -> None:
        written, equals, rest = text.partition("=")
        name, colon, kind_name = (part.strip() for part in written.partition(":"))
        if not name:
            raise ModelError("An attribute needs a name", "Write name = value.")
        if name in node.attributes:
            raise ModelError(f"Attribute {name} already exists", "Edit the existing row.")
        known = formal.get(name)
        kind = parse_kind(kind_name) if colon else None if known is None else known.kind
        if not refer_as_written(edit, node, name, rest, kind):
            edits.set_attribute(edit, node, name, *_begun(name, kind, rest.strip() if equals else None))

    def suggest(typed: str) -> Sequence[Suggestion]:
        words = typed.lower()
        return [
            Suggestion(f"{n} = ", kind_text(known.kind))
            for n, known in formal.items()
            if n not in node.attributes and words in n.lower() and has_text(known.kind)
        ]

    field = PropertyField(
        f"Add attribute to {name_of(node)}", str, add, suggest=suggest, hint="name = value, or name: kind"
    )
    return add_row("Add attribute", field)


def _begun(name: str, kind: AttributeKind | None, text: str | None) -> tuple[Any, AttributeKind]:
    """Return value and kind of a new attribute: inferred from the text unless given."""
    if kind is None:
        if text is None:
            raise ModelError(f"{display(name, 60)} needs a value", "Write name = value, for example axis = 1.")
        return parse_any(text)
    if text is None:
        return plainest(kind), kind
    if not has_text(kind):
        what = kind_text(kind)
        raise ModelError(f"A {what} cannot be written in one line", f"Add {display(name, 40)}: {what}, then open it.")
    return _parse(name, kind, text), kind
