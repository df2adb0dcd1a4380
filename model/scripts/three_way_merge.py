"""Three-way merge of lists and mappings that a script replaces as a whole: only the edit's own changes are applied."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from onnx_workbench.model import schemas
from onnx_workbench.model.history.references import References
from onnx_workbench.model.history.step_codec import KINDS, encode
from onnx_workbench.model.history.steps import SetField, SetGraphInputs, SetGraphOutputs, SetInputs, Step
from onnx_workbench.model.ir.graph import Graph, Node

_MERGED = frozenset({
    "opset_imports", "metadata", "functions", "training_info", "configurations", "declared", "quantization_annotations",
    "attributes", "attribute_defaults", "initialization_binding", "update_binding",
})  # fmt: skip
_WAS = "was"


def noted(step: Step, references: References) -> dict[str, Any]:
    """Encode a step that is about to be applied, together with the list or mapping it replaces."""
    before = _unchanged(step)
    was = {} if before is None else {_WAS: encode(before, references)["to"]}
    return {**encode(step, references), **was}


def adapted(entry: Mapping[str, Any], references: References) -> Mapping[str, Any]:
    """Merge an entry of `noted` into the current model: its additional items stay, items it lacks are not added."""
    if _WAS not in entry:
        return entry
    step = _step_of(entry, references)
    before = None if step is None else _unchanged(step)
    now = None if before is None else encode(before, references)["to"]
    if now is None or now == entry[_WAS]:
        return entry
    merge = _merged_table if isinstance(now, dict) else _merged_wires if isinstance(step, SetInputs) else _merged_list
    return {**entry, "to": merge(entry[_WAS], entry["to"], now)}


def _unchanged(step: Step) -> Step | None:
    """Return the step that sets the same list or mapping to its current value; None for other steps."""
    match step:
        case SetGraphInputs(graph=graph):
            return SetGraphInputs(graph, graph.inputs)
        case SetGraphOutputs(graph=graph):
            return SetGraphOutputs(graph, graph.outputs)
        case SetInputs(node=node) if _takes_any_number(node):
            return SetInputs(node, node.inputs)
        case SetField(target=target, field=field) if field in _MERGED:
            return SetField(target, field, getattr(target, field))
    return None


def _takes_any_number(node: Node) -> bool:
    """Return whether the inputs of a node are variadic."""
    version = node.graph.opset_imports.get(node.domain) if node.graph is not None else None
    schema = None if version is None else schemas.find(node.op_type, version, node.domain)
    return schema is not None and bool(schema.inputs) and schema.inputs[-1].option == "variadic"


def _step_of(entry: Mapping[str, Any], references: References) -> Step | None:
    """Return a step that sets the same field as an entry, to be given to `_unchanged`; None for an invalid entry."""
    match entry["do"]:
        case "set graph inputs":
            return SetGraphInputs(references.find(entry["graph"], Graph), ())
        case "set graph outputs":
            return SetGraphOutputs(references.find(entry["graph"], Graph), ())
        case "set inputs":
            return SetInputs(references.find(entry["node"], Node), ())
    kind = next((k for k in KINDS if k in entry), None)
    return (
        None
        if kind is None
        else SetField(references.find(entry[kind], KINDS[kind]), str(entry["do"]).removeprefix("set "), None)
    )


def _merged_table(was: dict[str, Any], to: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in now.items() if key in to or key not in was}
    return kept | {key: value for key, value in to.items() if key not in was or was[key] != value}


def _merged_list(was: list[Any], to: list[Any], now: list[Any]) -> list[Any]:
    """Merge in the order of the edit; items that only the model has stay behind their predecessors."""
    old, held = ({_key(item) for item in items} for items in (was, now))
    merged = {key: item for item in to if (key := _key(item)) in held or key not in old}
    following: dict[str | None, list[Any]] = {}
    anchor = None
    for item in now:
        key = _key(item)
        if key in merged:
            anchor = key
        elif key not in old:
            following.setdefault(anchor, []).append(item)
    result = following.get(None, [])
    for key, item in merged.items():
        result += [item, *following.get(key, ())]
    return result


def _merged_wires(was: list[Any], to: list[Any], now: list[Any]) -> list[Any]:
    """Merge the inputs of a node, which may hold one value several times."""
    return [item for item, _ in _merged_list(_numbered(was), _numbered(to), _numbered(now))]


def _numbered(items: list[Any]) -> list[Any]:
    """Pair each item with its number of earlier occurrences."""
    seen: Counter[str] = Counter()
    result = []
    for item in items:
        result.append([item, seen[_key(item)]])
        seen[_key(item)] += 1
    return result


def _key(item: Any) -> str:
    return json.dumps(item, sort_keys=True)
