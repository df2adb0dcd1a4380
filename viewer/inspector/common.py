"""Rows common to several kinds of object: texts, metadata, types, navigation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

from onnx_workbench.model.edits import properties, values
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, Value
from onnx_workbench.model.ir.types import Type
from onnx_workbench.model.text.formatting import display
from onnx_workbench.viewer.document.selection import Item
from onnx_workbench.viewer.popups.connect import VisibleValues
from onnx_workbench.viewer.property_tree.rows import (
    LONGEST_TEXT,
    LazyRows,
    PropertyField,
    PropertyRow,
    RowAction,
    Suggestion,
)
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.style.type_texts import short_type, whole_type

Carrier = Model | Graph | Function | Node | Value
Change = Callable[[Transaction], object]
T = TypeVar("T")

_MOST_SUGGESTED = 100
_DIMENSION_LIMIT = 24  # characters of a dimension in a type
_MANY = 60
_MOST = 20_000  # rows of a list; Qt lays out all of them when it is opened


def act(workspace: Workspace, title: str, change: Change) -> Callable[[], object]:
    """Return a function that makes one edit."""

    def run() -> None:
        with workspace.document.edit(title) as edit:
            change(edit)

    return run


def go(workspace: Workspace, item: Item, title: str = "Go there") -> RowAction:
    """Return the action that selects an object and brings it into view."""
    return RowAction(title, lambda: workspace.navigation.reveal(item), "forward", "go")


def removing(workspace: Workspace, edit_title: str, change: Change, title: str = "Remove") -> RowAction:
    """Return the action of the Del key and of the button at the end of a row."""
    return RowAction(title, act(workspace, edit_title, change), "delete", "remove")


def editing_message(workspace: Workspace) -> RowAction:
    """Return the action that edits the message of the selected object as text."""
    return RowAction("Edit Message…", lambda: workspace.trigger("edit.message"), "edit", "message")


def name_of(item: Item) -> str:
    """Return the name of an object for titles of edits."""
    match item:
        case Node() | Function():
            return display(item.title, 60)
        case Value():
            return display(item.name, 60)
        case Graph(owner=Function() as function):
            return f"function {display(function.title, 60)}"
        case Graph():
            return f"graph {display(item.name, 60)}"
        case Model():
            return "model"


def one_line(text: str, limit: int = 300) -> str:
    """Join the first lines of a text for a row."""
    return display(" ".join(text[: limit * 2].split()), limit, elide="end")


def text_field(
    title: str, text: str, apply: Callable[[Transaction, str], object], *, lines: bool = False
) -> PropertyField:
    """Return a field for a text in the file."""
    return PropertyField(title, lambda: text, apply, lines=lines or "\n" in text or len(text) > LONGEST_TEXT // 10)


def text_row(
    key: str,
    label: str,
    text: str,
    field: PropertyField | None = None,
    *,
    tip: str = "",
    common: bool = True,
    middle: bool = False,
) -> PropertyRow:
    """Return a row for a text in the file."""
    shown = one_line(text) if field is not None and field.lines else display(text, 300)
    full = display(text, 1000, keep_lines=True) if len(text) > 30 else ""
    return PropertyRow(key, label, shown, field=field, tip=tip or full, common=common, middle=middle)


# -- descriptions and metadata --------------------------------------------------------------------------------


def description_row(target: Carrier) -> PropertyRow:
    """Return the row for a doc_string."""
    field = text_field(
        f"Describe {name_of(target)}",
        target.doc_string,
        lambda edit, text: properties.set_text(edit, target, "doc_string", text),
        lines=True,
    )
    return text_row("doc_string", "Description", target.doc_string, field)


def metadata_section(workspace: Workspace, target: Carrier) -> PropertyRow:
    """Return the section for metadata_props: keys and texts, with a row that adds one."""
    entries = target.metadata

    def rows() -> Sequence[PropertyRow]:
        return [*(_metadata_row(workspace, target, k, v) for k, v in entries.items()), _add_metadata(target)]

    return section("metadata", "Metadata", len(entries), rows)


def _metadata_row(workspace: Workspace, target: Carrier, key: str, text: str) -> PropertyRow:
    of = f"{one_line(key, 40)} of {name_of(target)}"
    field = text_field(f"Set metadata {of}", text, lambda edit, new: properties.set_metadata(edit, target, key, new))
    row = text_row(f"metadata {key}", display(key, 120), text, field)
    row.tip = display(f"{key}\n{text}", 1000, keep_lines=True) if len(key) + len(text) > 30 else ""
    row.label_field = PropertyField(
        f"Rename metadata {of}", lambda: key, lambda edit, new: properties.rename_metadata(edit, target, key, new)
    )
    change = partial(properties.set_metadata, target=target, key=key, text=None)
    row.actions = (removing(workspace, f"Remove metadata {of}", change),)
    return row


def _add_metadata(target: Carrier) -> PropertyRow:
    def add(edit: Transaction, text: str) -> None:
        key, _, value = text.partition("=")
        key = key.strip()
        if key in target.metadata:
            raise ModelError(f"Key {key} already exists", "Metadata keys are unique.")
        properties.set_metadata(edit, target, key, value.strip())

    title = f"Add metadata to {name_of(target)}"
    row = add_row("Add entry", PropertyField(title, str, add, hint="key = text"))
    row.label_field = PropertyField(title, str, add, hint="key")  # its value is then entered next to it
    return row


# -- sections and lists ---------------------------------------------------------------------------------------


def section(
    key: str,
    title: str,
    count: int,
    children: Callable[[], Sequence[PropertyRow]] | Sequence[PropertyRow],
    **more: object,
) -> PropertyRow:
    """Return a section of rows; expanded when there are some, but not very many."""
    row = PropertyRow(key, title, str(count) if count else "", style="section", children=children)
    row.expanded = bool(more.get("expanded", 0 < count <= _MANY))
    actions = more.get("actions", ())
    row.actions = tuple(actions) if isinstance(actions, Iterable) else ()
    row.common = bool(more.get("common", True))
    return row


def add_row(label: str, field: PropertyField) -> PropertyRow:
    """Return the last row of a list, in which a new entry is typed."""
    return PropertyRow("+", label, field.hint, style="muted", field=field, common=False)


def many(
    count: int, make: Callable[[int], PropertyRow], *last: PropertyRow, opens: Callable[[int], bool] | None = None
) -> Sequence[PropertyRow]:
    """Return the rows of a list: created at once when few, lazily when many.

    `opens` tells which have child rows, without creating them; without it none has.
    """
    if count <= _MANY * 4:
        return [*(make(i) for i in range(count)), *last]
    if count > _MOST:
        count, last = _MOST, (PropertyRow("more", "", f"{count - _MOST:,} more are not listed", style="muted"), *last)
    return LazyRows(
        count + len(last),
        lambda i: make(i) if i < count else last[i - count],
        None if opens is None else lambda i: i < count and opens(i),
    )


def moved(items: Sequence[T], index: int, to: int) -> tuple[T, ...]:
    """Return items with one moved."""
    order = list(items)
    order.insert(to, order.pop(index))
    return tuple(order)


def movable(
    workspace: Workspace,
    row: PropertyRow,
    title: str,
    index: int,
    count: int,
    move: Callable[[Transaction, int], object],
) -> None:
    """Make a row of an ordered list movable: by dragging, buttons, or Alt+Up and Alt+Down."""

    def to(place: int) -> None:
        with workspace.document.edit(title) as edit:
            move(edit, place)

    row.move = to
    row.actions = (
        *row.actions,
        RowAction("Move up", partial(to, index - 1), "move-up", "up", index > 0),
        RowAction("Move down", partial(to, index + 1), "move-down", "down", index + 1 < count),
    )


_INFERRED = (
    "Inferred from inputs, constants and operators, whatever the file declares. A size like 2*N follows from the "
    "size N of an input; x_d0 is the first size of input x, which the file leaves open; div(a, b) is a / b rounded "
    "down; ? is not known."
)


def inferred_row(workspace: Workspace, known: Type, *, common: bool = True) -> PropertyRow:
    """Return the row for an inferred type; its tooltip explains sizes."""
    row = PropertyRow("inferred", "Inferred", tip=_INFERRED, common=common)
    show_type(workspace, row, known)
    return row


def show_type(workspace: Workspace, row: PropertyRow, type_: Type | None) -> None:
    """Write a type into a row, short; the whole one is in its tooltip, and copied."""
    row.text = short_type(type_, workspace.dimension_prefix, _DIMENSION_LIMIT) or "not declared"
    row.whole = whole_type(type_)
    row.mono, row.style = type_ is not None, "muted" if type_ is None else "normal"


def type_note(workspace: Workspace, value: Value) -> str:
    """Return the short type of a value, inferred where known; empty if unknown."""
    return short_type(workspace.types.type_of(value), workspace.dimension_prefix, _DIMENSION_LIMIT)


def rename_field(value: Value) -> PropertyField:
    """Return a field for the name of a value."""
    return PropertyField(
        f"Rename {name_of(value)}", lambda: value.name, lambda edit, new: values.rename_value(edit, value, new)
    )


# -- choosing values ------------------------------------------------------------------------------------------


class ValueSuggestions:
    """Completions with values visible in a graph while a name is typed; `judge` says what speaks against one."""

    def __init__(self, workspace: Workspace, visible: VisibleValues, judge: Callable[[Value], str]) -> None:
        self._workspace = workspace
        self._visible = visible
        self._judge = judge

    def suggest(self, typed: str) -> Sequence[Suggestion]:
        """Return values whose name contains the text: fitting ones first, prefixes before inner matches."""
        suggestions = [self._suggestion(value) for value in self._visible.containing(typed, _MOST_SUGGESTED)]
        return sorted(suggestions, key=lambda s: not s.fits)

    def _suggestion(self, value: Value) -> Suggestion:
        reason = self._judge(value)
        note = type_note(self._workspace, value)
        return Suggestion(value.name, f"{note} – {reason}" if reason else note, fits=not reason)
