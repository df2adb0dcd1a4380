"""Incremental runs: what an edit changes is never answered from before, and what was dropped comes back."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from onnx_workbench.exec.engine import cache, operations
from onnx_workbench.exec.engine.snapshot import SnapshotCache
from onnx_workbench.exec.kernels.shared import blas
from onnx_workbench.exec.results.run_result import RunResult
from onnx_workbench.exec.results.values import MISSING, same_value
from onnx_workbench.exec.session import Session
from onnx_workbench.exec.values.arrays import SparseArray
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.steps import SetAttribute, SetField, SetGraphInputs, SetGraphOutputs, SetInitializer
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.ir.attributes import make_attribute
from onnx_workbench.model.ir.tensors import ArrayTensor
from onnx_workbench.model.ir.types import ElementType, TensorType
from tests.examples import examples
from tests.exec.texts import node, parse, states
from tests.model import builders

X = np.array([1.0, -2.0, 3.0], np.float32)


def test_zero_of_the_other_sign_is_another_attribute() -> None:
    document = Document(parse("g (float[3] x) => (float[3] y) { c = Constant <value_float = 0.0> () y = Mul(x, c) }"))
    session = Session(document)
    assert np.signbit(session.run({"x": X}).outputs["y"]).tolist() == [False, True, False]
    constant = node(document.model, "c")
    with document.edit("Set value_float") as edit:
        edit.do(SetAttribute(constant, "value_float", replace(constant.attributes["value_float"], value=-0.0)))
    assert np.signbit(session.run({"x": X}).outputs["y"]).tolist() == [True, False, True]
    document.undo()
    assert np.signbit(session.run({"x": X}).outputs["y"]).tolist() == [False, True, False]


def test_a_dropped_value_is_computed_when_it_becomes_an_output() -> None:
    document = Document(parse("g (float[n] x) => (float[n] y) { a = Neg(x) b = Abs(a) c = Relu(b) y = Exp(c) }"))
    session = Session(document, budget=900)
    x = np.linspace(-1, 1, 100, dtype=np.float32)
    before = session.run({"x": x})
    hidden = node(document.model, "a").outputs[0]
    assert hidden is not None
    assert before.find(hidden) is MISSING
    graph = document.model.graph
    builders.do(document, SetGraphOutputs(graph, (*graph.outputs, hidden)))
    after = session.run({"x": x})
    assert list(after.outputs) == ["y", "a"]
    np.testing.assert_array_equal(after.outputs["a"], -x)


def test_constants_stay_in_a_function_whose_nodes_were_kept() -> None:
    document = Document(load(builders.proto(CALL).SerializeToString()))
    session = Session(document)
    session.run({"x": X})
    call, after = node(document.model, "v"), node(document.model, "y")
    builders.do(document, SetAttribute(after, "alpha", make_attribute("alpha", 0.25)))
    with document.edit("Rewire") as edit:  # so that the run is planned anew
        edit.do(SetGraphOutputs(document.model.graph, (*document.model.graph.outputs, call.outputs[0])))
    result = session.run({"x": X})
    formal = document.model.functions[0].body.inputs[1]
    np.testing.assert_array_equal(result.value(formal, (call.id,)), [2, 3, 4])
    assert result.info(formal, (call.id,)) is not None


CALL = """
<ir_version: 10, opset_import: ["" : 21, "local" : 1]>
g (float[3] x) => (float[3] y) <float[3] w = {2, 3, 4}>
{
    v = local.scale (x, w)
    y = LeakyRelu <alpha: float = 0.5> (v)
}
<domain: "local", opset_import: ["" : 21]>
scale (a, b) => (c) { c = Mul (a, b) }
"""


@pytest.mark.parametrize("in_body", [False, True])
def test_a_snapshot_has_the_types_of_inputs_as_they_are(in_body: bool) -> None:
    text = """g (int64 m, bool t, float[3] x) => (float[3] y) {
      y = Loop (m, t, x) <body = b (int64 i, bool c, float[3] a) => (bool k, float[3] r) { k = Identity(c) r = Neg(a) }>
    }"""
    document = Document(parse(text))
    snapshots = SnapshotCache(document.model)
    before = snapshots.take()
    loop = node(document.model, "y")
    changed = (loop.bodies[0] if in_body else document.model.graph).inputs[2]
    builders.do(document, SetField(changed, "type", TensorType(ElementType.FLOAT, None)))
    after = snapshots.take()
    graphs = (
        (after.graph.nodes[0].bodies[0], before.graph.nodes[0].bodies[0]) if in_body else (after.graph, before.graph)
    )
    assert [str(g.input_types[2]) for g in graphs] == ["float", "float[3]"]
    assert after.uid != before.uid


def test_an_edit_in_a_body_copies_only_the_node_around_it() -> None:
    text = """g (bool c, float[3] x) => (float[3] z) {
      y = If (c) < then_branch = t () => (float[3] a) { a = LeakyRelu <alpha = 0.5> (x) },
                   else_branch = e () => (float[3] b) { b = Abs(x) } >
      z = LeakyRelu <alpha = 0.5> (y)
    }"""
    document = Document(parse(text))
    snapshots = SnapshotCache(document.model)
    around, after = document.model.graph.nodes
    inside = around.bodies[0].nodes.first
    assert inside is not None
    taken = [snapshots.take()]
    for changed in (inside, after):
        builders.do(document, SetAttribute(changed, "alpha", make_attribute("alpha", 0.25)))
        taken.append(snapshots.take())
    first, second, third = (one.graph.nodes for one in taken)
    assert [new is old for new, old in zip(second, first, strict=True)] == [False, True]
    bodies = second[0].bodies
    assert [g.nodes[0].attributes[0].value for g in bodies[:1]] == [0.25]
    assert [new.uid == old.uid for new, old in zip(third, second, strict=True)] == [True, False]


def test_notes_are_those_of_the_model_as_it_is() -> None:
    text = "g (float[3] x) => (float[3] y) { a = Neg <odd = 1> (x) y = LeakyRelu <odd = 1, alpha = 0.5> (a) }"
    document = Document(parse(text))
    session = Session(document)
    both = session.run({"x": X}).notes
    assert len(both) == 2
    last = node(document.model, "y")
    for name, value, expected in (("alpha", 0.25, both), ("alpha", 0.125, both), ("odd", None, both[:1])):
        builders.do(document, SetAttribute(last, name, None if value is None else make_attribute(name, value)))
        assert session.run({"x": X}).notes == expected


def test_notes_describe_bodies() -> None:
    model = parse("""g (bool c, float[3] x) => (float[3] y) {
      y = If (c) < then_branch = t () => (float[3] a) { a = Neg <odd = 1> (x) },
                   else_branch = e () => (float[3] b) { b = Abs(x) } >
    }""")
    assert any("odd" in note for note in Session(model).run({"c": True, "x": X}).notes)


def test_weights_do_not_count_against_the_budget() -> None:
    model = parse("g (float[1] x, float[n] w) => (float y) { a = Mul(x, w) b = Neg(a) c = Abs(b) y = ReduceSum(c) }")
    value = next(v for v in model.graph.inputs if v.name == "w")
    document = Document(model)
    size = 1000
    with document.edit("Give w a value") as edit:
        edit.do(SetInitializer(model.graph, value, ArrayTensor(np.ones(size, np.float32))))
        edit.do(SetGraphInputs(model.graph, model.graph.inputs[:1]))
    result = Session(document, budget=size * 4 * 5 // 2).run({"x": np.ones(1, np.float32)})
    kept = [name for name in ("a", "b", "c") if result.find(name) is not MISSING]
    assert len(kept) == 2, "three values of 4,000 bytes, and room for two and a half"
    assert result.peak_bytes == 3 * 4 * size


@pytest.mark.long
def test_constants_that_edits_replaced_are_let_go_of() -> None:
    document = Document(
        parse("""g (float[1] x) => (float[1, n] y) {
          s = Constant <value_ints = [1, 200000]> () c = ConstantOfShape(s) k = Constant <value_float = 1.0> ()
          w = Add(c, k) y = Mul(x, w) }""")
    )
    session = Session(document)
    x, factor = np.ones(1, np.float32), node(document.model, "k")
    first = weakref.ref(session.run({"x": x}).values["w"])
    assert first() is not None
    for number in range(2, 14):
        builders.do(document, SetAttribute(factor, "value_float", make_attribute("value_float", float(number))))
        outputs = session.run({"x": x}).outputs
    gc.collect()
    assert first() is None
    assert outputs["y"][0, 0] == 13
    while document.undo():
        pass
    assert session.run({"x": x}).outputs["y"][0, 0] == 1


def test_weights_and_attributes_that_edits_replaced_are_let_go_of() -> None:
    document = Document(parse("g (float[3] x, float[3] w) => (float[3] y) { a = Mul(x, w) y = Elu <alpha = 1.0> (a) }"))
    session = Session(document)
    x = np.array([-1.0, -0.5, 0.0], np.float32)
    graph, last = document.model.graph, node(document.model, "y")
    value = next(v for v in graph.inputs if v.name == "w")
    sizes = []
    for number in range(1, 100):
        with document.edit("Set both") as edit:
            edit.do(SetInitializer(graph, value, ArrayTensor(np.full(3, number, np.float32))))
            edit.do(SetAttribute(last, "alpha", make_attribute("alpha", float(number))))
        assert session.run({"x": x}).outputs["y"] == pytest.approx(number * np.expm1(x * number))
        library = session.engine.library
        sizes.append(max(len(library._arrays), len(library._operations)))
    assert max(sizes) < 40
    while document.undo():
        pass
    with pytest.raises(ModelError, match="missing"):
        session.run({"x": x})
    while document.redo():
        pass
    assert session.run({"x": x}).outputs["y"] == pytest.approx(99 * np.expm1(x * 99))


def test_prepared_weights_that_edits_replaced_are_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    size = 600
    monkeypatch.setattr(operations, "_GROWTH", 5 * 4 * size**2)
    monkeypatch.setattr(blas, "multiplies_unpacked", lambda: True)  # weights are laid out, whatever the processor
    document = Document(
        parse(f"g (float[3, {size}] x, float[{size}, {size}] w) => (float[M, N] y) {{ y = MatMul(x, w) }}")
    )
    session, graph = Session(document), document.model.graph
    x, value, kept = np.ones((3, size), np.float32), graph.inputs[1], []
    for number in range(1, 15):
        builders.do(document, SetInitializer(graph, value, ArrayTensor(np.full((size, size), number, np.float32))))
        assert session.run({"x": x}).outputs["y"][0, 0] == number * size
        kept.append(session.engine.library.weight_bytes // (4 * size**2))
    assert kept[0] == 2, "as it was read, and laid out"
    assert max(kept) <= 4 * 2 + 5, "four plans may have theirs; others may wait for five times its bytes"
    assert len(session.engine.library.prepared) <= 7


def test_inputs_that_change_for_ever_leave_no_tokens_behind() -> None:
    session = Session(parse("g (float[1] x) => (float[1] y) { a = Neg(x) b = Abs(a) y = Exp(b) }"), budget=64)
    known = []
    for number in range(60):
        result = session.run({"x": np.full(1, number, np.float32)})
        assert result.values["b"] == number
        assert result.outputs["y"] == np.exp(np.float32(number))
        known.append(len(session.engine.library._tokens))
    assert max(known[30:]) <= max(known[:30])
    again = session.run({"x": np.full(1, 59, np.float32)})
    assert set(states(again).values()) == {"KEPT"}


def test_what_a_run_gave_cannot_be_written_to() -> None:
    model = parse("g (float[2] x) => (float[2] y) { a = Neg(x) b = Identity(a) y = Exp(b) }")
    session = Session(model)
    x = np.ones(2, np.float32)
    result = session.run({"x": x})
    for name in ("x", "a", "b", "y"):
        with pytest.raises(ValueError, match="read-only"):
            result.values[name][0] = 7
    x[0] = 3  # what a caller gave stays theirs
    assert session.run({"x": np.ones(2, np.float32)}).values["b"][0] == -1


def _random_model() -> Document:
    """Constants that fold, a body, a random operator, an operator with several outputs and one without a kernel."""
    return Document(
        parse("""g (float[4] x, float[4] z) => (float[4] y, float[4] w) {
          k = Constant <value_float = 1.0> ()  l = Constant <value_float = 2.0> ()
          m = Mul(k, l) a = LeakyRelu <alpha = 0.5> (x) b = Add(a, m)
          c, d = Split <num_outputs = 2, axis = 0> (b)
          p = Concat <axis = 0> (d, c) r = RandomUniformLike <seed = 3.0> (z)
          s = ReduceSum <keepdims = 0> (z) t = Greater(s, k)
          q = If (t) < then_branch = one () => (float[4] f) { f = Mul(p, l) },
                       else_branch = two () => (float[4] g) { g = LeakyRelu <alpha = 0.25> (p) } >
          u = Celu <alpha = 1.5> (z) y = Add(q, u) w = Mul(r, y) }""")
    )


@pytest.mark.long
@settings(max_examples=examples(15), deadline=None)
@given(st.data(), st.sampled_from([1 << 20, 150, 60]))
def test_whatever_is_done_values_are_those_of_a_fresh_session(data: st.DataObject, budget: int) -> None:
    document, rng = _random_model(), np.random.default_rng(0)
    pool = [rng.standard_normal(4).astype(np.float32) * size for size in (1, 2, 0)]
    changes = [("k", "value_float"), ("l", "value_float"), ("a", "alpha"), ("g", "alpha"), ("u", "alpha")]
    feeds, seed = {"x": pool[0], "z": pool[1]}, 0
    earlier: list[tuple[RunResult, dict[str, np.ndarray]]] = []
    with pytest.MonkeyPatch.context() as patch:
        for name in ("_PLANS", "_GROWTH"):
            patch.setattr(operations, name, 0)
        patch.setattr(cache, "_REMEMBERED", 2)
        session = Session(document, budget=budget)
        for _ in range(data.draw(st.integers(4, 14))):
            match data.draw(st.sampled_from(["edit", "edit", "feed", "feed", "undo", "redo", "forget", "seed"])):
                case "edit":
                    name, attribute = data.draw(st.sampled_from(changes))
                    value = data.draw(st.sampled_from([0.5, 1.0, 3.0]))
                    with document.edit("Set") as edit:
                        edit.do(SetAttribute(node(document.model, name), attribute, make_attribute(attribute, value)))
                case "feed":
                    feeds = {**feeds, data.draw(st.sampled_from("xz")): data.draw(st.sampled_from(pool))}
                case "undo":
                    document.undo()
                case "redo":
                    document.redo()
                case "forget":
                    session.forget()
                case "seed":
                    seed = data.draw(st.integers(0, 2))
            kept = data.draw(st.sampled_from(["all", "all", "outputs", ["b", "q"]]))
            found = session.run(feeds, seed=seed, values=kept, fresh=data.draw(st.integers(0, 7)) == 0)
            expected = Session(document).run(feeds, seed=seed)
            names = expected.values if data.draw(st.booleans()) else expected.outputs
            for name in names:
                assert same_value(found.value(name), expected.value(name)), name
            kept = {name: value for name in expected.values if (value := found.find(name)) is not MISSING}
            earlier.append((found, {name: value.copy() for name, value in kept.items()}))
            for result, values in earlier:
                assert all(same_value(result.find(name), value) for name, value in values.items())


@pytest.mark.parametrize("kept", ["all", "outputs"])
def test_values_of_an_earlier_input_are_freed_before_a_run(kept: str) -> None:
    session = Session(parse("g (float[3] x) => (float[3] y) { a = Neg(x) b = Abs(a) y = Exp(b) }"))
    released = []
    for number in range(3):
        values = session.run({"x": X + number}, values=kept).values
        released += [weakref.ref(values[name]) for name in ("x", "b", "y")]
        del values
        stepper = session.steps({"x": X - number - 1}, values=kept)
        assert [one() for one in released] == [None] * len(released)
        assert not session.engine.cache.entries
        stepper.resume()


def test_values_independent_of_the_changed_input_are_kept() -> None:
    document = Document(parse("g (float[3] x, float[3] z) => (float[3] y) { a = Neg(x) b = Abs(z) y = Add(a, b) }"))
    session = Session(document)
    session.run({"x": X, "z": X})
    assert states(session.run({"x": X + 1, "z": X})) == {"a": "DONE", "b": "KEPT", "y": "DONE"}
    builders.do(document, SetField(node(document.model, "a"), "op_type", "Sqrt"))
    assert states(session.run({"x": X + 1, "z": X + 2})) == {"a": "DONE", "b": "DONE", "y": "DONE"}
    document.undo()
    assert states(session.run({"x": X + 1, "z": X + 2})) == {"a": "KEPT", "b": "KEPT", "y": "DONE"}


def test_an_input_that_is_not_given_is_not_that_of_an_earlier_run() -> None:
    session = Session(parse("g (float[3] x, float[3] z) => (float[3] y, float[3] w) { y = Neg(x) w = Abs(z) }"))
    session.run({"x": X, "z": X})
    with pytest.raises(ModelError, match="missing"):
        session.run({"x": X})
    assert states(session.run({"x": X, "z": X})) == {"y": "KEPT", "w": "KEPT"}


@pytest.mark.parametrize("place", [0, 9_999, 29_999])
def test_an_input_that_differs_in_one_element_is_another(place: int) -> None:
    session = Session(parse("g (float[n] x) => (float[n] y) { y = Neg(x) }"))
    x = np.zeros(30_000, np.float32)
    session.run({"x": x})
    x[place] = 1
    assert session.run({"x": x}).outputs["y"][place] == -1
    assert states(session.run({"x": x})) == {"y": "KEPT"}


def test_a_written_sparse_input_is_new_and_results_are_safe() -> None:
    inputs = [helper.make_sparse_tensor_value_info(name, onnx.TensorProto.FLOAT, [4]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", inputs[:1], inputs[1:])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    session = Session(load(proto.SerializeToString()))
    x = SparseArray(np.array([1, 2], np.float32), np.array([0, 3]), (4,))
    for first, state in ((1, "DONE"), (1, "KEPT"), (7, "DONE")):
        x.values[0] = first
        result = session.run({"x": x})
        assert states(result) == {"y": state}
        found = result.outputs["y"]
        assert isinstance(found, SparseArray)
        assert found.dense().tolist() == [first, 0, 0, 2]
        with pytest.raises(ValueError, match="read-only"):
            found.values[1] = 9
