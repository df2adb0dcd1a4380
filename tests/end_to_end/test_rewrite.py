"""Rules rewrite models: in Python, on the command line, and as passes of simplify."""

from __future__ import annotations

import json

import numpy as np
import pytest

import onnx_workbench as ow
from onnx_workbench.viewer.cli.main import main
from tests.model import builders

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[N, 4] x) => (float[4, N] y) <float half = {0.5}>
{
    [a_exp] a = Exp(x) [a_relu] b = Relu(a) [a_turn] c = Transpose <perm = [1, 0]> (b)
    [b_relu] d = Relu(c) [b_turn] e = Transpose <perm = [1, 0]> (d) f = Mul(half, e) y = Transpose(f)
}
"""
LATE = """
# a rule with a captured attribute
<domain: "relu_last", opset_import: ["" : 18]>
pattern <p> (x) => (y) { a = Relu (x)  y = Transpose <perm: ints = @p> (a) }
<domain: "relu_last", opset_import: ["" : 18]>
replacement <p> (x) => (y) { a = Transpose <perm: ints = @p> (x)  y = Relu (a) }
"""
HALF = """
<domain: "half", opset_import: ["" : 17]>
pattern (x) => (y) { k = Constant <value_float = 0.5> () y = Mul (x, k) }
<domain: "half", opset_import: ["" : 17]>
replacement (x) => (y) { k = Constant <value_float = 2.0> () y = Div (x, k) }
"""
WRONG = HALF.replace("2.0", "3.0")


def operators(model: ow.Model) -> list[str]:
    return [node.op_type for node in model.graph.nodes if node.op_type != "Constant"]


@pytest.fixture
def model() -> ow.Model:
    return ow.load(builders.proto(MODEL).SerializeToString())


def test_each_place_is_replaced_once_with_its_own_attributes(model):
    found = ow.find(model, LATE.encode())["relu_last"]
    assert [[node.name for node in place] for place in found.places] == [["a_relu", "a_turn"], ["b_relu", "b_turn"]]
    x = np.random.default_rng(1).standard_normal((3, 4), np.float32)
    before = ow.Session(model).run({"x": x}).outputs["y"]
    document = ow.Document(model)
    done = ow.rewrite(document, LATE.encode())
    assert done.is_applied
    assert done.report.applied == {"relu_last": 2}
    assert operators(model) == ["Exp", "Transpose", "Relu", "Transpose", "Relu", "Mul", "Transpose"]
    np.testing.assert_array_equal(ow.Session(model).run({"x": x}).outputs["y"], before)
    document.undo()
    assert operators(model) == ["Exp", "Relu", "Transpose", "Relu", "Transpose", "Mul", "Transpose"]


def test_constants_that_nothing_uses_any_more_go(model):
    ow.rewrite(model, HALF.encode())
    assert "Div" in operators(model)
    assert not any(value.name == "half" for value in model.graph.initializers)


def test_a_rule_that_changes_results_is_not_applied(model):
    done = ow.rewrite(model, WRONG.encode())
    assert not done.is_applied
    assert "differ" in str(done.agreement)
    assert "Mul" in operators(model)


def test_a_rule_matching_its_own_result_applies_once(model):
    rule = """
        <domain: "again", opset_import: ["" : 17]> pattern (x) => (y) { y = Relu (x) }
        <domain: "again", opset_import: ["" : 17]> replacement (x) => (y) { a = Relu (x) y = Relu (a) }
    """
    assert ow.rewrite(model, rule.encode()).report.applied == {"again": 2}
    assert operators(model).count("Relu") == 4


def test_a_rule_that_shrinks_is_applied_until_it_finds_nothing():
    text = """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[4] x) => (float[4] y) { a = Relu(x) b = Relu(a) c = Relu(b) d = Relu(c) y = Relu(d) }
    """
    model = ow.load(builders.proto(text).SerializeToString())
    rule = """
        <domain: "twice", opset_import: ["" : 17]> pattern (x) => (y) { a = Relu (x) y = Relu (a) }
        <domain: "twice", opset_import: ["" : 17]> replacement (x) => (y) { y = Relu (x) }
    """
    assert ow.rewrite(model, rule.encode()).report.applied == {"twice": 4}
    assert operators(model) == ["Relu"]


def test_an_input_that_is_passed_through_leaves_no_node():
    text = """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[4] x) => (float[4] y) { e = Exp(x) a = Neg(e) b = Neg(a) y = Abs(b) }
    """
    model = ow.load(builders.proto(text).SerializeToString())
    rule = """
        <domain: "twice", opset_import: ["" : 17]> pattern (x) => (y) { a = Neg (x) y = Neg (a) }
        <domain: "twice", opset_import: ["" : 17]> replacement (x) => (x) { z = Neg (x) }
    """
    with pytest.raises(ow.ModelError, match="outputs"):
        ow.rewrite(model, rule.encode())
    rule = rule.replace("(x) => (x) { z = Neg (x) }", "(x) => (y) { y = Identity (x) }")
    assert ow.rewrite(model, rule.encode()).report.applied == {"twice": 1}
    assert operators(model) == ["Exp", "Abs"]


def test_several_outputs_are_replaced_and_their_users_stay_behind():
    text = """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[4] x) => (float[4] y, float[4] u, float[4] v) {
            a = Sin(x) u = Exp(a) w = Abs(u) b = Cos(x) y = Add(b, x) v = Neg(w)
        }
    """
    model = ow.load(builders.proto(text).SerializeToString())
    rule = """
        <domain: "both", opset_import: ["" : 17]> pattern (x) => (s, c) { s = Sin (x) c = Cos (x) }
        <domain: "both", opset_import: ["" : 17]>
        replacement (x) => (s, c) { c = Cos (x) n = Neg (x) m = Sin (n) s = Neg (m) }
    """
    done = ow.rewrite(model, rule.encode())
    assert done.agreement.agrees
    assert done.report.applied == {"both": 1}
    assert not [problem for problem in ow.check(model) if "order" in str(problem) or "sorted" in str(problem)]


def test_an_operator_that_the_opset_lacks_is_refused_with_the_place(model):
    rule = HALF.replace('["" : 17]', '["" : 20]').replace("y = Div (x, k)", "z = Gelu (x) y = Div (z, k)")
    done = ow.rewrite(model, rule.encode())
    assert done.report.applied == {}
    assert done.report.refusals[0].reason == "ai.onnx 17, which the model imports, has no Gelu, which 20 has"


def test_commands_find_and_rewrite(tmp_path, capsys):
    source, rules, out = tmp_path / "in.onnx", tmp_path / "rules.txt", tmp_path / "out.onnx"
    builders.model_file(source, MODEL)
    rules.write_text(LATE + HALF)
    assert main(["find", str(source), "--pattern", str(rules), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["relu_last"]["places"] == [["a_relu", "a_turn"], ["b_relu", "b_turn"]]
    assert main(["find", str(source), "--pattern", str(rules)]) == 0
    assert "relu_last: 2 places" in capsys.readouterr().out
    assert main(["rewrite", str(source), "--rules", str(rules), "-o", str(out)]) == 0
    assert "2  relu_last" in capsys.readouterr().out
    assert operators(ow.load(out)).count("Div") == 1
    assert main(["simplify", str(source), "--rules", str(rules), "-o", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["applied"].get("half") == 1


def test_a_wrong_rule_writes_nothing(tmp_path, capsys):
    source, rules, out = tmp_path / "in.onnx", tmp_path / "rules.txt", tmp_path / "out.onnx"
    builders.model_file(source, MODEL)
    rules.write_text(WRONG)
    assert main(["rewrite", str(source), "--rules", str(rules), "-o", str(out)]) == 1
    assert not out.exists()
    rules.write_text("pattern (x) => (y) { y = Relu(x) }\n garbage")
    assert main(["rewrite", str(source), "--rules", str(rules), "-o", str(out)]) == 2
    assert "Line 2" in capsys.readouterr().err
    assert main(["rewrite", str(source), "--rules", str(tmp_path / "none"), "-o", str(out)]) == 2
