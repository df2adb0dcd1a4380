"""The top of a pane, whose choices do not jump while texts about a run come and go."""

import pytest
from PySide6.QtWidgets import QLabel, QPushButton

from onnx_workbench.viewer.tensor_view.header import PaneHeader

WIDTH = 300


class Pane:
    """A header and the texts in it."""

    def __init__(self, qtbot):
        self.badge, self._name, self._choice = QLabel(), QLabel("Name"), QPushButton("Choose")
        self.header = PaneHeader([self._name, self.badge], [self._choice])
        qtbot.addWidget(self.header)
        self.header.resize(WIDTH, 80)
        self.header.show()

    def show_state(self, text, of="tensor", width=WIDTH):
        self.badge.setText(text)
        self.header.fit(of, width)

    @property
    def is_below(self):
        self.header.layout().activate()
        return self._choice.parentWidget().y() > self._name.geometry().bottom()


@pytest.fixture
def pane(qtbot):
    return Pane(qtbot)


def test_choices_go_below_what_leaves_them_no_room_and_stay_there(qtbot, pane):
    pane.show_state("")
    assert not pane.is_below
    for text in ("so far: the run goes on, out of date: edited since the run", ""):
        pane.show_state(text)
        qtbot.waitUntil(lambda: pane.is_below)


@pytest.mark.parametrize(("of", "width"), [("another", WIDTH), ("tensor", WIDTH + 1)])
def test_choices_of_the_header_survive_a_change_of_tensor(qtbot, pane, of, width):
    pane.show_state("so far: the run goes on, out of date: edited since the run")
    qtbot.waitUntil(lambda: pane.is_below)
    pane.show_state("", of, width)
    qtbot.waitUntil(lambda: not pane.is_below)
