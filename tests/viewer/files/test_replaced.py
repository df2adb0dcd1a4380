"""Files that are replaced, by a save or by another program, and a kill then: the next start has all that was done."""

import re
from pathlib import Path
from threading import Event

import pytest

from onnx_workbench.model.edits.nodes import rename_node
from onnx_workbench.model.history.steps import SetField
from onnx_workbench.model.io.reader import read as reader
from onnx_workbench.model.io.writer.atomic_file import AtomicFile
from onnx_workbench.model.io.writer.save import save
from onnx_workbench.viewer.files import recovery
from onnx_workbench.viewer.files.save import SaveOptions
from onnx_workbench.viewer.program.folders import journal_folder
from onnx_workbench.viewer.program.settings import RELOAD_SILENTLY
from tests.model import builders
from tests.model.recovery.crash import abandon
from tests.model.recovery.recorded_work import killed_now
from tests.model.snapshots import assert_linked, snapshot
from tests.viewer.opening import opened

pytestmark = pytest.mark.usefixtures("dead")


@pytest.fixture
def tab(window, qtbot, tmp_path):
    path = tmp_path / "m.onnx"
    save(builders.document().model, path)
    return opened(window, qtbot, path)


@pytest.fixture
def another_program(tmp_path):
    """Puts other contents in the place of a file."""

    def write(path):
        save(builders.document().model, tmp_path / "theirs.onnx")
        with (tmp_path / "theirs.onnx").open("ab") as file:
            file.write(b"\x32\x05other")  # another doc string, which is the last one
        (tmp_path / "theirs.onnx").replace(path)

    return write


def rename(tab, name):
    with tab.workspace.document.edit("Rename") as edit:
        rename_node(edit, tab.workspace.graph.nodes.last, name)


def has_all(tab):
    """Whether the next start would have the model as it is, if the program was killed now; and what it would offer."""
    again, leftover = killed_now(journal_folder())
    assert_linked(again.model)
    assert snapshot(again.model) == snapshot(tab.workspace.model)
    return leftover


def idle(window):
    return not (window.files.saving or window.tab.workspace.tasks.running)


def is_beside(tab):
    """Whether the model is kept beside its journal."""
    journal = tab.workspace.journal
    return journal.path is not None and not journal.lacks_base and bool(list(journal_folder().glob("*.onnx")))


@pytest.fixture
def at_its_place(monkeypatch):
    """The new file of a save is at its place, and the window does not hear of it until `free` is set."""
    commit, there, free = AtomicFile.commit, Event(), Event()

    def commit_and_wait(file):
        commit(file)
        if journal_folder() not in file.path.parents:
            there.set()
            free.wait(20)

    monkeypatch.setattr(AtomicFile, "commit", commit_and_wait)
    yield there, free
    free.set()


@pytest.mark.long
@pytest.mark.parametrize("name", ["m.onnx", "other.onnx"])
def test_a_kill_before_the_window_receives_of_a_save(window, qtbot, tab, tmp_path, at_its_place, name):
    there, free = at_its_place
    rename(tab, "saved")
    window.files.saver.save_with(tab, SaveOptions(tmp_path / name))
    qtbot.waitUntil(there.is_set)
    assert has_all(tab).titles == ()
    rename(tab, "meanwhile")
    assert has_all(tab).titles == ("Rename",)
    tab.workspace.document.undo()
    assert has_all(tab).titles == ()
    free.set()
    qtbot.waitUntil(lambda: idle(window))
    assert not tab.modified
    assert list(journal_folder().glob("*.journal")) == []


def test_a_save_that_is_stopped_when_its_file_is_there(window, qtbot, tab, at_its_place):
    there, free = at_its_place
    rename(tab, "saved")
    window.files.saver.save(tab)
    qtbot.waitUntil(there.is_set)
    window.files.saver.save_of(tab).stop()
    free.set()
    qtbot.waitUntil(lambda: idle(window))
    assert not tab.modified
    rename(tab, "more")
    assert has_all(tab).titles == ("Rename",)
    assert tab.message_bar.messages == []


def test_a_save_that_fails_at_its_last_step(window, qtbot, tab, monkeypatch):
    def fail(_file):
        raise OSError(5, "Input/output error")

    rename(tab, "mine")
    with monkeypatch.context() as patch:
        patch.setattr(AtomicFile, "commit", fail)
        window.files.saver.save(tab)
        qtbot.waitUntil(lambda: idle(window))
    assert has_all(tab).titles == ("Rename",)
    rename(tab, "again")
    assert has_all(tab).titles == ("Rename", "Rename")
    assert len(list(journal_folder().glob("*.journal"))) == 1


