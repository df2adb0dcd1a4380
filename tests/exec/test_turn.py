"""Values that are computed again between the runs of a session, in this process."""

import threading
from typing import Any

import pytest

from exec.turn import Turn
from model.progress import Cancelled, Progress

KEY = (), 1


def test_a_value_begins_anew_after_a_run_that_came_in_between() -> None:
    turn, begun, order = Turn(), threading.Event(), list[str]()

    def fetch(_key: Any, progress: Progress) -> str:
        order.append("begins")
        begun.set()
        while "run" not in order:
            progress.check()
        return "value"

    brought = list[Any]()
    bringing = threading.Thread(target=lambda: brought.append(turn.bring(fetch, KEY, Progress())))
    bringing.start()
    assert begun.wait(30)
    with turn:
        order.append("run")
    bringing.join(30)
    assert brought == ["value"]
    assert order == ["begins", "run", "begins"]


def test_a_value_that_waits_for_a_run_can_be_stopped() -> None:
    turn, stopped = Turn(), Progress()
    stopped.cancel()
    with turn, pytest.raises(Cancelled):
        turn.bring(lambda _key, _progress: pytest.fail("a run goes on"), KEY, stopped)
