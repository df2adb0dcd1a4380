"""The table of names and numbers: how its columns share the room."""

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QStyleOptionHeader, QStyleOptionViewItem

from onnx_workbench.viewer.tables.number_table import MadeRows, NumberCell, NumberColumn, NumberRow, NumberTable
from tests.viewer.background_work import wait_for_readers

COLUMNS = (
    NumberColumn("Value", 0, number=False),
    NumberColumn("Operator", 18, number=False),
    NumberColumn("Time", 11),
    NumberColumn("Of", 14),
)


@pytest.fixture
def table(qtbot):
    table = NumberTable("Numbers", COLUMNS)
    qtbot.addWidget(table)
    table.resize(900, 200)
    table.show()
    table.set_rows(
        [
            NumberRow(n, (NumberCell(f"v{n}"), NumberCell("Mul"), NumberCell(f"{n} ms", n), NumberCell("1 B", 1)))
            for n in range(30)
        ]
    )
    return table


def widths(table):
    return [table.columnWidth(column) for column in range(len(COLUMNS))]


def test_columns_fill_a_wide_table(table):
    assert sum(widths(table)) == table.viewport().width()
    assert widths(table)[1] > widths(table)[2]


def test_in_a_narrow_table_columns_are_as_wide_as_what_is_in_them(qtbot, table):
    wide = widths(table)
    table.resize(280, 200)
    qtbot.waitUntil(lambda: sum(widths(table)) == table.viewport().width())
    assert all(table.columnWidth(column) >= table.sizeHintForColumn(column) for column in range(len(COLUMNS)))
    table.resize(900, 200)
    qtbot.waitUntil(lambda: widths(table) == wide)


def test_rows_that_come_later_get_the_room_they_need(qtbot, table):
    table.resize(400, 200)
    table.set_rows(
        [NumberRow(0, (NumberCell("v"), NumberCell("LayerNormal"), NumberCell("12.5 ms"), NumberCell("1 B")))]
    )
    assert table.columnWidth(1) >= table.sizeHintForColumn(1)


def test_a_column_that_a_user_has_moved_stays(qtbot, table):
    table.horizontalHeader().resizeSection(1, 50)
    table.resize(330, 200)
    table.set_rows([NumberRow(0, (NumberCell("v"), NumberCell("Mul"), NumberCell("1 ms"), NumberCell("1 B")))])
    assert table.columnWidth(1) == 50


@pytest.mark.parametrize("count", [0, 4000])
def test_numbers_sort_first_and_equal_rows_stay_in_order(qtbot, count):
    table = NumberTable("Numbers", COLUMNS)
    qtbot.addWidget(table)
    given = [3.0, None, 1.0, float("nan"), 2.0, 1.0, *[7.0] * count]  # very many are sorted in parts
    cells = [NumberCell("", x) if x is not None else NumberCell("none") for x in given]
    table.set_rows(
        [NumberRow(n, (NumberCell(f"v{n}"), NumberCell(""), cell, NumberCell(""))) for n, cell in enumerate(cells)]
    )
    qtbot.waitUntil(lambda: table.targets() == list(range(len(given))))
    sevens = list(range(6, 6 + count))
    table.sort_by(2)
    qtbot.waitUntil(lambda: table.targets() == [*sevens, 0, 4, 2, 5, 3, 1])
    table.sort_by(2, descending=False)
    qtbot.waitUntil(lambda: table.targets() == [2, 5, 4, 0, *sevens, 3, 1])


