"""Stepping and breakpoints, in bodies and functions too."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from onnx_workbench.exec.engine.breakpoints import Breakpoint
from onnx_workbench.exec.engine.executor import Executor
from onnx_workbench.exec.session import Session
from onnx_workbench.model.ir.graph import Model, Node
from tests.exec.texts import CHAIN, node, parse, states

X = np.array([1.0, -2.0, 3.0], np.float32)


def test_stepping() -> None:
    model = parse(CHAIN)
    stepper = Session(model).steps({"x": X})
    assert stepper.total == 5
    names = []
    while (following := stepper.next_node) is not None:
        names.append(following[1].outputs[0].name)
        assert stepper.step()
        if len(names) == 2:
            partial = stepper.result()
            assert set(partial.values) == {"x", "a", "b"}
            assert partial.stopped
    assert names == ["a", "b", "c", "d", "y"]
    assert stepper.done
    assert not stepper.step()
    assert stepper.result().ok


def test_a_step_is_reported_at_once() -> None:
    received: list[Any] = []
    stepper = Session(parse(CHAIN)).steps({"x": X}, observer=received.append)
    received.clear()
    while stepper.step():
        assert [n.node for n in received.pop()] == [stepper.last_key[1]]
    assert not received


def test_nodes_are_reported_together_though_each_may_be_a_breakpoint() -> None:
    """A table for every one of very many nodes cost far more than computing them, more with each that was reported."""
    count = 1000
    names = ["x", *(f"v{i}" for i in range(count))]
    chain = " ".join(f"{out} = Neg({given})" for given, out in pairwise(names))
    received: list[Any] = []
    model = parse(f"g (float[N] x) => (float[N] {names[-1]}) {{ {chain} }}")
    result = Session(model).run({"x": X}, observer=received.append, breakpoints=[Breakpoint(condition="non-finite")])
    assert [one for some in received for one in some] == list(result.nodes)
    assert len(received) < count / 2


@pytest.mark.parametrize("until", range(6))
def test_what_is_reported_of_steps_is_what_the_result_has(until: int) -> None:
    """Failed and skipped nodes too, and the time of each, wherever a user stopped in between."""
    text = "g (float[N] x, float[M] z) => (float[N] e) { a = Neg(x) b = Add(a, z) c = Abs(a) d = Neg(b) e = Neg(c) }"
    received: list[Any] = []
    stepper = Session(parse(text)).steps({"x": X, "z": X[:2]}, observer=received.extend)
    for _ in range(until):
        stepper.step()
    stepper.resume()
    nodes = list(stepper.result().nodes)
    assert received == nodes
    assert [one.state.name for one in nodes] == ["DONE", "FAILED", "DONE", "SKIPPED", "DONE"]
    assert all(one.seconds >= 0 for one in nodes)


def test_what_a_user_thinks_over_is_no_time_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither of the limit, nor of the time that is reported."""
    stepper = Session(parse(CHAIN)).steps({"x": X}, time_limit=1000.0)
    thought, clocks = [0.0], {name: getattr(time, name) for name in ("monotonic", "perf_counter")}
    for name, clock in clocks.items():
        monkeypatch.setattr(time, name, lambda clock=clock: clock() + thought[0])
    assert stepper.step()
    thought[0] += 5000.0
    assert stepper.step()
    thought[0] += 5000.0
    assert stepper.result().seconds < 1000.0
    stepper.resume()
    result = stepper.result()
    assert result.ok
    assert result.seconds < 1000.0
    assert sum(one.seconds for one in result.nodes) < 1000.0


@pytest.mark.parametrize(
    ("breakpoint_", "position", "reason"),
    [
        (lambda m: Breakpoint(node=node(m, "d")), 3, "before"),
        (lambda m: Breakpoint(value=node(m, "b").outputs[0]), 2, "after"),
        (lambda m: Breakpoint(condition="above", limit=15), 3, "above 15"),
        (lambda m: Breakpoint(condition="shape"), 1, "declared"),
    ],
)
def test_breakpoints(breakpoint_: Any, position: int, reason: str) -> None:
    model = parse(CHAIN.replace("{\n  a", "<float[7] a> {\n  a", 1))
    stepper = Session(model).steps({"x": X}, breakpoints=[breakpoint_(model)])
    assert reason in stepper.resume()
    assert stepper.position == position
    stepper.resume()
    assert stepper.done


