"""Nodes of very many inputs and outputs."""

from __future__ import annotations

import pytest
from onnx import helper

from onnx_workbench.model.checks import check_model
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.reader.read import load


def _sum_of(count: int) -> bytes:
    node = helper.make_node("Sum", [f"u{i}" for i in range(count)], ["y"], name="sum")
    return helper.make_model(helper.make_graph([node], "g", [], [])).SerializeToString()


def test_a_node_of_more_inputs_than_any_real_one_is_refused_by_name() -> None:
    with pytest.raises(ModelError, match="too many inputs") as refused:
        load(_sum_of(100_001))
    assert "'Sum'" in refused.value.detail
    assert "node[0]" in str(refused.value.place)


def test_so_is_a_graph_of_very_many_inputs() -> None:
    graph = helper.make_graph([], "many", [], [])
    for number in range(100_001):
        graph.input.add(name=f"x{number}")
    with pytest.raises(ModelError, match="graph has too many") as refused:
        load(helper.make_model(graph).SerializeToString())
    assert "'many'" in refused.value.detail


def test_so_is_one_of_very_many_attributes() -> None:
    node = helper.make_node("Neg", ["x"], ["y"], **{f"a{i}": i for i in range(2_001)})
    with pytest.raises(ModelError, match="attributes") as refused:
        load(helper.make_model(helper.make_graph([node], "g", [], [])).SerializeToString())
    assert "2,001 attributes" in refused.value.detail


def test_so_is_a_model_of_very_many_operator_sets() -> None:
    imports = [helper.make_opsetid(f"d{i}", 1) for i in range(2_001)]
    model = helper.make_model(helper.make_graph([], "g", [], []), opset_imports=imports)
    with pytest.raises(ModelError, match="operator sets") as refused:
        load(model.SerializeToString())
    assert "2,001" in refused.value.detail


def test_many_undefined_inputs_are_named_up_to_a_limit() -> None:
    found = [p.message for p in check_model(load(_sum_of(1_000))) if p.rule == "undefined-value"]
    assert len(found) == 101
    assert "u0," in found[0]
    assert "900 more" in found[-1]
