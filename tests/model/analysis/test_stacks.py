"""Equal scopes that follow each other are one stack."""

from __future__ import annotations

import pytest

from onnx_workbench.model.analysis.groups import scope_tree
from onnx_workbench.model.analysis.name_scopes import Scope, known_stacks
from onnx_workbench.model.history.steps import SetField
from tests.model.analysis.test_convex_scopes import assert_convex, chain, named


def names(scope: Scope) -> list[str]:
    return [child.name for child in scope.children]


def layers(count: int, pattern: str = "/layer.{}/n{}") -> list[str]:
    return [pattern.format(layer, node) for layer in range(count) for node in range(3)]


def test_layers_between_others_are_a_stack():
    graph = chain("/embed/a", "/embed/b", *layers(12), "/pool/a", "/pool/b")
    tree = scope_tree(graph)
    assert names(tree.root) == ["embed", "layer ×12", "pool"]
    stack = tree.root.children[1]
    assert stack.is_stack
    assert names(stack) == [f"layer.{number}" for number in range(12)]
    assert stack.count == 36
    assert all(layer.parent is stack for layer in stack.children)
    assert_convex(graph, tree)


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("/layers_{}/n{}", "layers"),
        ("/h{}/n{}", "h"),
        ("/blocks.{}.attn/n{}", "blocks.attn"),
        ("/layer_{}/attn/n{}", "layer/attn"),
        ("/conv1d_{}/n{}", "conv1d"),
    ],
)
def test_a_stack_has_the_name_that_is_common(pattern, name):
    tree = scope_tree(chain("/start/a", "/start/b", *layers(5, pattern)))
    assert names(tree.root) == ["start", f"{name} ×5"]


def test_nodes_between_layers_are_in_the_stack():
    lines = [name for n in range(6) for name in (*(f"/layer.{n}/n{k}" for k in range(3)), f"SkipNorm_{n}")]
    tree = scope_tree(chain("/start/a", "/start/b", *lines))
    stack = tree.root.children[1]
    assert [node.name for node in stack.nodes] == [f"SkipNorm_{n}" for n in range(5)]
    assert all(tree.of[node] is stack for node in stack.nodes)


def test_a_layer_of_other_operators_is_in_no_stack():
    lines = "\n".join(f"v{n + 1} = {'Abs' if n == 16 else 'Relu'} (v{n})" for n in range(33))
    graph = named(f"g (float[1] v0) => (float[1] v33) {{ {lines} }}", *layers(11))
    tree = scope_tree(graph)
    assert names(tree.root) == ["layer ×5", "layer.5", "layer ×5"]
    assert_convex(graph, tree)


def test_four_layers_are_no_stack():
    assert len(scope_tree(chain("/start/a", "/start/b", *layers(4))).root.children) == 5


def test_stacks_that_feed_each_other_are_none():
    """Each alone would be convex: no path goes from one to the other and back."""
    lines, taken = [], []
    for side in "ab":
        for layer in range(5):
            for node in range(2):
                first = f"{side}{layer}{node - 1}" if node else f"{side}{layer - 1}1" if layer else "x"
                more = f", {'b' if side == 'a' else 'a'}00" if (layer, node) == (4, 1) else ""
                lines.append(f"{side}{layer}{node} = Sum ({first}{more})")
                taken.append(f"/{side}.{layer}/n{node}")
    graph = named(f"g (float[1] x) => (float[1] a41, float[1] b41) {{ {' '.join(lines)} }}", *taken)
    tree = scope_tree(graph)
    assert_convex(graph, tree)


def test_layers_in_layers_are_stacks_in_stacks():
    lines = [f"/stage.{stage}/block.{block}/n{node}" for stage in range(5) for block in range(6) for node in range(2)]
    graph = chain("/start/a", "/start/b", *lines)
    tree = scope_tree(graph)
    assert names(tree.root) == ["start", "stage ×5"]
    assert [names(stage) for stage in tree.root.children[1].children] == [["block ×6"]] * 5
    assert_convex(graph, tree)


def test_a_stack_stays_one_when_a_layer_is_edited():
    graph = chain("/start/a", "/start/b", *layers(6))
    before = scope_tree(graph)
    edited = next(node for node in graph.nodes if node.name == "/layer.3/n1")
    SetField(edited, "op_type", "Abs").apply()
    assert names(scope_tree(graph).root) != names(before.root)
    assert names(scope_tree(graph, stacks=known_stacks(before)).root) == ["start", "layer ×6"]
