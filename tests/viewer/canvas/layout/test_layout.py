from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_workbench.model.progress import Cancelled, Progress
from onnx_workbench.viewer.canvas.layout import Layout, LayoutRequest, Spacing, layout, relayout
from tests.benchmarks import layout_graphs as graphs
from tests.benchmarks import layout_metrics as metrics
from tests.examples import examples
from tests.real_models import RealModels


def request(nodes: int, edges: list[tuple[int, int]], **more: object) -> LayoutRequest:
    rng = np.random.default_rng(nodes)
    sizes = np.stack([rng.integers(40, 240, nodes), rng.integers(20, 120, nodes)], 1).astype(np.float32)
    return LayoutRequest(sizes, np.array(edges, np.int32).reshape(-1, 2), **more)


def of_sketch(sketch: graphs.Sketch, ports: bool = False, **more: object) -> LayoutRequest:
    sizes, edges, source, target = sketch.arrays()
    if ports:
        return LayoutRequest(sizes, edges, source, target, **more)
    return LayoutRequest(sizes, edges, **more)


def over_nodes(result: Layout, asked: LayoutRequest) -> int:
    a, b, edge = metrics.segments(result, steps=8)
    found = metrics.edges_over_nodes(a, b, edge, asked.edges, result.positions, result.sizes, asked.parents)
    return len(found)


def assert_sound(result: Layout, asked: LayoutRequest) -> None:
    n = len(asked.sizes)
    assert result.positions.shape == result.sizes.shape == (n, 2)
    assert np.isfinite(result.positions).all()
    assert np.isfinite(result.route_points).all()
    assert metrics.node_overlaps(result.positions, result.sizes, asked.parents) == 0
    assert (np.diff(result.route_starts) % 3 == 1).all()
    left, top, right, bottom = result.bounds
    if n:
        assert (result.positions.min(0) >= np.array([left, top]) - 0.5).all()
        assert ((result.positions + result.sizes).max(0) <= np.array([right, bottom]) + 0.5).all()
    along, across = (1, 0) if asked.direction == "down" else (0, 1)
    for e, (s, t) in enumerate(asked.edges.tolist()):
        start, end = result.route(e)[0], result.route(e)[-1]
        far = result.positions[s] + result.sizes[s]
        inside = asked.parents is not None and (s in asked.parents or t in asked.parents)
        if not inside:
            assert start[along] == pytest.approx(far[along], abs=0.5)
            assert end[along] == pytest.approx(result.positions[t][along], abs=0.5)
        assert result.positions[s][across] - 0.5 <= start[across] <= far[across] + 0.5
        assert result.positions[t][across] - 0.5 <= end[across] <= (result.positions[t] + result.sizes[t])[across] + 0.5


def assert_contained(result: Layout, parents: np.ndarray) -> None:
    for node, parent in enumerate(parents.tolist()):
        if parent >= 0:
            assert (result.positions[node] >= result.positions[parent] - 0.1).all()
            inner = result.positions[node] + result.sizes[node]
            assert (inner <= result.positions[parent] + result.sizes[parent] + 0.1).all()


def ports(draw: st.DrawFn, sizes: np.ndarray, edges: np.ndarray, direction: str) -> dict[str, np.ndarray]:
    """Given ports for some of the ends, or none at all."""
    if not draw(st.booleans()):
        return {}
    across = 0 if direction == "down" else 1
    shares = st.sampled_from([0.0, 0.2, 0.5, 0.9, 1.0, np.nan])
    found = {}
    for name, end in (("source_ports", 0), ("target_ports", 1)):
        share = np.array(draw(st.lists(shares, min_size=len(edges), max_size=len(edges))), np.float32)
        found[name] = (share * sizes[edges[:, end], across]).astype(np.float32)
    return found


