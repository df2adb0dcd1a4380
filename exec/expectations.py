"""What an operator's signature says of inputs that its kernel could not work with."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from exec.context import RuntimeValue
from model.schemas.registry import find
from model.types import ElementType, SequenceType, TensorType, Type

#: More types than these are not listed.
_LISTED = 8


def type_misfit(op_type: str, opset: int, domain: str, inputs: Sequence[RuntimeValue]) -> str:
    """The first input whose type the operator does not take, and what it takes; empty where there is none."""
    schema = find(op_type, opset, domain)
    bound: dict[str, tuple[str, Type]] = {}
    for index, value in enumerate(inputs):
        parameter, given = schema.input(index) if schema is not None else None, _type_of(value)
        if parameter is None or given is None:
            continue
        place = f"input {index} ({parameter.name})"
        if not parameter.allows(given):
            return f"{place} is {given}; expected {_listed(parameter.types)}"
        if parameter.homogeneous and parameter.type_name in (schema.type_constraints if schema is not None else ()):
            first, other = bound.setdefault(parameter.type_name, (place, given))
            if other != given:
                return f"{first} is {other} and {place} {given}; expected the same type"
    return ""


def _type_of(value: RuntimeValue) -> Type | None:
    """The type of a value without its shape; None where it tells none."""
    if isinstance(value, np.ndarray):
        return TensorType(ElementType.from_numpy(value.dtype))
    if isinstance(value, list) and value:
        element = _type_of(value[0])
        return None if element is None else SequenceType(element)
    return None


def _listed(types: frozenset[str]) -> str:
    names = sorted((re.sub(r"tensor\((\w+)\)", r"\1", name) for name in types), key=lambda name: (len(name), name))
    if len(names) <= _LISTED:
        return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    return f"{', '.join(names[:_LISTED])} or others"
