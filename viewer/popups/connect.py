"""Connecting the inputs of nodes by name: what may feed one, in the popups here and in the inspector.

Unsuitable values are shown with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, partial
from itertools import chain, islice
from typing import Final

from PySide6.QtWidgets import QWidget

from onnx_workbench.model.analysis.scoping import seen_by, visible_values
from onnx_workbench.model.analysis.signatures import signature_of
from onnx_workbench.model.analysis.topology import Thing, downstream
from onnx_workbench.model.edits.constants import add_constant, parse_literal, reads_as_constant, reads_as_literal
from onnx_workbench.model.edits.initializers import add_initializer
from onnx_workbench.model.edits.values import connect, disconnect, why_not_connect
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.ir.graph import Graph, Node, Value
from onnx_workbench.model.ir.name_index import NameIndex, comes_before
from onnx_workbench.model.ir.types import ElementType, TensorType
from onnx_workbench.model.schemas.schema import Parameter
from onnx_workbench.model.text.formatting import display, type_text
from onnx_workbench.viewer.document.context import DocumentContext
from onnx_workbench.viewer.popups.choice_popup import Choice, ChoicePopup

_MOST_LISTED: Final = 2000  # nodes of a graph whose values are listed without a name
_MOST_NAMED: Final = 60
_LITERAL_TYPES: Final = (
    ElementType.INT64, ElementType.FLOAT, ElementType.INT32, ElementType.FLOAT16, ElementType.DOUBLE,
    ElementType.BFLOAT16, ElementType.UINT8, ElementType.INT8, ElementType.BOOL,
)  # fmt: skip


def input_name(node: Node, index: int) -> str:
    """Return an input's name in the schema, numbered if variadic; its index alone if unknown."""
    schema = signature_of(node)
    parameter = schema.input(index) if schema is not None else None
    if schema is None or parameter is None:
        return f"input {index}"
    repeats = parameter.option == "variadic"
    return f"{parameter.name}[{index - len(schema.inputs) + 1}]" if repeats else parameter.name


def free_inputs(node: Node) -> list[int]:
    """Return the unconnected inputs: left-out ones, further optional ones, and one more variadic one."""
    count = len(node.inputs)
    free = [index for index, value in enumerate(node.inputs) if value is None]
    return [*free, *range(count, _most_inputs(node, count))]


def _most_inputs(node: Node, count: int) -> int:
    schema = signature_of(node)
    if schema is None or not (schema.is_signature_known or schema.origin == "function"):
        return count + 1
    if schema.inputs and schema.inputs[-1].option == "variadic":
        return max(len(schema.inputs), count + 1)
    return schema.max_inputs


def misfit(workspace: DocumentContext, node: Node, index: int, value: Value) -> str:
    """Return why a value's known type does not fit an input; empty when it does or is unknown."""
    type_ = workspace.types.type_of(value)
    schema = signature_of(node)
    parameter = schema.input(index) if schema is not None else None
    if type_ is None or parameter is None or parameter.allows(type_):
        return ""
    wanted = ", ".join(sorted(parameter.types)[:4]) + (" …" if len(parameter.types) > 4 else "")
    return f"{parameter.name} takes {wanted}; this is {type_text(type_)}."


def choose_input(window: QWidget, workspace: DocumentContext, node: Node) -> ChoicePopup:
    """Open a popup of the inputs of a node, then one of the values for it."""
    choices = []
    free = set(free_inputs(node))
    for index in sorted({*range(len(node.inputs)), *free}):
        value = node.inputs[index] if index < len(node.inputs) else None
        schema = signature_of(node)
        parameter = schema.input(index) if schema is not None else None
        choices.append(
            Choice(
                title=display(input_name(node, index), 80),
                signature="" if value is None else f"← {display(value.name, 60)}",
                detail=display(parameter.doc, 160, elide="end") if parameter is not None else "",
                note="" if value is None else type_text(workspace.types.type_of(value)),
                run=partial(_then_value, window, workspace, node, index),
                rank=0 if value is None and parameter is not None and parameter.option == "single" else 1,
            )
        )
    popup = ChoicePopup(window, "Input", workspace.messages.report)
    popup.open(
        choices,
        caption=f"Which input of {display(node.title, 60)}?",
        placeholder="Input",
        nothing="There is no input of that name.",
    )
    return popup


