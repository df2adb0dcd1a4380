"""Popups of a document that goes while they are open, as when its file is read again."""

from __future__ import annotations

from PySide6.QtWidgets import QApplication

from onnx_workbench.viewer.popups.operator_palette import OperatorPalette
from tests.viewer.opening import opened


def test_a_popup_goes_with_the_document_it_is_for(window, qtbot, write_model):
    tab = opened(window, qtbot, write_model())
    window.actions_binding.run("node.add")
    qtbot.waitUntil(lambda: isinstance(QApplication.activePopupWidget(), OperatorPalette))
    window.files.forget(tab)
    assert QApplication.activePopupWidget() is None
