"""A model that nobody uses is freed without a collection."""

import gc

import pytest

from onnx_workbench.model.ir.graph import Node, Value
from onnx_workbench.model.ir.unlink import unlink
from tests.model import builders


def alive(ids):
    return [found for found in gc.get_objects() if isinstance(found, (Node, Value)) and found.id in ids]


@pytest.mark.parametrize("text", [builders.CHAIN, builders.BRANCHES])
def test_an_unlinked_model_is_freed_by_reference_counts(text):
    model = builders.model(text, trained=True)
    graphs = list(model.graphs())
    ids = {found.id for graph in graphs for found in (*graph.nodes, *graph.values())}
    del graphs
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        assert len(alive(ids)) == len(ids) > 8
        steps = sum(1 for _ in unlink(model))
        del model
        assert alive(ids) == []
    finally:
        if was_enabled:
            gc.enable()
    assert steps >= len(ids) // 2  # so that the window is not held up
