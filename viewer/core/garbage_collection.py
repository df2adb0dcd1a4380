"""Cyclic garbage: collected on the GUI thread, when nothing waits for it, and never among the objects of open models.

Python collects on whichever thread happens to allocate. A cycle with a Qt object in it would then be destroyed on the
thread of a job, which Qt does not survive. So a program with a window collects by itself: whenever the event loop
wakes up and enough has been allocated since the last time. Nothing wakes it up for that.
"""

from __future__ import annotations

import gc
import sys
import threading
import time
import weakref
from itertools import chain, islice

from PySide6.QtCore import QAbstractEventDispatcher, QObject

#: A search through everything may take this part of the time.
_SHARE = 0.02
#: So many bytes of new objects come with a model or the results of a run: thousands of small ones, or a few long lists.
_MUCH = 1 << 18
_ENOUGH = _MUCH // 32  # objects: none is smaller
_LONG = 0.03  # seconds of a search


class Collector(QObject):
    """Collects for this program from `start` to `stop`. GUI thread."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._next_full = 0.0

    def start(self) -> None:
        """Take it over from Python."""
        _pauses.automatic = False
        gc.disable()
        QAbstractEventDispatcher.instance().awake.connect(self.look)

    def look(self) -> None:
        """Collect what has come together; costs a microsecond where there is little."""
        counts, thresholds = gc.get_count(), gc.get_threshold()
        if counts[0] <= thresholds[0] or _pauses.count:
            return
        is_young = counts[1] <= thresholds[1]
        is_spared = _spared.count > 0 and not _spared.is_awaited
        if is_spared and (counts[0] > _ENOUGH or any(map(_is_much, range(1 if is_young else 2)))):
            gc.freeze()  # it came with a model or a run, and stays as long
        elif is_young:
            gc.collect(0)
        elif counts[2] <= thresholds[2] or time.monotonic() < self._next_full:
            gc.collect(1)
        else:
            begun = time.monotonic()
            gc.collect()
            now = time.monotonic()
            if _spared.again or (_spared.count and now - begun > _LONG):
                _spared.freeze()  # what made it long belongs to models
            self._next_full = now + (now - begun) / _SHARE

    def stop(self) -> None:
        """Leave it to Python again."""
        QAbstractEventDispatcher.instance().awake.disconnect(self.look)
        _pauses.automatic = True
        gc.enable()


def _is_much(generation: int) -> bool:
    """Whether a search through what came lately takes long; no small count tells: old objects that went are off it.

    No line of Python may run while all of them are held, nor any other thread: a tuple that it is just making would
    have a second holder, and Python fails to make it. So only the chain holds them, and it lets go before the sum ends.
    """
    first = map(islice, map(gc.get_objects, (generation,)), (_ENOUGH,))
    return sum(map(sys.getsizeof, chain.from_iterable(first))) > _MUCH


class _Pauses:
    """How many want that nothing is collected meanwhile. Any thread."""

    def __init__(self) -> None:
        self.count = 0
        self.automatic = True  # no Collector: Python does it
        self._lock = threading.Lock()

    def change(self, by: int) -> None:
        with self._lock:
            self.count += by
            if self.automatic:
                (gc.disable if self.count else gc.enable)()


_pauses = _Pauses()


def pause() -> None:
    """Collect nothing until `resume` was called as often: where much is made, a search takes long. Any thread."""
    _pauses.change(1)


def resume() -> None:
    """See `pause`. Any thread."""
    _pauses.change(-1)


def spare_new() -> None:
    """Much has been made for a model that is spared, and stays as long: look through it no more. GUI thread."""
    if _spared.count:
        _spared.freeze()


def spare() -> None:
    """All that is there stays for long, as a model that was opened does: look through it no more. GUI thread."""
    _spared.count += 1
    _spared.freeze()


def spare_no_longer(leaving: object) -> None:
    """One of those is garbage soon; the others are spared again once it is gone. GUI thread."""
    _spared.count -= 1
    _spared.leaving.add(leaving)
    _spared.again = _spared.count > 0
    gc.unfreeze()


class _Spared:
    """Models that are not looked through. What is garbage when it is spared is never found, so all wait for it."""

    def __init__(self) -> None:
        self.count = 0
        self.again = False  # at the end of the next search
        self.leaving = weakref.WeakSet[object]()  # spared no longer, but not gone yet: a job may still hold them

    @property
    def is_awaited(self) -> bool:
        """Whether something that was spared has still to go."""
        return len(self.leaving) > 0

    def freeze(self) -> None:
        """Spare all that is there, as soon as nothing has to go."""
        self.again = self.is_awaited
        if not self.again:
            gc.freeze()


_spared = _Spared()
