"""What closing a document frees, whatever was used before."""

from __future__ import annotations

import gc
import weakref

import pytest
from PySide6.QtWidgets import QTabBar
from shiboken6 import isValid

from onnx_workbench.viewer.files.save import SaveOptions


def use(desk, action):
    desk.run(action)
    if action == "help.palette":
        desk.window.palette_popup.close()


@pytest.mark.long
@pytest.mark.parametrize("action", ["edit.replace", "help.palette"])
def test_closing_lets_go_of_the_document_after(desk, action):
    tab = desk.window.tab
    use(desk, action)
    desk.settle()
    references = [weakref.ref(one) for one in (tab.workspace, tab.workspace.document)]
    desk.window.area.remove_tab(tab)
    del tab

    def is_gone():
        gc.collect()
        return not any(one() for one in references)

    desk.qtbot.waitUntil(is_gone)


@pytest.mark.long
def test_tabs_of_docks_that_qt_deleted_are_not_kept(desk):
    for _ in range(2):
        desk.window.area.remove_tab(desk.window.tab)
        desk.open()
    gc.collect()
    assert not [one for one in gc.get_objects() if type(one) is QTabBar and not isValid(one)]


def test_a_save_does_not_keep_a_document_that_is_closed_meanwhile(desk, tmp_path):
    tab, saver = desk.window.tab, desk.window.files.saver
    saver.save_with(tab, SaveOptions(tmp_path / "saved.onnx"))
    assert saver.save_of(tab) is not None
    desk.window.area.remove_tab(tab)
    assert saver.save_of(tab) is None
