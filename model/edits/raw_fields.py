"""Set fields by their path in the protobuf message, for the raw view: maps a path to an edit of the model.

A path is the fields from ModelProto down with their index among fields of the same name: ``(("graph", 0), ("node", 3),
("op_type", 0))``. The numbers in a packed field and the bytes of data come in pages: ``(…, ("float_data", 0), ("page",
2), ("element", 2017))``, ``(…, ("raw_data", 0), ("page", 0), ("bytes", 32))``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from onnx_workbench.model.analysis.scoping import visible_values
from onnx_workbench.model.edits import properties
from onnx_workbench.model.edits.attributes import rename_attribute, set_attribute
from onnx_workbench.model.edits.function_attributes import set_default
from onnx_workbench.model.edits.nodes import rename_node
from onnx_workbench.model.edits.raw_messages import (
    MessagePart,
    Setter,
    annotation_setter,
    binding_setter,
    configuration_setter,
    function_setter,
    import_setter,
    part_at,
    swapped,
)
from onnx_workbench.model.edits.unknown_fields import Host, change_unknown, is_unknown
from onnx_workbench.model.edits.values import connect, disconnect, rename_value
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.history.steps import SetAttribute, SetField
from onnx_workbench.model.io.message_fields import Path, integer
from onnx_workbench.model.io.raw_view import ELEMENT, PAGE
from onnx_workbench.model.ir.attributes import Attribute, AttributeKind
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, TrainingInfo, Value
from onnx_workbench.model.ir.tensors import SparseTensor, Tensor
from onnx_workbench.model.text.attributes import convert_value, parse_float, plainest

Target = Model | Graph | Function | TrainingInfo | Node | Value


def object_at(model: Model, path: Path) -> tuple[Target, Path]:
    """Return the innermost model object on a path, and the rest of the path below it."""
    target: Target = model
    rest = list(path)
    while rest:
        inner = _step(target, rest)
        if inner is None:
            break
        target, used = inner
        rest = rest[used:]
    return target, tuple(rest)


def _step(target: Target, rest: list[tuple[str, int]]) -> tuple[Target, int] | None:
    name, index = rest[0]
    found: Any = None
    used = 1
    match target, name:
        case Model(), "graph":
            found = target.graph
        case Model(), "functions":
            found = _at(target.functions, index)
        case Model(), "training_info":
            found = _at(target.training_info, index)
        case TrainingInfo(), "initialization" | "algorithm":
            found = getattr(target, name)
        case ((Graph() | Function()), "node"):
            graph = target.body if isinstance(target, Function) else target
            found = _at(graph.nodes, index)
        case Graph(), "input" | "output" | "initializer" | "sparse_initializer" | "value_info":
            found = _at(_listed(target, name), index)
        case Node(), "attribute" if len(rest) > 1 and rest[1][0] in ("g", "graphs"):
            attribute = _at(list(target.attributes.values()), index)
            found = _at(attribute.graphs, rest[1][1]) if attribute is not None else None
            used = 2
    return None if found is None else (found, used)


def _listed(graph: Graph, field: str) -> Sequence[Value]:
    """Return the values that a repeated field of the graph holds messages for."""
    match field:
        case "input":
            return graph.inputs
        case "output":
            return graph.outputs
        case "value_info":
            return [v for v in graph.declared if v.type is not None]
    kind = SparseTensor if field == "sparse_initializer" else Tensor
    return [v for v in graph.initializers if isinstance(v.initializer, kind)]


def _at(items: Any, index: int) -> Any:
    return items[index] if 0 <= index < len(items) else None


def path_of(target: Node | Value | Graph | Function | Model) -> Path | None:
    """Return the path to an object; None if it has no message of its own. Linear in the position in its list."""
    match target:
        case Model():
            return ()
        case Function():
            number = _index(target.model.functions if target.model else (), target)
            return None if number is None else (("functions", number),)
        case Graph():
            return _path_of_graph(target)
        case Node():
            if target.graph is None:
                return None
            number = next((i for i, n in enumerate(target.graph.nodes) if n is target), None)
            return _below(target.graph, "node", number)
        case Value():
            return _path_of_value(target)


def _index(items: Any, target: object) -> int | None:
    return next((i for i, item in enumerate(items) if item is target), None)


def _below(graph: Graph, field: str, index: int | None) -> Path | None:
    outer = _path_of_graph(graph)
    return None if outer is None or index is None else (*outer, (field, index))


def _path_of_graph(graph: Graph) -> Path | None:
    owner = graph.owner
    match owner:
        case Model():
            return (("graph", 0),)
        case Function():
            return path_of(owner)
        case TrainingInfo():
            number = _index(owner.model.training_info if owner.model else (), owner)
            field = "initialization" if owner.initialization is graph else "algorithm"
            return None if number is None else (("training_info", number), (field, 0))
        case Node():
            outer = path_of(owner)
            for place, attribute in enumerate(owner.attributes.values()):
                number = _index(attribute.graphs, graph)
                if outer is not None and number is not None:
                    return (*outer, ("attribute", place), ("graphs" if attribute.kind.is_list else "g", number))
    return None


def _path_of_value(value: Value) -> Path | None:
    graph = value.graph
    if graph is None:
        return None
    for field in ("input", "output", "initializer", "sparse_initializer", "value_info"):
        number = _index(_listed(graph, field), value)
        if number is not None and not isinstance(graph.owner, Function):
            return _below(graph, field, number)
    return path_of(value.producer) if value.producer is not None else None


def can_set(model: Model, path: Path) -> bool:
    """Return whether `set_field` supports a field."""
    return _setter_at(model, path) is not None


def set_field(edit: Transaction, path: Path, text: str) -> None:
    """Set one scalar field from the user's text; ModelError when it does not fit the field's type."""
    setter = _setter_at(edit.model, path)
    if setter is None:
        raise ModelError("This field is edited elsewhere", "Its message has an editor of its own.", path[-1][0])
    setter(edit, text)


def _setter_at(model: Model, path: Path) -> Setter | None:
    if is_unknown(path):
        host, inner = host_of(model, path)
        return lambda edit, text: change_unknown(edit, host, inner, path, text)
    place = place_of(model, path)
    if place is None or not place.rest:
        return None
    part = place.part
    if part is not None and part.path:
        inner = part.path
        return lambda edit, text: part.change(edit, lambda copy: copy.set(inner, text))
    return _setter(place.target, place.field, place.rest)


def host_of(model: Model, path: Path) -> tuple[Host, Path]:
    """Return the innermost object that stores changes of an unknown field, and the path from it to the field's message.

    A value may be in several messages, so for one the path begins with the list of its graph that contains it.
    """
    for length in range(len(path) - 1, 0, -1):
        target, rest = object_at(model, path[:length])
        if rest:
            continue
        field, _ = path[length - 1]
        if isinstance(target, Value) and target.graph is object_at(model, path[: length - 1])[0]:
            assert target.graph is not None
            if sum(v is target for v in _listed(target.graph, field)) == 1:
                return target, ((field, 0), *path[length:-1])
        elif isinstance(target, (Node, Function)):
            return target, path[length:-1]
    return model, path[:-1]


@dataclass(frozen=True, slots=True)
class FieldPath:
    """Resolved path: the innermost object, the field through which it was reached, and the path below it.

    `part` is the enclosing message part, if there is one.
    """

    target: Target
    field: str
    rest: Path
    part: MessagePart | None


def place_of(model: Model, path: Path) -> FieldPath | None:
    """Resolve a path of the raw view; None for what the model does not distinguish."""
    plain = plain_path(path)
    if plain is None:
        return None
    target, rest = object_at(model, plain)
    at = len(plain) - len(rest) - 1
    field = plain[at][0] if at >= 0 else ""
    renamed = field.endswith("initializer") and _is_name(field, rest)
    return FieldPath(target, field, rest, None if renamed else part_at(target, field, rest))


def plain_path(path: Path) -> Path | None:
    """Return a path without pages and packed fields of the raw view: elements become entries of their field.

    None for elements of the second of two packed fields of one name, whose elements have no number of their own.
    """
    steps = [step for step in path if step[0] != PAGE]
    if steps and steps[-1][0] == ELEMENT:
        name, index = steps[-2]
        return None if index else (*steps[:-2], (name, steps[-1][1]))
    return tuple(steps)


def _is_name(field: str, rest: Path) -> bool:
    names = tuple(name for name, _ in rest)
    return names == ("name",) if field == "initializer" else names == ("values", "name")


def _setter(target: Target, field: str, rest: Path) -> Setter | None:
    names = tuple(name for name, _ in rest)
    match target, names:
        case Value(), _ if field.endswith("initializer"):
            return (lambda edit, text: rename_value(edit, target, text)) if _is_name(field, rest) else None
        case ((Node() | Value() | Graph() | Function() | Model()), ("doc_string",)):
            return lambda edit, text: properties.set_text(edit, target, "doc_string", text)
        case ((Node() | Value() | Graph() | Function() | Model()), ("metadata_props", "key" | "value" as part)):
            return lambda edit, text: _set_metadata(edit, target, rest[0][1], part, text)
        case ((Model() | Function()), ("opset_import", "domain")):
            return import_setter(target, rest[0][1])
        case Model(), ("configuration", *_):
            return configuration_setter(target, rest)
        case Model(), _:
            return _model_setter(target, names, rest)
        case Node(), _:
            return _node_setter(target, names, rest)
        case Value(), ("name",):
            return lambda edit, text: rename_value(edit, target, text)
        case Graph(), ("name",):
            return lambda edit, text: edit.do(SetField(target, "name", text))
        case Function(), ("name",):
            return lambda edit, text: _name_function(edit, target, text)
        case Function(), ("domain" | "overload" as own,):
            return lambda edit, text: edit.do(SetField(target, own, text))
        case Function(), ("attribute_proto", own) if own != "name":
            default = _at(target.attribute_defaults, rest[0][1])
            return None if default is None else _default_setter(target, default, rest)
        case Function(), ("input" | "output" | "attribute" | "attribute_proto", *_):
            return function_setter(target, rest)
        case Function(), ("opset_import", "version"):
            return lambda edit, text: _set_opset(edit, target, rest[0][1], integer(text))
        case Graph(), ("quantization_annotation", *_):
            return annotation_setter(target, rest)
        case TrainingInfo(), _:
            return binding_setter(target, rest)
    return None


def _name_function(edit: Transaction, function: Function, name: str) -> None:
    """Rename a function's key only; calls do not follow, as in every raw edit."""
    edit.do(SetField(function, "name", name))
    edit.do(SetField(function.body, "name", name))


