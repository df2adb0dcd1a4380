"""From the start page to a file and back: opening, closing, saving, and what other programs do to the file."""

import os

import onnx
import pytest
from PySide6.QtCore import QMimeData, QPointF, Qt, QUrl
from PySide6.QtGui import QDropEvent
from PySide6.QtWidgets import QFileDialog, QMessageBox

from onnx_workbench.model.io.reader import read as reader
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.viewer.files.open_model import sample_model
from onnx_workbench.viewer.files.save import SaveOptions
from tests.viewer.background_work import delay, wait_for_readers
from tests.viewer.opening import opened, rename, run, settled

# -- the start page --------------------------------------------------------------------------------------------


def test_the_start_page_offers_the_sample_and_opens_it(window, qtbot):
    assert window.workspace is None
    assert window.start_page.isVisible()
    assert not window.start_page.recent.isVisible()
    qtbot.mouseClick(window.start_page.sample_button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: window.workspace is not None)
    settled(window, qtbot)
    assert not window.start_page.isVisible()
    assert window.workspace.document.path is None, "saving must not overwrite the file that comes with the program"
    assert window.settings.recent_files() == []
    assert window.windowTitle().startswith("digits")


@pytest.mark.long
def test_a_run_asked_for_during_reading_begins_when_open(window, qtbot, write_model):
    window.actions_binding.refresh()
    key = window.actions_binding.qaction("run.run")
    assert not key.isEnabled()
    window.files.open([write_model("a.onnx")])
    window.actions_binding.refresh()
    key.trigger()
    assert window.workspace is None
    assert "Then: Run" in window.start_page.waiting.text()
    ends = [lambda: window.workspace is not None, lambda: window.workspace.results.is_current]
    qtbot.waitUntil(lambda: all(is_so() for is_so in ends))
    settled(window, qtbot)


def test_a_run_asked_for_is_dropped_if_the_model_fails_to_open(window, qtbot, tmp_path, write_model):
    window.files.open([tmp_path / "missing.onnx"])
    run(window, "run.run")
    qtbot.waitUntil(lambda: not window.files.pending)
    window.actions_binding.refresh()
    assert not window.actions_binding.qaction("run.run").isEnabled()
    tab = opened(window, qtbot, write_model("a.onnx"))
    assert not tab.workspace.has_runs


@pytest.mark.long
def test_recent_files_open_from_the_list_and_by_key(window, qtbot, write_model):
    first, second = write_model("a.onnx"), write_model("b.onnx")
    opened(window, qtbot, first)
    opened(window, qtbot, second)
    assert window.settings.recent_files() == [second, first]
    for tab in window.tabs():
        window.files.close(tab)
    assert window.start_page.isVisible()
    assert window.start_page.recent.count() == 2
    window.start_page.recent.itemActivated.emit(window.start_page.recent.item(1))
    qtbot.waitUntil(lambda: len(window.tabs()) == 1)
    assert window.tab.path == first
    run(window, "file.recent.2")
    qtbot.waitUntil(lambda: len(window.tabs()) == 2)
    assert window.tab.path == second


def test_recent_files_of_the_same_name_are_listed_with_their_folders(window, tmp_path):
    for path in ("bert/model.onnx", "ocr/model.onnx", "ocr/other.onnx"):
        window.settings.add_recent_file(tmp_path / path)
    window.actions_binding.refresh()
    texts = [window.actions_binding.qaction(f"file.recent.{number}").text() for number in (1, 2, 3)]
    assert texts == ["&1  other.onnx", "&2  ocr/model.onnx", "&3  bert/model.onnx"]


@pytest.mark.long
def test_dropped_files_open(window, qtbot, write_model):
    paths = [write_model("a.onnx"), write_model("b.onnx")]
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(path)) for path in paths])
    event = QDropEvent(
        QPointF(5, 5), Qt.DropAction.CopyAction, data, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    )
    window.dropEvent(event)
    qtbot.waitUntil(lambda: len(window.tabs()) == 2)
    assert [tab.path for tab in window.tabs()] == paths


# -- opening ---------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_file_opens_once_and_is_gone_to_after_that(window, qtbot, write_model):
    first, second = write_model("a.onnx"), write_model("b.onnx")
    opened(window, qtbot, first, second)
    assert window.tab.path == second
    window.files.open([first])
    assert len(window.tabs()) == 2
    assert window.tab.path == first
    assert window.status.extent.text() == "3 nodes"


