"""The memory limit of a run: what it counts, weights read on demand, values freed after their last use."""

from __future__ import annotations

import gc
import sys
import weakref
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto

from onnx_workbench.exec.inputs.recipe import Recipe, interface_of
from onnx_workbench.exec.kernels.shared.scratch import working_bytes
from onnx_workbench.exec.results.node_table import State
from onnx_workbench.exec.session import Session
from onnx_workbench.exec.worker.client import WorkerSession
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.ir.graph import Model
from tests.exec.texts import parse

_SIZE = 160
_WEIGHT = 4 * _SIZE * _SIZE
X = np.linspace(-1, 1, 4 * _SIZE, dtype=np.float32).reshape(4, _SIZE)


def stored_model(folder: Path, nodes: str, weights: int) -> Model:
    """A model of x [4, n] with weights w0, w1 … of [n, n], all in a file of external data."""
    text = f'<ir_version: 9, opset_import: ["" : 18]> g (float[4, {_SIZE}] x) => (float[4, {_SIZE}] y) {{ {nodes} }}'
    model = onnx.parser.parse_model(text)
    random = np.random.default_rng(0)
    with (folder / "weights").open("wb") as file:
        for index in range(weights):
            tensor = TensorProto(name=f"w{index}", data_type=1, dims=[_SIZE, _SIZE], data_location=1)
            entries = {"location": "weights", "offset": str(file.tell()), "length": str(_WEIGHT)}
            for key, value in entries.items():
                tensor.external_data.add(key=key, value=value)
            model.graph.initializer.append(tensor)
            file.write((random.standard_normal((_SIZE, _SIZE)) / _SIZE**0.5).astype(np.float32).tobytes())
    onnx.save(model, folder / "m.onnx")
    return load(folder / "m.onnx")


def chain(count: int) -> str:
    names = ["x", *(f"v{i}" for i in range(1, count)), "y"]
    return " ".join(f"{b} = MatMul({a}, w{i})" for i, (a, b) in enumerate(pairwise(names)))


def assert_same_values(result: Any, expected: Any) -> None:
    assert result.failures == []
    assert result.ok
    for name in expected.values:
        np.testing.assert_allclose(result.values[name], expected.values[name], rtol=1e-5, atol=1e-6)


def test_a_session_is_freed_without_the_garbage_collector(tmp_path: Path) -> None:
    gc.collect()
    gc.disable()
    try:
        session = Session(Document(stored_model(tmp_path, chain(3), 3)))
        session.run({"x": X})
        library = weakref.ref(session.engine.library)
        del session
        assert library() is None
    finally:
        gc.enable()


def test_weights_over_the_limit_are_read_and_freed_per_node(tmp_path: Path) -> None:
    model = stored_model(tmp_path, chain(12), 12)
    limit = 4 * _WEIGHT
    session = Session(model, memory_limit=limit)
    for _ in range(2):
        result = session.run({"x": X}, fresh=True)
        assert_same_values(result, Session(model).run({"x": X}))
        assert 0 < result.memory.weights <= 2 * _WEIGHT
        assert result.memory.limit == limit
        assert result.memory.weights + result.memory.inputs + result.peak_bytes <= limit
    np.testing.assert_array_equal(result.values["w3"], model.graph.initializers[3].initializer.numpy())
    assert session.engine.library.weight_bytes < _WEIGHT  # what was looked at is not kept either


def test_what_nodes_make_of_stored_weights_is_made_when_it_is_needed(tmp_path: Path) -> None:
    transposed = " ".join(f"t{i} = Transpose(w{i})" for i in range(8))
    model = stored_model(tmp_path, f"{transposed} {chain(8).replace(', w', ', t')}", 8)
    result = Session(model, memory_limit=4 * _WEIGHT, keep="outputs").run({"x": X})
    np.testing.assert_allclose(result.values["y"], Session(model).run({"x": X}).values["y"], rtol=1e-5, atol=1e-6)
    assert result.peak_bytes < 3 * _WEIGHT  # of the eight transposed weights
    assert_same_values(Session(model, memory_limit=4 * _WEIGHT).run({"x": X}), Session(model).run({"x": X}))


def test_bodies_read_stored_weights_from_around_them(tmp_path: Path) -> None:
    nodes = f"""
        c = Constant <value = bool {{1}}> ()
        y = If (c) <
            then_branch = a () => (float[4, {_SIZE}] p) {{ q = MatMul(x, w0) p = MatMul(q, w1) }},
            else_branch = b () => (float[4, {_SIZE}] r) {{ r = MatMul(x, w2) }}
        >"""
    model = stored_model(tmp_path, nodes, 4)
    result = Session(model, memory_limit=3 * _WEIGHT).run({"x": X})
    assert_same_values(result, Session(model).run({"x": X}))
    assert result.memory.weights <= 2 * _WEIGHT


def test_weights_are_held_again_once_the_limit_allows_it(tmp_path: Path) -> None:
    model = stored_model(tmp_path, chain(6), 6)
    session = Session(model)
    expected = Session(model).run({"x": X})
    for limit, is_held in ((None, True), (3 * _WEIGHT, False), (64 * _WEIGHT, True)):
        assert_same_values(session.run({"x": X}, memory_limit=limit, fresh=True), expected)
        assert (session.engine.library.weight_bytes >= 6 * _WEIGHT) == is_held


@pytest.mark.long
def test_the_worker_reads_stored_weights_too(tmp_path: Path) -> None:
    model = stored_model(tmp_path, chain(6), 6)
    session = WorkerSession(model)
    try:
        result = session.run({"x": X}, memory_limit=3 * _WEIGHT)
        assert_same_values(result, Session(model).run({"x": X}))
        assert result.memory.weights <= 2 * _WEIGHT
    finally:
        session.close()


