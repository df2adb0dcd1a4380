"""The palette of operators: those of the imported opsets, the model's functions, and any other by its name."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from PySide6.QtCore import QPoint
from PySide6.QtWidgets import QWidget

from model import schemas
from model.errors import ModelError
from model.graph import Function, Graph
from model.operatortext import parse_operator
from model.schemas import Parameter, Schema
from model.types import Type
from viewer.text import display
from viewer.theme import categories, operator_category
from viewer.widgets.choice_popup import Choice, ChoicePopup

_FIRST_OTHERS = 20  # operators of domains that are not imported yet stand this much behind
_KNOWN = ("", "ai.onnx.ml", "com.microsoft")
_DOC = 160
_LINK = re.compile(r"\[([^\[\]]*)\]\([^()\s]*\)")


@dataclass(frozen=True)
class Operator:
    """What can be added: an operator of a domain, or a call of a function. `schema` is None for unknown ones."""

    op_type: str
    domain: str = ""
    overload: str = ""
    schema: Schema | None = None
    function: Function | None = None

    def takes(self, type_: Type | None) -> bool:
        """Whether some input may be of this type; unknown ones may always."""
        if self.schema is None or not self.schema.is_signature_known:
            return self.function is None or bool(self.function.body.inputs)
        return any(type_ is None or parameter.allows(type_) for parameter in self.schema.inputs)

    def input_for(self, type_: Type | None) -> int:
        """The first input that takes a type; 0 when nobody knows."""
        if self.schema is None or type_ is None:
            return 0
        return next((i for i, parameter in enumerate(self.schema.inputs) if parameter.allows(type_)), 0)


def operators(graph: Graph) -> Iterator[Operator]:
    """Everything that can stand in a graph: functions of the model first, then operators by name.

    Those of domains the program knows and the graph does not import yet come at their newest version.
    """
    model = graph.model
    for function in () if model is None else model.functions:
        yield Operator(function.name, function.domain, function.overload, function=function)
    known = {domain: schemas.newest_opset(domain) for domain in _KNOWN}
    for schema in schemas.operators({**known, **graph.opset_imports}):
        yield Operator(schema.name, schema.domain, schema=schema)


def _later(graph: Graph, names: Collection[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """Operators that later versions brought to the domains a graph imports, and which; `names` are those it has."""
    newest = {domain: schemas.newest_opset(domain) for domain in _KNOWN if domain in graph.opset_imports}
    found = ((schema.domain, schema.name) for schema in schemas.operators(newest))
    return {(domain, name): schemas.versions(name, domain)[0] for domain, name in found if (domain, name) not in names}


def signature(operator: Operator) -> str:
    """Inputs and outputs in short: ``X, W, [B] → Y``; optional ones in brackets, … after those that repeat."""
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
    """What a text says first, on one line; of its links the words."""
    line = _LINK.sub(r"\1", " ".join(doc.split()))
    end = line.find(". ")
    return display(line if end < 0 else line[: end + 1], _DOC, elide="end")


class OperatorPalette(ChoicePopup):
    """Choose an operator. `run` gets it, and whether it was chosen with Shift."""

    def __init__(self, window: QWidget, report: Callable[[ModelError], None]) -> None:
        super().__init__(window, "Operator", report)

    def choose_for(
        self,
        graph: Graph,
        run: Callable[[Operator, bool], object],
        *,
        caption: str = "",
        why_not: Callable[[Operator], str] = lambda _operator: "",
        at: QPoint | None = None,
    ) -> None:
        """Open with the operators there are for a graph; `why_not` gives the reason where one does not fit."""
        imports = graph.opset_imports
        found = list(operators(graph))
        names = {(operator.domain, operator.op_type) for operator in found}
        domains = {*imports, *(domain for domain, _ in names)}

        def others(text: str) -> list[Choice]:
            try:
                op_type, domain = parse_operator(text, domains)
            except ModelError:
                return []
            return [] if (domain, op_type) in names else [_custom(Operator(op_type, domain), run)]

        later = _later(graph, names)
        choices = [replace(_choice(operator, imports, run), reason=why_not(operator)) for operator in found]
        for number, choice in enumerate(choices):
            since = later.get(("", found[number].op_type), 0)
            if since:  # what one may have meant instead
                detail = f"ai.onnx has one from opset {since} on; the graph imports {imports['']}. {choice.detail}"
                choices[number] = replace(choice, detail=detail)
        self.open(
            choices,
            caption=caption,
            placeholder="Operator, function, or domain::Operator",
            others=others,
            at=at,
        )


def _choice(operator: Operator, imports: Mapping[str, int], run: Callable[[Operator, bool], object]) -> Choice:
    schema, function = operator.schema, operator.function
    where = operator.domain or "ai.onnx"
    imported = operator.domain in imports
    doc = function.doc_string if function is not None else schema.doc if schema is not None else ""
    note = "function" if function is not None else f"{where} {schema.since_version if schema else ''}".strip()
    return Choice(
        title=display(operator.op_type, 80),
        run=lambda shift: run(operator, shift),
        signature=signature(operator),
        detail=first_sentence(doc) or f"No description. {'' if imported else 'The domain will be imported.'}".strip(),
        note=note,
        words=f"{operator.domain} {schema.category if schema is not None else 'function'}",
        color=categories()[operator_category(operator.domain, operator.op_type)].color,
        rank=-1 if function is not None else 0 if imported else _FIRST_OTHERS,
    )


def _custom(operator: Operator, run: Callable[[Operator, bool], object]) -> Choice:
    where = f"of {operator.domain}" if operator.domain else "of the default domain"
    return Choice(
        title=display(operator.op_type, 80),
        run=lambda shift: run(operator, shift),
        detail=f"Add a custom operator {where}; its inputs, outputs and attributes are free.",
        note=operator.domain or "custom",
    )
