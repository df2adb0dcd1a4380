"""Comparing runs of two models: what is matched with what, and which tolerance it is checked by."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.parser
import pytest

import onnx_workbench as ow
from onnx_workbench.exec.inspect.tolerances import RelativeErrors
from onnx_workbench.exec.session import Session

HEAD = '<ir_version: 10, opset_import: ["" : 21, "f" : 1]>'
X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)

FLOAT = """g (float[4,3] x) => (float[4,2] y) <float[3,2] w = {1, -1, 0.5, 0.25, -0.5, 1}> {
  a = MatMul (x, w)  b = Relu (a)  y = Neg (b) }"""

#: As ONNX Runtime's quantize_static writes it: the Relu is folded, and MatMul writes its result.
QDQ = """g (float[4,3] x) => (float[4,2] y)
  <float[3,2] w = {1, -1, 0.5, 0.25, -0.5, 1}, float s = {0.01}, uint8 z = {0}, float sx = {0.008}, uint8 zx = {128}> {
  xq = QuantizeLinear (x, sx, zx)  xd = DequantizeLinear (xq, sx, zx)
  b = MatMul (xd, w)
  bq = QuantizeLinear (b, s, z)  bd = DequantizeLinear (bq, s, z)
  y = Neg (bd) }"""

#: The same where MatMul keeps the name of its result.
QDQ_BY_PRODUCER = QDQ.replace("b = MatMul", "a = MatMul").replace("QuantizeLinear (b,", "QuantizeLinear (a,")

INTEGERS = """g (float[4,3] x) => (float[4,2] y)
  <int8[3,2] w_quantized = {100, -100, 50, 25, -50, 100}, float ws = {0.01}, int8 wz = {0},
   float s = {0.01}, uint8 z = {0}, float sx = {0.008}, uint8 zx = {128}> {
  x_quantized = QuantizeLinear (x, sx, zx)
  a_quantized = QLinearMatMul (x_quantized, sx, zx, w_quantized, ws, wz, s, z)
  r = Identity (a_quantized)
  bd = DequantizeLinear (r, s, z)
  y = Neg (bd) }"""


def model(text: str) -> ow.Model:
    return ow.load(onnx.parser.parse_model(f"{HEAD} {text}").SerializeToString())


def pairs(first: str, second: str, **options: Any) -> list[tuple[str, str]]:
    found = ow.compare(model(first), model(second), inputs={"x": X}, **options)
    assert found.agrees, [v for v in found.values if not v.is_close] or found.missing
    return [(value.name, value.other) for value in found.values]


def test_quantized_values_are_matched_with_what_replaces_them() -> None:
    matched = [("x", "xd"), ("a", "b"), ("b", "bd"), ("y", "y")]
    assert pairs(FLOAT, QDQ) == matched
    assert sorted(pairs(QDQ, FLOAT)) == sorted((b, a) for a, b in matched)


def test_an_activation_is_folded_under_the_name_of_its_input_too() -> None:
    assert pairs(FLOAT, QDQ_BY_PRODUCER) == [("x", "xd"), ("a", "a"), ("b", "bd"), ("y", "y")]


def test_integers_are_dequantized() -> None:
    assert pairs(FLOAT, INTEGERS) == [("x", "x_quantized"), ("b", "a_quantized"), ("y", "y")]
    found = ow.compare(model(FLOAT), model(INTEGERS), inputs={"x": X})
    assert all(value.difference.snr > 30 for value in found.values)


def test_two_quantized_models_are_matched_by_name() -> None:
    assert [name for name, _ in pairs(QDQ, QDQ)] == ["x", "xq", "xd", "b", "bq", "bd", "y"]


def test_a_wrong_scale_is_found_where_it_is() -> None:
    wrong = QDQ.replace("bd = DequantizeLinear (bq, s, z)", "bd = DequantizeLinear (bq, sx, z)")
    found = ow.compare(model(FLOAT), model(wrong), inputs={"x": X})
    assert found.first_divergence is not None
    assert found.first_divergence.name == "b"


FUNCTION = """g (float[4,3] x) => (float[4,3] y) { [call] y = f.Twice (x) }
  <domain: "f", opset_import: ["" : 21]> Twice (p) => (q) { r = Exp (p) q = Add (r, r) }"""
BODY = """g (float[4,3] x) => (float[4,3] y) <bool c = {1}> {
  [choose] y = If (c) <then_branch = t () => (float[4,3] u) { v = Exp (x) u = Neg (v) },
                       else_branch = e () => (float[4,3] w) { w = Neg (x) }> }"""


@pytest.mark.parametrize(
    ("text", "inner"), [(FUNCTION, "call › r"), (BODY, "choose.then_branch › v")], ids=["function", "body"]
)
def test_values_in_functions_and_bodies_are_compared(text: str, inner: str) -> None:
    assert (inner, inner) in pairs(text, text)
    other = text.replace("Exp", "Sin")
    found = ow.compare(model(text), model(other), inputs={"x": X})
    assert found.first_divergence is not None
    assert found.first_divergence.name == inner


def test_inputs_and_outputs_of_other_names_are_matched_by_position() -> None:
    renamed = FLOAT.replace("x", "image").replace("y", "scores")
    assert pairs(FLOAT, renamed) == [("x", "image"), ("a", "a"), ("b", "b"), ("y", "scores")]


def test_a_model_of_another_precision_gets_the_same_inputs() -> None:
    half = "g (float16[4,3] x) => (float16[4,3] y) { a = Exp (x) y = Neg (a) }"
    found = ow.compare(model(half.replace("float16", "float")), model(half), inputs={"x": X})
    assert found.agrees
    assert found.values[-1].difference.max_abs > 0


def test_the_tolerance_follows_the_coarsest_type_and_the_scale() -> None:
    text = """g (float[4,3] x, float16[4,3] h) => (float[4,3] y, float[4,3] z, int64[4] k) {
      a = Exp (x)  c = Cast <to = 1> (h)  y = Add (a, c)  z = Mul (a, a)  k = ArgMax <axis = 1, keepdims = 0> (a) }"""
    result = Session(model(text)).run({"x": X, "h": X.astype(np.float16)})
    errors = RelativeErrors(result)
    of = {name: errors.of(key) for name in "xaychzk" if (key := result.key(name)) is not None}
    assert of["x"] == of["a"] == of["z"] < of["h"] == of["c"] == of["y"]
    assert of["k"] == 0
    found = ow.compare(model(FLOAT), {"a": X @ np.float32([[1, -1], [0.5, 0.25], [-0.5, 1]]) * 1.01}, inputs={"x": X})
    large = ow.compare(model(FLOAT), {"a": np.float32(1000 * (X @ np.ones((3, 2))))}, inputs={"x": 1000 * X})
    assert found.first_divergence is not None
    assert large.values[0].tolerance.atol > 100 * found.values[0].tolerance.atol


def test_a_tolerance_that_is_given_counts_for_every_value() -> None:
    reference = {"a": X @ np.float32([[1, -1], [0.5, 0.25], [-0.5, 1]]) + 0.01}
    assert not ow.compare(model(FLOAT), reference, inputs={"x": X}).agrees
    assert ow.compare(model(FLOAT), reference, inputs={"x": X}, atol=0.02).agrees
    assert not ow.compare(model(FLOAT), reference, inputs={"x": X}, rtol=1e-3).agrees


def test_the_nodes_that_made_the_values_are_named() -> None:
    found = ow.compare(model(FUNCTION), model(FUNCTION), inputs={"x": X})
    assert [found.operators.get(value.key, ("", ""))[0] for value in found.values] == ["", "Exp", "Add"]


def test_the_loss_of_each_layer_leaves_out_that_of_earlier_ones() -> None:
    coarse = QDQ.replace("float sx = {0.008}", "float sx = {0.2}")
    for first, second in ((FLOAT, coarse), (coarse, FLOAT)):
        found = ow.compare(model(first), model(second), inputs={"x": X}, local=True)
        assert set(found.local) == {"b"}
        accumulated = next(value for value in found.values if {value.name, value.other} == {"b", "bd"})
        assert found.local["b"].snr - accumulated.difference.snr < 1, "the quantization of x is a loss of this layer"
    two = FLOAT.replace("y = Neg (b)", "c = MatMul (b, v)  y = Neg (c)").replace(
        "<float", "<float[2,2] v = {1, 2, 3, 4}, float"
    )
    chain = coarse.replace(
        "y = Neg (bd)",
        "c = MatMul (bd, v)  cq = QuantizeLinear (c, t, z)  cd = DequantizeLinear (cq, t, z)  y = Neg (cd)",
    )
    chain = chain.replace("<float", "<float[2,2] v = {1, 2, 3, 4}, float t = {0.05}, float")
    found = ow.compare(model(two), model(chain), inputs={"x": X}, local=True)
    accumulated = next(value for value in found.values if value.name == "c")
    assert found.local["c"].snr > accumulated.difference.snr + 10
