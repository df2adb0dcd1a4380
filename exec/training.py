"""Training as TrainingInfoProto describes it: initialization, then steps that assign new values to initializers.

A step runs the model's graph and the algorithm's graph as one, as the IR specification defines: the algorithm refers to
values of the model by name, and its bindings assign values to initializers, all at once, at its end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from onnx_workbench.exec.engine.engine import Engine
from onnx_workbench.exec.engine.request import Request, RunOptions
from onnx_workbench.exec.engine.snapshot import ABSENT, GraphSnapshot, ModelSnapshot, NodeSnapshot, SnapshotCache
from onnx_workbench.exec.inputs.feeds import normalise
from onnx_workbench.exec.results.run_result import RunResult
from onnx_workbench.exec.results.values import MISSING
from onnx_workbench.exec.values.arrays import RuntimeValue
from onnx_workbench.model.budget import cache_budget
from onnx_workbench.model.edits.initializers import set_tensor
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document, Transaction
from onnx_workbench.model.ir.graph import Graph, Model, TrainingInfo, Value
from onnx_workbench.model.ir.tensors import ArrayTensor
from onnx_workbench.model.ir.types import TensorType
from onnx_workbench.model.progress import SILENT, Progress


class Trainer:
    """Trains a model by one of its training infos (TrainingInfoProto): `initialize`, then `step` with data.

    `parameters` has the current values of the initializers that were assigned, by name; the model stays as it is until
    `write` puts them into it. `index` is the number of the training info; `budget` the bytes of values that are kept
    between steps. Reads the model here, as it is now: on the thread that owns it. ModelError: there is no such
    training info.

    >>> import numpy as np, onnx, onnx_workbench as ow
    >>> proto = onnx.parser.parse_model('''<ir_version: 8, opset_import: ["" : 17, "ai.onnx.preview.training" : 1]>
    ...     g (float[2] x) => (float[2] y) <float[2] w = {0, 0}> { y = Mul(x, w) }''')
    >>> algorithm = onnx.parser.parse_graph('''step (float[2] target) => (float loss, float[2] next)
    ...     <float rate = {0.1}>
    ...     { error = Sub(y, target) square = Mul(error, error) loss = ReduceSum<keepdims = 0>(square)
    ...       slope = ai.onnx.preview.training.Gradient<xs = ["w"], y = "loss">(w)
    ...       change = Mul(rate, slope) next = Sub(w, change) }''')
    >>> info = proto.training_info.add(algorithm=algorithm)
    >>> _ = info.update_binding.add(key="w", value="next")
    >>> model = ow.load(proto.SerializeToString())
    >>> trainer = ow.Trainer(model)
    >>> data = {"x": np.array([1, 2], np.float32), "target": np.array([2, 2], np.float32)}
    >>> losses = [float(trainer.step(data).values["loss"]) for _ in range(20)]
    >>> losses[0], losses[-1] < 0.1
    (8.0, True)
    >>> with ow.Document(model).edit("Train") as edit:
    ...     trainer.write(edit)
    >>> model.graph.initializers[0].initializer.numpy().round(1).tolist()
    [2.0, 1.0]
    """

    def __init__(self, model: Model | Document, index: int = 0, *, budget: int | None = None) -> None:
        model = model if isinstance(model, Model) else model.model
        if not 0 <= index < len(model.training_info):
            found = f"the model has {len(model.training_info)} training infos; number {index} was asked for"
            raise ModelError("The model cannot be trained", found)
        self.model = model
        self.info: TrainingInfo = model.training_info[index]
        self.parameters: dict[str, RuntimeValue] = {}
        self._engine = Engine(cache_budget() if budget is None else budget)
        self._snapshots = SnapshotCache(model)
        main = self._snapshots.take()
        self._start = self._of(main, self.info.initialization)
        self._step = self._combined(main, self.info.algorithm)
        graphs = [g for g in (model.graph, self.info.algorithm) if g is not None]
        self._initializers = {v.name: v for g in graphs for v in g.initializers}
        self._inputs = {v.name: v for g in graphs for v in g.inputs}

    def _of(self, main: ModelSnapshot, graph: Graph | None) -> ModelSnapshot | None:
        if graph is None:
            return None
        snapshot = self._snapshots.graph_snapshot(graph)
        return replace(main, uid=-snapshot.uid, graph=snapshot, input_types=self._types(graph))

    def _types(self, *graphs: Graph) -> dict[int, Any]:
        return {v.id: v.type for g in graphs for v in g.inputs}

    def _combined(self, main: ModelSnapshot, algorithm: Graph | None) -> ModelSnapshot | None:
        """Return both graphs as one; names that the algorithm does not define are the model's."""
        if algorithm is None:
            return None
        first, second = main.graph, self._snapshots.graph_snapshot(algorithm)
        by_name = {main.names[v]: v for v in reversed(_defined(first))}
        own = set(_defined(second))
        used = {v for g in second.walk() for n in g.nodes for v in n.inputs} | {
            v for g in second.walk() for v in g.outputs
        }
        inner = {v for g in second.walk() for v in _defined(g)}
        same = {v: by_name[main.names[v]] for v in used - own - inner - {ABSENT} if main.names[v] in by_name}
        joined = _renumbered(second, same)
        graph = replace(
            first,
            uid=-second.uid,
            inputs=first.inputs + joined.inputs,
            outputs=first.outputs + joined.outputs,
            input_types=first.input_types + joined.input_types,
            output_types=first.output_types + joined.output_types,
            initializers=first.initializers + joined.initializers,
            nodes=first.nodes + joined.nodes,
        )
        return replace(main, uid=-second.uid, graph=graph, input_types=self._types(self.model.graph, algorithm))

    def initialize(self, *, seed: int = 0, progress: Progress = SILENT) -> RunResult | None:
        """Run the initialization and assign its results to parameters; None if there is no initialization."""
        if self._start is None:
            return None
        return self._run(self._start, {}, self.info.initialization_binding, self.info.initialization, seed, progress)

    def step(self, feeds: Mapping[str, Any] | None = None, *, seed: int = 0, progress: Progress = SILENT) -> RunResult:
        """Run the model and the algorithm on `feeds`, inputs of either by name, and assign the results to parameters.

        The result has the values of both graphs. If a node fails, its failures are in the result, and the parameters
        are unchanged. ModelError: an input does not exist or has another type; a binding refers to nothing.
        """
        if self._step is None:
            raise ModelError("The model cannot be trained", "its training info has no algorithm")
        return self._run(self._step, feeds or {}, self.info.update_binding, self.info.algorithm, seed, progress)

    def write(self, edit: Transaction) -> None:
        """Put the parameters into the initializers of the model, as part of an edit of its document."""
        for name, value in self.parameters.items():
            initializer = self._initializers[name]
            if initializer.initializer is None:
                raise ModelError(f"The initializer {name} was deleted", "Make another Trainer for the model as it is.")
            set_tensor(edit, initializer, ArrayTensor(value))

    def _run(
        self,
        snapshot: ModelSnapshot,
        feeds: Mapping[str, Any],
        binding: tuple[tuple[str, str], ...],
        graph: Graph | None,
        seed: int,
        progress: Progress,
    ) -> RunResult:
        given = {v.id: value for v, value in self._normalised_feeds(feeds)}
        bound = {self._initializers[n].id: v for n, v in self.parameters.items()}
        options = RunOptions(seed=seed)
        run = self._engine.start(Request(snapshot, bound | given, options), progress=progress)
        run.resume()
        result = run.result()
        if result.ok and graph is not None:
            self.parameters.update(self._assigned(result, binding, graph))
        return result

    def _normalised_feeds(self, feeds: Mapping[str, Any]) -> list[tuple[Value, RuntimeValue]]:
        unknown = [name for name in feeds if name not in self._inputs]
        if unknown:
            raise ModelError("No such input", f"{', '.join(unknown)}; the step takes {', '.join(self._inputs)}")
        return [(self._inputs[n], normalise(v, self._inputs[n].type, n)) for n, v in feeds.items()]

    def _assigned(
        self, result: RunResult, binding: tuple[tuple[str, str], ...], graph: Graph
    ) -> dict[str, RuntimeValue]:
        outputs = {v.name: v for v in graph.outputs}
        assigned = {}
        for target, source in binding:
            if target not in self._initializers or source not in outputs:
                missing = f"initializer {target!r}" if target not in self._initializers else f"output {source!r}"
                raise ModelError("A binding of the training info refers to a missing value", f"there is no {missing}")
            value = result.find(((), outputs[source].id))
            if value is MISSING:
                value = result.value(source)
            tensor = self._initializers[target].initializer
            declared = TensorType(tensor.element_type) if tensor is not None else None
            assigned[target] = normalise(value, declared, target)
        return assigned


def _defined(graph: GraphSnapshot) -> list[int]:
    made = [v for node in graph.nodes for v in node.outputs if v != ABSENT]
    return [*graph.inputs, *(v for v, _ in graph.initializers), *made]


def _renumbered(graph: GraphSnapshot, same: Mapping[int, int]) -> GraphSnapshot:
    """Return the graph with some values replaced by others, in its bodies too."""
    return replace(
        graph,
        outputs=tuple(same.get(v, v) for v in graph.outputs),
        nodes=tuple(_renumbered_node(n, same) for n in graph.nodes),
    )


def _renumbered_node(node: NodeSnapshot, same: Mapping[int, int]) -> NodeSnapshot:
    attributes = node.attributes
    if node.bodies:
        attributes = tuple(
            replace(a, value=_renumbered(a.value, same)) if isinstance(a.value, GraphSnapshot) else a
            for a in attributes
        )
    return replace(node, inputs=tuple(same.get(v, v) for v in node.inputs), attributes=attributes)
