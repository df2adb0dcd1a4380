"""Text form of operators: ``Relu``, ``com.acme::Foo``, ``com.acme.Foo``."""

from __future__ import annotations

from collections.abc import Collection

from onnx_workbench.model.errors import ModelError


def parse_operator(text: str, domains: Collection[str]) -> tuple[str, str]:
    """Parse type and domain of an operator; the domain is empty for ai.onnx and where none is given.

    A dot separates them like ``::`` if the part before it is in `domains` (the known ones) or contains a dot.
    ModelError for an invalid name.
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
        raise ModelError("An operator name cannot contain spaces", "Write Operator or domain::Operator.")
    return op_type, "" if domain == "ai.onnx" else domain
