"""Rules about the attributes of one node: their protobuf fields, kinds, references and values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from onnx_workbench.model.checks.graphs import OTHER_NAMES, is_identifier
from onnx_workbench.model.checks.problem import Fix, Problem, error, info, warning
from onnx_workbench.model.checks.tensors import check_tensor
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.history.steps import SetAttribute
from onnx_workbench.model.ir.attributes import Attribute, AttributeKind, is_same
from onnx_workbench.model.ir.graph import Function, Model, Node
from onnx_workbench.model.ir.tensors import SparseTensor, Tensor
from onnx_workbench.model.schemas import Schema
from onnx_workbench.model.text.attributes import attribute_source, convert_value, has_text

#: The field of AttributeProto that holds a value of each kind.
_FIELDS = {
    AttributeKind.FLOAT: "f", AttributeKind.INT: "i", AttributeKind.STRING: "s", AttributeKind.TENSOR: "t",
    AttributeKind.GRAPH: "g", AttributeKind.FLOATS: "floats", AttributeKind.INTS: "ints",
    AttributeKind.STRINGS: "strings", AttributeKind.TENSORS: "tensors", AttributeKind.GRAPHS: "graphs",
    AttributeKind.SPARSE_TENSOR: "sparse_tensor", AttributeKind.SPARSE_TENSORS: "sparse_tensors",
    AttributeKind.TYPE_PROTO: "tp", AttributeKind.TYPE_PROTOS: "type_protos",
}  # fmt: skip
_OF_TENSORS = (
    AttributeKind.TENSOR, AttributeKind.SPARSE_TENSOR, AttributeKind.TENSORS, AttributeKind.SPARSE_TENSORS,
)  # fmt: skip
_VALUE_FIELDS = frozenset(_FIELDS.values())


def check_attributes(node: Node, model: Model) -> Iterator[Problem]:
    """Check the attributes of a node, independent of its operator."""
    protos = node._source.attribute if node._source is not None else ()
    if not (protos or node._attributes):
        return
    attributes = node.attributes
    if len(protos) > 1:
        yield from _check_repeated(node, protos)
    yield from _check_names(node)
    for attribute in attributes.values():
        if not attribute.kind or (model.ir_version > 1 and _lacks_type(attribute)):
            yield _without_type(node, attribute)
        if attribute.reference:
            yield from _check_reference(node, attribute)
        yield from _check_fields(node, attribute)
        if attribute.kind in _OF_TENSORS:
            yield from _check_tensors(node, attribute)


def _check_names(node: Node) -> Iterator[Problem]:
    """Check that attribute names are not empty and unique."""
    if "" in node.attributes:
        yield error("attribute-name", f"An attribute of {node.title} has no name", node, "Each needs one.")
    values = (value.name for value in (*node.inputs, *node.outputs) if value is not None)
    for name in sorted(node.attributes.keys() & set(values) - {""}):
        yield info(
            "attribute-name",
            f"An attribute and a value of {node.title} are both named {name}",
            node,
            "Attributes, inputs and outputs of a node must have different names.",
        )
    odd = [name for name in node.attributes if not is_identifier(name)]
    if odd:
        text = f"{node.title} has attributes whose names are not C identifiers: {', '.join(odd)}"
        yield info("identifier", text, node, OTHER_NAMES)


def _lacks_type(attribute: Attribute) -> bool:
    """Return whether the message of an attribute, as read and as it would be written, lacks the field `type`."""
    proto = _message_of(attribute)
    return proto is not None and not proto.type and attribute.source.kind is attribute.kind


def _without_type(node: Node, attribute: Attribute) -> Problem:
    known = bool(attribute.kind) and not attribute.reference
    fix = Fix(
        f"Declare {attribute.name} of {node.title} as {attribute.kind.name}",
        partial(_write_anew, node=node, name=attribute.name),
    )
    return error(
        "attribute-type",
        f"{attribute.name} of {node.title} has no declared type",
        node,
        "An attribute has a name, a type and a value.",
        fix if known else None,
    )


def _check_repeated(node: Node, protos: Any) -> Iterator[Problem]:
    """Report duplicate attributes of the file: a node in memory holds only the first of each name."""
    if len(protos) <= len(node.attributes):
        return
    names = [proto.name for proto in protos]
    held = [_message_of(attribute) for attribute in node.attributes.values()]
    first = dict(zip(reversed(names), reversed(protos), strict=True))
    if len(held) != len(first) or any(all(proto is not other for other in first.values()) for proto in held):
        return  # edited attributes, which are written from scratch
    for name, count in Counter(names).items():
        if count > 1 and (attribute := node.attributes.get(name)) is not None:
            yield error(
                "duplicate-attribute",
                f"{node.title} has {count} attributes {name}",
                node,
                f"The first one, {_short(attribute)}, counts; the names of a node's attributes must differ.",
                Fix(f"Keep the first {name} of {node.title} only", partial(_write_anew, node=node, name=name)),
            )


def _message_of(attribute: Attribute) -> Any:
    return getattr(attribute.source, "proto", None)


def _short(attribute: Attribute) -> str:
    """Return the value as text, or the kind where it has no text form."""
    if not has_text(attribute.kind) or attribute.value is None:
        return f"the {attribute.kind.name}"
    text = attribute_source(attribute, 8)
    return text if len(text) <= 40 else f"{text[:39]}…"


def _write_anew(edit: Transaction, node: Node, name: str) -> None:
    """Set an attribute again without its source message, dropping all else that the file stores for it."""
    if name not in node.attributes:
        return  # removed in the meantime
    attribute, index = node.attributes[name], list(node.attributes).index(name)
    edit.do(SetAttribute(node, name, None))
    edit.do(SetAttribute(node, name, replace(attribute, source=None), index))


def _check_fields(node: Node, attribute: Attribute) -> Iterator[Problem]:
    """Check that the value is in the one field that `type` names; a reference has none."""
    origin = attribute.source
    proto = _message_of(attribute)
    if proto is None or origin.kind is not attribute.kind or not is_same(origin.value, attribute.value):
        return
    expected = "" if attribute.reference else _FIELDS.get(attribute.kind, "")
    spare = [f.name for f, _ in proto.ListFields() if f.name in _VALUE_FIELDS and f.name != expected]
    if spare:
        counts = f"refers to {attribute.reference}" if attribute.reference else f"is {attribute.kind.name}"
        yield error(
            "attribute-fields",
            f"{attribute.name} of {node.title} {counts} and has a value in the field {spare[0]} too",
            node,
            f"An attribute has one value. {_short(attribute)} counts.",
            Fix(
                f"Keep {_short(attribute)} as {attribute.name} of {node.title} only",
                partial(_write_anew, node=node, name=attribute.name),
            ),
        )


def _check_tensors(node: Node, attribute: Attribute) -> Iterator[Problem]:
    held: Any = attribute.value
    for tensor in held if isinstance(held, tuple) else (held,):
        if isinstance(tensor, (Tensor, SparseTensor)):
            yield from check_tensor(tensor, f"{attribute.name} of {node.title}", node)


def _check_reference(node: Node, attribute: Attribute) -> Iterator[Problem]:
    owner = node.graph.root.owner if node.graph is not None else None
    if not isinstance(owner, Function):
        yield error(
            "attribute-reference",
            f"{attribute.name} of {node.title} refers to a function's attribute",
            node,
            "Only nodes inside a function may.",
        )
        return
    parameters = parameters_of(owner)
    if attribute.reference not in parameters:
        yield error(
            "attribute-reference",
            f"{attribute.name} of {node.title} refers to {attribute.reference}",
            node,
            f"The function's attributes are: {', '.join(sorted(parameters)) or 'none'}.",
        )


def parameters_of(function: Function) -> set[str]:
    """Return the names of the attributes that calls of a function may give."""
    return {*function.attributes, *(a.name for a in function.attribute_defaults)}


def check_given(node: Node, function: Function) -> Iterator[Problem]:
    """Check the attributes that a call gives to its function."""
    parameters = parameters_of(function)
    for name in function.attributes:
        if name not in node.attributes:
            detail = f"Function {function.name} has no default for it."
            yield warning("attribute-missing", f"{node.title} does not set {name}", node, detail)
    for name in node.attributes:
        if name not in parameters:
            yield warning(
                "attribute-unknown",
                f"{node.title} has an unknown attribute {name}",
                node,
                f"{function.name} has no such attribute.",
                _removal(node, name),
            )


def check_against(node: Node, schema: Schema) -> Iterator[Problem]:
    """Check the attributes of a node against its operator's schema."""
    attributes = node.attributes
    for name, formal in schema.attributes.items():
        if formal.required and name not in attributes:
            yield error(
                "attribute-missing", f"{node.title} has no required attribute {name}", node, f"{schema} requires it."
            )
    for name, attribute in attributes.items():
        known = schema.attributes.get(name)
        if known is None:
            if name == "consumed_inputs" and schema.since_version < 6:
                continue
            yield _unknown(node, schema, name)
        elif attribute.kind is not known.kind and not (attribute.reference and not attribute.kind):
            yield error(
                "attribute-kind",
                f"{name} of {node.title} is {attribute.kind.name}",
                node,
                f"{schema} expects {known.kind.name}.",
                _conversion(node, attribute, known.kind),
            )
        elif known.choices and not attribute.reference and attribute.value not in known.choices:
            yield _odd_choice(node, attribute, known.choices)


