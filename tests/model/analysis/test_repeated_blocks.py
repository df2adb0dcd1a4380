"""Repeated blocks: found wherever they stand, alike in all but weights and names, and each fit to become one node."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_workbench.model.analysis.adjacency import adjacency_of
from onnx_workbench.model.analysis.node_labels import exact_label
from onnx_workbench.model.analysis.repeated_blocks import Repeat, repeated_blocks
from onnx_workbench.model.analysis.scoping import run_order
from onnx_workbench.model.history.steps import InsertNode, SetGraphInputs
from onnx_workbench.model.ir.graph import Graph, Node, Value
from tests.examples import examples
from tests.model.builders import model


def blocks_of(graph: Graph, **options: object) -> list[Repeat]:
    return repeated_blocks(adjacency_of(graph), exact_label, **options)


def titles(block: Repeat) -> list[list[str]]:
    return [[node.title for node in occurrence] for occurrence in block.occurrences]


def test_a_block_is_found_in_any_order_and_by_any_name():
    graph = model("""
        g (float[4, 4] x) => (float[4, 4] y)
        <float[4, 4] w0, float[4, 4] w1, float[4, 4] w2>
        {
            [m2] a2 = MatMul (s1, w2)
            [m0] a0 = MatMul (x, w0)
            [r0] b0 = Relu (a0)
            [s0] s0 = Add (x, b0)
            [m1] a1 = MatMul (s0, w1)
            [r1] b1 = Relu (a1)
            [s1] s1 = Add (s0, b1)
            [r2] b2 = Relu (a2)
            [s2] s2 = Add (s1, b2)
            [end] y = Softmax (s2)
        }
    """).graph
    (block,) = blocks_of(graph)
    assert titles(block) == [["m0", "r0", "s0"], ["m1", "r1", "s1"], ["m2", "r2", "s2"]]
    assert (block.size, block.saved) == (3, 4)


@pytest.mark.parametrize("body", ["y = Relu (x)", "a = Relu (x) y = Relu (a)", "y = Add (x, nowhere)"])
def test_there_are_none_in_the_smallest_graphs(body):
    text = f"g (float[4] x) => (float[4] y) {{ {body} }}"
    assert not list(blocks_of(model(text).graph))


def test_other_attributes_or_wires_are_another_block():
    graph = model("""
        g (float[4, 4] x) => (float[4, 4] y)
        {
            [t0] a = Transpose <perm = [1, 0]> (x)
            [e0] b = Exp (a)
            [t1] c = Transpose <perm = [0, 1]> (b)
            [e1] d = Exp (c)
            [p] f = Sub (d, x)
            [n0] h = Neg (f)
            [q] i = Sub (x, h)
            [n1] y = Neg (i)
        }
    """).graph
    assert [titles(b) for b in blocks_of(graph)] == [[["p", "n0"], ["q", "n1"]]]
    graph = model("""
        g (float[4] x) => (float[4] y)
        { [n0] a = Neg (x) [p] b = Sub (a, x) [n1] c = Neg (b) [q] y = Sub (x, c) }
    """).graph
    assert not any(["n0", "p"] in titles(b) for b in blocks_of(graph))


BRANCHES = """
    g (float[4] x, bool f) => (float[4] y)
    {{
        [e0] a = Exp (x)
        [i0] b = If (f) < then_branch = t0 () => (tb) {{ k = Neg (a) tb = Sub (k, x) }},
            else_branch = e0 () => (eb) {{ eb = Abs (a) }} >
        [e1] c = Exp (b)
        [i1] d = If (f) < then_branch = t1 () => (tc) {{ {inside} }},
            else_branch = e1 () => (ec) {{ ec = Abs (c) }} >
        [l0] g0 = Log (d)
        [s0] h = Sin (g0)
        [l1] i = Log (h)
        [s1] y = Sin (i)
    }}
