"""Cyclic garbage goes on the GUI thread alone, and open models are not looked through for it."""

import gc
import threading
import weakref

from PySide6.QtCore import QObject

from viewer import garbage


class Ring(QObject):
    """In a cycle with itself."""

    def __init__(self) -> None:
        super().__init__()
        self.me = self


def test_a_job_that_allocates_destroys_no_qt_object(qtbot):
    threads = []
    ring = Ring()
    weakref.finalize(ring, lambda: threads.append(threading.current_thread()))
    del ring

    kept = []
    job = threading.Thread(target=lambda: kept.extend([[] for _ in range(200_000)]))
    job.start()
    job.join()
    assert not threads
    qtbot.waitUntil(lambda: bool(threads), timeout=20_000)
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


def test_without_a_window_python_collects(collector):
    collector.stop()
    try:
        assert gc.isenabled()
        garbage.pause()
        assert not gc.isenabled()
        garbage.resume()
        assert gc.isenabled()
    finally:
        collector.start()


def test_models_that_stay_are_spared_again_when_one_is_closed(collector, monkeypatch):
    frozen = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(True))
    monkeypatch.setattr(gc, "unfreeze", frozen.clear)
    monkeypatch.setattr(gc, "get_count", lambda: (10**6, 10**6, 10**6))
    monkeypatch.setattr(collector, "_next_full", 0.0)
    monkeypatch.setattr(garbage, "_spared", garbage._Spared())
    garbage.spare()
    garbage.spare()
    garbage.spare_no_longer()
    assert not frozen
    collector.look()
    assert frozen
    garbage.spare_no_longer()
    collector.look()
    assert not frozen
