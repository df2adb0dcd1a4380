"""What a run says of a value beside its edge: a few words or the outline of a histogram. Plain data, no Qt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from onnx_workbench.model.ir.graph import Value
from onnx_workbench.viewer.canvas.scene.drawing import Style, TextMeasure

#: An outline is this high, px at 100 %; each bar this wide.
HEIGHT = 12.0
BAR = 2.0
#: Between the type of a value, its outline and the words.
SPACE = 7.0


@dataclass(frozen=True, slots=True)
class EdgeNote:
    """`bars` are heights from 0 to 1; `alarm` says what is wrong with the value; stale: an edit came after the run.

    `type_text` is what the value turned out to be: it stands instead of what was known of its type before.
    """

    text: str = ""
    bars: tuple[float, ...] = ()
    alarm: str = ""
    type_text: str = ""
    stale: bool = False


#: Tells what to write beside the edges of a value, or None.
NoteOf = Callable[[Value], EdgeNote | None]


def no_note(_value: Value) -> EdgeNote | None:
    """Nothing was run."""
    return None


def note_width(note: EdgeNote, measure: TextMeasure) -> float:
    """How wide a note is painted."""
    parts = [measure.width(text, Style.LABEL) for text in (note.alarm, note.text) if text]
    if note.bars:
        parts.append(len(note.bars) * BAR)
    return sum(parts) + SPACE * max(0, len(parts) - 1)
