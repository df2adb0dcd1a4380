"""`diff` on the command line, and as git's difftool and textconv."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from onnx_workbench.model.edits import attributes, nodes
from onnx_workbench.model.io.writer.save import save
from onnx_workbench.viewer.cli.main import main
from tests.model import builders

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def pair(tmp_path):
    """A model and its edited copy."""
    document = builders.document()
    old, new = tmp_path / "old.onnx", tmp_path / "new.onnx"
    save(document.model, old)
    with document.edit("Edit") as edit:
        attributes.set_attribute(edit, builders.node(document, "fourth"), "axis", 0)
        nodes.rename_node(edit, builders.node(document, "second"), "other")
    save(document.model, new)
    return str(old), str(new)


def test_text_and_status(pair, capsys):
    assert main(["diff", *pair]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "= renamed node Relu other, name, second → other",
        "~ changed node Softmax fourth, attribute axis, 1 → 0",
        "2 differences: 1 renamed, 1 changed",
    ]
    assert main(["diff", pair[0], pair[0]]) == 0
    assert capsys.readouterr().out == "no differences\n"
    assert main(["diff", pair[0], "nowhere.onnx"]) == 2
    assert main(["diff", pair[0]]) == 2


def test_json(pair, capsys):
    assert main(["diff", "--json", *pair]) == 1
    report = json.loads(capsys.readouterr().out)["differences"]
    assert [(d["kind"], d["aspect"], d["before"], d["after"]) for d in report] == [
        ("renamed", "name", "second", "other"),
        ("changed", "attribute axis", "1", "0"),
    ]


def test_kinds_can_be_left_out(pair, capsys):
    assert main(["diff", "--ignore", "renamed", *pair]) == 1
    assert "renamed" not in capsys.readouterr().out


def test_summary_lines_stay_where_nothing_changes(pair, capsys):
    texts = []
    for name in pair:
        assert main(["diff", "--summary", name]) == 0
        texts.append(capsys.readouterr().out.splitlines())
    changed = [(a, b) for a, b in zip(*texts, strict=True) if a != b]
    assert changed == [
        ("  [second] r = Relu(a)", "  [other] r = Relu(a)"),
        ("  [fourth] y = Softmax<axis=1>(c)", "  [fourth] y = Softmax<axis=0>(c)"),
    ]


def git(folder: Path, *arguments: str) -> str:
    """What git says."""
    done = subprocess.run(
        ["git", "-c", "user.name=n", "-c", "user.email=e", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.fixture
def repository(tmp_path):
    """One with the very configuration that the manual names, with the interpreter of the tests for the program."""
    lines = [line.strip() for line in (ROOT / "docs" / "how-to" / "git-diff.md").read_text("utf-8").splitlines()]
    config = [line for line in lines if line.startswith("git config")]
    assert len(config) == 2
    wrapper = tmp_path / "onnx-workbench"
    start = "import sys; from onnx_workbench.viewer.cli.main import main; sys.exit(main(sys.argv[1:]))"
    wrapper.write_text(f'#!/bin/sh\nexec {sys.executable} -c {shlex.quote(start)} "$@"\n', "utf-8")
    wrapper.chmod(0o755)
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q")
    for line in config:
        command = line.replace("--global ", "").replace("onnx-workbench", str(wrapper))
        subprocess.run(["sh", "-c", command], cwd=folder, check=True)
    (folder / ".gitattributes").write_text("*.onnx diff=onnx\n", "utf-8")
    return folder


needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


@pytest.mark.long
@needs_git
def test_git_shows_models_as_text_and_with_the_tool(pair, repository):
    shutil.copy(pair[0], repository / "m.onnx")
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "first")
    shutil.copy(pair[1], repository / "m.onnx")
    shown = git(repository, "diff")
    assert "-  [fourth] y = Softmax<axis=1>(c)" in shown
    assert "+  [fourth] y = Softmax<axis=0>(c)" in shown
    assert "attribute axis, 1 → 0" in git(repository, "difftool", "-y", "-t", "onnx")


@pytest.mark.long
@needs_git
def test_git_goes_on_behind_a_file_that_is_no_model(pair, repository):
    """It ended with the first of them, as it does where it is given no text."""
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"4d" * 32 + b"\nsize 12345\n"
    whole = Path(pair[0]).read_bytes()
    for name, content in {"a": b"", "b": whole, "c": whole, "d": whole}.items():
        (repository / f"{name}.onnx").write_bytes(content)
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "first")
    for name, content in {"a": whole, "b": pointer, "c": b"no model"}.items():
        (repository / f"{name}.onnx").write_bytes(content)
    shutil.copy(pair[1], repository / "d.onnx")
    shown = git(repository, "diff")
    assert "-error: This is an empty file, not an ONNX model" in shown
    assert "+error: This is a Git LFS pointer, not an ONNX model" in shown
    assert "+error: This is plain text" in shown
    assert "+  [fourth] y = Softmax<axis=0>(c)" in shown


def test_the_text_of_a_file_that_is_no_model_says_why(tmp_path, capsys):
    path = tmp_path / "m.onnx"
    path.write_bytes(b"")
    assert main(["diff", "--summary", str(path)]) == 0
    assert capsys.readouterr().out.startswith("error: This is an empty file")
    assert main(["diff", str(path), str(path)]) == 2
    assert main(["diff", "--summary", str(tmp_path / "nowhere.onnx")]) == 2


def test_the_text_of_a_damaged_model_names_the_damage(pair, tmp_path, capsys):
    path = tmp_path / "m.onnx"
    path.write_bytes(Path(pair[0]).read_bytes()[:-20])
    assert main(["diff", "--summary", str(path)]) == 0
    first, *rest = capsys.readouterr().out.splitlines()
    assert first.startswith("problem ")
    assert "  [first] a = Mul(x, w)" in rest
