"""Values in fewer bits: where they are made, in the main graph, in bodies and in functions."""

import ml_dtypes
import numpy as np
import pytest

from onnx_workbench.exec.inspect.precision_trial import in_precision
from onnx_workbench.exec.inspect.run_comparison import compare, same_values
from onnx_workbench.exec.session import Session
from tests.exec.texts import parse

PLAIN = """g (float[3] x) => (float[3] y) <float[3] w = {0.1, 0.2, 0.3}> {
  a = Mul (x, w)
  y = Add (a, w)
}"""
BRANCH = """g (float[3] x, bool c) => (float[3] y) {
  s = Mul (x, x)
  y = If (c) <
    then_branch = t () => (float[3] p) { q = Add (x, s)
      p = Mul (q, s) },
    else_branch = e () => (float[3] r) { r = Identity (s) }
  >
}"""
LOOP = """g (float[3] x, int64 n, bool c) => (float[3] y) {
  y = Loop (n, c, x) <
    body = b (int64 i, bool go, float[3] v) => (bool more, float[3] out) { more = Identity (go)
      out = Mul (v, x) }
  >
}"""
FUNCTIONS = """g (float[3] x) => (float[3] y) {
  a = own.twice (x)
  y = own.twice (a)
}
<domain: "own", opset_import: ["" : 21]>
twice (v) => (w) {
  h = Mul (v, v)
  w = Add (h, v)
}"""
X = np.array([0.1, 1.3, 2.7], np.float32)


def rounded(model, names, precision="float16", **feeds):
    """A run with the values of these names rounded, and one without."""
    session = Session(model)
    request = session.request({"x": X, **feeds})
    values = [v for graph in model.graphs() for v in graph.values() if v.name in names]
    assert {v.name for v in values} == set(names)
    precise = session.perform(request)
    result = session.perform(in_precision(request, precision, {v.id for v in values}))
    result.raise_for_failure()
    return result, precise


def half(array, kind=np.float16):
    return np.asarray(array).astype(kind).astype(np.float32)


@pytest.mark.parametrize(("precision", "kind"), [("float16", np.float16), ("bfloat16", ml_dtypes.bfloat16)])
def test_results_and_constants_are_rounded(precision, kind):
    result, precise = rounded(parse(PLAIN), {"a", "w"}, precision)
    w = half(np.array([0.1, 0.2, 0.3], np.float32), kind)
    np.testing.assert_array_equal(result.values["a"], half(X * w, kind))
    np.testing.assert_array_equal(result.values["y"], half(X * w, kind) + w)
    rows = {row.name: row.difference for row in compare(result, same_values(result, precise), precise)}
    assert rows["a"].max_abs > 0
    assert rows["y"].max_abs > 0


def test_int8_keeps_a_256th_of_the_range():
    result, precise = rounded(parse(PLAIN), {"a"}, "int8")
    error = np.abs(result.values["a"] - precise.values["a"]).max()
    assert 0 < error <= np.ptp(np.append(precise.values["a"], 0)) / 255


def test_an_input_is_rounded_for_all_that_reads_it_bodies_too():
    result, _ = rounded(parse(BRANCH), {"x"}, c=np.array(True))
    x = half(X)
    s = x * x
    np.testing.assert_array_equal(result.values["y"], (x + s) * s)


@pytest.mark.parametrize("choice", [True, False])
def test_a_value_in_a_branch_is_rounded_where_that_branch_is_taken(choice):
    result, precise = rounded(parse(BRANCH), {"q"}, c=np.array(choice))
    s = X * X
    expected = half(X + s) * s if choice else s
    np.testing.assert_array_equal(result.values["y"], expected)
    assert (result.values["y"] == precise.values["y"]).all() == (not choice)


def test_a_value_in_a_loop_is_rounded_in_every_turn():
    result, _ = rounded(parse(LOOP), {"out"}, n=np.array(3), c=np.array(True))
    value = X
    for _ in range(3):
        value = half(value * X)
    np.testing.assert_array_equal(result.values["y"], value)


def test_a_value_in_a_function_is_rounded_in_every_call():
    result, precise = rounded(parse(FUNCTIONS, header='ir_version: 10, opset_import: ["" : 21, "own" : 1]'), {"h"})
    a = half(X * X) + X
    np.testing.assert_array_equal(result.values["a"], a)
    np.testing.assert_array_equal(result.values["y"], half(a * a) + a)
    assert {row.name for row in compare(result, same_values(result, precise), precise)} >= {"a", "y"}


def test_nothing_chosen_gives_the_same_values():
    result, precise = rounded(parse(BRANCH), set(), c=np.array(True))
    np.testing.assert_array_equal(result.values["y"], precise.values["y"])
