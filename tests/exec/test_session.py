"""Running: values, what is reused after an edit, failures and limits as results."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import numpy as np
import onnx.parser
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper, numpy_helper

from onnx_workbench.exec.results.node_table import NodeTable, State
from onnx_workbench.exec.results.values import same_value
from onnx_workbench.exec.session import Session
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.steps import InsertNode, RemoveNode, SetAttribute, SetField, SetInput
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.ir.attributes import make_attribute
from onnx_workbench.model.ir.graph import Model, Node, Value
from onnx_workbench.model.ir.types import ElementType
from onnx_workbench.model.progress import Progress
from tests.exec.texts import CHAIN, node, parse, states
from tests.model import builders

X = np.array([1.0, -2.0, 3.0], np.float32)


def done(result: Any) -> set[str]:
    return {name for name, state in states(result).items() if state == "DONE"}


def test_the_promised_line() -> None:
    assert Session(parse(CHAIN)).run({"x": X}).values["c"] == pytest.approx(np.exp(X))


def test_every_value_is_there_by_name_and_by_object() -> None:
    model = parse(CHAIN)
    result = Session(model).run({"x": X})
    assert set(result.values) == {"x", "a", "b", "c", "d", "y"}
    for found in model.graph.values():
        np.testing.assert_array_equal(result.value(found), result.values[found.name])
    assert list(result.outputs) == ["y"]
    with pytest.raises(KeyError):
        result.values["nothing"]


# --- inputs ----------------------------------------------------------------------------------------------------


def test_a_missing_input_is_named_with_its_type() -> None:
    with pytest.raises(ModelError, match=r"x: float\[3\]"):
        Session(parse(CHAIN)).run({})


def test_an_input_that_is_not_needed_may_be_missing() -> None:
    model = parse("g (float[3] x, float[3] z) => (float[3] y, float[3] w) { y = Neg(x) w = Neg(z) }")
    assert Session(model).run({"x": X}, values=["y"], until=node(model, "y")).ok


@pytest.mark.parametrize("wrong", [X.astype(np.float64), np.array(["a"]), {"a": 1}])
def test_a_wrong_type_is_refused(wrong: Any) -> None:
    with pytest.raises(ModelError, match="'x'"):
        Session(parse(CHAIN)).run({"x": wrong})


def test_lists_take_the_declared_type_and_wrong_shapes_run() -> None:
    assert Session(parse(CHAIN)).run({"x": [1, 2]}).values["y"].shape == (2,)


def test_an_unknown_input_is_refused() -> None:
    with pytest.raises(ModelError, match="no input 'q'"):
        Session(parse(CHAIN)).run({"x": X, "q": X})


def test_feeds_are_copied() -> None:
    x = X.copy()
    session = Session(parse(CHAIN))
    first = session.run({"x": x})
    kept = first.values["y"].copy()
    x[:] = 0
    np.testing.assert_array_equal(first.values["x"], X)
    second = session.run({"x": x})
    np.testing.assert_array_equal(second.values["y"], np.ones(3))
    np.testing.assert_array_equal(first.values["y"], kept)


# --- what runs again -------------------------------------------------------------------------------------------


def test_nothing_runs_again_when_nothing_changed() -> None:
    session = Session(parse(CHAIN))
    session.run({"x": X})
    assert done(session.run({"x": X.copy()})) == set()
    assert done(session.run({"x": X}, fresh=True)) == {"a", "b", "c", "d", "y"}


def test_an_edit_runs_what_is_downstream_and_an_undo_nothing() -> None:
    document = Document(parse(CHAIN))
    session = Session(document)
    before = session.run({"x": X})
    builders.do(document, SetAttribute(node(document.model, "d"), "alpha", make_attribute("alpha", 0.75)))
    after = session.run({"x": X})
    assert done(after) == {"d", "y"}
    np.testing.assert_allclose(after.values["y"], np.exp(X) + np.where(X > 0, X, X / 2) ** 2, rtol=1e-6)
    assert after.state == document.current.id
    document.undo()
    undone = session.run({"x": X})
    assert done(undone) == set()
    np.testing.assert_array_equal(undone.values["y"], before.values["y"])


def test_a_rename_runs_nothing() -> None:
    model = parse(CHAIN)
    session = Session(model)
    session.run({"x": X})
    SetField(next(v for v in model.graph.values() if v.name == "b"), "name", "renamed").apply()
    result = session.run({"x": X})
    assert done(result) == set()
    assert "renamed" in result.values


def test_a_model_is_read_again_only_after_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    model = parse(CHAIN)
    session, reads = Session(model), []
    take = session.snapshots.take
    monkeypatch.setattr(session.snapshots, "take", lambda **more: reads.append("read") or take(**more))
    session.run({"x": X})
    session.run({"x": X})
    assert len(reads) == 1
    document = Document(model)
    with document.edit("Set alpha") as edit:
        edit.do(SetAttribute(node(model, "d"), "alpha", make_attribute("alpha", 0.75)))
        assert done(session.run({"x": X})) == {"d", "y"}, "also within the edit"
    document.undo()
    assert len(done(session.run({"x": -X}))) == 5
    session.run({"x": X})
    assert len(reads) == 3


def test_rewiring_and_inserting() -> None:
    model = parse(CHAIN)
    session = Session(model)
    session.run({"x": X})
    c, y = node(model, "c"), node(model, "y")
    fresh = Value("n")
    InsertNode(model.graph, Node("Neg", (c.outputs[0],), (fresh,)), y).apply()
    SetInput(y, 0, fresh).apply()
    result = session.run({"x": X})
    assert done(result) == {"n", "y"}
    np.testing.assert_allclose(result.values["y"], result.values["d"] - np.exp(X))


def test_another_feed_runs_only_what_depends_on_it() -> None:
    model = parse("g (float[3] x, float[3] z) => (float[3] y) { a = Exp(x) b = Exp(z) y = Add(a, b) }")
    session = Session(model)
    session.run({"x": X, "z": X})
    assert done(session.run({"x": X, "z": X + 1})) == {"b", "y"}


EDITS = st.lists(st.tuples(st.sampled_from(["a", "d"]), st.sampled_from([0.1, 0.25, 0.5])), max_size=6)


@pytest.mark.long
@given(EDITS)
def test_reuse_never_changes_a_value(edits: list[tuple[str, float]]) -> None:
    document = Document(parse(CHAIN))
    session = Session(document)
    for name, alpha in edits:
        builders.do(document, SetAttribute(node(document.model, name), "alpha", make_attribute("alpha", alpha)))
        np.testing.assert_array_equal(
            session.run({"x": X}).values["y"], Session(document.model).run({"x": X}).values["y"]
        )
    while document.undo():
        np.testing.assert_array_equal(
            session.run({"x": X}).values["y"], Session(document.model).run({"x": X}).values["y"]
        )


def test_random_operators_follow_the_seed() -> None:
    model = parse("g () => (float[50] y, float[50] z) { y = RandomNormal <shape = [50]> () z = Neg(y) }")
    session = Session(model)
    one, same, two = (session.run(seed=s).values["z"] for s in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, two)


# --- what is computed ------------------------------------------------------------------------------------------


def test_random_operators_without_names_and_in_calls_differ() -> None:
    model, opened_again = (
        parse(
            """g () => (float[3] a, float[3] b, float[3] c, float[3] d) {
              a = RandomNormal <shape = [3]> () b = RandomNormal <shape = [3]> () c = my.F() d = my.F()
            } <domain: "my", opset_import: ["": 21]> F () => (o) { o = RandomNormal <shape = [3]> () }""",
            header='ir_version: 10, opset_import: ["": 21, "my": 1]',
        )
        for _ in range(2)
    )
    session = Session(model)
    outputs = session.run().outputs
    assert len({tuple(v.tolist()) for v in outputs.values()}) == 4
    for again in (session.run(fresh=True).outputs, Session(opened_again).run().outputs):
        for name, value in outputs.items():
            np.testing.assert_array_equal(again[name], value)


def test_random_numbers_differ_by_turn_and_repeat_by_run() -> None:
    model = parse("""g (int64 n) => (r) {
      r = Loop(n, ) < body = b (int64 i, bool c) => (bool k, float[2] x) {
        k = Identity(c) x = RandomUniform <shape = [2]> () } >
    }""")
    session = Session(model)
    turns = session.run({"n": 4}).outputs["r"]
    assert len(np.unique(turns)) == 8
    np.testing.assert_array_equal(session.run({"n": 4}, fresh=True).outputs["r"], turns)
    np.testing.assert_array_equal(session.run({"n": 6}).outputs["r"][:4], turns)


def test_only_what_is_asked_for_is_computed() -> None:
    model = parse("g (float[3] x) => (float[3] y) { a = Exp(x) b = Neg(a) y = Abs(x) }")
    result = Session(model).run({"x": X}, values="outputs")
    assert states(result) == {"a": "UNNEEDED", "b": "UNNEEDED", "y": "DONE"}
    result = Session(model).run({"x": X}, values=["a"])
    assert done(result) == {"a", "y"}
    result = Session(model).run({"x": X}, until=node(model, "b"))
    assert done(result) == {"a", "b"}


def test_values_that_are_not_kept_are_computed_on_demand() -> None:
    session = Session(parse(CHAIN))
    result = session.run({"x": X}, values="outputs")
    assert "b" not in set(result.values)
    np.testing.assert_allclose(result.values["b"], np.where(X > 0, X, X / 2) ** 2)


def test_past_the_budget_summaries_stay_and_values_come_back() -> None:
    steps = "\n".join(f"v{i + 1} = Add(v{i}, v{i})" for i in range(20))
    model = parse(f"g (float[100000] v0) => (float[100000] v20) {{ {steps} }}")
    x = np.ones(100_000, np.float32)
    session = Session(model, budget=2_000_000)
    result = session.run({"v0": x})
    assert result.ok
    gone = [name for i in range(21) if result.find(name := f"v{i}").__class__ is not np.ndarray]
    assert len(gone) > 8
    for name in gone:
        found = result.statistics(name)
        assert found is not None
        assert found.mean == 2.0 ** int(name[1:])
        assert str(result.info(name)) == "float[100000]"
    np.testing.assert_array_equal(result.values["v3"], x * 8)


def test_views_cost_nothing_of_the_budget() -> None:
    steps = "\n".join(f"v{i + 1} = Reshape(v{i}, s)" for i in range(20))
    model = parse(f"g (float[1000,100] v0) => (float[N,M] v20) <int64[2] s = {{1000, 100}}> {{ {steps} }}")
    result = Session(model, budget=2_000_000).run({"v0": np.ones((1000, 100), np.float32)})
    assert all(isinstance(result.find(f"v{i}"), np.ndarray) for i in range(21))


def test_the_timeline_has_all_values_still_needed_at_each_step() -> None:
    """In calls of functions, of values that nobody reads and of such as come after what reads them, in a cycle, too."""
    text = """g (float[N] x) => (float[N] e, float[N] a) {
      a = f.F(x) b = Neg(a) lost, mask = Dropout(b) c = Add(x, d) d = Add(a, c) e = f.F(b)
    }
    <opset_import: ["" : 17], domain: "f"> F (p) => (r) { q = Neg(p) r = Abs(q) }"""
    model = parse(text, header='ir_version: 10, opset_import: ["" : 17, "f" : 1]')
    result = Session(model).run({"x": X})
    steps = result.layout.steps
    last = dict.fromkeys(result.layout.outputs, len(steps))
    for step in steps:
        last.update({slot: max(step.index, last.get(slot, 0)) for slot in step.reads})
    made = {slot: step.index for step in steps for slot in step.outs if slot}
    spans = {slot: (at, last.get(slot, at)) for slot, at in made.items()}
    for moment in result.timeline():
        alive = [slot for slot, (first, until) in spans.items() if first <= moment.step <= until]
        assert (moment.path, moment.node) == (steps[moment.step].path, steps[moment.step].node)
        assert sorted(result.layout.slots[key] for key in moment.alive) == sorted(alive)
        infos = map(result.info, moment.alive)
        assert moment.live_bytes == sum(info.nbytes for info in infos if info is not None)


# --- failures --------------------------------------------------------------------------------------------------

BRANCHES = """g (float[3] x, float[2] q) => (float[3] y, float[3] z) {
  bad = MatMul(x, q)
  after = Neg(bad)
  z = Exp(x)
  y = Add(after, z)
}"""


def test_a_failing_node_stops_only_what_needs_it_and_explains_itself() -> None:
    result = Session(parse(BRANCHES)).run({"x": X, "q": X[:2]})
    assert states(result) == {"bad": "FAILED", "after": "SKIPPED", "z": "DONE", "y": "SKIPPED"}
    np.testing.assert_allclose(result.values["z"], np.exp(X))
    (failure,) = result.failures
    assert str(failure).startswith("MatMul (opset 21) with x: float[3], q: float[2]: "), "a node without a name"
    skipped = [n for n in result.nodes if n.state is State.SKIPPED]
    assert all(n.because is failure for n in skipped)
    with pytest.raises(ModelError, match="MatMul"):
        result.raise_for_failure()


def _with_sparse_weight(dims: tuple[int, int], places: list[int]) -> Session:
    values = numpy_helper.from_array(np.array([1, 2], np.float32), "w")
    sparse = helper.make_sparse_tensor(values, numpy_helper.from_array(np.array(places)), dims)
    ends = [helper.make_tensor_value_info(name, 1, ["M", "N"]) for name in "xy"]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], sparse_initializer=[sparse])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return Session(load(proto.SerializeToString()))


def test_sparse_initializers_are_read_as_tensors() -> None:
    """As ONNX Runtime does; no operator that computes takes sparse tensors."""
    x = np.eye(2, dtype=np.float32)
    assert _with_sparse_weight((2, 2), [0, 3]).run({"x": x}).outputs["y"].tolist() == [[1, 0], [0, 2]]
    large = _with_sparse_weight((1 << 20, 1 << 20), [0, 3]).run({"x": x}, max_tensor=1 << 30)
    assert "over the limit of 1,073,741,824 bytes" in large.failures[0].reason
    astray = _with_sparse_weight((2, 2), [0, 4]).run({"x": x})
    assert astray.failures[0].operator == "MatMul"


def test_a_weight_over_the_limit_is_read_once_the_limit_is_raised() -> None:
    session, x = _with_sparse_weight((512, 512), [0, 3]), np.ones((1, 512), np.float32)
    assert "over the limit" in session.run({"x": x}, max_tensor=1 << 10).failures[0].reason
    assert session.run({"x": x}, max_tensor=1 << 30).ok


@pytest.mark.parametrize(
    ("operator", "feeds", "reason"),
    [
        ("Exp", [np.ones(3, np.int64)], "input 0 (input) is int64; expected float, double, "),
        ("Relu", [np.array(["a", "b"], object)], "input 0 (X) is string; expected "),
        ("BitwiseAnd", [np.ones(3, np.float32)] * 2, "input 0 (A) is float; expected int8"),
        ("Add", [np.ones(3, np.float32), np.ones(3, np.int64)], "0 (A) is float and input 1 (B) int64; expected the"),
    ],
)
def test_a_refused_type_is_reported_with_the_types_allowed(operator: str, feeds: list[Any], reason: str) -> None:
    names = {f"x{index}": feed for index, feed in enumerate(feeds)}
    inputs = ", ".join(f"{ElementType.from_numpy(feed.dtype).text}[N] {name}" for name, feed in names.items())
    model = parse(f"g ({inputs}) => (float[N] y) {{ y = {operator} ({', '.join(names)}) }}")
    failure = Session(model).run(names).failures[0]
    assert reason in failure.reason
    assert failure.kind == "KernelError"


def test_nodes_that_were_only_skipped_are_no_success() -> None:
    result = Session(parse(BRANCHES)).run({"x": X, "q": X[:2]})
    skipped = [n for n in result.nodes if n.state is not State.FAILED]
    partly = replace(result, build_nodes=lambda: NodeTable.of(skipped))
    assert not partly.ok
    with pytest.raises(ModelError, match="MatMul"):
        partly.raise_for_failure()
    silent = replace(result, build_nodes=lambda: NodeTable.of(replace(n, because=None) for n in skipped))
    with pytest.raises(ModelError, match="did not finish"):
        silent.raise_for_failure()


def test_a_repaired_model_runs_on_from_what_was_reached() -> None:
    model = parse(BRANCHES)
    session = Session(model)
    session.run({"x": X, "q": X[:2]})
    assert done(session.run({"x": X, "q": X})) == {"bad", "after", "y"}


def test_an_error_inside_a_body_names_the_node_inside() -> None:
    text = """g (float[3] x, bool c) => (float[3] y) {
      y = If (c) < then_branch = t () => (float[3] a) {
                     w = Constant <value_floats: floats = [1.0, 2.0]> () a = Add(x, w) },
                   else_branch = e () => (float[3] b) { b = Neg(x) } > }"""
    result = Session(parse(text)).run({"x": X, "c": np.array(True)})
    failure = result.failures[0]
    assert failure.operator == "If"
    assert failure.inner is not None
    assert failure.inner.operator == "Add"
    assert "x: float[3]" in str(failure)


def test_a_list_of_graphs_is_refused_by_name_where_one_is_expected() -> None:
    text = """g (float[3] x, bool c) => (float[3] y) {
      y = If (c) < then_branch = t () => (float[3] a) { a = Neg(x) },
                   else_branch = e () => (float[3] b) { b = Neg(x) } > }"""
    proto = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {text}')
    branch = proto.graph.node[0].attribute[0]
    branch.type = onnx.AttributeProto.GRAPHS
    branch.graphs.append(branch.g)
    branch.ClearField("g")
    failure = Session(load(proto.SerializeToString())).run({"x": X, "c": np.array(True)}).failures[0]
    assert failure.operator == "If"
    assert "'then_branch' is a list of graphs" in failure.reason


def test_a_value_nothing_defines_is_reported() -> None:
    model = parse(CHAIN)
    RemoveNode(node(model, "c")).apply()
    result = Session(model).run({"x": X})
    assert states(result)["y"] == "SKIPPED"
    assert "nothing defines 'c'" in str(next(n.because for n in result.nodes if n.because))


# --- limits ----------------------------------------------------------------------------------------------------

ENDLESS = """g (float[3] x) => (float[3] y, float[3] z) {
  z = Neg(x)
  t = Constant <value = bool {1}> ()
  y = Loop ("", t, z) <body = b (int64 i, bool c, float[3] a) => (bool k, float[3] r) { k = Identity(c) r = Neg(a) }>
}"""


def test_an_endless_loop_ends_at_the_time_limit_with_its_values() -> None:
    result = Session(parse(ENDLESS)).run({"x": X}, time_limit=0.2)
    assert result.stopped == "time limit"
    np.testing.assert_array_equal(result.values["z"], -X)
    assert states(result)["y"] == "WAITING"


def test_an_endless_loop_ends_on_cancel() -> None:
    progress = Progress()
    threading.Timer(0.2, progress.cancel).start()
    result = Session(parse(ENDLESS)).run({"x": X}, progress=progress)
    assert result.stopped == "cancelled"
    assert "z" in result.values


@pytest.mark.parametrize(
    "text",
    [
        "y = ConstantOfShape(s)",
        "e = Expand(x, s) y = Neg(e)",
        "y = Tile(x, s)",
        "y = RandomNormal <shape = [100000, 100000]> ()",
    ],
)
def test_a_value_over_the_limit_is_refused_before_it_is_allocated(text: str) -> None:
    model = parse(f"g (float[1,1] x) => (float[N,M] y) <int64[2] s = {{100000, 100000}}> {{ {text} }}")
    result = Session(model).run({"x": np.ones((1, 1), np.float32)}, max_tensor=1 << 30)
    assert result.failures[0].kind == "LimitError", result.failures
    assert "1,073,741,824" in str(result.failures[0])


# --- watching --------------------------------------------------------------------------------------------------


def test_observers_are_notified_of_every_node() -> None:
    received: list[Any] = []
    result = Session(parse(CHAIN)).run({"x": X}, observer=received.extend)
    assert received == list(result.nodes)
    assert len(received) == len(result.nodes) == 5
    assert all(f.seconds >= 0 and f.nbytes == 12 for f in received)


def test_what_became_of_each_node_is_reported_in_every_run() -> None:
    model = parse("""
        g (float[2] x, float[3] q) => (float[2] y, float[3] z) {
            k = Constant <value_floats = [1.0, 2.0]> () c = Neg (k) a = Add (x, c) y = Abs (a) z = Neg (q)
        }
    """)
    session, times = Session(model), set()
    for known in (State.DONE, State.KEPT):
        q = np.ones(3, np.float32) * (known is State.KEPT)
        rows = list(session.run({"x": X[:2], "q": q}).nodes)
        assert [one.state for one in rows] == [State.CONSTANT, State.CONSTANT, known, known, State.DONE]
        assert [one.nbytes for one in rows] == [8, 8, 8, 8, 12]
        times.add((rows[2].seconds, rows[3].seconds))
    assert len(times) == 1  # those of the run that computed it


def test_progress_ends_complete() -> None:
    reports: list[tuple[float, float, str]] = []
    Session(parse(CHAIN)).run({"x": X}, progress=Progress(lambda *r: reports.append(r)))
    assert reports
    assert reports[-1][0] == pytest.approx(reports[-1][1])


CONSTANTS_FIRST = """
g (float[3] x) => (float[3] y) <float[3] w = {1.0, 2.0, 3.0}> {
  a = Exp (w)
  b = Sqrt (a)
  c = Neg (b)
  y = Add (x, c)
}
"""


def test_progress_of_constants_is_a_part_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onnx_workbench.exec.engine.executor.TICK", -1.0)  # tell of every node
    parts: list[float] = []

    class Heard(Progress):
        def report(self, done: float, total: float, text: str = "") -> None:
            parts.append(done / total)

    Session(parse(CONSTANTS_FIRST)).run({"x": X}, progress=Heard())
    assert parts == sorted(parts)
    assert set(parts) >= {0.25, 0.5, 0.75, 1.0}


def test_a_model_built_by_hand_runs() -> None:
    model = Model(opset=21)
    x, y = Value("x"), Value("y")
    from onnx_workbench.model.history.steps import SetGraphInputs, SetGraphOutputs

    SetGraphInputs(model.graph, (x,)).apply()
    InsertNode(model.graph, Node("Neg", (x,), (y,))).apply()
    SetGraphOutputs(model.graph, (y,)).apply()
    np.testing.assert_array_equal(Session(model).run({"x": X}).outputs["y"], -X)


LONG = "g (float[3] v0) => (float[3] v12) {{ {} }}".format(
    "\n".join(f"v{i + 1} = LeakyRelu <alpha = 0.5> (v{i})" for i in range(12))
)


@pytest.mark.long
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("alpha"), st.integers(0, 11), st.sampled_from([0.25, 0.5, 2.0])),
            st.tuples(st.just("input"), st.integers(1, 11), st.integers(0, 10)),
            st.tuples(
                st.just("operator"), st.integers(0, 11), st.sampled_from(["Neg", "Abs", "Nonsense", "LeakyRelu"])
            ),
        ),
        max_size=8,
    )
)
def test_a_plan_after_an_edit_is_as_good_as_a_new_one(edits: list[Any]) -> None:
    """Whatever is edited: attributes, connections (also backwards and in circles), operators."""
    document = Document(parse(LONG))
    session = Session(document)
    nodes = list(document.model.graph.nodes)
    values = [document.model.graph.inputs[0], *(n.outputs[0] for n in nodes)]
    for kind, index, what in edits:
        with document.edit("Edit") as edit:
            match kind:
                case "alpha":
                    edit.do(SetAttribute(nodes[index], "alpha", make_attribute("alpha", what)))
                case "input":
                    edit.do(SetInput(nodes[index], 0, values[what]))
                case _:
                    edit.do(SetField(nodes[index], "op_type", what))
        ours, fresh = session.run({"v0": X}), Session(document.model).run({"v0": X})
        assert [n.node for n in ours.nodes if n.failure] or ours.ok
        assert len(ours.failures) == len(fresh.failures)
        assert set(ours.values) == set(fresh.values)
        for name in fresh.values:
            np.testing.assert_array_equal(ours.values[name], fresh.values[name])


@given(
    st.integers(1, 40),
    st.integers(0, 1 << 16),
    st.sampled_from([np.uint8, np.float16, np.float32, np.float64, np.complex128, np.bool_]),
    st.booleans(),
)
def test_values_are_the_same_only_in_every_bit(count: int, place: int, dtype: Any, strided: bool) -> None:
    value = np.resize(np.array([0, 1], np.uint8), 2 * count * np.dtype(dtype).itemsize).view(dtype)
    value = value[::2] if strided else value[1 : 1 + count]
    other = np.ascontiguousarray(value).copy()
    assert same_value(value, other)
    data = other.view(np.uint8)
    data[place % data.size] ^= 1
    assert not same_value(value, other)
    assert not same_value(value, other[:-1])


def test_numpy_works_as_before_after_a_run() -> None:
    before = np.getbufsize(), np.geterr()
    assert Session(parse(LONG)).run({"v0": X}).ok
    assert not Session(parse("g (float[3] x) => (float[3] y) { y = Nonsense(x) }")).run({"x": X}).ok
    assert (np.getbufsize(), np.geterr()) == before


@pytest.mark.parametrize(
    ("inner", "result", "dtype", "shape"),
    [
        ("s = Add (x, i)", "y", np.int64, (0,)),
        ("a = Cast <to = 11> (x) s = Neg (a)", "y", np.float64, (0,)),
        ("s = Equal (x, x)", "y", np.bool_, (0,)),
        ("s = Identity (k)", "y", np.bool_, (0,)),
        ("s = If (k) <then_branch = t () => (v) { v = Add (x, i) }, else_branch = e () => (w) { w = Neg (x) }>", "y",
         np.int64, (0,)),
        ("s = local.Unknown (x)", "int64[n, 2] y", np.int64, (0, 2)),
    ],
)  # fmt: skip
def test_scan_outputs_of_a_loop_without_turns_keep_their_type(inner, result, dtype, shape):
    model = parse(
        f"g (int64 n, bool c, int64[2] x) => ({result}) {{"
        f"  y = Loop (n, c) <body = b (int64 i, bool k) => (bool k2, s) {{ k2 = Identity (k) {inner} }}>"
        "}"
    )
    y = Session(model).run({"n": np.array(0), "c": np.array(True), "x": np.ones(2, np.int64)}).outputs["y"]
    assert (y.dtype, y.shape) == (dtype, shape)
