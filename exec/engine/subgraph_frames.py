"""Values of the last iteration of bodies, and the time of their nodes summed over all iterations."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from onnx_workbench.exec.engine.plan import Plan, PlanStep
from onnx_workbench.exec.engine.plan_state import PlanState
from onnx_workbench.exec.results.node_table import Failure, NodeResult, State
from onnx_workbench.exec.results.slot_map import LoopKey, Path
from onnx_workbench.exec.results.values import MISSING
from onnx_workbench.exec.values.arrays import RuntimeValue
from onnx_workbench.exec.values.statistics import nbytes

#: Number of clock values after which those of single iterations are summed up.
_MANY = 1 << 14


@dataclass(slots=True, eq=False)
class ExecutorPass:
    """Progress of the executor through a graph, or through one iteration of a body."""

    slots: list[RuntimeValue]
    stamps: list[float]  # clock at the end of each step
    sizes: list[int]  # bytes of the outputs of each step
    dead: dict[int, Failure]  # slots that will never have a value
    ceiling: int  # limit for `held`; beyond it values are released
    held: int = 0  # bytes of values
    peak: int = 0  # of `held`
    checks_types: bool = False  # of the inputs of each step


class Frame:
    """The iterations of one body in one run.

    Every iteration appends to the list of clocks its begin and the end of each of its nodes; another thread may read
    the list meanwhile.
    """

    __slots__ = ("_sums", "begun", "code", "current", "plan")

    def __init__(self, state: PlanState) -> None:
        self.plan = state.plan
        self.code = state.code or []
        self.begun = 0  # iterations
        self.current = ExecutorPass([], [], [], {}, sys.maxsize)  # the last iteration
        #: Seconds per node, number of summed iterations, and clocks of the iterations since. Replaced, never changed.
        self._sums: tuple[np.ndarray[tuple[int], np.dtype[np.float64]], int, list[float]]
        self._sums = np.zeros(len(self.code)), 0, []

    def begin(self, slots: list[RuntimeValue]) -> list[float]:
        """Begin an iteration; return the list to which it appends its times. Must be fast for long loops."""
        clocks = self._sums[2]
        if len(clocks) >= _MANY:
            seconds, runs = self.spent()
            clocks = []
            self._sums = seconds, runs, clocks
        self.begun += 1
        current = self.current
        current.slots, current.stamps, current.held = slots, clocks, 0
        current.sizes.clear()
        return clocks

    def spent(self) -> tuple[np.ndarray[tuple[int], np.dtype[np.float64]], int]:
        """Return the seconds of each node over all finished iterations, and the number of these."""
        seconds, runs, clocks = self._sums
        size = len(seconds) + 1
        whole = len(clocks) // size
        if not whole:
            return seconds, runs
        times = np.array(clocks[: whole * size]).reshape(whole, size)
        return seconds + (times[:, 1:] - times[:, :-1]).sum(0), runs + whole


@dataclass(frozen=True, slots=True)
class SubgraphRecord:
    """Values computed in bodies in their last iteration, by path and number, and their nodes.

    `made` are the values that are not constants, which take memory. `iterations`: number of iterations of each loop in
    its last execution.
    """

    values: dict[Path, dict[int, RuntimeValue]] = field(default_factory=dict)
    nodes: list[NodeResult] = field(default_factory=list)
    made: list[RuntimeValue] = field(default_factory=list)
    iterations: dict[LoopKey, int] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """Bytes of the values in `made`."""
        return sum(map(nbytes, self.made))

    def record(self, plan: Plan, slots: Sequence[RuntimeValue]) -> None:
        """Add the values of one iteration of a body."""
        for path, value, slot, is_made in plan.recorded:
            found = slots[slot]
            if found is not MISSING:
                self.values.setdefault(path, {})[value] = found
                if is_made:
                    self.made.append(found)

    def add(self, other: SubgraphRecord) -> None:
        """Add the values of other bodies."""
        for path, values in other.values.items():
            self.values.setdefault(path, {}).update(values)
        self.nodes.extend(other.nodes)
        self.made.extend(other.made)
        self.iterations.update(other.iterations)

    def kept(self) -> SubgraphRecord:
        """Return a copy for a later run that reuses the values."""
        return SubgraphRecord(
            self.values, [replace(node, state=State.KEPT) for node in self.nodes], self.made, self.iterations
        )


def inside(steps: Iterable[PlanStep], frames: Mapping[int, Frame], loops: Mapping[int, int]) -> SubgraphRecord:
    """Return the values computed in the bodies of steps, at any depth.

    Nodes are in file order, those of a body after its owner. `loops`: by id of the plan of a body, the number of
    iterations that had begun before the last loop over it.
    """
    found = SubgraphRecord()
    pending: list[tuple[PlanStep, Path]] = [(step, ()) for step in steps]
    pending.reverse()
    while pending:
        step, around = pending.pop()
        within: Path = (*around, step.node.node)
        deeper: list[tuple[PlanStep, Path]] = []
        for body in step.bodies:
            frame = frames.get(id(body.plan))
            if frame is not None:
                found.add(_of_frame(frame, within))
                if id(body.plan) in loops:
                    found.iterations[step.path, step.node.node] = frame.begun - loops[id(body.plan)]
                deeper += [(body.plan.steps[index], within) for index in body.plan.bodied]
        pending += reversed(deeper)
    return found


def _of_frame(frame: Frame, within: Path) -> SubgraphRecord:
    found = SubgraphRecord(nodes=list(_results(frame, within)))
    found.record(frame.plan, frame.current.slots)
    return found


def _results(frame: Frame, inside: Path) -> Iterator[NodeResult]:
    seconds, runs = frame.spent()
    if not runs:
        return
    slots = frame.current.slots
    for spent, code in zip(seconds.tolist(), frame.code, strict=True):
        step = code.step
        size = sum(nbytes(slots[s]) for s in step.outs if s and slots[s] is not MISSING)
        yield NodeResult(
            step.node.node, step.path, step.node.operator, step.node.title, State.DONE, spent, size,
            runs=runs, inside=inside,
        )  # fmt: skip