LOOP = """g (int64 n, float[2] x) => (float[2] y, float[2] z) {
  a = Neg(x)
  r = Loop(n, , a) <body = b (int64 i, bool c, float[2] v) => (bool k, float[2] w) {
    k = Identity(c)
    one = RandomUniformLike <low = 1.0, high = 1.5> (v)
    w = Add(v, one)
  }>
  y = Neg(r)
  z = Exp(y)
}"""


def loop_stepper(model: Model, **asked: Any) -> Any:
    return Session(model).steps({"n": np.int64(3), "x": np.zeros(2, np.float32)}, seed=5, **asked)


def test_a_breakpoint_in_a_body_stops_in_each_turn() -> None:
    model = parse(LOOP)
    body = next(g for n in model.graph.nodes for g in n.bodies)
    add = next(n for n in body.nodes if n.op_type == "Add")
    stepper = loop_stepper(model, breakpoints=[Breakpoint(node=add)])
    seen = []
    while reason := stepper.resume():
        assert reason.startswith("in ")
        assert "before" in reason
        assert stepper.position == 1
        partial = stepper.result()
        assert not partial.ok
        seen.append(float(partial.find(add.inputs[0])[0]))
        assert not isinstance(partial.find(add.outputs[0]), np.ndarray)
    assert len(seen) == 3
    assert seen == sorted(seen)
    assert seen[0] == 0
    whole = loop_stepper(model)
    whole.resume()
    np.testing.assert_array_equal(stepper.result().values["y"], whole.result().values["y"])
    assert stepper.result().ok


def test_a_condition_in_a_body_stops_where_it_first_holds() -> None:
    model = parse(LOOP)
    stepper = loop_stepper(model, breakpoints=[Breakpoint(condition="above", limit=2.5)])
    reason = stepper.resume()
    assert "after" in reason
    assert "above 2.5" in reason
    assert stepper.position == 1
    assert stepper.resume()  # the value that the loop gives, its own breakpoint or the next in the body
    stepper.step()
    while stepper.resume():
        pass
    assert stepper.result().ok


def test_steps_inside_a_body_go_by_node_and_turn_and_lead_out() -> None:
    model = parse(LOOP)
    body = next(g for n in model.graph.nodes for g in n.bodies)
    _, draw, add = body.nodes
    stepper = loop_stepper(model, breakpoints=[Breakpoint(node=draw)])
    stepper.resume()
    assert stepper.next_node == ((), draw)
    seen = []
    while stepper.position == 1:
        partial = stepper.result()
        assert partial.find(draw.outputs[0]) is not None
        seen.append((stepper.next_node[1].op_type, float(np.max(partial.find(add.inputs[0])))))
        assert stepper.step()
    turn = ["RandomUniformLike", "Add", "Identity"]
    assert [name for name, _ in seen] == [*turn, *turn, *turn][: len(seen)]
    assert len(seen) == 8  # from the second node of the first turn to the last of the third
    assert len({carried for _, carried in seen}) == 3
    assert stepper.next_node == ((), node(model, "y"))
    assert stepper.resume() == ""
    whole = loop_stepper(model)
    whole.resume()
    np.testing.assert_array_equal(stepper.result().values["z"], whole.result().values["z"])


def test_a_step_over_a_node_with_bodies_stops_at_breakpoints_inside() -> None:
    model = parse(LOOP)
    add = next(n for m in model.graph.nodes for g in m.bodies for n in g.nodes if n.op_type == "Add")
    stepper = loop_stepper(model, breakpoints=[Breakpoint(value=add.outputs[0])])
    assert stepper.step()
    assert stepper.reason == ""
    assert stepper.step()
    assert stepper.reason.startswith("in ")
    assert stepper.position == 1
    assert stepper.next_node == ((), node(model, "y").inputs[0].producer)  # a turn is at its end


