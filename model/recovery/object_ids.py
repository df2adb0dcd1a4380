"""References of a journal to objects of the model, by the object ids of the process that writes it.

The process that reads the journal has opened the same file, so its objects have other ids. The journal therefore
starts with the ids of all objects of its base file, in an order that saving and reading preserve; later each step
lists the ids of the objects it adds.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from operator import itemgetter
from typing import Any

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.reader.payloads import Payload
from onnx_workbench.model.io.reader.source import Source
from onnx_workbench.model.io.tensors.proto_tensor import TensorFiles
from onnx_workbench.model.io.writer.export_graph import kept_declarations
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, Value
from onnx_workbench.model.ir.tensors import SparseTensor, Tensor
from onnx_workbench.model.progress import SILENT, Progress

_PACE = 2_000  # objects between two checks


def _initializers(graph: Graph) -> list[Value]:
    """Return the initializers of a graph in file order; functions store none."""
    if isinstance(graph.owner, Function):
        return []
    return sorted(graph.initializers, key=lambda value: isinstance(value.initializer, SparseTensor))


def _in_file_order(model: Model, graphs: Iterable[Graph], progress: Progress = SILENT) -> list[Any]:
    """Return all objects of a model in file order: the list is the same for a model and for its file read again.

    An object stored in two places, such as an input with a default, is listed twice. Costs a walk over the model.
    """
    objects: list[Any] = [model, *model.functions, *model.training_info]
    for graph in graphs:
        objects.append(graph)
        objects += graph.inputs
        objects += _initializers(graph)
        append = objects.append
        for node in progress.paced(graph.nodes, _PACE):
            append(node)
            for value in node.outputs:
                if value is not None and value.name:
                    append(value)
    return objects


def _undefined(graphs: Iterable[Graph], progress: Progress) -> Iterator[tuple[Value, Node | Graph, int]]:
    """Yield undefined values, each with a node or graph that uses it and the index of the input or output."""
    seen: set[Value] = set()
    for graph in graphs:
        for node in progress.paced(graph.nodes, _PACE):
            for index, value in enumerate(node.inputs):
                if value is not None and value.producer is None and value not in seen and not value.is_defined:
                    seen.add(value)
                    yield value, node, index
        for index, value in enumerate(graph.outputs):
            if value not in seen and not value.is_defined:
                seen.add(value)
                yield value, graph, index


def _declared_only(graphs: Iterable[Graph], progress: Progress) -> Iterator[tuple[Value, Graph]]:
    """Yield values that a graph declares and saves although nothing defines or uses them."""
    for graph in graphs:
        if any(not value.uses and not value.is_defined for value in progress.paced(graph.declared)):
            yield from ((v, graph) for v in kept_declarations(graph) if not v.uses and not v.is_defined)


def _names(objects: Iterable[Any]) -> int:
    """Return a checksum of the names of nodes and values."""
    texts = [one.name for one in objects if type(one) is Node or type(one) is Value]
    return zlib.crc32("\0".join(texts).encode("utf-8", "surrogatepass"))


def _runs(numbers: Iterable[int]) -> list[list[int]]:
    """Return numbers as runs of consecutive ones: [first, length] each."""
    runs: list[list[int]] = []
    start = following = -1
    for number in numbers:
        if number != following:
            if following >= 0:
                runs.append([start, following - start])
            start = number
        following = number + 1
    return [*runs, [start, following - start]]


def _merged(runs: Iterable[list[int]]) -> list[list[int]]:
    """Return the runs sorted, with overlapping ones merged."""
    merged: list[list[int]] = []
    for start, length in sorted(runs):
        if merged and start <= sum(merged[-1]):
            merged[-1][1] = max(sum(merged[-1]), start + length) - merged[-1][0]
        else:
            merged.append([start, length])
    return merged


class BaseIds:
    """The ids of all objects in a model's base file, collected on construction by a walk over the model. Any thread."""

    def __init__(self, model: Model, progress: Progress = SILENT) -> None:
        graphs = list(model.graphs(progress))
        objects = _in_file_order(model, progress.paced(graphs), progress)
        self._runs = _runs(one.id for one in progress.paced(objects, _PACE))
        self._sorted = _merged(self._runs)
        self._undefined = [
            (value.id, user.id, index) for value, user, index in _undefined(progress.paced(graphs), progress)
        ]
        self._declared = [
            (value.id, graph.id, value.name) for value, graph in _declared_only(progress.paced(graphs), progress)
        ]
        self._others = {entry[0] for entry in chain(self._undefined, self._declared)}
        self._names = _names(progress.paced(objects, _PACE))
        self.tensors = {  # kept alive with this: they are distinguished by their identity
            value.id: value.initializer
            for graph in progress.paced(graphs)
            for value in _initializers(graph)
            if isinstance(value.initializer, Tensor)
        }

    def __contains__(self, number: int) -> bool:
        place = bisect_right(self._sorted, number, key=_first)
        return (place > 0 and number < sum(self._sorted[place - 1])) or number in self._others

    def entry(self) -> dict[str, Any]:
        """Return the ids as part of the journal's header."""
        return {"ids": self._runs, "undefined": self._undefined, "declared": self._declared, "names": self._names}


