"""Inputs of any size, made where the model runs, in slices and within one limit."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

from onnx_workbench.exec.inputs.feeds import HeldInput
from onnx_workbench.exec.inputs.recipe import MOST_SENT, Recipe, interface_of
from onnx_workbench.exec.inputs.sources import Constant, Random, Range, contradictions, make_feeds, sizes_of
from onnx_workbench.exec.session import Session
from onnx_workbench.exec.worker.client import WorkerSession
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.progress import Cancelled, Progress
from tests.exec.texts import parse

ROWS = (MOST_SENT // 4096) + 1


def recipe(model: Any, rows: int, **more: Any) -> Recipe:
    sources = {"x": Range(0, 1), "s": Constant(3)}
    return Recipe(interface_of(model.graph), sources, {"n": rows}, 0, None, more.pop("given", {}), "", **more)


def large_model() -> Any:
    return parse("g (float[n,1024] x, float[2] s) => (float[k] y) { y = ReduceMax <keepdims=0> (x) }")


@pytest.mark.long
def test_large_inputs_are_made_in_the_worker_and_stay_there() -> None:
    model = large_model()
    session = WorkerSession(model)
    try:
        tracemalloc.start()
        feeds = session.make_inputs(recipe(model, ROWS))
        assert session.run(feeds).values["y"] == ROWS * 1024 - 1
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert most < MOST_SENT // 4  # numpy tells tracemalloc of its arrays
        assert isinstance(feeds["x"], HeldInput)
        assert feeds["x"].shape == (ROWS, 1024)
        assert sizes_of(model.graph, feeds) == {"n": ROWS}
        assert contradictions(model.graph, feeds) == []
        assert feeds["s"].shape == (2,)

        session.close()  # another worker makes them again
        assert session.run(feeds).values["y"] == ROWS * 1024 - 1
    finally:
        session.close()
    assert Session(model).run(feeds).values["y"] == ROWS * 1024 - 1  # and so does any process that has to


@pytest.mark.long
def test_small_inputs_come_with_those_that_were_given() -> None:
    model = large_model()
    session = WorkerSession(model)
    try:
        given = {"s": np.array([1, 2], np.float32)}
        feeds = session.make_inputs(recipe(model, 2, given=given))
        assert feeds["s"] is given["s"]
        assert feeds["x"].shape == (2, 1024)
        assert feeds["x"][1, 1023] == 2047
    finally:
        session.close()


@pytest.mark.long
def test_what_is_held_must_be_of_the_declared_type() -> None:
    model, other = large_model(), parse("g (double[n,1024] x, float[2] s) => (double[k] y) { y = Neg(x) }")
    session = WorkerSession(model)
    try:
        feeds = session.make_inputs(recipe(model, ROWS))
        with pytest.raises(ModelError, match=r"float\[.*the model declares double"):
            Session(other).request(feeds)
    finally:
        session.close()


@pytest.mark.parametrize("source", [Random(), Random("normal", 0, 1), Range(), Constant(1), Constant([1] * 1024)])
def test_making_inputs_can_be_cancelled(source: Any) -> None:
    model, seen = large_model(), []

    def listen(done: float, total: float, text: str) -> None:
        seen.append(done)
        progress.cancel()

    progress = Progress(listen)
    with pytest.raises(Cancelled):
        make_feeds(model.graph, sources={"x": source}, sizes={"n": ROWS}, progress=progress)
    assert len(seen) == 1


@pytest.mark.long
def test_a_worker_that_makes_inputs_stops_when_it_is_reported_to() -> None:
    model = large_model()
    session = WorkerSession(model)
    try:
        progress = Progress(lambda *_: progress.cancel())
        with pytest.raises(Cancelled):
            session.make_inputs(recipe(model, 16 * ROWS), progress)
        assert session.make_inputs(recipe(model, 1))["x"].size == 1024
    finally:
        session.close()


def test_one_limit_holds_for_all_inputs_together() -> None:
    model = parse("g (int8[n] a, int8[n] b, string[n] s) => (int8[n] c) { c = Add(a, b) }")
    feeds = make_feeds(model.graph, sizes={"n": 100}, limit=3000)
    assert sum(map(len, feeds.values())) == 300
    with pytest.raises(ModelError, match=r"for 'b'.* \[600\], 600 bytes; 400 are left of what all inputs may take"):
        make_feeds(model.graph, sizes={"n": 600}, limit=1000)


@pytest.mark.parametrize("kind", ["float", "float16", "int64", "uint8", "complex64", "bool", "string"])
def test_numbers_do_not_depend_on_the_slices_they_are_made_in(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = parse(f"g ({kind}[n] x) => ({kind}[n] y) {{ y = Identity(x) }}")
    whole = make_feeds(model.graph, sizes={"n": 1000}, seed=5)["x"]
    monkeypatch.setattr("onnx_workbench.exec.inputs.generated._SLICE", 7)
    assert np.array_equal(make_feeds(model.graph, sizes={"n": 1000}, seed=5)["x"], whole)
