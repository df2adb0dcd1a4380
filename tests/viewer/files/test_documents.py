"""Opening, saving, reading again and closing, where these meet each other in time."""

import threading

import onnx
import pytest
from onnx import TensorProto, helper
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialogButtonBox, QMessageBox, QStackedWidget, QToolButton
from shiboken6 import isValid

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.steps import SetField
from onnx_workbench.model.io.reader import read as reader
from onnx_workbench.model.io.writer.save import Saving
from onnx_workbench.model.recovery import object_ids
from onnx_workbench.viewer.dialogs.save_options import SaveOptionsDialog
from onnx_workbench.viewer.files import save
from onnx_workbench.viewer.files.save import SaveOptions
from tests.model import builders
from tests.viewer.background_work import until_stopped
from tests.viewer.opening import choose, titles


@pytest.fixture
def write(tmp_path):
    """Write one node with a name to a file."""

    def write(name, file="net.onnx"):
        x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in "xy")
        graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"], name=name)], "g", [x], [y])
        path = tmp_path / file
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
        return path

    return write


def test_the_list_of_tabs_has_none_that_is_being_removed(window, qtbot, write):
    window.files.open([write("one", "one.onnx"), write("two", "two.onnx")])
    qtbot.waitUntil(lambda: len(window.area.tabs()) == 2)
    pages = window.area.findChild(QStackedWidget, "qt_tabwidget_stackedwidget")
    seen = []
    pages.currentChanged.connect(lambda _index: seen.append(window.area.tabs()))
    first, front = window.area.tabs()
    window.area.remove_tab(front)
    assert seen == [[first]]


def test_the_ids_for_the_journal_are_collected_in_tasks(window, qtbot, write, monkeypatch):
    threads, collect = [], object_ids._in_file_order
    monkeypatch.setattr(
        object_ids, "_in_file_order", lambda *given: (threads.append(threading.get_ident()), collect(*given))[1]
    )
    path = write("one")
    window.files.open([path])
    qtbot.waitUntil(lambda: len(window.area.tabs()) == 1)
    workspace = window.workspace
    with workspace.document.edit("Rename") as edit:
        edit.do(SetField(workspace.model, "producer_name", "it"))
    window.files.saver.save(window.tab)
    qtbot.waitUntil(lambda: not workspace.document.modified)
    window.files.reload(window.tab)
    qtbot.waitUntil(lambda: window.workspace is not None and window.workspace is not workspace)
    assert threads
    assert threading.get_ident() not in threads


def test_a_file_that_takes_long_to_open_holds_up_no_other(window, qtbot, write, monkeypatch):
    def names():
        return [tab.workspace.title for tab in window.area.tabs()]

    free, slow, read = threading.Event(), write("slow", "slow.onnx"), reader.load
    monkeypatch.setattr(
        reader, "load", lambda name, progress: (name != str(slow) or free.wait(30)) and read(name, progress)
    )
    window.files.open([slow, write("a", "a.onnx"), write("b", "b.onnx")])
    qtbot.waitUntil(lambda: names() == ["a.onnx", "b.onnx"])
    free.set()
    qtbot.waitUntil(lambda: names() == ["slow.onnx", "a.onnx", "b.onnx"])
    assert window.workspace.title == "b.onnx"


@pytest.fixture
def tab(window, qtbot, write):
    """A file with the node `before`, open."""
    with qtbot.waitSignal(window.files.opened):
        window.files.open([write("before")])
    return window.tab


@pytest.fixture
def slow_saves(monkeypatch):
    """Saves wait for `.set()`."""
    gate, run = threading.Event(), Saving.run

    def wait(saving, progress, **given):
        while not gate.wait(0.01):
            progress.check()
        return run(saving, progress, **given)

    monkeypatch.setattr(Saving, "run", wait)
    yield gate
    gate.set()


@pytest.fixture
def slow_reads(monkeypatch):
    """Reads wait for `.set()`."""
    gate, read = threading.Event(), reader.load

    def wait(name, progress):
        gate.wait(20)
        return read(name, progress)

    monkeypatch.setattr(reader, "load", wait)
    yield gate
    gate.set()


@pytest.fixture
def late_reads(monkeypatch):
    """What was read is given out after `.set()`."""
    gate, read = threading.Event(), reader.load
    gate.has_read = threading.Event()

    def wait(name, progress):
        model = read(name, progress)
        gate.has_read.set()
        gate.wait(20)
        return model

    monkeypatch.setattr(reader, "load", wait)
    yield gate
    gate.set()