@st.composite
def acyclic(draw: st.DrawFn) -> LayoutRequest:
    n = draw(st.integers(1, 24))
    pairs = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1))
    edges = [(min(p), max(p)) for p in draw(st.lists(pairs, max_size=40)) if p[0] != p[1]]
    drawn = draw(st.lists(st.tuples(st.integers(10, 300), st.integers(10, 150)), min_size=n, max_size=n))
    direction = draw(st.sampled_from(["down", "right"]))
    sizes, ends = np.array(drawn, np.float32), np.array(edges, np.int32).reshape(-1, 2)
    return LayoutRequest(sizes, ends, direction=direction, **ports(draw, sizes, ends, direction))


@pytest.mark.long
@given(acyclic())
@settings(max_examples=examples(120), deadline=None)
def test_no_overlap_edges_forward_and_over_no_foreign_node(asked: LayoutRequest) -> None:
    result = layout(asked)
    assert_sound(result, asked)
    assert over_nodes(result, asked) == 0
    along = 1 if asked.direction == "down" else 0
    for e, (s, t) in enumerate(asked.edges.tolist()):
        assert result.ranks[s] < result.ranks[t]
        steps = np.diff(result.route(e)[::3, along])
        assert (steps >= -0.01).all()


@given(
    st.integers(1, 14).flatmap(
        lambda n: st.tuples(st.just(n), st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=30))
    )
)
@settings(max_examples=examples(80), deadline=None)
def test_cycles_loops_and_duplicates_are_drawn_all_the_same(case: tuple[int, list[tuple[int, int]]]) -> None:
    nodes, edges = case
    asked = request(nodes, edges)
    result = layout(asked)
    assert_sound(result, asked)
    assert over_nodes(result, asked) == 0


@st.composite
def nested(draw: st.DrawFn) -> LayoutRequest:
    n = draw(st.integers(2, 18))
    parents = [-1] + [draw(st.integers(-1, i - 1)) for i in range(1, n)]
    order = draw(st.permutations(range(n)))
    moved = np.full(n, -1, np.int32)
    for i, parent in enumerate(parents):
        moved[order[i]] = order[parent] if parent >= 0 else -1
    pairs = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1))
    edges = [(min(p), max(p)) for p in draw(st.lists(pairs, max_size=20))]
    return request(n, edges, parents=moved, direction=draw(st.sampled_from(["down", "right"])))


@pytest.mark.long
@given(nested())
@settings(max_examples=examples(80), deadline=None)
def test_children_lie_inside_and_edges_cross_only_the_border(asked: LayoutRequest) -> None:
    result = layout(asked)
    assert asked.parents is not None
    assert_sound(result, asked)
    assert_contained(result, asked.parents)
    assert over_nodes(result, asked) == 0


def homes(parents: np.ndarray, node: int) -> set[int]:
    """The containers that a node lies in."""
    found: set[int] = set()
    while (node := int(parents[node])) >= 0:
        found.add(node)
    return found


def under_titles(result: Layout, asked: LayoutRequest) -> list[tuple[int, int]]:
    """Edges that run over the title or the buttons of a container that they go into, and which.

    Edges of a container itself are let be: they begin or end at its border.
    """
    assert asked.parents is not None
    assert asked.titles is not None
    containers = [homes(asked.parents, node) for node in range(len(asked.parents))]
    points, t = result.route_points.astype(float), np.linspace(0, 1, 33)[:, None]
    found = []
    for e in range(len(asked.edges)):
        route = points[result.route_starts[e] : result.route_starts[e + 1]]
        cubics = [route[i : i + 4] for i in range(0, len(route) - 1, 3)]
        pieces = [
            (1 - t) ** 3 * a + 3 * t * (1 - t) ** 2 * b + 3 * t * t * (1 - t) * c + t**3 * d for a, b, c, d in cubics
        ]
        way = np.concatenate(pieces)
        source, target = asked.edges[e].tolist()
        for node in containers[target] - containers[source] - {source}:
            left, top = result.positions[node].tolist()
            right = left + float(result.sizes[node, 0])
            inside = (way[:, 1] > top + 0.5) & (way[:, 1] < top + asked.spacing.header - 0.5)
            title = (way[:, 0] > left - 0.5) & (way[:, 0] < left + float(asked.titles[node, 0]))
            buttons = (way[:, 0] > right - float(asked.titles[node, 1])) & (way[:, 0] < right + 0.5)
            if (inside & (title | buttons)).any():
                found.append((e, node))
    return found


