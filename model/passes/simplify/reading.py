"""Reading attributes of nodes as plain numbers and texts."""

from __future__ import annotations

from typing import Any

from model.graph import Node


def plain(node: Node, name: str) -> Any:
    """The value of an attribute, None when the node does not have it."""
    attribute = node.attributes.get(name)
    return None if attribute is None else attribute.value


def number(node: Node, name: str, default: int) -> int:
    """An INT attribute."""
    value = plain(node, name)
    return value if isinstance(value, int) else default


def real(node: Node, name: str, default: float) -> float:
    """A FLOAT attribute."""
    value = plain(node, name)
    return float(value) if isinstance(value, (int, float)) else default


def ints(node: Node, name: str) -> tuple[int, ...] | None:
    """An INTS attribute, None when the node does not have it."""
    value = plain(node, name)
    return tuple(value) if isinstance(value, tuple) and all(isinstance(v, int) for v in value) else None


def text(node: Node, name: str, default: str) -> str:
    """A STRING attribute."""
    value = plain(node, name)
    return value if isinstance(value, str) else default
