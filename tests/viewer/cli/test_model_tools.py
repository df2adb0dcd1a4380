"""check, infer, convert and extract as the command line runs them, in this process."""

import csv
import json

import numpy as np
import onnx
import onnx.parser
import pytest

from onnx_workbench.exec.inspect.equivalence import Equivalence
from onnx_workbench.model.edits import nodes
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.writer.save import save
from onnx_workbench.model.ir.types import Shape
from onnx_workbench.viewer.cli.main import main
from tests.model import builders


@pytest.fixture
def chain(tmp_path):
    return builders.model_file(tmp_path / "chain.onnx", builders.CHAIN)


def broken(tmp_path):
    proto = builders.proto(builders.CHAIN)
    proto.graph.node[3].attribute[0].name = "axes"
    del proto.opset_import[:]
    path = tmp_path / "broken.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def test_check_of_a_legal_model(chain, capsys):
    assert main(["check", str(chain)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("0 errors")


def test_check_names_every_error_with_its_place(tmp_path, capsys):
    assert main(["check", str(broken(tmp_path)), "--json", "--errors"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert {"opset-import", "attribute-unknown"} <= {p["rule"] for p in found}
    axes = next(p for p in found if p["rule"] == "attribute-unknown")
    assert axes["place"] == "chain › fourth"
    assert axes["fix"] == "Remove axes of fourth"


def test_check_compares_declared_types_with_inferred_ones(tmp_path, capsys):
    proto = builders.proto(builders.CHAIN)
    proto.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 7
    path = tmp_path / "wrong.onnx"
    path.write_bytes(proto.SerializeToString())
    assert main(["check", str(path)]) == 0
    assert "y is declared float N×7. Inferred from its inputs: float N×4." in capsys.readouterr().out
    assert main(["check", str(path), "--no-inference"]) == 0
    assert "declared" not in capsys.readouterr().out


def test_infer_writes_what_it_finds(chain, tmp_path, capsys):
    out = tmp_path / "out.onnx"
    assert main(["infer", str(chain), "-o", str(out)]) == 0
    model = load(out)
    assert builders.value(model, "r").type.shape == Shape(("N", 4))
    assert "3 declarations written" in capsys.readouterr().out


def test_a_rule_that_is_none_is_refused(chain, tmp_path, capsys):
    out = tmp_path / "out.onnx"
    assert main(["infer", str(chain), "-o", str(out), "--rule", "nonsense"]) == 2
    assert "is not a rule" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.long
@pytest.mark.parametrize("name", ["m.onnxtxt", "m.textproto", "m.json"])
def test_convert_there_and_back_keeps_everything(chain, tmp_path, name):
    there, back = tmp_path / name, tmp_path / "back.onnx"
    assert main(["convert", str(chain), "-o", str(there)]) == 0
    assert main(["convert", str(there), "-o", str(back)]) == 0
    first, second = (onnx.load(p) for p in (chain, back))
    assert onnx.printer.to_text(first) == onnx.printer.to_text(second)


@pytest.mark.long
def test_convert_moves_weights_out_and_in(chain, tmp_path):
    out, back = tmp_path / "far" / "out.onnx", tmp_path / "back.onnx"
    out.parent.mkdir()
    assert main(["convert", str(chain), "-o", str(out), "--external", "one-file", "--threshold", "0"]) == 0
    assert len(list(out.parent.iterdir())) == 2
    assert main(["convert", str(out), "-o", str(back), "--external", "inline"]) == 0
    model = load(back)
    assert np.array_equal(builders.value(model, "w").initializer.numpy(), [1, 2, 3, 4])


@pytest.mark.long
def test_extract_cuts_between_values(chain, tmp_path, capsys):
    out = tmp_path / "part.onnx"
    arguments = ["extract", str(chain), "-o", str(out), "--inputs", "a", "--outputs", "c", "--json"]
    assert main(arguments) == 0
    report = json.loads(capsys.readouterr().out)
    assert report.pop("check")["agrees"] is True
    assert report == {
        "output": str(out),
        "nodes": 2,
        "inputs": ["a"],
        "outputs": ["c"],
    }
    assert [n.op_type for n in load(out).graph.nodes] == ["Relu", "Add"]


def test_extract_cuts_nodes_out(chain, tmp_path, capsys):
    out = tmp_path / "part.onnx"
    assert main(["extract", str(chain), "-o", str(out), "--nodes", "second", "third"]) == 0
    assert [n.op_type for n in load(out).graph.nodes] == ["Relu", "Add"]
    report = capsys.readouterr().out.splitlines()
    assert report[:2] == ["2 nodes of 4", "outputs agree on one random input, largest error 0"]
    assert any("onnx.checker" in line for line in report[2:])
    assert main(["extract", str(chain), "-o", str(out), "--nodes", "second", "--no-check"]) == 0
    assert capsys.readouterr().out == "1 node of 4\nnot compared: not requested\n"


def test_a_part_that_computes_something_else_is_not_written(chain, tmp_path, capsys, monkeypatch):
    differs = Equivalence(agrees=False, reason="output r (by up to 3)")
    monkeypatch.setattr("onnx_workbench.exec.transform.extract.check_transformed", lambda *_, **__: differs)
    out = tmp_path / "part.onnx"
    assert main(["extract", str(chain), "-o", str(out), "--nodes", "second"]) == 1
    assert main(["split", str(chain), "-o", str(out), "--at", "r"]) == 1
    assert list(tmp_path.glob("part*")) == []
    assert "outputs differ: output r (by up to 3)" in capsys.readouterr().out
    assert main(["extract", str(chain), "-o", str(out), "--nodes", "secnod"]) == 2
    assert "Near it: second" in capsys.readouterr().err


@pytest.mark.parametrize("given", [[], ["--inputs", "x"]])
def test_extract_cuts_out_of_a_body_what_it_takes_from_around_it(tmp_path, given):
    """No value of the graphs around could be named, and without one nothing could be cut out."""
    path, out = tmp_path / "branches.onnx", tmp_path / "part.onnx"
    text = """
    g (float[N,4] x, bool c) => (float[N,4] y) <float[4] w = {1,2,3,4}> {
        y = If (c) <then_branch = yes () => (float[N,4] a) { p = Mul (x, w) a = Neg (p) },
                    else_branch = no () => (float[N,4] b) { b = Relu (x) }>
    }"""
    save(builders.model(text), path)
    assert main(["extract", str(path), "-o", str(out), "--graph", "yes", *given, "--outputs", "a"]) == 0
    part = load(out)
    assert [value.name for value in part.graph.inputs] == ["x"]
    assert [node.op_type for node in part.graph.nodes] == ["Mul", "Neg"]
    onnx.checker.check_model(str(out), full_check=True)


@pytest.mark.parametrize("given", [[], ["--nodes", "second", "--outputs", "c"], ["--nodes", "second", "--inputs", "a"]])
def test_extract_wants_one_way_to_say_what(chain, tmp_path, given):
    assert main(["extract", str(chain), "-o", str(tmp_path / "part.onnx"), *given]) == 2
    assert not (tmp_path / "part.onnx").exists()


def test_extract_suggests_a_name_that_exists(chain, tmp_path, capsys):
    assert main(["extract", str(chain), "-o", str(tmp_path / "p.onnx"), "--outputs", "unusde"]) == 2
    assert "Near it: unused" in capsys.readouterr().err


def test_edit_does_what_a_script_says(chain, tmp_path, capsys):
    from onnx_workbench.model.edits import attributes
    from onnx_workbench.model.scripts import edit_script

    document = builders.document()
    builders.one_edit(document, attributes.set_attribute, builders.node(document, "fourth"), "axis", 0)
    recorded, out = tmp_path / "edits.jsonl", tmp_path / "out.onnx"
    recorded.write_text(edit_script.export(document))
    assert main(["edit", str(chain), str(recorded), "-o", str(out)]) == 0
    assert builders.node(load(out), "fourth").attributes["axis"].value == 0
    assert capsys.readouterr().out == "1 edit applied\n"


def test_what_the_form_of_the_output_cannot_hold_is_reported(chain, tmp_path, capsys):
    proto = onnx.load(chain)
    proto.graph.node[0].metadata_props.add(key="origin", value="here")
    onnx.save(proto, chain)
    recorded, out = tmp_path / "edits.jsonl", tmp_path / "out.onnxtxt"
    recorded.write_text('{"format": "onnx-workbench edit script", "version": 1}\n')
    assert main(["edit", "--json", str(chain), str(recorded), "-o", str(out)]) == 0
    report = capsys.readouterr()
    assert "warning: ONNX text cannot express metadata of nodes" in report.err
    assert json.loads(report.out)["output"] == str(out)
    assert main(["edit", str(chain), str(recorded), "-o", str(out.with_suffix(".onnx"))]) == 0
    assert capsys.readouterr().err == ""


def test_a_written_format_is_reported_where_the_name_hides_it(chain, tmp_path, capsys):
    assert main(["convert", str(chain), "-o", str(tmp_path / "out.xyz")]) == 0
    assert "note: out.xyz was written as binary; its extension names no format" in capsys.readouterr().err
    assert main(["convert", str(chain), "-o", str(tmp_path / "out.json")]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("content", [b"\x93NUMPY\x01\x00", b"import onnx\n", b'{"format": "other"}\n'])
def test_what_is_no_edit_script_is_reported(chain, tmp_path, capsys, content):
    other = tmp_path / "weights.npy"
    other.write_bytes(content)
    assert main(["edit", str(chain), str(other), "-o", str(tmp_path / "out.onnx")]) == 2
    report = capsys.readouterr().err
    assert report.startswith("error: This is not an edit script\n  It is text whose first line holds")


def test_an_edit_that_does_not_fit_writes_nothing(chain, tmp_path, capsys):
    recorded, out = tmp_path / "edits.jsonl", tmp_path / "out.onnx"
    recorded.write_text(
        '{"format": "onnx-workbench edit script", "version": 1}\n{"edit": "x", "steps": [{"do": "y"}]}\n'
    )
    assert main(["edit", str(chain), str(recorded), "-o", str(out)]) == 2
    assert "Line 2 of the script is damaged" in capsys.readouterr().err
    assert not out.exists()


def test_info_reports_what_a_model_costs(tmp_path, capsys):
    path = tmp_path / "m.onnx"
    save(builders.model(), path)
    assert main(["info", "--json", "--statistics", str(path)]) == 0
    report = json.loads(capsys.readouterr().out)["statistics"]
    assert report["model"]["activations"] == "16·N"
    assert main(["info", "--statistics", "--bind", "N=2", str(path)]) == 0
    text = capsys.readouterr().out
    assert "multiply-adds" in text
    assert "32" in text.splitlines()[-1]
    assert main(["info", "--statistics", "--bind", "N", str(path)]) == 2


def test_info_prints_the_groups_as_they_are_drawn(tmp_path, capsys):
    names = ["/start/a", "/start/b", *(f"/layer.{n}/{k}" for n in range(5) for k in range(2)), "end"]
    lines = " ".join(f"[n{n}] v{n + 1} = Relu (v{n})" for n in range(len(names)))
    model = builders.proto(f"g (float[1] v0) => (float[1] v{len(names)}) {{ {lines} }}")
    for node, name in zip(model.graph.node, names, strict=True):
        node.name = name
    path = tmp_path / "named.onnx"
    onnx.save(model, path)
    assert main(["info", "--groups", str(path)]) == 0
    printed = capsys.readouterr().out.partition("\ngroups\n")[2]
    assert printed.splitlines() == [
        "  start  2 nodes",
        "  layer ×5  10 nodes",
        *(f"    layer.{n}  2 nodes" for n in range(5)),
    ]
    assert main(["info", "--groups", "--json", str(path)]) == 0
    start, stack = json.loads(capsys.readouterr().out)["groups"]
    assert start == {"name": "start", "nodes": [0, 1], "groups": []}
    assert stack["nodes"] == []
    assert [group["nodes"] for group in stack["groups"]] == [[2, 3], [4, 5], [6, 7], [8, 9], [10, 11]]


def test_info_names_the_groups_that_are_left_out(tmp_path, capsys):
    lines = " ".join(f"v{n + 1} = Relu (v{n})" for n in range(8))
    graph = builders.proto(f"g (float[1] v0) => (float[1] v8) {{ {lines} }}")
    for number, node in enumerate(graph.graph.node):
        node.name = f"/{'ab'[number % 2]}/relu{number}"
    path = tmp_path / "alternating.onnx"
    onnx.save(graph, path)
    assert main(["info", "--groups", str(path)]) == 0
    assert "2 groups left out, because a path leaves and re-enters each: a, b" in capsys.readouterr().out
    assert main(["info", "--groups", "--json", str(path)]) == 0
    assert json.loads(capsys.readouterr().out)["groups_left_out"] == ["a", "b"]


def test_info_says_when_there_are_no_groups(tmp_path, capsys):
    path = tmp_path / "plain.onnx"
    onnx.save(
        builders.proto("g (float x) => (float y) { y = Relu (x) }"),
        path,
    )
    assert main(["info", "--groups", str(path)]) == 0
    assert "groups\n  none" in capsys.readouterr().out
    assert main(["info", "--groups", "--json", str(path)]) == 0
    assert json.loads(capsys.readouterr().out)["groups"] == []


def test_info_writes_statistics_as_csv(tmp_path, capsys):
    path = tmp_path / "m.onnx"
    save(builders.model(), path)
    assert main(["info", "--statistics", "--csv", "--by", "node", "--bind", "N=2", str(path)]) == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert [row["activations"] for row in rows] == ["8"] * 4
    assert {row["node"] for row in rows} == {"first", "second", "third", "fourth"}
    assert main(["info", "--statistics", "--csv", "--bind", "N=1000", str(path)]) == 0
    assert "," not in next(csv.DictReader(capsys.readouterr().out.splitlines()))["activations"]
    assert main(["info", "--csv", str(path)]) == 2
    assert main(["info", "--csv", "--json", "--statistics", str(path)]) == 2


def test_info_reports_what_scopes_and_nodes_cost(tmp_path, capsys):
    document = builders.document()
    with document.edit("Rename") as edit:
        for old, new in {"first": "block.one.Mul", "second": "block.two.Relu"}.items():
            nodes.rename_node(edit, builders.node(document, old), new)
    path = tmp_path / "m.onnx"
    save(document.model, path)
    assert main(["info", "--json", "--statistics", "--by", "scope", "--levels", "2", str(path)]) == 0
    report = json.loads(capsys.readouterr().out)["statistics"]
    assert {name: total["nodes"] for name, total in report["scopes"].items()} == {"block/one": 1, "block/two": 1, "": 2}
    assert main(["info", "--statistics", "--by", "node", str(path)]) == 0
    assert "block.two.Relu" in capsys.readouterr().out


def converted(tmp_path, *arguments):
    """The chain model, converted."""
    path, out = tmp_path / "m.onnx", tmp_path / "out.onnx"
    save(builders.model(), path)
    status = main(["convert", str(path), "-o", str(out), *arguments])
    return status, load(out) if out.exists() else None


def test_convert_changes_the_operator_set_and_precision(tmp_path, capsys):
    status, model = converted(tmp_path, "--opset", "11", "--ir-version", "7")
    assert status == 0
    assert (model.opset_imports[""], model.ir_version) == (11, 7)
    status, model = converted(tmp_path, "--precision", "float16", "--keep", "Softmax", "--keep", "inputs-outputs")
    assert status == 0
    assert [n.op_type for n in model.graph.nodes].count("Cast") == 2
    assert "casts to" in capsys.readouterr().out
    status, model = converted(tmp_path, "--precision", "bfloat16", "--json")
    assert json.loads(capsys.readouterr().out)["warnings"] == []
    assert {v.initializer.element_type.text for v in model.graph.initializers} == {"bfloat16"}


def test_convert_inlines_functions_whose_calls_differ_in_types(tmp_path, capsys):
    path, out = tmp_path / "m.onnx", tmp_path / "out.onnx"
    save(builders.model("""
        <ir_version: 10, opset_import: ["" : 21, "f" : 1]>
        g (float[2] x) => (float[2] y) { n = f.As<to = 7>(x) m = f.As<to = 1>(n) y = Neg(m) }
        <opset_import: ["" : 21], domain: "f"> As <to> (a) => (b) { b = Cast<to = @to>(a) }
    """), path)  # fmt: skip
    assert main(["convert", str(path), "-o", str(out), "--precision", "float16"]) == 0
    printed = capsys.readouterr().out
    assert "2 calls inlined: those of As differ in types" in printed
    model = load(out)
    assert [node.op_type for node in model.graph.nodes][:3] == ["Cast", "Cast", "Neg"]
    assert model.graph.outputs[0].type.element_type.text == "float16"


def test_convert_says_when_there_is_nothing_to_do(tmp_path, capsys):
    status, model = converted(tmp_path, "--functions", "extract")
    assert status == 0
    assert model.functions == ()
    assert capsys.readouterr().out == "nothing to change\n"


def test_convert_compares_outputs(tmp_path, capsys):
    assert converted(tmp_path, "--opset", "11")[0] == 0
    assert "outputs agree on 3 random inputs" in capsys.readouterr().out
    assert converted(tmp_path, "--opset", "11", "--check", "2", "--json")[0] == 0
    report = json.loads(capsys.readouterr().out)["check"]
    assert (report["agrees"], report["runs"]) == (True, 2)
    assert converted(tmp_path, "--opset", "11", "--no-check")[0] == 0
    assert "not compared: not requested" in capsys.readouterr().out
    assert converted(tmp_path, "--strip", "doc")[0] == 0
    assert "compared" not in capsys.readouterr().out


def test_convert_writes_nothing_when_outputs_differ(tmp_path, capsys, monkeypatch):
    differs = Equivalence(agrees=False, reason="output y (by up to 3)")
    monkeypatch.setattr("onnx_workbench.exec.transform.convert.check_transformed", lambda *_, **__: differs)
    assert converted(tmp_path, "--opset", "11") == (1, None)
    assert "outputs differ: output y (by up to 3)" in capsys.readouterr().out
    assert converted(tmp_path, "--precision", "float16")[0] == 0
    assert "warning: outputs differ" in capsys.readouterr().out


def test_convert_writes_no_model_that_does_not_run_any_more(tmp_path, capsys, monkeypatch):
    fails = Equivalence(agrees=False, reason="the model no longer runs (as Relu fails)", fails=True)
    monkeypatch.setattr("onnx_workbench.exec.transform.convert.check_transformed", lambda *_, **__: fails)
    assert converted(tmp_path, "--precision", "float16") == (1, None)
    assert "\nthe model no longer runs" in capsys.readouterr().out


def test_convert_frees_the_first_dimension_of_all_inputs(tmp_path):
    path, out = tmp_path / "in.onnx", tmp_path / "out.onnx"
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[2,3] a, float[2,3] b, float s) => (float[2,3] y)
        <int64[1] flat = {6}, int64[2] back = {2,3}>
        { c = Add(a, b) d = Mul(c, s) e = Reshape(d, flat) y = Reshape(e, back) }"""
    save(builders.model(text), path)
    assert main(["convert", str(path), "-o", str(out), "--free", "batch"]) == 0
    model = load(out)
    assert [str(v.type) for v in model.graph.inputs] == ["float[batch,3]", "float[batch,3]", "float[]"]
    assert str(model.graph.outputs[0].type) == "float[batch,3]"
    assert [builders.value(model, name).initializer.numpy().tolist() for name in ("flat", "back")] == [[-1], [-1, 3]]


def test_convert_changes_dimensions_and_strips(tmp_path):
    status, model = converted(tmp_path, "--freeze", "N=2", "--strip", "doc", "--strip", "metadata")
    assert status == 0
    assert str(model.graph.inputs[0].type) == "float[2,4]"
    status, model = converted(tmp_path, "--free", "batch")
    assert str(model.graph.outputs[0].type) == "float[batch,4]"


def test_split_and_merge_again(chain, tmp_path, capsys):
    assert main(["split", str(chain), "-o", str(tmp_path / "part.onnx"), "--at", "r", "--json"]) == 0
    parts = json.loads(capsys.readouterr().out)["parts"]
    assert [(p["inputs"], p["outputs"], p["nodes"]) for p in parts] == [
        (["x", "unused"], ["r"], 2),
        (["r"], ["y"], 2),
    ]
    first, second = (p["output"] for p in parts)
    whole = tmp_path / "whole.onnx"
    assert main(["merge", first, second, "-o", str(whole), "--close"]) == 0
    assert "2 nodes added; outputs: y" in capsys.readouterr().out
    assert main(["compare", str(chain), str(whole)]) == 0


def test_what_is_in_no_part_is_reported(tmp_path, capsys):
    model = builders.model("""<ir_version: 10, opset_import: ["" : 21, "f" : 1]>
        g (float[2] x) => (float[2] y) { a = Exp (x) y = Neg (a) }
        <domain: "f", opset_import: ["" : 21]> Idle (p) => (q) { q = Relu (p) }""")
    path, out = tmp_path / "model.onnx", tmp_path / "part.onnx"
    save(model, path)
    assert main(["split", str(path), "-o", str(out), "--at", "a"]) == 0
    assert "warning: In neither part" in (report := capsys.readouterr().err)
    assert report.endswith(": function Idle\n")
    assert main(["split", str(path), "-o", str(out), "--at", "a", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["lost"] == ["function Idle"]


def test_merge_connects_by_given_names_and_converts(chain, tmp_path, capsys):
    other, out = tmp_path / "older.onnx", tmp_path / "out.onnx"
    text = """<ir_version: 8, opset_import: ["" : 11]> o (float[N,4] v) => (float[N] r)
        { r = ReduceSum <axes = [1], keepdims = 0> (v) }"""
    save(builders.model(text), other)
    arguments = ["merge", str(chain), str(other), "-o", str(out), "--connect", "v=y", "--prefix", "sum_", "--json"]
    assert main(arguments) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["outputs"] == ["y", "sum_r"]
    assert "converted from opset 11 to 21" in report["changes"]
    onnx.checker.check_model(str(out), full_check=True)
    assert main(["merge", str(chain), str(other), "-o", str(out), "--connect", "v"]) == 2
    assert main(["merge", str(chain), str(other), "-o", str(out), "--connect", "v=unusde"]) == 2
    assert "Near it: unused" in capsys.readouterr().err


def test_merging_leaves_equal_names_of_different_types_apart(chain, tmp_path, capsys):
    """They were connected, as the window does not, and nothing could run the model."""
    other, out = tmp_path / "image.onnx", tmp_path / "out.onnx"
    text = """
        o (float[1,3,4,4] x, float[N,4] y) => (float[1,3,2,2] p, float[N,4] q)
        { p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x) q = Neg(y) }"""
    save(builders.model(text), other)
    assert main(["merge", str(chain), str(other), "-o", str(out), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    before = [value.name for value in load(chain).graph.inputs]
    assert report["inputs"] == [*before, "x_1"]  # y of the chain feeds the other's
    onnx.checker.check_model(str(out), full_check=True)


def test_convert_inlines_extracts_and_renames(tmp_path, capsys):
    path, out, back = (tmp_path / f"{name}.onnx" for name in ("in", "functions", "inlined"))
    block = "a{0} = Mul (v{0}, w) b{0} = Relu (a{0}) v{1} = Add (b{0}, w)"
    lines = "\n".join(block.format(i, i + 1) for i in range(3)).replace("v0", "x")
    head = '<ir_version: 7, opset_import: ["" : 14]> g (float[4] x) => (float[4] v3) <float[4] w = {1, 2, 3, 4}>'
    save(builders.model(f"{head} {{ {lines} }}"), path)
    assert main(["convert", str(path), "-o", str(out), "--functions", "extract"]) == 0
    said = capsys.readouterr().out
    assert "3 nodes that occur 3 times became the function Block" in said
    assert "the IR version became 8" in said
    assert [n.op_type for n in load(out).graph.nodes] == ["Block"] * 3
    new_names = ["--rename", "nodes", "--rename", "values", "--rename", "initializers"]
    assert main(["convert", str(out), "-o", str(back), "--functions", "inline", *new_names]) == 0
    assert "3 calls inlined; 1 function removed" in capsys.readouterr().out
    model = load(back)
    assert [n.name for n in model.graph.nodes][:4] == ["Mul_0", "Relu_0", "Add_0", "Mul_1"]
    assert [v.name for v in model.graph.initializers] == ["Mul_0_B"]
    assert [n.outputs[0].name for n in model.graph.nodes][:2] == ["Mul_0_output_0", "Relu_0_output_0"]
    assert not model.functions


def test_convert_sorts_names_the_unnamed_and_drops_unused_inputs(tmp_path, capsys):
    path, out = tmp_path / "in.onnx", tmp_path / "out.onnx"
    head = "g (float[4] x, float[4] idle) => (float[4] y)"
    save(builders.model(f"{head} {{ [last] y = Neg (a) a = Abs (x) }}"), path)
    assert main(["convert", str(path), "-o", str(out), "--sort", "--rename", "unnamed", "--strip", "inputs"]) == 0
    said = capsys.readouterr().out
    assert "1 node moved" in said
    assert "1 unnamed node has a new name" in said
    assert "unused input removed" in said
    graph = load(out).graph
    assert [n.name for n in graph.nodes] == ["Abs_0", "last"]
    assert [v.name for v in graph.inputs] == ["x"]
    for refused in (["--sort"], ["--strip", "inputs"]):
        assert main(["convert", str(path), "-o", str(tmp_path / "no.onnx"), *refused, "--nodes", "last"]) == 2
    assert not (tmp_path / "no.onnx").exists()


@pytest.mark.parametrize("version", [3, 8])
def test_convert_makes_constants_of_inputs_with_defaults(tmp_path, capsys, version):
    path, out = tmp_path / "in.onnx", tmp_path / "out.onnx"
    head = f'<ir_version: {version}, opset_import: ["" : 8]> g (float[4] x, float[4] w, float[4] b) => (float[4] y)'
    weights = "<float[4] w = {1, 2, 3, 4}, float[4] b = {5, 6, 7, 8}>"
    save(builders.model(f"{head} {weights} {{ s = Add (w, b) y = Mul (x, s) }}"), path)
    assert main(["convert", str(path), "-o", str(out), "--strip", "defaults"]) == 0
    assert "2 × input made constant" in capsys.readouterr().out
    assert [v.name for v in load(out).graph.inputs] == ["x"]
    assert main(["simplify", str(out), "-o", str(out)]) == 0
    assert [n.op_type for n in load(out).graph.nodes if n.op_type != "Constant"] == ["Mul"]
    refused = ["--strip", "defaults", "--nodes", "last"]
    assert main(["convert", str(path), "-o", str(tmp_path / "no.onnx"), *refused]) == 2


@pytest.mark.parametrize("wrong", [["--freeze", "Q=1"], ["--freeze", "N"], ["--strip", "all"], ["--opset", "99"]])
def test_convert_writes_nothing_when_it_cannot(tmp_path, wrong):
    assert converted(tmp_path, *wrong) == (2, None)


@pytest.mark.parametrize(("ir_version", "listed"), [(10, ["w"]), (3, [])])
def test_info_lists_inputs_with_defaults(tmp_path, capsys, ir_version, listed):
    text = f'<ir_version: {ir_version}, opset_import: ["" : 8]> g (float[2] x, float[2] w = {{1, 2}}) => (float[2] y)'
    path = builders.model_file(tmp_path / "model.onnx", text + " { y = Add (x, w) }")
    assert main(["info", str(path), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert [value["name"] for value in facts["inputs"]] == ["x"]
    assert [value["name"] for value in facts["inputs_with_defaults"]] == listed
    assert main(["info", str(path)]) == 0
    assert ("inputs with defaults\n  w  float [2]" in capsys.readouterr().out) is bool(listed)


def test_infer_lists_what_onnx_says_otherwise(tmp_path, capsys):
    path = tmp_path / "up.onnx"
    text = """
        g (float[1,2,3,3] x, float[2,1,3,3] w) => (float[a,b,c,d] y)
        { y = ConvTranspose <strides = [2,2], auto_pad = "SAME_UPPER", output_padding = [1,1]> (x, w) }"""
    save(builders.model(text), path)
    assert main(["infer", str(path), "--compare-with-onnx", "-o", str(tmp_path / "out.onnx")]) == 0
    assert "y is float 1×1×6×6, in onnx's inference float 1×1×7×7" in capsys.readouterr().out
