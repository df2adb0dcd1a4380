"""Cyclic garbage goes on the GUI thread alone, and open models are not looked through for it."""

import gc
import threading
import weakref

import pytest
from PySide6.QtCore import QObject, QTimer

from viewer import garbage
from viewer.garbage import Collector


@pytest.fixture
def collector(qtbot):
    made = Collector()
    yield made
    made.stop()


class Ring(QObject):
    """In a cycle with itself."""

    def __init__(self) -> None:
        super().__init__()
        self.me = self


def test_a_job_that_allocates_destroys_no_qt_object(qtbot, collector):
    threads = []
    ring = Ring()
    weakref.finalize(ring, lambda: threads.append(threading.current_thread()))
    del ring

    def allocate() -> None:
        for _ in range(20):
            kept = [[] for _ in range(10_000)]
            del kept

    job = threading.Thread(target=allocate)
    job.start()
    job.join()
    assert not threads

    def busy() -> None:
        allocate()
        timer.start(0)

    timer = QTimer(singleShot=True)
    timer.timeout.connect(busy)
    timer.start(0)
    qtbot.waitUntil(lambda: bool(threads), timeout=20_000)
    timer.stop()
    assert threads == [threading.main_thread()]


def test_nothing_is_collected_in_a_pause(qtbot, collector):
    gone = []
    ring = Ring()
    weakref.finalize(ring, lambda: gone.append(1))
    del ring
    garbage.pause()
    kept = [[] for _ in range(50_000)]
    qtbot.wait(30)
    collector.look()
    assert not gone
    assert not gc.isenabled()
    garbage.resume()
    assert not gc.isenabled()
    del kept


def test_without_a_window_python_collects():
    assert gc.isenabled()
    garbage.pause()
    assert not gc.isenabled()
    garbage.resume()
    assert gc.isenabled()


def test_models_that_stay_are_spared_again_when_one_is_closed(qtbot, collector, monkeypatch):
    monkeypatch.setattr(gc, "get_count", lambda: (10**6, 10**6, 10**6))
    try:
        garbage.spare()
        garbage.spare()
        garbage.spare_no_longer()
        assert not gc.get_freeze_count()
        collector.look()
        assert gc.get_freeze_count()
    finally:
        garbage.spare_no_longer()
    collector.look()
    assert not gc.get_freeze_count()