def test_the_first_click_on_an_amount_sorts_largest_first(qtbot):
    table = NumberTable("Numbers", (NumberColumn("#", 4), NumberColumn("Error", 8, amount=True)))
    qtbot.addWidget(table)
    table.show()
    table.set_rows([NumberRow(n, (NumberCell(f"{n}", n), NumberCell(f"{n}", n))) for n in range(5)])
    header = table.horizontalHeader()
    for section, expected in ((1, [4, 3, 2, 1, 0]), (1, [0, 1, 2, 3, 4]), (0, [0, 1, 2, 3, 4])):
        place = QPoint(header.sectionViewportPosition(section) + 10, header.height() // 2)
        qtbot.mouseClick(header.viewport(), Qt.MouseButton.LeftButton, pos=place)
        qtbot.waitUntil(lambda expected=expected: table.targets() == expected)


def test_what_is_selected_stays_so_in_another_order(qtbot, table):
    table.selectRow(3)
    table.sort_by(2)
    qtbot.waitUntil(lambda: table.targets()[0] == 29)
    assert table.selected() == [3]


def test_rows_are_made_when_they_are_seen(qtbot, table):
    made = []

    def make(number):
        made.append(number)
        return NumberRow(
            number, (NumberCell(f"v{number}"), NumberCell(""), NumberCell(f"{number} ms", number), NumberCell(""))
        )

    table.sort_by(2)
    table.set_rows(MadeRows(range(5000), make, {2: float}, int))
    qtbot.waitUntil(lambda: table.source.rowCount() == 5000 and table.source.row(0).target == 4999)
    table.repaint()
    assert 0 < len(made) < 100


def test_the_arrow_of_the_order_stands_beside_the_heading_of_numbers(qtbot):
    table = NumberTable("Errors", (NumberColumn("Value", number=False), NumberColumn("Error", 10)))
    qtbot.addWidget(table)
    table.resize(300, 200)
    table.show()
    table.set_rows([NumberRow(0, (NumberCell("x"), NumberCell("1", 1.0)))])
    header = table.horizontalHeader()
    pictures = []
    for descending in (False, True):
        table.sort_by(1, descending=descending)
        pictures.append(header.grab().toImage())
    left, right = header.sectionViewportPosition(1) + 2, header.width() - 2
    rows = range(3, header.height() - 3)

    def columns(is_there):
        return {x for x in range(left, right) for y in rows if is_there(*[one.pixelColor(x, y) for one in pictures])}

    arrow = columns(lambda up, down: up != down)
    text = columns(lambda up, down: up == down and up.lightness() < 128)
    assert arrow
    assert text
    assert min(arrow) - max(text - arrow) > 1, "they do not touch"


def test_words_after_numbers_stand_off_from_them(qtbot):
    table = NumberTable(
        "Both",
        [NumberColumn("Name", 9, number=False), NumberColumn("Count", 7), NumberColumn("Look at", 0, number=False)],
    )
    qtbot.addWidget(table)
    table.set_rows([NumberRow(None, (NumberCell("a"), NumberCell("1", 1), NumberCell("b")))])
    wait_for_readers(qtbot)
    drawn = []
    for column in range(3):
        option = QStyleOptionViewItem()
        table.itemDelegate().initStyleOption(option, table.source.index(0, column))
        heading = QStyleOptionHeader()
        table.horizontalHeader().initStyleOptionForIndex(heading, column)
        drawn.append((option.text, heading.text))
    assert [text.strip() for text, _ in drawn] == ["a", "1", "b"]
    assert [text != text.lstrip() for both in drawn for text in both] == [False] * 4 + [True] * 2
    assert table.source.index(0, 2).data() == "b", "what is copied is as it was"


def test_what_is_selected_stays_so_when_rows_are_shown_anew(qtbot, table):
    things = [object() for _ in range(30)]

    def rows(times):
        return [
            NumberRow(one, (NumberCell(f"v{n}"), NumberCell("Mul"), NumberCell("", times[n]), NumberCell("")))
            for n, one in enumerate(things)
            if one
        ]

    table.sort_by(2)
    table.set_rows(rows(list(range(30))))
    wait_for_readers(qtbot)
    report = []
    table.selectionModel().currentRowChanged.connect(lambda *_: report.append(1))
    table.setCurrentIndex(table.source.index(4, 1))
    assert table.selected() == [things[25]]
    report.clear()
    scrolled = table.verticalScrollBar()
    scrolled.setValue(10)
    table.set_rows(rows([-n for n in range(30)]))
    wait_for_readers(qtbot)
    assert table.selected() == [things[25]]
    assert (table.currentIndex().row(), table.currentIndex().column()) == (25, 1)
    assert scrolled.value() == 10
    assert not report, "nobody chose it anew"
    things[25] = None
    table.set_rows(rows([0] * 30))
    wait_for_readers(qtbot)
    assert table.selected() == []
    assert not table.currentIndex().isValid()


def test_rows_made_when_seen_keep_the_selection_exact(qtbot, table):
    made = []

    def make(thing):
        made.append(thing)
        return NumberRow(thing, (NumberCell("v"), NumberCell("Mul"), NumberCell("", 1.0), NumberCell("")))

    things = [str(n) for n in range(1000)]
    table.set_rows(MadeRows(things, make, {}, str))
    wait_for_readers(qtbot)
    table.selectRow(3)
    table.set_rows(MadeRows(things[::-1], make, {}, str))
    wait_for_readers(qtbot)
    assert table.selected() == ["3"]
    assert len(set(made)) < 100, "those that are not seen need no cells"
