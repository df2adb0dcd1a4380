"""Schemas from the installed onnx package: one by one, or a list of all, which takes 0.1 s the first time."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Any

from onnx_workbench.model.ir.attributes import Attribute, AttributeKind
from onnx_workbench.model.schemas.attribute_choices import choices
from onnx_workbench.model.schemas.compiled_library import library
from onnx_workbench.model.schemas.schema import UNLIMITED, AttributeSchema, Option, Parameter, Schema

_MOST_FOUND = 1 << 14  # lookups that are remembered
_LINE_END = re.compile(r"\s*<br */?>\s*", re.IGNORECASE)


@cache
def versions() -> dict[tuple[str, str], tuple[int, ...]]:
    """Map (domain, operator) to the versions that changed it, oldest first."""
    found: dict[tuple[str, str], list[int]] = {}
    for schema in library().defs.get_all_schemas_with_history():
        found.setdefault((_domain(schema.domain), schema.name), []).append(schema.since_version)
    return {key: tuple(sorted(numbers)) for key, numbers in found.items()}


@cache
def newest_opsets() -> dict[str, int]:
    """Return the newest version of each domain that the package knows."""
    newest: dict[str, int] = {}
    for (domain, _), numbers in versions().items():
        newest[domain] = max(newest.get(domain, 1), numbers[-1])
    newest[""] = library().defs.schema_version_map()[""][1]
    return newest


@cache
def read(domain: str, name: str, since_version: int) -> Schema:
    """Return the schema of exactly this version."""
    return _convert(library().defs.get_schema(name, since_version, domain))


@lru_cache(_MOST_FOUND)
def find(domain: str, name: str, version: int) -> Schema | None:
    """Return the schema in force at a version; without listing all others."""
    defs = library().defs
    try:
        since: int = defs.get_schema(name, version, domain).since_version
    except (defs.SchemaError, TypeError):  # TypeError: a name that is no UTF-8, a version beyond 32 bits
        return None
    schema: Schema = read(domain, name, since)
    return schema


def _domain(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def _convert(raw: Any) -> Schema:
    types: dict[str, frozenset[str]] = {}
    return Schema(
        name=raw.name,
        domain=_domain(raw.domain),
        since_version=raw.since_version,
        inputs=tuple(_parameter(p, types) for p in raw.inputs),
        outputs=tuple(_parameter(p, types) for p in raw.outputs),
        attributes={
            name: _attribute(raw, a)
            for name, a in sorted(raw.attributes.items())
            if name != "consumed_inputs"  # a memory hint of opset 1 without meaning today
        },
        type_constraints={
            c.type_param_str: (frozenset(map(_without_spaces, c.allowed_type_strs)), c.description)
            for c in raw.type_constraints
        },
        doc=_text(raw.doc or ""),
        deprecated=raw.deprecated,
        deterministic=raw.node_determinism == raw.NodeDeterminism.Deterministic,
        has_function=raw.has_function or raw.has_context_dependent_function,
        category=_category(raw.file),
        min_inputs=raw.min_input,
        max_inputs=min(raw.max_input, UNLIMITED),
        min_outputs=raw.min_output,
        max_outputs=min(raw.max_output, UNLIMITED),
        output_gaps=_output_gaps(raw),
    )


def _text(doc: str) -> str:
    """Convert documentation to plain markdown: the package ends some lines with HTML tags."""
    doc = doc.strip()
    return _LINE_END.sub("  \n", doc) if "<" in doc else doc


def _output_gaps(raw: Any) -> frozenset[int]:
    """Return the invalid output counts between minimum and maximum, which the package's API lacks."""
    if raw.name != "BatchNormalization" or raw.domain:
        return frozenset()
    return frozenset(range(raw.min_output + 1, raw.max_output))


def _category(file: str) -> str:
    _, _, rest = file.replace("\\", "/").rpartition("defs/")
    return rest.partition("/")[0]


def _without_spaces(type_string: str) -> str:
    """Normalize ``map(int64, tensor(float))``, which is written with and without the space."""
    return type_string.replace(" ", "")


def _parameter(raw: Any, types: dict[str, frozenset[str]]) -> Parameter:
    """Convert a parameter; `types` are those of the parameters so far, by the name of their type."""
    options: dict[str, Option] = {"Single": "single", "Optional": "optional", "Variadic": "variadic"}
    name = raw.type_str
    if name not in types:
        types[name] = frozenset(map(_without_spaces, raw.types))
    return Parameter(
        name=raw.name,
        type_name=name,
        types=types[name],
        option=options[raw.option.name],
        homogeneous=raw.is_homogeneous,
        min_arity=raw.min_arity,
        doc=_text(raw.description),
    )


def _attribute(operator: Any, raw: Any) -> AttributeSchema:
    from onnx_workbench.model.io.protobuf import AttributeProto

    kind = AttributeKind[raw.type.name]
    return AttributeSchema(
        name=raw.name,
        kind=kind,
        required=raw.required,
        default=_default(AttributeProto.FromString(raw._default_value), kind),
        doc=_text(raw.description),
        choices=choices(operator.name, raw.name, operator.since_version),
    )


def _default(raw: Any, kind: AttributeKind) -> Attribute | None:
    """Convert the default value of a schema; never a tensor or a graph."""
    if raw.type == 0:
        return None
    value: Any
    match kind:
        case AttributeKind.FLOAT:
            value = raw.f
        case AttributeKind.INT:
            value = raw.i
        case AttributeKind.STRING:
            value = raw.s.decode()
        case AttributeKind.FLOATS:
            value = tuple(raw.floats)
        case AttributeKind.INTS:
            value = tuple(raw.ints)
        case AttributeKind.STRINGS:
            value = tuple(s.decode() for s in raw.strings)
        case _:
            return None
    return Attribute(raw.name, kind, value)
