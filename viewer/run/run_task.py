"""One run: its options, its continuation over several tasks, and its results so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from onnx_workbench.exec.engine.stepper import Request
from onnx_workbench.exec.errors import LimitError
from onnx_workbench.exec.inputs.recipe import Recipe
from onnx_workbench.exec.results.run_result import RunResult
from onnx_workbench.model.ir.graph import Node
from onnx_workbench.model.progress import Progress
from onnx_workbench.viewer.run.results import RunRecord

#: Why a run ended that cannot go on.
CUT_OFF = ("cancelled", "time limit", "crash")

Mode = Literal["run", "step"]


class ProgressRelay(Progress):
    """Progress of a run over several tasks: forwarded to the current task."""

    def __init__(self, task: Progress) -> None:
        super().__init__()
        self.now = task

    def report(self, done: float, total: float, text: str = "") -> None:
        """Report progress to the task."""
        self.now.report(done, total, text)

    def check(self) -> None:
        """Raise Cancelled when the task was cancelled."""
        self.now.check()

    def cancel(self) -> None:
        """Cancel the task."""
        self.now.cancel()

    @property
    def cancelled(self) -> bool:
        """Return whether the task was cancelled."""
        return self.now.cancelled


@dataclass(frozen=True)
class RunOptions:
    """Options of a run. `seeking`: it stops where `sought` begins, and calls this when it stops or ends."""

    mode: Mode = "run"
    until: Node | None = None
    fresh: bool = False
    seeking: Callable[[], object] | None = None
    sought: Literal["beginnings", "nan"] = "beginnings"


@dataclass(eq=False)
class RunTask:
    """One run from its start to its last step."""

    serial: int
    request: Request
    recipe: Recipe
    feeds: Mapping[str, Any]
    revision: int
    state: int
    aim: RunOptions
    relay: ProgressRelay | None = None
    stepper: Any = None  # a Stepper or RemoteStepper, once planned
    result: RunResult | None = None
    went_on: bool = False  # after it had waited

    def record(self, result: RunResult, *, unfinished: bool = False) -> RunRecord:
        """Record its results at some time."""
        whole = self.aim.until is None and not unfinished and result_is_whole(result)
        found = RunRecord(
            result,
            self.state,
            self.revision,
            self.recipe.signature,
            dict(self.feeds),
            whole,
            unfinished=unfinished,
            run=self.serial,
        )
        found.was_watched = self.aim.seeking is not None and result.stopped not in CUT_OFF
        found.went_on = self.went_on
        return found


def result_is_whole(result: RunResult) -> bool:
    """Return whether a run came to its end, so that it can stand for the state it was computed for.

    Not if a limit stopped it: with another one there is more.
    """
    return not result.stopped and all(failure.kind != LimitError.__name__ for failure in result.failures)
