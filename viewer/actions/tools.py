"""Tools for the whole model in the Model menu."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.text.formatting import display
from onnx_workbench.viewer.actions.action import Action, Menu, MenuContext, Submenu
from onnx_workbench.viewer.actions.targets import may_have
from onnx_workbench.viewer.dialogs.dialog_lifetime import show_aside
from onnx_workbench.viewer.dialogs.text_prompt import PromptField, TextPrompt

if TYPE_CHECKING:
    from onnx_workbench.model.ir.graph import Node


def _knows_types(context: MenuContext) -> bool:
    return context.workspace.types.inferred is not None


def _custom_nodes(context: MenuContext) -> list[Node]:
    return [node for node in context.selected_nodes if node.domain]


@Action(
    "model.simplify",
    "Simplif&y…",
    Menu.MODEL.section(3),
    tip="Fold constants, remove no-op nodes and fuse operators. Outputs before and after are compared.",
    words="optimize optimise onnxsim onnxslim constant folding fuse batch normalization eliminate",
)
def _simplify(context: MenuContext) -> None:
    from onnx_workbench.viewer.dialogs.simplify import SimplifyDialog

    show_aside(context.workspace, SimplifyDialog(context.workspace, context.window))


@Action(
    "model.convert",
    "Con&vert…",
    Menu.MODEL.section(3),
    tip="Change opset, precision or dimensions, with a preview.",
    words="opset version upgrade float16 fp16 bfloat16 bf16 half precision freeze batch dynamic strip",
)
def _convert(context: MenuContext) -> None:
    from onnx_workbench.viewer.dialogs.convert import ConvertDialog

    show_aside(context.workspace, ConvertDialog(context.workspace, context.window))


@Action(
    "model.quantize",
    "&Quantize…",
    Menu.MODEL.section(3),
    tip="Compute in integers or float8, and measure what it costs: outputs, layers, size.",
    words="int8 uint8 int4 quantise quantization calibration qdq static dynamic weights compress shrink",
)
def _quantize(context: MenuContext) -> None:
    from onnx_workbench.viewer.dialogs.quantize import QuantizeDialog

    show_aside(context.workspace, QuantizeDialog(context.workspace, context.window))


@Action(
    "model.write_types",
    "Write Inferred &Types into the Model",
    Submenu.TYPES,
    when=_knows_types,
    tip="Declare all inferred types, as one edit. Sizes that have no number or name in the model stay open.",
    words="shape inference infer shapes value_info store",
)
def _write_types(context: MenuContext) -> None:
    from onnx_workbench.viewer.workflows.background_edit import write_types

    write_types(context.workspace)


@Action(
    "model.write_selected_types",
    "Write Inferred Types of the &Selection",
    Submenu.TYPES,
    when=lambda context: _knows_types(context) and bool(context.workspace.selection.nodes),
    tip="Declare the inferred types of the outputs of the selected nodes, as one edit.",
    words="shape inference infer shapes value_info store node",
)
def _write_selected_types(context: MenuContext) -> None:
    from onnx_workbench.viewer.workflows.background_edit import write_types

    write_types(context.workspace, selected=True)


@Action(
    "model.type_rule",
    "Types of an Unknown Operator…",
    Submenu.TYPES,
    when=lambda context: may_have(context.selected_nodes, attrgetter("domain")),
    tip="Define how the output types of the selected custom operator depend on its inputs.",
    words="shape inference infer custom rule same as input",
)
def _set_type_rule(context: MenuContext) -> None:
    from onnx_workbench.model.inference.custom_rules import rule_of_text

    workspace, custom = context.workspace, _custom_nodes(context)
    if not custom:
        raise ModelError(
            "No custom operator is selected",
            "Select a node with a custom domain. Types of standard operators are known.",
        )
    node = custom[-1]
    operator = f"{node.domain}::{node.op_type}"

    def set_rule(texts: list[str]) -> None:
        rule = texts[0].strip()
        if rule and rule_of_text(rule) is None:
            raise ModelError(f"{display(rule, 60)!r} is not a rule", "Write it as: same as input 0")
        workspace.types.set_rule(operator, rule)

    TextPrompt(
        context.window,
        context.workspace,
        "Types of an unknown operator",
        [
            PromptField(
                "Outputs", workspace.types.rules.get(operator, "same as input 0"), "same as input 0; empty: unknown"
            )
        ],
        set_rule,
        explanation=f"Type and shape rule for all nodes of {display(operator, 80)}, while the document is open.",
        button="Infer",
    )
