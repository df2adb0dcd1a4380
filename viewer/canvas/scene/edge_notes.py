"""Sizes of what a run writes beside an edge."""

from __future__ import annotations

from onnx_workbench.viewer.canvas.scene.drawing import Style, TextMeasure
from onnx_workbench.viewer.core.edge_notes import EdgeNote

#: An outline is this high, px at 100 %; each bar this wide.
HEIGHT = 12.0
BAR = 2.0
#: Between the type of a value, its outline and the words.
SPACE = 7.0


def note_width(note: EdgeNote, measure: TextMeasure) -> float:
    """Width of a painted note in px at 100 %."""
    parts = [measure.width(text, Style.LABEL) for text in (note.warning, note.text) if text]
    if note.bars:
        parts.append(len(note.bars) * BAR)
    return sum(parts) + SPACE * max(0, len(parts) - 1)
