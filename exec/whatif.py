"""What if some values were kept in fewer bits: a request whose values are rounded where they are made.

The model is not touched: the snapshot of the request gets a call of a small function behind each chosen value.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection
from dataclasses import replace
from typing import Final, Literal

from exec.compare import Row, compare_values, value_keys
from exec.results import RunResult
from exec.session import Request
from exec.snapshot import ABSENT, AttributeSnapshot, FunctionSnapshot, GraphSnapshot, NodeSnapshot
from model.attributes import AttributeKind
from model.types import ElementType

Precision = Literal["float16", "bfloat16", "int8"]

_DOMAIN: Final = "onnx-workbench.what-if"
_OPSET: Final = 21
#: Numbers below zero are not given out to objects, so these never meet one of the model's.
_numbers = itertools.count(-1_000_000_000, -1)


def in_precision(request: Request, precision: Precision, values: Collection[int]) -> Request:
    """The request with values of the main graph rounded to a precision and back, by their numbers.

    `values` must be tensors of a float type: outputs of nodes, initializers or inputs. float16 and bfloat16 round
    to nearest; int8 quantises each tensor to 8 bits over its own range.
    """
    chosen = frozenset(values)
    function = _function(precision)
    graph = request.snapshot.graph
    before: list[NodeSnapshot] = []
    nodes: list[NodeSnapshot] = []
    renamed: dict[int, int] = {}
    initializers = []
    for value, tensor in graph.initializers:
        if value in chosen and value not in graph.inputs:
            renamed[value] = next(_numbers)
            before.append(_call(function, renamed[value], value))
        initializers.append((renamed.get(value, value), tensor))
    inputs = {value: next(_numbers) for value in graph.inputs if value in chosen}
    for value, rounded in inputs.items():
        before.append(_call(function, value, rounded))
    for node in graph.nodes:
        made = {value: next(_numbers) for value in node.outputs if value in chosen}
        read = tuple(inputs.get(value, value) for value in node.inputs)
        if made or read != node.inputs:
            outputs = tuple(made.get(value, value) for value in node.outputs)
            node = replace(node, uid=next(_numbers), inputs=read, outputs=outputs)
        nodes.append(node)
        nodes += [_call(function, raw, value) for value, raw in made.items()]
    changed = replace(
        graph, uid=next(_numbers), initializers=tuple(initializers), nodes=(*before, *nodes),
        outputs=tuple(inputs.get(v, v) for v in graph.outputs),
    )  # fmt: skip
    snapshot = replace(
        request.snapshot,
        uid=next(_numbers),
        graph=changed,
        functions={**request.snapshot.functions, function.key: function},
        opset_imports={**request.snapshot.opset_imports, _DOMAIN: 1},
    )
    return replace(request, snapshot=snapshot, breakpoints=())


def _call(function: FunctionSnapshot, value: int, rounded: int) -> NodeSnapshot:
    domain, name, overload = function.key
    return NodeSnapshot(next(_numbers), next(_numbers), name, domain, overload, name, (value,), (rounded,), ())


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
    body = GraphSnapshot(next(_numbers), ABSENT, precision, (x,), (y,), (None,), (), nodes)
    return FunctionSnapshot(next(_numbers), (_DOMAIN, precision, ""), body, (), (), {"": _OPSET})


def _node(op_type: str, inputs: tuple[int, ...], outputs: tuple[int, ...], to: int | None = None) -> NodeSnapshot:
    attributes = () if to is None else (AttributeSnapshot("to", AttributeKind.INT, int(to)),)
    number = next(_numbers)
    return NodeSnapshot(number, number, op_type, "", "", op_type, inputs, outputs, attributes)


def compare_rounded(rounded: RunResult, precise: RunResult) -> list[Row]:
    """The values of a run in fewer bits against those of the precise run, in its order and by its keys."""
    rows = []
    for key in value_keys(precise):
        if precise.info(key) is not None and rounded.info(key) is not None:
            name = precise.layout.name(key[1])
            rows.append(Row(key, name, name, compare_values(rounded.value(key), precise.value(key))))
    return rows
