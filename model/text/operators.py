"""Text form of operators: ``Relu``, ``com.acme::Foo``, ``com.acme.Foo``."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from onnx_workbench.model import schemas
from onnx_workbench.model.errors import ModelError

if TYPE_CHECKING:
    from onnx_workbench.model.ir.graph import Node


def parse_operator(text: str, domains: Collection[str]) -> tuple[str, str]:
    """Parse type and domain of an operator; the domain is empty for ai.onnx and where none is given.

    A dot parts them like ``::`` where what is before it is one of `domains` (those that are known) or has a dot itself.
    ModelError when the text cannot be a name.
    """
    text = text.strip()
    domain, mark, op_type = text.rpartition("::")
    if not mark:
        before, _, after = text.rpartition(".")
        domain, op_type = (before, after) if before in domains or "." in before else ("", text)
    domain, op_type = domain.strip(), op_type.strip()
    if not op_type:
        raise ModelError("The name of the operator is missing", "Write Operator or domain::Operator.")
    if not op_type.isprintable() or any(character.isspace() for character in op_type + domain):
        raise ModelError("The name of an operator has no blanks", "Write Operator or domain::Operator.")
    return op_type, "" if domain == "ai.onnx" else domain


def operator_for(node: Node, text: str) -> tuple[str, str]:
    """Parse the operator that a node is to become. Without a domain: the node's own, else the first that defines it."""
    graph = node.graph
    assert graph is not None
    imports, functions = graph.opset_imports, () if graph.model is None else graph.model.functions
    op_type, domain = parse_operator(text, {*imports, *(f.domain for f in functions)})
    if domain or op_type != text.strip():
        return op_type, domain
    known = {f.domain for f in functions if f.name == op_type}
    candidates = (node.domain, "", *known, *imports)
    found = (d for d in candidates if d in known or schemas.find(op_type, imports.get(d, 1), d) is not None)
    return op_type, next(found, node.domain)
