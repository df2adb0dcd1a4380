"""Type checks of inputs against operator signatures, and messages for operands that a kernel cannot use.

Kernels do not check: many would compute something from strings, complex numbers or mismatched types.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from onnx_workbench.exec.engine.stored_weights import StoredWeight
from onnx_workbench.exec.errors import KernelError, MissingKernelError
from onnx_workbench.exec.kernels.registry import find as kernel_of
from onnx_workbench.exec.values.arrays import RuntimeValue, SparseArray
from onnx_workbench.exec.values.numpy_errors import in_plain_words
from onnx_workbench.exec.values.statistics import describe
from onnx_workbench.model.ir.attributes import AttributeKind
from onnx_workbench.model.ir.types import ElementType, OptionalType, SequenceType, TensorType, Type
from onnx_workbench.model.schemas.registry import find, versions
from onnx_workbench.model.schemas.schema import Schema

#: Type of a value as far as signatures distinguish it: dtype of a tensor, kinds of the items of a sequence, or a class.
Kind = np.dtype[Any] | tuple["Kind", ...] | type[Any]

#: Number of types that a message lists.
_LISTED = 8

#: Characters of each attribute value in a message.
_LONGEST = 60


def check_types(op_type: str, opset: int, domain: str, inputs: Sequence[RuntimeValue]) -> None:
    """Raise KernelError unless some version of the operator accepts inputs of these types.

    Real files use types that an operator accepts only in a later version, and other programs compute them. So any
    version counts, but the message names the types of the version in use.
    """
    kinds = tuple([value.dtype if type(value) is np.ndarray else kind_of(value) for value in inputs])
    problem = _refusal(op_type, opset, domain, kinds)
    if problem:
        raise KernelError(problem)


def kind_of(value: RuntimeValue) -> Kind:
    """Return the kind of a value. Cost: 0.05 µs for a tensor."""
    if type(value) is np.ndarray:
        dtype: np.dtype[Any] = value.dtype
        return dtype
    if isinstance(value, list):
        return tuple(dict.fromkeys(map(kind_of, value)))
    return (isinstance(value, StoredWeight) and value.dtype) or type(value)


@lru_cache(4096)
def _refusal(op_type: str, opset: int, domain: str, kinds: tuple[Kind, ...]) -> str:
    """Return why no version of an operator accepts inputs of these kinds, by the version in use; empty if one does."""
    own = find(op_type, opset, domain)
    if own is None:
        return ""
    types = [_type_of(kind) for kind in kinds]
    problem = _type_misfit(own, types)
    if not problem:  # listing the versions of all operators takes longer than many runs
        return ""
    others = (find(op_type, version, domain) for version in versions(op_type, domain))
    takes = (s is not None and len(types) <= s.max_inputs and not _type_misfit(s, types) for s in others)
    return "" if any(takes) else problem


def signature_misfit(op_type: str, opset: int, domain: str, inputs: Sequence[RuntimeValue]) -> str:
    """Describe the first input that is required but omitted, or whose type the operator does not accept; else empty."""
    schema = find(op_type, opset, domain)
    if schema is None:
        return ""
    for index, value in enumerate(inputs):
        parameter = schema.input(index)
        if value is None and parameter is not None and parameter.option != "optional":
            return f"input {index} ({parameter.name}) is left out; expected a value"
    return _type_misfit(schema, [_type_of(kind_of(value)) for value in inputs])


def _type_misfit(schema: Schema, given: Sequence[Type | str | None]) -> str:
    """Describe the first input whose type is not accepted, or differs from that of an input it must match; or empty."""
    bound: dict[str, tuple[str, Type]] = {}
    for index, found in enumerate(given):
        parameter = schema.input(index)
        if parameter is None or found is None or not parameter.types:
            continue
        where = f"input {index} ({parameter.name})"
        if isinstance(found, str):
            if not any(name.removeprefix("optional(").startswith(_WRITTEN[found]) for name in parameter.types):
                return f"{where} is {found}; expected {_listed(parameter.types)}"
            continue
        if not (parameter.allows(found) or parameter.allows(OptionalType(found))):
            return f"{where} is {found}; expected {_listed(parameter.types)}"
        if parameter.homogeneous and parameter.type_name in schema.type_constraints:
            first, other = bound.setdefault(parameter.type_name, (where, found))
            if other != found:
                return f"{first} is {other} and {where} {found}; expected the same type"
    return ""


def expected_inputs(op_type: str, opset: int, domain: str) -> str:
    """Describe the inputs of an operator with their types, for an error message; empty if unknown."""
    schema = find(op_type, opset, domain)
    if schema is None:
        return _expected_by_kernel(op_type, opset, domain)
    if not schema.inputs:
        attributes = [f"{name} ({a.kind.name})" for name, a in schema.attributes.items()]
        return f"; expected attributes {', '.join(attributes)}" if attributes else ""
    expected = [f"{p.name} of {_listed(p.types)}" if p.types else p.name for p in schema.inputs]
    return f"; expected {'; '.join(expected)}"


def _expected_by_kernel(op_type: str, opset: int, domain: str) -> str:
    """Describe the inputs of an operator without a specification by its kernel's parameters, which take numbers."""
    try:
        entry = kernel_of(op_type, opset, domain)
    except MissingKernelError:
        return ""
    expected = [f"{name} of numbers" for name in entry.inputs[: entry.required_inputs]]
    expected += [f"{name} of numbers or none" for name in entry.inputs[entry.required_inputs :]]
    return f"; expected {'; '.join(expected)}" if expected else ""


