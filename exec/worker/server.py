"""The process that runs models, so that a runaway kernel can be killed and the window never waits.

`serve` is its main function: the main thread performs requests from a pipe, one run at a time, a second thread
receives cancellation and looks up values, and a third sends partial results of the current run. The process ends when
the program closes the pipe or dies.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import queue
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from typing import Any

from onnx_workbench.exec.engine.engine import Engine
from onnx_workbench.exec.engine.request import Request
from onnx_workbench.exec.engine.stepper import Stepper
from onnx_workbench.exec.inputs.recipe import MOST_SENT, Recipe, make_held
from onnx_workbench.exec.kernels.threads import set_threads, usable_cores
from onnx_workbench.exec.results.run_result import RunNumber, RunResult
from onnx_workbench.exec.results.slot_map import ValueKey
from onnx_workbench.exec.results.summaries import SummaryTable
from onnx_workbench.exec.results.values import MISSING
from onnx_workbench.exec.values.statistics import Summary, describe, nbytes
from onnx_workbench.exec.worker.parent_watch import end_with_parent
from onnx_workbench.exec.worker.result_protocol import ResultHead, ResultTables
from onnx_workbench.exec.worker.run_lock import YieldToRun
from onnx_workbench.exec.worker.shared_memory import SharedMemoryExchange
from onnx_workbench.exec.worker.snapshot_protocol import SnapshotReceiver
from onnx_workbench.model import extensions
from onnx_workbench.model.budget import limit_memory
from onnx_workbench.model.errors import ModelError, errors_to
from onnx_workbench.model.progress import SILENT, Cancelled, Progress

#: Lower scheduling priority of the worker (see nice(2)): the window stays responsive on a busy machine.
_NICENESS = 5
#: Seconds between two reports of the node that the run is at.
_REPORT_SECONDS = 0.05


@dataclass(slots=True)
class _Job:
    """One run: its progress (to cancel it) and its results. `number`: number of the request that it answers."""

    number: int
    progress: Progress = field(default_factory=Progress)
    stepper: Stepper | None = None
    result: RunResult | None = None
    so_far: RunResult | None = None  # as of the last request; never computes
    is_running: bool = False


class Worker:
    """The worker's side of the conversation. Messages are (number, kind, content); answers carry the number."""

    def __init__(self, connection: Connection, folder: str, budget: int, cores: int) -> None:
        self._connection = connection
        self._cores = cores  # at the start: usable cores may be fewer while the worker's priority is lowered
        self._exchange = SharedMemoryExchange(folder)
        self._receiver = SnapshotReceiver(self._exchange)
        self._engine = Engine(budget)
        self._jobs: dict[int, _Job] = {}
        self._fetches: dict[int, Progress] = {}  # progress of requests that may compute values, by number
        self._due: set[int] = set()  # requests to start or continue a run: other requests yield to them
        self._waiting: queue.SimpleQueue[tuple[int, str, Any] | None] = queue.SimpleQueue()
        self._partial_requests: queue.SimpleQueue[tuple[int, str, Any]] = queue.SimpleQueue()
        self._sending = threading.Lock()

    def serve(self) -> None:
        """Process requests until the other side closes the pipe."""
        self._send(0, "ready", None)
        threading.Thread(target=self._listen, name="listener", daemon=True).start()
        threading.Thread(target=self._send_partial_results, name="partial_results", daemon=True).start()
        while (message := self._waiting.get()) is not None:
            self._handle(self._work, *message)
        self._exchange.remove()

    def _handle(self, work: Callable[[int, str, Any], None], number: int, kind: str, content: Any) -> None:
        """Process a request; errors become the answer."""
        with errors_to(lambda error: self._send(number, *_answer_of(error))):  # the process goes on
            work(number, kind, content)

    def _send_partial_results(self) -> None:
        """Send partial results of the current run, on a separate thread. Computes no values."""
        while True:
            self._handle(self._answer_during_run, *self._partial_requests.get())

    def _listen(self) -> None:
        """Receive requests, on a separate thread, so that they need not wait for the current run."""
        while True:
            try:
                number, kind, content = self._connection.recv()
            except (EOFError, OSError):
                for job in list(self._jobs.values()):
                    job.progress.cancel()
                self._waiting.put(None)
                # Without the timer, a run stuck in a kernel would keep the process alive after the program.
                if self._busy():
                    threading.Timer(5.0, os._exit, (1,)).start()
                return
            self._handle(self._dispatch, number, kind, content)

    def _dispatch(self, number: int, kind: str, content: Any) -> None:
        """Answer requests that take no time; put the others into the queues of the other threads."""
        match kind:
            case "cancel":
                cancelled = self._jobs.get(content)
                progress = self._fetches.get(content) if cancelled is None else cancelled.progress
                if progress is not None:
                    progress.cancel()
            case "salvage":
                self._salvage(number, content)
            case "drop":
                self._jobs.pop(content, None)
            case "release":
                self._exchange.release(content)
            case "fetch" if self._answer_if_available(number, *content):
                pass
            case "so far":
                self._partial_requests.put((number, kind, content))
            case "fetch" | "apply" if self._is_running(content[0]):
                self._partial_requests.put((number, kind, content))
            case "run":
                job = self._jobs[number] = _Job(number)
                job.progress = Progress(self._reporter(job))
                self._due.add(number)
                self._waiting.put((number, kind, content))
            case _:
                if kind in ("fetch", "apply", "iterations", "inputs"):
                    self._fetches[number] = self._progress(number)
                elif kind in ("resume", "step", "step into", "step out"):
                    self._due.add(number)
                self._waiting.put((number, kind, content))

    def _is_running(self, run: int) -> bool:
        job = self._jobs.get(run)
        return job is not None and job.is_running

    def _busy(self) -> bool:
        return any(job.stepper is not None for job in self._jobs.values())

    def _answer_if_available(self, number: int, run: int, key: ValueKey) -> bool:
        """Send the value if it is available without computing; return whether it was sent."""
        job = self._jobs.get(run)
        result = None if job is None else job.so_far or job.result
        value = result.find(key) if result is not None else MISSING
        if value is MISSING:
            return False
        self._send(number, "value", self._exchange.encode(value))
        return True

    def _progress(self, number: int) -> Progress:
        """Return the progress that reports to the caller of a request."""
        return Progress(lambda done, total, text: self._send(number, "progress", (done, total, text)))

    def _reporter(self, job: _Job) -> Any:
        return lambda done, total, text: self._send(job.number, "progress", (done, total, text))

    def _send(self, number: int, kind: str, content: Any) -> None:
        with self._sending:
            try:
                self._connection.send((number, kind, content))
            except (BrokenPipeError, OSError):
                pass  # the program has ended; the listener ends this process

    def _work(self, number: int, kind: str, content: Any) -> None:
        self._due.discard(number)
        match kind:
            case "run":
                self._run(number, *content)
            case "resume" | "step" | "step into" | "step out":
                self._advance(kind, *content, number=number)
            case "fetch" | "apply" | "iterations":
                self._look_up(number, kind, content)
            case "inputs":
                self._make_inputs(number, content)
            case "forget":
                self._engine.forget()

    def _make_inputs(self, number: int, recipe: Recipe) -> None:
        """Make the inputs of a run and keep them; answer with their values if they are small, else with their types."""
        try:
            values = make_held(recipe, self._fetches.get(number, SILENT))
        finally:
            self._fetches.pop(number, None)
        few = sum(map(nbytes, values.values())) <= MOST_SENT
        answer = {name: self._exchange.encode(value) if few else describe(value) for name, value in values.items()}
        self._send(number, "value", answer)

    def _look_up(self, number: int, kind: str, content: Any) -> None:
        """Answer a request about a paused or finished run; put it back into the queue if a run has to start first."""
        progress = self._fetches.get(number, SILENT)
        is_put_off = False
        try:
            self._send(number, "value", self._answer_to(number, kind, YieldToRun(progress, self._due), *content))
        except Cancelled:
            is_put_off = bool(self._due) and not progress.cancelled
            if not is_put_off:
                raise
            self._waiting.put((number, kind, content))
        finally:
            if not is_put_off:
                self._fetches.pop(number, None)

    def _answer_to(
        self, number: int, kind: str, asker: Progress, run: int, asked: Any, arguments: Sequence[Any] = ()
    ) -> Any:
        result, *given = (self._resolve_argument(argument, asker) for argument in (RunNumber(run), *arguments))
        match kind:
            case "fetch":
                return self._exchange.encode(result.value(asked))
            case "iterations":  # a separate result, kept until the program drops it
                other = result.in_iterations(asked)
                self._jobs[number] = _Job(number, result=other)
                return number, _summaries_in_bodies(other), other.iterations
        return asked(result, *given)

    def _resolve_argument(self, argument: Any, asker: Progress) -> Any:
        """Return the argument; for the number of a run its result, whose computations `caller_progress` can cancel."""
        if not isinstance(argument, RunNumber):
            return argument
        result = self._result(argument.number)
        result.caller_progress = asker
        return result

    def _answer_during_run(self, number: int, kind: str, content: Any) -> None:
        """Answer a request about the current run from its state at the last "so far" request; computes no values."""
        job = self._jobs.get(content[0])
        if kind == "so far":
            if job is None or job.stepper is None:
                msg = "the run is over"
                raise LookupError(msg)
            job.so_far = _without_fetch(job.stepper.result())
            self._send(number, "value", _tables(job.so_far, job.stepper))
            return
        if job is None or job.so_far is None:
            msg = "the run has not reached it yet"
            raise LookupError(msg)
        match kind:
            case "fetch":
                self._send(number, "value", self._exchange.encode(job.so_far.value(content[1])))
            case "apply":
                _, function, arguments = content
                results = [_without_fetch(self._result(a.number)) if isinstance(a, RunNumber) else a for a in arguments]
                self._send(number, "value", function(job.so_far, *results))

    def _result(self, run: int) -> RunResult:
        job = self._jobs.get(run)
        if job is None or job.result is None:
            msg = "the run is no longer known"
            raise LookupError(msg)
        return job.result

    def _run(self, number: int, message: Any, request: Request, feeds: dict[int, Any], stepping: bool) -> None:
        self._send(number, "begun", None)
        snapshot = self._receiver.model(message)
        values = {value: self._exchange.decode(sent) for value, sent in feeds.items()}
        whole = replace(request, snapshot=snapshot, feeds=values)
        job = self._jobs[number]
        set_threads(usable_cores(self._cores))
        stepper = job.stepper = self._engine.start(whole, progress=job.progress, observer=self._observer(job))
        if not stepping:
            with self._reporting_position(number, job, stepper):
                stepper.resume()
        self._answer(number, job)

    @contextlib.contextmanager
    def _reporting_position(self, number: int, job: _Job, stepper: Stepper) -> Iterator[None]:
        """Report finished nodes and the current node at short intervals, on a separate thread, until the block ends."""
        over = threading.Event()
        job.is_running = True

        def report() -> None:
            reported = None
            while not over.wait(_REPORT_SECONDS):
                stepper.notify()
                at = stepper.next_key
                if at != reported:
                    reported = at
                    self._send(number, "at", at)

        threading.Thread(target=report, name="position", daemon=True).start()
        try:
            yield
        finally:
            over.set()
            job.is_running = False

    def _observer(self, job: _Job) -> Any:
        return lambda finished: self._send(job.number, "finished", finished)

    def _advance(self, kind: str, run: int, *, number: int) -> None:
        job = self._jobs.get(run)
        if job is None or job.stepper is None:
            msg = "the run is no longer known"
            raise LookupError(msg)
        job.number = number
        if kind == "resume":
            with self._reporting_position(number, job, job.stepper):
                job.stepper.resume()
        else:
            job.stepper.step(into=kind == "step into", out=kind == "step out")
        self._answer(number, job)

    def _answer(self, number: int, job: _Job) -> None:
        stepper = job.stepper
        assert stepper is not None
        job.result, job.so_far = stepper.result(), None
        self._send(number, "result", _tables(job.result, stepper))
        if stepper.done:
            job.stepper = None

    def _salvage(self, number: int, run: int) -> None:
        """Send the values computed so far before this process is killed. Runs on the listener thread."""
        job = self._jobs.get(run)
        stepper = job.stepper if job is not None else None
        if stepper is None:
            self._send(number, "salvaged", None)
            return
        self._send(number, "salvaging", None)
        result = stepper.result()
        values = {
            slot: self._exchange.encode(value)
            for slot, value in enumerate(result.slots)
            if value is not MISSING and slot not in stepper.constants
        }
        self._send(number, "salvaged values", values)
        self._send(number, "salvaged", _tables(result, stepper))


