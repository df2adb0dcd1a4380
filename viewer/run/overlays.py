"""Colour overlays: numbers per node, such as time, memory, statistics, sizes, work, or from a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from onnx_workbench.exec.inspect.node_data import Matched, NodeData, NodeValues, listed, match, read_node_data
from onnx_workbench.exec.inspect.overview import ValueMeasure, measure_values
from onnx_workbench.exec.results.node_table import State
from onnx_workbench.exec.results.run_result import RunResult
from onnx_workbench.exec.results.slot_map import ValueKey
from onnx_workbench.model.analysis import macs
from onnx_workbench.model.ir.graph import Node, Value
from onnx_workbench.model.progress import Progress
from onnx_workbench.model.text.formatting import display, plural
from onnx_workbench.viewer.core.readers import ModelReader
from onnx_workbench.viewer.run.results import Results, RunRecord

if TYPE_CHECKING:
    from onnx_workbench.viewer.run.workspace import Workspace

#: Titles with units, by id, of overlays that need no elements of values.
PLAIN = {
    "time": "Time (ms)",
    "memory": "Memory (MB)",
    "size": "Elements of the output",
    "macs": "Multiply-adds (millions)",
}
#: Titles of overlays from statistics of the outputs.
MEASURED = {
    "range": "Range (maximum − minimum)",
    "magnitude": "Largest magnitude",
    "deviation": "Standard deviation",
    "sparsity": "Share of zeros",
    "saturation": "Share at the extremes",
    "non_finite": "NaN and infinities",
}
TITLES = PLAIN | MEASURED
#: Topic of messages about node data.
_FILE = "overlay file"
_LISTED = 3  # names in a message


class Overlays(QObject):
    """Colour overlays on the graph of one document; follows the runs. GUI thread only."""

    changed = Signal()

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        self._workspace = workspace
        self.kind = ""  # one of TITLES, "own" for numbers from elsewhere, or empty
        self.title = ""
        self.numbers: NodeValues = {}
        self._measured: tuple[RunRecord, dict[ValueKey, ValueMeasure]] | None = None
        self._working = ModelReader(self)
        workspace.results.changed.connect(self._on_results)
        workspace.closed.connect(self._working.stop)

    def choose(self, kind: str) -> None:
        """Colour by one of TITLES; empty: by operator category again."""
        self.kind = kind
        self._refresh()

    def show(self, numbers: NodeValues, title: str) -> None:
        """Colour by given numbers, or texts with few different values."""
        self._working.stop()
        self.kind = "own"
        self._show(numbers, title)

    def load(self, path: Path) -> None:
        """Colour by the node data of a JSON or CSV file, in the background; show a message if no node matches."""
        self._workspace.tasks.start(
            "Reading node data",
            lambda _progress: read_node_data(path),
            done=lambda data: self.set_data(path, data),
            supersede=_FILE,
        )

    def set_data(self, path: Path, data: NodeData) -> None:
        """Colour by data by name, in the background for a large graph; unchanged if no name matches."""
        model, before = self._workspace.model, self.kind
        self.kind = "own"  # so that the end of a run does not change the colours

        def show(found: Matched) -> None:
            if found.values:
                self.show(found.values, display(data.title or path.stem, 60))
                self._show_left_out(path, data, found)
                return
            detail = f"0 of {plural(found.count, 'name')} in {path.name} match, such as {listed(found.unknown)}"
            self._workspace.messages.show("error", "No node has data in this file", detail)
            self.kind = before
            self._refresh()

        self._workspace.messages.withdraw(_FILE)
        self._working.start(lambda progress: match(model, data, progress), show)

    def _show_left_out(self, path: Path, read: NodeData, found: Matched) -> None:
        """Report entries of a file that are not shown: unknown names, invalid numbers, all but the last of several."""
        file, others, unknown = display(path.name, 60), len(read.others), found.unknown
        titles, details = [], []
        if unknown:
            titles.append(f"{len(unknown):,} of {plural(found.count, 'name')} in {file} match no node")
            details.append(listed(unknown))
        if others:
            where = "" if titles else f" in {file}"
            are_none = "is not a number" if others == 1 else "are not numbers"
            titles.append(f"{plural(others, 'entry', 'entries')}{where} {are_none}")
            details.append(listed([f"{name}: {value}" for name, value in read.others[: _LISTED + 1]]))
        if read.repeated:
            where = "" if titles else f" in {file}"
            have = "has" if len(read.repeated) == 1 else "have"
            titles.append(f"{plural(len(read.repeated), 'name')}{where} {have} several numbers: the last one counts")
            details.append(listed(read.repeated))
        if titles:
            self._workspace.messages.show("info", "; ".join(titles), "; ".join(details), topic=_FILE)

    def _on_results(self, values: object) -> None:
        if values is None and self.kind in TITLES:
            self._refresh()

    def _refresh(self) -> None:
        results, kind = self._workspace.results, self.kind
        record = results.current
        if kind == "own":
            return
        self._working.stop()
        if kind in PLAIN and record is not None:
            plain = PLAIN_NUMBERS[kind]
            self._working.start(lambda progress: plain(results, progress), lambda found: self._show(found, PLAIN[kind]))
        elif kind in MEASURED and record is not None:
            self.measure(lambda found: self._show_measured(record, found))
        else:
            self._show(None, "")

    def measure(self, then: Callable[[dict[ValueKey, ValueMeasure]], object]) -> None:
        """Call `then` with the statistics of every value of the last run, computed in the background once per run."""
        record = self._workspace.results.current
        if record is None:
            return
        if self._measured is not None and self._measured[0] is record:
            then(self._measured[1])
            return
        result = record.result

        def done(found: dict[ValueKey, ValueMeasure]) -> None:
            self._measured = record, found
            then(found)

        self._workspace.tasks.start(
            "Measuring values", lambda _progress: measured(result), done=done, lane="count", supersede="measure"
        )

    def _show_measured(self, record: RunRecord, found: Mapping[ValueKey, ValueMeasure]) -> None:
        results, kind = self._workspace.results, self.kind
        if kind not in MEASURED or record is not results.current:
            return

        def work(progress: Progress) -> dict[Node, float]:
            numbers: dict[Node, float] = {}
            for node in progress.paced(results.nodes(progress)):
                keys = [record.key(v) for v in node.outputs if v is not None]
                facts = [found[k] for k in keys if k is not None and k in found]
                known = [x for x in (number_of(kind, fact) for fact in facts) if x is not None]
                if known:
                    numbers[node] = max(known)
            return numbers

        self._working.start(work, lambda numbers: self._show(numbers, MEASURED[kind]))

    def _show(self, numbers: NodeValues | None, title: str) -> None:
        self.numbers = numbers or {}
        self.title = title
        self._workspace.highlights.set_overlay(numbers, title)
        self.changed.emit()


def measured(result: RunResult) -> dict[ValueKey, ValueMeasure]:
    """Return the statistics of every value; none if they were lost with the worker. Any thread."""
    try:
        return result.apply(measure_values)
    except LookupError:
        return {}


def number_of(kind: str, fact: ValueMeasure) -> float | None:
    """Return the number of a kind in MEASURED."""
    facts = fact.statistics
    low, high = facts.minimum, facts.maximum
    match kind:
        case "non_finite":
            return float(facts.non_finite)
        case "sparsity":
            return facts.zeros / facts.size if facts.size else None
        case "saturation":
            return fact.saturated
        case "deviation":
            return facts.deviation
        case "range" if low is not None and high is not None:
            return float(high) - float(low)
        case "magnitude" if low is not None and high is not None:
            return max(abs(float(low)), abs(float(high)))
    return None


def _times(results: Results, progress: Progress) -> dict[Node, float]:
    done = (State.DONE, State.KEPT)
    return {n: r.seconds * 1e3 for n, r in progress.paced(results.nodes(progress).items()) if r.state in done}


def _memory(results: Results, progress: Progress) -> dict[Node, float]:
    return {n: r.nbytes / 1e6 for n, r in progress.paced(results.nodes(progress).items()) if r.nbytes}


def _sizes(results: Results, progress: Progress) -> dict[Node, float]:
    found = {}
    for node in progress.paced(results.nodes(progress)):
        infos = [results.info_of(v) for v in node.outputs if v is not None]
        sizes = [prod(i.shape) for i in infos if i is not None and i.kind == "tensor"]
        if sizes:
            found[node] = float(max(sizes))
    return found


def _macs(results: Results, progress: Progress) -> dict[Node, float]:
    found = {}
    for node in progress.paced(results.nodes(progress)):
        count = multiply_adds(node, lambda v: _shape(results, v))
        if count:
            found[node] = count / 1e6
    return found


def _shape(results: Results, value: Value | None) -> tuple[int, ...] | None:
    if value is None:
        return None
    if value.initializer is not None:
        return tuple(value.initializer.shape)
    info = results.info_of(value)
    return info.shape if info is not None and info.kind == "tensor" else None


def multiply_adds(node: Node, shape_of: Callable[[Value | None], tuple[int, ...] | None]) -> int:
    """Return the multiplications of a node, from the shapes of its values; 0 if unknown."""
    count = macs.multiply_adds(node, shape_of)
    return count if isinstance(count, int) else 0


PLAIN_NUMBERS: Mapping[str, Callable[[Results, Progress], dict[Node, float]]] = {
    "time": _times,
    "memory": _memory,
    "size": _sizes,
    "macs": _macs,
}