@pytest.mark.long
@given(nested(), st.lists(st.tuples(st.integers(1, 250), st.integers(0, 40)), min_size=18, max_size=18))
@settings(max_examples=examples(120), deadline=None)
def test_what_enters_a_container_keeps_off_its_title(asked: LayoutRequest, titles: list[tuple[int, int]]) -> None:
    asked = dataclasses.replace(asked, titles=np.array(titles[: len(asked.sizes)], np.float32), direction="down")
    assert asked.parents is not None
    result = layout(asked)
    assert_sound(result, asked)
    assert_contained(result, asked.parents)
    assert over_nodes(result, asked) == 0
    assert under_titles(result, asked) == []


@pytest.mark.parametrize("direction", ["down", "right"])
def test_ports_of_an_opened_container_stay_apart_from_inputs(direction: str) -> None:
    """Nodes 0 to 2 feed the container 5 itself, 3 and 4 what is in it (6 and 7), and 8 and 9 take its two outputs."""
    edges = [(0, 5), (1, 5), (2, 5), (3, 6), (4, 7), (6, 7), (5, 8), (5, 9)]
    parents = np.full(10, -1, np.int32)
    parents[6:8] = 5
    across = 0 if direction == "down" else 1
    asked = request(10, edges, parents=parents, direction=direction, titles=np.full((10, 2), [120, 20], np.float32))
    asked.sizes[5] = 140.0
    source, target = np.full(8, np.nan, np.float32), np.full(8, np.nan, np.float32)
    target[:3] = 35.0, 70.0, 105.0
    source[6:] = 47.0, 93.0
    asked = dataclasses.replace(asked, source_ports=source, target_ports=target)
    result = layout(asked)
    assert_sound(result, asked)
    low, size = float(result.positions[5, across]), float(result.sizes[5, across])
    ends = [float(result.route(e)[-1, across]) - low for e in range(3)]
    assert (np.diff(ends) > 5).all()
    entered = [float(r[np.abs(r[:, 1 - across] - result.positions[5, 1 - across]).argmin(), across]) - low
               for r in (result.route(3), result.route(4))]  # fmt: skip
    assert max(ends) < min(entered)
    starts = [(float(result.route(e)[0, across]) - low) / size for e in (6, 7)]
    assert starts == pytest.approx([47 / 140, 93 / 140], abs=0.01)


@pytest.mark.long
@given(nested(), st.integers(0, 17))
@settings(max_examples=examples(40), deadline=None)
def test_after_an_edit_too_what_enters_keeps_off_the_title(asked: LayoutRequest, grown: int) -> None:
    titles = np.full((len(asked.sizes), 2), [140.0, 20.0], np.float32)
    asked = dataclasses.replace(asked, titles=titles, direction="down")
    assert asked.parents is not None
    sizes = asked.sizes.copy()
    sizes[grown % len(sizes)] += 40.0
    changed = dataclasses.replace(asked, sizes=sizes)
    once = relayout(layout(asked), changed)
    for result in (once, relayout(once, changed)):
        assert_sound(result, changed)
        assert_contained(result, asked.parents)
        assert over_nodes(result, changed) == 0
        assert under_titles(result, changed) == []


@pytest.mark.long
def test_a_hundred_and_fifty_containers_deep() -> None:
    depth = 150
    parents = np.array([-1, *range(depth - 1), depth - 1, -1], np.int32)
    asked = request(depth + 2, [(depth + 1, depth)], parents=parents)
    result = layout(asked)
    assert_contained(result, parents)
    assert over_nodes(result, asked) == 0


