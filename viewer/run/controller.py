"""Background runs of a document's model: whole, to a node, step by step, to breakpoints, live.

A run happens in a warm worker process (or, by a setting or where the system refuses one, in a thread of this one);
the window never waits. Its results go to `workspace.results`, also while it goes on; its state is shown by signals,
in the status line and on the graph.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from PySide6.QtCore import QObject, QTimer, Signal

from onnx_workbench.exec.engine.breakpoints import Breakpoint
from onnx_workbench.exec.engine.stepper import Request, Stepper
from onnx_workbench.exec.errors import WorkerUnavailable
from onnx_workbench.exec.inputs.recipe import Recipe
from onnx_workbench.exec.results.node_table import State
from onnx_workbench.exec.results.run_result import RunResult
from onnx_workbench.exec.results.slot_map import Path as CallPath
from onnx_workbench.exec.session import Session
from onnx_workbench.exec.worker.client import WorkerSession
from onnx_workbench.exec.worker.run_lock import RunLock
from onnx_workbench.model.analysis.call_graph import callers_of
from onnx_workbench.model.analysis.topology import upstream
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.graph import Function, Node, Value
from onnx_workbench.model.progress import Progress
from onnx_workbench.viewer.core.settings import RUN_IN_PROCESS
from onnx_workbench.viewer.core.tasks import Task
from onnx_workbench.viewer.run.breakpoints import Breakpoints
from onnx_workbench.viewer.run.edge_notes import EdgeNotes
from onnx_workbench.viewer.run.inputs import RunInputs, make_inputs
from onnx_workbench.viewer.run.nan_search import NonFiniteNavigator
from onnx_workbench.viewer.run.node_progress import NodeProgress
from onnx_workbench.viewer.run.nonfinite_warning import NonFiniteWarning
from onnx_workbench.viewer.run.overlays import Overlays
from onnx_workbench.viewer.run.partial_results import PartialResults
from onnx_workbench.viewer.run.report import RunReporter
from onnx_workbench.viewer.run.results import RunRecord
from onnx_workbench.viewer.run.run_marks import RunMarks
from onnx_workbench.viewer.run.run_task import CUT_OFF, ProgressRelay, RunOptions, RunTask
from onnx_workbench.viewer.run.snapshot_preparation import SnapshotPreparation
from onnx_workbench.viewer.run.test_data import TestDataRun

if TYPE_CHECKING:
    from onnx_workbench.model.history.document import Change
    from onnx_workbench.viewer.run.workspace import Workspace

#: Milliseconds between an edit and the run it starts, so that typing starts one run, not five.
_LIVE_DELAY = 120


class RunController(QObject):
    """Controller that runs the main graph of one document. GUI thread only."""

    state_changed = Signal()  # running, paused, live or breakpoints
    nodes_finished = Signal(object)  # list[Node] that have been computed; not all that the end of a run overtakes

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        self._workspace = workspace
        self.inputs = RunInputs(workspace)
        self.breakpoints = Breakpoints(self)
        self.live = False
        self._session: Session | WorkerSession | None = None
        self._serial = 0
        self._task: Task[Any] | None = None
        self._run: RunTask | None = None  # going on, or waiting at a breakpoint
        self._feeds: tuple[object, dict[str, Any]] | None = None
        self._tell = RunReporter(workspace)
        self._preparing = SnapshotPreparation(workspace, self)
        self._so_far = PartialResults(workspace.tasks, self._value, self)
        self._can_start_worker = True
        self._turn = RunLock()  # of runs in this process: one that is superseded ends before the next
        self._finished = NodeProgress(self._node, self)
        self._finished.told.connect(self.nodes_finished)
        self._live_timer = QTimer(self, singleShot=True, interval=_LIVE_DELAY)
        self._live_timer.timeout.connect(self._run_live)
        workspace.results.node_by_number = self._node
        workspace.results.value_by_number = self._value
        workspace.results.inputs_now = lambda: self.inputs.recipe().signature
        workspace.changes.changed.connect(self._on_change)
        self.inputs.changed.connect(self._on_inputs)
        self.marks = RunMarks(workspace)
        self.alarm = NonFiniteWarning(workspace)
        self.hunt = NonFiniteNavigator(workspace)
        self.overlays = Overlays(workspace)
        self.edge_notes = EdgeNotes(workspace)
        self.testing = TestDataRun(workspace)
        self.nodes_finished.connect(self.marks.finished)
        self.breakpoints.changed.connect(self.state_changed)
        self.state_changed.connect(lambda: self.marks.show_stops(self.breakpoints.awake, self.paused_at))
        self.state_changed.connect(workspace.runs_changed)

    # -- what there is ---------------------------------------------------------------------------------------

    @property
    def session(self) -> Session | WorkerSession:
        """Session that runs the model; started on first use."""
        if self._session is None:
            document = self._workspace.document
            own = self._workspace.settings.get(RUN_IN_PROCESS) and self._can_start_worker
            self._session = WorkerSession(document) if own else Session(document)
        return self._session

    def warm_up(self) -> None:
        """Start the worker process now, so that the first run need not wait for it."""
        session = self.session
        if isinstance(session, WorkerSession):
            threading.Thread(target=_start, args=(session,), name="warm up", daemon=True).start()

    @property
    def is_running(self) -> bool:
        """Return whether something is being computed."""
        return self._task is not None or self._preparing.running

    @property
    def is_waiting_to_run(self) -> bool:
        """Return whether a change in Live is about to be run, unless another follows."""
        return self._live_timer.isActive()

    @property
    def is_paused(self) -> bool:
        """Return whether a run waits for `step` or `go_on`."""
        run = self._run
        return self._task is None and run is not None and run.stepper is not None and not run.stepper.done

    @property
    def paused_at(self) -> Node | None:
        """The node that is computed next when a run waits."""
        if not self.is_paused or self._run is None:
            return None
        following = self._run.stepper.next_node
        return None if following is None else following[1]

    def _node(self, number: int) -> Node | None:
        return None if self._session is None else self._session.snapshots.nodes.get(number)

    def _value(self, number: int) -> Value | None:
        return None if self._session is None else self._session.snapshots.values.get(number)

    def prepare(self, then: Callable[[], object]) -> None:
        """Call back once results can map every value and node of the current model; a running run ends."""
        self._end_what_runs()
        session = self.session

        def prepared() -> None:
            session.prepare()  # where that takes no time, nothing was done yet
            then()

        self._preparing.start(session, prepared)

    def show(self, result: RunResult, feeds: dict[str, Any], text: str) -> None:
        """Show what a run gave that was not made here, for these inputs; `text` is the state then."""
        self._end_what_runs()
        document, signature = self._workspace.document, self.inputs.recipe().signature
        state, revision = document.current.id, document.revision
        record = RunRecord(result, state, revision, signature, feeds, whole=False, loaded=True, run=object())
        self._live_timer.stop()  # in Live its inputs began a run, which would take its place at once
        self._workspace.results.take(record)
        self._tell.shown(record, text)
        self.state_changed.emit()
        self._workspace.offer("tensor")

    def _end_what_runs(self) -> None:
        if self.is_running or self.is_paused:
            self._serial += 1
            self.stop()
            self._over()
            self._workspace.results.take(None)

    def perform(self, request: Request, *, progress: Progress) -> RunResult:
        """A run that is not shown, after those that go on. Off the GUI thread."""
        session = self.session
        if isinstance(session, WorkerSession):
            return session.perform(request, progress=progress)
        with self._turn.taken(progress):
            return self._turn.giving_way(session.perform(request, progress=progress))

    # -- starting --------------------------------------------------------------------------------------------

    def run(self, *, fresh: bool = False) -> None:
        """Run everything; `fresh`: compute also what an earlier run has computed."""
        self._start(RunOptions(fresh=fresh))

    def seek_non_finite(self, sought: Literal["beginnings", "nan"], then: Callable[[], object]) -> None:
        """Run to where NaN (or an infinity) begins, be it inside a body, and wait behind it; else to the end.

        `then` is called when the run waits or has ended.
        """
        self._start(RunOptions(fresh=True, seeking=then, sought=sought))

    def seek_on(self) -> None:
        """Let a run that waits for `seek_non_finite` go on to where it begins next, or to the end."""
        if self.is_seeking:
            self._continue(one=False)

    @property
    def is_seeking(self) -> bool:
        """Return whether a run waits where something that is not finite begins."""
        return self.is_paused and self._run is not None and self._run.aim.seeking is not None

    @property
    def last_node(self) -> tuple[CallPath, Node] | None:
        """The node that a run that waits has computed last, be it in a body, and the call that it is in."""
        run = self._run
        found: tuple[CallPath, Node] | None = run.stepper.last_node if self.is_paused and run is not None else None
        return found

    def run_to(self, node: Node) -> None:
        """Compute what a node needs, and the node."""
        self._place_of(node)
        self._start(RunOptions(until=node))

    def step(self) -> None:
        """Compute the next node of a run that waits, or start one that waits before its first node."""
        if self.is_paused:
            if self._run is not None:  # who goes step by step hunts no more
                self._run.aim = replace(self._run.aim, seeking=None)
            self._continue(one=True)
        elif not self.is_running:
            self._start(RunOptions("step", fresh=True))  # what is kept could not be stopped at

    def go_on(self) -> None:
        """Let a run that waits go on to the next breakpoint or the end; start one if none waits."""
        if self.is_paused:
            self._continue(one=False)
        elif not self.is_running:
            self.run()

    def stop(self) -> None:
        """End the run; what it computed so far stays."""
        if self._preparing.running:
            self._preparing.stop()
            if self._task is not None:
                self._task.cancel()
            self._give_up()
            self.state_changed.emit()
        elif self._task is not None:
            self._task.cancel()
        elif self._run is not None:
            self._run = None
            self._workspace.set_run_state("Stopped")
            self.state_changed.emit()

    def _start(self, aim: RunOptions) -> None:
        if self.is_paused:
            self._run = None
        self._serial += 1
        serial = self._serial
        recipe = self.inputs.recipe()

        def go(feeds: dict[str, Any]) -> None:
            self._feeds = recipe.signature, feeds
            self.inputs.take_sizes(feeds)
            self._tell.inputs_made(recipe.contradictions(feeds))
            if serial == self._serial:
                self._preparing.start(self.session, partial(self._perform, aim, recipe, feeds))

        self._preparing.stop()
        if self._feeds is not None and self._feeds[0] == recipe.signature:
            go(self._feeds[1])
        else:
            session = self.session
            self._task = self._workspace.tasks.start(
                "Make the inputs",
                lambda progress: make_inputs(session, recipe, progress),
                done=go,
                failed=lambda error: self._refused(error, serial),
                finished=lambda: self._settled(serial),
                supersede="run",
            )
            self.state_changed.emit()

    def _perform(self, aim: RunOptions, recipe: Recipe, feeds: dict[str, Any]) -> None:
        document = self._workspace.document
        try:
            request = self._request(feeds, aim)
        except ModelError as error:
            self._refused(error, self._serial)
            return
        run = RunTask(self._serial, request, recipe, feeds, document.revision, document.current.id, aim)
        self._run = run
        self._workspace.results.begin()
        self._workspace.set_run_state("Running…")
        self._launch(run, lambda progress: self._plan_and_go(run, progress))

    def _request(self, given: dict[str, Any], aim: RunOptions) -> Request:
        inputs, until = self.inputs, aim.until
        path, last = ((), None) if until is None else self._place_of(until)
        self.breakpoints.drop_deleted()
        stops = self.breakpoints.awake if aim.seeking is None else (Breakpoint(condition=aim.sought),)
        request = self.session.request(
            given,
            seed=inputs.seed,
            memory_limit=inputs.memory_limit or None,
            time_limit=inputs.time_limit or None,
            until=last,
            path=path,
            breakpoints=() if until is not None else stops,
            fresh=aim.fresh,
        )
        return request if last is None or path else self._with_upstream(request, last)

    def _with_upstream(self, request: Request, node: Node) -> Request:
        """The request of a run to a node, keeping what it computes on the way."""
        values = [v for v in upstream([node]) if isinstance(v, Value) and v.graph is self.inputs.graph]
        values += [v for v in node.outputs if v is not None]
        keys = tuple(((), v.id) for v in values if v.producer is not None)
        return replace(request, options=replace(request.options, until=None, values=keys, outputs=False))

    def _launch(self, run: RunTask, work: Callable[[Progress], None]) -> None:
        self._finished.start(run)
        self._workspace.results.is_running = True
        show = partial(self._see, run)
        self._so_far.start(lambda _progress: self._look(run), show, lambda: self._count(run))
        self._task = self._workspace.tasks.start(
            "Run",
            work,
            failed=lambda error: self._failed(error, run),
            finished=lambda: self._ended(run),
            supersede="run",
        )
        self.state_changed.emit()

    def _plan_and_go(self, run: RunTask, progress: Progress) -> None:
        """Off the GUI thread."""
        session = self._session
        assert session is not None
        run.relay, observe = ProgressRelay(progress), self._finished.observe
        if isinstance(session, WorkerSession):
            stepping = run.aim.mode == "step"
            run.stepper = session.steps(run.request, progress=run.relay, observer=observe, stepping=stepping)
            run.result = run.stepper.result().work_out()
            return
        with self._turn.taken(progress):
            run.stepper = session.steps(run.request, progress=run.relay, observer=observe)
            if run.aim.mode == "run":
                run.stepper.go_on()
            self._take_result(run)

    def _take_result(self, run: RunTask) -> None:
        """Take the result, off the GUI thread; reading it may compute values again while no run waits."""
        result = run.stepper.result()
        run.result = (self._turn.giving_way(result) if isinstance(run.stepper, Stepper) else result).work_out()

    def _continue(self, *, one: bool) -> None:
        run = self._run
        assert run is not None
        run.went_on = True

        def work(progress: Progress) -> None:
            assert run.relay is not None
            run.relay.now = progress
            with self._turn.taken():
                if one:
                    run.stepper.step()
                else:
                    run.stepper.go_on()
                self._take_result(run)

        self._launch(run, work)

    # -- ending ----------------------------------------------------------------------------------------------

    def _refused(self, error: BaseException, serial: int) -> None:
        if serial != self._serial:
            return
        self._over()
        self._tell.refused(error, live=self.live)
        if self._workspace.results.is_running:
            self._workspace.results.take(None)
        self.state_changed.emit()

    def _over(self) -> None:
        self._task = self._run = None
        self._finished.stop()
        self._so_far.stop()

    def _failed(self, error: BaseException, run: RunTask) -> None:
        """The task of a run raised. Where there can be no worker process, run here from now on."""
        if not isinstance(error, WorkerUnavailable) or run.serial != self._serial:
            self._refused(error, run.serial)
            return
        self._over()
        gone, self._session = self._session, None
        self._can_start_worker = False
        if isinstance(gone, WorkerSession):
            threading.Thread(target=gone.close, name="end the worker").start()
        self._workspace.results.clear()  # its values were in the process, and its numbers are those of that session
        self._feeds = None
        reason = error.detail.rstrip(".")
        detail = f"{error.title}: {reason}. A run that hangs cannot be stopped; the window stays usable."
        self._workspace.messages.show("warning", "This model is run inside the program", detail, topic="worker")
        self._start(run.aim)

    def _settled(self, serial: int) -> None:
        """The inputs were made, or that was stopped."""
        if serial == self._serial and (self._run is None or self._run.serial != serial):
            self._task = None
            if not self._preparing.running:
                self._give_up()
            self.state_changed.emit()

    def _give_up(self) -> None:
        """End the run: the one that was to replace it was stopped before it began."""
        if self._run is not None:
            self._over()
            self._workspace.results.take(None)
            self._workspace.set_run_state("Stopped")

    def _ended(self, run: RunTask) -> None:
        if run.serial != self._serial or run is not self._run:
            self._keep_part(run)  # a newer run is pending
            return
        self._finished.tell()
        result = run.result
        may_go_on = result is not None and result.stopped not in CUT_OFF
        waiting = may_go_on and run.stepper is not None and not run.stepper.done
        self._over()
        self._run = run if waiting else None
        self._workspace.results.take(None if result is None else run.record(result))
        if result is not None:
            self._tell_end(run, result)
        else:
            self._workspace.set_run_state("Stopped")
        self.state_changed.emit()

    def _keep_part(self, run: RunTask) -> None:
        """Another run took the place of this one: an undo brings back what it had computed."""
        result = run.result
        if result is not None and result.counts[State.DONE]:
            self._workspace.results.keep(run.record(result))

    def _tell_end(self, run: RunTask, result: RunResult) -> None:
        if not self.is_paused:
            self._tell.ended(result, live=self.live)
        else:
            node, reason = self.paused_at, run.stepper.reason
            ahead, behind = (place[0] if place else () for place in (run.stepper.next_node, run.stepper.last_node))
            calls = [
                call for number in (behind if reason.startswith("after") else ahead) if (call := self._node(number))
            ]
            self._tell.paused(result, reason, node, calls, live=self.live)
            self._workspace.results.show_call(ahead or behind)
            if node is not None and run.aim.seeking is None:
                self._workspace.navigation.reveal(node)
        if run.aim.seeking is not None:
            run.aim.seeking()
        self._workspace.offer("tensor")

    # -- while it runs ----------------------------------------------------------------------------------------

    def _count(self, run: RunTask) -> object:
        """Return a number that changes when a run has computed more: a body, as of a Loop, may at any time."""
        session, stepper = self._session, run.stepper
        at = session.at if isinstance(session, WorkerSession) else None if stepper is None else stepper.next_key
        node = None if at is None else self._node(at[1])
        return object() if node is not None and node.bodies else self._finished.count

    def _look(self, run: RunTask) -> RunResult | None:
        """Return the values that a run has computed up to now. Off the GUI thread."""
        session, stepper = self._session, run.stepper
        if isinstance(session, WorkerSession):
            result = session.so_far()
        else:
            # Its fetch would compute, beside the run.
            result = None if stepper is None else replace(stepper.result(), fetch=None)
        return result.work_out() if result is not None and result.nodes else None

    def _see(self, run: RunTask, result: RunResult, fresh: set[Value]) -> None:
        if run is self._run and self.is_running:
            self._workspace.results.see(run.record(result, unfinished=True), fresh)

    # -- live ------------------------------------------------------------------------------------------------

    def set_live(self, live: bool) -> None:
        """Return whether every edit runs what it affects."""
        if live != self.live:
            self.live = live
            self.state_changed.emit()
            if live and not self._workspace.results.is_what_a_run_gives:
                self._live_timer.start(0)

    def _on_change(self, _change: Change) -> None:
        if self.is_paused:
            self._run = None  # it belongs to another model now
            self.state_changed.emit()
        if self.live and self._lacks_values:
            self._live_timer.start(_LIVE_DELAY)
            return  # which reports it itself
        self._live_timer.stop()
        self._tell.follow()

    @property
    def _lacks_values(self) -> bool:
        """Return whether a run would give more than is shown: after an edit, or as a part or for other inputs."""
        return self._workspace.results.shows_part or not self._workspace.results.is_what_a_run_gives

    def _on_inputs(self) -> None:
        is_known = self._workspace.results.recall(self.inputs.recipe().signature)
        if self.live and (not is_known or self._lacks_values):
            self._live_timer.start(_LIVE_DELAY)
            return
        self._live_timer.stop()
        self._tell.follow(inputs_changed=not is_known)

    def _run_live(self) -> None:
        if self.live:
            self._start(RunOptions())

    def _place_of(self, node: Node) -> tuple[CallPath, Node]:
        """Return the position of a node in a run: the calls of functions around it, and itself or the node that owns
        its body.

        ModelError if no run computes it.
        """
        outermost = node
        while outermost.graph is not None and isinstance(outermost.graph.owner, Node):
            outermost = outermost.graph.owner
        ways: list[tuple[Node, CallPath]] = [(outermost, ())]
        functions: set[Function] = set()
        while ways:
            at, path = ways.pop()
            if at.graph is self.inputs.graph:
                return path, outermost
            function = None if at.graph is None else at.graph.owner
            if isinstance(function, Function) and function not in functions:
                functions.add(function)
                calls = callers_of(self._workspace.model, {function.key})
                ways += [(call, (call.id, *path)) for call in calls]
        detail = "its function is not called in the main graph, or it belongs to a training graph"
        raise ModelError("This node is not part of a run", detail, node)

    def close(self) -> None:
        """End everything; the document is closed."""
        self._serial += 1
        self._live_timer.stop()
        self._finished.stop()
        self._preparing.stop()
        self._so_far.stop()
        session, self._session = self._session, None
        self._run = None
        if isinstance(session, WorkerSession):
            threading.Thread(target=session.close, name="end the worker").start()


def _start(session: WorkerSession) -> None:
    """Off the GUI thread. Whether there is a worker shows when something is run."""
    with contextlib.suppress(WorkerUnavailable):
        session.start()
