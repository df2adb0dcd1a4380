"""Find the occurrences of a pattern in a model, from the nodes of its rarest operator outwards.

Not the matching of model.diff, which pairs all nodes of two graphs by likeness, none twice, and leaves what differs: a
pattern is there whole or not at all, anywhere and many times. analysis.repeated_blocks has no pattern yet to look for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_workbench.model.analysis.constants import Constants
from onnx_workbench.model.analysis.node_labels import exact_label, short_content
from onnx_workbench.model.analysis.scoping import users_in
from onnx_workbench.model.analysis.topology import detour
from onnx_workbench.model.analysis.value_types import TypeOf
from onnx_workbench.model.edits.functions import is_used_outside
from onnx_workbench.model.edits.rewriter import GraphRewriter
from onnx_workbench.model.garbage import no_collection
from onnx_workbench.model.ir.attributes import Attribute, is_same
from onnx_workbench.model.ir.graph import Graph, Model, Node, Value
from onnx_workbench.model.ir.tensors import Tensor
from onnx_workbench.model.ir.types import TensorType
from onnx_workbench.model.progress import SILENT, Progress
from onnx_workbench.model.schemas import traits
from onnx_workbench.model.schemas.defaults import schema_of
from onnx_workbench.model.simplify.passes import Match, describe
from onnx_workbench.model.simplify.pattern import Pattern, Relation, declared, is_optional, taken_by
from onnx_workbench.model.text.formatting import plural

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MOST_PERMUTED = 4  # inputs of a commutative operator that are tried in any order


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One place where a pattern is: what stands for each of its nodes, values and captured attributes.

    `attributes` lack one that is left out and has no default; an optional input that is left out is None.
    """

    nodes: Mapping[Node, Node]
    values: Mapping[Value, Value | None]
    attributes: Mapping[str, Attribute]

    def of(self, pattern: Pattern) -> tuple[Node, ...]:
        """Return its nodes in the order of the pattern's."""
        return tuple(self.nodes[node] for node in pattern.nodes)

    def match(self, pattern: Pattern, apply: Callable[[GraphRewriter], None]) -> Match:
        """Return the match of a pass that does something here."""
        nodes, ends = self.of(pattern), (*pattern.inputs, *pattern.outputs)
        last = describe(nodes[-1])
        text = f"{plural(len(nodes), 'node')} up to {last}" if len(nodes) > 1 else last
        return Match(text, nodes, apply, tuple(v for own in ends if (v := self.values[own]) is not None))


@dataclass(slots=True)
class _State:
    """What is bound so far, and in which order, to take it back."""

    nodes: dict[Node, Node] = field(default_factory=dict)
    used: dict[Node, Node] = field(default_factory=dict)
    values: dict[Value, Value | None] = field(default_factory=dict)
    attributes: dict[str, Attribute | None] = field(default_factory=dict)
    order: list[tuple[dict[Any, Any], object]] = field(default_factory=list)

    def bind(self, table: dict[Any, Any], key: object, found: object) -> None:
        table[key] = found
        self.order.append((table, key))

    def back_to(self, mark: int) -> None:
        while len(self.order) > mark:
            table, key = self.order.pop()
            del table[key]


