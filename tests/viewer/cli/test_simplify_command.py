"""onnx-workbench simplify: writes a smaller model, or says why not."""

from __future__ import annotations

import json

import pytest

from onnx_workbench.model.io.reader.read import load
from onnx_workbench.viewer.cli.main import main
from tests.model import builders

TEXT = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x) => (float[2] y) <float k = {3.0}>
{ a = Identity(x) c = Add(k, k) y = Mul(a, c) }
"""


def test_simplified_model_and_facts_are_given(tmp_path, capsys):
    source, target = tmp_path / "in.onnx", tmp_path / "out.onnx"
    builders.model_file(source, TEXT)
    assert main(["simplify", str(source), "-o", str(target), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["applied"] == {"eliminate_identity": 1, "fold_constants": 1}
    assert facts["check"]["agrees"] is True
    assert [n.op_type for n in load(target).graph.nodes] == ["Mul"]


def test_passes_are_chosen_by_name(tmp_path, capsys):
    source, target = tmp_path / "in.onnx", tmp_path / "out.onnx"
    builders.model_file(source, TEXT)
    assert main(["simplify", str(source), "-o", str(target), "--only", "eliminate_identity"]) == 0
    assert [n.op_type for n in load(target).graph.nodes] == ["Add", "Mul"]
    assert main(["simplify", str(source), "-o", str(target), "--skip", "nonsense"]) == 2
    assert "nonsense" in capsys.readouterr().err


def test_some_nodes_are_simplified_alone(tmp_path, capsys):
    source, target = tmp_path / "in.onnx", tmp_path / "out.onnx"
    text = """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[2] x, bool c) => (float[2] y, float[2] z) {
            [one] a = Identity(x) [two] b = Identity(a) z = Abs(b)
            [choose] y = If(c) <
                then_branch = t () => (float[2] p) { [three] q = Identity(x) p = Neg(q) },
                else_branch = e () => (float[2] r) { r = Exp(x) }
            >
        }
    """
    builders.model_file(source, text)
    command = ["simplify", str(source), "-o", str(target), "--nodes"]
    assert main([*command, "two"]) == 0
    assert [n.name for g in load(target).graphs() for n in g.nodes] == ["one", "", "choose", "three", "", ""]
    assert main([*command, "one", "choose"]) == 0
    assert [n.name for g in load(target).graphs() for n in g.nodes] == ["two", "", "choose", "", ""]
    assert main([*command, "tow"]) == 2
    assert "two" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.parametrize("external", ["one-file", "file-per-tensor"])
def test_a_file_with_external_data_is_loaded_after_it_was_written(tmp_path, capsys, external):
    source, target = tmp_path / "in.onnx", tmp_path / "out.onnx"
    builders.model_file(source, TEXT)
    command = ["simplify", str(source), "-o", str(target), "--external", external, "--threshold", "0"]
    assert main(command) == 0
    assert len(list(tmp_path.iterdir())) == 3
    assert capsys.readouterr().err == ""
