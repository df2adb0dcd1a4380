"""MatMul, Add and Transpose into Gemm."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from model.graph import Node, Value
from model.passes.simplify.context import Context
from model.passes.simplify.framework import Match, Pass, said
from model.passes.simplify.reading import ints, number
from model.passes.simplify.rewriter import Rewriter


def _matmul_add(context: Context) -> Iterator[Match]:
    for node in context.nodes("Add"):
        for place, value in enumerate(node.inputs[:2]):
            product = context.producer(value, "MatMul")
            other = node.inputs[1 - place] if len(node.inputs) == 2 else None
            if product is None or other is None or context.sole_user(value) is not node or value is None:
                continue
            if _is_gemm(context, product, value, other):
                yield Match(
                    f"{said(product)} and {said(node)} become one Gemm",
                    (product, node),
                    partial(_make_gemm, product, node, other),
                )
                break


def _is_gemm(context: Context, product: Node, value: Value, bias: Value) -> bool:
    """Whether both factors are matrices, and the addend is spread over the product and never the other way round."""
    facts = context.facts
    if context.opset(product) < 7 or facts.rank(product.inputs[0]) != 2 or facts.rank(product.inputs[1]) != 2:
        return False
    if not context.is_float(*product.inputs, bias):
        return False
    dims, own = facts.dims(value), facts.dims(bias)
    if dims is None or own is None or len(own) > 2:
        return False
    return all(b in (1, d) for b, d in zip(reversed(own), reversed(dims), strict=False))


def _make_gemm(product: Node, add: Node, bias: Value, rewriter: Rewriter) -> None:
    rewriter.add(product, "Gemm", [*product.inputs, bias], outputs=[add.outputs[0]], before=add)
    rewriter.collect([add])


def _transpose_into_gemm(context: Context) -> Iterator[Match]:
    for node in context.nodes("Gemm"):
        for place, name in ((0, "transA"), (1, "transB")):
            before = context.producer(node.inputs[place], "Transpose")
            if before is not None and ints(before, "perm") in ((1, 0), None):
                yield Match(
                    f"{said(before)} goes into {said(node)}", (before, node),
                    partial(_take_transpose, node, before, place, name),
                )  # fmt: skip


def _take_transpose(node: Node, before: Node, place: int, name: str, rewriter: Rewriter) -> None:
    rewriter.set_attribute(node, name, 0 if number(node, name, 0) else 1)
    inputs = list(node.inputs)
    inputs[place] = before.inputs[0]
    rewriter.set_inputs(node, inputs)


PASSES = (
    Pass("fuse_matmul_add_bias_into_gemm", "MatMul and Add into Gemm",
         "Only matrices: with more dimensions it would take three nodes.", _matmul_add),
    Pass("fuse_transpose_into_gemm", "Transpose into Gemm", "Sets transA or transB instead.", _transpose_into_gemm),
)  # fmt: skip
