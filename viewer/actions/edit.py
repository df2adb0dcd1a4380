"""Edit: undo, redo, selecting, copying names; preferences."""

from __future__ import annotations

from collections.abc import Iterator

from PySide6.QtWidgets import QApplication

from model.graph import Function, Graph, Model, Node, Value
from viewer.actions.action import Action, Context, Menu, always, with_document, with_selection
from viewer.text import display


def _undo_title(context: Context) -> str | None:
    return None if context.workspace is None else context.workspace.document.undo_title


def _redo_title(context: Context) -> str | None:
    return None if context.workspace is None else context.workspace.document.redo_title


def _titled(verb: str, title: str | None) -> str:
    return f"&{verb} {display(title, 60).replace('&', '&&')}" if title else f"&{verb}"


def _undo(context: Context) -> None:
    context.opened.document.undo()


def _redo(context: Context) -> None:
    context.opened.document.redo()


def _select_all(context: Context) -> None:
    context.opened.selection.set(context.opened.graph.nodes)


def _clear_selection(context: Context) -> None:
    context.opened.selection.clear()


def _names(context: Context) -> Iterator[str]:
    for item in context.selected:
        match item:
            case Node() | Value() | Graph() | Function():
                if item.name:
                    yield item.name
            case Model():
                yield context.opened.title


def _copy_names(context: Context) -> None:
    # Bytes that were not UTF-8 are surrogates in names; no clipboard takes those.
    text = "\n".join(_names(context))
    QApplication.clipboard().setText(text.encode("utf-8", "replace").decode("utf-8"))


def _preferences(context: Context) -> None:
    from viewer.dialogs.preferences import PreferencesDialog

    PreferencesDialog(context.window.settings, context.window).show()


ACTIONS = (
    Action(
        id="edit.undo",
        title="&Undo",
        label=lambda context: _titled("Undo", _undo_title(context)),
        run=_undo,
        menu=Menu.EDIT,
        section=1,
        shortcut=("Ctrl+Z",),
        enabled=lambda context: bool(_undo_title(context)),
        icon="undo",
        toolbar=21,
    ),
    Action(
        id="edit.redo",
        title="&Redo",
        label=lambda context: _titled("Redo", _redo_title(context)),
        run=_redo,
        menu=Menu.EDIT,
        section=1,
        shortcut=("Ctrl+Shift+Z", "Ctrl+Y"),
        enabled=lambda context: bool(_redo_title(context)),
        icon="redo",
        toolbar=22,
    ),
    Action(
        id="edit.copy_name",
        title="Copy &Name",
        run=_copy_names,
        menu=Menu.EDIT,
        section=2,
        shortcut=("Ctrl+Alt+C",),
        enabled=lambda context: any(True for _ in _names(context)),
        contexts=frozenset({"node", "value", "graph", "function"}),
        words="clipboard identifier",
    ),
    Action(
        id="edit.select_all",
        title="Select &All",
        run=_select_all,
        menu=Menu.EDIT,
        section=6,
        shortcut=("Ctrl+A",),
        on_graph=True,
        enabled=with_document,
    ),
    Action(
        id="edit.clear_selection",
        title="&Deselect",
        run=_clear_selection,
        menu=Menu.EDIT,
        section=6,
        enabled=with_selection,
        tip="Esc on the graph does it too; once more closes the newest message.",
        words="nothing clear selection escape",
    ),
    Action(
        id="edit.preferences",
        title="&Preferences…",
        run=_preferences,
        menu=Menu.EDIT,
        section=9,
        shortcut=("Ctrl+,",),
        enabled=always,
        icon="settings",
        words="options settings configuration",
    ),
)
