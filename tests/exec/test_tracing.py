"""From a value that is not finite to the elements it came from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from exec import Session
from exec.tracing import first_non_finite
from tests.exec.test_session import CHAIN, X
from tests.exec.texts import parse


def test_the_first_value_that_is_not_finite_and_where_it_came_from() -> None:
    model = parse("g (float[3] x) => (float[3] y) { a = Mul(x, x) b = Sqrt(x) y = Add(a, b) }")
    found = first_non_finite(Session(model).run({"x": X}))
    assert found is not None
    assert (found.name, found.index, found.count) == ("b", (1,), 1)
    assert found.node
    assert [(k.name, k.index, k.value) for k in found.causes] == [("x", (1,), -2.0)]
    assert first_non_finite(Session(model).run({"x": abs(X)})) is None


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
def test_what_reaches_the_element_is_exact_where_the_model_is_given(text: str, cause: Any) -> None:
    model = parse(f"g (float[2,2] x) => (float[n,m] z) {{ {text} }}", header='ir_version: 10, opset_import: ["" : 13]')
    x = np.array([[-1, -2], [30, 4]], np.float32)
    found = first_non_finite(Session(model).run({"x": x}), model)
    assert found is not None
    assert found.name == "z"
    assert [(k.name, k.index, k.value) for k in found.causes] == [cause]


def test_without_the_model_the_largest_of_the_whole_input_is_told() -> None:
    model = parse("g (float[2,2] x) => (float[2,1] z) { z = ReduceLogSum <axes = [1]> (x) }",
                  header='ir_version: 10, opset_import: ["" : 13]')  # fmt: skip
    found = first_non_finite(Session(model).run({"x": np.array([[-1, -2], [30, 4]], np.float32)}))
    assert found is not None
    assert [(k.index, k.value) for k in found.causes] == [((1, 0), 30.0)]


def test_a_product_that_overflows_names_its_row_and_column() -> None:
    model = parse("g (float[2,2] x, float[2,3] w) => (float[2,3] y) { y = MatMul(x, w) }")
    x, w = np.array([[5e30, 1], [3, 4e20]], np.float32), np.ones((2, 3), np.float32)
    w[1, 2], w[0, 0] = 1e30, 1e5
    found = first_non_finite(Session(model).run({"x": x, "w": w}), model)
    assert found is not None
    assert found.index == (1, 2)
    assert [(k.name, k.index) for k in found.causes] == [("x", (1, 1)), ("w", (1, 2))]


def test_an_input_that_is_not_finite_is_found_itself() -> None:
    found = first_non_finite(Session(parse(CHAIN)).run({"x": np.array([0, np.inf, 0], np.float32)}))
    assert found is not None
    assert (found.name, found.node, found.value) == ("x", 0, np.inf)