_first = itemgetter(0)


def read_base_ids(model: Model, entry: Mapping[str, Any]) -> dict[int, Any]:
    """Return the objects of a model by their ids in a journal; ModelError if the journal is of another model."""
    objects, found = _in_file_order(model, model.graphs()), dict[int, Any]()
    if sum(length for _, length in entry["ids"]) != len(objects) or entry["names"] != _names(objects):
        raise ModelError("The journal does not fit the model", "It was started on other contents.")
    ids = chain.from_iterable(range(start, start + length) for start, length in entry["ids"])
    for number, one in zip(ids, objects, strict=True):
        if isinstance(one, Value) and one.producer is not None:  # a value listed twice is the one with a producer
            found[number] = one
        else:
            found.setdefault(number, one)
    for number, owner, index in entry["undefined"]:
        user = found[owner]
        found.setdefault(number, (user.outputs if isinstance(user, Graph) else user.inputs)[index])
    for number, owner, name in entry["declared"]:
        value = next((value for value in found[owner].declared if value.name == name), None)
        if value is not None:
            found.setdefault(number, value)
    return found


class WrittenIds:
    """References for writing a journal: ids of objects in the base file, and of objects added since.

    `known` holds the ids added since; `new` adds to it and to `new_ids`, from which a rolled-back step removes its own.
    `keep` writes the bytes of large tensors that are not in the base file.
    """

    def __init__(
        self, base: BaseIds, known: set[int], source: Source | None, keep: Callable[[Payload], tuple[int, int]]
    ) -> None:
        self.known = known
        self.new_ids: list[int] = []
        self._base, self._source, self._keep = base, source, keep
        self._holders = {id(tensor): number for number, tensor in base.tensors.items()}

    def of(self, target: Any) -> int | None:
        """Return the id of an object; None if it has not been in the model since the journal began."""
        number: int = target.id
        return number if number in self.known or number in self._base else None

    def new(self, made: Any) -> int:
        """Return and register the id of an object that the current step adds."""
        number: int = made.id
        self.known.add(number)
        self.new_ids.append(number)
        return number

    def tensor(self, tensor: Tensor) -> list[int] | None:
        """Return a reference to the initializer of the base file that holds this tensor, if there is one."""
        number = self._holders.get(id(tensor))
        return None if number is None else [number]

    def store(self, piece: Payload) -> list[Any]:
        """Return the location of bytes: in the base file, else written to the journal's data file."""
        if piece.source is self._source:
            return ["base", piece.offset, piece.length]
        return ["kept", *self._keep(piece)]


class ReadIds:
    """References for reading a journal: its ids resolved to objects, including those that steps add."""

    def __init__(
        self,
        model: Model,
        objects: dict[int, Any],
        tensors: Mapping[int, Tensor],
        sources: Mapping[str, tuple[Source | None, int]],
    ) -> None:
        self._model, self._objects, self._tensors, self._sources = model, objects, tensors, sources

    def find(self, reference: Any, kind: type[Any]) -> Any:
        """Return the object of an id; ModelError if there is none of this kind."""
        target = self._objects.get(reference) if isinstance(reference, int) else None
        if isinstance(target, kind):
            return target
        raise ModelError("The journal does not fit this model", f"Nothing has the id {reference}.")

    def add(self, made: Any, reference: Any) -> None:
        """Register a new object under its id in the journal."""
        if not isinstance(reference, int) or reference in self._objects:
            raise ModelError("The journal does not fit this model", f"The id {reference} was not expected here.")
        self._objects[reference] = made

    def find_tensor(self, reference: Any) -> Tensor:
        """Return the tensor of an initializer of the base file."""
        (number,) = reference
        tensor = self._tensors.get(number)
        if tensor is None:
            raise ModelError("The journal does not fit this model", f"No initializer has the id {number}.")
        return tensor

    def get(self, reference: Any) -> bytes:
        """Return bytes of the base file or of the journal's data file."""
        where, offset, length = reference
        source, start = self._sources[where]
        if source is None or not (0 <= offset <= offset + length <= source.size - start):
            raise ModelError("The journal is damaged", f"{length:,} bytes of a tensor are missing.")
        return source.read(start + offset, length)

    @property
    def files(self) -> TensorFiles:
        """File access of tensors of the model with values in other files."""
        source = self._model.source
        return TensorFiles(None, None) if source is None else source.files
