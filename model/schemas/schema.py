"""Schema of one operator version: inputs, outputs, attributes, types and documentation."""

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

#: Type strings of a schema (``tensor(float)``) that match any type, as nothing is known about them.
ANY = frozenset[str]()
#: Largest number of inputs or outputs, where the last one is variadic.
UNLIMITED = 1 << 30


@dataclass(frozen=True, slots=True)
class Parameter:
    """A formal input or output. `type_name` is a type variable such as ``T`` or a type string; `types` its allowed
    types.
    """

    name: str
    type_name: str
    types: frozenset[str]
    option: Option = "single"
    homogeneous: bool = True  # variadic: all of one type
    min_arity: int = 1
    doc: str = ""

    def allows(self, type: Type) -> bool:
        """Return whether a value of this type is accepted; unknown element types are."""
        text = type_text(type)
        return not self.types or text is None or text in self.types


@dataclass(frozen=True, slots=True)
class AttributeSchema:
    """A formal attribute; `default` is None if there is none, `choices` its allowed strings or numbers."""

    name: str
    kind: AttributeKind
    required: bool = False
    default: Attribute | None = None
    doc: str = ""
    choices: tuple[str | int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Schema:
    """One version of an operator. `origin` is its source: ``onnx``, a document, or this program."""

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
    output_gaps: frozenset[int] = frozenset()  # invalid output counts between minimum and maximum
    origin: str = "onnx"
    is_signature_known: bool = True  # False: only the name is known, so nothing can be checked

    def input(self, index: int) -> Parameter | None:
        """Return the formal parameter of an actual input; the last one if it is variadic."""
        return _at(self.inputs, index)

    def output(self, index: int) -> Parameter | None:
        """Return the formal parameter of an actual output; the last one if it is variadic."""
        return _at(self.outputs, index)

    def types_by(self, index: int, output: Parameter) -> bool:
        """Return whether an input has the type of an output, by their type variable."""
        formal = self.input(index)
        return formal is not None and formal.type_name == output.type_name and formal.homogeneous

    def is_default(self, attribute: Attribute) -> bool:
        """Return whether an attribute equals its default, so that it could be left out."""
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
    """Format a type as schemas do (``seq(tensor(int64))``), without shapes or spaces; None if partly unknown."""
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
