"""Differences between two models in words. No Qt."""

from __future__ import annotations

from onnx_workbench.model.diff import Difference
from onnx_workbench.model.ir.graph import Graph, Model, Node, Value

#: Sign of each kind of difference, in lists and on the graph, in addition to colours.
SIGNS = {"changed": "~", "removed": "−", "added": "+", "moved": "→", "renamed": "="}
#: Names of the kinds in the legend, in the order of the colours.
WORDS = {
    "changed": f"{SIGNS['changed']} changed",
    "removed": f"{SIGNS['removed']} removed",
    "added": f"{SIGNS['added']} added",
    "moved": f"{SIGNS['moved']} moved",
    "renamed": f"{SIGNS['renamed']} renamed",
}


def difference_line(difference: Difference) -> str:
    """Return a difference in one line: kind, place, aspect, and both sides, or their distance."""
    sides = difference.before, difference.after
    change = " → ".join(text or "nothing" for text in sides) if any(sides) else ""
    if difference.numbers is not None:
        change = str(difference.numbers)
    parts = (location(difference.place), aspect_text(difference.aspect), change)
    return f"{WORDS[difference.kind]} {', '.join(part for part in parts if part)}"


#: Texts of aspects of differences, and of aspects that are followed by a name or number.
_ASPECTS = {
    "name": "name",
    "place": "place",
    "type": "type",
    "values": "values",
    "operator": "operator",
    "initializer": "initializer",
    "domain": "domain",
    "doc string": "doc string",
    "attributes": "attributes",
    "ir version": "ir version",
    "model version": "model version",
    "producer name": "producer name",
    "producer version": "producer version",
    "training graphs": "training graphs",
    "initialization binding": "initialization binding",
    "update binding": "update binding",
    "quantization annotations": "quantization annotations",
    "device configurations": "device configurations",
    "order of inputs": "order of inputs",
    "order of outputs": "order of outputs",
}
_NAMED = {"attribute": "attribute", "input": "input", "output": "output", "metadata": "metadata", "opset": "opset"}


def aspect_text(aspect: str) -> str:
    """Describe the part of an object that differs: ``Difference.aspect`` in words."""
    word, _, name = aspect.partition(" ")
    if aspect.startswith("doc string of "):
        return f"doc string of {aspect.removeprefix('doc string of ')}"
    return f"{_NAMED[word]} {name}" if word in _NAMED and name else _ASPECTS.get(aspect, aspect)


def location(place: object) -> str:
    """Return the name of the object of a difference, with its graph unless that is the main one."""
    match place:
        case Node():
            named = f"{place.op_type} {place.name}" if place.name else _nameless(place)
            return f"node {named}{_inside(place.graph)}"
        case Value():
            return f"value {place.name}{_inside(place.graph)}"
        case Graph():
            return f"graph {place.name}"
        case Model():
            return "model"
        case _:
            return f"function {getattr(place, 'domain', '')}::{getattr(place, 'name', '')}"


def _nameless(node: Node) -> str:
    output = next((v.name for v in node.outputs if v is not None), "")
    return f"{node.op_type} (output {output})" if output else node.op_type


def _inside(graph: Graph | None) -> str:
    return "" if graph is None or isinstance(graph.owner, Model) else f" in {graph.name}"
