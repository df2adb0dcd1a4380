"""What nodes inside bodies took: in loops, nested, in branches, from another process, over many turns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from exec import Session
from exec.remote.session import WorkerSession
from exec.results import RunResult
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


def feeds(turns: int, *, flag: bool = False) -> dict[str, Any]:
    return {"x": X, "n": np.array(turns), "flag": np.array(flag)}


def by_name(result: RunResult) -> dict[str, tuple[int, int, int]]:
    """Turns, depth and bytes of the inner nodes."""
    return {n.title: (n.turns, len(n.inside), n.nbytes) for n in result.inner}


@pytest.mark.parametrize("session_type", [Session, WorkerSession])
def test_nodes_in_bodies_are_told_with_their_turns_and_where_they_are(session_type: Any) -> None:
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


def test_times_of_the_inner_nodes_add_up_to_less_than_the_outer_one_took() -> None:
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
    assert deep.turns == 3
    assert result.node(node(model, "q")) is None  # the branch not taken


def test_no_turn_tells_of_no_nodes() -> None:
    assert Session(parse(NESTED)).run(feeds(0)).inner == []


def test_many_turns_are_counted_and_the_last_bytes_told() -> None:
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
    assert {n.title: n.turns for n in result.inner} == {"Identity": 3, "Gather": 3, "Neg": 3}
