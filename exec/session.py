"""Sessions: run a model and reuse what earlier runs computed.

`Session(load(path)).run({name: array}).values[name]`
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, cast

from onnx_workbench.exec.engine.breakpoints import Breakpoint, compile_breakpoint
from onnx_workbench.exec.engine.engine import Engine
from onnx_workbench.exec.engine.executor import Observer
from onnx_workbench.exec.engine.request import Request, RunOptions
from onnx_workbench.exec.engine.snapshot import ModelSnapshot, SnapshotCache
from onnx_workbench.exec.engine.stepper import Stepper
from onnx_workbench.exec.inputs.feeds import Feeds, normalise
from onnx_workbench.exec.results.run_result import RunResult
from onnx_workbench.exec.results.slot_map import Path, ValueKey
from onnx_workbench.exec.values.arrays import RuntimeValue
from onnx_workbench.model.budget import cache_budget
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.reader.any_source import as_model
from onnx_workbench.model.ir.changes import last_change
from onnx_workbench.model.ir.graph import Graph, Model, Node, Value
from onnx_workbench.model.ir.types import TensorType
from onnx_workbench.model.progress import SILENT, Progress

if TYPE_CHECKING:
    from onnx_workbench.exec.inputs.recipe import Recipe
    from onnx_workbench.model.history.document import Document

#: Which values to compute: all, only the outputs, or names and Value objects.
Wanted = Literal["all", "outputs"] | Iterable[str | Value]


class RunArguments(TypedDict, total=False):
    """Options of a run besides its inputs."""

    values: Wanted  # values to compute and keep; "all" by default
    seed: int  # of random operators
    max_tensor: int | None  # bytes of a single value; half of the machine's memory by default
    memory_limit: int | None  # bytes of inputs, weights, values and buffers together; by default that of the session
    time_limit: float | None  # seconds
    until: Node | None  # compute only this node and its ancestors
    path: Path  # of the call of a function that `until` is in
    breakpoints: Sequence[Breakpoint]  # if any, everything is recomputed: a run cannot stop at cached values
    fresh: bool  # recompute everything


class SessionBase(ABC):
    """Base class of sessions: snapshots the model and makes requests from the arguments of a run.

    `request` reads the model, so it must be called on the thread that owns it; `run` is `request`, then `perform`.
    """

    def __init__(self, model: Model | Document, graph: Graph | None = None) -> None:
        self.model = model if isinstance(model, Model) else as_model(model)
        self._document = None if getattr(model, "model", None) is None else cast("Document", model)
        self.snapshots = SnapshotCache(self.model, graph)
        self._taken: tuple[int, ModelSnapshot] | None = None  # with `_version` then
        self.memory_limit: int | None = None  # bytes, see the class; None: most of the machine's memory
        self.keep: Wanted = "all"  # default of the argument `values`
        self._preparing = threading.RLock()  # a background thread may call `prepare` before a request

    @property
    def graph(self) -> Graph:
        """The graph that is run."""
        return self.snapshots.graph or self.model.graph

    def request(self, feeds: Mapping[Any, Any] | None = None, **arguments: Unpack[RunArguments]) -> Request:
        """Return a request for `perform` and `steps`: a snapshot of the model and the feeds by name or Value.

        ModelError if a value does not have the declared type or belongs to no input. Cost: about 0.8 µs per node after
        an edit, 8 µs the first time (see `prepare`), nothing without an edit.
        """
        if more := arguments.keys() - RunArguments.__annotations__.keys():
            unknown = min(more)
            msg = f"a run has no option {unknown!r}; there are {', '.join(RunArguments.__annotations__)}"
            raise TypeError(msg)
        for name in arguments.keys() & {"max_tensor", "memory_limit"}:
            require_positive(name, arguments.get(name))
        snapshot = self.prepare()
        until, breakpoints = arguments.get("until"), arguments.get("breakpoints")
        options = RunOptions(
            values=wanted_keys(arguments.get("values", self.keep)),
            until=None if until is None else (arguments.get("path", ()), until.id),
            seed=arguments.get("seed", 0),
            max_tensor=arguments.get("max_tensor"),
            memory_limit=arguments.get("memory_limit") or self.memory_limit,
            time_limit=arguments.get("time_limit"),
            fresh=arguments.get("fresh", False),
        )
        conditions = tuple([compile_breakpoint(b, self.model) for b in breakpoints]) if breakpoints else ()
        return Request(snapshot, feeds_by_id(self.graph, feeds or {}), options, conditions)

    @property
    def _version(self) -> int:
        """A number that differs after each change: of the document, or without one of any model."""
        return last_change() if self._document is None else self._document.revision

    def prepare(self, progress: Progress = SILENT) -> ModelSnapshot:
        """Take a snapshot of the model for later requests, checking `progress` every few nodes."""
        document = self._document
        with self._preparing:
            version = self._version
            if self._taken is not None and self._taken[0] == version:
                return self._taken[1]
            snapshot = self.snapshots.take(state=0 if document is None else document.current.id, progress=progress)
            self._taken = version, snapshot
            return snapshot

    def run(
        self,
        feeds: Mapping[Any, Any] | None = None,
        *,
        progress: Progress = SILENT,
        observer: Observer | None = None,
        **arguments: Unpack[RunArguments],
    ) -> RunResult:
        """Run with values for the inputs; arguments as of `request`. Failures and exceeded limits are in the result.

        ModelError if a required input is not given, the inputs alone exceed the memory limit, or a name in `values`
        does not exist.
        """
        return self.perform(self.request(feeds, **arguments), progress=progress, observer=observer)

    @abstractmethod
    def perform(self, request: Request, *, progress: Progress = SILENT, observer: Observer | None = None) -> RunResult:
        """Perform a request, to the first breakpoint or the end."""


class Session(SessionBase):
    """Runs one graph of a model, or of a file, in this process and caches the computed values.

    A later run computes only values that an edit or another feed changed. `budget` is the size of the cache in bytes
    (see `cache_budget`); of values that do not fit, summaries are kept, and they are computed again on demand. Results
    share arrays with later runs: copy an array before changing it.

    `memory_limit` is the limit for the bytes of inputs, weights, values and buffers; if weights alone would take most
    of it, they are read from their file for each node that needs them. Other temporary arrays are not summed up:
    each must fit into the rest of the limit. With `keep` "outputs", or names of values, all other values are freed
    after their last use.
    Use from one thread at a time; the model is read by `request`, `run` and `steps`, on the calling thread.
    """

    def __init__(
        self,
        model: Model | Document,
        *,
        graph: Graph | None = None,
        budget: int | None = None,
        memory_limit: int | None = None,
        keep: Wanted = "all",
    ) -> None:
        super().__init__(model, graph)
        require_positive("memory_limit", memory_limit)
        self.memory_limit, self.keep = memory_limit, keep
        self.engine = Engine(cache_budget() if budget is None else budget)

    def make_inputs(self, recipe: Recipe, progress: Progress = SILENT) -> dict[str, RuntimeValue]:
        """Return values for the inputs by name, within the memory limit. ModelError if one cannot be made.

        Any thread that may wait.
        """
        return recipe.within(self.memory_limit).make(progress)

    def perform(self, request: Request, *, progress: Progress = SILENT, observer: Observer | None = None) -> RunResult:
        """Perform a request, to the first breakpoint or the end."""
        run = self.engine.start(request, progress=progress, observer=observer)
        run.resume()
        return run.result()

    def steps(
        self,
        request: Request | Mapping[Any, Any] | None = None,
        *,
        progress: Progress = SILENT,
        observer: Observer | None = None,
        **arguments: Unpack[RunArguments],
    ) -> Stepper:
        """Return a run for stepping, from a request or the arguments of `request`. Computes the constants."""
        if not isinstance(request, Request):
            request = self.request(request, **arguments)
        stepper = self.engine.start(request, progress=progress, observer=observer)
        stepper.node_of = self.snapshots.nodes.get
        return stepper

    def forget(self) -> None:
        """Release all computed values; weights prepared for kernels stay."""
        self.engine.forget()


def require_positive(name: str, limit: object) -> None:
    """Raise TypeError or ValueError unless a limit is None or a number above 0."""
    if limit is None:
        return
    if isinstance(limit, bool) or not isinstance(limit, (int, float)):
        raise TypeError(f"{name} is {limit!r:.200}; expected a number, or None for the usual limit")
    if not limit > 0:
        raise ValueError(f"{name} is {limit}; expected a number above 0, or None for the usual limit")


def wanted_keys(values: Wanted) -> tuple[ValueKey | str, ...] | None:
    """Return the content of `RunOptions.values` for a request."""
    if isinstance(values, str):
        return None if values == "all" else () if values == "outputs" else (values,)
    return tuple(v if isinstance(v, str) else ((), v.id) for v in values)


def feeds_by_id(graph: Graph, feeds: Mapping[Any, Any]) -> Feeds:
    """Return feeds by id of the value, each checked against the declared type."""
    by_name = {v.name: v for v in graph.inputs}
    if not feeds.keys() <= by_name.keys():
        by_name = {v.name: v for v in graph.initializers} | by_name
    given: Feeds = {}
    for key, content in feeds.items():
        value = key if isinstance(key, Value) else by_name.get(key)
        if value is None or (value is key and value.initializer is None and value not in graph.inputs):
            names = ", ".join(repr(v.name) for v in graph.inputs)
            raise ModelError("No such input", f"the graph has no input {key!r}; it has {names or 'none'}")
        declared = value.type
        if declared is None and value.initializer is not None:
            declared = TensorType(value.initializer.element_type)
        given[value.id] = normalise(content, declared, value.name)
    return given
