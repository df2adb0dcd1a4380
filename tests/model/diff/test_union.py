"""Two compared models as one graph: nothing is lost, what is alike is there once, and who is whose is known."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_workbench.model.analysis.topology import Connection
from onnx_workbench.model.diff import compare
from onnx_workbench.model.diff.union import build_union
from onnx_workbench.model.edits import functions, interface, nodes, values
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.ir.graph import Value
from tests.examples import examples
from tests.model import builders
from tests.model.snapshots import assert_linked


def united(change, text=builders.CHAIN):
    """A model and an edited copy of it, as one."""
    document = builders.document(text)
    builders.one_edit(document, change, document)
    old, new = builders.model(text), document.model
    comparison = compare(old, new)
    return comparison, build_union(comparison)


def assert_whole(comparison, union):
    """Every node of both models is there, partners once; every wire of both is there, marked where one has it alone."""
    old, new = comparison.old, comparison.new
    made = [node for graph in union.model.graphs() for node in graph.nodes]
    pairs = sum(comparison.matching.node(n) is not None for g in old.graphs() for n in g.nodes)
    count = sum(len(g.nodes) for m in (old, new) for g in m.graphs())
    assert len(made) == count - pairs
    for model in (old, new):
        for graph in model.graphs():
            assert union.of[graph] in set(union.model.graphs())
            for node in graph.nodes:
                used = union.of[node].inputs
                assert all(union.of[v] in used for v in node.inputs if v is not None)
                assert all(union.of[v] in union.of[node].outputs for v in node.outputs if v is not None)
            assert all(union.of[v] in union.of[graph].inputs or v.producer is None for v in graph.inputs)
            assert all(union.of[v] in union.of[graph].outputs for v in graph.outputs)
    marked = {("added", w.value, w.node) for w in union.added if isinstance(w, Connection)}
    marked |= {("removed", w.value, w.node) for w in union.removed if isinstance(w, Connection)}
    for node in made:
        sides = union.sides[node]
        for value in filter(None, node.inputs):
            has = [side is not None and any(union.of.get(v) is value for v in side.inputs) for side in sides]
            assert any(has)
            assert (("added", value, node) in marked) == (not has[0])
            assert (("removed", value, node) in marked) == (not has[1])
    assert_linked(union.model)


@pytest.mark.parametrize("text", [builders.CHAIN, builders.BRANCHES])
def test_equal_models_make_the_same_model_again(text):
    comparison = compare(builders.model(text), builders.model(text))
    union = build_union(comparison)
    assert_whole(comparison, union)
    assert not union.added
    assert not union.removed
    assert not compare(comparison.new, union.model)  # the fields of the model too: its versions and domain were lost


def test_a_node_in_between_leaves_the_wire_it_cut():
    comparison, union = united(lambda e, d: nodes.insert_on_edge(e, builders.value(d, "r"), "Neg"))
    assert_whole(comparison, union)
    (neg,) = (n for n in union.model.graph.nodes if n.op_type == "Neg" and union.sides[n][0] is None)
    ((_, lost),) = [(w.value.name, w.node) for w in union.removed]
    assert neg.outputs[0] in lost.inputs
    assert [w.value for w in union.added if w.node is lost] == [neg.outputs[0]]


def test_what_was_removed_stands_after_what_it_stood_after():
    comparison, union = united(lambda e, d: nodes.delete_and_bridge(e, [builders.node(d, "second")]))
    assert_whole(comparison, union)
    titles = [n.name for n in union.model.graph.nodes]
    assert titles == [n.name for n in comparison.old.graph.nodes]
    assert [n.name for n in union.model.graph.nodes if union.sides[n][1] is None] == ["second"]


def test_a_body_shows_both_sides():
    def change(edit, document):
        nodes.insert_on_edge(edit, builders.value(document, "yes_out"), "Neg")

    comparison, union = united(change, builders.BRANCHES)
    assert_whole(comparison, union)
    inside = [n for g in union.model.graphs() if g.parent is not None for n in g.nodes]
    assert [n.op_type for n in inside if union.sides[n][0] is None] == ["Neg"]


def test_a_value_that_became_an_input_is_there_twice():
    """As an input, and as what the node made that is gone."""

    def cut(edit, document):
        made = builders.value(document, "r")
        producer = made.producer
        users = list(made.uses)
        fresh = interface.add_input(edit, document.model.graph, "fresh")
        for user, index in users:
            values.connect(edit, user, index, fresh)
        nodes.delete(edit, [producer])

    comparison, union = united(cut)
    assert_whole(comparison, union)
    assert [v.name for v in union.added if isinstance(v, Value)] == ["fresh"]


def test_a_function_of_another_name_is_there_once(real_models):
    folder = real_models / "bert_mini_functions"
    if not folder.exists():
        pytest.skip("no such model here")
    document = Document(load(folder / "model.onnx"))
    builders.one_edit(document, functions.rename_function, document.model.functions[0], name="Other")
    comparison = compare(load(folder / "model.onnx"), document.model)
    union = build_union(comparison)
    assert_whole(comparison, union)
    assert len(union.model.functions) == len(document.model.functions)


@settings(max_examples=examples(40), deadline=None)
@given(seed=st.integers(0, 10_000))
def test_any_edits_are_whole(seed):
    rng = random.Random(seed)

    def change(edit, document):
        for number in range(rng.randint(1, 4)):
            graph = rng.choice(list(document.model.graphs()))
            made = [n for n in graph.nodes if n.outputs and n.outputs[0] is not None]
            if not made:
                continue
            node = rng.choice(made)
            what = rng.randrange(3)
            if what == 0:
                nodes.insert_on_edge(edit, node.outputs[0], rng.choice(["Neg", "Abs"]))
            elif what == 1:
                nodes.delete(edit, [node])
            else:
                nodes.rename_node(edit, node, f"other {number}")

    comparison, union = united(change, rng.choice([builders.CHAIN, builders.BRANCHES]))
    assert_whole(comparison, union)
