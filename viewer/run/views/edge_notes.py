"""Notes beside the edges of the graph after a run: a statistic of each value, or the outline of its histogram.

Computed on demand: the canvas calls `note_of` while it paints; missing notes are computed in the process that holds
the values, in batches, and announced by `Highlights.notes_changed`. Notes are cached per run, so undo shows them at
once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from math import sqrt
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from PySide6.QtCore import QObject, QTimer, Signal

from onnx_workbench.exec.inspect.thumbnails import Thumbnail, make_thumbnails
from onnx_workbench.exec.results.run_result import RunResult
from onnx_workbench.exec.results.slot_map import ValueKey
from onnx_workbench.exec.values.statistics import Statistics
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.graph import Value
from onnx_workbench.model.ir.types import ElementType, Shape, TensorType
from onnx_workbench.model.progress import Progress
from onnx_workbench.model.text.formatting import number_text
from onnx_workbench.viewer.document.edge_notes import EdgeNote, NoteOf
from onnx_workbench.viewer.program.settings import EDGE_NOTES
from onnx_workbench.viewer.run.results.results import RunRecord
from onnx_workbench.viewer.style.type_texts import edge_text

if TYPE_CHECKING:
    from onnx_workbench.viewer.run.workspace import Workspace

#: Milliseconds in which the requests of one frame are collected.
_GATHER = 20
#: Values read at once, so that a newer run need not wait for long.
_BATCH = 32
#: Notes updated at once: repainting them takes a small part of a frame.
_AT_ONCE = 8
#: With more outdated notes than this, all labels are repainted instead of the changed ones.
_MOST_KEPT = 150

_DIGITS = 3


class EdgeNotes(QObject):
    """The notes of one document; follows the runs. GUI thread only."""

    statistics_read = Signal(object)  # set[Value] for which `thumbnail_of` has new statistics

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        self._workspace = workspace
        self._results = workspace.results
        self._known: WeakKeyDictionary[RunRecord, dict[ValueKey, Thumbnail | None]] = WeakKeyDictionary()
        self._given: dict[Value, EdgeNote | None] = {}  # last note of each painted value
        self._outdated: dict[Value, None] = {}  # painted values whose note may have changed: shows the old one
        self._notify_timer = QTimer(self, interval=0)
        self._notify_timer.timeout.connect(self._notify_some)
        self._wanted: dict[Value, None] = {}  # the newest last
        self._kind = workspace.settings.get(EDGE_NOTES)
        self._seen: RunRecord | None = None
        self._is_asking = False
        self._gather = QTimer(self, singleShot=True, interval=_GATHER)
        self._gather.timeout.connect(self._request_next)
        workspace.highlights.note_of = self.note_of
        workspace.results.changed.connect(self._on_results)
        workspace.navigation.graph_shown.connect(self._start_over)
        workspace.settings.changed.connect(self._on_setting)

    def note_of(self, value: Value) -> EdgeNote | None:
        """Return the note beside the edges of a value; requests it if it is unknown. Cheap."""
        if self._results.current is None or self._kind == "none":
            return None
        if value not in self._outdated:  # otherwise all its labels are repainted soon, together
            self._given[value] = self._note(value)
        return self._given[value]

    def _newest(self, value: Value) -> EdgeNote | None:
        return None if self._results.current is None or self._kind == "none" else self._note(value)

    def thumbnail_of(self, value: Value) -> Thumbnail | None:
        """Return the statistics of a value of the last run, or None and request them: `statistics_read` follows."""
        record = self._results.current
        key = None if record is None else record.key(value)
        if record is None or key is None or record.result.info(key) is None:
            return None
        known = self._known.setdefault(record, {})
        if key not in known:
            self._request(value)
        return known.get(key)

    def range_of(self, value: Value) -> str:
        """Return the number of non-finite elements of a value of the last run, and its range; empty until read."""
        thumbnail, info = self.thumbnail_of(value), self._results.info_of(value)
        if thumbnail is None or info is None or not isinstance(info.element_type, ElementType):
            return ""
        facts = thumbnail.statistics
        return "  ".join(filter(None, (warning_text(facts), range_text(facts, info.element_type))))

    def read_all(self, values: Iterable[Value], then: Callable[[NoteOf], object]) -> None:
        """Read some values, then call back with a function that returns their notes: for pictures of hidden parts."""
        record = self._results.current
        known = {} if record is None else self._known.setdefault(record, {})
        keys = [] if record is None or self._kind == "none" else [k for v in values if (k := record.key(v))]
        asked = [key for key in dict.fromkeys(keys) if key not in known]
        if record is None or not asked:
            then(self._newest)
            return
        result = record.result

        def work(progress: Progress) -> dict[ValueKey, Thumbnail | None]:
            found: dict[ValueKey, Thumbnail | None] = {}
            for start in range(0, len(asked), _BATCH):
                progress.report(start, len(asked))
                some = asked[start : start + _BATCH]
                found.update(zip(some, thumbnails_of(result, some), strict=True))
            return found

        def done(found: dict[ValueKey, Thumbnail | None]) -> None:
            known.update(found)
            then(self._newest)

        self._workspace.tasks.start("Reading values", work, done=done, lane="count")

    def _request(self, value: Value) -> None:
        self._wanted.pop(value, None)
        self._wanted[value] = None
        if not self._is_asking and not self._gather.isActive():  # continuous painting must not restart the timer
            self._gather.start()

    def _note(self, value: Value) -> EdgeNote | None:
        """Return the note from the last run; until that is computed, the note of the previous run."""
        record = self._results.current
        key = None if record is None else record.key(value)
        if record is None or key is None:
            return None
        if record.unfinished and record.result.info(key) is None:
            return self._given.get(value)
        known = self._known.setdefault(record, {})
        if key not in known:
            self._request(value)
            return self._given.get(value)
        found = known[key]
        if found is None:
            return None
        info = record.result.info(key)
        kind = info.element_type if info is not None else None
        computed = "" if info is None or kind is None else edge_text(TensorType(kind, Shape(info.shape)))
        is_stale = self._results.is_stale(value) and not self._is_live
        return note_text(self._kind, found, kind, type_text=computed, is_stale=is_stale)

    @property
    def _is_live(self) -> bool:
        """Return whether Live is on: then notes are not marked stale, as a run follows at once."""
        return self._workspace.has_runs and self._workspace.runs.live

    # -- changes ---------------------------------------------------------------------------------------------

    def _on_results(self, values: object) -> None:
        record, self._seen = self._seen, self._results.current
        if record is not self._seen:
            self._carry_over(record, self._seen)
        if self._kind == "none" or (record is self._seen and (values is not None or self._is_live)):
            return
        if isinstance(values, set) and record is not None:  # new values of a running run
            self._queue(value for value in self._given if value in values)
        elif self._seen is None or len(self._given) > _MOST_KEPT or not self._given:
            self._start_over()
        else:
            self._queue(self._given)

    def _carry_over(self, before: RunRecord | None, now: RunRecord | None) -> None:
        """Keep the notes of nodes that a run has finished; values in bodies may still change."""
        if before is not None and now is not None and before.run is not None and before.run == now.run:
            known, slots = self._known.get(before, {}), now.result.layout.slots
            self._known[now] = {key: found for key, found in known.items() if found is not None and key in slots}

    def _on_setting(self, key: str) -> None:
        if key == EDGE_NOTES.key:
            self._kind = self._workspace.settings.get(EDGE_NOTES)
            self._start_over()

    def _start_over(self, *_: object) -> None:
        """Clear requests and notes and repaint all labels, which requests the notes in view again."""
        self._given.clear()
        self._wanted.clear()
        self._outdated.clear()
        self._workspace.highlights.notes_changed.emit(None)

    def _queue(self, values: Iterable[Value]) -> None:
        """Repaint the notes of painted values, a few per event loop iteration."""
        self._outdated.update(dict.fromkeys(values))
        self._notify_timer.start()

    def _notify_some(self) -> None:
        some = list(islice(self._outdated, _AT_ONCE))
        for value in some:
            del self._outdated[value]
        if not self._outdated:
            self._notify_timer.stop()
        differing = {value for value in some if self._newest(value) != self._given[value]}
        if differing:
            self._workspace.highlights.notes_changed.emit(differing)

    # -- reading values ---------------------------------------------------------------------------------------

    def _request_next(self) -> None:
        record = self._results.current
        asked: dict[ValueKey, Value] = {}
        while record is not None and self._wanted and len(asked) < _BATCH:
            value, _ = self._wanted.popitem()
            key = record.key(value)
            if key is not None:
                asked[key] = value
        if record is None or not asked:
            return
        self._is_asking = True
        result, keys = record.result, list(asked)

        def done(found: list[Thumbnail | None]) -> None:
            self._known.setdefault(record, {}).update(zip(keys, found, strict=True))

        def finished() -> None:
            self._is_asking = False
            if record is self._results.current:
                self._queue(value for value in asked.values() if value in self._given)
                self.statistics_read.emit(set(asked.values()))
            if self._wanted:
                self._gather.start()

        self._workspace.tasks.start(
            "Reading values", lambda _progress: thumbnails_of(result, keys), done=done, finished=finished
        )


def thumbnails_of(result: RunResult, keys: list[ValueKey]) -> list[Thumbnail | None]:
    """Return thumbnails of values; None for values lost with the worker. Off the GUI thread."""
    try:
        return result.apply(make_thumbnails, keys)
    except (LookupError, ModelError):
        return [None] * len(keys)


def note_text(
    kind: str, found: Thumbnail, element_type: ElementType | None, *, type_text: str = "", is_stale: bool = False
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
