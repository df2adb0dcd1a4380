"""Data classes of property rows: texts, editing, actions. No Qt."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, overload

if TYPE_CHECKING:
    from onnx_workbench.model.history.document import Transaction
    from onnx_workbench.viewer.document.selection import Item

Style = Literal["normal", "section", "muted", "error", "warning"]

#: Longer texts are not edited in a field, which would be too slow; see `PropertyField.open`.
LONGEST_TEXT = 20_000


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A completion: the text to insert, and a note; with `fits` False it is greyed and last."""

    text: str
    note: str = ""
    fits: bool = True


@dataclass(frozen=True, slots=True)
class PropertyField:
    """The editing of a row's text.

    title    title of the edit in the history
    source   returns the initial text, when editing begins
    apply    makes the change from the new text; raises ModelError, which is shown at the field
    choices  returns usual texts, for a drop-down list, when editing begins; other texts can be typed too
    suggest  returns further texts for a typed prefix
    step     returns the text one up (+1) or down (-1), for the arrow keys
    lines    several lines: Enter inserts a line break, Ctrl+Enter commits
    mono     in the monospace font
    hint     shown while it is empty
    open     edits it elsewhere, if it is too large for a field; then `source` is not called
    """

    title: str
    source: Callable[[], str]
    apply: Callable[[Transaction, str], object]
    choices: Callable[[], Sequence[Suggestion]] = tuple
    suggest: Callable[[str], Sequence[Suggestion]] | None = None
    step: Callable[[str, int], str] | None = None
    lines: bool = False
    mono: bool = False
    hint: str = ""
    open: Callable[[], object] | None = None


@dataclass(frozen=True, slots=True)
class RowAction:
    """An action of a row: in its context menu and, with an icon, as a button at its end.

    `id` is ``remove``, ``up``, ``down``, ``go`` or ``add`` for those with a key.
    """

    title: str
    run: Callable[[], object]
    icon: str = ""
    id: str = ""
    enabled: bool = True


@dataclass(frozen=True, slots=True)
class Help:
    """Documentation. `markdown` only for texts of the installed onnx package; those of files are plain text."""

    title: str
    text: str
    markdown: bool = False


@dataclass(slots=True, eq=False)
class PropertyRow:
    """A line: a label and a value, or a section over others.

    key       identifies it among its siblings, also after an update
    text      the value, short; `note` is drawn muted at the end of the line
    whole     the text, or text and note, in full where they are shortened: for the tooltip, and to be copied
    field     editing of the value; label_field: of the label
    common    whether it may be edited for several objects at once
    bars      heights of a histogram painted instead of the text; `part`: index of this row and number of rows it spans
    expanded  whether its children are initially shown
    move      for a row of an ordered list: moves it to another index among its movable siblings
    """

    key: str
    label: str
    text: str = ""
    note: str = ""
    style: Style = "normal"
    mono: bool = False
    middle: bool = False  # elide in the middle: names
    field: PropertyField | None = None
    label_field: PropertyField | None = None
    actions: tuple[RowAction, ...] = ()
    target: Item | None = None
    help: Help | None = None
    tip: str = ""
    common: bool = True
    bars: tuple[int, ...] = ()
    part: tuple[int, int] = (0, 1)
    expanded: bool = False
    move: Callable[[int], object] | None = None
    children: Sequence[PropertyRow] | Callable[[], Sequence[PropertyRow]] | None = None
    whole: str = ""

    def looks_like(self, other: PropertyRow) -> bool:
        """Return whether both are painted alike; their actions may differ."""
        return self._looks() == other._looks()

    def _looks(self) -> tuple[object, ...]:
        ways = (self.field is None, self.label_field is None, bool(self.children))
        buttons = [(action.icon, action.id, action.enabled) for action in self.actions]
        texts = (self.key, self.label, self.text, self.note)
        return (*texts, self.style, self.mono, self.middle, self.bars, self.part, ways, buttons)

    def rows(self) -> Sequence[PropertyRow]:
        """Return the child rows, created now."""
        if self.children is None:
            return ()
        return self.children() if callable(self.children) else self.children


class LazyRows(Sequence[PropertyRow]):
    """Many rows, each created on access; `opens` returns without creating it whether a row has children."""

    def __init__(
        self, count: int, make: Callable[[int], PropertyRow], opens: Callable[[int], bool] | None = None
    ) -> None:
        self._count = count
        self._make = make
        self._opens = opens

    def opens(self, index: int) -> bool:
        """Return whether a row has children."""
        return self._opens is not None and self._opens(index)

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> PropertyRow: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[PropertyRow]: ...

    def __getitem__(self, index: int | slice) -> PropertyRow | Sequence[PropertyRow]:
        if isinstance(index, slice):
            return [self._make(i) for i in range(*index.indices(self._count))]
        if not 0 <= index < self._count:
            raise IndexError(index)
        return self._make(index)

    def __iter__(self) -> Iterator[PropertyRow]:
        return (self._make(i) for i in range(self._count))
