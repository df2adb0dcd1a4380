"""Fuse decomposed normalizations and attention into the operators of newer opsets."""

from __future__ import annotations

from collections.abc import Iterator

from onnx_workbench.model.analysis.node_constants import ints, number
from onnx_workbench.model.ir.graph import Node, Value
from onnx_workbench.model.ir.types import ElementType
from onnx_workbench.model.simplify.context import MatchContext
from onnx_workbench.model.simplify.passes import Match, Pass
from onnx_workbench.model.simplify.rules.fuse_activations import fused, is_alike, product, scalar


def _layer_norm(context: MatchContext) -> Iterator[Match]:
    for node in context.nodes("Mul"):
        if context.opset(node) < 17:
            continue
        for index in (0, 1):
            scale, normal = node.inputs[1 - index], node.inputs[index]
            normalized = _normalized(context, node, normal)
            if normalized is None or scale is None:
                continue
            centred, axis, epsilon, parts = normalized
            minus = context.producer(centred, "Sub")
            mean = context.producer(minus.inputs[1], "ReduceMean") if minus is not None else None
            if minus is None or mean is None or minus.inputs[0] is not mean.inputs[0]:
                continue
            x = minus.inputs[0]
            if _first_axis(context, mean) != axis or not _is_scale(context, scale, x, axis):
                continue
            if not all(user in parts for user, _ in centred.uses) or context.sole_user(mean.outputs[0]) is not minus:
                continue
            last, bias = _biased(context, node, x, axis)
            parts = (mean, minus, *parts, node, *([last] if last is not node else []))
            attributes = {"axis": axis, "epsilon": epsilon}
            yield fused(parts, last, "LayerNormalization", [x, scale, bias], attributes)
            break


def _rms_norm(context: MatchContext) -> Iterator[Match]:
    for node in context.nodes("Mul"):
        if context.opset(node) < 23:
            continue
        for index in (0, 1):
            scale = node.inputs[1 - index]
            normalized = _normalized(context, node, node.inputs[index])
            if normalized is None or scale is None:
                continue
            x, axis, epsilon, parts = normalized
            if _is_scale(context, scale, x, axis):
                attributes = {"axis": axis, "epsilon": epsilon}
                yield fused((*parts, node), node, "RMSNormalization", [x, scale], attributes)
                break


def _normalized(
    context: MatchContext, user: Node, value: Value | None
) -> tuple[Value, int, float, tuple[Node, ...]] | None:
    """Match v / √(mean(v²) + ε): returns v, the last axes, ε and the nodes."""
    quotient = context.producer(value, "Div", "Mul")
    if quotient is None or context.sole_user(value) is not user:
        return None
    for index in (1,) if quotient.op_type == "Div" else (0, 1):
        v, divisor = quotient.inputs[1 - index], quotient.inputs[index]
        parts = [quotient]
        if quotient.op_type == "Mul":
            reciprocal = context.producer(divisor, "Reciprocal")
            if reciprocal is None or context.sole_user(divisor) is not quotient:
                continue
            parts.append(reciprocal)
            divisor = reciprocal.inputs[0]
        root_mean_square = _root_mean_square(context, parts[-1], divisor, v)
        if root_mean_square is not None and v is not None:
            axis, epsilon, nodes = root_mean_square
            return v, axis, epsilon, (*nodes, *parts[::-1])
    return None


def _root_mean_square(
    context: MatchContext, user: Node, value: Value | None, v: Value | None
) -> tuple[int, float, tuple[Node, ...]] | None:
    root = context.producer(value, "Sqrt")
    if root is None or v is None or context.sole_user(value) is not user:
        return None
    plus = context.producer(root.inputs[0], "Add")
    if plus is None or context.sole_user(root.inputs[0]) is not root or len(plus.inputs) != 2:
        return None
    index = 0 if scalar(context, plus.inputs[0]) is not None else 1
    epsilon = scalar(context, plus.inputs[index])
    mean = context.producer(plus.inputs[1 - index], "ReduceMean")
    if mean is None or epsilon is None or context.sole_user(mean.outputs[0]) is not plus:
        return None
    square, axis = context.producer(mean.inputs[0], "Pow", "Mul"), _first_axis(context, mean)
    if square is None or axis is None or square.inputs[0] is not v or context.sole_user(mean.inputs[0]) is not mean:
        return None
    is_two = scalar(context, square.inputs[1]) == 2.0 if square.op_type == "Pow" else square.inputs[1] is v
    if not is_two or not epsilon >= 0 or not is_alike(context, value, v):
        return None
    if context.element_type(v) is ElementType.DOUBLE:
        return None  # the operators compute mean and deviation in single precision
    return axis, epsilon, (square, mean, plus, root)


def _first_axis(context: MatchContext, mean: Node) -> int | None:
    """Return the first axis of a mean over the last ones, counted from the end; None for another mean."""
    axes = ints(mean, "axes") if context.opset(mean) < 18 else context.call(mean).numbers(1)
    rank = context.facts.rank(mean.inputs[0])
    if not axes or not rank or not number(mean, "keepdims"):
        return None
    counted = sorted(a % rank for a in axes)
    return counted[0] - rank if counted == list(range(counted[0], rank)) else None


