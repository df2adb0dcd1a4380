"""Steps encoded for the crash journal while they are done."""

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

    What is in no model, and never was since the journal began, is left out: when it comes in it is written whole.
    Tensors, which never change, are encoded when the text is made, see `content`: a step that is taken back costs no
    bytes. Encoding raises nothing; `problem` is what it ran into.
    """

    def __init__(self, references: WrittenIds) -> None:
        self._references = references
        self._steps: list[tuple[dict[str, Any] | None, list[int]]] = []  # of each: its entry, ids that it brought in
        self._problem: tuple[int, Exception] | None = None  # and the number of the step

    @property
    def problem(self) -> Exception | None:
        """Return the error of encoding the steps."""
        return None if self._problem is None else self._problem[1]

    def __len__(self) -> int:
        return len(self._steps)

    def add(self, step: Step) -> None:
        """Encode a step that is about to be applied."""
        entry, references = None, self._references
        references.brought = []
        if self._problem is None:
            with errors_to(self._run_into):
                entry = encode(step, references, defer_tensors=True) if is_known(step, references) else None
        self._steps.append((entry, references.brought))

    def take_back(self, left: int = 0) -> None:
        """Forget all but the first steps, which were taken back in the model or will be."""
        for _, brought in self._steps[left:]:
            self._references.known.difference_update(brought)
        del self._steps[left:]
        if self._problem is not None and self._problem[0] >= left:
            self._problem = None

    def drain(self) -> list[tuple[dict[str, Any] | None, list[int]]]:
        """The steps since the last call: of each its entry, if there is one, and the ids of what it brought in."""
        steps, self._steps, self._problem = self._steps, [], None
        return steps

    def content(self, tensor: Any) -> Any:
        """Return the JSON of a tensor in an entry. For `json.JSONEncoder(default=…)`: TypeError for all else."""
        if not isinstance(tensor, Tensor):
            msg = f"{type(tensor).__name__} cannot be written"
            raise TypeError(msg)
        return ValueEncoder(self._references).tensor(tensor)

    def _run_into(self, error: Exception) -> None:
        self._problem = len(self._steps), error
