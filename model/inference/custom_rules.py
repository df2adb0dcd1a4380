"""Type rules for operators that users add, by ``domain::Operator``: texts, and functions of scripts and extensions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from onnx_workbench.model.analysis.symbolic import Size
from onnx_workbench.model.errors import faults_to
from onnx_workbench.model.inference.facts import to_dimension
from onnx_workbench.model.inference.operators.node_call import Found, NodeCall, Rule, same_as
from onnx_workbench.model.inference.operators.sequences import found_of
from onnx_workbench.model.ir.attributes import AttributeKind
from onnx_workbench.model.ir.types import (
    Dimension,
    MapType,
    OpaqueType,
    OptionalType,
    SequenceType,
    SparseTensorType,
    TensorType,
    Type,
)

_TYPES = (TensorType, SequenceType, OptionalType, MapType, SparseTensorType, OpaqueType)
_PLAIN = frozenset({
    AttributeKind.FLOAT, AttributeKind.INT, AttributeKind.STRING, AttributeKind.FLOATS, AttributeKind.INTS,
    AttributeKind.STRINGS,
})  # fmt: skip

_rules: dict[str, str | Callable[..., Sequence[Type | None]]] = {}


@dataclass(frozen=True, slots=True)
class OperatorCall:
    """A node for the function of an extension: types of its inputs (None: unknown or left out), attributes as Python
    values.
    """

    inputs: Sequence[Type | None]
    attributes: Mapping[str, Any]
    outputs: int
    opset: int = 1
    values: Sequence[Sequence[Dimension] | None] = ()  # contents of small integer inputs, where known

    def tensor(self, index: int) -> TensorType | None:
        """Return the type of an input if it is a known tensor."""
        kind = self.inputs[index] if index < len(self.inputs) else None
        return kind if isinstance(kind, TensorType) else None

    def dims(self, index: int) -> tuple[Dimension, ...] | None:
        """Return the dimensions of an input, None when its rank is unknown."""
        kind = self.tensor(index)
        return kind.shape.dims if kind is not None and kind.shape is not None else None

    def content(self, index: int) -> Sequence[Dimension] | None:
        """Return the contents of a small integer input, None where unknown."""
        return self.values[index] if index < len(self.values) else None

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return an attribute's value or the default."""
        return self.attributes.get(name, default)


def add(operator: str, rule: Any) -> None:
    """Set the rule of an operator; ValueError for an invalid text."""
    if isinstance(rule, str) and rule_of_text(rule) is None:
        msg = f"{rule!r} is not a rule; expected for example 'same as input 0', or a function"
        raise ValueError(msg)
    _rules[operator] = rule


def remove(operator: str) -> None:
    """Remove the rule of an operator."""
    _rules.pop(operator, None)


def rules(further: Mapping[str, str]) -> dict[tuple[str, str], Rule]:
    """Return all rules by domain and operator, with `further` texts; malformed ones are left out."""
    found: dict[tuple[str, str], Rule] = {}
    for operator, given in (_rules | dict(further)).items():
        domain, _, op_type = operator.partition("::")
        rule = rule_of_text(given) if isinstance(given, str) else _rule_of_function(given)
        if rule is not None:
            found[domain, op_type] = rule
    return found


def rule_of_text(text: str) -> Rule | None:
    """Return the rule of a text: ``same as input 0`` (any input) for all outputs; None if malformed."""
    words = text.lower().split()
    if words[:3] != ["same", "as", "input"] or len(words) != 4 or not words[3].isdecimal() or len(words[3]) > 4:
        return None
    alike = same_as(int(words[3]))
    return lambda call: [*alike(call)] * call.outputs


def _rule_of_function(function: Callable[..., Sequence[Type | None]]) -> Rule:
    """Return the rule of a function of an `OperatorCall`. Where it fails, the types are unknown."""

    def rule(call: NodeCall) -> Sequence[Found]:
        found: list[Found] = []
        with faults_to(lambda _error: found.clear()):
            found += [
                found_of(call.facts, one) if isinstance(one, _TYPES) else None for one in function(_seen_by_user(call))
            ]
        return found

    return rule


def _seen_by_user(call: NodeCall) -> OperatorCall:
    node = call.node
    plain = {name: a.value for name, a in node.attributes.items() if a.kind in _PLAIN and not a.reference}
    attributes = {name: list(value) if isinstance(value, tuple) else value for name, value in plain.items()}
    inputs = range(len(node.inputs))
    return OperatorCall(
        [call.type(index) for index in inputs],
        attributes,
        call.outputs,
        call.opset,
        [_contents(call, index) for index in inputs],
    )


def _contents(call: NodeCall, index: int) -> Sequence[Dimension] | None:
    content = call.content(index)
    if content is None or content.ndim > 1:
        return None
    return [to_dimension(size) if isinstance(size, (int, Size)) else None for size in content.reshape(-1)]
