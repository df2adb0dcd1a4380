"""Graphs built by hand for the canvas."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from onnx_workbench.model.history.steps import InsertNode, SetField, SetGraphInputs, SetGraphOutputs, SetInitializer
from onnx_workbench.model.ir.attributes import Attribute, AttributeKind, make_attribute
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, Value
from onnx_workbench.model.ir.tensors import ArrayTensor
from onnx_workbench.model.ir.types import ElementType, Shape, TensorType
from onnx_workbench.viewer.canvas.graph_view import GraphView
from tests.viewer.canvas.painting import finish_painting

HOSTILE_NAMES = (
    "x" * 300,
    "\u202eevil\u202c",
    "שלום עולם مرحبا",
    "<b>bold</b><img src=x onerror=alert(1)>&amp;",
    "tab\tnew\nline\x00null\x1b[31m",
    "\udcff\udc80",
    "",
    "a/" * 200,
    "日本語🙂" * 40,
)


class Graphs:
    """Builds one graph node by node: values are called by name."""

    def __init__(self, name: str = "main", outer: Graphs | None = None) -> None:
        self.graph = Graph(name)
        self.values: dict[str, Value] = {}
        self._outer = outer

    def input(self, name: str, *dims: int | str) -> Value:
        value = self.value(name)
        SetField(value, "type", TensorType(ElementType.FLOAT, Shape(dims))).apply()
        SetGraphInputs(self.graph, (*self.graph.inputs, value)).apply()
        return value

    def constant(self, name: str, array: np.ndarray[Any, Any]) -> Value:
        value = self.value(name)
        SetInitializer(self.graph, value, ArrayTensor(array, name=name)).apply()
        return value

    def value(self, name: str) -> Value:
        scope: Graphs | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            scope = scope._outer
        value = self.values[name] = Value(name, None, self.graph)
        return value

    def node(
        self,
        op_type: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        name: str = "",
        domain: str = "",
        **attrs: Any,
    ) -> Node:
        attributes = {
            key: Attribute(key, AttributeKind.GRAPH, value) if isinstance(value, Graph) else make_attribute(key, value)
            for key, value in attrs.items()
        }
        made = []
        for output in outputs:
            self.values[output] = self.values.get(output) or Value(output, None, self.graph)
            made.append(self.values[output])
        node = Node(
            op_type,
            tuple(self.value(i) if i else None for i in inputs),
            tuple(made),
            name=name,
            domain=domain,
            attributes=attributes,
        )
        InsertNode(self.graph, node).apply()
        return node

    def outputs(self, *names: str) -> None:
        SetGraphOutputs(self.graph, tuple(self.value(name) for name in names)).apply()

    def model(self, *functions: Function) -> Model:
        model = Model(self.graph, opset=18)
        SetField(model, "functions", functions).apply()
        return model


def long_chain(count: int, *, scopes: int = 0) -> Graphs:
    """Relu after Relu; with `scopes`, in as many groups."""
    g = Graphs()
    g.input("x", 1)
    previous = "x"
    for index in range(count):
        prefix = f"/part{index * scopes // count}" if scopes else ""
        g.node("Relu", [previous], [f"v{index}"], name=f"{prefix}/relu{index}" if scopes else f"relu{index}")
        previous = f"v{index}"
    g.outputs(previous)
    return g


def settle(view: GraphView) -> None:
    """Paint all there is to paint."""
    finish_painting(view)
    view.grab()


def residual(blocks: int) -> Graphs:
    """x, then so many times: Exp, Relu, Tanh, added to what it began with; then Softmax. Nothing has a name."""
    g = Graphs()
    g.input("x", 4)
    last = "x"
    for block in range(blocks):
        value = last
        for operator in ("Exp", "Relu", "Tanh"):
            g.node(operator, [value], [f"{operator}{block}"])
            value = f"{operator}{block}"
        g.node("Add", [value, last], [f"sum{block}"])
        last = f"sum{block}"
    g.node("Softmax", [last], ["y"])
    g.outputs("y")
    return g


def nested(seed: int, depth: int = 2) -> Graphs:
    """Return a random graph of Relu, Concat, If, Loop and Scan, whose bodies use values of all graphs around them."""
    return _random_body(random.Random(seed), "main", None, [], depth)


def _random_body(rng: random.Random, name: str, outer: Graphs | None, seen: list[str], depth: int) -> Graphs:
    g = Graphs(name, outer)
    own = [f"{name}.in{n}" for n in range(rng.randint(0 if outer else 1, 2))]
    for value in own:
        g.input(value, 2)
    for number in range(rng.randint(1, 6)):
        known = [*seen, *own]
        kind = rng.choice(["Relu", "Concat", "Concat", "If", "Loop", "Scan"] if depth else ["Relu", "Concat"])
        title = f"{name}.{number}"
        taken = [rng.choice(known) for _ in range(1 if kind in ("Relu", "If") else rng.randint(1, 5))]
        keys = {"If": ["then_branch", "else_branch"], "Loop": ["body"], "Scan": ["body"]}.get(kind, [])
        bodies = {key: _random_body(rng, f"{title}.{key}", g, known, depth - 1).graph for key in keys}
        g.node(kind, taken, [title], name=title, **bodies)
        own.append(title)
    g.outputs(*{rng.choice([*seen, *own]) for _ in range(rng.randint(1, 3))})
    return g
