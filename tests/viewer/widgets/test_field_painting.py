"""A tree of rows paints again what looks different, and that alone."""

import pytest
from PySide6.QtCore import QRect
from PySide6.QtGui import QRegion

from onnx_workbench.model.history.document import Document
from onnx_workbench.model.ir.graph import Graph, Model
from onnx_workbench.viewer.property_tree.rows import LazyRows, PropertyField, PropertyRow, RowAction
from onnx_workbench.viewer.property_tree.tree import PropertyTree

FIELD = PropertyField("Set", str, print)
LONG = "too long to be shown whole in so narrow a list as this one is"
LOOKS = {
    "plain": {},
    "label": {"label": "another"},
    "text": {"text": "2"},
    "note": {"note": "default"},
    "error": {"style": "error"},
    "mono": {"mono": True},
    "long": {"text": LONG},
    "name": {"text": LONG, "middle": True},
    "empty field": {"text": "", "field": FIELD},
    "button": {"actions": (RowAction("Go", print, icon="forward", id="go"),)},
    "disabled": {"actions": (RowAction("Go", print, icon="forward", id="go", enabled=False),)},
    "histogram": {"bars": (1, 5, 3)},
    "part": {"bars": (1, 5, 3), "part": (0, 2)},
    "children": {"children": [PropertyRow("inner", "inner")]},
}


class Watched(PropertyTree):
    """Counts the rows that are painted."""

    painted = 0
    region = QRegion()

    def paintEvent(self, event):
        self.region = self.region.united(event.region())
        super().paintEvent(event)

    def drawRow(self, *arguments):
        self.painted += 1
        super().drawRow(*arguments)


@pytest.fixture
def tree(qtbot):
    tree = Watched(Document(Model(Graph("main"))))
    qtbot.addWidget(tree)
    tree.resize(300, 300)
    tree.show()
    qtbot.waitUntil(tree.isVisible)
    return tree


def some(**looks):
    return [PropertyRow(key, key, "1") for key in "abc"] + [
        PropertyRow("row", **{"label": "row", "text": "1", **looks})
    ]


def painted(qapp, tree):
    qapp.processEvents()
    return tree.grab().toImage()


@pytest.mark.long
@pytest.mark.parametrize("before", ["plain", "long", "button", "histogram"])
@pytest.mark.parametrize("after", LOOKS)
def test_what_looks_different_is_painted_again(qapp, tree, before, after):
    said = []
    tree.set_rows(some(**LOOKS[before]))
    qapp.processEvents()
    tree.rows.dataChanged.connect(lambda first, last, _: said.append(tree.rows.row(first).key))
    picture = painted(qapp, tree)
    tree.set_rows(some(**LOOKS[after]))
    assert painted(qapp, tree) == picture or "row" in said
    assert set(said) <= {"row"}


def test_only_the_row_that_changed_is_painted(qapp, tree):
    tree.set_rows(some())
    qapp.processEvents()
    tree.painted = 0
    tree.set_rows(some(text="2"))
    qapp.processEvents()
    assert tree.painted == 1


def test_of_many_rows_all_in_view_are_painted(qapp, tree):
    tree.set_rows(
        [PropertyRow("list", "list", expanded=True, children=LazyRows(5000, lambda i: PropertyRow(str(i), "a")))]
    )
    qapp.processEvents()
    tree.painted = 0
    tree.set_rows(
        [PropertyRow("list", "list", expanded=True, children=LazyRows(5000, lambda i: PropertyRow(str(i), "b")))]
    )
    qapp.processEvents()
    assert 5 < tree.painted < 100


@pytest.mark.parametrize("column", [0, 1])
def test_the_old_and_the_new_current_row_are_painted_whole(qapp, tree, column):
    tree.set_rows(some())
    tree.setCurrentIndex(tree.rows.index(0, 1))
    qapp.processEvents()
    tree.region = QRegion()
    tree.setCurrentIndex(tree.rows.index(2, column))
    qapp.processEvents()
    for position in (0, 2):
        cell = tree.visualRect(tree.rows.index(position, 0))
        row = QRect(0, cell.top(), tree.viewport().width(), cell.height())
        assert QRegion(row).subtracted(tree.region).isEmpty()
