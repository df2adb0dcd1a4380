"""Cyclic garbage goes on the GUI thread alone, and open models are not looked through for it."""

import gc
import sys
import threading
import weakref
from hashlib import blake2b

import pytest
from PySide6.QtCore import QObject

from onnx_workbench.viewer.core import garbage_collection


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


def test_nothing_is_collected_in_a_pause(collector):
    gone = []
    ring = Ring()
    weakref.finalize(ring, lambda: gone.append(1))
    del ring
    garbage_collection.pause()
    kept = [[] for _ in range(50_000)]
    collector.look()
    assert not gone
    assert not gc.isenabled()
    garbage_collection.resume()
    assert not gc.isenabled()
    del kept


def test_without_a_window_python_collects(collector):
    collector.stop()
    try:
        assert gc.isenabled()
        garbage_collection.pause()
        assert not gc.isenabled()
        garbage_collection.resume()
        assert gc.isenabled()
    finally:
        collector.start()


class Model:
    """Something to spare, in a cycle with itself."""

    def __init__(self) -> None:
        self.me = self


@pytest.fixture
def spared(collector, monkeypatch):
    """No other model is open, and every look searches through everything."""
    monkeypatch.setattr(gc, "get_count", lambda: (10**4, 10**6, 10**6))
    monkeypatch.setattr(garbage_collection, "_SHARE", 1e9)
    monkeypatch.setattr(collector, "_next_full", 0.0)
    monkeypatch.setattr(garbage_collection, "_spared", garbage_collection._Spared())
    gc.unfreeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("spared")
def test_models_that_stay_are_spared_again_when_one_is_closed(collector):
    first, second = Model(), Model()
    garbage_collection.spare()
    garbage_collection.spare()
    assert gc.get_freeze_count()
    garbage_collection.spare_no_longer(first)
    del first
    assert not gc.get_freeze_count()
    collector.look()
    assert gc.get_freeze_count()
    garbage_collection.spare_no_longer(second)
    del second
    collector.look()
    assert not gc.get_freeze_count()


@pytest.mark.usefixtures("spared")
@pytest.mark.parametrize("again", [garbage_collection.spare, garbage_collection.spare_new, lambda: None])
def test_a_closed_model_that_something_still_holds_is_not_kept_by_others_being_spared(collector, monkeypatch, again):
    closed, gone = Model(), []
    weakref.finalize(closed, lambda: gone.append(1))
    garbage_collection.spare()
    garbage_collection.spare()
    garbage_collection.spare_no_longer(closed)
    job = [closed]
    del closed
    again()
    collector.look()
    with monkeypatch.context() as busy:
        busy.setattr(gc, "get_count", lambda: (10**6, 0, 0))
        collector.look()
    job.clear()
    collector.look()
    assert gone
    assert gc.get_freeze_count()


@pytest.mark.usefixtures("spared")
def test_what_has_come_in_many_small_parts_is_spared_instead_of_searched(collector, monkeypatch):
    garbage_collection.spare()
    monkeypatch.setattr(gc, "get_count", lambda: (2000, 0, 0))
    searched = []
    monkeypatch.setattr(gc, "collect", lambda generation=2, search=gc.collect: searched.append(search(generation)))
    before = gc.get_freeze_count()
    kept = []
    for _ in range(12):
        kept += [[] for _ in range(2000)]
        collector.look()  # each part by itself is little
    assert gc.get_freeze_count() <= before  # what other tests left may go meanwhile
    monkeypatch.setattr(gc, "get_count", lambda: (2000, 100, 0))
    before = gc.get_freeze_count()
    searches = len(searched)
    collector.look()
    assert gc.get_freeze_count() > before + len(kept) // 2
    assert len(searched) == searches


@pytest.mark.usefixtures("spared")
def test_a_few_objects_that_hold_very_many_are_spared_instead_of_searched(collector, monkeypatch):
    """A list of 100,000 nodes is one object, and a search looks at each of them."""
    garbage_collection.spare()
    monkeypatch.setattr(gc, "get_count", lambda: (2000, 0, 0))
    searched = []
    monkeypatch.setattr(gc, "collect", lambda generation=2: searched.append(generation))
    collector.look()
    assert searched == [0]
    kept = [[None] * 100_000]
    collector.look()
    assert searched == [0]
    assert not any(one is kept[0] for one in gc.get_objects(generation=0))


@pytest.mark.usefixtures("spared")
def test_little_is_searched_although_a_model_is_spared(collector, monkeypatch):
    garbage_collection.spare()
    ring, gone = Model(), []
    weakref.finalize(ring, lambda: gone.append(1))
    del ring
    monkeypatch.setattr(gc, "get_count", lambda: (2000, 100, 0))
    collector.look()
    assert gone


@pytest.mark.usefixtures("spared")
def test_looking_spoils_nothing_that_other_threads_are_making(collector, monkeypatch):
    """A tuple that is being made may have no other holder, not even a list of all objects."""
    garbage_collection.spare()
    monkeypatch.setattr(gc, "get_count", lambda: (2000, 100, 0))
    errors, stop = [], threading.Event()

    def make() -> None:
        try:
            while not stop.is_set():
                tuple(i for i in range(50))
        except SystemError as error:
            errors.append(error)

    maker = threading.Thread(target=make)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    maker.start()
    try:
        for _ in range(50):
            kept = [[] for _ in range(5000)]  # looking takes its time
            collector.look()
    finally:
        sys.setswitchinterval(interval)
        stop.set()
        maker.join()
    assert kept
    assert not errors


@pytest.mark.usefixtures("spared")
def test_a_tuple_that_another_thread_is_just_making_is_not_held(collector, monkeypatch):
    garbage_collection.spare()
    monkeypatch.setattr(gc, "get_count", lambda: (2000, 0, 0))
    monkeypatch.setattr(gc, "freeze", lambda: None)
    kept = [[] for _ in range(30_000)]  # more than are looked at
    content, failures = bytes(100_000), []

    def make():
        for _ in range(2000):
            try:
                tuple(blake2b(content).digest() for _ in range(1))  # lets the other thread run meanwhile
            except SystemError as error:
                failures.append(error)
                return

    thread = threading.Thread(target=make)
    thread.start()
    while thread.is_alive():
        collector.look()
    assert (len(kept), failures) == (30_000, [])
