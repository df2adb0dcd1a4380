"""Notes with short results beside the edge of a value: a few words or the outline of a histogram. No Qt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from onnx_workbench.model.ir.graph import Value


@dataclass(frozen=True, slots=True)
class EdgeNote:
    """Text and histogram outline of one value.

    `bars` are heights from 0 to 1; `warning` names a problem with the values; `stale`: an edit followed the run.
    `type_text` is the type in the run, shown instead of the inferred one.
    """

    text: str = ""
    bars: tuple[float, ...] = ()
    warning: str = ""
    type_text: str = ""
    stale: bool = False


#: Returns the note of a value, or None.
NoteOf = Callable[[Value], EdgeNote | None]


def no_note(_value: Value) -> EdgeNote | None:
    """Return None: the `NoteOf` of a graph without a run."""
    return None
