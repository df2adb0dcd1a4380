"""Runs snapshots: plans them, reuses what earlier runs computed, keeps values within a budget.

Every value has a token that says what it is: of which operation, attributes and inputs. What has a token in the
store is not computed again, so an edit costs the nodes downstream of it and an undo costs nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

from exec.compiler import compile_model
from exec.context import Limits, RuntimeValue, set_limits
from exec.errors import LimitError
from exec.expectations import kind_of
from exec.frames import Inside
from exec.inspection.statistics import nbytes
from exec.memory import keep_freed_memory, return_freed_memory
from exec.operations import Library
from exec.patching import patched
from exec.plan import MISSING, Code, Kinds, Path, Plan, Step, ValueKey
from exec.results import Failure, NodeResult, RunResult, State
from exec.runner import FOLD_LIMIT, Observer, Run, bind, prepare
from exec.snapshot import ABSENT, ModelSnapshot
from exec.store import Entry, Outline, Store
from exec.values import copy_value, same_value
from model.errors import ModelError
from model.progress import SILENT, Cancelled, Progress


@dataclass(frozen=True, slots=True)
class Options:
    """What is asked of a run. `values` None: every value; else keys, beside the outputs unless `until` is given."""

    values: tuple[ValueKey | str, ...] | None = None
    outputs: bool = True
    until: tuple[Path, int] | None = None
    seed: int = 0
    memory_limit: int | None = None  # bytes of a single value
    time_limit: float | None = None  # seconds
    fresh: bool = False
    watched: bool = False  # somebody looks at every step: those that are constant are gone through too


@dataclass(slots=True)
class _Numbering:
    """Tokens of slots and steps for certain feeds."""

    feeds: tuple[tuple[int, int], ...]
    slots: list[int]
    steps: list[int]


class Engine:
    """Runs snapshots of one model, one run at a time. `budget` is how many bytes of values are kept.

    Any thread, but one at a time.
    """

    def __init__(self, budget: int) -> None:
        keep_freed_memory()
        self.budget = budget
        self.library = Library()
        self._store = Store(budget)
        self._plans: dict[Any, Plan] = {}
        self._newest: tuple[int, frozenset[int], ModelSnapshot, Plan] | None = None
        self._feeds: dict[int, tuple[int, RuntimeValue]] = {}
        self._tokens: dict[int, _Numbering] = {}  # by id of a plan in _plans
        self._last: Execution | None = None  # whose values are not yet in the store

    def forget(self) -> None:
        """Let go of all values of earlier runs; constants stay."""
        self._store = Store(self.budget, insides=self._store.insides)
        self._last = None
        self._feeds.clear()
        return_freed_memory()

    def plan(self, snapshot: ModelSnapshot, seed: int = 0, fed: frozenset[int] = frozenset()) -> Plan:
        """The plan of a snapshot; that of the same content is found again."""
        key = (snapshot.uid, seed, fed)
        plan = self._plans.pop(key, None)
        if plan is None and self._newest is not None and self._newest[:2] == (seed, fed):
            plan = patched(self._newest[3], self._newest[2], snapshot, self.library, seed)
        if plan is None:
            plan = compile_model(snapshot, self.library, seed=seed, fed=fed)
        self._plans[key] = plan  # the newest last
        self._newest = seed, fed, snapshot, plan
        plan.names = snapshot.names
        while len(self._plans) > 4:
            dropped = self._plans.pop(next(iter(self._plans)))
            self._tokens.pop(id(dropped), None)
        if self.library.is_grown:
            self._let_go()
        return plan

    def _let_go(self) -> None:
        """Let go of constants and prepared weights that no plan has any more, and of tokens of what is not kept."""
        steps: list[Step] = []
        tensors: set[int] = set()
        pending = list(self._plans.values())
        known = self._store.tokens() | {token for token, _ in self._feeds.values()}
        for numbering in self._tokens.values():
            known.update(numbering.slots, numbering.steps)
        while pending:
            plan = pending.pop()
            steps += plan.steps
            tensors.update(plan.constants.values())
            known.update(plan.tokens.values())
            pending += [body.plan for step in plan.bodied for body in step.bodies]
        known.update(s.key for s in steps)
        tokens = {s.token for s in steps}
        self._store.retain(tokens)
        self.library.retain(tokens, {s.operation.number for s in steps}, tensors, known)

    def start(
        self,
        snapshot: ModelSnapshot,
        feeds: Mapping[int, RuntimeValue],
        options: Options,
        *,
        progress: Progress = SILENT,
        observer: Observer | None = None,
    ) -> Execution:
        """Plan a run; constants are computed here, nothing else yet. ModelError when an input it needs is not given.

        A run that is cancelled, or reaches its time limit, while it is planned is one of no nodes that has stopped.
        """
        begun = time.perf_counter()
        deadline = None if options.time_limit is None else time.monotonic() + options.time_limit
        limits = Limits(options.memory_limit, deadline, progress)
        self._store.run += 1
        if options.fresh:
            self._store.clear()
            self._last = None
        fed = frozenset(value for value, _ in snapshot.graph.initializers if value in feeds)
        set_limits(limits)
        try:
            plan = self.plan(snapshot, options.seed, fed)
        except (Cancelled, LimitError) as stop:
            return self._unplanned(
                snapshot, options, "time limit" if isinstance(stop, LimitError) else "cancelled", begun
            )
        finally:
            set_limits(None)
        slots = plan.template.copy()
        given = {value: feed for value, feed in feeds.items() if ((), value) in plan.slots}
        of_steps = self._number(plan, given)
        for value in given:
            slots[plan.slots[(), value]] = self._feeds[value][1]
        targets = _targets(plan, options)
        if targets is None and options.fresh and plan.everything is not None:
            needed, kept = plan.everything, dict.fromkeys(plan.folded)
        else:
            self._settle()
            needed, kept = self._needed(plan, of_steps, targets, slots)
        _refuse_missing(plan, needed, slots, snapshot)
        run = Run(plan, self.library, slots, limits=limits, ceiling=max(self.budget, 1), observer=observer)
        kinds = tuple([(value, kind_of(feed)) for value, feed in given.items()])
        execution = Execution(self.library, self._store, plan, run, of_steps, kept, options, begun, kinds)
        if needed is plan.everything:
            run.code = plan.code_for(kinds)
        else:
            execution.prepare(needed, targets)
        if options.watched:
            execution.reopen_constants()
        self._last = execution
        return execution

    def _unplanned(self, snapshot: ModelSnapshot, options: Options, stopped: str, begun: float) -> Execution:
        """A run that was stopped before it was known what there is to do."""
        bare = replace(snapshot, graph=replace(snapshot.graph, initializers=(), nodes=()))
        plan = compile_model(bare, self.library, seed=options.seed)
        run = Run(plan, self.library, plan.template.copy(), limits=Limits(), ceiling=max(self.budget, 1))
        run.stopped = stopped
        return Execution(self.library, self._store, plan, run, [], {}, options, begun, ())

    def _settle(self) -> None:
        """Take over what the last run computed; left until somebody wants it."""
        if self._last is not None:
            self._last.keep_values()
            self._last = None

    def _number(self, plan: Plan, given: Mapping[int, RuntimeValue]) -> list[int]:
        """A token per step; 0 where something is missing."""
        feeds = tuple((value, self._feed(value, feed)) for value, feed in given.items())
        volatile = bool(self.library.volatile)
        known = self._tokens.get(id(plan))
        if known is not None and known.feeds == feeds and not volatile:
            return known.steps
        base = self._tokens.get(id(plan.base)) if plan.base is not None else None
        if base is not None and base.feeds == feeds and not volatile:
            found = _Numbering(feeds, base.slots.copy(), base.steps.copy())
            self._renumber(plan, found)
        else:
            found = _Numbering(feeds, [0] * plan.size, [])
            for slot, token in plan.tokens.items():
                found.slots[slot] = token if slot else -1
            for value, token in feeds:
                found.slots[plan.slots[(), value]] = token
            for step in plan.steps:
                found.steps.append(self._token(step, found.slots))
        plan.base = None
        self._tokens[id(plan)] = found
        return found.steps

    def _renumber(self, plan: Plan, found: _Numbering) -> None:
        """Number what is downstream of the steps that an edit changed."""
        changed, dirty = plan.changed, set[int]()
        for step in plan.steps[min(changed) :]:
            if step.index in changed or not dirty.isdisjoint(step.ins) or not dirty.isdisjoint(step.captured):
                token = self._token(step, found.slots)
                if token != found.steps[step.index]:
                    found.steps[step.index] = token
                    dirty.update(step.outs)
                    dirty.discard(0)

    def _token(self, step: Step, slots: list[int]) -> int:
        """The token of a step whose inputs have theirs; its outputs get one too."""
        if step.token:
            return step.token
        read = [slots[s] for s in step.reads]
        if step.operation.problem or 0 in read:
            for slot in step.outs:
                slots[slot] = 0 if slot else -1
            return 0
        intern, key = self.library.token, step.key
        content = (key, *read)
        token = intern(("volatile", self._store.run, *content) if key in self.library.volatile else content)
        for index, slot in enumerate(step.outs):
            if slot:
                slots[slot] = token if not index else intern((token, "output", index))
        return token

    def _feed(self, number: int, value: RuntimeValue) -> int:
        """The token of a feed; a copy is kept to see later whether it changed, and so that nobody can change it."""
        known = self._feeds.get(number)
        if known is not None and same_value(known[1], value):
            return known[0]
        token = self.library.token(("feed", number, self._store.run))
        self._feeds[number] = token, copy_value(value)
        return token

    def _needed(
        self, plan: Plan, tokens: list[int], targets: set[int] | None, slots: list[RuntimeValue]
    ) -> tuple[list[Step], dict[int, Entry | Outline | None]]:
        """Steps to run, and by index what is kept of those that need not (None: a folded constant)."""
        wanted = _wanted(plan, targets)
        needed: list[Step] = []
        kept: dict[int, Entry | Outline | None] = {}
        entries, outlines, folded = self._store.entries, self._store.outlines, self.library.folded
        run, producers = self._store.run, plan.producers
        for step in reversed(plan.steps):
            index = step.index
            if not wanted[index] and targets is not None:
                continue
            token = tokens[index]
            if token:
                entry = entries.get(token)
                if entry is not None:
                    entry.run = run
                    _put(step, entry.values, slots)
                    kept[index] = entry
                    continue
                if step.token and token in folded:
                    _put(step, folded[token], slots)
                    _put(step, folded[token], plan.template)
                    plan.given.update(filter(None, step.outs))
                    kept[index] = None
                    continue
                if not wanted[index] and token in outlines:
                    outlines[token].run = run
                    kept[index] = outlines[token]
                    continue
            needed.append(step)
            for slot in step.reads:
                producer = producers.get(slot)
                if producer is not None:
                    wanted[producer.index] = 1
        needed.reverse()
        return needed, kept


class Execution:
    """A run that has been planned: `advance` computes, `result` says what there is so far."""

    def __init__(
        self,
        library: Library,
        store: Store,
        plan: Plan,
        run: Run,
        tokens: list[int],
        kept: dict[int, Entry | Outline | None],
        options: Options,
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
        run.rewind(self._code(sorted([*folded, *(code.step for code in run.code)], key=lambda step: step.index)))

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
            _put(step, values, plan.template)
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
            if isinstance(kept, Outline):
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

    def _inside(self) -> Inside:
        """What is in bodies, those of nodes that were not computed again too."""
        found = Inside()
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
                entries[token] = Entry(values, seconds, run.sizes[position], number, inside)
            elif run.summaries:
                found = tuple(run.summaries.get(s) for s in outs)
                if all(f is not None or not s for f, s in zip(found, outs, strict=True)):
                    store.outlines[token] = Outline(found, seconds, run.sizes[position], number)
        self._stored = len(run.stamps)
        store.trim()

    def nodes(self) -> list[NodeResult]:
        """What became of each node."""
        run, plan = self.run, self.plan
        positions = {run.code[i].step.index: i for i in range(len(run.stamps))}
        pending = {code.step.index for code in run.code[len(run.stamps) :]}
        results = []
        for step in plan.steps:
            index, node = step.index, step.node
            result = NodeResult(node.node, step.path, node.operator, node.title, State.UNNEEDED)
            position = positions.get(index)
            if position is not None:
                result.seconds, result.nbytes = run.seconds(position), run.sizes[position]
                result.failure, result.because = run.failures.get(index), run.skipped.get(index)
                result.state = _state(step, result)
            elif index in pending:
                result.state = State.WAITING
            elif index in self._kept:
                entry = self._kept[index]
                result.state = State.CONSTANT if entry is None else State.KEPT
                if entry is not None:
                    result.seconds, result.nbytes = entry.seconds, entry.nbytes
                else:
                    result.nbytes = sum(nbytes(run.slots[s]) for s in step.outs if s)
            results.append(result)
        return results


def _state(step: Step, result: NodeResult) -> State:
    if result.failure is not None:
        return State.FAILED
    if result.because is not None:
        return State.SKIPPED
    return State.CONSTANT if step.folded else State.DONE


def _put(step: Step, values: Sequence[RuntimeValue], slots: list[RuntimeValue]) -> None:
    """Put the values of a step's outputs where they are read."""
    for slot, value in zip(step.outs, values, strict=True):
        if slot:
            slots[slot] = value


