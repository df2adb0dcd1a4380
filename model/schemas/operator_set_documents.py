"""Schemas from an operator-set document (ONNXOPSET), which names operators and may define them as functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from onnx_workbench.model.ir.attributes import AttributeKind
from onnx_workbench.model.ir.graph import Function, Value
from onnx_workbench.model.schemas.schema import ANY, UNLIMITED, AttributeSchema, Parameter, Schema

if TYPE_CHECKING:
    from onnx_workbench.model.io.reader.read import OperatorSet


def schemas_of(document: OperatorSet) -> Iterator[Schema]:
    """Return a schema for each operator; one that no function defines has only a name."""
    functions = {function.name: function for function in document.functions}
    origin = document.domain or "ai.onnx"
    for operator in document.operators:
        function = functions.pop(operator.name, None)
        since = operator.since_version or document.version
        doc = operator.doc_string
        yield _schema(document.domain, operator.name, since, doc, function, origin)
    for name, function in functions.items():
        yield _schema(document.domain, name, document.version, function.doc_string, function, origin)


def _schema(domain: str, name: str, since: int, doc: str, function: Function | None, origin: str) -> Schema:
    domain = "" if domain == "ai.onnx" else domain
    if function is None:
        return Schema(
            name, domain, since, doc=doc, origin=origin, max_inputs=UNLIMITED, max_outputs=UNLIMITED,
            is_signature_known=False,
        )  # fmt: skip
    inputs, outputs = function.body.inputs, function.body.outputs
    return Schema(
        name,
        domain,
        since,
        inputs=_parameters(inputs),
        outputs=_parameters(outputs),
        attributes=_attributes(function),
        doc=doc or function.doc_string,
        has_function=True,
        min_inputs=len(inputs),
        max_inputs=len(inputs),
        min_outputs=1 if outputs else 0,
        max_outputs=len(outputs),
        origin=origin,
    )


def _parameters(values: Iterable[Value]) -> tuple[Parameter, ...]:
    return tuple(Parameter(value.name, "", ANY) for value in values)


def _attributes(function: Function) -> dict[str, AttributeSchema]:
    schemas = {name: AttributeSchema(name, AttributeKind.UNDEFINED, required=True) for name in function.attributes}
    for default in function.attribute_defaults:
        schemas[default.name] = AttributeSchema(default.name, default.kind, default=default)
    return schemas