def _model_setter(model: Model, names: tuple[str, ...], rest: Path) -> Setter | None:
    match names:
        case ("ir_version",):
            return lambda edit, text: properties.set_ir_version(edit, integer(text))
        case ("model_version",):
            return lambda edit, text: properties.set_model_version(edit, integer(text))
        case ("producer_name" | "producer_version" | "domain" as field,):
            return lambda edit, text: properties.set_text(edit, model, field, text)
        case ("opset_import", "version"):
            return lambda edit, text: _set_opset(edit, model, rest[0][1], integer(text))
    return None


def _node_setter(node: Node, names: tuple[str, ...], rest: Path) -> Setter | None:
    match names:
        case ("name",):
            return lambda edit, text: rename_node(edit, node, text)
        case ("op_type" | "domain" | "overload" as field,):
            return lambda edit, text: edit.do(SetField(node, field, text))
        case ("input",):
            return lambda edit, text: _set_input(edit, node, rest[0][1], text)
        case ("output",):
            return lambda edit, text: _set_output(edit, node, rest[0][1], text)
        case ("attribute", _, *_):
            attribute = _at(list(node.attributes.values()), rest[0][1])
            return None if attribute is None else _attribute_setter(node, attribute, rest[1:])
    return None


def _set_input(edit: Transaction, node: Node, index: int, text: str) -> None:
    assert node.graph is not None
    if not text:
        disconnect(edit, node, index)
        return
    value = visible_values(node.graph).get(text)
    if value is None:
        raise ModelError(f"There is no value {text!r} here", "An input names a value the node can see.", node)
    connect(edit, node, index, value)


