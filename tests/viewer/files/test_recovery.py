"""What a crash leaves behind comes back through the real window."""

import os
import re

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractButton, QLabel

from onnx_workbench.model.edits import nodes
from onnx_workbench.model.history.steps import SetField, SetInitializer
from onnx_workbench.model.io.reader import read as reader
from onnx_workbench.model.ir.graph import Value
from onnx_workbench.model.ir.tensors import ArrayTensor
from onnx_workbench.viewer.dialogs.recovered_files import RecoveredFilesDialog
from onnx_workbench.viewer.document.messages import Message
from onnx_workbench.viewer.files import document_area, recovery
from onnx_workbench.viewer.program.folders import journal_folder
from tests.model import builders
from tests.model.recovery.crash import abandon
from tests.model.recovery.recorded_work import killed_now
from tests.model.snapshots import snapshot
from tests.viewer.background_work import delay
from tests.viewer.opening import added

pytestmark = pytest.mark.long


@pytest.fixture
def model_file(tmp_path):
    return builders.model_file(tmp_path / "chain.onnx", builders.CHAIN)


def opened(qtbot, window, path):
    with qtbot.waitSignal(window.files.opened):
        window.files.open([path])
    return window.tab


def new_model(qtbot, window):
    """A document in no file that closing would lose."""
    return added(window, qtbot, builders.model()).workspace.document


def rename_in(document, name="renamed"):
    with document.edit("Rename") as edit:
        nodes.rename_node(edit, document.model.graph.nodes.last, name)


def kill(window, monkeypatch):
    """Go away without a word, as a killed program does."""
    abandon(window.tab.autosave.journal)
    monkeypatch.setattr(document_area, "free_model", lambda _model: None)  # tests compare it with what is recovered
    window.area.remove_tab(window.tab)
    monkeypatch.setattr("onnx_workbench.model.recovery.recover.is_running", lambda *_process: False)


def offer_recovery(qtbot, window):
    recovery.offer_recovery(window.files)
    qtbot.waitUntil(lambda: not window.files.tasks.running)


def rename_first(qtbot, window, path):
    document = opened(qtbot, window, path).workspace.document
    with document.edit("Rename first") as edit:
        nodes.rename_node(edit, builders.node(document, "first"), "renamed")
    return document


def crash(qtbot, window, path, monkeypatch):
    """Edit, then end as a killed program does."""
    rename_first(qtbot, window, path)
    kill(window, monkeypatch)


def press(qtbot, window, text):
    def buttons():
        return [b for b in window.findChildren(QAbstractButton) if b.text() == text and b.isVisible() and b.isEnabled()]

    qtbot.waitUntil(lambda: bool(buttons()))
    buttons()[0].click()


def test_edits_of_a_killed_program_are_offered_and_recovered(qtbot, window, model_file, monkeypatch):
    crash(qtbot, window, model_file, monkeypatch)
    offer_recovery(qtbot, window)
    with qtbot.waitSignal(window.files.opened):
        press(qtbot, window, "Recover")
    document = window.tab.workspace.document
    qtbot.waitUntil(lambda: document.undo_title == "Rename first")
    assert builders.node(document, "renamed").op_type == "Mul"
    assert document.modified
    assert len(list(journal_folder().iterdir())) == 1  # of the document that is open now


def test_edits_of_a_truncated_file_return_and_saving_asks(qtbot, window, model_file, monkeypatch):
    model_file.write_bytes(model_file.read_bytes()[:-20])
    before = model_file.read_bytes()
    crash(qtbot, window, model_file, monkeypatch)
    offer_recovery(qtbot, window)
    with qtbot.waitSignal(window.files.opened):
        press(qtbot, window, "Recover")
    document = window.tab.workspace.document
    qtbot.waitUntil(lambda: document.undo_title == "Rename first")
    window.files.saver.save(window.tab)
    press(qtbot, window, "Cancel")
    assert document.modified
    assert model_file.read_bytes() == before


@pytest.fixture
def much(monkeypatch):
    """As with a journal of very many steps."""
    monkeypatch.setattr(recovery, "_MUCH", 0)


def recover_anew(qtbot, window, path, monkeypatch, *titles):
    """Have edits made, some of them undone, and the program killed; then recover. What there was, and what there is."""
    document = opened(qtbot, window, path).workspace.document
    for title in titles:
        if title == "Undo":
            document.undo()
            continue
        with document.edit(title) as edit:
            edit.do(SetField(document.model.graph, "doc_string", title))
    before = snapshot(document.model)
    kill(window, monkeypatch)
    offer_recovery(qtbot, window)
    with qtbot.waitSignal(window.files.opened):
        press(qtbot, window, "Recover")
    return before, window.tab.workspace.document


