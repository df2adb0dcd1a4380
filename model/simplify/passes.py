"""Passes and matches: a pass finds matches, and a match rewrites its part of the graph."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from onnx_workbench.model.ir.graph import Node, Value

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from onnx_workbench.model.edits.rewriter import GraphRewriter
    from onnx_workbench.model.simplify.context import MatchContext

#: Computes a node from its inputs (None where left out) under an opset; None when it cannot or must not, or when a
#: result would exceed the given bytes. exec.engine.constant_folding has one; model knows no kernels.
Evaluate = Callable[[Node, Sequence["NDArray[Any] | None"], int, int], "list[NDArray[Any] | None] | None"]


@dataclass(frozen=True, slots=True)
class Match:
    """One match of a pass: a description of the change, and the nodes and values concerned.

    `apply` is called at once or never: the model must not have changed since the match was found.
    """

    description: str
    nodes: tuple[Node, ...]
    apply: Callable[[GraphRewriter], None]
    values: tuple[Value, ...] = ()

    @property
    def things(self) -> frozenset[Node | Value]:
        """Return the objects it concerns: its nodes, or without any its values."""
        return frozenset(self.nodes or self.values)


def setting(node: Node, *inputs: Value | NDArray[Any] | None) -> Callable[[GraphRewriter], None]:
    """Return what a match does that sets the inputs of a node; trailing empty ones are left out."""
    return lambda rewriter: rewriter.set_inputs(node, inputs)


def replacement(
    node: Node,
    op_type: str,
    inputs: Sequence[Value | NDArray[Any] | None],
    attributes: Mapping[str, Any] | None = None,
    *,
    like: Node | None = None,
) -> Callable[[GraphRewriter], None]:
    """Return what a match does that replaces a node by another operator, as `GraphRewriter.replace_node`."""
    kept = inputs if inputs[-1] is not None else inputs[:-1]
    return lambda rewriter: rewriter.replace_node(node, op_type, kept, attributes, like=like)


@dataclass(frozen=True, slots=True)
class Pass:
    """One kind of simplification.

    `find` yields matches in the current model; the caller may apply each before requesting the next. No match creates
    more nodes than it removes, except for passes with `may_grow`, which run on request only. `is_default`: the pass
    runs by default.
    """

    id: str
    title: str
    doc: str
    find: Callable[[MatchContext], Iterator[Match]]
    is_default: bool = True
    may_grow: bool = False


@dataclass(frozen=True, slots=True)
class PassRefusal:
    """A match that a pass had to reject: the pass, the reason and the place."""

    pass_id: str
    place: Node | Value
    reason: str


@dataclass(frozen=True, slots=True)
class SimplifyOptions:
    """Limits of simplification.

    tensor_limit   bytes by which one folded tensor may exceed the constants it replaces
    growth_limit   bytes by which all of them together may
    work_limit     bytes of constants one node may read to be folded, and of a weight that is computed with; a larger
                   one stays as it is
    nodes          only matches whose nodes are all among these or were created by passes; None: everywhere
    only           by pass id, the `things` of the only matches to apply; passes not listed are unrestricted
    """

    tensor_limit: int = 1 << 20
    growth_limit: int = 1 << 20
    work_limit: int = 256 << 20
    nodes: frozenset[Node] | None = None
    only: Mapping[str, Collection[frozenset[Node | Value]]] = field(default_factory=dict)


def is_there(place: Node | Value) -> bool:
    """Return whether a node, or a value with a producer or an owner, is still part of a graph."""
    if isinstance(place, Node):
        return place.graph is not None
    return place.producer is not None or place.initializer is not None


def describe(node: Node) -> str:
    """Describe a node: its name, else its operator and output."""
    if node.name:
        return node.name
    first_output = next((v.name for v in node.outputs if v is not None), "")
    return f"{node.op_type} of {first_output}" if first_output else node.op_type
