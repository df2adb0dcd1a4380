"""One run from its plan to its result: computes, fills the cache, and gives results, also while it is going on."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from onnx_workbench.exec.engine.cache import CacheEntry, CacheOutline, ValueCache
from onnx_workbench.exec.engine.executor import FOLD_LIMIT, Executor
from onnx_workbench.exec.engine.plan import MISSING, PlanStep
from onnx_workbench.exec.engine.plan_state import Code, Kinds, Schedule
from onnx_workbench.exec.engine.snapshot import ABSENT
from onnx_workbench.exec.engine.subgraph_frames import SubgraphRecord
from onnx_workbench.exec.inspect.statistics import nbytes
from onnx_workbench.exec.kernels.context import set_limits
from onnx_workbench.exec.results.node_table import CODES, Failure, NodeTable, State
from onnx_workbench.exec.results.run_result import RunResult
from onnx_workbench.exec.results.slot_map import Path, ValueKey


@dataclass(frozen=True, slots=True)
class ExecutionOptions:
    """Options of a run. `values` None: every value; else keys, beside the outputs unless `until` is given."""

    values: tuple[ValueKey | str, ...] | None = None
    outputs: bool = True
    until: tuple[Path, int] | None = None
    seed: int = 0
    memory_limit: int | None = None  # bytes of a single value
    time_limit: float | None = None  # seconds
    fresh: bool = False
    watched: bool = False  # there are breakpoints: constant steps are gone through too


class Execution:
    """A run that has been planned: `advance` computes, `finish` gives the result so far."""

    def __init__(
        self,
        store: ValueCache,
        run: Executor,
        tokens: list[int],
        kept: dict[int, CacheEntry | CacheOutline | None],
        options: ExecutionOptions,
        begun: float,
        kinds: Kinds,
    ) -> None:
        self._library = run.state.library
        self._store = store
        self.state = run.state
        self.plan = run.plan
        self.run = run
        self.options = options
        self._tokens = tokens
        self._kept = kept
        self._begun = begun
        self._kinds = kinds  # of what is given
        self._left: float | None = None  # when `advance` ended
        self._stored = 0
        self._costs: list[float] | None = None

    @property
    def next_step(self) -> PlanStep | None:
        """The step that `advance` would run next."""
        position = len(self.run.stamps)
        return self.run.code[position].step if position < len(self.run.code) else None

    @property
    def done(self) -> bool:
        """Return whether nothing is left to run."""
        return bool(self.run.stopped) or self.next_step is None

    def prepare(self, needed: list[PlanStep], targets: set[int] | None) -> None:
        """Compute constants, prepare weights, settle the order."""
        run, plan, state = self.run, self.plan, self.state
        slots, template = run.slots, state.template
        set_limits(run.limits)
        try:
            returned, problems = state.read_returned_constants()
            for slot in (*state.read_constants(needed), *returned):
                slots[slot] = template[slot]
        finally:
            set_limits(None)
        names = {slot: key[1] for key, slot in plan.slots.items()} if problems else {}
        for slot, reason in problems.items():
            value = names[slot]
            run.dead[slot] = Failure(0, (), plan.name(value), "value", 0, (), reason, "KernelError")
        for slot, value in plan.undefined.items():
            if slots[slot] is MISSING:
                run.dead[slot] = Failure(
                    0, (), plan.name(value), "value", 0, (), f"nothing defines {plan.name(value)!r}", "KernelError"
                )
        constants = [s for s in needed if state.tokens[s.index]]
        rest = [s for s in needed if not state.tokens[s.index]] if constants else needed
        if constants:
            run.code = [state.code_of(s).guarded() for s in constants]
            self._costs = self._costs_of([*constants, *rest])
            run.execute(expected=self._expected)
            self._fold(constants)
        if targets is not None:
            run.keep = {slot for index in targets for slot in plan.steps[index].outs} | set(plan.outputs)
        state.prepare_weights(rest)
        code = self._code(rest)
        if targets is None and not run.dead and len(rest) + len(self._kept) == len(plan.steps) - len(constants):
            self._remember(rest, code)
        guarded = code if state.accepts(self._kinds) else [c.guarded() for c in code]
        run.code = [*run.code, *guarded] if constants else guarded

    def reopen_constants(self) -> None:
        """Go back before the first step, be it constant: a constant step gives the same again."""
        run, steps = self.run, self.plan.steps
        if run.stopped:
            return
        folded = [steps[index] for index, kept in self._kept.items() if kept is None]
        self._kept = {index: kept for index, kept in self._kept.items() if kept is not None}
        self._costs = None
        order = sorted([*folded, *(code.step for code in run.code)], key=lambda step: step.index)
        run.rewind([code.guarded() for code in self._code(order)])

    def _remember(self, steps: list[PlanStep], code: list[Code]) -> None:
        """Keep the schedule for the next run of everything."""
        tokens, folded = self.state.tokens, self.state.folded
        constant = [index for index, token in enumerate(tokens) if token]
        if len(tokens) - len(constant) == len(steps) and all(folded[index] for index in constant):
            self.state.schedule = Schedule(steps, code, constant)

    def _code(self, steps: list[PlanStep]) -> list[Code]:
        keep = self.run.keep
        if keep is None:
            return [self.state.code_of(s) for s in steps]
        last: dict[int, int] = {}
        for position, step in enumerate(steps):
            for slot in (*step.outs, *step.reads):
                last[slot] = position
        made = {s for step in steps for s in step.outs}
        free: dict[int, list[int]] = {}
        for slot, position in last.items():
            if slot and slot in made and slot not in keep:
                free.setdefault(position, []).append(slot)
        return [self.state.code_of(s, tuple(free.get(i, ()))) for i, s in enumerate(steps)]

    def _fold(self, constants: list[PlanStep]) -> None:
        """Keep the constants just computed for all later runs."""
        state, run, folded = self.state, self.run, self._library.folded
        for step in constants:
            values = tuple([run.slots[s] if s else None for s in step.outs])
            if any(v is MISSING for v in values) or sum(map(nbytes, values)) > FOLD_LIMIT:
                continue
            token = state.tokens[step.index]
            folded[token] = values
            self._library.folded_bytes += sum(map(nbytes, values))
            state.folded[step.index] = 1
            if step.bodies:
                self._store.insides[token] = run.inside([step])
            state.fold(step, values)

    def _expected(self, done: int) -> tuple[float, float]:
        """Seconds the first steps took in earlier runs, and all; the average where a step is new."""
        if self._costs is None:
            self._costs = self._costs_of([code.step for code in self.run.code])
        return self._costs[min(done, len(self._costs) - 1)], self._costs[-1]

    def _costs_of(self, steps: Sequence[PlanStep]) -> list[float]:
        """Return the cumulative expected seconds of these steps."""
        costs = self._store.costs
        known = [costs[s.key] for s in steps if s.key in costs]
        usual = sum(known) / len(known) if known else 1.0
        return [0.0, *accumulate(costs.get(s.key, usual) for s in steps)]

    def advance(self, count: int | None = None) -> None:
        """Compute the next `count` steps, or all that are left. Time between two calls does not count."""
        if self._left is not None:
            self._put_off(time.perf_counter() - self._left)
        run, options = self.run, self.options
        run.execute(count, self._expected)
        is_whole = options.values is None and options.until is None
        if is_whole and self.done and not (run.stopped or run.failures or run.dead):
            self.state.accept(self._kinds)
        self._left = time.perf_counter()

    def _put_off(self, seconds: float) -> None:
        self._begun += seconds
        limits = self.run.limits
        if limits.deadline is not None:
            limits.deadline += seconds

    # -- results ---------------------------------------------------------------------------------------------

    def finish(self) -> RunResult:
        """The result of what was computed so far."""
        run, plan = self.run, self.plan
        slots, inside = run.slots.copy(), self._inside()
        summaries = dict(run.summaries)
        for index, kept in self._kept.items():
            if isinstance(kept, CacheOutline):
                outs = plan.steps[index].outs
                summaries.update({s: k for s, k in zip(outs, kept.summaries, strict=True) if s and k is not None})
        return RunResult(
            self.state.layout,
            slots,
            self.nodes,
            lambda _: ABSENT,
            summaries,
            seed=self.options.seed,
            seconds=(time.perf_counter() if self._left is None else self._left) - self._begun,
            peak_bytes=max(run.main.peak, run.main.held),
            stopped=run.stopped,
            notes=plan.all_notes,
            bodies=inside.values,
            inner=inside.nodes,
        )

    def _inside(self) -> SubgraphRecord:
        """Return the values computed in bodies, including those of nodes whose results were reused."""
        found = SubgraphRecord()
        for step in map(self.plan.steps.__getitem__, self.plan.bodied):
            if step.index not in self._kept:
                found.add(self.run.inside([step]))
                continue
            kept = self._kept[step.index]
            known = (
                self._store.insides.get(self.state.tokens[step.index])
                if kept is None
                else getattr(kept, "inside", None)
            )
            if known is not None:
                found.add(known.kept())
        return found

    def keep_values(self) -> None:
        """Put what was computed in the store, for later runs."""
        run, store, costs = self.run, self._store, self._store.costs
        slots, tokens, number = run.slots, self._tokens, store.run
        entries, folded = store.entries, self.state.folded
        for position in range(self._stored, len(run.stamps)):
            step = run.code[position].step
            token = tokens[step.index]
            if not token or folded[step.index] or step.index in run.failures or step.index in run.skipped:
                continue
            seconds = run.seconds(position)
            costs[step.key] = seconds
            outs = step.outs
            values = (slots[outs[0]],) if len(outs) == 1 else tuple([slots[s] for s in outs])
            if values[0] is not MISSING if len(values) == 1 else all(v is not MISSING for v in values):
                inside = run.inside([step]) if step.bodies else None
                entries[token] = CacheEntry(values, seconds, run.sizes[position], number, inside)
            elif run.summaries:
                found = tuple(run.summaries.get(s) for s in outs)
                if all(f is not None or not s for f, s in zip(found, outs, strict=True)):
                    store.outlines[token] = CacheOutline(found, seconds, run.sizes[position], number)
        self._stored = len(run.stamps)
        store.trim()

    def nodes(self) -> NodeTable:
        """Return the outcome of each node."""
        run, steps = self.run, self.plan.steps
        table = NodeTable.blank(self.state.layout.steps.keys, State.UNNEEDED, lambda place: steps[place].row())
        if self._kept:
            self._tell_kept(table)
        done = len(run.stamps)
        order = np.array([code.step.index for code in run.code], np.int64)
        table.states[order[done:]] = CODES[State.WAITING]
        table.put(order[:done], run.finished(0, done))
        return table

    def _tell_kept(self, table: NodeTable) -> None:
        slots, steps = self.run.slots, self.plan.steps
        constant = [index for index, entry in self._kept.items() if entry is None]
        table.states[constant] = CODES[State.CONSTANT]
        table.nbytes[constant] = [sum(nbytes(slots[s]) for s in steps[index].outs if s) for index in constant]
        kept = {index: entry for index, entry in self._kept.items() if entry is not None}
        places = list(kept)
        table.states[places] = CODES[State.KEPT]
        table.seconds[places] = [entry.seconds for entry in kept.values()]
        table.nbytes[places] = [entry.nbytes for entry in kept.values()]