@pytest.mark.long
def test_files_of_one_name_are_shown_with_their_folders(window, qtbot, tmp_path, write_model):
    paths = []
    for folder in ("first/best", "second/best"):
        (tmp_path / folder).mkdir(parents=True)
        paths.append(write_model("a.onnx").rename(tmp_path / folder / "model.onnx"))
    first, _ = opened(window, qtbot, paths[0]), opened(window, qtbot, paths[1])
    bar = window.area._tabs.tabBar()
    assert [bar.tabText(i) for i in range(2)] == ["first/best/model.onnx", "second/best/model.onnx"]
    assert window.windowTitle().startswith("second/best/model.onnx")
    window.files.close(first)
    assert bar.tabText(0) == "model.onnx"
    assert window.windowTitle().startswith("model.onnx")


def test_a_file_that_is_asked_for_again_while_it_is_read_opens_once(window, qtbot, write_model, monkeypatch):
    first, second = write_model("a.onnx"), write_model("b.onnx")
    free = delay(monkeypatch, reader, "load")
    window.files.open([first, second, first])
    window.files.open([first])
    free.set()
    qtbot.waitUntil(lambda: len(window.tabs()) == 2 and not window.files.pending)
    assert window.tab.path == second
    window.files.open([first])
    assert len(window.tabs()) == 2


def test_a_file_that_is_no_model_becomes_a_message(window, qtbot, tmp_path, write_model):
    bad = tmp_path / "<b>bad.onnx"
    bad.write_text("<!DOCTYPE html><html>")
    window.files.open([bad])
    qtbot.waitUntil(lambda: bool(window.area.message_bar.messages))
    message = window.area.message_bar.messages[0]
    assert message.severity == "error"
    assert "<b>bad.onnx" in message.title
    assert window.start_page.isVisible()
    opened(window, qtbot, write_model())
    assert window.area.close_message()
    assert not window.area.message_bar.messages


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
@pytest.mark.parametrize("name", ["pipe.onnx", "loop.onnx", "n" * 5000, "a/" * 2100, "\udcff.onnx"], ids=len)
def test_what_cannot_be_a_file_is_reported_and_the_next_opens(window, qtbot, tmp_path, write_model, name):
    os.mkfifo(tmp_path / "pipe.onnx")
    (tmp_path / "loop.onnx").symlink_to("loop.onnx")
    window.files.open([tmp_path / name, write_model("good.onnx")])
    qtbot.waitUntil(lambda: window.workspace is not None)
    qtbot.waitUntil(lambda: bool(window.area.message_bar.messages))
    (message,) = window.area.message_bar.messages
    assert message.severity == "error"


def test_a_recent_file_that_is_gone_is_forgotten(window, qtbot, tmp_path):
    gone = tmp_path / "gone.onnx"
    window.settings.add_recent_file(gone)
    window.files.open([gone])
    qtbot.waitUntil(lambda: bool(window.area.message_bar.messages))
    assert window.settings.recent_files() == []


