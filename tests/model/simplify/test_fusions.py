"""What exporters spell out as the operators that newer operator sets have: smallest cases, variants, refusals."""

from __future__ import annotations

import pytest

from onnx_workbench.exec.engine.constant_folding import evaluate
from onnx_workbench.exec.inspect.equivalence import compare_models
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.simplify.pipeline import chosen_passes, simplify
from tests.model import builders

ALL = (
    "fuse_gelu", "fuse_hard_swish", "fuse_mish", "fuse_swish", "fuse_layer_norm", "fuse_rms_norm", "fuse_attention",
)  # fmt: skip
CONSTANTS = (
    "float half = {0.5}, float one = {1.0}, float two = {2.0}, float three = {3.0}, float six = {6.0}, "
    "float zero = {0.0}, float root = {1.4142135}, float inverse = {0.70710677}, float pi = {0.7978846}, "
    "float cubic = {0.044715}, float e = {0.00001}, float eighth = {0.125}, int64[1] last = {-1}, "
    "int64[2] both = {1, 2}, float[4] g = {1.0, 2.0, 0.5, 1.5}, float[4] b = {0.1, 0.2, 0.3, 0.4}, "
    "float[3, 4] gg = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 1.0, 2.0, 3.0}"
)
PLAIN = "(float[N, 3, 4] x) => (float[N, 3, 4] y)"
HEADS = "(float[B, 2, 3, 4] q, float[B, 2, 5, 4] k, float[B, 2, 5, 6] v, float[3, 5] mask) => (float[B, 2, 3, 6] y)"

ERF = "d = Div(x, root) f = Erf(d) a = Add(f, one)"
CUBE = "p = Pow(x, three) c = Mul(p, cubic) s = Add(x, c) t = Mul(s, pi) h = Tanh(t) a = Add(one, h)"
NORM = "m = ReduceMean(x, last) d = Sub(x, m) q = Pow(d, two) v = ReduceMean(q, last) s = Add(v, e) r = Sqrt(s)"
RMS = "q = Mul(x, x) m = ReduceMean(q, last) s = Add(m, e) r = Sqrt(s)"
SCORES = "t = Transpose <perm = [0, 1, 3, 2]> (k) s = MatMul(q, t)"

CASES = [
    (f"{ERF} p = Mul(x, a) y = Mul(p, half)", PLAIN, "Gelu"),
    (f"{ERF} p = Mul(x, half) y = Mul(a, p)", PLAIN, "Gelu"),
    (f"{ERF} p = Mul(a, half) y = Mul(x, p)", PLAIN, "Gelu"),
    (f"{ERF} p = Mul(x, a) y = Div(p, two)", PLAIN, "Gelu"),
    ("d = Mul(x, inverse) f = Erf(d) a = Add(f, one) p = Mul(x, a) y = Mul(p, half)", PLAIN, "Gelu"),
    (f"{CUBE} w = Mul(x, half) y = Mul(w, a)", PLAIN, "Gelu"),
    (CUBE.replace("p = Pow(x, three)", "p2 = Mul(x, x) p = Mul(p2, x)") + " w = Mul(x, half) y = Mul(w, a)", PLAIN,
     "Gelu"),
    ("h = HardSigmoid <alpha = 0.16666667, beta = 0.5> (x) y = Mul(x, h)", PLAIN, "HardSwish"),
    ("a = Add(x, three) c = Clip(a, zero, six) p = Mul(x, c) y = Div(p, six)", PLAIN, "HardSwish"),
    ("s = Softplus(x) t = Tanh(s) y = Mul(x, t)", PLAIN, "Mish"),
    ("s = Sigmoid(x) y = Mul(s, x)", PLAIN, "Swish"),
    (f"{NORM} n = Div(d, r) w = Mul(n, g) y = Add(w, b)", PLAIN, "LayerNormalization"),
    (f"{NORM} n = Div(d, r) y = Mul(g, n)", PLAIN, "LayerNormalization"),
    (f"{NORM} i = Reciprocal(r) n = Mul(d, i) w = Mul(n, g) y = Add(b, w)", PLAIN, "LayerNormalization"),
    (f"{NORM} n = Div(d, r) y = Mul(n, gg)".replace("last", "both"), PLAIN, "LayerNormalization"),
    (f"{RMS} n = Div(x, r) y = Mul(n, g)", PLAIN, "RMSNormalization"),
    (f"{RMS} i = Reciprocal(r) n = Mul(x, i) y = Mul(g, n)", PLAIN, "RMSNormalization"),
    (f"{SCORES} p = Softmax <axis = -1> (s) y = MatMul(p, v)", HEADS,
     "Attention"),
    (f"{SCORES} c = Mul(s, eighth) m = Add(c, mask) p = Softmax <axis = -1> (m) y = MatMul(p, v)", HEADS, "Attention"),
    (f"{SCORES} c = Div(s, two) p = Softmax <axis = 3> (c) y = MatMul(p, v)", HEADS, "Attention"),
]  # fmt: skip


