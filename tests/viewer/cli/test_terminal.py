"""What the command line does before a command has a say, and progress on a terminal."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
from onnx import TensorProto, helper

from onnx_workbench.exec.inspect.equivalence import Equivalence
from onnx_workbench.viewer.cli import main, terminal


class Terminal(io.StringIO):
    """Standard error, where somebody looks at it."""

    def isatty(self) -> bool:
        return True


def test_progress_is_one_line_that_texts_from_a_file_cannot_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Terminal()
    monkeypatch.setattr(sys, "stderr", seen)
    monkeypatch.setattr(terminal, "_NOTICE_SECONDS", 0.0)
    monkeypatch.setenv("COLUMNS", "40")
    with terminal.progress("Running a model") as progress:
        progress.report(1, 2, f"\x1b[2J\n{'name' * 50}")
    line, erased = seen.getvalue().removeprefix("\r\x1b[K").split("\r")
    assert line.startswith("Running a model  50 % \\x1b[2J\\nname")
    assert len(line) == 39
    assert erased == "\x1b[K"


def test_a_mistyped_command_is_reported_rather_than_a_window_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[list[str]] = []
    monkeypatch.setattr(main, "_open_windows", lambda models, **_: opened.append(models) or 0)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        main.main(["inf", "model.onnx"])
    assert end.value.code == 2
    assert "'inf'; did you mean 'info'?" in capsys.readouterr().err
    Path("inf").touch()
    for models in (["inf"], ["test.onnx"], ["network"], ["-"]):
        assert main.main(models) == 0
        assert opened[-1] == models


def test_a_command_that_needs_more_memory_than_it_may_use_says_so(monkeypatch, capsys):
    def run(_options):
        raise MemoryError

    monkeypatch.setattr("onnx_workbench.viewer.cli.info.run", run)
    assert main.main(["info", "model.onnx"]) == 2
    said = capsys.readouterr().err
    assert "There is not enough memory for this model" in said
    assert "three quarters of this machine's" in said


def test_colors_are_for_terminals_and_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    seen = Terminal()
    monkeypatch.setattr(sys, "stderr", seen)
    terminal.print_message("warning", "first\x1b[2J")
    assert seen.getvalue() == "\x1b[33mwarning\x1b[0m: first\\x1b[2J\n"
    monkeypatch.setenv("NO_COLOR", "1")
    terminal.print_message("warning", "second")
    assert seen.getvalue().endswith("\nwarning: second\n")
    piped = io.StringIO()
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setattr(sys, "stderr", piped)
    terminal.print_message("error", "third")
    assert piped.getvalue() == "error: third\n"


def test_names_are_shortened_on_a_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "encoder/" * 20
    assert terminal.shorten(name, 20) == name
    monkeypatch.setattr(sys, "stdout", Terminal())
    assert len(terminal.shorten(name, 20)) == 20


@pytest.mark.parametrize("others", [[], ["there.onnx"]])
def test_a_missing_file_is_an_error_even_beside_a_window(
    others: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    handed: list[list[str]] = []
    monkeypatch.setattr(
        "onnx_workbench.viewer.program.single_instance.send_to_running_instance",
        lambda names, _goto="": handed.append(names) or True,
    )
    monkeypatch.chdir(tmp_path)
    Path("there.onnx").touch()
    assert main.main(["nosuch.onnx", *others]) == 2
    captured = capsys.readouterr()
    assert captured.err == "error: The file does not exist\n  nosuch.onnx\n"
    assert handed == ([others] if others else [])
    assert bool(captured.out) == bool(others)


@pytest.mark.parametrize(
    "command", ["info", "info --all", "check", "run", "run --stats", "diff OTHER", "compare OTHER", "convert -o OUT"]
)
def test_no_text_of_a_file_controls_the_terminal(tmp_path, monkeypatch, capsys, command):
    text = "\x1b]0;title\x07\x1b[2J\r\x9b31m\u202eevil"
    node = helper.make_node("Neg", ["x"], [f"{text}y"], name=text, doc_string=text, **{text: text})
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [text])]
    made = [helper.make_tensor_value_info(f"{text}y", TensorProto.FLOAT, [3])]
    graph = helper.make_graph([node], text, given, made, [helper.make_tensor(f"{text}w", 8, [1], [text.encode()])])
    model = helper.make_model(graph, producer_name=text, domain=text, doc_string=text, ir_version=9)
    model.opset_import.add(domain=text, version=1)
    model.metadata_props.add(key=text, value=text)
    for name in ("model.onnx", "other.onnx"):
        (tmp_path / name).write_bytes(model.SerializeToString().replace(b"Neg", name[:3].title().encode()))
    monkeypatch.chdir(tmp_path)
    first, *more = command.replace("OTHER", "other.onnx").replace("OUT", "out.onnx").split()
    main.main([first, "model.onnx", *more])
    printed = capsys.readouterr()
    assert not [c for c in printed.out + printed.err if not (c.isprintable() or c == "\n")]


def test_numbers_that_json_lacks_are_texts() -> None:
    facts = {"check": Equivalence(True, 1), "worst": (float("nan"), 1 + 2j)}
    read = json.loads(terminal.json_text(facts), parse_constant=pytest.fail)
    assert read["check"]["snr"] == "inf"
    assert read["worst"] == ["nan", "(1+2j)"]
