"""Do at every place of a pattern what the last edits of the history did to one of them.

Their steps are undone in a copy of the model, until they touched a place of the pattern there. Nodes and values of this
place correspond to those of the others by their part in the pattern; by that the steps are carried over.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from onnx_workbench.model.analysis.constants import Constants
from onnx_workbench.model.analysis.value_types import declared_type
from onnx_workbench.model.edits.fresh_names import FreshNames
from onnx_workbench.model.edits.nodes import sort_nodes
from onnx_workbench.model.edits.rewriter import GraphRewriter
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import HistoryEntry
from onnx_workbench.model.history.step_carrier import Part, StepCarrier
from onnx_workbench.model.history.steps import (
    InsertNode,
    MoveUses,
    RemoveNode,
    SetField,
    SetGraphInputs,
    SetGraphOutputs,
    SetInitializer,
    SetInput,
    SetInputs,
    Step,
)
from onnx_workbench.model.history.working_copy import WorkingCopy
from onnx_workbench.model.inference.infer import infer
from onnx_workbench.model.ir.attributes import Attribute
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, Value
from onnx_workbench.model.ir.name_index import NameIndex
from onnx_workbench.model.progress import SILENT, Progress
from onnx_workbench.model.simplify.context import MatchContext
from onnx_workbench.model.simplify.passes import Match, Pass, describe
from onnx_workbench.model.simplify.pattern import Pattern
from onnx_workbench.model.simplify.pattern_matching import Matcher, Occurrence, searched_graphs
from onnx_workbench.model.text.formatting import display, plural

MOST_ENTRIES = 20  # of the history that are looked at

#: The title of an edit, and the steps that undo it.
Undoing = tuple[str, Sequence[Step]]


def last_edits(current: HistoryEntry) -> list[Undoing]:
    """Return the last edits that led to an entry, the latest first."""
    found: list[Undoing] = []
    entry = current
    while entry.parent is not None and len(found) < MOST_ENTRIES:
        found.append((entry.title, tuple(reversed(entry.inverses))))
        entry = entry.parent
    return found


@dataclass
class Lesson:
    """What edits did to one place: the place before them, their steps inside of it, and the values that what uses the
    place got instead of others. All are of `copy`, the model before the edits.
    """

    titles: tuple[str, ...]
    copy: WorkingCopy
    place: Occurrence
    steps: list[Step] = field(default_factory=list)
    redirected: dict[Value, Value] = field(default_factory=dict)
    nodes: set[Node] = field(default_factory=set)  # of the place, and those that the edits added
    values: set[Value] = field(default_factory=set)

    @property
    def graph(self) -> Graph:
        """The graph of the place."""
        found = next(iter(self.place.nodes.values())).graph
        assert found is not None
        return found

    def __post_init__(self) -> None:
        self.nodes = set(self.place.nodes.values())
        self.values = {v for v in self.place.values.values() if v is not None}
        self.values |= {v for node in self.nodes for v in node.outputs if v is not None}

    def learn(self, step: Step) -> None:
        """Note a step that is about to be applied to the copy. ModelError: other places cannot have it."""
        match step:
            case SetField(target=Model() | Function() | Graph()):
                pass  # versions of operators, functions: they are there already
            case MoveUses():
                for user, index in step.uses:
                    self._connect(user, index, step.source, step.target)
            case SetInput():
                self._connect(step.node, step.index, step.node.inputs[step.index], step.value)
            case SetInputs() if step.node not in self.nodes:
                old = step.node.inputs
                if len(old) != len(step.inputs):
                    raise _outside(step.node)
                for index, pair in enumerate(zip(old, step.inputs, strict=True)):
                    self._connect(step.node, index, *pair)
            case SetGraphOutputs():
                old = step.graph.outputs
                if len(old) != len(step.outputs):
                    raise _outside(step.graph)
                for index, (before, after) in enumerate(zip(old, step.outputs, strict=True)):
                    self._connect(step.graph, index, before, after)
            case _:
                self._learn_inside(step)

    def _learn_inside(self, step: Step) -> None:
        """Note a step that changes what is in the place, or adds to it."""
        match step:
            case InsertNode():
                self.nodes.add(step.node)
                self.values.update(v for v in step.node.outputs if v is not None)
                self._require_known(step.node.inputs)
            case SetInitializer() if not step.value.is_defined:
                self.values.add(step.value)
            case SetInputs():
                self._require_known(step.inputs)
        target = step.value if isinstance(step, SetInitializer) else step.changed
        is_inside = target in self.nodes or target in self.values
        if isinstance(step, SetGraphInputs) or not (is_inside or isinstance(step, InsertNode)):
            raise _outside(target)
        self.steps.append(step)

    def _connect(self, user: Node | Graph, index: int, old: Value | None, new: Value | None) -> None:
        """Note that an input of a node, or an output of a graph, is another value."""
        if old is new:
            return
        if isinstance(user, Node) and user in self.nodes:
            self._require_known([new])
            self.steps.append(SetInput(user, index, new))
        elif old in self.values and new in self.values and self.redirected.get(old, new) is new:
            assert old is not None
            assert new is not None
            self.redirected[old] = new
        else:
            raise _outside(user)

    def _require_known(self, values: Iterable[Value | None]) -> None:
        """Check that what the place uses is in it, or is a constant or an input that all of the model sees."""
        for value in values:
            main = self.copy.document.model.graph
            if value is None or value in self.values or (value.producer is None and value.graph is main):
                continue
            raise ModelError(
                "What was done cannot be done elsewhere",
                f"The place uses {display(value.name, 60)} now, and other places have no such value.",
                self.copy.original(value),
            )

    def require_all_redirected(self) -> None:
        """Check, the steps being applied, that nothing outside uses the values that were exchanged."""
        for old in self.redirected:
            user = next((user for user, _ in old.uses if user not in self.nodes), None)
            if user is not None:
                raise _outside(user)

    def shared(self) -> dict[int, Any]:
        """Return what the parts of the copy stand for, those that the edits added left out, by id."""
        added = {node.id for node in self.nodes} | {value.id for value in self.values}
        for graph in (graph for node in self.nodes for body in node.bodies for graph in body.walk()):
            added |= {graph.id, *(node.id for node in graph.nodes), *(value.id for value in graph.values())}
        return {key: part for key, part in self.copy.originals_by_id().items() if key not in added}


def _outside(target: object) -> ModelError:
    name = describe(target) if isinstance(target, Node) else str(getattr(target, "name", ""))
    return ModelError(
        "What was done cannot be done elsewhere",
        f"It changed {display(name, 60) or 'the model'}, which is not in the place, in a way of its own.",
    )


def learn(pattern: Pattern, model: Model, edits: Iterable[Undoing], progress: Progress = SILENT) -> Lesson:
    """Return what the last edits that touched a place of the pattern did to it. The model stays as it is.

    ModelError: none did, they touched several, or did what other places cannot have. Cost: a copy of the model, and a
    search for each edit that is undone.
    """
    copy = WorkingCopy(model, progress)
    back = StepCarrier(copy.copies_by_id())
    undone: list[tuple[str, list[Step]]] = []  # with the steps that do it again; the earliest first
    place: Occurrence | None = None
    for title, inverses in edits:
        steps = [back.carry(step).apply() for step in inverses][::-1]
        asked = steps if place is not None else [step for _, steps in [("", steps), *undone] for step in steps]
        touched = _touched_place(pattern, copy.document.model, asked, progress)
        if place is not None and (touched is None or {*touched.nodes.values()} != {*place.nodes.values()}):
            for step in steps:
                step.apply()
            break
        place = touched
        undone.insert(0, (title, steps))
    if place is None:
        looked = f"None of the last {plural(len(undone), 'edit')} touched a place of the pattern."
        raise ModelError("No place was edited", looked if undone else "The history has no edits before this state.")
    return _lesson(copy, place, undone)


def _touched_place(pattern: Pattern, model: Model, steps: Sequence[Step], progress: Progress) -> Occurrence | None:
    """Return the place that steps change, or else whose values they use; ModelError for several."""
    constants = Constants(model, progress=progress)
    type_of = infer(model, progress=progress).type_of if pattern.is_typed else declared_type
    matcher = Matcher(pattern, constants, type_of, progress=progress)
    changed = {target for step in steps for target in step.touched}
    used = {value for step in steps for value in step.mentioned if value is not None}
    by_change, by_use = list[Occurrence](), list[Occurrence]()
    for place in matcher.search(searched_graphs(model, progress)):
        values = {v for node in place.nodes.values() for v in node.outputs} | {*place.values.values()}
        own = {v for v in values if v is not None and (v.producer is not None or v.initializer is not None)}
        if not changed.isdisjoint(place.nodes.values()) or not changed.isdisjoint(own):
            by_change.append(place)
        elif not used.isdisjoint(own):
            by_use.append(place)
    found = by_change or by_use
    if len(found) > 1:
        raise ModelError("Edit exactly one of the places", f"The last edits touched {plural(len(found), 'place')}.")
    return found[0] if found else None


def _lesson(copy: WorkingCopy, place: Occurrence, undone: Sequence[tuple[str, Sequence[Step]]]) -> Lesson:
    """Learn from the edits that concern a place, by doing all again; the copy is then as before."""
    lesson = Lesson((), copy, place)
    inverses: list[Step] = []
    for title, steps in undone:
        concerned: set[object] = {*lesson.nodes, *lesson.values}
        is_about = any(not concerned.isdisjoint((*step.touched, *step.mentioned)) for step in steps)
        for step in steps:
            if is_about:
                lesson.learn(step)
            inverses.append(step.apply())
        if is_about:
            lesson.titles += (title,)
    lesson.require_all_redirected()
    for step in reversed(inverses):
        step.apply()
    return lesson


def transfer(name: str, pattern: Pattern, lesson: Lesson) -> Pass:
    """Return the pass that does what was learned at all places of a pattern but that one, once."""
    return Pass(name, name, f"Does {', '.join(lesson.titles)}.", _Transfer(name, pattern, lesson).find, may_grow=True)


class _Transfer:
    def __init__(self, name: str, pattern: Pattern, lesson: Lesson) -> None:
        self._name = name
        self._pattern = pattern
        self._lesson = lesson
        self._shared = lesson.shared()
        self._names = FreshNames()
        self._done = {lesson.copy.original(node) for node in lesson.nodes}

    def find(self, context: MatchContext) -> Iterator[Match]:
        def may_take(node: Node) -> bool:
            return context.is_chosen(node) and node not in self._done

        matcher = Matcher(
            self._pattern, context.constants, context.type_of, may_take=may_take, progress=context.progress
        )
        for place in matcher.search(context.graphs):
            nodes = place.of(self._pattern)
            if any(self._pairs(place)[old.id].is_output for old in self._lesson.redirected):
                context.refuse(self._name, nodes[-1], "an output of the graph would get another name")
                continue
            self._done.update(nodes)
            yield place.match(self._pattern, partial(self._do, context, place))

    def _pairs(self, place: Occurrence) -> dict[int, Any]:
        taught = self._lesson.place
        pairs: dict[int, Any] = {one.id: place.nodes[own] for own, one in taught.nodes.items()}
        for own, one in taught.nodes.items():
            made = zip(one.outputs, place.nodes[own].outputs, strict=False)
            pairs.update((a.id, b) for a, b in made if a is not None and b is not None)
        pairs.update((one.id, place.values[own]) for own, one in taught.values.items() if one is not None)
        pairs[self._lesson.graph.id] = next(iter(place.nodes.values())).graph
        return pairs

    def _do(self, context: MatchContext, place: Occurrence, rewriter: GraphRewriter) -> None:
        """Do at a place what was done to the lesson's. Its nodes get the order of inputs that is there."""
        edit, pairs = rewriter.edit, self._pairs(place)
        graph = pairs[self._lesson.graph.id]
        nodes = set(place.nodes.values())
        last = max(nodes, key=graph.nodes.place)
        carrier = _PlaceCarrier(ChainMap(pairs, self._shared), graph, last.next, self._names, self._captured(place))
        moved = [
            (user, index, new)
            for old, new in self._lesson.redirected.items()
            for user, index in list(pairs[old.id].uses)
            if isinstance(user, Node) and user not in nodes
        ]
        for own, one in self._lesson.place.nodes.items():
            inputs = tuple(None if v is None else pairs.get(v.id, v) for v in one.inputs)
            if {*inputs} == {*place.nodes[own].inputs}:
                edit.do(SetInputs(place.nodes[own], inputs))
        for step in self._lesson.steps:
            carried = carrier.carry(step)
            if isinstance(carried, SetInitializer) and carried.tensor is None and carried.value.uses:
                continue  # a weight that others use as well
            if isinstance(carried, RemoveNode):
                context.node_removed(carried.node)
            edit.do(carried)
            if isinstance(carried, InsertNode):
                context.node_added(carried.node)
                self._done.add(carried.node)
        for user, index, new in moved:
            edit.do(SetInput(user, index, carrier.original(new)))
        if not NameIndex.of(graph).is_sorted:
            sort_nodes(edit, graph)

    def _captured(self, place: Occurrence) -> dict[tuple[str, str], Attribute]:
        """Return the place's attributes that may be any, by name and value of those of the lesson's place."""
        taught = self._lesson.place.attributes
        return {
            (attribute.name, repr(attribute.value)): place.attributes[name]
            for name, attribute in taught.items()
            if name in place.attributes
        }


