"""Where NaN and infinities begin, and which of them are only passed on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx_workbench.exec.engine.breakpoints import Breakpoint
from onnx_workbench.exec.inspect.nonfinite import non_finite_values
from onnx_workbench.exec.session import Session
from onnx_workbench.exec.values.finiteness import NonFiniteMode, kinds_of
from onnx_workbench.model.history.steps import SetAttribute, SetInitializer
from onnx_workbench.model.ir.attributes import make_attribute
from onnx_workbench.model.ir.tensors import ArrayTensor
from tests.exec.texts import parse

#: A mask of -inf goes into the scores; one row is masked whole, so that its Softmax is NaN. Then a logarithm of zero.
MASKED = """g (float[2,2] x, bool[2,2] keep) => (float[2,2] y, float[2,2] z) <float none = {0.0}, float low = {-1.0}> {
  mask = Where (keep, none, low)
  scores = Add (x, mask)
  weights = Softmax <axis = 1> (scores)
  y = Mul (weights, x)
  zero = Sub (x, x)
  log = Log (zero)
  z = Exp (log)
}"""
GIVEN = {"x": np.ones((2, 2), np.float32), "keep": np.array([[True, False], [False, False]])}


def masked() -> Session:
    """With the infinity that the text of ONNX has no word for."""
    session = Session(parse(MASKED))
    low = next(v for v in session.graph.values() if v.name == "low")
    SetInitializer(session.graph, low, ArrayTensor(np.array(-np.inf, np.float32))).apply()
    return session


def found(session: Session, feeds: Any, mode: NonFiniteMode) -> list[str]:
    result = session.run(feeds)
    return [result.layout.name(bad.key[1]) for bad in non_finite_values(result, mode=mode).found]


def test_the_cause_is_reported_with_the_numbers() -> None:
    found = non_finite_values(masked().run(GIVEN), mode="origins").found
    assert [(bad.operator, bad.cause) for bad in found] == [
        ("Softmax", "its input 'scores' has infinities"), ("Log", "logarithm of 0 is minus infinity"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "x", "cause"),
    [
        ("y = MatMul (x, x)", 300.0, "the sum exceeds 65504, the largest float16"),
        ("y = Mul (x, x)", 300.0, "300 × 300 exceeds 65504, the largest float16"),
        ("y = Sqrt (x)", -1.0, "square root of -1 is NaN"),
        ("y = Reciprocal (x)", 0.0, "reciprocal of 0 is infinite"),
        ("y = Div (x, x)", 0.0, "0 / 0 is NaN"),
    ],
)
def test_causes(text: str, x: float, cause: str) -> None:
    session = Session(parse(f"g (float16[2,2] x) => (float16[2,2] y) {{ {text} }}"))
    (bad,) = non_finite_values(session.run({"x": np.full((2, 2), x, np.float16)}), mode="origins").found
    assert bad.cause == cause


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("all", ["low", "mask", "scores", "weights", "y", "log"]),
        ("origins", ["weights", "log"]),
        ("nan", ["weights"]),
    ],
)
def test_a_mask_is_passed_on_and_what_it_makes_begins(mode: NonFiniteMode, expected: list[str]) -> None:
    assert found(masked(), GIVEN, mode) == expected


def stops(session: Session, feeds: Any, condition: Any) -> list[str]:
    """Behind which nodes a run stops, one after the other."""
    stepper = session.steps(session.request(feeds, breakpoints=(Breakpoint(condition=condition),)))
    names = []
    while stepper.resume():
        assert stepper.last_node is not None
        names.append(next(v.name for v in stepper.last_node[1].outputs if v is not None))
    return names


def test_a_run_stops_where_something_begins() -> None:
    assert stops(masked(), GIVEN, "origins") == ["weights", "log"]
    assert stops(masked(), GIVEN, "nan") == ["weights"]
    assert stops(masked(), GIVEN, "non-finite")[:2] == ["mask", "scores"]


def test_a_run_of_small_memory_knows_what_it_let_go() -> None:
    model = masked().model
    session = Session(model, budget=8)
    assert stops(session, GIVEN, "origins") == ["weights", "log"]


TURNS = """g (float[2] x) => (float[2] last, float[2] y) <int64 n = {3}, bool go = {1}, float one = {1.0}> {
  last = Loop (n, go, x) <body = b (int64 i, bool c, float[2] s) => (bool c1, float[2] s1) {
    s1 = Sub (s, one)  l = Log (s1)  c1 = Identity (c)
  }>
  y = Neg (last)
}"""


def test_each_turn_of_a_body_that_makes_some_is_a_stop_of_its_own() -> None:
    session = Session(parse(TURNS))
    feeds = {"x": np.array([1.5, 9], np.float32)}
    assert stops(session, feeds, "origins") == ["l", "l"]
    assert stops(session, {"x": np.array([1, 9], np.float32)}, "nan") == ["l", "l"]
    assert stops(session, {"x": np.array([1, 9], np.float32)}, "origins") == ["l", "l", "l"]


@pytest.mark.parametrize(
    "constant", ["ConstantOfShape <value = float {1.0}> (shape)", "Constant <value = float {1.0}> ()"]
)
def test_infinities_of_attributes_are_meant(constant: str) -> None:

    model = parse(f"g (int64[1] shape, float[1] x) => (float[m] y) {{ c = {constant} y = Add (x, c) }}")
    node = model.graph.nodes[0]
    SetAttribute(node, "value", make_attribute("value", ArrayTensor(np.array([-np.inf], np.float32)))).apply()
    feeds = {"shape": np.array([1]), "x": np.ones(1, np.float32)}
    session = Session(model)
    assert found(session, feeds, "all") == ["c", "y"]
    assert found(session, feeds, "origins") == []
    assert stops(session, feeds, "origins") == []
    search = non_finite_values(session.run(feeds), 1, "origins")
    assert search.passed is not None
    assert search.passed.value == -np.inf


def test_a_nan_that_is_given_begins_there_and_an_infinity_is_meant() -> None:
    session = Session(parse("g (float[2] x) => (float[2] y) { y = Neg (x) }"))
    assert found(session, {"x": np.array([np.nan, 1], np.float32)}, "nan") == ["x"]
    assert found(session, {"x": np.array([np.inf, 1], np.float32)}, "origins") == ["y"]  # -inf begins


def test_sequences_and_maps_are_looked_into() -> None:
    text = "g (seq(float[2]) s) => (float[2] y) <int64 i = {1}> { y = SequenceAt (s, i) }"
    session = Session(parse(text))
    bad = [np.ones(2, np.float32), np.array([1, np.nan], np.float32)]
    (one,) = non_finite_values(session.run({"s": bad}), mode="nan").found
    assert (one.index, one.count) == ((), 1)
    assert np.isnan(one.value)
    assert kinds_of([{"a": 1.0, "b": np.float32(np.inf)}])
    assert not kinds_of([{"a": 1.0, "b": "nan"}, None])


def test_complex_numbers_are_looked_at() -> None:
    assert kinds_of(np.array([1, complex(0, np.inf)]))
    assert not kinds_of(np.array([1, 1j]))
