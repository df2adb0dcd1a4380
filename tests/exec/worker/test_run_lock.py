"""Values that are computed again between the runs of a session, in this process."""

import threading
from typing import Any

import pytest

from onnx_workbench.exec.worker.run_lock import RunLock, YieldToRun
from onnx_workbench.model.progress import Cancelled, Progress

KEY = (), 1


def test_a_value_begins_anew_after_a_run_that_came_in_between() -> None:
    lock, begun, order = RunLock(), threading.Event(), list[str]()

    def fetch(_key: Any, progress: Progress) -> str:
        order.append("begins")
        begun.set()
        while "run" not in order:
            progress.check()
        return "value"

    values = list[Any]()
    fetching = threading.Thread(target=lambda: values.append(lock.compute_between_runs(fetch, KEY, Progress())))
    fetching.start()
    assert begun.wait(30)
    with lock.acquired():
        order.append("run")
    fetching.join(30)
    assert values == ["value"]
    assert order == ["begins", "run", "begins"]


def test_a_value_that_waits_for_a_run_can_be_stopped() -> None:
    lock, stopped = RunLock(), Progress()
    stopped.cancel()
    with lock.acquired(), pytest.raises(Cancelled):
        lock.compute_between_runs(lambda _key, _progress: pytest.fail("a run goes on"), KEY, stopped)


def test_a_run_that_waits_for_another_can_be_stopped() -> None:
    lock, stopped = RunLock(), Progress()
    stopped.cancel()
    with lock.acquired(), pytest.raises(Cancelled), lock.acquired(stopped):
        pytest.fail("another goes on")
    with pytest.raises(Cancelled), lock.acquired(stopped):
        pytest.fail("nobody wants it")
    assert lock.compute_between_runs(lambda _key, _progress: "value", KEY, Progress()) == "value", "nothing is due"


def test_a_value_that_yielded_restarts_though_the_run_stopped() -> None:
    due, asked = {1}, Progress()
    progress = YieldToRun(asked, due)
    assert progress.cancelled
    due.clear()
    with pytest.raises(Cancelled):
        progress.check()
    assert not asked.cancelled
