"""A model and what its runs have computed: `Session(load(path)).run({name: array}).values[name]`."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from onnx_workbench.exec.engine.breakpoints import Breakpoint, compile_breakpoint
from onnx_workbench.exec.engine.engine import Engine
from onnx_workbench.exec.engine.executor import Observer
from onnx_workbench.exec.engine.snapshot import ModelSnapshot, SnapshotCache
from onnx_workbench.exec.engine.stepper import Request, RunOptions, Stepper
from onnx_workbench.exec.inputs.feeds import Feeds, normalise
from onnx_workbench.exec.kernels.context import RuntimeValue
from onnx_workbench.exec.results.run_result import RunResult
from onnx_workbench.exec.results.slot_map import Path, ValueKey
from onnx_workbench.model.budget import cache_budget, value_limit
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.graph import Graph, Model, Node, Value
from onnx_workbench.model.ir.types import TensorType
from onnx_workbench.model.progress import SILENT, Progress

if TYPE_CHECKING:
    from onnx_workbench.exec.inputs.recipe import Recipe
    from onnx_workbench.model.history.document import Document

#: What to compute: every value, only the outputs, or names and Value objects.
Wanted = Literal["all", "outputs"] | Iterable[str | Value]


class RunArguments(TypedDict, total=False):
    """Options of a run beside its inputs."""

    values: Wanted  # what to compute and keep; "all" by default
    seed: int  # of random operators
    max_tensor: int | None  # bytes of a single value; half of the machine's memory by default
    memory_limit: int | None  # bytes of inputs, weights and values together; by default that of the session
    time_limit: float | None  # seconds
    until: Node | None  # compute only what this node needs, and the node
    path: Path  # of the call of a function that `until` is in
    breakpoints: Sequence[Breakpoint]  # with any, everything is recomputed: a run cannot stop at cached values
    fresh: bool  # recompute everything


class SessionBase:
    """Base class of sessions: snapshots the model and makes requests from the arguments of a run.

    `request` reads the model, so it belongs on the thread that owns it; `run` is `request` and performing it.
    """

    def __init__(self, model: Model | Document, graph: Graph | None = None) -> None:
        self._document = None if isinstance(model, Model) else model
        self.model = model if isinstance(model, Model) else model.model
        self.snapshots = SnapshotCache(self.model, graph)
        self._taken: tuple[int, ModelSnapshot] | None = None  # for which revision of the document
        self.memory_limit: int | None = None  # bytes of inputs, weights and values; None: most of the machine's memory
        self.keep: Wanted = "all"  # what a run keeps when its arguments do not say
        self._preparing = threading.RLock()  # a background reader may prepare for a request of another thread

    @property
    def graph(self) -> Graph:
        """The graph that is run."""
        return self.snapshots.graph or self.model.graph

    def request(self, feeds: Mapping[Any, Any] | None = None, **arguments: Unpack[RunArguments]) -> Request:
        """Return the argument of `perform` and `steps`: the current model, and values for the inputs by name or
        Value.

        ModelError when a value has another type than declared or belongs to no input. After an edit it costs about
        0.6 µs per node, the first time 8 µs, see `prepare`; without one nothing.
        """
        snapshot = self.prepare()
        until, max_tensor = arguments.get("until"), arguments.get("max_tensor")
        options = RunOptions(
            values=wanted_keys(arguments.get("values", self.keep)),
            until=None if until is None else (arguments.get("path", ()), until.id),
            seed=arguments.get("seed", 0),
            max_tensor=value_limit() if max_tensor is None else max_tensor,
            memory_limit=arguments.get("memory_limit") or self.memory_limit,
            time_limit=arguments.get("time_limit"),
            fresh=arguments.get("fresh", False) or bool(arguments.get("breakpoints")),
            watched=bool(arguments.get("breakpoints")),
        )
        given = feeds_by_id(self.graph, feeds or {})
        conditions = tuple(compile_breakpoint(b, self.model) for b in arguments.get("breakpoints", ()))
        return Request(snapshot, given, options, conditions)

    @property
    def is_prepared(self) -> bool:
        """Return whether `request` has nothing to read: the document is unchanged since the last read."""
        return self._taken is not None and self._document is not None and self._taken[0] == self._document.revision

    def prepare(self, progress: Progress = SILENT) -> ModelSnapshot:
        """Read the model for the requests to come, checking `progress` every few nodes."""
        document = self._document
        with self._preparing:
            if self._taken is not None and self.is_prepared:
                return self._taken[1]
            snapshot = self.snapshots.take(state=0 if document is None else document.current.id, progress=progress)
            if document is not None:
                self._taken = document.revision, snapshot
            return snapshot


class Session(SessionBase):
    """Runs one graph of a model in this process and remembers what it computed.

    A later run computes only what an edit or another feed changed. `budget` is how many bytes of values are kept
    (see `cache_budget`); what does not fit leaves a summary and is computed again on demand. Values in results are
    those that later runs go on from: copy one before changing it.

    `memory_limit` is how many bytes inputs, weights and values may take together; where weights alone would take most
    of it, they are read from their file for each node that needs them. What a kernel needs only while it computes is
    not counted together: each such array must fit into what is left. With `keep` "outputs", or names of values, all
    others are freed after their last use.
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
        self.memory_limit, self.keep = memory_limit, keep
        self.engine = Engine(cache_budget() if budget is None else budget)

    def make_inputs(self, recipe: Recipe, progress: Progress = SILENT) -> dict[str, RuntimeValue]:
        """Values for the inputs by name. ModelError when one cannot be made. Any thread that may wait."""
        return recipe.make(progress)

    def run(
        self,
        feeds: Mapping[Any, Any] | None = None,
        *,
        progress: Progress = SILENT,
        observer: Observer | None = None,
        **arguments: Unpack[RunArguments],
    ) -> RunResult:
        """Run with values for the inputs; takes what `request` takes. Failures and limits are in the result.

        ModelError when an input that is needed is not given, or when `values` names one that does not exist.
        """
        return self.perform(self.request(feeds, **arguments), progress=progress, observer=observer)

    def perform(self, request: Request, *, progress: Progress = SILENT, observer: Observer | None = None) -> RunResult:
        """Perform a request, to the first breakpoint or the end."""
        stepper = self.engine.start(request, progress=progress, observer=observer)
        stepper.resume()
        return stepper.result()

    def steps(
        self,
        request: Request | Mapping[Any, Any] | None = None,
        *,
        progress: Progress = SILENT,
        observer: Observer | None = None,
        **arguments: Unpack[RunArguments],
    ) -> Stepper:
        """A run to go through node by node, from a request or from what `request` takes. Constants are computed now."""
        if not isinstance(request, Request):
            request = self.request(request, **arguments)
        stepper = self.engine.start(request, progress=progress, observer=observer)
        stepper.node_of = self.snapshots.nodes.get
        return stepper

    def forget(self) -> None:
        """Release all computed values; weights prepared for kernels stay."""
        self.engine.forget()


def wanted_keys(values: Wanted) -> tuple[ValueKey | str, ...] | None:
    """Return the content of `Options.values` for a request."""
    if isinstance(values, str):
        return None if values == "all" else () if values == "outputs" else (values,)
    return tuple(v if isinstance(v, str) else ((), v.id) for v in values)


def feeds_by_id(graph: Graph, feeds: Mapping[Any, Any]) -> Feeds:
    """Feeds by id of the value, each held against the declared type."""
    by_name = {v.name: v for v in (*graph.initializers, *graph.inputs)}
    given: Feeds = {}
    for key, content in feeds.items():
        value = key if isinstance(key, Value) else by_name.get(key)
        if value is None or (value not in graph.inputs and value.initializer is None):
            names = ", ".join(repr(v.name) for v in graph.inputs)
            raise ModelError("No such input", f"the graph has no input {key!r}; it has {names or 'none'}")
        declared = value.type
        if declared is None and value.initializer is not None:
            declared = TensorType(value.initializer.element_type)
        given[value.id] = normalise(content, declared, value.name)
    return given