@pytest.mark.long
def test_a_file_that_ends_early_opens_with_a_warning(window, qtbot, tmp_path):
    whole = sample_model().read_bytes()
    cut = tmp_path / "cut.onnx"
    cut.write_bytes(whole[: len(whole) // 2])
    tab = opened(window, qtbot, cut)
    qtbot.waitUntil(lambda: bool(tab.message_bar.messages))
    assert tab.message_bar.messages[0].title == "The file ends early"


@pytest.fixture
def cut(tmp_path):
    """The first half of a model's file."""
    whole = sample_model().read_bytes()
    path = tmp_path / "cut.onnx"
    path.write_bytes(whole[: len(whole) // 2])
    return path


def question(window, qtbot):
    """The question that is open now."""
    qtbot.waitUntil(lambda: any(box.isVisible() for box in window.findChildren(QMessageBox)))
    (box,) = [box for box in window.findChildren(QMessageBox) if box.isVisible()]
    return box, {button.text().replace("&", ""): button for button in box.buttons()}


@pytest.mark.long
def test_a_file_that_ends_early_is_not_replaced_without_a_question(window, qtbot, cut, tmp_path, monkeypatch):
    before = cut.read_bytes()
    tab = opened(window, qtbot, cut)
    rename(tab, "renamed")
    run(window, "file.save")
    box, buttons = question(window, qtbot)
    assert "cut.onnx" in box.text()
    assert tab.workspace.model.source.truncation in box.informativeText()
    assert box.defaultButton() is buttons["Save As…"]
    buttons["Cancel"].click()
    assert cut.read_bytes() == before
    assert tab.modified
    kept = tmp_path / "kept.onnx"
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(kept), ""))
    run(window, "file.save")
    question(window, qtbot)[1]["Save As…"].click()
    qtbot.waitUntil(lambda: not tab.modified)
    assert cut.read_bytes() == before
    assert tab.path == kept
    rename(tab, "again")
    run(window, "file.save")  # that file is whole
    qtbot.waitUntil(lambda: not tab.modified)


@pytest.mark.long
def test_it_is_replaced_when_that_is_chosen_and_then_whole(window, qtbot, cut):
    before = cut.read_bytes()
    tab = opened(window, qtbot, cut)
    rename(tab, "renamed")
    window.files.saver.save_with(tab, SaveOptions(cut, copy=True))
    question(window, qtbot)[1]["Replace"].click()
    qtbot.waitUntil(lambda: not tab.modified)
    assert cut.read_bytes() != before
    rename(tab, "again")
    run(window, "file.save")
    qtbot.waitUntil(lambda: not tab.modified)
    assert load(cut).source.truncation == ""


@pytest.mark.long
def test_closing_it_with_changes_asks_as_well(window, qtbot, cut):
    before = cut.read_bytes()
    tab = opened(window, qtbot, cut)
    rename(tab, "renamed")
    window.files.close(tab)
    question(window, qtbot)[1]["Save"].click()
    question(window, qtbot)[1]["Cancel"].click()
    assert window.tabs() == [tab]
    assert cut.read_bytes() == before


# -- closing and saving ----------------------------------------------------------------------------------------


@pytest.mark.long
def test_edits_mark_the_tab_and_saving_takes_the_mark_away(window, qtbot, write_model):
    path = write_model()
    tab = opened(window, qtbot, path)
    rename(tab, "renamed")
    assert window.isWindowModified()
    assert tab.modified
    run(window, "file.save")
    qtbot.waitUntil(lambda: not tab.modified)
    assert not window.isWindowModified()
    assert onnx.load(path).graph.node[0].name == "renamed"


@pytest.mark.long
def test_an_edit_made_while_saving_stays_unsaved(window, qtbot, write_model):
    tab = opened(window, qtbot, write_model())
    rename(tab, "first")
    run(window, "file.save")
    wait_for_readers(qtbot)  # the save is prepared: what follows is not in it
    rename(tab, "second")
    qtbot.waitUntil(lambda: not window.files.saving)
    assert tab.modified
    tab.workspace.document.undo()
    assert not tab.modified


def answer(qtbot, window, button):
    def asking():
        return [box for box in window.findChildren(QMessageBox) if box.isVisible()]

    qtbot.waitUntil(lambda: bool(asking()))
    (box,) = asking()
    qtbot.mouseClick(box.button(button), Qt.MouseButton.LeftButton)


@pytest.mark.long
@pytest.mark.parametrize(
    ("button", "is_open", "name"), [("Cancel", True, "relu_0"), ("Discard", False, "relu_0"), ("Save", False, "new")]
)
def test_closing_a_modified_document_asks(window, qtbot, write_model, button, is_open, name):
    path = write_model()
    tab = opened(window, qtbot, path)
    rename(tab, "new")
    run(window, "file.close")
    answer(qtbot, window, getattr(QMessageBox.StandardButton, button))
    qtbot.waitUntil(lambda: (tab in window.tabs()) == is_open)
    assert onnx.load(path).graph.node[0].name == name


@pytest.mark.long
def test_closing_the_window_asks_about_each_modified_document(window, qtbot, write_model):
    tabs = [opened(window, qtbot, write_model(name)) for name in ("a.onnx", "b.onnx", "c.onnx")]
    rename(tabs[0], "new")
    rename(tabs[2], "new")
    window.close()
    assert window.isVisible()
    answer(qtbot, window, QMessageBox.StandardButton.Discard)
    qtbot.waitUntil(lambda: len(window.tabs()) == 2)
    answer(qtbot, window, QMessageBox.StandardButton.Cancel)
    assert window.isVisible()
    assert [tab.workspace.title for tab in window.tabs()] == ["b.onnx", "c.onnx"]


@pytest.mark.long
def test_a_window_says_that_it_closes_when_nothing_keeps_it_any_more(window, qtbot, write_model):
    received = []
    window.closing.connect(lambda: received.append(len(window.tabs())))
    rename(opened(window, qtbot, write_model()), "new")
    window.close()
    assert received == []
    with qtbot.waitSignal(window.closing):  # while it goes on, so that later starts are not handed over to it
        answer(qtbot, window, QMessageBox.StandardButton.Discard)
    assert received == [0]


@pytest.mark.long
def test_a_window_whose_changes_are_saved_as_it_closes_is_closed(window, qtbot, write_model):
    paths = [write_model(name) for name in ("a.onnx", "b.onnx")]
    for path in paths:
        rename(opened(window, qtbot, path), "new")
    window.close()
    answer(qtbot, window, QMessageBox.StandardButton.Save)
    with qtbot.waitSignal(window.closing):
        answer(qtbot, window, QMessageBox.StandardButton.Save)
    assert [onnx.load(path).graph.node[0].name for path in paths] == ["new", "new"]


# -- the file on disk ------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_file_changed_by_another_program_is_read_again(window, qtbot, write_model):
    path = write_model(nodes=3)
    opened(window, qtbot, path)
    write_model(nodes=5)
    qtbot.waitUntil(lambda: window.status.extent.text() == "5 nodes")
    assert len(window.tabs()) == 1
    assert [m.severity for m in window.tab.message_bar.messages] == ["info"]


@pytest.mark.long
def test_a_modified_document_is_not_reloaded_without_asking(window, qtbot, write_model):
    path = write_model(nodes=3)
    tab = opened(window, qtbot, path)
    rename(tab, "mine")
    write_model(nodes=5)
    qtbot.waitUntil(lambda: bool(tab.message_bar.messages))
    message = tab.message_bar.messages[0]
    assert [title for title, _ in message.choices] == ["Reload", "Keep mine"]
    assert next(iter(tab.workspace.graph.nodes)).name == "mine"
    run(window, "file.save")
    assert [title for title, _ in tab.message_bar.messages[-1].choices] == ["Replace it", "Save as…"]
    assert len(onnx.load(path).graph.node) == 5, "nothing was overwritten without asking"
    message.choices[0][1]()
    qtbot.waitUntil(lambda: window.status.extent.text() == "5 nodes")


@pytest.mark.long
def test_saving_does_not_count_as_another_programs_change(window, qtbot, write_model):
    other = opened(window, qtbot, write_model("other.onnx"))
    tab = opened(window, qtbot, write_model())
    rename(tab, "mine")
    run(window, "file.save")
    qtbot.waitUntil(lambda: not tab.modified)
    write_model("other.onnx", nodes=5)
    qtbot.waitUntil(lambda: other not in window.tabs())  # a change that came after the save is noticed
    assert tab in window.tabs()
    assert tab.message_bar.messages == []


@pytest.mark.long
def test_reload_keeps_the_graph_that_was_shown(window, qtbot, tmp_path):
    copy = tmp_path / "copy.onnx"
    copy.write_bytes(sample_model().read_bytes())
    tab = opened(window, qtbot, copy)
    tab.workspace.navigation.show(tab.workspace.model.functions[0].body)
    run(window, "file.reload")
    qtbot.waitUntil(lambda: window.tab is not tab)
    assert window.workspace.graph is window.workspace.model.functions[0].body


@pytest.mark.long
def test_a_tab_that_is_closed_twice_is_closed_once(window, qtbot, write_model):
    first, second = opened(window, qtbot, write_model("a.onnx")), opened(window, qtbot, write_model("b.onnx"))
    window.files.close(first)
    window.files.close(first)
    assert window.tabs() == [second]
    rename(second, "renamed")
    window.files.close(second)
    window.files.close(second)
    for box in [box for box in window.findChildren(QMessageBox) if box.isVisible()]:
        box.button(QMessageBox.StandardButton.Discard).click()
    assert window.tabs() == []
