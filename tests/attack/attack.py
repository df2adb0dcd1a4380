"""Attacks on the commands: every file through check and another command, and what came of it in figures."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from onnx_workbench.model.budget import COMPARISON_SECONDS
from tests.attack.hostile_files import HostileFile

HANG = 10.0  # seconds of the processor that no command may take for one of these files
LARGE = 1 << 30  # bytes that no command may take
_SECONDS = 60.0  # after which one is killed
_WHERE = re.compile(r"byte \d|line \d|›|\bin \w|'|\"|/|\d", re.IGNORECASE)

COMMANDS = (
    "info FILE", "run FILE --time-limit 2 --memory-limit 200M", "convert FILE -o out.onnx", "simplify FILE -o out.onnx",
    "infer FILE -o out.onnx", "diff FILE FILE", "convert FILE -o out.onnxtxt", "convert FILE --opset 18 -o out.onnx",
    "convert FILE --functions inline -o out.onnx",
    "run FILE -o out.npz --values all --time-limit 2 --memory-limit 200M",
)  # fmt: skip


@dataclass
class Figures:
    """What came of an attack."""

    tried: int = 0
    commands: int = 0
    crashes: list[str] = field(default_factory=list)
    hangs: list[str] = field(default_factory=list)
    large: list[str] = field(default_factory=list)
    tracebacks: list[str] = field(default_factory=list)
    broken: int = 0
    unnamed: list[str] = field(default_factory=list)
    categories: Counter[str] = field(default_factory=Counter)

    @property
    def faults(self) -> list[str]:
        """All that must not be."""
        return [*self.crashes, *self.hangs, *self.large, *self.tracebacks]

    @property
    def named(self) -> float:
        """Share of the broken files of which a check says what is wrong, and where."""
        return 1 - len(self.unnamed) / max(1, self.broken)

    def __str__(self) -> str:
        found = {"crashes": self.crashes, "hangs": self.hangs, "over 1 GB": self.large, "tracebacks": self.tracebacks}
        counts = ", ".join(f"{name} {len(cases)}" for name, cases in found.items())
        return f"{self.tried} files, {self.commands} commands: {counts}; named {self.named:.1%} of {self.broken}"


class Attack:
    """Runs commands on files with limits. A context, which ends its process."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.figures = Figures()
        self._folder = folder
        self._rng = random.Random(seed)
        root = str(Path(__file__).parents[2])
        command = [sys.executable, "-m", "tests.attack.server"]
        self._server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._server.stdin is not None
        self._server.stdin.close()
        self._server.wait()
        assert self._server.stdout is not None
        self._server.stdout.close()

    def try_file(self, hostile: HostileFile) -> None:
        """Check a file, and do something else with it."""
        figures = self.figures
        figures.tried += 1
        figures.categories[hostile.category] += 1
        name = self._write(hostile)
        words = ["check", name, "--json"]
        answer = self._run(words, hostile)
        if hostile.broken:
            figures.broken += 1
            if not _is_named(answer):
                figures.unnamed.append(self._as_text(words, hostile, answer))
        other = "run FILE --time-limit 2" if hostile.arguments else self._rng.choice(COMMANDS)
        self._run([*other.replace("FILE", name).split(), *hostile.arguments], hostile)

    def try_commands(self, hostile: HostileFile, commands: Sequence[str]) -> None:
        """Try these commands on a file."""
        self.figures.tried += 1
        name = self._write(hostile)
        for command in commands:
            self._run(command.replace("FILE", name).split(), hostile)

    def _write(self, hostile: HostileFile) -> str:
        for path in self._folder.iterdir():
            path.unlink()
        name = f"hostile{hostile.suffix}"
        (self._folder / name).write_bytes(hostile.content)
        for beside, content in hostile.beside.items():
            (self._folder / beside).write_bytes(content)
        return name

    def _run(self, words: list[str], hostile: HostileFile) -> dict[str, Any]:
        figures = self.figures
        figures.commands += 1
        request = {"words": words, "folder": str(self._folder), "seconds": _SECONDS}
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        answer: dict[str, Any] = json.loads(self._server.stdout.readline())
        report = self._as_text(words, hostile, answer)
        runs_it = words[0] in ("convert", "simplify")  # endless models too, for so long
        limit = HANG + (COMPARISON_SECONDS if runs_it else 0)
        if answer["code"] is None or answer["busy"] > limit:
            figures.hangs.append(report)
        elif answer["code"] < 0:
            figures.crashes.append(report)
        elif answer["code"] not in (0, 1, 2) or "Traceback (most recent call last)" in answer["err"]:
            figures.tracebacks.append(report)
        if answer["memory"] > LARGE:
            figures.large.append(report)
        return answer

    def _as_text(self, words: list[str], hostile: HostileFile, answer: dict[str, Any]) -> str:
        end = answer["err"].strip()[-300:]
        took = f"{answer['busy']:.1f} s busy, {answer['seconds']:.1f} s, {answer['memory'] >> 20} MB"
        return f"#{self.figures.tried} {hostile.category}: {' '.join(words)}: exit {answer['code']}, {took}: {end}"


def _is_named(answer: dict[str, Any]) -> bool:
    """Return whether a check found something wrong and said where."""
    if answer["code"] == 2:
        return bool(_WHERE.search(answer["err"]))
    try:
        problems = json.loads(answer["out"])
    except ValueError:
        return False
    return any(p["severity"] in ("error", "warning") and p["place"] for p in problems)
