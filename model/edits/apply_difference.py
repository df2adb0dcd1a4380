"""Copy differences from one model into the other, as ordinary edits."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal

from onnx_workbench.model.analysis.scoping import captured, names_taken, visible_values
from onnx_workbench.model.diff import Comparison, Difference
from onnx_workbench.model.edits.functions import remove_function, rename_function
from onnx_workbench.model.edits.nodes import move_before
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.clone import Cloner
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.history.steps import (
    FIELDS,
    InsertNode,
    RemoveNode,
    SetAttribute,
    SetField,
    SetGraphInputs,
    SetGraphOutputs,
    SetInitializer,
    SetInputs,
    SetOutputs,
)
from onnx_workbench.model.ir.graph import Function, Graph, Node, Value

Side = Literal["old", "new"]


def apply_difference(edit: Transaction, comparison: Comparison, difference: Difference, into: Side) -> None:
    """Copy one difference into a side; `edit` must be of the model of side `into`.

    ModelError names the difference that must be applied first. Cost: as the edit it makes.
    """
    _TakeOver(edit, comparison, into).one(difference)


def apply_differences(
    edit: Transaction, comparison: Comparison, differences: Iterable[Difference], into: Side
) -> list[tuple[Difference, ModelError]]:
    """Apply many differences in a valid order; returns those that failed, with the reason."""
    work = _TakeOver(edit, comparison, into)
    waiting = sorted(differences, key=work.rank)
    while True:
        refused = []
        for difference in waiting:
            try:
                work.one(difference)
            except ModelError as error:
                refused.append((difference, error))
        if not refused or len(refused) == len(waiting):
            return refused
        waiting = [difference for difference, _ in refused]


class _TakeOver:
    def __init__(self, edit: Transaction, comparison: Comparison, into: Side) -> None:
        self._edit = edit
        self._matching = comparison.matching
        self._into = into

    def rank(self, difference: Difference) -> int:
        """Return the sort key: prerequisites of others first."""
        here, there = self._sides(difference)
        if difference.aspect:
            return 3 if difference.aspect == "place" else 2
        return 4 if there is None else 0 if difference.subject == "function" else 1 if here is None else 2

    def one(self, difference: Difference) -> None:
        """Apply one difference."""
        here, there = self._sides(difference)
        if not difference.aspect:
            self._whole(difference, here, there)
        elif difference.aspect == "initializer":
            self._initializer(here, there)
        else:
            self._aspect(difference.aspect, here, there)

    def _sides(self, difference: Difference) -> tuple[Any, Any]:
        """Return the object to change, and the one to copy from."""
        old, new = difference.old, difference.new
        return (old, new) if self._into == "old" else (new, old)

    # -- counterparts --------------------------------------------------------------------------------------------

    def _here(self, item: Any) -> Any:
        """Return the counterpart of an object of the other side; None if there is none."""
        partners = self._matching.old_of if self._into == "old" else self._matching.new_of
        return partners.get(item)

    def _needed(self, value: Value | None, graph: Graph) -> Value | None:
        """Return the counterpart of a value of the other side; ModelError if there is none yet."""
        if value is None:
            return None
        partner = self._here(value)
        if partner is None and not value.is_defined:
            partner = visible_values(graph).get(value.name)
            if partner is None:
                partner = Value(value.name, value.type)
                self._pair(partner, value)
        if not isinstance(partner, Value):
            raise ModelError(
                f"{value.name} is not in this model yet", "Copy the node or the initializer that gives it first.", graph
            )
        return partner

    def _pair(self, here: Any, there: Any) -> None:
        self._matching.pair(*((here, there) if self._into == "old" else (there, here)))

    # -- whole objects -------------------------------------------------------------------------------------------

    def _whole(self, difference: Difference, here: Any, there: Any) -> None:
        thing = here if here is not None else there
        match thing:
            case Node() if here is None:
                self._add_node(there)
            case Node():
                self._edit.do(RemoveNode(here))
            case Function() if here is None:
                copy = Cloner().function(there)
                self._edit.do(SetField(self._edit.model, "functions", (*self._edit.model.functions, copy)))
                self._pair(copy, there)
            case Function():
                remove_function(self._edit, here)
            case _:
                raise ModelError(f"A {difference.subject} cannot be copied alone", "Copy it by editing its owner.")

    def _add_node(self, there: Node) -> None:
        source = there.graph
        graph = self._here(source)
        if not isinstance(graph, Graph) or source is None:
            raise ModelError(f"The graph around {there.title} is not in this model", "Copy its node first.", there)
        inputs = tuple(self._needed(v, graph) for v in there.inputs)
        cloner = Cloner({value: self._needed(value, graph) for value in captured(there)})
        outputs = [self._output(v, graph, cloner) for v in there.outputs]
        for theirs, mine in zip(there.inputs, inputs, strict=True):
            if theirs is not None:
                cloner.values[theirs] = mine
        (copy,) = cloner.nodes([there])
        copy.outputs = tuple(outputs)
        self._edit.do(InsertNode(graph, copy, self._insertion_point(there, graph)))
        self._pair(copy, there)
        for mine, theirs in zip(outputs, there.outputs, strict=True):
            if mine is not None:
                self._pair(mine, theirs)

    def _output(self, value: Value | None, graph: Graph, cloner: Cloner) -> Value | None:
        """Return the output for a copied node: the counterpart without a producer, or a new value under a free name."""
        if value is None:
            return None
        other = self._here(value)
        if isinstance(other, Value) and other.producer is None and other.initializer is None and not other.is_input:
            cloner.values[value] = other
            return other
        if value.name in names_taken(graph):
            raise ModelError(f"The name {value.name} is taken", "Rename the value that has it, or remove it first.")
        return cloner.value(value)

    def _insertion_point(self, there: Node, graph: Graph) -> Node | None:
        """Return the node to insert before: the counterpart of the original's successor, if there is one."""
        following = there.next
        while following is not None:
            mine = self._here(following)
            if isinstance(mine, Node) and mine.graph is graph:
                return mine
            following = following.next
        return None

    def _initializer(self, here: Value | None, there: Value | None) -> None:
        if there is None or there.initializer is None:
            assert here is not None
            assert here.graph is not None
            self._edit.do(SetInitializer(here.graph, here, None))
            return
        graph = here.graph if here is not None else self._here(there.graph)
        if not isinstance(graph, Graph):
            raise ModelError(f"The graph around {there.name} is not in this model", "Copy its node first.")
        if here is None:
            if there.name in names_taken(graph):
                raise ModelError(f"The name {there.name} is taken", "Rename the value that has it first.")
            here = Value(there.name, there.type)
            self._pair(here, there)
        self._edit.do(SetInitializer(graph, here, there.initializer))

    # -- parts of objects ----------------------------------------------------------------------------------------

    def _aspect(self, aspect: str, here: Any, there: Any) -> None:
        word, _, name = aspect.partition(" ")
        field = aspect.replace(" ", "_")
        if here is None or there is None:
            raise ModelError("It is only on one side", "Copy the whole object.")
        if word in ("metadata", "opset"):
            self._mapping("metadata" if word == "metadata" else "opset_imports", name, here, there)
        elif word == "attribute":
            self._attribute(name, here, there)
        elif word in ("input", "output") and isinstance(here, Node):
            self._wire(word, int(name), here, there)
        elif aspect in _ASPECTS:
            _ASPECTS[aspect](self, here, there)
        elif word in ("input", "output") and isinstance(here, Graph):
            (self._graph_inputs if word == "input" else self._graph_outputs)(here, there)
        elif field in FIELDS[type(here)] and field != "quantization_annotations":
            self._edit.do(SetField(here, field, getattr(there, field)))
        else:
            raise ModelError(f"{aspect} cannot be copied alone", "Edit it where it is defined.", here)

    def _mapping(self, field: str, key: str, here: Any, there: Any) -> None:
        key = "" if field == "opset_imports" and key == "ai.onnx" else key
        content, theirs = dict(getattr(here, field)), getattr(there, field)
        content.pop(key, None) if key not in theirs else content.update({key: theirs[key]})
        self._edit.do(SetField(here, field, content))

    def _attribute(self, name: str, here: Any, there: Any) -> None:
        if isinstance(here, Function):
            self._edit.do(SetField(here, "attribute_defaults", there.attribute_defaults))
            return
        attribute = there.attributes.get(name)
        if attribute is not None and attribute.graphs:
            raise ModelError(f"{name} holds a graph", "Copy the whole node.", here)
        index = list(there.attributes).index(name) if attribute is not None else None
        self._edit.do(SetAttribute(here, name, attribute, index))

    def _wire(self, word: str, index: int, here: Node, there: Node) -> None:
        assert here.graph is not None
        if word == "output":
            self._outputs(here, there)
            return
        values = list(here.inputs) + [None] * (index + 1 - len(here.inputs))
        values[index] = self._needed(there.inputs[index], here.graph) if index < len(there.inputs) else None
        while len(values) > len(there.inputs) and values[-1] is None:
            values.pop()
        self._edit.do(SetInputs(here, tuple(values)))

    def _outputs(self, here: Node, there: Node) -> None:
        assert here.graph is not None
        cloner = Cloner()
        outputs = []
        for index, value in enumerate(there.outputs):
            mine = here.outputs[index] if index < len(here.outputs) else None
            keeps = mine is not None and self._here(value) is mine
            outputs.append(mine if keeps else self._output(value, here.graph, cloner))
            if value is not None and outputs[-1] is not None:
                self._pair(outputs[-1], value)
        self._edit.do(SetOutputs(here, tuple(outputs)))

    def _operator(self, here: Node, there: Node) -> None:
        for field in ("domain", "op_type", "overload"):
            self._edit.do(SetField(here, field, getattr(there, field)))

    def _values_of(self, here: Value, there: Value) -> None:
        assert here.graph is not None
        self._edit.do(SetInitializer(here.graph, here, there.initializer))

    def _name(self, here: Any, there: Any) -> None:
        if isinstance(here, Function):
            rename_function(self._edit, here, domain=there.domain, name=there.name, overload=there.overload)
            return
        if isinstance(here, Value) and here.graph is not None and there.name in names_taken(here.graph):
            raise ModelError(f"The name {there.name} is taken", "Rename or remove the value that has it first.", here)
        self._edit.do(SetField(here, "name", there.name))

    def _move(self, here: Node, there: Node) -> None:
        assert here.graph is not None
        move_before(self._edit, here, self._insertion_point(there, here.graph))

    def _graph_inputs(self, here: Graph, there: Graph) -> None:
        inputs = []
        for value in there.inputs:
            mine = self._here(value)
            if not isinstance(mine, Value):
                mine = Value(value.name, value.type)
                self._pair(mine, value)
            inputs.append(mine)
        self._edit.do(SetGraphInputs(here, tuple(inputs)))

    def _graph_outputs(self, here: Graph, there: Graph) -> None:
        outputs = [self._needed(v, here) for v in there.outputs]
        self._edit.do(SetGraphOutputs(here, tuple(v for v in outputs if v is not None)))


_ASPECTS: dict[str, Callable[[_TakeOver, Any, Any], None]] = {
    "operator": _TakeOver._operator,
    "values": _TakeOver._values_of,
    "name": _TakeOver._name,
    "place": _TakeOver._move,
    "order of inputs": _TakeOver._graph_inputs,
    "order of outputs": _TakeOver._graph_outputs,
}

__all__ = ["Side", "apply_difference", "apply_differences"]
