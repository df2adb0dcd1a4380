import subprocess
import sys
import threading

import pytest

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.progress import Cancelled
from onnx_workbench.viewer.core.jobs import Jobs


@pytest.fixture
def jobs(qapp):
    jobs = Jobs()
    yield jobs
    jobs.close()


def test_work_runs_in_a_thread_and_answers_on_the_gui_thread(jobs, qtbot):
    threads = {}

    def work(_progress):
        threads["work"] = threading.current_thread()
        return 42

    results = []

    def done(result):
        threads["done"] = threading.current_thread()
        results.append(result)

    job = jobs.start("Count", work, done=done, finished=lambda: results.append("finished"))
    assert jobs.running == (job,)
    qtbot.waitUntil(lambda: len(results) == 2)
    assert results == [42, "finished"]
    assert threads["done"] is threading.main_thread()
    assert threads["work"] is not threads["done"]
    assert jobs.running == ()


def test_starting_a_job_waits_for_no_thread_to_begin(jobs, qtbot, monkeypatch):
    """A new one begins when it has a processor, and a run may use all of them."""
    results = []

    def wait_for_thread(thread):
        raise AssertionError(thread)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", wait_for_thread)  # it returns when the new thread runs
        jobs.start("Count", lambda _progress: 1, done=results.append)
    qtbot.waitUntil(lambda: results == [1])


def test_the_mutating_lane_runs_one_after_the_other_and_reading_side_by_side(jobs, qtbot):
    order = []
    both = threading.Barrier(2, timeout=20)

    def mutate(name):
        def work(_progress):
            order.append(f"{name} in")
            order.append(f"{name} out")

        return work

    finished = []
    for name in "abc":
        jobs.start("Write", mutate(name), lane="mutate", finished=lambda: finished.append(1))
    for _ in range(2):
        jobs.start("Read", lambda _progress: both.wait(), finished=lambda: finished.append(1))
    qtbot.waitUntil(lambda: len(finished) == 5, timeout=20_000)
    assert order == [f"{name} {when}" for name in "abc" for when in ("in", "out")]
    assert not both.broken


def test_progress_reaches_the_gui_thread(jobs, qtbot, heard):
    seen = []
    jobs.progressed.connect(lambda job: seen.append((job.done, job.total, job.text)))
    jobs.start("Count", lambda progress: progress.report(2, 2, "all"))
    qtbot.waitUntil(lambda: bool(seen))
    assert seen == [(2, 2, "all")]


def test_a_cancelled_job_only_finishes(jobs, qtbot):
    started, heard_calls = threading.Event(), []

    def work(progress):
        started.set()
        while True:
            progress.check()

    job = jobs.start(
        "Spin",
        work,
        done=lambda _: heard_calls.append("done"),
        failed=lambda _: heard_calls.append("failed"),
        finished=lambda: heard_calls.append("finished"),
    )
    started.wait(10)
    job.cancel()
    qtbot.waitUntil(lambda: bool(heard_calls))
    assert heard_calls == ["finished"]


def test_a_job_cancelled_before_it_begins_never_runs(jobs, qtbot):
    gate, ran, finished = threading.Event(), [], []
    jobs.start("First", lambda _progress: gate.wait(10), lane="mutate")
    second = jobs.start("Second", lambda _: ran.append(1), lane="mutate", finished=lambda: finished.append(1))
    second.cancel()
    gate.set()
    qtbot.waitUntil(lambda: bool(finished))
    assert not ran


def test_a_result_that_comes_after_cancelling_is_not_delivered(jobs, qtbot):
    gate, results, finished = threading.Event(), [], []
    job = jobs.start("Late", lambda _: gate.wait(10), done=results.append, finished=lambda: finished.append(1))
    job.cancel()
    gate.set()
    qtbot.waitUntil(lambda: bool(finished))
    assert results == []


