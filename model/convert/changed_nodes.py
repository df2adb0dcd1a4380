"""Nodes whose meaning changes with the version of an opset import."""

from __future__ import annotations

from onnx_workbench.model import schemas
from onnx_workbench.model.convert.upgrade import UPWARD
from onnx_workbench.model.ir.graph import Function, Model, Node
from onnx_workbench.model.schemas import AttributeSchema, Parameter, Schema


def nodes_changed_by_opset(target: Model | Function, domain: str, version: int) -> list[Node]:
    """Return the nodes that another version of an imported domain defines differently, without calls of functions.

    A later version that only allows more types, inputs or attributes defines nothing differently.
    """
    current = target.opset_imports.get(domain)
    model = target if isinstance(target, Model) else target.model
    if current is None or current == version:
        return []
    if isinstance(target, Function):
        roots = [target.body]
    else:
        roots = [graph for graph in target.root_graphs() if not isinstance(graph.owner, Function)]
    local = set() if model is None else {function.key for function in model.functions}
    nodes = (node for root in roots for graph in root.walk() for node in graph.nodes)
    by_type: dict[str, list[Node]] = {}
    for node in nodes:
        if node.domain == domain and node.operator not in local:
            by_type.setdefault(node.op_type, []).append(node)
    return [node for op_type, found in by_type.items() if _differs(op_type, domain, current, version) for node in found]


def _differs(op_type: str, domain: str, old: int, new: int) -> bool:
    if not schemas.has_changed(op_type, domain, old, new):
        return False
    if domain or new < old:
        return True
    crossed = (version for version in schemas.versions(op_type) if old < version <= new)
    before, after = schemas.find(op_type, old), schemas.find(op_type, new)
    is_rewritten = any((op_type, version) in UPWARD for version in crossed)
    return is_rewritten or before is None or after is None or not _only_allows_more(before, after)


def _only_allows_more(old: Schema, new: Schema) -> bool:
    """Return whether every node of one version is valid in the other, with the same defaults."""
    pairs = (*zip(old.inputs, new.inputs, strict=False), *zip(old.outputs, new.outputs, strict=False))
    counts = len(old.inputs) <= len(new.inputs) and len(old.outputs) <= len(new.outputs)
    added = (*new.inputs[len(old.inputs) :], *new.outputs[len(old.outputs) :])
    return (
        counts
        and not new.deprecated
        and all(_accepts(*pair) for pair in pairs)
        and all(parameter.option == "optional" for parameter in added)
        and all(_keeps(formal, new.attributes.get(name)) for name, formal in old.attributes.items())
        and not any(formal.required for name, formal in new.attributes.items() if name not in old.attributes)
    )


def _accepts(old: Parameter, new: Parameter) -> bool:
    is_left_out = (old.option, new.option) == ("single", "optional")
    is_same = old.homogeneous == new.homogeneous and (old.option == new.option or is_left_out)
    return is_same and (not new.types or (bool(old.types) and old.types <= new.types))


def _keeps(old: AttributeSchema, new: AttributeSchema | None) -> bool:
    if new is None or (new.kind, new.required) != (old.kind, old.required):
        return False
    defaults = [None if formal.default is None else formal.default.value for formal in (old, new)]
    return bool(defaults[0] == defaults[1])
