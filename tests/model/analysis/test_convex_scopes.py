"""Groups are convex: no path leaves one and comes back, on any level."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest

from onnx_workbench.model.analysis import groups
from onnx_workbench.model.analysis.convex_scopes import convex_paths
from onnx_workbench.model.analysis.groups import groups_of, scope_tree
from onnx_workbench.model.analysis.name_scopes import Path, Scope, ScopeTree
from onnx_workbench.model.analysis.scoping import captured
from onnx_workbench.model.history.steps import SetField
from onnx_workbench.model.ir.graph import Graph, Model
from tests.model.builders import model


def named(text: str, *names: str) -> Graph:
    """Return a graph whose nodes have names that the text form cannot hold."""
    graph = model(f'<ir_version: 10, opset_import: ["" : 21]> {text}').graph
    for node, name in zip(graph.nodes, names, strict=True):
        SetField(node, "name", name).apply()
    return graph


def chain(*names: str) -> Graph:
    lines = "\n".join(f"v{n + 1} = Relu (v{n})" for n in range(len(names)))
    return named(f"g (float[1] v0) => (float[1] v{len(names)}) {{ {lines} }}", *names)


def outline(scope: Scope) -> list[object]:
    """Return names of nodes and [name of a scope, its content …]."""
    inner: list[object] = [[child.name, *outline(child)] for child in scope.children]
    return inner + [node.name for node in scope.nodes]


def assert_convex(graph: Graph, tree: ScopeTree) -> None:
    """Every node is in one scope, and the scopes and nodes of each level form no cycle."""
    everything = [node for scope in tree.root.walk() for node in scope.nodes]
    assert len(everything) == len(graph.nodes) == len(set(everything))
    for scope in tree.root.walk():
        unit = {node: node for node in scope.nodes} | {n: child for child in scope.children for n in child.all_nodes()}
        level = nx.DiGraph()
        for node, own in unit.items():
            for value in {*node.inputs, *captured(node)} - {None}:
                other = unit.get(value.producer)
                if other is not None and other is not own:
                    level.add_edge(other, own)
        assert nx.is_directed_acyclic_graph(level)


def test_a_scope_takes_in_the_nodes_that_lost_it():
    graph = chain("/enc/a", "/enc/b", "FastGelu_1", "SkipLayerNorm_2", "/enc/c", "/dec/a", "/dec/b")
    assert outline(scope_tree(graph).root) == [
        ["enc", "/enc/a", "/enc/b", "FastGelu_1", "SkipLayerNorm_2", "/enc/c"],
        ["dec", "/dec/a", "/dec/b"],
    ]


def test_a_scope_takes_in_no_more_than_it_has():
    graph = chain("/a/1", "/a/2", *(f"free{n}" for n in range(9)), "/a/3", "/a/4", "/b/1", "/b/2")
    assert "a (1 of 2)" not in str(outline(scope_tree(graph).root))
    assert_convex(graph, scope_tree(graph))


def test_calls_of_a_shared_layer_are_reported_apart():
    calls = [
        name
        for k in ("", "_1", "_2")
        for name in (
            f"/layer/attn{k}/q",
            f"/layer/attn{k}/k",
            f"/layer{k}/Add",
            f"/layer/norm{k}/Norm",
            f"/layer{k}/Out",
        )
    ]
    tree = scope_tree(chain("/start/a", "/start/b", *calls))
    assert [(scope.name, scope.count) for scope in tree.root.children] == [
        ("start", 2), ("layer, call 1", 5), ("layer, call 2", 5), ("layer, call 3", 5),
    ]  # fmt: skip
    assert [child.name for child in tree.root.children[3].children] == ["attn"]


def test_a_scope_in_several_stretches_is_divided_in_order():
    names = [f"/{scope}/n{part}{n}" for part in range(3) for scope in ("a", "b") for n in range(4)]
    tree = scope_tree(chain(*names))
    assert [scope.name for scope in tree.root.children] == [
        f"{scope} ({part} of 3)" for part in (1, 2, 3) for scope in ("a", "b")
    ]
    assert [scope.count for scope in tree.root.children] == [4] * 6


def test_scopes_that_alternate_node_by_node_are_none():
    tree = scope_tree(chain(*(f"/{'ab'[n % 2]}/n{n}" for n in range(20))))
    assert not tree.root.children
    assert tree.left_out == (("a",), ("b",))


def test_scopes_inside_one_that_is_none_keep_their_full_name():
    names = [f"/{'ab'[part % 2]}/p{part}/n{n}" for part in range(6) for n in range(2)]
    tree = scope_tree(chain(*names))
    assert [scope.name for scope in tree.root.children] == [f"{'ab'[part % 2]}/p{part}" for part in range(6)]


def test_parallel_scopes_that_feed_each_other_are_divided():
    graph = named(
        "g (float[1] x) => (float[1] p, float[1] q) "
        "{ a = Relu (x) b = Relu (a) p = Relu (b) c = Relu (x) d = Relu (c) q = Relu (d) }",
        "/one/a", "/one/b", "/two/p", "/two/c", "/two/d", "/one/q",
    )  # fmt: skip
    assert_convex(graph, scope_tree(graph))


def test_a_constant_is_where_its_users_are():
    graph = named(
        "g (float[1] x) => (float[1] z) { one = Constant <value_float = 1.0> () two = Constant <value_float = 2.0> ()"
        " a = Add (x, one) b = Add (a, one) y = Add (b, two) z = Mul (y, two) }",
        "/late/one", "Constant_2", "/early/a", "/early/b", "/late/y", "/late/z",
    )  # fmt: skip
    assert outline(scope_tree(graph).root) == [
        ["early", "/late/one", "/early/a", "/early/b"], ["late", "Constant_2", "/late/y", "/late/z"],
    ]  # fmt: skip


def test_a_prefix_of_all_names_is_no_group():
    tree = scope_tree(chain(*(f"/model/part{n // 3}/relu{n}" for n in range(9))))
    assert [scope.name for scope in tree.root.children] == ["part0", "part1", "part2"]
    assert not scope_tree(chain(*(f"p2o.Relu.{n}" for n in range(9)))).root.children


def test_a_new_name_of_a_scope_is_not_that_of_another():
    names = [f"/{scope}/n{part}{n}" for part in range(2) for scope in ("a", "b") for n in range(4)]
    tree = scope_tree(chain(*names, "/a (1 of 2)/x", "/a (1 of 2)/y"))
    assert [scope.count for scope in tree.root.children] == [4, 4, 4, 4, 2]


def _random_paths(rng: random.Random, count: int) -> Iterator[Path]:
    """Scopes that mostly go on from node to node, as those of exporters, with numbers, gaps and contradictions."""
    path: Path = ()
    for _ in range(count):
        match rng.randrange(6):
            case 0:
                path = path[: rng.randint(0, len(path))]
            case 1:
                path = (*path[:4], rng.choice(["a", "b", "a_1", "a_2", "b_1", "x/y", "a (1 of 2)", "a, call 1", ""]))
            case 2:
                path = path[:-1]
        yield path if rng.random() < 0.85 else ()


def _random_graph(seed: int) -> tuple[list[Path], np.ndarray, np.ndarray]:
    rng = random.Random(seed)
    count, reach = rng.randint(1, 70), rng.choice([1, 3, 60])
    edges = [
        (rng.randint(max(0, target - reach), target - 1), target)
        for target in range(1, count)
        for _ in range(rng.choice([0, 1, 1, 1, 2, 3]))
    ]
    pairs = np.array(edges, np.int64).reshape(-1, 2)
    return list(_random_paths(rng, count)), pairs[:, 0], pairs[:, 1]


@pytest.mark.long
@pytest.mark.parametrize("seed", range(300))
def test_any_scopes_become_convex_on_every_level(seed):
    paths, sources, targets = _random_graph(seed)
    found, left_out = convex_paths(paths, sources, targets)
    assert set(left_out).isdisjoint(found)
    for depth in range(max(map(len, found))):
        unit = [path[: depth + 1] if len(path) > depth else node for node, path in enumerate(found)]
        level = nx.DiGraph()
        for a, b in zip(sources.tolist(), targets.tolist(), strict=True):
            if found[a][:depth] == found[b][:depth] and unit[a] != unit[b]:
                level.add_edge(unit[a], unit[b])
        assert nx.is_directed_acyclic_graph(level)


@pytest.mark.parametrize("seed", range(100))
def test_scopes_that_are_convex_stay_as_they_are(seed):
    rng = random.Random(seed)
    paths = [(f"a{n // 12}", f"b{n // 4}")[: 2 - (n % 4 == 3)] for n in range(60)]
    edges = np.array([*pairwise(range(60)), *(sorted(rng.sample(range(60), 2)) for _ in range(30))])
    assert convex_paths(paths, edges[:, 0], edges[:, 1]) == (paths, [])


def test_a_cycle_of_nodes_is_no_obstacle():
    paths = [("a",), ("a",), ("b",), ("b",)]
    found, _ = convex_paths(paths, np.array([0, 1, 2, 3]), np.array([1, 2, 3, 0]))
    assert found == paths


def test_names_of_the_graphs_of_bodies_are_convex_too():
    body = "b () => (float[1] o) { a1 = Relu (x) b1 = Relu (a1) a2 = Relu (b1) b2 = Relu (a2) o = Relu (b2) }"
    graph = model(f"""
        g (float[1] x, bool c) => (float[1] y) {{ y = If (c) <then_branch = {body}, else_branch = {body}> }}""").graph
    inner = next(iter(graph.nodes)).bodies[0]
    for node, name in zip(inner.nodes, ("/a/1", "/b/1", "/a/2", "/b/2", "/c"), strict=True):
        SetField(node, "name", name).apply()
    assert_convex(inner, scope_tree(inner))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(40))
def test_any_names_become_convex_in_bodies_and_functions(seed):
    paths, sources, targets = _random_graph(seed)
    inputs = {target: [f"v{s}" for s, t in zip(sources, targets, strict=True) if t == target] for target in targets}
    lines = " ".join(f"v{n} = Sum ({', '.join(inputs.get(n, ['x']))})" for n in range(len(paths)))
    last = f"v{len(paths) - 1}"
    body = f"b () => (float[1] {last}) {{ {lines} }}"
    whole = model(f"""<ir_version: 10, opset_import: ["" : 21, "d" : 1]>
        g (float[1] x, bool c) => (float[1] y) {{ z = d.F (x) y = If (c) <then_branch = {body}, else_branch = {body}> }}
        <domain: "d", opset_import: ["" : 21]> F (x) => ({last}) {{ {lines} }}""")
    function = next(iter(whole.functions)).body
    for graph in (*whole.graph.nodes.last.bodies, function):
        for node, path in zip(graph.nodes, paths, strict=True):
            SetField(node, "name", "/".join(("", *path, node.op_type))).apply()
        assert_convex(graph, scope_tree(graph))


def test_blocks_are_convex():
    lines = "\n".join(
        f"a{n} = Exp (s{n}) b{n} = Relu (a{n}) c{n} = Tanh (b{n}) s{n + 1} = Add (c{n}, s{n})" for n in range(6)
    )
    graph = model(f"g (float[1] s0) => (float[1] s6) {{ {lines} }}").graph
    tree = groups_of(graph)
    assert tree.root.children
    assert_convex(graph, tree)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100))
def test_blocks_in_scopes_of_too_many_boxes_are_convex(seed, monkeypatch):
    monkeypatch.setattr(groups, "AT_A_GLANCE", 4)
    monkeypatch.setattr(groups, "_LEAST", 2)
    paths, sources, targets = _random_graph(seed)
    inputs = {target: [f"v{s}" for s, t in zip(sources, targets, strict=True) if t == target] for target in targets}
    lines = " ".join(f"v{n} = Sum ({', '.join(inputs.get(n, ['x']))})" for n in range(len(paths)))
    names = ["/".join(("", *path, "Sum")) for path in paths]
    graph = named(f"g (float[1] x) => (float[1] v{len(paths) - 1}) {{ {lines} }}", *names)
    assert_convex(graph, groups_of(graph))


def test_a_model_of_any_names_has_groups(tmp_path):
    for name in ("\udcff/" * 50 + "x", ";" * 3000, "a/" * 3000, "/;/" * 500, "." * 3000):
        graph = chain(name, "/a/b", name)
        assert isinstance(graph.model, Model)
        assert_convex(graph, scope_tree(graph))
