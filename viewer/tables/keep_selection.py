"""Selection of a table, kept across model resets, as after each run in Live."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QItemSelection, QItemSelectionModel, QObject, QSignalBlocker
from PySide6.QtWidgets import QTableView


class KeptSelection(QObject):
    """Reselects the rows of the same objects after a model reset; `about` returns the object of a row.

    Emits no signal and does not scroll, since the user did not choose the rows.
    """

    def __init__(self, table: QTableView, about: Callable[[int], object]) -> None:
        super().__init__(table)
        self._table = table
        self._about = about
        self._selected: list[object] = []
        self._current: tuple[object, int] | None = None  # and the column
        model = table.model()
        model.modelAboutToBeReset.connect(self._remember)
        model.modelReset.connect(self._restore)  # after the table itself, which forgets

    def _remember(self) -> None:
        chosen, current = self._table.selectionModel(), self._table.currentIndex()
        self._selected = [self._about(index.row()) for index in chosen.selectedRows()]
        self._current = (self._about(current.row()), current.column()) if current.isValid() else None

    def _restore(self) -> None:
        chosen, model = self._table.selectionModel(), self._table.model()
        wanted = {_key(thing) for thing in self._selected}
        if self._current is not None:
            wanted.add(_key(self._current[0]))
        rows: dict[object, int] = {}
        for row in range(model.rowCount()):
            if len(rows) == len(wanted):
                break
            key = _key(self._about(row))
            if key in wanted:
                rows[key] = row
        found, flag = QItemSelection(), QItemSelectionModel.SelectionFlag
        for row in (rows[key] for key in map(_key, self._selected) if key in rows):
            found.select(model.index(row, 0), model.index(row, 0))
        with QSignalBlocker(chosen):
            if self._current is not None and _key(self._current[0]) in rows:
                index = model.index(rows[_key(self._current[0])], self._current[1])
                chosen.setCurrentIndex(index, flag.NoUpdate)
            chosen.select(found, flag.Select | flag.Rows)


def _key(thing: object) -> object:
    """Return the key of an object: its identity, not equality; names by their text."""
    return thing if isinstance(thing, str) else id(thing)
