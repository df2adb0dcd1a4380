"""Graph menu: inputs, outputs, constants and conversions between them; dimensions."""

from __future__ import annotations

from collections.abc import Sequence

from onnx_workbench.model.analysis.scoping import by_graph
from onnx_workbench.model.edits import interface
from onnx_workbench.model.edits.initializers import constants_to_initializers, initializers_to_constants
from onnx_workbench.model.edits.values import set_type
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.ir.graph import Function, Graph, Node, Value
from onnx_workbench.model.progress import Progress
from onnx_workbench.model.text.formatting import display, plural
from onnx_workbench.model.text.types import parse_dimensions, parse_type, type_source
from onnx_workbench.viewer.actions.action import Action, MenuContext, Submenu
from onnx_workbench.viewer.actions.targets import graph_in_view, has_element, has_value, may_have
from onnx_workbench.viewer.dialogs.text_prompt import PromptField, TextPrompt
from onnx_workbench.viewer.document.selection import Item
from onnx_workbench.viewer.workflows.edit_many import CopyOf, change_each, edit_many


def _title(values: Sequence[Value]) -> str:
    return display(values[0].name, 60) if len(values) == 1 else plural(len(values), "value")


def _candidates(context: MenuContext) -> list[Value]:
    outputs = [value for node in context.selected_nodes for value in node.outputs if value is not None]
    return list(dict.fromkeys([*context.selected_values, *outputs]))


def _is_output(value: Value) -> bool:
    return any(isinstance(user, Graph) for user, _ in value.uses)


def _constants(context: MenuContext) -> list[Value]:
    return [value for value in context.selected_values if value.initializer is not None]


def _has_initializer(context: MenuContext) -> bool:
    return any(value.initializer is not None for value in context.selected_values)


def _is_constant_node(node: Node | None) -> bool:
    return node is not None and node.op_type == "Constant" and not node.domain


def _constant_nodes(context: MenuContext) -> list[Node]:
    """Return the selected Constant nodes, and the producers of the selected values among them."""
    makers = [value.producer for value in context.selected_values]
    chosen = dict.fromkeys([*context.selected_nodes, *makers])
    return [node for node in chosen if node is not None and _is_constant_node(node)]


def _has_constant_node(context: MenuContext) -> bool:
    return may_have(context.selected_nodes, _is_constant_node) or may_have(
        context.selected_values, lambda value: _is_constant_node(value.producer)
    )


def _as(things: Sequence[object], one: str, many: str) -> str:
    return one if len(things) == 1 else many


def _make_constant(context: MenuContext, values: Sequence[Value], text: str) -> None:
    """Turn inputs into constants: with their default, else with the values in a text."""
    from onnx_workbench.model.edits.constants import set_default_values

    def make(edit: Transaction, copy_of: CopyOf, progress: Progress) -> Sequence[Item]:
        inputs = [copy_of(value) for value in values]
        for value in progress.paced(inputs, of=len(inputs)):
            if value.initializer is None:
                set_default_values(edit, value, text)
        for graph, constants in by_graph(value for value in inputs if value.is_input).items():
            interface.inputs_to_initializers_only(edit, graph, constants)
        return ()

    edit_many(context.workspace, f"Make {_title(values)} constant", len(values), make)


def _ask_for_values(context: MenuContext, values: Sequence[Value]) -> None:

    TextPrompt(
        context.window,
        context.workspace,
        f"Make {_title(values)} constant",
        [PromptField("Values", "", "1, 2, 3 or float[1,3] = 0.5; empty: zeros")],
        lambda texts: _make_constant(context, values, texts[0]),
        explanation="A single value fills the tensor. If the type has open dimensions, write the type with numbers.",
        button="Make constant",
    )


