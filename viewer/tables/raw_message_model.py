"""The messages of a model as a tree of fields, read from the file branch by branch on expansion."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from PySide6.QtCore import QModelIndex, QObject, Qt

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.raw_view import (
    Branches,
    Path,
    RawField,
    RawStretch,
    branch,
    fields,
    readings,
    root,
    value_text,
)
from onnx_workbench.model.io.reader.payloads import JoinedPieces
from onnx_workbench.model.io.wire import LENGTH
from onnx_workbench.model.text.formatting import display, plural
from onnx_workbench.viewer.style.theme import monospace, theme
from onnx_workbench.viewer.style.tooltips import plain_tip
from onnx_workbench.viewer.tables.tree_model import Index, KeyedTreeModel, TreeRow

_BATCH = 500  # rows fetched at once
_STRETCHES = 10  # limit for stretches read at once, each of which costs reading its content
_COLUMNS = ("Field", "Number", "Value", "Bytes")


@dataclass(slots=True, eq=False)
class RawRow(TreeRow):
    """A field, a stretch of them, or one reading of an unknown field."""

    raw: RawField  # of a stretch, the first
    rest: Iterator[RawField | RawStretch] | None = None  # children not fetched yet
    stretch: RawStretch | None = None
    reading: tuple[str, str] | None = None
    path: Path = ()
    text: str | None = field(default=None, repr=False)

    @property
    def is_field(self) -> bool:
        """Return whether the row represents a complete field."""
        return self.reading is None and self.stretch is None

    @property
    def around(self) -> Path:
        """Return the prefix of the paths below it."""
        return self.parent.path if self.stretch is not None and self.parent is not None else self.path

    def leads_to(self, path: Path) -> bool:
        """Return whether a path is its own or below it."""
        if self.reading is not None:
            return False
        before = len(self.around)
        inside = self.stretch is not None and len(path) > before and self.stretch.holds(path[before])
        return path[: len(self.path)] == self.path or (inside and path[:before] == self.around)


def _batch(rest: Iterator[Any], stretches: int) -> tuple[list[Any], bool]:
    """Return the next entries of a branch, and whether they are the last."""
    entries: list[Any] = []
    for entry in islice(rest, _BATCH):
        entries.append(entry)
        stretches -= isinstance(entry, RawStretch)
        if not stretches:
            return entries, False
    return entries, len(entries) < _BATCH


class RawMessageModel(KeyedTreeModel[RawRow]):
    """Columns: field, number, value, byte range."""

    # also of a model that is garbage: its view, which goes last, may still call it
    root = RawRow(None, 0, RawField(0, LENGTH, 0, 0, 0, 0, 0, None, 0, "-"))

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._contents = JoinedPieces([])
        self._branches: Branches = {}
        self._is_muted = False

    def set_contents(self, contents: JoinedPieces, branches: Branches) -> None:
        """Show the bytes that saving the model now would write. `branches` need no reading."""
        self.beginResetModel()
        self._contents, self._branches = contents, branches
        self._is_muted = False
        self.root = RawRow(None, 0, root(contents))
        self.endResetModel()

    def mute(self) -> None:
        """Show outdated rows in grey until new ones are set."""
        self._is_muted = True

    # -- rows ----------------------------------------------------------------------------------------------------

    def children_of(self, row: RawRow) -> list[RawRow]:
        if row.children is None:
            row.children = []
            if row.stretch is not None and row.parent is not None:
                row.rest = fields(self._contents, row.parent.raw, row.stretch)
            elif row.is_field and row.raw.message is not None:
                known = self._branches.get(row.raw.content)
                row.rest = branch(self._contents, row.raw) if known is None else iter(known)
            elif row.is_field and row.raw.schema is None and not row.raw.problem:
                for index, reading in enumerate(self._safely(lambda: readings(self._contents, row.raw), [])):
                    row.children.append(RawRow(row, index, row.raw, reading=reading, path=row.path))
            row.children += self._fetched(row)
        return row.children

    def _fetched(self, row: RawRow) -> list[RawRow]:
        if row.rest is None or row.children is None:
            return []
        known = row.raw.content in self._branches
        batch, is_all = self._safely(lambda: _batch(row.rest or iter(()), _BATCH if known else _STRETCHES), ([], True))
        if is_all:
            row.rest = None
        rows = []
        for index, found in enumerate(batch, len(row.children)):
            if isinstance(found, RawStretch):
                rows.append(RawRow(row, index, found.first, stretch=found, path=(*row.path, *found.key)))
                continue
            rows.append(RawRow(row, index, found, path=(*row.around, found.key)))
        return rows

    def _safely(self, read: Any, otherwise: Any) -> Any:
        """Read from the file; one that changed on disk shows nothing more."""
        try:
            return read()
        except ModelError:
            return otherwise

    def index_of(self, path: Path) -> QModelIndex:
        """Return the row of a field, fetching its ancestors; the nearest row if it does not exist."""
        row = self.root
        while row.path != path and (inner := self._find(row, path)) is not None:
            row = inner
        return self.index_of_row(row)

    def _find(self, row: RawRow, path: Path) -> RawRow | None:
        """Return the child of a row that a path leads through."""
        children = self.children_of(row)
        position = 0
        while True:
            for child in children[position:]:
                if child.leads_to(path):
                    return child
            position = len(children)
            if row.rest is None:
                return None
            self._fetch_visibly(row)

    def _fetch_visibly(self, row: RawRow) -> None:
        """Fetch more rows of a branch that the view has expanded."""
        assert row.children is not None
        rows = self._fetched(row)
        if rows:
            self.insert_children(row, len(row.children), rows)

    # -- QAbstractItemModel --------------------------------------------------------------------------------------

    def hasChildren(self, parent: Index = QModelIndex()) -> bool:
        row = self.row_at(parent)
        if row.reading is not None:
            return False
        if row.stretch is not None:
            return True
        if row.raw.message is not None:
            return row.raw.end > row.raw.content
        return row.raw.schema is None and not row.raw.problem

    def canFetchMore(self, parent: Index) -> bool:
        row = self.row_at(parent)
        return row.rest is not None

    def fetchMore(self, parent: Index) -> None:
        """Fetch the next fields, when the view scrolls there."""
        row = self.row_at(parent)
        if row.children is not None:
            self._fetch_visibly(row)

    def columnCount(self, _parent: Index = QModelIndex()) -> int:
        """Field, number, value, bytes."""
        return len(_COLUMNS)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Column titles."""
        if orientation == Qt.Orientation.Horizontal and role == Qt.ItemDataRole.DisplayRole:
            return _COLUMNS[section]
        return None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        row = self.row_at(index)
        if role == Qt.ItemDataRole.UserRole:
            return row.path
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.AccessibleTextRole, Qt.ItemDataRole.EditRole):
            return self._text(row, index.column())
        if role == Qt.ItemDataRole.FontRole and index.column() in (1, 2, 3):
            return monospace()
        if role == Qt.ItemDataRole.ForegroundRole:
            muted = theme().muted if self._is_muted or index.column() in (1, 3) else None
            return theme().error if row.raw.problem else muted
        if role == Qt.ItemDataRole.ToolTipRole and index.column() == 2:
            return plain_tip(display(self._value(row), 500))
        return None

    def _text(self, row: RawRow, column: int) -> str:
        raw = row.raw
        if row.reading is not None:
            return (f"as {row.reading[0]}", "", display(row.reading[1]), "")[column]
        if row.stretch is not None:
            span = f"{raw.start:,}…{row.stretch.last.end:,}"
            return (row.stretch.name, str(raw.number), self._value(row), span)[column]
        if column == 0:
            repeated = raw.schema is not None and raw.schema.repeated
            return f"{raw.name}[{raw.index}]" if repeated else raw.name
        if column == 1:
            return str(raw.number) if raw.number else ""
        if column == 2:
            return display(self._value(row))
        return f"{raw.start:,}…{raw.end:,}"

    def _value(self, row: RawRow) -> str:
        if row.stretch is not None:
            return plural(row.stretch.count, "field")
        if row.text is None:
            row.text = self._safely(lambda: value_text(self._contents, row.raw), "the file changed on disk")
        return row.text or ""
