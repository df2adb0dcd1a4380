"""Numbers for the objects a journal speaks of, given when each is met first: no look at the whole model is needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice
from typing import Any, Final, NamedTuple

from onnx_workbench.model.analysis.scoping import dependencies
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.steps import (
    RemoveNode,
    SetAttribute,
    SetInitializer,
    SetInput,
    SetInputs,
    SetOutputs,
    Step,
)
from onnx_workbench.model.io.reader.payloads import Payload
from onnx_workbench.model.io.reader.source import Source
from onnx_workbench.model.io.tensors.proto_tensor import TensorFiles
from onnx_workbench.model.io.writer.export_graph import kept_declarations
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, TrainingInfo, Value
from onnx_workbench.model.ir.tensors import Tensor

_APART: Final = 64  # nodes from one that has a number to the next, when the list of a graph is met
_LOOKS: Final = 8  # in one long list during an edit, after which it is noted where everything in it is
_SHARE: Final = 8  # an edit with a step for one in so many nodes of the main graph meets all of it


class ObjectPath(NamedTuple):
    """Where an object is: in which field of which numbered one, at which index, and what it is called there."""

    owner: int
    field: str
    at: int = 0
    name: str = ""


class ObjectIds:
    """Numbers objects as they are met. What is in the model already is told by its place, see `take_met`.

    Whoever reads the journal meets the same objects in the same state of the model, so finds each at its place. New
    objects are numbered as they are written. A node is told by how far it is from one that has a number: the first
    met of a graph costs a walk along its list, on which every so many get one.
    """

    def __init__(
        self,
        model: Model,
        base: Source | None = None,
        keep: Callable[[Payload], tuple[int, int]] | None = None,
        kept: Source | None = None,
        kept_from: int = 0,
    ) -> None:
        self._model, self._base, self._keep, self._data = model, base, keep, kept
        self._data_start = kept_from
        self._objects: dict[int, Any] = {}
        self._numbers: dict[Any, int] = {}
        self._fresh: set[Any] = set()  # what comes with the step that is being written, so has no place yet
        self._met: list[list[Any]] = []
        self._tensors: dict[int, int] = {}  # by id, the number of the value that held each when it was met
        self._held: dict[int, Tensor] = {}  # by that number
        self._looks: Counter[tuple[int, str]] = Counter()  # in lists, during this edit
        self._orders: dict[tuple[int, str], dict[Any, int]] = {}  # where all was in a list, at some time in this edit
        self._enter(model, 0)

    # -- numbers -------------------------------------------------------------------------------------------------

    def of(self, target: Any) -> Any:
        """Its number; None for one that is not in the model and never was since the journal began."""
        known = self._numbers.get(target)
        return self._meet(target) if known is None else known

    def new(self, made: Any) -> int:
        """The next number, for what comes in with the step that is being written."""
        self._fresh.add(made)
        return self._enter(made, len(self._objects), holds=False)  # whoever reads it has no tensor there yet

    def take_met(self) -> list[list[Any]]:
        """What was met with the step just written: number and place of each, in that order, to stand before it."""
        met, self._met = self._met, []
        self._fresh.clear()
        return met

    def begin_edit(self, steps: Sequence[Step]) -> None:
        """Another edit begins, the model being as before it.

        What holds tensors now is met before they go elsewhere, and what a later step of the edit may bring back before
        nothing in the model tells it any more: the ends of nodes that go or are wired anew, and bodies.
        """
        self._looks.clear()
        self._orders.clear()
        self.meet_all(steps)
        for step in steps:
            if isinstance(step, SetInitializer) and step.value.initializer is not None:
                self.of(step.value)
            if isinstance(step, SetAttribute) and (old := step.node.attributes.get(step.name)) and step.node.graph:
                for graph in old.graphs:
                    self.of(graph)
        rewired = (s.node for s in steps if isinstance(s, (RemoveNode, SetInput, SetInputs, SetOutputs)))
        for node in dict.fromkeys(rewired) if len(steps) > 1 else ():
            for value in chain(node.outputs, dependencies(node)):
                if value is not None and (value.producer is node or not value.is_defined):
                    self.of(value)

    def meet_all(self, steps: Sequence[Step]) -> None:
        """Meet all nodes of the main graph and what they give, if an edit has very many steps."""
        graph = self._model.graph
        if len(steps) * _SHARE > len(graph.nodes) > _APART:
            self._note_some(graph, "all")

    def meet_again(self, met: Sequence[Sequence[Any]]) -> None:
        """Number what whoever wrote the journal met at this point; ModelError when it is not there."""
        for number, *place in met:
            owner, field, index, name = place
            if field in ("some", "all"):
                self._enter_some(self.find(owner, Graph), field, number)
                continue
            found = self._at(ObjectPath(owner, field, index, name))
            if found is None or not isinstance(number, int) or number in self._objects:
                said = f"There is no {name!r} where it was ({field} {index})."
                raise ModelError("The journal does not fit this model", said)
            self._enter(found, number)

    def find(self, reference: Any, kind: type[Any]) -> Any:
        """The object of a number."""
        found = self._objects.get(reference) if isinstance(reference, int) else None
        if isinstance(found, kind):
            return found
        raise ModelError("The journal does not fit this model", f"Nothing has the number {reference}.")

    def add(self, made: Any, reference: Any) -> None:
        """A new object under the number it was written with."""
        if not isinstance(reference, int) or reference in self._objects:
            raise ModelError("The journal does not fit this model", f"The number {reference} was not expected here.")
        self._enter(made, reference)

    def _enter(self, target: Any, number: int, *, holds: bool = True) -> int:
        self._objects[number] = target
        self._numbers[target] = number
        if holds and isinstance(target, Value) and isinstance(target.initializer, Tensor):
            # tensors are compared by identity, so this one is kept alive, or another could get the same
            self._held[number] = target.initializer
            self._tensors.setdefault(id(target.initializer), number)
        return number

    def _meet(self, target: Any) -> int | None:
        place = self._place(target)
        if place is None:
            return None
        known = self._numbers.get(target)  # by then some nodes of its graph are numbered
        if known is None:
            known = self._enter(target, len(self._objects))
            self._met.append([known, *place])
        return known

    # -- places --------------------------------------------------------------------------------------------------

    def _owner(self, target: Any) -> int | None:
        """The number of what holds another object, if whoever reads the journal has it by then."""
        return None if target is None or target in self._fresh else self.of(target)

    def _place(self, target: Any) -> ObjectPath | None:
        match target:
            case Value():
                return self._place_of_value(target)
            case Node():
                return self._place_of_node(target)
            case Graph():
                return self._place_of_graph(target)
            case Function():
                return self._listed(self._model, "functions", target)
            case TrainingInfo():
                return self._listed(self._model, "training_info", target)
        return None

    def _listed(self, owner: Any, field: str, target: Any) -> ObjectPath | None:
        """The place in a list, if it is there and who has the list is known."""
        number = self._owner(owner)
        if number is None:
            return None
        try:
            return ObjectPath(number, field, self._index(number, owner, field, target), getattr(target, "name", ""))
        except ValueError:
            return None

    def _index(self, number: int, owner: Any, field: str, target: Any) -> int:
        """Where it is in a list; ValueError when it is not there."""
        listed: Sequence[Any] = getattr(owner, field)
        if len(listed) <= _APART:
            return listed.index(target)
        key = number, field
        self._looks[key] += 1
        if self._looks[key] > _LOOKS and key not in self._orders:
            self._orders[key] = {one: index for index, one in enumerate(listed)}
        at = self._orders.get(key, {}).get(target, len(listed))
        return at if at < len(listed) and listed[at] is target else listed.index(target)

    def _place_of_graph(self, graph: Graph) -> ObjectPath | None:
        owner = graph.owner
        if isinstance(owner, Node):
            return self._listed(owner, "bodies", graph)
        field = next((f for f in _GRAPHS if getattr(owner, f, None) is graph), None)
        number = None if field is None else self._owner(owner)
        return None if number is None or field is None else ObjectPath(number, field)

    def _place_of_node(self, node: Node) -> ObjectPath | None:
        graph = node.graph
        number = self._owner(graph)
        if graph is None or number is None:
            return None
        near = self._near(node)
        if near is None:
            self._note_some(graph, "some")
            near = self._near(node)
        return near

    def _near(self, node: Node) -> ObjectPath | None:
        """The place as seen from a node nearby that has a number; None when there is none."""
        numbers = self._numbers
        before: Node | None = node
        after: Node | None = node
        for count in range(_APART):
            if before is not None:
                if before in numbers:
                    return ObjectPath(numbers[before], "neighbour", count, node.name)
                before = before.previous
            if after is not None:
                if after in numbers:
                    return ObjectPath(numbers[after], "neighbour", -count, node.name)
                after = after.next
        return None

    def _note_some(self, graph: Graph, field: str) -> None:
        owner = self.of(graph)
        self._met.append([len(self._objects), owner, field, 0, ""])
        self._enter_some(graph, field, len(self._objects))

    def _enter_some(self, graph: Graph, field: str, number: int) -> None:
        """Number, from this number on, what has none yet: "some" nodes of a graph, or "all" with their outputs."""
        met: Iterable[Any] = islice(graph.nodes, 0, None, _APART)
        if field == "all":
            met = (target for node in graph.nodes for target in (node, *node.outputs) if target is not None)
        for following, target in enumerate((t for t in met if t not in self._numbers), number):
            self._enter(target, following)

    def _place_of_value(self, value: Value) -> ObjectPath | None:
        graph = value.graph
        if value.producer is not None:
            return self._listed(value.producer, "outputs", value)
        if graph is not None and value.is_input:
            return self._listed(graph, "inputs", value)
        if value.initializer is not None and (place := self._listed(graph, "initializers", value)):
            return place
        for user, index in value.uses:  # nothing defines it: a name where it is used
            number = self._owner(user)
            if number is not None:
                return ObjectPath(number, "inputs" if isinstance(user, Node) else "outputs", index, value.name)
        if graph is not None and value in graph.declared and value in kept_declarations(graph):
            return self._listed(graph, "declared", value)
        return None  # a file that was saved by now has not got it

    def _at(self, place: ObjectPath) -> Any:
        """What is at a place now; None when that is not what it is called."""
        owner, (_, field, index, name) = self._objects.get(place.owner), place
        found: Any = None
        match owner, field:
            case Node(), "neighbour" if abs(index) < _APART:
                found = owner
                for _ in range(abs(index)):
                    found = found and (found.next if index > 0 else found.previous)
            case (Graph(), "initializers") | (Graph(), "declared"):
                listed = getattr(owner, field)
                found = listed[index] if 0 <= index < len(listed) else None
                if found is None or found.name != name:  # a file has its own order of these
                    found = next((value for value in listed if value.name == name), None)
            case _ if field in _LISTS.get(type(owner), ()):
                listed = getattr(owner, field)
                found = listed[index] if 0 <= index < len(listed) else None
            case _ if field in _GRAPHS:
                found = getattr(owner, field, None)
        return found if name == getattr(found, "name", "") or field in _GRAPHS else None

    # -- tensors and bytes ---------------------------------------------------------------------------------------

    def tensor(self, tensor: Tensor) -> Any:
        """The initializer that held the tensor when it was met."""
        number = self._tensors.get(id(tensor))
        return None if number is None else [number]

    def find_tensor(self, reference: Any) -> Tensor:
        """That initializer's tensor as it was when it was met."""
        (number,) = reference
        tensor = self._held.get(number)
        if tensor is None:
            raise ModelError("The journal does not fit this model", f"No initializer has the number {reference}.")
        return tensor

    def put(self, piece: Payload) -> Any:
        """Where bytes are: in the file the journal is begun on, else taken up beside the journal."""
        if piece.source is self._base:
            return ["base", piece.offset, piece.length]
        return None if self._keep is None else ["kept", *self._keep(piece)]

    def get(self, reference: Any) -> bytes:
        """The bytes that `put` took up."""
        where, offset, length = reference
        source = self._base if where == "base" else self._data
        offset += 0 if where == "base" else self._data_start
        if source is None or not (0 <= offset <= offset + length <= source.size):
            raise ModelError("The journal is damaged", f"{length:,} bytes of a tensor are missing.")
        return source.read(offset, length)

    @property
    def files(self) -> TensorFiles:
        """Where tensors of the model look for values in other files."""
        source = self._model.source
        return TensorFiles(None, None) if source is None else source.files


_GRAPHS = ("graph", "body", "initialization", "algorithm")

#: Fields that hold others in an order that saving and reading keep.
_LISTS: dict[type, tuple[str, ...]] = {
    Model: ("functions", "training_info"),
    Graph: ("inputs", "outputs"),
    Node: ("inputs", "outputs", "bodies"),
}
