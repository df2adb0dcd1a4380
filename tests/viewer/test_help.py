"""F1 opens the manual's page about what has the focus; a report is a text that the user copies."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

import pytest
from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from onnx_workbench.viewer.actions import help as help_actions
from onnx_workbench.viewer.actions.shortcuts_dialog import ShortcutsDialog
from onnx_workbench.viewer.dialogs.report import ReportDialog
from onnx_workbench.viewer.program import crash_report, manual
from onnx_workbench.viewer.program.version import version


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that were handed to the desktop's browser."""
    files: list[str] = []

    class Desktop:
        @staticmethod
        def openUrl(url: QUrl) -> bool:
            files.append(url.toLocalFile())
            return True

    monkeypatch.setattr(help_actions, "QDesktopServices", Desktop)
    return files


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A manual with the pages of two panels."""
    for name in ("index", "panels/inspector", "panels/node-table", "panels/graph", "dialogs/report"):
        page = tmp_path / "manual" / f"{name}.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text("<h1>page</h1>")
    monkeypatch.setattr(manual, "FOLDERS", (tmp_path / "manual",))
    return tmp_path / "manual"


@pytest.fixture
def shown(window, write_model, qtbot):
    """A window with a model."""
    window.files.open([write_model()])
    qtbot.waitUntil(lambda: window.workspace is not None)
    return window


def open_from(widget, opened: list[str], qtbot) -> str:
    widget.window().activateWindow()
    widget.setFocus(Qt.FocusReason.OtherFocusReason)
    qtbot.waitUntil(widget.hasFocus)
    QTest.keyClick(widget, Qt.Key.Key_F1)
    return Path(opened[-1]).as_posix()


@pytest.mark.long
def test_f1_opens_the_page_of_the_panel_in_focus(shown, built: Path, opened: list[str], qtbot) -> None:
    inspector = shown.docks.open("inspector")
    assert open_from(inspector.entry, opened, qtbot) == (built / "panels/inspector.html").as_posix()
    table = shown.docks.open("node_table")
    assert open_from(table.entry, opened, qtbot) == (built / "panels/node-table.html").as_posix()
    assert open_from(shown.tab.canvas, opened, qtbot) == (built / "panels/graph.html").as_posix()


@pytest.mark.long
def test_f1_works_in_a_dialog(shown, built: Path, opened: list[str], qtbot) -> None:
    shown.actions_binding.run("help.report")
    dialog = next(one for one in QApplication.topLevelWidgets() if isinstance(one, ReportDialog))
    assert open_from(dialog.text, opened, qtbot) == (built / "dialogs/report.html").as_posix()
    dialog.close()


@pytest.mark.long
def test_a_panel_without_a_page_opens_the_first_page(shown, built: Path, opened: list[str], qtbot) -> None:
    (built / "panels/inspector.html").unlink()
    inspector = shown.docks.open("inspector")
    assert open_from(inspector.entry, opened, qtbot) == (built / "index.html").as_posix()


def test_without_a_manual_f1_lists_the_shortcuts(
    shown, tmp_path: Path, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manual, "FOLDERS", (tmp_path / "manual",))
    shown.actions_binding.run("help.manual")
    dialog = next(one for one in QApplication.topLevelWidgets() if isinstance(one, ShortcutsDialog))
    assert opened == []
    dialog.close()


def test_a_report_is_filled_in_and_copied(qtbot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crash_report, "_show", lambda _text: None)
    try:
        raise RuntimeError("a wheel came off")
    except RuntimeError:
        crash_report.handle(*sys.exc_info())
    dialog = ReportDialog()
    qtbot.addWidget(dialog)
    dialog.text.appendPlainText("and then it rained")
    dialog.copy.click()
    text = QGuiApplication.clipboard().text()
    for part in (version(), platform.platform(), "RuntimeError: a wheel came off", "and then it rained"):
        assert part in text