@pytest.mark.usefixtures("much")
def test_very_many_steps_are_done_again_while_the_window_goes_on(qtbot, window, model_file, monkeypatch):
    before, document = recover_anew(qtbot, window, model_file, monkeypatch, "One", "Two")
    assert document.undo_title is None
    qtbot.waitUntil(lambda: document.undo_title == "Two")
    qtbot.waitUntil(lambda: [m.title for m in window.tab.message_bar.messages] == ["Recovered"])
    assert snapshot(document.model) == before
    assert document.modified
    window.tab.autosave.journal._log._store.flush()
    qtbot.waitUntil(lambda: len(list(journal_folder().iterdir())) == 1)
    document.undo()
    assert document.undo_title == "One"


@pytest.mark.usefixtures("much")
def test_what_was_undone_can_be_done_again_after_very_many_steps_too(qtbot, window, model_file, monkeypatch):
    before, document = recover_anew(qtbot, window, model_file, monkeypatch, "One", "Two", "Undo")
    qtbot.waitUntil(lambda: document.undo_title == "One")
    assert snapshot(document.model) == before
    assert document.redo_title == "Two"


@pytest.mark.usefixtures("much")
def test_an_edit_during_a_long_replay_offers_the_rest_again(qtbot, window, model_file, monkeypatch):
    before, document = recover_anew(qtbot, window, model_file, monkeypatch, "One", "Two")
    rename_in(document, "mine")
    with qtbot.waitSignal(window.files.opened):
        press(qtbot, window, "Recover")
    copy = window.tab.workspace.document
    qtbot.waitUntil(lambda: copy.undo_title == "Two")
    assert snapshot(copy.model) == before
    assert document.undo_title == "Rename"


def test_what_was_done_can_be_looked_at_and_discarded(qtbot, window, model_file, monkeypatch):
    crash(qtbot, window, model_file, monkeypatch)
    offer_recovery(qtbot, window)
    press(qtbot, window, "Show changes")
    press(qtbot, window, "Discard")
    assert offered_after_restart(qtbot, window) == []


def offered_after_restart(qtbot, window):
    """The titles of what a program that starts now would offer to recover."""
    window.area.message_bar.clear()
    offer_recovery(qtbot, window)
    return [message.title for message in window.area.message_bar.messages]


def test_discarded_edits_come_back_by_undo(qtbot, window, model_file, monkeypatch):
    crash(qtbot, window, model_file, monkeypatch)
    offer_recovery(qtbot, window)
    press(qtbot, window, "Discard")
    (message,) = window.area.message_bar.messages
    assert message.title == "Discarded the unsaved edits of chain.onnx"
    press(qtbot, window, "Undo")
    with qtbot.waitSignal(window.files.opened, timeout=20_000):
        press(qtbot, window, "Recover")
    qtbot.waitUntil(lambda: window.tab.workspace.document.undo_title == "Rename first")


def test_discarded_edits_come_back_from_the_list_of_recovered_files(qtbot, window, model_file, monkeypatch):
    crash(qtbot, window, model_file, monkeypatch)
    offer_recovery(qtbot, window)
    press(qtbot, window, "Discard")
    window.actions_binding.run("help.recovered_files")
    (dialog,) = window.findChildren(RecoveredFilesDialog)
    model = dialog.table.model()
    qtbot.waitUntil(lambda: model.rowCount() == 1)
    assert model.index(0, 0).data() == "chain.onnx"
    assert model.index(0, 2).data() == "1"
    assert model.index(0, 3).data().startswith("Discarded")
    with qtbot.waitSignal(window.files.opened, timeout=20_000):
        dialog.recover_button.click()
    qtbot.waitUntil(lambda: window.tab.workspace.document.undo_title == "Rename first")


def test_discarded_edits_are_deleted_after_a_week(qtbot, window, model_file, monkeypatch):
    crash(qtbot, window, model_file, monkeypatch)
    offer_recovery(qtbot, window)
    press(qtbot, window, "Discard")
    (journal,) = journal_folder().glob("*.discarded-*")
    stem, _, seconds = journal.name.rpartition("-")
    younger = journal.rename(journal.with_name(f"{stem}-{int(seconds) - 6 * 86400}"))
    offered_after_restart(qtbot, window)
    assert younger.exists()
    younger.rename(journal.with_name(f"{stem}-{int(seconds) - 8 * 86400}"))
    offered_after_restart(qtbot, window)
    assert list(journal_folder().iterdir()) == []