def test_the_newest_of_superseding_requests_wins(jobs, qtbot):
    results, gate = [], threading.Event()

    def old(progress):
        gate.wait(10)
        progress.check()

    jobs.start("Lay out", old, done=lambda _: results.append("old"), supersede="layout")
    jobs.start("Lay out", lambda _: "new", done=results.append, supersede="layout")
    jobs.start("Other", lambda _: "other", done=results.append, supersede="statistics")
    gate.set()
    qtbot.waitUntil(lambda: not jobs.running)
    assert sorted(results) == ["new", "other"]


def test_an_error_of_the_person_goes_to_failed_or_to_the_signal(jobs, qtbot, heard):
    unhandled = heard(jobs.failed)
    errors = []

    def work(_progress):
        raise ModelError("No such file")

    jobs.start("Read", work, failed=errors.append)
    job = jobs.start("Read", work)
    qtbot.waitUntil(lambda: not jobs.running)
    assert [error.title for error in errors] == ["No such file"]
    assert unhandled == [job]


def test_a_bug_reaches_the_exception_hook(jobs, qtbot):
    finished = []

    def work(_progress):
        raise RuntimeError("bug")

    with qtbot.captureExceptions() as exceptions:
        jobs.start("Break", work, finished=lambda: finished.append(1))
        qtbot.waitUntil(lambda: bool(finished))
    assert [str(error) for _, error, _ in exceptions] == ["bug"]


def test_cancelled_raised_by_the_work_itself_counts_as_cancelled(jobs, qtbot):
    def work(_progress):
        raise Cancelled

    finished = []
    job = jobs.start("Give up", work, finished=lambda: finished.append(1))
    qtbot.waitUntil(lambda: bool(finished))
    assert job.cancelled


def test_after_close_nothing_is_called_back(qapp, qtbot):
    jobs = Jobs()
    gate, calls = threading.Event(), []
    job = jobs.start("Wait", lambda _: gate.wait(10), done=calls.append, finished=lambda: calls.append("finished"))
    jobs.close()
    gate.set()
    qtbot.waitUntil(lambda: job.finished)
    assert calls == []
    assert job.cancelled


def test_counting_keeps_nobody_waiting_who_wants_to_read(jobs, qtbot):
    gate = threading.Event()
    for _ in range(6):
        jobs.start("Count", lambda _progress: gate.wait(10), lane="count")
    read = []
    jobs.start("Read", lambda _progress: 1, done=read.append)
    qtbot.waitUntil(lambda: bool(read), timeout=3000)
    assert len(jobs.running) == 6
    gate.set()
    qtbot.waitUntil(lambda: not jobs.running)


def test_a_quick_job_never_waits_behind_a_long_one_while_threads_are_free(qapp):
    """The thread that takes the long one must not count as free any more, at whatever moment the quick one comes."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(1500):
            jobs, ready, gate, quick = Jobs(), threading.Event(), threading.Event(), threading.Event()
            jobs.start("", lambda _progress, ready=ready: ready.set())
            assert ready.wait(20)
            jobs.start("", lambda _progress, gate=gate: gate.wait(20))
            jobs.start("", lambda _progress, quick=quick: quick.set())
            try:
                assert quick.wait(5)
            finally:
                gate.set()
                jobs.close()
    finally:
        sys.setswitchinterval(interval)


def test_work_that_ends_after_the_program_says_nothing():
    """The process ends in the middle of a job that does not heed cancelling: no traceback on the terminal."""
    program = """
import threading
from PySide6.QtCore import QCoreApplication
from shiboken6 import delete
from onnx_workbench.viewer.core import jobs

application = QCoreApplication([])
begun, gone = threading.Event(), threading.Event()
running = jobs.Jobs()
running.start("", lambda _progress: (begun.set(), gone.wait(30)))
begun.wait(30)
delete(jobs._mailbox())  # as the end of the interpreter does
gone.set()
jobs.wait_for_end(30)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
