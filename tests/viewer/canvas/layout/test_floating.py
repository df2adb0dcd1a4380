"""Unconnected nodes stay where they were added, or where they lost their last edge, until they are connected."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_workbench.viewer.canvas.layout import Layout, LayoutRequest, layout, relayout, resize
from tests.examples import examples
from tests.viewer.canvas.layout.test_layout import assert_contained, assert_sound, over_nodes, request

NEW = 1000


def chain(n: int, **more: object) -> LayoutRequest:
    return request(n, [(i, i + 1) for i in range(n - 1)], node_ids=np.arange(n), **more)


def with_node(asked: LayoutRequest, node_id: int, edges: list[tuple[int, int]] | None = None) -> LayoutRequest:
    """The request with one more node, without edges unless some are given."""
    assert asked.node_ids is not None
    return dataclasses.replace(
        asked,
        sizes=np.vstack([asked.sizes, np.array([[120.0, 50.0]], np.float32)]),
        edges=np.vstack([asked.edges, np.array(edges or [], np.int32).reshape(-1, 2)]),
        parents=None if asked.parents is None else np.append(asked.parents, np.int32(-1)),
        node_ids=np.append(asked.node_ids, node_id),
    )


def middle(result: Layout, node: int) -> np.ndarray:
    return result.positions[node] + result.sizes[node] / 2


def away(result: Layout, node: int, point: np.ndarray) -> float:
    return float(np.abs(middle(result, node) - point).max())


@pytest.mark.parametrize("direction", ["down", "right"])
@pytest.mark.parametrize("columns", [np.inf, 800.0])
def test_a_new_node_stands_where_it_is_wanted(direction: str, columns: float) -> None:
    asked = chain(40, direction=direction, columns=columns)
    before = layout(asked)
    point = middle(before, 20)
    more = with_node(asked, NEW)
    after = relayout(before, more, around=tuple(point.tolist()))
    assert_sound(after, more)
    assert over_nodes(after, more) == 0
    assert away(after, 40, point) < 500
    assert (after.positions[:40] == before.positions).all()
    left, top, right, bottom = after.bounds
    assert left <= after.positions[40, 0]
    assert after.positions[40, 0] + after.sizes[40, 0] <= right
    assert top <= after.positions[40, 1] <= bottom
    behind = relayout(before, more)
    assert away(behind, 40, point) > away(after, 40, point), "nothing says where it is wanted"


def test_it_stays_there_over_other_edits_until_it_is_connected() -> None:
    asked = chain(30)
    before = layout(asked)
    added = with_node(asked, NEW)
    now = relayout(before, added, around=tuple(middle(before, 15).tolist()))
    beside = middle(now, 30) - middle(now, 15)
    # another node far above, in a new rank
    assert added.node_ids is not None
    edges = np.vstack([np.delete(added.edges, 3, 0), [[3, 31], [31, 4]]]).astype(np.int32)
    more = dataclasses.replace(
        added,
        sizes=np.vstack([added.sizes, np.array([[100.0, 40.0]], np.float32)]),
        edges=edges,
        node_ids=np.append(added.node_ids, NEW + 1),
    )
    later = relayout(now, more, around=(0.0, 0.0))
    assert_sound(later, more)
    assert np.abs(middle(later, 30) - middle(later, 15) - beside).max() < 30
    again = layout(more, previous=later)
    assert np.abs(middle(again, 30) - middle(again, 15) - beside).max() < 30
    assert resize(later, np.array([2]), np.array([[90, 30]], np.float32), None, None) is None
    connected = dataclasses.replace(more, edges=np.vstack([more.edges, [[2, 30]]]).astype(np.int32))
    joined = relayout(later, connected)
    assert_sound(joined, connected)
    assert joined.ranks[30] > joined.ranks[2]
    assert away(joined, 30, middle(joined, 2)) < 400


def test_a_node_that_loses_its_edges_stays() -> None:
    asked = chain(20)
    before = layout(asked)
    parted = dataclasses.replace(
        asked, edges=np.array([e for e in asked.edges.tolist() if 10 not in e] + [[9, 11]], np.int32)
    )
    after = relayout(before, parted)
    assert_sound(after, parted)
    assert over_nodes(after, parted) == 0
    assert away(after, 10, middle(after, 9)) < 400


@pytest.mark.long
@given(
    st.integers(3, 14),
    st.lists(st.tuples(st.integers(-500, 1500), st.integers(-500, 2500)), min_size=1, max_size=4),
    st.booleans(),
    st.lists(st.tuples(st.integers(0, 13), st.integers(0, 13)), max_size=10),
)
@settings(max_examples=examples(60), deadline=None)
def test_floating_nodes_cover_nothing(
    n: int, points: list[tuple[int, int]], boxed: bool, pairs: list[tuple[int, int]]
) -> None:
    edges = [(i, i + 1) for i in range(n - 1)] + [(min(p), max(p)) for p in pairs if max(p) < n and p[0] != p[1]]
    parents = np.full(n, -1, np.int32)
    if boxed:
        edges = [e for e in edges if 0 not in e]
        parents[1 : n // 2 + 1] = 0
    asked = request(n, edges, parents=parents, node_ids=np.arange(n))
    result = layout(asked)
    for number, point in enumerate(points):
        asked = with_node(asked, NEW + number)
        result = relayout(result, asked, around=point)
        assert_sound(result, asked)
        assert_contained(result, asked.parents)
        assert over_nodes(result, asked) == 0


def test_very_many_new_nodes_are_packed() -> None:
    asked = chain(5)
    result = layout(asked)
    for number in range(40):
        asked = with_node(asked, NEW + number)
    after = relayout(result, asked, around=(0.0, 0.0))
    assert_sound(after, asked)
