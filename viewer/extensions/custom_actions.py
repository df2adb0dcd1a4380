"""`action`, the decorator with which scripts and extensions add commands to the window. No Qt: workers load it too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from onnx_workbench.model import extensions
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document

Run = Callable[[Document, tuple[Any, ...]], str | None]
F = TypeVar("F", bound=Run)


@dataclass(frozen=True, slots=True)
class CustomAction:
    """An entry of the menu Extensions."""

    title: str
    tip: str
    function: Run

    def run(self, document: Document, selection: tuple[Any, ...]) -> str:
        """Run it and return its message. Unexpected exceptions become a ModelError that names its file."""
        owner = Path(extensions.file_of(self.function)).name
        title = f"{self.title} of {owner} failed"
        message = extensions.call(title, self.function, self.function, document, selection)
        if message is not None and not isinstance(message, str):
            raise ModelError(title, f"It returned {type(message).__name__}, expected a string or nothing.")
        return message or ""


_actions: dict[str, CustomAction] = {}


def action(title: str) -> Callable[[F], F]:
    """Register a function as an entry of the menu Extensions and of the command palette.

    It is called with the current document and the selected objects: nodes, values, graphs, functions. It changes
    the model as scripts do, in ``with document.edit(title) as edit``, each an entry of the history for Undo. A text
    that it returns is shown as a message; errors should be raised as `ModelError`. It is called on the GUI thread,
    which it blocks. The docstring is its tooltip. Registering an action again replaces it.

    >>> import onnx_workbench as ow
    >>> @ow.action("Name Nodes by Operator")
    ... def name_nodes(document, selection):
    ...     "Names the selected nodes after their operators."
    ...     nodes = [item for item in selection if hasattr(item, "op_type")]
    ...     with document.edit("Name nodes by operator") as edit:
    ...         for number, node in enumerate(nodes):
    ...             ow.edits.rename_node(edit, node, f"{node.op_type}_{number}")
    ...     return f"{len(nodes)} nodes have a new name."
    >>> document = ow.Document(ow.load(sample))
    >>> name_nodes(document, tuple(document.model.graph.nodes)[:2])
    '2 nodes have a new name.'
    """

    def register(function: F) -> F:
        extensions.add("action", title, _actions, CustomAction(title, extensions.about(function), function))
        return function

    return register


def custom_actions() -> tuple[CustomAction, ...]:
    """Return the registered actions."""
    return tuple(_actions.values())
