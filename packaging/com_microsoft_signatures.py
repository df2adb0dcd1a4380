"""Writes resources/operators-com-microsoft.json: the signatures of com.microsoft operators.

Run by hand when ONNX Runtime adds operators: python packaging/com_microsoft_signatures.py
Needs the onnxruntime package, which lists the operators it knows; names, types and defaults are taken, no texts.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
from onnxruntime.capi import onnxruntime_pybind11_state as state

TARGET = Path(__file__).parents[1] / "resources" / "operators-com-microsoft.json"


def main() -> None:
    """Collect and write, sorted and one operator a line, so that a newer list shows as a readable difference."""
    lines = [
        f"{json.dumps(raw.name)}: {json.dumps(_describe(raw), separators=(',', ':'))}"
        for raw in sorted(state.get_all_operator_schema(), key=lambda s: str(s.name))
        if raw.domain == "com.microsoft" and not raw.deprecated
    ]
    TARGET.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")
    print(f"{len(lines)} operators")


def _describe(raw: Any) -> dict[str, Any]:
    entry = {
        "inputs": [_parameter(p) for p in raw.inputs],
        "outputs": [_parameter(p) for p in raw.outputs],
        "types": {c.type_param_str: sorted(c.allowed_type_strs) for c in raw.type_constraints},
        "attributes": {name: _attribute(a) for name, a in sorted(raw.attributes.items())},
    }
    return {key: value for key, value in entry.items() if value}


def _parameter(raw: Any) -> list[Any]:
    """Name, type, and what differs from a single required parameter."""
    option = str(raw.option).rpartition(".")[2].lower()
    parts = [raw.name, raw.typeStr]
    if option != "single":
        parts.append(option)
    if option == "variadic" and not raw.isHomogeneous:
        parts.append("heterogeneous")
    return parts


def _attribute(raw: Any) -> list[Any]:
    kind = str(raw.type).rpartition(".")[2]
    default = raw._default_value
    value = onnx.helper.get_attribute_value(onnx.AttributeProto.FromString(default)) if default else None
    if isinstance(value, bytes):
        value = value.decode()
    return [kind, bool(raw.required), value] if value is not None else [kind, bool(raw.required)]


if __name__ == "__main__":
    main()