@Action(
    "graph.make_output",
    "Make &Output",
    Submenu.ENDS,
    key="Ctrl+Shift+O",
    when=has_element,
    on=("node", "value"),
    tip="Make the selected values, or the outputs of the selected nodes, outputs of their graph.",
    words="result return expose intermediate",
)
def _make_output(context: MenuContext) -> None:
    workspace = context.workspace
    values = [v for v in _candidates(context) if v.graph is not None and v not in v.graph.outputs]
    if not values:
        raise ModelError("They are outputs already", "Every selected value is an output of its graph.")

    def make(edit: Transaction, copy_of: CopyOf, progress: Progress) -> Sequence[Item]:
        own = {copy_of(value): value for value in progress.paced(values, of=len(values))}
        for graph, made in by_graph(own).items():
            workspace.types.make_outputs(
                edit, graph, {value: own[value] for value in made if value not in graph.outputs}
            )
        return ()

    edit_many(workspace, f"Make {_title(values)} {_as(values, 'an output', 'outputs')}", len(values), make)


@Action(
    "graph.remove_output",
    "Remove from Outputs",
    Submenu.ENDS,
    when=lambda context: any(map(_is_output, context.selected_values)),
    on=("value",),
    words="remove output",
)
def _remove_outputs(context: MenuContext) -> None:
    values = [v for v in _candidates(context) if v.graph is not None and v in v.graph.outputs]
    if not values:
        raise ModelError("None of the selected values is an output", "There is nothing to remove.")

    def remove(edit: Transaction, copy_of: CopyOf, progress: Progress) -> Sequence[Item]:
        for graph, made in by_graph(map(copy_of, progress.paced(values, of=len(values)))).items():
            interface.remove_outputs(edit, graph, [value for value in made if value in graph.outputs])
        return ()

    edit_many(context.workspace, f"Remove {_title(values)} from the outputs", len(values), remove)


@Action("graph.add_input", "Add an &Input…", Submenu.ENDS, on=("canvas", "graph"), words="graph input new parameter")
def _add_input(context: MenuContext) -> None:

    workspace, graph = context.workspace, graph_in_view(context)

    def add(texts: list[str]) -> None:
        name, type_ = texts
        parsed = parse_type(type_) if type_ else None
        with workspace.document.edit(f"Add input {display(name, 60)}") as edit:
            value = interface.add_input(edit, graph, name or "input", parsed)
        workspace.navigation.reveal(value)

    TextPrompt(
        context.window,
        context.workspace,
        "Add an input",
        [
            PromptField("Name", "input"),
            PromptField("Type", "float[batch,3,224,224]", "for example float[batch,3] or seq(int64[?])"),
        ],
        add,
        button="Add",
    )


@Action("graph.remove_unused_inputs", "Remove Unused Inputs", Submenu.ENDS, words="clean graph input")
def _remove_unused_inputs(context: MenuContext) -> None:
    from onnx_workbench.viewer.workflows.background_edit import remove_unused_inputs_in

    graph = graph_in_view(context)
    if isinstance(graph.owner, (Node, Function)):
        raise ModelError(
            "These inputs are part of a signature", "Inputs of a body or function cannot become constants."
        )
    remove_unused_inputs_in(context.workspace, graph)


@Action(
    "value.type", "&Declare Type…", Submenu.TYPES, when=has_value, on=("value",), words="shape dimensions element dtype"
)
def _set_type(context: MenuContext) -> None:
    from onnx_workbench.model.edits.declare_types import declarable, size_names

    workspace, values = context.workspace, context.selected_values
    type_ = workspace.types.type_of(values[-1])
    type_ = None if type_ is None else declarable(type_, values[-1].type, size_names(workspace.model))

    def declare(texts: list[str]) -> None:
        parsed = parse_type(texts[0]) if texts[0] else None
        change_each(
            workspace,
            f"Declare the type of {_title(values)}",
            values,
            lambda edit, value: set_type(edit, value, parsed),
        )

    TextPrompt(
        context.window,
        context.workspace,
        "Declare a type",
        [
            PromptField(
                "Type", "" if type_ is None else type_source(type_), "for example float[batch,3]; empty: not declared"
            )
        ],
        declare,
        explanation=f"For {_title(values)}.",
        button="Declare",
    )


@Action(
    "value.to_constant",
    "Turn Initializer into Constant Node",
    Submenu.CONSTANTS,
    when=_has_initializer,
    on=("value",),
    words="convert weight",
)
def _to_constant(context: MenuContext) -> None:
    values = _constants(context)
    become = _as(values, "a Constant node", "Constant nodes")
    title = f"Turn {_title(values)} into {become}"

    def change(edit: Transaction, copy_of: CopyOf, progress: Progress) -> Sequence[Item]:
        return initializers_to_constants(edit, [copy_of(value) for value in values], progress)

    edit_many(context.workspace, title, len(values), change)


