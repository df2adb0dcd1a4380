"""Sizes of the notes of a run beside an edge."""

from __future__ import annotations

from onnx_workbench.viewer.canvas.scene.drawing import Style, TextMeasure
from onnx_workbench.viewer.document.edge_notes import EdgeNote

#: Height of an outline, and width of each bar, px at 100 %.
HEIGHT = 12.0
BAR = 2.0
#: Gap between the type of a value, its outline and the text.
SPACE = 7.0


def note_width(note: EdgeNote, measure: TextMeasure) -> float:
    """Return the width of a painted note in px at 100 %."""
    parts = [measure.width(text, Style.LABEL) for text in (note.warning, note.text) if text]
    if note.bars:
        parts.append(len(note.bars) * BAR)
    return sum(parts) + SPACE * max(0, len(parts) - 1)
