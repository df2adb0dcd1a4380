"""Values that bodies have in other iterations than the last."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from onnx_workbench.exec.results.run_result import RunResult
from onnx_workbench.exec.results.slot_map import LoopKey
from onnx_workbench.exec.session import Session
from onnx_workbench.exec.worker.client import WorkerSession
from onnx_workbench.model.ir.graph import Model
from onnx_workbench.model.progress import Cancelled, Progress
from tests.exec.texts import node, parse

NESTED = """g (float x, int64 n) => (float y) <bool yes = {1}, int64 one = {1}, float two = {2}> {
  y = Loop(n, yes, x) <body = outer (int64 i, bool k, float v) => (bool j, float w) {
    j = Identity(k)
    m = Add(i, one)
    d = Mul(v, two)
    u = Loop(m, k, d) <body = inner (int64 a, bool b, float c) => (bool e, float f) {
      e = Identity(b)
      f = Add(c, two)
    }>
    w = Neg(u)
  }>
}"""

FEEDS = {"x": np.float32(1), "n": np.int64(4)}


def loop(model: Model, output: str) -> LoopKey:
    return (), node(model, output).id


def of(result: RunResult, model: Model, *names: str) -> list[float]:
    values = {v.name: v for graph in model.graphs() for v in graph.values()}
    return [float(result.value(values[name])) for name in names]


def by_hand(outer: int, inner: int) -> list[float]:
    """The values d, f and w of iteration `outer`, f in iteration `inner` of the inner loop."""
    w = 1.0
    for i in range(outer + 1):
        d = 2 * w
        w = -(d + 2 * (i + 1))
    return [d, d + 2 * (inner + 1), w]


def test_values_in_each_iteration_are_those_it_had() -> None:
    model = parse(NESTED)
    result = Session(model).run(FEEDS)
    outer, inner = loop(model, "y"), loop(model, "u")
    assert dict(result.iterations) == {outer: 4, inner: 4}
    assert of(result, model, "d", "f", "w") == by_hand(3, 3)
    for i in range(4):
        one = result.in_iterations({outer: i})
        assert of(one, model, "d", "f", "w") == by_hand(i, i), "the inner loop is in its last iteration"
        assert dict(one.iterations) == {outer: 4, inner: i + 1}, "the inner loop has others in each of the outer one"
        for j in range(i + 1):
            both = result.in_iterations({outer: i, inner: j})
            assert of(both, model, "d", "f", "w") == by_hand(i, j)
            assert dict(both.iterations) == {outer: 4, inner: i + 1}
    assert of(result.in_iterations({outer: 1, inner: 7}), model, "f") == by_hand(1, 1)[1:2], "its last is taken"
    assert of(result.in_iterations({inner: 1}), model, "d", "f", "w") == by_hand(3, 1)
    assert of(result, model, "d", "f", "w") == by_hand(3, 3), "the result itself stays"
    assert of(result.in_iterations({outer: 0}), model, "y") == of(result, model, "y")


BRANCHES = """g (float[N] x) => (float s, float[M] z) <float zero = {0}> {
  s, z = Scan<num_scan_inputs = 1, body = add (float t, float e) => (float u, float r) {
    big = Greater(e, t)
    u = If(big) <
      then_branch = yes () => (float p) { p = Add(t, e) }, else_branch = no () => (float q) { q = Sub(t, e) }
    >
    r = RandomUniformLike(u)
  }>(zero, x)
}"""


def test_an_iteration_keeps_its_branch_and_its_random_numbers() -> None:
    model = parse(BRANCHES)
    result = Session(model).run({"x": np.array([1, 0.5, 3], np.float32)}, seed=3)
    stacked = result.outputs["z"]
    scan = loop(model, "z")
    values = {v.name: v for graph in model.graphs() for v in graph.values()}
    for i, (taken, other, number) in enumerate([("p", "q", 1.0), ("q", "p", 0.5), ("p", "q", 3.5)]):
        one = result.in_iterations({scan: i})
        assert of(one, model, taken, "u", "r") == [number, number, float(stacked[i])]
        assert one.info(values[other]) is None


CALLS = """g (float x) => (float a, float b) { a = local.repeat(x) b = local.repeat(a) }
<domain: "local", opset_import: ["" : 21]> repeat (x) => (y) {
  n = Constant <value_int = 3> ()
  y = Loop(n, , x) <body = b (int64 i, bool k, float v) => (bool j, float w) { j = Identity(k) w = Add(v, v) }>
}"""


def test_each_call_of_a_function_has_its_own_iterations() -> None:
    model = parse(CALLS, header='ir_version: 10, opset_import: ["" : 21, "local" : 1]')
    result = Session(model).run({"x": np.float32(1)})
    calls = [((node(model, name).id,), node(model, "y").id) for name in "ab"]
    assert dict(result.iterations) == dict.fromkeys(calls, 3)
    one = result.in_iterations({calls[1]: 0})
    values = {v.name: v for graph in model.graphs() for v in graph.values()}
    assert [float(one.value(values["w"], path)) for path, _ in calls] == [8.0, 16.0]


FAILING = """g (float[2] x) => (float[2] y) <int64 n = {5}, bool yes = {1}, int64[3] s = {2, 2, 9}, int64[1] z = {0}> {
  y = Loop(n, yes, x) <body = b (int64 i, bool k, float[2] v) => (bool j, float[2] w) {
    j = Identity(k)
    d = Gather(s, i)
    e = Unsqueeze(d, z)
    u = Add(v, v)
    w = Reshape(u, e)
  }>
}"""


def test_iterations_before_a_failure_are_there() -> None:
    model = parse(FAILING)
    result = Session(model).run({"x": np.ones(2, np.float32)})
    where = loop(model, "y")
    assert len(result.failures) == 1
    assert result.iterations[where] == 3
    assert of_array(result.in_iterations({where: 1}), model, "w") == [4, 4]
    with pytest.raises(LookupError, match="not finished"):
        result.in_iterations({where: 2})


def of_array(result: RunResult, model: Model, name: str) -> Any:
    return result.value(next(v for graph in model.graphs() for v in graph.values() if v.name == name)).tolist()


def test_a_run_that_waits_keeps_the_last_iteration_only() -> None:
    model = parse(NESTED)
    stepper = Session(model).steps(FEEDS)
    with pytest.raises(LookupError, match="last iteration only"):
        stepper.result().in_iterations({loop(model, "y"): 0})


def test_iterations_of_reused_loops_are_known() -> None:
    model = parse(NESTED)
    session = Session(model)
    first, second = session.run(FEEDS), session.run(FEEDS)
    assert second.iterations == first.iterations
    assert of(second.in_iterations({loop(model, "y"): 2}), model, "d", "w") == by_hand(2, 0)[::2]


def test_iterations_that_are_wanted_no_longer_are_not_computed() -> None:
    model = parse(NESTED)
    result, progress = Session(model).run(FEEDS), Progress()
    progress.cancel()
    with pytest.raises(Cancelled):
        result.in_iterations({loop(model, "y"): 0}, progress)


@pytest.mark.long
def test_the_worker_gives_iterations_as_well() -> None:
    model = parse(NESTED)
    session = WorkerSession(model)
    try:
        result = session.run(FEEDS)
        chosen: Mapping[LoopKey, int] = {loop(model, "y"): 1, loop(model, "u"): 0}
        one = result.in_iterations(chosen)
        assert dict(one.iterations) == {loop(model, "y"): 4, loop(model, "u"): 2}
        assert of(one, model, "d", "f", "w") == by_hand(1, 0)
        assert of(result, model, "d", "f", "w") == by_hand(3, 3)
        assert of(one.in_iterations({loop(model, "y"): 2}), model, "d", "f", "w") == by_hand(2, 2)
        assert one.apply(_largest) == _largest(Session(model).run(FEEDS).in_iterations(chosen)), "there as well"
    finally:
        session.close()


def _largest(result: RunResult) -> float:
    return max(float(np.max(value)) for values in result.bodies.values() for value in values.values())
