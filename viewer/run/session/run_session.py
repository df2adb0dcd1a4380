"""The session that runs a document's model: in a worker process, or in this one."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Literal

from onnx_workbench.exec.engine.executor import Observer
from onnx_workbench.exec.engine.request import Request
from onnx_workbench.exec.engine.stepper import Stepper
from onnx_workbench.exec.errors import WorkerUnavailable
from onnx_workbench.exec.results.run_result import RunResult
from onnx_workbench.exec.session import Session
from onnx_workbench.exec.worker.client import RemoteStepper, WorkerSession
from onnx_workbench.exec.worker.run_lock import RunLock
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.ir.graph import Node, Value
from onnx_workbench.model.progress import Progress
from onnx_workbench.viewer.program.settings import MEMORY_LIMIT, RUN_IN_PROCESS, Settings

if TYPE_CHECKING:
    from onnx_workbench.viewer.run.session.run_task import RunTask


#: How a paused run continues: to a breakpoint or the end, by one node, into the body of the next node, or to the end
#: of the current body or call of a function.
Resumption = Literal["continue", "step", "into", "out"]


class RunSession:
    """The session of one document, made on first use.

    Its worker process is optional: by a setting, or if the system cannot start it, runs are computed in this process,
    one at a time.
    """

    def __init__(self, document: Document, settings: Settings) -> None:
        self._document = document
        self._settings = settings
        self._session: Session | WorkerSession | None = None
        self._can_start_worker = True
        self.run_lock = RunLock()  # for runs in this process: a superseded run ends before the next one starts

    @property
    def current(self) -> Session | WorkerSession:
        """The session, made on first use. GUI thread."""
        if self._session is None:
            in_worker = self._settings.get(RUN_IN_PROCESS) and self._can_start_worker
            self._session = WorkerSession(self._document) if in_worker else Session(self._document)
        limit = self._settings.get(MEMORY_LIMIT).removesuffix(" GB")
        self._session.memory_limit = int(limit) << 30 if limit.isdigit() else None
        return self._session

    def node(self, number: int) -> Node | None:
        """Return the node with a number in runs. Any thread."""
        return None if self._session is None else self._session.snapshots.nodes.get(number)

    def value(self, number: int) -> Value | None:
        """Return the value with a number in runs. Any thread."""
        return None if self._session is None else self._session.snapshots.values.get(number)

    def warm_up(self) -> None:
        """Start the worker process in advance, so that the first run need not wait for it."""
        session = self.current
        if isinstance(session, WorkerSession):
            threading.Thread(target=_start, args=(session,), name="warm up", daemon=True).start()

    def run_in_process(self) -> None:
        """Run in this process from now on, as no worker can be started."""
        self._can_start_worker = False
        self.close()

    def close(self) -> None:
        """End the worker process."""
        session, self._session = self._session, None
        if isinstance(session, WorkerSession):
            threading.Thread(target=session.close, name="end the worker").start()

    # -- computing, off the GUI thread -----------------------------------------------------------------------

    def execute(self, run: RunTask, request: Request, observer: Observer) -> RunResult:
        """Plan a run and compute to the first breakpoint or the end; if stepping, only plan it."""
        session, stepping = run.session, run.options.stepping
        if isinstance(session, WorkerSession):
            run.stepper = session.steps(request, progress=run.progress, observer=observer, stepping=stepping)
            _run_past(run)
            return self._result(run.stepper)
        with self.run_lock.acquired(run.progress):
            run.stepper = session.steps(request, progress=run.progress, observer=observer)
            if not stepping:
                run.stepper.resume()
            _run_past(run)
            return self._result(run.stepper)

    def resume(self, run: RunTask, how: Resumption) -> RunResult:
        """Continue a paused run: by one node, to the end of a body, or to the next breakpoint or the end."""
        stepper = run.stepper
        assert stepper is not None
        with self.run_lock.acquired():
            if how == "continue":
                stepper.resume()
            else:
                stepper.step(into=how == "into", out=how == "out")
            return self._result(stepper)

    def perform(self, request: Request, *, progress: Progress) -> RunResult:
        """Perform a run without showing it, after the runs in progress."""
        session = self.current
        if isinstance(session, WorkerSession):
            return session.perform(request, progress=progress)
        with self.run_lock.acquired(progress):
            return self.run_lock.yielding_to_runs(session.perform(request, progress=progress))

    def _result(self, stepper: Stepper | RemoteStepper) -> RunResult:
        """Return the result of a run; values that it recomputes yield to runs."""
        result = stepper.result()
        return (self.run_lock.yielding_to_runs(result) if isinstance(stepper, Stepper) else result).fill_caches()


def _run_past(run: RunTask) -> None:
    """Continue to the node `behind` and one node further, unless an earlier breakpoint stops it."""
    stepper, behind = run.stepper, run.options.behind
    if stepper is None or behind is None:
        return
    stepper.resume()
    last = stepper.last_node
    if last is not None and last[1] is behind:
        stepper.step(into=run.options.into)


def _start(session: WorkerSession) -> None:
    """Start the worker, off the GUI thread. Failures are reported by the next run."""
    with contextlib.suppress(WorkerUnavailable):
        session.start()
