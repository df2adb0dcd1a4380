"""Merge adjacent rearranging nodes, or move them until they meet."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from onnx_workbench.model.analysis.node_constants import ints, number
from onnx_workbench.model.edits.rewriter import GraphRewriter
from onnx_workbench.model.inference.operators.cutting import slice_bounds
from onnx_workbench.model.inference.operators.reshaping import axes_of
from onnx_workbench.model.ir.graph import Node, Value
from onnx_workbench.model.schemas import traits
from onnx_workbench.model.simplify.context import MatchContext
from onnx_workbench.model.simplify.passes import Match, Pass, describe, replacement, setting
from onnx_workbench.model.simplify.rules.eliminations import reduced_axes
from onnx_workbench.model.simplify.rules.shape_computations import is_reshape_like

#: Operators that change the shape of their first input and keep the element order.
_VIEWS = traits.names(lambda t: t.is_view)


def _consecutive_transposes(context: MatchContext) -> Iterator[Match]:
    for node in context.nodes("Transpose"):
        before = context.producer(node.inputs[0], "Transpose")
        if before is None:
            continue
        rank = context.facts.rank(before.inputs[0])
        first, second = _order(before, rank), _order(node, rank)
        if first is None or second is None or len(first) != len(second):
            continue
        order = [first[a] for a in second]
        target, source = node.outputs[0], before.inputs[0]
        if order == sorted(order) and target is not None and source is not None and context.can_replace(target, source):
            yield Match(
                f"{describe(before)} and {describe(node)} cancel",
                (before, node),
                partial(GraphRewriter.replace_value, old=target, new=source),
            )
        else:
            yield Match(f"{describe(before)} and {describe(node)} become one", (before, node),
                        partial(_set_order, node, before, order))  # fmt: skip


def _order(node: Node, rank: int | None) -> tuple[int, ...] | None:
    order = ints(node, "perm")
    if order is not None or rank is None:
        return order
    return tuple(reversed(range(rank)))


def _set_order(node: Node, before: Node, order: list[int], rewriter: GraphRewriter) -> None:
    rewriter.set_attribute(node, "perm", order)
    rewriter.set_inputs(node, (before.inputs[0],))


def _consecutive_concats(context: MatchContext) -> Iterator[Match]:
    for node in context.nodes("Concat"):
        for value in node.inputs:
            inner = context.producer(value, "Concat")
            if inner is None or context.sole_user(value) is not node or not _same_axis(context, inner, node):
                continue
            index = node.inputs.index(value)
            spliced = (*node.inputs[:index], *inner.inputs, *node.inputs[index + 1 :])
            yield Match(f"{describe(inner)} is folded into {describe(node)}", (inner, node),
                        setting(node, *spliced))  # fmt: skip
            break


def _same_axis(context: MatchContext, a: Node, b: Node) -> bool:
    first, second = number(a, "axis"), number(b, "axis")
    rank = context.facts.rank(a.inputs[0])
    return first % rank == second % rank if rank else first == second


def _log_softmax(context: MatchContext) -> Iterator[Match]:
    for node in context.nodes("Log"):
        inner = context.producer(node.inputs[0], "Softmax")
        if inner is not None and context.sole_user(node.inputs[0]) is node:
            yield Match(
                f"{describe(inner)} and {describe(node)} become LogSoftmax",
                (inner, node),
                replacement(node, "LogSoftmax", [inner.inputs[0]], inner.attributes),
            )


_REDUCTIONS = traits.names(lambda t: t.is_reduction)


def _reduce_unsqueeze(context: MatchContext) -> Iterator[Match]:
    for node in context.nodes("Unsqueeze"):
        inner = context.producer(node.inputs[0], *_REDUCTIONS)
        if inner is None or context.sole_user(node.inputs[0]) is not node or number(inner, "keepdims"):
            continue
        rank = context.facts.rank(inner.inputs[0])
        is_arg = inner.op_type.startswith("Arg")
        axes = (number(inner, "axis"),) if is_arg else reduced_axes(context, inner)
        new = axes_of(context.call(node))
        if not rank or axes is None or new is None:
            continue
        if sorted(a % rank for a in axes) == sorted(a % rank for a in new):
            attributes = {**{k: v for k, v in inner.attributes.items() if k != "keepdims"}, "keepdims": 1}
            yield Match(
                f"{describe(inner)} keeps the axes {describe(node)} puts back",
                (inner, node),
                replacement(node, inner.op_type, inner.inputs, attributes, like=inner),
            )


def _consecutive_axes(context: MatchContext, op_type: str) -> Iterator[Match]:
    for node in context.nodes(op_type):
        before = context.producer(node.inputs[0], op_type)
        if before is None or before.inputs[0] is None or context.sole_user(node.inputs[0]) is not node:
            continue
        rank = context.facts.rank(before.inputs[0])
        first = axes_of(context.call(before))
        second = axes_of(context.call(node))
        if rank is None or first is None or second is None:
            continue
        if op_type == "Squeeze" and len(first) + len(second) > rank:
            continue  # invalid; it cannot run
        axes = _joined_axes(rank, first, second, adds=op_type == "Unsqueeze")
        yield Match(f"{describe(before)} and {describe(node)} become one", (before, node),
                    partial(_set_axes, context, node, before, axes))  # fmt: skip


def _joined_axes(rank: int, first: tuple[int, ...], second: tuple[int, ...], *, adds: bool) -> list[int]:
    """Return the axes both remove, relative to the input; or both add, relative to the output."""
    if adds:
        middle = rank + len(first)
        last = {a % (middle + len(second)) for a in second}
        places = [a for a in range(middle + len(second)) if a not in last]  # of the axes in between
        return sorted([*last, *(places[a % middle] for a in first)])
    gone = {a % rank for a in first}
    left = [a for a in range(rank) if a not in gone]
    return sorted([*gone, *(left[a % len(left)] for a in second)])


def _set_axes(context: MatchContext, node: Node, before: Node, axes: list[int], rewriter: GraphRewriter) -> None:
    if context.opset(node) >= 13:
        rewriter.set_inputs(node, (before.inputs[0], np.array(axes, np.int64)))
    else:
        rewriter.set_attribute(node, "axes", axes)
        rewriter.set_inputs(node, (before.inputs[0],))


def _consecutive_slices(context: MatchContext) -> Iterator[Match]:
    for node in context.nodes("Slice"):
        joined = _joined_slices(context, node)
        if joined is None:
            continue
        before, bounds = joined
        # The first one is removed only if each of its users can be joined with it.
        users = context.users(node.inputs[0])
        if users and all((found := _joined_slices(context, user)) and found[0] is before for user in users):
            yield Match(f"{describe(before)} and {describe(node)} become one", (before, node),
                        partial(_set_bounds, node, before, bounds))  # fmt: skip


def _joined_slices(context: MatchContext, node: Node) -> tuple[Node, list[tuple[int, ...]]] | None:
    """Return the Slice before this Slice, and the combined bounds; None where there are none."""
    before = context.producer(node.inputs[0], "Slice") if node.op_type == "Slice" else None
    if before is None or not context.may_change(node) or context.opset(node) < 10:
        return None
    first = slice_bounds(context.call(before))
    second = slice_bounds(context.call(node))
    if first is None or second is None or not all(isinstance(v, int) for b in (*first, *second) for v in b):
        return None
    bounds = _joined_bounds(context, before, first, second)
    return None if bounds is None else (before, bounds)


def _joined_bounds(context: MatchContext, before: Node, first: Any, second: Any) -> list[tuple[int, ...]] | None:
    by_axis = {bound[0]: bound for bound in first}
    if any(axis < 0 for axis, *_ in (*first, *second)):
        return None
    for axis, start, end, step in second:
        if axis not in by_axis:
            by_axis[axis] = (axis, start, end, step)
            continue
        dims = context.facts.dims(before.inputs[0])
        size = dims[axis] if dims is not None and axis < len(dims) else None
        if not isinstance(size, int):
            return None
        _, a, b, s = by_axis[axis]
        if s <= 0 or step <= 0:
            return None
        places = range(size)[slice(a, b, s)][slice(start, end, step)]
        by_axis[axis] = (axis, places.start, max(places.stop, places.start), places.step)
    return sorted(by_axis.values())


def _set_bounds(node: Node, before: Node, bounds: list[tuple[int, ...]], rewriter: GraphRewriter) -> None:
    axes, starts, ends, steps = (np.array(column, np.int64) for column in zip(*bounds, strict=True))
    inputs = [before.inputs[0], starts, ends, axes]
    rewriter.set_inputs(node, [*inputs, steps] if any(steps != 1) else inputs)


def _consecutive_reshapes(context: MatchContext) -> Iterator[Match]:
    """Merge consecutive Reshapes: only the last shape counts, if it is independent of the first one."""
    for node in context.nodes(*_VIEWS):
        before = context.producer(node.inputs[0], *_VIEWS)
        if before is None or before.inputs[0] is None or node.outputs[0] is None:
            continue
        wanted = context.call(node).numbers(1) if node.op_type == "Reshape" and context.opset(node) >= 5 else None
        absolute = wanted is not None and 0 not in wanted and context.opset(node) >= 5
        if absolute:
            yield Match(f"{describe(before)} is undone by {describe(node)}", (before, node),
                        setting(node, before.inputs[0], *node.inputs[1:]))  # fmt: skip
            continue
        entries = is_reshape_like(context, node, before.inputs[0], node.outputs[0])
        if entries is None:
            continue
        if node.op_type == "Reshape" and context.constant(node.inputs[1]) is not None:
            yield Match(f"{describe(before)} is undone by {describe(node)}", (before, node),
                        setting(node, before.inputs[0], np.array(entries, np.int64)))  # fmt: skip
        elif node.op_type != "Reshape" and _is_only_viewed(context, node.inputs[0]):
            yield Match(f"{describe(before)} and {describe(node)} become one Reshape", (before, node),
                        replacement(node, "Reshape", [before.inputs[0], np.array(entries, np.int64)]))  # fmt: skip


def _is_only_viewed(context: MatchContext, value: Value | None) -> bool:
    """Return whether all users of a value reshape it, so that none needs its own shape."""
    users = context.users(value)
    return bool(users) and all(user.op_type in _VIEWS and user.inputs[0] is value for user in users)


def _transpose_as_reshape(context: MatchContext) -> Iterator[Match]:
    """Turn a Transpose that only moves axes of size 1 into a Reshape, which can join its neighbours."""
    for node in context.nodes("Transpose"):
        dims = context.facts.dims(node.inputs[0])
        order = _order(node, None if dims is None else len(dims))
        if dims is None or order is None or len(order) != len(dims):
            continue
        moved = [a for a in order if dims[a] != 1]
        neighbour = context.producer(node.inputs[0], *_VIEWS) is not None or any(
            user.op_type in _VIEWS for user in (node.outputs[0].consumers if node.outputs[0] is not None else ())
        )
        if moved != sorted(moved) or list(order) == sorted(order) or not neighbour or node.inputs[0] is None:
            continue
        entries = is_reshape_like(context, node, node.inputs[0], node.outputs[0])
        if entries is not None:
            yield Match(
                f"{describe(node)} moves no data",
                (node,),
                replacement(node, "Reshape", [node.inputs[0], np.array(entries, np.int64)]),
            )


# -- transposes through elementwise operators -----------------------------------------------------------------------


def _transpose_through(context: MatchContext) -> Iterator[Match]:
    """Cancel a Transpose and its inverse around elementwise operators."""
    for last in context.nodes("Transpose"):
        chain: list[Node] = []
        node = last
        while True:
            value = node.inputs[0] if node is last or _is_elementwise(context, node) else _data_input(context, node)
            if value is None or (value.producer is None) or context.sole_user(value) is not node:
                break
            before = value.producer
            if not context.may_change(before):
                break
            if before.op_type == "Transpose":
                yield from _cancel(context, before, chain, last)
                break
            if not _is_elementwise(context, before) and _data_input(context, before) is None:
                break
            chain.append(before)
            node = before
            if len(chain) > 64:
                break


def _is_elementwise(context: MatchContext, node: Node) -> bool:
    """Return whether a node computes each element from one of its first input only, so Transpose commutes with it."""
    facts = traits.of(node)
    return facts.is_elementwise and facts.shape_of == 0 and context.is_deterministic(node)


def _data_input(context: MatchContext, node: Node) -> Value | None:
    """Return the only non-scalar input of a binary operator."""
    facts = traits.of(node)
    if not (facts.is_elementwise and facts.broadcasts) or len(node.inputs) != 2:
        return None
    for data, other in (node.inputs, node.inputs[::-1]):
        tensor = context.constant(other)
        if tensor is not None and tensor.size == 1:
            rank = context.facts.rank(data)
            return data if not tensor.shape or (rank is not None and rank >= len(tensor.shape)) else None
    return None


def _cancel(context: MatchContext, first: Node, chain: list[Node], last: Node) -> Iterator[Match]:
    rank = context.facts.rank(first.inputs[0])
    a, b = _order(first, rank), _order(last, rank)
    if not chain or a is None or b is None or [a[i] for i in b] != list(range(len(b))):
        return
    final = chain[0].outputs[0]
    if context.can_replace(last.outputs[0], final):
        yield Match(f"{describe(first)} and {describe(last)} cancel around {chain[-1].title}", (first, *chain, last),
                    partial(_move_out, context, first, chain, last))  # fmt: skip


def _move_out(context: MatchContext, first: Node, chain: list[Node], last: Node, rewriter: GraphRewriter) -> None:
    source, inner = first.inputs[0], first.outputs[0]
    assert source is not None
    dims = context.facts.dims(source)
    start = chain[-1]
    rewriter.set_inputs(start, tuple(source if v is inner else v for v in start.inputs))
    for node in chain:
        value = node.outputs[0]
        assert value is not None
        rewriter.forget_type(value)
        context.facts.set_type(value, None, dims)
    final, target = chain[0].outputs[0], last.outputs[0]
    assert final is not None
    assert target is not None
    rewriter.replace_value(target, final)


PASSES = (
    Pass("fuse_consecutive_transposes", "Consecutive transposes", "Merges two into one, or removes both.",
         _consecutive_transposes),
    Pass("fuse_transpose_around_elementwise", "Transposes around elementwise operators",
         "Removes a Transpose and its inverse with only elementwise operators between.", _transpose_through),
    Pass("fuse_transpose_as_reshape", "Transposes that move no data",
         "Turns a Transpose of axes of one element beside a Reshape into a Reshape.", _transpose_as_reshape),
    Pass("fuse_consecutive_reshapes", "Consecutive reshapes",
         "Replaces consecutive Reshape, Flatten, Squeeze and Unsqueeze by one Reshape.", _consecutive_reshapes),
    Pass("fuse_consecutive_concats", "Consecutive concats", "Merges a Concat into the Concat that uses it.",
         _consecutive_concats),
    Pass("fuse_consecutive_squeezes", "Consecutive squeezes", "Merges two into one.",
         partial(_consecutive_axes, op_type="Squeeze")),
    Pass("fuse_consecutive_unsqueezes", "Consecutive unsqueezes", "Merges two into one.",
         partial(_consecutive_axes, op_type="Unsqueeze")),
    Pass("fuse_consecutive_slices", "Consecutive slices", "Merges two into one where sizes are known.",
         _consecutive_slices),
    Pass("fuse_consecutive_reduce_unsqueeze", "Reduction and Unsqueeze", "Sets keepdims instead.", _reduce_unsqueeze),
    Pass("fuse_consecutive_log_softmax", "Log of Softmax", "Becomes LogSoftmax.", _log_softmax),
)  # fmt: skip
