"""Records of runs and of the references they are compared with: where their values are, by value of the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from onnx_workbench.exec.inspect.value_summary import ValueSummary
from onnx_workbench.exec.results.run_result import RunResult
from onnx_workbench.exec.results.slot_map import LoopKey, ValueKey
from onnx_workbench.exec.results.slot_map import Path as CallPath
from onnx_workbench.exec.results.values import MISSING
from onnx_workbench.model.ir.graph import Value
from onnx_workbench.model.progress import Progress

if TYPE_CHECKING:
    from onnx_workbench.viewer.run.results.other_values import OtherValues

_MOST_READ = 8  # limit for cached values of a reference


@dataclass(eq=False)
class RunRecord:
    """A run: its results, the revision and state of the document, and its inputs.

    A running run has several records in succession, each with more values.
    """

    result: RunResult
    state: int
    revision: int
    inputs: object = None  # equal for runs with the same inputs
    feeds: dict[str, Any] = field(default_factory=dict)
    is_complete: bool = True  # a complete run of the model
    loaded: bool = False  # read from a file, which may lack values
    unfinished: bool = False  # the run is still running and values are missing
    run: object = None  # equal for the records of one run
    was_watched: bool = False  # it searched for non-finite values
    was_continued: bool = False  # it continued after the first finding
    call: CallPath = ()  # the call of a function whose values are shown, if there are several
    problems: dict[ValueKey, str] = field(default_factory=dict)  # why values could not be fetched
    summaries: dict[ValueKey, ValueSummary | None] = field(default_factory=dict)  # those read; None: lost
    iterations: Mapping[LoopKey, int] = field(default_factory=dict)  # chosen iterations, see Results.show_iterations
    last: RunResult | None = None  # the result with last iterations, while others are shown

    @property
    def is_part(self) -> bool:
        """Whether another run for the same inputs may compute more values."""
        return not (self.is_complete or self.loaded)

    def is_part_of(self, other: RunRecord) -> bool:
        """Return whether another result contains this one and all values, of the same model and inputs."""
        same = (self.state, self.inputs) == (other.state, other.inputs)
        return self.is_part and same and (other.run == self.run or not other.is_part)

    def summaries_for(self, result: RunResult) -> dict[ValueKey, ValueSummary | None]:
        """Return the summaries that hold for another result of this run too; values in bodies may still change."""
        return {k: found for k, found in self.summaries.items() if found is not None and k in result.layout.slots}

    def key(self, value: Value) -> ValueKey | None:
        """Return the key of a value; inside a function, in the shown call or else the first."""
        if ((), value.id) in self.result.layout.slots:
            return (), value.id
        paths = self.result.calls_of.get(value.id)
        return (nearest_call(paths, self.call), value.id) if paths else None

    def has(self, key: ValueKey) -> bool:
        """Return whether it has computed a value, in any process."""
        return self.result.info(key) is not None

    def find(self, key: ValueKey) -> Any:
        """Return a value that is in memory, or MISSING."""
        return self.result.find(key)

    def fetch(self, key: ValueKey, progress: Progress) -> None:
        """Fetch a value, which the result then holds; LookupError if it is unavailable. Any thread."""
        self.result.value(key, progress=progress)

    def is_of_iteration(self, value: Value) -> bool:
        """Return whether a value is shown for a chosen iteration."""
        key = self.key(value) if self.iterations else None
        return key is not None and key not in self.result.layout.slots


@dataclass(eq=False)
class ReferenceRun:
    """Reference values of a run, with their title; `read`: those in memory, by our keys."""

    record: RunRecord
    title: str
    values: OtherValues
    read: dict[ValueKey, Any] = field(default_factory=dict)
    problems: dict[ValueKey, str] = field(default_factory=dict)  # why values could not be fetched

    def key(self, value: Value) -> ValueKey | None:
        """Return the key of a value in our run."""
        return self.record.key(value)

    def has(self, key: ValueKey) -> bool:
        """Return whether there is a reference for a value."""
        return self.values.has(key)

    def find(self, key: ValueKey) -> Any:
        """Return a reference that is in memory, or MISSING."""
        return self.read.get(key, MISSING)

    def fetch(self, key: ValueKey, progress: Progress) -> None:
        """Read a reference into memory, where the newest ones stay; LookupError if it is unavailable. Any thread."""
        self.read[key] = self.values.read(key, progress)
        for old in list(self.read)[:-_MOST_READ]:
            self.read.pop(old, None)


#: What has values that may be elsewhere.
ValueSource = RunRecord | ReferenceRun


def nearest_call(paths: Sequence[CallPath], call: CallPath) -> CallPath:
    """Return the best of several calls for a shown call: itself, an outer one, an inner one, or else the first."""
    if call in paths:
        return call
    around = (path for path in paths if call[: len(path)] == path)
    inside = (path for path in paths if path[: len(call)] == call)
    return max(around, key=len, default=None) or next(inside, paths[0])
