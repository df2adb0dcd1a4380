"""The command line as scripts use it: a process, its output, its exit status."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from onnx_workbench.viewer.cli.commands import COMMANDS
from onnx_workbench.viewer.cli.main import main

REPOSITORY = Path(__file__).parents[2]
SAMPLE = REPOSITORY / "resources" / "sample" / "digits.onnx"


def workbench(
    *arguments: object, cwd: Path | None = None, stdin: bytes = b"", encoding: str = ""
) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ}
    if encoding:
        environment["PYTHONIOENCODING"] = encoding
    return subprocess.run(
        [sys.executable, "-m", "onnx_workbench", *map(str, arguments)],
        capture_output=True, cwd=cwd, input=stdin, env=environment, check=False,
    )  # fmt: skip


@pytest.mark.long
def test_info_reports_what_is_in_a_model():
    result = workbench("info", SAMPLE)
    text = result.stdout.decode()
    assert result.returncode == 0
    assert "uint8 batch×1×28×28" in text
    assert "10 with 5,602 parameters" in text
    assert "sample.images::Normalize" in text


@pytest.mark.long
def test_info_as_json_from_standard_input():
    result = workbench("info", "-", "--json", stdin=SAMPLE.read_bytes())
    facts = json.loads(result.stdout)
    assert result.returncode == 0
    assert facts["opset_imports"] == {"ai.onnx": 18, "sample.images": 1}
    assert facts["inputs"] == [{"name": "image", "type": "uint8 batch×1×28×28"}]
    assert facts["operators"]["Conv"] == 4
    assert facts["parameters"] == 5602


@pytest.mark.long
@pytest.mark.parametrize(
    ("content", "said"),
    [(b"<!DOCTYPE html>", "HTML"), (b"", "empty"), (b"version https://git-lfs.github.com/spec/v1\n", "LFS")],
)
def test_what_cannot_be_read_is_said_and_exits_with_2(tmp_path, content, said):
    path = tmp_path / "bad.onnx"
    path.write_bytes(content)
    result = workbench("info", path)
    assert result.returncode == 2
    assert result.stdout == b""
    assert said in result.stderr.decode()
    as_json = workbench("info", path, "--json")
    assert as_json.returncode == 2
    assert said in json.loads(as_json.stdout)["error"]["title"] + json.loads(as_json.stdout)["error"]["detail"]


@pytest.mark.long
def test_texts_from_a_file_cannot_steer_the_terminal(tmp_path):
    import onnx

    proto = onnx.load(SAMPLE)
    proto.doc_string = "\x1b[2Jgone\u202e"
    path = tmp_path / "escape.onnx"
    onnx.save(proto, path)
    text = workbench("info", path).stdout.decode()
    assert "\x1b" not in text
    assert "\\x1b[2Jgone\\u202e" in text


@pytest.mark.long
def test_what_the_output_cannot_say_is_escaped(tmp_path):
    import onnx

    text = workbench("info", SAMPLE, encoding="ascii")
    assert text.returncode == 0
    assert "uint8 batch\\xd71\\xd728" in text.stdout.decode("ascii")
    proto = onnx.load(SAMPLE)
    proto.doc_string = "é!!"
    path = tmp_path / "broken.onnx"
    path.write_bytes(proto.SerializeToString().replace("é!!".encode(), b"\xff\xfe!!"))
    for encoding in ("utf-8:strict", "ascii:strict"):
        as_json = workbench("info", path, "--json", encoding=encoding)
        assert as_json.returncode == 0
        assert json.loads(as_json.stdout)["doc_string"] == "\udcff\udcfe!!"


@pytest.mark.long
@pytest.mark.parametrize(("suffix", "magic"), [("png", b"\x89PNG"), ("svg", b"<"), ("pdf", b"%PDF")])
def test_render_draws_a_model(tmp_path, suffix, magic):
    target = tmp_path / f"graph.{suffix}"
    result = workbench("render", SAMPLE, "-o", target, "--direction", "right", "--theme", "dark", "--json")
    assert result.returncode == 0, result.stderr.decode()
    facts = json.loads(result.stdout)
    assert (facts["output"], facts["graph"], facts["nodes"]) == (str(target), "digits", 17)
    assert min(facts["width"], facts["height"], facts["scale"]) >= 1
    assert target.read_bytes().startswith(magic)


@pytest.mark.long
def test_render_takes_an_inner_graph_by_name_or_lists_them(tmp_path):
    target = tmp_path / "function.svg"
    assert workbench("render", SAMPLE, "-o", target, "--graph", "Normalize").returncode == 0
    assert "Cast" in target.read_text(encoding="utf-8")
    result = workbench("render", SAMPLE, "-o", target, "--graph", "nowhere")
    assert result.returncode == 2
    assert "sample.images::Normalize" in result.stderr.decode()
    result = workbench("render", SAMPLE, "-o", tmp_path / "graph.gif")
    assert result.returncode == 2
    assert ".png, .svg, .pdf" in result.stderr.decode()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_and_refuses_nonsense(command, capsys):
    with pytest.raises(SystemExit, match="0"):
        main([command, "--help"])
    shown = capsys.readouterr().out
    assert f"onnx-workbench {command}" in shown
    assert "--json" in shown
    with pytest.raises(SystemExit, match="2"):
        main([command, "--no-such-option"])


@pytest.mark.long
def test_help_lists_every_command_and_version_is_reported():
    text = workbench("--help").stdout.decode()
    assert all(command in text for command in COMMANDS)
    assert workbench("--version").stdout.startswith(b"onnx-workbench 0.")


def test_readme_shows_commands_that_exist():
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"^onnx-workbench (\w+) ", readme, re.MULTILINE))
    assert len(shown) >= 6
    assert shown <= set(COMMANDS)


@pytest.mark.long
def test_a_model_py_of_the_users_own_does_not_get_in_the_way(tmp_path):
    for name in ("model", "exec", "viewer", "resources"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong module')\n")
    result = workbench("info", SAMPLE, cwd=tmp_path)
    assert result.returncode == 0, result.stderr.decode()


LEAVE_EARLY = """
import subprocess, sys
process = subprocess.Popen([sys.executable, *sys.argv[1:]], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
process.stdout.close()
sys.stderr.buffer.write(process.stderr.read())
process.wait()
"""


@pytest.mark.long
def test_a_reader_that_leaves_early_is_no_error_message():
    environment = {**os.environ}
    command = [sys.executable, "-c", LEAVE_EARLY, "-m", "onnx_workbench", "info", str(SAMPLE)]
    result = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert result.stderr == b""


@pytest.mark.long
def test_values_go_to_a_pipe():
    import numpy as np

    result = workbench("run", SAMPLE, "-o", "-")
    assert result.returncode == 0, result.stderr.decode()
    with np.load(io.BytesIO(result.stdout)) as values:
        assert values.files == ["probabilities", "digit"]
    assert workbench("run", SAMPLE, "-o", "-", "--json").returncode == 2


IMPORTED = """
import sys
from onnx_workbench.viewer.cli.main import main
main(sys.argv[1:])
print([name for name in sys.modules if name.startswith(("numpy", "PySide6", "onnx_workbench"))], file=sys.stderr)
"""


@pytest.mark.long
def test_info_imports_little():
    environment = {**os.environ}
    command = [sys.executable, "-c", IMPORTED, "info", str(SAMPLE)]
    result = subprocess.run(command, capture_output=True, env=environment, check=True)
    imported = result.stderr.decode()
    assert "onnx_workbench.model.ir.graph" in imported
    for name in ("numpy", "PySide6", "exec.session", "history.document", "analysis.statistics", "inference"):
        assert f"{name}'" not in imported


@pytest.mark.long
def test_run_imports_no_edits_and_no_operators_of_other_domains():
    command = [sys.executable, "-c", IMPORTED, "run", str(SAMPLE)]
    imported = subprocess.run(command, capture_output=True, check=True).stderr.decode()
    assert "exec.kernels.onnx.math.matrix" in imported
    for name in ("PySide6", "history.document", "kernels.microsoft", "kernels.onnx_ml", "io.text_formats"):
        assert name not in imported, name
