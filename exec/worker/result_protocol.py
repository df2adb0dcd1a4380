"""Messages with the result of a run from the worker to the program.

A result describes every value and node by columns, which are sent whole: those of 100,000 nodes are a few megabytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from onnx_workbench.exec.results.columns import ColumnTable
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
    """A result without its values, which are fetched on access, and without their names, which the program has.

    `nodes` have the keys of `steps`.
    """

    head: ResultHead
    slots: Slots
    outputs: tuple[int, ...]
    steps: Steps
    infos: SummaryTable
    nodes: NodeTable
    bodies: Mapping[ValueKey, Summary]
    inner: NodeTable
    iterations: Mapping[LoopKey, int]
    inner_labels: tuple[tuple[str, str], ...]  # operators and titles of `inner`; the program has those of the steps
