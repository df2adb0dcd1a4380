"""If nodes with a known condition: inline the branch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from onnx_workbench.model.analysis.node_constants import plain
from onnx_workbench.model.edits.rewriter import GraphRewriter
from onnx_workbench.model.ir.graph import Graph, Node, Value
from onnx_workbench.model.simplify.context import MatchContext
from onnx_workbench.model.simplify.passes import Match, Pass, describe


def _if_with_constant(context: MatchContext) -> Iterator[Match]:
    for node in context.nodes("If"):
        array = context.array(node.inputs[0]) if node.inputs else None
        if array is None or array.size != 1:
            continue
        name = "then_branch" if bool(array.reshape(-1)[0]) else "else_branch"
        body = plain(node, name)
        if isinstance(body, Graph) and _can_inline(context, body, node.outputs):
            yield Match(f"{describe(node)} always runs its {name}", (node,), partial(_inline_if, node, body))


def _can_inline(context: MatchContext, body: Graph, targets: Sequence[Value | None]) -> bool:
    """Return whether the outputs of a branch can replace those of the node."""
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


def _inline_if(node: Node, body: Graph, rewriter: GraphRewriter) -> None:
    graph = node.graph
    assert graph is not None
    cloner = rewriter.names.cloner(graph, rewriter.copy_constants(body, node))
    copies = cloner.nodes(body.nodes)
    rewriter.insert(graph, copies, node)
    for target, result in list(zip(node.outputs, body.outputs, strict=False)):
        copy_of = cloner.values.get(result, result)
        if target is not None and copy_of is not None and target.uses:
            rewriter.replace_value(target, copy_of)
    if node.graph is not None:
        rewriter.remove(node)
    rewriter.collect(copies)


PASSES = (
    Pass(
        "eliminate_if_with_const_cond",
        "If with a constant condition",
        "Replaces If by the branch that always runs.",
        _if_with_constant,
    ),
)
