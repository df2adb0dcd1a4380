"""What a pass is: it finds matches, and a match knows how to rewrite its part of the graph."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from onnx_workbench.model.ir.graph import Node, Value

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from onnx_workbench.model.simplify.context import MatchContext
    from onnx_workbench.model.simplify.rewriter import GraphRewriter

#: Computes a node from its inputs (None where left out) under an opset; None when it cannot or must not, or when a
#: result would be larger than the bytes given. exec.engine.constant_folding has one; model knows no kernels.
Evaluate = Callable[[Node, Sequence["NDArray[Any] | None"], int, int], "list[NDArray[Any]] | None"]


@dataclass(frozen=True, slots=True)
class Match:
    """One place where a pass applies: what would happen, in words, to which nodes and values.

    `apply` is called at once or never: the model must not have changed since the match was found.
    """

    description: str
    nodes: tuple[Node, ...]
    apply: Callable[[GraphRewriter], None]
    values: tuple[Value, ...] = ()

    @property
    def things(self) -> frozenset[Node | Value]:
        """What it is about: its nodes, or where it is about none, its values."""
        return frozenset(self.nodes or self.values)


@dataclass(frozen=True, slots=True)
class Pass:
    """One kind of simplification, by the name people know.

    `find` yields matches in the model as it is at that moment; whoever iterates may apply each before asking for
    the next. No match makes more nodes than it removes, but for passes that say `may_grow`; these run only when asked
    for. `is_default` says whether a pass runs unless told.
    """

    id: str
    title: str
    doc: str
    find: Callable[[MatchContext], Iterator[Match]]
    is_default: bool = True
    may_grow: bool = False


@dataclass(frozen=True, slots=True)
class PassRefusal:
    """Something a pass could have done and must not: which, where and why."""

    pass_id: str
    place: Node | Value
    reason: str


@dataclass(frozen=True, slots=True)
class SimplifyOptions:
    """Limits of simplification.

    tensor_limit   bytes by which one folded tensor may exceed the constants it replaces
    growth_limit   bytes by which all of them together may
    work_limit     bytes of constants one node may read to be folded
    nodes          only matches whose nodes are all among these; None: everywhere. Nodes made on the way belong
    only           by pass id, the `things` of the matches that alone are applied; a pass that is not named is free
    """

    tensor_limit: int = 1 << 20
    growth_limit: int = 1 << 20
    work_limit: int = 256 << 20
    nodes: frozenset[Node] | None = None
    only: Mapping[str, Collection[frozenset[Node | Value]]] = field(default_factory=dict)


def is_there(place: Node | Value) -> bool:
    """Whether a node, or a value that something makes or holds, is still part of a graph."""
    if isinstance(place, Node):
        return place.graph is not None
    return place.producer is not None or place.initializer is not None


def said(node: Node) -> str:
    """What a description calls a node: its name, else its operator and what it makes."""
    if node.name:
        return node.name
    made = next((v.name for v in node.outputs if v is not None), "")
    return f"{node.op_type} of {made}" if made else node.op_type
