"""Rows as a Qt model: whatever they change to, the model says so in Qt's own order of calls."""

from hypothesis import given, settings
from hypothesis import strategies as st
from PySide6.QtCore import QEvent, QModelIndex, QPersistentModelIndex
from PySide6.QtGui import QHelpEvent
from PySide6.QtTest import QAbstractItemModelTester
from PySide6.QtWidgets import QApplication, QCompleter, QToolTip, QWidget

from onnx_workbench.model.history.document import Document
from onnx_workbench.model.ir.graph import Graph, Model
from onnx_workbench.viewer.property_tree.editors import LineField, make_editor
from onnx_workbench.viewer.property_tree.model import PropertyModel
from onnx_workbench.viewer.property_tree.rows import LazyRows, PropertyField, PropertyRow, Suggestion
from onnx_workbench.viewer.property_tree.tree import PropertyTree
from tests.examples import examples

keys = st.lists(st.sampled_from("abcdef"), unique=True, max_size=6)
trees = st.lists(st.tuples(st.sampled_from("abcdef"), st.one_of(st.none(), keys, st.integers(0, 5))), max_size=6)


def lazy(number):
    return PropertyRow(
        str(number), f"number {number}", children=[PropertyRow("under", "under")] if number % 3 == 1 else None
    )


def rows(tree):
    """A list of rows; children are none, rows of these keys, or so many lazy ones."""
    found = {}
    for key, inner in tree:
        children = None
        if isinstance(inner, int):
            children = LazyRows(inner, lazy, opens=lambda i: i % 3 == 1)
        elif inner is not None:
            children = [PropertyRow(k, k) for k in inner]
        found[key] = PropertyRow(key, key, children=children)
    return list(found.values())


def shown(model, parent=None):
    parent = parent or QModelIndex()
    found = []
    for number in range(model.rowCount(parent)):
        index = model.index(number, 0, parent)
        found.append((model.row(index).key, shown(model, index)))
    return found


def expected(some):
    return [(row.key, expected(row.rows())) for row in some]


@given(st.lists(trees, min_size=1, max_size=5))
@settings(max_examples=examples(60), deadline=None)
def test_any_rows_follow_any_others(qapp, versions):
    model = PropertyModel()
    QAbstractItemModelTester(model, QAbstractItemModelTester.FailureReportingMode.Warning)
    for tree in versions:
        model.set_rows(rows(tree))
        assert shown(model) == expected(rows(tree))


@given(keys, keys)
@settings(deadline=None)
def test_rows_that_stay_are_the_same_rows_to_the_view(qapp, before, after):
    model = PropertyModel()
    model.set_rows([PropertyRow(k, k) for k in before])
    indexes = {k: QPersistentModelIndex(model.find(k)) for k in before}
    model.set_rows([PropertyRow(k, f"new {k}") for k in after])
    for key, index in indexes.items():
        assert index.isValid() == (key in after)
        if index.isValid():
            assert model.row(index).label == f"new {key}"


def test_a_row_that_was_there_opens_when_it_should(qtbot):
    tree = PropertyTree(Document(Model(Graph("g"))))
    qtbot.addWidget(tree)

    def show(*, expanded, inner=None):
        child = PropertyRow("child", "child", expanded=True, children=inner)
        tree.set_rows([PropertyRow("section", "section", style="section", expanded=expanded, children=[child])])
        section = tree.rows.index(0, 0)
        return tree.isExpanded(section), tree.isExpanded(tree.rows.index(0, 0, section))

    assert show(expanded=False) == (False, False)
    assert show(expanded=True) == (True, False)
    assert show(expanded=True, inner=[PropertyRow("x", "x")]) == (True, True)
    tree.collapse(tree.rows.index(0, 0))
    assert show(expanded=True, inner=[PropertyRow("y", "y")])[0] is False