"""


def test_nodes_whose_bodies_compute_the_same_are_alike():
    alike = model(BRANCHES.format(inside="m = Neg (c) tc = Sub (m, b)")).graph
    assert [titles(b) for b in blocks_of(alike)] == [
        [["e0", "i0"], ["e1", "i1"]],
        [["l0", "s0"], ["l1", "s1"]],
    ]


@pytest.mark.parametrize(
    "inside",
    [
        "m = Abs (c) tc = Sub (m, b)",  # another operator
        "m = Neg (c) tc = Sub (b, m)",  # wired otherwise
        "m = Neg (c) tc = Sub (m, c)",  # one value less from outside
        "m = Neg (b) tc = Sub (m, c)",  # the two from outside in each other's place
    ],
)
def test_nodes_whose_bodies_differ_are_not_alike(inside):
    (block,) = blocks_of(model(BRANCHES.format(inside=inside)).graph)
    assert titles(block) == [["l0", "s0"], ["l1", "s1"]]


def test_nodes_outside_the_choice_are_left_out():
    graph = model(BRANCHES.format(inside="tc = Abs (c)")).graph
    assert blocks_of(graph, among=[n for n in graph.nodes if n.name != "s1"]) == []


@pytest.mark.parametrize("count", [2, 7])
def test_a_part_that_depends_on_itself_through_others_is_cut_off(count):
    """The end of each block needs its beginning by way of a node that is not repeated."""
    lines, value = [], "x"
    for i in range(count):
        different = f"<axis = {i}>" if i else ""
        lines.append(f"[a{i}] a{i} = Exp ({value}) [b{i}] b{i} = Neg (a{i}) [c{i}] c{i} = Sin (b{i})")
        lines.append(f"[o{i}] o{i} = Flatten {different} (c{i})")
        lines.append(f"[d{i}] d{i} = Sub (c{i}, o{i})")
        value = f"d{i}"
    graph = model("g (float x) => (float " + value + ") {" + "\n".join(lines) + "}").graph
    (block,) = blocks_of(graph)
    assert titles(block) == [[f"a{i}", f"b{i}", f"c{i}"] for i in range(count)]


OPERATORS = ("Add", "Mul", "Neg", "Exp", "Sub")


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Graphs of few kinds of nodes, so that much repeats by chance, and some whole blocks on purpose."""
    graph = Graph("g")
    made = [Value("x"), Value("z")]
    SetGraphInputs(graph, tuple(made)).apply()
    for _ in range(draw(st.integers(1, 5))):
        block = draw(st.lists(st.tuples(st.sampled_from(OPERATORS), st.integers(1, 4), st.integers(1, 4)), max_size=5))
        for _ in range(draw(st.integers(1, 4))):
            for op_type, first, second in block:
                inputs = (made[-min(first, len(made))], made[-min(second, len(made))])
                output = Value(f"v{len(made)}")
                InsertNode(graph, Node(op_type, inputs[: 1 if op_type in ("Neg", "Exp") else 2], (output,))).apply()
                made.append(output)
    return graph


def shape_of(occurrence: tuple[Node, ...]) -> list[object]:
    """What the nodes of a block do and how they hang together, by their places in it."""
    place = {node: index for index, node in enumerate(occurrence)}
    return [
        (n.op_type, [(place.get(v.producer), v.index) if v and v.producer in place else None for v in n.inputs])
        for n in occurrence
    ]


@pytest.mark.long
@settings(max_examples=examples(150), deadline=None)
@given(graphs())
def test_occurrences_are_alike_disjoint_and_can_each_become_one_node(graph):
    blocks = blocks_of(graph)
    every = [node for block in blocks for occurrence in block.occurrences for node in occurrence]
    assert len(every) == len(set(every))
    for block in blocks:
        assert len(block.occurrences) > 1 < block.size
        assert all(shape_of(o) == shape_of(block.occurrences[0]) for o in block.occurrences)
    assert blocks_of(graph) == blocks

    whole = Graph("folded")
    units = {n: o for b in blocks for o in b.occurrences for n in o}
    folded: dict[object, Node] = {}
    results: dict[Value, Value] = {}
    for node in graph.nodes:
        unit = folded.setdefault(units.get(node, node), Node("Unit"))
        for output in node.outputs:
            assert output is not None
            results[output] = Value(output.name)
            unit.outputs = (*unit.outputs, results[output])
    for node in graph.nodes:
        unit = folded[units.get(node, node)]
        unit.inputs += tuple(results[v] for v in node.inputs if v in results and v.producer not in units.get(node, ()))
    for unit in folded.values():
        InsertNode(whole, unit).apply()
    done: set[Value] = set()
    for unit in run_order(whole):
        assert all(v in done for v in unit.inputs), "an occurrence waits for itself"
        done.update(v for v in unit.outputs if v is not None)
