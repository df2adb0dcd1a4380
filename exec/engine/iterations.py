"""Values in bodies from other iterations than the last: their node is run again up to those iterations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from onnx_workbench.exec.engine.plan import Plan, PlanStep
from onnx_workbench.exec.engine.subgraph_breakpoints import SubgraphPosition
from onnx_workbench.exec.engine.subgraph_frames import SubgraphRecord
from onnx_workbench.exec.results.slot_map import LoopKey, Path
from onnx_workbench.exec.values.arrays import RuntimeValue
from onnx_workbench.model.errors import errors_to
from onnx_workbench.model.progress import Cancelled

if TYPE_CHECKING:
    from onnx_workbench.exec.engine.engine import Engine
    from onnx_workbench.exec.engine.stepper import Request
    from onnx_workbench.exec.results.run_result import RunResult
    from onnx_workbench.model.progress import Progress


def in_iterations(
    engine: Engine, request: Request, plan: Plan, result: RunResult, chosen: Mapping[LoopKey, int], progress: Progress
) -> RunResult:
    """See RunResult.in_iterations. `request` and `plan` are those of the run with this result."""
    bodies: dict[Path, dict[int, RuntimeValue]] = {path: dict(values) for path, values in result.bodies.items()}
    iterations = dict(result.iterations)
    for step in map(plan.steps.__getitem__, plan.bodied):
        if not any(key in chosen for key, _ in _plans(step)):
            continue
        recorder = _recorded(engine, request, plan, result, step, chosen, progress)
        for key, inner in _plans(step):
            iterations.pop(key, None)
            for path, value in inner.slots:
                bodies.get(path, {}).pop(value, None)
        for path, values in recorder.record.values.items():
            bodies.setdefault(path, {}).update(values)
        iterations.update(recorder.record.iterations)
        whole = step.path, step.node.node
        if whole in result.iterations:  # this run stopped early, the original did not
            iterations[whole] = result.iterations[whole]
    return result.with_bodies(bodies, {}, iterations)


def _recorded(
    engine: Engine,
    request: Request,
    plan: Plan,
    result: RunResult,
    step: PlanStep,
    chosen: Mapping[LoopKey, int],
    progress: Progress,
) -> _Recorder:
    """Run a step again on the same inputs; return the recorded values."""
    reads = set(step.reads)
    known = {key: result.value(key, progress=progress) for key, slot in plan.slots.items() if slot in reads}
    options = replace(request.options, values=(), outputs=False, until=None, fresh=False, watched=False)
    run = engine.start(replace(request, options=options, breakpoints=()), progress=progress).run
    again = run.plan.step_of(step.node.node, step.path)
    if again is None:
        msg = f"{step.node.title!r} was not planned: {run.stopped or 'it is no longer in the graph'}"
        raise LookupError(msg)
    slots = run.slots.copy()
    for key, value in known.items():
        slots[run.plan.slots[key]] = value
    recorder = _Recorder(again, chosen)
    with errors_to(recorder.fail):
        run.run_watched(again, slots, recorder)
    return recorder


class _Recorder:
    """Observer that records the values in the bodies of a step in the chosen iterations, else in the last ones."""

    def __init__(self, step: PlanStep, chosen: Mapping[LoopKey, int]) -> None:
        self._plans = {id(plan): (key, plan) for key, plan in _plans(step)}
        self._chosen = {number: chosen[key] for number, (key, _) in self._plans.items() if key in chosen}
        self._awaited = set(self._chosen)
        self._slots: dict[int, list[RuntimeValue]] = {}
        self._counts: dict[int, int] = {}

    def between(self, plan: Plan, place: SubgraphPosition, slots: list[RuntimeValue]) -> str:
        """Record the values at the end of an iteration; return a reason to stop once all requested are recorded."""
        previous, following, _, iterations, loops = place
        if previous is not None and following is not None:
            return ""
        around = zip(map(id, loops), iterations, strict=True)
        past = [number for number, iteration in around if iteration > self._chosen.get(number, iteration)]
        if not past and previous is None:
            self._forget_inside(plan)
        if following is not None or past[1:] or (past and past != [id(plan)]):
            return ""
        if loops and loops[-1] is plan:
            self._counts[id(plan)] = iterations[-1] + 1
        if past:
            return ""
        self._slots[id(plan)] = slots
        if len(loops) == 1 and loops[0] is plan and self._chosen.get(id(plan)) == iterations[0]:
            self._awaited.difference_update(number for number in (id(plan), *self._inside(plan)))
        return "" if self._awaited else "the requested iterations are computed"

    def _inside(self, plan: Plan) -> Iterator[int]:
        return (id(inner) for index in plan.bodied for _, inner in _plans(plan.steps[index]))

    def _forget_inside(self, plan: Plan) -> None:
        """Drop the values of inner bodies when another iteration begins: they belong to the previous one."""
        for number in self._inside(plan):
            self._slots.pop(number, None)
            self._counts.pop(number, None)

    def fail(self, error: Exception) -> None:
        """Ignore the failure of a step, as in the run, if all requested values were recorded; else LookupError."""
        if isinstance(error, Cancelled):
            raise error
        if self._awaited:
            msg = f"the iteration was not finished: {error}"
            raise LookupError(msg) from error

    @property
    def record(self) -> SubgraphRecord:
        """The recorded values and the number of iterations of each loop."""
        found = SubgraphRecord()
        for number, slots in self._slots.items():
            found.record(self._plans[number][1], slots)
        found.iterations.update({self._plans[number][0]: count for number, count in self._counts.items()})
        return found


def _plans(step: PlanStep) -> Iterator[tuple[LoopKey, Plan]]:
    """Yield the plans of the bodies of a step at any depth, each with the key of its node."""
    for body in step.bodies:
        yield (step.path, step.node.node), body.plan
        for index in body.plan.bodied:
            yield from _plans(body.plan.steps[index])
