from __future__ import annotations

import time
from collections import Counter

from onnx_workbench.model.analysis.folded_nodes import QUANTIZE_PAIRS, find_folded_nodes, may_fold
from onnx_workbench.model.io.reader.read import load
from tests.model.builders import model, node
from tests.real_models import RealModels


def folded(text: str) -> tuple[set[str], dict[str, tuple[tuple[str, ...], int]]]:
    """Names of the folded nodes; of the nodes they are for the purposes and how many there are behind them."""
    graph = model(text).graph
    found = find_folded_nodes(graph)
    users = dict.fromkeys(found.users.values())
    return (
        {node.name for node in found.users},
        {user.name: (found.purposes(user), len(found.behind(user))) for user in users},
    )


HEAD = '<ir_version: 10, opset_import: ["" : 21]>\n'

RESHAPED = (
    HEAD
    + """
g (float[N, 4, 6] x) => (float[A, B, C] y)
<int64 zero = {0}, int64[1] first = {0}, int64[1] rest = {-1}, int64[1] two = {2}>
{
    [relu] r = Relu (x)
    [shape] s = Shape (r)
    [gather] n = Gather <axis: int = 0> (s, zero)
    [unsqueeze] u = Unsqueeze (n, first)
    [concat] c = Concat <axis: int = 0> (u, rest, two)
    [reshape] y = Reshape (r, c)
}"""
)


def test_a_size_that_is_also_data_is_no_helper():
    """An output, or a number that is computed with, stays in the graph, and all that it is computed from."""
    assert folded(RESHAPED.replace("(float[A, B, C] y)", "(float[A, B, C] y, int64 n)"))[0] == {"unsqueeze", "concat"}
    text = RESHAPED.replace("[concat]", "[data] d = Cast <to: int = 1> (u)\n [concat]").replace(
        "B, C] y)", "B, C] y, float[1] d)"
    )
    assert folded(text)[0] == {"concat"}


def test_what_only_a_shape_is_taken_of_stays():
    text = RESHAPED.replace("Shape (r)", "Shape (q)").replace("[shape]", "[neg] q = Neg (x)\n [shape]")
    assert folded(text)[0] == {"shape", "gather", "unsqueeze", "concat"}


def test_sizes_that_several_nodes_use_are_behind_each():
    text = RESHAPED.replace("y = Reshape (r, c)", "z = Reshape (r, c)\n [again] y = Reshape (z, c)")
    graph = model(text).graph
    found = find_folded_nodes(graph)
    first, again = list(graph.nodes)[-2:]
    assert set(found.users.values()) == {first}
    assert [n.op_type for n in found.behind(again)] == ["Concat", "Unsqueeze", "Gather", "Shape"]
    assert found.behind(again) == found.behind(first)
    assert len(found.behind(again, most=2)) == 2
    assert found.behind(again, "weights") == []
    assert found.purposes(again) == ("sizes",)


def test_prepared_constants_are_behind_what_computes_with_them():
    names, users = folded(
        HEAD
        + """
g (float[2, 3] x) => (float[2, 5] y)
<int8[5, 3] q = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15}, float s = {0.5}, int8 z = {0}, float16[5] b = {1,2,3,4,5}>
{
    [dequantize] w = DequantizeLinear (q, s, z)
    [transpose] t = Transpose (w)
    [cast] c = Cast <to: int = 1> (b)
    [matmul] m = MatMul (x, t)
    [add] y = Add (m, c)
}"""
    )
    assert names == {"dequantize", "transpose", "cast"}
    assert users == {"matmul": (("weights",), 2), "add": (("weights",), 1)}


def test_a_graph_of_constants_alone_is_no_preparation():
    names, _ = folded(HEAD + "g () => (float[2] y) <float[2] a = {1, 2}> { [neg] n = Neg (a) [abs] y = Abs (n) }")
    assert names == set()


