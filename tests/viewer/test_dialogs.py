import sys
import threading

import pytest
from PySide6.QtWidgets import QApplication, QCheckBox, QComboBox, QMessageBox

from onnx_workbench.exec.kernels.shared.byte_products import numkong
from onnx_workbench.viewer.actions.shortcuts_dialog import ShortcutsDialog
from onnx_workbench.viewer.dialogs.about import AboutDialog
from onnx_workbench.viewer.dialogs.crash import CrashDialog
from onnx_workbench.viewer.dialogs.preferences import PreferencesDialog
from onnx_workbench.viewer.popups.file_dialogs import ask_another, ask_open, ask_save
from onnx_workbench.viewer.popups.questions import ask_to_save
from onnx_workbench.viewer.program import crash_report
from onnx_workbench.viewer.program.settings import LAST_FOLDER, PREFERENCES, SHOW_NAMES, THEME
from onnx_workbench.viewer.program.version import version, versions
from onnx_workbench.viewer.tasks.tasks import TaskRunner


def close(dialog):
    dialog.close()
    QApplication.processEvents()


# -- preferences -----------------------------------------------------------------------------------------------


def test_preferences_show_every_option_and_take_effect_at_once(qtbot, settings):
    dialog = PreferencesDialog(settings)
    dialog.show()
    assert set(dialog.editors) == {option.key for option in PREFERENCES}
    names = dialog.editors[SHOW_NAMES.key]
    assert isinstance(names, QCheckBox)
    names.click()
    assert settings.get(SHOW_NAMES) is True
    choice = dialog.editors[THEME.key]
    assert isinstance(choice, QComboBox)
    choice.setCurrentIndex(choice.findData("dark"))
    choice.activated.emit(choice.currentIndex())
    assert settings.get(THEME) == "dark"
    close(dialog)


def test_preferences_follow_changes_made_elsewhere(qtbot, settings):
    dialog = PreferencesDialog(settings)
    settings.set(SHOW_NAMES, True)
    settings.set(THEME, "light")
    assert dialog.editors[SHOW_NAMES.key].isChecked()
    assert dialog.editors[THEME.key].currentData() == "light"
    close(dialog)


# -- shortcuts, about ------------------------------------------------------------------------------------------


def visible_rows(dialog):
    groups = [dialog.tree.topLevelItem(row) for row in range(dialog.tree.topLevelItemCount())]
    return [
        group.child(index).text(0)
        for group in groups
        if not group.isHidden()
        for index in range(group.childCount())
        if not group.child(index).isHidden()
    ]


def test_shortcuts_can_be_searched_by_action_and_by_key(qtbot):
    dialog = ShortcutsDialog()
    everything = visible_rows(dialog)
    assert {"Open", "Pan", "Undo"} <= set(everything)
    dialog.field.setText("ctrl+shift+p")
    assert visible_rows(dialog) == ["Command Palette"]
    dialog.field.setText("zoom")
    assert {"Zoom to Fit", "Zoom a picture, or fit it"} <= set(visible_rows(dialog))
    assert "Undo" not in visible_rows(dialog)
    dialog.field.clear()
    assert visible_rows(dialog) == everything
    close(dialog)


@pytest.mark.long
def test_about_copies_versions(qtbot):
    dialog = AboutDialog()
    qtbot.waitUntil(lambda: f"8-bit products by {numkong().text}\n" in dialog.text.text(), timeout=60_000)
    dialog.copy.click()
    copied = QApplication.clipboard().text()
    assert copied.startswith(f"ONNX Workbench {version()}\nPython ")
    assert "8-bit products by " in copied
    assert {"numpy", "onnx", "PySide6-Essentials"} <= set(versions())
    close(dialog)


# -- questions and file dialogs --------------------------------------------------------------------------------


@pytest.mark.parametrize(("button", "expected"), [("Save", ["save"]), ("Discard", ["discard"]), ("Cancel", [])])
def test_the_question_about_changes(qtbot, button, expected):
    answers = []
    box = ask_to_save(None, "a\nb.onnx", lambda: answers.append("save"), lambda: answers.append("discard"))
    assert "a\\nb.onnx" in box.text()
    assert box.button(getattr(QMessageBox.StandardButton, button)).text() == f"&{button}"
    box.button(getattr(QMessageBox.StandardButton, button)).click()
    qtbot.wait(1)
    assert answers == expected


