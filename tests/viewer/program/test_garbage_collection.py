"""Cyclic garbage goes on the GUI thread alone, that of closed models too."""

import ctypes
import gc
import subprocess
import sys
import threading
import weakref

import pytest
from PySide6.QtCore import QObject

from onnx_workbench.viewer.program import garbage_collection
from tests.model import builders


@pytest.fixture
def exempting(qtbot, collector, monkeypatch):
    """Models are exempt from collection, as in the program; what other tests closed is gone before."""
    qtbot.waitUntil(lambda: not collector.is_freeing)
    collector.collect()
    monkeypatch.setattr(garbage_collection, "exempt_objects", gc.freeze)
    monkeypatch.setattr(garbage_collection, "include_objects", gc.unfreeze)
    yield
    gc.collect()
    gc.freeze()


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


@pytest.mark.long
def test_cycles_of_a_closed_model_are_freed_soon(qtbot, collector, exempting):
    view, gone = Ring(), []
    weakref.finalize(view, lambda: gone.append(1))
    garbage_collection.exempt_objects()
    del view
    collector.collect()
    gc.collect()
    assert not gone
    model = builders.model()
    nodes = list(model.graph.nodes)
    garbage_collection.free_model(model)
    qtbot.waitUntil(lambda: bool(gone))
    assert all(node.graph is None and not node.inputs for node in nodes)


@pytest.mark.long
def test_closing_a_small_document_searches_no_large_one(qtbot, collector, exempting, monkeypatch):
    monkeypatch.setattr(garbage_collection, "_MOST_INCLUDED", 0)
    garbage_collection.exempt_objects()
    exempt = gc.get_freeze_count()
    model = builders.model()
    first = next(iter(model.graph.nodes))
    garbage_collection.free_model(model)
    qtbot.waitUntil(lambda: first.graph is None)
    qtbot.wait(500)
    assert gc.get_freeze_count() > exempt // 2


def test_very_many_old_objects_are_exempt_but_not_young_garbage(collector, exempting, monkeypatch):
    monkeypatch.setattr(garbage_collection, "_MOST_SEARCHED", 20_000)
    monkeypatch.setattr(garbage_collection, "_COLLECTIONS", 0)
    monkeypatch.setattr(collector, "_next_full", 0.0)
    steps = [[] for _ in range(50_000)]
    gc.collect(1)  # they are old now
    before = gc.get_freeze_count()
    ring, gone = Ring(), []
    weakref.finalize(ring, lambda: gone.append(1))
    del ring
    kept = allocate()
    collector.collect()
    assert gone
    assert gc.get_freeze_count() > before + len(steps)
    assert kept


def test_a_closed_tab_gives_its_model_free(qtbot, window, write_model):
    window.files.open([write_model()])
    qtbot.waitUntil(lambda: window.workspace is not None)
    graph = window.workspace.model.graph
    nodes = list(graph.nodes)
    window.files.forget(window.tabs()[0])
    qtbot.waitUntil(lambda: not len(graph.nodes))
    assert all(node.graph is None and not node.outputs for node in nodes)


def test_counting_objects_leaves_tuples_being_filled_alone():
    """It failed there with a SystemError."""
    failed = []

    def fill():
        try:
            for _ in range(10):
                assert len(tuple([] for _ in range(100_000))) == 100_000
        except SystemError as error:
            failed.append(error)

    kept = [[] for _ in range(200_000)]
    filling = threading.Thread(target=fill)
    filling.start()
    while filling.is_alive():
        gc.collect(1)  # makes them old
        assert garbage_collection._count_old_objects() >= 0
    filling.join()
    assert not failed
    assert kept


@pytest.mark.long
def test_memory_is_returned_after_a_model_was_closed(qtbot, collector, monkeypatch, exempting):
    returned = []
    monkeypatch.setattr(garbage_collection, "return_memory", lambda: returned.append(True))
    collector.collect()
    assert not returned
    garbage_collection.free_model(builders.model())
    qtbot.waitUntil(lambda: bool(returned))


def test_returning_memory_works_on_any_system():
    garbage_collection.return_memory()


_THREADS_THAT_ALLOCATE = """
import ctypes, sys, threading
from onnx_workbench.viewer.program.garbage_collection import use_one_heap

use_one_heap()
together = threading.Barrier(8)

def allocate():
    together.wait()
    kept = [bytes(50_000) for _ in range(10)]
    together.wait()

threads = [threading.Thread(target=allocate) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
library = ctypes.CDLL(None)
library.fopen.restype = ctypes.c_void_p
file = ctypes.c_void_p(library.fopen(sys.argv[1].encode(), b"w"))
library.malloc_info(0, file)
library.fclose(file)
"""


@pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "malloc_info"), reason="only glibc tells about its heaps"
)
def test_threads_allocate_from_one_heap(tmp_path):
    subprocess.run([sys.executable, "-c", _THREADS_THAT_ALLOCATE, tmp_path / "heaps.xml"], check=True)
    assert (tmp_path / "heaps.xml").read_text(encoding="ascii").count("<heap nr=") == 1