def _conversion(node: Node, attribute: Attribute, kind: AttributeKind) -> Fix | None:
    """Return the same value as another kind; None where the value would change."""
    if attribute.reference or not (has_text(attribute.kind) and has_text(kind)) or attribute.value is None:
        return None
    fresh = Attribute(attribute.name, kind, convert_value(attribute, kind), attribute.doc_string)
    if not is_same(convert_value(fresh, attribute.kind), attribute.value):
        return None
    return Fix(
        f"Make {attribute.name} of {node.title} {kind.name}: {_short(fresh)}",
        lambda edit: edit.do(SetAttribute(node, attribute.name, fresh)),
    )


def _removal(node: Node, name: str) -> Fix:
    return Fix(f"Remove {name} of {node.title}", lambda edit: edit.do(SetAttribute(node, name, None)))


def _unknown(node: Node, schema: Schema, name: str) -> Problem:
    known = ", ".join(schema.attributes) or "none"
    make = error if schema.origin == "onnx" else warning
    detail = f"Attributes of {schema}: {known}."
    return make(
        "attribute-unknown", f"{node.title} has an unknown attribute {name}", node, detail, _removal(node, name)
    )


def _odd_choice(node: Node, attribute: Attribute, choices: tuple[str | int, ...]) -> Problem:
    allowed = ", ".join(str(c) for c in choices)
    return warning(
        "attribute-value",
        f"{attribute.name} of {node.title} is {attribute.value!r}",
        node,
        f"Expected one of: {allowed}.",
        _respelled(node, attribute, choices),
    )


def _respelled(node: Node, attribute: Attribute, choices: tuple[str | int, ...]) -> Fix | None:
    """Return the choice that differs in case only, if there is one."""
    text = attribute.value.casefold() if isinstance(attribute.value, str) else None
    matching = [choice for choice in choices if isinstance(choice, str) and choice.casefold() == text]
    if len(matching) != 1:
        return None
    spelled = replace(attribute, value=matching[0])
    return Fix(
        f"Write {attribute.name} of {node.title} as {matching[0]}",
        lambda edit: edit.do(SetAttribute(node, attribute.name, spelled)),
    )
