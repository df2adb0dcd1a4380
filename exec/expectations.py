"""What an operator's signature says of inputs that its kernel could not work with."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from exec.arrays import SparseArray
from exec.context import RuntimeValue
from model.schemas.registry import find
from model.types import ElementType, SequenceType, TensorType, Type

#: More types than these are not listed.
_LISTED = 8

#: Attributes are told up to so many characters each.
_LONGEST = 60


def signature_misfit(op_type: str, opset: int, domain: str, inputs: Sequence[RuntimeValue]) -> str:
    """The first input that is left out though it must not be, or has a type the operator does not take; empty: none."""
    schema = find(op_type, opset, domain)
    bound: dict[str, tuple[str, Type]] = {}
    for index, value in enumerate(inputs):
        parameter, given = schema.input(index) if schema is not None else None, _type_of(value)
        if parameter is None:
            continue
        place = f"input {index} ({parameter.name})"
        if value is None and parameter.option != "optional":
            return f"{place} is left out; expected a value"
        if given is None:
            kind = _kind_of(value)
            if kind and parameter.types and not any(kind[0] in name for name in parameter.types):
                return f"{place} is {kind[1]}; expected {_listed(parameter.types)}"
            continue
        if not parameter.allows(given):
            return f"{place} is {given}; expected {_listed(parameter.types)}"
        if parameter.homogeneous and parameter.type_name in (schema.type_constraints if schema is not None else ()):
            first, other = bound.setdefault(parameter.type_name, (place, given))
            if other != given:
                return f"{first} is {other} and {place} {given}; expected the same type"
    return ""


def unforeseen(error: Exception, attributes: Mapping[str, Any]) -> str:
    """What to tell of an exception that a kernel did not mean to raise, where the signature explains nothing."""
    told = ", ".join(f"{name} {_brief(value)}" for name, value in attributes.items())
    with_ = f"inputs and attributes ({told})" if told else "inputs"
    kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
    return f"these {with_} do not go together: {kind}{error}"


def _brief(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)}"
    text = str(list(value) if isinstance(value, tuple) else value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _type_of(value: RuntimeValue) -> Type | None:
    """The type of a value without its shape; None where it tells none."""
    if isinstance(value, np.ndarray):
        return TensorType(ElementType.from_numpy(value.dtype))
    if isinstance(value, list) and value:
        element = _type_of(value[0])
        return None if element is None else SequenceType(element)
    return None


def _kind_of(value: RuntimeValue) -> tuple[str, str] | None:
    """How types are written that a value with no type of its own may have, and what to call it."""
    if isinstance(value, list):
        return "seq(", "a sequence"
    if isinstance(value, dict):
        return "map(", "a map"
    if isinstance(value, SparseArray):
        return "sparse_tensor(", "a sparse tensor"
    return None


def _listed(types: frozenset[str]) -> str:
    names = sorted((re.sub(r"tensor\((\w+)\)", r"\1", name) for name in types), key=lambda name: (len(name), name))
    if len(names) <= _LISTED:
        return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    return f"{', '.join(names[:_LISTED])} or others"
