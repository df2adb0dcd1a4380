"""How recordings refer to the objects of a model: by numbers, see `numbers`, or here by their names."""

from __future__ import annotations

from typing import Any, Protocol

from model.errors import ModelError
from model.graph import Function, Graph, Model, Node, TrainingInfo, Value
from model.io.payloads import Payload
from model.io.tensors import TensorFiles
from model.tensors import SparseTensor, Tensor


class References(Protocol):
    """Refers to objects of a model: by number or by name."""

    def of(self, target: Any) -> Any:
        """How an object that is in the model is written."""

    def find(self, reference: Any, kind: type[Any]) -> Any:
        """The object a reference means; ModelError when there is none."""

    def add(self, made: Any, reference: Any) -> None:
        """A new object comes with what is being read, under this reference."""

    def new(self, made: Any) -> Any:
        """The reference a new object gets while it is written."""

    def removed(self, node: Node) -> None:
        """A node leaves its graph with this step; later steps of the same edit may still speak of it."""

    def left(self, value: Value) -> None:
        """A value stops being an input or constant with this step; later steps of the edit may still speak of it."""

    def tensor(self, tensor: Tensor) -> Any:
        """How to refer to a tensor of the opened file instead of writing its values; None when it is not one."""

    def find_tensor(self, reference: Any) -> Tensor:
        """The tensor of the opened file."""

    def put(self, piece: Payload) -> Any:
        """A reference to bytes that are too many for a line; None when they must be in it all the same."""

    def get(self, reference: Any) -> bytes:
        """The bytes of such a reference."""

    @property
    def files(self) -> TensorFiles:
        """Where tensors look for values in other files."""