def test_two_clicks_at_one_place_answer_one_question(qtbot, window, monkeypatch):
    """The next question stays where it is, and no button comes to be where the answered one was."""
    for _ in range(2):
        new_model(qtbot, window)
        abandon(window.tab.autosave.journal)
    monkeypatch.setattr("onnx_workbench.model.recovery.recover.is_running", lambda *_process: False)
    offer_recovery(qtbot, window)
    bar = window.area.message_bar
    window.show()
    first, second = (b for b in bar.findChildren(QAbstractButton) if b.text() == "Discard")
    qtbot.waitUntil(first.isVisible)
    place, below = first.mapTo(bar, first.rect().center()), second.mapTo(bar, second.rect().topLeft())
    for _ in range(2):
        qtbot.mouseClick(bar.childAt(place), Qt.MouseButton.LeftButton)
        bar.layout().activate()
    assert second.mapTo(bar, second.rect().topLeft()) == below
    assert len(list(journal_folder().glob("*.discarded-*"))) == 1


def test_a_closed_message_leaves_the_next_one_in_its_place(qtbot, window):
    bar = window.area.message_bar
    for name in ("one", "two"):
        window.area.show_message(Message("warning", name))
    window.show()
    row = bar.layout().itemAt(1).widget()
    qtbot.waitUntil(row.isVisible)
    before = row.pos()
    bar.layout().itemAt(0).widget().closed.click()
    bar.layout().activate()
    assert row.pos() == before
    assert [message.title for message in bar.messages] == ["two"]


def crash_with(qtbot, window, monkeypatch, *names):
    """Rename a node in several new models, then end as a killed program does; what is offered after a restart."""
    for name in names:
        rename_in(new_model(qtbot, window), name)
        abandon(window.tab.autosave.journal)
        window.area.remove_tab(window.tab)
    monkeypatch.setattr("onnx_workbench.model.recovery.recover.is_running", lambda *_process: False)
    offer_recovery(qtbot, window)


def asked_about_all(window):
    return [m.title for m in window.area.message_bar.messages if m.title.endswith("models have unsaved edits")]


def test_the_question_about_all_counts_those_that_were_not_answered(qtbot, window, monkeypatch):
    crash_with(qtbot, window, monkeypatch, "one", "two", "three")
    assert asked_about_all(window) == ["3 models have unsaved edits"]
    press(qtbot, window, "Discard")
    assert asked_about_all(window) == ["2 models have unsaved edits"]
    press(qtbot, window, "Undo")
    assert asked_about_all(window) == ["3 models have unsaved edits"]
    press(qtbot, window, "Discard")
    press(qtbot, window, "Recover")
    assert asked_about_all(window) == []


def test_many_models_are_recovered_at_once(qtbot, window, monkeypatch):
    """Their questions leave room for the one about all."""
    crash_with(qtbot, window, monkeypatch, *"abcdefg")
    assert window.area.message_bar.messages[0].title == "7 models have unsaved edits"
    press(qtbot, window, "Recover All")
    qtbot.waitUntil(lambda: len(window.area.tabs()) == 7)
    documents = [tab.workspace.document for tab in window.area.tabs()]
    qtbot.waitUntil(lambda: [document.undo_title for document in documents] == ["Rename"] * 7)
    assert {document.model.graph.nodes.last.name for document in documents} == set("abcdefg")
    assert [m.title for m in window.area.message_bar.messages if m.severity == "warning"] == []


def test_edits_that_were_all_undone_are_not_asked_about(qtbot, window, model_file, monkeypatch):
    document = rename_first(qtbot, window, model_file)
    document.undo()
    kill(window, monkeypatch)
    offer_recovery(qtbot, window)
    assert window.area.message_bar.messages == []
    assert list(journal_folder().iterdir()) == []


def recover_new(qtbot, window, monkeypatch):
    """Have a new model edited and the program killed, then recover it."""
    document = new_model(qtbot, window)
    rename_in(document)
    kill(window, monkeypatch)
    offer_recovery(qtbot, window)
    with qtbot.waitSignal(window.files.opened):
        press(qtbot, window, "Recover")
    again = window.tab.workspace.document
    qtbot.waitUntil(lambda: again.undo_title == "Rename")
    assert snapshot(again.model) == snapshot(document.model)
    return again


