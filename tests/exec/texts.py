"""Models from ONNX text syntax, for tests."""

from __future__ import annotations

from typing import Any

import onnx.parser

from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.ir.graph import Model, Node

CHAIN = """g (float[3] x) => (float[3] y) {
  a = LeakyRelu <alpha = 0.5> (x)
  b = Mul(a, a)
  c = Exp(x)
  d = LeakyRelu <alpha = 0.25> (b)
  y = Add(c, d)
}"""


def parse(text: str, *, header: str = 'ir_version: 10, opset_import: ["" : 21]') -> Model:
    """A model from text; `text` is the graph and functions, `header` what stands before."""
    proto = onnx.parser.parse_model(f"<{header}> {text}")
    return load(proto.SerializeToString())


def node(model: Model, name: str) -> Node:
    """The node with this name or output name."""
    for graph in model.graphs():
        for found in graph.nodes:
            if found.name == name or any(v is not None and v.name == name for v in found.outputs):
                return found
    raise AssertionError(f"no node {name}")


def states(result: Any) -> dict[str, str]:
    """What became of each node, by the name of its first output or its title."""
    by_node = {}
    for step, found in zip(result.layout.steps, result.nodes, strict=True):
        names = {slot: result.layout.name(key[1]) for key, slot in result.layout.slots.items()}
        by_node[names.get(step.outs[0], found.title) if step.outs else found.title] = found.state.name
    return by_node
