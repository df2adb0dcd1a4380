"""Graphs without scopes, grouped by what they repeat."""

from __future__ import annotations

import random
from pathlib import Path

import onnx
import pytest

from onnx_workbench.model.analysis import groups
from onnx_workbench.model.analysis.groups import block_tree, find_blocks, groups_of, scope_tree
from onnx_workbench.model.analysis.name_scopes import scope_paths, tree_of
from onnx_workbench.model.edits.nodes import delete
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.steps import InsertNode, SetField, SetInput
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.ir.graph import Graph, Node, Value
from onnx_workbench.model.progress import SILENT, Cancelled, Progress
from tests.model.builders import model


def residual(blocks: int, operators: tuple[str, ...] = ("Exp", "Relu", "Tanh")) -> Graph:
    """x, then so many times: a chain of operators, added to what it began with."""
    lines, last = [], "x"
    for block in range(blocks):
        value = last
        for number, operator in enumerate(operators):
            lines.append(f"[b{block}_{number}] t{block}_{number} = {operator} ({value})")
            value = f"t{block}_{number}"
        lines.append(f"[b{block}_add] s{block} = Add ({value}, {last})")
        last = f"s{block}"
    lines.append(f"[end] y = Softmax ({last})")
    return model("g (float[4] x) => (float[4] y) {" + "\n".join(lines) + "}").graph


def blocks_in(graph, progress=SILENT):
    return find_blocks(graph, scope_tree(graph), progress)


def test_blocks_are_numbered_and_named_after_their_operators():
    graph = residual(5)
    blocks = blocks_in(graph)
    tree = block_tree(graph, blocks)
    (stack,) = tree.root.children
    assert stack.name == "Exp-Relu-Tanh ×5"
    assert [scope.name for scope in stack.children] == [f"Exp-Relu-Tanh {n}" for n in range(1, 6)]
    assert [[node.title for node in scope.nodes] for scope in stack.children][1] == [
        "b1_0", "b1_1", "b1_2", "b1_add"
    ]  # fmt: skip
    assert [node.title for node in tree.root.nodes] == ["end"]
    assert blocks.outermost == 6
    assert blocks.are_worthwhile  # 6 boxes for 21 nodes


def convolutions(blocks: int) -> Graph:
    """Convolution, Relu and average, of which some have a stride and double the filters."""
    lines, filters, weights = [], 2, []
    for block in range(blocks):
        stride, before = (2, filters) if block in (1, 2, 5) else (1, filters)
        filters *= stride
        weights.append(f"float[{filters}, {before}, 1, 1] w{block}")
        lines += [
            f"c{block} = Conv <strides: ints = [{stride}, 1]> (x{block}, w{block})",
            f"r{block} = Relu (c{block})",
            f"x{block + 1} = Add (r{block}, c{block})",
        ]
    head = "g (float[1, 2, 64, 64] x0, "
    return model(f"{head}{', '.join(weights)}) => (float[1, M, N, O] x{blocks}) {{ {chr(10).join(lines)} }}").graph


def test_layers_that_differ_in_attributes_are_blocks_of_one_kind():
    (stack,) = block_tree(graph := convolutions(7), blocks_in(graph)).root.children
    assert stack.name == "Conv-Relu-Add ×7"
    assert [scope.count for scope in stack.children] == [3] * 7


def test_of_equal_blocks_those_with_fewest_boxes_are_chosen():
    lines, last = [], "x"
    for half in range(2):  # equal halves of twelve Concats, which have no part that they repeat themselves
        for number, axis in enumerate((0, 1, 0, 0, 1, 1)):
            lines += [
                f"e{half}{number} = {('Exp', 'Abs')[axis]} ({last})",
                f"c{half}{number} = Concat <axis: int = {axis}> (e{half}{number}, {last})",
            ]
            last = f"c{half}{number}"
    head = "g (float[2, 2] x) => (float[M, N] "
    graph = model(f"{head}{last}) {{ {chr(10).join(lines)} }}").graph
    assert [scope.count for scope in block_tree(graph, blocks_in(graph)).root.children] == [12, 12]


def test_large_blocks_have_the_blocks_inside_that_all_of_them_repeat():
    inner = ("Exp", "Relu", "Tanh", "Neg")
    graph = residual(4, inner * 6 + ("Sqrt",))
    tree = block_tree(graph, blocks_in(graph))
    assert [scope.count for scope in tree.root.children] == [26] * 4
    for outer in tree.root.children:
        (stack,) = outer.children
        assert [scope.count for scope in stack.children] == [4] * 6
        assert all(scope.path[0] == outer.name for scope in stack.children)


def test_a_graph_that_repeats_nothing_has_no_blocks():
    graph = residual(1)
    blocks = blocks_in(graph)
    assert not block_tree(graph, blocks).root.children
    assert blocks.outermost == len(graph.nodes)
    assert not blocks.are_worthwhile


