"""Schema registry: lookup by domain, operator and version.

Sources are the onnx package, the program's table of com.microsoft operators, and operator-set documents (ONNXOPSET
files) that the user opened.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping

from onnx_workbench.model.schemas import microsoft, onnx_package
from onnx_workbench.model.schemas.schema import Schema

#: By domain and name, then by version. Among several documents with an operator the last one opened wins.
_registered: dict[tuple[str, str], dict[int, tuple[Schema, ...]]] = {}


def preload() -> None:
    """Import what lookups need. Any thread."""
    onnx_package.versions()
    onnx_package.newest_opsets()


def is_loaded() -> bool:
    """Return whether a lookup is cheap enough for the GUI thread."""
    return onnx_package.versions.cache_info().currsize > 0


def find(op_type: str, version: int, domain: str = "") -> Schema | None:
    """Return the schema of an operator at a version of its domain, None if it is unknown there.

    A dictionary lookup after the first time. Deprecated operators are found; see Schema.deprecated.
    """
    if domain != microsoft.DOMAIN and (domain, op_type) not in _registered:
        found: Schema | None = onnx_package.find(domain, op_type, version)
        return found
    have = versions(op_type, domain)
    index = bisect_right(have, version)
    if not index:
        return None
    return _exact(op_type, have[index - 1], domain)


def has_changed(op_type: str, domain: str, old: int, new: int) -> bool:
    """Return whether two versions of a domain define an operator differently, or only one of them has it."""
    a, b = find(op_type, old, domain), find(op_type, new, domain)
    return (a and a.since_version) != (b and b.since_version)


def versions(op_type: str, domain: str = "") -> tuple[int, ...]:
    """Return the versions of a domain that changed an operator, oldest first; empty for unknown operators."""
    documents = _registered.get((domain, op_type))
    if documents:
        return tuple(sorted(documents))
    if domain == microsoft.DOMAIN:
        return (1,) if op_type in microsoft.names() else ()
    return onnx_package.versions().get((domain, op_type), ())


def _exact(op_type: str, since: int, domain: str) -> Schema:
    documents = _registered.get((domain, op_type))
    if documents:
        return documents[since][-1]
    if domain == microsoft.DOMAIN:
        return microsoft.read(op_type)
    schema: Schema = onnx_package.read(domain, op_type, since)
    return schema


def operators(imports: Mapping[str, int], *, deprecated: bool = False) -> list[Schema]:
    """List the operators usable under these opset imports, sorted by name."""
    usable = []
    for domain, name in {*onnx_package.versions(), *_registered, *((microsoft.DOMAIN, n) for n in microsoft.names())}:
        version = imports.get(domain)
        schema = None if version is None else find(name, version, domain)
        if schema is not None and (deprecated or not schema.deprecated):
            usable.append(schema)
    return sorted(usable, key=lambda s: (s.name.lower(), s.domain))


def newest_opset(domain: str = "") -> int:
    """Return the newest known version of a domain; 1 for unknown domains."""
    documents = [since for (d, _), by_version in list(_registered.items()) if d == domain for since in by_version]
    return max([onnx_package.newest_opsets().get(domain, 1), *documents])


def register(schemas: Iterable[Schema]) -> None:
    """Register the operators of an operator-set document. They override built-in ones of the same name."""
    for schema in schemas:
        key, since = (schema.domain, schema.name), schema.since_version
        by_version = _registered.get(key, {})
        _registered[key] = by_version | {since: (*by_version.get(since, ()), schema)}


def unregister(schemas: Iterable[Schema]) -> None:
    """Undo `register`, when the document is closed."""
    for schema in schemas:
        key, since = (schema.domain, schema.name), schema.since_version
        by_version = dict(_registered.get(key, {}))
        left = tuple(other for other in by_version.pop(since, ()) if other is not schema)
        if left:
            by_version[since] = left
        if by_version:
            _registered[key] = by_version
        else:
            _registered.pop(key, None)
