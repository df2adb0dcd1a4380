"""One run from its plan to its results: what is computed is put into the store, in the midst of the run too."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from onnx_workbench.exec.engine.cache import CacheEntry, CacheOutline, ValueCache
from onnx_workbench.exec.engine.executor import FOLD_LIMIT, Executor, bind, prepare
from onnx_workbench.exec.engine.operations import Library
from onnx_workbench.exec.engine.plan import MISSING, Code, Kinds, Plan, Step
from onnx_workbench.exec.engine.snapshot import ABSENT
from onnx_workbench.exec.engine.subgraph_frames import SubgraphRecord
from onnx_workbench.exec.inspect.statistics import nbytes
from onnx_workbench.exec.kernels.context import set_limits
from onnx_workbench.exec.results.node_table import CODES, Failure, NodeTable, State
from onnx_workbench.exec.results.run_result import RunResult
from onnx_workbench.exec.results.slot_map import Path, ValueKey


@dataclass(frozen=True, slots=True)
class ExecutionOptions:
    """What is asked of a run. `values` None: every value; else keys, beside the outputs unless `until` is given."""

    values: tuple[ValueKey | str, ...] | None = None
    outputs: bool = True
    until: tuple[Path, int] | None = None
    seed: int = 0
    memory_limit: int | None = None  # bytes of a single value
    time_limit: float | None = None  # seconds
    fresh: bool = False
    watched: bool = False  # somebody looks at every step: those that are constant are gone through too


class Execution:
    """A run that has been planned: `advance` computes, `result` says what there is so far."""

    def __init__(
        self,
        library: Library,
        store: ValueCache,
        plan: Plan,
        run: Executor,
        tokens: list[int],
        kept: dict[int, CacheEntry | CacheOutline | None],
        options: ExecutionOptions,
        begun: float,
        kinds: Kinds,
    ) -> None:
        self._library = library
        self._store = store
        self.plan = plan
        self.run = run
        self.options = options
        self.wanted: set[int] = set()
        self._tokens = tokens
        self._kept = kept
        self._begun = begun
        self._kinds = kinds  # of what is given
        self._left: float | None = None  # when `advance` ended
        self._stored = 0
        self._costs: list[float] | None = None

    @property
    def next_step(self) -> Step | None:
        """The step that `advance` would run next."""
        position = len(self.run.stamps)
        return self.run.code[position].step if position < len(self.run.code) else None

    @property
    def done(self) -> bool:
        """Whether nothing is left to run."""
        return bool(self.run.stopped) or self.next_step is None

    def prepare(self, needed: list[Step], targets: set[int] | None) -> None:
        """Compute constants, prepare weights, settle the order."""
        run, plan, library = self.run, self.plan, self._library
        slots, template = run.slots, plan.template
        set_limits(run.limits)
        try:
            for slot in bind(plan, library, needed):
                slots[slot] = template[slot]
        finally:
            set_limits(None)
        for slot, value in plan.undefined.items():
            if slots[slot] is MISSING:
                run.dead[slot] = Failure(
                    0, (), plan.name(value), "value", 0, (), f"nothing defines {plan.name(value)!r}", "KernelError"
                )
        constants = [s for s in needed if s.token]
        rest = [s for s in needed if not s.token] if constants else needed
        if constants:
            run.code = [s.code().guarded() for s in constants]
            self._costs = self._costs_of([*constants, *rest])
            run.execute(expected=self._expected)
            self._fold(constants)
        if targets is not None:
            run.keep = {slot for index in targets for slot in plan.steps[index].outs} | set(plan.outputs)
        prepare(plan, library, rest)
        code = self._code(rest)
        if targets is None and not run.dead and len(rest) + len(self._kept) == len(plan.steps) - len(constants):
            self._remember(plan, rest, code)
        guarded = code if plan.good == self._kinds else [c.guarded() for c in code]
        run.code = [*run.code, *guarded] if constants else guarded

    def reopen_constants(self) -> None:
        """Stand before the first step, be it constant: it is gone through as others are, and gives the same again."""
        run, steps = self.run, self.plan.steps
        if run.stopped:
            return
        folded = [steps[index] for index, kept in self._kept.items() if kept is None]
        self._kept = {index: kept for index, kept in self._kept.items() if kept is not None}
        self._costs = None
        order = sorted([*folded, *(code.step for code in run.code)], key=lambda step: step.index)
        run.rewind([code.guarded() for code in self._code(order)])

    def _remember(self, plan: Plan, steps: list[Step], code: list[Code]) -> None:
        """The next run of everything need not find out again what everything is."""
        dynamic = [s for s in plan.steps if not s.token]
        if len(dynamic) == len(steps) and all(s.folded for s in plan.steps if s.token):
            plan.everything, plan.code = steps, code
            plan.folded = [s.index for s in plan.steps if s.token]

    def _code(self, steps: list[Step]) -> list[Code]:
        keep = self.run.keep
        if keep is None:
            return [s.code() for s in steps]
        last: dict[int, int] = {}
        for position, step in enumerate(steps):
            for slot in (*step.outs, *step.reads):
                last[slot] = position
        made = {s for step in steps for s in step.outs}
        free: dict[int, list[int]] = {}
        for slot, position in last.items():
            if slot and slot in made and slot not in keep:
                free.setdefault(position, []).append(slot)
        return [s.code(tuple(free.get(i, ()))) for i, s in enumerate(steps)]

    def _fold(self, constants: list[Step]) -> None:
        """Keep the constants just computed for all later runs."""
        plan, run, folded = self.plan, self.run, self._library.folded
        for step in constants:
            values = tuple([run.slots[s] if s else None for s in step.outs])
            if any(v is MISSING for v in values) or sum(map(nbytes, values)) > FOLD_LIMIT:
                continue
            folded[step.token] = values
            self._library.folded_bytes += sum(map(nbytes, values))
            step.folded = True
            if step.bodies:
                self._store.insides[step.token] = run.inside([step])
            step.fill(plan.template, values)
            plan.given.update(filter(None, step.outs))

    def _expected(self, done: int) -> tuple[float, float]:
        """Seconds the first steps took in earlier runs, and all; the average where a step is new."""
        if self._costs is None:
            self._costs = self._costs_of([code.step for code in self.run.code])
        return self._costs[min(done, len(self._costs) - 1)], self._costs[-1]

    def _costs_of(self, steps: Sequence[Step]) -> list[float]:
        """For each number of these steps the seconds that so many of them are expected to take."""
        costs = self._store.costs
        known = [costs[s.key] for s in steps if s.key in costs]
        usual = sum(known) / len(known) if known else 1.0
        return [0.0, *accumulate(costs.get(s.key, usual) for s in steps)]

    def advance(self, count: int | None = None) -> None:
        """Compute the next `count` steps, or all that are left. What passes between two calls is no time of the run."""
        if self._left is not None:
            self._put_off(time.perf_counter() - self._left)
        run, options = self.run, self.options
        run.execute(count, self._expected)
        is_whole = options.values is None and options.until is None
        if is_whole and self.done and not (run.stopped or run.failures or run.dead):
            self.plan.came_through(self._kinds)
        self._left = time.perf_counter()

    def _put_off(self, seconds: float) -> None:
        self._begun += seconds
        limits = self.run.limits
        if limits.deadline is not None:
            limits.deadline += seconds

    # -- results ---------------------------------------------------------------------------------------------

    def finish(self) -> RunResult:
        """Keep what was computed for later runs and tell it all."""
        run, plan = self.run, self.plan
        for code in run.code if any(f.used for f in plan.finders) else ():
            context = code.step.context
            if context is not None and getattr(context.body_runner, "used", False):
                self._library.volatile.add(code.step.key)
        slots, inside = run.slots.copy(), self._inside()
        summaries = dict(run.summaries)
        for index, kept in self._kept.items():
            if isinstance(kept, CacheOutline):
                outs = plan.steps[index].outs
                summaries.update({s: k for s, k in zip(outs, kept.summaries, strict=True) if s and k is not None})
        return RunResult(
            plan.layout(),
            slots,
            self.nodes,
            lambda _: ABSENT,
            summaries,
            seed=self.options.seed,
            seconds=(time.perf_counter() if self._left is None else self._left) - self._begun,
            peak_bytes=max(run.peak, run.held),
            stopped=run.stopped,
            notes=plan.told(),
            bodies=inside.values,
            inner=inside.nodes,
        )

    def _inside(self) -> SubgraphRecord:
        """What is in bodies, those of nodes that were not computed again too."""
        found = SubgraphRecord()
        for step in self.plan.bodied:
            if step.index not in self._kept:
                found.add(self.run.inside([step]))
                continue
            kept = self._kept[step.index]
            known = self._store.insides.get(step.token) if kept is None else getattr(kept, "inside", None)
            if known is not None:
                found.add(known.kept())
        return found

    def keep_values(self) -> None:
        """Put what was computed in the store, for later runs."""
        run, store, costs = self.run, self._store, self._store.costs
        slots, tokens, number = run.slots, self._tokens, store.run
        entries = store.entries
        for position in range(self._stored, len(run.stamps)):
            step = run.code[position].step
            token = tokens[step.index]
            if not token or step.folded or step.index in run.failures or step.index in run.skipped:
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
        """What became of each node."""
        run, steps = self.run, self.plan.steps
        table = NodeTable.blank(self.plan.layout().steps.keys, State.UNNEEDED, lambda place: steps[place].row())
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
