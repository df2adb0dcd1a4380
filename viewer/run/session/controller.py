"""Runs of a document's model: complete, to a node, step by step, to breakpoints, live.

A run is one task, see `RunController._run_model`; the window never waits for it. Its results are stored in
`workspace.results`, also while it runs; its state is shown by signals, in the status line and on the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from PySide6.QtCore import QObject, QTimer

from onnx_workbench.exec.engine.breakpoints import AFTER
from onnx_workbench.exec.engine.request import Request
from onnx_workbench.exec.errors import WorkerUnavailable
from onnx_workbench.exec.inputs.recipe import Recipe
from onnx_workbench.exec.results.node_table import State
from onnx_workbench.exec.results.run_result import RunResult
from onnx_workbench.exec.results.slot_map import Path as CallPath
from onnx_workbench.exec.session import Session
from onnx_workbench.exec.worker.client import WorkerSession
from onnx_workbench.model.ir.graph import Node, Value
from onnx_workbench.model.progress import Progress
from onnx_workbench.model.text.formatting import bytes_text, plural
from onnx_workbench.viewer.run.results.run_record import RunRecord
from onnx_workbench.viewer.run.session.breakpoints import BreakpointList
from onnx_workbench.viewer.run.session.inputs import RunInputs, make_inputs
from onnx_workbench.viewer.run.session.nan_search import NonFiniteNavigator
from onnx_workbench.viewer.run.session.run_progress import RunProgress
from onnx_workbench.viewer.run.session.run_request import make_request, position_of
from onnx_workbench.viewer.run.session.run_session import Resumption, RunSession
from onnx_workbench.viewer.run.session.run_task import RunRequest, RunTask
from onnx_workbench.viewer.run.session.size_search import forget_sizes, search_sizes
from onnx_workbench.viewer.run.session.test_data import TestDataRun
from onnx_workbench.viewer.run.views.presenter import RunPresenter
from onnx_workbench.viewer.run.views.report import RunReporter
from onnx_workbench.viewer.tasks.readers import read_model
from onnx_workbench.viewer.tasks.threads import post

if TYPE_CHECKING:
    from onnx_workbench.model.history.document import Change
    from onnx_workbench.viewer.run.workspace import Workspace


#: Topic of the message that a run keeps much memory.
_KEPT = "keeps"

#: Milliseconds between an edit in Live and its run, unless another edit follows.
_LIVE_DELAY = 120


class RunController(QObject):
    """Controller that runs the main graph of one document. GUI thread only."""

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        self._workspace = workspace
        self.inputs = RunInputs(workspace)
        self.breakpoints = BreakpointList(self)
        self.run_session = RunSession(workspace.document, workspace.settings)
        self._run: RunTask | None = None  # the newest run, while it computes or is paused
        self._ran_to: Node | None = None  # target of the newest run if it was started by `run_to`
        self._feeds: tuple[object, dict[str, Any]] | None = None  # signature of the last recipe, and its values
        self._reporter = RunReporter(workspace)
        self.progress = RunProgress(workspace.tasks, self.run_session, self)
        self.live = False  # every edit runs the affected nodes
        self._live_run = QTimer(self, singleShot=True)  # the run after an edit in Live
        self._live_run.timeout.connect(self.run)
        workspace.results.node_by_number = self.run_session.node
        workspace.results.value_by_number = self.run_session.value
        workspace.results.inputs_now = lambda: self.inputs.recipe().signature
        workspace.changes.changed.connect(self._on_change)
        self.inputs.changed.connect(self._on_inputs)
        self.presenter = RunPresenter(workspace)
        self.overlays = self.presenter.overlays
        self.non_finite_navigator = NonFiniteNavigator(workspace, self)
        self.test_data = TestDataRun(workspace)
        self.progress.finished.connect(self.presenter.finished)
        self.progress.kept_much.connect(self._show_kept)
        self.progress.read.connect(self._show_partial)
        self.breakpoints.changed.connect(workspace.runs_changed)
        workspace.runs_changed.connect(self._mark_breakpoints)

    # -- state -----------------------------------------------------------------------------------------------

    @property
    def session(self) -> Session | WorkerSession:
        """Session that runs the model, made on first use."""
        return self.run_session.current

    @property
    def is_running(self) -> bool:
        """Whether a run is computing."""
        return self._run is not None and self._run.task is not None

    @property
    def is_paused(self) -> bool:
        """Whether a run waits for `step` or `resume`."""
        return self._run is not None and self._run.is_waiting

    @property
    def paused_at(self) -> Node | None:
        """The node that a paused run computes next."""
        following = None if self._run is None else self._run.next_node
        return None if following is None else following[1]

    @property
    def last_node(self) -> tuple[CallPath, Node] | None:
        """The node computed last by a paused run, also inside a body, and the function call that it is in."""
        return None if self._run is None else self._run.last_node

    @property
    def is_searching(self) -> bool:
        """Whether a run of `search_non_finite` is paused at an origin of non-finite values."""
        return self.is_paused and self._run is not None and bool(self._run.options.search_mode)

    @property
    def is_waiting_to_run(self) -> bool:
        """Whether a run is about to start after a change in Live, unless another change follows."""
        return self._live_run.isActive()

    # -- commands --------------------------------------------------------------------------------------------

    def warm_up(self) -> None:
        """Start the worker process in advance, so that the first run need not wait for it."""
        self.run_session.warm_up()

    def run(self, *, fresh: bool = False) -> None:
        """Run everything; `fresh`: without reusing results of earlier runs."""
        self._start(RunRequest(fresh=fresh))

    def run_to(self, node: Node) -> None:
        """Compute a node and its ancestors; ModelError if runs do not compute it."""
        position_of(node, self.inputs.graph)
        self._start(RunRequest(until=node))
        self._ran_to = node

    def search_non_finite(self, search_mode: Literal["origins", "nan"]) -> None:
        """Run to the first origin of NaN (or infinities), also inside bodies, and pause after it; else to the end.

        `NonFiniteNavigator.run_stopped` follows; `resume` continues to the next such node.
        """
        self._start(RunRequest(fresh=True, search_mode=search_mode))

    def step(self, how: Literal["step", "into", "out"] = "step") -> None:
        """Compute the next node of a paused run, or start a run paused before its first node.

        After a run to a node, compute the node after it. "into": pause before the first node of its body instead;
        "out": compute the rest of the current body or call of a function.
        """
        if self._run is not None and self._run.is_waiting:
            self._run.options = replace(self._run.options, search_mode="")
            self._resume(self._run, how)
        elif not self.is_running:
            behind = None if self._ran_to is None else position_of(self._ran_to, self.inputs.graph)[1]
            # A run cannot stop at cached values.
            self._start(RunRequest(stepping=True, fresh=True, behind=behind, into=how == "into"))

    def resume(self) -> None:
        """Continue a paused run to the next breakpoint or the end; start one if none is paused."""
        if self._run is not None and self._run.is_waiting:
            self._resume(self._run, "continue")
        elif not self.is_running:
            self.run()

    def stop(self) -> None:
        """End the run; values computed so far are kept."""
        if self._run is None:
            return
        if self._run.task is not None:
            self._run.task.cancel()  # `_finish` follows
            return
        self._run = None
        self._workspace.set_run_state("Stopped")
        self._workspace.runs_changed.emit()

    def set_live(self, live: bool) -> None:
        """Set whether every edit runs the affected nodes."""
        if live == self.live:
            return
        self.live = live
        if not live:
            self._live_run.stop()
        elif not self._workspace.results.is_up_to_date:
            self._live_run.start(0)
        self._workspace.runs_changed.emit()

    def perform(self, request: Request, *, progress: Progress) -> RunResult:
        """Perform a run without showing it, after the runs in progress. Not on the GUI thread."""
        return self.run_session.perform(request, progress=progress)

    def perform_recipe(
        self, recipe: Recipe, session: Session | WorkerSession, *, time_limit: float | None = None, progress: Progress
    ) -> RunResult:
        """Make inputs and compute the outputs without showing the run. Not on the GUI thread."""
        feeds = make_inputs(session, recipe, progress)

        def request(progress: Progress) -> Request:
            session.prepare(progress)
            return session.request(feeds, values="outputs", time_limit=time_limit)

        return self.perform(read_model(request, progress), progress=progress)

    def show(self, record: RunRecord, text: str) -> None:
        """Show the results of another run, such as a loaded one, and cancel a run in progress; `text`: its state."""
        self._drop_run()
        self._live_run.stop()  # its inputs requested a run, which would replace it
        self._workspace.results.set_result(record)
        self._reporter.show_loaded(record, text)
        self._workspace.runs_changed.emit()
        self._workspace.suggest_panel("tensor")

    def close(self) -> None:
        """End all runs and the worker; the document is being closed."""
        self._live_run.stop()
        self.progress.stop()
        self._run = None
        self.run_session.close()

    # -- a run from its start to its results -----------------------------------------------------------------

    def _start(self, options: RunRequest) -> None:
        """Start a run, replacing a running or paused one."""
        self._ran_to = None
        forget_sizes(self._workspace)
        self._workspace.messages.withdraw(_KEPT)
        self.breakpoints.drop_deleted()
        recipe = self.inputs.recipe()
        self._run = run = RunTask(
            options,
            self.session,
            recipe,
            self.breakpoints.enabled,
            self.inputs.max_tensor or None,
            self.inputs.time_limit or None,
            self.inputs.outputs_only,
            self._workspace.results.pinned,
            feeds=self._feeds[1] if self._feeds is not None and self._feeds[0] == recipe.signature else None,
        )
        self._start_task(run, self._run_model)

    def _start_task(self, run: RunTask, work: Callable[[RunTask, Progress], None]) -> None:
        run.task = self._workspace.tasks.start(
            "Run",
            partial(work, run),
            failed=partial(self._fail, run),
            finished=partial(self._finish, run),
            supersede="run",
        )
        self._workspace.runs_changed.emit()

    def _run_model(self, run: RunTask, progress: Progress) -> None:
        """Make the inputs, take a snapshot of the model, plan and compute. Runs on the thread of the task."""
        run.progress.current = progress
        feeds = run.feeds = make_inputs(run.session, run.recipe, progress) if run.feeds is None else run.feeds
        post(partial(self._show_inputs, run, run.recipe.contradictions(feeds)))
        request = read_model(partial(make_request, run, self._workspace.document), progress)
        post(partial(self._show_begin, run))
        run.result = self.run_session.execute(run, request, self.progress.observe)

    def _show_inputs(self, run: RunTask, contradictions: list[str]) -> None:
        if run.feeds is not None and run is self._run:
            self._feeds = run.recipe.signature, dict(run.feeds)
            self.inputs.set_sizes_from(run.feeds)
            self._reporter.inputs_made(contradictions)

    def _show_begin(self, run: RunTask) -> None:
        if run is self._run:
            self.presenter.start()
            self._workspace.results.mark_started()
            self._workspace.set_run_state("Running…")
            self.progress.start(run)
            self._workspace.runs_changed.emit()

    def _show_kept(self, size: int, nodes: int) -> None:
        """Tell that a run has kept much memory, and offer to keep less."""
        run = self._run
        if run is None or run.outputs_only or not run.is_whole:
            return
        detail = f"{bytes_text(size)} after {plural(nodes, 'node')}. Other values can be freed after their last use."
        choice = ("Keep Outputs and Watched Values", self._keep_less)
        self._workspace.messages.show(
            "info", "This run keeps the values of all nodes", detail, choices=(choice,), topic=_KEPT
        )

    def _keep_less(self) -> None:
        """Run again from the start, freeing values after their last use."""
        if self._run is not None:
            self._run.frees_values = True
        self.inputs.set_outputs_only(True)
        self.run(fresh=True)

    def _show_partial(self, run: RunTask, result: RunResult, fresh: set[Value]) -> None:
        if run is self._run and self.is_running:
            self._workspace.results.show_partial(run.record(result, unfinished=True), fresh)

    def _finish(self, run: RunTask) -> None:
        """Show the results of a run that has ended or paused; if another has replaced it, store them only."""
        run.task = None
        results, result = self._workspace.results, run.result
        if run is not self._run:
            if result is not None and result.counts[State.DONE] and not run.frees_values:
                results.keep(run.record(result))  # an undo may show them
            return
        self.progress.check_kept()
        self.progress.stop()
        if not run.is_waiting:
            self._run = None
        if result is not None:
            results.set_result(run.record(result))
            if run.is_waiting:
                self._show_pause(run, result)
            else:
                self._reporter.ended(result, live=self.live)
                if result.failures and not self.live:
                    search_sizes(self._workspace, run, result.failures[0])
            if run.options.search_mode:
                self.non_finite_navigator.run_stopped()
            self._workspace.suggest_panel("tensor")
        else:
            if results.is_running:
                results.set_result(None)
            self._workspace.set_run_state("Stopped")
        self._workspace.runs_changed.emit()

    def _show_pause(self, run: RunTask, result: RunResult) -> None:
        reason = "" if run.stepper is None else run.stepper.reason
        path, node = run.next_node or ((), None)
        path_behind, _ = run.last_node or ((), None)
        stopped_in = path_behind if reason.startswith(AFTER) else path
        calls = [call for number in stopped_in if (call := self.run_session.node(number)) is not None]
        self._reporter.paused(result, reason, node, calls, live=self.live)
        self._workspace.results.show_call(path or path_behind)
        if node is not None and not run.options.search_mode:
            self._workspace.navigation.reveal(node)

    def _fail(self, run: RunTask, error: BaseException) -> None:
        """Show that a run was not possible. If no worker can be started, run in this process from now on."""
        if run is not self._run:
            return
        self._drop_run()
        if isinstance(error, WorkerUnavailable):
            self._run_in_process(error)
            self._start(run.options)
        else:
            self._reporter.refused(error, live=self.live)
            self._workspace.runs_changed.emit()

    def _run_in_process(self, error: WorkerUnavailable) -> None:
        self.run_session.run_in_process()
        self._workspace.results.clear()  # the values were in the worker, and their ids belong to its session
        self._feeds = None
        reason = error.detail.rstrip(".")
        detail = f"{error.title}: {reason}. A run that hangs cannot be stopped; the window stays usable."
        self._workspace.messages.show("warning", "This model is run inside the program", detail, topic="worker")

    def _drop_run(self) -> None:
        """Cancel the running or paused run; it shows no further results."""
        run, self._run = self._run, None
        if run is not None and run.task is not None:
            run.task.cancel()
        self.progress.stop()
        if self._workspace.results.is_running:
            self._workspace.results.set_result(None)

    def _resume(self, run: RunTask, how: Resumption) -> None:
        def work(run: RunTask, progress: Progress) -> None:
            run.progress.current = progress
            run.result = self.run_session.resume(run, how)

        run.was_resumed = True
        self._workspace.results.is_running = True
        self._start_task(run, work)
        self.progress.start(run)

    # -- edits -----------------------------------------------------------------------------------------------

    def _on_change(self, _change: Change) -> None:
        self._ran_to = None
        if self.is_paused:
            self._run = None  # it belongs to the model before the edit
            self._workspace.runs_changed.emit()
        if not self._run_later():  # a new run reports its state itself
            self._reporter.refresh()

    def _on_inputs(self) -> None:
        self._ran_to = None
        is_known = self._workspace.results.recall(self.inputs.recipe().signature)
        if not self._run_later(is_known=is_known):
            self._reporter.refresh(inputs_changed=not is_known)

    def _mark_breakpoints(self) -> None:
        self.presenter.show_breakpoints(self.breakpoints.enabled, self.paused_at)

    def _run_later(self, *, is_known: bool = True) -> bool:
        """Run soon after an edit in Live; return whether it will: not if it would only repeat the shown results.

        `is_known`: the results for the new inputs are known from an earlier run.
        """
        results = self._workspace.results
        lacks_values = results.shows_part or not results.is_up_to_date
        self._live_run.stop()
        if self.live and (lacks_values or not is_known):
            self._live_run.start(_LIVE_DELAY)
        return self._live_run.isActive()