def _answer_of(error: Exception) -> tuple[str, Any]:
    """Return kind and content of the message for an exception."""
    match error:
        case ModelError():
            return "error", (error.title, error.detail)
        case LookupError():
            return "missing", str(error)
    return "error", ("The run failed", f"{type(error).__name__}: {error}")


def _without_fetch(result: RunResult) -> RunResult:
    """Return a copy of the result that never computes values, so that other threads than that of the run can use it."""
    return replace(result, fetch=None, caller_progress=SILENT)


def _summaries_in_bodies(result: RunResult) -> dict[ValueKey, Summary]:
    return {(p, v): Summary(describe(x), None) for p, values in result.bodies.items() for v, x in values.items()}


def _tables(result: RunResult, stepper: Stepper) -> ResultTables:
    bodies = _summaries_in_bodies(result)
    head = ResultHead(
        result.seed,
        result.seconds,
        result.peak_bytes,
        result.memory,
        result.stopped,
        result.notes,
        stepper.reason,
        stepper.last_key,
        stepper.next_key,
        stepper.position,
        stepper.total,
    )
    layout, inner = result.layout, result.inner
    infos = SummaryTable.of(result.slots, result.summaries)
    labels = tuple(map(inner.label_of, range(len(inner))))
    return ResultTables(
        head, layout.table, layout.outputs, layout.steps, infos, result.nodes, bodies, inner, result.iterations, labels
    )  # fmt: skip


def serve(
    connection: Connection, folder: str, budget: int, memory: int | None, cores: int, wanted: extensions.State = ()
) -> None:
    """Main function of the worker process. `memory` limits its address space in bytes, where the system supports it.

    `cores` is the number of cores it may use, `wanted` the extensions to load.
    """
    faulthandler.enable()
    if sys.platform != "win32":
        os.nice(_NICENESS)
    if memory is not None:
        limit_memory(memory)
    end_with_parent()
    for error in extensions.load_exactly(wanted):  # the program loads the same extensions and has reported the error
        print(error, file=sys.stderr)
    Worker(connection, folder, budget, cores).serve()
