"""The tour: offered once with the sample, seven steps, closed at any time."""

import pytest
from PySide6.QtCore import QRect, Qt

from onnx_workbench.viewer.dialogs.tour import Tour
from onnx_workbench.viewer.program.settings import TOUR_OFFERED

pytestmark = pytest.mark.long


@pytest.fixture
def sample(window, qtbot):
    window.files.open_sample()
    qtbot.waitUntil(lambda: window.area.tab is not None)
    return window.area.tab


def messages(tab):
    return [message.title for message in tab.message_bar.messages]


def test_it_is_offered_with_the_sample_once(window, qtbot, sample):
    (offer,) = [message for message in sample.message_bar.messages if message.choices]
    assert offer.title.startswith("New here?")
    assert window.settings.get(TOUR_OFFERED)
    offer.choices[0][1]()
    assert window.findChild(Tour).isVisible()
    window.files.open_sample()
    qtbot.waitUntil(lambda: window.area.tab is not sample)
    assert messages(window.area.tab) == []


def test_seven_steps_each_within_the_window_and_then_it_is_gone(window, qtbot, sample):
    window.actions_binding.run("help.tour")
    tour = window.findChild(Tour)
    titles = []
    for number in range(1, 8):
        titles.append(tour.title.text())
        assert tour.count.text() == f"{number} of 7"
        assert window.rect().contains(tour.geometry())
        assert tour.heightForWidth(tour.width()) <= tour.height(), "no text is cut off"
        if number == 3:
            tour.back.click()
            assert tour.title.text() == titles[1]
            tour.next.click()
        tour.next.click()
    assert len(set(titles)) == 7
    qtbot.waitUntil(lambda: window.findChild(Tour) is None)


def test_escape_closes_it_and_a_resized_window_moves_it(window, qtbot, sample):
    window.actions_binding.run("help.tour")
    tour = window.findChild(Tour)
    window.resize(700, 500)
    qtbot.waitUntil(lambda: QRect(window.rect()).contains(tour.geometry()))
    qtbot.keyClick(tour.next, Qt.Key.Key_Escape)
    qtbot.waitUntil(lambda: window.findChild(Tour) is None)


def test_without_a_document_it_opens_the_sample(window, qtbot):
    window.actions_binding.run("help.tour")
    qtbot.waitUntil(lambda: window.findChild(Tour) is not None)
    assert window.area.tab is not None
