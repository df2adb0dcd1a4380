"""Progress on a terminal."""

from __future__ import annotations

import io
import sys

import pytest

from viewer.commands import terminal


class Terminal(io.StringIO):
    """Standard error, where somebody looks at it."""

    def isatty(self) -> bool:
        return True


def test_progress_is_one_line_that_texts_from_a_file_cannot_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Terminal()
    monkeypatch.setattr(sys, "stderr", seen)
    monkeypatch.setattr(terminal, "_PATIENCE", 0.0)
    monkeypatch.setenv("COLUMNS", "40")
    with terminal.progress("Running a model") as progress:
        progress.report(1, 2, f"\x1b[2J\n{'name' * 50}")
    line, erased = seen.getvalue().removeprefix("\r\x1b[K").split("\r")
    assert line.startswith("Running a model  50 % \\x1b[2J\\nname")
    assert len(line) == 39
    assert erased == "\x1b[K"
