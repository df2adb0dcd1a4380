"""What --nodes limits convert, infer and simplify to."""

from __future__ import annotations

import json

import onnx
import pytest

from onnx_workbench.viewer.cli.main import main
from tests.model import builders

TEXT = """<ir_version: 8, opset_import: ["": 12]> g (float[N,4] x) => (float[N,4] y)
 <float[4] w = {1.0,2.0,3.0,4.0}, float[4] v = {4.0,5.0,6.0,7.0}>
 { [one] a = Mul(x, w) [two] b = Softmax(a) [three] y = Add(b, v) }"""


@pytest.fixture
def run(tmp_path, capsys):
    """Runs a command on the model; gives its status, what it wrote and what it said."""
    path, out = tmp_path / "m.onnx", tmp_path / "out.onnx"
    builders.model_file(path, TEXT)

    def run(command, *arguments):
        status = main([command, str(path), "-o", str(out), *arguments])
        report = capsys.readouterr()
        written = onnx.load(out, load_external_data=False) if out.exists() else None
        return status, written, report.out + report.err

    return run


def test_convert_changes_the_precision_of_some_nodes(run):
    status, model, _ = run("convert", "--precision", "float16", "--keep", "inputs-outputs", "--nodes", "one")
    assert status == 0
    assert {t.name: t.data_type for t in model.graph.initializer} == {"w": 10, "v": 1}
    assert [n.op_type for n in model.graph.node] == ["Cast", "Mul", "Cast", "Softmax", "Add"]


def test_convert_moves_constants_of_some_nodes_out(run):
    status, model, _ = run("convert", "--external", "one-file", "--threshold", "0", "--nodes", "three")
    assert status == 0
    assert {t.name: bool(t.external_data) for t in model.graph.initializer} == {"w": False, "v": True}


def test_convert_freezes_and_frees_by_the_nodes_named(run):
    assert run("convert", "--freeze", "N=2", "--nodes", "two")[0] == 0
    status, model, _ = run("convert", "--free", "batch", "--nodes", "two")
    assert status == 0
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    status, _, said = run("convert", "--free", "q:0=batch", "--nodes", "two")
    assert status == 2
    assert "No selected node depends on q" in said


def test_convert_says_which_nodes_another_operator_set_would_change(run):
    status, model, said = run("convert", "--opset", "13", "--nodes", "one", "two")
    assert (status, model) == (2, None)
    assert "The opset applies to the whole model" in said
    assert "two" in said
    assert "one" not in said.replace("one-file", "")
    assert "Nothing selected would change" in run("convert", "--opset", "13", "--nodes", "one")[2]


@pytest.mark.parametrize("arguments", [["--ir-version", "9"], ["--strip", "producer"]])
def test_convert_refuses_what_is_that_of_the_whole_model(run, arguments):
    status, model, said = run("convert", *arguments, "--nodes", "one")
    assert (status, model) == (2, None)
    assert "whole model" in said


def test_infer_writes_types_of_what_some_nodes_make(run):
    status, model, _ = run("infer", "--nodes", "two")
    assert status == 0
    assert [value.name for value in model.graph.value_info] == ["b"]


@pytest.mark.parametrize("command", ["convert", "infer", "simplify"])
def test_a_name_that_no_node_has_is_reported(run, command):
    status, model, said = run(command, "--nodes", "tow")
    assert (status, model) == (2, None)
    assert "There is no node 'tow'" in said
    assert "two" in said


def test_info_sums_up_some_nodes(tmp_path, capsys):
    path = builders.model_file(tmp_path / "m.onnx", TEXT)
    assert main(["info", str(path), "--json", "--statistics", "--nodes", "one", "two"]) == 0
    report = json.loads(capsys.readouterr().out)["statistics"]
    assert set(report["operators"]) == {"Mul", "Softmax"}
    assert (report["model"]["nodes"], report["model"]["parameters"]) == (2, 4)
    assert main(["info", str(path), "--nodes", "one"]) == 2
    assert "--statistics" in capsys.readouterr().err


def test_diff_reports_what_differs_at_some_nodes(tmp_path, capsys):
    changed = TEXT.replace("[three] y = Add(b, v)", "[four] y = Sub(b, v)").replace("{1.0,2", "{1.5,2")
    models = {"a.onnx": TEXT, "b.onnx": changed}
    paths = [str(builders.model_file(tmp_path / name, text)) for name, text in models.items()]
    said = {}
    for name, status in {"two": 0, "one": 1, "three": 1, "four": 1, "five": 2}.items():
        assert main(["diff", *paths, "--nodes", name]) == status
        said[name] = capsys.readouterr().out
    assert "value w" in said["one"]
    assert "four" not in said["one"]
    assert "operator, Add → Sub" in said["three"]
    assert "value w" not in said["three"]
    assert said["four"] == said["three"]


def test_facts_of_a_part(run):
    status, _, said = run("convert", "--rename", "nodes", "--nodes", "two", "three", "--json")
    assert status == 0
    assert json.loads(said)["changes"] == [{"what": "2 nodes have new names", "times": 1}]
