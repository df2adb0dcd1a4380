"""Rows below an attribute: elements or tensor, kind, reference to a function attribute, description."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache

from onnx_workbench.model.edits import attributes as edits
from onnx_workbench.model.edits.function_attributes import formal_names
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.ir.attributes import Attribute, AttributeKind
from onnx_workbench.model.ir.graph import Function, Graph, Node
from onnx_workbench.model.ir.tensors import SparseTensor, Tensor
from onnx_workbench.model.schemas import AttributeSchema
from onnx_workbench.model.text.attributes import convert_value, has_text, plainest
from onnx_workbench.model.text.formatting import display, plural
from onnx_workbench.viewer.inspector.common import act, name_of, one_line, text_field, text_row
from onnx_workbench.viewer.inspector.tensors import TensorNumbers, tensor_rows, tensor_text, tensor_texts
from onnx_workbench.viewer.property_tree.rows import PropertyField, PropertyRow, RowAction, Suggestion
from onnx_workbench.viewer.run.workspace import Workspace

#: Kinds an attribute can be changed to: all but UNDEFINED.
KINDS = tuple(kind for kind in AttributeKind if kind is not AttributeKind.UNDEFINED)
_MOST_ELEMENTS = 40


@cache
def kind_text(kind: AttributeKind) -> str:
    """Format a kind: ``ints``, ``type``."""
    return kind.name.lower().replace("_proto", "").replace("_", " ")


def parse_kind(text: str) -> AttributeKind:
    """Parse a kind as users or ONNX's text format write it: ``ints``, ``type_proto``."""
    written = text.strip().lower().replace("_proto", "").replace("_", " ")
    kind = next((k for k in KINDS if kind_text(k) == written), None)
    if kind is None:
        have = ", ".join(map(kind_text, KINDS))
        raise ModelError(f"{display(text.strip(), 40)} is not an attribute type", f"Attribute types: {have}.")
    return kind


def of_node(node: Node, name: str) -> str:
    """Return the name of an attribute for titles of edits."""
    return f"{one_line(name, 40)} of {name_of(node)}"


def function_of(node: Node) -> Function | None:
    """Return the function that contains a node, or None."""
    owner = node.graph.root.owner if node.graph is not None else None
    return owner if isinstance(owner, Function) else None


def parts(
    workspace: Workspace, node: Node, attribute: Attribute, known: AttributeSchema | None, numbers: TensorNumbers
) -> Sequence[PropertyRow]:
    """Return the rows below an attribute that the node has."""
    value = attribute.value
    rows: list[PropertyRow] = []
    if not attribute.reference:
        if isinstance(value, (Tensor, SparseTensor)):
            opening = RowAction("Open values", lambda: workspace.trigger("panel.tensor"), "tensor", "go")
            rows += tensor_rows(value, numbers, opening=(opening,))
            rows += tensor_texts(workspace, value, _name_of(value))
        elif isinstance(value, tuple) and not has_text(attribute.kind):
            rows += [_element_row(workspace, attribute, i, numbers) for i in range(min(len(value), _MOST_ELEMENTS))]
    rows.append(_kind_row(node, attribute))
    owner = function_of(node)
    if attribute.reference or (owner is not None and formal_names(owner)):
        rows.append(_reference_row(node, attribute, known))
    name = attribute.name
    field = text_field(
        f"Describe {of_node(node, name)}",
        attribute.doc_string,
        lambda edit, text: edits.describe_attribute(edit, node, name, text),
        lines=True,
    )
    return [*rows, text_row("doc_string", "Description", attribute.doc_string, field)]


# -- kind -----------------------------------------------------------------------------------------------------


def _kind_row(node: Node, attribute: Attribute) -> PropertyRow:
    def change(edit: Transaction, text: str) -> None:
        kind = parse_kind(text)
        edits.set_attribute(edit, node, attribute.name, convert_value(attribute, kind), kind)

    row = PropertyRow("kind", "Kind", kind_text(attribute.kind))
    row.field = PropertyField(
        f"Change kind of {of_node(node, attribute.name)}",
        lambda: kind_text(attribute.kind),
        change,
        choices=lambda: [Suggestion(kind_text(k)) for k in KINDS],
    )
    return row


# -- references to attributes of the function -----------------------------------------------------------------


def reference_field(
    node: Node,
    attribute: Attribute,
    known: AttributeSchema | None,
    parse: Callable[[AttributeKind, str], object] | None = None,
) -> PropertyField:
    """Return a field for the referenced function attribute; empty for a literal value.

    With `parse`, a text that names no attribute and is a valid value replaces the reference.
    """
    owner = function_of(node)
    names = () if owner is None else formal_names(owner)
    name = attribute.name
    kind = known.kind if known is not None else attribute.kind

    def apply(edit: Transaction, text: str) -> None:
        written = text.strip()
        if not written:
            default = None if known is None else known.default
            edits.set_attribute(edit, node, name, plainest(kind) if default is None else default.value, kind)
            return
        if parse is not None and has_text(kind) and not written.startswith("@") and written not in names:
            with suppress(ModelError):  # which is reported as a name, then
                value = parse(kind, text)
                edits.set_attribute(edit, node, name, value, kind)
                return
        edits.refer_to_function_attribute(edit, node, name, written.removeprefix("@"))

    return PropertyField(
        f"Set {of_node(node, name)}",
        lambda: attribute.reference,
        apply,
        choices=lambda: [*map(Suggestion, names)],
        hint=f"function attribute{', or a value' if parse else ''}; empty for a value of its own",
    )


def _reference_row(node: Node, attribute: Attribute, known: AttributeSchema | None) -> PropertyRow:
    row = text_row("reference", "From function", attribute.reference, reference_field(node, attribute, known))
    row.tip = "The attribute of the function that gives the value (ref_attr_name)."
    if not attribute.reference:
        row.text, row.style = "–", "muted"
    return row


# -- lists of tensors and graphs ------------------------------------------------------------------------------


def adding(workspace: Workspace, node: Node, attribute: Attribute) -> tuple[RowAction, ...]:
    """Return the action that appends to a list without a text form; Edit Message changes their order."""
    kind, have = attribute.kind, attribute.value if isinstance(attribute.value, tuple) else ()
    if not kind.is_list or has_text(kind) or attribute.reference:
        return ()
    element = kind_text(kind.element)

    def add(edit: Transaction) -> None:
        edits.set_attribute(edit, node, attribute.name, (*have, plainest(kind.element)), kind)

    run = act(workspace, f"Add {element} to {of_node(node, attribute.name)}", add)
    return (RowAction(f"Add a {element}", run, "add", "add"),)


def _name_of(tensor: Tensor | SparseTensor) -> str:
    return tensor.values.name if isinstance(tensor, SparseTensor) else tensor.name


def _element_row(workspace: Workspace, attribute: Attribute, index: int, numbers: TensorNumbers) -> PropertyRow:
    assert isinstance(attribute.value, tuple)
    value = attribute.value[index]
    row = PropertyRow(f"element {index}", str(index))
    if isinstance(value, Graph):
        row.text, row.note, row.target = display(value.name, 60), plural(len(value.nodes), "node"), value
        row.actions = (RowAction("Open", lambda: workspace.navigation.show(value), "forward", "go"),)
    else:
        assert isinstance(value, (Tensor, SparseTensor))
        row.text = tensor_text(value)
        row.children = lambda: [*tensor_rows(value, numbers), *tensor_texts(workspace, value, _name_of(value))]
    return row
