"""Simulate reduced precision (fake quantization): a run request in which chosen values are rounded.

The model is not changed: a call of a small function is inserted into the snapshot after each chosen value.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping
from dataclasses import replace
from operator import is_
from typing import Final, Literal

from onnx_workbench.exec.engine.request import Request
from onnx_workbench.exec.engine.snapshot import (
    ABSENT,
    AttributeSnapshot,
    FunctionSnapshot,
    GraphSnapshot,
    NodeSnapshot,
)
from onnx_workbench.model.ir.attributes import AttributeKind
from onnx_workbench.model.ir.types import ElementType

Precision = Literal["float16", "bfloat16", "int8"]

_DOMAIN: Final = "onnx-workbench.what-if"
_OPSET: Final = 21
#: Negative numbers are never assigned to model objects.
_numbers = itertools.count(-1_000_000_000, -1)


def in_precision(request: Request, precision: Precision, values: Collection[int]) -> Request:
    """Return the request with some values, given by number, rounded to a precision and back.

    `values` must be float tensors: outputs of nodes, initializers or inputs, in the main graph, in subgraphs or in
    functions (rounded in every call). float16 and bfloat16 round to nearest; int8 quantizes each tensor to 8 bits over
    its range.
    """
    rounding = _Rounding(_function(precision), frozenset(values))
    snapshot = request.snapshot
    key = rounding.function.key
    functions = {name: rounding.in_function(function) for name, function in snapshot.functions.items()}
    snapshot = replace(
        snapshot,
        uid=next(_numbers),
        graph=rounding.in_graph(snapshot.graph, {}),
        functions={**functions, key: rounding.function},
        opset_imports={**snapshot.opset_imports, _DOMAIN: 1},
    )
    return replace(request, snapshot=snapshot, breakpoints=())


class _Rounding:
    """Inserts a function call after each chosen value. Objects without chosen values stay identical."""

    def __init__(self, function: FunctionSnapshot, chosen: frozenset[int]) -> None:
        self.function = function
        self._chosen = chosen

    def in_function(self, function: FunctionSnapshot) -> FunctionSnapshot:
        """Return a model function with rounding in its body."""
        body = self.in_graph(function.body, {})
        if body is function.body:
            return function
        imports = {**function.opset_imports, _DOMAIN: 1}
        return replace(function, uid=next(_numbers), body=body, opset_imports=imports)

    def in_graph(self, graph: GraphSnapshot, outer: Mapping[int, int]) -> GraphSnapshot:
        """Return a graph with rounding; `outer` maps outer values to their rounded form."""
        inputs = {value: next(_numbers) for value in graph.inputs if value in self._chosen}
        rounded = {**outer, **inputs}
        before = [self._call(value, new) for value, new in inputs.items()]
        initializers = []
        for value, tensor in graph.initializers:
            raw = value
            if value in self._chosen and value not in inputs:
                raw = next(_numbers)
                before.append(self._call(raw, value))
            initializers.append((raw, tensor))
        nodes = [new for node in graph.nodes for new in self._in_node(node, rounded)]
        outputs = tuple(rounded.get(v, v) for v in graph.outputs)
        if not before and outputs == graph.outputs and all(map(is_, nodes, graph.nodes)):
            return graph
        return replace(
            graph, uid=next(_numbers), initializers=tuple(initializers), nodes=(*before, *nodes), outputs=outputs
        )

    def _in_node(self, node: NodeSnapshot, rounded: Mapping[int, int]) -> list[NodeSnapshot]:
        """Return a node that reads rounded inputs, and the calls that round its outputs."""
        unrounded = {value: next(_numbers) for value in node.outputs if value in self._chosen}
        inputs = tuple(rounded.get(value, value) for value in node.inputs)
        attributes = tuple(self._in_attribute(a, rounded) for a in node.attributes) if node.bodies else node.attributes
        if not unrounded and inputs == node.inputs and all(map(is_, attributes, node.attributes)):
            return [node]
        outputs = tuple(unrounded.get(value, value) for value in node.outputs)
        changed = replace(node, uid=next(_numbers), inputs=inputs, outputs=outputs, attributes=attributes)
        return [changed, *(self._call(raw, value) for value, raw in unrounded.items())]

    def _in_attribute(self, attribute: AttributeSnapshot, rounded: Mapping[int, int]) -> AttributeSnapshot:
        match attribute.value:
            case GraphSnapshot() as body:
                changed = self.in_graph(body, rounded)
                return attribute if changed is body else replace(attribute, value=changed)
            case (GraphSnapshot(), *_) as bodies:
                return replace(attribute, value=tuple(self.in_graph(body, rounded) for body in bodies))
        return attribute

    def _call(self, value: int, rounded: int) -> NodeSnapshot:
        domain, name, overload = self.function.key
        return NodeSnapshot(next(_numbers), next(_numbers), 0, name, domain, overload, name, (value,), (rounded,), ())


def _function(precision: Precision) -> FunctionSnapshot:
    x, y = next(_numbers), next(_numbers)
    nodes: tuple[NodeSnapshot, ...]
    match precision:
        case "float16" | "bfloat16":
            kind = ElementType.FLOAT16 if precision == "float16" else ElementType.BFLOAT16
            small = next(_numbers)
            nodes = (_node("Cast", (x,), (small,), to=kind), _node("CastLike", (small, x), (y,)))
        case "int8":
            single, small, scale, zero, back = (next(_numbers) for _ in range(5))
            nodes = (
                _node("Cast", (x,), (single,), to=ElementType.FLOAT),
                _node("DynamicQuantizeLinear", (single,), (small, scale, zero)),
                _node("DequantizeLinear", (small, scale, zero), (back,)),
                _node("CastLike", (back, x), (y,)),
            )
    body = GraphSnapshot(next(_numbers), ABSENT, precision, (x,), (y,), (None,), (None,), (), nodes)
    return FunctionSnapshot(next(_numbers), (_DOMAIN, precision, ""), body, (), (), {"": _OPSET})


def _node(op_type: str, inputs: tuple[int, ...], outputs: tuple[int, ...], to: int | None = None) -> NodeSnapshot:
    attributes = () if to is None else (AttributeSnapshot("to", AttributeKind.INT, int(to)),)
    number = next(_numbers)
    return NodeSnapshot(number, number, 0, op_type, "", "", op_type, inputs, outputs, attributes)
