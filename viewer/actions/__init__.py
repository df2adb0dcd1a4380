"""All commands of the program as data, for menus, tool bar, context menus, palette and shortcut list.

A module of this package offers `ACTIONS`; the modules are listed in MODULES. To add an action, write one `Action(...)`
in the module of its menu; to add a module, write its name here.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module

from onnx_workbench.viewer.actions.action import Action, Menu, MenuContext, SelectionSummary

__all__ = ["MODULES", "Action", "Menu", "MenuContext", "SelectionSummary", "action", "actions"]

#: Modules of this package, in the order their actions appear within a menu section.
MODULES = ("file", "edit", "view", "go", "nodes", "graph", "model", "tools", "run", "values", "help")


@cache
def actions() -> tuple[Action, ...]:
    """Return every action, in menu order. Importing them imports neither numpy nor the canvas."""
    found = tuple(a for name in MODULES for a in import_module(f"onnx_workbench.viewer.actions.{name}").ACTIONS)
    by_id: dict[str, Action] = {}
    for one in found:
        if by_id.setdefault(one.id, one) is not one:
            msg = f"two actions have the id {one.id!r}"
            raise ValueError(msg)
    return found


def action(action_id: str) -> Action:
    """Return the action with an id; KeyError when there is none."""
    for one in actions():
        if one.id == action_id:
            return one
    raise KeyError(action_id)
