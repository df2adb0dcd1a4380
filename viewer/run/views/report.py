"""Report of a run at its end: a status line text, and a message bar if something went wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from onnx_workbench.exec.results.node_table import Failure, State
from onnx_workbench.exec.results.run_result import RunResult
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.graph import Node
from onnx_workbench.model.text.formatting import bytes_text, display, duration_text, plural
from onnx_workbench.viewer.style.labels import name_of

if TYPE_CHECKING:
    from onnx_workbench.viewer.run.results.run_record import RunRecord
    from onnx_workbench.viewer.run.workspace import Workspace

#: Topic of messages about runs.
_TOPIC = "run"
_INPUTS = "inputs"


class RunReporter:
    """Reporter of the outcome of runs of one document. A repeated failure in Live is reported once."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._last_failure = ""  # last reported failure
        self._last_state: tuple[RunRecord | None, str] = None, ""  # last reported state, and the run it belongs to
        self._contradictions: list[str] = []
        self._shown: RunRecord | None = None  # run whose failures the message bar shows

    def refresh(self, *, inputs_changed: bool = False) -> None:
        """Update the report after the model or its inputs changed: state whether the last run is up to date."""
        results = self._workspace.results
        current = results.current
        if current is None or results.is_running:
            return
        if inputs_changed or not results.is_current:
            self._workspace.set_run_state(
                "Inputs changed since the last run" if inputs_changed else "Edited since the last run"
            )
        else:
            self._report_earlier(current)

    def _report_earlier(self, record: RunRecord) -> None:
        record_then, text = self._last_state
        if record is not record_then:
            failures = record.result.failures
            lack = f"{plural(len(failures), 'node')} failed" if failures else _lack(record.result)
            failed = f": {lack}" if lack else ""
            part = ": of some nodes only" if record.is_part else ""
            text = f"Showing values of an earlier run{failed or part}"
        self._workspace.set_run_state(text)
        if record is not self._shown:
            self._shown = record
            self._show_failure(record.result, live=True)

    def inputs_made(self, contradictions: list[str]) -> None:
        """Report contradicting sizes among the generated inputs of a run, but not the same ones twice."""
        if contradictions != self._contradictions:
            self._contradictions = contradictions
            self._workspace.messages.withdraw(_INPUTS)
            if contradictions:
                text = ". ".join(contradictions)
                self._workspace.messages.show("warning", "Inputs contradict each other", f"{text}.", topic=_INPUTS)

    def refused(self, error: BaseException, *, live: bool) -> None:
        """Report that nothing was run."""
        self._workspace.set_run_state("Not run")
        if isinstance(error, ModelError):
            text = f"{error.title}: {error.detail}"
            if text != self._last_failure or not live:
                self._workspace.messages.report(error, _TOPIC)
            self._last_failure = text

    def show_loaded(self, record: RunRecord, text: str) -> None:
        """Report a run that was loaded, not made here."""
        self._last_state = record, text
        self._shown = record
        self._workspace.set_run_state(text)

    def paused(self, result: RunResult, reason: str, node: Node | None, calls: Sequence[Node], *, live: bool) -> None:
        """Report that a run is paused before a node; `calls`: enclosing calls of functions, outermost first."""
        where = reason or (f"before {name_of(node)!r}" if node is not None else "before the next node")
        where = ", ".join([*(f"in {name_of(call)!r}" for call in calls), where])
        self._last_state = self._workspace.results.current, "Stopped"  # the state after an edit
        self._workspace.set_run_state(f"Paused {display(where, 160)}")
        self._show_failure(result, live=live)

    def ended(self, result: RunResult, *, live: bool) -> None:
        """Report that a run has ended."""
        failures = result.failures
        if result.stopped:
            text = "Stopped" if result.stopped == "cancelled" else f"Ended early: {result.stopped}"
        else:
            text = f"{plural(len(failures), 'node')} failed" if failures else _lack(result) or _summary(result)
        current = self._workspace.results.current
        if current is not None and current.result is not result:
            self._report_earlier(current)  # during the run, undo has returned to a state with results
            return
        self._last_state = current, text
        self._shown = current
        self._workspace.set_run_state(text)
        self._show_failure(result, live=live)

    def _show_failure(self, result: RunResult, *, live: bool) -> None:
        failures, workspace = result.failures, self._workspace
        if not failures:
            self._last_failure = ""
            self._show_early_end(result)
            return
        first = failures[0]
        more = f" And {plural(len(failures) - 1, 'more node')}." if len(failures) > 1 else ""
        text = f"{first.account.rstrip('.')}.{more}"
        if text == self._last_failure and live:
            return
        self._last_failure = text
        node = self._failed_node(first)
        title = "No kernel for" if first.kind == "MissingKernelError" else "Failed:"
        workspace.messages.show(
            "error", f"{title} {display(first.title or first.operator, 80)}", text, node, topic=_TOPIC
        )

    def _failed_node(self, failure: Failure) -> Node | None:
        """Return the innermost node that failed and is known: one of a body rather than the If around it."""
        numbers = [failure.path[0] if failure.path else failure.node]
        inner: Failure | None = failure
        while inner is not None:
            numbers += [*inner.path[1:], inner.node]
            inner = inner.inner
        nodes = map(self._workspace.results.node_by_number, reversed(numbers))
        return next((node for node in nodes if node is not None), None)

    def _show_early_end(self, result: RunResult) -> None:
        """Report why values are missing although no node failed, or withdraw an earlier report."""
        workspace, stopped = self._workspace, result.stopped
        if stopped == "time limit":
            title, detail = "The run took longer than its time limit", "Values computed so far are kept"
            waiting = next((result.nodes[i] for i in result.nodes.rows(State.WAITING)[:1].tolist()), None)
            node = None if waiting is None else workspace.results.node_by_number((*waiting.path, waiting.node)[0])
            workspace.messages.show("warning", title, detail, node, topic=_TOPIC)
        elif stopped and stopped != "cancelled" and not stopped.startswith("stopped"):
            workspace.messages.show("error", "The run ended early", stopped, topic=_TOPIC)
        else:
            workspace.messages.withdraw(_TOPIC)


def _lack(result: RunResult) -> str:
    """Describe the values not computed although no node failed, as nothing defines a value that they need."""
    skipped = result.nodes.rows(State.SKIPPED)
    cause = result.nodes[int(skipped[0])].because if len(skipped) else None
    return "" if cause is None else f"{plural(len(skipped), 'node')} not computed: {display(cause.reason, 80)}"


def _summary(result: RunResult) -> str:
    done, kept = result.counts[State.DONE], result.counts[State.KEPT]
    time = duration_text(result.seconds)
    if not done and not kept:
        return f"{plural(result.counts[State.CONSTANT], 'node')} computed in {time}, constant from now on"
    if not done:
        return f"Nothing changed: {plural(kept, 'node')} kept"
    # Folded constants count, as they were computed once and the progress includes them.
    constant = np.count_nonzero(result.nodes.seconds[result.nodes.rows(State.CONSTANT)])
    folded = f", folded {plural(int(constant), 'constant')}" if constant else ""
    text = f"Ran {plural(done, 'node')}{folded} in {time}"
    return f"{text}, kept {kept:,}" if kept else f"{text} · {bytes_text(result.peak_bytes)}"