@pytest.mark.long
def test_edits_of_a_file_that_another_program_replaces(window, qtbot, tab, another_program):
    rename(tab, "before")
    another_program(tab.path)
    qtbot.waitUntil(lambda: is_beside(tab))
    leftover = has_all(tab)
    assert (leftover.is_unsaved, leftover.name) == (True, "m.onnx")
    rename(tab, "after")
    tab.workspace.document.undo()
    tab.workspace.document.undo()
    tab.workspace.document.redo()
    has_all(tab)


@pytest.mark.long
def test_what_another_program_replaced_is_offered_by_its_name(window, qtbot, tab, another_program):
    rename(tab, "mine")
    path, before = tab.path, snapshot(tab.workspace.model)
    another_program(path)
    qtbot.waitUntil(lambda: is_beside(tab))
    abandon(tab.autosave.journal)
    window.area.remove_tab(tab)
    recovery.offer_recovery(window.files)
    qtbot.waitUntil(lambda: not window.files.tasks.running)
    (message,) = window.area.message_bar.messages
    assert message.title == "Unsaved: m.onnx"
    assert re.fullmatch(
        r"A model, last changed \S+ \S+, was not saved. Its file was changed or removed.", message.detail
    )
    with qtbot.waitSignal(window.files.opened):
        dict(message.choices)["Recover"]()
    document = window.tab.workspace.document
    assert (document.path, window.tab.workspace.title) == (None, "m recovered")
    assert snapshot(document.model) == before
    assert document.modified
    assert killed_now(journal_folder())[1].name == ""


@pytest.mark.long
def test_edits_of_a_file_that_is_removed(window, qtbot, tab):
    rename(tab, "before")
    tab.path.unlink()
    qtbot.waitUntil(lambda: is_beside(tab))
    has_all(tab)


@pytest.mark.long
def test_edits_that_come_once_a_file_was_replaced(window, qtbot, tab, another_program):
    window.settings.set(RELOAD_SILENTLY, False)
    another_program(tab.path)
    qtbot.waitUntil(lambda: bool(tab.message_bar.messages))
    assert not journal_folder().exists() or list(journal_folder().iterdir()) == []
    rename(tab, "mine")
    qtbot.waitUntil(lambda: is_beside(tab))
    has_all(tab)


@pytest.fixture
def replaced_as_it_is_read(window, qtbot, tmp_path, monkeypatch, another_program):
    """A tab of a file that another program replaces, or removes, before it shows."""
    path, read = tmp_path / "m.onnx", reader.load
    save(builders.document().model, path)

    def open_then(meanwhile):
        def read_late(name, progress):
            model = read(name, progress)
            meanwhile(path)
            return model

        with monkeypatch.context() as patch:
            patch.setattr(reader, "load", read_late)
            return opened(window, qtbot, path)

    return open_then


@pytest.mark.long
@pytest.mark.parametrize("removes", [False, True])
def test_edits_of_a_file_that_is_replaced_as_it_is_read(
    window, qtbot, replaced_as_it_is_read, another_program, removes
):
    window.settings.set(RELOAD_SILENTLY, False)
    tab = replaced_as_it_is_read(Path.unlink if removes else another_program)
    rename(tab, "mine")
    qtbot.waitUntil(lambda: is_beside(tab))
    has_all(tab)


def test_what_replaced_a_file_as_it_was_read_is_not_overwritten(window, qtbot, replaced_as_it_is_read, another_program):
    window.settings.set(RELOAD_SILENTLY, False)
    tab = replaced_as_it_is_read(another_program)
    rename(tab, "mine")
    theirs = tab.path.read_bytes()
    window.files.saver.save(tab)
    qtbot.waitUntil(lambda: idle(window))
    assert tab.message_bar.messages[-1].title == "The file was changed by another program"
    assert tab.path.read_bytes() == theirs


@pytest.mark.long
def test_that_a_model_cannot_be_kept_is_reported(window, qtbot, tab, another_program, monkeypatch):
    def full(*_given, **_options):
        raise OSError(28, "No space left on device")

    rename(tab, "mine")
    monkeypatch.setattr("onnx_workbench.model.recovery.baseline.sync", full)
    another_program(tab.path)
    report = "A crash would lose edits"
    qtbot.waitUntil(lambda: report in [message.title for message in tab.message_bar.messages] and idle(window))
    assert [message.detail for message in tab.message_bar.messages if message.title == report] == [
        "The file was changed or removed, and the model is not kept for recovery: No space left on device."
    ]
    monkeypatch.undo()