@Action(
    "value.to_input",
    "Turn Constant into Input",
    Submenu.CONSTANTS,
    when=lambda context: _has_initializer(context) or _has_constant_node(context),
    on=("node", "value"),
    tip="Make an initializer or the value of a Constant node a graph input.",
    words="convert initializer weight parameter",
)
def _to_input(context: MenuContext) -> None:
    values, chosen = _constants(context), _constant_nodes(context)
    if not values and not chosen:
        raise ModelError("No constant is selected", "Select an initializer or a Constant node.")
    graphs = {*(value.graph for value in values), *(node.graph for node in chosen)}
    if any(graph is not None and isinstance(graph.owner, (Node, Function)) for graph in graphs):
        raise ModelError("Only the main graph takes inputs in this way", "The inputs of a body are passed by its node.")
    of_nodes = [value for node in chosen for value in node.outputs if value is not None]
    what = [*values, *of_nodes]

    def change(edit: Transaction, copy_of: CopyOf, progress: Progress) -> Sequence[Item]:
        chosen_constants = [copy_of(value) for value in values]
        still = [node for node in chosen if node.graph is not None]  # some may have been made inputs meanwhile
        chosen_constants += constants_to_initializers(edit, [copy_of(node) for node in still], progress)
        for graph, constants in by_graph(value for value in chosen_constants if value.initializer is not None).items():
            interface.initializers_to_inputs(edit, graph, constants, progress=progress)
        return chosen_constants

    edit_many(context.workspace, f"Make {_title(what)} {_as(what, 'an input', 'inputs')}", len(what), change)


@Action(
    "value.only_constant",
    "Turn Input into Constant…",
    Submenu.CONSTANTS,
    when=lambda context: any(value.is_input for value in context.selected_values),
    on=("value",),
    tip="Use the default of the input, or values that you enter if it has none.",
    words="convert initializer remove input default freeze fix values",
)
def _only_constant(context: MenuContext) -> None:
    values = [value for value in context.selected_values if value.is_input]
    if all(value.initializer is not None for value in values):
        _make_constant(context, values, "")
    else:
        _ask_for_values(context, values)


@Action(
    "node.to_initializer",
    "Turn Constant Node into Initializer",
    Submenu.CONSTANTS,
    when=_has_constant_node,
    on=("node", "value"),
    words="convert weight",
)
def _to_initializer(context: MenuContext) -> None:
    chosen = _constant_nodes(context)
    if not chosen:
        raise ModelError("No Constant node is selected", "Only Constant nodes become initializers.")
    what = display(chosen[0].title, 60) if len(chosen) == 1 else plural(len(chosen), "Constant node")
    title = f"Turn {what} into {_as(chosen, 'an initializer', 'initializers')}"

    def change(edit: Transaction, copy_of: CopyOf, progress: Progress) -> Sequence[Item]:
        return constants_to_initializers(edit, [copy_of(node) for node in chosen], progress)

    edit_many(context.workspace, title, len(chosen), change)


@Action(
    "graph.batch",
    "Set &Batch Dimension…",
    Submenu.TYPES,
    on=("canvas", "graph"),
    words="dynamic fix shape size everywhere",
)
def _set_batch(context: MenuContext) -> None:
    from onnx_workbench.viewer.workflows.background_edit import set_batch

    workspace, graph = context.workspace, graph_in_view(context)

    def accept(texts: list[str]) -> None:
        dims = parse_dimensions(texts[0])
        if len(dims) != 1:
            raise ModelError("Write one dimension", "A number, a name such as batch, or ? for unknown.")
        interface.check_dimension(dims[0], graph)
        set_batch(workspace, graph, dims[0], texts[0])

    TextPrompt(
        context.window,
        context.workspace,
        "Set the batch dimension",
        [PromptField("First dimension", "batch", "a number, a name, or ? for unknown")],
        accept,
        explanation="Changes all inputs, outputs that begin with the same size, declared types and shapes of Reshape.",
        button="Set",
    )
