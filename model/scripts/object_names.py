"""Names that edit scripts use for objects, so that edits of one export of a model fit the next export."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.steps import SetAttribute, SetField, SetInitializer, Step
from onnx_workbench.model.io.reader.payloads import Payload
from onnx_workbench.model.io.tensors.proto_tensor import TensorFiles
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, TrainingInfo, Value
from onnx_workbench.model.ir.tensors import Tensor


class ObjectNames:
    """Refers to objects by the names they have when an edit begins, and to objects added by the edit as ``new 1`` ….

    So the steps of an edit may remove, rename, rewire and restore an object: it has one reference until the edit is
    complete. A value is referred to by its name, a node by its name or, if unnamed, by ``=> name of its first output``;
    objects in a body or function are prefixed by the path of their graph: ``main/If_3.then_branch: Relu_1``. Duplicate
    names get ``#2`` …. An edit costs a walk over the model if the previous one renamed, added or removed something.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._tensors: dict[str, Tensor] = {}
        for value in model.graph.initializers:
            if isinstance(value.initializer, Tensor):
                self._tensors.setdefault(value.name, value.initializer)
        self._holders = {id(tensor): name for name, tensor in self._tensors.items()}
        self._index: _Index | None = None
        self._made: dict[str, Any] = {}
        self._made_names: dict[Any, str] = {}
        self._count = 0
        self._is_same = True

    def before(self, step: Step) -> None:
        """Handle a step that is about to be applied: if it may change names, the next edit needs a new index."""
        if not _leaves_names(step):
            self._is_same = False

    def settled(self) -> None:
        """Handle the end of an edit: the objects it added are referred to by their own names from now on."""
        self._made_names.clear()
        self._made.clear()
        self._count = 0
        if not self._is_same:
            self._index = None

    @property
    def _names_before(self) -> _Index:
        """The names when the edit began: each step is encoded or decoded before it is applied."""
        if self._index is None:
            self._index, self._is_same = _Index(self._model), True
        return self._index

    # -- writing -------------------------------------------------------------------------------------------------

    def of(self, target: Any) -> Any:
        """Return the name of an object; None for one that was not in the model when the edit began and was not added
        since.
        """
        reference = self._names_before.references.get(target)  # always, so that the index is built in time
        return self._made_names.get(target, reference)

    def new(self, made: Any) -> str:
        """Return a reference for an object that a step adds, valid until the end of the edit."""
        self._count += 1
        while self._names_before.is_taken(reference := f"new {self._count}"):
            self._count += 1
        self._made_names[made] = reference
        return reference

    def tensor(self, tensor: Tensor) -> Any:
        """Return the name of the main graph's initializer that held the tensor at the beginning, or None."""
        return self._holders.get(id(tensor))

    def store(self, _piece: Payload) -> Any:
        """Return None: a script contains its values."""
        return None

    # -- reading -------------------------------------------------------------------------------------------------

    def get(self, reference: Any) -> bytes:
        """Raise ModelError: a script refers to no bytes outside it."""
        raise ModelError("The script is damaged", f"{reference!r} is not in it.")

    @property
    def files(self) -> TensorFiles:
        """Access to external files of tensors: none."""
        return TensorFiles(None, None)

    def add(self, made: Any, reference: Any) -> None:
        """Register an object that a step adds."""
        self._made[reference] = made
        self._made_names[made] = reference  # `three_way_merge` encodes current lists while decoding
        self._count += 1

    def find(self, reference: Any, kind: type[Any]) -> Any:
        """Return the object that had a name when the edit began, or that the edit added."""
        known = self._names_before.found[kind].get(reference)
        found = self._made.get(reference, known)
        if not isinstance(found, kind):
            raise ModelError(f"There is no {kind.__name__.lower()} {reference!r}", "The script does not fit the model.")
        return found

    def find_tensor(self, reference: Any) -> Tensor:
        """Return the tensor that an initializer of the main graph held at the beginning."""
        tensor = self._tensors.get(reference)
        if tensor is None:
            raise ModelError(f"There is no initializer {reference!r}", "The script does not fit the model.")
        return tensor