class Matcher:
    """One search of a pattern in a model that does not change, or only by replacing the occurrences it yielded.

    `may_take` tells which nodes an occurrence may have. Cost: once through the nodes, then about 20 µs for each node of
    the pattern's rarest operator and node of the pattern. `left_out` has a node of each occurrence that was left out,
    because it shares nodes with earlier ones; not one of those, if it has others.
    """

    def __init__(
        self,
        pattern: Pattern,
        constants: Constants,
        type_of: TypeOf,
        *,
        may_take: Callable[[Node], bool] = lambda _: True,
        progress: Progress = SILENT,
    ) -> None:
        self.pattern = pattern
        self.left_out: list[Node] = []
        self._constants = constants
        self._type_of = type_of
        self._may_take = may_take
        self._progress = progress
        self._taken: set[Node] = set()
        self._places: set[frozenset[Node]] = set()
        self._met_taken = False

    def search(self, graphs: Iterable[Graph]) -> Iterator[Occurrence]:
        """Yield the occurrences in these graphs, none of which share a node; the first of several that do.

        All are found before the first is yielded, so that `left_out` does not depend on what becomes of them. One that
        is no longer there when its turn comes is passed over.
        """
        wanted = {node.operator for node in self.pattern.nodes}
        index: dict[tuple[str, str, str], list[Node]] = {key: [] for key in wanted}
        for graph in graphs:
            for node in self._progress.paced(graph.nodes):
                if node.operator in index:
                    index[node.operator].append(node)
        anchor = min(self.pattern.nodes, key=lambda node: len(index[node.operator]))
        if not all(index.values()):
            return
        steps = self._steps(anchor)
        places: list[tuple[Node, Occurrence, list[object]]] = []
        for number, node in enumerate(index[anchor.operator]):
            self._progress.report(number, len(index[anchor.operator]))
            self._met_taken = False
            occurrence = next(self._from(anchor, steps, node, self._taken), None)
            if occurrence is not None:
                place = frozenset(occurrence.nodes.values())
                self._taken |= place
                self._places.add(place)
                places.append((node, occurrence, [n.inputs for n in occurrence.nodes.values()]))
            elif self._met_taken:
                other = next(self._from(anchor, steps, node, set()), None)
                if other is not None and frozenset(other.nodes.values()) not in self._places:
                    self.left_out.append(next((n for n in other.nodes.values() if n not in self._taken), node))
        for node, occurrence, inputs in places:
            nodes = occurrence.nodes.values()
            is_untouched = all(n.inputs is before for n, before in zip(nodes, inputs, strict=True))
            if not is_untouched or len(self.pattern.outputs) > 1:  # other replacements may have connected its outputs
                self._taken.difference_update(nodes)
                again = next(self._from(anchor, steps, node, self._taken), None) if node.graph is not None else None
                if again is None:
                    continue
                occurrence = again
                self._taken.update(again.nodes.values())
            yield occurrence

    def _steps(self, anchor: Node) -> list[tuple[Node, Value, Relation]]:
        """Return the nodes after the anchor in the order they are bound, each by a value of one before it.

        Producers come first, as there is one only; users of an input last, as there may be many.
        """
        steps: list[tuple[Node, Value, Relation]] = []
        reached, node = {anchor}, anchor
        waiting: dict[Relation, list[tuple[Node, Value]]] = {"producer": [], "user": [], "sibling": []}
        while len(reached) < len(self.pattern.nodes):
            for other, value, relation in self.pattern.neighbours(node):
                if other not in reached:
                    waiting[relation].append((other, value))
            while node in reached:
                relation = next(relation for relation, nodes in waiting.items() if nodes)
                node, value = waiting[relation].pop(0)
            reached.add(node)
            steps.append((node, value, relation))
        return steps

    def _from(
        self, anchor: Node, steps: Sequence[tuple[Node, Value, Relation]], start: Node, taken: set[Node]
    ) -> Iterator[Occurrence]:
        """Yield the occurrences with a node in place of the anchor, by backtracking without recursion."""
        state = _State()
        pending = [(0, self._attempts(anchor, [start]))]
        while pending:
            mark, attempts = pending[-1]
            state.back_to(mark)
            attempt = next(attempts, None)
            if attempt is None:
                pending.pop()
                continue
            self._progress.check()
            if not self._bind(state, *attempt, start.graph, taken):
                continue
            if len(pending) <= len(steps):
                node, value, relation = steps[len(pending) - 1]
                known = state.values[value]
                assert known is not None
                candidates = [known.producer] if relation == "producer" else dict.fromkeys(users_in(known, start.graph))
                pending.append((len(state.order), self._attempts(node, candidates)))
            elif self._is_whole(state):
                attributes = {name: found for name, found in state.attributes.items() if found is not None}
                yield Occurrence(dict(state.nodes), dict(state.values), attributes)

    def _attempts(
        self, node: Node, candidates: Iterable[Node | None]
    ) -> Iterator[tuple[Node, Node, tuple[Value | None, ...]]]:
        """Yield a pattern's node with each node that may stand for it, and its inputs in each equivalent order."""
        for candidate in candidates:
            if candidate is None or candidate.operator != node.operator:
                continue
            values = taken_by(candidate)
            is_permuted = traits.of(candidate).is_commutative and 1 < len(values) <= _MOST_PERMUTED
            for order in permutations(values) if is_permuted else (values,):
                yield node, candidate, order

    def _bind(
        self,
        state: _State,
        own: Node,
        node: Node,
        inputs: tuple[Value | None, ...],
        graph: Graph | None,
        taken: set[Node],
    ) -> bool:
        """Let a node stand for one of the pattern; false where it cannot. The caller takes back what was bound."""
        if node.graph is not graph or node in state.used:
            return False
        if node in taken:
            self._met_taken = True
            return False
        formal = taken_by(own)
        inputs += (None,) * (len(formal) - len(inputs))  # those that may be left out
        if len(formal) != len(inputs) or len(own.outputs) > len(node.outputs) or not self._may_take(node):
            return False
        state.bind(state.nodes, own, node)
        state.bind(state.used, node, own)
        if not all(self._bind_value(state, a, b) for a, b in zip(formal, inputs, strict=True)):
            return False
        for number, value in enumerate(node.outputs):
            made = own.outputs[number] if number < len(own.outputs) else None
            if made is None:
                if value is not None and value.uses:
                    return False
            elif value is None:
                if made.uses:
                    return False
            elif not self._bind_value(state, made, value):
                return False
        return self._bind_attributes(state, own, node) and _bodies(own) == _bodies(node)

    def _bind_value(self, state: _State, own: Value | None, value: Value | None) -> bool:
        if own is None or (value is None and not is_optional(own)):
            return own is value
        if own in state.values:
            return state.values[own] is value
        if value is None:
            state.bind(state.values, own, None)
            return True
        expected = self.pattern.constants.get(own)
        if expected is not None:
            if not _are_equal(expected, self._constants.array(value)):
                return False
        elif own.producer is not None:
            producer = value.producer
            if producer is None or value.index != own.index or producer.operator != own.producer.operator:
                return False
        type_ = declared(own)
        if type_ is not None and not _holds(type_, self._type_of(value)):
            return False
        state.bind(state.values, own, value)
        return True

    def _bind_attributes(self, state: _State, own: Node, node: Node) -> bool:
        for name in {*own.attributes, *node.attributes}:
            wanted, found = own.attributes.get(name), node.attributes.get(name)
            if any(a is not None and a.graphs for a in (wanted, found)):
                continue  # compared as a whole
            found = found or _default(node, name)
            if wanted is not None and wanted.reference:
                if wanted.reference not in state.attributes:
                    state.bind(state.attributes, wanted.reference, found)
                elif not _is_same(state.attributes[wanted.reference], found):
                    return False
            elif not _is_same(wanted or _default(own, name), found):
                return False
        return True

    def _is_whole(self, state: _State) -> bool:
        """Return whether nothing outside needs what is inside, and no path leaves the place and comes back."""
        inside, results = set(state.nodes.values()), {state.values.get(v) for v in self.pattern.outputs}
        given = (state.values[v] for v in self.pattern.inputs)
        if any(v is not None and v.producer in inside for v in given):
            return False
        for node in inside:
            for value in node.outputs:
                if value is None or value in results:
                    continue
                if value in self._constants.protected or is_used_outside(value, inside):
                    return False
        return len(self.pattern.outputs) < 2 or detour(inside) is None


