"""Editing by message and field, as the raw view does: from a path in the message to an edit of the model.

A path is the fields from ModelProto down with their index among fields of the same name:
``(("graph", 0), ("node", 3), ("op_type", 0))``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from model.attributes import Attribute, AttributeKind
from model.document import Transaction
from model.edits import properties
from model.edits.attributes import rename_attribute, set_attribute
from model.edits.nodes import rename_node
from model.edits.values import connect, disconnect, rename_value, set_type
from model.errors import ModelError
from model.graph import Function, Graph, Model, Node, TrainingInfo, Value
from model.queries.scope import visible_values
from model.steps import SetAttribute, SetField
from model.types import Dimension, Shape, TensorType, element_type

Path = tuple[tuple[str, int], ...]
Target = Model | Graph | Function | TrainingInfo | Node | Value


def object_at(model: Model, path: Path) -> tuple[Target, Path]:
    """The innermost model object on a path, and what is left of the path below it."""
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
            found = _at(list(graph.nodes), index)
        case Graph(), "input":
            found = _at(target.inputs, index)
        case Graph(), "output":
            found = _at(target.outputs, index)
        case Graph(), "value_info":
            found = _at([v for v in target.declared if v.type is not None], index)
        case Graph(), "initializer":
            found = _at([v for v in target.initializers if v.initializer is not None], index)
        case Node(), "attribute" if len(rest) > 1 and rest[1][0] in ("g", "graphs"):
            attribute = _at(list(target.attributes.values()), index)
            found = _at(attribute.graphs, rest[1][1]) if attribute is not None else None
            used = 2
    return None if found is None else (found, used)


def _at(items: Any, index: int) -> Any:
    return items[index] if 0 <= index < len(items) else None


def path_of(target: Node | Value | Graph | Function | Model) -> Path | None:
    """The path to an object; None for what has no message of its own. Costs the place in its list."""
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
    for field, items in (
        ("input", graph.inputs),
        ("output", graph.outputs),
        ("initializer", graph.initializers),
        ("value_info", [v for v in graph.declared if v.type is not None]),
    ):
        number = _index(items, value)
        if number is not None and not isinstance(graph.owner, Function):
            return _below(graph, field, number)
    return path_of(value.producer) if value.producer is not None else None


def can_set(model: Model, path: Path) -> bool:
    """Whether `set_field` knows what to do with a field."""
    target, rest = object_at(model, path)
    return _setter(target, rest) is not None


def set_field(edit: Transaction, path: Path, text: str) -> None:
    """Change one scalar field to what a person wrote; ModelError when it is not of the field's kind."""
    target, rest = object_at(edit.model, path)
    setter = _setter(target, rest)
    if setter is None:
        raise ModelError("This field is edited elsewhere", "Its message has an editor of its own.", target)
    setter(edit, text)


Setter = Callable[[Transaction, str], None]


def _setter(target: Target, rest: Path) -> Setter | None:
    names = tuple(name for name, _ in rest)
    match target, names:
        case ((Node() | Value() | Graph() | Function() | Model()), ("doc_string",)):
            return lambda edit, text: properties.set_text(edit, target, "doc_string", text)
        case ((Node() | Value() | Graph() | Function() | Model()), ("metadata_props", "key" | "value" as part)):
            return lambda edit, text: _set_metadata(edit, target, rest[0][1], part, text)
        case Model(), _:
            return _model_setter(target, names, rest)
        case Node(), _:
            return _node_setter(target, names, rest)
        case Value(), ("name",):
            return lambda edit, text: rename_value(edit, target, text)
        case Value(), ("type", "tensor_type", *inner):
            return _type_setter(target, tuple(inner), rest)
        case ((Graph() | Function()), ("name",)):
            return lambda edit, text: edit.do(SetField(target, "name", text))
        case Function(), ("domain" | "overload" as field,):
            return lambda edit, text: edit.do(SetField(target, field, text))
        case Function(), ("opset_import", "version"):
            return lambda edit, text: _set_opset(edit, target, rest[0][1], _integer(text))
    return None


def _model_setter(model: Model, names: tuple[str, ...], rest: Path) -> Setter | None:
    match names:
        case ("ir_version",):
            return lambda edit, text: properties.set_ir_version(edit, _integer(text))
        case ("model_version",):
            return lambda edit, text: properties.set_model_version(edit, _integer(text))
        case ("producer_name" | "producer_version" | "domain" as field,):
            return lambda edit, text: properties.set_text(edit, model, field, text)
        case ("opset_import", "version"):
            return lambda edit, text: _set_opset(edit, model, rest[0][1], _integer(text))
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
        case ("attribute", field):
            attribute = _at(list(node.attributes.values()), rest[0][1])
            return None if attribute is None else _attribute_setter(node, attribute, field, rest[1][1])
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


def _attribute_setter(node: Node, attribute: Attribute, field: str, index: int) -> Setter | None:
    if field == "name":
        return lambda edit, text: rename_attribute(edit, node, attribute.name, text)
    if field in ("doc_string", "ref_attr_name"):
        slot = "reference" if field == "ref_attr_name" else field
        return lambda edit, text: edit.do(SetAttribute(node, attribute.name, replace(attribute, **{slot: text})))  # type: ignore[arg-type]  # both are texts
    kind = _ATTRIBUTE_FIELDS.get(field)
    if kind is None or kind is not attribute.kind:
        return None
    parse = _PARSERS[field[0]]

    def apply(edit: Transaction, text: str) -> None:
        value: Any = parse(text)
        if kind.is_list:
            old: Any = attribute.value
            value = (*old[:index], value, *old[index + 1 :])
        set_attribute(edit, node, attribute.name, value, kind)

    return apply


def _type_setter(value: Value, names: tuple[str, ...], rest: Path) -> Setter | None:
    kind = value.type
    if not isinstance(kind, TensorType):
        return None
    match names:
        case ("elem_type",):
            return lambda edit, text: set_type(edit, value, replace(kind, element_type=element_type(_integer(text))))
        case ("shape", "dim", "dim_value" | "dim_param" as part) if kind.shape is not None:
            axis = rest[-2][1]
            return lambda edit, text: _set_dim(edit, value, kind, axis, _integer(text) if part == "dim_value" else text)
    return None


def _set_dim(edit: Transaction, value: Value, kind: TensorType, axis: int, dimension: Dimension) -> None:
    assert kind.shape is not None
    dims = kind.shape.dims
    changed = Shape((*dims[:axis], dimension, *dims[axis + 1 :]), kind.shape.denotations)
    set_type(edit, value, replace(kind, shape=changed))


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


def _integer(text: str) -> int:
    try:
        return int(text.strip(), 0)
    except ValueError:
        raise ModelError(f"{text!r} is not a whole number", "This field holds a 64-bit integer.") from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ModelError(f"{text!r} is not a number", "This field holds a 32-bit float.") from None


_PARSERS: dict[str, Callable[[str], Any]] = {"i": _integer, "f": _number, "s": str}
