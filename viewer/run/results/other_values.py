"""Reference values of a comparison, read when they are shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from onnx_workbench.exec.inspect.run_comparison import GivenValue, Pair, RunPart
from onnx_workbench.exec.results.run_result import RunResult
from onnx_workbench.exec.results.slot_map import ValueKey
from onnx_workbench.exec.values.arrays import RuntimeValue
from onnx_workbench.model.progress import Progress


@dataclass(frozen=True, eq=False)
class OtherValues:
    """Values of a reference by the keys of the compared run: parts of another run, or arrays.

    `names` are those in the reference, to list if none was matched.
    """

    result: RunResult | None = None
    parts: Mapping[ValueKey, RunPart | GivenValue] = field(default_factory=dict)
    names: Sequence[str] = ()

    @classmethod
    def of(cls, pairs: Sequence[Pair], result: RunResult | None = None, names: Sequence[str] = ()) -> OtherValues:
        """The values of the reference that are paired with ours; `result` is its run."""
        parts = {
            a.key: b
            for a, b in reversed(pairs)
            if isinstance(b, GivenValue) or (result is not None and result.info(b.key) is not None)
        }
        return cls(result, parts, names)

    def has(self, key: ValueKey) -> bool:
        """Return whether the reference has a value for one of ours."""
        return key in self.parts

    def read(self, key: ValueKey, progress: Progress) -> RuntimeValue:
        """Return the value of the reference for one of ours; LookupError if it is unavailable.

        Not on the GUI thread.
        """
        return self.parts[key].read(self.result, progress)
