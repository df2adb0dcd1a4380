"""All commands of the program as data, for menus, tool bar, context menus, palette and shortcut list.

To add one, write a function below `@Action(…)` in the module of its menu, or an `Action(…, run=…)` where that is one
call; to add a module, write its name in MODULES. Actions of one kind stand in a tuple.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module

from onnx_workbench.viewer.actions.action import Action, Menu, MenuContext

__all__ = ["MODULES", "Action", "Menu", "MenuContext", "action", "actions"]

#: Modules of this package, in the order their actions appear within a menu section.
MODULES = ("file", "edit", "view", "go", "nodes", "graph", "model", "tools", "compare", "run", "values", "help")


@cache
def actions() -> tuple[Action, ...]:
    """Return every action, in menu order. Importing them imports neither numpy nor the canvas."""
    modules = [import_module(f"onnx_workbench.viewer.actions.{name}") for name in MODULES]
    listed = [one for module in modules for thing in vars(module).values() for one in _actions_in(thing)]
    by_id: dict[str, Action] = {}
    for one in listed:
        if by_id.setdefault(one.id, one) is not one:
            msg = f"two actions have the id {one.id!r}"
            raise ValueError(msg)
    return tuple(by_id.values())


def _actions_in(thing: object) -> list[Action]:
    """Return what a name of a module holds: an action, or a tuple of them."""
    return [one for one in (thing if isinstance(thing, tuple) else (thing,)) if isinstance(one, Action)]


def action(action_id: str) -> Action:
    """Return the action with an id; KeyError when there is none."""
    for one in actions():
        if one.id == action_id:
            return one
    raise KeyError(action_id)
