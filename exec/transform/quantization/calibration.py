"""Calibration: samples of inputs from files, and what occurs in the values of a model that is run on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np

from onnx_workbench.exec.inputs.feeds import normalise
from onnx_workbench.exec.inputs.images import SUFFIXES, ImageOptions
from onnx_workbench.exec.inputs.recipe import Recipe
from onnx_workbench.exec.inputs.sources import File, make_feeds, make_value, read_data_set, read_inputs
from onnx_workbench.exec.session import Session
from onnx_workbench.exec.transform.quantization.ranges import Array
from onnx_workbench.exec.values.arrays import RuntimeValue
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.graph import Graph, Model, Value
from onnx_workbench.model.ir.types import ElementType
from onnx_workbench.model.progress import SILENT, Progress

_ASIDE = 4  # of so many samples one is kept aside from calibration, for the check
_RANDOM_SAMPLES = 2
_SEEDS = 4  # random samples of a recipe, of which one is kept aside


@dataclass(frozen=True, slots=True)
class Sample:
    """Values of all inputs, which are read when they are used; `name` for messages."""

    name: str
    read: Callable[[], Mapping[str, RuntimeValue]]


@dataclass(frozen=True, slots=True)
class Samples:
    """Samples for calibration, and those kept aside for the check: the same where there is only one."""

    calibration: Sequence[Sample]
    check: Sequence[Sample]

    @property
    def is_apart(self) -> bool:
        """Whether the check has samples of its own."""
        return self.calibration is not self.check


NO_SAMPLES = Samples((), ())


def split(samples: Sequence[Sample]) -> Samples:
    """Keep every fourth sample aside, at least one of two."""
    if len(samples) < 2:
        return Samples(samples, samples)
    aside = [sample for place, sample in enumerate(samples, 1) if place % _ASIDE == 0] or [samples[-1]]
    return Samples([sample for sample in samples if sample not in aside], aside)


def samples_of(
    source: Path | Recipe | Sequence[Mapping[str, RuntimeValue]] | None,
    graph: Graph,
    image: ImageOptions | None = None,
) -> list[Sample]:
    """Return samples from an .npz or .json file, a folder of such, of pictures or of test_data_set folders, from
    mappings of arrays, or from a recipe, with several seeds where some inputs are random; without a source, two random
    ones. ModelError if there are none.
    """
    if source is None:
        return [Sample(f"random input {seed}", _random(graph, seed)) for seed in range(_RANDOM_SAMPLES)]
    if isinstance(source, Recipe):
        seeds = range(source.seed, source.seed + (_SEEDS if source.is_random else 1))
        name = "the input of the Run panel with seed {}" if source.is_random else "the input of the Run panel"
        found = [Sample(name.format(seed), replace(source, seed=seed).make) for seed in seeds]
    elif not isinstance(source, Path):
        found = [Sample(f"input {n}", _given(graph, feeds)) for n, feeds in enumerate(source, 1)]
    elif source.is_dir():
        found = [sample for path in sorted(source.iterdir()) if (sample := _in_file(path, graph, image)) is not None]
    else:
        found = [sample for sample in [_in_file(source, graph, image)] if sample is not None]
        if not found and not source.exists():
            raise ModelError("There are no inputs", f"{source} does not exist.")
    if not found:
        raise ModelError(
            "There are no inputs for calibration",
            "Expected .npz or .json files with the inputs by name, pictures, or test_data_set folders.",
            str(source) if isinstance(source, Path) else None,
        )
    return found


def _random(graph: Graph, seed: int) -> Callable[[], Mapping[str, RuntimeValue]]:
    return lambda: make_feeds(graph, seed=seed)


def _given(graph: Graph, feeds: Mapping[str, RuntimeValue]) -> Callable[[], Mapping[str, RuntimeValue]]:
    types = {value.name: value.type for value in graph.inputs}
    return lambda: {name: normalise(v, types[name], name) if name in types else v for name, v in feeds.items()}


def _in_file(path: Path, graph: Graph, image: ImageOptions | None) -> Sample | None:
    """A sample in a file or folder; None for any other."""
    if path.is_dir():
        if path.name.startswith("test_data_set_"):
            return Sample(path.name, lambda: read_data_set(path, graph).inputs)
        return None
    suffix = path.suffix.lower()
    if suffix in (".npz", ".json"):
        if path.name.startswith("outputs"):  # of a pair of test data
            return None
        return Sample(path.name, lambda: read_inputs(path, graph)[0])
    if suffix in SUFFIXES:
        return Sample(path.name, lambda: _picture(path, graph, image))
    return None


def _picture(path: Path, graph: Graph, image: ImageOptions | None) -> Mapping[str, RuntimeValue]:
    inputs = graph.required_inputs
    if len(inputs) != 1:
        raise ModelError("Pictures do not fit", f"the model has {len(inputs)} inputs; pictures feed a single one", path)
    return {inputs[0].name: make_value(inputs[0], File(path, image=image), {})}


def checked_feeds(sample: Sample, graph: Graph) -> Mapping[str, RuntimeValue]:
    """Read a sample; ModelError if it lacks an input, or one is empty or not finite."""
    feeds = sample.read()
    names = [value.name for value in graph.required_inputs]
    if missing := [name for name in names if name not in feeds]:
        has = ", ".join(feeds) or "no values of inputs"
        raise ModelError(f"{sample.name} has no value for {missing[0]}", f"It has {has}; expected {', '.join(names)}.")
    for name, value in feeds.items():
        if isinstance(value, np.ndarray) and not value.size:
            raise ModelError(f"{sample.name} is empty", f"{name} has the shape {list(value.shape)}.")
        is_float = isinstance(value, np.ndarray) and value.dtype.kind == "f"
        if is_float and not np.isfinite(np.asarray(value)).all():
            raise ModelError(f"{sample.name} cannot be used", f"{name} contains infinities or NaN.")
    return feeds


def _require_variety(samples: Iterable[Mapping[str, RuntimeValue]]) -> None:
    """Refuse data all of whose floats are one number: ranges would say nothing."""
    floats = [v for feeds in samples for v in feeds.values() if isinstance(v, np.ndarray) and v.dtype.kind == "f"]
    if (
        floats
        and all(v.size > 1 for v in floats)
        and len({float(end) for v in floats for end in (v.min(), v.max())}) == 1
    ):
        raise ModelError("The data is constant", f"all elements of all inputs are {floats[0].flat[0]:g}")


class Observer(Protocol):
    """Facts about the arrays of a value in many runs, such as a Histogram."""

    def add(self, array: Array) -> None:
        """Count an array, all of whose elements are finite."""


T = TypeVar("T", bound=Observer)


def observe(
    model: Model, values: Sequence[Value], samples: Sequence[Sample], kind: type[T], progress: Progress = SILENT
) -> dict[Value, T]:
    """Run a model on samples; return an observer of a kind for each of some values of its main graph.

    ModelError if a sample does not fit, the model fails on it, or a value is not finite. Memory: that of one run that
    keeps the values.
    """
    observers = {value: kind() for value in values}
    session = Session(model, keep=values)
    small: list[Mapping[str, RuntimeValue]] = []
    for number, sample in enumerate(samples):
        progress.report(number, len(samples), "Calibrating")
        feeds = checked_feeds(sample, model.graph)
        small.append({k: np.array([np.min(v), np.max(v)]) for k, v in feeds.items() if _is_float(v)})
        try:
            result = session.run(feeds, progress=progress.quiet()).raise_for_failure()
        except ModelError as error:
            detail = f"{error.title}: {error.detail}"
            raise ModelError(f"The model does not run on {sample.name}", detail, error.place) from error
        for value, observer in observers.items():
            array = feeds[value.name] if value.is_input and value.name in feeds else result.value(value)
            if not isinstance(array, np.ndarray):
                continue
            if not np.isfinite(array).all():
                raise ModelError(f"{value.name} is not finite", f"for {sample.name}: no range contains it.", value)
            observer.add(array)
    _require_variety(small)
    return observers


def _is_float(value: RuntimeValue) -> bool:
    return isinstance(value, np.ndarray) and value.size > 1 and value.dtype == ElementType.FLOAT.numpy_dtype
