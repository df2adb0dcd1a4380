"""Two ways to refer to the objects of a model: by the order they were met in, or by their names."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, Protocol

from model.errors import ModelError
from model.graph import Function, Graph, Model, Node, TrainingInfo, Value
from model.io.payloads import Payload
from model.io.source import Source
from model.io.tensors import TensorFiles
from model.io.write import kept_declarations
from model.progress import SILENT, Progress
from model.queries.scope import enclosing
from model.recording.store import Parts
from model.tensors import SparseTensor, Tensor

_STEP = 1 << 20

#: A part of a file, or the length of bytes and what gives them when they are written.
Piece = Payload | tuple[int, Parts]


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

    def put(self, piece: Piece) -> Any:
        """A reference to bytes that are too many for a line; None when they must be in it all the same."""

    def get(self, reference: Any) -> bytes:
        """The bytes of such a reference."""

    @property
    def files(self) -> TensorFiles:
        """Where tensors look for values in other files."""


class Numbers:
    """Numbers objects in the order in which reading the model's file meets them; new ones count on.

    The same file gives the same numbers, so a journal of numbers fits the file it was begun on and no other.
    Making one costs a walk over the model.
    """

    def __init__(
        self,
        model: Model,
        progress: Progress = SILENT,
        base: Source | None = None,
        keep: Callable[[int, Parts], tuple[int, int]] | None = None,
        kept: Source | None = None,
    ) -> None:
        self._model, self._base, self._keep, self._data = model, base, keep, kept
        self._objects: list[Any] = []  # by number; a list grows without the pause that a large table makes
        self._added: dict[int, Any] = {}  # what came in while a journal is replayed, in any order
        self._numbers: dict[Any, int] = {}
        self._tensors: dict[int, int] = {}  # by id, the number of the value that held each
        self._held: dict[int, Tensor | SparseTensor] = {}  # by that number
        #: Tells one order of objects from another, so that a journal is not replayed on the wrong ones.
        self.fingerprint = 0
        read = _AsRead(model, progress)
        for target, graph in progress.paced(_everything(model)):
            if target in self._numbers:
                continue
            held = read.value(target, graph) if graph is not None and isinstance(target, Value) else target
            number = self._numbers.get(held)
            if number is None:
                number = self._enter(held)
                self._take_down(held, number)
            self._numbers[target] = number

    def _take_down(self, target: Any, number: int) -> None:
        """Note what an object is called, and the constant it holds: so that its tensor can be spoken of by its number.

        Tensors are compared by identity, so they are kept alive, or a new one could get the same.
        """
        name = getattr(target, "name", "").encode("utf-8", "surrogatepass")
        self.fingerprint = zlib.crc32(name + b"\0", self.fingerprint)
        if isinstance(target, Value) and target.initializer is not None:
            self._held[number] = target.initializer
            if isinstance(target.initializer, Tensor):
                self._tensors.setdefault(id(target.initializer), number)

    def _enter(self, target: Any) -> int:
        number = len(self._objects)
        self._numbers[target] = number
        self._objects.append(target)
        return number

    def of(self, target: Any) -> Any:
        """Its number, or None for one that was never met."""
        return self._numbers.get(target)

    def find(self, reference: Any, kind: type[Any]) -> Any:
        """The object of a number."""
        found = None
        if isinstance(reference, int):
            known = 0 <= reference < len(self._objects)
            found = self._objects[reference] if known else self._added.get(reference)
        if isinstance(found, kind):
            return found
        raise ModelError("The journal does not fit this model", f"Nothing has the number {reference}.")

    def add(self, made: Any, reference: Any) -> None:
        """A new object under the number it was written with."""
        if not isinstance(reference, int) or reference < len(self._objects) or reference in self._added:
            raise ModelError("The journal does not fit this model", f"The number {reference} was not expected here.")
        self._added[reference] = made
        self._numbers[made] = reference

    def new(self, made: Any) -> int:
        """The next number."""
        return self._enter(made)

    def removed(self, node: Node) -> None:
        """A number stays with its object."""

    def left(self, value: Value) -> None:
        """A number stays with its object."""

    def tensor(self, tensor: Tensor) -> Any:
        """The initializer that held the tensor when the file was opened."""
        number = self._tensors.get(id(tensor))
        return None if number is None else [number]

    def put(self, piece: Piece) -> Any:
        """Where bytes are: in the file the journal is begun on, else taken up beside the journal."""
        if isinstance(piece, Payload) and piece.source is self._base:
            return ["base", piece.offset, piece.length]
        return None if self._keep is None else ["kept", *self._keep(*_parts(piece))]

    def get(self, reference: Any) -> bytes:
        """The bytes that `put` took up."""
        where, offset, length = reference
        source = self._base if where == "base" else self._data
        if source is None or not (0 <= offset <= offset + length <= source.size):
            raise ModelError("The journal is damaged", f"{length:,} bytes of a tensor are missing.")
        return source.read(offset, length)

    @property
    def files(self) -> TensorFiles:
        """Where tensors of the model look for values in other files."""
        source = self._model.source
        return TensorFiles(None, None) if source is None else source.files

    def find_tensor(self, reference: Any) -> Tensor:
        """That initializer's tensor as it was when the file was opened."""
        (number,) = reference
        tensor = self._held.get(number)
        if isinstance(tensor, Tensor):
            return tensor
        raise ModelError("The journal does not fit this model", f"No initializer has the number {reference}.")