def node(tab):
    return next(iter(tab.workspace.graph.nodes))


def rename(tab, name):
    builders.do(tab.workspace.document, SetField(node(tab), "name", name))


def name_in(path):
    return onnx.load(path).graph.node[0].name


def idle(window):
    working = any(tab.workspace.tasks.running for tab in window.tabs())
    return not (working or window.files.tasks.running or window.files.saving)


# -- saving ----------------------------------------------------------------------------------------------------


def test_saving_again_while_a_save_is_written_is_no_conflict(window, qtbot, tab, slow_saves):
    rename(tab, "first")
    window.files.saver.save(tab)
    rename(tab, "second")
    window.files.saver.save(tab)
    slow_saves.set()
    qtbot.waitUntil(lambda: idle(window))
    assert titles(tab) == []
    assert name_in(tab.path) == "second"
    assert not tab.modified


@pytest.fixture
def slow_preparing(monkeypatch):
    """Saves are prepared as those of a large model are, and take a while."""
    prepare = save.prepare

    def slow(*given, progress, **named):
        threading.Event().wait(0.2)
        return prepare(*given, progress=progress, **named)

    monkeypatch.setattr(save, "prepare", slow)


def test_a_save_holds_the_edits_made_while_it_was_prepared(window, qtbot, tab, slow_preparing):
    """An edit never waits for it; the file then holds what the program says is saved."""
    rename(tab, "saved")
    window.files.saver.save(tab)
    assert name_in(tab.path) == "before"
    assert window.files.saving
    rename(tab, "meanwhile")
    qtbot.waitUntil(lambda: not window.files.saving)
    assert name_in(tab.path) == node(tab).name == "meanwhile"
    assert not tab.modified
    tab.workspace.document.undo()
    assert tab.modified


def test_what_is_typed_on_after_a_save_was_prepared_is_not_in_it(window, qtbot, tab, slow_saves):
    for name in ("s", "saved"):
        with tab.workspace.document.edit("Rename", merge="name") as edit:
            edit.do(SetField(node(tab), "name", name))
    window.files.saver.save(tab)
    qtbot.waitUntil(lambda: window.files.saver.save_of(tab).is_announced)  # the model was read
    with tab.workspace.document.edit("Rename", merge="name") as edit:
        edit.do(SetField(node(tab), "name", "saved and more"))
    slow_saves.set()
    qtbot.waitUntil(lambda: not window.files.saving)
    assert name_in(tab.path) == "saved"
    assert tab.modified


def test_a_tab_closes_once_the_save_that_is_prepared_is_written(window, qtbot, tab, slow_preparing):
    path = tab.path
    rename(tab, "saved")
    window.files.saver.save(tab)
    window.files.close(tab)
    assert window.tabs() == [tab]
    qtbot.waitUntil(lambda: window.tabs() == [])
    assert name_in(path) == "saved"


def test_a_model_too_large_for_a_file_is_reported_beforehand(window, qtbot, tab, slow_preparing, monkeypatch):
    def refuse(*_given):
        raise ModelError("The model does not fit into one file", "")

    monkeypatch.setattr("onnx_workbench.model.io.writer.save._check_size", refuse)
    rename(tab, "saved")
    window.files.saver.save(tab)
    qtbot.waitUntil(lambda: "The model does not fit into one file" in titles(tab))
    assert not window.files.saving
    assert tab.modified


def stop_button(window):
    return next(b for b in window.status.findChildren(QToolButton) if b.toolTip() == "Stop")


def test_a_copy_holds_the_edits_made_while_it_was_prepared(window, qtbot, tab, slow_preparing, tmp_path):
    rename(tab, "saved")
    window.files.saver.save_with(tab, SaveOptions(tmp_path / "copy.onnx", copy=True))
    assert window.files.saving
    rename(tab, "meanwhile")
    qtbot.waitUntil(lambda: not window.files.saving)
    assert name_in(tmp_path / "copy.onnx") == "meanwhile"
    assert name_in(tab.path) == "before"
    assert tab.modified


def test_the_dialog_of_options_waits_until_the_save_is_prepared(window, qtbot, tab, slow_preparing, tmp_path):
    window.actions_binding.run("file.save_copy")
    (dialog,) = window.findChildren(SaveOptionsDialog)
    dialog.path.setText(str(tmp_path / "copy.onnx"))
    save = dialog.buttons.button(QDialogButtonBox.StandardButton.Save)
    qtbot.mouseClick(save, Qt.MouseButton.LeftButton)
    assert dialog.isVisible()
    assert not save.isEnabled()
    dialog.reject()
    qtbot.waitUntil(lambda: not window.files.saving)
    assert not (tmp_path / "copy.onnx").exists()