def _is_scale(context: MatchContext, value: Value, x: Value | None, axis: int) -> bool:
    """Return whether a tensor has exactly the normalized sizes, all numbers, and the type of the data."""
    shape, dims = context.facts.shape(value), context.facts.dims(x)
    return dims is not None and shape is not None and shape == dims[axis:] and context.is_float(value, x)


def _biased(context: MatchContext, node: Node, x: Value | None, axis: int) -> tuple[Node, Value | None]:
    """Return the following Add with a bias, and the bias; else the node itself."""
    add = context.sole_user(node.outputs[0])
    if add is None or add.op_type != "Add" or not context.may_change(add) or len(add.inputs) != 2:
        return node, None
    bias = add.inputs[1 - add.inputs.index(node.outputs[0])]
    return (add, bias) if bias is not None and _is_scale(context, bias, x, axis) else (node, None)


def _attention(context: MatchContext) -> Iterator[Match]:
    for node in context.nodes("MatMul"):
        softmax = context.producer(node.inputs[0], "Softmax")
        if context.opset(node) < 23 or softmax is None or context.sole_user(node.inputs[0]) is not node:
            continue
        if number(softmax, "axis") not in (-1, 3):
            continue
        scores = _scores(context, softmax)
        if scores is None:
            continue
        q, k, mask, scale, parts = scores
        v = node.inputs[1]
        if not _are_heads(context, q, k, v):
            continue
        yield fused((*parts, softmax, node), node, "Attention", [q, k, v, mask], {"scale": scale})


def _are_heads(context: MatchContext, q: Value, k: Value, v: Value | None) -> bool:
    """Return whether these are [batch, heads, length, size] of one type, with equal batches and heads."""
    dims = [context.facts.dims(value) for value in (q, k, v)]
    if any(d is None or len(d) != 4 for d in dims) or not context.is_float(q, k, v):
        return False
    return len({d[:2] for d in dims if d is not None}) == 1


def _scores(context: MatchContext, softmax: Node) -> tuple[Value, Value, Value | None, float, tuple[Node, ...]] | None:
    """Return queries, keys, mask and scale in the input of a Softmax, and the nodes before it."""
    value, user, mask = softmax.inputs[0], softmax, None
    parts: list[Node] = []
    add = context.producer(value, "Add")
    if add is not None and context.sole_user(value) is user:
        index = next((i for i in (0, 1) if _is_product(context, add.inputs[i])), None)
        if index is None or not _is_mask(context, add.inputs[1 - index], add.inputs[index]):
            return None
        parts.append(add)
        value, user, mask = add.inputs[index], add, add.inputs[1 - index]
    scale = 1.0
    scaled = context.producer(value, "Mul", "Div")
    if scaled is not None and context.sole_user(value) is user:
        whole = product(context, scaled)
        if len(whole.values) != 1:
            return None
        parts.extend(whole.nodes)
        value, user, scale = whole.values[0], whole.nodes[-1], whole.factor
    scores = context.producer(value, "MatMul")
    turned = context.producer(scores.inputs[1], "Transpose") if scores is not None else None
    if scores is None or turned is None or context.sole_user(value) is not user or ints(turned, "perm") != (0, 1, 3, 2):
        return None
    q, k = scores.inputs[0], turned.inputs[0]
    if not is_alike(context, softmax.inputs[0], scores.outputs[0]):
        return None
    if q is None or k is None or scale <= 0 or context.sole_user(turned.outputs[0]) is not scores:
        return None
    return q, k, mask, scale, (turned, scores, *parts[::-1])


def _is_product(context: MatchContext, value: Value | None) -> bool:
    return context.producer(value, "MatMul", "Mul", "Div") is not None and context.array(value) is None


def _is_mask(context: MatchContext, mask: Value | None, scores: Value | None) -> bool:
    """Return whether the addend broadcasts to the scores, and is a tensor of their type."""
    own, dims = context.facts.dims(mask), context.facts.dims(scores)
    if own is None or dims is None or len(own) not in (2, 3, 4) or not context.is_float(mask, scores):
        return False
    return own[-1] == dims[-1] and all(a in (1, b) for a, b in zip(own[::-1], dims[::-1], strict=False))


PASSES = (
    Pass("fuse_layer_norm", "LayerNormalization", "Mean, deviation, scale and bias as LayerNormalization. Needs "
         "operator set 17.", _layer_norm),
    Pass("fuse_rms_norm", "RMSNormalization", "Root mean square and scale as RMSNormalization. Needs opset 23.",
         _rms_norm),
    Pass("fuse_attention", "Attention", "Scaled products of queries and keys, mask, Softmax and values as Attention. "
         "Needs opset 23.", _attention, is_default=False),
)  # fmt: skip
