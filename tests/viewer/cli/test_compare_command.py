"""The command `compare`: its table, its JSON and its exit status."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from onnx_workbench.exec.inspect.reference import available
from onnx_workbench.viewer.cli.main import main
from tests.model import builders
from tests.real_models import RealModels

HEAD = '<ir_version: 10, opset_import: ["" : 21]>'
MODEL = "g (float[n,3] x) => (float[n,3] y) { [first] a = Exp (x)  [second] y = Neg (a) }"
X = np.array([[1, 2, 3]], np.float32)


@pytest.fixture
def save(tmp_path: Path):
    def saved(name: str, text: str) -> str:
        builders.model_file(tmp_path / name, f"{HEAD} {text}")
        return str(tmp_path / name)

    return saved


def test_models_that_agree(save, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", save("a.onnx", MODEL), save("b.onnx", MODEL)]) == 0
    report = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in report[1:4]] == [["ok", "x"], ["ok", "a"], ["ok", "y"]]
    assert report[-1] == "3 values compared, none of them different"


def test_the_first_divergence_is_named(save, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = save("a.onnx", MODEL), save("b.onnx", MODEL.replace("Exp", "Cos"))
    compare = ["compare", first, second, "--input", "x=[[0, 1, 2]]"]
    assert main(compare) == 1
    report = capsys.readouterr().out.splitlines()
    assert report[-2].startswith(
        "first divergence: a (Exp 'first'): at [0, 2] got 7.389056, expected -0.4161468; largest"
    )
    assert report[-1] == "3 values compared, 2 of them different"
    assert main([*compare, "--differing", "--json"]) == 1
    facts = json.loads(capsys.readouterr().out)
    assert (facts["agrees"], facts["first_divergence"]["node"]) == (False, "first")
    assert [row["name"] for row in facts["values"]] == ["a", "y"]
    assert main([*compare, "--outputs", "--json"]) == 1
    assert [row["name"] for row in json.loads(capsys.readouterr().out)["values"]] == ["y"]
    assert main([*compare, "--atol", "100"]) == 0


def test_a_file_feeds_the_model_and_is_compared(save, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, values = save("a.onnx", MODEL), str(tmp_path / "values.npz")
    np.savez(values, x=X, y=-np.exp(X))
    assert main(["compare", model, values]) == 0
    np.savez(values, x=X, y=-np.exp(X) * np.float32(1.01))
    assert main(["compare", model, values]) == 1
    assert "of scale" in capsys.readouterr().out


def test_a_saved_run_can_be_compared(save, tmp_path: Path) -> None:
    model, values = save("a.onnx", MODEL), str(tmp_path / "values.npz")
    assert main(["run", model, "--seed", "3", "--values", "all", "-o", values]) == 0
    assert main(["compare", model, values]) == 0
    assert main(["compare", save("b.onnx", MODEL.replace("Neg", "Abs")), values]) == 1


def test_what_cannot_be_compared_is_reported(save, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = save("a.onnx", MODEL)
    lost = save("lost.onnx", "g (float[n,3] x) => (float[n,3] y) { y = Add (x, lost) }")
    assert main(["compare", model, lost]) == 1
    assert "in the reference, y is missing" in capsys.readouterr().err
    other = save("c.onnx", "g (float[2] p, float[2] q) => (float[2] r, float[2] s) { r = Add (p, q)  s = Neg (q) }")
    assert main(["compare", model, other]) == 2
    report = capsys.readouterr().err
    assert "outputs of the model: y" in report
    assert "outputs of the reference: r, s" in report
    assert main(["compare", model, str(tmp_path / "nosuch.onnx")]) == 2
    assert main(["compare", model, str(tmp_path / "nosuch.npz")]) == 2


@pytest.mark.long
def test_with_onnx_runtime(capsys: pytest.CaptureFixture[str]) -> None:
    if not available():
        pytest.skip("ONNX Runtime is not installed")
    model = RealModels() / "finn-base__model" / "model.onnx"
    assert main(["compare", str(model), "ort"]) == 0
    assert capsys.readouterr().out.endswith("11 values compared, none of them different\n")


def test_texts_of_the_models_cannot_steer_the_terminal(save, capsys: pytest.CaptureFixture[str]) -> None:
    model = onnx.load(save("a.onnx", MODEL))
    for node in model.graph.node:
        node.name = f"\x1b[2J{node.name}"
        for names in (node.input, node.output):
            names[:] = [f"\x1b{name}" if name == "a" else name for name in names]
    path = save("a.onnx", MODEL)
    onnx.save(model, path)
    other = onnx.load(path)
    other.graph.node[0].op_type = "Cos"
    onnx.save(other, path + "b")
    assert main(["compare", path, path + "b"]) == 1
    captured = capsys.readouterr()
    assert "\x1b" not in captured.out + captured.err


def test_the_loss_of_quantized_layers_has_a_column(save, capsys: pytest.CaptureFixture[str]) -> None:
    quantized = """g (float[n,3] x) => (float[n,3] y) <float s = {0.1}, uint8 z = {0}> {
      a = Exp (x)  q = QuantizeLinear (a, s, z)  d = DequantizeLinear (q, s, z)  y = Neg (d) }"""
    compare = ["compare", save("a.onnx", MODEL), save("b.onnx", quantized)]
    assert main([*compare, "--local", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["values"]}
    assert rows["a"]["reference"] == "d"
    assert rows["a"]["local_snr"] == "inf"
    assert "local_snr" not in rows["y"]
    assert main([*compare, "--local"]) == 0
    assert " alone " in capsys.readouterr().out
    assert main(compare) == 0
    assert " alone " not in capsys.readouterr().out
