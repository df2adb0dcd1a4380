"""Fields for types and denotations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from onnx_workbench.model.edits import values
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.ir.graph import Value
from onnx_workbench.model.ir.types import ElementType, TensorType, Type
from onnx_workbench.model.text.types import parse_type, type_source
from onnx_workbench.viewer.inspector.common import name_of, text_row
from onnx_workbench.viewer.property_tree.rows import PropertyField, PropertyRow, Suggestion


def suggest_types(typed: str) -> Sequence[Suggestion]:
    """Suggest element types with the typed prefix, and the dimensions typed so far."""
    head, bracket, rest = typed.partition("[")
    return [
        Suggestion(f"{e.text}{bracket}{rest}" if bracket else e.text)
        for e in ElementType
        if e and e.text.startswith(head.strip().lower())
    ]


def type_field(title: str, declared: Type | None, apply: Callable[[Transaction, Type | None], object]) -> PropertyField:
    """Return a field for a type in text form; empty for none."""

    def set_from_text(edit: Transaction, text: str) -> None:
        apply(edit, parse_type(text) if text.strip() else None)

    return PropertyField(
        title,
        lambda: "" if declared is None else type_source(declared),
        set_from_text,
        suggest=suggest_types,
        mono=True,
        hint="float[batch,3,224,224]",
    )


def value_type_field(value: Value) -> PropertyField:
    """Return a field for the declared type of a value."""
    return type_field(
        f"Set type of {name_of(value)}",
        value.type,
        lambda edit, new: values.set_type(edit, value, with_denotations(new, value.type)),
    )


def with_denotations(new: Type | None, old: Type | None) -> Type | None:
    """Copy denotations, which the text form lacks, from the old type where they still apply."""
    if not isinstance(new, TensorType) or not isinstance(old, TensorType):
        return new
    shape = new.shape
    if shape is not None and old.shape is not None and shape.rank == old.shape.rank:
        shape = replace(shape, denotations=old.shape.denotations)
    return replace(new, shape=shape, denotation=old.denotation)


def denotation_row(value: Value) -> list[PropertyRow]:
    """Return a row for the denotations of a declared type and its dimensions (IMAGE, DATA_BATCH …), if it has any."""
    declared = value.type
    shape = declared.shape if isinstance(declared, TensorType) else None
    texts = [] if declared is None else [declared.denotation, ", ".join(() if shape is None else shape.denotations)]
    return [text_row("denotation", "Denotation", " · ".join(filter(None, texts)))] if any(texts) else []
