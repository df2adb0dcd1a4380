"""Type rules for operators added by scripts and extensions, by ``domain::Operator``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from onnx_workbench.model.errors import faults_to
from onnx_workbench.model.ir.types import (
    MapType,
    OpaqueType,
    OptionalType,
    SequenceType,
    SparseTensorType,
    TensorType,
    Type,
)

if TYPE_CHECKING:
    from onnx_workbench.model.inference.node_call import NodeCall

_TYPES = (TensorType, SequenceType, OptionalType, MapType, SparseTensorType, OpaqueType)

#: A text, which is passed to the inference process, or a function, for which that process loads the extension.
Rule = str | Callable[..., Sequence[Type | None]]

_rules: dict[str, Rule] = {}


def add(operator: str, rule: Any) -> None:
    """Set the rule of an operator; ValueError for an invalid text."""
    if isinstance(rule, str):
        from onnx_workbench.model.inference.rules import user_rule

        if user_rule(rule) is None:
            msg = f"{rule!r} is not a rule; expected for example 'same as input 0', or a function"
            raise ValueError(msg)
    _rules[operator] = rule


def remove(operator: str) -> None:
    """Remove the rule of an operator."""
    _rules.pop(operator, None)


def texts() -> dict[str, str]:
    """Return the rules given as texts."""
    return {operator: rule for operator, rule in _rules.items() if isinstance(rule, str)}


def functions() -> dict[tuple[str, ...], Callable[..., Sequence[Type | None]]]:
    """Return the rules given as functions, by domain and operator. Where one fails, the types are unknown."""
    return {
        tuple(operator.split("::", 1)): partial(_types, rule)
        for operator, rule in _rules.items()
        if not isinstance(rule, str)
    }


def _types(rule: Callable[..., Sequence[Type | None]], call: NodeCall) -> Sequence[Type | None]:
    found: list[Type | None] = []
    with faults_to(lambda _error: found.clear()):
        found += [one if isinstance(one, _TYPES) else None for one in rule(call)]
    return found
