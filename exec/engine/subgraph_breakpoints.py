"""Stopping inside bodies: a run that is watched looks before, between and after their steps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeVar

from onnx_workbench.exec.engine.plan import Code, Plan, Step
from onnx_workbench.exec.kernels.context import RuntimeValue

T = TypeVar("T")


class SubgraphPosition(NamedTuple):
    """A place between two steps of a turn of a body; None: its beginning or its end. Bodies in it lie one deeper."""

    previous: Step | None
    following: Step | None
    depth: int


class SubgraphObserver(Protocol):
    """What to stop at inside bodies."""

    def between(self, plan: Plan, place: SubgraphPosition, slots: list[RuntimeValue]) -> str:
        """Why to stop at a place in a body, or nothing to go on."""


class BreakpointHit(Exception):
    """Stop in the middle of a body, before the node whose body it is counts as computed."""


@dataclass(slots=True)
class SubgraphStepper:
    """The way of a run through the bodies of the step that is next.

    A step that was stopped in begins anew with the next call, its loops with the turn they were in: what it has been
    through is not looked at again.
    """

    watch: SubgraphObserver | None = None  # asked at each place; None: nobody stops in bodies
    passed: int = 0  # places that earlier calls have been through
    places: int = 0  # that this call has come to, loops among them
    halted: str = ""  # why `watch` stopped this call
    place: SubgraphPosition | None = None  # where it did
    spent: float = 0.0  # seconds of earlier calls that are not spent again
    _depth: int = 0
    _turns: list[int] = field(default_factory=list)  # of the bodies around: places up to the turn
    _loops: dict[int, tuple[Any, int]] = field(default_factory=dict)  # by the places up to one: its state, and up to it

    def begin(self) -> None:
        """Another call begins."""
        self.halted, self.place, self.places, self._depth = "", None, 0, 0

    def end(self, seconds: float) -> None:
        """The call is over, so long after the first one began, or after the last that nothing was kept of."""
        if not self.halted:
            self._loops.clear()
        self.spent = seconds if self._loops else 0.0
        self.passed = self.places if self.halted else 0

    def steps(self, plan: Plan, slots: list[RuntimeValue], watch: SubgraphObserver) -> Iterator[Code]:
        """The steps of a body, with a look before, between and after them; of those that are constant, a look only."""
        self._turns[self._depth :] = [self.places]
        self._depth += 1
        previous = None
        for step in plan.steps:
            self._look(plan, SubgraphPosition(previous, step, self._depth), slots, watch)
            if not step.folded:
                yield step.code().guarded()
            previous = step
        self._look(plan, SubgraphPosition(previous, None, self._depth), slots, watch)
        self._depth -= 1

    @contextmanager
    def loop(self, plan: Plan, state: T) -> Iterator[T]:
        """The state for a loop of turns of a body: the one given, or that of the turn an earlier call was stopped in.

        Whoever loops changes it between turns only, so that it is that of the turn that goes on.
        """
        self.places += 1  # a place of its own: a kernel may loop several times, also without a turn
        before, depth = self.places, self._depth
        if before in self._loops:
            state, self.places = self._loops.pop(before)
        try:
            yield state
        except BreakpointHit:
            if not draws(plan):  # else its generators would begin anew, which is right for the first turn only
                self._loops[before] = state, self._turns[depth]
            raise

    def _look(self, plan: Plan, place: SubgraphPosition, slots: list[RuntimeValue], watch: SubgraphObserver) -> None:
        self.places += 1
        reason = watch.between(plan, place, slots) if self.places > self.passed else ""
        if reason:
            self.place, self.halted = place, reason
            raise BreakpointHit(reason)


def draws(plan: Plan) -> bool:
    """Whether random numbers have been drawn in a plan, or in the bodies in it."""
    if any(finder.context is not None and finder.context.drawn for finder in plan.finders):
        return True
    return any(draws(body.plan) for step in plan.bodied for body in step.bodies)
