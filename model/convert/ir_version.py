"""Set the IR version, and find features that need a newer one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onnx_workbench.model.checks.versions import TYPE_SINCE, Feature, features_of_model
from onnx_workbench.model.convert.report import ConversionReport
from onnx_workbench.model.edits.properties import set_ir_version
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.ir.graph import Graph, Model
from onnx_workbench.model.ir.tensors import SparseTensor, Tensor
from onnx_workbench.model.ir.types import ElementType, OptionalType, SparseTensorType, TensorType


def claim_ir_version(edit: Transaction, version: int) -> ConversionReport:
    """Declare an IR version. Nothing is converted: the report warns of each kind of newer feature."""
    report = ConversionReport()
    model, before = edit.model, edit.model.ir_version
    set_ir_version(edit, version)
    if before != version:
        report.changed(f"the IR version is {version} instead of {before}", model)
    places: dict[tuple[int, str], Any] = {}
    for since, what, place in features(model):
        if since > version:
            places.setdefault((since, what), place)
    for (since, what), place in sorted(places.items(), key=lambda item: item[0]):
        report.warn(f"The model has {what}, which requires IR version {since}", place)
    return report


def features(model: Model) -> Iterator[Feature]:
    """Return the features that not every IR version has. Reads no tensor data; linear in the size of the model."""
    yield from features_of_model(model)
    for value in model.graph.initializers:
        if not value.is_input:
            yield 4, "initializers that are not inputs", value
    for graph in model.graphs():
        yield from _features_of(graph)


def _features_of(graph: Graph) -> Iterator[Feature]:
    if graph.quantization_annotations:
        yield 5, "quantization annotations", graph
    if graph.metadata:
        yield 10, "metadata of graphs or functions", graph
    for item in (*graph.nodes, *graph.values()):
        if item.metadata:
            yield 10, "metadata of nodes and values", item
    for node in graph.nodes:
        if node.device_configurations:
            yield 11, "device configurations", node
    for value in graph.values():
        if isinstance(value.initializer, SparseTensor):
            yield 6, "sparse initializers", value
        if isinstance(value.type, (SparseTensorType, OptionalType)):
            yield 8, "values of sparse or optional types", value
        holder = value.type if value.initializer is None else value.initializer
        kind = holder.element_type if isinstance(holder, (Tensor, SparseTensor, TensorType, SparseTensorType)) else None
        if isinstance(kind, ElementType) and kind in TYPE_SINCE:
            yield TYPE_SINCE[kind], f"values of type {kind.text}", value
