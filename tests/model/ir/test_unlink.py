"""A model that nobody uses is freed without a collection."""

import gc
from contextlib import closing, contextmanager

import pytest

from onnx_workbench.model.edits.nodes import duplicate
from onnx_workbench.model.history.working_copy import WorkingCopy
from onnx_workbench.model.ir.graph import Node, Value
from onnx_workbench.model.ir.unlink import unlink
from tests.model import builders


def alive(ids):
    return [found for found in gc.get_objects() if isinstance(found, (Node, Value)) and found.id in ids]


def ids_in(model):
    return {found.id for graph in model.graphs() for found in (*graph.nodes, *graph.values())}


@contextmanager
def without_collections():
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@pytest.mark.long
@pytest.mark.parametrize("text", [builders.CHAIN, builders.BRANCHES])
def test_an_unlinked_model_is_freed_by_reference_counts(text):
    model = builders.model(text, trained=True)
    ids = ids_in(model)
    with without_collections():
        assert len(alive(ids)) == len(ids) > 8
        steps = sum(1 for _ in unlink(model))
        del model
        assert alive(ids) == []
    assert steps >= len(ids) // 2  # so that the window is not blocked


@pytest.mark.long
def test_a_closed_working_copy_is_freed_with_its_history():
    model = builders.model(builders.BRANCHES)
    before = set(map(id, alive(ids_in(model))))
    with without_collections():
        with closing(WorkingCopy(model)) as copy:
            for _ in range(2):
                with copy.document.edit("Duplicate") as edit:
                    duplicate(edit, list(copy.document.model.graph.nodes)[:2])
            ids = ids_in(copy.document.model)
            assert len(alive(ids)) > len(before)
        del copy, edit
        assert set(map(id, alive(ids))) <= before