def attribute_misfit(op_type: str, opset: int, domain: str, name: str, kind: AttributeKind) -> str:
    """Return why no version of an operator accepts an attribute of a kind; empty if one does or the name is unknown.

    An integer is accepted for a float.
    """
    own = find(op_type, opset, domain)
    formal = own.attributes.get(name) if own is not None else None
    if formal is None or formal.kind is kind:  # reading the schemas of other versions takes longer than many kernels
        return ""
    schemas = (find(op_type, version, domain) for version in versions(op_type, domain))
    kinds = {formal.kind, *(s.attributes[name].kind for s in schemas if s is not None and name in s.attributes)}
    if kind in kinds or (kind is AttributeKind.INT and AttributeKind.FLOAT in kinds):
        return ""
    return f"attribute {name!r} is {kind.name}; expected {formal.kind.name}"


def unforeseen(error: Exception, attributes: Mapping[str, Any]) -> str:
    """Describe an unexpected exception of a kernel whose inputs match the signature."""
    listed = ", ".join(f"{name} {_brief(value)}" for name, value in attributes.items())
    with_ = f"inputs and attributes ({listed})" if listed else "inputs"
    meaning = in_plain_words(error)
    return f"these {with_} are incompatible{': ' if meaning else ''}{meaning}"


def _brief(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return str(describe(value))
    text = str(list(value) if isinstance(value, tuple) else value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


#: Prefixes in signatures for values whose type is only described. Sparse tensors are accepted as dense ones.
_WRITTEN: dict[str, str | tuple[str, ...]] = {
    "a sequence": "seq(",
    "a sequence of several types": (),
    "a map": "map(",
    "a sparse tensor": ("sparse_tensor(", "tensor("),
}


def _type_of(kind: Kind) -> Type | str | None:
    """Return the type of values of a kind without its shape, else a description; None if it is unknown."""
    if isinstance(kind, np.dtype):
        return TensorType(ElementType.from_numpy(kind))
    if isinstance(kind, tuple):
        if len(kind) > 1:
            return "a sequence of several types"
        element = _type_of(kind[0]) if kind else None
        return "a sequence" if element is None or isinstance(element, str) else SequenceType(element)
    if kind is dict:
        return "a map"
    return "a sparse tensor" if kind is SparseArray else None


def _listed(types: frozenset[str]) -> str:
    names = sorted((re.sub(r"tensor\((\w+)\)", r"\1", name) for name in types), key=lambda name: (len(name), name))
    if len(names) <= _LISTED:
        return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    return f"{', '.join(names[:_LISTED])} or others"