def test_a_model_too_large_is_reported_among_the_options(window, qtbot, tab, slow_preparing, tmp_path, monkeypatch):
    def refuse(*_given):
        raise ModelError("The model does not fit into one file", "")

    monkeypatch.setattr("onnx_workbench.model.io.writer.save._check_size", refuse)
    rename(tab, "saved")  # as it was it would be copied
    window.actions_binding.run("file.save_options")
    (dialog,) = window.findChildren(SaveOptionsDialog)
    dialog.path.setText(str(tmp_path / "large.onnx"))
    dialog.try_save()
    qtbot.waitUntil(lambda: "does not fit" in dialog.error.text())
    assert dialog.buttons.button(QDialogButtonBox.StandardButton.Save).isEnabled()
    assert titles(tab) == []
    qtbot.waitUntil(lambda: not window.files.saving)
    dialog.reject()


@pytest.mark.long
def test_a_save_that_is_prepared_shows_and_can_be_stopped(window, qtbot, tab, monkeypatch):
    began = threading.Event()
    monkeypatch.setattr(save, "prepare", until_stopped(began))
    rename(tab, "saved")
    window.files.saver.save(tab)
    qtbot.waitUntil(began.is_set)
    title = f"Saving {tab.path.name}"
    (task,) = (
        task for task in tab.workspace.tasks.running if task.title == title
    )  # others work out types and problems
    stop = stop_button(window)
    qtbot.waitUntil(stop.isVisible)
    qtbot.mouseClick(stop, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: task not in tab.workspace.tasks.running)
    assert not window.files.saving
    assert not stop.isVisible()
    assert name_in(tab.path) == "before"
    assert tab.modified


def test_closing_during_a_long_save_says_so_and_can_be_cancelled(window, qtbot, tab, slow_saves):
    rename(tab, "saved")
    window.files.saver.save(tab)
    window.close()
    qtbot.waitUntil(lambda: titles(tab) == [f"{tab.path.name} is still being saved"])
    choose(qtbot, tab, "Keep it open")
    slow_saves.set()
    qtbot.waitUntil(lambda: idle(window))
    assert name_in(tab.path) == "saved"
    assert window.tabs() == [tab]
    assert window.isVisible()


def test_closing_while_a_save_takes_long_can_stop_it_and_asks(window, qtbot, tab, slow_saves):
    rename(tab, "saved")
    window.files.saver.save(tab)
    window.files.close(tab)
    qtbot.waitUntil(lambda: titles(tab) == [f"{tab.path.name} is still being saved"])
    choose(qtbot, tab, "Stop saving")
    qtbot.waitUntil(lambda: bool(window.findChildren(QMessageBox)))
    assert name_in(tab.path) == "before"
    assert titles(tab) == []


def test_a_copy_being_written_is_finished_before_its_tab_closes(window, qtbot, tab, slow_saves, tmp_path):
    window.files.saver.save_with(tab, SaveOptions(tmp_path / "other.onnx"))
    assert not tab.modified, "so nothing is asked"
    window.files.close(tab)
    slow_saves.set()
    qtbot.waitUntil(lambda: not window.tabs())
    assert name_in(tmp_path / "other.onnx") == "before"


def test_the_window_closes_when_what_is_being_saved_is_written(window, qtbot, tab, slow_saves):
    rename(tab, "saved")
    window.files.saver.save(tab)
    path = tab.path
    window.close()
    assert not window.findChildren(QMessageBox), "it is being saved already"
    assert window.isVisible()
    slow_saves.set()
    qtbot.waitUntil(lambda: not isValid(window))
    assert name_in(path) == "saved"


def test_an_edit_during_the_save_before_closing_is_asked_about(window, qtbot, tab, slow_saves):
    rename(tab, "saved")
    window.files.saver.save(tab)
    window.files.close(tab)
    qtbot.waitUntil(lambda: window.files.saver.save_of(tab).is_announced)  # the model was read
    rename(tab, "more")
    slow_saves.set()
    qtbot.waitUntil(lambda: bool(window.findChildren(QMessageBox)))
    assert window.tabs() == [tab]
    assert node(tab).name == "more"


