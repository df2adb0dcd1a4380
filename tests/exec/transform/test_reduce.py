"""Reduction to the smallest part that fails: planted faults are found, alone, with the values they had."""

import shlex
import sys

import numpy as np
import onnx.checker
import onnx.numpy_helper
import onnx.parser
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

import onnx_workbench as ow
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.writer.save import to_bytes
from onnx_workbench.viewer.cli.main import main

SAFE = ("Abs", "Tanh", "Sigmoid", "Add", "Max")


def model_of_nodes(operators):
    """A graph whose nodes read earlier values: (operator, first input, second input), each an index of a value."""
    names, nodes = ["x"], []
    for number, (operator, first, second) in enumerate(operators):
        inputs = [names[first % len(names)]]
        if operator in ("Add", "Max", "Div"):
            inputs.append(names[second % len(names)])
        names.append(f"v{number}")
        nodes.append(helper.make_node(operator, inputs, [names[-1]], name=f"n{number}"))
    used = {name for node in nodes for name in node.input}
    ends = [name for name in names[1:] if name not in used]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in ends],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


INPUT = {"x": np.array([0.5, -0.5, 1.0, 2.0], np.float32)}
NODES = st.lists(st.tuples(st.sampled_from(SAFE), st.integers(0, 30), st.integers(0, 30)), max_size=20)


@settings(max_examples=30, deadline=None)
@given(before=NODES, after=NODES)
def test_a_planted_nan_is_reduced_to_its_node(before, after):
    # tanh is below 1, so that the square root of tanh - 1 has no number
    fault = [("Sigmoid", 3, 0), ("Neg", len(before) + 1, 0), ("Sqrt", len(before) + 2, 0)]
    model = ow.load(model_of_nodes([*before, *fault, *after]))
    found = ow.reduce(model, "nonfinite", inputs=INPUT)
    assert [node.op_type for node in found.model.graph.nodes] == ["Sqrt"]
    assert "NaN begins in" in found.failure
    again = ow.Session(found.model).run(found.inputs)
    assert np.isnan(next(iter(again.outputs.values()))).any()


@settings(max_examples=30, deadline=None)
@given(operators=NODES.filter(lambda nodes: len(nodes) > 3), chosen=st.sets(st.integers(0, 19), min_size=1, max_size=4))
def test_no_node_of_what_is_left_can_be_removed(operators, chosen):
    needed = {f"n{number % len(operators)}" for number in chosen}

    def fails(part, _inputs):
        return needed <= {node.name for node in part.graph.nodes}

    found = ow.reduce(ow.load(model_of_nodes(operators)), fails, inputs=INPUT)
    assert {node.name for node in found.model.graph.nodes} == needed
    assert not ow.Session(found.model).run(found.inputs).missing_outputs


def test_inputs_are_the_values_of_the_whole_run():
    model = ow.load(model_of_nodes([("Tanh", 0, 0), ("Neg", 1, 0), ("Abs", 2, 0), ("Log", 2, 0)]))
    found = ow.reduce(model, "nonfinite", inputs=INPUT)
    assert list(found.inputs) == ["v1"]
    np.testing.assert_allclose(found.inputs["v1"], -np.tanh(INPUT["x"]), rtol=1e-6)


def test_a_node_that_fails_is_found():
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("NoSuchOperator", ["a"], ["b"], domain="nowhere"),
        helper.make_node("Relu", ["b"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("nowhere", 1)])
    found = ow.reduce(ow.load(model), "fails", inputs=INPUT)
    assert [node.op_type for node in found.model.graph.nodes] == ["NoSuchOperator"]
    assert "NoSuchOperator" in found.failure


def test_what_does_not_fail_or_only_sometimes_is_said():
    model = ow.load(model_of_nodes([("Tanh", 0, 0)]))
    with pytest.raises(ModelError, match="does not fail"):
        ow.reduce(model, "nonfinite", inputs=INPUT)
    answers = iter([True, False])
    with pytest.raises(ModelError, match="not reproducible"):
        ow.reduce(model, lambda *_: next(answers), inputs=INPUT)
    with pytest.raises(ModelError, match="differs-from-ort"):
        ow.reduce(model, "explodes", inputs=INPUT)
    with pytest.raises(ModelError, match="cannot be run"):
        ow.reduce(model, "/no/such/program {}", inputs=INPUT)


