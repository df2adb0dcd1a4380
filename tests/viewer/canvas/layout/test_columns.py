"""Long graphs in columns: sound drawings, in the order of the ranks."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_workbench.viewer.canvas.layout import Layout, LayoutRequest, layout, relayout, resize
from tests.benchmarks import layout_graphs as graphs
from tests.examples import examples
from tests.viewer.canvas.layout.test_layout import assert_contained, assert_sound, of_sketch, over_nodes, request

LEAST = 600.0  # px


def columns_of(result: Layout, asked: LayoutRequest, nodes: np.ndarray) -> list[np.ndarray]:
    """Nodes by column: the nodes of a column are connected by the ranges that they cover across the ranks."""
    across = 0 if asked.direction == "down" else 1
    low = result.positions[nodes, across]
    high = low + result.sizes[nodes, across]
    order = np.argsort(low, kind="stable")
    reached = np.maximum.accumulate(high[order])
    return np.split(nodes[order], np.flatnonzero(low[order][1:] > reached[:-1]) + 1)


def assert_in_order(result: Layout, asked: LayoutRequest) -> None:
    """The ranks of a graph in columns follow each other, along the columns and from column to column."""
    along = 0 if asked.direction == "right" else 1
    last = -1
    for column in columns_of(result, asked, np.arange(len(asked.sizes))):
        ranks = result.ranks[column]
        assert ranks.min() > last
        last = int(ranks.max())
        middles = (result.positions + result.sizes / 2)[column, along]
        assert (np.diff(middles[np.argsort(ranks, kind="stable")]) >= -0.5).all()


@st.composite
def long_graphs(draw: st.DrawFn) -> LayoutRequest:
    """A chain with constants beside it, which skips and back edges cross."""
    n = draw(st.integers(12, 60))
    ends = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1))
    chain = [(i, i + 1) for i in range(n - 1)]
    aside = [(n + i, target) for i, target in enumerate(draw(st.lists(st.integers(1, n - 1), max_size=6)))]
    edges = [*chain, *draw(st.lists(ends, max_size=8)), *aside]
    return request(n + len(aside), edges, direction=draw(st.sampled_from(["down", "right"])), columns=LEAST)


@pytest.mark.long
@given(long_graphs())
@settings(max_examples=examples(100), deadline=None)
def test_boxes_do_not_overlap_and_edges_run_past_them(asked: LayoutRequest) -> None:
    result = layout(asked)
    assert_sound(result, asked)
    assert over_nodes(result, asked) == 0


@pytest.mark.long
@given(st.integers(12, 60), st.lists(st.tuples(st.integers(0, 50), st.integers(1, 8)), max_size=6))
@settings(max_examples=examples(60), deadline=None)
def test_columns_hold_the_ranks_in_their_order(n: int, skips: list[tuple[int, int]]) -> None:
    sizes = np.full((n, 2), (100.0, 40.0), np.float32)
    edges = [(i, i + 1) for i in range(n - 1)] + [(a, a + by) for a, by in skips if a + by < n]
    asked = LayoutRequest(sizes, np.array(edges, np.int32), columns=LEAST)
    result = layout(asked)
    assert_in_order(result, asked)
    flat = layout(dataclasses.replace(asked, columns=np.inf))
    assert (result.ranks == flat.ranks).all()
    if flat.bounds[3] > LEAST and flat.bounds[3] > 3 * flat.bounds[2]:
        assert result.bounds[3] < flat.bounds[3] / 1.5
        assert len(columns_of(result, asked, np.arange(n))) > 1


@st.composite
def nested(draw: st.DrawFn) -> LayoutRequest:
    """A container with a long chain, in a graph with a chain before and behind it."""
    inside = draw(st.integers(12, 40))
    around = draw(st.integers(1, 12))
    n = inside + 2 * around + 1
    box = n - 1
    edges = [(i, i + 1) for i in range(n - 2)]
    ends = st.tuples(st.integers(0, n - 2), st.integers(0, n - 2))
    edges += [(min(pair), max(pair)) for pair in draw(st.lists(ends, max_size=8)) if pair[0] != pair[1]]
    parents = np.full(n, -1, np.int32)
    parents[around : around + inside] = box
    titles = np.zeros((n, 2), np.float32)
    titles[box] = draw(st.integers(40, 250)), 20
    return request(n, edges, parents=parents, titles=titles, columns=LEAST)


@pytest.mark.long
@given(nested())
@settings(max_examples=examples(60), deadline=None)
def test_a_long_chain_in_a_container_is_folded_inside_it(asked: LayoutRequest) -> None:
    result = layout(asked)
    assert asked.parents is not None
    assert_sound(result, asked)
    assert_contained(result, asked.parents)
    assert over_nodes(result, asked) == 0
    box = len(asked.sizes) - 1
    assert result.sizes[box, 1] < layout(dataclasses.replace(asked, columns=np.inf)).sizes[box, 1]
    assert len(columns_of(result, asked, np.flatnonzero(asked.parents == box))) > 1


@pytest.mark.long
@pytest.mark.parametrize("make", [graphs.transformer, graphs.unet, graphs.skips])
def test_deep_models_become_about_as_wide_as_high(make: Callable[[int], graphs.Sketch]) -> None:
    asked = of_sketch(make(600), columns=1200.0)
    result = layout(asked)
    assert_sound(result, asked)
    assert over_nodes(result, asked) == 0
    width, height = result.bounds[2:]
    assert 1 / 3 < width / height < 3


def test_a_short_or_wide_graph_stays_as_it_is() -> None:
    chain = request(6, [(i, i + 1) for i in range(5)])
    comb = request(120, [(0, i) for i in range(1, 120)])
    for asked in (chain, comb):
        assert (layout(dataclasses.replace(asked, columns=LEAST)).positions == layout(asked).positions).all()


def test_edits_of_a_folded_graph_are_laid_out_in_columns_again() -> None:
    n = 40
    chain = [(i, i + 1) for i in range(n - 1)]
    asked = request(n, chain, columns=LEAST)
    result = layout(asked)
    assert resize(result, np.array([3]), np.array([[300, 200]], np.float32), None, None) is None
    longer = request(n + 1, [*chain, (n - 1, n)], columns=LEAST)
    again = relayout(result, longer)
    assert_sound(again, longer)
    assert_in_order(again, longer)
    assert len(columns_of(again, longer, np.arange(n + 1))) == len(columns_of(result, asked, np.arange(n))) > 1
    assert over_nodes(again, longer) == 0
    unfolded = dataclasses.replace(longer, columns=np.inf)
    assert len(columns_of(relayout(again, unfolded), unfolded, np.arange(n + 1))) == 1


@st.composite
def chains_in_columns(draw: st.DrawFn) -> LayoutRequest:
    """A container with a long chain of containers, each with a chain of three nodes and what skips it."""
    n = 3 * draw(st.integers(8, 14))
    ends = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1))
    edges = [(i, i + 1) for i in range(n - 1)]
    edges += [(min(pair), max(pair)) for pair in draw(st.lists(ends, max_size=8)) if pair[0] != pair[1]]
    inner = n + np.arange(n // 3)
    parents = np.concatenate([np.repeat(inner, 3), np.full(len(inner), n + len(inner)), [-1]]).astype(np.int32)
    return request(len(parents), edges, parents=parents, columns=LEAST)


@pytest.mark.long
@given(chains_in_columns(), st.data())
@settings(max_examples=examples(60), deadline=None)
def test_a_node_grows_in_place_in_a_container_that_stands_in_columns(asked: LayoutRequest, data: st.DataObject) -> None:
    result = layout(asked)
    assert asked.parents is not None
    node = data.draw(st.integers(0, 23))
    by = data.draw(st.sampled_from([(0, 10), (12, 0), (-12, 5), (30, 18)]))
    sizes = asked.sizes.copy()
    sizes[node] = np.maximum(sizes[node] + by, 12.0)
    grown = resize(result, np.array([node], np.int32), sizes[[node]], None, None)
    if by == (0, 10) and node % 3 == 0:
        assert grown is not None
    if grown is not None:
        after = dataclasses.replace(asked, sizes=sizes)
        others = np.arange(len(sizes)) != node
        assert (grown.layout.positions[others] == result.positions[others]).all()
        assert_sound(grown.layout, after)
        assert_contained(grown.layout, asked.parents)
        assert over_nodes(grown.layout, after) == 0


@pytest.mark.parametrize("edges", [[(0, 1), (1, 2), (1, 1), (3, 1)], [(0, 1), (1, 2), (0, 2), (2, 1), (2, 3)]])
def test_no_node_grows_into_an_edge_back_to_the_next_rank(edges: list[tuple[int, int]]) -> None:
    """Such an edge swings out into the gap before its node, further than its points."""
    sizes = np.array([(219, 81), (212, 98), (203, 20), (160, 28)], np.float32)
    asked = LayoutRequest(sizes, np.array(edges, np.int32), direction="right")
    grown_sizes = sizes + np.array([(30, 18), (0, 0), (0, 0), (0, 0)], np.float32)
    grown = resize(layout(asked), np.array([0], np.int32), grown_sizes[[0]], None, None)
    assert grown is None or over_nodes(grown.layout, dataclasses.replace(asked, sizes=grown_sizes)) == 0


@pytest.mark.long
@given(long_graphs(), st.data())
@settings(max_examples=examples(150), deadline=None)
def test_a_node_grows_in_place_in_a_graph_in_columns(asked: LayoutRequest, data: st.DataObject) -> None:
    result = layout(asked)
    for _ in range(3):
        node = data.draw(st.integers(0, len(asked.sizes) - 1))
        sizes = asked.sizes.copy()
        sizes[node] = np.maximum(sizes[node] + data.draw(st.sampled_from([(0, 10), (12, 0), (-12, 5), (30, 18)])), 12.0)
        grown = resize(result, np.array([node], np.int32), sizes[[node]], None, None)
        if grown is None:
            continue
        after = dataclasses.replace(asked, sizes=sizes)
        others = np.arange(len(sizes)) != node
        assert (grown.layout.positions[others] == result.positions[others]).all()
        assert_sound(grown.layout, after)
        assert over_nodes(grown.layout, after) == 0
        result, asked = grown.layout, after
    again = relayout(result, asked)
    assert_sound(again, asked)
    assert over_nodes(again, asked) == 0


def test_a_node_in_the_middle_of_a_column_grows_in_place() -> None:
    n = 40
    asked = request(n, [(i, i + 1) for i in range(n - 1)], columns=LEAST)
    result = layout(asked)
    column = columns_of(result, asked, np.arange(n))[1]
    node = int(column[len(column) // 2])
    sizes = asked.sizes[[node]] + (8.0, 10.0)
    grown = resize(result, np.array([node], np.int32), sizes.astype(np.float32), None, None)
    assert grown is not None
    assert (grown.layout.sizes[node] == sizes).all()
