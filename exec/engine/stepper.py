"""Runs that stop: after each node, at breakpoints, and inside bodies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from onnx_workbench.exec.engine.bodies import SubgraphPosition
from onnx_workbench.exec.engine.breakpoints import Breakpoints
from onnx_workbench.exec.engine.executor import Executor
from onnx_workbench.exec.engine.plan import PlanStep
from onnx_workbench.exec.engine.planned_run import PlannedRun, Request
from onnx_workbench.exec.results.slot_map import Path
from onnx_workbench.exec.results.values import MISSING
from onnx_workbench.model.ir.graph import Node

if TYPE_CHECKING:
    from onnx_workbench.exec.engine.engine import Engine


class Stepper(PlannedRun):
    """A run for stepping: `step` computes one node, `resume` runs to the next breakpoint or the end.

    Iteration steps node by node. `position` and `next_node` are where it is, `reason` why it stopped. After a stop at a
    breakpoint inside a body, steps continue inside it, node by node and iteration by iteration, to its end; each step
    there computes the iteration again from its beginning.
    """

    def __init__(self, engine: Engine, request: Request, run: Executor, *planned: Any) -> None:
        super().__init__(engine, request, run, *planned)
        self._stops = Breakpoints(request.breakpoints, run.state.library.constant)
        self._is_begun = False
        self._last: PlanStep | None = None  # the step computed last
        self._inside: SubgraphPosition | None = None  # position in a body of the next step, if it stopped there
        self.node_of: Callable[[int], Any] = lambda number: number  # returns the node with an id, for `next_node`

    @property
    def next_step(self) -> PlanStep | None:
        """The next step of the graph, not of bodies; None at the end."""
        position = len(self.run.stamps)
        return self.run.code[position].step if position < len(self.run.code) else None

    @property
    def last_key(self) -> tuple[Path, int] | None:
        """Path and id of the node computed last, also inside a body; None before the first."""
        last = self._last if self._inside is None else self._inside.previous
        return None if last is None else (last.path, last.node.node)

    @property
    def last_node(self) -> tuple[Path, Node] | None:
        """Path of the calls of functions and the node computed last; see `last_key`."""
        key = self.last_key
        return None if key is None else (key[0], self.node_of(key[1]))

    @property
    def next_key(self) -> tuple[Path, int] | None:
        """Path and number of the node that `step` computes next; at the end of an iteration, of the body's owner."""
        inside = self._inside
        step = (inside and inside.following) or self.next_step
        return None if step is None else (step.path, step.node.node)

    @property
    def next_node(self) -> tuple[Path, Node] | None:
        """Path of the calls of functions and the node that `step` computes next; see `next_key`."""
        key = self.next_key
        return None if key is None else (key[0], self.node_of(key[1]))

    def step(self, *, into: bool = False, out: bool = False) -> bool:
        """Compute one node, inside a body too; return False if none is left.

        A node with bodies is computed completely, unless a breakpoint inside stops it. `into`: stop before the first
        node of its body instead. `out`: compute the rest of the current body or call of a function, with all remaining
        iterations and without its breakpoints.
        """
        step = self.next_step
        if step is None or self.done:
            return False
        self._is_begun = True
        depth = self._inside.depth if self._inside is not None else 0
        if out and not depth and step.path:
            self._finish_call(step.path)
        else:
            stops = replace(self._stops, conditions=()) if out and depth else self._stops
            self.reason = self._compute(step, replace(stops, depth=depth + into - out) if depth or into else stops)
        self.notify()
        return True

    def _finish_call(self, path: Path) -> None:
        """Compute the rest of a call of a function."""
        stops = replace(self._stops, conditions=())
        while (step := self.next_step) is not None and step.path[: len(path)] == path and not self.done:
            self._compute(step, stops)
        self.reason = ""

    def resume(self) -> str:
        """Run to the next breakpoint or the end. Return the reason of the stop, empty at the end."""
        self.reason = ""
        if not self._stops.conditions:
            return super().resume()
        resumes = self._is_begun  # do not stop again before the step at which it has stopped
        if not resumes:
            self._is_begun = True
            self.reason = self._stop_at_inputs()
        while not self.reason and (step := self.next_step) is not None and not self.done:
            self.reason = "" if resumes else self._stop_before(step)
            resumes = False
            if not self.reason:
                self.reason = self._compute(step, self._stops)
        self.notify()
        return self.reason

    def _stop_before(self, step: PlanStep) -> str:
        run = self.run
        previous = run.code[self.position - 1].step if self.position else None
        return self._stops.before(step, previous)

    def _compute(self, step: PlanStep, stops: Breakpoints) -> str:
        """Compute a step, or the rest of it after a stop in a body; return why to stop inside or after it, or empty."""
        run = self.run
        subgraphs = run.subgraphs
        is_watched = (
            bool(stops.conditions) or stops.depth > 0 or self._inside is not None
        )  # also with a position inside: else its loops would start over
        subgraphs.watch, self._inside = stops if is_watched else None, None
        self._advance(1)
        subgraphs.watch = None
        if subgraphs.halted:
            at = self._inside = subgraphs.position
            turns = f", iteration {' › '.join(map(str, at.iterations))}" if at is not None and at.iterations else ""
            return f"in {step.node.title!r}{turns}, {subgraphs.halted}"
        self._last = step
        return self._stops.after(self.plan, step, run.slots)

    def _stop_at_inputs(self) -> str:
        """Return why to stop before the first node because of an input, or empty."""
        slots, plan = self.run.slots, self.plan
        for breakpoint_, watched in self._stops.of(plan):
            for slot in watched.intersection(plan.inputs):
                reason = "" if slots[slot] is MISSING else breakpoint_.holds(breakpoint_.value, slots[slot])
                if reason:
                    return f"before the first node: {plan.name(breakpoint_.value)!r} {reason}"
        return ""

    def __iter__(self) -> Iterator[Node]:
        while (following := self.next_node) is not None and self.step():
            yield following[1]
