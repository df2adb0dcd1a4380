"""A kill at the very moment a model shows that is in no file: the next start has it, whatever its size."""

import io
import sys
from threading import Event
from types import SimpleNamespace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QMessageBox, QPushButton

from onnx_workbench.model.edits.nodes import rename_node
from onnx_workbench.model.io.writer.save import Saving, save
from onnx_workbench.model.recovery.recover import find_journals
from onnx_workbench.viewer.dialogs.extract import ExtractDialog
from onnx_workbench.viewer.dialogs.new_model import NewModelDialog
from onnx_workbench.viewer.program.folders import journal_folder
from tests.model import builders
from tests.model.recovery.recorded_work import killed_now
from tests.model.snapshots import assert_linked, snapshot
from tests.viewer.background_work import task_of
from tests.viewer.files.large import ELEMENTS, large_document
from tests.viewer.opening import added, opened

TITLE = "Keep new for recovery"


pytestmark = [pytest.mark.long, pytest.mark.usefixtures("dead")]


@pytest.fixture
def large_model():
    return large_document().model


@pytest.fixture
def slow(monkeypatch):
    """A disk that takes a large model as slowly as the test wants."""
    free, run = Event(), Saving.run

    def wait(saving, *given, **more):
        if saving.size > 1 << 20:
            free.wait(30)
        return run(saving, *given, **more)

    monkeypatch.setattr(Saving, "run", wait)
    yield free
    free.set()


@pytest.fixture
def killed(window):
    """What the next start has of each model that came up without a file, if the program was killed at that moment."""
    states = []

    def look(tab):
        document = tab.workspace.document
        if document.path is None:
            again, leftover = killed_now(journal_folder())
            assert snapshot(again.model) == snapshot(document.model)
            assert_linked(again.model)
            states.append(leftover)

    window.files.opened.connect(look)
    return states


def visible(qtbot, window, kind):
    """The dialog of a kind that an action brings up."""

    def found():
        return [dialog for dialog in window.findChildren(kind) if dialog.isVisible()]

    qtbot.waitUntil(lambda: bool(found()))
    return found()[0]


def rename_last(document, name="renamed"):
    with document.edit("Rename") as edit:
        rename_node(edit, document.model.graph.nodes.last, name)


def at_once(document):
    """Edit it, and see what the next start would make of that."""
    rename_last(document)
    again, leftover = killed_now(journal_folder())
    assert leftover.titles == ("Rename",)
    assert snapshot(again.model) == snapshot(document.model)


def test_a_new_model(qtbot, window, killed):
    window.actions_binding.run("file.new")
    dialog = visible(qtbot, window, NewModelDialog)
    with qtbot.waitSignal(window.files.opened):
        qtbot.mouseClick(dialog.create_button, Qt.MouseButton.LeftButton)
    (leftover,) = killed
    assert leftover.is_unsaved
    at_once(window.tab.workspace.document)


def extract(qtbot, window, tab, *nodes):
    """Extract from a document as new models: nodes, or both sides of a value."""
    tab.workspace.selection.set(nodes)
    dialog_of = "model.extract" if len(nodes) > 1 else "model.split"
    window.actions_binding.run(dialog_of)
    qtbot.mouseClick(visible(qtbot, window, ExtractDialog).ok, Qt.MouseButton.LeftButton)


def test_a_part_of_another_whose_file_is_replaced_meanwhile(qtbot, window, killed, large_file, slow):
    tab = opened(window, qtbot, large_file)
    extract(qtbot, window, tab, *tab.workspace.graph.nodes)
    task = task_of(qtbot, window.files.tasks, "Keep large-part for recovery")
    save(builders.model(), large_file)
    slow.set()
    qtbot.waitUntil(lambda: task.finished)
    (leftover,) = killed
    assert leftover.is_unsaved
    part = window.tab.workspace
    assert part.title == "large-part"
    assert builders.value(part.document, "w").initializer.numpy()[-1] == ELEMENTS - 1
    at_once(part.document)


def test_both_parts_of_a_model_that_is_split_come_up_in_their_order(qtbot, window, large_file):
    tab = opened(window, qtbot, large_file)
    extract(qtbot, window, tab, builders.value(tab.workspace.document, "r"))
    qtbot.waitUntil(lambda: len(window.tabs()) == 3)
    assert [tab.workspace.title for tab in window.tabs()[1:]] == ["large-1", "large-2"]
    assert {leftover.is_unsaved for leftover in find_journals(journal_folder())} == {True}
    assert len(list(find_journals(journal_folder()))) == 2


@pytest.mark.parametrize("source", ["standard input", "sample", "copy"])
def test_what_is_read_but_belongs_to_no_file(qtbot, window, large_file, monkeypatch, source):
    """Nobody is asked about it at the next start until it is edited: closing would not have asked either."""
    piped = SimpleNamespace(buffer=io.BytesIO(large_file.read_bytes()), isatty=lambda: False)
    monkeypatch.setattr(sys, "stdin", piped)
    ways = {
        "standard input": window.files.open_standard_input,
        "sample": window.files.open_sample,
        "copy": lambda: window.files.open_copy(large_file, "copy"),
    }
    with qtbot.waitSignal(window.files.opened):
        ways[source]()
    assert len(list(journal_folder().glob("*.onnx"))) == 1
    at_once(window.tab.workspace.document)
    window.area.remove_tab(window.tab)
    assert list(journal_folder().iterdir()) == []