def _wanted(plan: Plan, targets: set[int] | None) -> bytearray:
    """By step, whether its values are needed: those of outputs and targets, where a summary is not enough."""
    wanted = bytearray(len(plan.steps))
    for slot in plan.outputs if targets is None else ():
        if slot in plan.producers:
            wanted[plan.producers[slot].index] = 1
    for index in targets or ():
        wanted[index] = 1
    return wanted


def _targets(plan: Plan, options: Options) -> set[int] | None:
    """Indices of the steps whose values are asked for; None: all."""
    if options.until is not None:
        step = plan.step_of(options.until[1], options.until[0])
        if step is None:
            msg = "the node is not part of this graph"
            raise ModelError("No such node to run to", msg)
        return {step.index}
    if options.values is None:
        return None
    names = [v for v in options.values if isinstance(v, str)]
    keys = [v for v in options.values if not isinstance(v, str)]
    keys += keys_of(plan.slots, plan.names, names) if names else []
    slots = [plan.slots[key] for key in keys if key in plan.slots]
    if options.outputs:
        slots += plan.outputs
    return {plan.producers[s].index for s in slots if s in plan.producers}


def _refuse_missing(plan: Plan, needed: Sequence[Step], slots: list[RuntimeValue], snapshot: ModelSnapshot) -> None:
    missing = {s for s in plan.inputs if slots[s] is MISSING and s not in plan.constants}
    if not missing:
        return
    used = {s for step in needed for s in step.reads if s in missing} | (missing & set(plan.outputs))
    if used:
        values = dict(zip(plan.inputs, snapshot.graph.inputs, strict=True))
        texts = [f"{plan.name(values[s])}: {snapshot.input_types.get(values[s]) or 'any type'}" for s in sorted(used)]
        raise ModelError("An input is missing", f"no value was given for {', '.join(texts)}")


def keys_of(snapshot_slots: Mapping[ValueKey, int], names: Mapping[int, str], wanted: Iterable[str]) -> list[ValueKey]:
    """Keys of values of the main graph by name; ModelError names those there are not."""
    by_name = {names[k[1]]: k for k in snapshot_slots if not k[0] and k[1] in names}
    missing = [name for name in wanted if name not in by_name]
    if missing:
        raise ModelError("No such value", f"the graph has no value named {', '.join(map(repr, missing))}")
    return [by_name[name] for name in wanted]
