"""Metadata of a part split from a model, so that merging the parts restores the original order and types.

The parts do not determine the order of nodes, inputs and outputs across parts, nor which types only the split declared.
Each part stores this in one metadata entry, which merging removes once everything is restored.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from onnx_workbench.model.analysis.scoping import dependencies
from onnx_workbench.model.edits.properties import set_metadata
from onnx_workbench.model.edits.split_remainder import encode_remainder, label_of, restore_remainder, uncalled, unused
from onnx_workbench.model.edits.values import set_types
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.history.steps import SetGraphInputs, SetGraphOutputs
from onnx_workbench.model.ir.graph import Graph, Model, Node, Value
from onnx_workbench.model.ir.types import TensorType, Type

#: The key of the entry in a model's metadata.
KEY = "onnx_workbench.whole"


@dataclass(frozen=True, slots=True)
class SplitOrigin:
    """The original graph of split parts, and the positions of one part's nodes in it."""

    nodes: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    made: tuple[str, ...]  # outputs of the part that are internal to the original
    # values without a declared type in the original, which inputs and outputs of a part must have
    undeclared: tuple[str, ...]
    # position of the first node of each run of neighbours, and the name of its output
    runs: tuple[tuple[int, str], ...]
    functions: tuple[str, ...] = ()  # labels of all functions, in order
    apart: str = ""  # content in no part: see `split_remainder`
    shapeless: tuple[str, ...] = ()  # values declared without a shape in the original, where a part needs one

    def is_that_of(self, other: SplitOrigin | None) -> bool:
        """Return whether two parts have the same origin."""
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
        """Return the same origin with the positions of the nodes of a part."""
        runs: list[tuple[int, str]] = []
        expected = -1
        for node, place in zip(nodes, places, strict=True):
            if place != expected:
                runs.append((place, _name(node)))
            expected = place + 1
        made, undeclared, shapeless = (tuple(sorted(names)) for names in (made, undeclared, shapeless))
        return replace(self, made=made, undeclared=undeclared, shapeless=shapeless, runs=tuple(runs))

    def text(self) -> str:
        """Encode for the metadata entry."""
        return json.dumps(asdict(self), ensure_ascii=False)

    def places(self, nodes: Iterable[Node]) -> list[int]:
        """Return the positions of the part's nodes; nodes added later follow their predecessor."""
        starts = {name: place for place, name in self.runs}
        found: list[int] = []
        for node in nodes:
            follows = found[-1] + 1 if found else 0
            found.append(max(follows, starts.get(_name(node), follows)))
        return found


def origin_of(model: Model) -> SplitOrigin | None:
    """Decode the origin of a model; None if it is not a part or the entry is malformed."""
    try:
        content: Any = json.loads(model.metadata.get(KEY, ""))
        inputs, outputs, made, undeclared = (
            tuple(map(str, content[key])) for key in ("inputs", "outputs", "made", "undeclared")
        )
        runs = tuple((int(place), str(name)) for place, name in content["runs"])
        functions = tuple(map(str, content.get("functions", ())))
        apart = str(content.get("apart", ""))
        shapeless = tuple(map(str, content.get("shapeless", ())))
        return SplitOrigin(int(content["nodes"]), inputs, outputs, made, undeclared, runs, functions, apart, shapeless)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return None


def part_metadata(
    model: Model,
    graph: Graph,
    nodes: Sequence[Node],
    outputs: Iterable[str],
    undeclared: Iterable[str],
    shapeless: Iterable[str],
) -> Mapping[str, str]:
    """Return the metadata of a part of `model`: the model's own, and the positions of the nodes in its main graph.

    A part of a part refers to the first original. Parts of subgraphs and functions store nothing.
    """
    metadata = {key: text for key, text in model.metadata.items() if key != KEY}
    if graph is not model.graph:
        return metadata
    inputs, results = (tuple(value.name for value in values) for values in (graph.inputs, graph.outputs))
    whole = origin_of(model)
    if whole is None:
        labels = tuple(label_of(function.key) for function in model.functions)
        whole = SplitOrigin(len(graph.nodes), inputs, results, (), (), (), labels, encode_remainder(model))
    place = dict(zip(graph.nodes, whole.places(graph.nodes), strict=True))
    made = {*whole.made, *outputs}.difference(whole.outputs)
    unsaid = {*whole.undeclared, *undeclared}
    part = whole.part(nodes, [place[n] for n in nodes], made, unsaid, {*whole.shapeless, *shapeless} - unsaid)
    return metadata | {KEY: part.text()}


def lost_by_split(model: Model, parts: Sequence[Model]) -> list[str]:
    """Return the content of a model that is lost by splitting it: in no part, and too large or unreadable for the
    metadata.

    Names, "training graphs" first; empty for parts of subgraphs and functions.
    """
    wholes = [origin_of(part) for part in parts]
    if any(whole is None or whole.apart for whole in wholes):
        return []
    here = {v.name for part in parts for v in (*part.graph.inputs, *part.graph.initializers)}
    names = ["training graphs"] if model.training_info else []
    names += [f"function {function.name}" for function in uncalled(model)]
    return names + [value.name for value in unused(model) if value.name not in here]


@dataclass(frozen=True, slots=True)
class Joint:
    """Two parts of one original during their merge, with the positions of the nodes of both."""

    graph: Graph
    whole: SplitOrigin
    made: frozenset[str]
    undeclared: frozenset[str]
    shapeless: frozenset[str]
    here: Mapping[Node, int]
    coming: Sequence[int]

    def without(self, coming: Iterable[Node], shared: Collection[Node]) -> Joint:
        """Return the same without nodes that exist here already."""
        kept = [place for node, place in zip(coming, self.coming, strict=True) if node not in shared]
        return replace(self, coming=kept)

    def gives(self, value: Value) -> bool:
        """Return whether a value is an output of the original, not only of a part."""
        return value.name in self.whole.outputs

    def insertion_points(self, copies: Sequence[Node]) -> list[Node | None]:
        """Return the node before which each new node goes: its original position, but after the producers of its
        inputs.
        """
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
        """Restore the order of inputs and outputs, and remove types that only the split declared.

        Once all inputs and outputs of the original are back, the metadata entry is removed.
        """
        graph, whole = self.graph, self.whole
        given = {value.name for value in graph.outputs}
        is_whole = given.issuperset(whole.outputs) and {v.name for v in graph.inputs}.issubset(whole.inputs)
        if is_whole:
            restore_remainder(edit, whole.apart, whole.functions)
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
    """Return the joint of two models, the second to be merged into `graph`, if both are parts of one original."""
    ours, theirs = (origin_of(m) for m in (model, other))
    if graph is not model.graph or ours is None or theirs is None or not ours.is_that_of(theirs):
        return None
    here = dict(zip(graph.nodes, ours.places(graph.nodes), strict=True))
    made, undeclared, shapeless = (
        frozenset(getattr(ours, field)).union(getattr(theirs, field)) for field in ("made", "undeclared", "shapeless")
    )
    return Joint(graph, ours, made, undeclared, shapeless, here, theirs.places(other.graph.nodes))


def _in_order(values: Collection[Value], names: Sequence[str]) -> list[Value]:
    """Sort inputs or outputs in the order of the original; unknown ones come first."""
    place = {name: index for index, name in enumerate(names)}
    return sorted(values, key=lambda value: place.get(value.name, -1))


def _name(node: Node) -> str:
    return next((value.name for value in node.outputs if value is not None), "")