def _then_value(window: QWidget, workspace: DocumentContext, node: Node, index: int, _shift: bool) -> None:
    choose_value(window, workspace, node, index)


def choose_value(window: QWidget, workspace: DocumentContext, node: Node, index: int) -> ChoicePopup:
    """Open a popup of the values for an input; those that would make a cycle are disabled with the reason."""
    choices = _Choices(workspace, node, index)
    popup = ChoicePopup(window, "Value", workspace.messages.report)
    popup.open(
        choices.listed(),
        caption=f"What feeds {display(input_name(node, index), 40)} of {display(node.title, 60)}?",
        placeholder="Value, or a new constant such as [1, -1] or w: float[3,3] = 0.5",
        nothing="There is no visible value of that name.",
        others=choices.typed,
    )
    return popup


class VisibleValues:
    """Values that nodes of a graph can take, found by parts of their names. They are collected once, on first use."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    @cached_property
    def by_name(self) -> dict[str, Value]:
        """All values by name."""
        return visible_values(self._graph)

    def containing(self, text: str, most: int) -> list[Value]:
        """Return values whose name contains a text: names that begin with it first."""
        words = text.lower()
        starts: list[Value] = []
        holds: list[Value] = []
        for name, value in self.by_name.items():
            lowered = name.lower()
            if words in lowered:
                (starts if lowered.startswith(words) else holds).append(value)
                if len(starts) >= most:
                    break
        return [*starts, *holds][:most]


class InputSource:
    """The values for one input of a node, the reasons against each, and the edits that connect it. GUI thread only."""

    def __init__(self, workspace: DocumentContext, node: Node, index: int) -> None:
        assert node.graph is not None
        self._workspace = workspace
        self._node = node
        self._index = index
        self._graph = node.graph
        self.visible = VisibleValues(node.graph)

    @property
    def present(self) -> Value | None:
        """The value that feeds it now."""
        return self._node.inputs[self._index] if self._index < len(self._node.inputs) else None

    @cached_property
    def _after(self) -> dict[Thing, None]:
        return downstream([self._node])

    def makes_cycle(self, value: Value) -> bool:
        """Return whether a value depends on the node; cheap in the common case."""
        producer = value.producer
        if producer is None:
            return False
        index = NameIndex.of(self._graph)
        if producer.graph is self._graph and index.is_sorted and comes_before(producer, self._node):
            return False
        return producer in self._after

    def misfit(self, value: Value) -> str:
        """Return why a value's known type does not fit; empty when it does or is unknown."""
        return misfit(self._workspace, self._node, self._index, value)

    def is_new_constant(self, text: str) -> bool:
        """Return whether a text defines a constant, or is a number or list, and is no value's name."""
        return (reads_as_constant(text) or reads_as_literal(text)) and text not in self.visible.by_name

    def _literal_types(self) -> list[ElementType]:
        """Return the element types for a number or list, the likeliest first.

        The type of the current value or of inputs that must have the same type, else those that the operator takes.
        """
        schema = signature_of(self._node)

        def formal(index: int) -> Parameter | None:
            return schema.input(index) if schema is not None else None

        own = formal(self._index)
        variable = own.type_name if own is not None else None

        def is_bound(index: int) -> bool:
            other = formal(index)
            return index == self._index or (other is not None and other.type_name == variable)

        bound = [value for index, value in enumerate(self._node.inputs) if value is not None and is_bound(index)]
        types = (self._workspace.types.type_of(value) for value in bound)
        likely = [kind.element_type for kind in types if isinstance(kind, TensorType)]
        accepted = [kind for kind in _LITERAL_TYPES if own is None or own.allows(TensorType(kind))]
        return [kind for kind in likely if isinstance(kind, ElementType)][:1] or accepted

    def connect(self, edit: Transaction, source: Value | str | None) -> None:
        """Connect a value, the one of a name or the constant that a text defines; None or empty: disconnect."""
        if isinstance(source, str) and source:
            if self.is_new_constant(source) and reads_as_literal(source):
                name = f"{self._node.title}_{input_name(self._node, self._index)}"
                source = add_initializer(edit, self._graph, parse_literal(source, self._literal_types()), name)
            elif self.is_new_constant(source):
                source = add_constant(edit, self._graph, source)
            else:
                source = find_value(self._graph, source)
        if isinstance(source, Value):
            connect(edit, self._node, self._index, source)
        elif self._index < len(self._node.inputs):
            disconnect(edit, self._node, self._index)


