"""Fields for types and denotations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from onnx_workbench.model.edits import values
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.ir.graph import Value
from onnx_workbench.model.ir.types import ElementType, Shape, TensorType, Type
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


def denotation_rows(value: Value) -> list[PropertyRow]:
    """Return rows for the denotations of a declared type and its dimensions (IMAGE, DATA_BATCH …)."""
    declared = value.type
    if declared is None:
        return []

    def set_denotation(edit: Transaction, text: str) -> None:
        values.set_type(edit, value, replace(declared, denotation=text.strip()))

    field = PropertyField(
        f"Set denotation of {name_of(value)}",
        lambda: declared.denotation,
        set_denotation,
        choices=lambda: [*map(Suggestion, ("TENSOR", "IMAGE", "AUDIO", "TEXT"))],
    )
    rows = [text_row("denotation", "Denotation", declared.denotation, field)]
    if isinstance(declared, TensorType) and declared.shape is not None and declared.shape.rank:
        rows.append(_dimension_row(value, declared, declared.shape))
    return rows


def _dimension_row(value: Value, declared: TensorType, shape: Shape) -> PropertyRow:
    """Return a row for the denotations of all dimensions, in order."""

    def apply(edit: Transaction, text: str) -> None:
        parts = tuple(part.strip() for part in text.split(",")) if text.strip() else ()
        if parts and len(parts) != shape.rank:
            raise ModelError(
                f"{len(parts)} denotations for {shape.rank} dimensions", "Write one per dimension; each may be empty."
            )
        values.set_type(edit, value, replace(declared, shape=replace(shape, denotations=parts)))

    written = ", ".join(shape.denotations)
    field = PropertyField(
        f"Set denotations of {name_of(value)}", lambda: written, apply, hint="DATA_BATCH, DATA_CHANNEL, …"
    )
    return text_row("denotations", "Dimension denotations", written, field)