def test_blocks_survive_edits_and_new_nodes_join_neighbours():
    graph = residual(5)
    blocks = blocks_in(graph)
    node = next(n for n in graph.nodes if n.title == "b1_1")
    middle = Value("middle", None, graph)
    new = Node("Abs", (node.inputs[0],), (middle,), name="new")
    InsertNode(graph, new).apply()
    SetInput(node, 0, middle).apply()
    between = Node("Abs", (next(n for n in graph.nodes if n.title == "b0_add").outputs[0],), (), name="between")
    InsertNode(graph, between).apply()
    tree = block_tree(graph, blocks)
    assert new in tree.root.children[1].nodes
    assert [scope.count for scope in tree.root.children] == [5, 5, 4, 4, 4]  # the other joined the first: it ends there


def test_the_search_can_be_cancelled():
    progress = Progress()
    progress.cancel()
    with pytest.raises(Cancelled):
        blocks_in(residual(5), progress)


def test_nodes_that_compute_sizes_belong_to_their_users_block():
    lines = ["x0 = Identity (x)"]
    for block in range(4):
        lines += [
            f"[s{block}] s{block} = Shape (x{block})",
            f"[g{block}] g{block} = Gather (s{block}, zero)",
            f"[c{block}] c{block} = Concat <axis: int = 0> (g{block}, rest)",
            f"[r{block}] r{block} = Reshape (x{block}, c{block})",
            f"[e{block}] e{block} = Exp (r{block})",
            f"[t{block}] t{block} = Tanh (e{block})",
            f"[x{block}] x{block + 1} = Neg (t{block})",
        ]
    head = "g (float[4, 4] x) => (float[4, 4] x4) "
    graph = model(head + "<int64[1] zero = {0}, int64[1] rest = {-1}> {" + "\n".join(lines) + "}").graph
    blocks = blocks_in(graph)
    tree = block_tree(graph, blocks)
    assert (blocks.outermost, blocks.drawn) == (5, 17)
    assert [scope.name for scope in tree.root.children] == [f"Reshape-Exp-Tanh {n}" for n in range(1, 5)]
    assert [node.title for node in tree.root.children[1].nodes] == ["s1", "g1", "c1", "r1", "e1", "t1", "x1"]


def test_a_graph_of_one_node_has_no_blocks():
    graph = model("g (float[4] x) => (float[4] y) { y = Relu (x) }").graph
    assert blocks_in(graph).outermost == 1


def crowded(layers: int) -> Graph:
    """So many times a scope and four nodes in none, all in one scope after another one."""
    lines, names, last = ["s1 = Exp (x)", "s2 = Exp (s1)"], ["/start/a", "/start/b"], "s2"
    for layer in range(layers):
        for number, (operator, scope) in enumerate(
            (("Exp", "layer."), ("Tanh", "layer."), ("Relu", ""), ("Neg", ""), ("Abs", ""), ("Sqrt", ""))
        ):
            value = f"v{layer}_{number}"
            lines.append(f"{value} = {operator} ({last})")
            names.append(f"/net/{scope}{layer}/n{number}" if scope else f"/net/n{layer}_{number}")
            last = value
    head = "g (float[4] x) => (float[4] "
    graph = model(f"{head}{last}) {{ {chr(10).join(lines)} }}").graph
    for node, name in zip(graph.nodes, names, strict=True):
        SetField(node, "name", name).apply()
    return graph


def test_an_overfull_scope_is_divided_into_repeated_blocks():
    tree = groups_of(crowded(14))
    net = tree.root.children[1]
    (stack,) = net.children
    assert (stack.name, len(net.nodes)) == ("layer … ×14", 0)
    assert [scope.name for scope in stack.children][:2] == ["layer.0 …", "layer.1 …"]
    assert [(len(scope.children), len(scope.nodes)) for scope in stack.children] == [(1, 4)] * 14
    assert [scope.name for scope in tree.root.children] == ["start", "net"]


def test_a_scope_of_few_boxes_has_no_blocks():
    tree = groups_of(crowded(12))  # 60 boxes
    assert len(tree.root.children[1].nodes) == 48


def test_scopes_of_a_kind_may_have_different_numbers_of_inputs():
    """Each scope holds ten nodes, every third of which also takes the value seven nodes before."""
    operators = ("Relu", "Add", "Sub")
    lines = []
    for node in range(700):
        before = f"v{node - 1}" if node else "x"
        other = f", v{node - 7}" if node > 7 else ", x"
        lines.append(f"v{node} = {operators[node % 3]} ({before}{other if node % 3 else ''})")
    head = "g (float[4] x) => (float[4] "
    graph = model(f"{head}v699) {{ {chr(10).join(lines)} }}").graph
    for index, node in enumerate(graph.nodes):
        SetField(node, "name", f"/layer{index // 10}/node_{index}").apply()
    tree = groups_of(graph)
    assert len(tree.of) == 700


def test_blocks_in_scopes_stay_when_the_graph_is_edited():
    graph = crowded(14)
    blocks = blocks_in(graph)
    node = next(n for n in graph.nodes if n.name == "/net/n3_4")
    SetField(node, "name", "/start/moved").apply()
    before = next(n for n in graph.nodes if n.name == "/net/n5_3")
    middle = Value("middle", None, graph)
    new = Node("Abs", (before.inputs[0],), (middle,), name="/net/new")
    InsertNode(graph, new).apply()
    SetInput(before, 0, middle).apply()
    tree = block_tree(graph, blocks)
    assert tree.of[new].name == "layer.5 …"
    assert tree.of[before] is tree.of[new]


