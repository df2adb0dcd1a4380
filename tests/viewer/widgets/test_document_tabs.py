"""The tabs of open documents: titles can be distinguished however many there are."""

from PySide6.QtWidgets import QWidget

from onnx_workbench.viewer.widgets.document_tabs import DocumentTabs


def test_titles_stay_legible_when_there_are_very_many(qtbot):
    tabs = DocumentTabs()
    qtbot.addWidget(tabs)
    tabs.resize(500, 200)
    bar = tabs.tabBar()
    for number in range(20):
        tabs.addTab(QWidget(), f"a_model_with_a_long_name_{number}.onnx")
    tabs.addTab(QWidget(), "one")
    with qtbot.waitExposed(tabs):
        tabs.show()
    letters = bar.fontMetrics().horizontalAdvance("a_mode…9.onnx")
    assert all(bar.tabRect(index).width() >= letters for index in range(20))
    assert bar.tabRect(20).width() < letters, "a short one needs no more than its title"
    assert bar.tabRect(0).width() < bar.fontMetrics().horizontalAdvance(tabs.tabText(0)), "long ones give way"


def test_titles_are_whole_where_there_is_room(qtbot):
    tabs = DocumentTabs()
    qtbot.addWidget(tabs)
    tabs.resize(900, 200)
    for name in ("a_model_with_a_long_name_1.onnx", "another.onnx"):
        tabs.addTab(QWidget(), name)
    with qtbot.waitExposed(tabs):
        tabs.show()
    bar = tabs.tabBar()
    assert all(bar.tabRect(i).width() > bar.fontMetrics().horizontalAdvance(bar.tabText(i)) for i in range(2))