def test_equal_values_do_not_differ_from_onnxruntime():
    pytest.importorskip("onnxruntime")
    with pytest.raises(ModelError, match="does not fail"):
        ow.reduce(ow.load(model_of_nodes([("Tanh", 0, 0), ("Abs", 1, 0)])), "differs-from-ort", inputs=INPUT)


def test_a_rounding_difference_is_reduced_to_its_operator():
    pytest.importorskip("onnxruntime")
    model = ow.load(model_of_nodes([("Abs", 0, 0), ("Neg", 1, 0), ("Exp", 2, 0), ("Erf", 3, 0), ("Abs", 4, 0)]))
    feeds = {"x": np.linspace(0, 3, 4, dtype=np.float32)}
    with pytest.raises(ModelError, match="does not fail"):
        ow.reduce(model, "differs-from-ort", inputs=feeds)
    found = ow.reduce(model, "differs-from-ort", inputs=feeds, rtol=0)
    assert [node.op_type for node in found.model.graph.nodes] in (["Exp"], ["Erf"])


def model_of_text(text):
    return ow.load(onnx.parser.parse_model(text).SerializeToString())


BODIES = """<ir_version: 10, opset_import: ["" : 18, "local" : 1]> g (float[2] x, bool c) => (float[2] y)
{
    a = Exp(x)
    z = If(c) <then_branch = t () => (float[2] p) { q = Neg(a) r = Log(q) p = Abs(r) },
               else_branch = e () => (float[2] s) { s = Abs(a) }>
    y = local.f(z)
}
<domain: "local", opset_import: ["" : 18]>
f (u) => (w) { v = Relu(u) w = Tanh(v) }
"""


def test_nodes_of_subgraphs_and_functions_are_cut_out_of_them():
    x = {"x": np.ones(2, np.float32), "c": np.array(True)}
    found = ow.reduce(model_of_text(BODIES), "nonfinite", inputs=x)
    assert [node.op_type for node in found.model.graph.nodes] == ["Log"]
    assert "r" in found.failure
    np.testing.assert_allclose(found.inputs["q"], -np.exp([1.0, 1.0]), rtol=1e-6)

    def has_tanh(part, _inputs):
        return any(n.op_type == "Tanh" for body in (part.graph, *(f.body for f in part.functions)) for n in body.nodes)

    found = ow.reduce(model_of_text(BODIES), has_tanh, inputs=x)
    assert [node.op_type for node in found.model.graph.nodes] == ["Tanh"]


def test_a_loop_stays_whole_unless_its_last_iteration_fails():
    model = model_of_text("""<ir_version: 10, opset_import: ["" : 18]> g (float[2] x) => (float[2] y)
        <int64 n = {3}, bool yes = {1}> {
            y = Loop(n, yes, x) <body = b (int64 i, bool c, float[2] s) => (bool d, float[2] t) {
                d = Identity(c) t = Add(s, s) }>
        }""")

    def fails(part, inputs):
        node = next(iter(part.graph.nodes))
        return node.op_type == "Loop" or (node.op_type == "Add" and inputs["s"][0] == 1.0)

    found = ow.reduce(model, fails, inputs={"x": np.ones(2, np.float32)})
    assert [node.op_type for node in found.model.graph.nodes] == ["Loop"]
    found = ow.reduce(model, lambda part, _: "Add" in str([n.op_type for g in part.graph.walk() for n in g.nodes]),
                      inputs={"x": np.ones(2, np.float32)})  # fmt: skip
    assert [node.op_type for node in found.model.graph.nodes] == ["Add"]
    np.testing.assert_array_equal(found.inputs["s"], [4.0, 4.0])


