"""Connect by keyboard: choose an input of a node, then a value; unsuitable ones are shown with the reason."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, partial
from itertools import chain, islice
from typing import Final

from PySide6.QtWidgets import QWidget

from onnx_workbench.model.analysis.scoping import enclosing, nodes_downstream, visible_values
from onnx_workbench.model.analysis.signatures import signature_of
from onnx_workbench.model.edits.values import connect, disconnect, why_not_connect
from onnx_workbench.model.ir.graph import Node, Value
from onnx_workbench.model.ir.name_index import NameIndex, comes_before
from onnx_workbench.viewer.core.context import DocumentContext
from onnx_workbench.viewer.popups.choice_popup import Choice, ChoicePopup
from onnx_workbench.viewer.style.formatting import display, type_text

_MOST_LISTED: Final = 2000  # nodes of a graph whose values are all listed
_MOST_NAMED: Final = 60


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
    known = workspace.types.type_of(value)
    schema = signature_of(node)
    parameter = schema.input(index) if schema is not None else None
    if known is None or parameter is None or parameter.allows(known):
        return ""
    wanted = ", ".join(sorted(parameter.types)[:4]) + (" …" if len(parameter.types) > 4 else "")
    return f"{parameter.name} takes {wanted}; this is {type_text(known)}."


def choose_input(window: QWidget, workspace: DocumentContext, node: Node) -> ChoicePopup:
    """Let the user choose an input of a node, then a value for it."""
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
    popup = ChoicePopup(window, "Input", workspace.report)
    popup.open(
        choices,
        caption=f"Which input of {display(node.title, 60)}?",
        placeholder="Input",
        nothing="It takes no input of that name.",
    )
    return popup


def _then_value(window: QWidget, workspace: DocumentContext, node: Node, index: int, _shift: bool) -> None:
    choose_value(window, workspace, node, index)


def choose_value(window: QWidget, workspace: DocumentContext, node: Node, index: int) -> ChoicePopup:
    """Let the user choose the value for an input; values that would make a cycle are disabled with the reason."""
    assert node.graph is not None
    choices = []
    present = node.inputs[index] if index < len(node.inputs) else None
    if present is not None:
        choices.append(
            Choice(
                title="Nothing",
                detail=f"Disconnect {display(present.name, 80)}.",
                run=partial(_disconnect, workspace, node, index),
                rank=1000,
            )
        )
    source = _Values(workspace, node, index)
    choices += [source.choice(value) for value in source.listed]
    popup = ChoicePopup(window, "Value", workspace.report)
    popup.open(
        choices,
        caption=f"What feeds {display(input_name(node, index), 40)} of {display(node.title, 60)}?",
        placeholder="Value, or a new constant such as w: float[3,3] = 0.5",
        nothing="No value of that name can be seen from there.",
        others=source.typed,
    )
    return popup


class _Values:
    """Candidates for an input: in a large graph those nearby, others by name."""

    def __init__(self, workspace: DocumentContext, node: Node, index: int) -> None:
        self._workspace = workspace
        self._node = node
        self._index = index
        assert node.graph is not None
        self._graph = node.graph
        self.is_all = sum(len(level.nodes) for level in enclosing(node.graph)) <= _MOST_LISTED
        found = self._visible.values() if self.is_all else _near(node)
        present = node.inputs[index] if index < len(node.inputs) else None
        self.listed = [value for value in dict.fromkeys(found) if value is not present]

    @cached_property
    def _visible(self) -> dict[str, Value]:
        return visible_values(self._graph)

    @cached_property
    def _after(self) -> set[Node]:
        return nodes_downstream([self._node])

    def typed(self, text: str) -> list[Choice]:
        """Return unlisted choices: values of that name, and a constant parsed from the text."""
        from onnx_workbench.model.edits.constants import reads_as_constant  # late: it loads numpy

        if not reads_as_constant(text) or text in self._visible:
            return self.named(text)
        run = partial(_connect_new, self._workspace, self._node, self._index, text)
        return [*self.named(text), Choice(display(text, 100), run, detail="New constant")]

    def named(self, text: str) -> list[Choice]:
        """Return unlisted values whose name contains the text, a few dozen at most."""
        if self.is_all or not text:
            return []
        listed, wanted = set(self.listed), text.lower()
        found = (v for name, v in self._visible.items() if wanted in name.lower() and v not in listed)
        return [self.choice(value) for value in islice(found, _MOST_NAMED)]

    def choice(self, value: Value) -> Choice:
        """Return the choice for a value, with the reason if it does not fit."""
        producer = value.producer
        reason = display(why_not_connect(self._node, value), 240) if self._may_be_later(producer) else ""
        mismatch = "" if reason else misfit(self._workspace, self._node, self._index, value)
        return Choice(
            title=display(value.name, 100),
            signature=type_text(self._workspace.types.type_of(value)),
            detail=mismatch or _origin(value),
            words=producer.op_type if producer is not None else "",
            run=partial(_connect, self._workspace, self._node, self._index, value),
            rank=100 if mismatch else 0,
            reason=reason,
        )

    def _may_be_later(self, producer: Node | None) -> bool:
        """Return whether a node may depend on this one; cheap in the common case."""
        if producer is None:
            return False
        known = NameIndex.of(self._graph)
        if producer.graph is self._graph and known.is_sorted and comes_before(producer, self._node):
            return False
        return producer in self._after


def _near(node: Node) -> Iterator[Value]:
    """Return values produced shortly before a node, then outer inputs, then later values."""
    before, after = node.previous, node.next
    for _ in range(_MOST_LISTED // 4):
        if before is not None:
            yield from (value for value in before.outputs if value is not None)
            before = before.previous
    for graph in enclosing(node.graph) if node.graph is not None else ():
        yield from islice(chain(graph.inputs, graph.initializers), _MOST_LISTED // 4)
    for _ in range(_MOST_LISTED // 16):
        if after is not None:
            yield from (value for value in after.outputs if value is not None)
            after = after.next


def _origin(value: Value) -> str:
    if value.producer is not None:
        return f"from {display(value.producer.op_type, 40)} {display(value.producer.name, 60)}".rstrip()
    return "initializer" if value.initializer is not None else "graph input" if value.is_input else "not defined"


def _connect(workspace: DocumentContext, node: Node, index: int, value: Value, _shift: bool) -> None:
    with workspace.document.edit(f"Connect {display(value.name, 40)} to {display(node.title, 40)}") as edit:
        connect(edit, node, index, value)


def _connect_new(workspace: DocumentContext, node: Node, index: int, text: str, _shift: bool) -> None:
    from onnx_workbench.model.edits.constants import add_constant

    assert node.graph is not None
    with workspace.document.edit(f"Connect a new constant to {display(node.title, 40)}") as edit:
        connect(edit, node, index, add_constant(edit, node.graph, text))


def _disconnect(workspace: DocumentContext, node: Node, index: int, _shift: bool) -> None:
    with workspace.document.edit(
        f"Disconnect {display(input_name(node, index), 40)} of {display(node.title, 40)}"
    ) as edit:
        disconnect(edit, node, index)
