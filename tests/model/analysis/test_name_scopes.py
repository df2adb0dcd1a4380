from __future__ import annotations

import pytest

from onnx_workbench.model.analysis.groups import scope_tree
from onnx_workbench.model.analysis.name_scopes import DEEPEST, scope_path
from onnx_workbench.model.history.steps import SetField
from onnx_workbench.model.ir.graph import Node
from tests.model.builders import model


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("/encoder/layer.0/query/MatMul", ("encoder", "layer.0", "query")),
        ("model/conv/Conv2D", ("model", "conv")),
        ("encoder.layer.0.attention.matmul", ("encoder", "layer.0", "attention")),
        ("Conv_0", ()),
        ("Relu.12", ()),
        ("act.12", ("act",)),
        ("", ()),
        ("/", ()),
        ("p2o.Relu.0", ("p2o",)),
        ("/_empty_nn_module_stack_from_metadata_hook/Add", ()),
        ("net/block1/bn/FusedBatchNorm;net/block1/conv/Conv2D;net/block1/bias", ("net", "block1")),
        ("a/x;b/y", ()),
        ("...", ()),
    ],
)
def test_a_name_shows_its_scopes(name, path):
    assert scope_path(Node("Relu", name=name)) == path


def test_metadata_comes_before_the_name():
    node = Node("Relu", name="/other/relu")
    SetField(node, "metadata", {"namespace": ": Model/encoder: Encoder/act: Relu/relu: aten.relu"}).apply()
    assert scope_path(node) == ("encoder", "act")
    SetField(node, "metadata", {"pkg.torch.onnx.name_scopes": "['', 'encoder', 'encoder.layer', 'relu']"}).apply()
    assert scope_path(node) == ("encoder", "layer")
    SetField(node, "metadata", {"namespace": ": M/m: Bert/m.encoder: Encoder/relu: aten.relu"}).apply()
    assert scope_path(node) == ("m", "encoder")


@pytest.mark.parametrize("text", ["[", "['a', 3]", "{}", "[" * 5000, "__import__('os')", "['a', " * 900])
def test_broken_metadata_counts_as_none(text):
    node = Node("Relu", name="/scope/relu")
    SetField(node, "metadata", {"pkg.torch.onnx.name_scopes": text}).apply()
    assert scope_path(node) == ("scope",)


def test_any_nesting_a_name_claims_is_cut():
    assert len(scope_path(Node("Relu", name="a/" * 100_000 + "b"))) == DEEPEST


def chain(*names):
    """The graph of Relu after Relu with these names."""
    lines = "".join(f"[{name}] v{i + 1} = Relu (v{i})\n" for i, name in enumerate(names))
    return model(f"""
        g (float[1] v0) => (float[1] v{len(names)}) {{ {lines} }}
    """).graph


def named(*names):
    """The same with names that the text form cannot hold."""
    graph = chain(*(f"n{i}" for i in range(len(names))))
    for node, name in zip(graph.nodes, names, strict=True):
        SetField(node, "name", name).apply()
    return graph


def test_every_node_is_in_exactly_one_scope_or_none():
    graph = named(*(f"/part{i // 10}/relu{i}" for i in range(40)))
    tree = scope_tree(graph)
    in_scopes = [node for scope in tree.root.walk() for node in scope.nodes]
    assert sorted(map(id, in_scopes)) == sorted(map(id, graph.nodes))
    assert tree.root.count == 40
    assert [scope.count for scope in tree.root.children] == [10, 10, 10, 10]
    assert tree.root.children[0].operators() == [("Relu", 10)]


def test_scopes_that_say_nothing_are_folded_away():
    tree = scope_tree(named("/outer/inner/relu1", "/outer/inner/relu2", "/single/relu"))
    assert [scope.name for scope in tree.root.children] == ["outer/inner"]
    assert [node.name for node in tree.root.nodes] == ["/single/relu"]
    assert tree.find(("outer", "inner")) is tree.root.children[0]


def test_scopes_come_in_order_of_computation_not_constants():
    graph = model("""
        g (float[1] x) => (float[1] y) {
            two = Constant <value_float = 2.0> ()
            one = Constant <value_float = 1.0> ()
            a = Add (x, one)
            b = Relu (a)
            c = Mul (b, two)
            y = Relu (c)
        }
    """).graph
    for node, scope in zip(graph.nodes, ("last", "first", "first", "first", "last", "last"), strict=True):
        SetField(node, "name", f"/{scope}/{node.op_type}").apply()
    assert [scope.name for scope in scope_tree(graph).root.children] == ["first", "last"]
