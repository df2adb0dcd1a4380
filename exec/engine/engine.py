"""Runs snapshots: plans them, reuses values of earlier runs, keeps values within a memory budget.

Every value has a token that says how it is computed, and the set of inputs that it depends on. A value whose token is
in the cache is not computed again, so an edit costs only the nodes downstream of it and an undo costs nothing. When an
input changes, the values that depend on it are released before anything is computed: the run works in their memory.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from onnx_workbench.exec.engine.cache import CacheEntry, ValueCache
from onnx_workbench.exec.engine.executor import Executor, Observer
from onnx_workbench.exec.engine.input_types import kind_of
from onnx_workbench.exec.engine.lowering import Compiler, compile_model
from onnx_workbench.exec.engine.operations import AROUND, Library
from onnx_workbench.exec.engine.plan import Kinds, Plan, PlanStep, Program, fill
from onnx_workbench.exec.engine.request import Request, RunOptions
from onnx_workbench.exec.engine.snapshot import ModelSnapshot
from onnx_workbench.exec.engine.stepper import Stepper
from onnx_workbench.exec.errors import LimitError
from onnx_workbench.exec.inputs.feeds import Feeds, HeldInput
from onnx_workbench.exec.kernels.shared.scratch import working_bytes
from onnx_workbench.exec.kernels.shared.weights import laid_out_bytes
from onnx_workbench.exec.results.slot_map import ValueKey
from onnx_workbench.exec.results.values import MISSING, copy_value, same_value
from onnx_workbench.exec.values.arrays import RuntimeValue
from onnx_workbench.exec.values.limits import Limits, set_limits
from onnx_workbench.exec.values.malloc import keep_freed_memory, return_freed_memory
from onnx_workbench.exec.values.statistics import nbytes
from onnx_workbench.model.budget import process_budget, value_limit
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.garbage import no_collection
from onnx_workbench.model.progress import SILENT, Cancelled, Progress

#: Limit for the bytes of copies of weights in another layout, which kernels of matrix products keep.
_LAID_OUT = 1 << 30

#: Plans that are kept, for undo and for other seeds.
_PLANS = 4


class Engine:
    """Runs snapshots of one model, one run at a time. `budget` is the number of bytes of values to keep.

    Any thread, but one at a time.
    """

    def __init__(self, budget: int) -> None:
        keep_freed_memory()
        self.budget = budget
        self.library = Library()
        self.cache = ValueCache(budget)
        self._plans: dict[Any, Plan] = {}  # LRU cache, the newest last
        self._compiler: Compiler | None = None  # the last one, of which the next takes over parts
        self._feeds: dict[int, RuntimeValue] = {}  # the last value of each input
        self._last: Executor | None = None  # the last run, whose values are not in the cache yet

    def forget(self) -> None:
        """Release all values of earlier runs; constants are kept."""
        self.cache = ValueCache(self.budget, insides=self.cache.insides)
        self._last = None
        self._feeds.clear()
        return_freed_memory()

    def plan(self, snapshot: ModelSnapshot, seed: int = 0, fed: frozenset[int] = frozenset()) -> Plan:
        """Return the plan of a snapshot; cached by content."""
        if self.library.refused:  # try again: the limit may be higher now, or the file exists
            self.library.refused = False
            self._plans.clear()
            self._compiler = None  # the plans of bodies in its steps have read constants too
        key = (snapshot.uid, seed, fed)
        plan = self._plans.get(key)
        if plan is not None:
            self._plans[key] = self._plans.pop(key)
            return plan
        with no_collection():
            plan, self._compiler = compile_model(snapshot, self.library, seed=seed, fed=fed, before=self._compiler)
        self._plans[key] = plan
        while len(self._plans) > _PLANS:
            del self._plans[next(iter(self._plans))]
        if self.library.is_grown:
            self._evict()
        return plan

    def _evict(self) -> None:
        """Evict constants and weights that no plan reads, and tokens of steps that are not cached."""
        steps: list[PlanStep] = []
        tensors: set[int] = set()
        in_use = self.cache.tokens()
        pending = list(self._plans.values())
        while pending:
            plan = pending.pop()
            steps += plan.steps
            tensors.update(plan.constants.values())
            in_use.update(plan.tokens.values())
            pending += [body.plan for index in plan.bodied for body in plan.steps[index].bodies]
        in_use.update(step.token for step in steps)
        tokens = {s.constant for s in steps}
        self.cache.retain(tokens)
        self.library.retain(tokens, {s.operation.number for s in steps}, tensors, in_use)

    def start(self, request: Request, *, progress: Progress = SILENT, observer: Observer | None = None) -> Stepper:
        """Plan a run and compute its constants. With breakpoints everything is recomputed.

        ModelError if a required input is not given, or the inputs exceed the memory limit.

        Fetches or generates inputs whose handles this process holds. A run that is cancelled or times out during
        planning is returned as a stopped run without nodes.
        """
        snapshot, options = request.snapshot, request.options
        memory = min(process_budget(), options.memory_limit or process_budget())
        feeds, input_bytes = _made(request.feeds, memory)
        if feeds is not request.feeds:
            request = replace(request, feeds=feeds)
        begun = time.perf_counter()
        deadline = None if options.time_limit is None else time.monotonic() + options.time_limit
        limits = Limits(options.max_tensor or value_limit(), deadline, progress, memory)
        self.cache.run += 1
        fed = frozenset([value for value, _ in snapshot.graph.initializers if value in feeds])
        plan = self._plan_within(limits, snapshot, options.seed, fed)
        if isinstance(plan, str):
            return self._unplanned(request, plan, begun)
        is_whole = options.values is None and options.until is None
        targets = None if is_whole else _targets(plan, options)
        is_fresh = options.fresh or bool(request.breakpoints)  # a run cannot stop at cached values
        slots, kinds, changed, absent = self._assign_feeds(plan, feeds, fresh=is_fresh)
        program = plan.program if plan.program is not None and plan.program.targets == targets else None
        if self.cache.entries and (targets is not None or self.cache.has_summaries):
            program = None  # values that are not kept need not be computed for those that are
        run = Executor(plan, slots, limits=limits, ceiling=max(self.budget, 1), observer=observer)
        if program is None:
            needed, kept = self._needed(plan, targets, absent, slots)
        else:
            kept = self._reuse(program, run, changed | absent)
        if absent:
            needed = needed if program is None else [one.step for one in run.code]
            _refuse_missing(plan, needed, slots, snapshot)
        planned = Stepper(self, request, run, kept, kinds, begun, input_bytes)
        self._count_memory(run, input_bytes)
        if program is None:
            with no_collection():
                planned.prepare(needed, targets)
            self._count_memory(run, input_bytes)
        run.main.checks_types = kinds != plan.accepted
        if request.breakpoints:
            planned.reopen_constants()
        self._last = run
        return planned

    def _count_memory(self, run: Executor, input_bytes: int) -> None:
        """Count the memory in use before a run: inputs, weights, buffers, values of earlier runs; evict those if
        needed.
        """
        limits = run.limits
        limits.working = limits.most_working = working_bytes(limits.memory // 8)
        limits.fixed = limits.most_fixed = (
            input_bytes + self.library.weight_bytes + self.library.folded_bytes + laid_out_bytes()
        )
        old = self.cache.old_bytes if self.cache.entries else 0
        if old > limits.left // 2:
            self.cache.evict_old()
            old = 0
        run.main.ceiling = max(1, min(self.budget, limits.left - old))

    def _plan_within(self, limits: Limits, snapshot: ModelSnapshot, seed: int, fed: frozenset[int]) -> Plan | str:
        """Return the plan, or the reason why planning was stopped.

        Weights that would take more than three quarters of the memory stay in their file.
        """
        set_limits(limits)
        try:
            plan = self.plan(snapshot, seed, fed)
            on_demand = plan.weight_bytes + min(plan.weight_bytes, _LAID_OUT) > limits.memory // 4 * 3
            if on_demand == self.library.reads_on_demand:
                return plan
            self._plans.clear()
            self._compiler = None  # the plans of bodies in its steps have read constants too
            self._last = None
            self.library.release_weights()
            self.library.reads_on_demand = on_demand
            return self.plan(snapshot, seed, fed)
        except LimitError:
            return "time limit"
        except Cancelled:
            return "cancelled"
        finally:
            set_limits(None)

    def _unplanned(self, request: Request, stopped: str, begun: float) -> Stepper:
        """Return a stopped run without nodes, for a run that was stopped during planning."""
        snapshot = request.snapshot
        bare = replace(snapshot, graph=replace(snapshot.graph, initializers=(), nodes=()))
        plan, _ = compile_model(bare, self.library, seed=request.options.seed)
        run = Executor(plan, plan.template.copy(), limits=Limits(), ceiling=max(self.budget, 1))
        run.stopped = stopped
        return Stepper(self, request, run, {}, (), begun)

    def _assign_feeds(
        self, plan: Plan, feeds: Mapping[int, RuntimeValue], *, fresh: bool
    ) -> tuple[list[RuntimeValue], Kinds, int, int]:
        """Return the slots with feeds and constants, the kind of each feed, and the inputs that differ and are absent.

        Values that depend on inputs which differ from those of earlier runs (all, if `fresh`) are released.
        """
        slots, of_values, bits = plan.template.copy(), plan.slots, plan.input_bits
        kinds, changed, absent = [], AROUND, sum(bits.values())
        for value, feed in feeds.items():
            slot = of_values.get(((), value))
            if slot is None:
                continue
            last = self._feeds.get(value, MISSING)
            if not (last is feed or same_value(last, feed)):
                is_fixed = isinstance(feed, np.ndarray) and feed.flags.owndata and not feed.flags.writeable
                last = self._feeds[value] = feed if is_fixed else copy_value(feed)  # callers may change it
                changed |= bits[slot]
            absent &= ~bits[slot]
            slots[slot] = self._feeds[value]
            kinds.append((value, kind_of(feed)))
        if fresh:
            self.cache.clear()
            self._last = None
        else:
            self._store_last_run(changed)
        return slots, tuple(kinds), changed, absent

    def _store_last_run(self, changed: int) -> None:
        """Put the values of the last run into the cache, and release those that depend on changed inputs."""
        cache, run, self._last = self.cache, self._last, None
        if cache.entries:
            cache.drop(changed)
        if run is None:
            return
        if run.common & changed:
            return
        slots, folded = run.slots, run.plan.folded
        times = run.times(0, len(run.stamps)).tolist()
        for code, seconds, size in zip(run.code, times, run.sizes, strict=False):
            step = code.step
            token = step.token
            if step.inputs & changed or not token or folded[step.index]:
                continue
            if step.index in run.failures or step.index in run.skipped:
                continue
            outs = step.outs
            values = (slots[outs[0]],) if len(outs) == 1 else tuple([slots[s] for s in outs])
            if values[0] is not MISSING if len(values) == 1 else all(v is not MISSING for v in values):
                inside = run.inside([step]) if step.bodies else None
                cache.entries[token] = CacheEntry(values, seconds, size, cache.run, step.inputs, inside)
            elif run.summaries and all(s in run.summaries for s in filter(None, outs)):
                summaries = tuple(run.summaries.get(s) for s in outs)
                cache.entries[token] = CacheEntry(None, seconds, size, cache.run, step.inputs, summaries=summaries)
        if cache.entries:
            cache.trim()

    def _reuse(self, program: Program, run: Executor, stale: int) -> dict[int, CacheEntry | None]:
        """Let a run compute what is not cached of a program; return by index the cached results of the other steps.

        `stale` are the inputs that differ or are absent: what depends on them is not cached.
        """
        kept: dict[int, CacheEntry | None] = dict.fromkeys(program.folded)
        run.code, run.keep, run.common = program.code, program.keep, program.common
        entries, slots, number = self.cache.entries, run.slots, self.cache.run
        if not entries:
            return kept
        run.code, run.common = [], -1
        for one in program.code:
            step = one.step
            entry = None if step.inputs & stale else entries.get(step.token)
            if entry is None or entry.values is None:
                run.code.append(one)
                run.common &= step.inputs
            else:
                entry.run, kept[step.index] = number, entry
                fill(step, slots, entry.values)
        return kept

    def _needed(
        self, plan: Plan, targets: frozenset[int] | None, absent: int, slots: list[RuntimeValue]
    ) -> tuple[list[PlanStep], dict[int, CacheEntry | None]]:
        """Return the steps to run, and by index the cached results of the others (None: a folded constant)."""
        wanted = _needed_steps(plan, targets)
        needed: list[PlanStep] = []
        kept: dict[int, CacheEntry | None] = {}
        entries, folded = self.cache.entries, self.library.folded
        run, producers, constants = self.cache.run, plan.producers, plan.step_tokens
        for step in reversed(plan.steps):
            index, token = step.index, step.token
            if not wanted[index] and targets is not None:
                continue
            if token and not step.inputs & absent:
                entry = entries.get(token)
                if entry is not None and entry.values is not None:
                    entry.run, kept[index] = run, entry
                    fill(step, slots, entry.values)
                    continue
                if constants[index] and token in folded:
                    fill(step, slots, folded[token])
                    fill(step, plan.template, folded[token])
                    kept[index] = None
                    continue
                if entry is not None and not wanted[index]:
                    entry.run, kept[index] = run, entry
                    continue
            needed.append(step)
            for slot in step.reads:
                producer = producers.get(slot)
                if producer is not None:
                    wanted[producer] = 1
        return needed[::-1], kept


def _needed_steps(plan: Plan, targets: frozenset[int] | None) -> bytearray:
    """Return a flag for each step: whether its values themselves, not only summaries, are needed (outputs, targets)."""
    wanted = bytearray(len(plan.steps))
    for slot in plan.outputs if targets is None else ():
        if slot in plan.producers:
            wanted[plan.producers[slot]] = 1
    for index in targets or ():
        wanted[index] = 1
    return wanted


def _targets(plan: Plan, options: RunOptions) -> frozenset[int]:
    """Return the indices of the steps whose values are requested."""
    if options.until is not None:
        step = plan.step_of(options.until[1], options.until[0])
        if step is None:
            msg = "the node is not part of this graph"
            raise ModelError("No such node to run to", msg)
        return frozenset((step.index,))
    values = options.values or ()
    names = [v for v in values if isinstance(v, str)]
    keys = [v for v in values if not isinstance(v, str)]
    keys += keys_of(plan.slots, plan.names, names) if names else []
    slots = [plan.slots[key] for key in keys if key in plan.slots]
    if options.outputs:
        slots += plan.outputs
    return frozenset(plan.producers[s] for s in slots if s in plan.producers)


def _made(feeds: Feeds, memory: int) -> tuple[Feeds, int]:
    """Return the feeds with inputs fetched or generated whose handles this process holds, and the bytes of all feeds.

    ModelError if these are more than `memory`.
    """
    size = 0
    for value, feed in feeds.items():
        if isinstance(feed, HeldInput):
            from onnx_workbench.exec.inputs.recipe import value_of  # a circular import otherwise

            return _made({**feeds, value: value_of(feed)}, memory)
        size += nbytes(feed)
    if size > memory:
        detail = f"They have {size:,} bytes, over the memory limit of {memory:,} bytes."
        raise ModelError("The inputs do not fit into the memory limit", detail)
    return feeds, size


def _refuse_missing(plan: Plan, needed: Sequence[PlanStep], slots: list[RuntimeValue], snapshot: ModelSnapshot) -> None:
    missing = {s for s in plan.inputs if slots[s] is MISSING and s not in plan.constants}
    used = {s for step in needed for s in step.reads if s in missing} | (missing & set(plan.outputs))
    if used:
        values = dict(zip(plan.inputs, snapshot.graph.inputs, strict=True))
        texts = [f"{plan.name(values[s])}: {snapshot.input_types.get(values[s]) or 'any type'}" for s in sorted(used)]
        raise ModelError("An input is missing", f"no value was given for {', '.join(texts)}")


def keys_of(snapshot_slots: Mapping[ValueKey, int], names: Mapping[int, str], wanted: Iterable[str]) -> list[ValueKey]:
    """Return the keys of values of the main graph by name; ModelError names those that do not exist."""
    by_name = {names[k[1]]: k for k in snapshot_slots if not k[0] and k[1] in names}
    missing = [name for name in wanted if name not in by_name]
    if missing:
        raise ModelError("No such value", f"the graph has no value named {', '.join(map(repr, missing))}")
    return [by_name[name] for name in wanted]
