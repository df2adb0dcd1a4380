"""Cyclic garbage goes on the GUI thread alone, that of closed models too."""

import gc
import threading
import weakref

from PySide6.QtCore import QObject

from onnx_workbench.viewer.core import garbage_collection


class Ring(QObject):
    """In a cycle with itself."""

    def __init__(self) -> None:
        super().__init__()
        self.me = self


def allocate():
    """Enough for Python to collect by itself."""
    kept = []
    thread = threading.Thread(target=lambda: kept.extend([[] for _ in range(200_000)]))
    thread.start()
    thread.join()
    return kept


def test_a_thread_that_allocates_destroys_no_qt_object(qtbot):
    threads = []
    ring = Ring()
    weakref.finalize(ring, lambda: threads.append(threading.current_thread()))
    del ring
    kept = allocate()
    assert not threads
    qtbot.waitUntil(lambda: bool(threads))
    assert threads == [threading.main_thread()]
    assert kept


def test_without_a_window_python_collects(collector):
    collector.stop()
    try:
        assert gc.isenabled()
    finally:
        collector.start()
    assert not gc.isenabled()


class Model:
    """In a cycle with itself."""

    def __init__(self) -> None:
        self.me = self


def test_the_cycles_of_a_closed_model_go_without_waiting_for_other_garbage(qtbot, collector):
    model, gone = Model(), []
    weakref.finalize(model, lambda: gone.append(1))
    garbage_collection.exclude_model()
    del model
    collector.collect()
    gc.collect()
    assert not gone
    garbage_collection.include_models()
    collector.collect()
    assert gone