def test_a_container_has_room_for_header_and_padding() -> None:
    spacing = Spacing(padding=20.0, header=30.0)
    asked = request(2, [], parents=np.array([-1, 0], np.int32), spacing=spacing)
    result = layout(asked)
    assert result.positions[1, 1] - result.positions[0, 1] == pytest.approx(50.0)
    assert result.sizes[0, 1] == pytest.approx(asked.sizes[1, 1] + 70.0)
    turned = layout(dataclasses.replace(asked, direction="right"))
    assert turned.positions[1, 1] - turned.positions[0, 1] == pytest.approx(50.0)


def test_containers_that_contain_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match="contains itself"):
        layout(request(2, [], parents=np.array([1, 0], np.int32)))


def test_nothing_gives_nothing() -> None:
    result = layout(request(0, []))
    assert len(result.positions) == 0
    assert result.bounds == (0.0, 0.0, 0.0, 0.0)


def test_ports_are_kept() -> None:
    sizes = np.array([[100, 30], [200, 30], [80, 30]], np.float32)
    edges = np.array([[0, 1], [0, 1], [1, 2]], np.int32)
    source = np.array([20, 80, 150], np.float32)
    target = np.array([40, 160, 10], np.float32)
    for direction in ("down", "right"):
        across = 0 if direction == "down" else 1
        ask = LayoutRequest(sizes if across == 0 else sizes[:, ::-1].copy(), edges, source, target, direction=direction)
        result = layout(ask)
        for e, (s, t) in enumerate(edges.tolist()):
            assert result.route(e)[0, across] - result.positions[s, across] == pytest.approx(source[e], abs=0.1)
            assert result.route(e)[-1, across] - result.positions[t, across] == pytest.approx(target[e], abs=0.1)


def test_inputs_and_outputs_stand_where_they_are_pinned() -> None:
    edges = [(0, 2), (2, 3), (3, 4), (1, 4), (3, 5), (4, 6)]
    free = layout(request(7, edges))
    assert free.ranks[1] == free.ranks[4] - 1
    pinned = layout(request(7, edges, first=np.array([0, 1], np.int32), last=np.array([5, 6], np.int32)))
    assert pinned.ranks[0] == pinned.ranks[1] == 0
    assert pinned.ranks[5] == pinned.ranks[6] == pinned.ranks.max()


def test_constants_sink_to_their_consumer() -> None:
    s = graphs.Sketch()
    x = s.chain(s.add("input"), *["Relu"] * 20)
    constant = s.add("Constant")
    end = s.add("Add", x, s.add("Reshape", constant))
    result = layout(of_sketch(s))
    assert result.ranks[end] - result.ranks[constant] == 2


def test_what_prepares_a_constant_sinks_with_it() -> None:
    s = graphs.Sketch()
    x = s.chain(s.add("input"), *["Relu"] * 20)
    clip = s.add("Clip", s.add("Mul", s.add("Constant"), s.add("Constant")), s.add("Constant"))
    end = s.add("Add", x, clip)
    result = layout(of_sketch(s))
    assert result.ranks[end] - result.ranks[clip] == 1


def test_a_chain_stands_upright_beside_its_constants() -> None:
    s = graphs.Sketch()
    chain = [s.add("input")]
    for _ in range(30):
        chain.append(s.add("Add", chain[-1], s.add("Constant")))
    result = layout(of_sketch(s))
    middle = result.positions[chain, 0] + result.sizes[chain, 0] / 2
    assert np.ptp(middle[1:]) < 1


def chain_with_skips(nodes: int, skips: set[tuple[int, int]]) -> tuple[graphs.Sketch, list[int]]:
    """Operators one after the other, some of which take what was made above besides; and their numbers."""
    s = graphs.Sketch()
    chain = [s.add("input")]
    for node in range(1, nodes):
        taken = [chain[source] for source, target in sorted(skips) if target == node]
        chain.append(s.add("Add", chain[-1], *taken))
    return s, chain


