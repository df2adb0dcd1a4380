"""Branches and loops of which it is known which way they go."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from model.graph import Graph, Node, Value
from model.passes.simplify.context import Context
from model.passes.simplify.framework import Match, Pass
from model.passes.simplify.reading import plain
from model.passes.simplify.rewriter import Rewriter


def _if_with_constant(context: Context) -> Iterator[Match]:
    for node in context.nodes("If"):
        array = context.array(node.inputs[0]) if node.inputs else None
        if array is None or array.size != 1:
            continue
        name = "then_branch" if bool(array.reshape(-1)[0]) else "else_branch"
        body = plain(node, name)
        if isinstance(body, Graph) and _can_inline(context, body, node.outputs):
            yield Match(f"{node.title} always takes its {name}", (node,), partial(_inline_if, node, body))


def _can_inline(context: Context, body: Graph, targets: Sequence[Value | None]) -> bool:
    """Whether what a body returns can be what the node gives."""
    if body.quantization_annotations or len(targets) > len(body.outputs):
        return False
    seen: set[Value] = set()
    for target, result in zip(targets, body.outputs, strict=False):
        if target is None:
            continue
        if context.is_protected(target):
            return False
        inner = result.graph is body and result.producer is not None and result not in seen
        if target.is_output and not inner:
            return False
        seen.add(result)
    return True


def _inline_if(node: Node, body: Graph, rewriter: Rewriter) -> None:
    inline(node, body, {}, list(zip(node.outputs, body.outputs, strict=False)), rewriter)


def inline(
    node: Node,
    body: Graph,
    inputs: dict[Value, Value | None],
    results: list[tuple[Value | None, Value]],
    rewriter: Rewriter,
) -> None:
    """Put a copy of a body before its node, let `results` take the place of the node's outputs, and remove the node."""
    graph = node.graph
    assert graph is not None
    cloner = rewriter.cloner(graph, inputs)
    for value in body.initializers:
        tensor = value.initializer
        copy = cloner.value(value)
        copy.initializer = None
        rewriter.put_any(graph, copy, tensor, node)
    copies = cloner.nodes(body.nodes)
    rewriter.insert(graph, copies, node)
    for target, result in results:
        copy_of = cloner.values.get(result, result)
        if target is not None and copy_of is not None and target.uses:
            rewriter.replace(target, copy_of)
    if node.graph is not None:
        rewriter.remove(node)
    rewriter.collect(copies)


def _loop_with_constant(context: Context) -> Iterator[Match]:
    """A Loop that makes one turn, or none."""
    for node in context.nodes("Loop"):
        body = plain(node, "body")
        turns = _turns(context, node, body) if isinstance(body, Graph) else None
        if turns is None or not isinstance(body, Graph):
            continue
        carried = len(node.inputs) - 2
        if len(body.inputs) != carried + 2 or len(node.outputs) != carried:
            continue  # scanned outputs would have to be stacked
        if turns == 0:
            pairs = list(zip(node.outputs, node.inputs[2:], strict=True))
            if all(t is None or not t.uses or context.can_replace(t, s) for t, s in pairs):
                yield Match(f"{node.title} makes no turn", (node,), partial(_skip_loop, node))
        elif _can_inline(context, body, (None, *node.outputs)) and not _returns_inputs(body):
            yield Match(f"{node.title} makes one turn", (node,), partial(_inline_loop, node, body))


def _returns_inputs(body: Graph) -> bool:
    return any(v in body.inputs for v in body.outputs[1:])


def _turns(context: Context, node: Node, body: Graph) -> int | None:
    """How often a Loop goes round, if that is known to be 0 or 1."""
    limit = context.array(node.inputs[0]) if node.inputs else None
    go_on = context.array(node.inputs[1]) if len(node.inputs) > 1 else None
    if len(node.inputs) > 1 and node.inputs[1] is not None and go_on is None:
        return None
    if go_on is not None and not bool(go_on.reshape(-1)[0]):
        return 0
    if limit is not None and limit.size == 1:
        count = int(limit.reshape(-1)[0])
        if count <= 1:
            return max(count, 0)
    after = context.array(body.outputs[0]) if body.outputs else None
    endless = node.inputs[0] is None if node.inputs else True
    at_least_once = endless or (limit is not None and int(limit.reshape(-1)[0]) >= 1)
    return 1 if at_least_once and after is not None and not bool(after.reshape(-1)[0]) else None


def _skip_loop(node: Node, rewriter: Rewriter) -> None:
    for target, source in list(zip(node.outputs, node.inputs[2:], strict=True)):
        if target is not None and source is not None and target.uses:
            rewriter.replace(target, source)
    if node.graph is not None:
        rewriter.remove(node)


def _inline_loop(node: Node, body: Graph, rewriter: Rewriter) -> None:
    import numpy as np

    graph = node.graph
    assert graph is not None
    first = rewriter.constant(graph, np.array(0, np.int64), f"{node.title}_turn", node)
    go_on = rewriter.constant(graph, np.array(True), f"{node.title}_condition", node)
    given = dict(zip(body.inputs, (first, go_on, *node.inputs[2:]), strict=True))
    inline(node, body, given, list(zip(node.outputs, body.outputs[1:], strict=True)), rewriter)
    for value in (first, go_on):
        rewriter.collect_values([value])


PASSES = (
    Pass(
        "eliminate_if_with_const_cond",
        "If with a constant condition",
        "Puts the branch that is always taken in its place.",
        _if_with_constant,
    ),
    Pass(
        "eliminate_loop_with_const_trip_count",
        "Loop of one turn or none",
        "Puts the body in its place.",
        _loop_with_constant,
    ),
)
