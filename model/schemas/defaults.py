"""Values of a node's attributes, with the defaults of the operator version's schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onnx_workbench.model.schemas.registry import find

if TYPE_CHECKING:
    from onnx_workbench.model.ir.graph import Node
    from onnx_workbench.model.schemas.schema import Schema


def schema_of(node: Node) -> Schema | None:
    """Return the schema of a node's operator under the imports of its graph; None if unknown."""
    imports = {} if node.graph is None else node.graph.opset_imports
    return find(node.op_type, imports.get(node.domain, 1), node.domain)


def attribute(node: Node, name: str) -> Any:
    """Return the value of an attribute or its default; None without either, and for what a function's call gives."""
    own = node.attributes.get(name)
    return default(node, name) if own is None else None if own.reference else own.value


def default(node: Node, name: str) -> Any:
    """Return the default of an attribute in the version of the operator that the node has; None without one."""
    schema = schema_of(node)
    formal = None if schema is None else schema.attributes.get(name)
    return None if formal is None or formal.default is None else formal.default.value
