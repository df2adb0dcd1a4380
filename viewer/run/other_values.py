"""Reference values of a comparison, read when they are shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from onnx_workbench.exec.inspect.model_comparison import RunPart
from onnx_workbench.exec.inspect.tolerances import INTEGER_VALUES, RelativeErrors, type_error
from onnx_workbench.exec.results.run_result import RunResult
from onnx_workbench.exec.results.slot_map import ValueKey
from onnx_workbench.exec.values.arrays import RuntimeValue
from onnx_workbench.exec.values.statistics import describe
from onnx_workbench.model.progress import Progress


@dataclass(frozen=True, eq=False)
class OtherValues:
    """Values of a reference by the keys of the compared run: parts of another run, or arrays.

    `ours` are values of the run itself that are dequantized for the comparison; `names` are those in the reference, to
    list if none was matched; `error` is the relative error of the reference if its types do not determine it.
    """

    result: RunResult | None = None
    parts: Mapping[ValueKey, RunPart] = field(default_factory=dict)
    arrays: Mapping[ValueKey, RuntimeValue] = field(default_factory=dict)
    ours: Mapping[ValueKey, RunPart] = field(default_factory=dict)
    names: Sequence[str] = ()
    error: float = 0.0

    def has(self, key: ValueKey) -> bool:
        """Return whether the reference has a value for one of ours."""
        return key in self.arrays or key in self.parts

    def read(self, key: ValueKey, progress: Progress) -> RuntimeValue:
        """Return the value of the reference for one of ours; LookupError if it is unavailable.

        Not on the GUI thread.
        """
        if key in self.arrays:
            return self.arrays[key]
        assert self.result is not None
        return self.parts[key].read(self.result, progress)

    def error_of(self, key: ValueKey) -> float:
        """Return the relative error due to precision of the reference value for one of ours."""
        if key in self.arrays:
            return max(self.error, type_error(describe(self.arrays[key]).element_type))
        part, ours = self.parts[key], self.ours.get(key)
        is_dequantized = part.scale is not None or (ours is not None and ours.scale is not None)
        integers = INTEGER_VALUES if is_dequantized else 0.0
        return max(self.error, integers, self._errors.of(part.key) if self._errors is not None else 0.0)

    @cached_property
    def _errors(self) -> RelativeErrors | None:
        return None if self.result is None else RelativeErrors(self.result)