TURNS = """g (float[4,2] x) => (float[2] y, float[4,2] z) <int64 n = {5}, bool t = {1}, float[2] o = {0.5, 0.25}> {
  y, z = Scan <num_scan_inputs = 1, body = rows (float[2] s, float[2] row) => (float[2] u, float[2] v) {
    u, w = Loop(n, t, s) <body = turn (int64 i, bool c, float[2] b) => (bool k, float[2] d, float[2] e) {
      k = Identity(c)
      d = Add(b, row)
      e = Neg(d)
    }>
    v = ReduceMax <keepdims = 0, axes = [0]> (w)
  }> (o, x)
}"""


@pytest.mark.parametrize("draws", [False, True])
def test_a_loop_that_was_stopped_in_goes_on_with_the_turn_it_was_in(
    draws: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what is reported of its nodes is what they did; where numbers are drawn, they are the same ones."""
    text = TURNS
    if draws:
        text = text.replace("d = Add(b, row)", "f = RandomUniformLike(b) g = Add(f, row) d = Add(b, g)")
    model = parse(text, header='ir_version: 10, opset_import: ["" : 17]')
    feeds = {"x": np.arange(8, dtype=np.float32).reshape(4, 2)}
    whole = Session(model).run(feeds)
    add = [n for g in model.graphs() for n in g.nodes if n.op_type == "Add"][-1]
    bodies = []
    run_body = Executor.run_body
    monkeypatch.setattr(Executor, "run_body", lambda run, *given: bodies.append(given) or run_body(run, *given))
    stepper = Session(model).steps(feeds, breakpoints=[Breakpoint(node=add)])
    seen = []
    while stepper.resume():
        seen.append(float(stepper.result().find(add.inputs[0])[0]))
    assert len(seen) == 20
    assert draws or len(bodies) == 4 + 4 * 5 + 2 * 20  # each turn, and at each stop the two that it is in
    result = stepper.result()
    assert [(n.title, n.runs) for n in result.inner] == [(n.title, n.runs) for n in whole.inner]
    for name in ("y", "z"):
        np.testing.assert_array_equal(result.values[name], whole.values[name])
    again = Session(model).steps(feeds, breakpoints=[Breakpoint(node=add)])
    again.resume()
    for _ in range(6):
        again.step()
    again.resume()
    assert float(again.result().find(add.inputs[0])[0]) in seen


@pytest.mark.parametrize("lengths", ["3, 2", "0, 3", "2, 0"])
def test_each_sequence_of_a_batch_goes_on_with_its_own_turn(lengths: str) -> None:
    """Sequences without a turn came to be in the turn of the next one."""
    text = f"""g (float[2,1] o, float[2,3,1] x) => (float[2,1] y, float[2,3,1] z) <int64[2] n = {{{lengths}}}> {{
      y, z = Scan <num_scan_inputs = 1, body = rows (float[1] s, float[1] row) => (float[1] u, float[1] v) {{
        u = Add(s, row)
        v = Neg(u)
      }}> (n, o, x)
    }}"""
    model = parse(text, header='ir_version: 3, opset_import: ["" : 8]')
    sequences = np.arange(1, 7, dtype=np.float32).reshape(2, 3, 1)
    feeds = {"o": np.zeros((2, 1), np.float32), "x": sequences}
    whole = Session(model).run(feeds)
    neg = node(model, "v")
    stepper = Session(model).steps(feeds, breakpoints=[Breakpoint(node=neg)])
    seen = []
    while stepper.resume() and len(seen) < 9:
        seen.append(float(stepper.result().find(neg.inputs[0])[0]))
    assert seen == [x for row, n in zip(sequences, lengths.split(","), strict=True) for x in row[: int(n)].cumsum()]
    for name in ("y", "z"):
        np.testing.assert_array_equal(stepper.result().values[name], whole.values[name])


def test_a_sequence_goes_on_with_the_element_it_was_in(monkeypatch: pytest.MonkeyPatch) -> None:
    model = parse(
        "g (seq(float[2]) s) => (seq(float[2]) r)"
        "{ r = SequenceMap <body = m (float[2] a) => (float[2] b) { c = Neg(a) b = Abs(c) }> (s) }"
    )
    bodies = []
    run_body = Executor.run_body
    monkeypatch.setattr(Executor, "run_body", lambda run, *given: bodies.append(given) or run_body(run, *given))
    feeds = {"s": [np.full(2, i, np.float32) for i in range(5)]}
    absolute = node(model, "b")
    stepper = Session(model).steps(feeds, breakpoints=[Breakpoint(node=absolute)])
    seen = []
    while stepper.resume():
        seen.append(float(stepper.result().find(absolute.inputs[0])[0]))
    assert seen == [0, -1, -2, -3, -4]
    assert len(bodies) == 5 + 5  # each element, and after each stop once more the one it is in
    np.testing.assert_array_equal(stepper.result().values["r"], feeds["s"])


NESTED = """g (bool k, float[2] x) => (float[2] y) {
  y = If(k) <then_branch = outer () => (float[2] a) {
    b = Neg(x)
    c = If(k) <then_branch = inner () => (float[2] d) { e = Exp(b) d = Abs(e) },
               else_branch = other () => (float[2] f) { f = Identity(b) }>
    a = Neg(c)
  }, else_branch = no () => (float[2] h) { h = Identity(x) }>
}"""


def test_a_step_inside_a_body_skips_inner_bodies_and_leaves_it() -> None:
    model = parse(NESTED)
    first = next(n for g in model.graphs() for n in g.nodes if n.op_type == "Neg")
    deep = next(n for g in model.graphs() for n in g.nodes if n.op_type == "Exp")
    feeds = {"k": np.array(True), "x": np.zeros(2, np.float32)}

    def way(start: Node) -> list[str]:
        stepper = Session(model).steps(feeds, breakpoints=[Breakpoint(node=start)])
        stepper.resume()
        found = []
        while (following := stepper.next_node) is not None:
            found.append(following[1].op_type)
            stepper.step()
        return found

    assert way(first) == ["Neg", "If", "Neg"]
    assert way(deep) == ["Exp", "Abs", "Neg"]


def test_breakpoints_at_a_call_of_a_function() -> None:
    model = parse(
        """g (float[3] x) => (float[3] y) { a = Neg(x) b = my.F(a) y = Exp(b) }
        <domain: "my", opset_import: ["": 21]> F (i) => (o) { t = Abs(i) o = Sqrt(t) }""",
        header='ir_version: 10, opset_import: ["": 21, "my": 1]',
    )
    call = node(model, "b")
    stepper = Session(model).steps({"x": X}, breakpoints=[Breakpoint(node=call), Breakpoint(value=call.outputs[0])])
    assert "before" in stepper.resume()
    assert stepper.position == 1
    assert "after" in stepper.resume()
    assert stepper.position == 3
    assert not stepper.resume()
    assert stepper.done


def test_breakpoints_at_what_comes_first_and_in_what_has_run() -> None:
    model = parse(CHAIN)
    session = Session(model)
    session.run({"x": X})
    at = [Breakpoint(value=model.graph.inputs[0]), Breakpoint(node=node(model, "a"))]
    for breakpoint_ in at:
        stepper = session.steps({"x": X}, breakpoints=[breakpoint_])
        assert "before" in stepper.resume()
        assert stepper.position == 0
        assert not stepper.resume()
        assert stepper.done


@pytest.mark.parametrize(
    ("kind", "numbers"),
    [("float", np.array([np.nan, 100], np.float32)), ("float", np.array([-100, np.nan], np.float32)),
     ("int8", np.array([-128], np.int8)), ("uint8", np.array([200], np.uint8))],
)  # fmt: skip
def test_an_element_above_a_limit_is_seen_beside_any_other(kind: str, numbers: Any) -> None:
    model = parse(f"g ({kind}[n] x) => ({kind}[n] y) {{ y = Identity(x) }}")
    stepper = Session(model).steps({"x": numbers}, breakpoints=[Breakpoint(condition="above", limit=99)])
    assert "above 99" in stepper.resume()


@pytest.mark.parametrize(
    ("kind", "number", "limit", "stops"),
    [("float16", np.inf, 70_000.0, True), ("float", 0.1, 0.1, False), ("float", -np.inf, np.inf, False),
     ("float", 1e38, 1e39, False), ("complex64", 3e38 + 3e38j, 4e38, True), ("complex64", 3e38 + 3e38j, 1e39, False)],
)  # fmt: skip
def test_a_limit_may_be_more_than_the_type_it_is_compared_with_has(
    kind: str, number: Any, limit: float, stops: bool
) -> None:
    model = parse(f"g ({kind}[1] x) => ({kind}[1] y) {{ y = Identity(x) }}")
    numbers = np.array([number], {"float16": np.float16, "float": np.float32, "complex64": np.complex64}[kind])
    stepper = Session(model).steps({"x": numbers}, breakpoints=[Breakpoint(condition="above", limit=limit)])
    assert bool(stepper.resume()) == stops


def test_a_breakpoint_on_what_is_not_finite() -> None:
    model = parse("g (float[3] x) => (float[3] y) { a = Log(x) y = Exp(a) }")
    result = Session(model).run({"x": X}, breakpoints=[Breakpoint(condition="non-finite")])
    assert "not finite" in result.stopped
    assert states(result) == {"a": "DONE", "y": "WAITING"}


CONSTANT_BODIES = """g (float[2] x) => (float[2] y, float[2] z) <bool yes = {1}, float[2] c = {-1.0, 1.0}> {
  t = Neg(c)
  f = If(yes) <
    then_branch = t () => (float[2] a) { l = Log(c)  n = IsNaN(l)  a = Where(n, c, l) },
    else_branch = e () => (float[2] b) { b = Identity(c) }
  >
  y = Add(x, f)
  one = Constant <value = int64 {1}> ()
  z = Loop(one, yes, x) <body = b (int64 i, bool k, float[2] v) => (bool j, float[2] w) {
    j = Identity(k)
    s = Log(c)
    w = Max(v, s)
  }>
}"""


def inner(model: Model, output: str) -> Any:
    nodes = (n for graph in model.graphs() for n in graph.nodes)
    return next(n for n in nodes if n.outputs[0].name == output)


@pytest.mark.parametrize("output", ["t", "f", "l", "a", "s"])
def test_breakpoints_at_what_constants_alone_decide(output: str) -> None:
    model = parse(CONSTANT_BODIES)
    session = Session(model)
    plain = session.run({"x": X[:2]})
    for _ in range(2):
        stepper = session.steps({"x": X[:2]}, breakpoints=[Breakpoint(node=inner(model, output))])
        assert stepper.resume()
        assert stepper.next_node[1].outputs[0].name == output
        assert not stepper.resume()
        assert stepper.done
        result = stepper.result()
        assert result.ok
        for name, value in plain.outputs.items():
            np.testing.assert_array_equal(result.outputs[name], value)
        assert [n.state for n in result.nodes] == [n.state for n in plain.nodes]


@pytest.mark.parametrize("first", [True, False])
def test_a_condition_is_seen_in_what_constants_alone_decide(first: bool) -> None:
    model = parse(CONSTANT_BODIES)
    session = Session(model)
    if not first:
        session.run({"x": X[:2]})
    stepper = session.steps({"x": X[:2]}, breakpoints=[Breakpoint(condition="non-finite")])
    reasons = list(iter(stepper.resume, ""))
    assert [reason.split(":")[0] for reason in reasons] == [
        "in 'If', after 'Log'",
        "in 'Loop', iteration 0, after 'Log'",
        "in 'Loop', iteration 0, after 'Max'",
        "after 'Loop'",
    ]


DECLARED = """g (float[2] x) => (float[2] y, float[2] z) <bool yes = {1}, int64 n = {2}> {
  y = own.F(x)
  z = Loop(n, yes, x) <body = b (int64 i, bool k, float[2] v) => (bool j, float[2] w) <float[5] q> {
    j = Identity(k)
    q = Mul(v, v)
    w = Sqrt(q)
  }>
}
<opset_import: ["" : 21], domain: "own">
F (s) => (t) <float[7] p> { p = Neg(s) t = Abs(p) }"""


def test_shapes_are_compared_with_declarations_in_bodies() -> None:
    model = parse(DECLARED, header='ir_version: 10, opset_import: ["" : 21, "own" : 1]')
    stepper = Session(model).steps({"x": X[:2]}, breakpoints=[Breakpoint(condition="shape")])
    assert list(iter(stepper.resume, "")) == [
        "after 'Neg': 'p' is float[2], declared float[7]",
        "in 'Loop', iteration 0, after 'Mul': 'q' is float[2], declared float[5]",
        "in 'Loop', iteration 1, after 'Mul': 'q' is float[2], declared float[5]",
    ]


LOOPS = """g (float x) => (float y) <bool yes = {1}, int64 n = {3}, int64 m = {4}> {
  y = Loop(n, yes, x) <body = outer (int64 i, bool k, float v) => (bool j, float w) {
    j = Identity(k)
    w = Loop(m, yes, v) <body = inner (int64 a, bool b, float c) => (bool d, float e) {
      d = Identity(b)
      e = Mul(c, c)
    }>
  }>
}"""


@pytest.mark.parametrize("at_node", [True, False])
def test_it_stops_in_one_iteration_of_the_innermost_loop(at_node: bool) -> None:
    model = parse(LOOPS)
    inner = next(node for graph in model.graphs() for node in graph.nodes if node.op_type == "Mul")
    place = {"node": inner} if at_node else {"value": inner.outputs[0]}
    stepper = Session(model).steps(
        {"x": X[:1].reshape(())}, breakpoints=[Breakpoint(**place, condition="iteration", limit=2)]
    )
    what = "before 'Mul'" if at_node else "after 'Mul': 'e' is computed"
    assert list(iter(stepper.resume, "")) == [f"in 'Loop', iteration {i} › 2, {what}" for i in range(3)]


def test_a_step_out_ends_the_body_with_all_of_its_iterations() -> None:
    model = parse(LOOPS)
    inner = next(node for graph in model.graphs() for node in graph.nodes if node.op_type == "Mul")
    plain = Session(model).run({"x": X[:1].reshape(())})
    stepper = Session(model).steps({"x": X[:1].reshape(())}, breakpoints=[Breakpoint(node=inner)])
    assert stepper.resume() == "in 'Loop', iteration 0 › 0, before 'Mul'"
    stepper.step(out=True)
    assert stepper.reason.startswith("in 'Loop', iteration 1, before "), "that of the outer loop"
    stepper.step(out=True)
    assert stepper.reason == ""
    assert stepper.done
    np.testing.assert_array_equal(stepper.result().outputs["y"], plain.outputs["y"])


def test_stepping_into_a_body_waits_before_its_first_node() -> None:
    model = parse(LOOPS)
    stepper = Session(model).steps({"x": X[:1].reshape(())})
    where = []
    while not stepper.done and len(where) < 7:
        where.append(stepper.next_node[1].outputs[0].name)
        stepper.step(into=True)
    assert where == ["y", "j", "w", "d", "e", "d", "e"]
    assert stepper.reason == "in 'Loop', iteration 0 › 2, before 'Identity'"
    stepper.step(out=True)
    assert stepper.reason.startswith("in 'Loop', iteration 1, before "), "that of the outer loop"


def test_a_step_out_of_a_function_computes_the_rest_of_the_call() -> None:
    model = parse(
        """g (float[2] x) => (float[2] z) { y = local.f(x) z = local.f(y) }
        <domain: "local", opset_import: ["" : 21]> f (a) => (d) { b = Neg(a) c = Abs(b) d = Exp(c) }""",
        header='ir_version: 10, opset_import: ["" : 21, "local" : 1]',
    )
    stepper = Session(model).steps({"x": X[:2]})
    stepper.step()
    stepper.step(out=True)
    assert (stepper.position, stepper.next_node[1].op_type) == (3, "Neg"), "the first of the second call"
    stepper.step(out=True)
    assert stepper.done