def test_a_save_that_fails_offers_another_place(window, qtbot, tab, tmp_path, monkeypatch):
    rename(tab, "mine")

    def fail(_saving, _progress, **_given):
        raise ModelError("The model could not be saved", "the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(Saving, "run", fail)
        window.files.saver.save(tab)
        qtbot.waitUntil(lambda: idle(window))
        window.files.saver.save(tab)
        qtbot.waitUntil(lambda: idle(window))
    assert titles(tab) == ["The model could not be saved"]
    assert tab.modified
    elsewhere = tmp_path / "elsewhere.onnx"
    monkeypatch.setattr("onnx_workbench.viewer.files.saver.ask_save_model", lambda *_: elsewhere)
    choose(qtbot, tab, "Save as…")
    qtbot.waitUntil(lambda: not tab.modified)
    assert name_in(elsewhere) == "mine"
    assert titles(tab) == []


@pytest.mark.long
def test_what_a_save_left_out_is_reported_until_the_next_one(window, qtbot, tab, tmp_path):
    builders.do(tab.workspace.document, SetField(node(tab), "doc_string", "why it is here"))
    window.files.saver.save_with(tab, SaveOptions(tmp_path / "net.onnxtxt"))
    qtbot.waitUntil(lambda: titles(tab) == ["net.onnxtxt is saved, but not all of it"])
    window.files.saver.save_with(tab, SaveOptions(tmp_path / "whole.onnx"))
    qtbot.waitUntil(lambda: tab.path == tmp_path / "whole.onnx")
    assert titles(tab) == []
    assert not tab.modified


@pytest.mark.long
def test_what_a_save_left_out_is_not_lost_by_closing(window, qtbot, tab, tmp_path):
    builders.do(tab.workspace.document, SetField(node(tab), "doc_string", "why it is here"))
    report = "net.onnxtxt is saved, but not all of it"
    window.files.saver.save_with(tab, SaveOptions(tmp_path / "net.onnxtxt"))
    qtbot.waitUntil(lambda: titles(tab) == [report] and idle(window))
    assert (tab.path.name, tab.modified) == ("net.onnxtxt", True)
    tab.message_bar.clear()
    window.files.close(tab)
    box = window.findChild(QMessageBox)
    assert "net.onnxtxt does not contain the whole model." in box.informativeText()
    qtbot.mouseClick(box.button(QMessageBox.StandardButton.Save), Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: titles(tab) == [report] and idle(window))
    assert window.tabs() == [tab]


def test_a_partial_copy_does_not_count_as_saved(window, qtbot, tab, tmp_path):
    builders.do(tab.workspace.document, SetField(node(tab), "doc_string", "why it is here"))
    window.files.saver.save(tab)
    qtbot.waitUntil(lambda: not tab.modified and idle(window))
    window.files.saver.save_with(tab, SaveOptions(tmp_path / "copy.onnxtxt", copy=True))
    qtbot.waitUntil(lambda: titles(tab) == ["A copy was saved as copy.onnxtxt"])
    assert not tab.modified


@pytest.mark.long
def test_why_a_save_failed_is_reported_until_the_next_one_begins(window, qtbot, tab, write, monkeypatch):
    rename(tab, "mine")

    def fail(_saving, _progress, **_given):
        raise ModelError("The model could not be saved", "the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(Saving, "run", fail)
        window.files.saver.save(tab)
        qtbot.waitUntil(lambda: idle(window))
    write("theirs")
    qtbot.waitUntil(lambda: len(titles(tab)) == 2)
    window.files.saver.save(tab)
    assert titles(tab) == ["The file was changed by another program"]


@pytest.mark.long
def test_of_a_file_that_another_program_wrote_one_message_stays(window, qtbot, tab, write):
    rename(tab, "mine")
    write("theirs")
    qtbot.waitUntil(lambda: titles(tab) == ["The file was changed by another program"])
    window.files.saver.save(tab)
    window.files.saver.save(tab)
    assert [message.detail for message in tab.message_bar.messages] == ["Saving replaces what that program wrote."]
    choose(qtbot, tab, "Replace it")
    qtbot.waitUntil(lambda: not tab.modified)
    assert name_in(tab.path) == "mine"
    assert titles(tab) == []


@pytest.mark.long
def test_a_save_that_is_stopped_closes_nothing(window, qtbot, tab, slow_saves):
    rename(tab, "mine")
    window.files.saver.save(tab)
    window.files.close(tab)
    tab.workspace.tasks.cancel_all()
    qtbot.waitUntil(lambda: bool(window.findChildren(QMessageBox)))
    assert window.tabs() == [tab]
    assert name_in(tab.path) == "before"


# -- reading again ---------------------------------------------------------------------------------------------


@pytest.mark.long
def test_edits_made_while_the_file_is_read_again_are_not_lost(window, qtbot, tab, slow_reads, write):
    write("theirs")
    qtbot.waitUntil(lambda: bool(window.files.tasks.running))
    rename(tab, "mine")
    slow_reads.set()
    qtbot.waitUntil(lambda: idle(window) and bool(titles(tab)))
    assert window.tabs() == [tab]
    assert node(tab).name == "mine"
    assert [title for title, _ in tab.message_bar.messages[-1].choices] == ["Reload", "Keep mine"]


@pytest.mark.long
def test_what_is_read_again_while_it_is_saved_is_what_was_saved(window, qtbot, tab, slow_saves):
    rename(tab, "mine")
    window.files.saver.save(tab)
    window.files.reload(tab)
    slow_saves.set()
    qtbot.waitUntil(lambda: idle(window) and window.tab is not tab)
    assert node(window.tab).name == name_in(tab.path) == "mine"


@pytest.mark.long
def test_what_is_saved_while_the_file_is_read_again_is_what_shows(window, qtbot, tab, late_reads):
    rename(tab, "mine")
    window.files.reload(tab)
    qtbot.waitUntil(late_reads.has_read.is_set)
    window.files.saver.save(tab)
    qtbot.waitUntil(lambda: not tab.modified)
    late_reads.set()
    qtbot.waitUntil(lambda: idle(window) and window.tab is not tab)
    assert node(window.tab).name == name_in(tab.path) == "mine"


@pytest.mark.long
def test_edits_made_while_a_reload_waits_for_a_save_are_not_lost(window, qtbot, tab, slow_saves):
    rename(tab, "mine")
    window.files.saver.save(tab)
    window.files.reload(tab)
    rename(tab, "more")
    slow_saves.set()
    qtbot.waitUntil(lambda: idle(window) and bool(titles(tab)))
    assert window.tabs() == [tab]
    assert node(tab).name == "more"


@pytest.mark.long
def test_a_tab_may_close_while_its_file_is_read_again_in_vain(window, qtbot, tab, slow_reads):
    window.files.reload(tab)
    tab.path.write_bytes(b"no model any more")
    window.files.close(tab)
    qtbot.waitUntil(lambda: not isValid(tab))
    slow_reads.set()
    qtbot.waitUntil(lambda: idle(window))
    assert window.tabs() == []


@pytest.mark.long
def test_a_removed_file_that_comes_back_late_is_read_again(window, qtbot, tab, write):
    tab.path.unlink()
    qtbot.waitUntil(lambda: tab.path in window.files.watcher.missing)
    write("theirs")
    qtbot.waitUntil(lambda: window.tab is not tab and node(window.tab).name == "theirs")
    write("again")
    qtbot.waitUntil(lambda: node(window.tab).name == "again")


@pytest.mark.long
def test_a_file_that_is_replaced_again_and_again_is_read_each_time(window, qtbot, tab, write):
    path = tab.path
    for name in ("one", "two", "three"):
        write(name, "fresh.onnx").replace(path)
        qtbot.waitUntil(lambda name=name: node(window.tab).name == name)


@pytest.mark.long
def test_a_change_after_a_save_of_ones_own_is_noticed(window, qtbot, tab, write):
    rename(tab, "mine")
    window.files.saver.save(tab)
    qtbot.waitUntil(lambda: idle(window) and not tab.modified)
    write("theirs", "fresh.onnx").replace(tab.path)
    qtbot.waitUntil(lambda: node(window.tab).name == "theirs")


@pytest.mark.long
def test_the_remaining_of_two_tabs_still_follows_the_file(window, qtbot, tab, write):
    with qtbot.waitSignal(window.files.opened):
        window.files.open_tab(tab.path)
    second = window.tab
    assert second is not tab
    window.files.close(second)
    write("theirs")
    qtbot.waitUntil(lambda: node(window.tab).name == "theirs")


@pytest.mark.long
def test_many_unreadable_files_are_reported_in_few_messages(window, qtbot, tmp_path):
    window.files.open([tmp_path / f"missing{number}.onnx" for number in range(200)])
    qtbot.waitUntil(lambda: not window.files.pending)
    *_, last = window.area.message_bar.messages
    assert last.title == "197 more files could not be opened"
    window.files.open([tmp_path / "other.onnx"])
    qtbot.waitUntil(lambda: not window.files.pending)
    assert window.area.message_bar.messages[-1].title.startswith("other.onnx: ")
