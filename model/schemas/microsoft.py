"""Schemas of com.microsoft operators, from resources/operators-com-microsoft.json (without documentation)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from onnx_workbench.model.ir.attributes import AttributeKind, make_attribute
from onnx_workbench.model.schemas.attribute_choices import choices
from onnx_workbench.model.schemas.schema import UNLIMITED, AttributeSchema, Parameter, Schema

DOMAIN = "com.microsoft"
_SINCE = 1


@cache
def names() -> frozenset[str]:
    """Return the names of all operators of the domain."""
    return frozenset(_entries())


@cache
def read(name: str) -> Schema:
    """Return the schema of one of these."""
    return _schema(name, _entries()[name])


@cache
def _entries() -> Mapping[str, Any]:
    """Read the resource file, which is small; making schemas of all entries takes twice as long."""
    entries: Mapping[str, Any] = json.loads(
        (files("onnx_workbench.resources") / "operators-com-microsoft.json").read_text("utf-8")
    )
    return entries


def _schema(name: str, entry: dict[str, Any]) -> Schema:
    constraints = {key: frozenset(types) for key, types in entry.get("types", {}).items()}
    inputs = tuple(_parameter(p, constraints) for p in entry.get("inputs", ()))
    outputs = tuple(_parameter(p, constraints) for p in entry.get("outputs", ()))
    return Schema(
        name=name,
        domain=DOMAIN,
        since_version=_SINCE,
        inputs=inputs,
        outputs=outputs,
        attributes={key: _attribute(name, key, *a) for key, a in entry.get("attributes", {}).items()},
        type_constraints={key: (types, "") for key, types in constraints.items()},
        category="microsoft",
        min_inputs=_fewest(inputs),
        max_inputs=_most(inputs),
        min_outputs=_fewest(outputs),
        max_outputs=_most(outputs),
        origin="com.microsoft",
    )


def _parameter(parts: list[Any], constraints: Mapping[str, frozenset[str]]) -> Parameter:
    name, type_name, *rest = parts
    return Parameter(
        name=name,
        type_name=type_name,
        types=constraints.get(type_name, frozenset({type_name})),
        option=rest[0] if rest else "single",
        homogeneous="heterogeneous" not in rest,
    )


def _attribute(op_type: str, name: str, kind: str, required: bool, default: Any = None) -> AttributeSchema:
    attribute_kind = AttributeKind[kind]
    return AttributeSchema(
        name=name,
        kind=attribute_kind,
        required=required,
        default=None if default is None else make_attribute(name, default, attribute_kind),
        choices=choices(op_type, name, _SINCE),
    )


def _fewest(parameters: tuple[Parameter, ...]) -> int:
    """Return the minimum number of arguments: up to the last that is not optional."""
    return max((i for i, p in enumerate(parameters, 1) if p.option != "optional"), default=0)


def _most(parameters: tuple[Parameter, ...]) -> int:
    return UNLIMITED if parameters and parameters[-1].option == "variadic" else len(parameters)