class _PlaceCarrier(StepCarrier):
    """Carries the steps of a lesson to one place. New nodes and values get free names, and attributes of new nodes that
    are as the lesson's place has them are as this place has them.
    """

    def __init__(
        self,
        counterparts: ChainMap[int, Any],
        graph: Graph,
        following: Node | None,
        names: FreshNames,
        captured: dict[tuple[str, str], Attribute],
    ) -> None:
        super().__init__(counterparts)
        self._graph, self._following, self._names, self._captured = graph, following, names, captured

    def carry(self, step: Step) -> Step:
        match step:
            case InsertNode():
                is_inside = step.before is not None and step.before.id in self._own
                before = self.original(step.before) if is_inside else self._following
                return InsertNode(self._graph, self._node(step.node), before)
            case SetField(target=Node() as node, field="name"):
                return SetField(self.original(node), "name", self._names.node(self._graph, step.value))
            case SetField(target=Value() as value, field="name"):
                return SetField(self.original(value), "name", self._names.value(self._graph, step.value))
        return super().carry(step)

    @property
    def _own(self) -> Any:
        counterparts = self._counterparts
        assert isinstance(counterparts, ChainMap)
        return counterparts.maps[0]

    def _carried(self, moved: Part, made: Part) -> None:
        self._counterparts[made.id] = moved
        if isinstance(moved, Value):
            moved.name = self._names.value(self._graph, moved.name)
        elif isinstance(moved, Node):
            moved.name = self._names.node(self._graph, moved.name) if moved.name else ""
            moved._attributes = {
                name: replace(self._captured.get((name, repr(a.value)), a), name=name)
                for name, a in moved.attributes.items()
            }
