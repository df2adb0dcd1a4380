"""Fuse MatMul, Add and Transpose to Gemm; merge products of one value with several matrices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from onnx_workbench.model.analysis.node_constants import ints, number
from onnx_workbench.model.edits.rewriter import GraphRewriter
from onnx_workbench.model.ir.graph import Node, Value
from onnx_workbench.model.simplify.context import MatchContext
from onnx_workbench.model.simplify.passes import Match, Pass, describe, replacement

_PROJECTIONS = "fuse_qkv"


def _matmul_add(context: MatchContext) -> Iterator[Match]:
    for node in context.nodes("Add"):
        for index, value in enumerate(node.inputs[:2]):
            product = context.producer(value, "MatMul")
            other = node.inputs[1 - index] if len(node.inputs) == 2 else None
            if product is None or other is None or context.sole_user(value) is not node or value is None:
                continue
            if _is_gemm(context, product, value, other):
                yield Match(
                    f"{describe(product)} and {describe(node)} become one Gemm",
                    (product, node),
                    replacement(node, "Gemm", [*product.inputs, other], like=product),
                )
                break


def _is_gemm(context: MatchContext, product: Node, value: Value, bias: Value) -> bool:
    """Return whether both factors are matrices, and the addend broadcasts to the product but not vice versa."""
    facts = context.facts
    if context.opset(product) < 7 or facts.rank(product.inputs[0]) != 2 or facts.rank(product.inputs[1]) != 2:
        return False
    if not context.is_float(*product.inputs, bias):
        return False
    dims, own = facts.dims(value), facts.dims(bias)
    if dims is None or own is None or len(own) > 2:
        return False
    return all(b in (1, d) for b, d in zip(reversed(own), reversed(dims), strict=False))


def _transpose_into_gemm(context: MatchContext) -> Iterator[Match]:
    for node in context.nodes("Gemm"):
        for index, name in ((0, "transA"), (1, "transB")):
            before = context.producer(node.inputs[index], "Transpose")
            if before is not None and ints(before, "perm") in ((1, 0), None):
                yield Match(
                    f"{describe(before)} is folded into {describe(node)}", (before, node),
                    partial(_absorb_transpose, node, before, index, name),
                )  # fmt: skip


def _absorb_transpose(node: Node, before: Node, index: int, name: str, rewriter: GraphRewriter) -> None:
    rewriter.set_attribute(node, name, 0 if number(node, name, 0) else 1)
    inputs = list(node.inputs)
    inputs[index] = before.inputs[0]
    rewriter.set_inputs(node, inputs)


# -- products of one value ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Projection:
    """A value times a matrix, and an optional bias."""

    nodes: tuple[Node, ...]
    source: Value
    weights: Value
    bias: Value | None
    result: Value


def _projections(context: MatchContext) -> Iterator[Match]:
    """Merge the query, key and value projections of one input into one product and a Split."""
    groups: dict[tuple[object, ...], list[_Projection]] = {}
    for node in context.nodes("MatMul"):
        projection = _projection(context, node)
        if projection is not None:
            kind = context.element_type(projection.weights), context.facts.dims(projection.weights)
            rows = kind[1][0] if kind[1] else None
            key = projection.source, node.graph, projection.bias is None, kind[0], rows
            groups.setdefault(key, []).append(projection)
    for parts in groups.values():
        nodes = tuple(node for part in parts for node in part.nodes)
        if len(nodes) > (2 if parts[0].bias is None else 3):
            if context.refuses_large(_PROJECTIONS, nodes[0], *(part.weights for part in parts)):
                continue
            size = sum(tensor.nbytes for part in parts if (tensor := context.constant(part.weights)) is not None)
            if size > (limit := context.options.work_limit):
                reason = f"its weights have {size >> 20:,} MiB together; at most {limit >> 20} MiB are merged"
                context.refuse(_PROJECTIONS, nodes[0], reason)
                continue
            text = f"{len(parts)} products of {parts[0].source.name} become one and a Split"
            yield Match(text, nodes, partial(_project_at_once, context, parts))


def _projection(context: MatchContext, node: Node) -> _Projection | None:
    source, weights, product = node.inputs[0], node.inputs[1], node.outputs[0]
    tensor, rank = context.constant(weights), context.facts.rank(source)
    if source is None or weights is None or product is None or tensor is None or rank is None or rank < 2:
        return None
    if len(tensor.shape) != 2 or len(weights.uses) != 1 or context.opset(node) < 7 or not context.is_readable(weights):
        return None
    add = context.sole_user(product)
    if add is not None and add.op_type == "Add" and context.may_change(add) and len(add.inputs) == 2:
        bias = add.inputs[1 - add.inputs.index(product)]
        held, result = context.constant(bias), add.outputs[0]
        if held is not None and result is not None and tuple(held.shape) == tensor.shape[1:]:
            usable = context.array(bias) is not None and not context.is_protected(result)
            return _Projection((node, add), source, weights, bias, result) if usable else None
    return None if context.is_protected(product) else _Projection((node,), source, weights, None, product)


def _project_at_once(context: MatchContext, parts: Sequence[_Projection], rewriter: GraphRewriter) -> None:
    source, node = parts[0].source, parts[0].nodes[0]
    graph = node.graph
    assert graph is not None
    # Everything needed is available once the source is.
    after = source.producer.next if source.producer is not None and source.graph is graph else graph.nodes.first
    arrays = [array for part in parts if (array := context.array(part.weights)) is not None]
    total = rewriter.add_like(node, "MatMul", [source, np.concatenate(arrays, axis=1)], before=after)
    biases = [array for part in parts if (array := context.array(part.bias)) is not None]
    if biases:
        total = rewriter.add_like(parts[0].nodes[1], "Add", [total, np.concatenate(biases)], before=after)
    rank, widths = context.facts.rank(source), [array.shape[1] for array in arrays]
    assert rank is not None
    by_input = context.opset(node) >= 13
    rewriter.add_like(
        node,
        "Split",
        [total, np.array(widths, np.int64)] if by_input else [total],
        {"axis": rank - 1} if by_input else {"axis": rank - 1, "split": widths},
        outputs=[part.result for part in parts],
        before=after,
    )
    rewriter.collect([part.nodes[-1] for part in parts])


PASSES = (
    Pass("fuse_matmul_add_bias_into_gemm", "MatMul and Add into Gemm",
         "Only matrices: with more dimensions it would take three nodes.", _matmul_add),
    Pass("fuse_transpose_into_gemm", "Transpose into Gemm", "Sets transA or transB instead.", _transpose_into_gemm),
    Pass(_PROJECTIONS, "Products of one value",
         "Multiplies a value by several matrices at once, such as those of attention, where that makes fewer nodes.",
         _projections),
)  # fmt: skip