@pytest.mark.long
def test_what_is_to_stay_though_another_program_replaced_it(window, qtbot, tab, another_program):
    window.settings.set(RELOAD_SILENTLY, False)
    another_program(tab.path)
    qtbot.waitUntil(lambda: bool(tab.message_bar.messages))
    dict(tab.message_bar.messages[0].choices)["Keep mine"]()
    qtbot.waitUntil(lambda: is_beside(tab))
    assert has_all(tab).titles == ()


@pytest.mark.long
def test_what_is_read_again_leaves_nothing(window, qtbot, tab, another_program):
    rename(tab, "mine")
    another_program(tab.path)
    qtbot.waitUntil(lambda: is_beside(tab))
    dict(tab.message_bar.messages[0].choices)["Reload"]()
    qtbot.waitUntil(lambda: window.tab is not tab and idle(window))
    assert list(journal_folder().iterdir()) == []


@pytest.mark.long
def test_what_is_saved_in_its_place_leaves_nothing(window, qtbot, tab, another_program):
    rename(tab, "mine")
    another_program(tab.path)
    qtbot.waitUntil(lambda: is_beside(tab))
    window.files.saver.save(tab)
    dict(tab.message_bar.messages[-1].choices)["Replace it"]()
    qtbot.waitUntil(lambda: not tab.modified and idle(window))
    assert list(journal_folder().iterdir()) == []
    rename(tab, "more")
    assert has_all(tab).titles == ("Rename",)


@pytest.mark.long
def test_a_model_of_which_its_own_file_does_not_hold_all(window, qtbot, tmp_path):
    path = tmp_path / "m.onnxtxt"
    save(builders.document().model, path)
    tab = opened(window, qtbot, path)
    node = tab.workspace.graph.nodes.first
    builders.do(tab.workspace.document, SetField(node, "doc_string", "why it is here"))
    window.files.saver.save(tab)
    qtbot.waitUntil(lambda: is_beside(tab))
    assert "why it is here" not in path.read_text()
    has_all(tab)
    rename(tab, "more")
    window.files.saver.save(tab)
    qtbot.waitUntil(lambda: idle(window))
    assert has_all(tab).titles == ("Rename",)


@pytest.mark.long
def test_an_edit_that_is_on_its_way_when_a_file_is_replaced(window, qtbot, being_written, delayed, another_program):
    workspace, _ = being_written
    tab = window.tab
    another_program(tab.path)
    qtbot.waitUntil(lambda: bool(tab.message_bar.messages))
    delayed.set()
    qtbot.waitUntil(lambda: is_beside(tab))
    has_all(tab)
    assert builders.value(workspace.document, "w").initializer.numpy()[1] == 7


@pytest.mark.long
def test_a_file_overwritten_in_place_does_not_harm_the_edits(window, qtbot, large_file, monkeypatch):
    """The weights are gone with it; what was done is still on file, as before."""
    monkeypatch.setattr(
        "onnx_workbench.model.io.reader.read.PARSED_WHOLE", 1 << 10
    )  # so that they are left in the file
    tab = opened(window, qtbot, large_file)
    rename(tab, "mine")
    large_file.write_bytes(bytes(large_file.stat().st_size))
    qtbot.waitUntil(lambda: bool(tab.message_bar.messages) and idle(window))
    rename(tab, "more")
    assert tab.workspace.journal.problem == ""
    (journal,) = journal_folder().glob("*.journal")
    assert [line.partition('"')[2][:4] for line in journal.read_text().splitlines()] == ["form", "edit", "edit"]
    assert list(journal_folder().glob("*.onnx")) == []


@pytest.mark.long
def test_a_kill_before_a_partial_save_is_known_loses_nothing(window, qtbot, tmp_path, at_its_place):
    there, free = at_its_place
    path = tmp_path / "m.onnxtxt"
    free.set()
    save(builders.document().model, path)
    there.clear()
    free.clear()
    tab = opened(window, qtbot, path)
    builders.do(tab.workspace.document, SetField(tab.workspace.graph.nodes.first, "doc_string", "why it is here"))
    window.files.saver.save(tab)
    qtbot.waitUntil(there.is_set)
    assert "why it is here" not in path.read_text()
    has_all(tab)
    rename(tab, "meanwhile")
    has_all(tab)
    free.set()
    qtbot.waitUntil(lambda: idle(window))
    has_all(tab)
    assert len(list(journal_folder().glob("*.onnx"))) == 1
    assert len(list(journal_folder().glob("*.journal"))) == 1