def test_random_numbers_products_and_what_bodies_use_are_no_helpers():
    names, _ = folded(
        HEAD
        + """
g (float[2, 2] x, bool flag) => (float[2, 2] y, float[2, 2] z)
<float[2, 2] a = {1, 2, 3, 4}>
{
    [product] p = MatMul (a, a)
    [noise] n = RandomNormalLike (a)
    [neg] c = Neg (a)
    [sum] y = Sum (x, p, n)
    [choose] z = If (flag) <
        then_branch: graph = yes () => (float[2, 2] v) { v = Add (x, c) },
        else_branch: graph = no () => (float[2, 2] w) { w = Identity (x) }
    >
}"""
    )
    assert names == set()


def test_which_nodes_an_edit_might_fold():
    graph = model(RESHAPED)
    folded = find_folded_nodes(graph.graph)
    assert may_fold(node(graph, "concat"), folded)
    assert not may_fold(node(graph, "reshape"), folded)  # its result is an output


def test_a_long_chain_takes_time_in_proportion_to_its_length():
    steps = "\n".join(f"s{i + 1} = Identity (s{i})" for i in range(4000))
    text = HEAD + f"g (float[4] x) => (float[4] y) {{ s0 = Shape (x)\n {steps}\n y = Reshape (x, s4000) }}"
    graph = model(text).graph
    begun = time.process_time()
    found = find_folded_nodes(graph)
    assert len(found.users) == 4001
    assert len(found.behind(next(iter(found.users.values())))) == 4001
    assert time.process_time() - begun < 10.0


def test_weights_that_real_models_fill_in_are_behind_their_layers():
    graph = load(RealModels() / "onnx__light_resnet50" / "model.onnx").graph
    found = find_folded_nodes(graph)
    drawn = Counter(node.op_type for node in graph.nodes if node not in found and node.op_type != "Constant")
    assert drawn["Conv"] == 53
    assert drawn["ConstantOfShape"] == 0


def test_a_bert_is_its_architecture():
    graph = load(RealModels() / "bert_mini_functions" / "model.onnx").graph
    found = find_folded_nodes(graph)
    kinds = Counter(node.op_type for node in found.users)
    assert kinds["Shape"] == 3
    assert kinds["Concat"] == 9
    drawn = Counter(node.op_type for node in graph.nodes if node not in found)
    assert drawn["Shape"] == 0
    assert drawn["Softmax"] == 2


CASTS = (
    HEAD
    + """
g (float[4] x) => (float[4] y, float16[4] z)
<float scale = {0.5}, int8 zero = {0}>
{
    [out] z = Cast <to: int = 10> (x)
    [cast] a = Cast <to: int = 10> (x)
    [copy] b = Identity (a)
    [back] c = Cast <to: int = 1> (b)
    [q] q = QuantizeLinear (c, scale, zero)
    [dq] d = DequantizeLinear (q, scale, zero)
    [alone] e = QuantizeLinear (d, scale, zero)
    [int] f = Cast <to: int = 1> (e)
    [relu] r = Relu (f)
    [add] y = Add (r, d)
}"""
)


def folded_kinds(*kinds: str) -> tuple[set[str], dict[str, str]]:
    """Names of the folded nodes, and of the values that their results are passed on from."""
    found = find_folded_nodes(model(CASTS).graph, kinds=kinds)
    passed = {node: node.outputs[0] for node in found.users}
    return {node.name for node in passed}, {n.name: found.origin(v).name for n, v in passed.items() if v is not None}


def test_nodes_of_chosen_kinds_are_folded_into_their_users():
    assert folded_kinds("Cast") == ({"cast", "back", "int"}, {"cast": "x", "back": "b", "int": "e"})
    assert folded_kinds("Cast", "Identity") == (
        {"cast", "copy", "back", "int"},
        {"cast": "x", "copy": "x", "back": "x", "int": "e"},
    )
    assert folded_kinds() == (set(), {})


def test_quantizations_are_folded_only_in_pairs():
    assert folded_kinds(QUANTIZE_PAIRS) == ({"q", "dq"}, {"q": "c", "dq": "c"})
    names, _ = folded_kinds("QuantizeLinear")
    assert names == {"q", "alone"}


def test_what_combines_values_or_is_an_output_stays():
    found = find_folded_nodes(model(CASTS).graph, kinds={"Add", "Relu", "Cast"})
    assert {node.name for node in found.users} == {"cast", "back", "int", "relu"}
