"""Breakpoints of a run: before nodes, after values, and on conditions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from onnx_workbench.exec.engine.bodies import SubgraphPosition
from onnx_workbench.exec.engine.plan import Plan, PlanStep
from onnx_workbench.exec.results.slot_map import Path
from onnx_workbench.exec.results.values import MISSING
from onnx_workbench.exec.values.arrays import RuntimeValue
from onnx_workbench.exec.values.finiteness import NAN, NonFiniteMode, kinds_of, originating_kinds
from onnx_workbench.exec.values.statistics import describe
from onnx_workbench.model.ir.graph import Model, Node, Value
from onnx_workbench.model.ir.types import Type

#: Prefix of the reason for a stop right after a node was computed.
AFTER = "after"


@dataclass(frozen=True, slots=True)
class Breakpoint:
    """Breakpoint: before `node`, after `value` is computed, or, for `value` or any value, when a condition holds.

    Conditions: ``non-finite``; ``above``: an element with |x| > `limit`; ``shape``: differs from the declared one;
    ``iteration``, for nodes too: the innermost enclosing loop is in iteration `limit`, from 0; and, for any value that
    a node computes, ``origins`` and ``nan``: NaN or an infinity, or NaN alone, first appears there.
    """

    node: Node | None = None
    value: Value | None = None
    condition: Literal["", "non-finite", "above", "shape", "iteration", "origins", "nan"] = ""
    limit: float = 0.0


@dataclass(frozen=True, slots=True)
class Condition:
    """Breakpoint whose node and value are ids, so that it can be sent to another process."""

    node: int
    value: int
    condition: str
    limit: float
    declared: Mapping[int, Type | None]

    @property
    def non_finite_mode(self) -> NonFiniteMode | None:
        """Return the condition if it is about where non-finite values first appear."""
        return "nan" if self.condition == "nan" else "origins" if self.condition == "origins" else None

    def is_in(self, iterations: Sequence[int]) -> bool:
        """Check whether it may stop in these iterations of the enclosing loops."""
        return self.condition != "iteration" or (bool(iterations) and iterations[-1] == self.limit)

    def before(self, step: PlanStep, previous: PlanStep | None) -> bool:
        """Check whether to stop before a step that follows `previous`: the step of the node, or the first step of its
        call.
        """
        if not self.node or step.node.node == self.node:
            return bool(self.node)
        call = _call(step, self.node)
        return bool(call) and (previous is None or _call(previous, self.node) != call)

    def after(self, plan: Plan, step: PlanStep, slots: Sequence[RuntimeValue], watched: Collection[int]) -> str:
        """Return why to stop after a step, or empty; `watched` are the slots of `value`."""
        if self.node:
            return ""
        for number, slot in zip(step.node.outputs, step.outs, strict=True):
            if not slot or slots[slot] is MISSING or (self.value and slot not in watched):
                continue
            reason = self.holds(self.value or number, slots[slot])
            if reason:
                return f"{AFTER} {step.node.title!r}: {plan.name(number)!r} {reason}"
        return ""

    def holds(self, number: int, value: RuntimeValue) -> str:
        """Return how a value meets the condition, or empty; `number` is the id of the value with the declared type."""
        if self.condition in ("", "iteration"):
            return "is computed"
        if not isinstance(value, np.ndarray):
            return ""
        if self.condition == "shape":
            info, declared = describe(value), self.declared.get(number)
            return "" if declared is None or info.fits(declared) else f"is {info}, declared {declared}"
        if value.dtype.kind in "OUSb" or not value.size:
            return ""
        numbers = value if value.dtype.kind in "iufc" else value.astype(np.float32)
        if self.condition == "non-finite":
            return "" if numbers.dtype.kind in "iu" or np.isfinite(numbers).all() else "is not finite everywhere"
        if numbers.dtype.kind == "c":
            numbers = np.abs(numbers.astype(np.complex128))
        limit = self.limit
        if numbers.dtype.kind == "f" and np.isfinite(limit):
            # Round the limit to the type of the numbers, so that 0.1 is not above 0.1, but never to an infinity.
            limit = min(limit, float(np.finfo(numbers.dtype).max))
        above = ((numbers > limit) | (numbers < -limit)).any()  # not by the maximum, which may be NaN
        return f"has an element above {self.limit:g}" if above else ""


def _call(step: PlanStep, node: int) -> Path:
    """Return the part of a step's path that ends at a call of a function by `node`; empty if the step is in none."""
    return step.path[: step.path.index(node) + 1] if node in step.path else ()


