"""Paths in the protobuf messages of a model, mapped to objects and back.

A path is the sequence of fields from ModelProto down, each with its index among fields of the same name: ``(("graph",
0), ("node", 3), ("op_type", 0))``. The numbers in a packed field and the bytes of data are divided into pages: ``(…,
("float_data", 0), ("page", 2), ("element", 2017))``, ``(…, ("raw_data", 0), ("page", 0), ("bytes", 32))``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnx_workbench.model.edits.raw_entries import FIELDS
from onnx_workbench.model.edits.unknown_fields import Host
from onnx_workbench.model.history.steps import Target
from onnx_workbench.model.io.message_fields import Path
from onnx_workbench.model.io.raw_view import ELEMENT, PAGE
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, TrainingInfo, Value


def object_at(model: Model, path: Path) -> tuple[Target, Path]:
    """Return the innermost model object on a path, and the rest of the path below it."""
    target: Target = model
    rest = path
    while rest:
        found, used = _child(target, rest)
        if found is None:
            break
        target, rest = found, rest[used:]
    return target, rest


def _child(target: Target, rest: Path) -> tuple[Any, int]:
    """Return the object to which the first steps of a path lead from another, and the number of these steps."""
    (field, index), *below = rest
    if isinstance(target, Node):
        leads_to_graph = field == "attribute" and below and below[0][0] in ("g", "graphs")
        attribute = _at(list(target.attributes.values()), index) if leads_to_graph else None
        return None if attribute is None else _at(attribute.graphs, below[0][1]), 2
    return _at(objects_in(target, field), index), 1


def objects_in(target: Target, field: str) -> Sequence[Any]:
    """Return the objects whose messages are in a field of an object's message."""
    found = FIELDS[type(target)].get(field)
    return found.items(target) if found is not None and found.change is None else ()


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
            for index, attribute in enumerate(owner.attributes.values()):
                number = _index(attribute.graphs, graph)
                if outer is not None and number is not None:
                    return (*outer, ("attribute", index), ("graphs" if attribute.kind.is_list else "g", number))
    return None


def _path_of_value(value: Value) -> Path | None:
    graph = value.graph
    if graph is None:
        return None
    for field in ("input", "output", "initializer", "sparse_initializer", "value_info"):
        number = _index(objects_in(graph, field), value)
        if number is not None and not isinstance(graph.owner, Function):
            return _below(graph, field, number)
    return path_of(value.producer) if value.producer is not None else None


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
            if sum(v is target for v in objects_in(target.graph, field)) == 1:
                return target, ((field, 0), *path[length:-1])
        elif isinstance(target, (Node, Function)):
            return target, path[length:-1]
    return model, path[:-1]


def plain_path(path: Path) -> Path | None:
    """Return a path without pages and packed fields of the raw view: elements become entries of their field.

    None for elements of the second of two packed fields of one name, whose elements have no number of their own.
    """
    steps = [step for step in path if step[0] != PAGE]
    if steps and steps[-1][0] == ELEMENT:
        name, index = steps[-2]
        return None if index else (*steps[:-2], (name, steps[-1][1]))
    return tuple(steps)
