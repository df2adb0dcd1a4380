"""A session whose runs happen in a worker process: same interface, same results, and it can be killed."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Unpack

from onnx_workbench.exec.engine.request import Request
from onnx_workbench.exec.engine.snapshot import GraphSnapshot, ModelSnapshot, NodeSnapshot
from onnx_workbench.exec.errors import WorkerUnavailable
from onnx_workbench.exec.inputs.feeds import HeldInput
from onnx_workbench.exec.inputs.recipe import Recipe
from onnx_workbench.exec.results.node_table import Failure, NodeResult, NodeTable, State
from onnx_workbench.exec.results.run_result import RunNumber, RunResult
from onnx_workbench.exec.results.slot_map import LoopKey, Path, SlotMap, Steps, ValueKey
from onnx_workbench.exec.results.values import MISSING
from onnx_workbench.exec.session import RunArguments, SessionBase
from onnx_workbench.exec.values.arrays import RuntimeValue
from onnx_workbench.exec.values.statistics import ValueInfo
from onnx_workbench.exec.worker.process import Process, WorkerDied, raise_answer
from onnx_workbench.exec.worker.result_protocol import ResultTables
from onnx_workbench.model import extensions
from onnx_workbench.model.budget import OVERHEAD, cache_budget, process_budget
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.ir.graph import Graph, Model, Node
from onnx_workbench.model.progress import SILENT, Cancelled, Progress

#: Seconds a cancelled run gets to stop by itself before the worker is killed.
GRACE = 2.0

#: Seconds a worker gets to answer before it is killed, and to hand over what it has computed if it does answer.
ANSWER, HAND_OVER = 2.0, 30.0

_POLL = 0.05

#: Placeholder in a request whose snapshot is sent separately, as a message of the SnapshotSender.
_NO_SNAPSHOT = ModelSnapshot(0, GraphSnapshot(0, 0, "", (), (), (), (), (), ()), {}, {}, 0, {}, {}, {})


class WorkerSession(SessionBase):
    """Session that runs one graph of a model in a worker process. `start` warms it up; `close` ends it.

    `request` belongs on the thread that owns the model; `perform`, and reading values of results, on any thread that
    may wait. Values stay in the worker until they are read; then large ones are mapped, not copied. `memory` bounds
    the worker's address space in bytes (the machine's memory by default).
    """

    def __init__(
        self,
        model: Model | Document,
        *,
        graph: Graph | None = None,
        budget: int | None = None,
        memory: int | None = None,
    ) -> None:
        super().__init__(model, graph)
        self._budget = cache_budget() if budget is None else budget
        self._memory = process_budget() + OVERHEAD if memory is None else memory
        self._process: Process | None = None
        self._starting = threading.Lock()
        self._running = threading.Lock()
        self._latest: Callable[[], RemoteStepper | None] = lambda: None
        self._titles: _Titles | None = None  # of the previous run

    def start(self) -> Process:
        """Return the worker process; start it unless one runs with the extensions loaded now. Any thread.

        WorkerUnavailable if the system cannot start a process.
        """
        with self._starting:
            if self._process is not None and self._process.extensions != extensions.state():
                self._process.kill()
            if self._process is None or not self._process.alive:
                try:
                    self._process = Process(self._budget, self._memory)
                except OSError as error:
                    reason = error.strerror or str(error)
                    raise WorkerUnavailable("The run process cannot be started", reason) from error
            return self._process

    def close(self) -> None:
        """End the worker; values of results that were not read are lost."""
        with self._starting:
            if self._process is not None:
                self._process.kill()
                self._process = None

    def make_inputs(self, recipe: Recipe, progress: Progress = SILENT) -> dict[str, RuntimeValue]:
        """Return values for the inputs by name, made in the worker; HeldInput handles if their total size is large.

        ModelError if an input cannot be made, WorkerUnavailable if no worker can be started. Any thread that may wait.
        """
        asked = recipe.within(self.memory_limit).without_values()
        for _ in range(2):  # the idle worker may have died, or be killed together with the previous run
            process = self.start()
            try:
                answers = process.request("inputs", asked, progress)
            except WorkerDied:
                process.kill()
                continue
            return dict(recipe.given) | {
                name: HeldInput(asked, name, answer)
                if isinstance(answer, ValueInfo)
                else process.exchange.decode(answer)
                for name, answer in answers.items()
            }
        raise ModelError("The inputs cannot be created", "The run process ended twice while creating them.")

    def perform(self, request: Request, *, progress: Progress = SILENT, observer: Any = None) -> RunResult:
        """Perform a request; `observer` gets a NodeTable of the nodes that have just finished.

        One run at a time; others wait. A run that ignores its cancellation or time limit is killed with the worker,
        and so is one that crashes it: the result then names the node it was in.
        """
        stepper = self.steps(request, progress=progress, observer=observer, stepping=False)
        return stepper.result()

    def steps(
        self,
        request: Request | Mapping[Any, Any] | None = None,
        *,
        progress: Progress = SILENT,
        observer: Any = None,
        stepping: bool = True,
        **arguments: Unpack[RunArguments],
    ) -> RemoteStepper:
        """Return a run to go through node by node; see Session.steps."""
        if not isinstance(request, Request):
            request = self.request(request, **arguments)
        return RemoteStepper(self, request, progress, observer, stepping=stepping)

    @property
    def at(self) -> tuple[Path, int] | None:
        """Path and number of the current node of the run, as far as is known. Any thread."""
        stepper = self._latest()
        return None if stepper is None else stepper.at

    def so_far(self) -> RunResult | None:
        """Return the partial result of the current run; None if there is none. Any thread that may wait.

        Values of nodes that were not finished at the time of the call raise LookupError.
        """
        stepper = self._latest()
        return None if stepper is None else stepper.so_far()

    def forget(self) -> None:
        """Release all computed values."""
        if self._process is not None and self._process.alive:
            with contextlib.suppress(WorkerDied):
                self._process.send("forget", None)


class RemoteStepper:
    """A paused run in the worker, with the interface of Stepper. Used by one thread at a time."""

    def __init__(
        self, session: WorkerSession, request: Request, progress: Progress, observer: Any, *, stepping: bool
    ) -> None:
        self._session = session
        self._request = request
        self._progress = progress
        self._observer = observer
        self._finished: list[NodeTable] = []
        if session._titles is None or session._titles.snapshot is not request.snapshot:
            session._titles = _Titles(request.snapshot)
        self._titles = session._titles
        self._tables: ResultTables | None = None
        self._seen: RunResult | None = None  # the last partial result, with the values fetched for it; cannot fetch
        self._is_running = False
        self._crash = ""
        self.at: tuple[Path, int] | None = None  # the current node
        self._salvaged: dict[int, RuntimeValue] = {}
        self._run = 0
        self._begun = False  # the worker has reported on this run
        with session._running:
            self._process = session.start()  # the worker may have been killed with the previous run
            session._latest = weakref.ref(self)
            self._send_request(stepping)

    def _send_request(self, stepping: bool) -> None:
        """Send the model and the request; if the idle worker had died, send it again to a new one."""
        for attempt in range(2):
            process = self._process
            try:
                feeds = {n: process.exchange.encode(v) for n, v in self._request.feeds.items()}
                message = process.sender.model(self._request.snapshot)
                bare = replace(self._request, snapshot=_NO_SNAPSHOT, feeds={})
                self._converse("run", (message, bare, feeds, stepping))
                return
            except WorkerDied:
                if self._begun:
                    self._record_crash()
                    return
                if attempt:
                    process.kill()
                    detail = f"It was started twice and ended at once, with {process.exit_code}."
                    raise WorkerUnavailable("The run process has ended", detail) from None
                process.kill()  # so that `start` does not reuse it
                self._run = 0
                self._process = self._session.start()

    def _converse(self, kind: str, content: Any) -> None:
        process = self._process
        limit = self._request.options.time_limit
        deadline: float | None = None
        with process.conversation(kind, content) as (number, answers), self._marked_running():
            started = self._run = self._run or number
            asked_to_stop = 0.0
            while True:
                try:
                    what, news = answers.get(timeout=_POLL)
                except queue.Empty:
                    now = time.monotonic()
                    if deadline is None and limit is not None and process.is_ready:
                        deadline = now + limit + GRACE
                    if self._progress.cancelled and not asked_to_stop:
                        process.send("cancel", started)
                        asked_to_stop = now
                    late = deadline is not None and now > deadline
                    if late or (asked_to_stop and now - asked_to_stop > GRACE):
                        self._kill("time limit" if late else "cancelled", started)
                        return
                    if not process.alive:
                        raise WorkerDied from None
                    continue
                if what == "result":
                    self._tables = news
                    weakref.finalize(self, _drop, process, started)
                    return
                self._handle_message(what, news)

    @contextlib.contextmanager
    def _marked_running(self) -> Iterator[None]:
        self._is_running = True
        try:
            yield
        finally:
            self._is_running = False

    def _handle_message(self, kind: str, content: Any) -> None:
        self._begun = self._begun or kind != "died"
        match kind:
            case "progress":
                with contextlib.suppress(Cancelled):  # handled in `_converse`
                    self._progress.report(*content)
            case "finished":
                self._notify(content)
            case "at":
                self.at = content
            case "died":
                raise WorkerDied
            case _:
                raise_answer(kind, content)

    def _notify(self, news: NodeTable) -> None:
        self._finished.append(news)
        if self._observer is not None:
            self._observer(self._titles.of(news))

    def _kill(self, why: str, run: int) -> None:
        """Kill a worker that does not respond, but first request what the run has computed."""
        self._crash = why
        process = self._process
        nothing = WorkerDied, queue.Empty, ModelError, LookupError
        with contextlib.suppress(*nothing), process.conversation("salvage", run) as (_, answers):
            kind, _ = answers.get(timeout=ANSWER)
            if kind == "salvaging":
                values, tables = (_content(*answers.get(timeout=HAND_OVER)) for _ in range(2))
                self._tables = tables
                self._salvaged = {slot: process.exchange.decode(sent) for slot, sent in values.items()}
        process.kill()

    def _record_crash(self) -> None:
        """Record that the worker crashed, with its exit code."""
        code = self._process.exit_code
        self._crash = f"crash: the worker process ended{'' if code is None else f' with {code}'}"
        self._process.kill()

    # -- the interface of Stepper ----------------------------------------------------------------------------

    @property
    def done(self) -> bool:
        """Whether nothing is left to compute."""
        return bool(self._crash) or self._tables is None or self._tables.head.next_node is None

    @property
    def reason(self) -> str:
        """Reason of the stop."""
        return "" if self._tables is None else self._tables.head.reason

    @property
    def position(self) -> int:
        """Number of nodes processed."""
        return sum(map(len, self._finished)) if self._tables is None else self._tables.head.position

    @property
    def total(self) -> int:
        """Number of nodes of the run."""
        return 0 if self._tables is None else self._tables.head.total

    @property
    def last_node(self) -> tuple[Path, Node] | None:
        """Path of the calls of functions and the node computed last; None before the first one and after a crash."""
        if self._crash or self._tables is None or self._tables.head.last_node is None:
            return None
        path, number = self._tables.head.last_node
        return path, self._session.snapshots.nodes[number]

    @property
    def next_node(self) -> tuple[Path, Node] | None:
        """Path of the calls of functions and the node that `step` computes next; None at the end."""
        if self.done or self._tables is None or self._tables.head.next_node is None:
            return None
        path, number = self._tables.head.next_node
        return path, self._session.snapshots.nodes[number]

    def step(self, *, into: bool = False, out: bool = False) -> bool:
        """See Stepper.step."""
        return self._go("step into" if into else "step out" if out else "step")

    def resume(self) -> str:
        """Run to the next breakpoint or the end. Return the reason of the stop, empty at the end."""
        self._go("resume")
        return self.reason

    def _go(self, kind: str) -> bool:
        if self.done:
            return False
        with self._session._running:
            try:
                self._converse(kind, (self._run,))
            except WorkerDied:
                self._record_crash()
        return True

    def __iter__(self) -> Iterator[Node]:
        while (following := self.next_node) is not None and self.step():
            yield following[1]

    # -- results ---------------------------------------------------------------------------------------------

    def so_far(self) -> RunResult | None:
        """See WorkerSession.so_far."""
        if not self._begun or not self._is_running:
            return None
        try:
            tables: ResultTables = self._process.request("so far", (self._run,))
        except (WorkerDied, ModelError, LookupError):
            return None
        seen = self._result_of(tables)
        self._seen = seen
        result = replace(seen)
        self._attach_fetcher(result)
        return result

    def result(self) -> RunResult:
        """Everything computed so far; values are fetched on access."""
        tables = self._tables
        if tables is None or (self._crash and not self._salvaged):
            return self._crashed()
        result = self._result_of(tables)
        for slot, value in self._salvaged.items():
            result.slots[slot] = value
        if not self._crash:
            self._attach_fetcher(result)
        return result

    def _result_of(self, tables: ResultTables) -> RunResult:
        snapshot, head = self._request.snapshot, tables.head
        layout = SlotMap(tables.slots, tables.outputs, snapshot.names, tables.steps)
        nodes = self._titles.of(tables.nodes)
        seen = self._seen  # same plan: values fetched for it are reused
        return RunResult(
            layout,
            [MISSING] * (1 + int(layout.table.slots.max(initial=0))) if seen is None else list(seen.slots),
            lambda: nodes,
            tables.infos,
            seed=head.seed,
            seconds=head.seconds,
            peak_bytes=head.peak_bytes,
            memory=head.memory,
            stopped=self._crash or head.stopped,
            notes=head.notes,
            state=snapshot.state,
            bodies=_missing(tables.bodies),
            body_summaries=tables.bodies,
            build_inner=lambda: replace(tables.inner, label=tables.inner_labels.__getitem__),
            iterations=tables.iterations,
        )

    def _attach_fetcher(self, result: RunResult) -> None:
        _WorkerRun(self, result, self._run).serve(result)
        if self.done:
            result.iterate = self._in_iterations

    def _in_iterations(self, result: RunResult, chosen: Mapping[LoopKey, int], progress: Progress) -> RunResult:
        """See RunResult.in_iterations."""
        process = self._process
        try:
            run, summaries, iterations = process.request("iterations", (self._run, dict(chosen)), progress)
        except (WorkerDied, ModelError) as error:
            raise _lost_value(error) from error
        other = result.with_bodies(_missing(summaries), summaries, iterations)
        fetcher = _WorkerRun(self, other, run)
        fetcher.serve(other)
        weakref.finalize(fetcher, _drop, process, run)
        return other

    def _crashed(self) -> RunResult:
        """Return the result without the worker: the finished nodes, and the node that it probably crashed in."""
        snapshot = self._request.snapshot
        finished = {(one.path, one.node): one for some in self._finished for one in self._titles.of(some)}
        suspect = self._titles.nodes.get(self.at[1]) if self.at is not None else None
        if suspect is None:
            suspect = next((n for n in snapshot.graph.nodes if ((), n.node) not in finished), None)
        rows = list(finished.values() if self._tables is None else self._titles.of(self._tables.nodes))
        if suspect is not None and self._crash != "cancelled":
            rows.append(_crash_result(suspect, self._crash))
        nodes = NodeTable.of(rows)
        if self._seen is not None:
            # Values that were fetched before the crash are still available.
            return replace(self._seen, build_nodes=lambda: nodes, stopped=self._crash, summaries={}, body_summaries={})
        slots: dict[ValueKey, int] = {((), value): slot for slot, value in enumerate(_values(snapshot), 1)}
        return RunResult(
            SlotMap(slots, (), snapshot.names, Steps.of([])),
            [MISSING] * (len(slots) + 1),
            lambda: nodes,
            stopped=self._crash,
            state=snapshot.state,
        )


class _Titles:
    """Operators and titles of the nodes of a run, which the worker does not send.

    Separate from the stepper: results keep a reference, and the worker drops a run when its stepper is deleted.
    """

    def __init__(self, snapshot: ModelSnapshot) -> None:
        self.snapshot = snapshot

    @cached_property
    def nodes(self) -> dict[int, NodeSnapshot]:
        """The nodes that may be steps of a run, by number."""
        bodies = (function.body for function in self.snapshot.functions.values())
        return {node.node: node for graph in (self.snapshot.graph, *bodies) for node in graph.nodes}

    def of(self, table: NodeTable) -> NodeTable:
        """Return the table with operators and titles."""

        def label(row: int) -> tuple[str, str]:
            node = self.nodes.get(int(table.keys.numbers[row]))
            return ("", "") if node is None else (node.operator, node.title)

        return replace(table, label=label)


class _WorkerRun:
    """The run in the worker that holds the values of a result; fetched ones are kept in the result."""

    def __init__(self, stepper: RemoteStepper, result: RunResult, run: int) -> None:
        self._stepper = stepper  # keeps the run in the worker: it drops the run when the stepper is deleted
        self._run = run  # the run in the worker whose values are fetched
        self._slots = result.slots
        self._where = result.layout.slots
        self._bodies = result.bodies

    def serve(self, result: RunResult) -> None:
        """Make a result fetch its values from here."""
        result.fetch, result.remote = self.fetch, self

    def fetch(self, key: ValueKey, progress: Progress) -> RuntimeValue:
        """Return the value; LookupError when the worker does not have it and cannot compute it."""
        stepper = self._stepper
        try:
            sent = stepper._process.request("fetch", (self._run, key), progress)
        except (WorkerDied, ModelError) as error:
            raise _lost_value(error) from error
        value = stepper._process.exchange.decode(sent)
        slot = self._where.get(key)
        if slot is not None:
            self._slots[slot] = value
        elif key[0] in self._bodies:
            self._bodies[key[0]][key[1]] = value
        return value

    def apply(self, function: Callable[..., Any], arguments: Sequence[Any], progress: Progress) -> Any:
        """See RunResult.apply."""
        stepper = self._stepper
        sent = [self._run_of(a) if isinstance(a, RunResult) else a for a in arguments]
        try:
            return stepper._process.request("apply", (self._run, function, sent), progress)
        except WorkerDied as error:
            msg = "the values are lost: the worker process ended"
            raise LookupError(msg) from error

    def _run_of(self, result: RunResult) -> RunNumber:
        other = result.remote
        if not isinstance(other, _WorkerRun) or other._stepper._process is not self._stepper._process:
            msg = "the runs belong to different processes"
            raise LookupError(msg)
        return RunNumber(other._run)


def _missing(keys: Iterable[ValueKey]) -> dict[Path, dict[int, RuntimeValue]]:
    """Return placeholders for values in bodies that are still in the worker."""
    found: dict[Path, dict[int, RuntimeValue]] = {}
    for path, value in keys:
        found.setdefault(path, {})[value] = MISSING
    return found


def _lost_value(error: Exception) -> LookupError:
    return LookupError(f"the value is lost: {str(error) or 'the worker process ended'}")


def _content(kind: str, content: Any) -> Any:
    """Return the content of an answer; raises the error it carries."""
    raise_answer(kind, content)
    return content


def _drop(process: Process, run: int) -> None:
    if process.alive:
        process.drop(run)


def _crash_result(node: NodeSnapshot, why: str) -> NodeResult:
    failure = Failure(
        node.node, (), node.title, node.operator, 0, (), f"the run ended in it or shortly after ({why})", "Crash"
    )
    return NodeResult(node.node, (), node.operator, node.title, State.FAILED, failure=failure)


def _values(snapshot: ModelSnapshot) -> list[int]:
    return list(dict.fromkeys([*snapshot.graph.inputs, *(v for n in snapshot.graph.nodes for v in n.outputs if v)]))