def _set_output(edit: Transaction, node: Node, index: int, text: str) -> None:
    value = _at(node.outputs, index)
    if value is None:
        raise ModelError("This output is left out", "Give the node more outputs in the inspector.", node)
    rename_value(edit, value, text)


_ATTRIBUTE_FIELDS = {
    "i": AttributeKind.INT, "f": AttributeKind.FLOAT, "s": AttributeKind.STRING, "ints": AttributeKind.INTS,
    "floats": AttributeKind.FLOATS, "strings": AttributeKind.STRINGS,
}  # fmt: skip


def _attribute_setter(node: Node, attribute: Attribute, path: Path) -> Setter | None:
    names = tuple(name for name, _ in path)
    match names:
        case ("name",):
            return lambda edit, text: rename_attribute(edit, node, attribute.name, text)
        case ("ref_attr_name",):
            return lambda edit, text: edit.do(SetAttribute(node, attribute.name, with_reference(attribute, text)))
    change = _attribute_change(attribute, path)
    if change is None:
        return None

    def apply(edit: Transaction, text: str) -> None:
        made = change(text)
        if made.value is attribute.value:
            edit.do(SetAttribute(node, attribute.name, made))
        else:
            set_attribute(edit, node, attribute.name, made.value, made.kind)

    return apply