def test_the_folder_of_the_last_file_is_remembered(qtbot, settings, monkeypatch, tmp_path):
    asked = []

    def answer(_parent, _title, folder, _filters):
        asked.append(folder)
        return [str(tmp_path / "m.onnx")], ""

    monkeypatch.setattr("PySide6.QtWidgets.QFileDialog.getOpenFileNames", answer)
    assert ask_open(None, settings) == [tmp_path / "m.onnx"]
    ask_open(None, settings)
    assert asked == ["", str(tmp_path)]


def test_another_model_is_asked_for_under_a_title_of_its_own(qtbot, settings, monkeypatch, tmp_path):
    answers = [(str(tmp_path / "m.onnx"), ""), ("", "")]
    titles = []

    def answer(_parent, title, _folder, _filters):
        titles.append(title)
        return answers.pop(0)

    monkeypatch.setattr("PySide6.QtWidgets.QFileDialog.getOpenFileName", answer)
    assert ask_another(None, settings, "Merge a model") == tmp_path / "m.onnx"
    assert settings.get(LAST_FOLDER) == str(tmp_path)
    assert ask_another(None, settings, "Open beside") is None
    assert titles == ["Merge a model", "Open beside"]


@pytest.mark.parametrize(
    ("name", "chosen", "expected"),
    [
        ("out", "Scalable image (*.svg)", "out.svg"),
        ("out", "", "out.png"),
        ("out.pdf", "Scalable image (*.svg)", "out.pdf"),
        ("", "", None),
    ],
)
def test_a_name_without_an_extension_gets_that_of_the_format(
    qtbot, settings, monkeypatch, tmp_path, name, chosen, expected
):
    full = str(tmp_path / name) if name else ""
    monkeypatch.setattr("PySide6.QtWidgets.QFileDialog.getSaveFileName", lambda *_: (full, chosen))
    filters = ("Image (*.png)", "Scalable image (*.svg)")
    path = ask_save(None, settings, "Export", tmp_path / "graph.png", filters, "picture")
    assert path == (None if expected is None else tmp_path / expected)
    if expected is not None:
        assert settings.get(LAST_FOLDER) == str(tmp_path)


# -- crashes ---------------------------------------------------------------------------------------------------


@pytest.fixture
def reporting(qapp, monkeypatch):
    """Uncaught errors are handled as in the program; everything is undone afterwards."""
    import faulthandler
    import logging

    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    crash_report.install(CrashDialog.show_report)
    yield crash_report
    faulthandler.enable()
    for handler in logging.getLogger("onnx_workbench").handlers[:]:
        logging.getLogger("onnx_workbench").removeHandler(handler)
        handler.close()
    crash_report._open_files.pop().close()
    if CrashDialog.current is not None:
        close(CrashDialog.current)


def test_an_uncaught_error_is_logged_and_shown_with_a_copy_button(reporting, state_folder, capsys):
    try:
        raise RuntimeError("the kernel is on fire")
    except RuntimeError as error:
        sys.excepthook(type(error), error, error.__traceback__)
    dialog = CrashDialog.current
    assert dialog.isVisible()
    dialog.copy.click()
    copied = QApplication.clipboard().text()
    assert "RuntimeError: the kernel is on fire" in copied
    assert f"ONNX Workbench {version()}" in copied
    assert "the kernel is on fire" in (state_folder / "log.txt").read_text(encoding="utf-8")
    assert "the kernel is on fire" in capsys.readouterr().err


def test_more_errors_join_the_dialog_that_is_open(reporting):
    for text in ("first", "second"):
        crash_report.handle(ValueError, ValueError(text), None)
    shown = CrashDialog.current.text.toPlainText()
    assert "ValueError: first" in shown
    assert "ValueError: second" in shown
    close(CrashDialog.current)
    assert CrashDialog.current is None


def test_an_error_in_a_thread_of_ones_own_is_reported_too(reporting, qtbot):
    tasks = TaskRunner()

    def fail():
        raise RuntimeError("in a thread")

    threading.Thread(target=fail).start()
    qtbot.waitUntil(lambda: CrashDialog.current is not None)
    assert "in a thread" in CrashDialog.current.text.toPlainText()
    tasks.close()


def test_a_log_that_has_grown_large_is_put_aside(state_folder, request):
    state_folder.mkdir(parents=True)
    (state_folder / "log.txt").write_bytes(b"x" * (crash_report._LOG_LIMIT + 1))
    request.getfixturevalue("reporting")
    assert not (state_folder / "log.txt").exists()
    assert (state_folder / "log.old.txt").stat().st_size == crash_report._LOG_LIMIT + 1
