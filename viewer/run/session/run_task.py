"""A run: its options, its state over several tasks, and its results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from onnx_workbench.exec.engine.breakpoints import Breakpoint
from onnx_workbench.exec.engine.stepper import Stepper
from onnx_workbench.exec.errors import LimitError
from onnx_workbench.exec.inputs.recipe import Recipe
from onnx_workbench.exec.results.run_result import RunResult
from onnx_workbench.exec.results.slot_map import Path as CallPath
from onnx_workbench.exec.session import Session
from onnx_workbench.exec.worker.client import RemoteStepper, WorkerSession
from onnx_workbench.model.ir.graph import Node, Value
from onnx_workbench.model.progress import Progress
from onnx_workbench.viewer.run.results.run_record import RunRecord
from onnx_workbench.viewer.tasks.tasks import Task

#: Reasons for the end of a run that cannot be resumed.
_CUT_OFF = ("cancelled", "time limit", "crash")


class ProgressRelay(Progress):
    """Progress of a run over several tasks: forwarded to the current task."""

    def __init__(self, task: Progress) -> None:
        super().__init__()
        self.current = task

    def report(self, done: float, total: float, text: str = "") -> None:
        """Report progress to the task."""
        self.current.report(done, total, text)

    def check(self) -> None:
        """Raise Cancelled if the task was cancelled."""
        self.current.check()

    def cancel(self) -> None:
        """Cancel the task."""
        self.current.cancel()

    @property
    def cancelled(self) -> bool:
        """Whether the task was cancelled."""
        return self.current.cancelled


@dataclass(frozen=True)
class RunRequest:
    """Options of a run. `search_mode`: it pauses at origins of non-finite values, also inside bodies.

    `stepping`: it pauses before the first node, or after the node that follows `behind`, or (`into`) in its body.
    """

    until: Node | None = None
    fresh: bool = False  # do not reuse results of earlier runs
    stepping: bool = False
    behind: Node | None = None
    into: bool = False
    search_mode: Literal["", "origins", "nan"] = ""


@dataclass(eq=False)
class RunTask:
    """A run from start to end; each part between pauses is a separate task."""

    options: RunRequest
    session: Session | WorkerSession
    recipe: Recipe
    breakpoints: tuple[Breakpoint, ...] = ()
    max_tensor: int | None = None  # bytes of a single value
    time_limit: float | None = None  # seconds
    outputs_only: bool = False  # keep only the outputs and `watched`, unless it pauses
    watched: tuple[Value, ...] = ()
    frees_values: bool = False  # what it has computed is not kept if another run replaces it
    feeds: Mapping[str, Any] | None = None  # set when made
    revision: int = 0  # of the document at the snapshot
    task: Task[None] | None = None  # while it computes; GUI thread
    progress: ProgressRelay = field(default_factory=lambda: ProgressRelay(Progress()))
    stepper: Stepper | RemoteStepper | None = None  # set when planned
    result: RunResult | None = None  # of the last finished part
    was_resumed: bool = False
    identity: object = field(default_factory=object)  # identifies the run in its records, without a reference to it

    @property
    def is_whole(self) -> bool:
        """Whether it computes everything without a pause."""
        options = self.options
        pauses = self.breakpoints or options.stepping or options.search_mode or options.behind is not None
        return options.until is None and not pauses

    @property
    def is_waiting(self) -> bool:
        """Whether it is paused and can be resumed."""
        stepper, result = self.stepper, self.result
        is_over = self.task is not None or stepper is None or result is None or result.stopped in _CUT_OFF
        return not (is_over or stepper is None or stepper.done)

    @property
    def next_node(self) -> tuple[CallPath, Node] | None:
        """The node that a paused run computes next, and the call of a function that it is in."""
        return self.stepper.next_node if self.is_waiting and self.stepper is not None else None

    @property
    def last_node(self) -> tuple[CallPath, Node] | None:
        """The node computed last by a paused run, also inside a body, and the function call that it is in."""
        return self.stepper.last_node if self.is_waiting and self.stepper is not None else None

    @property
    def current_node(self) -> int | None:
        """Number of the node that is being computed, as far as is known. Any thread."""
        if isinstance(self.session, WorkerSession):
            at = self.session.at
        else:
            at = self.stepper.next_key if isinstance(self.stepper, Stepper) else None
        return None if at is None else at[1]

    def partial_result(self) -> RunResult | None:
        """Return the values computed so far, None if there are none. Off the GUI thread."""
        if isinstance(self.session, WorkerSession):
            result = self.session.so_far()
        else:  # without `fetch`, which would compute during the run
            result = None if self.stepper is None else replace(self.stepper.result(), fetch=None)
        return result.fill_caches() if result is not None and result.nodes else None

    def record(self, result: RunResult, *, unfinished: bool = False) -> RunRecord:
        """Return a record of its results."""
        return RunRecord(
            result,
            result.state,
            self.revision,
            self.recipe.signature,
            dict(self.feeds or {}),
            is_complete=self.options.until is None and not unfinished and result_is_whole(result),
            unfinished=unfinished,
            run=self.identity,
            was_watched=bool(self.options.search_mode) and result.stopped not in _CUT_OFF,
            was_continued=self.was_resumed,
        )


def result_is_whole(result: RunResult) -> bool:
    """Return whether a run has reached its end, so that its results are complete for their state.

    Not if a limit stopped it, as a run with another limit has more values.
    """
    return not result.stopped and all(failure.kind != LimitError.__name__ for failure in result.failures)