def find(
    pattern: Pattern, model: Model, type_of: TypeOf, *, progress: Progress = SILENT
) -> tuple[list[Occurrence], int]:
    """Return the occurrences of a pattern in the graph, subgraphs and functions of a model, and how many others were
    left out for sharing nodes with them.
    """
    matcher = Matcher(pattern, Constants(model, progress=progress), type_of, progress=progress)
    with no_collection():
        return list(matcher.search(searched_graphs(model, progress))), len(matcher.left_out)


def searched_graphs(model: Model, progress: Progress = SILENT) -> Iterator[Graph]:
    """Yield the graphs that patterns are searched in: all but those of training."""
    for root in (model.graph, *(function.body for function in model.functions)):
        yield from root.walk(progress)


def _bodies(node: Node) -> object:
    """Return a label of the subgraphs of a node, equal only for those that compute the same."""
    return exact_label(node, short_content) if node.bodies else None


def _default(node: Node, name: str) -> Attribute | None:
    schema = schema_of(node)
    formal = None if schema is None else schema.attributes.get(name)
    return None if formal is None else formal.default


def _is_same(one: Attribute | None, other: Attribute | None) -> bool:
    if one is None or other is None:
        return one is other
    if one.kind != other.kind or one.reference != other.reference:
        return False
    if isinstance(one.value, Tensor) and isinstance(other.value, Tensor):
        content = short_content(one.value)
        return content is not None and content == short_content(other.value)
    return is_same(one.value, other.value)


def _are_equal(expected: NDArray[Any], found: NDArray[Any] | None) -> bool:
    """Return whether constants have equal numbers. A number is compared in the precision of the constant that is found,
    whatever its rank, so that a pattern holds for models of any precision.
    """
    if found is None or (expected.shape != found.shape and not expected.size == found.size == 1):
        return False
    if expected.dtype != found.dtype:
        if not (_is_float(expected) and _is_float(found)):
            return False
        expected = expected.astype(found.dtype)
    if _is_float(found):
        expected, found = expected.astype(np.float64), found.astype(np.float64)
        return bool(np.array_equal(expected.reshape(-1), found.reshape(-1), equal_nan=True))
    return bool(np.array_equal(expected.reshape(-1), found.reshape(-1)))


def _is_float(array: NDArray[Any]) -> bool:
    return array.dtype.kind == "f" or "float" in array.dtype.name  # those of ml_dtypes


def _holds(wanted: TensorType, found: object) -> bool:
    """Return whether a type is known to be the wanted one; names of sizes stand for any."""
    if not isinstance(found, TensorType) or wanted.element_type not in (0, found.element_type):
        return False
    if wanted.shape is None:
        return True
    if found.shape is None or found.shape.rank != wanted.shape.rank:
        return False
    pairs = zip(wanted.shape.dims, found.shape.dims, strict=True)
    return all(not isinstance(a, int) or a == b for a, b in pairs)