def test_many_rows_are_made_only_when_looked_at(qapp):
    made = []
    model = PropertyModel()
    model.set_rows(
        [
            PropertyRow(
                "list", "list", children=LazyRows(50_000, lambda i: made.append(i) or PropertyRow(str(i), str(i)))
            )
        ]
    )
    parent = model.index(0, 0)
    assert model.rowCount(parent) == 50_000
    model.flags(model.index(49_999, 0, parent))
    assert not model.hasChildren(model.index(3, 0, parent))
    assert made == []
    assert model.index(7, 0, parent).data() == "7"
    assert made == [7]


def test_rows_under_one_of_many_follow_it(qapp):
    def many(count, note):
        return [PropertyRow("list", "list", children=LazyRows(count, lambda i: inner(i, note), opens=lambda i: i != 2))]

    def inner(number, note):
        return PropertyRow(str(number), str(number), children=[PropertyRow("type", note)] if number != 2 else None)

    model = PropertyModel()
    model.set_rows(many(1000, "before"))
    parent = model.index(0, 0)
    third, fourth = model.index(2, 0, parent), model.index(3, 0, parent)
    assert not model.hasChildren(third)
    assert model.hasChildren(fourth)
    under = QPersistentModelIndex(model.index(0, 0, fourth))
    model.set_rows(many(999, "after"))
    assert under.data() == "after"
    model.set_rows(many(3, ""))
    assert not under.isValid()


@given(st.text(alphabet="a\\x8é\udc80\udcff", max_size=8))
def test_a_field_keeps_every_character(qapp, text):
    for lines in (False, True):
        editor = make_editor(PropertyField("", str, lambda *_: None, lines=lines), None)
        editor.set_text(text)
        assert editor.text_now() == text


def test_the_shortest_text_is_seen_beside_a_long_note(qtbot):
    tree = PropertyTree(Document(Model(Graph("g"))))
    qtbot.addWidget(tree)
    tree.resize(300, 60)
    tree.show()
    seen = []
    for text in ("", "x"):
        tree.rows.set_rows([PropertyRow("X", "X", text=text, note="float DynamicDimension.0×3×DynamicDimension.1")])
        seen.append(tree.grab().toImage())
    assert seen[0] != seen[1]


def test_the_list_of_suggestions_is_as_wide_as_its_notes_need(qtbot):
    reason = "float 3×4 – Relu takes whole numbers only"
    field = PropertyField(
        "Set", str, lambda _edit, _text: None, choices=lambda: (Suggestion("w", reason), Suggestion("v", "int64"))
    )
    frame = QWidget()
    qtbot.addWidget(frame)
    frame.resize(100, 40)
    line = LineField(field, frame)
    line.setFixedWidth(90)
    with qtbot.waitExposed(frame):
        frame.show()
    line.setFocus()
    line.drop_down()
    popup = line.findChild(QCompleter).popup()
    qtbot.waitUntil(popup.isVisible)
    assert popup.viewport().width() > popup.fontMetrics().horizontalAdvance(f"w{reason}")
    assert popup.frameGeometry().right() <= popup.screen().availableGeometry().right()
    popup.hide()


def test_a_text_that_is_cut_is_whole_in_the_tip(qtbot):
    tree = PropertyTree(Document(Model(Graph("g"))))
    qtbot.addWidget(tree)
    long = "float[batch,sequence_length,heads,head_size," + ",".join(map(str, range(80))) + "]"
    tree.set_rows(
        [
            PropertyRow("short", "short", "float"),
            PropertyRow("long", "long", long, tip="declared"),
            PropertyRow("x" * 300, "x" * 300),
        ]
    )
    tree.resize(300, 200)
    tree.show()

    def tip(row, column):
        index = tree.model().index(row, column)
        place = tree.visualRect(index).center()
        event = QHelpEvent(QEvent.Type.ToolTip, place, tree.viewport().mapToGlobal(place))
        QToolTip.hideText()
        QApplication.sendEvent(tree.viewport(), event)
        return "".join(QToolTip.text().split())

    assert tip(0, 1) == ""
    assert tip(1, 1) == "".join(long.split()) + "declared"
    assert tip(2, 0) == "x" * 300
    tree.hide()
