"""Notes beside the edges of the graph after a run: a statistic of each value, or the outline of its histogram.

Made on demand: the canvas calls `note_of` while it paints. Until the summary of a value is read, the note of the
previous run is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import sqrt
from typing import TYPE_CHECKING

from onnx_workbench.exec.inspect.value_summary import ValueSummary
from onnx_workbench.exec.values.statistics import Statistics
from onnx_workbench.model.ir.graph import Value
from onnx_workbench.model.ir.types import ElementType, Shape, TensorType
from onnx_workbench.model.text.formatting import number_text
from onnx_workbench.viewer.document.edge_notes import EdgeNote, NoteOf
from onnx_workbench.viewer.program.settings import EDGE_NOTES
from onnx_workbench.viewer.run.results.run_record import RunRecord
from onnx_workbench.viewer.style.type_texts import edge_text

if TYPE_CHECKING:
    from onnx_workbench.viewer.run.workspace import Workspace

_DIGITS = 3


class EdgeNotes:
    """The notes of one document, updated by its `RunPresenter`. GUI thread only."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._results = workspace.results
        self._kind = workspace.settings.get(EDGE_NOTES)
        self._record: RunRecord | None = None  # the run shown at the last update
        self._painted: dict[Value, EdgeNote | None] = {}  # last note of each painted value
        workspace.highlights.note_of = self.note_of

    def note_of(self, value: Value) -> EdgeNote | None:
        """Return the note beside the edges of a value; requests what it lacks. Cheap."""
        if self._results.current is None or self._kind == "none":
            return None
        note = self._painted[value] = self._newest(value)
        return note

    def _newest(self, value: Value) -> EdgeNote | None:
        """Return the note from the last run; until that can be made, the note of the previous run."""
        summaries = self._results.summaries
        found, info = summaries.of(value), self._results.info_of(value)
        if found is None:
            return self._painted.get(value) if summaries.awaits(value) else None
        kind = None if info is None else info.element_type
        computed = "" if info is None or kind is None else edge_text(TensorType(kind, Shape(info.shape)))
        is_stale = self._results.is_stale(value) and not self._is_live
        return note_text(self._kind, found, kind, type_text=computed, is_stale=is_stale)

    @property
    def _is_live(self) -> bool:
        """Whether Live is on: then notes are not marked stale, as a run follows at once."""
        return self._workspace.has_runs and self._workspace.runs.live

    def read_all(self, values: Iterable[Value], then: Callable[[NoteOf], object]) -> None:
        """Read some values, then call back with a function that returns their notes: for pictures of hidden parts."""
        record = self._results.current
        if record is None or self._kind == "none":
            then(lambda _value: None)
            return
        keys = [key for value in values if (key := record.key(value)) is not None]
        self._results.summaries.collect(record, keys, lambda: then(self._newest))

    def update(self, values: Iterable[Value] | None = None) -> None:
        """Repaint the notes in view after a run or an edit (None), or those of values that arrived, if they changed."""
        is_another, self._record = self._record is not self._results.current, self._results.current
        if self._kind == "none" or (values is None and not is_another and self._is_live):
            return
        if values is None or (is_another and not self._painted):
            self.start_over()
            return
        painted = [value for value in values if value in self._painted]
        differing = {value for value in painted if self._newest(value) != self._painted[value]}
        if differing:
            self._workspace.highlights.notes_changed.emit(differing)

    def start_over(self) -> None:
        """Repaint all labels in view, which makes their notes again."""
        if self._record is None:
            self._painted.clear()
        self._workspace.highlights.notes_changed.emit(None)

    def choose(self) -> None:
        """Follow the chosen kind of notes."""
        self._kind = self._workspace.settings.get(EDGE_NOTES)
        self._painted.clear()
        self.start_over()


def summary_line(found: ValueSummary, element_type: ElementType) -> str:
    """Return the number of non-finite elements of a value and its range in one line."""
    return "  ".join(filter(None, (warning_text(found.statistics), range_text(found.statistics, element_type))))


def note_text(
    kind: str, found: ValueSummary, element_type: ElementType | None, *, type_text: str = "", is_stale: bool = False
) -> EdgeNote | None:
    """Return the note of a kind for the statistics of a value; None if it would be empty."""
    facts = found.statistics
    warning = warning_text(facts)
    if warning:
        return EdgeNote("", (), warning, type_text, is_stale)
    text = ""
    bars = outline(found.counts) if kind == "histogram" and facts.minimum != facts.maximum else ()
    if not bars and facts.minimum is not None:
        text = _text(kind, facts, is_boolean=element_type is ElementType.BOOL)
    return EdgeNote(text, bars, "", type_text, is_stale) if text or bars else None


def outline(counts: tuple[int, ...]) -> tuple[float, ...]:
    """Return heights of bars, 0 to 1: square roots of the counts, so that small ones are visible."""
    most = max(counts, default=0)
    return tuple(round(max(sqrt(count / most), 0.12 if count else 0.0), 2) for count in counts) if most else ()


def range_text(facts: Statistics, element_type: ElementType | None) -> str:
    """Return the smallest and the largest finite number in a few characters; empty if there is none."""
    return "" if facts.minimum is None else _text("range", facts, is_boolean=element_type is ElementType.BOOL)


def warning_text(facts: Statistics) -> str:
    """Return the number of elements that are NaN or infinite as text; empty if none is."""
    # In small letters, the infinity sign looks like an equals sign.
    parts = (("NaN", facts.nan), ("inf", facts.positive_infinity), ("−inf", facts.negative_infinity))
    return " ".join(f"{count:,} {name}" for name, count in parts if count)


def _text(kind: str, facts: Statistics, *, is_boolean: bool) -> str:
    if is_boolean:
        true = facts.size - facts.zeros
        if facts.size == 1:
            return "= true" if true else "= false"
        return "all true" if true == facts.size else "all false" if not true else f"{_share(true, facts.size)} true"
    if facts.minimum == facts.maximum:
        return f"= {_number(facts.minimum)}"
    match kind:
        case "magnitude" if facts.minimum is not None and facts.maximum is not None:
            return f"|x| ≤ {_number(max(-facts.minimum, facts.maximum))}"
        case "mean":
            return f"{_number(facts.mean)} ± {_number(facts.deviation)}"
        case "zeros":
            return f"{_share(facts.zeros, facts.size)} zeros"
    return f"{_number(facts.minimum)} … {_number(facts.maximum)}"


def _number(number: float | None) -> str:
    return "?" if number is None else number_text(number, _DIGITS).replace("-", "−")


def _share(count: int, size: int) -> str:
    """Return a percentage that is 0 or 100 only if exact."""
    percent = 100 * count / size
    if 0 < percent < 0.1:
        return "< 0.1 %"
    if 99.9 < percent < 100:
        return "> 99.9 %"
    return f"{percent:.3g} %"
