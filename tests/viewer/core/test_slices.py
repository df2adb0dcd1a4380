"""Work in slices has the model for itself, and lets the window go on in between."""

import gc
import threading

import pytest
from PySide6.QtCore import QCoreApplication, QObject, QTimer
from shiboken6 import delete

from onnx_workbench.model.progress import Cancelled
from onnx_workbench.viewer.core.shifts import Once, Shift
from onnx_workbench.viewer.core.slices import Latest, Slices
from tests.viewer.held import let_take_turns


def count_to(limit, seen):
    def work(progress):
        for number in range(limit):
            seen.append(number)
            threading.Event().wait(0.0005)
            progress.check()
        return limit

    return work


def test_what_fits_into_one_slice_needs_no_thread(qtbot):
    threads, done = [], []

    def work(progress):
        threads.append(threading.current_thread())
        progress.check()
        return 3

    Slices(work, done.append, pytest.fail)
    qtbot.waitUntil(lambda: bool(done), timeout=10_000)
    assert done == [3]
    assert threads == [threading.main_thread()]


@pytest.mark.parametrize("end", ["done", "failed", "cancelled"])
def test_nothing_is_left_of_it(qtbot, end):
    """What it gave would stay as long as who asked for it, and that may be until the program ends."""
    around, ended = QObject(), []

    def work(_progress):
        if end == "failed":
            raise ValueError
        return 3

    slices = Slices(work, ended.append, ended.append, around)
    if end == "cancelled":
        slices.cancel()
    qtbot.waitUntil(lambda: not around.children(), timeout=10_000)
    slices.cancel()  # is no error
    assert len(ended) == (end != "cancelled")


def test_what_takes_longer_begins_anew_on_a_thread(qtbot):
    seen, done, threads = [], [], []

    def work(progress):
        threads.append(threading.current_thread())
        return count_to(60, seen)(progress)

    Slices(work, done.append, pytest.fail)
    qtbot.waitUntil(lambda: bool(done), timeout=10_000)
    assert [thread is threading.main_thread() for thread in threads] == [True, False]
    assert seen[-60:] == list(range(60))


def test_it_ends_with_the_result_and_the_window_went_on(qtbot):
    seen, done, turns = [], [], []
    timer = QTimer(interval=0)
    timer.timeout.connect(lambda: turns.append(len(seen)))
    timer.start()
    slices = Slices(count_to(60, seen), done.append, pytest.fail)
    qtbot.waitUntil(lambda: bool(done), timeout=10_000)
    timer.stop()
    assert done == [60]
    assert not slices.running
    assert len(set(turns)) > 2


def test_nothing_happens_between_two_slices(qtbot):
    seen, done = [], []
    slices = Slices(count_to(2000, seen), done.append, pytest.fail)
    qtbot.waitUntil(lambda: seen.count(0) == 2, timeout=10_000)
    before = len(seen)
    threading.Event().wait(0.05)
    assert len(seen) == before
    slices.cancel()


@pytest.mark.parametrize("begun", [1, 2])
def test_a_cancelled_one_calls_nobody(qtbot, begun):
    seen, done = [], []
    slices = Slices(count_to(5000, seen), done.append, pytest.fail)
    qtbot.waitUntil(lambda: seen.count(0) >= begun, timeout=10_000)
    slices.cancel()
    assert not slices.running
    before = len(seen)
    let_take_turns(qtbot)
    assert len(seen) == before
    assert done == []


def test_what_the_work_raises_is_handed_over(qtbot):
    failed = []

    def work(_progress):
        raise ValueError("no")

    Slices(work, pytest.fail, failed.append, parent=None)
    qtbot.waitUntil(lambda: bool(failed), timeout=10_000)
    assert isinstance(failed[0], ValueError)
    assert not isinstance(failed[0], Cancelled)


def test_work_whose_owner_goes_away_ends_too(qtbot):
    done, threads = [], []

    def work(progress):
        threads.append(threading.current_thread())
        return count_to(5000, [])(progress)

    owner = QObject()
    Slices(work, done.append, pytest.fail, owner)
    qtbot.waitUntil(lambda: len(threads) == 2, timeout=10_000)
    delete(owner)
    threads[1].join(5)
    assert not threads[1].is_alive()
    assert done == []


