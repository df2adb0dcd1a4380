"""Operator palette: operators of the imported opsets, the model's functions, and any other by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from PySide6.QtCore import QPoint
from PySide6.QtWidgets import QWidget

from onnx_workbench.model import schemas
from onnx_workbench.model.analysis.call_graph import holders
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.graph import Function, Graph, Model
from onnx_workbench.model.ir.types import Type
from onnx_workbench.model.schemas import Parameter, Schema
from onnx_workbench.model.text.formatting import display
from onnx_workbench.model.text.operators import parse_operator
from onnx_workbench.viewer.popups.choice_popup import Choice, ChoicePopup
from onnx_workbench.viewer.style.theme import categories, operator_category

_FROM_LATER = 15  # malus of operators that the imported versions lack
_FIRST_OTHERS = 20  # malus of operators of domains that are not imported
_KNOWN = ("", "ai.onnx.ml", "com.microsoft")
_DOC = 160
_LINK = re.compile(r"\[([^\[\]]*)\]\([^()\s]*\)")


@dataclass(frozen=True)
class OperatorEntry:
    """An operator of a domain, or a function. `schema` is None for unknown ones.

    `needs` is the version of its domain that introduced it, where the graph imports an older one; else 0.
    """

    op_type: str
    domain: str = ""
    overload: str = ""
    schema: Schema | None = None
    function: Function | None = None
    needs: int = 0

    def takes(self, type_: Type | None) -> bool:
        """Return whether some input accepts this type; unknown schemas always do."""
        if self.schema is None or not self.schema.is_signature_known:
            return self.function is None or bool(self.function.body.inputs)
        return any(type_ is None or parameter.allows(type_) for parameter in self.schema.inputs)

    def input_for(self, type_: Type | None) -> int:
        """Return the first input that accepts a type; 0 if unknown."""
        if self.schema is None or type_ is None:
            return 0
        return next((i for i, parameter in enumerate(self.schema.inputs) if parameter.allows(type_)), 0)


def operators(graph: Graph) -> Iterator[OperatorEntry]:
    """Return everything that can be added to a graph: functions of the model first, then operators by name.

    Functions that would call themselves then are left out. Known domains that the graph does not import come at their
    newest version. Operators of later versions of the imported domains are last.
    """
    model, imports = graph.model, graph.opset_imports
    if model is not None:
        around = _functions_around(model, graph)
        for function in model.functions:
            if function not in around:
                yield OperatorEntry(function.name, function.domain, function.overload, function=function)
    newest = {domain: schemas.newest_opset(domain) for domain in _KNOWN}
    usable = schemas.operators({**newest, **imports})
    for schema in usable:
        yield OperatorEntry(schema.name, schema.domain, schema=schema)
    names = {(schema.domain, schema.name) for schema in usable}
    for last in schemas.operators({domain: newest[domain] for domain in _KNOWN if domain in imports}):
        if (last.domain, last.name) not in names:
            versions = schemas.versions(last.name, last.domain)
            needs = next((version for version in versions if version > imports[last.domain]), None)
            if needs is not None:  # else the model imports a version that is not known
                first = schemas.find(last.name, needs, last.domain)
                yield OperatorEntry(last.name, last.domain, schema=first, needs=needs)


def _functions_around(model: Model, graph: Graph) -> set[Function]:
    """Return the function of a graph and its direct and indirect callers."""
    own = graph.root.owner
    if not isinstance(own, Function):
        return set()
    owners = (call.graph.root.owner for call in holders(model, [own]) if call.graph is not None)
    return {own, *(owner for owner in owners if isinstance(owner, Function))}


def signature(operator: OperatorEntry) -> str:
    """Return inputs and outputs in short: ``X, W, [B] → Y``; optional ones in brackets, … after variadic ones."""
    if operator.function is not None:
        body = operator.function.body
        names = [", ".join(display(v.name, 24) for v in values) for values in (body.inputs, body.outputs)]
        return " → ".join(names)
    if operator.schema is None or not operator.schema.is_signature_known:
        return ""
    schema = operator.schema
    return f"{', '.join(map(_parameter, schema.inputs))} → {', '.join(map(_parameter, schema.outputs))}".strip()


def _parameter(parameter: Parameter) -> str:
    if parameter.option == "optional":
        return f"[{parameter.name}]"
    return f"{parameter.name}…" if parameter.option == "variadic" else parameter.name


def first_sentence(doc: str) -> str:
    """Return the first sentence of a text on one line, links as their text."""
    line = _LINK.sub(r"\1", " ".join(doc.split()))
    end = line.find(". ")
    return display(line if end < 0 else line[: end + 1], _DOC, elide="end")


class OperatorPalette(ChoicePopup):
    """Choose an operator. One that the graph's imports are too old for is passed to `offer_newer` first.

    That gets the operator, the graph, and a function to call once the operator is available.
    """

    def __init__(
        self,
        window: QWidget,
        report: Callable[[ModelError], None],
        offer_newer: Callable[[OperatorEntry, Graph, Callable[[OperatorEntry], object]], object],
    ) -> None:
        super().__init__(window, "Operator", report)
        self._offer_newer = offer_newer

    def choose_for(
        self,
        graph: Graph,
        run: Callable[[OperatorEntry, bool], object],
        *,
        caption: str = "",
        why_not: Callable[[OperatorEntry], str] = lambda _operator: "",
        at: QPoint | None = None,
    ) -> None:
        """Open with the operators for a graph; `why_not` returns the reason where one does not fit.

        `run` gets the chosen one, and whether it was chosen with Shift.
        """
        listed = list(operators(graph))
        names = {(operator.domain, operator.op_type) for operator in listed}
        domains = {*graph.opset_imports, *(domain for domain, _ in names)}

        def others(text: str) -> list[Choice]:
            try:
                op_type, domain = parse_operator(text, domains)
            except ModelError:
                return []
            return [] if (domain, op_type) in names else [_custom(OperatorEntry(op_type, domain), run)]

        self.open(
            [replace(self._choice(operator, graph, run), reason=why_not(operator)) for operator in listed],
            caption=caption,
            placeholder="Operator, function, or domain::Operator",
            others=others,
            at=at,
        )

    def _choice(self, operator: OperatorEntry, graph: Graph, run: Callable[[OperatorEntry, bool], object]) -> Choice:
        if not operator.needs:
            return _choice(operator, graph, run)
        whose = "function" if isinstance(graph.importer, Function) else "model"
        what, offered = (
            (operator.domain, "Enter shows the imports.") if operator.domain else ("opset", "Enter converts first.")
        )
        return replace(
            _choice(
                operator,
                graph,
                lambda chosen, shift: self._offer_newer(chosen, graph, lambda there: run(there, shift)),
            ),
            detail=f"Needs {what} {operator.needs}; this {whose} imports {graph.opset_imports[operator.domain]}. "
            + offered,
            rank=_FROM_LATER,
        )


def _choice(operator: OperatorEntry, graph: Graph, run: Callable[[OperatorEntry, bool], object]) -> Choice:
    schema, function = operator.schema, operator.function
    where = operator.domain or "ai.onnx"
    imported = operator.domain in graph.opset_imports
    doc = function.doc_string if function is not None else schema.doc if schema is not None else ""
    note = "function" if function is not None else f"{where} {schema.since_version if schema else ''}".strip()
    return Choice(
        title=display(operator.op_type if function is None else function.title, 80),
        run=lambda shift: run(operator, shift),
        signature=signature(operator),
        detail=first_sentence(doc) or f"No description. {'' if imported else 'The domain will be imported.'}".strip(),
        note=note,
        words=f"{operator.domain} {schema.category if schema is not None else 'function'}",
        color=categories()[operator_category(operator.domain, operator.op_type)].color,
        rank=-1 if function is not None else 0 if imported else _FIRST_OTHERS,
    )


def _custom(operator: OperatorEntry, run: Callable[[OperatorEntry, bool], object]) -> Choice:
    where = f"of {operator.domain}" if operator.domain else "of the default domain"
    return Choice(
        title=display(operator.op_type, 80),
        run=lambda shift: run(operator, shift),
        detail=f"Add a custom operator {where}; its inputs, outputs and attributes are free.",
        note=operator.domain or "custom",
    )
