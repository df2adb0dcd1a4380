"""Values that an edit makes stale. No Qt in here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import islice, zip_longest
from typing import Any

from onnx_workbench.model.analysis.call_graph import callers_of
from onnx_workbench.model.analysis.topology import Thing, downstream
from onnx_workbench.model.history.document import Change
from onnx_workbench.model.history.steps import (
    InsertNode,
    MoveUses,
    RemoveNode,
    SetAttribute,
    SetField,
    SetGraphInputs,
    SetGraphOutputs,
    SetInitializer,
    Step,
)
from onnx_workbench.model.ir.attributes import is_same
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, Value
from onnx_workbench.model.ir.tensors import SparseTensor, Tensor
from onnx_workbench.model.progress import SILENT, Progress
from onnx_workbench.model.schemas import traits

#: Fields that determine results, unlike names and texts.
_OF_NODES = frozenset({"op_type", "domain", "overload"})
_OF_FUNCTIONS = frozenset({"name", "domain", "overload", "attributes", "attribute_defaults", "opset_imports"})


#: Objects processed between two checks of the clock.
_PER_CHECK = 10_000


@dataclass(frozen=True, eq=False)
class StaleValues:
    """Stale values, and the nodes among them, filtered once as there may be a hundred thousand objects."""

    things: AbstractSet[Thing] = frozenset()
    nodes: Sequence[Node] = ()


def stale_after(changed: Iterable[Thing], progress: Progress = SILENT) -> StaleValues:
    """Return everything that depends on the changed objects."""
    things = outdated(changed, progress)
    nodes: list[Node] = []
    for some in _parts(things, progress):
        nodes += [thing for thing in some if isinstance(thing, Node)]
    return StaleValues(things, nodes)


def _parts(things: AbstractSet[Thing], progress: Progress) -> Iterator[list[Thing]]:
    left = iter(things)
    while some := list(islice(left, _PER_CHECK)):
        progress.check()
        yield some


def sources(change: Change) -> set[Thing]:
    """Return the nodes and values whose results a change may alter directly, without their dependents."""
    things: set[Any] = set()
    for step, inverse in zip(change.steps, change.inverses, strict=True):
        if isinstance(step, InsertNode):  # of these two kinds there may be 100,000
            things.add(step.node)
        elif isinstance(step, RemoveNode):
            things.update(step.node.outputs)
        elif isinstance(step, SetField):
            _collect_field(step, inverse, things)
        elif not _is_of_texts(step, inverse):
            _collect(step, inverse, things)
    things.discard(None)
    return things


def concerns_inputs(change: Change) -> bool:
    """Return whether a change may alter the set of the model's inputs or their types."""
    return any(_is_of_inputs(step, inverse) for step, inverse in zip(change.steps, change.inverses, strict=True))


def _is_of_inputs(step: Step, inverse: Step) -> bool:
    if isinstance(step, SetField):
        return step.field == "type" and isinstance(step.target, Value) and _is_given(step.target)
    if isinstance(step, SetInitializer) and isinstance(inverse, SetInitializer):
        return (step.tensor is None) != (inverse.tensor is None)
    return isinstance(step, SetGraphInputs) and isinstance(step.graph.owner, Model)


def _is_given(value: Value) -> bool:
    """Return whether a value is an input of a run, so that its declared type matters."""
    is_made = value.producer is not None or value.initializer is not None
    return not is_made and value.graph is not None and isinstance(value.graph.owner, Model)


def _is_drawn(node: Node) -> bool:
    """Return whether a node draws random numbers seeded by its name."""
    return traits.of(node).is_stochastic and "seed" not in node.attributes


def rewires(change: Change) -> bool:
    """Return whether a change may alter dependencies between nodes."""
    return any(not isinstance(step, (SetAttribute, SetInitializer, SetField)) for step in change.steps)


def outdated(things: Iterable[Thing], progress: Progress = SILENT) -> set[Thing]:
    """Return everything that depends on some nodes and values, including these, also through function calls."""
    stale: set[Thing] = set()
    pending = list(things)
    while pending:
        graphs: set[Graph | None] = set()
        for some in _parts(downstream([thing for thing in pending if thing not in stale], progress).keys(), progress):
            stale.update(some)
            graphs.update([thing.graph for thing in some])
        functions = {graph.root.owner for graph in graphs if graph is not None}
        pending = [
            call for owner in functions if isinstance(owner, Function) for call in _calls(owner) if call not in stale
        ]
    return stale


def _calls(function: Function) -> list[Node]:
    return [] if function.model is None else callers_of(function.model, {function.key})


def _is_of_texts(step: Step, inverse: Step) -> bool:
    """Return whether a step that sets a constant or an attribute leaves its values unchanged."""
    if isinstance(step, SetInitializer) and isinstance(inverse, SetInitializer):
        return _shares_values(step.tensor, inverse.tensor)
    if isinstance(step, SetAttribute) and isinstance(inverse, SetAttribute):
        new, old = step.attribute, inverse.attribute
        if new is None or old is None or (new.kind, new.reference) != (old.kind, old.reference):
            return False
        return is_same(new.value, old.value) or _shares_values(new.value, old.value)
    return False


def _shares_values(new: object, old: object) -> bool:
    match new, old:
        case Tensor(), Tensor():
            return new.shares_values(old)
        case SparseTensor(), SparseTensor():
            alike = new.values.shares_values(old.values) and new.indices.shares_values(old.indices)
            return alike and new.shape == old.shape
        case _:
            return False


def _collect(step: Step, inverse: Step, found: set[Thing]) -> None:
    if isinstance(step, SetGraphInputs) and isinstance(inverse, SetGraphInputs) and isinstance(step.graph.owner, Model):
        pairs = zip_longest(step.inputs, inverse.inputs[: len(step.inputs)])  # inputs are matched by position
        found.update(new for new, old in pairs if new is not old)
    changes_signature = isinstance(step, (SetGraphInputs, SetGraphOutputs, MoveUses))
    for thing in step.touched:
        if isinstance(thing, (Node, Value)):
            found.add(thing)
        elif isinstance(thing, Graph) and changes_signature:
            _collect_owner(thing, found)


def _collect_owner(graph: Graph, found: set[Thing]) -> None:
    """Add the owner of a graph whose inputs or outputs changed: the node of a body, or the calls of a function."""
    if isinstance(graph.owner, Node):
        found.add(graph.owner)
    elif isinstance(graph.owner, Function):
        found.update(_calls(graph.owner))


def _collect_field(step: SetField, inverse: Step, found: set[Thing]) -> None:
    """Add the objects whose results a changed field may alter; names and texts alter none."""
    target, field = step.target, step.field
    if isinstance(target, Node):
        if field in _OF_NODES or (field == "name" and _is_drawn(target)):
            found.add(target)
    elif isinstance(target, Value):
        if field == "type" and _is_given(target):
            found.add(target)
    elif isinstance(target, Model):
        assert isinstance(inverse, SetField)
        found.update(_affected(target, field, step.value, inverse.value))
    elif isinstance(target, Function) and field in _OF_FUNCTIONS:
        found.update(_calls(target))


def _affected(model: Model, field: str, new: Any, old: Any) -> Iterable[Node]:
    """Return the nodes whose results change with a field of the model."""
    if field == "functions":
        return callers_of(model, {function.key for function in {*new}.symmetric_difference(old)})
    if field == "opset_imports":
        domains = {domain for domain in {*new, *old} if new.get(domain) != old.get(domain)}
        return (n for graph in model.graph.walk() for n in graph.nodes if n.domain in domains)
    return model.graph.nodes if field == "ir_version" else ()