def test_a_weight_that_does_not_fit_is_reported_with_its_node(tmp_path: Path) -> None:
    model = stored_model(tmp_path, chain(3), 3)
    failure = Session(model, memory_limit=_WEIGHT // 2).run({"x": X}).failures[0]
    assert failure.operator == "MatMul"
    assert f"its weight needs {_WEIGHT:,} bytes, over the memory limit of {_WEIGHT // 2:,} bytes" in str(failure)


_VALUES = "g (float[100, 100] x) => (float[100, 100] y) { a = Exp(x) b = Neg(a) c = Abs(b) d = Sqrt(c) y = Log(d) }"
_VALUE = np.full((100, 100), 2.0, np.float32)  # 40,000 bytes


def test_inputs_that_exceed_the_limit_are_refused() -> None:
    session = Session(parse(_VALUES))
    with pytest.raises(ModelError, match=r"They have 40,000 bytes, over the memory limit of 30,000 bytes"):
        session.run({"x": _VALUE}, memory_limit=30_000)
    assert session.run({"x": _VALUE}).ok


@pytest.mark.long
@pytest.mark.parametrize("make_session", [Session, WorkerSession])
def test_inputs_are_made_within_the_memory_limit_of_the_session(make_session: Any) -> None:
    model = parse(_VALUES)
    recipe = Recipe(interface_of(model.graph), {}, {}, 0, None, {}, None)
    session = make_session(model)
    try:
        assert session.make_inputs(recipe)["x"].shape == (100, 100)
        session.memory_limit = 30_000
        with pytest.raises(ModelError, match=r"30,000 are left of what all inputs may take"):
            session.make_inputs(replace(recipe, key="another"))
    finally:
        if isinstance(session, WorkerSession):
            session.close()


def test_values_make_room_for_those_to_come() -> None:
    session = Session(parse(_VALUES), memory_limit=130_000)
    result = session.run({"x": _VALUE})
    assert result.ok
    assert result.peak_bytes + result.memory.inputs <= 130_000 + _VALUE.nbytes
    np.testing.assert_allclose(result.values["y"], _VALUE / 2, rtol=1e-6)
    np.testing.assert_allclose(result.values["a"], np.exp(_VALUE), rtol=1e-6)  # computed again


def test_a_result_over_the_limit_fails_and_says_its_size() -> None:
    text = "g (float[100, 100] x, int64[2] s) => (float[M, N] y) { a = Exp(x) b = Expand(a, s) y = Neg(b) }"
    small = np.zeros((1, 100), np.float32)
    feeds = {"x": small, "s": np.array([1000, 100])}
    result = Session(parse(text)).run(feeds, memory_limit=200_000)
    assert [failure.operator for failure in result.failures] == ["Expand"]
    assert "float[1000,100] needs 400,000 bytes, over the memory limit of 200,000 bytes" in str(result.failures[0])
    assert Session(parse(text)).run(feeds, memory_limit=2_000_000).ok


def test_a_result_nobody_asked_for_is_freed_when_over_the_limit() -> None:
    text = "g (float[100, 100] x) => (float[100, 100] y) { a = Exp(x) b = Neg(a) y = Add(a, b) }"
    result = Session(parse(text)).run({"x": _VALUE}, memory_limit=90_000)
    assert {node.title: node.state for node in result.nodes}["Neg"] is State.FAILED
    assert "over the memory limit of 90,000 bytes" in str(result.failures[0])


def test_values_of_earlier_runs_make_room_for_a_new_one() -> None:
    session = Session(parse(_VALUES), memory_limit=300_000)
    for scale in range(1, 5):
        result = session.run({"x": _VALUE * scale})
        assert result.ok
        np.testing.assert_allclose(result.values["y"], _VALUE * scale / 2, rtol=1e-5)


@pytest.mark.parametrize(("keep", "kept"), [("outputs", {"x", "y"}), (["b"], {"x", "b", "y"})])
def test_values_that_are_not_kept_are_freed_after_their_last_use(keep: Any, kept: set[str]) -> None:
    result = Session(parse(_VALUES), keep=keep).run({"x": _VALUE})
    assert {name for name in ("x", "a", "b", "c", "d", "y") if result.info(name) is not None} == kept
    assert result.peak_bytes <= 3 * _VALUE.nbytes
    assert result.why_missing("c").endswith("was run, but the run did not keep this value")
    np.testing.assert_allclose(result.values["y"], _VALUE / 2, rtol=1e-6)


def test_buffers_of_kernels_count_and_are_freed_near_the_limit() -> None:
    """They came on top of the limit, and were reported nowhere."""
    text = "g (float[1, 8, 200, 200] x) => (float[1, 8, 200, 200] y) { y = Conv <pads = [1, 1, 1, 1]> (x, x1) }"
    text = text.replace("x) =>", "x, float[8, 8, 3, 3] x1) =>")
    feeds = {"x": np.ones((1, 8, 200, 200), np.float32), "x1": np.ones((8, 8, 3, 3), np.float32)}
    working_bytes(0)
    roomy = Session(parse(text)).run(feeds, memory_limit=64 << 20)
    buffers = roomy.memory.buffers
    assert 100_000 < buffers <= working_bytes(sys.maxsize)
    kept = feeds["x"].nbytes + roomy.peak_bytes
    failed = Session(parse(text)).run(feeds, memory_limit=kept + buffers // 2)
    assert [failure.operator for failure in failed.failures] == ["Conv"]
    assert "over the memory limit" in str(failed.failures[0])
    assert failed.memory.buffers < buffers  # what other runs left was freed
    assert Session(parse(text)).run(feeds, memory_limit=kept + 2 * buffers + 10_000).ok
