"""Shapes of very many dimensions: what works on them costs no more than on those of a real model."""

from __future__ import annotations

import pytest
from onnx import ModelProto, TensorProto, helper

from onnx_workbench.model.checks import check_model
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.steps import SetField
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.writer.save import to_bytes
from onnx_workbench.model.ir.tensors import element_count
from onnx_workbench.model.ir.types import MOST_DIMENSIONS, TensorType

_MANY = 100_000


@pytest.fixture
def many() -> ModelProto:
    """An initializer, a sparse one and an input of 100,000 dimensions each."""
    model = helper.make_model(helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", [], []))
    graph = model.graph
    graph.initializer.add(name="w", data_type=TensorProto.FLOAT, dims=[1 << 40] * _MANY)
    sparse = graph.sparse_initializer.add(dims=[1 << 62] * _MANY)
    sparse.values.CopyFrom(TensorProto(name="s", data_type=TensorProto.FLOAT, dims=[1], float_data=[1.0]))
    sparse.indices.CopyFrom(TensorProto(name="i", data_type=TensorProto.INT64, dims=[1], int64_data=[0]))
    graph.input.add(name="x").type.tensor_type.elem_type = TensorProto.FLOAT
    for _ in range(_MANY):
        graph.input[0].type.tensor_type.shape.dim.add(dim_value=1 << 40)
    return model


def test_only_the_first_dimensions_are_read_and_the_check_says_so(many: ModelProto) -> None:
    model = load(many.SerializeToString())
    weights = {value.name: value.initializer for value in model.graph.initializers}
    kind = model.graph.inputs[0].type
    assert isinstance(kind, TensorType)
    assert kind.shape is not None
    assert kind.shape.rank == len(weights["w"].shape) == len(weights["s"].shape) == MOST_DIMENSIONS
    found = {(str(getattr(p.place, "name", "")), p.rule): p.detail for p in check_model(model)}
    assert "100,000 dimensions" in found["w", "tensor"]
    assert "dimensions" in found["s", "tensor"]
    assert "1,024" in found["x", "value-type"]


def test_all_dimensions_are_saved(many: ModelProto) -> None:
    model = load(many.SerializeToString())
    document = Document(model)
    with document.edit("Rename") as edit:
        for value in (*model.graph.inputs, *model.graph.initializers):
            edit.do(SetField(value, "name", f"{value.name}2"))
    saved = ModelProto.FromString(to_bytes(model)).graph
    assert saved.input[0].name == "x2"
    assert len(saved.input[0].type.tensor_type.shape.dim) == _MANY
    assert len(saved.initializer[0].dims) == len(saved.sparse_initializer[0].dims) == _MANY


def test_elements_are_counted_without_huge_numbers() -> None:
    assert element_count([2, 3]) == 6
    assert element_count([1 << 62] * _MANY + [0]) == 0
    assert element_count([5, -1]) == 0
    assert 1 << 128 <= element_count([1 << 62] * _MANY) < 1 << 200
