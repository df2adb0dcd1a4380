"""Patterns: small graphs whose occurrences are searched in a model.

A pattern is a function, and means what the function computes. Its inputs are any values, its Constant nodes constants
of equal numbers, its attributes must be equal, one left out being the default. An attribute that refers to one of the
function's is any, and is captured. The types declared for its values must hold, a named size being any; an input of
type ``optional(…)`` may be left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from onnx_workbench.model.analysis.node_constants import tensor_of
from onnx_workbench.model.analysis.reachable import reachable
from onnx_workbench.model.analysis.scoping import users_in
from onnx_workbench.model.analysis.topology import outer_values
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.graph import Function, Node, Value
from onnx_workbench.model.ir.types import OptionalType, TensorType
from onnx_workbench.model.text.formatting import display

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: How a node is related to another one: it produces one of its inputs, uses an output, or uses an input too.
Relation = Literal["producer", "user", "sibling"]


@dataclass(frozen=True, slots=True)
class Pattern:
    """A checked pattern: the function, its nodes other than Constants, and the values that must be constants."""

    function: Function
    nodes: tuple[Node, ...]
    constants: Mapping[Value, NDArray[Any]]

    @classmethod
    def of(cls, function: Function) -> Pattern:
        """Check that a function can be searched for. ModelError: it has no nodes, is not connected, or an input or
        output has no part in it.
        """
        nodes = tuple(n for n in function.body.nodes if not _is_constant(n))
        if not nodes:
            _refuse(function, "it has no nodes besides constants, so nothing can be searched for")
        constants = dict(map(_constant, (n for n in function.body.nodes if _is_constant(n))))
        pattern = cls(function, nodes, constants)
        for value in function.body.outputs:
            if value.producer not in nodes:
                _refuse(function, f"no node of it produces its output {value.name}", value)
        if len({*function.body.outputs}) < len(function.body.outputs):
            _refuse(function, "it lists an output twice")
        taken = {v for node in nodes for v in taken_by(node) if v is not None}
        for value in taken:
            if not value.is_defined:
                _refuse(function, f"nothing in it defines {value.name}, and it is not an input", value)
        for value in function.body.inputs:
            if value not in taken:
                _refuse(function, f"no node of it uses its input {value.name}", value)
        for node in nodes:
            if not any(v is not None and (v in taken or v.is_output) for v in node.outputs):
                _refuse(function, f"nothing in it uses {node.title}", node)
        pattern._require_connected()
        return pattern

    @property
    def inputs(self) -> tuple[Value, ...]:
        """Return the values that may be any."""
        return self.function.body.inputs

    @property
    def outputs(self) -> tuple[Value, ...]:
        """Return the values that may be used outside of an occurrence."""
        return self.function.body.outputs

    @property
    def is_typed(self) -> bool:
        """Return whether types are declared, so that those of the model must be known."""
        return any(value.type is not None for value in self.function.body.values())

    def neighbours(self, node: Node) -> Iterator[tuple[Node, Value, Relation]]:
        """Yield the nodes that share a value with a node, and how they are related to it; constants and optional inputs
        do not count.
        """
        inputs = [v for v in taken_by(node) if v is not None and v not in self.constants and not is_optional(v)]
        for value in inputs:
            if value.producer is not None:
                yield value.producer, value, "producer"
        for made in node.outputs:
            if made is not None:
                yield from ((user, made, "user") for user in users_in(made, self.function.body))
        for value in inputs:
            yield from ((user, value, "sibling") for user in users_in(value, self.function.body) if user is not node)

    def _require_connected(self) -> None:
        seen = reachable(self.nodes[:1], lambda node: (other for other, _, _ in self.neighbours(node)))
        apart = next((node for node in self.nodes if node not in seen), None)
        if apart is not None:
            _refuse(self.function, f"{apart.title} is connected to {self.nodes[0].title} by no value", apart)


def taken_by(node: Node) -> tuple[Value | None, ...]:
    """Return the inputs of a node without trailing empty ones, then the outer values of its subgraphs."""
    inputs = list(node.inputs)
    while inputs and inputs[-1] is None:
        inputs.pop()
    return (*inputs, *(outer_values(node) if node.bodies else ()))


def declared(value: Value) -> TensorType | None:
    """Return the type that a value of a pattern must have, an optional one if it is there."""
    type_ = value.type.element if isinstance(value.type, OptionalType) else value.type
    return type_ if isinstance(type_, TensorType) else None


def is_optional(value: Value) -> bool:
    """Return whether an input of a pattern may be left out."""
    return isinstance(value.type, OptionalType) and value.is_input


def _is_constant(node: Node) -> bool:
    return node.op_type == "Constant" and not node.domain


def _constant(node: Node) -> tuple[Value, NDArray[Any]]:
    value = node.outputs[0] if node.outputs else None
    tensor = tensor_of(value)
    if tensor is None or value is None:
        graph = node.graph
        owner = None if graph is None else graph.owner
        assert isinstance(owner, Function)
        _refuse(owner, f"{node.title} gives no numbers; an input stands for any constant", node)
    return value, tensor.numpy()


def _refuse(function: Function, why: str, place: object = None) -> NoReturn:
    title = f"{display(function.domain, 60)}::{display(function.name, 60)} cannot be searched for"
    raise ModelError(title, why[0].upper() + display(why[1:], 300) + ".", place or function)
