"""Conversion of the document's changes to signals with the objects that views must update."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from PySide6.QtCore import QObject, Signal

from onnx_workbench.model.history.document import Change, Document
from onnx_workbench.model.history.steps import (
    InsertNode,
    RemoveNode,
    SetAttribute,
    SetField,
    SetInitializer,
    SetOutputs,
    Step,
)
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, TrainingInfo, Value

#: Limit for the nodes and values of a change up to which views update at once. Beyond, labels are updated in chunks:
#: at once, 100,000 renamed nodes in 10,000 boxes take 0.1 s, and more if all groups are open.
_MANY = 2_000


@dataclass(slots=True)
class ChangeSet:
    """The objects touched by a change, by kind of update.

    structure  graphs with added, removed or rewired nodes, interface, initializers or bodies
    nodes      nodes whose own fields, attributes or wires changed
    values     values whose name, type, constant, producer or uses changed
    removed    nodes that are no longer in the model, and their graphs
    model      whether the model itself, a graph's texts, a function's signature or the training info changed
    is_inside  whether only attributes without bodies changed: names and positions of nodes are unchanged
    """

    structure: set[Graph] = field(default_factory=set)
    nodes: set[Node] = field(default_factory=set)
    values: set[Value] = field(default_factory=set)
    removed: set[Node | Graph | Function] = field(default_factory=set)
    model: bool = False
    is_inside: bool = False

    @property
    def is_large(self) -> bool:
        """Whether it is too large to process within one event."""
        return is_large(self.nodes, self.values)


def is_large(nodes: Collection[Node], values: Collection[Value]) -> bool:
    """Return whether so many objects changed that processing them takes longer than a frame."""
    return len(nodes) + len(values) > _MANY


class ModelSignals(QObject):
    """Signals of the changes of an edit, undo or redo; the sets are new for every change and never empty.

    The signals are emitted in the order of their definition, after the model has changed. The workspace gets `removed`
    before any view, so that the selection holds no deleted object.
    """

    removed = Signal(object)  # set[Node | Graph | Function]
    structure_changed = Signal(object)  # set[Graph]
    nodes_changed = Signal(object)  # set[Node]
    values_changed = Signal(object)  # set[Value]
    model_changed = Signal()
    changed = Signal(object)  # the Change itself, always, last of these
    state_changed = Signal()  # modified, path, or the next undo or redo

    def __init__(self, document: Document, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._held: list[Change] | None = None  # to be emitted together
        self.touched = ChangeSet()  # of the change that is being or was last emitted
        self._endings = [document.subscribe(self._on_change), document.on_saved(self.state_changed.emit)]

    def close(self) -> None:
        """Disconnect from the document."""
        while self._endings:
            self._endings.pop()()

    @contextmanager
    def together(self) -> Iterator[None]:
        """Context manager that merges the signals of its changes into one at its end, as for many undo steps at once.

        Listeners of the document itself, such as the journal, still get each change.
        """
        held = self._held = []
        try:
            yield
        finally:
            self._held = None
            if held:
                self._notify(_as_one(held))

    def _on_change(self, change: Change) -> None:
        if self._held is None:
            self._notify(change)
        else:
            self._held.append(change)

    def _notify(self, change: Change) -> None:
        touched = self.touched = touched_by(change)
        if touched.removed:
            self.removed.emit(touched.removed)
        if touched.structure:
            self.structure_changed.emit(touched.structure)
        if touched.nodes:
            self.nodes_changed.emit(touched.nodes)
        if touched.values:
            self.values_changed.emit(touched.values)
        if touched.model:
            self.model_changed.emit()
        self.changed.emit(change)
        self.state_changed.emit()


def _as_one(changes: Sequence[Change]) -> Change:
    """Merge a sequence of changes into one."""
    if len(changes) == 1:
        return changes[0]
    steps = tuple(step for change in changes for step in change.steps)
    inverses = tuple(inverse for change in changes for inverse in change.inverses)
    return replace(changes[-1], steps=steps, inverses=inverses)


def touched_by(change: Change) -> ChangeSet:
    """Return the ChangeSet of a change. Cost: the size of the change."""
    touched = ChangeSet()
    nodes, structure, values = touched.nodes, touched.structure, set[Value | None]()
    for step, inverse in zip(change.steps, change.inverses, strict=True):
        # Inlined for speed, as there may be 100,000 steps: calls took two thirds of the time.
        if isinstance(step, SetField):
            target = step.target
            if isinstance(target, Node):
                nodes.add(target)
            elif isinstance(target, Value):
                values.add(target)
            else:
                _collect_field(target, step, inverse, touched)
        elif isinstance(step, (InsertNode, RemoveNode)):
            node = step.node
            nodes.add(node)
            values.update(node.inputs)
            values.update(node.outputs)
            if isinstance(step, InsertNode):
                structure.add(step.graph)
            elif isinstance(inverse, InsertNode):
                structure.add(inverse.graph)
                touched.removed.add(node)
                for body in node.bodies:
                    touched.removed.update(body.walk())
        elif isinstance(step, SetOutputs) and isinstance(inverse, SetOutputs):
            nodes.add(step.node)
            values.update(step.outputs)
            values.update(inverse.outputs)
            _add_structure(touched, step.node.graph)
        else:
            _collect(step, inverse, touched)
    _add_values(touched, values)
    touched.is_inside = not touched.structure and set(map(type, change.steps)) == {SetAttribute}
    touched.removed = {
        thing for thing in touched.removed if (type(thing) is Node and thing.graph is None) or not is_in_model(thing)
    }
    return touched


def _collect(step: Step, inverse: Step, touched: ChangeSet) -> None:
    match step:
        case SetAttribute():
            touched.nodes.add(step.node)
            replaced = inverse.attribute if isinstance(inverse, SetAttribute) else None
            before = () if replaced is None else replaced.graphs
            if before != (() if step.attribute is None else step.attribute.graphs):
                touched.removed.update(before)
                _add_structure(touched, step.node.graph)
        case SetInitializer():
            touched.values.add(step.value)
            before_tensor = inverse.tensor if isinstance(inverse, SetInitializer) else None
            if (before_tensor is None) != (step.tensor is None):
                touched.structure.add(step.graph)
        case _:
            _collect_wiring(step, inverse, touched)


def _collect_wiring(step: Step, inverse: Step, touched: ChangeSet) -> None:
    """Add the nodes, graphs and old and new values of a step that changes wires."""
    for thing in (*step.touched, *inverse.touched):
        if isinstance(thing, Node):
            touched.nodes.add(thing)
            _add_structure(touched, thing.graph)
        elif isinstance(thing, Graph):
            touched.structure.add(thing)
    _add_values(touched, (*inverse.mentioned, *step.mentioned))


def _collect_field(
    target: Graph | Model | Function | TrainingInfo, step: SetField, inverse: Step, touched: ChangeSet
) -> None:
    touched.model = True
    if isinstance(target, Graph):
        _add_values(touched, step.mentioned)
    elif isinstance(inverse, SetField):
        touched.removed.update(_removed_graphs(step.field, inverse.value, step.value))


def _removed_graphs(field: str, before: Any, after: Any) -> Iterator[Graph | Function]:
    """Yield functions and outermost graphs that a change removed from a field of the model or of a training step."""
    match field:
        case "functions":
            for function in set(before).difference(after):
                yield function
                yield function.body
        case "training_info":
            steps = set(before).difference(after)
            yield from (g for step in steps for g in (step.initialization, step.algorithm) if g is not None)
        case "initialization" | "algorithm" if before is not None and before is not after:
            yield before


def _add_values(touched: ChangeSet, values: Iterable[Value | None]) -> None:
    touched.values.update(filter(None, values))


def _add_structure(touched: ChangeSet, graph: Graph | None) -> None:
    if graph is not None:
        touched.structure.add(graph)


def is_in_model(thing: Node | Value | Graph | Function | Model) -> bool:
    """Return whether an object is still part of a model. Cost: the nesting depth."""
    match thing:
        case Node():
            return thing.graph is not None and is_in_model(thing.graph)
        case Value():
            if thing.producer is not None:
                return is_in_model(thing.producer)
            return thing.graph is not None and is_in_model(thing.graph) and (thing.is_defined or bool(thing.uses))
        case Graph():
            root = thing.root
            owner = root.owner
            if isinstance(owner, TrainingInfo):
                listed = owner.model is not None and owner in owner.model.training_info
                return listed and root in (owner.initialization, owner.algorithm)
            return is_in_model(owner) if isinstance(owner, Function) else thing.model is not None
        case Function():
            return thing.model is not None and thing.model.lists(thing)
        case Model():
            return True
