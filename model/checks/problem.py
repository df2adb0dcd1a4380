"""The result of a check: the broken rule, its location, and a fix."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from onnx_workbench.model.history.document import Transaction

Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True, slots=True)
class Fix:
    """An automatic repair as an ordinary edit; `title` becomes the history entry."""

    title: str
    apply: Callable[[Transaction], None]


@dataclass(frozen=True, slots=True)
class Problem:
    """A broken rule. `rule` is its stable short name, `place` the model object to show."""

    rule: str
    severity: Severity
    message: str
    place: Any = field(compare=False)
    detail: str = ""
    fix: Fix | None = field(default=None, compare=False)


def error(rule: str, message: str, place: Any, detail: str = "", fix: Fix | None = None) -> Problem:
    """Report that the model is not valid ONNX."""
    return Problem(rule, "error", message, place, detail, fix)


def warning(rule: str, message: str, place: Any, detail: str = "", fix: Fix | None = None) -> Problem:
    """Report something valid that is probably unintended."""
    return Problem(rule, "warning", message, place, detail, fix)


def info(rule: str, message: str, place: Any, detail: str = "", fix: Fix | None = None) -> Problem:
    """Report something valid and harmless."""
    return Problem(rule, "info", message, place, detail, fix)


def errors_first(problems: Iterable[Problem]) -> list[Problem]:
    """Sort by severity; stable."""
    kinds: dict[Severity, list[Problem]] = {severity: [] for severity in get_args(Severity)}
    for problem in problems:
        kinds[problem.severity].append(problem)
    return [problem for kind in kinds.values() for problem in kind]
