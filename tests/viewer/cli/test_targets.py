"""What commands do not replace: data files of the models they read, inputs of a run, files of another kind."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, load_from_string, save

from onnx_workbench.viewer.cli.commands import COMMANDS as ALL_COMMANDS
from onnx_workbench.viewer.cli.commands import command_parser, options_of
from onnx_workbench.viewer.cli.main import main
from tests.model.io.saved_models import proto_of

_VALUES = np.arange(1000, dtype=np.float32)

COMMANDS = (
    "convert m.onnx", "convert m.onnx --strip doc", "simplify m.onnx --check 0", "infer m.onnx", "render m.onnx",
    "extract m.onnx --outputs w", "merge m.onnx other.onnx", "edit m.onnx edits.jsonl", "run m.onnx --values all",
    "rewrite m.onnx --rules rules.txt", "quantize layer.onnx --method weights",
)  # fmt: skip

_RULES = """
<domain: "twice", opset_import: ["" : 18]>
pattern (x) => (y) { a = Neg (x)  y = Neg (a) }
<domain: "twice", opset_import: ["" : 18]>
replacement (x) => (y) { y = Identity (x) }
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """m.onnx and layer.onnx with weights in w.bin, other.onnx, and edits.jsonl."""
    monkeypatch.chdir(tmp_path)
    Path("w.bin").write_bytes(_VALUES.tobytes())
    Path("m.onnx").write_bytes(proto_of({"w": _VALUES}, external="w.bin").SerializeToString())
    layer = proto_of({"w": _VALUES.reshape(25, 40)}, external="w.bin")
    layer.graph.node[0].op_type = "MatMul"
    layer.graph.input[0].type.CopyFrom(helper.make_tensor_type_proto(TensorProto.FLOAT, [2, 25]))
    Path("layer.onnx").write_bytes(layer.SerializeToString())
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("p", "q"))
    graph = helper.make_graph([helper.make_node("Neg", ["p"], ["q"])], "g", [x], [y])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), "other.onnx")
    Path("edits.jsonl").write_text("", encoding="utf-8")
    Path("rules.txt").write_text(_RULES, encoding="utf-8")
    return tmp_path


def test_every_command_that_writes_one_file_is_among_them() -> None:
    tested = {command.split()[0] for command in COMMANDS}
    writing = {
        name
        for name in ALL_COMMANDS
        for option in options_of(command_parser(name))
        if "--output" in option.option_strings
    }
    assert writing - {"split", "reduce"} == tested  # two files are written


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_writes_over_the_data_of_its_model(
    folder: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (folder / "w.bin").read_bytes()
    assert main([*command.split(), "-o", "w.bin"]) == 2
    assert (folder / "w.bin").read_bytes() == before
    assert capsys.readouterr().err.startswith("error: ")


@pytest.mark.parametrize("command", COMMANDS)
def test_nor_over_a_file_of_another_kind(folder: Path, command: str) -> None:
    for name in ("table.csv", "config.json", "notes"):
        (folder / name).write_text('{"of": "the user"}\n', encoding="utf-8")
        assert main([*command.split(), "-o", name]) == 2
        assert (folder / name).read_text(encoding="utf-8") == '{"of": "the user"}\n'


def test_a_run_does_not_replace_a_model_nor_its_own_inputs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez("in.npz", p=np.ones(2, np.float32))
    before = (folder / "in.npz").read_bytes()
    assert main(["run", "other.onnx", "--inputs", "in.npz", "-o", "in.npz"]) == 2
    assert "in.npz is read by this run" in capsys.readouterr().err
    assert main(["run", "other.onnx", "--input", "p=in.npz", "-o", "in.npz"]) == 2
    assert (folder / "in.npz").read_bytes() == before
    for command in ("run", "render"):
        assert main([command, "other.onnx", "-o", "m.onnx"]) == 2
    assert main(["run", "other.onnx", "-o", "out.npz"]) == 0
    assert np.load(folder / "out.npz")["q"].shape == (2,)


def test_a_comparison_picture_does_not_replace_the_old_models_data(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("w.svg").hardlink_to("w.bin")
    assert main(["render", "other.onnx", "--diff", "m.onnx", "-o", "w.svg"]) == 2
    assert "w.svg holds weights of m.onnx" in capsys.readouterr().err
    assert Path("w.bin").read_bytes() == _VALUES.tobytes()


def test_what_cannot_be_written_is_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command, suffix in (("run", ".npz"), ("render", ".svg"), ("render", ".html"), ("convert", ".onnx")):
        Path(f"folder{suffix}").mkdir()
        for target in (f"folder{suffix}", f"no folder/x{suffix}"):
            assert main([command, "other.onnx", "-o", target]) == 2
            assert len(capsys.readouterr().err.splitlines()) <= 3


def test_values_that_take_too_long_to_write_are_not_there(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from onnx_workbench.model.progress import Deadline
    from onnx_workbench.viewer.cli import run

    seconds = iter([60.0, -1.0])  # for making the inputs, and for writing
    monkeypatch.setattr(run, "Deadline", lambda _seconds, *report: Deadline(next(seconds), *report))
    assert main(["run", "other.onnx", "-o", "out.npz", "--time-limit", "60"]) == 2
    assert "The values were not written" in capsys.readouterr().err
    assert [path.name for path in folder.iterdir() if "out" in path.name] == []


def test_a_file_goes_to_standard_output_where_it_is_named_so(
    folder: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """A file called - was written."""
    Path("edits.jsonl").write_text('{"format": "onnx-workbench edit script", "version": 1}\n', encoding="utf-8")
    for command in [c for c in COMMANDS if not c.startswith("extract")] + ["extract other.onnx --outputs q"]:
        assert main([*command.split(), "-o", "-"]) == 0, command
        written = capfdbinary.readouterr().out
        if command.startswith("render"):
            assert b"<svg" in written[:500]
        elif command.startswith("run"):
            assert written.startswith(b"PK")
        else:
            model = load_from_string(written)
            assert not any(tensor.external_data for tensor in model.graph.initializer)
    assert not Path("-").exists()


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("convert m.onnx --json", "cannot be used with --json"),
        ("convert m.onnx --external one-file", "cannot be used with --external"),
        ("split m.onnx --at y", "split writes two files"),
        ("reduce m.onnx --until fails", "reduce writes two files"),
    ],
)
def test_what_cannot_go_to_standard_output_is_refused(
    folder: Path, command: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command.split(), "-o", "-"]) == 2
    assert message in "".join(capsys.readouterr())