def test_what_was_looked_at_only_leaves_nothing(qtbot, window):
    with qtbot.waitSignal(window.files.opened):
        window.files.open_sample()
    assert list(find_journals(journal_folder())) == []  # which removes what is not offered
    assert list(journal_folder().iterdir()) == []


def test_a_large_new_model_shows_once_it_is_on_file(qtbot, window, killed, large_model, slow):
    window.files.add_new(large_model, "new")
    task = task_of(qtbot, window.files.tasks, TITLE)
    qtbot.waitUntil(window.status.work.isVisible)
    assert not window.status.work.stop_tool()  # what Esc does
    assert window.tabs() == []
    slow.set()
    qtbot.waitUntil(lambda: task.finished)
    assert [leftover.titles for leftover in killed] == [()]
    at_once(window.tab.workspace.document)


def test_a_small_one_does_not_wait_for_a_large_one(qtbot, window, large_model, slow):
    window.files.add_new(large_model, "new")
    task = task_of(qtbot, window.files.tasks, TITLE)
    tab = added(window, qtbot, builders.model(), "small")
    assert not task.finished
    assert tab.workspace.title == "small"
    slow.set()
    qtbot.waitUntil(lambda: len(window.tabs()) == 2)


def test_a_large_model_shows_at_once_when_that_is_stopped(qtbot, window, large_model, slow):
    window.files.add_new(large_model, "new")
    qtbot.waitUntil(window.status.work.isVisible)
    qtbot.mouseClick(window.status.work.stop, Qt.MouseButton.LeftButton)
    slow.set()
    qtbot.waitUntil(lambda: bool(window.tabs()))
    (message,) = window.tab.message_bar.messages
    assert message.title == "A crash would lose edits"
    assert "stopped" in message.detail
    rename_last(window.tab.workspace.document)
    assert window.tab.modified
    assert list(journal_folder().iterdir()) == []


def test_a_model_for_which_the_disk_has_no_room_shows_all_the_same(qtbot, window, large_model, monkeypatch):
    def full(*_given):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr("onnx_workbench.model.io.writer.atomic_file.AtomicFile.write", full)
        tab = added(window, qtbot, large_model)
    (message,) = tab.message_bar.messages
    assert message.title == "A crash would lose edits"
    assert "the disk is full" in message.detail
    assert list(journal_folder().iterdir()) == []
    rename_last(tab.workspace.document)
    assert list(journal_folder().iterdir()) == []


def test_a_model_shows_where_there_is_no_folder_for_it(qtbot, window, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setattr("onnx_workbench.viewer.files.open_model.journal_folder", lambda: tmp_path / "file" / "journals")
    monkeypatch.setattr("onnx_workbench.viewer.files.autosave.journal_folder", lambda: tmp_path / "file" / "journals")
    tab = added(window, qtbot, builders.model())
    assert [message.title for message in tab.message_bar.messages] == ["A crash would lose edits"]


def test_a_new_model_that_is_saved_or_closed_leaves_nothing(qtbot, window, tmp_path):
    tab = added(window, qtbot, builders.model())
    assert any(journal_folder().iterdir())
    path = tmp_path / "saved.onnx"
    save(tab.workspace.model, path)
    tab.workspace.document.mark_saved(path)
    assert list(journal_folder().iterdir()) == []
    added(window, qtbot, builders.model())
    window.area.remove_tab(window.tab)
    assert list(journal_folder().iterdir()) == []


def test_closing_asks_about_a_model_that_is_still_being_kept(qtbot, window, large_model, slow):
    window.files.add_new(large_model, "new")
    task = task_of(qtbot, window.files.tasks, TITLE)
    window.close()
    assert window.isVisible()
    qtbot.waitUntil(lambda: bool(window.area.message_bar.messages))
    assert window.area.message_bar.messages[0].detail == "The window closes once that is done."
    slow.set()
    box = visible(qtbot, window, QMessageBox)
    assert task.finished
    assert window.area.message_bar.messages == []
    assert window.tab.modified
    with qtbot.waitSignal(window.closing):
        qtbot.mouseClick(box.button(QMessageBox.StandardButton.Discard), Qt.MouseButton.LeftButton)
    assert list(journal_folder().iterdir()) == []


def test_closing_is_taken_back_while_a_model_is_being_kept(qtbot, window, large_model, slow):
    window.files.add_new(large_model, "new")
    window.close()
    qtbot.waitUntil(lambda: bool(window.area.message_bar.messages))
    (stay,) = [b for b in window.area.message_bar.findChildren(QPushButton) if b.text() == "Keep it open"]
    qtbot.mouseClick(stay, Qt.MouseButton.LeftButton)
    slow.set()
    qtbot.waitUntil(lambda: bool(window.tabs()))
    assert window.isVisible()
    assert [box for box in window.findChildren(QMessageBox) if box.isVisible()] == []
