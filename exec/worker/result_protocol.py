"""Messages with the result of a run from the worker to the program.

A result describes every value and node, and each read of a running run describes them all again. Most of it is
unchanged, so a `DeltaEncoder` sends the columns that differ, and a `DeltaDecoder` applies them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from onnx_workbench.exec.results.columns import ColumnTable, Keys, difference, updated
from onnx_workbench.exec.results.node_table import NodeTable
from onnx_workbench.exec.results.run_result import RunMemory
from onnx_workbench.exec.results.slot_map import LoopKey, Path, Slots, Steps, ValueKey
from onnx_workbench.exec.results.summaries import SummaryTable
from onnx_workbench.exec.values.statistics import Summary


@dataclass(slots=True)
class ResultHead:
    """State of a run as a whole, and the position of its Stepper."""

    seed: int
    seconds: float
    peak_bytes: int
    memory: RunMemory
    stopped: str
    notes: tuple[str, ...]
    reason: str
    last_node: tuple[Path, int] | None
    next_node: tuple[Path, int] | None
    position: int
    total: int


@dataclass(eq=False)
class ResultTables(ColumnTable):
    """A result without its values, which are fetched on access, and without their names, which the program has."""

    head: ResultHead
    slots: Slots
    outputs: tuple[int, ...]
    steps: Steps
    infos: SummaryTable
    nodes: NodeTable  # of the steps
    bodies: Mapping[ValueKey, Summary]
    inner: NodeTable
    iterations: Mapping[LoopKey, int]
    inner_labels: tuple[tuple[str, str], ...]  # operators and titles of `inner`; the program has those of the steps


@dataclass(slots=True)
class ResultMessage:
    """Difference of the tables to those of the previous message."""

    tables: Any


#: Placeholder for the keys of the nodes, which are those of the steps and sent with these.
_OF_STEPS = Keys.of(())


class DeltaEncoder:
    """The worker's side. Used by one thread at a time; messages must be sent in the order they were made."""

    def __init__(self) -> None:
        self._last: ResultTables | None = None

    def message(self, tables: ResultTables) -> ResultMessage:
        """Return the difference to the previous tables."""
        tables = replace(tables, nodes=replace(tables.nodes, keys=_OF_STEPS))
        before, self._last = self._last, tables
        return ResultMessage(difference(before, tables))


class DeltaDecoder:
    """The program's side. Must receive every message, in order."""

    def __init__(self) -> None:
        self._last: ResultTables | None = None

    def tables(self, message: ResultMessage) -> ResultTables:
        """Return the complete tables after a message."""
        tables: ResultTables = updated(self._last, message.tables)
        self._last = tables
        nodes = replace(tables.nodes, keys=tables.steps.keys)
        return replace(tables, nodes=nodes, inner=replace(tables.inner, label=tables.inner_labels.__getitem__))