def find_value(graph: Graph, name: str) -> Value:
    """Return the value of a visible name; ModelError when there is none."""
    for value in seen_by(graph):
        if value.name == name:
            return value
    raise ModelError(
        f"There is no value named {display(name, 80)} here", "Choose a value of this graph or of an outer graph."
    )


class _Choices:
    """Choices for an input: those nearby, others by name."""

    def __init__(self, workspace: DocumentContext, node: Node, index: int) -> None:
        assert node.graph is not None
        self._workspace = workspace
        self._node = node
        self._index = index
        self._source = InputSource(workspace, node, index)
        self._listed = [value for value in dict.fromkeys(_near(node)) if value is not self._source.present]

    def listed(self) -> list[Choice]:
        """Return the choices that are always listed."""
        present = self._source.present
        choices = [self._value(value) for value in self._listed]
        if present is None:
            return choices
        title = f"Disconnect {display(input_name(self._node, self._index), 40)} of {display(self._node.title, 60)}"
        detail = f"Disconnect {display(present.name, 80)}."
        return [Choice(title="Nothing", detail=detail, run=self._running(title, None), rank=1000), *choices]

    def typed(self, text: str) -> list[Choice]:
        """Return unlisted choices: values of that name, and a constant parsed from the text."""
        choices: list[Choice] = []
        if text:
            listed = set(self._listed)
            values = self._source.visible.containing(text, _MOST_NAMED + len(listed))
            choices = [self._value(value) for value in values if value not in listed][:_MOST_NAMED]
        if self._source.is_new_constant(text):
            run = self._running(f"Connect a new constant to {display(self._node.title, 40)}", text)
            choices.append(Choice(display(text, 100), run, detail="New constant"))
        return choices

    def _value(self, value: Value) -> Choice:
        """Return the choice for a value, with the reason if it does not fit."""
        producer = value.producer
        reason = display(why_not_connect(self._node, value), 240) if self._source.makes_cycle(value) else ""
        mismatch = "" if reason else self._source.misfit(value)
        return Choice(
            title=display(value.name, 100),
            signature=type_text(self._workspace.types.type_of(value)),
            detail=mismatch or _origin(value),
            words=producer.op_type if producer is not None else "",
            run=self._running(f"Connect {display(value.name, 40)} to {display(self._node.title, 40)}", value),
            rank=100 if mismatch else 0,
            reason=reason,
        )

    def _running(self, title: str, source: Value | str | None) -> Callable[[bool], None]:
        def run(_shift: bool) -> None:
            with self._workspace.document.edit(title) as edit:
                self._source.connect(edit, source)

        return run


def _near(node: Node) -> Iterator[Value]:
    """Return values produced shortly before a node, those before the nodes around it, then later ones."""
    place: object = node
    while isinstance(place, Node) and place.graph is not None:
        yield from _made_along(place.previous, lambda one: one.previous, _MOST_LISTED // 4)
        yield from islice(chain(place.graph.inputs, place.graph.initializers), _MOST_LISTED // 4)
        place = place.graph.owner
    yield from _made_along(node, lambda one: one.next, _MOST_LISTED // 16)


def _made_along(node: Node | None, further: Callable[[Node], Node | None], most: int) -> Iterator[Value]:
    for _ in range(most):
        if node is None:
            return
        yield from (value for value in node.outputs if value is not None)
        node = further(node)


def _origin(value: Value) -> str:
    if value.producer is not None:
        return f"from {display(value.producer.op_type, 40)} {display(value.producer.name, 60)}".rstrip()
    return "initializer" if value.initializer is not None else "graph input" if value.is_input else "not defined"
