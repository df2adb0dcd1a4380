"""parallel_for: every index once, errors and limits reach where they belong, nesting stays on one thread."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator

import numpy as np
import pytest

from onnx_workbench.exec.kernels.shared.products import product
from onnx_workbench.exec.kernels.shared.weights import Panels, pays
from onnx_workbench.exec.kernels.threads import WORTH, parallel_for, set_threads, threads, usable_cores
from onnx_workbench.exec.values.limits import Limits, current_limits, set_limits


@pytest.fixture(params=[1, 3])
def count(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr("onnx_workbench.exec.kernels.threads.WORTH", 1)
    set_threads(request.param)
    yield request.param
    set_threads(1)


def test_every_index_is_done_once(count: int) -> None:
    done: list[int] = []
    parallel_for(done.append, 100)
    assert sorted(done) == list(range(100))
    parallel_for(done.append, 0)
    assert len(done) == 100


def test_the_first_error_is_raised_and_ends_the_rest(count: int) -> None:
    done: list[int] = []

    def task(index: int) -> None:
        if index == 5:
            raise LookupError(index)
        done.append(index)

    with pytest.raises(LookupError, match="5"):
        parallel_for(task, 10_000)
    assert len(done) < 10_000
    parallel_for(done.append, 3)  # the pool is as good as before


def test_limits_and_error_state_hold_in_every_task(count: int) -> None:
    seen: list[tuple[int | None, str]] = []
    set_limits(Limits(max_bytes=123))
    try:
        with np.errstate(over="raise"):
            parallel_for(lambda _: seen.append((current_limits().max_bytes, np.geterr()["over"])), 20)
    finally:
        set_limits(None)
    assert set(seen) == {(123, "raise")}


def test_a_task_that_asks_for_more_threads_gets_one(count: int) -> None:
    inner: list[tuple[int, int]] = []
    workers = set()

    def task(index: int) -> None:
        workers.add(threading.get_ident())
        here = threading.get_ident()
        parallel_for(lambda i: inner.append((index, int(threading.get_ident() == here))), 4)
        assert threads() == 1

    parallel_for(task, 8)
    assert len(inner) == 32
    assert all(same for _, same in inner)
    assert len(workers) <= count
    assert threads() == count


@pytest.mark.parametrize("shape", [(40, 300), (2, 20, 300), (1, 3, 17, 300)])
def test_products_cut_for_threads_are_the_same(count: int, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal(shape, np.float32), rng.standard_normal((300, 1031), np.float32)
    assert pays(x, w)
    expected = x.astype(np.float64) @ w
    np.testing.assert_allclose(Panels(w).product(x), expected, atol=1e-4)
    np.testing.assert_allclose(product(x, w), expected, atol=1e-4)


def test_stacks_of_products_cut_for_threads_are_the_same(count: int) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((1, 7, 90, 200), np.float32), rng.standard_normal((3, 1, 200, 150), np.float32)
    np.testing.assert_allclose(product(a, b), a.astype(np.float64) @ b, atol=1e-4)


def test_helpers_do_not_keep_what_they_worked_on(count: int) -> None:
    class Function:
        def __call__(self, index: int) -> None:
            if index < count:  # every thread takes part
                barrier.wait(10)

    barrier = threading.Barrier(count)
    function = Function()
    gone = weakref.ref(function)
    parallel_for(function, 8)
    del function
    for _ in range(200):
        if gone() is None:
            break
        threading.Event().wait(0.01)
    assert gone() is None


@pytest.mark.skipif(not hasattr(os, "getloadavg"), reason="the system does not tell how busy it is")
def test_a_run_takes_the_cores_it_is_allowed_unless_others_use_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (0.1, 0.1, 0.1))
    assert [usable_cores(allowed) for allowed in (1, 2, 4, 6, 12, 64)] == [1, 2, 4, 4, 6, 8]
    monkeypatch.setattr(os, "getloadavg", lambda: (1.9, 0.1, 0.1))
    assert [usable_cores(allowed) for allowed in (2, 4)] == [1, 4]


def test_what_is_over_before_another_thread_wakes_stays_on_one() -> None:
    set_threads(2)
    try:
        assert threads(WORTH - 1) == 1
        assert threads(WORTH) == 2
        workers = set()
        parallel_for(lambda _: workers.add(threading.get_ident()), 100, WORTH - 1)
        assert workers == {threading.get_ident()}
    finally:
        set_threads(1)


@pytest.mark.long
def test_blas_works_on_one_thread_during_a_run() -> None:
    script = """
import numpy, threadpoolctl
from onnx_workbench.exec.session import Session
from onnx_workbench.model.history.steps import InsertNode, SetGraphInputs, SetGraphOutputs
from onnx_workbench.model.ir.graph import Graph, Model, Node, Value
from onnx_workbench.model.ir.types import ElementType, TensorType
graph = Graph()
a, b = Value("a", TensorType(ElementType.from_numpy(numpy.dtype("f"))), graph), Value("b", None, graph)
SetGraphInputs(graph, (a,)).apply()
InsertNode(graph, Node("MatMul", (a, a), (b,))).apply()
SetGraphOutputs(graph, (b,)).apply()
Session(Model(graph, opset=20)).run({"a": numpy.ones((8, 8), "f")}).raise_for_failure()
print([i["num_threads"] for i in threadpoolctl.threadpool_info() if i["user_api"] == "blas"])
"""
    environment = {
        **os.environ,
        "OPENBLAS_NUM_THREADS": "2",
        "MKL_NUM_THREADS": "2",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    report = subprocess.run(
        [sys.executable, "-c", script], env=environment, check=True, capture_output=True, text=True
    ).stdout.strip()
    if report == "[]":
        pytest.skip("the number of threads of this BLAS cannot be read")
    assert set(ast.literal_eval(report)) == {1}
