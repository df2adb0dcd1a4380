"""Setting and removing attributes, with values checked against their kind and, where known, the signature."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from onnx_workbench.model.analysis.signatures import signature_of
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.history.steps import SetAttribute
from onnx_workbench.model.ir.attributes import Attribute, AttributeKind, make_attribute
from onnx_workbench.model.ir.graph import Function, Node


def set_attribute(edit: Transaction, node: Node, name: str, value: Any, kind: AttributeKind | None = None) -> None:
    """Set an attribute of a node from a Python value (or an Attribute), keeping position, text and unknown fields.

    Without `kind`, the present attribute's kind or the signature's is used, else the kind is derived from the value.
    """
    if not name:
        raise ModelError("An attribute needs a name", "The name is empty.", node)
    old = node.attributes.get(name)
    if isinstance(value, Attribute):
        edit.do(SetAttribute(node, name, value))
        return
    if kind is None:
        kind = expected_kind(node, name) or (old.kind if old is not None else None)
    attribute = _checked(node, name, value, kind)
    if old is not None:
        attribute = Attribute(name, attribute.kind, attribute.value, old.doc_string, "", old.source)
    edit.do(SetAttribute(node, name, attribute))


def expected_kind(node: Node, name: str) -> AttributeKind | None:
    """Return the kind that the operator's schema or the called function gives an attribute; None if neither declares
    it.
    """
    schema = signature_of(node)
    formal = schema.attributes.get(name) if schema is not None else None
    return formal.kind if formal is not None else None


def _checked(node: Node, name: str, value: Any, kind: AttributeKind | None) -> Attribute:
    try:
        return make_attribute(name, value, kind)
    except (ValueError, TypeError) as error:
        raise ModelError(f"{name} of {node.title} cannot be set", str(error), node) from error


def remove_attribute(edit: Transaction, node: Node, name: str) -> None:
    """Remove an attribute; its default then applies."""
    if name not in node.attributes:
        raise ModelError(f"{node.title} has no attribute {name}", f"It has: {_names(node)}.", node)
    edit.do(SetAttribute(node, name, None))


def _names(node: Node) -> str:
    return ", ".join(node.attributes) or "none"


def rename_attribute(edit: Transaction, node: Node, old: str, new: str) -> None:
    """Rename an attribute, keeping value and position."""
    attribute = node.attributes.get(old)
    if attribute is None:
        raise ModelError(f"{node.title} has no attribute {old}", f"It has: {_names(node)}.", node)
    if not new or new in node.attributes:
        raise ModelError(f"{new or 'An empty name'} cannot be the new name", "The name is in use or empty.", node)
    index = list(node.attributes).index(old)
    edit.do(SetAttribute(node, old, None))
    edit.do(SetAttribute(node, new, replace(attribute, name=new), index))


def describe_attribute(edit: Transaction, node: Node, name: str, text: str) -> None:
    """Set the doc_string of an attribute."""
    edit.do(SetAttribute(node, name, replace(node.attributes[name], doc_string=text)))


def refer_to_function_attribute(
    edit: Transaction, node: Node, name: str, reference: str, kind: AttributeKind | None = None
) -> None:
    """Make an attribute a reference (ref_attr_name) to an attribute of the function that contains the node.

    Without `kind`, the signature's or the present attribute's is used, then that of the function's default.
    """
    owner = node.graph.root.owner if node.graph is not None else None
    if not isinstance(owner, Function):
        raise ModelError(
            f"{node.title} is not in a function", "Attributes can refer to function attributes only inside a function."
        )
    kind = kind or expected_kind(node, name) or (node.attributes[name].kind if name in node.attributes else None)
    defaults = {a.name: a.kind for a in owner.attribute_defaults}
    if reference not in defaults and reference not in owner.attributes:
        have = ", ".join((*owner.attributes, *defaults)) or "none"
        raise ModelError(f"{owner.name} has no attribute {reference}", f"It has: {have}.", node)
    kind = kind or defaults.get(reference, AttributeKind.UNDEFINED)
    old = node.attributes.get(name)
    described = "" if old is None else old.doc_string
    edit.do(SetAttribute(node, name, Attribute(name, kind, None, described, reference)))
