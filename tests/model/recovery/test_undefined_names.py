"""Journals of models with very many names that nothing defines."""

from __future__ import annotations

from onnx import helper

from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.recovery.object_ids import BaseIds


def test_each_undefined_name_has_an_id_that_is_found_again() -> None:
    names = [f"u{i}" for i in range(40_000)]  # minutes, were each searched for among the inputs
    graph = helper.make_graph([helper.make_node("Sum", [*names, *names], ["y"])], "g", [], [])
    model = load(helper.make_model(graph).SerializeToString())
    ids = BaseIds(model)
    node = next(iter(model.graph.nodes))
    assert all(value is not None and value.id in ids for value in node.inputs)