@pytest.mark.long
def test_skips_along_a_long_chain_do_not_push_it_aside() -> None:
    s, chain = chain_with_skips(600, {(node - 25, node) for node in range(30, 600, 10)})
    for with_ports in (False, True):
        result = layout(of_sketch(s, with_ports))
        middle = result.positions[chain, 0] + result.sizes[chain, 0] / 2
        assert np.ptp(middle) < 1
        assert result.bounds[2] < 400


@pytest.mark.long
@given(st.sets(st.tuples(st.integers(0, 110), st.integers(2, 40)), max_size=40))
@settings(max_examples=examples(25), deadline=None)
def test_a_chain_stays_near_a_line_whatever_skips_there_are(skips: set[tuple[int, int]]) -> None:
    s, chain = chain_with_skips(150, {(source, source + reach) for source, reach in skips})
    asked = of_sketch(s)
    result = layout(asked)
    assert_sound(result, asked)
    middle = result.positions[chain, 0] + result.sizes[chain, 0] / 2
    widest = float(result.sizes[:, 0].max())
    lines = max(sum(a < rank < a + reach for a, reach in skips) for rank in range(150))
    assert np.ptp(middle) <= widest + asked.spacing.node + 2 * asked.spacing.edge * lines


def test_blocks_that_branch_and_join_stand_below_one_another() -> None:
    asked = of_sketch(graphs.unet(630), ports=True)
    result = layout(asked)
    a_block = 12 * asked.spacing.edge + 4 * float(asked.sizes[:, 0].max())  # twelve skips and what stands beside
    assert result.bounds[2] < a_block


def test_repeated_blocks_look_repeated() -> None:
    s = graphs.inception(150)
    result = layout(of_sketch(s))
    joins = [v for v in range(len(s.sizes)) if sum(t == v for _, t in s.edges) == 4]
    middle = result.positions[joins, 0] + result.sizes[joins, 0] / 2
    assert len(joins) > 3
    assert np.ptp(middle) < 5


def test_ten_thousand_nodes_without_edges_form_a_sheet() -> None:
    result = layout(request(10_000, []))
    _, _, width, height = result.bounds
    assert metrics.node_overlaps(result.positions, result.sizes) == 0
    assert 0.4 < width / height < 4


def test_separate_parts_are_packed() -> None:
    edges = [(3 * i + j, 3 * i + j + 1) for i in range(100) for j in range(2)]
    asked = request(300, edges)
    result = layout(asked)
    assert_sound(result, asked)
    _, _, width, height = result.bounds
    assert 0.3 < width / height < 5


@pytest.mark.long
def test_a_star_is_no_mile_wide() -> None:
    n = 5_000
    asked = request(n, [(0, i) for i in range(1, n)])
    result = layout(asked)
    assert metrics.node_overlaps(result.positions, result.sizes) == 0
    area = float((asked.sizes[:, 0] * asked.sizes[:, 1]).sum())
    assert result.bounds[2] < 8 * area**0.5
    a, b, edge = metrics.segments(result, steps=1)
    over = metrics.edges_over_nodes(a, b, edge, asked.edges, result.positions, result.sizes)
    assert len(over) == 0


def test_three_hundred_branches_stay_compact() -> None:
    asked = of_sketch(graphs.wide(300))
    result = layout(asked)
    assert_sound(result, asked)
    assert over_nodes(result, asked) == 0
    assert result.bounds[2] < 20_000


def test_what_many_side_by_side_take_reaches_them_from_both_sides() -> None:
    width = 16
    asked = of_sketch(graphs.experts(2, width))
    result = layout(asked)
    assert_sound(result, asked)
    assert over_nodes(result, asked) == 0
    half = width // 2
    for_each_fan = half * (half - 1)  # from the middle, or from both sides; from one side it would be twice as much
    assert metrics.crossings(*metrics.segments(result)) <= 2 * 3 * for_each_fan