def text(body: str, signature: str, opset: int = 24) -> str:
    return f'<ir_version: 11, opset_import: ["" : {opset}]> g {signature} <{CONSTANTS}> {{ {body} }}'


def fused(given: str) -> Document:
    document = builders.document(given)
    simplify(document, chosen_passes(ALL), evaluate=evaluate)
    return document


def operators(document: Document) -> list[str]:
    return [n.op_type for n in document.model.graph.nodes]


@pytest.mark.long
@pytest.mark.parametrize(("body", "signature", "op_type"), CASES, ids=[f"{i}-{c[2]}" for i, c in enumerate(CASES)])
def test_what_is_spelt_out_becomes_one_operator(body: str, signature: str, op_type: str) -> None:
    given = text(body, signature)
    document = fused(given)
    assert operators(document) == [op_type]
    outcome = compare_models(builders.model(given), document.model)
    assert outcome.agrees, outcome
    while document.undo_title:
        document.undo()
    assert operators(document) == operators(builders.document(given))


@pytest.mark.parametrize(("body", "signature", "op_type"), CASES[:1] + CASES[7:12] + CASES[15:16] + CASES[17:18])
def test_an_operator_set_that_has_it_not_keeps_it_spelt_out(body: str, signature: str, op_type: str) -> None:
    before = {"Gelu": 19, "HardSwish": 13, "Mish": 17, "Swish": 23, "LayerNormalization": 16, "RMSNormalization": 22,
              "Attention": 22}[op_type]  # fmt: skip
    if before < 18:
        body = body.replace("ReduceMean(x, last)", "ReduceMean <axes = [-1]> (x)")
        body = body.replace("ReduceMean(q, last)", "ReduceMean <axes = [-1]> (q)")
    assert op_type not in operators(fused(text(body, signature, before)))


REFUSALS = [
    (f"{ERF} p = Mul(x, a) y = Mul(p, two)", PLAIN),  # another factor
    (f"{ERF} p = Mul(x2, a) y = Mul(p, half)", PLAIN.replace("x)", "x, float[N, 3, 4] x2)", 1)),  # another gate
    (f"{ERF} p = Mul(x, a) y = Mul(p, half) z = Neg(f)", PLAIN[:-1] + ", float[N, 3, 4] z)"),  # it is used elsewhere
    ("h = HardSigmoid(x) y = Mul(x, h)", PLAIN),  # another slope
    ("a = Add(x, three) c = Clip(a, zero, three) p = Mul(x, c) y = Div(p, six)", PLAIN),
    ("s = Softplus(x) t = Tanh(s) n = Neg(x) y = Mul(n, t)", PLAIN),
    (f"{NORM} n = Div(d, r) y = Mul(n, two)", PLAIN),  # the scale has not the size of what is normalized
    (f"{NORM} n = Div(d, r) y = Mul(n, g)".replace("v = ReduceMean(q, last)", "v = ReduceMean(q, both)"), PLAIN),
    (f"{RMS} n = Div(x2, r) y = Mul(n, g)", PLAIN.replace("x)", "x, float[N, 3, 4] x2)", 1)),
    (f"{SCORES} p = Softmax <axis = 2> (s) y = MatMul(p, v)", HEADS),
    (f"{SCORES} p = Softmax <axis = -1> (s) y = MatMul(p, v)",
     HEADS.replace("B, 2, 5, 4", "B, 1, 5, 4")),
]  # fmt: skip


@pytest.mark.parametrize(("body", "signature"), REFUSALS)
def test_what_only_looks_like_it_stays(body: str, signature: str) -> None:
    given = text(body, signature)
    assert operators(fused(given)) == operators(builders.document(given))


