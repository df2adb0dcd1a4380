"""Results of runs by value and node of the model, for all views.

results.value_of(value)     an array, or a Summary while the array is elsewhere (see `fetch`)
results.changed             the values to read again

A result belongs to a state of the document. An edit makes dependent values stale; returning to a state that was run
(undo) shows its values again without a run, even if they are incomplete. Values of a running run are shown too, until
its end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, Signal

from onnx_workbench.exec.results.node_table import Failure, NodeResult
from onnx_workbench.exec.results.run_result import RunResult
from onnx_workbench.exec.results.slot_map import LoopKey
from onnx_workbench.exec.results.slot_map import Path as CallPath
from onnx_workbench.exec.results.values import MISSING
from onnx_workbench.exec.values.statistics import Summary, ValueInfo
from onnx_workbench.model.analysis.topology import Thing
from onnx_workbench.model.ir.graph import Graph, Node, Value
from onnx_workbench.model.progress import SILENT, Progress
from onnx_workbench.viewer.run.results.fetcher import ValueFetcher, allow_refetch, reason_of
from onnx_workbench.viewer.run.results.run_record import ReferenceRun, RunRecord, ValueSource
from onnx_workbench.viewer.run.results.staleness import StaleValues, concerns_inputs, rewires, sources, stale_after
from onnx_workbench.viewer.run.results.summaries import ValueSummaries
from onnx_workbench.viewer.tasks.readers import ModelReader

if TYPE_CHECKING:
    from onnx_workbench.model.history.document import Change
    from onnx_workbench.viewer.run.results.other_values import OtherValues
    from onnx_workbench.viewer.run.workspace import Workspace
    from onnx_workbench.viewer.tasks.tasks import Task

#: Limits for stored results: number of complete ones and of partial ones, and bytes that all have computed.
_MOST_RECORDS = 16
_MOST_BYTES = 2 << 30


class Results(QObject):
    """The results of one document. GUI thread only; nothing here waits.

    `current` is the shown record, `previous` the one before it, for differences; `is_running`: more values will follow.
    """

    changed = Signal(object)  # set[Value] to read again, empty if pins or the reference changed; None: all of them
    run_finished = Signal()  # after `changed`; `current` is that run's record, unless it gave none
    element_chosen = Signal(object, tuple)  # Value and index: show where this element comes from

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        self._workspace = workspace
        self._document = workspace.document
        self.current: RunRecord | None = None
        self.previous: RunRecord | None = None
        self._reference: ReferenceRun | None = None
        self._skipped_branches: tuple[RunRecord | None, frozenset[Graph]] = None, frozenset()
        self.pinned: tuple[Value, ...] = ()
        self.element: tuple[Value, tuple[int, ...]] | None = None  # see choose_element
        self._records: list[RunRecord] = []  # the newest last
        self._log: list[tuple[int, set[Thing]]] = []  # revision, and changed objects
        self._stale = StaleValues()  # replaced, never changed
        self._search = ModelReader(self)  # search for stale values: 260 ms at 100,000 nodes
        self._inputs: object = None
        self._iterating: tuple[Mapping[LoopKey, int], Task[RunResult]] | None = None
        self._fetcher = ValueFetcher(workspace.tasks, self._on_fetched)
        self.summaries = ValueSummaries(self, workspace.tasks)
        self._before_run: tuple[RunRecord | None, RunRecord | None] = (None, None)  # previous, current
        self.is_running = False
        self._nodes: dict[Node, NodeResult] | None = None
        #: Return the object with a number in results; set by the controller.
        self.node_by_number: Callable[[int], Node | None] = lambda _number: None
        self.value_by_number: Callable[[int], Value | None] = lambda _number: None
        #: Return a key that is equal for equal inputs, for the current ones; set by the controller.
        self.inputs_now: Callable[[], object] = lambda: None
        workspace.changes.changed.connect(self._on_change)
        workspace.closed.connect(self._search.stop)

    @property
    def records(self) -> tuple[RunRecord, ...]:
        """The stored runs, the newest last."""
        return tuple(self._records)

    # -- values ----------------------------------------------------------------------------------------------

    def value_of(self, value: Value) -> Any:
        """Return the value of the last run: an array, list or dict; a Summary if it must be fetched; None if missing.

        None is also the value of an empty optional. Never computes or waits.
        """
        return self._find(self.current, value)

    def before(self, value: Value) -> Any:
        """Return the value of the previous run, to show differences."""
        return None if self._is_of_iteration(value) else self._find(self.previous, value)

    def _is_of_iteration(self, value: Value) -> bool:
        """Return whether a value is shown for a chosen iteration, for which other runs have no value to compare."""
        shown = self.current, self.previous
        return any(record.is_of_iteration(value) for record in shown if record is not None)

    @property
    def reference(self) -> ReferenceRun | None:
        """The reference of the shown run; None if it was not compared."""
        found = self._reference
        return found if found is not None and found.record is self.current else None

    def set_reference(self, record: RunRecord | None, title: str = "", values: OtherValues | None = None) -> None:
        """Set the reference values to show beside those of a run; None: the comparison was closed."""
        self._reference = None if record is None or values is None else ReferenceRun(record, title, values)
        self.changed.emit(set())

    def other(self, value: Value) -> Any:
        """Return the reference of a value; MISSING if it is not in memory; None: there is none."""
        reference = self.reference
        key = None if reference is None else reference.key(value)
        if reference is None or key is None or not reference.has(key) or self._is_of_iteration(value):
            return None
        return reference.find(key)

    def _find(self, record: RunRecord | None, value: Value) -> Any:
        key = None if record is None else record.key(value)
        if record is None or key is None:
            return None
        held = record.result.find(key)
        if held is not MISSING:
            return held
        info = record.result.info(key)
        return None if info is None else Summary(info, None)

    def has(self, value: Value) -> bool:
        """Return whether the last run computed a value, in any process."""
        return self.info_of(value) is not None

    def info_of(self, value: Value) -> ValueInfo | None:
        """Return type, shape and bytes of a value in the last run; None if it has none."""
        record = self.current
        key = None if record is None else record.key(value)
        return None if record is None or key is None else record.result.info(key)

    def fetch(self, value: Value, source: ValueSource | None = None) -> bool:
        """Fetch a value of a run or reference, by default the shown run, in the background; `changed` follows.

        Return False if nothing follows: it is in memory, was not computed, or is unavailable (`problem_of`).
        """
        source = source or self.current
        return source is not None and self._fetcher.fetch(source, value)

    def _on_fetched(self, source: ValueSource, value: Value) -> None:
        if source in (self.current, self.previous, self.reference):
            self.changed.emit({value})

    def cancel_fetch(self, values: AbstractSet[Value]) -> None:
        """Stop fetching values that are no longer shown."""
        self._fetcher.cancel(lambda _source, value: value in values)

    def _cancel_old(self) -> None:
        """Cancel fetching values of runs that are no longer shown.

        Not values of a running run: they arrive soon, and the next partial result contains them.
        """
        shown = self.current, self.previous
        self._fetcher.cancel(lambda a, _value: isinstance(a, RunRecord) and a not in shown and not a.unfinished)

    def allow_refetch(self) -> None:
        """Allow values whose fetch was stopped to be fetched again."""
        for source in (self.current, self.previous, self._reference):
            if source is not None:
                allow_refetch(source)

    def problem_of(self, value: Value) -> str:
        """Return why a value cannot be shown although it was computed; empty if it can."""
        record = self.current
        key = None if record is None else record.key(value)
        return "" if record is None or key is None else record.problems.get(key, "")

    def is_awaited(self, value: Value) -> bool:
        """Return whether the run in progress has not computed a value yet."""
        return self.is_running and not self.has(value)

    # -- nodes -----------------------------------------------------------------------------------------------

    def node_of(self, node: Node) -> NodeResult | None:
        """Return the outcome of a node in the last run: time, memory, state, failure."""
        record = self.current
        return None if record is None else self._named(node, record.result.by_node.find(node.id))

    def nodes(self, progress: Progress = SILENT) -> dict[Node, NodeResult]:
        """Return the outcomes of all nodes in the last run; a call of a function has the sums of its nodes."""
        record = self.current
        if record is None:
            return {}
        if self._nodes is not None:
            return self._nodes
        outcomes = ((self.node_by_number(one.node), one) for one in progress.paced(record.result.by_node))
        outcome_by_node = {node: named for node, one in outcomes if node and (named := self._named(node, one))}
        if self.current is record:  # events may be processed between two checks
            self._nodes = outcome_by_node
        return outcome_by_node

    def failed(self) -> list[Node]:
        """Return the nodes that failed in the last run."""
        failed = [] if self.current is None else self.current.result.failed
        nodes = map(self.node_by_number, failed)
        return [node for node in nodes if node is not None]

    def failure_of(self, node: Node) -> Failure | None:
        """Return why a node failed in the last run; one of a body made the node around it fail, too."""
        pending = [] if self.current is None else list(self.current.result.failures)
        while pending:
            failure = pending.pop()
            if failure.node == node.id:
                return failure
            pending += [] if failure.inner is None else [failure.inner]
        return None

    def _named(self, node: Node, one: NodeResult | None) -> NodeResult | None:
        """Add operator and title to the outcome of a call of a function, which lacks them in a result."""
        if one is None or one.operator:
            return one
        name = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
        return replace(one, operator=name, title=node.title)

    @property
    def skipped_branches(self) -> frozenset[Graph]:
        """Return the branches of If nodes that the shown run took in no call or iteration, and bodies in them."""
        record = self.current
        if record is None or record.unfinished:
            return frozenset()
        if record is not self._skipped_branches[0]:
            nodes = map(self.node_by_number, set(record.result.inner.keys.numbers.tolist()))
            ran = {node.graph for node in nodes if node is not None and node.graph is not None}
            owners = {graph.owner for graph in ran if isinstance(graph.owner, Node) and graph.owner.op_type == "If"}
            others = (body for owner in owners for body in owner.bodies if body not in ran)
            self._skipped_branches = record, frozenset(graph for body in others for graph in body.walk())
        return self._skipped_branches[1]

    # -- stale values ----------------------------------------------------------------------------------------

    def is_stale(self, value: Value) -> bool:
        """Return whether an edit since the last run may have changed a value."""
        return value in self._stale.things

    def was_edited(self, node: Node) -> bool:
        """Return whether a node itself was edited since the last run, not only its ancestors."""
        record = self.current
        if record is None or self._shows_document:
            return False
        return any(node in found for revision, found in self._log if revision > record.revision)

    @property
    def stale(self) -> AbstractSet[Thing]:
        """Nodes and values that edits since the last run may have changed; only the edited ones if `is_searching`."""
        return self._stale.things

    @property
    def stale_nodes(self) -> Sequence[Node]:
        """The nodes of `stale`."""
        return self._stale.nodes

    @property
    def is_searching(self) -> bool:
        """Whether the model is being searched for more stale values. `changed` follows."""
        return self._search.running

    @property
    def is_current(self) -> bool:
        """Whether the shown results belong to the current state of the document."""
        return self.current is not None and not self._stale.things

    @property
    def is_up_to_date(self) -> bool:
        """Whether they also belong to the current inputs, so that a run would show the same."""
        return self.current is not None and self.is_current and self.current.inputs == self._inputs

    def _on_change(self, change: Change) -> None:
        if not self.is_running and not self._records:
            return
        things = sources(change)
        if concerns_inputs(change):
            self._inputs = self.inputs_now()
        self._log.append((change.revision, things))
        record = self._recall(change.state)
        if record is not None:
            self._show(record)
        elif not things <= self.stale or rewires(change):
            # While typing in one field, this runs once, not with every key.
            self._search_from(self.stale | things)

    def _search_from(self, changed: AbstractSet[Thing]) -> None:
        """Find the values that become stale by changes of some things, a few milliseconds later in a small model."""

        def show(stale: StaleValues) -> None:
            self._stale = stale
            self.changed.emit(None)

        self._stale = StaleValues(changed, [thing for thing in changed if isinstance(thing, Node)])
        self._search.start(partial(stale_after, changed), show)

    def _recall(self, state: int) -> RunRecord | None:
        records = [r for r in reversed(self._records) if r.state == state and r.inputs == self._inputs]
        return next((r for r in records if not r.is_part), records[0] if records else None)

    # -- runs ------------------------------------------------------------------------------------------------

    def mark_started(self) -> None:
        """Record that a run starts; called by the controller."""
        self.is_running = True
        if self.current is None:  # the prompts for values that are missing depend on whether a run is in progress
            self.changed.emit(None)

    def show_partial(self, record: RunRecord, fresh: set[Value]) -> None:
        """Show the values computed by a running run; `fresh`: the new ones. Called by the controller."""
        if self._may_show(record):
            self._set_current(record)
            self.changed.emit(fresh)

    def set_result(self, record: RunRecord | None) -> None:
        """Store the results of a run that has ended; None if it has none. Called by the controller."""
        self.is_running = False
        chosen: Mapping[LoopKey, int] = {}
        if record is not None:
            self._inputs = self.inputs_now()  # they may have been changed during the run
            self.keep(record)
            if self._may_show(record):
                chosen = self.iterations
                self._set_current(record)
        elif self.current is not None and self.current.unfinished:
            before = self._before_run[1]
            if before is None:
                self.current = self._nodes = None
                self._search.stop()
                self._stale = StaleValues()
            else:
                self._set_current(before)
        self.changed.emit(None)
        if chosen and record is not None and record.result.iterate is not None:  # keep showing the chosen iterations
            self.show_iterations(chosen)
        self.run_finished.emit()

    def keep(self, record: RunRecord) -> None:
        """Store the results of a run without showing them, as the model has changed. Called by the controller."""
        self._records = [r for r in self._records if not r.is_part_of(record)]
        self._records.append(record)
        self._forget_old()

    @property
    def _shows_document(self) -> bool:
        """Whether the shown results were computed for the current state of the document."""
        return self.current is not None and self.current.state == self._document.current.id

    @property
    def shows_part(self) -> bool:
        """Whether the results are for the current document, but incomplete."""
        return self.current is not None and self.current.is_part and self._shows_document

    def _may_show(self, record: RunRecord) -> bool:
        """Return False if, during the run, document or inputs have returned to a state whose results are shown."""
        now = self._document.current.id, self._inputs
        shown = self.current
        is_known = shown is not None and not shown.unfinished and (shown.state, shown.inputs) == now
        return (record.state, record.inputs) == now or not is_known

    def recall(self, inputs: object) -> bool:
        """Show the results of an earlier run for the current document and `inputs`; return False if there are none."""
        self._inputs = inputs
        record = self._recall(self._document.current.id)
        if record is not None and record is not self.current:
            self._show(record)
        return record is not None

    def _show(self, record: RunRecord) -> None:
        self._set_current(record)
        self.changed.emit(None)

    def _set_current(self, record: RunRecord) -> None:
        shown = self.current
        if shown is not None and shown is not record and shown.run is not None and shown.run == record.run:
            record.summaries = shown.summaries_for(record.result) | record.summaries
        if self.current is not None and self.current.unfinished:
            self.previous, self.current = self._before_run
        if record is not self.current:
            if record.unfinished:
                self._before_run = self.previous, self.current
            if self.current is None or not self.current.is_part_of(record):
                self.previous = self.current
            self.current = record
        self._cancel_old()
        self._nodes = None
        if record.state == self._document.current.id:
            self._search.stop()
            self._stale = StaleValues()
        elif shown is None or shown.revision != record.revision:
            self._search_from({thing for revision, found in self._log if revision > record.revision for thing in found})

    def _forget_old(self) -> None:
        kept: list[RunRecord] = []
        counts: Counter[bool] = Counter()
        total = 0
        for record in reversed(self._records):
            total += record.result.computed_bytes
            if len(kept) >= 2 and total > _MOST_BYTES:
                break
            counts[record.is_part] += 1
            if counts[record.is_part] <= _MOST_RECORDS:
                kept.append(record)
        self._records = kept[::-1]
        oldest = min(r.revision for r in self._records)
        self._log = [entry for entry in self._log if entry[0] > oldest]

    def clear(self) -> None:
        """Remove all runs."""
        self._records.clear()
        self._log.clear()
        self._search.stop()
        self._stale = StaleValues()
        self.current = self.previous = self._nodes = self._reference = None
        self._skipped_branches = None, frozenset()
        self._before_run = None, None
        self._cancel_old()
        self.changed.emit(None)

    def show_call(self, call: CallPath) -> None:
        """Set the call of a function for which values computed in several calls are shown."""
        shown = [record for record in (self.current, self.previous) if record is not None and record.call != call]
        for record in shown:
            record.call = call
        if shown:
            self.changed.emit(None)

    # -- iterations ------------------------------------------------------------------------------------------

    @property
    def iterations(self) -> Mapping[LoopKey, int]:
        """The shown or requested iterations by loop; other loops show the last one."""
        if self._iterating is not None:
            return self._iterating[0]
        return {} if self.current is None else self.current.iterations

    def show_iterations(self, chosen: Mapping[LoopKey, int]) -> None:
        """Set the iterations of loops to show, counted from 0; other loops show the last one.

        Runs keep values of the last iteration only: others are computed again in the background. `changed` follows.
        """
        record = self.current
        if self._iterating is not None:
            self._iterating[1].cancel()
            self._iterating = None
        if record is None:
            return
        last = record.last or record.result
        if all(number >= last.iterations.get(key, 0) - 1 for key, number in chosen.items()):
            self._show_result(record, last, {})
            return
        task = self._workspace.tasks.start(
            "Computing values of an iteration",
            lambda progress: last.in_iterations(chosen, progress),
            done=lambda found: self._show_result(record, found, chosen),
            failed=self._refuse_iteration,
            finished=lambda: self._iterated(task),
            lane="fetch",
        )
        self._iterating = chosen, task

    def _show_result(self, record: RunRecord, result: RunResult, iterations: Mapping[LoopKey, int]) -> None:
        """Show a run by a new record, as caches by record are for other iterations."""
        last = (record.last or record.result) if iterations else None
        summaries = record.summaries_for(result)
        shown = replace(record, result=result, iterations=iterations, last=last, problems={}, summaries=summaries)
        self._iterating = None
        self._records = [shown if one is record else one for one in self._records]
        if self._reference is not None and self._reference.record is record:
            self._reference.record = shown
        if record is self.current:
            self.current = shown
            self._nodes = None
            self._cancel_old()
            self.changed.emit(None)

    def _refuse_iteration(self, error: BaseException) -> None:
        self._workspace.messages.show("warning", "The iteration cannot be shown", reason_of(error), topic="iteration")

    def _iterated(self, task: Task[RunResult]) -> None:
        if self._iterating is not None and self._iterating[1] is task:  # it failed or was cancelled
            self._iterating = None
            self.changed.emit(set())

    # -- elements --------------------------------------------------------------------------------------------

    def choose_element(self, value: Value, index: tuple[int, ...]) -> None:
        """Show the source of an element that the user clicked."""
        self.element = value, index
        self.element_chosen.emit(value, index)

    # -- pins ------------------------------------------------------------------------------------------------

    def pin(self, values: Iterable[Value]) -> None:
        """Add values to the watch list."""
        self._set_pinned(dict.fromkeys((*self.pinned, *values)))

    def unpin(self, values: Iterable[Value]) -> None:
        """Remove values from the watch list."""
        gone = set(values)
        self._set_pinned(v for v in self.pinned if v not in gone)

    def _set_pinned(self, values: Iterable[Value]) -> None:
        pinned = tuple(values)
        if pinned != self.pinned:
            self.pinned = pinned
            self.changed.emit(set())
