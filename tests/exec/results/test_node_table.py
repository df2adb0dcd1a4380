"""Tables of nodes tell by columns what their rows tell one by one."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from onnx_workbench.exec.results.columns import Lists
from onnx_workbench.exec.results.node_table import Failure, NodeResult, NodeTable, State

CAUSES = [Failure(n, (), "", "Add", 17, (), "why", "KernelError") for n in range(3)]


def row(number: int, path: tuple[int, ...], state: State, cause: int) -> NodeResult:
    failure = CAUSES[cause] if state is State.FAILED else None
    because = CAUSES[cause] if state is State.SKIPPED else None
    return NodeResult(number, path, "Add", f"node {number}", state, 0.25 * number, number, failure, because)


rows = st.lists(
    st.builds(
        row,
        st.integers(1, 6),
        st.sampled_from([(), (7,), (7, 8), (9,), (3,)]),
        st.sampled_from(State),
        st.integers(0, 2),
    ),
    max_size=8,
)


@pytest.mark.long
@given(rows)
@settings(deadline=None)
def test_a_table_is_its_rows(known):
    table = NodeTable.of(known)
    assert list(table) == known
    assert [table[i] for i in range(-len(known), len(known))] == known + known
    assert table[1:3] == known[1:3]
    assert table.counts == Counter(one.state for one in known)
    assert [failure for _, failure in table.failed()] == [one.failure for one in known if one.failure is not None]
    assert table.keys.outermost().tolist() == [(*one.path, one.node)[0] for one in known]


FAILED_BETWEEN = [row(1, (7, 8), State.DONE, 0), row(2, (7,), State.FAILED, 0), row(3, (7, 8), State.FAILED, 1)]


def over_calls(rows):
    """One node in several calls: a failure counts most, then what ran; it ran once in each of these."""
    ran = State.DONE, State.KEPT
    order = (State.FAILED, State.SKIPPED, *ran, State.CONSTANT, State.WAITING, State.UNNEEDED)
    first = next(one for state in order for one in rows if one.state is state)
    if len(rows) == 1:
        return first
    seconds, size = sum(one.seconds for one in rows), sum(one.nbytes for one in rows)
    return replace(first, seconds=seconds, nbytes=size, runs=sum(one.state in ran for one in rows))


@example(FAILED_BETWEEN, [])
@example([row(1, (3,), State.DONE, 0), row(3, (), State.FAILED, 0)], [])  # a call that has a row too
@given(rows, rows)
@settings(deadline=None)
def test_results_by_number_sum_calls_and_their_nodes(known, inner):
    found = NodeTable.of(known).by_number(NodeTable.of(inner))
    own = {one.node for one in known}
    rows_of: dict[int, list[NodeResult]] = {}
    for one in (*known, *(one for one in inner if one.node not in own)):
        rows_of.setdefault(one.node, []).append(one)
    expected = {number: over_calls(rows) for number, rows in rows_of.items()}
    for call in {number for one in known for number in one.path}:
        parts = [one for one in known if call in one.path]
        order = (State.FAILED, State.SKIPPED, State.WAITING, State.DONE, State.KEPT, State.CONSTANT, State.UNNEEDED)
        state = next(state for state in order if state in {one.state for one in parts})
        failure = next((one.failure for one in parts if one.failure is not None), None)
        because = None if failure else next((one.because for one in parts if one.because is not None), None)
        seconds, size = sum(one.seconds for one in parts), sum(one.nbytes for one in parts)
        expected[call] = NodeResult(call, (), "", "", state, seconds, size, failure, because)
    assert {one.node: one for one in found} == expected
    assert {number: found.find(number) for number in expected} == expected
    assert len(found) == len(expected)
    assert found.find(99) is None


@given(st.lists(st.lists(st.integers(0, 5), max_size=3)), st.sets(st.integers(0, 5)))
@settings(deadline=None)
def test_lists_of_slots_know_which_have_one(lists, sought):
    made = Lists.of(lists)
    assert list(made) == [made.at(i) for i in range(len(made))] == list(map(tuple, lists))
    assert made.holders(sought).tolist() == [i for i, one in enumerate(lists) if not sought.isdisjoint(one)]
