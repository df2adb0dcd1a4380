"""A planned run: its constants and code, the computation step by step or to the end, and the results at any time.

It stops after each node, at breakpoints, and inside bodies.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial, reduce
from operator import and_
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_workbench.exec.engine.bodies import SubgraphPosition, SubgraphRecord, in_iterations
from onnx_workbench.exec.engine.breakpoints import Breakpoints
from onnx_workbench.exec.engine.cache import CacheEntry
from onnx_workbench.exec.engine.executor import FOLD_LIMIT, Executor
from onnx_workbench.exec.engine.plan import Code, Kinds, PlanStep, Program, fill
from onnx_workbench.exec.engine.request import Request
from onnx_workbench.exec.engine.stored_weights import StoredWeight, held_constants, just_in_time
from onnx_workbench.exec.errors import LimitError
from onnx_workbench.exec.results.node_table import CODES, Failure, NodeTable, State
from onnx_workbench.exec.results.run_result import RunMemory, RunResult
from onnx_workbench.exec.results.slot_map import Path, ValueKey
from onnx_workbench.exec.results.values import MISSING
from onnx_workbench.exec.values.arrays import RuntimeValue
from onnx_workbench.exec.values.limits import set_limits
from onnx_workbench.exec.values.statistics import nbytes
from onnx_workbench.model.ir.graph import Node
from onnx_workbench.model.progress import Cancelled, Progress

if TYPE_CHECKING:
    from onnx_workbench.exec.engine.engine import Engine


class Stepper:
    """A run that has been planned: `step` computes one node, `resume` runs to the next breakpoint or the end.

    Iteration steps node by node. `position` and `next_node` are where it is, `reason` why it stopped. After a stop at a
    breakpoint inside a body, steps continue inside it, node by node and iteration by iteration, to its end; each step
    there computes the iteration again from its beginning.
    """

    def __init__(
        self,
        engine: Engine,
        request: Request,
        run: Executor,
        kept: dict[int, CacheEntry | None],
        kinds: Kinds,
        begun: float,
        input_bytes: int = 0,
    ) -> None:
        self._engine = engine
        self._request = request
        self._options = request.options
        self._cache = engine.cache
        self.plan = run.plan
        self.run = run
        self._kept = kept  # by index of the step; None: a folded constant
        self._kinds = kinds  # of the feeds
        self._begun = begun  # clock
        self._input_bytes = input_bytes
        self._left: float | None = None  # clock at the end of `_advance`
        self._is_begun = False
        self._last: PlanStep | None = None  # the step computed last
        self._inside: SubgraphPosition | None = None  # position in a body of the next step, if it stopped there
        self.reason = ""  # why it stopped before the end
        self.node_of: Callable[[int], Any] = lambda number: number  # returns the node with an id, for `next_node`

    # -- planning --------------------------------------------------------------------------------------------

    def prepare(self, needed: list[PlanStep], targets: frozenset[int] | None) -> None:
        """Compute constants, prepare weights, determine the order of steps."""
        run, plan = self.run, self.plan
        slots, template = run.slots, plan.template
        problems: dict[int, str] = {}
        with self._within_limits():
            returned, problems = plan.read_returned_constants()
            for slot in (*plan.read_constants(needed), *returned):
                slots[slot] = template[slot]
        names = {slot: key[1] for key, slot in plan.slots.items()} if problems else {}
        for slot, reason in problems.items():
            value = names[slot]
            run.dead[slot] = Failure(0, (), plan.name(value), "value", 0, (), reason, "KernelError")
        for slot, value in plan.undefined.items():
            if slots[slot] is MISSING:
                run.dead[slot] = Failure(
                    0, (), plan.name(value), "value", 0, (), f"nothing defines {plan.name(value)!r}", "KernelError"
                )
        if plan.library.reads_on_demand:
            constants = held_constants(needed, plan.step_tokens, slots)
            early = {s.index for s in constants}
            rest = just_in_time([s for s in needed if s.index not in early], plan.step_tokens)
        else:
            constants = [s for s in needed if plan.step_tokens[s.index]]
            rest = [s for s in needed if not plan.step_tokens[s.index]] if constants else needed
        if constants:
            run.code = [plan.code_of(s) for s in constants]
            run.keep = {slot for s in constants for slot in s.outs}  # later steps read them
            run.total = len(needed)
            run.execute()
            self._fold(constants)
            run.keep = None
        if targets is not None:
            run.keep = {slot for index in targets for slot in plan.steps[index].outs} | set(plan.outputs)
        with self._within_limits():
            plan.prepare_weights(rest)
        code = self._code(rest)
        folded = [*self._kept, *(step.index for step in constants)]
        is_complete = not (run.dead or run.stopped or any(self._kept.values()))
        if is_complete and self._options.outputs and all(plan.folded[index] for index in folded):
            common = reduce(and_, (one.step.inputs for one in code), -1)
            plan.program = Program(targets, code, folded, run.keep, common)
        run.code = [*run.code, *code] if constants else code

    @contextmanager
    def _within_limits(self) -> Iterator[None]:
        """Stop the run if the block is cancelled or exceeds the time limit."""
        set_limits(self.run.limits)
        try:
            yield
        except Cancelled:
            self.run.stopped = "cancelled"
        except LimitError:
            self.run.stopped = "time limit"
        finally:
            set_limits(None)

    def reopen_constants(self) -> None:
        """Restart before the first step; folded constants become steps again, so that breakpoints can stop at them."""
        run, steps = self.run, self.plan.steps
        if run.stopped:
            return
        folded = [steps[index] for index, kept in self._kept.items() if kept is None]
        self._kept = {index: kept for index, kept in self._kept.items() if kept is not None}
        order = sorted([*folded, *(code.step for code in run.code)], key=lambda step: step.index)
        run.rewind(self._code(order))
        run.main.checks_types = True

    def _code(self, steps: list[PlanStep]) -> list[Code]:
        keep = self.run.keep
        if keep is None:
            return [self.plan.code_of(s) for s in steps]
        last: dict[int, int] = {}
        for position, step in enumerate(steps):
            for slot in (*step.outs, *step.reads):
                last[slot] = position
        computed = {s for step in steps for s in step.outs}
        free: dict[int, list[int]] = {}
        for slot, position in last.items():
            if slot and slot in computed and slot not in keep:
                free.setdefault(position, []).append(slot)
        return [self.plan.code_of(s, tuple(free.get(i, ()))) for i, s in enumerate(steps)]

    def _fold(self, constants: list[PlanStep]) -> None:
        """Store the constants just computed for all later runs."""
        plan, run, folded = self.plan, self.run, self.plan.library.folded
        for step in constants:
            values = tuple([run.slots[s] if s else None for s in step.outs])
            if any(v is MISSING for v in values) or sum(map(nbytes, values)) > FOLD_LIMIT:
                continue
            token = plan.step_tokens[step.index]
            folded[token] = values
            self.plan.library.folded_bytes += sum(map(nbytes, values))
            plan.folded[step.index] = 1
            if step.bodies:
                self._cache.insides[token] = run.inside([step])
            fill(step, plan.template, values)

    # -- running ---------------------------------------------------------------------------------------------

    @property
    def done(self) -> bool:
        """Whether nothing is left to compute."""
        return self.run.is_over

    @property
    def position(self) -> int:
        """Number of nodes processed."""
        return len(self.run.stamps)

    @property
    def total(self) -> int:
        """Number of nodes of the run."""
        return len(self.run.code)

    @property
    def constants(self) -> Collection[int]:
        """Slots that hold constants of the model."""
        return self.plan.constants.keys()

    def notify(self) -> None:
        """Report finished nodes to the observer now, while the current node is computed. Any thread."""
        self.run.notify()

    def _advance(self, count: int | None = None) -> None:
        """Compute the next `count` steps, or all remaining ones. Time between two calls does not count as run time."""
        if self._left is not None:
            self._postpone_deadline(time.perf_counter() - self._left)
        run, options = self.run, self._options
        run.execute(count)
        is_whole = run.is_over and options.values is None and options.until is None
        if is_whole and not (run.stopped or run.failures or run.dead):
            self.plan.accept(self._kinds)
        self._left = time.perf_counter()

    def _postpone_deadline(self, seconds: float) -> None:
        self._begun += seconds
        limits = self.run.limits
        if limits.deadline is not None:
            limits.deadline += seconds

    # -- stepping ----------------------------------------------------------------------------------------------

    @cached_property
    def _stops(self) -> Breakpoints:
        return Breakpoints(self._request.breakpoints, self.plan.library.constant)

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
        if not self._request.breakpoints:
            self._advance()
            return ""
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

    # -- results ---------------------------------------------------------------------------------------------

    def result(self) -> RunResult:
        """Return everything computed so far; may be called repeatedly."""
        run, plan = self.run, self.plan
        limits, inputs = run.limits, self._input_bytes
        slots, inside = run.slots.copy(), self._record()
        summaries = dict(run.summaries)
        if self.plan.library.reads_on_demand:
            for slot in plan.constants:
                value = slots[slot]
                if type(value) is StoredWeight:
                    slots[slot], summaries[slot] = MISSING, value.summary
        for index, kept in self._kept.items():
            if kept is not None and kept.values is None:
                outs = plan.steps[index].outs
                summaries.update({s: k for s, k in zip(outs, kept.summaries, strict=True) if s and k is not None})
        stopped = run.stopped
        is_over = run.is_over
        if not is_over:
            stopped = f"stopped {self.reason}".rstrip()
        found = RunResult(
            self.plan.layout,
            slots,
            self.nodes,
            summaries,
            self._recompute,
            state=self._request.snapshot.state,
            seed=self._options.seed,
            seconds=(time.perf_counter() if self._left is None else self._left) - self._begun,
            peak_bytes=max(run.main.peak, run.main.held),
            memory=RunMemory(limits.memory, limits.most_fixed - inputs, inputs, limits.most_working),
            stopped=stopped,
            notes=plan.notes,
            bodies=inside.values,
            build_inner=inside.nodes,
            iterations=inside.iterations,
        )
        if is_over:  # while it is paused, its bodies are in use
            found.iterate = partial(in_iterations, self._engine, self._request, self.plan)
        else:
            _ = found.inner  # made now, as they change
        return found

    def _record(self) -> SubgraphRecord:
        """Return the values computed in bodies, including those of nodes whose results were reused."""
        if not self.plan.bodied:
            return SubgraphRecord()
        steps = [self.plan.steps[index] for index in self.plan.bodied]
        if self._kept.keys().isdisjoint(self.plan.bodied):
            return self.run.inside(steps)
        record = SubgraphRecord()
        for step in steps:
            if step.index not in self._kept:
                record.add(self.run.inside([step]))
                continue
            kept = self._kept[step.index]
            inside = self._cache.insides.get(self.plan.step_tokens[step.index]) if kept is None else kept.inside
            if inside is not None:
                record.add(inside.kept())
        return record

    def _recompute(self, key: ValueKey, progress: Progress) -> RuntimeValue:
        """Compute a value that was not kept; LookupError if that fails."""
        options = replace(self._options, values=(key,), outputs=False, until=None, fresh=False)
        request = replace(self._request, options=options, breakpoints=())
        again = self._engine.start(request, progress=progress)
        again.resume()
        progress.check()
        run, plan = again.run, again.plan
        slot = plan.slots[key]
        found = run.slots[slot]
        if type(found) is StoredWeight:
            return found.read()
        if found is not MISSING:
            return found
        if slot in plan.constants:
            number = plan.constants[slot]
            weight = self.plan.library.stored(number)
            return self.plan.library.constant(number) if weight is None else weight.read()
        failure: Failure | None = run.dead.get(slot)
        msg = f"value {plan.name(key[1])!r} was not computed: {failure or run.stopped or 'unknown'}"
        raise LookupError(msg)

    def nodes(self) -> NodeTable:
        """Return the outcome of each node."""
        run, steps = self.run, self.plan.steps
        table = NodeTable.blank(self.plan.layout.steps.keys, State.UNNEEDED, lambda row: steps[row].label)
        if self._kept:
            self._mark_kept(table)
        done = len(run.stamps)
        order = np.array([code.step.index for code in run.code], np.int64)
        table.states[order[done:]] = CODES[State.WAITING]
        table.assign(order[:done], run.finished(0, done))
        return table

    def _mark_kept(self, table: NodeTable) -> None:
        slots, steps = self.run.slots, self.plan.steps
        constant = [index for index, entry in self._kept.items() if entry is None]
        table.states[constant] = CODES[State.CONSTANT]
        table.nbytes[constant] = [sum(nbytes(slots[s]) for s in steps[index].outs if s) for index in constant]
        kept = {index: entry for index, entry in self._kept.items() if entry is not None}
        places = list(kept)
        table.states[places] = CODES[State.KEPT]
        table.seconds[places] = [entry.seconds for entry in kept.values()]
        table.nbytes[places] = [entry.nbytes for entry in kept.values()]