def test_a_second_kill_while_edits_are_done_again_loses_nothing(qtbot, window, monkeypatch):
    with monkeypatch.context() as dying:
        dying.setattr(recovery, "_replay", lambda _files, _tab, _leftover: kill(window, dying))
        rename_in(new_model(qtbot, window))
        kill(window, monkeypatch)
        offer_recovery(qtbot, window)
        with qtbot.waitSignal(window.files.opened):
            press(qtbot, window, "Recover")
        qtbot.waitUntil(lambda: not window.tabs())
    offer_recovery(qtbot, window)
    assert [message.title for message in window.area.message_bar.messages] == ["Unsaved edits of new"]
    with qtbot.waitSignal(window.files.opened):
        press(qtbot, window, "Recover")
    qtbot.waitUntil(lambda: window.tab.workspace.document.undo_title == "Rename")


def test_a_recovered_model_is_kept_anew_and_goes_when_it_is_given_up(qtbot, window, monkeypatch):
    document = recover_new(qtbot, window, monkeypatch)
    again, leftover = killed_now(journal_folder())  # the only one
    assert leftover.titles == ("Rename",)
    assert snapshot(again.model) == snapshot(document.model)
    window.area.remove_tab(window.tab)
    assert list(journal_folder().iterdir()) == []


def test_edits_of_a_file_that_is_open_already_come_into_its_tab(qtbot, window, model_file, monkeypatch):
    crash(qtbot, window, model_file, monkeypatch)
    tab = opened(qtbot, window, model_file)
    offer_recovery(qtbot, window)
    press(qtbot, window, "Recover")
    qtbot.waitUntil(lambda: tab.workspace.document.undo_title == "Rename first")
    assert window.tabs() == [tab]
    assert tab.modified


def test_edits_of_a_file_that_is_open_with_others_come_into_a_copy(qtbot, window, model_file, monkeypatch):
    crash(qtbot, window, model_file, monkeypatch)
    tab = opened(qtbot, window, model_file)
    offer_recovery(qtbot, window)
    with tab.workspace.document.edit("Another") as edit:
        nodes.rename_node(edit, builders.node(tab.workspace.document, "second"), "other")
    with qtbot.waitSignal(window.files.opened):
        press(qtbot, window, "Recover")
    copy = window.tab
    qtbot.waitUntil(lambda: copy.workspace.document.undo_title == "Rename first")
    assert copy.path is None
    assert copy.workspace.title == "chain recovered"
    assert tab.workspace.document.undo_title == "Another"


def test_edits_of_a_copy_of_a_saved_file_come_into_a_copy(qtbot, window, model_file, monkeypatch):
    """As when a document is compared with what its file holds."""
    with qtbot.waitSignal(window.files.opened):
        window.files.open_saved(model_file, "chain as saved")
    assert not journal_folder().exists()
    rename_in(window.tab.workspace.document, "mine")
    kill(window, monkeypatch)
    offer_recovery(qtbot, window)
    with qtbot.waitSignal(window.files.opened):
        press(qtbot, window, "Recover")
    copy = window.tab.workspace.document
    qtbot.waitUntil(lambda: copy.undo_title == "Rename")
    assert copy.path is None
    assert copy.model.graph.nodes.last.name == "mine"


def test_a_model_that_was_made_is_recovered_without_an_edit(qtbot, window, monkeypatch):
    document = new_model(qtbot, window)
    kill(window, monkeypatch)
    offer_recovery(qtbot, window)
    (message,) = window.area.message_bar.messages
    assert message.title == "Unsaved: new"
    with qtbot.waitSignal(window.files.opened):
        press(qtbot, window, "Recover")
    again = window.tab.workspace.document
    qtbot.waitUntil(lambda: again.modified)
    assert snapshot(again.model) == snapshot(document.model)
    assert len(list(journal_folder().glob("*.journal"))) == 1  # of the document that is open now


def test_two_models_made_in_the_same_second_are_both_offered(qtbot, window, monkeypatch):
    for _ in range(2):
        new_model(qtbot, window)
        abandon(window.tab.autosave.journal)
    for path in journal_folder().glob("*.journal"):
        os.utime(path, (1e9, 1e9))
    monkeypatch.setattr("onnx_workbench.model.recovery.recover.is_running", lambda *_process: False)
    offer_recovery(qtbot, window)
    assert [message.title for message in window.area.message_bar.messages[1:]] == ["Unsaved: new"] * 2
    press(qtbot, window, "Discard")
    press(qtbot, window, "Discard")
    assert offered_after_restart(qtbot, window) == []


