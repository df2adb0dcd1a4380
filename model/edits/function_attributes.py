"""Formal attributes of a function: required ones, and those with a default."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from onnx_workbench.model.analysis.call_graph import callers_of
from onnx_workbench.model.edits.attributes import refer_to_function_attribute, rename_attribute
from onnx_workbench.model.edits.functions import set_signature
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.history.steps import SetAttribute
from onnx_workbench.model.ir.attributes import Attribute, AttributeKind
from onnx_workbench.model.ir.graph import Function, Node


def formal_names(function: Function) -> tuple[str, ...]:
    """Return all formal attributes, required ones first."""
    return (*function.attributes, *(default.name for default in function.attribute_defaults))


def require(edit: Transaction, function: Function, name: str, place: int | None = None) -> None:
    """Make an attribute required: a new one, or one whose default is dropped."""
    if not name or name in function.attributes:
        raise _name_error(function, name)
    names = list(function.attributes)
    names.insert(len(names) if place is None else place, name)
    kept = tuple(default for default in function.attribute_defaults if default.name != name)
    set_signature(edit, function, attributes=tuple(names), defaults=kept)


def set_default(edit: Transaction, function: Function, default: Attribute) -> None:
    """Set the default of an attribute, whether it is new, required or has another default."""
    if not default.name:
        raise _name_error(function, "")
    have = function.attribute_defaults
    index = next((i for i, old in enumerate(have) if old.name == default.name), len(have))
    required = tuple(name for name in function.attributes if name != default.name)
    set_signature(edit, function, attributes=required, defaults=(*have[:index], default, *have[index + 1 :]))


def remove(edit: Transaction, function: Function, name: str) -> None:
    """Remove a formal attribute, also from all calls; ModelError while the body refers to it."""
    reference = next(_references(function, name), None)
    if reference is not None:
        node, attribute = reference
        raise ModelError(f"{name} is used", f"{attribute.name} of {node.title} takes its value from it.", node)
    kept = tuple(default for default in function.attribute_defaults if default.name != name)
    set_signature(edit, function, attributes=tuple(n for n in function.attributes if n != name), defaults=kept)
    for call in callers_of(edit.model, {function.key}):
        if name in call.attributes:
            edit.do(SetAttribute(call, name, None))


def rename(edit: Transaction, function: Function, old: str, new: str) -> None:
    """Rename a formal attribute; the body and all calls follow."""
    if new == old:
        return
    if not new or new in formal_names(function):
        raise _name_error(function, new)
    set_signature(
        edit,
        function,
        attributes=tuple(new if name == old else name for name in function.attributes),
        defaults=tuple(replace(d, name=new) if d.name == old else d for d in function.attribute_defaults),
    )
    for node, attribute in list(_references(function, old)):
        edit.do(SetAttribute(node, attribute.name, replace(attribute, reference=new)))
    for call in callers_of(edit.model, {function.key}):
        if old in call.attributes:
            rename_attribute(edit, call, old, new)


def refer_as_written(edit: Transaction, node: Node, name: str, text: str, kind: AttributeKind | None) -> bool:
    """Interpret a text such as ``@alpha`` as a reference to the function's attribute; returns whether it was one.

    A literal text may begin with @ too: that is assumed where the function has no such attribute.
    """
    function = node.graph.root.owner if node.graph is not None else None
    written = text.strip()
    if not written.startswith("@") or not isinstance(function, Function):
        return False
    if kind in (None, AttributeKind.STRING, AttributeKind.STRINGS) and written[1:] not in formal_names(function):
        return False
    refer_to_function_attribute(edit, node, name, written[1:], kind)
    return True


def _references(function: Function, name: str) -> Iterator[tuple[Node, Attribute]]:
    """Return the references to an attribute in the body."""
    for graph in function.body.walk():
        for node in graph.nodes:
            for attribute in node.attributes.values():
                if attribute.reference == name:
                    yield node, attribute


def _name_error(function: Function, name: str) -> ModelError:
    if not name:
        return ModelError("An attribute needs a name", "The name is empty.", function)
    have = ", ".join(formal_names(function))
    return ModelError(f"{function.name} has an attribute {name} already", f"It has: {have}.", function)
