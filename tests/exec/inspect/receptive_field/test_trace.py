"""From a value that is not finite to the elements it came from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest

from onnx_workbench.exec.inspect.nonfinite import NonFiniteSearch, NonFiniteValue, non_finite_values
from onnx_workbench.exec.inspect.receptive_field.trace import call_of, trace
from onnx_workbench.exec.results.values import MISSING
from onnx_workbench.exec.session import Session
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.steps import SetAttribute, SetInitializer
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.ir.attributes import make_attribute
from onnx_workbench.model.ir.graph import Model
from onnx_workbench.model.ir.tensors import ArrayTensor
from tests.exec.test_session import CHAIN, X
from tests.exec.texts import parse

HEADER = 'ir_version: 10, opset_import: ["" : 21]'


def first_bad(
    model: Model, feeds: dict[str, Any]
) -> tuple[str, NonFiniteValue, list[tuple[str, tuple[int, ...], Any]]]:
    """The first value that is not finite, where, and the suspect of each input it came from."""
    session = Session(model)
    result = session.run(feeds)
    (bad,) = non_finite_values(result, 1).found
    value = next(v for v in model.graph.values() if result.key(v) == bad.key)
    origins = trace(result, call_of(value, result.key, session.snapshots.nodes.get), bad.key, bad.index).origins
    return value.name, bad, [(result.layout.name(o.key[1]), o.suspect, o.suspect_value) for o in origins]


def test_the_first_value_that_is_not_finite_and_where_it_came_from() -> None:
    model = parse("g (float[3] x) => (float[3] y) { a = Mul(x, x) b = Sqrt(x) y = Add(a, b) }")
    name, bad, causes = first_bad(model, {"x": X})
    assert (name, bad.index, bad.count) == ("b", (1,), 1)
    assert causes == [("x", (1,), -2.0)]
    assert non_finite_values(Session(model).run({"x": abs(X)})) == NonFiniteSearch((), 0, False)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("z = Sqrt(x)", ("x", (0, 0), -1.0)),
        ("z = ReduceLogSum <axes = [1]> (x)", ("x", (0, 1), -2.0)),
        ("t = Transpose(x) z = ReduceLogSum <axes = [0]> (t)", ("t", (1, 0), -2.0)),
        ("n = Neg(x) z = ReduceLogSum <axes = [1]> (n)", ("n", (1, 0), -30.0)),
        ("a = Abs(x) c = Concat <axis = 0> (a, x) z = Log(c)", ("c", (2, 0), -1.0)),
    ],
)
def test_what_reaches_the_element_is_exact(text: str, cause: Any) -> None:
    model = parse(f"g (float[2,2] x) => (float[n,m] z) {{ {text} }}", header='ir_version: 10, opset_import: ["" : 13]')
    name, _, causes = first_bad(model, {"x": np.array([[-1, -2], [30, 4]], np.float32)})
    assert name == "z"
    assert causes == [cause]


@pytest.mark.parametrize(("called", "row"), [("outer <along: int = 1>", True), ("outer", False), ("plain", True)])
def test_attributes_of_a_call_decide_what_reaches_an_element(called: str, row: bool) -> None:
    text = f"""
    <ir_version: 10, opset_import: ["" : 21, "local" : 1]>
    g (float[2,3] x) => (float[2,3] y) {{ y = local.{called} (x) }}
    <domain: "local", opset_import: ["" : 21, "local" : 1]>
    outer <along: int = 0> (v) => (o) {{ o = local.inner <axis: int = @along> (v) }}
    <domain: "local", opset_import: ["" : 21, "local" : 1]>
    plain (v) => (o) {{ o = local.inner (v) }}
    <domain: "local", opset_import: ["" : 21]>
    inner <axis> (v) => (o) {{ o = Softmax <axis: int = @axis> (v) }}
    """
    model = load(onnx.parser.parse_model(text).SerializeToString())
    session = Session(model)
    result = session.run({"x": np.arange(6, dtype=np.float32).reshape(2, 3)})
    value = next(f for f in model.functions if f.name == "inner").body.outputs[0]
    (path,) = result.calls_of[value.id]
    call = call_of(value, lambda v: (path, v.id), session.snapshots.nodes.get)
    (origin,) = trace(result, call, (path, value.id), (1, 2)).origins
    assert [list(axis) for axis in origin.reach.axes] == ([[1], [0, 1, 2]] if row else [[0, 1], [2]])


def test_a_model_function_is_not_the_operator_of_its_name() -> None:
    text = """
    <ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>
    g (float[3] x) => (float[3] y) { y = com.microsoft.FastGelu (x) }
    <domain: "com.microsoft", opset_import: ["" : 21]>
    FastGelu (v) => (o) { o = Softmax (v) }
    """
    model = load(onnx.parser.parse_model(text).SerializeToString())
    session = Session(model)
    result = session.run({"x": np.arange(3, dtype=np.float32)})
    value = model.graph.outputs[0]
    call = call_of(value, result.key, session.snapshots.nodes.get)
    key = result.key(value)
    assert key is not None
    (origin,) = trace(result, call, key, (1,)).origins
    assert (origin.reach.count, origin.reach.exact) == (3, False)


def test_a_product_that_overflows_names_its_row_and_column() -> None:
    model = parse("g (float[2,2] x, float[2,3] w) => (float[2,3] y) { y = MatMul(x, w) }")
    x, w = np.array([[5e30, 1], [3, 4e20]], np.float32), np.ones((2, 3), np.float32)
    w[1, 2], w[0, 0] = 1e30, 1e5
    _, bad, causes = first_bad(model, {"x": x, "w": w})
    assert bad.index == (1, 2)
    assert [cause[:2] for cause in causes] == [("x", (1, 1)), ("w", (1, 2))]


def test_a_complex_cause_that_is_not_finite_is_found() -> None:
    model = parse("g (complex64[3] x) => (complex64[3] y) { y = Identity(x) }", header=HEADER)
    x = np.array([1 + 1j, 3e38 + 3e38j, complex(0, np.nan)], np.complex64)
    session = Session(model)
    result = session.run({"x": x})
    (bad,) = non_finite_values(result, 1).found
    assert bad.index == (2,)  # what is finite is, however large
    value = model.graph.outputs[0]
    key = result.key(value)
    call = call_of(value, result.key, session.snapshots.nodes.get)
    assert key is not None
    assert call is not None
    origins = trace(result, replace(call, op_type="Mystery"), key, (0,)).origins  # made of anything
    assert [(o.suspect, o.non_finite, o.low, o.high) for o in origins] == [((2,), 1, None, None)]


def test_the_largest_of_whole_numbers_may_have_no_opposite() -> None:
    model = parse("g (int8[3] x) => (int8 y) { y = ReduceMin <keepdims = 0> (x) }", header=HEADER)
    session = Session(model)
    result = session.run({"x": np.array([5, -128, 127], np.int8)})
    value = model.graph.outputs[0]
    key = result.key(value)
    assert key is not None
    (origin,) = trace(result, call_of(value, result.key, session.snapshots.nodes.get), key, ()).origins
    assert (origin.suspect, origin.suspect_value) == ((1,), -128)


def test_an_input_that_is_not_finite_is_found_itself() -> None:
    name, bad, causes = first_bad(parse(CHAIN), {"x": np.array([0, np.inf, 0], np.float32)})
    assert (name, bad.value, causes) == ("x", np.inf, [])


@pytest.mark.parametrize("constant", ["<float[3] w = {1.0, 2.0, 3.0}>", "w = Constant <value = float[3] {1, 2, 3}> ()"])
def test_a_constant_that_is_not_finite_is_found_itself(constant: str) -> None:
    declared, made = (constant, "") if constant.startswith("<") else ("", constant)
    model = parse(f"g (float[3] x) => (float[3] y) {declared} {{ {made} a = Neg(x) y = Mul(a, w) }}")
    document = Document(model)
    bad = np.array([1, np.nan, np.inf], np.float32)
    with document.edit("Spoil w") as edit:
        w = next(v for v in model.graph.values() if v.name == "w")
        if w.producer is None:
            edit.do(SetInitializer(model.graph, w, ArrayTensor(bad)))
        else:
            edit.do(SetAttribute(w.producer, "value", make_attribute("value", ArrayTensor(bad))))
    name, found, causes = first_bad(model, {"x": X})
    assert (name, found.index, found.count, causes) == ("w", (1,), 2, [])


def test_a_search_says_which_values_it_did_not_look_at() -> None:
    model = parse("""g (bool c, float[3] x) => (float[3] y, float[3] z) {
      a = Neg(x) b = Neg(a) d = Neg(b) z = Log(d)
      y = If (c) < then_branch = t () => (float[3] e) { e = Neg(z) },
                   else_branch = f () => (float[3] h) { h = Abs(z) } >
    }""")
    feeds = {"c": True, "x": X}
    session = Session(model)
    kept = non_finite_values(session.run(feeds))
    by_name = {value.name: value.id for graph in model.graphs() for value in graph.values()}
    assert [value.key[1] for value in kept.found] == [by_name[name] for name in ("z", "y", "e")]
    assert kept.unkept == 0
    assert kept.has_bodies
    result = Session(model, budget=20).run(feeds)
    gone = [name for name in ("a", "b", "d") if result.find(name) is MISSING]
    search = non_finite_values(result, 1)
    assert not search.has_bodies  # they come later
    assert gone
    assert search.unkept == len(gone)
    assert not non_finite_values(Session(parse(CHAIN)).run({"x": X})).has_bodies
