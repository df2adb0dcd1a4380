"""Run two compared documents with the same inputs, one after the other."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QObject, Signal

from onnx_workbench.model.ir.graph import Value
from onnx_workbench.viewer.compare.model_comparison import ModelComparison
from onnx_workbench.viewer.run.results.compare import ComparisonReference, with_model
from onnx_workbench.viewer.run.workspace import Workspace


class RunBoth(QObject):
    """Run of the new document with its inputs, then of the old one with the same values for the matching inputs.

    Other inputs of the old one keep their sources. Lives until its end or that of the comparison.
    """

    done = Signal(object)  # ComparisonReference for the new run; not if either fails or is cancelled: documents say so

    def __init__(self, comparing: ModelComparison) -> None:
        super().__init__(comparing)
        self._comparing = comparing
        self._running: Workspace | None = None

    def start(self) -> None:
        """Start the first run."""
        self._run(self._comparing.new)

    def _run(self, workspace: Workspace) -> None:
        self._running = workspace
        workspace.runs_changed.connect(self._on_state)
        workspace.runs.run()

    def _on_state(self) -> None:
        workspace = self._running
        if workspace is None or workspace.runs.is_running or workspace.runs.is_paused:
            return
        workspace.runs_changed.disconnect(self._on_state)
        self._running = None
        record = workspace.results.current
        if record is None or not workspace.results.is_current or self._comparing.result is None:
            self.deleteLater()
        elif workspace is self._comparing.new:
            self._comparing.old.runs.inputs.set_given(self._translated(record.feeds), workspace.runs.inputs.seed)
            self._run(self._comparing.old)
        else:
            new, old, partner = self._comparing.new, self._comparing.old, self._comparing.result.partner
            self.done.emit(ComparisonReference(old.label, with_model(new, old, partner)))
            self.deleteLater()

    def _translated(self, feeds: dict[str, Any]) -> dict[str, Any]:
        """Map the new document's feeds to the old one's names."""
        result = self._comparing.result
        assert result is not None
        feed_by_name = {}
        for value in self._comparing.new.model.graph.inputs:
            partner = result.partner(value)
            if value.name in feeds and isinstance(partner, Value):
                feed_by_name[partner.name] = feeds[value.name]
        return feed_by_name
