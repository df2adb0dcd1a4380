"""One level of a graph to lay out: its nodes, its edges without duplicates, and its old layout."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onnx_workbench.viewer.canvas.layout.arrays import Index, Mask, Real, dense
from onnx_workbench.viewer.canvas.layout.previous_order import PreviousOrder
from onnx_workbench.viewer.canvas.layout.request import Spacing


@dataclass(slots=True)
class Level:
    """Previous layout of one nesting level."""

    before: PreviousOrder
    node: Index  # [N] old numbers, -1 for new nodes and border points
    edge: Index  # [E] old numbers, -1 for new ones
    keys: Real  # [N] old positions of the nodes along the ranks


@dataclass(slots=True)
class LayoutProblem:
    """N nodes and E edges; ports are px from the left border of the node, NaN where free."""

    width: Real
    height: Real
    source: Index
    target: Index
    source_ports: Real
    target_ports: Real
    first: Mask  # [N] wanted in the first rank
    last: Mask
    border: Mask  # [N] points on the border of a container: alone in the first or last rank, without extent
    ties: tuple[Index, Index]  # pairs of nodes kept in one part without an edge
    before: Level | None  # a known order along the ranks
    spacing: Spacing


class Unique:
    """Edges without duplicates, and the values they carry: a value leaves a node at one port."""

    def __init__(self, problem: LayoutProblem) -> None:
        source, target = problem.source, problem.target
        e = len(source)
        free_source, free_target = np.isnan(problem.source_ports), np.isnan(problem.target_ports)
        middle = problem.width / 2
        source_ports = np.where(free_source, middle[source], problem.source_ports)
        target_ports = np.where(free_target, middle[target], problem.target_ports)
        self.of_edge, count = dense(source, source_ports, target, target_ports)
        pick = np.zeros(count, np.int64)
        pick[self.of_edge[::-1]] = np.arange(e)[::-1]
        by_model = np.argsort(pick)
        turned = np.empty(count, np.int64)
        turned[by_model] = np.arange(count)
        self.of_edge = turned[self.of_edge]
        pick = pick[by_model]
        self.source, self.target = source[pick], target[pick]
        self.source_ports, self.target_ports = source_ports[pick], target_ports[pick]
        self.free_source = _all_free(free_source[pick], self.source, len(middle))
        self.free_target = _all_free(free_target[pick], self.target, len(middle))
        self.value, values = dense(self.source, source_ports[pick])
        self.owner = np.zeros(values, np.int64)
        self.owner[self.value] = self.source
        self.values_of = np.bincount(self.owner, minlength=len(problem.width))


def _all_free(free: Mask, node: Index, n: int) -> Mask:
    """[E] ends to distribute: those at nodes without given ports on that side."""
    fixed = np.zeros(n, bool)
    fixed[node[~free]] = True
    return free & ~fixed[node]
