"""Multiply-adds (MACs) of single nodes, from the shapes of their values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from onnx_workbench.model.analysis.node_constants import ints, number
from onnx_workbench.model.analysis.symbolic import AnySize, is_too_long
from onnx_workbench.model.ir.attributes import AttributeKind
from onnx_workbench.model.ir.graph import Node, Value
from onnx_workbench.model.schemas import traits

Sizes = tuple[AnySize | None, ...]

ShapeOf = Callable[[Value | None], Sizes | None]


def multiply_adds(node: Node, shape_of: ShapeOf) -> AnySize | None:
    """Return the multiply-adds of a node from the shapes of its values: 0 where there are none, None if unknown."""
    if node.domain == "com.microsoft":
        rule = _MICROSOFT.get(node.op_type) or _RULES.get(node.op_type)
    elif node.domain in ("", *_ARITHMETIC_FREE):
        rule = None if node.domain else _RULES.get(node.op_type)
    else:
        return None  # unknown semantics
    if rule is None:
        return None if traits.of(node).work == "product" else 0
    return rule(node, shape_of)


def all_of(sizes: Sequence[AnySize | None] | None) -> AnySize | None:
    """Return the product of sizes; None when one is unknown, or the formula is too long."""
    if sizes is None:
        return None
    result: AnySize = 1
    for size in sizes:
        if size is None:
            return None
        result = result * size
        if is_too_long(result):
            return None
    return result


def _input(node: Node, index: int, shape_of: ShapeOf) -> Sizes | None:
    return shape_of(node.inputs[index]) if index < len(node.inputs) else None


def _output(node: Node, shape_of: ShapeOf) -> AnySize | None:
    return all_of(shape_of(node.outputs[0])) if node.outputs else None


def _times(*factors: AnySize | None) -> AnySize | None:
    return all_of(factors)


def _convolution(node: Node, shape_of: ShapeOf, weight: int = 1) -> AnySize | None:
    kernel = _input(node, weight, shape_of)
    return None if kernel is None or len(kernel) < 2 else _times(_output(node, shape_of), *kernel[1:])


def _transposed(node: Node, shape_of: ShapeOf) -> AnySize | None:
    """Count each element of the input times one filter of the weights [C, M/group, kernel…]."""
    kernel = _input(node, 1, shape_of)
    return None if kernel is None or len(kernel) < 2 else _times(all_of(_input(node, 0, shape_of)), *kernel[1:])


def _product(node: Node, shape_of: ShapeOf) -> AnySize | None:
    """Count output elements times the length of each sum: the first factor's last size, the second's last but one."""
    first, second = _input(node, 0, shape_of), _input(node, 1, shape_of)
    inner = first[-2 if number(node, "transA") and len(first) > 1 else -1] if first else None
    if second and node.op_type == "MatMul":
        inner = _plainer(inner, second[-2 if len(second) > 1 else -1])
    return _times(_output(node, shape_of), inner)


def _plainer(one: AnySize | None, other: AnySize | None) -> AnySize | None:
    """Return the simpler of two expressions of one size: a number, a formula, or None."""
    return other if one is None or (isinstance(other, int) and not isinstance(one, int)) else one


def _gemm(node: Node, shape_of: ShapeOf) -> AnySize | None:
    first, second = _input(node, 0, shape_of), _input(node, 1, shape_of)
    inner = first[0 if number(node, "transA") else 1] if first is not None and len(first) == 2 else None
    if second is not None and len(second) == 2:
        inner = _plainer(inner, second[1 if number(node, "transB") else 0])
    return _times(_output(node, shape_of), inner)


def _recurrent(node: Node, shape_of: ShapeOf) -> AnySize | None:
    """Count each step as the weights [directions, gates·hidden, input or hidden] times one vector per sample."""
    x, w, r = (_input(node, index, shape_of) for index in range(3))
    if x is None or len(x) != 3:
        return None
    inputs, hidden = all_of(w), all_of(r)
    return None if inputs is None or hidden is None else _times(x[0], x[1], inputs + hidden)


def _attention(node: Node, shape_of: ShapeOf) -> AnySize | None:
    """Count scores and their products with the values: [batch, heads, queries, keys] times the head sizes of both.

    With three dimensions the heads are concatenated in the last one, and several queries may share a head of values.
    """
    q, k, v, past = (_input(node, index, shape_of) for index in (0, 1, 2, 4))
    if q is None or k is None or v is None or not len(q) == len(k) == len(v):
        return None
    keys = k[-2] if past is None or len(past) != 4 else _sum(k[-2], past[2])
    if len(q) == 4:
        sizes, heads = _sum(q[3], v[3]), q[1]
        return _times(q[0], heads, q[2], keys, sizes)
    shared, own = number(node, "q_num_heads"), number(node, "kv_num_heads")
    width = v[-1]
    if len(q) != 3 or not shared or not own or not isinstance(width, int):
        return None
    return _times(q[0], q[1], keys, _sum(q[2], width // own * shared))


def _projected_attention(node: Node, shape_of: ShapeOf) -> AnySize | None:
    """Count com.microsoft's Attention: [batch, length, size] times weights of queries, keys, values; and attention."""
    x, w = _input(node, 0, shape_of), _input(node, 1, shape_of)
    if x is None or w is None or len(x) != 3 or len(w) != 2:
        return None
    widths = ints(node, "qkv_hidden_sizes") or ()
    whole = w[1]
    if len(widths) != 3:
        if not isinstance(whole, int):
            return None
        widths = (whole // 3,) * 3
    queries, _, values = widths
    projected, attended = _times(x[0], x[1], x[2], w[1]), _times(x[0], x[1], x[1], queries + values)
    return _sum(projected, attended)


def _multi_head_attention(node: Node, shape_of: ShapeOf) -> AnySize | None:
    """Count queries [batch, length, size] with keys and values of any length; heads are concatenated."""
    q, k, v = (_input(node, index, shape_of) for index in range(3))
    if q is None or k is None or v is None or not len(q) == len(k) == len(v) == 3:
        return None
    return _times(q[0], q[1], k[1], _sum(q[2], v[2]))


def _group_query_attention(node: Node, shape_of: ShapeOf) -> AnySize | None:
    """Count each head of the queries times all keys, cached and new ones."""
    q, k, past = (_input(node, index, shape_of) for index in (0, 1, 3))
    if q is None or k is None or len(q) != 3 or len(k) != 3:
        return None
    keys = k[1] if past is None or len(past) != 4 else _sum(k[1], past[2])
    return _times(q[0], q[1], keys, q[2], 2)


def _sum(*parts: AnySize | None) -> AnySize | None:
    terms = [p for p in parts if p is not None]
    return sum(terms) if len(terms) == len(parts) else None


def _einsum(node: Node, shape_of: ShapeOf) -> AnySize | None:
    """Return the product of the sizes of all letters and of the dimensions of an ellipsis."""
    equation = node.attributes.get("equation")
    if equation is None or equation.kind is not AttributeKind.STRING:
        return None
    terms = str(equation.value).replace(" ", "").split("->")[0].split(",")
    sizes: dict[str, AnySize | None] = {}
    for index, term in enumerate(terms):
        shape = _input(node, index, shape_of)
        labels = None if shape is None else einsum_labels(term, len(shape))
        if shape is None or labels is None:
            return None
        for label, size in zip(labels, shape, strict=True):
            known = sizes.get(label)
            sizes[label] = size if known is None or known == 1 else known
    return 0 if len(terms) < 2 else all_of(tuple(sizes.values()))


def einsum_labels(term: str, rank: int) -> list[str] | None:
    """Return a label for each dimension; those of an ellipsis are counted from the last, as they are broadcast."""
    head, dots, tail = term.partition("...")
    hidden = rank - len(head) - len(tail)
    if hidden < 0 or (hidden and not dots):
        return None
    return [*head, *(f"...{number}" for number in range(hidden, 0, -1)), *tail]


_RULES: Mapping[str, Callable[[Node, ShapeOf], AnySize | None]] = {
    "Conv": _convolution,
    "ConvInteger": _convolution,
    "FusedConv": _convolution,
    "DeformConv": _convolution,
    "QLinearConv": lambda node, shape_of: _convolution(node, shape_of, 3),
    "ConvTranspose": _transposed,
    "MatMul": _product,
    "MatMulInteger": _product,
    "QLinearMatMul": _product,
    "FusedMatMul": _product,
    "MatMulNBits": _product,
    "Gemm": _gemm,
    "FusedGemm": _gemm,
    "LSTM": _recurrent,
    "GRU": _recurrent,
    "RNN": _recurrent,
    "Attention": _attention,
    "Einsum": _einsum,
}

#: Operators of com.microsoft that differ from those of the same name, or have none.
_MICROSOFT: Mapping[str, Callable[[Node, ShapeOf], AnySize | None]] = {
    "Attention": _projected_attention,
    "QAttention": _projected_attention,
    "MultiHeadAttention": _multi_head_attention,
    "GroupQueryAttention": _group_query_attention,
    "DynamicQuantizeMatMul": _product,
    "MatMulIntegerToFloat": _product,
    "MatMulInteger16": _product,
    "MatMulBnb4": _product,
    "TransposeMatMul": _product,
    "QGemm": _gemm,
    "NhwcConv": _convolution,
    "NhwcFusedConv": _convolution,
    "DynamicQuantizeLSTM": _recurrent,
}

#: Domains whose operators compare and look up rather than multiply.
_ARITHMETIC_FREE = ("ai.onnx.ml", "ai.onnx.preview.training", "ai.onnx.training")