def test_of_what_is_begun_one_after_the_other_the_last_counts(qtbot):
    owner, done, seen = QObject(), [], []
    latest = Latest(owner)
    latest.begin(count_to(5000, []), pytest.fail)
    latest.begin(count_to(20, seen), done.append)
    assert latest.running
    qtbot.waitUntil(lambda: not latest.running, timeout=10_000)
    assert done == [20]
    latest.begin(count_to(20, []), done.append, at_once=True)
    assert done == [20, 20]
    assert not latest.running
    latest.begin(count_to(5000, []), pytest.fail)
    latest.stop()
    assert not latest.running
    qtbot.waitUntil(lambda: not latest.children(), timeout=10_000)


def test_what_is_on_its_way_begins_anew_and_what_is_done_does_not(qtbot):
    owner, done, seen = QObject(), [], []
    latest = Latest(owner)
    latest.begin_anew()
    latest.begin(count_to(500, seen), done.append)
    qtbot.waitUntil(lambda: bool(seen), timeout=10_000)
    began = seen.count(0)
    latest.begin_anew()
    qtbot.waitUntil(lambda: not latest.running, timeout=10_000)
    assert seen.count(0) > began
    assert done == [500]
    latest.begin_anew()
    assert not latest.running


def test_what_goes_wrong_in_it_is_raised_and_another_can_begin(qtbot):
    owner, done, failed = QObject(), [], []
    latest = Latest(owner)

    def work(_progress):
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        latest.begin(work, pytest.fail, failed=lambda: failed.append(latest.running), at_once=True)
    assert failed == [False]
    latest.begin(lambda _progress: 3, done.append, at_once=True)
    assert done == [3]


def test_garbage_is_collected_again_after_the_last_of_them(qtbot, collector, monkeypatch):
    monkeypatch.setattr(gc, "get_count", lambda: (10**6, 0, 0))
    collections, seen, done, collecting = [], [], [], []
    monkeypatch.setattr(gc, "collect", collections.append)

    def collects():
        collections.clear()
        collector.look()
        return bool(collections)

    def work(progress):
        collecting.append(collects())
        return count_to(30, seen)(progress)

    Slices(work, done.append, pytest.fail)
    cancelled = Slices(work, done.append, pytest.fail)
    qtbot.waitUntil(lambda: len(collecting) == 4, timeout=10_000)
    cancelled.cancel()
    qtbot.waitUntil(lambda: bool(done), timeout=10_000)
    assert collecting == [False] * 4
    assert collects()


def test_all_who_work_in_slices_take_turns_with_one_another(qtbot):
    """Were all due in one turn of the event loop, that would take as long as all of them together."""
    order = []
    shifts = [Shift(lambda name=name: order.append(name)) for name in "abc"]
    for shift in shifts:
        shift.start()
        shift.start()  # once is enough
    QCoreApplication.processEvents()
    assert len(order) <= 1
    qtbot.waitUntil(lambda: len(order) >= 7, timeout=10_000)
    shifts[1].stop()
    assert order[:7] == list("abcabca")
    before = len(order)
    qtbot.waitUntil(lambda: len(order) >= before + 4, timeout=10_000)
    assert set(order[before:]) == {"a", "c"}
    delete(shifts[0])  # with whom it belonged to
    shifts[2].stop()
    before = len(order)
    let_take_turns(qtbot)
    assert len(order) == before


def test_what_is_asked_for_often_is_done_once_and_later(qtbot):
    done = []
    once = Once(lambda: done.append(len(done)))
    once.ask()
    once.ask()
    assert done == []
    qtbot.waitUntil(lambda: done == [0], timeout=10_000)
    let_take_turns(qtbot)
    assert done == [0]
    once.ask()
    qtbot.waitUntil(lambda: done == [0, 1], timeout=10_000)


def test_a_dialog_opened_in_a_turn_does_not_hold_up_the_others(qtbot):
    went_on = []

    def open_dialog():
        first.stop()
        qtbot.waitUntil(lambda: bool(went_on), timeout=10_000)

    first, second = Shift(open_dialog), Shift(lambda: went_on.append(1))
    first.start()
    second.start()
    qtbot.waitUntil(lambda: not first.is_on and bool(went_on), timeout=10_000)
    second.stop()
