"""Files that end early, models that lack something, and targets that must not be replaced, on the command line."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

from onnx_workbench.viewer.cli.main import main
from tests.model import builders
from tests.model.io.saved_models import proto_of

SAMPLE = Path(__file__).parents[3] / "resources" / "sample" / "digits.onnx"


@pytest.fixture
def cut(tmp_path):
    """A file that ends early."""
    path = tmp_path / "cut.onnx"
    path.write_bytes(SAMPLE.read_bytes()[:9000])
    return path


@pytest.mark.parametrize(
    "command",
    ["run IN", "simplify IN -o OUT", "convert IN -o OUT", "infer IN -o OUT", "extract IN -o OUT --outputs digit",
     "split IN -o OUT --at digit", "merge IN IN -o OUT", "diff IN IN", "render IN -o OUT.svg", "test IN",
     "compare IN ort", "compare SAMPLE IN", "edit IN SCRIPT -o OUT"],
)  # fmt: skip
def test_a_file_that_ends_early_is_no_success(cut, tmp_path, capsys, command):
    places = {"IN": cut, "OUT": tmp_path / "out.onnx", "OUT.svg": tmp_path / "out.svg", "SAMPLE": SAMPLE}
    assert main([str(places.get(word, word)) for word in command.split()]) == 2
    said = capsys.readouterr().err
    assert "incomplete" in said
    assert "byte 9,000" in said
    assert "--salvage" in said
    assert [path.name for path in tmp_path.iterdir()] == ["cut.onnx"]


@pytest.mark.long
def test_what_is_left_of_it_can_be_worked_with(cut, tmp_path, capsys):
    assert main(["convert", str(cut), "-o", str(tmp_path / "rest.onnxtxt"), "--salvage"]) == 0
    assert "byte 9,000" in capsys.readouterr().err
    assert (tmp_path / "rest.onnxtxt").stat().st_size
    assert main(["run", str(cut), "--salvage"]) == 0
    assert "the model has no outputs" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["simplify IN -o OUT", "convert IN -o OUT --opset 18"])
@pytest.mark.parametrize("nodes", ["a = Identity(x) y = Mul(a, w)", "a = Identity(x)"])
def test_a_model_with_undefined_values_needs_no_compare_to_write(tmp_path, capsys, command, nodes):
    places = {"IN": tmp_path / "in.onnx", "OUT": tmp_path / "out.onnx"}
    text = f'<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) {{ {nodes} }}'
    builders.model_file(places["IN"], text)
    words = [str(places.get(word, word)) for word in command.split()]
    assert main(words) == 2
    said = capsys.readouterr().err
    assert "Nothing defines " + ("w" if "w" in nodes else "y") in said
    assert "--no-check" in said
    assert not places["OUT"].exists()
    assert main([*words, "--no-check"]) == 0
    assert places["OUT"].exists()


def test_info_and_check_report_it(cut, capsys):
    assert main(["info", str(cut)]) == 1
    assert "byte 9,000" in capsys.readouterr().out
    assert main(["check", str(cut), "--json"]) == 1
    first = json.loads(capsys.readouterr().out)[0]
    assert (first["severity"], first["rule"]) == ("error", "reading")


@pytest.fixture
def lacking(tmp_path):
    """A model one of whose outputs needs an initializer that is not there."""
    text = '<ir_version: 9, opset_import: ["" : 18]> g (float[2] x) => (float[2] y, float[2] z)'
    return builders.model_file(tmp_path / "lacking.onnx", text + " { h = Add(x, w) y = Relu(h) z = Neg(x) }")


def test_a_run_says_why_an_output_is_missing(lacking, capsys):
    assert main(["run", str(lacking)]) == 1
    said = capsys.readouterr()
    assert "missing: y: 'Relu' (Relu) was not run: nothing defines 'w'" in said.err
    assert said.out.startswith("z ")
    assert main(["run", str(lacking), "--json", "--values", "h,z"]) == 1
    facts = json.loads(capsys.readouterr().out)
    assert list(facts["values"]) == ["z"]
    assert facts["missing"] == {
        "y": "'Relu' (Relu) was not run: nothing defines 'w'", "h": "'Add' (Add) was not run: nothing defines 'w'",
    }  # fmt: skip


def test_test_and_compare_say_why_an_output_is_missing(lacking, tmp_path, capsys):
    reason = "'Relu' (Relu) was not run: nothing defines 'w'"
    x = np.ones(2, np.float32)
    np.savez(tmp_path / "inputs.npz", x=x)
    np.savez(tmp_path / "outputs.npz", y=x, z=-x)
    assert main(["test", str(lacking)]) == 1
    assert reason in capsys.readouterr().out
    assert main(["test", str(lacking), "--json"]) == 1
    assert [one["problem"] for one in json.loads(capsys.readouterr().out)["results"]] == [reason, ""]
    assert main(["compare", str(lacking), str(tmp_path / "outputs.npz"), "--json"]) == 1
    said = capsys.readouterr()
    assert json.loads(said.out)["missing"] == [f"y is missing: {reason}"]
    assert f"error: y is missing: {reason}" in said.err


@pytest.mark.parametrize("command", ["run IN", "compare IN IN", "run IN --fail-on-nonfinite", "run IN --print --json"])
def test_data_files_that_end_early_are_no_success(with_data, command, capsys):
    data = with_data.with_name("w.bin")
    data.write_bytes(data.read_bytes()[:100])
    assert main([str({"IN": with_data}.get(word, word)) for word in command.split()]) == 1
    assert "w.bin" in capsys.readouterr().err


def test_weights_in_constant_nodes_are_counted(tmp_path, capsys):
    tensor = onnx.numpy_helper.from_array(np.ones((5, 7), np.float32), "w")
    h = onnx.helper
    nodes = [h.make_node("Constant", [], ["w"], value=tensor), h.make_node("MatMul", ["x", "w"], ["y"])]
    x, y = (h.make_tensor_value_info(n, onnx.TensorProto.FLOAT, s) for n, s in (("x", [2, 5]), ("y", [2, 7])))
    path = tmp_path / "m.onnx"
    onnx.save(
        h.make_model(h.make_graph(nodes, "g", [x], [y]), ir_version=9, opset_imports=[h.make_opsetid("", 18)]), path
    )
    assert main(["info", str(path), "--statistics", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["constants"], facts["constant_parameters"], facts["constant_bytes"]) == (1, 35, 140)
    assert facts["statistics"]["model"]["parameters"] == 35
    assert facts["statistics"]["model"]["macs"] == 70


@pytest.fixture
def with_data(tmp_path):
    """A model whose weights are in w.bin."""
    values = np.arange(1000, dtype=np.float32)
    (tmp_path / "w.bin").write_bytes(values.tobytes())
    path = tmp_path / "m.onnx"
    path.write_bytes(proto_of({"w": values}, external="w.bin").SerializeToString())
    return path


def test_a_model_of_nothing_is_checked(tmp_path):
    (tmp_path / "e.onnx").write_bytes(b"\x3a\x00")
    assert main(["check", str(tmp_path / "e.onnx")]) == 1


def test_names_of_any_length_are_written(tmp_path, capsys):
    name = "n" * 70_000
    h = onnx.helper
    x, y = (h.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [2]) for n in ("x", name))
    graph = h.make_graph([h.make_node("Neg", ["x"], [name])], "g", [x], [y])
    path = tmp_path / "m.onnx"
    onnx.save(h.make_model(graph, ir_version=9, opset_imports=[h.make_opsetid("", 18)]), path)
    assert main(["run", str(path), "-o", str(tmp_path / "out.npz")]) == 0
    with np.load(tmp_path / "out.npz") as arrays:
        (key,) = arrays.files
        assert name.startswith(key)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
@pytest.mark.parametrize(
    "command",
    [
        "run SAMPLE --inputs PIPE",
        "run SAMPLE --input image=PIPE",
        "edit SAMPLE PIPE -o x",
        "check SAMPLE --load PIPE",
        "render SAMPLE --values PIPE -o x.png",
        "compare SAMPLE PIPE",
    ],
)
def test_what_may_never_end_is_not_read(tmp_path, capsys, command):
    pipe = tmp_path / "pipe.npy"
    os.mkfifo(pipe)
    words = [w.replace("SAMPLE", str(SAMPLE)).replace("PIPE", str(pipe)) for w in command.split()]
    status = []
    thread = threading.Thread(target=lambda: status.append(main(words)), daemon=True)
    thread.start()
    thread.join(60)
    assert status == [2]
    assert "not a regular file" in capsys.readouterr().err


def test_test_data_that_leads_elsewhere_is_not_read(tmp_path, capsys):
    folder = tmp_path / "case"
    (folder / "test_data_set_0").mkdir(parents=True)
    (folder / "model.onnx").write_bytes(SAMPLE.read_bytes())
    (tmp_path / "secret").write_bytes(b"secret")
    (folder / "test_data_set_0" / "input_0.pb").symlink_to(tmp_path / "secret")
    assert main(["test", str(folder)]) == 2
    assert "outside its folder" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["", "info", "check", "render -o x.png --values", "run -o x.npz --inputs"])
def test_a_name_that_is_too_long_is_reported(capsys, command):
    name = "n" * 5000
    sample = [str(SAMPLE)] if "--" in command else []
    assert main([*command.split()[:1], *sample, *command.split()[1:], name]) == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_a_file_that_is_missing_is_not_said_to_be_open(tmp_path, capsys, monkeypatch):
    handed = []
    monkeypatch.setattr(
        "onnx_workbench.viewer.program.single_instance.send_to_running_instance",
        lambda names, _goto="": bool(handed.append(names) or True),
    )
    assert main([str(tmp_path / "nosuch.onnx")]) == 2
    said = capsys.readouterr()
    assert "does not exist" in said.err
    assert said.out == ""
    assert main([str(SAMPLE), str(tmp_path / "nosuch.onnx")]) == 2
    assert handed == [[str(SAMPLE)]]
    assert "does not exist" in capsys.readouterr().err
