"""Operator traits: what an operator is, beyond the signature in its schema.

`find` returns the traits of an operator; `names` the operators of ai.onnx with a trait.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING

from onnx_workbench.model.schemas.traits.ai_onnx import AI_ONNX
from onnx_workbench.model.schemas.traits.ai_onnx_ml import AI_ONNX_ML, PREVIEW, TRAINING
from onnx_workbench.model.schemas.traits.definition import OperatorTraits
from onnx_workbench.model.schemas.traits.microsoft import MICROSOFT

if TYPE_CHECKING:
    from onnx_workbench.model.ir.graph import Node

#: Traits by domain and operator.
TABLES: Mapping[str, Mapping[str, OperatorTraits]] = {
    "": AI_ONNX,
    "ai.onnx.ml": AI_ONNX_ML,
    "ai.onnx.preview": PREVIEW,
    "ai.onnx.preview.training": TRAINING,
    "com.microsoft": MICROSOFT,
}

_UNKNOWN = OperatorTraits()


def find(op_type: str, domain: str = "") -> OperatorTraits:
    """Return the traits of an operator; an unknown one has none."""
    return TABLES.get(domain, {}).get(op_type, _UNKNOWN)


def of(node: Node) -> OperatorTraits:
    """Return the traits of a node's operator."""
    return find(node.op_type, node.domain)


def names(has: Callable[[OperatorTraits], object], domain: str = "") -> tuple[str, ...]:
    """Return the operators of a domain for which `has` is true, by name."""
    return tuple(name for name, traits in TABLES[domain].items() if has(traits))


@cache
def category(op_type: str, domain: str = "") -> str:
    """Return the category of an operator; that of its name in another domain where its own has none, else empty."""
    own = find(op_type, domain).category
    return own or next((table[op_type].category for table in TABLES.values() if op_type in table), "")


__all__ = ["TABLES", "OperatorTraits", "category", "find", "names", "of"]
