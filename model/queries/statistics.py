"""What a model costs: parameters, bytes, multiply-adds and sizes of activations, per node, group, operator, model.

Dimensions that are names stay in formulas until they are bound to numbers; where a needed size is not known at all,
the cost is None and counted as unknown rather than as nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from model.attributes import AttributeKind
from model.graph import Graph, Model, Node, Value
from model.progress import SILENT, Progress
from model.queries.polynomial import Polynomial, product
from model.types import ElementType, TensorType, Type

TypeOf = Callable[[Value], Type | None]
Sizes = tuple[Polynomial | None, ...]

#: Operators that only rearrange, name or describe values: no arithmetic.
_FREE = frozenset({
    "Constant", "ConstantOfShape", "Shape", "Size", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity",
    "Transpose", "Concat", "Split", "Slice", "Gather", "GatherElements", "GatherND", "Expand", "Tile", "Pad", "Cast",
    "CastLike",
    "If", "Loop", "Scan", "DepthToSpace", "SpaceToDepth", "Dropout", "ScatterND", "ScatterElements", "Range",
    "EyeLike", "OneHot", "NonZero", "Compress", "Where",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class NodeStatistics:
    """One node. `macs` are multiply-adds, `flops` all arithmetic (a multiply-add counts two); None: not known.

    `parameters` and `parameter_bytes` are those of initializers it is the first to use; `activations` are the
    elements of its outputs and `activation_bytes` their size. `calls` is how often the graph it is in runs: once for
    each call of a function; bodies of loops count once.
    """

    node: Node
    parameters: int
    parameter_bytes: int
    macs: Polynomial | None
    flops: Polynomial | None
    activations: Polynomial | None
    activation_bytes: Polynomial | None
    calls: int = 1


@dataclass(slots=True)
class Total:
    """A sum over nodes; `unknown` counts those whose cost is not known and which the sums leave out."""

    nodes: int = 0
    parameters: int = 0
    parameter_bytes: int = 0
    macs: Polynomial = field(default_factory=Polynomial)
    flops: Polynomial = field(default_factory=Polynomial)
    activations: Polynomial = field(default_factory=Polynomial)
    activation_bytes: Polynomial = field(default_factory=Polynomial)
    unknown: int = 0

    def add(self, found: NodeStatistics) -> None:
        """Add a node, as often as it runs; parameters are there once."""
        self.nodes += 1
        self.parameters += found.parameters
        self.parameter_bytes += found.parameter_bytes
        self.unknown += found.macs is None or found.activations is None
        for name in ("macs", "flops", "activations", "activation_bytes"):
            amount = getattr(found, name)
            if amount is not None:
                setattr(self, name, getattr(self, name) + amount * found.calls)


@dataclass(slots=True)
class Statistics:
    """The nodes of a whole model, in the order of its graphs."""

    nodes: list[NodeStatistics]
    unused: Total  # initializers that nothing uses: in the file, in no node

    def total(self) -> Total:
        """The whole model."""
        result = Total()
        for found in self.nodes:
            result.add(found)
        result.parameters += self.unused.parameters
        result.parameter_bytes += self.unused.parameter_bytes
        return result

    def by(self, key: Callable[[Node], str]) -> dict[str, Total]:
        """Sums by operator, scope or anything else, in order of first appearance."""
        groups: dict[str, Total] = {}
        for found in self.nodes:
            groups.setdefault(key(found.node), Total()).add(found)
        return groups

    @property
    def symbols(self) -> frozenset[str]:
        """Names the sums depend on."""
        names: set[str] = set()
        for found in self.nodes:
            for amount in (found.macs, found.activations):
                names |= amount.symbols if amount is not None else frozenset()
        return frozenset(names)


def operator_of(node: Node) -> str:
    """The operator with its domain, for grouping."""
    return f"{node.domain}.{node.op_type}" if node.domain else node.op_type


def scope_of(node: Node, depth: int = 1) -> str:
    """The first parts of a node's name, or of its first output's, as exporters nest them with slashes or dots."""
    name = node.name or next((v.name for v in node.outputs if v is not None), "")
    parts = [part for part in re.split(r"[/.]", name) if part][:-1]
    return "/".join(parts[:depth])


def statistics(
    model: Model, type_of: TypeOf, bindings: Mapping[str, int] | None = None, progress: Progress = SILENT
) -> Statistics:
    """Statistics of every node; `type_of` gives the type of a value, `bindings` numbers for named dimensions.

    Reads no weights. Any thread, while nobody changes the model. Cost: nodes and edges.
    """
    sizes = _Sizes(type_of, bindings or {})
    found: list[NodeStatistics] = []
    counted: set[Value] = set()
    for root, calls in _roots(model):
        for graph in root.walk():
            progress.check()
            found.extend(_node(node, sizes, counted, calls) for node in graph.nodes)
    unused = Total()
    for graph in model.graphs():
        for value in graph.initializers:
            if value not in counted and value.initializer is not None:
                unused.parameters += _size(value.initializer.shape)
                unused.parameter_bytes += value.initializer.nbytes
    return Statistics(found, unused)


def _roots(model: Model) -> Iterable[tuple[Graph, int]]:
    """The main graph and the functions with how often each is called, calls within functions included."""
    functions = {f.key: f for f in model.functions}
    calls: Counter[tuple[str, str, str]] = Counter()
    pending = [(model.graph, 1, 0)]
    while pending:
        graph, times, depth = pending.pop()
        inside = Counter(
            (n.domain, n.op_type, n.overload)
            for level in graph.walk()
            for n in level.nodes
            if (n.domain, n.op_type, n.overload) in functions
        )
        for key, count in inside.items():
            calls[key] += count * times
            if depth < len(functions):  # deeper only when a function calls itself
                pending.append((functions[key].body, count * times, depth + 1))
            if len(pending) > 10_000:
                break
    yield model.graph, 1
    for key, function in functions.items():
        yield function.body, calls[key]


class _Sizes:
    """Shapes as polynomials."""

    def __init__(self, type_of: TypeOf, bindings: Mapping[str, int]) -> None:
        self._type_of = type_of
        self._bindings = bindings

    def shape(self, value: Value | None) -> Sizes | None:
        """One polynomial for each dimension, None for one that is not known; None when even the rank is not."""
        if value is None:
            return None
        if value.initializer is not None:
            return tuple(Polynomial(max(d, 0)) for d in value.initializer.shape)
        kind = self._type_of(value)
        if not isinstance(kind, TensorType) or kind.shape is None:
            return None
        return tuple(self._dimension(d) for d in kind.shape.dims)

    def _dimension(self, dimension: int | str | None) -> Polynomial | None:
        if isinstance(dimension, str):
            dimension = self._bindings.get(dimension, dimension)
        return None if dimension is None or dimension == "" else Polynomial(dimension)

    def elements(self, value: Value | None) -> Polynomial | None:
        """Number of elements, None when not known."""
        return _all(self.shape(value))

    def bits(self, value: Value) -> int | None:
        """Bits of one element."""
        kind = value.initializer.element_type if value.initializer is not None else None
        if kind is None:
            declared = self._type_of(value)
            kind = declared.element_type if isinstance(declared, TensorType) else None
        return kind.bits if isinstance(kind, ElementType) and kind.bits else None


def _all(sizes: Sequence[Polynomial | None] | None) -> Polynomial | None:
    if sizes is None:
        return None
    known = [s for s in sizes if s is not None]
    if len(known) < len(sizes):
        return None
    result = product(known)
    return None if result.is_too_long else result


def _node(node: Node, sizes: _Sizes, counted: set[Value], calls: int) -> NodeStatistics:
    parameters = parameter_bytes = 0
    for value in node.inputs:
        if value is not None and value.initializer is not None and value not in counted:
            counted.add(value)
            parameters += _size(value.initializer.shape)
            parameter_bytes += value.initializer.nbytes
    elements: Polynomial | None = Polynomial()
    held: Polynomial | None = Polynomial()
    for value in node.outputs:
        if value is not None:
            count, bits = sizes.elements(value), sizes.bits(value)
            elements = None if elements is None or count is None else elements + count
            held = None if held is None or count is None or bits is None else held + _bytes(count, bits)
    macs = multiply_adds(node, sizes.shape)
    flops = None if macs is None else macs * 2 if macs != 0 else _arithmetic(node, sizes, elements)
    return NodeStatistics(node, parameters, parameter_bytes, macs, flops, elements, held, calls)


def _size(shape: Sequence[int]) -> int:
    size = 1
    for dimension in shape:
        size *= max(dimension, 0)
    return size


def _bytes(count: Polynomial, bits: int) -> Polynomial:
    if bits % 8 == 0:
        return count * (bits // 8)
    number = count.constant
    return Polynomial((number * bits + 7) // 8) if number is not None else count  # an upper bound for packed types


def _arithmetic(node: Node, sizes: _Sizes, elements: Polynomial | None) -> Polynomial | None:
    """Operations of what does not multiply and add: one for each element that goes in or comes out."""
    if node.op_type in _FREE and node.domain == "":
        return Polynomial()
    if node.op_type.startswith(("Reduce", "Global")) or node.op_type in ("ArgMax", "ArgMin", "TopK", "CumSum"):
        return sizes.elements(node.inputs[0]) if node.inputs else Polynomial()
    if node.op_type in ("MaxPool", "AveragePool", "LpPool"):
        window = _ints(node, "kernel_shape")
        return None if elements is None else elements * _size(window)
    return elements


ShapeOf = Callable[[Value | None], Sizes | None]


def multiply_adds(node: Node, shape_of: ShapeOf) -> Polynomial | None:
    """Multiply-adds of a node from the shapes of its values: 0 where there are none, None where a size is not known."""
    rule = _RULES.get(node.op_type) if node.domain in ("", "com.microsoft") else None
    return Polynomial() if rule is None else rule(node, shape_of)


def _input(node: Node, index: int, shape_of: ShapeOf) -> Sizes | None:
    return shape_of(node.inputs[index]) if index < len(node.inputs) else None


def _output(node: Node, shape_of: ShapeOf) -> Polynomial | None:
    return _all(shape_of(node.outputs[0])) if node.outputs else None


def _times(*factors: Polynomial | None) -> Polynomial | None:
    return _all(factors)


def _convolution(node: Node, shape_of: ShapeOf, weight: int = 1) -> Polynomial | None:
    kernel = _input(node, weight, shape_of)
    return None if kernel is None or len(kernel) < 2 else _times(_output(node, shape_of), *kernel[1:])


def _transposed(node: Node, shape_of: ShapeOf) -> Polynomial | None:
    """Each element of the input meets each element of one filter of the weights [C, M/group, kernel…]."""
    kernel = _input(node, 1, shape_of)
    return None if kernel is None or len(kernel) < 2 else _times(_all(_input(node, 0, shape_of)), *kernel[1:])


def _product(node: Node, shape_of: ShapeOf) -> Polynomial | None:
    first = _input(node, 0, shape_of)
    if not first:
        return None
    return _times(_output(node, shape_of), first[-1])


def _gemm(node: Node, shape_of: ShapeOf) -> Polynomial | None:
    first = _input(node, 0, shape_of)
    if first is None or len(first) != 2:
        return None
    return _times(_output(node, shape_of), first[0 if _int(node, "transA") else 1])


def _recurrent(node: Node, shape_of: ShapeOf) -> Polynomial | None:
    """Each step multiplies the weights [directions, gates·hidden, input or hidden] with one vector per sample."""
    x, w, r = (_input(node, index, shape_of) for index in range(3))
    if x is None or len(x) != 3:
        return None
    inputs, hidden = _all(w), _all(r)
    return None if inputs is None or hidden is None else _times(x[0], x[1], inputs + hidden)


def _attention(node: Node, shape_of: ShapeOf) -> Polynomial | None:
    """Scores and their products with the values: [batch, heads, queries, keys] times the head sizes of both."""
    q, k, v = (_input(node, index, shape_of) for index in range(3))
    if q is None or k is None or v is None or not len(q) == len(k) == len(v) == 4:
        return None
    scores = _times(*q[:3], k[2])
    return None if scores is None or q[3] is None or v[3] is None else scores * (q[3] + v[3])


def _einsum(node: Node, shape_of: ShapeOf) -> Polynomial | None:
    """The product of the sizes of all letters."""
    equation = node.attributes.get("equation")
    if equation is None or equation.kind is not AttributeKind.STRING or "." in str(equation.value):
        return None
    terms = str(equation.value).replace(" ", "").split("->")[0].split(",")
    sizes: dict[str, Polynomial | None] = {}
    for index, term in enumerate(terms):
        shape = _input(node, index, shape_of)
        if shape is None or len(shape) != len(term):
            return None
        sizes.update(zip(term, shape, strict=True))
    return Polynomial() if len(terms) < 2 else _all(tuple(sizes.values()))


_RULES: Mapping[str, Callable[[Node, ShapeOf], Polynomial | None]] = {
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
    "Attention": lambda node, shape_of: _attention(node, shape_of) if node.domain == "" else None,
    "Einsum": _einsum,
}


def _int(node: Node, name: str) -> int:
    attribute = node.attributes.get(name)
    return attribute.value if attribute is not None and isinstance(attribute.value, int) else 0


def _ints(node: Node, name: str) -> tuple[int, ...]:
    attribute = node.attributes.get(name)
    value: Any = attribute.value if attribute is not None and attribute.kind is AttributeKind.INTS else ()
    return tuple(value or ())
