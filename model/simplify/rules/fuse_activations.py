"""Fuse decomposed activation functions into the operators of newer opsets."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from onnx_workbench.model.analysis.node_constants import real
from onnx_workbench.model.ir.graph import Node, Value
from onnx_workbench.model.ir.types import ElementType
from onnx_workbench.model.simplify.context import MatchContext
from onnx_workbench.model.simplify.passes import Match, Pass, describe, replacement


@dataclass(frozen=True, slots=True)
class Product:
    """A flattened tree of Mul and Div by constants: its factor, and the other operands."""

    factor: float
    values: tuple[Value, ...]
    nodes: tuple[Node, ...]


def scalar(context: MatchContext, value: Value | None) -> float | None:
    """Return the number in a constant of one element."""
    array = context.array(value)
    return float(array.reshape(-1)[0]) if array is not None and array.size == 1 and array.dtype.kind in "fi" else None


def is_near(context: MatchContext, x: Value | None, number: float | None, expected: float) -> bool:
    """Return whether a constant is the expected number, within the precision of the data type."""
    tolerance = 1e-3 if context.element_type(x) is ElementType.FLOAT16 else 1e-5
    return number is not None and math.isclose(number, expected, rel_tol=tolerance)


def is_alike(context: MatchContext, value: Value | None, x: Value | None) -> bool:
    """Return whether a value has the type and the rank of the data: constants of higher rank would broadcast it."""
    rank = context.facts.rank(x)
    return rank is not None and context.facts.rank(value) == rank and context.is_float(value, x)


def product(context: MatchContext, node: Node) -> Product:
    """Return the operands of a Mul, through its producers without other users."""
    factor, values, nodes = 1.0, list[Value](), [node]
    pending = [(node, v) for v in node.inputs]
    while pending:
        user, value = pending.pop(0)
        number = scalar(context, value)
        if number is not None and user.op_type == "Div" and value is user.inputs[1]:
            factor = factor / number if number else math.nan
        elif number is not None:
            factor *= number
        elif value is not None:
            inner = context.producer(value, "Mul", "Div")
            divides = inner is not None and inner.op_type == "Div" and scalar(context, inner.inputs[1]) is None
            if inner is None or divides or context.sole_user(value) is not user or len(nodes) > 4:
                values.append(value)
            else:
                nodes.append(inner)
                pending.extend((inner, v) for v in inner.inputs)
    return Product(factor, tuple(values), tuple(nodes))


def products(context: MatchContext) -> Iterator[tuple[Node, Product]]:
    """Yield every Mul, and every Div by a constant, with its operands."""
    for node in context.nodes("Mul", "Div"):
        if node.op_type == "Mul" or scalar(context, node.inputs[1]) is not None:
            yield node, product(context, node)


def added_number(context: MatchContext, node: Node | None, number: float) -> Value | None:
    """Return the operand to which an Add adds this number."""
    if node is None or len(node.inputs) != 2:
        return None
    for index in (0, 1):
        if scalar(context, node.inputs[index]) == number:
            return node.inputs[1 - index]
    return None


def fused(
    parts: tuple[Node, ...],
    node: Node,
    op_type: str,
    inputs: Sequence[Value | None],
    attributes: Mapping[str, Any] | None = None,
) -> Match:
    """Return the match that replaces several nodes, of which one makes the result, by one operator."""
    text = f"{len(parts)} nodes up to {describe(node)} are {op_type}"
    return Match(text, parts, replacement(node, op_type, inputs, attributes))


def _gelu(context: MatchContext) -> Iterator[Match]:
    for node, found in products(context):
        if context.opset(node) < 20 or len(found.values) != 2:
            continue
        for x, gate in (found.values, found.values[::-1]):
            plus = context.producer(gate, "Add")
            inner = context.producer(added_number(context, plus, 1.0), "Erf", "Tanh")
            if plus is None or inner is None or not is_alike(context, node.outputs[0], x):
                continue
            if not is_near(context, x, found.factor, 0.5):
                continue
            if context.sole_user(gate) is None or context.sole_user(inner.outputs[0]) is not plus:
                continue
            inside = _scaled(context, inner, x) if inner.op_type == "Erf" else _tanh_argument(context, inner, x)
            if inside is not None:
                kind = "none" if inner.op_type == "Erf" else "tanh"
                parts = (*inside, inner, plus, *found.nodes[::-1])
                yield fused(parts, node, "Gelu", [x], {"approximate": kind})
                break


def _scaled(context: MatchContext, erf: Node, x: Value) -> tuple[Node, ...] | None:
    """Return the node that divides x by the root of two for Erf."""
    before = context.producer(erf.inputs[0], "Div", "Mul")
    if before is None or context.sole_user(before.outputs[0]) is not erf:
        return None
    scaled = product(context, before) if before.op_type == "Mul" or scalar(context, before.inputs[1]) else None
    if scaled is None or scaled.values != (x,):
        return None
    return scaled.nodes if is_near(context, x, scaled.factor, math.sqrt(0.5)) else None


def _tanh_argument(context: MatchContext, tanh: Node, x: Value) -> tuple[Node, ...] | None:
    """Return the nodes of √(2/π)·(x + 0.044715·x³)."""
    outer = context.producer(tanh.inputs[0], "Mul")
    if outer is None or context.sole_user(outer.outputs[0]) is not tanh:
        return None
    outer_product = product(context, outer)
    plus = context.producer(outer_product.values[0], "Add") if len(outer_product.values) == 1 else None
    if plus is None or not is_near(context, x, outer_product.factor, math.sqrt(2 / math.pi)) or x not in plus.inputs:
        return None
    cubic = plus.inputs[1 - plus.inputs.index(x)]
    last = context.producer(cubic, "Mul")
    if last is None or context.sole_user(cubic) is not plus:
        return None
    term = product(context, last)
    if not is_near(context, x, term.factor, 0.044715):
        return None
    if term.values == (x, x, x):
        return (*term.nodes, plus, *outer_product.nodes)
    power = context.producer(term.values[0], "Pow") if len(term.values) == 1 else None
    if power is None or power.inputs[0] is not x or scalar(context, power.inputs[1]) != 3.0:
        return None
    return (power, *term.nodes, plus, *outer_product.nodes)


def _gated(context: MatchContext, op_type: str, since: int, *gates: str) -> Iterator[Match]:
    """Match x · gate(x), where the gate is a chain of unary operators, last first."""
    for node, found in products(context):
        if context.opset(node) < since or found.factor != 1.0 or len(found.values) != 2:
            continue
        for x, gate in (found.values, found.values[::-1]):
            parts, value = list[Node](), gate
            for name in gates:
                inner = context.producer(value, name)
                if inner is None or context.sole_user(value) is None or inner.inputs[0] is None:
                    break
                parts.append(inner)
                value = inner.inputs[0]
            if (
                len(parts) == len(gates)
                and value is x
                and _is_plain(parts[0])
                and is_alike(context, node.outputs[0], x)
            ):
                yield fused((*parts[::-1], *found.nodes), node, op_type, [x])
                break


def _is_plain(node: Node) -> bool:
    """Return whether a HardSigmoid is that of HardSwish; others have no parameters."""
    if node.op_type != "HardSigmoid":
        return True
    return math.isclose(real(node, "alpha"), 1 / 6, rel_tol=1e-5) and real(node, "beta") == 0.5


def _hard_swish(context: MatchContext) -> Iterator[Match]:
    yield from _gated(context, "HardSwish", 14, "HardSigmoid")
    for node, found in products(context):
        if context.opset(node) < 14 or len(found.values) != 2:
            continue
        for x, gate in (found.values, found.values[::-1]):
            clip = context.producer(gate, "Clip")
            bounds = [scalar(context, v) for v in clip.inputs[1:3]] if clip is not None else []
            plus = context.producer(clip.inputs[0], "Add") if clip is not None else None
            if clip is None or plus is None or bounds[:1] != [0.0] or bounds[1:] != [6.0]:
                continue
            lonely = context.sole_user(gate) is not None and context.sole_user(clip.inputs[0]) is clip
            if not lonely or not is_alike(context, node.outputs[0], x):
                continue
            if added_number(context, plus, 3.0) is x and is_near(context, x, found.factor, 1 / 6):
                yield fused((plus, clip, *found.nodes[::-1]), node, "HardSwish", [x])
                break


PASSES = (
    Pass("fuse_gelu", "Gelu", "x·Φ(x), with erf or tanh, as Gelu. Needs opset 20.", _gelu),
    Pass("fuse_hard_swish", "HardSwish", "x·HardSigmoid(x), or x·Clip(x+3, 0, 6)/6, as HardSwish. Needs opset "
         "14.", _hard_swish, is_default=False),
    Pass("fuse_mish", "Mish", "x·Tanh(Softplus(x)) as Mish. Needs opset 18.",
         lambda context: _gated(context, "Mish", 18, "Tanh", "Softplus"), is_default=False),
    Pass("fuse_swish", "Swish", "x·Sigmoid(x) as Swish. Needs opset 24.",
         lambda context: _gated(context, "Swish", 24, "Sigmoid"), is_default=False),
)  # fmt: skip
