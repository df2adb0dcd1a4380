"""Reduction to the smallest part that fails: planted faults are found, alone, with the values they had."""

import shlex
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

import onnx_workbench as ow
from onnx_workbench.model.errors import ModelError
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