def _parts(piece: Piece) -> tuple[int, Parts]:
    """Length and content of what is written later."""
    if isinstance(piece, Payload):
        return piece.length, lambda: (
            piece.source.read(at, min(_STEP, piece.offset + piece.length - at))
            for at in range(piece.offset, piece.offset + piece.length, _STEP)
        )
    return piece


def _everything(model: Model) -> Iterator[tuple[Any, Graph | None]]:
    """Every object and the graph that mentions it, some several times, in an order that saving and reading keeps.

    So a name that nothing defines comes where it is used: which graph it belongs to is not in the file.
    """
    for target in (model, *model.functions, *model.training_info):
        yield target, None
    pending = list(model.root_graphs())[::-1]
    while pending:  # as `Model.graphs` goes, but never long at one graph
        graph = pending.pop()
        yield graph, None
        bodies: list[Graph] = []
        for node in graph.nodes:
            yield node, graph
            bodies += node.bodies
        pending += reversed(bodies)
        for mentioned in (graph.inputs, graph.initializers):
            for target in mentioned:
                yield target, graph
        for node in graph.nodes:
            for value in node.outputs:
                if value is not None:
                    yield value, graph
        for node in graph.nodes:
            for value in node.inputs:
                if value is not None:
                    yield value, graph
        for value in (*graph.outputs, *kept_declarations(graph)):
            yield value, graph


class _AsRead:
    """Which value a name will mean when the file is read: of undefined ones there is one for each name."""

    def __init__(self, model: Model, progress: Progress) -> None:
        self._progress = progress
        initializers = progress.paced(model.graph.initializers)
        self._state = {value.name: value for value in initializers}  # which training graphs see
        self._defined: dict[Graph, dict[str, Value]] = {}
        self._undefined: dict[tuple[object, str], Value] = {}

    def value(self, value: Value, graph: Graph) -> Value:
        """The value itself where it is defined, else the one that its name means in a graph."""
        if value.is_defined:
            return value
        for level in enclosing(graph):
            if (found := self._names(level).get(value.name)) is not None:
                return found
        owner = graph.root.owner
        if isinstance(owner, TrainingInfo) and value.name in self._state:
            return self._state[value.name]
        return self._undefined.setdefault((owner, value.name), value)

    def _names(self, graph: Graph) -> dict[str, Value]:
        """What a graph defines; of two values with one name the first."""
        found = self._defined.get(graph)
        if found is None:
            found = self._defined[graph] = {}
            made = (value for node in graph.nodes for value in node.outputs if value is not None)
            for value in self._progress.paced(chain(graph.inputs, graph.initializers, made)):
                found.setdefault(value.name, value)
        return found


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

    def put(self, _piece: Piece) -> Any:
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
