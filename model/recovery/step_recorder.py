"""Recorder that encodes steps for the crash journal as they are applied."""

from __future__ import annotations

from typing import Any

from onnx_workbench.model.errors import errors_to
from onnx_workbench.model.history.step_codec import encode, is_known
from onnx_workbench.model.history.steps import Step
from onnx_workbench.model.history.value_encoder import ValueEncoder
from onnx_workbench.model.ir.tensors import Tensor
from onnx_workbench.model.recovery.object_ids import WrittenIds


class StepRecorder:
    """Encodes steps one by one, each just before it is applied.

    Steps on objects that have not been in the model since the journal began are skipped: an object is written whole
    when it is added. Tensors are immutable and encoded last, see `content`, so a step that is rolled back writes no
    bytes. Encoding never raises; errors are kept in `problem`.
    """

    def __init__(self, references: WrittenIds) -> None:
        self._references = references
        self._steps: list[tuple[dict[str, Any] | None, list[int]]] = []  # entry and ids of added objects, per step
        self._problem: tuple[int, Exception] | None = None  # with the index of the step

    @property
    def problem(self) -> Exception | None:
        """Return the first encoding error, if any."""
        return None if self._problem is None else self._problem[1]

    def __len__(self) -> int:
        return len(self._steps)

    def add(self, step: Step) -> None:
        """Encode a step that is about to be applied."""
        entry, references = None, self._references
        references.new_ids = []
        if self._problem is None:
            with errors_to(self._stop_on_error):
                entry = encode(step, references, defer_tensors=True) if is_known(step, references) else None
        self._steps.append((entry, references.new_ids))

    def take_back(self, left: int = 0) -> None:
        """Drop all but the first `left` steps, because the model rolls them back."""
        for _, new_ids in self._steps[left:]:
            self._references.known.difference_update(new_ids)
        del self._steps[left:]
        if self._problem is not None and self._problem[0] >= left:
            self._problem = None

    def drain(self) -> list[tuple[dict[str, Any] | None, list[int]]]:
        """Return and clear the recorded steps: for each its entry, or None, and the ids of the objects it added."""
        steps, self._steps, self._problem = self._steps, [], None
        return steps

    def content(self, tensor: Any) -> Any:
        """Return the JSON value of a tensor, as `default` of `json.JSONEncoder`; TypeError for anything else."""
        if not isinstance(tensor, Tensor):
            msg = f"{type(tensor).__name__} cannot be written"
            raise TypeError(msg)
        return ValueEncoder(self._references).tensor(tensor)

    def _stop_on_error(self, error: Exception) -> None:
        self._problem = len(self._steps), error
