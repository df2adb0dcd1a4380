"""Every action, with nothing open, without a selection and with each kind of selection: none fails."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QDialog, QMenu

from onnx_workbench.viewer.actions import actions
from onnx_workbench.viewer.canvas.rename_field import RenameField
from onnx_workbench.viewer.popups.choice_popup import ChoicePopup
from tests.model import builders

pytestmark = pytest.mark.usefixtures("no_system_dialogs")

#: What asks the system for files, leaves the program or belongs to other tests.
_ELSEWHERE = {"file.quit", "view.full_screen"}
_OTHERS = ("file.recent", "file.close", "file.open_sample", "run.", "values.", "panel.")
_KINDS = (
    "nothing", "node", "nodes", "inner node", "call", "value", "values", "initializer", "input", "output",
    "graph", "function", "model", "everything",
)  # fmt: skip


def _selection(desk, kind):
    model = desk.document.model
    return {
        "nothing": (),
        "node": (desk.node("double"),),
        "nodes": (desk.node("double"), desk.node("choose"), desk.node("inner")),
        "inner node": (desk.node("inner"),),
        "call": (desk.node("call"),),
        "value": (desk.value("d"),),
        "values": (desk.value("x"), desk.value("d"), desk.value("z")),
        "initializer": (desk.value("w"),),
        "input": (desk.value("x"),),
        "output": (desk.value("y"),),
        "graph": (model.graph,),
        "function": (model.functions[0],),
        "model": (model,),
        "everything": (model, model.graph, *model.graph.nodes, *model.graph.values(), model.functions[0]),
    }[kind]


def close_what_opened(window):
    for kind in (ChoicePopup, QDialog, QMenu, RenameField):
        for widget in window.findChildren(kind):
            if isinstance(widget, RenameField):
                widget.close_field()
            elif widget.isVisible():
                widget.close()


def reset(desk, tab, kind):
    """The tab as it was opened, with the selection again."""
    close_what_opened(desk.window)
    for other in [other for other in desk.window.tabs() if other is not tab]:
        desk.window.area.remove_tab(other)
    desk.document.go_to(desk.document.root)
    desk.workspace.navigation.show(desk.document.model.graph)
    desk.select(*_selection(desk, kind))


@pytest.mark.long
@pytest.mark.parametrize("kind", _KINDS)
def test_no_action_fails(desk, kind):
    first = desk.window.tabs()[0]
    tab = desk.open(builders.BRANCHES)
    desk.window.area.remove_tab(first)
    done = 0
    for one in actions():
        if one.id in _ELSEWHERE or one.id.startswith(_OTHERS):
            continue
        reset(desk, tab, kind)
        desk.window.actions_binding.run(one.id)
        done += 1
    reset(desk, tab, kind)
    desk.settle()
    assert done > 100


def test_no_action_fails_on_the_start_page(window):
    for one in actions():
        if one.id not in _ELSEWHERE and not one.id.startswith(_OTHERS):
            window.actions_binding.run(one.id)
            close_what_opened(window)
