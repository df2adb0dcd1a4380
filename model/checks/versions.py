"""Check the declared IR version against the features that the model uses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onnx_workbench.model.checks.problem import Fix, Problem, warning
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.history.steps import SetField
from onnx_workbench.model.ir.graph import Function, Graph, Model
from onnx_workbench.model.ir.types import ElementType

#: The IR version that introduced a feature, its description, and its location.
Feature = tuple[int, str, Any]

#: The IR version that introduced an element type.
TYPE_SINCE = {
    ElementType.BFLOAT16: 4, ElementType.FLOAT8E4M3FN: 9, ElementType.FLOAT8E4M3FNUZ: 9, ElementType.FLOAT8E5M2: 9,
    ElementType.FLOAT8E5M2FNUZ: 9, ElementType.UINT4: 10, ElementType.INT4: 10, ElementType.FLOAT4E2M1: 11,
    ElementType.FLOAT8E8M0: 12, ElementType.UINT2: 13, ElementType.INT2: 13,
    ElementType.FLOAT6E2M3: 14, ElementType.FLOAT6E3M2: 14,
}  # fmt: skip


def check_contents(model: Model) -> Iterator[Problem]:
    """Report features newer than the declared IR version, which readers of that version ignore. Cheap."""
    for since, what in dict.fromkeys((since, what) for since, what, _ in features_of_model(model)):
        if 1 <= model.ir_version < since:
            yield warning(
                "ir-version-contents",
                f"The model has {what}",
                model,
                f"They require IR version {since}; the model has {model.ir_version}.",
                raise_ir_version(since),
            )


def least_ir_version(model: Model) -> int:
    """Return the lowest IR version that has all features the model uses; at least 4, which made initializers
    independent of inputs.
    """
    return max((4, *(since for since, _, _ in features_of_model(model))))


def raise_ir_version(version: int) -> Fix:
    """Return the fix that declares another IR version, unless a later one is declared by then."""

    def apply(edit: Transaction) -> None:
        edit.do(SetField(edit.model, "ir_version", max(version, edit.model.ir_version)))

    return Fix(f"Set the IR version to {version}", apply)


def features_of_model(model: Model) -> Iterator[Feature]:
    """Yield the features, not in every IR version, of a model, its functions and its main graph as such. Cheap."""
    if model.opset_imports:
        yield 3, "imports of operator sets", model
    if model.graph.quantization_annotations:
        yield 5, "quantization annotations", model.graph
    for training in model.training_info:
        yield 7, "training graphs", training
    for function in model.functions:
        yield 8, "functions", function
        if function.attribute_defaults:
            yield 9, "defaults of functions' attributes", function
        if function.overload:
            yield 10, "overloads of functions", function
        if function.body.declared:
            yield 10, "declared types in functions", function
    owners: tuple[Graph | Function, ...] = (model.graph, *model.functions)
    for owner in owners:
        if owner.metadata:
            yield 10, "metadata of graphs or functions", owner
    if model.configurations:
        yield 11, "device configurations", model
