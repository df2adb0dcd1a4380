"""Results told as differences: what arrives is what was told, whatever was told before."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_workbench.exec.results.node_table import Failure, NodeResult, NodeTable, State
from onnx_workbench.exec.results.run_result import RunMemory
from onnx_workbench.exec.results.slot_map import SlotMap, StepLayout, Steps
from onnx_workbench.exec.results.summaries import SummaryTable
from onnx_workbench.exec.results.values import MISSING
from onnx_workbench.exec.values.statistics import Statistics, Summary, ValueInfo
from onnx_workbench.exec.worker.result_protocol import DeltaDecoder, DeltaEncoder, ResultHead, ResultTables
from onnx_workbench.model.ir.types import ElementType

HEAD = ResultHead(1, 0.5, 100, RunMemory(9, 8, 7), "", ("a note",), "", ((), 2), ((), 3), 2, 5)
SLOTS = 6

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
).map(lambda row: row if row.state is State.FAILED else replace(row, failure=None))
#: What became of a step: its state, seconds, bytes and whose failure it was.
fates = st.tuples(st.sampled_from(State), st.floats(0, 1), st.integers(0, 9), st.none() | failures)
tables = st.tuples(
    st.integers(0, 2),
    st.dictionaries(st.integers(1, SLOTS - 1), summaries, max_size=5),
    st.lists(fates, min_size=3, max_size=3),
    st.dictionaries(st.tuples(st.just((7,)), st.integers(1, 3)), summaries, max_size=2),
    st.lists(nodes, max_size=2),
)


def layout(number: int) -> SlotMap:
    """One of a few; the first two share their slots, as those of a model and of a small edit of it do."""
    steps = [StepLayout(0, 3, (), (1,), (2 + number,)), StepLayout(1, 8, (4,), (), (1, 0), has_bodies=True)]
    steps.append(StepLayout(2, 9, (4, 5), (3, 2), ()))
    return SlotMap({((), 1): 1, ((4,), 2): 2 + number // 2}, (1,), {}, Steps.of(steps[: 3 - number]))


def rows_of(plan: SlotMap, fates: list[tuple[State, float, int, Failure | None]]) -> list[NodeResult]:
    """What became of the steps of a layout: one that was skipped has another's failure."""
    rows = []
    for step, (state, seconds, size, why) in zip(plan.steps, fates, strict=False):
        row = NodeResult(step.node, step.path, "", "", state, seconds, size)
        rows.append(replace(row, failure=why) if state is State.FAILED else replace(row, because=why))
    return rows


def nodes_of(plan: SlotMap, rows: list[NodeResult]) -> NodeTable:
    return replace(NodeTable.of(rows), keys=plan.steps.keys, label=None)


def made_of(
    plan: SlotMap, infos: SummaryTable, rows: list[NodeResult], bodies: Any = None, inner: Sequence[NodeResult] = ()
) -> ResultTables:
    table = NodeTable.of(inner)
    labels = tuple((row.operator, row.title) for row in inner)
    nodes = nodes_of(plan, rows)
    return ResultTables(HEAD, plan.table, plan.outputs, plan.steps, infos, nodes, bodies or {}, table, {}, labels)


def plain(plan: SlotMap | ResultTables) -> tuple[object, ...]:
    return dict(plan.slots.items()), [plan.slots[key] for key in plan.slots], plan.outputs, list(plan.steps)


def sent(made: ResultTables, teller: DeltaEncoder, listener: DeltaDecoder) -> ResultTables:
    return listener.tables(pickle.loads(pickle.dumps(teller.message(made))))


@given(st.lists(tables, min_size=1, max_size=5))
@settings(max_examples=60, deadline=None)
def test_every_message_gives_the_tables_it_was_made_of(told):
    teller, listener = DeltaEncoder(), DeltaDecoder()
    layouts = [layout(0), layout(1), layout(2)]
    layouts[1].slots = layouts[0].slots
    for which, infos, fates, bodies, inner in told:
        rows = rows_of(layouts[which], fates)
        table = SummaryTable.of([MISSING] * SLOTS, infos)
        made = made_of(layouts[which], table, rows, bodies, inner)
        found = sent(made, teller, listener)
        assert (found.head, found.infos, list(found.nodes), found.bodies) == (HEAD, infos, rows, bodies)
        assert list(found.inner) == inner
        assert plain(found) == plain(layouts[which])


def test_what_was_told_before_stays_as_it_was():
    teller, listener = DeltaEncoder(), DeltaDecoder()
    plan = layout(2)
    one = NodeResult(3, (), "", "", State.WAITING)
    info = Summary(ValueInfo("tensor", ElementType.FLOAT, (2,), 8), None)
    nothing = SummaryTable.of([MISSING] * SLOTS, {})
    before = sent(made_of(plan, nothing, [one]), teller, listener)
    done = [replace(one, state=State.DONE)]
    sent(made_of(plan, SummaryTable.of([MISSING] * SLOTS, {1: info}), done), teller, listener)
    assert (before.infos, list(before.nodes)) == ({}, [one])


def test_what_did_not_change_is_not_told_again():
    teller = DeltaEncoder()
    plan = SlotMap({}, (), {}, Steps.of(StepLayout(n, n, (), (), ()) for n in range(5000)))
    rows = [NodeResult(n, (), "", "", State.DONE) for n in range(5000)]
    infos = {n: Summary(ValueInfo("tensor", ElementType.FLOAT, (n,), 8), None) for n in range(5000)}
    table = SummaryTable.of([MISSING] * 5000, infos)
    whole = teller.message(made_of(plan, table, rows))
    later = [*rows[:-1], replace(rows[-1], nbytes=5)]
    again = teller.message(made_of(plan, SummaryTable.of([MISSING] * 5000, infos), later))
    assert len(pickle.dumps(whole)) > 50_000
    assert len(pickle.dumps(again)) < 1500
