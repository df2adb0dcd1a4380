"""Numbers for the changes of models in this process: while there is none, nothing has to look for them."""

from __future__ import annotations

from itertools import count

_numbers = count(1)
_last = [0]


def note_change() -> None:
    """Give the state a new number; called for each step. Any thread: no two changes get the same one."""
    _last[0] = next(_numbers)


def last_change() -> int:
    """Return the number of the last change of any model."""
    return _last[0]
