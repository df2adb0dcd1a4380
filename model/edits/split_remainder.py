"""Content of a model that belongs to no split part: training graphs, and unused functions, inputs and constants.

Training graphs refer to values that a part lacks, so a part could be neither checked nor run with them; unused objects
are in no selection. A part stores them as text.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable, Iterable

from onnx_workbench.model.analysis.call_graph import functions_used
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.clone import Cloner
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.history.steps import SetField, SetGraphInputs, SetInitializer, Step
from onnx_workbench.model.ir.graph import Function, Graph, Model, TrainingInfo, Value

_LARGEST = 1 << 24  # bytes; metadata should not grow beyond this


def encode_remainder(model: Model) -> str:
    """Encode the remainder of a model as text; empty if there is none, or it is too large."""
    from onnx_workbench.model.io.writer.save import to_bytes
    from onnx_workbench.model.io.writer.storage_plan import DataLayout, Storage

    functions, idle = uncalled(model), unused(model)
    graphs = [g for t in model.training_info for g in _graphs(t)]
    constants = (v.initializer for v in (*idle, *(v for g in graphs for v in g.initializers)))
    weights = sum(constant.nbytes for constant in constants if constant is not None)
    if not (functions or idle or model.training_info) or weights > _LARGEST:
        return ""
    rest = Model(Graph("apart"), ir_version=model.ir_version)
    _add(lambda step: step.apply(), rest.graph, idle)
    rest.opset_imports = dict(model.opset_imports)
    rest.functions, rest.training_info = functions, model.training_info
    try:
        data = to_bytes(rest, Storage(DataLayout.INLINE))
    except (ModelError, OSError):
        return ""  # weights that cannot be read
    return base64.b64encode(zlib.compress(data)).decode() if len(data) <= _LARGEST else ""


def uncalled(model: Model) -> tuple[Function, ...]:
    """Return the functions that the main graph does not need, directly or indirectly."""
    called = set(functions_used(model, list(model.graph.nodes)))
    return tuple(f for f in model.functions if f not in called)


def unused(model: Model) -> list[Value]:
    """Return the unused inputs and constants of the main graph."""
    used = {v for graph in model.graph.walk() for node in graph.nodes for v in node.inputs}.union(model.graph.outputs)
    return [v for v in dict.fromkeys((*model.graph.inputs, *model.graph.initializers)) if v not in used]


def restore_remainder(edit: Transaction, text: str, order: Iterable[str]) -> None:
    """Restore into a model what `encode_remainder` encoded; `order` has the labels of all its functions."""
    model = edit.model
    rest = _unpacked(text)
    if rest is not None:
        names = {value.name for value in model.graph.values()}
        idle = [v for v in dict.fromkeys((*rest.graph.inputs, *rest.graph.initializers)) if v.name not in names]
        _add(edit.do, model.graph, idle)
        present = {function.key for function in model.functions}
        functions = [*model.functions, *(f for f in rest.functions if f.key not in present)]
        for function in functions:
            function.model = model
        place = {label: index for index, label in enumerate(order)}
        ordered = sorted(functions, key=lambda f: place.get(label_of(f.key), len(place)))
        edit.do(SetField(model, "functions", tuple(ordered)))
        if not model.training_info:
            here = {value.name: value for value in model.graph.values()}
            trainings = tuple(_linked(training, here, model) for training in rest.training_info)
            edit.do(SetField(model, "training_info", trainings))


def _add(do: Callable[[Step], object], graph: Graph, values: Iterable[Value]) -> None:
    """Add copies of values to a graph, as constants and as inputs."""
    cloner, inputs = Cloner(), list(graph.inputs)
    for value in values:
        copy = cloner.value(value)
        tensor, copy.initializer = copy.initializer, None
        if tensor is not None:
            do(SetInitializer(graph, copy, tensor))
        if value.is_input:
            inputs.append(copy)
    do(SetGraphInputs(graph, tuple(inputs)))


def label_of(key: tuple[str, str, str]) -> str:
    """Return a function's domain, name and overload as one text."""
    return "\n".join(key)


def _unpacked(text: str) -> Model | None:
    from onnx_workbench.model.io.reader.read import load

    if not text:
        return None
    try:
        reader = zlib.decompressobj()
        data = reader.decompress(base64.b64decode(text, validate=True), _LARGEST)
        return load(data) if reader.eof else None
    except (ValueError, zlib.error, ModelError):
        return None


def _linked(training: TrainingInfo, here: dict[str, Value], model: Model) -> TrainingInfo:
    """Return a copy that uses values of the model for the names it does not define."""
    copies = [_copy(graph, here) for graph in (training.initialization, training.algorithm)]
    result = TrainingInfo(*copies)
    result.initialization_binding, result.update_binding = training.initialization_binding, training.update_binding
    result._source = training._source
    result.model = model
    return result


def _copy(graph: Graph | None, here: dict[str, Value]) -> Graph | None:
    if graph is None:
        return None
    own = {*graph.inputs, *graph.initializers}
    used = {v for inner in graph.walk() for n in inner.nodes for v in n.inputs if v is not None}
    open_ = [v for v in (*used, *graph.outputs) if v.producer is None and v not in own and v.name in here]
    return Cloner({value: here[value.name] for value in open_}).graph(graph)


def _graphs(training: TrainingInfo) -> list[Graph]:
    return [g for g in (training.initialization, training.algorithm) if g is not None]
