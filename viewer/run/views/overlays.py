"""Colour overlays: numbers per node, such as time, memory, statistics, sizes, work, or from a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject

from onnx_workbench.exec.inspect.node_data import Matched, NodeData, NodeValues, difference, listed, matched
from onnx_workbench.exec.inspect.node_data_files import read_node_data
from onnx_workbench.exec.inspect.value_summary import ValueSummary
from onnx_workbench.exec.results.node_table import State
from onnx_workbench.exec.results.slot_map import ValueKey
from onnx_workbench.model.analysis import macs
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.graph import Node, Value
from onnx_workbench.model.progress import Progress
from onnx_workbench.model.text.formatting import display, plural
from onnx_workbench.viewer.run.results.results import Results
from onnx_workbench.viewer.run.results.run_record import RunRecord
from onnx_workbench.viewer.style.labels import name_of
from onnx_workbench.viewer.tasks.readers import ModelReader

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
_MOST_LISTED = 10_000  # names of each kind


@dataclass(frozen=True, eq=False)
class OpenedData:
    """A file of node data, what it has, and what of it the model has."""

    path: Path
    read: NodeData
    matched: Matched


class Overlays(QObject):
    """Colour overlays on the graph of one document; follows the runs. GUI thread only."""

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        self._workspace = workspace
        self.kind = ""  # one of TITLES, "own" for numbers from elsewhere, or empty
        self.data: Matched | None = None  # node data shown last
        self._opened: list[OpenedData] = []  # the last two files
        self._working = ModelReader(self)
        workspace.closed.connect(self._working.stop)

    @property
    def numbers(self) -> NodeValues:
        """The numbers or texts that colour the nodes."""
        return self._workspace.highlights.overlay[0] or {}

    @property
    def title(self) -> str:
        """The title of the colours."""
        return self._workspace.highlights.overlay[1]

    def choose(self, kind: str) -> None:
        """Colour by one of TITLES; empty: by operator category again."""
        self.kind = kind
        self._refresh()

    def show(self, numbers: NodeValues, title: str) -> None:
        """Colour by given numbers, or texts with few different values."""
        self._working.stop()
        self.kind = "own"
        self._workspace.highlights.set_overlay(numbers, title)

    def load(self, *paths: Path) -> None:
        """Colour by the node data of a file, or by the difference of two, in the background.

        Boxes and node table have them too. A message if no node matches.
        """
        self._workspace.tasks.start(
            "Reading node data",
            lambda _progress: [(path, read_node_data(path)) for path in paths],
            done=lambda read: self.set_data(*read),
            supersede=_FILE,
        )

    def set_data(self, *files: tuple[Path, NodeData]) -> None:
        """Colour by data by name, or the second minus the first; unchanged if no name matches."""
        model = self._workspace.model

        def find(progress: Progress) -> list[OpenedData]:
            return [
                OpenedData(path, read, matched(model, read, display(path.name, 60), progress, path.stem))
                for path, read in files
            ]

        def show(opened: list[OpenedData]) -> None:
            self._opened = (self._opened + opened)[-2:]
            if len(opened) == 2:
                self.subtract()
            else:
                self.show_data(opened[0].matched)
                self._describe(opened[0])

        self._find_data(find, show)

    def _find_data(self, find: Callable[[Progress], Any], show: Callable[[Any], object]) -> None:
        """Find node data in the background; the colours stay if there are none."""
        before, self.kind = self.kind, "own"  # so that the end of a run does not change the colours

        def failed(error: BaseException) -> None:
            if not isinstance(error, ModelError):
                raise error
            self._workspace.messages.report(error, _FILE)
            self.kind = before
            self._refresh()

        self._workspace.messages.withdraw(_FILE)
        self._working.start(find, show, failed=failed)

    def has(self, *titles: str) -> bool:
        """Return whether the graph is coloured by given numbers with one of some titles."""
        return self.kind == "own" and self.title in titles

    @property
    def can_subtract(self) -> bool:
        """Whether two files of node data were opened, so that their difference can be shown."""
        return len(self._opened) == 2

    def subtract(self) -> None:
        """Show the difference of the last two files of node data."""
        old, new = self._opened
        names = f"{display(new.path.name, 40)} minus {display(old.path.name, 40)}"

        def show(found: Matched) -> None:
            self.show_data(found)
            self._workspace.messages.show("info", names, found.summary(), topic=_FILE)

        self._find_data(lambda _progress: difference(new.matched, old.matched), show)

    def show_data(self, found: Matched) -> None:
        """Colour by node data, and write them into boxes and node table."""
        self.data = found
        self.kind = "own"
        self._working.stop()
        self._workspace.highlights.set_overlay(found.values, display(found.title, 60), found)

    def data_text(self) -> str:
        """Return all names of the node data, those that are not in the model first."""
        data = self.data
        if data is None:
            return ""
        unknown = set(data.unknown)
        others = [f"{name}: {value}" for opened in self._opened[-1:] for name, value in opened.read.others]
        parts = (
            ("Not in the model", data.unknown),
            ("In only one of the two", [name_of(node) for node in data.alone]),
            ("No finite number", others),
            ("Matched", [name for name in data.names if name not in unknown]),
        )
        return "\n\n".join(_listing(title, names) for title, names in parts if names)

    def _describe(self, opened: OpenedData) -> None:
        """Say how many names of a file match, what is not shown, and offer what else it has."""
        read, found, file = opened.read, opened.matched, display(opened.path.name, 60)
        unknown, count = found.unknown, len(found.names)
        titles, details = [f"{count - len(unknown):,} of {plural(count, 'name')} in {file} match"], []
        if unknown:
            details.append(f"Not in the model: {listed(unknown)}")
        if read.others:
            are_none = "is not a finite number" if len(read.others) == 1 else "are not finite numbers"
            titles.append(f"{plural(len(read.others), 'entry', 'entries')} {are_none}")
            details.append(listed([f"{name}: {value}" for name, value in read.others]))
        if read.repeated:
            have = "has" if len(read.repeated) == 1 else "have"
            titles.append(f"{plural(len(read.repeated), 'name')} {have} several numbers: the last one is used")
            details.append(listed(read.repeated))
        ask = self._workspace.action_requested.emit
        choices: list[tuple[str, Callable[[], object]]] = []
        if titles[1:] or unknown:
            choices.append(("List Names", lambda: ask("run.data_names")))
        if found.more:
            choices.append(("Choose Column", lambda: ask("run.data_column")))
        if self.can_subtract:
            choices.append((f"Subtract {display(self._opened[0].path.name, 40)}", self.subtract))
        self._workspace.messages.show("info", "; ".join(titles), "; ".join(details), None, tuple(choices), _FILE)

    def refresh_run(self) -> None:
        """Colour by another run if the numbers are of one."""
        if self.kind in TITLES:
            self._refresh()

    def _refresh(self) -> None:
        results, kind, colour = self._workspace.results, self.kind, self._workspace.highlights.set_overlay
        record = results.current
        if kind == "own":
            return
        self._working.stop()
        if kind in PLAIN and record is not None:
            plain = PLAIN_NUMBERS[kind]
            self._working.start(lambda progress: plain(results, progress), lambda found: colour(found, PLAIN[kind]))
        elif kind in MEASURED and record is not None:
            measure = partial(self._measure, kind, record)
            self._working.start(lambda progress: _output_keys(results, record, progress), measure)
        else:
            colour(None)

    def _measure(self, kind: str, record: RunRecord, keys: Mapping[Node, Sequence[ValueKey]]) -> None:
        """Colour by the summaries of outputs, given by node."""
        summaries, colour = self._workspace.results.summaries, self._workspace.highlights.set_overlay

        def work(progress: Progress) -> dict[Node, float]:
            numbers: dict[Node, float] = {}
            for node, outputs in progress.paced(keys.items()):
                known = (record.summaries.get(key) for key in outputs)
                figures = (number_of(kind, one) for one in known if one is not None)
                defined = [number for number in figures if number is not None]
                if defined:
                    numbers[node] = max(defined)
            return numbers

        def show() -> None:
            if kind == self.kind and record is self._workspace.results.current:
                self._working.start(work, lambda numbers: colour(numbers, MEASURED[kind]))

        summaries.collect(record, chain.from_iterable(keys.values()), show, supersede="measure")


def _listing(title: str, names: Sequence[str]) -> str:
    shown = [display(name, 400) for name in names[:_MOST_LISTED]]
    left = [f"… and {len(names) - _MOST_LISTED:,} more"] if len(names) > _MOST_LISTED else []
    return "\n".join((f"{title}: {len(names):,}", *shown, *left))


def _output_keys(results: Results, record: RunRecord, progress: Progress) -> dict[Node, list[ValueKey]]:
    return {
        node: [key for v in node.outputs if v is not None and (key := record.key(v)) is not None]
        for node in progress.paced(results.nodes(progress))
    }


def number_of(kind: str, found: ValueSummary) -> float | None:
    """Return the number of a kind in MEASURED."""
    facts = found.statistics
    low, high = facts.minimum, facts.maximum
    match kind:
        case "non_finite":
            return float(facts.non_finite)
        case "sparsity":
            return facts.zeros / facts.size if facts.size else None
        case "saturation":
            return found.saturated
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
    size_by_node = {}
    for node in progress.paced(results.nodes(progress)):
        infos = [results.info_of(v) for v in node.outputs if v is not None]
        sizes = [prod(i.shape) for i in infos if i is not None and i.kind == "tensor"]
        if sizes:
            size_by_node[node] = float(max(sizes))
    return size_by_node


def _macs(results: Results, progress: Progress) -> dict[Node, float]:
    macs_by_node = {}
    for node in progress.paced(results.nodes(progress)):
        count = multiply_adds(results, node)
        if count:
            macs_by_node[node] = count / 1e6
    return macs_by_node


def multiply_adds(results: Results, node: Node) -> int:
    """Return the multiplications of a node in the last run; 0 if unknown."""

    def shape_of(value: Value | None) -> tuple[int, ...] | None:
        if value is None:
            return None
        if value.initializer is not None:
            return tuple(value.initializer.shape)
        info = results.info_of(value)
        return info.shape if info is not None and info.kind == "tensor" else None

    count = macs.multiply_adds(node, shape_of)
    return count if isinstance(count, int) else 0


PLAIN_NUMBERS: Mapping[str, Callable[[Results, Progress], dict[Node, float]]] = {
    "time": _times,
    "memory": _memory,
    "size": _sizes,
    "macs": _macs,
}
