"""Type inference for all values of a document, in the background after edits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, Signal

from onnx_workbench.model.analysis.value_types import declared_type
from onnx_workbench.model.edits.interface import add_outputs
from onnx_workbench.model.history.document import Change, Document, Transaction
from onnx_workbench.model.history.steps import SetField
from onnx_workbench.model.ir.graph import Function, Graph, Value
from onnx_workbench.model.ir.types import Type
from onnx_workbench.viewer.tasks.readers import ModelReader

if TYPE_CHECKING:
    from onnx_workbench.model.inference import InferredTypes
    from onnx_workbench.model.progress import Progress

#: Debounce of reading the whole model after an edit, as for typing. It begins after the edit is painted: readers before
#: that take the interpreter lock from the layout, and at 5,000 nodes painted a new node 50 ms later.
AFTER_EDIT_MS = 120


class TypeInference(QObject):
    """Types of all values, inferred and declared combined. GUI thread.

    Nothing is inferred before `start`. While inference after an edit is running, the previous types stay.
    """

    changed = Signal()  # the type of a value has changed
    known = Signal()  # inference of the current model has finished

    def __init__(self, document: Document, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._document = document
        self._inferred: InferredTypes | None = None
        self._rules: dict[str, str] = {}
        self._delay = QTimer(self, singleShot=True)
        self._delay.timeout.connect(self._infer)
        self._end = document.subscribe(self._on_change)
        self._running = False
        self._inferring = ModelReader(self)

    def close(self) -> None:
        """Disconnect from the document."""
        self._delay.stop()
        self._inferring.stop()
        self._end()

    def start(self) -> None:
        """Infer now, and after every edit that can change a type."""
        self._running = True
        self._delay.start(0)

    @property
    def inferred(self) -> InferredTypes | None:
        """Types of the last inference; None before the first one has finished."""
        return self._inferred

    @property
    def rules(self) -> Mapping[str, str]:
        """The user's type rules for unknown operators: ``domain::Operator`` → ``same as input 0``."""
        return self._rules

    def set_rule(self, operator: str, rule: str) -> None:
        """Set the type rule of an operator; an empty one removes it."""
        if rule:
            self._rules[operator] = rule
        else:
            self._rules.pop(operator, None)
        self._delay.start(0)

    def make_output(self, edit: Transaction, graph: Graph, value: Value) -> None:
        """Make a value an output and declare its inferred type if it has none: outputs need a type and a shape."""
        self.make_outputs(edit, graph, {value: value})

    def make_outputs(self, edit: Transaction, graph: Graph, values: Mapping[Value, Value]) -> None:
        """Do the same for many values, each mapped to itself or to the document's value it is a copy of.

        For values of copies on any thread.
        """
        from onnx_workbench.model.edits.declare_types import declare, is_shapeless

        add_outputs(edit, graph, [*values])
        if isinstance(graph.owner, Function):
            return
        types = {} if self._inferred is None else self._inferred.types
        for value, own in values.items():
            type_ = (types.get(own) or declared_type(value)) if value.type is None or is_shapeless(value.type) else None
            if type_ is not None:
                declare(edit, value, type_)

    def type_of(self, value: Value) -> Type | None:
        """Return the inferred type, completed by the declared type or that of the constant."""
        return declared_type(value) if self._inferred is None else self._inferred.type_of(value)

    def _on_change(self, change: Change) -> None:
        if self._inferring.running:
            self._inferring.stop()  # it has read a part of the old model
            self._delay.start(AFTER_EDIT_MS)
        if self._running and not all(_is_only_a_name(step) for step in change.steps):
            self._delay.start(AFTER_EDIT_MS)

    def _infer(self) -> None:
        from onnx_workbench.model.inference import infer

        model, rules, before = self._document.model, dict(self._rules), self._inferred

        def work(progress: Progress) -> InferredTypes:
            found = infer(model, rules, progress)
            return before if before is not None and found == before else found

        self._inferring.start(work, self._set)

    def _set(self, inferred: InferredTypes) -> None:
        is_news = inferred is not self._inferred
        self._inferred = inferred
        if is_news:
            self.changed.emit()
        self.known.emit()


def _is_only_a_name(step: object) -> bool:
    """Return whether a step changes only a name, and so no type: inference identifies values by object."""
    return isinstance(step, SetField) and step.field in ("name", "doc_string", "metadata", "overload")
