"""Rows for a model and for a function: properties, opsets, functions and training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from onnx_workbench.model import schemas
from onnx_workbench.model.edits import functions, properties
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, TrainingInfo
from onnx_workbench.model.text.attributes import parse_int
from onnx_workbench.model.text.formatting import bytes_text, display, plural
from onnx_workbench.model.text.operators import parse_operator
from onnx_workbench.viewer.inspector.common import (
    act,
    add_row,
    description_row,
    go,
    many,
    metadata_section,
    name_of,
    removing,
    section,
    text_field,
    text_row,
)
from onnx_workbench.viewer.inspector.devices import configurations_section
from onnx_workbench.viewer.inspector.function_attributes import function_attributes
from onnx_workbench.viewer.inspector.graphs import ports_section
from onnx_workbench.viewer.property_tree.rows import PropertyField, PropertyRow, RowAction, Suggestion
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.style.choices import choice_title

#: Asks before an opset number is changed that defines these nodes differently: target, domain, version, nodes.
AskOpset = Callable[[Model | Function, str, int, Sequence[Node]], object]


def model_rows(workspace: Workspace, model: Model, ask: AskOpset) -> list[PropertyRow]:
    """Return all rows of a model."""
    return [
        *_file_rows(workspace, model),
        _number("ir_version", "IR version", model.ir_version, "Set IR version", properties.set_ir_version),
        opsets_section(workspace, model, ask),
        *(_text(model, field, label) for field, label in _TEXTS.items()),
        _number("model_version", "Model version", model.model_version, "Set version", properties.set_model_version),
        description_row(model),
        _graph_row(workspace, model.graph, "Graph"),
        _functions(workspace, model),
        _training(workspace, model),
        *configurations_section(workspace, model),
        metadata_section(workspace, model),
    ]


_TEXTS = {"producer_name": "Producer", "producer_version": "Producer version", "domain": "Domain"}


def _text(model: Model, field: str, label: str) -> PropertyRow:
    text = getattr(model, field)
    title = f"Set {label.lower()} of the model"
    return text_row(
        field, label, text, text_field(title, text, lambda edit, new: properties.set_text(edit, model, field, new))
    )


def _number(key: str, label: str, number: int, title: str, set_it: Callable[[Transaction, int], object]) -> PropertyRow:
    row = PropertyRow(key, label, str(number))
    row.field = PropertyField(
        title,
        lambda: str(number),
        lambda edit, text: set_it(edit, parse_int(text)),
        step=lambda text, by: str(parse_int(text) + by) if text.strip().lstrip("-").isdecimal() else text,
    )
    return row


def _file_rows(workspace: Workspace, model: Model) -> list[PropertyRow]:
    path = workspace.document.path
    source = model.source
    rows = []
    if path is not None:
        rows.append(PropertyRow("path", "File", display(str(path), 400), middle=True, tip=display(str(path), 1000)))
    size = getattr(source, "size", None)
    if isinstance(size, int):
        rows.append(PropertyRow("size", "Size", bytes_text(size), f"{size:,} bytes"))
    return rows


def _graph_row(workspace: Workspace, graph: Graph, label: str) -> PropertyRow:
    row = PropertyRow(f"graph {label}", label, display(graph.name or "unnamed", 200), plural(len(graph.nodes), "node"))
    row.target = graph
    row.actions = (go(workspace, graph),)
    return row


# -- opset imports --------------------------------------------------------------------------------------------


def opsets_section(workspace: Workspace, target: Model | Function, ask: AskOpset) -> PropertyRow:
    """Return the section of opset imports of a model or function."""
    imports = target.opset_imports
    of = name_of(target)

    def rows() -> Sequence[PropertyRow]:
        opsets = [_opset_row(workspace, target, domain, version, ask) for domain, version in imports.items()]

        def add(edit: Transaction, text: str) -> None:
            domain, equals, version = (part.strip() for part in text.replace(":", "=").partition("="))
            domain = "" if domain == "ai.onnx" else domain
            if domain in target.opset_imports:
                raise ModelError(f"{domain or 'ai.onnx'} is imported already", "Change its version in its own row.")
            number = parse_int(version) if equals else schemas.newest_opset(domain)
            properties.set_opset(edit, target, domain, number)

        return [
            *opsets,
            add_row("Add opset", PropertyField(f"Import opset in {of}", str, add, hint="domain = version")),
        ]

    return section("opsets", "Opset imports", len(imports), rows, common=False, expanded=len(imports) <= 60)


def _opset_row(workspace: Workspace, target: Model | Function, domain: str, version: int, ask: AskOpset) -> PropertyRow:
    shown = display(domain or "ai.onnx", 120)
    row = PropertyRow(f"opset {domain}", shown, str(version))
    newest = schemas.newest_opset(domain) if schemas.is_loaded() else 0

    def apply(edit: Transaction, text: str) -> None:
        from onnx_workbench.model.convert.changed_nodes import nodes_changed_by_opset  # brings all conversions with it

        number = parse_int(text)
        properties.check_opset_version(number, target)
        changed = nodes_changed_by_opset(target, domain, number)
        if changed:
            ask(target, domain, number, changed)
        else:
            properties.set_opset(edit, target, domain, number)

    numbers = range(newest, 0, -1) if newest > 1 else ()
    row.field = PropertyField(
        f"Set opset {shown} of {name_of(target)}",
        lambda: str(version),
        apply,
        choices=lambda: [Suggestion(str(n), "newest" if n == newest else "") for n in numbers],
    )
    if newest > 1 and version > newest:
        row.note = f"newest known is {newest}"
    row.tip = "Asks whether to convert if the other version defines nodes differently."
    title = f"Remove opset {shown} of {name_of(target)}"
    row.actions = (removing(workspace, title, lambda edit: properties.set_opset(edit, target, domain, None)),)
    return row


# -- functions ------------------------------------------------------------------------------------------------


def _functions(workspace: Workspace, model: Model) -> PropertyRow:
    count = len(model.functions)

    def make(index: int) -> PropertyRow:
        function = model.functions[index]
        row = PropertyRow(f"function {index}", display(function.domain, 120), display(function.title, 200), middle=True)
        row.note = plural(len(function.body.nodes), "node")
        row.target = function
        title = f"Remove function {name_of(function)}"
        remove = removing(workspace, title, lambda edit: functions.remove_function(edit, function))
        row.actions = (remove, go(workspace, function))
        return row

    def add(edit: Transaction, text: str) -> None:
        name, domain = parse_operator(text, {f.domain for f in model.functions})
        functions.add_function(edit, name, domain or "local")

    adding = add_row("Add function", PropertyField("Add function", str, add, hint="domain::name"))
    return section("functions", "Functions", count, lambda: many(count, make, adding))


def function_rows(workspace: Workspace, function: Function, ask: AskOpset) -> list[PropertyRow]:
    """Return all rows of a function: name, signature, opsets and texts."""

    def called(part: str, text: str) -> PropertyField:
        return PropertyField(
            f"Rename function {name_of(function)}",
            lambda: text,
            lambda edit, new: functions.rename_function(edit, function, **{part: new.strip()}),
        )

    return [
        text_row("name", "Name", function.name, called("name", function.name), common=False, middle=True),
        text_row("domain", "Domain", function.domain, called("domain", function.domain)),
        text_row("overload", "Overload", function.overload, called("overload", function.overload)),
        ports_section(workspace, function.body, "input"),
        ports_section(workspace, function.body, "output"),
        function_attributes(workspace, function),
        opsets_section(workspace, function, ask),
        _graph_row(workspace, function.body, "Body"),
        description_row(function),
        metadata_section(workspace, function),
    ]


# -- training -------------------------------------------------------------------------------------------------


def _training(workspace: Workspace, model: Model) -> PropertyRow:
    count = len(model.training_info)

    def rows() -> Sequence[PropertyRow]:
        return [_training_row(workspace, training, i) for i, training in enumerate(model.training_info)]

    def add(edit: Transaction) -> None:
        properties.add_training(edit, TrainingInfo(Graph("initialization"), Graph("algorithm")))

    adding = RowAction("Add training step", act(workspace, "Add training step", add), "add", "add")
    return section("training", "Training", count, rows, common=False, actions=(adding,))


def _training_row(workspace: Workspace, training: TrainingInfo, index: int) -> PropertyRow:
    row = PropertyRow(f"training {index}", f"Step {index + 1}", expanded=True)
    row.children = [
        _training_graph(workspace, training, "initialization"),
        _training_graph(workspace, training, "algorithm"),
        _bindings(training, "initialization", "Initialization bindings"),
        _bindings(training, "update", "Update bindings"),
    ]
    remove = removing(workspace, "Remove training step", lambda edit: properties.remove_training(edit, training))
    row.actions = (remove,)
    return row


def _training_graph(
    workspace: Workspace, training: TrainingInfo, field: Literal["initialization", "algorithm"]
) -> PropertyRow:
    """Return the row of one of the graphs of a training step, present or not."""
    graph: Graph | None = getattr(training, field)
    label = choice_title(field)

    def change(made: Graph | None) -> Callable[[Transaction], object]:
        return lambda edit: properties.set_training_graph(edit, training, field, made)

    if graph is not None:
        row = _graph_row(workspace, graph, label)
        row.actions = (removing(workspace, f"Remove {label.lower()} graph", change(None)), *row.actions)
        return row
    title = f"Add {label.lower()} graph"
    adding = RowAction(title, act(workspace, title, change(Graph(field))), "add", "add")
    return PropertyRow(f"graph {label}", label, "none", style="muted", actions=(adding,))


def _bindings(training: TrainingInfo, key: str, label: str) -> PropertyRow:
    pairs: tuple[tuple[str, str], ...] = getattr(training, f"{key}_binding")

    def apply(edit: Transaction, text: str) -> None:
        bindings: dict[str, str] = {}
        for part in filter(None, (p.strip() for p in text.replace("\n", ",").split(","))):
            name, arrow, output = (p.strip() for p in part.partition("="))
            if not arrow:
                raise ModelError(f"{display(part, 60)} is not a binding", "Write initializer = output, one per line.")
            bindings[name] = output
        properties.set_bindings(edit, training, **{key: bindings})

    row = PropertyRow(key, label, display(", ".join(f"{k} = {v}" for k, v in pairs), 300) or "none")
    row.style = "normal" if pairs else "muted"
    row.field = PropertyField(
        f"Set {label.lower()}",
        lambda: "\n".join(f"{k} = {v}" for k, v in pairs),
        apply,
        lines=True,
        hint="initializer = output, one per line; Ctrl+Enter accepts",
    )
    return row
