"""Common subexpression elimination, and equal sizes computed in different ways."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from functools import partial

from onnx_workbench.model.analysis.node_labels import exact_label
from onnx_workbench.model.analysis.scoping import run_order
from onnx_workbench.model.analysis.symbolic import Size
from onnx_workbench.model.diff.fingerprints import fingerprint
from onnx_workbench.model.edits.rewriter import GraphRewriter
from onnx_workbench.model.ir.graph import Graph, Node, Value
from onnx_workbench.model.ir.tensors import Tensor
from onnx_workbench.model.simplify.context import MatchContext
from onnx_workbench.model.simplify.passes import Match, Pass, describe

_LARGEST_ATTRIBUTE = 1 << 16  # bytes of a tensor worth comparing


def _common_subexpressions(context: MatchContext) -> Iterator[Match]:
    for graph in list(context.graphs):
        if graph.parent is None:
            yield from _in_tree(context, graph)


def _in_tree(context: MatchContext, root: Graph) -> Iterator[Match]:
    """Yield graphs in order, each subgraph after what is visible at its node."""
    pending: list[tuple[Iterator[Node], dict[Hashable, Node]]] = [(iter(run_order(root)), {})]
    while pending:
        nodes, known = pending[-1]
        node = next(nodes, None)
        if node is None:
            pending.pop()
            continue
        if node.graph is None:
            continue
        if node.bodies:
            pending.extend((iter(run_order(body)), dict(known)) for body in reversed(node.bodies))
            continue
        key = _key(context, node)
        first = known.setdefault(key, node) if key is not None else node
        if first is not node and first.graph is not None and _can_share(context, node, first):
            yield Match(
                f"{describe(node)} computes the same as {describe(first)}",
                (first, node),
                partial(_share, node, first),
            )


def _key(context: MatchContext, node: Node) -> Hashable:
    if node.op_type == "Constant" or not node.inputs or not context.may_change(node):
        return None
    if not context.is_deterministic(node):
        return None
    label = exact_label(node, _content)
    return None if label is None else (label, context.opset(node), *(_input_key(context, v) for v in node.inputs))


def _input_key(context: MatchContext, value: Value | None) -> Hashable:
    """Return the key of a value: itself, or its contents if it is a small constant."""
    tensor = context.constant(value)
    if tensor is None or tensor.nbytes > 256:
        return value
    array = context.array(value)
    if array is None or array.dtype == object:
        return value
    return tensor.element_type, tuple(tensor.shape), array.tobytes()


def _content(tensor: Tensor) -> Hashable | None:
    return fingerprint(tensor) if tensor.nbytes <= _LARGEST_ATTRIBUTE and not tensor.problem else None


def _can_share(context: MatchContext, node: Node, first: Node) -> bool:
    return len(node.outputs) == len(first.outputs) and all(
        a is None or b is None or not a.uses or context.can_replace(a, b)
        for a, b in zip(node.outputs, first.outputs, strict=True)
    )


def _share(node: Node, first: Node, rewriter: GraphRewriter) -> None:
    for a, b in zip(node.outputs, first.outputs, strict=True):
        if a is not None and b is not None and a.uses:
            rewriter.replace_value(a, b)
    rewriter.collect([node])


def _equal_sizes(context: MatchContext) -> Iterator[Match]:
    """Merge small integer tensors of equal sizes into the cheapest one."""
    for graph in list(context.graphs):
        if not context.is_alive(graph):
            continue
        first: dict[Hashable, Value] = {}
        for node in run_order(graph):
            value = node.outputs[0] if len(node.outputs) == 1 else None
            if node.graph is None or value is None or not context.may_change(node):
                continue
            contents = context.facts.contents.get(value)
            if contents is None or not any(isinstance(c, Size) for c in contents.reshape(-1)):
                continue
            kind = context.element_type(value)
            if kind is None:  # two of unknown type are not of the same type
                continue
            key = (kind, contents.shape, tuple(contents.reshape(-1).tolist()))
            other = first.setdefault(key, value)
            if other is not value and other.producer is not None and context.can_replace(value, other):
                yield Match(
                    f"{describe(node)} has the same value as {other.name}",
                    (node,),
                    partial(GraphRewriter.replace_value, old=value, new=other),
                    (value, other),
                )


COMMON = Pass(
    "eliminate_common_subexpression", "Common subexpressions",
    "Keeps one of several nodes with the same operator, inputs and attributes.", _common_subexpressions,
)  # fmt: skip
EQUAL_SIZES = Pass(
    "eliminate_equal_sizes", "Equal sizes",
    "Keeps one of several computations of the same dimensions, symbolic ones included.", _equal_sizes,
)  # fmt: skip