def compile_breakpoint(breakpoint_: Breakpoint, model: Model) -> Condition:
    """Compile a breakpoint to ids. Reads the declared types now, on the thread that owns the model."""
    declared: dict[int, Type | None] = {}
    if breakpoint_.condition == "shape":
        declared = {v.id: v.type for graph in model.graphs() for v in graph.values()}
    return Condition(
        breakpoint_.node.id if breakpoint_.node is not None else 0,
        breakpoint_.value.id if breakpoint_.value is not None else 0,
        breakpoint_.condition,
        breakpoint_.limit,
        declared,
    )


@dataclass(frozen=True, slots=True)
class Breakpoints:
    """Breakpoints of a run, in its graph and in bodies; also stops at any node of bodies no deeper than `depth`."""

    conditions: Sequence[Condition]
    constant: Callable[[int], RuntimeValue]
    depth: int = 0
    _watched: dict[int, list[tuple[Condition, set[int]]]] = field(default_factory=dict)  # by id of a plan
    _kinds: dict[tuple[int, int], int] = field(default_factory=dict)  # kinds of non-finite values, by plan and slot

    def of(self, plan: Plan) -> list[tuple[Condition, set[int]]]:
        """Return each breakpoint with the slots of its value in a plan."""
        watched = self._watched.get(id(plan))
        if watched is None:
            slots = plan.slots.items()
            watched = [(c, {s for (_, v), s in slots if v == c.value}) for c in self.conditions]
            self._watched[id(plan)] = watched
        return watched

    def before(self, step: PlanStep, previous: PlanStep | None, iterations: Sequence[int] = ()) -> str:
        """Return why to stop before a step that follows `previous`, or empty."""
        stops = any(c.before(step, previous) and c.is_in(iterations) for c in self.conditions)
        return f"before {step.node.title!r}" if stops else ""

    def after(self, plan: Plan, step: PlanStep, slots: Sequence[RuntimeValue], iterations: Sequence[int] = ()) -> str:
        """Return why to stop after a step, or empty."""
        reasons = (
            condition.after(plan, step, slots, watched)
            if condition.non_finite_mode is None
            else self._check_origin(plan, step, slots, condition.non_finite_mode)
            for condition, watched in self.of(plan)
            if condition.is_in(iterations)
        )
        return next(filter(None, reasons), "")

    def _check_origin(self, plan: Plan, step: PlanStep, slots: Sequence[RuntimeValue], mode: NonFiniteMode) -> str:
        """Return why to stop at a step where non-finite values first appear, or empty; bodies are checked inside."""
        given = gives = 0
        for slot in step.outs:
            kinds = kinds_of(slots[slot]) if slot and slots[slot] is not MISSING else 0
            self._kinds[id(plan), slot] = kinds
            gives |= kinds
        if not gives or step.bodies:
            return ""
        for slot in step.reads:
            if slots[slot] is not MISSING:
                given |= kinds_of(slots[slot])
            elif slot in plan.constants:
                given |= kinds_of(self.constant(plan.constants[slot]))
            else:  # released since
                given |= self._kinds.get((id(plan), slot), 0)
        begins = originating_kinds(step.node.op_type, given, gives, mode)
        what = "NaN" if begins & NAN else "an infinity"
        return f"{AFTER} {step.node.title!r}: {what} begins" if begins else ""

    def between(self, plan: Plan, place: SubgraphPosition, slots: list[RuntimeValue]) -> str:
        """Return why to stop between two steps of a body, or empty."""
        previous, following, depth, iterations, _ = place
        reason = "" if previous is None else self.after(plan, previous, slots, iterations)
        if reason or following is None:
            return reason
        return (
            f"before {following.node.title!r}" if depth <= self.depth else self.before(following, previous, iterations)
        )
