"""Recipe for the inputs of a run: values are generated in the process that runs the model."""

from __future__ import annotations

import uuid
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from onnx_workbench.exec.inputs.feeds import HeldInput, normalise
from onnx_workbench.exec.inputs.sources import InputSource, Random, contradictions, make_feeds, read_data_set
from onnx_workbench.exec.values.arrays import RuntimeValue
from onnx_workbench.exec.values.statistics import describe
from onnx_workbench.model.budget import default_input_limit
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.graph import Graph, Value, Values
from onnx_workbench.model.ir.tensors import ArrayTensor
from onnx_workbench.model.progress import SILENT, Progress

#: Limit for the bytes of all values that are sent to the requesting process; above it, handles are sent.
MOST_SENT = 64 << 20
#: Number of inputs that a message names.
_MOST_NAMES = 5


@dataclass(frozen=True)
class Recipe:
    """Everything needed to make the values of the inputs, in any process. Equal values have an equal `signature`."""

    graph: Graph  # see `interface_of`
    sources: Mapping[str, InputSource]
    sizes: Mapping[str, int]  # chosen sizes of symbolic dimensions
    seed: int
    data_set: Path | None
    given: Mapping[str, Any]  # existing values
    signature: Hashable
    limit: int | None = None  # bytes of all values; None: see `make_feeds`
    key: str = field(default_factory=lambda: uuid.uuid4().hex, compare=False)

    def make(self, progress: Progress = SILENT) -> dict[str, RuntimeValue]:
        """Return the values by name. Reads files; ModelError if a source does not fit. Any thread."""
        given = dict(self.given)
        if self.data_set is not None:
            given = read_data_set(self.data_set, self.graph, self.limit).inputs | given
            missing = [v.name for v in self.graph.required_inputs if v.name not in given]
            if missing:
                names = ", ".join(map(repr, missing[:_MOST_NAMES])) + (", …" if len(missing) > _MOST_NAMES else "")
                raise ModelError("The test data does not fit", f"{self.data_set.name} has no value for {names}")
        return make_feeds(
            self.graph,
            sources=self.sources,
            sizes=self.sizes,
            given=given,
            seed=self.seed,
            limit=self.limit,
            progress=progress,
        )

    @property
    def is_random(self) -> bool:
        """Whether values of some inputs are random, so that another seed gives others."""
        return any(isinstance(source, Random) for source in self.sources.values())

    def within(self, memory: int | None) -> Recipe:
        """Return the recipe for inputs that take no more than the memory limit of a run, if there is one."""
        if memory is None:
            return self
        return replace(self, limit=min(memory, default_input_limit() if self.limit is None else self.limit))

    def without_values(self) -> Recipe:
        """Return a copy for another process, with only the shapes of the given values."""
        return replace(self, given={name: _Given(describe(value).shape) for name, value in self.given.items()})

    def contradictions(self, feeds: Mapping[str, Any]) -> list[str]:
        """Return descriptions of sizes that contradict each other or the chosen ones."""
        return contradictions(self.graph, feeds, self.sizes)


def interface_of(graph: Graph) -> Graph:
    """Return a copy of the inputs and outputs of a graph; initializers of inputs are replaced by placeholders."""
    interface = Graph(graph.name)
    interface.inputs = Values(_bare(v, interface) for v in graph.inputs)
    interface.outputs = Values(_bare(v, interface) for v in graph.outputs)
    return interface


def _bare(value: Value, graph: Graph) -> Value:
    copy = Value(value.name, value.type, graph)
    copy.initializer = None if value.initializer is None else ArrayTensor(np.empty(0))
    return copy


@dataclass(frozen=True, slots=True)
class _Given:
    """Placeholder for a value that another process has."""

    shape: tuple[int, ...]


_held: tuple[str, dict[str, RuntimeValue]] = "", {}  # values made last in this process, by recipe key


def make_held(recipe: Recipe, progress: Progress = SILENT) -> dict[str, RuntimeValue]:
    """Return the values of a recipe, kept in this process until another recipe is requested."""
    global _held  # noqa: PLW0603 - one per process, as the worker runs one model
    key, values = _held
    if key != recipe.key:
        _held = "", {}
        types = {v.name: v.type for v in recipe.graph.inputs}
        made = {name: value for name, value in recipe.make(progress).items() if not isinstance(value, _Given)}
        values = {name: _frozen(normalise(value, types.get(name), name)) for name, value in made.items()}
        _held = recipe.key, values
    return values


def value_of(held: HeldInput) -> RuntimeValue:
    """Return the value of a handle; generates it if this process does not hold it."""
    return make_held(held.recipe)[held.name]


def _frozen(value: RuntimeValue) -> RuntimeValue:
    if isinstance(value, np.ndarray):
        value = value if value.flags.owndata else value.copy()
        value.flags.writeable = False
    return value
