"""Results told as differences: what arrives is what was told, whatever was told before."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from exec.inspection.statistics import Statistics, Summary, ValueInfo
from exec.plan import Layout, StepLayout
from exec.remote.tables import Listener, ResultHead, ResultTables, Teller
from exec.results import Failure, NodeResult, State
from model.types import ElementType

HEAD = ResultHead(1, 0.5, 100, "", ("a note",), "", ((), 2), ((), 3), 2, 5)

summaries = st.builds(
    Summary,
    st.builds(
        ValueInfo,
        st.just("tensor"),
        st.sampled_from([ElementType.FLOAT, None]),
        st.tuples(st.integers(0, 3)),
        st.integers(0, 9),
    ),
    st.sampled_from([None, Statistics(3, zeros=1)]),
)
failures = st.builds(
    Failure, st.integers(1, 9), st.just(()), st.text(max_size=3), st.just("Add"), st.just(17), st.just(("x",)),
    st.just("why"), st.just("KernelError"),
)  # fmt: skip
nodes = st.builds(
    NodeResult,
    st.integers(1, 9),
    st.sampled_from([(), (4,)]),
    st.just("Add"),
    st.text(max_size=3),
    st.sampled_from(State),
    st.floats(0, 1),
    st.integers(0, 9),
    st.none() | failures,
)
tables = st.builds(
    lambda which, infos, rows, bodies, inner: (which, infos, rows, bodies, inner),
    st.integers(0, 1),
    st.dictionaries(st.integers(1, 5), summaries, max_size=5),
    st.lists(nodes, max_size=5),
    st.dictionaries(st.just((7,)), st.dictionaries(st.integers(1, 3), summaries, max_size=2), max_size=1),
    st.lists(nodes, max_size=2),
)


def layout(number: int) -> Layout:
    return Layout({((), 1): 1, ((4,), 2): 2 + number}, (1,), {}, [StepLayout(0, 3, (), (1,), (2 + number,))])


@given(st.lists(tables, min_size=1, max_size=5))
@settings(max_examples=60, deadline=None)
def test_every_message_gives_the_tables_it_was_made_of(told):
    teller, listener = Teller(), Listener()
    layouts = [layout(0), layout(1)]
    for which, infos, rows, bodies, inner in told:
        made = ResultTables(HEAD, layouts[which], infos, rows, bodies, inner)
        found = listener.tables(teller.message(made))
        assert (found.head, found.infos, found.nodes, found.bodies, found.inner) == (HEAD, infos, rows, bodies, inner)
        assert (found.layout.slots, found.layout.outputs) == (made.layout.slots, made.layout.outputs)
        assert found.layout.steps == made.layout.steps


def test_what_was_told_before_stays_as_it_was():
    teller, listener = Teller(), Listener()
    one, plan = NodeResult(3, (), "Add", "add", State.WAITING), layout(0)
    info = Summary(ValueInfo("tensor", ElementType.FLOAT, (2,), 8), None)
    before = listener.tables(teller.message(ResultTables(HEAD, plan, {}, [one], {}, [])))
    after = ResultTables(HEAD, plan, {1: info}, [replace(one, state=State.DONE)], {}, [])
    listener.tables(teller.message(after))
    assert (before.infos, before.nodes) == ({}, [one])


def test_what_did_not_change_is_not_told_again():
    teller, plan = Teller(), layout(0)
    rows = [NodeResult(n, (), "Add", f"node {n}", State.DONE) for n in range(5000)]
    infos = {n: Summary(ValueInfo("tensor", ElementType.FLOAT, (n,), 8), None) for n in range(5000)}
    teller.message(ResultTables(HEAD, plan, infos, rows, {}, []))
    again = teller.message(ResultTables(HEAD, plan, dict(infos), [*rows[:-1], replace(rows[-1], nbytes=5)], {}, []))
    assert again.slots is None
    assert not again.infos
    assert sum(map(len, again.nodes)) < 300