def weighted(text, **weights):
    model = onnx.parser.parse_model(text)
    model.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in weights.items())
    return ow.load(model.SerializeToString())


def test_weights_become_small_where_the_failure_stays_the_same():
    numbers = np.random.default_rng(0)
    square, negative = numbers.random((64, 64), np.float32), -1 - numbers.random((64, 64), np.float32)
    model = weighted(
        """<ir_version: 10, opset_import: ["" : 18], producer_name: "secret"> g (float[batch, 64] secret_input)
        => (float[batch, 64] secret_output) {
            [secret_node] a = MatMul(secret_input, square) b = Gemm(a, negative) c = Log(b) secret_output = Abs(c) }""",
        square=square,
        negative=negative,
    )

    def fails(part, inputs):
        has_all = {"MatMul", "Gemm", "Log"} <= {node.op_type for node in part.graph.nodes}
        return has_all and any(np.isnan(array).all() for array in ow.Session(part).run(inputs).outputs.values())

    inputs = {"secret_input": np.ones((2, 64), np.float32)}
    whole = ow.reduce(model, fails, inputs=inputs)
    found = ow.reduce(model, fails, inputs=inputs, small_weights=True, neutral_names=True)
    assert (found.small_weights, found.large_weights) == (2, 0)
    before, after = (len(to_bytes(one.model)) for one in (whole, found))
    assert before > 30_000
    assert after < 1_000
    assert b"secret" in to_bytes(whole.model)
    assert b"secret" not in to_bytes(found.model)
    assert [v.name for v in found.model.graph.inputs] == list(found.inputs)
    assert fails(found.model, found.inputs)
    onnx.checker.check_model(to_bytes(found.model), full_check=True)


def test_a_weight_that_the_failure_needs_stays():
    wave = np.where(np.arange(100) % 2, 1.0, -1.0).astype(np.float32)
    model = weighted(
        '<ir_version: 10, opset_import: ["" : 18]> g (float[100] x) => (float[100] y) { y = Mul(x, wave) }', wave=wave
    )

    def fails(part, inputs):
        result = next(iter(ow.Session(part).run(inputs).outputs.values()))
        return len(set(result.tolist())) > 1

    found = ow.reduce(model, fails, inputs={"x": np.ones(100, np.float32)}, small_weights=True)
    assert (found.small_weights, found.large_weights) == (0, 1)
    np.testing.assert_array_equal(found.model.graph.initializers[0].initializer.numpy(), wave)


def test_the_command_line_runs_a_command_on_each_part(tmp_path, capsys):
    (tmp_path / "m.onnx").write_bytes(
        model_of_nodes([("Tanh", 0, 0), ("Neg", 1, 0), ("Abs", 2, 0)]).SerializeToString()
    )
    check = tmp_path / "check it.py"
    check.write_text(
        "import pathlib, sys\n"
        "model = pathlib.Path(sys.argv[1])\n"
        "assert (model.parent / 'inputs.npz').is_file()\n"
        "sys.exit(7 if b'Neg' in model.read_bytes() else 0)\n"
    )
    until = f"{shlex.quote(sys.executable)} {shlex.quote(str(check))} {{}}"
    call = ["reduce", str(tmp_path / "m.onnx"), "--until", until, "-o", str(tmp_path / "small.onnx")]
    assert main(call) == 0
    assert "1 node of 3" in capsys.readouterr().out
    small = ow.load(tmp_path / "small.onnx")
    assert [node.op_type for node in small.graph.nodes] == ["Neg"]
    assert list(np.load(tmp_path / "small.npz")) == ["v0"]


def test_nothing_is_written_where_nothing_fails(tmp_path, capsys):
    (tmp_path / "m.onnx").write_bytes(model_of_nodes([("Tanh", 0, 0)]).SerializeToString())
    call = ["reduce", str(tmp_path / "m.onnx"), "--until", "nonfinite", "-o", str(tmp_path / "small.onnx")]
    assert main(call) == 2
    assert "does not fail" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.onnx"]