def with_reference(attribute: Attribute, name: str) -> Attribute:
    """Return an attribute that refers to an attribute of the function, or without a name the simplest literal one."""
    return replace(attribute, reference=name, value=None if name else plainest(attribute.kind))


def _default_setter(function: Function, default: Attribute, rest: Path) -> Setter | None:
    change = _attribute_change(default, rest[1:])
    return None if change is None else lambda edit, text: set_default(edit, function, change(text))


def _attribute_change(attribute: Attribute, path: Path) -> Callable[[str], Attribute] | None:
    """Return the edit by which a text changes a field of an AttributeProto, of a node or a function."""
    field, index = path[0]
    value: Any = attribute.value
    if len(path) == 1 and field == "doc_string":
        return lambda text: replace(attribute, doc_string=text)
    if len(path) == 1 and field == "type":
        return lambda text: _of_kind(attribute, integer(text))
    kind = _ATTRIBUTE_FIELDS.get(field)
    if len(path) > 1 or kind is None or kind is not attribute.kind:
        return None
    parse = _PARSERS[field[0]]
    return lambda text: replace(attribute, value=swapped(value, index, parse(text)) if kind.is_list else parse(text))


def _of_kind(attribute: Attribute, number: int) -> Attribute:
    kinds = {int(kind): kind for kind in AttributeKind if kind}
    if number not in kinds:
        have = ", ".join(f"{n} {kind.name}" for n, kind in kinds.items())
        raise ModelError(f"{number} is no kind of attribute", f"There are: {have}.")
    return replace(attribute, kind=kinds[number], value=convert_value(attribute, kinds[number]), reference="")


def _set_metadata(edit: Transaction, target: Any, index: int, part: str, text: str) -> None:
    keys = list(target.metadata)
    if index >= len(keys):
        raise ModelError("This entry is repeated", "Of two entries with one key the last is in force.", target)
    if part == "key":
        properties.rename_metadata(edit, target, keys[index], text)
    else:
        properties.set_metadata(edit, target, keys[index], text)


def _set_opset(edit: Transaction, target: Model | Function, index: int, version: int) -> None:
    domains = list(target.opset_imports)
    if index >= len(domains):
        raise ModelError("This import is repeated", "Of two imports of one domain the last is in force.", target)
    properties.set_opset(edit, target, domains[index], version)


def parse_item(kind: AttributeKind, text: str) -> Any:
    """Parse one list entry of a kind from the user's text, or return the simplest entry for kinds without a text
    form.
    """
    names = {AttributeKind.INT: "i", AttributeKind.FLOAT: "f", AttributeKind.STRING: "s"}
    return _PARSERS[names[kind]](text) if kind in names else plainest(kind)


_PARSERS: dict[str, Callable[[str], Any]] = {"i": integer, "f": parse_float, "s": str}
