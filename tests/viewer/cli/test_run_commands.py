"""The commands `run` and `test`, as a user or a script calls them."""

from __future__ import annotations

import json
import shutil
from argparse import ArgumentTypeError
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from PIL import Image

from onnx_workbench.exec.inputs.sources import read_npz
from onnx_workbench.viewer.cli.main import main
from onnx_workbench.viewer.cli.run import size
from tests.model import builders
from tests.real_models import RealModels

TEXT = "g (float[n,3] x) => (float[n,3] y) { a = Exp(x) y = Neg(a) }"
X = np.array([[1, 2, 3]], np.float32)


@pytest.fixture
def model(tmp_path: Path) -> str:
    return str(builders.model_file(tmp_path / "model.onnx", TEXT))


def test_outputs_are_printed(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", model]) == 0
    assert capsys.readouterr().out.split() == ["y", "float[1,3]"]


def test_a_wrong_shape_is_reported_with_the_declaration(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", model, "--input", "x=[[1, 2, 3]]"]) == 0
    assert capsys.readouterr().err == ""
    np.save(f"{model}.npy", np.ones((2, 5), np.float32))
    assert main(["run", model, "--input", f"x={model}.npy"]) == 0
    report = capsys.readouterr().err.splitlines()
    assert report[0] == "note: 'x' is float[2,5]; the model declares float[n,3]"
    assert report[1:] == ["note: 'y' is float[2,5]; the model declares float[n,3]"]


def test_values_go_to_a_file_and_come_from_one(model: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", x=X)
    out = tmp_path / "out.npz"
    assert main(["run", model, "--inputs", str(tmp_path / "in.npz"), "--values", "all", "-o", str(out)]) == 0
    found = read_npz(out)
    assert set(found) == {"x", "a", "y"}
    np.testing.assert_allclose(found["y"], -np.exp(X))


def test_one_input_comes_from_a_file_or_from_numbers(model: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x=1.npy", X)
    (tmp_path / "x.csv").write_text("1,2,3\n")
    out = tmp_path / "out.npz"
    for value in (tmp_path / "x=1.npy", tmp_path / "x.csv", "[[1, 2, 3]]"):
        assert main(["run", model, "--input", f"x={value}", "-o", str(out)]) == 0
        np.testing.assert_allclose(read_npz(out)["y"], -np.exp(X))
    assert main(["run", model, "--input", "x=range", "--size", "n=2", "--values", "x", "-o", str(out)]) == 0
    np.testing.assert_array_equal(read_npz(out)["x"], np.arange(6).reshape(2, 3))
    assert main(["run", model, "--input", "x=normal", "--values", "x", "-o", str(out)]) == 0
    assert (read_npz(out)["x"] < 0).any() or (read_npz(out)["x"] > 1).any()


@pytest.fixture
def picture_model(tmp_path: Path) -> str:
    text = "g (float[1,a,b,c] x) => (float[1,a,b,c] y) { y = Identity(x) }"
    path = builders.model_file(tmp_path / "pictures.onnx", text)
    Image.fromarray(np.array([[[10, 20, 30], [40, 50, 60]]], np.uint8)).save(tmp_path / "p.png")
    return str(path)


def test_pictures_become_tensors_as_reported(picture_model: str, tmp_path: Path) -> None:
    out = tmp_path / "out.npz"
    run = ["run", picture_model, "--input", f"x={tmp_path / 'p.png'}", "-o", str(out)]
    assert main(run) == 0
    plain = np.array([[[10, 20, 30], [40, 50, 60]]], np.float32)
    np.testing.assert_allclose(read_npz(out)["y"], plain.transpose(2, 0, 1)[None] / 255, rtol=1e-6)
    report = ["--picture-layout", "NHWC", "--picture-channels", "BGR", "--picture-scale", "1/10"]
    assert main([*run, *report, "--picture-mean", "1,2,3", "--picture-std", "0.5,1,2"]) == 0
    expected = (plain[..., ::-1] / 10 - [1, 2, 3]) / [0.5, 1, 2]
    np.testing.assert_allclose(read_npz(out)["y"], expected[None], rtol=1e-5)
    assert main([*run, "--picture-size", "4x6", "--picture-fit", "pad", "--picture-channels", "L"]) == 0
    assert read_npz(out)["y"].shape == (1, 1, 4, 6)


@pytest.mark.parametrize(
    ("report", "reason"),
    [
        (["--picture-mean", "1,2"], "mean has 2 numbers; expected 1, or 3"),
        (["--picture-std", "1,0,1"], "std has a zero"),
        (["--picture-size", "100000x100000"], "100000 × 100000; expected 1 to 200,000,000 pixels"),
        (["--picture-size", "0"], "0 × 0; expected 1"),
    ],
)
def test_what_no_picture_can_become_is_refused(
    picture_model: str, tmp_path: Path, report: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", picture_model, "--input", f"x={tmp_path / 'p.png'}", *report]) == 2
    assert reason in capsys.readouterr().err


@pytest.mark.parametrize("report", [["--picture-size", "4by6"], ["--picture-scale", "1/0"], ["--picture-std", "1,,2"]])
def test_what_is_no_number_is_refused(report: list[str], picture_model: str) -> None:
    with pytest.raises(SystemExit):
        main(["run", picture_model, *report])


@pytest.mark.parametrize("report", ["-1", "nan", "inf", "little"])
def test_what_is_no_tolerance_is_refused(report: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["test", str(tmp_path), f"--rtol={report}"])
    assert repr(report) in capsys.readouterr().err


def test_numbers_may_be_more_than_a_name_of_a_file_can_be_long(model: str, tmp_path: Path) -> None:
    out = tmp_path / "out.npz"
    numbers = np.arange(300.0, dtype=np.float32).reshape(100, 3)
    given = ["--input", f"x={numbers.tolist()}", "--size", "n=100"]
    assert main(["run", model, *given, "--values", "x", "-o", str(out)]) == 0
    np.testing.assert_array_equal(read_npz(out)["x"], numbers)


def test_a_single_input_counts_more_than_the_file_of_all(tmp_path: Path) -> None:
    text = """g (float[1] x, float[1] d) => (float[1] y)
        <float[1] d = {1}> { y = Add(x, d) }"""
    builders.model_file(tmp_path / "model.onnx", text)
    np.savez(tmp_path / "in.npz", x=np.float32([10]), d=np.float32([20]))
    out = tmp_path / "out.npz"
    run = ["run", str(tmp_path / "model.onnx"), "--inputs", str(tmp_path / "in.npz"), "-o", str(out)]
    for single, expected in (([], 30), (["--input", "x=1"], 21), (["--input", "d=2"], 12)):
        assert main([*run, *single]) == 0
        assert read_npz(out)["y"] == expected


@pytest.mark.parametrize("value", ["x=", "x=nothing.npy", "x=[1", "x=\0", f"x={'a' * 300}", "z=1", "x"])
def test_an_input_that_is_none_is_refused(model: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", model, "--input", value]) == 2
    assert capsys.readouterr().err


def test_what_is_reported_of_an_input_that_is_none(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for report, expected in [
        ("z=1", "There is no input 'z'\n  The model takes x."),
        ("x", "'x' gives no input a value"),
    ]:
        assert main(["run", model, "--input", report]) == 2
        assert expected in capsys.readouterr().err
    names = [f"x{index}" for index in range(2000)]
    terms = ", ".join(f"float[1] {name}" for name in names)
    text = f'<ir_version: 8, opset_import: ["": 17]> g ({terms}) => (float[1] y) {{ y = Neg(x0) }}'
    assert main(["run", str(builders.model_file(tmp_path / "many.onnx", text)), "--input", "z=1"]) == 2
    assert "x11 and 1,988 more." in capsys.readouterr().err


def test_a_picture_becomes_the_input_of_the_declared_size(tmp_path: Path) -> None:
    picture = tmp_path / "a.png"
    Image.fromarray(np.full((8, 8, 3), (255, 0, 51), np.uint8)).save(picture)
    text = "g (float[1,3,4,6] x) => (float[1,3,4,6] y) { y = Identity(x) }"
    builders.model_file(tmp_path / "model.onnx", text)
    out = tmp_path / "out.npz"
    assert main(["run", str(tmp_path / "model.onnx"), "--input", f"x={picture}", "-o", str(out)]) == 0
    np.testing.assert_allclose(read_npz(out)["y"][0, :, 2, 3], [1, 0, 0.2], atol=1e-6)


def test_a_seed_makes_it_repeatable_and_sizes_are_respected(model: str, tmp_path: Path) -> None:
    arrays = []
    for seed in ("1", "1", "2"):
        out = tmp_path / "out.npz"
        assert main(["run", model, "--seed", seed, "--size", "n=5", "-o", str(out)]) == 0
        arrays.append(read_npz(out)["y"])
    assert arrays[0].shape == (5, 3)
    np.testing.assert_array_equal(arrays[0], arrays[1])
    assert not np.array_equal(arrays[0], arrays[2])


def test_facts_as_json(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", model, "--json", "--stats", "--profile", "--values", "a,y"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert list(facts["values"]) == ["a", "y"]
    assert facts["values"]["y"]["maximum"] < 0
    assert [n["operator"] for n in facts["nodes"]] == ["Exp", "Neg"]


def test_statistics_and_profile_are_printed(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", model, "--stats", "--profile"]) == 0
    out = capsys.readouterr().out
    assert "minimum" in out
    assert "Exp" in out


LOOP = """g (float[3] x) => (float[3] y) {
  n = Constant <value_int = 4> ()  t = Constant <value = bool {1}> ()
  [turns] y = Loop (n, t, x) <body: graph = b (int64 i, bool c, float[3] a) => (bool k, float[3] r) {
    k = Identity (c)  [minus] r = Neg (a) } > }"""


def test_the_profile_goes_into_bodies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(builders.model_file(tmp_path / "loop.onnx", LOOP))
    assert main(["run", path, "--profile"]) == 0
    assert any("turns › minus" in line and "4 runs" in line for line in capsys.readouterr().out.splitlines())
    assert main(["run", path, "--profile", "--json"]) == 0
    inner = json.loads(capsys.readouterr().out)["inner_nodes"]
    assert [(n["node"], n["inside"], n["runs"]) for n in inner] == [
        ("Identity", ["turns"], 4), ("minus", ["turns"], 4),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--values", "nothing"], 2, "nothing"),
        (["--size", "n"], 2, "NAME=SIZE"),
        (["--size", "n=²"], 2, "NAME=SIZE"),
        (["--size", "m=3"], 2, "There is no dimension 'm'"),
        (["-o", "missing/folder.npz"], 2, "missing/folder.npz"),
        (["--inputs", "missing.npz"], 2, "missing.npz cannot be read\n  No such file or directory\n"),
    ],
)
def test_what_goes_wrong_is_reported(
    model: str, arguments: list[str], status: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", model, *arguments]) == status
    assert message in capsys.readouterr().err


def test_a_failing_node_is_named_and_the_rest_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = TEXT.replace("y = Neg(a)", "y = Neg(a) z = Expand(x, s)").replace(
        "float[n,3] y)", "float[n,3] y, float[a,b] z)"
    )
    path = builders.model_file(tmp_path / "bad.onnx", text.replace(" {", " <int64[3] s = {1000, 1000, 3}> {", 1))
    assert main(["run", str(path), "--max-tensor", "1M"]) == 1
    captured = capsys.readouterr()
    assert "y  float[1,3]" in captured.out
    assert "Expand" in captured.err
    assert "over the limit of 1,048,576 bytes" in captured.err


def test_the_memory_limit_is_of_all_that_a_run_holds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (
        '<ir_version: 9, opset_import: ["" : 18]> g (float[512,512] x) => (float[512,512] y) { a = Exp(x) y = Neg(a) }'
    )
    path = builders.model_file(tmp_path / "m.onnx", text)
    assert main(["run", str(path), "--memory-limit", "1.5M"]) == 1
    assert "needs 1,048,576 bytes, over the memory limit of 1,572,864 bytes" in capsys.readouterr().err
    assert main(["run", str(path), "--memory-limit", "4M", "--json"]) == 0
    memory = json.loads(capsys.readouterr().out)["memory"]
    assert memory.pop("buffers") <= 4 << 17  # those of earlier runs of this process; more is freed
    assert memory == {"limit": 4 << 20, "weights": 0, "inputs": 1 << 20, "values": 2 << 20}


@pytest.mark.parametrize("source", ["random", "range", "file"])
def test_inputs_over_the_memory_limit_are_refused_beforehand(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    text = '<ir_version: 9, opset_import: ["" : 18]> g (float[1048576,1024] x) => (float y) { y = ReduceSum(x) }'
    path = builders.model_file(tmp_path / "m.onnx", text)
    given = ["--input", "x=range"] if source == "range" else []
    if source == "file":
        with (tmp_path / "x.npy").open("wb") as file:
            np.lib.format.write_array_header_1_0(
                file, {"descr": "<f4", "fortran_order": False, "shape": (1 << 20, 1 << 10)}
            )
            file.truncate(file.tell() + (4 << 30))  # a sparse file
        given = ["--input", f"x={tmp_path / 'x.npy'}"]
    allocated = []
    monkeypatch.setattr(np, "empty", lambda *arguments, **_: allocated.append(arguments))
    assert main(["run", str(path), "--memory-limit", "300M", "--time-limit", "8", *given]) == 2
    error = capsys.readouterr().err
    assert "4,294,967," in error
    assert "314,572,800" in error
    assert allocated == []


def test_the_time_limit_holds_while_inputs_are_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = '<ir_version: 9, opset_import: ["" : 18]> g (float[1024,16384] x) => (float y) { y = ReduceSum(x) }'
    assert main(["run", str(builders.model_file(tmp_path / "m.onnx", text)), "--time-limit", "0.01"]) == 2
    assert "The time limit of 0.01 s was reached while the model and its inputs were read" in capsys.readouterr().err


def test_the_node_that_reached_the_time_limit_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = """g (float x) => (float y) <bool t = {1}> {
      a = Neg(x)
      [turning] y = Loop ("", t, a) <body = b (int64 i, bool c, float v) => (bool k, float w) {
        k = Identity(c) w = Neg(v) }>
    }"""
    assert main(["run", str(builders.model_file(tmp_path / "endless.onnx", text)), "--time-limit", "0.5"]) == 2
    assert "did not finish: time limit, at 'turning' (Loop)" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--seed", "-1"], ["--time-limit", "nan"], ["--time-limit", "0"]])
def test_numbers_that_cannot_be_are_refused(
    model: str, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["run", model, *arguments])
    assert ended.value.code == 2
    assert f"{arguments[1]!r} is not a" in capsys.readouterr().err


@pytest.mark.parametrize(("text", "expected"), [("4G", 4 << 30), ("512M", 512 << 20), ("1.5k", 1536), ("7", 7)])
def test_sizes(text: str, expected: int) -> None:
    assert size(text) == expected


@pytest.mark.parametrize("text", ["", "G", "4X", "-1", "9" * 400, "9999999999G"])
def test_no_sizes(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="is not a size; expected bytes, such as 512M or 4G"):
        size(text)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    data = Path(onnx.__file__).parent / "backend/test/data/simple/test_single_relu_model"
    return Path(shutil.copytree(data, tmp_path / "relu"))


def test_test_data_passes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", str(folder)]) == 0
    assert "1 of 1" in capsys.readouterr().out


def test_a_difference_is_found(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = next(folder.glob("test_data_set_0/output_0.pb"))
    tensor = onnx.TensorProto.FromString(path.read_bytes())
    array: Any = onnx.numpy_helper.to_array(tensor).copy()
    array.reshape(-1)[0] += 1
    path.write_bytes(onnx.numpy_helper.from_array(array).SerializeToString())
    assert main(["test", str(folder), "--json"]) == 1
    (verdict,) = json.loads(capsys.readouterr().out)["results"]
    assert "1 of" in verdict["problem"]


def test_a_folder_without_data_is_refused(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", str(Path(model).parent)]) == 2
    assert "test_data_set" in capsys.readouterr().err


def test_arrays_that_are_no_inputs_are_named_and_left_out(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(tmp_path / "in.npz", x=X, other=X)
    assert main(["run", model, "--inputs", str(tmp_path / "in.npz"), "-o", str(tmp_path / "out.npz")]) == 0
    assert "warning" in (report := capsys.readouterr().err)
    assert report.endswith("not inputs and are ignored: other\n")
    np.testing.assert_allclose(read_npz(tmp_path / "out.npz")["y"], -np.exp(X))
    np.savez(tmp_path / "in.npz", other=X)
    assert main(["run", model, "--inputs", str(tmp_path / "in.npz")]) == 2


def test_arrays_that_are_no_inputs_are_not_read(model: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", x=X, other=np.array([object()], object))
    assert main(["run", model, "--inputs", str(tmp_path / "in.npz"), "-o", str(tmp_path / "out.npz")]) == 0
    np.testing.assert_allclose(read_npz(tmp_path / "out.npz")["y"], -np.exp(X))


def test_inputs_come_from_json(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given, single = tmp_path / "in.json", tmp_path / "x.json"
    given.write_text('{"x": [[1, 2, 3]]}')
    single.write_text("[[1, 2, 3]]")
    for options in (["--inputs", str(given)], ["--input", f"x={single}"]):
        assert main(["run", model, *options, "-o", str(tmp_path / "out.npz")]) == 0
        np.testing.assert_allclose(read_npz(tmp_path / "out.npz")["y"], -np.exp(X))
    for broken in ("[1]", "{", '{"x": "text"}', "[" * 100_000, '{"x": [[1], [1, 2]]}'):
        given.write_text(broken)
        assert main(["run", model, "--inputs", str(given)]) == 2
        assert capsys.readouterr().err.startswith("error: ")


def test_elements_are_printed(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    run = ["run", model, "--input", "x=[[0, 1000, 1]]", "--values", "a,y", "--print"]
    assert main(run) == 0
    assert " inf, 2.71828" in capsys.readouterr().out
    assert main([*run, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["values"]["y"]["value"][0][:2] == [-1, "-inf"]


def test_elements_of_every_kind_of_value_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = """g (float[3] x) => (bfloat16[3] b, s, string[1] t)
      <string[1] w = {"\\n"}> { b = Cast <to = 16> (x)  s = SequenceConstruct (x, x)  t = Identity (w) }"""
    builders.model_file(tmp_path / "kinds.onnx", text)
    run = ["run", str(tmp_path / "kinds.onnx"), "--input", "x=[1, 2, 3]", "--print"]
    assert main(run) == 0
    assert "[1" in (printed := capsys.readouterr().out)
    assert "[0]" in printed
    assert main([*run, "--json"]) == 0
    values = json.loads(capsys.readouterr().out)["values"]
    assert values["b"]["value"] == [1, 2, 3]
    assert values["s"]["value"] == [[1, 2, 3], [1, 2, 3]]


def test_values_are_expected(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = str(tmp_path / "expected.npz")
    run = ["run", model, "--input", "x=[[1, 2, 3]]", "--expect", expected]
    np.savez(expected, y=-np.exp(X), a=np.exp(X))
    assert main(run) == 0
    assert "2 of 2 values as expected" in capsys.readouterr().err
    np.savez(expected, y=-np.exp(X) * 1.001, nosuch=X)
    assert main(run) == 1
    report = capsys.readouterr().err
    assert "y is not as expected: at [0, 2] got -20.08554, expected" in report
    assert "missing: nosuch" in report
    assert main([*run, "--json"]) == 1
    rows = {row["name"]: row["close"] for row in json.loads(capsys.readouterr().out)["expected"]}
    assert rows == {"y": False, "nosuch": False}
    np.savez(expected, y=-np.exp(X) * 1.001)
    assert main([*run, "--rtol", "0.01"]) == 0
    assert main(["run", model, "--rtol", "0.01"]) == 2
    np.savez(expected)
    assert main(run) == 1


NON_FINITE = """g (float[2] x) => (float[2] y) {
  a = Neg (x)  [root] b = Sqrt (a)  [next] y = Exp (b) }"""


def test_the_first_node_that_makes_nan_is_named_with_the_cause(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(builders.model_file(tmp_path / "nan.onnx", NON_FINITE))
    run = ["run", path, "--fail-on-nonfinite", "--input"]
    assert main([*run, "x=[1, 385.7]"]) == 1
    report = "NaN in 'b' at [0], made by Sqrt 'root': square root of -1 is NaN (2 elements)"
    assert report in capsys.readouterr().err
    assert main([*run, "x=[-1, -1e6]", "--json"]) == 1
    bad = json.loads(capsys.readouterr().out)["non_finite"]
    assert (bad["value"], bad["node"], bad["index"], bad["found"]) == ("y", "next", [1], "inf")
    assert bad["cause"] == "exp of 1000 exceeds 3.40282e+38, the largest float"
    assert main([*run, "x=[-1, -2]"]) == 0
    assert main(["run", path, "--input", "x=[1, 385.7]"]) == 0


def test_what_is_not_finite_in_an_input_is_found_in_the_output(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "x.npy", np.float32([[np.nan, 1, 2]]))
    assert main(["run", model, "--fail-on-nonfinite", "--input", f"x={tmp_path / 'x.npy'}"]) == 1
    assert "NaN in" in capsys.readouterr().err


def test_the_time_limit_counts_from_the_start_of_the_command(
    model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from onnx_workbench.viewer.cli import run

    now = iter([0.0, 100.0])
    monkeypatch.setattr(run.time, "monotonic", lambda: next(now, 200.0))
    assert main(["run", model, "--time-limit", "50"]) == 2
    assert "The time limit of 50 s was reached while the model and its inputs were read" in capsys.readouterr().err


def test_test_data_may_be_pairs_of_files(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, wrong in (("", 0), ("_large", 1)):
        np.savez(tmp_path / f"inputs{name}.npz", x=X)
        np.savez(tmp_path / f"outputs{name}.npz", y=-np.exp(X) + wrong)
    assert main(["test", model]) == 1
    report = capsys.readouterr().out.splitlines()
    assert report[0].startswith("inputs.npz  y  ok")
    assert report[1].startswith(
        "inputs_large.npz  y  FAILED  3 of 3 elements differ, at [0, 0] got -2.718282, expected -1.7"
    )
    (tmp_path / "outputs_large.npz").unlink()
    assert main(["test", str(tmp_path)]) == 0


@pytest.mark.parametrize("name", ["finn-base__model", "sklearn_svc_rbf_strings_zipmap", "bert_mini_functions"])
def test_real_models_pass_their_test_data(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", str(RealModels().with_data(name))]) == 0
    report = capsys.readouterr().out.splitlines()[-1]
    assert report.split(" of ")[0] == report.split(" of ")[1].split()[0]


def test_maps_that_a_run_saved_are_compared_with_those_of_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / "maps.onnx", tmp_path / "out.npz"
    zip_map = helper.make_node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", classlabels_int64s=[3, 7])
    result = helper.make_sequence_type_proto(
        helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    )
    graph = helper.make_graph(
        [zip_map], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 2])], [helper.make_value_info("y", result)],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 3)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
    assert main(["run", str(path), "--seed", "1", "-o", str(out)]) == 0
    assert main(["run", str(path), "--seed", "1", "--expect", str(out)]) == 0
    assert main(["compare", str(path), str(out), "--seed", "1"]) == 0
    assert main(["run", str(path), "--seed", "2", "--expect", str(out)]) == 1
    assert "missing" not in capsys.readouterr().err
