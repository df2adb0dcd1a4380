"""The worker process as seen by the program: starting, requests, killing."""

from __future__ import annotations

import atexit
import contextlib
import itertools
import multiprocessing
import queue
import threading
import weakref
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any

from onnx_workbench.exec.kernels.threads import allowed_cores
from onnx_workbench.exec.worker.server import serve
from onnx_workbench.exec.worker.shared_memory import SharedMemoryExchange
from onnx_workbench.exec.worker.snapshot_protocol import SnapshotSender
from onnx_workbench.model import extensions
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.progress import SILENT, Cancelled, Progress

_POLL = 0.05  # seconds between two checks whether the request was cancelled


class WorkerDied(Exception):
    """The worker process ended: crashed, or was killed."""


class Process:
    """One worker process, started once and kept running; `request` may be called from several threads."""

    def __init__(self, budget: int, memory: int | None) -> None:
        context = multiprocessing.get_context("spawn")
        self.extensions = extensions.state()  # loaded by the process
        self.exchange = SharedMemoryExchange.create()
        self.sender = SnapshotSender(self.exchange)
        self._connection, theirs = context.Pipe()
        self.child = context.Process(
            target=serve,
            args=(theirs, self.exchange.folder, budget, memory, allowed_cores(), self.extensions),
            name="onnx-workbench-run",
            daemon=True,
        )
        self._numbers = itertools.count(1)
        self._answers: dict[int, queue.SimpleQueue[tuple[str, Any]]] = {}
        self._sending = threading.Lock()
        self._dropped: queue.SimpleQueue[int] = queue.SimpleQueue()  # runs to drop, not sent yet
        self.alive = True
        self.is_ready = False  # it has sent its first message: time limits of runs do not count its start
        receiver = threading.Thread(target=_receive, args=(weakref.ref(self), self._connection), daemon=True)
        with _starting:
            receiver.start()  # first: Python 3.12 refuses threads from the moment that a program ends
            self.child.start()
        theirs.close()
        self._finalizer = weakref.finalize(self, _end, self.child, self._connection, self.exchange)

    def send(self, kind: str, content: Any, number: int = 0) -> None:
        """Send without waiting for an answer; WorkerDied if the process has ended."""
        try:
            with self._sending:
                self._connection.send((number, kind, content))
        except (OSError, ValueError) as error:
            raise WorkerDied from error
        self._send_dropped()

    def drop(self, run: int) -> None:
        """Make the worker drop a run: now, or after the message that another thread sends. Any thread, never waits."""
        self._dropped.put(run)
        self._send_dropped()

    def _send_dropped(self) -> None:
        while not self._dropped.empty() and self._sending.acquire(blocking=False):
            try:
                with contextlib.suppress(queue.Empty, OSError, ValueError):
                    self._connection.send((0, "drop", self._dropped.get_nowait()))
            finally:
                self._sending.release()

    @contextlib.contextmanager
    def conversation(self, kind: str, content: Any) -> Iterator[tuple[int, queue.SimpleQueue[tuple[str, Any]]]]:
        """Send a request; returns its number and the queue of its answers."""
        number = next(self._numbers)
        answers = self._answers[number] = queue.SimpleQueue()
        try:
            self.send(kind, content, number)
            yield number, answers
        finally:
            self._answers.pop(number, None)

    def request(self, kind: str, content: Any, progress: Progress = SILENT) -> Any:
        """Send a request and return its answer. LookupError, ModelError, WorkerDied; Cancelled if `progress` is."""
        with self.conversation(kind, content) as (number, answers):
            try:
                return self.wait(answers, progress)
            except Cancelled:
                self.send("cancel", number)
                raise

    def wait(self, answers: queue.SimpleQueue[tuple[str, Any]], progress: Progress = SILENT) -> Any:
        """Return the next answer, reporting progress meanwhile; raises the error that the worker reported."""
        patience = 1.0 if progress is SILENT else _POLL
        while True:
            progress.check()
            try:
                kind, content = answers.get(timeout=patience)
            except queue.Empty:
                if not self.alive:
                    raise WorkerDied from None
                continue
            if kind in ("value", "result"):
                return content
            if kind == "progress":
                progress.report(*content)
            raise_answer(kind, content)

    def deliver(self, number: int, kind: str, content: Any) -> None:
        """Pass a message to the thread that waits for it. Called by the receiving thread."""
        self.is_ready = True
        answers = self._answers.get(number)
        if answers is not None:
            answers.put((kind, content))
        elif kind == "value":
            self.exchange.discard(content)

    def ended(self) -> None:
        """Mark the process as ended and wake all waiting threads. Called by the receiving thread."""
        self.alive = False
        for answers in list(self._answers.values()):
            answers.put(("died", None))

    def kill(self) -> None:
        """End the process at once and free its memory."""
        self.alive = False
        self._finalizer()

    @property
    def exit_code(self) -> int | None:
        """Exit code of the process; None if it still runs after a wait of one second."""
        self.child.join(1.0)
        return self.child.exitcode


def raise_answer(kind: str, content: Any) -> None:
    """Raise the error that a message carries, if any."""
    match kind:
        case "error":
            raise ModelError(*content)
        case "missing":
            raise LookupError(content)
        case "died":
            raise WorkerDied


def _receive(process: weakref.ref[Process], connection: Connection) -> None:
    """Receive and dispatch the worker's messages, on a separate thread. Does not keep the Process alive."""
    try:
        while True:
            message = connection.recv()
            owner = process()
            if owner is None:
                return
            owner.deliver(*message)
            del owner
    except (EOFError, OSError, TypeError):
        return  # the other side has ended
    finally:  # also after an unexpected error: no caller may wait for answers that will not come
        owner = process()
        if owner is not None:
            owner.ended()


def _finish_starting() -> None:
    """Wait at exit until workers that are being started have got their initial messages.

    A worker whose parent ends halfway through would print an error; later no thread can be started any more.
    """
    with _starting:
        pass


_starting = threading.Lock()
atexit.register(_finish_starting)


def _end(process: Any, connection: Connection, exchange: SharedMemoryExchange) -> None:
    process.kill()
    process.join(5.0)
    with contextlib.suppress(OSError):
        connection.close()
    exchange.remove()
