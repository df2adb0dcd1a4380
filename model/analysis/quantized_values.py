"""Match the values of a float graph with those of a graph that static quantization produced from it.

In a quantized graph the value named X is often not the replacement of X: consumers read
DequantizeLinear(QuantizeLinear(X)), and a Relu or Clip with the bounds of the quantized type is merged into its
producer, under either name. Integer operators (QLinearConv, ...) produce only integers, which are dequantized with the
scale that their consumers get.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from onnx_workbench.model.analysis.reachable import reachable
from onnx_workbench.model.ir.graph import Graph, Node, Value

#: Operators that pass integers through unchanged, with their scale.
_PASSING = {"Flatten", "Gather", "Identity", "MaxPool", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"}
_ACTIVATIONS = {"Relu", "Clip"}
_SUFFIX = "_quantized"  # appended by ONNX Runtime's tools to the name of a value, for its integers


@dataclass(frozen=True, slots=True)
class Counterpart:
    """A value that corresponds to one of another graph; integers mean (value − zero_point) · scale."""

    value: Value
    scale: Value | None = None
    zero_point: Value | None = None


def is_quantized(graph: Graph) -> bool:
    """Return whether activations of a graph are quantized by parameters that are part of it."""
    return any(node.op_type == "QuantizeLinear" or node.op_type.startswith("QLinear") for node in graph.nodes)


def counterparts(precise: Graph, quantized: Graph) -> dict[Value, Counterpart]:
    """Return the counterpart of each value of a float graph in a quantized one, by names and structure."""
    theirs = {value.name: value for value in quantized.values() if value.is_defined}
    counterpart_of: dict[Value, Counterpart] = {}
    for value in precise.values():
        if not value.name or value.initializer is not None or value in counterpart_of:
            continue
        raw, replacement = theirs.get(value.name), _replacement(theirs, value.name)
        result = _folded_activation(value)
        before = _activated(value)
        if replacement is not None and result is not None and not _is_there(theirs, result.name):
            counterpart_of[result] = replacement
            if raw is not None:
                counterpart_of[value] = Counterpart(raw)
        elif replacement is not None:
            counterpart_of[value] = replacement
            is_before_gone = before is not None and not _is_there(theirs, before.name)
            if raw is not None and before is not None and is_before_gone and _operator(raw) == _operator(before):
                counterpart_of[before] = Counterpart(raw)  # it lacks the activation: same operator as `before`
        elif raw is not None:
            counterpart_of[value] = Counterpart(raw)
    return counterpart_of


def _is_there(values: dict[str, Value], name: str) -> bool:
    return name in values or name + _SUFFIX in values


def _operator(value: Value) -> str:
    return value.producer.op_type if value.producer is not None else ""


def _folded_activation(value: Value) -> Value | None:
    """Return the result of the activation that is the only user of a value."""
    users = list(value.uses)
    node = users[0][0] if len(users) == 1 else None
    return node.outputs[0] if isinstance(node, Node) and node.op_type in _ACTIVATIONS else None


def _activated(value: Value) -> Value | None:
    """Return the input of the activation that produces a value."""
    node = value.producer
    return node.inputs[0] if node is not None and node.op_type in _ACTIVATIONS and node.inputs else None


def _replacement(values: dict[str, Value], name: str) -> Counterpart | None:
    """Return the value that users read instead of the value of this name, if there is one."""
    raw = values.get(name)
    integers = values.get(name + _SUFFIX)
    for node, index in raw.uses if raw is not None else ():
        if isinstance(node, Node) and node.op_type == "QuantizeLinear" and index == 0:
            integers = node.outputs[0]
    if integers is None or integers.initializer is not None:
        return None
    for node, index in integers.uses:
        if isinstance(node, Node) and node.op_type == "DequantizeLinear" and index == 0 and node.outputs[0] is not None:
            return Counterpart(node.outputs[0])
    parameters = _parameters(integers)
    return None if parameters is None else Counterpart(integers, *parameters)


def _parameters(integers: Value) -> tuple[Value | None, Value | None] | None:
    """Return scale and zero point of integers, from the first operator that gets them."""

    def passed_on(value: Value) -> Iterator[Value | None]:
        users = (user for user, index in value.uses if isinstance(user, Node) and index == 0)
        return (user.outputs[0] for user in users if user.op_type in _PASSING)

    for value in reachable([integers], passed_on):
        for node, index in value.uses:
            takes_scale = isinstance(node, Node) and node.op_type in ("QGemm", "DequantizeLinear")
            if isinstance(node, Node) and (takes_scale or node.op_type.startswith("QLinear")):
                scale, zero_point, *_ = (*node.inputs[index + 1 : index + 3], None, None)
                return scale, zero_point
    return None
