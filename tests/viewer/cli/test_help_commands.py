"""Help, shell completion and the manual page, all made from the arguments of the commands."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from onnx_workbench.viewer.cli.commands import COMMANDS, HELP_COMMANDS, command_parser, options_of
from onnx_workbench.viewer.cli.main import main

OPTIONS = [
    (name, flag)
    for name in COMMANDS | HELP_COMMANDS
    for action in options_of(command_parser(name))
    for flag in action.option_strings
]


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 0
    return capsys.readouterr().out


def test_help_shows_a_command_or_all(capsys: pytest.CaptureFixture[str]) -> None:
    everything = printed(capsys, "help")
    assert all(f"  {name} " in everything for name in COMMANDS | HELP_COMMANDS)
    assert "--time-limit" in printed(capsys, "help", "run")
    with pytest.raises(SystemExit) as ended:
        main(["help", "nosuch"])
    assert ended.value.code == 2


def test_the_version_has_a_short_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "-V") == printed(capsys, "--version")


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (["ru"], {"run"}),
        (["--ver"], {"--version"}),
        (["model"], {"model.onnx"}),
        (["run", "--pro"], {"--profile"}),
        (["info", "--by", ""], {"operator", "scope", "node"}),
        (["help", "di"], {"diff"}),
        (["completion", "z"], {"zsh"}),
        (["convert", "--precision", "b"], {"bfloat16"}),
        (["run", "mod"], set()),  # left to the shell: names of files
    ],
)
def test_bash_completes(
    line: list[str], expected: set[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = printed(capsys, "completion", "bash")
    (tmp_path / "model.onnx").touch()
    words = " ".join(f"'{word}'" for word in ["onnx-workbench", *line])
    ask = f"COMP_WORDS=({words}); COMP_CWORD={len(line)}; _onnx_workbench; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    done = subprocess.run(
        ["bash", "--norc", "-uc", f"{script}\n{ask}"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert set(done.stdout.split()) == expected
    assert not done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_is_reported_of_every_option(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    script = printed(capsys, "completion", shell)
    for name in COMMANDS | HELP_COMMANDS:
        assert re.search(rf"\b{name}\b", script)
    for _, flag in OPTIONS:
        assert (f"-l {flag[2:]} " if shell == "fish" and flag.startswith("--") else flag[1:]) in script


def test_words_of_zsh_and_fish_are_quoted(capsys: pytest.CaptureFixture[str]) -> None:
    for shell in ("zsh", "fish"):
        for line in printed(capsys, "completion", shell).splitlines():
            bare = re.sub(r"\\.", "", line) if shell == "fish" else line.replace("'\\''", "")
            assert bare.count("'") % 2 == 0, line


def test_the_manual_page_has_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    page = printed(capsys, "man").replace("\\-", "-")
    for name in COMMANDS | HELP_COMMANDS:
        assert f".SS {name}\n" in page
    for _, flag in OPTIONS:
        assert f"\\fB{flag}\\fR" in page


@pytest.mark.skipif(shutil.which("groff") is None, reason="needs groff")
def test_the_manual_page_is_formatted_without_warnings(capsys: pytest.CaptureFixture[str]) -> None:
    page = printed(capsys, "man")
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww"], input=page, capture_output=True, text=True, check=True, encoding="utf-8"
    )
    assert done.stderr == ""
    assert "seconds" in done.stdout
