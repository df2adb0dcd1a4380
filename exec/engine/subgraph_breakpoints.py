"""Breakpoints inside bodies: the observer of a run is called before, between and after their steps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeVar

from onnx_workbench.exec.engine.plan import Plan, PlanStep
from onnx_workbench.exec.engine.plan_state import Code, PlanState
from onnx_workbench.exec.values.arrays import RuntimeValue

T = TypeVar("T")


class SubgraphPosition(NamedTuple):
    """A position between two steps of an iteration of a body; None: its beginning or end. `depth`: nesting of bodies.

    `iterations` are the indices of the iterations of the enclosing loops, outermost first, and `loops` the plans of
    their bodies.
    """

    previous: PlanStep | None
    following: PlanStep | None
    depth: int
    iterations: tuple[int, ...] = ()
    loops: tuple[Plan, ...] = ()


class SubgraphObserver(Protocol):
    """Decides where to stop inside bodies."""

    def between(self, plan: Plan, place: SubgraphPosition, slots: list[RuntimeValue]) -> str:
        """Return the reason to stop at a position in a body; empty to go on."""


class BreakpointHit(Exception):
    """Raised to stop inside a body; the node that owns the body does not count as computed."""


@dataclass(slots=True)
class SubgraphStepper:
    """Position of a run in the bodies of the next step.

    The next call computes an interrupted step from its beginning, but its loops from the iteration they were in;
    `watch` is not called again for positions that an earlier call has passed.
    """

    watch: SubgraphObserver | None = None  # called at each position; None: no stops in bodies
    passed: int = 0  # positions that earlier calls have passed
    count: int = 0  # positions reached by this call; entering a loop counts as one
    halted: str = ""  # why `watch` stopped this call
    position: SubgraphPosition | None = None  # the position of that stop
    spent: float = 0.0  # seconds of earlier calls whose work is not repeated
    resumed: int = 0  # finished iterations of the loop entered last, from an earlier call
    _depth: int = 0
    _turns: list[int] = field(default_factory=list)  # `count` at the start of the iteration of each enclosing body
    _begun: dict[int, int] = field(default_factory=dict)  # begun iterations of the enclosing loops, by depth
    _bodies: dict[int, Plan] = field(default_factory=dict)  # plans of the enclosing loops' bodies, by depth
    #: Interrupted loops, by `count` on entry: loop state, `count` at the iteration, and finished iterations.
    _loops: dict[int, tuple[Any, int, int]] = field(default_factory=dict)

    def begin(self) -> None:
        """Reset for the next call."""
        self.halted, self.position, self.count, self._depth, self.resumed = "", None, 0, 0, 0
        self._begun.clear()
        self._bodies.clear()

    def end(self, seconds: float) -> None:
        """End the call. `seconds`: since the first call, or since the last one after which no loop state was kept."""
        if not self.halted:
            self._loops.clear()
        self.spent = seconds if self._loops else 0.0
        self.passed = self.count if self.halted else 0

    def steps(self, state: PlanState, slots: list[RuntimeValue], watch: SubgraphObserver) -> Iterator[Code]:
        """Yield the steps of a body that are not constant; call `watch` before, between and after them."""
        plan = state.plan
        self._turns[self._depth :] = [self.count]
        if self._depth in self._begun:
            self._begun[self._depth] += 1
        iterations = tuple(number - 1 for _, number in sorted(self._begun.items()))
        loops = tuple(loop for _, loop in sorted(self._bodies.items()))
        self._depth += 1
        previous = None
        for step in plan.steps:
            self._check_stop(plan, SubgraphPosition(previous, step, self._depth, iterations, loops), slots, watch)
            if not state.folded[step.index]:
                yield state.code_of(step)
            previous = step
        self._check_stop(plan, SubgraphPosition(previous, None, self._depth, iterations, loops), slots, watch)
        self._depth -= 1

    @contextmanager
    def loop(self, body: PlanState, state: T) -> Iterator[T]:
        """Provide the state for a loop over a body: `state`, or that of the iteration in which an earlier call stopped.

        The kernel may change it between iterations only.
        """
        self.count += 1  # counts as a position: a kernel may loop several times, also without an iteration
        before, depth = self.count, self._depth
        self._begun[depth], self._bodies[depth] = 0, body.plan
        if before in self._loops:
            state, self.count, self._begun[depth] = self._loops.pop(before)
        self.resumed = self._begun[depth]
        try:
            yield state
        except BreakpointHit:
            if not body.has_drawn:  # else its generators, reset by the next call, would repeat random numbers
                self._loops[before] = state, self._turns[depth], self._begun[depth] - 1
            raise
        finally:
            del self._begun[depth], self._bodies[depth]

    def _check_stop(self, plan: Plan, at: SubgraphPosition, slots: list[RuntimeValue], watch: SubgraphObserver) -> None:
        self.count += 1
        reason = watch.between(plan, at, slots) if self.count > self.passed else ""
        if reason:
            self.position, self.halted = at, reason
            raise BreakpointHit(reason)