class Names:
    """Refers by name, so that a script made on one export of a model applies to the next.

    A value is its name, a node its name or, unnamed, ``=> name of its first output``; inside a body or function the
    path of the graph stands before it: ``main/If_3.then_branch: Relu_1``. Where names are not unique, ``#2`` says
    which one. Looking one up costs a walk over its graph.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._initial = {
            id(v.initializer): v.name
            for v in model.graph.initializers
            if v.initializer is not None and not isinstance(v.initializer, SparseTensor)
        }
        self._kept = [v.initializer for v in model.graph.initializers]
        self._made: dict[str, Any] = {}
        self._made_names: dict[Any, str] = {}
        self._removals = 0

    # -- writing -------------------------------------------------------------------------------------------------

    def of(self, target: Any) -> Any:
        """How a person would say it; None for a value, function or training info that is not in the model."""
        match target:
            case Model():
                return "model"
            case Function():
                present = any(f is target for f in self._model.functions)
                return "::".join(target.key).removesuffix("::") if present else None
            case TrainingInfo():
                found = [i for i, t in enumerate(self._model.training_info) if t is target]
                return found[0] if found else None
            case Graph():
                return self._path(target)
            case Node():
                graph = target.graph
                if graph is None:
                    return self._made_names.get(target)
                return self._prefix(graph) + _nth(target, list(graph.nodes), _node_name)
            case Value():
                return self._value(target)
        return None

    def _value(self, value: Value) -> str | None:
        graph = value.graph
        if graph is not None and self._holds(graph):
            present = [*graph.values()]
            if value in present:
                return self._prefix(graph) + _nth(value, present, lambda v: v.name)
        return self._made_names.get(value)

    def _holds(self, graph: Graph) -> bool:
        """Whether a graph is in the model now; one that was taken out still knows whose it was."""
        owner = graph.root.owner
        if isinstance(owner, Model):
            return owner is self._model and graph.root is owner.graph
        return owner is not None and not isinstance(owner, Node) and self.of(owner) is not None

    def _prefix(self, graph: Graph) -> str:
        return "" if graph is self._model.graph else f"{self._path(graph)}: "

    def _path(self, graph: Graph) -> str:
        owner = graph.owner
        if isinstance(owner, Function):
            return f"function {self.of(owner)}"
        if isinstance(owner, TrainingInfo):
            return f"training {self.of(owner)} {'initialization' if owner.initialization is graph else 'algorithm'}"
        if isinstance(owner, Node) and owner.graph is not None:
            for attribute in owner.attributes.values():
                for index, body in enumerate(attribute.graphs):
                    if body is graph:
                        which = f"{attribute.name}[{index}]" if attribute.kind.is_list else attribute.name
                        name = _nth(owner, list(owner.graph.nodes), _node_name)
                        return f"{self._path(owner.graph)}/{name}.{which}"
        return "main"

    def new(self, made: Any) -> str:
        """A name for what a step brings along, until it is in the model."""
        reference = f"new {len(self._made_names) + 1}"
        self._made_names[made] = reference
        return reference

    def removed(self, node: Node) -> None:
        """A node left its graph: until the edit ends it goes by this, and what it gave too.

        For an output may go to another node, and a body that alone uses it does not say which graph it is of.
        """
        self._removals += 1
        reference = f"removed {self._removals}"
        self._made_names[node] = reference
        self._made[reference] = node
        for index, value in enumerate(node.outputs):
            if value is not None:
                self._made_names.setdefault(value, f"{reference} output {index}")
                self._made[f"{reference} output {index}"] = value

    def left(self, value: Value) -> None:
        """A value is no input or constant of its graph any more: if only bodies use it, it goes by this meanwhile."""
        reference = f"left {self._value(value)}"
        self._made_names[value] = reference
        self._made[reference] = value

    def settled(self) -> None:
        """An edit is complete: what it brought is in the model and goes by its own name."""
        self._made_names.clear()
        self._made.clear()
        self._removals = 0

    def tensor(self, tensor: Tensor) -> Any:
        """The initializer of the main graph that held it when the script begins."""
        return self._initial.get(id(tensor))

    def put(self, _piece: Payload) -> Any:
        """A script stands alone: the values are in it."""
        return None

    # -- reading -------------------------------------------------------------------------------------------------

    def get(self, reference: Any) -> bytes:
        """There is nothing beside a script."""
        raise ModelError("The script is damaged", f"{reference!r} is not in it.")

    @property
    def files(self) -> TensorFiles:
        """Where tensors look for values in other files: nowhere."""
        return TensorFiles(None, None)

    def add(self, made: Any, reference: Any) -> None:
        """What a step brings along."""
        self._made[str(reference)] = made

    def find(self, reference: Any, kind: type[Any]) -> Any:
        """The object a reference means now."""
        if str(reference) in self._made:
            return self._made[str(reference)]
        if kind is Model:
            return self._model
        found: Any = None
        if kind is TrainingInfo:
            found = dict(enumerate(self._model.training_info)).get(reference)
        elif kind is Function:
            found = next((f for f in self._model.functions if self.of(f) == reference), None)
        elif kind is Graph:
            found = next((g for g in self._model.graphs() if self._path(g) == reference), None)
        else:
            found = self._find_in_graph(str(reference), kind)
        if found is None:
            raise ModelError(f"There is no {kind.__name__.lower()} {reference!r}", "The script does not fit the model.")
        return found

    def _find_in_graph(self, reference: str, kind: type[Any]) -> Any:
        graph, name = self._model.graph, reference
        if reference.startswith(("main/", "function ", "training ")) and ": " in reference:
            path, _, name = reference.rpartition(": ")
            graph = self.find(path, Graph)
        present: list[Any] = list(graph.nodes) if kind is Node else list(graph.values())
        naming = _node_name if kind is Node else (lambda v: v.name)
        for target in present:
            if naming(target) == name:
                return target
        return next((t for t in present if _nth(t, present, naming) == name), None) if "#" in name else None

    def find_tensor(self, reference: Any) -> Tensor:
        """The tensor of an initializer of the main graph as it was at the start."""
        for known, name in self._initial.items():
            if name == reference:
                for tensor in self._kept:
                    if id(tensor) == known and isinstance(tensor, Tensor):
                        return tensor
        raise ModelError(f"There is no initializer {reference!r}", "The script does not fit the model.")


def _node_name(node: Node) -> str:
    if node.name:
        return node.name
    first = next((v.name for v in node.outputs if v is not None), "")
    return f"=> {first}"


def _nth(target: Any, present: list[Any], naming: Any) -> str:
    """The name of one of several, with ``#2`` when it is the second of that name."""
    name = str(naming(target))
    same = [t for t in present if naming(t) == name]
    return name if same[0] is target else f"{name}#{next(i for i, t in enumerate(same, 1) if t is target)}"
