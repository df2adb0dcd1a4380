"""Stopping inside bodies: a run that is watched looks before, between and after their steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from exec.context import RuntimeValue
from exec.plan import Code, Plan, Step


class Place(NamedTuple):
    """A place between two steps of a turn of a body; None: its beginning or its end. Bodies in it lie one deeper."""

    previous: Step | None
    following: Step | None
    depth: int


class Watch(Protocol):
    """What to stop at inside bodies."""

    def between(self, plan: Plan, place: Place, slots: list[RuntimeValue]) -> str:
        """Why to stop at a place in a body, or nothing to go on."""


class Halt(Exception):
    """Stop in the middle of a body, before the node whose body it is counts as computed."""


@dataclass(slots=True)
class Walk:
    """The way of a run through the bodies of the step that is next.

    A step that was stopped in begins anew with the next call: what it has been through is not looked at again.
    """

    watch: Watch | None = None  # asked at each place; None: nobody stops in bodies
    passed: int = 0  # places that earlier calls have been through
    places: int = 0  # that this call has come to
    halted: str = ""  # why `watch` stopped this call
    place: Place | None = None  # where it did
    _depth: int = 0

    def begin(self) -> None:
        """Another call begins."""
        self.halted, self.place, self.places, self._depth = "", None, 0, 0

    def steps(self, plan: Plan, slots: list[RuntimeValue], watch: Watch) -> Iterator[Code]:
        """The steps of a body, with a look before, between and after them; of those that are constant, a look only."""
        self._depth += 1
        previous = None
        for step in plan.steps:
            self._look(plan, Place(previous, step, self._depth), slots, watch)
            if not step.folded:
                yield step.code().guarded()
            previous = step
        self._look(plan, Place(previous, None, self._depth), slots, watch)
        self._depth -= 1

    def _look(self, plan: Plan, place: Place, slots: list[RuntimeValue], watch: Watch) -> None:
        self.places += 1
        reason = watch.between(plan, place, slots) if self.places > self.passed else ""
        if reason:
            self.place, self.halted = place, reason
            raise Halt(reason)
