"""Loss of a changed model against the one before, what each part costs alone, and the fewest parts to leave as is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import inf, log10
from types import MappingProxyType
from typing import Final, Generic, TypeVar

import numpy as np

from onnx_workbench.exec.session import Session
from onnx_workbench.exec.values.arrays import RuntimeValue
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.graph import Model
from onnx_workbench.model.progress import SILENT, Progress
from onnx_workbench.model.simplify.pipeline import figures

T = TypeVar("T")
_NONE: Final[Mapping[str, str]] = MappingProxyType({})


class Noise:
    """Sums for the signal-to-noise ratio of values over several runs."""

    def __init__(self) -> None:
        self._sums: dict[str, tuple[float, float]] = {}
        self.problem = ""

    def add(self, name: str, ours: RuntimeValue, reference: RuntimeValue) -> None:
        """Count a value of both models, if it is a tensor of numbers."""
        if not isinstance(ours, np.ndarray) or not isinstance(reference, np.ndarray) or reference.dtype.kind in "OSU":
            return
        if ours.shape != reference.shape:
            self.problem = self.problem or f"{name} has the shape {list(ours.shape)}, and had {list(reference.shape)}"
            return
        exact, found = reference.astype(np.float64), ours.astype(np.float64)
        if np.isfinite(exact).all() and not np.isfinite(found).all():
            self.problem = self.problem or f"{name} is not finite any more"
            return
        usable = np.isfinite(exact) & np.isfinite(found)
        signal, noise = self._sums.get(name, (0.0, 0.0))
        difference = (found - exact)[usable]
        self._sums[name] = signal + float((exact[usable] ** 2).sum()), noise + float((difference**2).sum())

    def ratios(self) -> dict[str, float]:
        """Return the ratios in decibels by name; infinite for equal values."""
        return {name: _decibels(*sums) for name, sums in self._sums.items()}

    @property
    def least(self) -> float:
        """The least ratio; negative infinity where shapes differ or values are not finite any more."""
        return -inf if self.problem else min(self.ratios().values(), default=inf)


def _decibels(signal: float, noise: float) -> float:
    if not noise:
        return inf
    return 10 * log10(signal / noise) if signal else -inf


class Reference:
    """Inputs, and what a model computes for them: outputs, and values of its main graph by name."""

    def __init__(
        self,
        model: Model,
        feeds: Iterable[Mapping[str, RuntimeValue]],
        names: Collection[str] = (),
        progress: Progress = SILENT,
    ) -> None:
        self.runs = [(one, run(model, one, names, progress)) for one in feeds]

    def noise(self, model: Model, values: Mapping[str, str] = _NONE, progress: Progress = SILENT) -> Noise:
        """Run a changed model; count its outputs, and values by the names that the model before had for them."""
        noise = Noise()
        for feeds, expected in self.runs:
            values_now = run(model, feeds, values, progress)
            for name, value in values_now.items():
                before = values.get(name, name)
                if before in expected:
                    noise.add(name, value, expected[before])
        return noise


def run(
    model: Model, feeds: Mapping[str, RuntimeValue], names: Collection[str] = (), progress: Progress = SILENT
) -> dict[str, RuntimeValue]:
    """Run a model; return its outputs and the named values. ModelError where it fails."""
    wanted = list(dict.fromkeys([*(value.name for value in model.graph.outputs), *names]))
    result = Session(model, keep=wanted).run(feeds, progress=progress.quiet()).raise_for_failure()
    return {name: result.values[name] for name in wanted}


class Sweep(Generic[T]):
    """What it costs to change each of several parts of a model alone, or all but a few.

    `change` returns a copy of the model with only the given parts changed. `alone`: the least ratio of an output in
    decibels by part; `sizes`: the bytes of constants then. `curve`: for numbers of parts left as they are, costliest
    first, the bytes of constants and the least ratio, as far as tried. Cost: a copy and a run per sample for each part.
    """

    def __init__(
        self,
        parts: Sequence[T],
        change: Callable[[Sequence[T]], Model],
        reference: Reference,
        title: str,
        progress: Progress = SILENT,
    ) -> None:
        self._parts, self._change, self._reference, self._progress = parts, change, reference, progress
        self._tried: dict[int, tuple[int, float]] = {}
        self.alone: dict[T, float] = {}
        self.sizes: dict[T, int] = {}
        for number, part in enumerate(parts):
            progress.report(number, len(parts), title)
            model = change([part])
            self.alone[part] = reference.noise(model, progress=progress).least
            self.sizes[part] = figures(model).nbytes
        self._order = sorted(parts, key=self.alone.__getitem__)

    @property
    def curve(self) -> list[tuple[int, int, float]]:
        """Parts left as they are, bytes and ratio."""
        return sorted((count, *facts) for count, facts in self._tried.items())

    def without(self, count: int) -> float:
        """Return the least ratio with so many of the costliest parts left as they are."""
        if count == len(self._parts):
            return inf
        if count not in self._tried:
            left = set(self._order[:count])
            model = self._change([part for part in self._parts if part not in left])
            noise = self._reference.noise(model, progress=self._progress)
            self._tried[count] = figures(model).nbytes, noise.least
        return self._tried[count][1]

    def trace(self) -> None:
        """Try 0, 1, 2, 4, … parts left as they are, for the curve."""
        for power in range(len(self._parts).bit_length() + 1):
            self.without(min((1 << power) >> 1, len(self._parts)))

    def fewest(self, reach: float) -> list[T]:
        """Return the fewest of the costliest parts to leave as they are for a ratio, by bisection. ModelError if it
        would be all.
        """
        low, high = 0, len(self._parts)
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self.without(middle) >= reach else (middle + 1, high)
        if high == len(self._parts):
            best = max((ratio for _, ratio in self._tried.values()), default=-inf)
            raise ModelError(f"{reach:g} dB cannot be reached", f"with anything changed it is {best:.1f} dB at most")
        return self._order[:high]
