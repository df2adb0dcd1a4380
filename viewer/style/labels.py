"""Names and locations of model objects and controls as text: breadcrumb, messages, status line. No Qt."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, TrainingInfo, Value
from onnx_workbench.model.text.formatting import display

if TYPE_CHECKING:
    from onnx_workbench.model.ir.tensors import Tensor

_LABEL_LIMIT = 60


def name_of(item: object) -> str:
    """Return a short display name of a model object; its kind where it has no name."""
    match item:
        case Node():
            return display(item.name or f"[{item.op_type}] {first_output(item)}".rstrip(), _LABEL_LIMIT)
        case Value():
            return display(item.name, _LABEL_LIMIT) or "(unnamed value)"
        case Function():
            return f"{display(item.domain, _LABEL_LIMIT)}::{display(item.title, _LABEL_LIMIT)}"
        case Model():
            return "model"
        case Graph():
            return _graph_name(item)
        case TrainingInfo():
            return "training"
        case _:
            return display(str(item), _LABEL_LIMIT)


def first_output(node: Node) -> str:
    """Return the name of a node's first output, to identify an unnamed node."""
    return next((value.name for value in node.outputs if value is not None and value.name), "")


def _graph_name(graph: Graph) -> str:
    owner = graph.owner
    if isinstance(owner, Function):
        return name_of(owner)
    if isinstance(owner, TrainingInfo):
        return "initialization" if owner.initialization is graph else "algorithm"
    if isinstance(owner, Node):
        attribute = next((a.name for a in owner.attributes.values() if graph in a.graphs), "")
        return display(attribute or graph.name or "body", _LABEL_LIMIT)
    return display(graph.name, _LABEL_LIMIT) or "graph"


def path_to(graph: Graph) -> list[Graph | Node]:
    """Return the path from the outermost graph to `graph`, with the nodes whose subgraphs are entered."""
    steps: list[Graph | Node] = [graph]
    while isinstance(owner := graph.owner, Node) and owner.graph is not None:
        graph = owner.graph
        steps += [owner, graph]
    return steps[::-1]


def place_text(place: Any) -> str:
    """Describe the location of a message; empty when it has none."""
    if place is None or isinstance(place, Model):
        return ""
    if isinstance(place, (Node, Value)):
        kind = "node" if isinstance(place, Node) else "value"
        where = "" if place.graph is None else f" in {trail(place.graph)}"
        return f"{kind} {name_of(place)}{where}"
    if isinstance(place, Graph) and not isinstance(place.owner, Function):
        return f"graph {trail(place)}"
    if isinstance(place, (Function, Graph)):
        return f"function {name_of(place)}"
    return display(str(place), 500)


def trail(graph: Graph) -> str:
    """Describe the location of a graph, from the outermost one on."""
    return " › ".join(name_of(step) for step in path_to(graph))


def without_mnemonic(text: str) -> str:
    """Return the text of a control without its mnemonic: ``&File``, or in Chinese ``文件(&F)``."""
    return re.sub(r"\(&\w\)|&(&?)", r"\1", text)


def storage_text(tensor: Tensor) -> str:
    """Describe where the values of a tensor are stored; for those in memory, where the next save puts them."""
    from onnx_workbench.model.io.tensors.proto_tensor import is_stored_outside

    match tensor.storage:
        case "external":
            return f"in the data file {display(str(getattr(tensor, 'location', '')), 60)}"
        case "memory":
            return "in memory, saved in a data file" if is_stored_outside(tensor) else "in memory"
        case _:
            return "in the model file"