LN = f"{NORM} n = Div(d, r) w = Mul(n, g) y = Add(w, b)"
RMS_LINE = f"{RMS} n = Div(x, r) y = Mul(n, g)"


@pytest.mark.parametrize(
    ("body", "constant"),
    [(CASES[0][0], name) for name in ("half", "one", "root")] + [(CASES[5][0], name) for name in ("three", "cubic")]
    + [(LN, "e"), (LN, "two"), (RMS_LINE, "e"), (CASES[8][0], "six")],
)  # fmt: skip
def test_constants_with_more_axes_than_the_data_are_not_fused(body: str, constant: str) -> None:
    signature = PLAIN.replace("[N, 3, 4] y", "[A, B, C, D] y")
    given = text(body, signature).replace(f"float {constant} =", f"float[1, 1, 1, 1] {constant} =")
    document = fused(given)
    assert operators(document) == operators(builders.document(given))


@pytest.mark.parametrize(
    ("body", "changed"),
    [
        (CASES[0][0], ("half = {0.5}", "half = {0.5002}")),
        (CASES[0][0], ("one = {1.0}", "one = {1.0001}")),
        (CASES[0][0], ("root = {1.4142135}", "root = {1.415}")),
        (CASES[5][0], ("three = {3.0}", "three = {3.001}")),
        (CASES[5][0], ("cubic = {0.044715}", "cubic = {0.0447}")),
        (CASES[5][0], ("pi = {0.7978846}", "pi = {0.798}")),
        (LN, ("two = {2.0}", "two = {2.001}")),
        (LN, ("e = {0.00001}", "e = {-0.00001}")),
        (LN, ("ReduceMean(x, last)", "ReduceMean <keepdims = 0> (x, last)")),
        (LN, ("ReduceMean(q, last)", "ReduceMean(q, first)")),
        (LN, ("Mul(n, g)", "Mul(n, x)")),
        (LN, ("float[4] g = {1.0, 2.0, 0.5, 1.5}", "float[1] g = {2.0}")),
        (LN, ("Div(d, r)", "Div(r, d)")),
        (RMS_LINE, ("Div(x, r)", "Div(r, x)")),
        (RMS_LINE, ("Mul(x, x)", "Mul(x, r0)")),
        (RMS_LINE, ("last = {-1}", "last = {1}")),
    ],
)
def test_each_thing_that_is_otherwise_keeps_it_spelt_out(body: str, changed: tuple[str, str]) -> None:
    more = ", int64[1] first = {1}, float[4] r0 = {1.0, 2.0, 3.0, 4.0}>"
    given = text(body, PLAIN).replace("1.0, 2.0, 3.0}>", "1.0, 2.0, 3.0}" + more)
    assert changed[0] in given
    given = given.replace(*changed)
    document = fused(given)
    assert operators(document) == operators(builders.document(given))


@pytest.mark.parametrize("body", [LN, RMS_LINE])
def test_a_normalization_in_double_is_not_fused(body: str) -> None:
    given = text(body, PLAIN).replace("float", "double")
    document = fused(given)
    assert operators(document) == operators(builders.document(given))


def test_without_a_bias_of_its_size_the_addition_stays() -> None:
    given = text(LN, PLAIN).replace("float[4] b = {0.1, 0.2, 0.3, 0.4}", "float b = {0.1}")
    document = fused(given)
    assert operators(document) == ["LayerNormalization", "Add"]
    assert compare_models(builders.model(given), document.model).agrees


@pytest.mark.parametrize(
    ("case", "is_fused"),
    [("Gelu", True), ("LayerNormalization", True), ("RMSNormalization", True), ("HardSwish", False), ("Mish", False),
     ("Swish", False), ("Attention", False)],
)  # fmt: skip
def test_what_few_runtimes_have_is_fused_only_when_asked_for(case: str, is_fused: bool) -> None:
    body, signature, _ = next(c for c in CASES if c[2] == case)
    document = builders.document(text(body, signature))
    simplify(document, evaluate=evaluate)
    assert (case in operators(document)) is is_fused


def test_a_centred_value_used_elsewhere_is_fused_apart() -> None:
    given = text(f"{NORM} n = Div(d, r) y = Mul(n, g) z = Neg(d)", PLAIN[:-1] + ", float[N, 3, 4] z)")
    document = fused(given)
    assert operators(document) == ["ReduceMean", "Sub", "RMSNormalization", "Neg"]
    assert compare_models(builders.model(given), document.model).agrees
