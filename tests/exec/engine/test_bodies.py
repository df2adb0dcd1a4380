"""What nodes inside bodies took: in loops, nested, in branches, from another process, over many runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx_workbench.exec.results.node_table import State
from onnx_workbench.exec.results.run_result import RunResult
from onnx_workbench.exec.session import Session
from onnx_workbench.exec.worker.client import WorkerSession
from onnx_workbench.model.edits.nodes import change_operator
from onnx_workbench.model.history.document import Document
from tests.exec.texts import node, parse

NESTED = """g (float[3] x, int64 n, bool flag) => (float[3] y) {
  t = Constant <value = bool {1}> ()
  [outer] y = Loop (n, t, x) <body = b (int64 i, bool c, float[3] a) => (bool k, float[3] r) {
    k = Identity(c)
    [choice] r = If (flag) <
      then_branch = yes () => (float[3] p) { [deep] p = Exp(a) },
      else_branch = no () => (float[3] q) { h = Neg(a) q = Abs(h) } >
  }>
  [last] z = Neg(y)
}"""
X = np.array([1.0, -2.0, 3.0], np.float32)


def feeds(runs: int, *, flag: bool = False) -> dict[str, Any]:
    return {"x": X, "n": np.array(runs), "flag": np.array(flag)}


def by_name(result: RunResult) -> dict[str, tuple[int, int, int]]:
    """Turns, depth and bytes of the inner nodes."""
    return {n.title: (n.runs, len(n.inside), n.nbytes) for n in result.inner}


@pytest.mark.long
@pytest.mark.parametrize("session_type", [Session, WorkerSession])
def test_nodes_in_bodies_are_reported_with_turn_and_path(session_type: Any) -> None:
    model = parse(NESTED)
    session = session_type(model)
    result = session.run(feeds(7)).raise_for_failure()
    assert by_name(result) == {"Identity": (7, 1, 1), "choice": (7, 1, 12), "Neg": (7, 2, 12), "Abs": (7, 2, 12)}
    outer, choice = node(model, "y"), next(n for n in result.inner if n.title == "choice")
    whole = result.node(outer)
    assert whole is not None
    assert [n.inside for n in result.inner] == [(whole.node,)] * 2 + [(whole.node, choice.node)] * 2
    assert not any(n.inside for n in result.nodes)
    if session_type is WorkerSession:
        session.close()


def test_times_of_inner_nodes_add_up_to_less_than_the_outer() -> None:
    result = Session(parse(NESTED)).run(feeds(50))
    outer = next(n for n in result.nodes if n.title == "outer")
    direct = [n for n in result.inner if len(n.inside) == 1]
    deeper = [n for n in result.inner if len(n.inside) == 2]
    choice = next(n for n in direct if n.title == "choice")
    assert all(n.seconds > 0 for n in result.inner)
    assert sum(n.seconds for n in direct) <= outer.seconds
    assert sum(n.seconds for n in deeper) <= choice.seconds


def test_a_node_is_found_wherever_it_is() -> None:
    model = parse(NESTED)
    result = Session(model).run(feeds(3, flag=True))
    deep = result.node(node(model, "p"))
    assert deep is not None
    assert deep.runs == 3
    assert result.node(node(model, "q")) is None  # the branch not taken


def test_no_turn_reports_of_no_nodes() -> None:
    assert Session(parse(NESTED)).run(feeds(0)).inner[:] == []


@pytest.mark.long
def test_many_turns_are_counted_and_the_last_bytes_reported() -> None:
    text = """g (float[1] x, int64 n) => (float[m] y) {
      t = Constant <value = bool {1}> ()
      y = Loop (n, t, x) <body = b (int64 i, bool c, float[1] a) => (bool k, float[1] r) {
        k = Identity(c) r = Neg(a) }> }"""
    result = Session(parse(text)).run({"x": X[:1], "n": np.array(20_001)})
    assert by_name(result) == {"Identity": (20_001, 1, 1), "Neg": (20_001, 1, 4)}


def test_the_turn_that_fails_is_not_counted() -> None:
    text = """g (float[3] x, int64 n) => (float[3] y) {
      t = Constant <value = bool {1}> ()
      y = Loop (n, t, x) <body = b (int64 i, bool c, float[3] a) => (bool k, float[3] r) {
        k = Identity(c) s = Gather(a, i) r = Neg(a) }> }"""
    result = Session(parse(text)).run({"x": X, "n": np.array(9)})
    assert result.failures
    assert {n.title: n.runs for n in result.inner} == {"Identity": 3, "Gather": 3, "Neg": 3}


@pytest.mark.long
@pytest.mark.parametrize("session_type", [Session, WorkerSession])
def test_what_is_in_a_body_stays_while_the_node_need_not_run_again(session_type: Any) -> None:
    document = Document(parse(NESTED))
    session = session_type(document)
    first = session.run(feeds(7))
    deep = node(document.model, "y").bodies[0].nodes.last.bodies[1].nodes.last.outputs[0]
    with document.edit("Change the last node") as edit:
        change_operator(edit, node(document.model, "z"), "Abs")
    second = session.run(feeds(7))
    assert [n.state.name for n in second.nodes] == ["CONSTANT", "KEPT", "DONE"]
    np.testing.assert_array_equal(second.value(deep), first.value(deep))
    assert by_name(second) == by_name(first)
    assert {n.state for n in second.inner} == {State.KEPT}
    third = session.run(feeds(2, flag=True))
    assert by_name(third) == {"Identity": (2, 1, 1), "choice": (2, 1, 12), "deep": (2, 2, 12)}
    assert third.info(deep) is None
    if session_type is WorkerSession:
        session.close()


def test_what_is_in_a_branch_that_constants_alone_decide_stays() -> None:
    model = parse("""g (float[2] x) => (float[2] y) <bool yes = {1}, float[2] c = {1.0, 2.0}> {
      f = If (yes) <
        then_branch = t () => (float[2] a) { a = Neg(c) }, else_branch = e () => (float[2] b) { b = Abs(c) }>
      y = Add (x, f)
    }""")
    session = Session(model)
    inside = node(model, "f").bodies[0].nodes.first.outputs[0]
    for fresh in (False, False, True):
        result = session.run({"x": X[:2]}, fresh=fresh)
        np.testing.assert_array_equal(result.value(inside), [-1, -2])


def test_what_a_body_only_reads_is_not_counted_as_kept() -> None:
    model = parse("""g (float[2] x) => (float[2] y) <bool yes = {1}, int64 n = {2}, float[2] w = {3.0, 4.0}> {
      y = Loop (n, yes, x) <body = b (int64 i, bool k, float[2] v) => (bool j, float[2] s) <float[2] u = {1.0, 1.0}> {
        j = Identity(k)
        p = Mul(v, w)
        s = Add(p, u)
      }>
    }""")
    session = Session(model)
    for _ in range(2):
        result = session.run({"x": X[:2]})
        names = {result.layout.name(number) for values in result.bodies.values() for number in values}
        assert names == {"i", "k", "v", "j", "p", "s", "u"}
    (entry,) = [e for e in session.engine.cache.entries.values() if e.inside is not None]
    assert entry.inside is not None
    assert len(entry.inside.made) == 6
    assert entry.held - entry.nbytes == 8 + 1 + 8 + 1 + 8 + 8