def test_a_recovery_that_crashed_is_offered_with_a_warning(qtbot, window, model_file, monkeypatch):
    crash(qtbot, window, model_file, monkeypatch)
    (journal,) = journal_folder().glob("*.journal")
    journal.rename(f"{journal}.trying-1")
    offer_recovery(qtbot, window)
    (message,) = window.area.message_bar.messages
    assert message.detail.endswith("The program ended during the last recovery.")
    with qtbot.waitSignal(window.files.opened):
        press(qtbot, window, "Recover")
    tab = window.tab
    qtbot.waitUntil(lambda: tab.workspace.document.undo_title == "Rename first")
    assert [path for path in journal_folder().iterdir() if "trying" in path.name] == []


def test_bytes_that_cannot_be_written_are_reported_at_once(qtbot, window, model_file, monkeypatch):
    monkeypatch.setattr(
        "onnx_workbench.model.recovery.journal_files.data_path", lambda path: path
    )  # which is there already
    tab = opened(qtbot, window, model_file)
    with tab.workspace.document.edit("Weights") as edit:
        tensor = ArrayTensor(np.ones((1 << 15,), np.int64))
        edit.do(SetInitializer(tab.workspace.graph, Value("new"), tensor))
    qtbot.waitUntil(lambda: "not being kept" in tab.autosave.journal.problem)
    assert list(journal_folder().iterdir()) == []


def test_edits_that_another_version_kept_are_reported(qtbot, window, model_file, monkeypatch):
    crash(qtbot, window, model_file, monkeypatch)
    (journal,) = journal_folder().glob("*.journal")
    journal.write_text(re.sub('"version":[0-9]+', '"version":0', journal.read_text()))
    offer_recovery(qtbot, window)
    (message,) = window.area.message_bar.messages
    assert message.title == "Edits of an earlier session cannot be read"
    assert "Another version of the program wrote it. It is kept for 30 days" in message.detail
    offer_recovery(qtbot, window)
    assert len(window.area.message_bar.messages) == 1


def test_the_first_edit_that_cannot_be_kept_is_reported(window, qtbot, model_file, tmp_path, monkeypatch):
    """Without a home folder, for example: it was reported with the second edit."""
    (tmp_path / "file").touch()
    monkeypatch.setattr("onnx_workbench.viewer.files.autosave.journal_folder", lambda: tmp_path / "file" / "journals")
    rename_first(qtbot, window, model_file)
    assert [m.title for m in window.tab.message_bar.messages] == ["A crash would lose edits"]


def test_edits_are_recovered_into_a_file_still_being_read(qtbot, window, model_file, monkeypatch):
    crash(qtbot, window, model_file, monkeypatch)
    offer_recovery(qtbot, window)
    free = delay(monkeypatch, reader, "load")
    window.files.open([model_file])
    press(qtbot, window, "Recover")
    assert window.tabs() == []
    free.set()
    qtbot.waitUntil(lambda: window.tab is not None and window.tab.modified)
    assert window.tab.workspace.document.undo_title == "Rename first"
    assert len(window.tabs()) == 1
    assert window.tab.path == model_file
    qtbot.waitUntil(lambda: not window.files.pending)
    assert len(window.tabs()) == 1


def test_the_missing_part_of_a_damaged_journal_is_reported(qtbot, window, model_file, monkeypatch):
    document = rename_first(qtbot, window, model_file)
    rename_in(document, "last")
    kill(window, monkeypatch)
    (path,) = journal_folder().glob("*.journal")
    *lines, last = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines) + bytes(len(last) - 1) + b"\n")
    offer_recovery(qtbot, window)
    missing = f"Line {len(lines) + 1} of the journal is damaged: an edit or more from there on are missing."
    assert any(missing in label.text() for label in window.findChildren(QLabel))
    press(qtbot, window, "Recover")
    qtbot.waitUntil(lambda: window.tab is not None and window.tab.workspace.document.modified)
    document = window.tab.workspace.document
    assert builders.node(document, "renamed")
    report = [(message.title, message.detail) for message in window.tab.message_bar.messages]
    assert ("Recovered in part", f"1 edit restored; save to keep the result. {missing}") in report
