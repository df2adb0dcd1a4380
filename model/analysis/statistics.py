"""Model cost: parameters, bytes, multiply-adds and sizes of activations, per node, group, operator, model.

Symbolic dimensions stay in formulas until they are bound to numbers; where a needed size is unknown, the cost is None
and counted as unknown rather than as zero.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from onnx_workbench.model.analysis.macs import Sizes, all_of, multiply_adds
from onnx_workbench.model.analysis.name_scopes import scope_path
from onnx_workbench.model.analysis.node_constants import constant_size, ints
from onnx_workbench.model.analysis.symbolic import AnySize, Monomial, Size, add_to, is_too_long, of_terms, parse
from onnx_workbench.model.analysis.trip_counts import TripCounts, trip_counts
from onnx_workbench.model.analysis.value_types import TypeOf
from onnx_workbench.model.ir.graph import Graph, Model, Node, Value
from onnx_workbench.model.ir.tensors import element_count
from onnx_workbench.model.ir.types import ElementType, TensorType
from onnx_workbench.model.progress import SILENT, Progress
from onnx_workbench.model.schemas import traits

#: Most nested calls that are followed before counting stops.
_MOST_FOLLOWED = 10_000

#: Amounts per execution of a node; parameters exist once.
EACH_CALL = ("macs", "flops", "activations", "activation_bytes")


@dataclass(frozen=True, slots=True)
class NodeStatistics:
    """One node. `macs` are multiply-adds, `flops` all arithmetic (a multiply-add counts two); None: unknown.

    `parameters` and `parameter_bytes` are those of initializers it is the first to use, or of its own tensor;
    `activations` are the elements of its outputs and `activation_bytes` their size. `calls` is how often its graph
    runs: once for each call of a function and each loop iteration. `is_sure` is False where that is unknown and a loop
    counts once.
    """

    node: Node
    parameters: int
    parameter_bytes: int
    macs: AnySize | None
    flops: AnySize | None
    activations: AnySize | None
    activation_bytes: AnySize | None
    calls: AnySize = 1
    is_sure: bool = True

    def in_all(self, name: str) -> AnySize | None:
        """Return an amount over all calls, for sums; None if unknown."""
        amount: AnySize | None = getattr(self, name)
        total = None if amount is None else amount * self.calls
        return None if total is None or is_too_long(total) else total


@dataclass(slots=True)
class Total:
    """A sum over nodes.

    `unknown` counts nodes of unknown cost, which the sums omit, `unsure` those in loops of unknown trip count, which
    are counted once.
    """

    nodes: int = 0
    parameters: int = 0
    parameter_bytes: int = 0
    unknown: int = 0
    unsure: int = 0
    _sums: dict[str, dict[Monomial, int]] = field(default_factory=dict)
    _left_out: set[str] = field(default_factory=set)

    @property
    def macs(self) -> AnySize:
        """Multiply-adds."""
        return self._sum("macs")

    @property
    def flops(self) -> AnySize:
        """All arithmetic operations."""
        return self._sum("flops")

    @property
    def activations(self) -> AnySize:
        """Elements of the outputs."""
        return self._sum("activations")

    @property
    def activation_bytes(self) -> AnySize:
        """Bytes of the outputs."""
        return self._sum("activation_bytes")

    def leaves_out(self, name: str) -> bool:
        """Return whether the sum of an amount omits nodes of unknown cost."""
        return name in self._left_out

    def _sum(self, name: str) -> AnySize:
        return of_terms(self._sums.get(name, {}))

    def add(self, found: NodeStatistics) -> None:
        """Add a node, as often as it runs; parameters once."""
        self.nodes += 1
        self.parameters += found.parameters
        self.parameter_bytes += found.parameter_bytes
        self.unknown += found.macs is None or found.activations is None
        self.unsure += not found.is_sure
        for name in EACH_CALL:
            amount = found.in_all(name)
            if amount is not None:
                add_to(amount, self._sums.setdefault(name, {}))
            else:
                self._left_out.add(name)


@dataclass(slots=True, repr=False)
class ModelStatistics:
    """The nodes of a whole model or a part of it, in the order of its graphs."""

    nodes: list[NodeStatistics]
    unused: Total  # unused initializers: in the file, in no node

    def __repr__(self) -> str:
        return f"<ModelStatistics of {len(self.nodes)} nodes>"

    def among(self, nodes: Collection[Node]) -> ModelStatistics:
        """Return those of some nodes; a constant counts at its first user in the model."""
        return ModelStatistics([found for found in self.nodes if found.node in nodes], Total())

    def total(self, progress: Progress = SILENT) -> Total:
        """Sum over the whole model."""
        result = Total()
        for found in progress.paced(self.nodes):
            result.add(found)
        result.parameters += self.unused.parameters
        result.parameter_bytes += self.unused.parameter_bytes
        return result

    def by(self, key: Callable[[Node], str], progress: Progress = SILENT) -> dict[str, Total]:
        """Sum by operator, scope or any other key, in order of first appearance."""
        groups: dict[str, Total] = {}
        for found in progress.paced(self.nodes):
            groups.setdefault(key(found.node), Total()).add(found)
        return groups

    def symbols(self, progress: Progress = SILENT) -> frozenset[str]:
        """Return the symbols that the sums depend on."""
        names: set[str] = set()
        for found in progress.paced(self.nodes):
            for amount in (found.macs, found.activations, found.calls):
                names |= amount.symbols if isinstance(amount, Size) else frozenset()
        return frozenset(names)


def scope_of(node: Node, depth: int = 1) -> str:
    """Return the outermost scopes of a node, as on the graph: from metadata, else from its name."""
    return "/".join(scope_path(node)[:depth])


def statistics(
    model: Model, type_of: TypeOf, bindings: Mapping[str, int] | None = None, progress: Progress = SILENT
) -> ModelStatistics:
    """Compute statistics of every node; `type_of` gives the type of a value, `bindings` numbers for symbols.

    Reads no weights. Any thread, while the model does not change. Linear in nodes and edges.
    """
    sizes = _Sizes(type_of, bindings or {})
    by_node: list[NodeStatistics] = []
    counted: set[Value] = set()
    functions = frozenset(f.key for f in model.functions)
    for root, calls in _roots(model, sizes):
        for graph, times in _levels(root, calls, sizes):
            by_node.extend(_node(node, sizes, counted, times, functions) for node in progress.paced(graph.nodes))
    unused = Total()
    for graph in model.graphs():
        for value in graph.initializers:
            if value not in counted and value.initializer is not None:
                unused.parameters += element_count(value.initializer.shape)
                unused.parameter_bytes += value.initializer.nbytes
    return ModelStatistics(by_node, unused)


def _levels(root: Graph, calls: TripCounts, sizes: _Sizes) -> Iterator[tuple[Graph, TripCounts]]:
    """Yield a graph and its subgraphs with their execution counts."""
    calls_of: dict[Graph, TripCounts] = {}
    for graph in root.walk():
        owner = graph.owner
        around = calls_of.get(owner.graph) if isinstance(owner, Node) and owner.graph is not None else None
        if graph is root or around is None or not isinstance(owner, Node):
            calls_of[graph] = calls
        else:
            calls_of[graph] = around * trip_counts(owner, sizes.shape)
        yield graph, calls_of[graph]


def _roots(model: Model, sizes: _Sizes) -> Iterable[tuple[Graph, TripCounts]]:
    """Return the main graph and the functions with their call counts, nested calls included."""
    functions = {f.key: f for f in model.functions}
    calls: dict[tuple[str, str, str], TripCounts] = {}
    pending = [(model.graph, TripCounts(), 0)]
    followed = 0
    while pending and functions:
        root, times, depth = pending.pop()
        inside: dict[tuple[str, str, str], TripCounts] = {}
        for graph, here in _levels(root, times, sizes):
            for node in graph.nodes:
                key = node.operator
                if key in functions:
                    inside[key] = inside[key] + here if key in inside else here
        for key, count in inside.items():
            calls[key] = calls[key] + count if key in calls else count
            followed += 1
            if depth < len(functions) and followed < _MOST_FOLLOWED:  # deeper only for recursive functions
                pending.append((functions[key].body, count, depth + 1))
    yield model.graph, TripCounts()
    for key, function in functions.items():
        yield function.body, calls.get(key, TripCounts(0))


class _Sizes:
    """Shapes as polynomials."""

    def __init__(self, type_of: TypeOf, bindings: Mapping[str, int]) -> None:
        self._type_of = type_of
        self._bindings = bindings

    def shape(self, value: Value | None) -> Sizes | None:
        """Return one polynomial per dimension, None for an unknown one; None when the rank is unknown."""
        if value is None:
            return None
        if value.initializer is not None:
            return tuple(max(d, 0) for d in value.initializer.shape)
        kind = self._type_of(value)
        if not isinstance(kind, TensorType) or kind.shape is None:
            return None
        return tuple(self._dimension(d) for d in kind.shape.dims)

    def _dimension(self, dimension: int | str | None) -> AnySize | None:
        if isinstance(dimension, str):
            return parse(dimension, self._bindings) if dimension else None
        return None if dimension is None or dimension < 0 else dimension

    def elements(self, value: Value | None) -> AnySize | None:
        """Return the number of elements, None if unknown."""
        return all_of(self.shape(value))

    def bits(self, value: Value) -> int | None:
        """Return the bits of one element."""
        kind = value.initializer.element_type if value.initializer is not None else None
        if kind is None:
            declared = self._type_of(value)
            kind = declared.element_type if isinstance(declared, TensorType) else None
        return kind.bits if isinstance(kind, ElementType) and kind.bits else None


def _node(
    node: Node, sizes: _Sizes, counted: set[Value], times: TripCounts, functions: frozenset[tuple[str, str, str]]
) -> NodeStatistics:
    parameters = parameter_bytes = 0
    for value in node.inputs:
        if value is not None and value.initializer is not None and value not in counted:
            counted.add(value)
            parameters += element_count(value.initializer.shape)
            parameter_bytes += value.initializer.nbytes
    constant = constant_size(node)
    if constant is not None:
        parameters += constant[0]
        parameter_bytes += constant[1]
    elements: AnySize | None = 0
    held: AnySize | None = 0
    for value in node.outputs:
        if value is not None and constant is None:  # constants are weights, as initializers are
            count, bits = sizes.elements(value), sizes.bits(value)
            elements = None if elements is None or count is None else elements + count
            held = None if held is None or count is None or bits is None else held + _bytes(count, bits)
    macs: AnySize | None = 0
    flops: AnySize | None = 0
    if node.operator not in functions:  # else counted in its subgraph
        macs = multiply_adds(node, sizes.shape)
        flops = None if macs is None else macs * 2 if macs != 0 else _arithmetic(node, sizes, elements)
    return NodeStatistics(node, parameters, parameter_bytes, macs, flops, elements, held, times.count, times.is_sure)


def _bytes(count: AnySize, bits: int) -> AnySize:
    if bits % 8 == 0:
        return count * (bits // 8)
    return (count * bits + 7) // 8 if isinstance(count, int) else count  # an upper bound for packed types


def _arithmetic(node: Node, sizes: _Sizes, elements: AnySize | None) -> AnySize | None:
    """Return the operations of other operators: one per input or output element."""
    match traits.of(node).work:
        case "none":
            return 0
        case "input":
            return sizes.elements(node.inputs[0]) if node.inputs else 0
        case "window":
            window = ints(node, "kernel_shape") or ()
            return None if elements is None else elements * element_count(window)
    return elements
