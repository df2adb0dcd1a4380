"""What an operator looks like: inputs, outputs, attributes, types and documentation of one version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from onnx_workbench.model.ir.attributes import Attribute, AttributeKind
from onnx_workbench.model.ir.types import (
    ElementType,
    MapType,
    OpaqueType,
    OptionalType,
    SequenceType,
    SparseTensorType,
    TensorType,
    Type,
)

Option = Literal["single", "optional", "variadic"]

#: Type strings of a signature (``tensor(float)``) that match any type: nothing is known about them.
ANY = frozenset[str]()


@dataclass(frozen=True, slots=True)
class Parameter:
    """A formal input or output. `type_name` is a constraint such as ``T`` or a type string; `types` what it allows."""

    name: str
    type_name: str
    types: frozenset[str]
    option: Option = "single"
    homogeneous: bool = True  # variadic: all of one type
    min_arity: int = 1
    doc: str = ""

    def allows(self, type: Type) -> bool:
        """Whether a value of this type may stand here; unknown element types may."""
        text = type_text(type)
        return not self.types or text is None or text in self.types


@dataclass(frozen=True, slots=True)
class AttributeSchema:
    """A formal attribute; `default` is None when there is none, `choices` the strings or numbers it may be."""

    name: str
    kind: AttributeKind
    required: bool = False
    default: Attribute | None = None
    doc: str = ""
    choices: tuple[str | int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Schema:
    """One version of an operator. `origin` says whose word it is: ``onnx``, a document, or this program."""

    name: str
    domain: str
    since_version: int
    inputs: tuple[Parameter, ...] = ()
    outputs: tuple[Parameter, ...] = ()
    attributes: Mapping[str, AttributeSchema] = field(default_factory=dict)
    type_constraints: Mapping[str, tuple[frozenset[str], str]] = field(default_factory=dict)  # types, doc
    doc: str = ""
    deprecated: bool = False
    deterministic: bool = True
    has_function: bool = False
    category: str = ""  # the specification's folder: math, nn, tensor …
    min_inputs: int = 0
    max_inputs: int = 0
    min_outputs: int = 0
    max_outputs: int = 0
    output_gaps: frozenset[int] = frozenset()  # numbers of outputs between least and most that are refused all the same
    origin: str = "onnx"
    is_signature_known: bool = True  # False: only the name is, so nothing can be checked

    def input(self, index: int) -> Parameter | None:
        """The formal parameter of an actual input; the last one when it is variadic."""
        return _at(self.inputs, index)

    def output(self, index: int) -> Parameter | None:
        """The formal parameter of an actual output; the last one when it is variadic."""
        return _at(self.outputs, index)

    def is_default(self, attribute: Attribute) -> bool:
        """Whether an attribute says no more than leaving it out would."""
        schema = self.attributes.get(attribute.name)
        if schema is None or schema.default is None or attribute.reference:
            return False
        return schema.default.kind == attribute.kind and schema.default.value == attribute.value

    def __str__(self) -> str:
        return f"{self.domain or 'ai.onnx'}::{self.name}-{self.since_version}"


def _at(parameters: tuple[Parameter, ...], index: int) -> Parameter | None:
    if index < len(parameters):
        return parameters[index]
    if parameters and parameters[-1].option == "variadic":
        return parameters[-1]
    return None


def type_text(type: Type | None) -> str | None:
    """A type as signatures write it (``seq(tensor(int64))``), no shapes or spaces; None when partly unknown."""
    match type:
        case TensorType() | SparseTensorType():
            if not isinstance(type.element_type, ElementType) or type.element_type is ElementType.UNDEFINED:
                return None
            return f"{'tensor' if isinstance(type, TensorType) else 'sparse_tensor'}({type.element_type.text})"
        case SequenceType() | OptionalType():
            inner = type_text(type.element)
            return None if inner is None else f"{'seq' if isinstance(type, SequenceType) else 'optional'}({inner})"
        case MapType():
            value = type_text(type.value)
            if value is None or not isinstance(type.key_type, ElementType):
                return None
            return f"map({type.key_type.text},{value})"
        case OpaqueType():
            return f"opaque({type.domain},{type.name})"
        case None:
            return None
