"""The Model menu's tools for the whole model."""

from __future__ import annotations

from viewer.actions.action import Action, Context, Menu, with_document
from viewer.text import plural


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


ACTIONS = (
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
