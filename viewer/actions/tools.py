"""The Model menu's tools for the whole model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from viewer.actions.action import Action, Context, Menu, with_document
from viewer.text import plural

if TYPE_CHECKING:
    from viewer.document_tab import DocumentTab


def _knows_types(context: Context) -> bool:
    return with_document(context) and context.opened.types.inferred is not None


def _write_types(context: Context) -> None:
    from model.passes.inference import declare_all

    workspace = context.opened
    inferred = workspace.types.inferred
    assert inferred is not None
    with workspace.document.edit("Write inferred types") as edit:
        changed = declare_all(edit, inferred)
    workspace.message("info", "Types and shapes are in the model", f"{plural(changed, 'declaration')} written.")


def _convert(context: Context) -> None:
    from viewer.dialogs.convert import ConvertDialog

    ConvertDialog(context.opened, context.window).show()


def _simplify(context: Context) -> None:
    from viewer.dialogs.simplify import SimplifyDialog

    SimplifyDialog(context.opened, context.window).show()


def _compare(context: Context) -> None:
    """Choose the other model: it is opened in a tab of its own, and the differences are listed below."""
    from viewer.dialogs.files import ask_open

    window, workspace = context.window, context.opened
    tab = window.tab

    def link(other: DocumentTab) -> None:
        from viewer.pairing import Comparing

        Comparing(other.workspace, workspace)
        if tab is not None:
            window.activate(tab)
        window.docks.open("differences")

    for path in ask_open(window, window.settings)[:1]:
        window.files.open_then(path, link)


ACTIONS = (
    Action(
        id="model.simplify",
        title="Simplif&y…",
        run=_simplify,
        enabled=with_document,
        menu=Menu.MODEL,
        section=3,
        tip="Fold constants, remove what does nothing and fuse operators; outputs are compared before and after.",
        words="optimize optimise onnxsim onnxslim constant folding fuse batch normalization eliminate",
    ),
    Action(
        id="model.convert",
        title="Con&vert…",
        run=_convert,
        enabled=with_document,
        menu=Menu.MODEL,
        section=3,
        tip="Change operator set, precision or dimensions; what changes is shown before.",
        words="opset version float16 bfloat16 half precision freeze batch dynamic strip",
    ),
    Action(
        id="model.compare",
        title="Compare &with…",
        run=_compare,
        enabled=with_document,
        menu=Menu.MODEL,
        section=3,
        icon="compare",
        tip="List what differs from another model, mark it on both graphs, and copy changes between them.",
        words="diff difference versions",
    ),
    Action(
        id="model.write_types",
        title="Write Inferred &Types into the Model",
        run=_write_types,
        enabled=_knows_types,
        menu=Menu.MODEL,
        section=3,
        tip="Declare every type and shape that could be inferred, as one edit.",
        words="shape inference infer shapes value_info store",
    ),
)