def test_blocks_in_scopes_are_gone_with_all_nodes():
    graph = crowded(14)
    blocks = blocks_in(graph)
    with Document(graph.model).edit("Delete") as edit:
        delete(edit, list(graph.nodes))
    assert not block_tree(graph, blocks).root.children


def test_size_arithmetic_into_a_block_does_not_cut_it():
    lines = []
    for block in range(2):
        lines += [
            f"a{block} = Exp (x{block})",
            f"s{block} = Shape (a{block})",
            f"g{block} = Gather (s{block}, zero)",
            f"c{block} = Concat <axis: int = 0> (g{block}, rest)",
            f"b{block} = Tanh (a{block})",
            f"r{block} = Reshape (b{block}, c{block})",
            f"x{block + 1} = Neg (r{block})",
        ]
    head = "g (float[4, 4] x0) => (float[4, 4] x2) "
    graph = model(head + "<int64[1] zero = {0}, int64[1] rest = {-1}> {" + "\n".join(lines) + "}").graph
    tree = block_tree(graph, blocks_in(graph))
    assert [scope.count for scope in tree.root.children] == [7, 7]


def test_what_one_scope_uses_joins_it_where_boxes_are_many():
    lines, names, sums = [], [], []
    for part in range(22):  # each with its own preparation, of other operators and sizes than most others have
        lines += [f"p{part} = {('Exp', 'Abs', 'Neg', 'Sqrt', 'Ceil', 'Floor', 'Sin', 'Cos')[part % 8]} (x)"]
        lines += [f"q{part} = {('Tanh', 'Sigmoid', 'Relu', 'Erf', 'Sign')[part % 5]} (p{part})"]
        lines += [f"a{part} = {('Relu', 'Exp', 'Tan')[part % 3]} (q{part})", f"b{part} = Tanh (a{part})"]
        names += [f"/p{part}", f"/q{part}", f"/net_{chr(97 + part)}/a", f"/net_{chr(97 + part)}/b"]
        sums.append(f"b{part}")
    head = "g (float[4] x) => (float[4] y) "
    graph = model(f"{head}{{ {chr(10).join(lines)} y = Sum ({', '.join(sums)}) }}").graph
    for node, name in zip(graph.nodes, [*names, "/sum"], strict=True):
        SetField(node, "name", name).apply()
    assert len(scope_tree(graph).root.nodes) == 45
    tree = groups_of(graph)
    assert [scope.name for scope in tree.root.children] == [f"net_{chr(97 + part)}" for part in range(22)]
    assert [scope.count for scope in tree.root.children] == [4] * 22
    assert [node.name for node in tree.root.nodes] == ["/sum"]


def test_sizes_that_two_blocks_use_are_in_none_of_them():
    lines = ["s = Shape (x0)", "g = Gather (s, zero)", "c = Concat <axis: int = 0> (g, rest)"]
    for block in range(3):
        lines += [f"e{block} = Exp (x{block})", f"r{block} = Reshape (e{block}, c)", f"x{block + 1} = Neg (r{block})"]
    head = "g (float[4, 4] x0) => (float[4, 4] x3) "
    graph = model(head + "<int64[1] zero = {0}, int64[1] rest = {-1}> {" + "\n".join(lines) + "}").graph
    tree = block_tree(graph, blocks_in(graph))
    assert [scope.count for scope in tree.root.children] == [3, 3, 3]
    assert [node.op_type for node in tree.root.nodes] == ["Shape", "Gather", "Concat"]


@pytest.mark.parametrize("seed", range(12))
def test_scopes_reading_different_inputs_are_not_equivalent(seed):
    rng, lines, names = random.Random(seed), [], []
    for number in range(70):
        before, other = (f"v{max(0, number - rng.choice([0, 0, 1, 2]))}" for _ in range(2))
        lines += [
            f"a{number} = Relu ({before})",
            f"v{number + 1} = Add (a{number}, {rng.choice([other, f'a{number}'])})",
        ]
        names += [f"/s{number}/a", f"/s{number}/b"]
    head = "g (float[4] v0) => (float[4] v70) "
    graph = model(f"{head}{{ {chr(10).join(lines)} }}").graph
    for node, name in zip(graph.nodes, names, strict=True):
        SetField(node, "name", name).apply()
    tree = block_tree(graph, find_blocks(graph, tree_of(graph, scope_paths(graph))))  # without stacks
    assert sum(scope.count for scope in tree.root.children) + len(tree.root.nodes) == 140


def test_a_crowded_block_keeps_its_nodes(monkeypatch):
    path = Path(onnx.__file__).parent / "backend/test/data/light/light_resnet50.onnx"
    graph = load(path.read_bytes()).graph
    before = groups_of(graph).root
    monkeypatch.setattr(groups, "AT_A_GLANCE", 10)
    assert len(groups_of(graph).root.nodes) <= len(before.nodes)