class _Index:
    """Names of all objects of a model at one moment."""

    def __init__(self, model: Model) -> None:
        self.references: dict[Any, Any] = {}
        self.found: dict[type[Any], dict[Any, Any]] = {
            kind: {} for kind in (Model, Function, TrainingInfo, Graph, Node, Value)
        }
        self._add_names(Model, {"model": model})
        self._add_names(TrainingInfo, dict(enumerate(model.training_info)))
        self._add_names(Function, _with_unique_names(("::".join(f.key).removesuffix("::"), f) for f in model.functions))
        for path, root in self._roots(model):
            self._add_graph(path, root)
        self._add_undefined(model)

    def is_taken(self, reference: str) -> bool:
        """Return whether something has the name."""
        return any(reference in found for found in self.found.values())

    def _roots(self, model: Model) -> Iterator[tuple[str, Graph]]:
        yield "main", model.graph
        for function in model.functions:
            yield f"function {self.references[function]}", function.body
        for number, training in enumerate(model.training_info):
            for field in ("initialization", "algorithm"):
                graph = getattr(training, field)
                if graph is not None:
                    yield f"training {number} {field}", graph

    def _add_graph(self, path: str, root: Graph) -> None:
        """Add a graph and its bodies, without recursion."""
        pending = [(path, root)]
        while pending:
            path, graph = pending.pop()
            self._add_names(Graph, {path: graph})
            nodes = _with_unique_names((_node_name(node), node) for node in graph.nodes)
            self._add_names(Node, nodes, self.prefix(graph))
            self._add_names(
                Value, _with_unique_names((value.name, value) for value in _defined(graph)), self.prefix(graph)
            )
            bodies = [
                (f"{path}/{name}.{which}", body)
                for name, node in nodes.items()
                if node.bodies
                for which, body in _bodies(node)
            ]
            pending.extend(reversed(bodies))

    def _add_undefined(self, model: Model) -> None:
        """Add undefined names, which are shared by a graph and all its bodies."""
        for graph in model.graphs():
            used = chain.from_iterable(node.inputs for node in graph.nodes)
            annotated = (v for a in graph.quantization_annotations for v in (a.value, *(v for _, v in a.parameters)))
            for value in chain(used, graph.outputs, graph.declared, annotated):
                if value is not None and value not in self.references:
                    self._add_names(Value, {value.name: value}, self.prefix(graph.root))

    def prefix(self, graph: Graph) -> str:
        """Return the prefix of the names in a graph."""
        path = self.references[graph]
        return "" if path == "main" else f"{path}: "

    def _add_names(self, kind: type[Any], named: Mapping[Any, Any], prefix: str = "") -> None:
        found = self.found[kind]
        for name, target in named.items():
            reference = prefix + name if prefix else name
            if reference in found:  # the full reference of another object
                reference = _free(reference, found)
            found[reference] = target
            self.references[target] = reference


def _leaves_names(step: Step) -> bool:
    """Return whether a step keeps the set of objects in the model and all their names."""
    match step:
        case SetField():
            return step.field not in _NAMING
        case SetAttribute():
            old = step.node.attributes.get(step.name)
            return not (old is not None and old.graphs) and not (step.attribute is not None and step.attribute.graphs)
        case SetInitializer():
            return step.tensor is not None and step.value.initializer is not None
    return False


_NAMING = frozenset({
    "name", "domain", "overload", "functions", "training_info", "initialization", "algorithm", "declared",
    "quantization_annotations",
})  # fmt: skip


def _defined(graph: Graph) -> Iterable[Value]:
    """Return the values defined in a graph, each once. `Value.graph` is not used, as undefined values keep theirs."""
    outputs = (value for node in graph.nodes for value in node.outputs if value is not None)
    return dict.fromkeys(chain(graph.inputs, graph.initializers, outputs))


def _bodies(node: Node) -> Iterator[tuple[str, Graph]]:
    for attribute in node.attributes.values():
        for index, body in enumerate(attribute.graphs):
            yield (f"{attribute.name}[{index}]" if attribute.kind.is_list else attribute.name), body


def _node_name(node: Node) -> str:
    if node.name:
        return node.name
    first = next((v.name for v in node.outputs if v is not None), "")
    return f"=> {first}"


def _with_unique_names(named: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Map unique names to objects: the first of several with one name keeps it, the others get a number appended."""
    apart: dict[str, Any] = {}
    others = []
    for name, target in named:
        if apart.setdefault(name, target) is not target:
            others.append((name, target))
    seen: Counter[str] = Counter()
    for name, target in others:
        seen[name] += 1
        apart[_free(name, apart, seen[name] + 1)] = target
    return apart


def _free(name: str, taken: Mapping[Any, Any], number: int = 2) -> str:
    while f"{name}#{number}" in taken:
        number += 1
    return f"{name}#{number}"