def test_a_long_chain_needs_no_recursion() -> None:
    n = 20_000
    result = layout(request(n, [(i, i + 1) for i in range(n - 1)]))
    assert (np.diff(result.positions[:, 1]) > 0).all()
    assert np.ptp(result.positions[:, 0] + result.sizes[:, 0] / 2) < 1


@pytest.mark.long
def test_the_same_request_gives_the_same_layout() -> None:
    asked = of_sketch(graphs.mixed(600), ports=True)
    first, second = layout(asked), layout(asked)
    assert np.array_equal(first.positions, second.positions)
    assert np.array_equal(first.route_points, second.route_points)


@pytest.mark.long
@pytest.mark.parametrize("make", [graphs.transformer, graphs.inception, graphs.unet, graphs.mixed])
def test_model_like_graphs(make: Callable[[int], graphs.Sketch]) -> None:
    asked = of_sketch(make(700), ports=True)
    result = layout(asked)
    assert_sound(result, asked)
    assert over_nodes(result, asked) == 0


@pytest.mark.parametrize("name", ["resnet50", "inception_v2", "densenet121", "shufflenet"])
@pytest.mark.parametrize("constants", [True, False])
def test_real_models(name: str, constants: bool) -> None:
    import onnx

    path = Path(onnx.__file__).parent / f"backend/test/data/light/light_{name}.onnx"
    asked = of_sketch(graphs.model(path, constants))
    result = layout(asked)
    assert_sound(result, asked)
    assert over_nodes(result, asked) == 0
    assert result.bounds[2] < 8_000


@pytest.mark.long
@pytest.mark.parametrize("name", ["resnet50", "shufflenet", "inception_v2", "densenet121"])
def test_real_models_with_given_ports_are_drawn_without_crossings(name: str) -> None:
    import onnx

    path = Path(onnx.__file__).parent / f"backend/test/data/light/light_{name}.onnx"
    asked = of_sketch(graphs.model(path), ports=True)
    result = layout(asked)
    assert_sound(result, asked)
    assert over_nodes(result, asked) == 0
    assert metrics.crossings(*metrics.segments(result)) == 0


def test_lanes_beside_a_graph_too_deep_for_dummies() -> None:
    s = graphs.Sketch()
    start = s.add("input")
    early = [s.add("Split", start) for _ in range(60)]
    x = s.chain(start, *["Relu"] * 2000)
    for source in early:
        x = s.add("Add", x, source)
    asked = of_sketch(s)
    first = np.array([start, *early], np.int32)
    asked = dataclasses.replace(asked, first=first)
    result = layout(asked)
    assert_sound(result, asked)
    assert over_nodes(result, asked) == 0


def test_cancel_stops_it() -> None:
    progress = Progress(lambda done, total, text: progress.cancel())
    with pytest.raises(Cancelled):
        layout(of_sketch(graphs.mixed(2_000)), progress)


@pytest.mark.long
def test_a_layout_loads_no_qt() -> None:
    name = "onnx_workbench.viewer.canvas.layout"
    looked_for = ("PySide6", "onnx", name)
    code = (
        f"import sys, numpy, {name} as layout; "
        "layout.layout(layout.LayoutRequest(numpy.full((3, 2), 20.0), numpy.array([[0, 1], [1, 2]]))); "
        f"print([m for m in {looked_for} if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == f"['{name}']"


@pytest.mark.long
def test_models_from_the_field(real_models: RealModels) -> None:
    for path in real_models.files():
        asked = of_sketch(graphs.model(path), ports=True, direction="right")
        result = layout(asked)
        assert_sound(result, asked)
        assert over_nodes(result, asked) == 0, path.parent.name
