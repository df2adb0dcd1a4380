"""What a tree shows follows what it is given; rows with the same key stay the same rows."""

from hypothesis import given, settings
from hypothesis import strategies as st
from PySide6.QtCore import QModelIndex, QPersistentModelIndex
from PySide6.QtTest import QAbstractItemModelTester

from onnx_workbench.viewer.tables.tree_model import KeyedTreeModel, TreeRow
from tests.examples import examples


class Letter(TreeRow):
    def __init__(self, parent, place, key):
        super().__init__(parent, place)
        self.key = key


class Letters(KeyedTreeModel):
    def __init__(self, letters):
        super().__init__()
        self.root = Letter(None, 0, "")
        self.root.children = self.rows(letters)

    def rows(self, letters):
        return [Letter(self.root, place, key) for place, key in enumerate(letters)]

    def children_of(self, row):
        row.children = row.children or []
        return row.children

    def keys_of(self, rows):
        return [row.key for row in rows]

    def columnCount(self, _parent=QModelIndex()):
        return 1

    def data(self, _index, _role=0):
        return None


LETTERS = st.lists(st.sampled_from("abcdefgh"), unique=True)


@given(before=LETTERS, after=LETTERS)
@settings(max_examples=examples(100), deadline=None)
def test_a_row_stays_and_moves_to_its_place(qapp, before, after):
    model = Letters(before)
    QAbstractItemModelTester(model, QAbstractItemModelTester.FailureReportingMode.Fatal, model)
    rows = {row.key: (row, QPersistentModelIndex(model.index_of_row(row))) for row in model.root.children}
    kept = model.show_branch(model.root, model.rows(after))
    assert [row.key for row in model.root.children] == after
    assert [child.key for child, _ in kept] == [key for key in after if key in before]
    for key, (row, index) in rows.items():
        assert index.isValid() == (key in after)
        if key in after:
            assert model.row_at(index) is row
            assert model.root.children[index.row()] is row
