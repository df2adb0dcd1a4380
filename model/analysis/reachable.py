"""What can be reached from some things, step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from onnx_workbench.model.progress import SILENT, Progress

_T = TypeVar("_T")


def reachable(
    start: Iterable[_T], following: Callable[[_T], Iterable[_T | None]], progress: Progress = SILENT
) -> dict[_T, None]:
    """Return some things and all that follow from them at any distance, in the order found; None is nothing."""
    found = dict.fromkeys(start)
    pending = list(found)
    while pending:
        progress.check()
        for other in following(pending.pop()):
            if other is not None and other not in found:
                found[other] = None
                pending.append(other)
    return found
