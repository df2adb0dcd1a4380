"""Texts of tooltips: details for which the canvas has no room. Plain text, no Qt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

from onnx_workbench.model.analysis.folded_nodes import Purpose
from onnx_workbench.model.analysis.name_scopes import Scope
from onnx_workbench.model.analysis.subgraph_ports import origin
from onnx_workbench.model.analysis.value_types import TypeOf
from onnx_workbench.model.ir.attributes import Attribute
from onnx_workbench.model.ir.devices import ShardingSpec
from onnx_workbench.model.ir.graph import Graph, Node, Value
from onnx_workbench.model.text.formatting import bytes_text, display, plural
from onnx_workbench.viewer.canvas.scene.box_factory import differences
from onnx_workbench.viewer.canvas.scene.node_text import FoldTag, attribute_text, tensor_text
from onnx_workbench.viewer.canvas.scene.scene import Hit, Scene
from onnx_workbench.viewer.style.labels import name_of, place_text
from onnx_workbench.viewer.style.type_texts import value_text, whole_type

_LIMIT = 400
_MOST_CONSUMERS = 50
_MOST_SHARDINGS = 4
_MOST_DIFFERENCES = 8

_MOST_FOLDED = 12

_BUTTONS = {
    "+": "Open in place", "−": "Close", "ƒ": "Show the function", "○": "Show the body", "▾": "Fold these nodes again",
}  # fmt: skip
_PURPOSES: Mapping[Purpose, str] = {
    "sizes": "Nodes that only compute sizes:",
    "weights": "Nodes that only prepare constants:",
    "folded": "Nodes of kinds that are folded:",
}


def tip_of(scene: Scene, hit: Hit, type_of: TypeOf) -> str:
    """Return the tooltip of a hit, in a few lines; empty if there is none."""
    if hit.button == "▸" and hit.row is not None and isinstance(hit.row.subject, FoldTag):
        return _tag_tip(scene, hit.box, hit.row.subject)
    if hit.button is not None:
        return _BUTTONS[hit.button]
    value = scene.value_at(hit)
    if value is not None:
        return _value_tip(scene, hit, value, type_of)
    if hit.row is not None and isinstance(hit.row.subject, Attribute):
        attribute = hit.row.subject
        return f"{display(attribute.name)} = {attribute_text(attribute)}\n{attribute.kind.name.lower()}"
    if hit.box < 0:
        return ""
    match scene.boxes[hit.box].subject:
        case Node() as node:
            name = f"\n{display(node.name, _LIMIT)}" if node.name else ""
            domain = f"{display(node.domain, 80)}." if node.domain else ""
            return "\n".join((f"{domain}{display(node.op_type, 80)}{name}", *_data_lines(scene, (node,))))
        case Scope() as scope:
            return "\n".join((_scope_tip(scope), *_data_lines(scene, tuple(scope.all_nodes()))))
        case Graph() as graph:
            return f"{name_of(graph)}\n{plural(len(graph.nodes), 'node')}"
    return ""


def _scope_tip(scope: Scope) -> str:
    names, outer = [scope.name], scope.parent
    while outer is not None and outer.name:
        names.append(outer.name)
        outer = outer.parent
    operators = ", ".join(f"{display(op, 40)} {count}" for op, count in scope.operators()[:8])
    lines = [display("/".join(reversed(names)), _LIMIT), f"{plural(scope.count, 'node')}: {operators}"]
    return "\n".join((*lines, *(differences(scope)[:_MOST_DIFFERENCES] if scope.is_stack else ())))


def _data_lines(scene: Scene, nodes: Sequence[Node]) -> list[str]:
    """Return a line for each column of the node data."""
    data = scene.drawing.options.data
    cells = [column.of(nodes) for column in data.columns] if data is not None else []
    return [f"{title}: {text}" for title, text in filter(None, cells)]


def _tag_tip(scene: Scene, box: int, tag: FoldTag) -> str:
    user = scene.boxes[box].subject
    nodes = scene.drawing.hidden.behind(user, tag.purpose, _MOST_FOLDED + 1) if isinstance(user, Node) else []
    lines = [_PURPOSES[tag.purpose]]
    lines += [f"{display(node.op_type, 80)}  {display(node.name, 80)}".rstrip() for node in nodes[:_MOST_FOLDED]]
    if len(nodes) > _MOST_FOLDED:
        lines.append("…")
    return "\n".join((*lines, "Click to draw these nodes"))


def _value_tip(scene: Scene, hit: Hit, value: Value, type_of: TypeOf) -> str:
    lines = [display(value.name, _LIMIT) or "(unnamed value)"]
    if text := whole_type(type_of(value) or value.type) or value_text(value):
        lines.append(text)
    outside = origin(value)
    if isinstance(outside, Value):
        lines.append(f"outside: {display(outside.name, _LIMIT)}")
    elif outside is not None and outside.graph is not scene.drawing.graph and scene.drawing.graph is not value.graph:
        lines.append(f"from {place_text(outside)}")
    if value.initializer is not None:
        lines.append(f"{tensor_text(value.initializer)}, {bytes_text(value.initializer.nbytes)}")
        if value.initializer.problem:
            lines.append(f"data not available: {display(value.initializer.problem)}")
    lines += sharding_lines(value)
    if hit.edge >= 0 and scene.drawing.multiplicity[hit.edge] > 1:
        lines.append(f"and {plural(int(scene.drawing.multiplicity[hit.edge]) - 1, 'more value')} between these")
    return "\n".join(lines)


def sharding_lines(value: Value) -> list[str]:
    """Return one line for each different way in which device configurations of nodes around a value split it."""
    nodes = [value.producer, *islice(value.consumers, _MOST_CONSUMERS)]
    lines: dict[str, None] = {}
    for node in nodes:
        for configuration in node.device_configurations if node is not None else ():
            for spec in configuration.sharding:
                if spec.tensor_name == value.name:
                    lines[_sharding_text(configuration.configuration_id, spec)] = None
    return list(lines)[:_MOST_SHARDINGS]


def _sharding_text(configuration: str, spec: ShardingSpec) -> str:
    axes = [
        f"axis {dimension.axis} in {' and '.join(str(count) for _, count in dimension.shards)}"
        for dimension in spec.dimensions[:8]
    ]
    devices = ", ".join(map(str, spec.devices[:16])) or "none named"
    how = f": {', '.join(axes)}" if axes else ", not split"
    return f"{display(configuration, 40)}: devices {devices}{how}"
