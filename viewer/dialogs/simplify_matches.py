"""Tree of simplifier passes and their matches, with check boxes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHeaderView, QTreeWidget, QTreeWidgetItem, QWidget

from onnx_workbench.model.ir.graph import Node, Value
from onnx_workbench.model.simplify.passes import Match, Pass
from onnx_workbench.model.text.formatting import display, number_text
from onnx_workbench.viewer.style.tooltips import plain_tip
from onnx_workbench.viewer.widgets.whole_text import WholeTextDelegate

_MOST_SHOWN = 200  # matches listed per pass
_ItemRole = Qt.ItemDataRole.UserRole
_Checked, _Unchecked = Qt.CheckState.Checked, Qt.CheckState.Unchecked
_Partly = Qt.CheckState.PartiallyChecked

Things = frozenset[Node | Value]


@dataclass(frozen=True, slots=True)
class _Line:
    """A line below a pass: one match, or all unlisted ones."""

    copies: tuple[Things, ...]  # objects of the searched copy
    shown: tuple[Node | Value, ...]  # objects of the model, in the order of the match


@dataclass(frozen=True, slots=True)
class MatchChoice:
    """Passes to run, by id; and for partially chosen ones the objects of the chosen matches."""

    passes: tuple[str, ...] = ()
    only: Mapping[str, tuple[Things, ...]] = field(default_factory=dict)


def make_tree(tree: QTreeWidget, name: str, columns: Sequence[str]) -> None:
    """Create a tree of two or more columns: the first stretches, the others hold numbers."""
    tree.setAccessibleName(name)
    tree.setHeaderLabels(list(columns))
    tree.setUniformRowHeights(True)
    tree.header().setStretchLastSection(False)
    tree.header().setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
    for column in range(1, len(columns)):
        tree.header().setSectionResizeMode(column, QHeaderView.ResizeMode.ResizeToContents)
        tree.headerItem().setTextAlignment(column, Qt.AlignmentFlag.AlignRight)


class MatchTree(QTreeWidget):
    """One line per pass with its matches below; unchecked ones are left out."""

    shown = Signal(object)  # tuple of Node and Value: the objects of the current line
    choice_changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setItemDelegate(WholeTextDelegate(self))
        make_tree(self, "Passes and their matches", ("Pass", "Matches"))
        self.currentItemChanged.connect(self._show)
        self.itemChanged.connect(self._on_item)

    def fill(
        self, passes: Sequence[Pass], found: Mapping[str, Sequence[Match]], original: Callable[[Any], Any]
    ) -> None:
        """List matches, keeping the check state of the same passes and objects; `original` maps objects of the copy
        back.
        """
        before = {item.data(0, _ItemRole): item.checkState(0) for item in self._passes()}
        left_out = {
            (item.data(0, _ItemRole), line.shown)
            for item in self._passes()
            for child, line in _lines(item)
            if child.checkState(0) == _Unchecked
        }
        self.blockSignals(True)
        self.clear()
        for one in sorted(passes, key=lambda p: not found.get(p.id)):
            state = before.get(one.id, _Checked if one.is_default else _Unchecked)
            item = self._pass(one, state)
            for line, text in _described(found.get(one.id, ()), original):
                is_out = (one.id, line.shown) in left_out if state == _Partly else state == _Unchecked
                item.addChild(_child(line, text, _Unchecked if is_out else _Checked))
            _count(item)
            item.setExpanded(len(passes) == 1)
        self.blockSignals(False)
        self.shown.emit(())
        self.choice_changed.emit()

    def _pass(self, one: Pass, state: Qt.CheckState) -> QTreeWidgetItem:
        item = QTreeWidgetItem([one.title])
        item.setTextAlignment(1, Qt.AlignmentFlag.AlignRight)
        item.setToolTip(0, f"{one.doc}\n{one.id}")
        item.setData(0, _ItemRole, one.id)
        item.setFlags(item.flags() | Qt.ItemFlag.ItemIsUserCheckable | Qt.ItemFlag.ItemIsAutoTristate)
        item.setCheckState(0, _Checked if state == _Partly else state)
        self.addTopLevelItem(item)
        return item

    def choice(self) -> MatchChoice:
        """Return the checked matches."""
        passes, only = [], {}
        for item in self._passes():
            identifier, state = item.data(0, _ItemRole), item.checkState(0)
            if state != _Unchecked:
                passes.append(identifier)
            if state == _Partly:
                checked = [line.copies for child, line in _lines(item) if child.checkState(0) == _Checked]
                only[identifier] = tuple(things for copies in checked for things in copies)
        return MatchChoice(tuple(passes), only)

    def _passes(self) -> Iterator[QTreeWidgetItem]:
        for row in range(self.topLevelItemCount()):
            item = self.topLevelItem(row)
            if item is not None:
                yield item

    def _show(self, item: QTreeWidgetItem | None, *_: object) -> None:
        line = None if item is None else item.data(0, _ItemRole)
        self.shown.emit(line.shown if isinstance(line, _Line) else ())

    def _on_item(self, item: QTreeWidgetItem, column: int) -> None:
        if column == 0:
            self.blockSignals(True)
            _count(item.parent() or item)
            self.blockSignals(False)
            self.choice_changed.emit()


def _described(matches: Sequence[Match], original: Callable[[Any], Any]) -> Iterator[tuple[_Line, str]]:
    for match in matches[:_MOST_SHOWN]:
        shown = tuple(original(thing) for thing in (match.nodes or match.values))
        yield _Line((match.things,), shown), match.description
    rest = matches[_MOST_SHOWN:]
    if rest:
        yield _Line(tuple(match.things for match in rest), ()), f"… and {number_text(len(rest))} more"


def _child(line: _Line, text: str, state: Qt.CheckState) -> QTreeWidgetItem:
    child = QTreeWidgetItem([display(text, 160)])
    child.setToolTip(0, plain_tip(display(text, 1000)))
    child.setData(0, _ItemRole, line)
    child.setFlags(child.flags() | Qt.ItemFlag.ItemIsUserCheckable)
    child.setCheckState(0, state)
    return child


def _lines(item: QTreeWidgetItem) -> Iterator[tuple[QTreeWidgetItem, _Line]]:
    for row in range(item.childCount()):
        child = item.child(row)
        if child is not None:
            yield child, child.data(0, _ItemRole)


def _count(item: QTreeWidgetItem) -> None:
    """Show how many matches a pass has, and how many of them are checked if only some."""
    total = sum(len(line.copies) for _, line in _lines(item))
    if item.checkState(0) == _Partly:
        chosen = sum(len(line.copies) for child, line in _lines(item) if child.checkState(0) == _Checked)
        item.setText(1, f"{number_text(chosen)} of {number_text(total)}")
    else:
        item.setText(1, number_text(total) if total else "")
