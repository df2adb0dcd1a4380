"""What a part that was cut out of a graph remembers of the whole, so that merging the parts gives the whole back.

Neither the order in which nodes, inputs and outputs of different parts stood, nor which types only the cut declared,
can be seen from the parts. A part says it in one entry of its metadata, which merging takes away when all is back.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from onnx_workbench.model.analysis.scoping import dependencies
from onnx_workbench.model.edits.properties import set_metadata
from onnx_workbench.model.edits.split_remainder import bring_back, label_of, packed, uncalled, unused
from onnx_workbench.model.edits.values import set_types
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.history.steps import SetGraphInputs, SetGraphOutputs
from onnx_workbench.model.ir.graph import Graph, Model, Node, Value
from onnx_workbench.model.ir.types import TensorType, Type

#: The key of the entry in a model's metadata.
KEY = "onnx_workbench.whole"


@dataclass(frozen=True, slots=True)
class SplitOrigin:
    """The graph that parts were cut out of, and where the nodes of one part stood in it."""

    nodes: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    made: tuple[str, ...]  # outputs of the part that the whole has not got, or has inside
    undeclared: tuple[str, ...]  # values whose type the whole does not declare, as an input or output of a part must
    runs: tuple[tuple[int, str], ...]  # place of the first node of each run of neighbours, and the name of its output
    functions: tuple[str, ...] = ()  # labels of all functions, in order
    apart: str = ""  # what no part has: see `remnants`
    shapeless: tuple[str, ...] = ()  # values whose type the whole declares without a shape, where a part needs one

    def is_that_of(self, other: SplitOrigin | None) -> bool:
        """Whether two parts are of one whole."""
        return other is not None and (self.nodes, self.inputs, self.outputs) == (
            other.nodes,
            other.inputs,
            other.outputs,
        )

    def part(
        self,
        nodes: Sequence[Node],
        places: Sequence[int],
        made: Iterable[str],
        undeclared: Iterable[str],
        shapeless: Iterable[str],
    ) -> SplitOrigin:
        """The same whole, as a part with these nodes remembers it."""
        runs: list[tuple[int, str]] = []
        expected = -1
        for node, place in zip(nodes, places, strict=True):
            if place != expected:
                runs.append((place, _name(node)))
            expected = place + 1
        made, undeclared, shapeless = (tuple(sorted(names)) for names in (made, undeclared, shapeless))
        return replace(self, made=made, undeclared=undeclared, shapeless=shapeless, runs=tuple(runs))

    def text(self) -> str:
        """As it stands in the metadata."""
        return json.dumps(asdict(self), ensure_ascii=False)

    def places(self, nodes: Iterable[Node]) -> list[int]:
        """Where the nodes of the part stood; those that came since follow the ones before them."""
        starts = {name: place for place, name in self.runs}
        found: list[int] = []
        for node in nodes:
            follows = found[-1] + 1 if found else 0
            found.append(max(follows, starts.get(_name(node), follows)))
        return found


def whole_of(model: Model) -> SplitOrigin | None:
    """What a model remembers of a whole; None where it is no part, or the entry cannot be understood."""
    try:
        told: Any = json.loads(model.metadata.get(KEY, ""))
        inputs, outputs, made, undeclared = (
            tuple(map(str, told[key])) for key in ("inputs", "outputs", "made", "undeclared")
        )
        runs = tuple((int(place), str(name)) for place, name in told["runs"])
        functions = tuple(map(str, told.get("functions", ())))
        apart = str(told.get("apart", ""))
        shapeless = tuple(map(str, told.get("shapeless", ())))
        return SplitOrigin(int(told["nodes"]), inputs, outputs, made, undeclared, runs, functions, apart, shapeless)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return None


def remembering(
    model: Model,
    graph: Graph,
    nodes: Sequence[Node],
    outputs: Iterable[str],
    undeclared: Iterable[str],
    shapeless: Iterable[str],
) -> Mapping[str, str]:
    """The metadata of a part of `model`: that of the model, and where the nodes stand in its main graph.

    What a part of a part remembers is the first whole. Parts of bodies and functions are not put back.
    """
    metadata = {key: text for key, text in model.metadata.items() if key != KEY}
    if graph is not model.graph:
        return metadata
    inputs, results = (tuple(value.name for value in values) for values in (graph.inputs, graph.outputs))
    whole = whole_of(model)
    if whole is None:
        labels = tuple(label_of(function.key) for function in model.functions)
        whole = SplitOrigin(len(graph.nodes), inputs, results, (), (), (), labels, packed(model))
    place = dict(zip(graph.nodes, whole.places(graph.nodes), strict=True))
    made = {*whole.made, *outputs}.difference(whole.outputs)
    unsaid = {*whole.undeclared, *undeclared}
    part = whole.part(nodes, [place[n] for n in nodes], made, unsaid, {*whole.shapeless, *shapeless} - unsaid)
    return metadata | {KEY: part.text()}


def forgotten(model: Model, parts: Sequence[Model]) -> list[str]:
    """What of a model is in none of its parts, nor remembered by them as it is too large or cannot be read.

    Names, first "training graphs"; of parts of bodies and functions, which remember nothing, none.
    """
    wholes = [whole_of(part) for part in parts]
    if any(whole is None or whole.apart for whole in wholes):
        return []
    here = {v.name for part in parts for v in (*part.graph.inputs, *part.graph.initializers)}
    names = ["training graphs"] if model.training_info else []
    names += [f"function {function.name}" for function in uncalled(model)]
    return names + [value.name for value in unused(model) if value.name not in here]


@dataclass(frozen=True, slots=True)
class Joint:
    """Two parts of one whole that are about to become one: remembers where the nodes of both stood."""

    graph: Graph
    whole: SplitOrigin
    made: frozenset[str]
    undeclared: frozenset[str]
    shapeless: frozenset[str]
    here: Mapping[Node, int]
    coming: Sequence[int]

    def without(self, coming: Iterable[Node], shared: Collection[Node]) -> Joint:
        """The same where some of the nodes that were to come in are here already."""
        kept = [place for node, place in zip(coming, self.coming, strict=True) if node not in shared]
        return replace(self, coming=kept)

    def gives(self, value: Value) -> bool:
        """Whether a value is an output of the whole, not only of a part."""
        return value.name in self.whole.outputs

    def insertion_points(self, copies: Sequence[Node]) -> list[Node | None]:
        """Before which node here each node that comes in stands: where it stood, but after all that it uses."""
        present = list(self.here)
        places = list(self.here.values())
        index = {node: i for i, node in enumerate(present)}
        found: list[Node | None] = []
        least = 0
        for node, place in zip(copies, self.coming, strict=True):
            needed = (index.get(v.producer, -1) for v in dependencies(node) if v.producer is not None)
            least = max(least, bisect_right(places, place), *(i + 1 for i in needed))
            found.append(present[least] if least < len(present) else None)
        return found

    def finish(self, edit: Transaction, copies: Sequence[Node], *, keep_outputs: bool) -> None:
        """Put inputs and outputs in order, and take back types that only the cut declared.

        Where all inputs and outputs of the whole are back, it is no part any more; else it remembers the whole.
        """
        graph, whole = self.graph, self.whole
        given = {value.name for value in graph.outputs}
        is_whole = given.issuperset(whole.outputs) and {v.name for v in graph.inputs}.issubset(whole.inputs)
        if is_whole:
            bring_back(edit, whole.apart, whole.functions)
        left_over = self.made if is_whole and not keep_outputs else ()
        outputs = [value for value in graph.outputs if value.name not in left_over]
        edit.do(SetGraphInputs(graph, tuple(_in_order(graph.inputs, whole.inputs))))
        edit.do(SetGraphOutputs(graph, tuple(_in_order(outputs, whole.outputs))))
        ends = {*graph.inputs, *graph.outputs}
        inner = [v for v in graph.values() if v not in ends and v.initializer is None]
        before: dict[Value, Type | None] = dict.fromkeys(v for v in inner if v.name in self.undeclared)
        for value in inner:
            if value.name in self.shapeless and isinstance(value.type, TensorType):
                before[value] = replace(value.type, shape=None)
        set_types(edit, before)
        undeclared, shapeless = (
            names.difference(v.name for v in before) for names in (self.undeclared, self.shapeless)
        )
        made = self.made.intersection(value.name for value in outputs)
        places = {**self.here, **dict(zip(copies, self.coming, strict=True))}
        nodes = list(graph.nodes)
        part = whole.part(nodes, [places[node] for node in nodes], made, undeclared, shapeless)
        set_metadata(edit, edit.model, KEY, None if is_whole else part.text())


def joint(graph: Graph, model: Model, other: Model) -> Joint | None:
    """What is known of two models that are to be merged, the second into `graph`, when both are parts of one whole."""
    ours, theirs = (whole_of(m) for m in (model, other))
    if graph is not model.graph or ours is None or theirs is None or not ours.is_that_of(theirs):
        return None
    here = dict(zip(graph.nodes, ours.places(graph.nodes), strict=True))
    made, undeclared, shapeless = (
        frozenset(getattr(ours, field)).union(getattr(theirs, field)) for field in ("made", "undeclared", "shapeless")
    )
    return Joint(graph, ours, made, undeclared, shapeless, here, theirs.places(other.graph.nodes))


def _in_order(values: Collection[Value], names: Sequence[str]) -> list[Value]:
    """Inputs or outputs in the order of the whole; those it has not got come first."""
    place = {name: index for index, name in enumerate(names)}
    return sorted(values, key=lambda value: place.get(value.name, -1))


def _name(node: Node) -> str:
    return next((value.name for value in node.outputs if value is not None), "")
