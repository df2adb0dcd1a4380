import onnx
import pytest
from onnx import TensorProto, helper
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDropEvent
from PySide6.QtWidgets import QApplication, QMessageBox, QToolButton
from shiboken6 import isValid

from model.steps import SetField
from viewer.actions import actions
from viewer.actions.binding import ActionBinding
from viewer.files.opening import sample_model
from viewer.icons import icon
from viewer.main_window import MainWindow
from viewer.settings import DIRECTION, RESTORE_VIEW, SHOW_NAMES, THEME, Settings
from viewer.theme import theme, themes


@pytest.fixture
def write_model(tmp_path):
    """Write a chain of Relus to a file; returns its path."""

    def write(name="net.onnx", nodes=3, graph="net"):
        names = ["x", *(f"v{i}" for i in range(nodes - 1)), "y"]
        info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["batch", 3]) for n in ("x", "y")]
        body = [helper.make_node("Relu", [names[i]], [names[i + 1]], name=f"relu_{i}") for i in range(nodes)]
        proto = helper.make_graph(body, graph, info[:1], info[1:])
        path = tmp_path / name
        onnx.save(helper.make_model(proto, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
        return path

    return write


def opened(window, qtbot, *paths):
    """Open files and wait for their tabs and drawings."""
    count = len(window.tabs())
    window.files.open(paths)
    qtbot.waitUntil(lambda: len(window.tabs()) == count + len(paths) and not window.files.pending, timeout=20_000)
    settled(window, qtbot)
    return window.tabs()[-1]


def settled(window, qtbot):
    qtbot.waitUntil(lambda: all(not tab.view.is_busy for tab in window.tabs()), timeout=20_000)


def rename(tab, name):
    with tab.workspace.document.edit("Rename node") as edit:
        edit.do(SetField(next(iter(tab.workspace.graph.nodes)), "name", name))


def run(window, action_id):
    window.actions_binding.run(action_id)


# -- the start page --------------------------------------------------------------------------------------------


def test_the_start_page_offers_the_sample_and_opens_it(window, qtbot):
    assert window.workspace is None
    assert window.start_page.isVisible()
    assert not window.start_page.recent.isVisible()
    qtbot.mouseClick(window.start_page.sample_button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: window.workspace is not None, timeout=20_000)
    settled(window, qtbot)
    assert not window.start_page.isVisible()
    assert window.workspace.document.path is None, "saving must not overwrite the file that comes with the program"
    assert window.settings.recent_files() == []
    assert window.windowTitle().startswith("digits")


def test_a_run_asked_for_while_a_model_is_read_begins_when_it_is_open(window, qtbot, write_model):
    window.actions_binding.refresh()
    key = window.actions_binding.qaction("run.run")
    assert not key.isEnabled()
    window.files.open([write_model("a.onnx")])
    window.actions_binding.refresh()
    key.trigger()
    assert window.workspace is None
    assert "Then: Run." in window.start_page.waiting.text()
    ends = [lambda: window.workspace is not None, lambda: window.workspace.results.is_current]
    qtbot.waitUntil(lambda: all(is_so() for is_so in ends), timeout=20_000)
    settled(window, qtbot)


def test_a_run_asked_for_is_forgotten_with_the_model_that_does_not_open(window, qtbot, tmp_path, write_model):
    window.files.open([tmp_path / "missing.onnx"])
    run(window, "run.run")
    qtbot.waitUntil(lambda: not window.files.pending, timeout=20_000)
    window.actions_binding.refresh()
    assert not window.actions_binding.qaction("run.run").isEnabled()
    tab = opened(window, qtbot, write_model("a.onnx"))
    assert not tab.workspace.has_runs


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
    qtbot.waitUntil(lambda: len(window.tabs()) == 1, timeout=20_000)
    assert window.tab.path == first
    run(window, "file.recent.2")
    qtbot.waitUntil(lambda: len(window.tabs()) == 2, timeout=20_000)
    assert window.tab.path == second


def test_dropped_files_open(window, qtbot, write_model):
    paths = [write_model("a.onnx"), write_model("b.onnx")]
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(path)) for path in paths])
    event = QDropEvent(
        QPointF(5, 5), Qt.DropAction.CopyAction, data, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    )
    window.dropEvent(event)
    qtbot.waitUntil(lambda: len(window.tabs()) == 2, timeout=20_000)
    assert [tab.path for tab in window.tabs()] == paths


# -- opening ---------------------------------------------------------------------------------------------------


def test_a_file_opens_once_and_is_gone_to_after_that(window, qtbot, write_model):
    first, second = write_model("a.onnx"), write_model("b.onnx")
    opened(window, qtbot, first, second)
    assert window.tab.path == second
    window.files.open([first])
    assert len(window.tabs()) == 2
    assert window.tab.path == first
    assert window.status.extent.text() == "3 nodes"


def test_a_file_that_is_no_model_becomes_a_message_and_the_window_stays_usable(window, qtbot, tmp_path, write_model):
    bad = tmp_path / "<b>bad.onnx"
    bad.write_text("<!DOCTYPE html><html>")
    window.files.open([bad])
    qtbot.waitUntil(lambda: bool(window.messages.messages), timeout=20_000)
    message = window.messages.messages[0]
    assert message.severity == "error"
    assert "<b>bad.onnx" in message.title
    assert window.start_page.isVisible()
    opened(window, qtbot, write_model())
    assert window.close_message()
    assert not window.messages.messages


def test_a_recent_file_that_is_gone_is_forgotten(window, qtbot, tmp_path):
    gone = tmp_path / "gone.onnx"
    window.settings.add_recent_file(gone)
    window.files.open([gone])
    qtbot.waitUntil(lambda: bool(window.messages.messages), timeout=20_000)
    assert window.settings.recent_files() == []


def test_a_file_that_ends_early_opens_with_a_warning(window, qtbot, tmp_path):
    whole = sample_model().read_bytes()
    cut = tmp_path / "cut.onnx"
    cut.write_bytes(whole[: len(whole) // 2])
    tab = opened(window, qtbot, cut)
    qtbot.waitUntil(lambda: bool(tab.messages.messages))
    assert tab.messages.messages[0].title == "The file ends early"


# -- closing and saving ----------------------------------------------------------------------------------------


def test_edits_mark_the_tab_and_saving_takes_the_mark_away(window, qtbot, write_model):
    path = write_model()
    tab = opened(window, qtbot, path)
    rename(tab, "renamed")
    assert window.isWindowModified()
    assert tab.modified
    run(window, "file.save")
    qtbot.waitUntil(lambda: not tab.modified, timeout=20_000)
    assert not window.isWindowModified()
    assert onnx.load(path).graph.node[0].name == "renamed"


def test_an_edit_made_while_saving_stays_unsaved(window, qtbot, write_model):
    tab = opened(window, qtbot, write_model())
    rename(tab, "first")
    run(window, "file.save")
    rename(tab, "second")
    qtbot.waitUntil(lambda: not window.files.saving, timeout=20_000)
    assert tab.modified
    tab.workspace.document.undo()
    assert not tab.modified


def answer(qtbot, window, button):
    def asking():
        return [box for box in window.findChildren(QMessageBox) if box.isVisible()]

    qtbot.waitUntil(lambda: bool(asking()))
    (box,) = asking()
    qtbot.mouseClick(box.button(button), Qt.MouseButton.LeftButton)


@pytest.mark.parametrize(
    ("button", "is_open", "name"), [("Cancel", True, "relu_0"), ("Discard", False, "relu_0"), ("Save", False, "new")]
)
def test_closing_a_modified_document_asks(window, qtbot, write_model, button, is_open, name):
    path = write_model()
    tab = opened(window, qtbot, path)
    rename(tab, "new")
    run(window, "file.close")
    answer(qtbot, window, getattr(QMessageBox.StandardButton, button))
    qtbot.waitUntil(lambda: (tab in window.tabs()) == is_open, timeout=20_000)
    assert onnx.load(path).graph.node[0].name == name


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


def test_a_window_says_that_it_closes_when_nothing_keeps_it_any_more(window, qtbot, write_model):
    heard = []
    window.closing.connect(lambda: heard.append(len(window.tabs())))
    rename(opened(window, qtbot, write_model()), "new")
    window.close()
    assert heard == []
    with qtbot.waitSignal(window.closing):  # while it goes on, so that later starts are not handed over to it
        answer(qtbot, window, QMessageBox.StandardButton.Discard)
    assert heard == [0]


# -- the file on disk ------------------------------------------------------------------------------------------


def test_a_file_changed_by_another_program_is_read_again(window, qtbot, write_model):
    path = write_model(nodes=3)
    opened(window, qtbot, path)
    write_model(nodes=5)
    qtbot.waitUntil(lambda: window.status.extent.text() == "5 nodes", timeout=20_000)
    assert len(window.tabs()) == 1
    assert [m.severity for m in window.tab.messages.messages] == ["info"]


def test_a_modified_document_is_not_reloaded_without_asking(window, qtbot, write_model):
    path = write_model(nodes=3)
    tab = opened(window, qtbot, path)
    rename(tab, "mine")
    write_model(nodes=5)
    qtbot.waitUntil(lambda: bool(tab.messages.messages), timeout=20_000)
    message = tab.messages.messages[0]
    assert [title for title, _ in message.choices] == ["Reload", "Keep mine"]
    assert next(iter(tab.workspace.graph.nodes)).name == "mine"
    run(window, "file.save")
    assert [title for title, _ in tab.messages.messages[-1].choices] == ["Replace it", "Save as…"]
    assert len(onnx.load(path).graph.node) == 5, "nothing was overwritten without asking"
    message.choices[0][1]()
    qtbot.waitUntil(lambda: window.status.extent.text() == "5 nodes", timeout=20_000)


def test_saving_does_not_count_as_another_programs_change(window, qtbot, write_model):
    other = opened(window, qtbot, write_model("other.onnx"))
    tab = opened(window, qtbot, write_model())
    rename(tab, "mine")
    run(window, "file.save")
    qtbot.waitUntil(lambda: not tab.modified, timeout=20_000)
    write_model("other.onnx", nodes=5)
    qtbot.waitUntil(lambda: other not in window.tabs())  # a change that came after the save is noticed
    assert tab in window.tabs()
    assert tab.messages.messages == []


def test_reload_keeps_the_graph_that_was_shown(window, qtbot, tmp_path):
    copy = tmp_path / "copy.onnx"
    copy.write_bytes(sample_model().read_bytes())
    tab = opened(window, qtbot, copy)
    tab.workspace.show(tab.workspace.model.functions[0].body)
    run(window, "file.reload")
    qtbot.waitUntil(lambda: window.tab is not tab, timeout=20_000)
    assert window.workspace.graph is window.workspace.model.functions[0].body


# -- around the graph ------------------------------------------------------------------------------------------


def test_the_breadcrumb_leads_in_and_out(window, qtbot, tmp_path):
    copy = tmp_path / "copy.onnx"
    copy.write_bytes(sample_model().read_bytes())
    tab = opened(window, qtbot, copy)
    workspace = tab.workspace
    assert [text for text, _ in tab.breadcrumb.parts] == ["copy.onnx", "digits"]
    workspace.show(workspace.model.functions[0].body)
    assert [text for text, _ in tab.breadcrumb.parts] == ["copy.onnx", "function sample.images::Normalize"]
    run(window, "go.back")
    assert workspace.graph is workspace.model.graph
    run(window, "go.forward")
    run(window, "go.up")
    assert workspace.graph is workspace.model.graph


def test_the_breadcrumb_names_the_groups_and_bodies_around_the_selection(window, qtbot):
    tab = opened(window, qtbot, sample_model())
    workspace = tab.workspace

    def trail():
        return [text for text, _ in tab.breadcrumb.parts][1:]

    def part(text):
        QApplication.processEvents()  # shows what was just made
        found = tab.breadcrumb.findChildren(QToolButton)
        return next(button for button in found if button.isVisible() and button.text() == text)

    tab.view.set_option_groups(True)
    settled(window, qtbot)
    conv = next(node for node in workspace.graph.nodes if "block" in node.name)
    workspace.reveal(conv)
    settled(window, qtbot)
    assert trail() == ["digits", "block", "first"]
    qtbot.mouseClick(part("block"), Qt.MouseButton.LeftButton)
    assert {node.name.split("/")[1] for node in workspace.selection.nodes} == {"block"}
    assert len(workspace.selection.nodes) > 1
    workspace.selection.set([workspace.graph])
    assert trail() == ["digits"]
    qtbot.waitUntil(lambda: not [b for b in tab.breadcrumb.findChildren(QToolButton) if b.text() == "block"])


def test_the_beginning_stays_in_view_when_a_message_takes_room(window, qtbot, write_model):
    tab = opened(window, qtbot, write_model(nodes=60))

    def top():
        scene = tab.view.scene
        return tab.view.viewport.to_widget(0, scene.rect(0)[1])[1]

    before = top()
    tab.workspace.message("warning", "Something", "of two\nlines")
    qtbot.waitUntil(lambda: tab.messages.height() > 20)
    assert top() == pytest.approx(before, abs=2)
    tab.view.pan_by(0, 300)
    place = tab.view.mapTo(window, QPoint(0, tab.view.height() // 2))

    def at_place():
        return tab.view.viewport.to_scene(0, tab.view.mapFrom(window, place).y())[1]

    moved = at_place()
    tab.workspace.message("warning", "Something else")
    QApplication.processEvents()
    assert at_place() == pytest.approx(moved, abs=2), "what is pointed at stays there"


def test_the_status_line_follows_the_document_in_front(window, qtbot, write_model):
    first = opened(window, qtbot, write_model("a.onnx", nodes=2))
    opened(window, qtbot, write_model("b.onnx", nodes=4))
    assert window.status.extent.text() == "4 nodes"
    window.activate(first)
    assert window.status.extent.text() == "2 nodes"
    first.workspace.selection.set([next(iter(first.workspace.graph.nodes))])
    assert window.status.selection.text() == "Relu  relu_0"
    first.view.zoom_to(0.5)
    assert window.status.zoom.text() == "50 %"
    first.workspace.set_run_state("ran in 3 ms")
    assert window.status.run_state.text() == "ran in 3 ms"


def test_a_long_job_shows_progress_with_stop_and_a_short_one_nothing(window, qtbot, write_model):
    tab = opened(window, qtbot, write_model())

    def spin(progress):
        while True:
            progress.report(1, 4, "halfway")

    tab.workspace.jobs.start("Think", spin)
    assert not window.status.work.isVisible()
    # Work that began with the document (types, drawing) may still be the one that is shown.
    qtbot.waitUntil(lambda: window.status.work.text.text() == "Think halfway")
    assert window.status.work.isVisible()
    qtbot.mouseClick(window.status.work.stop, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: not window.status.work.isVisible())


def test_switches_reach_settings_and_back(window, qtbot, write_model):
    opened(window, qtbot, write_model())
    run(window, "view.names")
    run(window, "view.direction")
    assert window.settings.get(SHOW_NAMES) is True
    assert window.settings.get(DIRECTION) == "right"
    window.actions_binding.refresh()
    assert window.actions_binding.qaction("view.names").isChecked()
    settled(window, qtbot)


def test_the_theme_can_be_switched(window, qtbot, write_model):
    opened(window, qtbot, write_model())
    run(window, "view.theme.dark")
    assert theme().name == "dark"
    stop = window.status.work.stop
    assert stop.icon().cacheKey() == icon("stop").cacheKey(), "it would be dark on dark ground"
    run(window, "view.theme.light")
    assert theme().name == "light"
    window.settings.set(THEME, "system")
    assert themes().mode == "system"


def test_undo_names_the_edit(window, qtbot, write_model):
    tab = opened(window, qtbot, write_model())
    window.actions_binding.refresh()
    undo = window.actions_binding.qaction("edit.undo")
    assert not undo.isEnabled()
    rename(tab, "new & better")
    window.actions_binding.refresh()
    assert undo.isEnabled()
    assert undo.text() == "&Undo Rename node"
    run(window, "edit.undo")
    assert next(iter(tab.workspace.graph.nodes)).name == "relu_0"
    run(window, "edit.redo")
    assert next(iter(tab.workspace.graph.nodes)).name == "new & better"


def test_keys_of_the_graph_work_only_on_the_graph(window, qtbot, write_model):
    tab = opened(window, qtbot, write_model())
    window.activateWindow()
    tab.view.setFocus()
    tab.view.zoom_to(0.3)
    qtbot.keyClick(tab.view, Qt.Key.Key_Backspace, Qt.KeyboardModifier.ShiftModifier)
    assert tab.view.zoom == pytest.approx(1.0)


def test_tracing_selects_everything_before_or_after(window, qtbot, write_model):
    tab = opened(window, qtbot, write_model(nodes=4))
    nodes = list(tab.workspace.graph.nodes)
    tab.workspace.selection.set([nodes[1]])
    run(window, "go.trace_up")
    assert set(tab.workspace.selection.items) == set(nodes[:2])
    qtbot.waitUntil(lambda: tab.view.scene is not None)
    assert tab.view.is_traced, "the rest is dimmed"
    qtbot.keyClick(tab.view, Qt.Key.Key_Escape)
    assert not tab.view.is_traced
    tab.workspace.selection.set([nodes[1]])
    run(window, "go.trace_down")
    assert set(tab.workspace.selection.items) == set(nodes[1:])
    run(window, "go.producers")
    assert set(tab.workspace.selection.items) <= set(nodes)


def test_properties_are_of_the_graph_first_and_of_the_model_then(window, qtbot, write_model):
    tab = opened(window, qtbot, write_model())
    run(window, "go.properties")
    assert tab.workspace.selection.current is tab.workspace.graph
    run(window, "go.properties")
    assert tab.workspace.selection.current is tab.workspace.model


def test_copying_names(window, qtbot, write_model):
    tab = opened(window, qtbot, write_model())
    tab.workspace.selection.set(list(tab.workspace.graph.nodes)[:2])
    run(window, "edit.copy_name")
    assert QApplication.clipboard().text() == "relu_0\nrelu_1"


def test_the_palette_finds_and_runs_an_action(window, qtbot, write_model):
    tab = opened(window, qtbot, write_model())
    tab.view.zoom_to(0.25)
    run(window, "help.palette")
    palette = window.palette_popup
    assert len(palette.shown()) >= len([one for one in actions() if one.label is None])
    qtbot.keyClicks(palette.field, "actual")
    assert palette.shown()[0].title == "Actual Size"
    qtbot.keyClick(palette.field, Qt.Key.Key_Return)
    assert not palette.isVisible()
    assert tab.view.zoom == pytest.approx(1.0)
    run(window, "help.palette")
    assert palette.shown()[0].title == "Actual Size", "what was used last stands first"
    qtbot.keyClicks(palette.field, "qqqq")
    assert palette.shown() == []
    qtbot.keyClick(palette.field, Qt.Key.Key_Return)
    palette.close()


def test_disabled_actions_stand_last_in_the_palette_and_do_nothing(window, qtbot):
    run(window, "help.palette")
    palette = window.palette_popup
    shown = palette.shown()
    assert [entry.enabled for entry in shown] == sorted((entry.enabled for entry in shown), reverse=True)
    qtbot.keyClicks(palette.field, "undo")
    qtbot.keyClick(palette.field, Qt.Key.Key_Return)
    assert palette.isVisible()
    palette.close()


def test_the_context_menu_has_what_fits(window, qtbot, write_model):
    tab = opened(window, qtbot, write_model())
    tab.workspace.selection.set([next(iter(tab.workspace.graph.nodes))])
    menu = window.actions_binding.context_menu("node", window)
    ids = {action.objectName() for action in menu.actions()}
    assert {"edit.copy_name", "view.fit_selection", "go.trace_down"} <= ids
    assert "go.enter" not in ids, "a Relu holds nothing to enter"
    menu.deleteLater()
    tab.workspace.open_menu(window.mapToGlobal(QPoint(50, 50)), "node")
    popup = QApplication.activePopupWidget()
    assert popup is not None
    popup.close()


@pytest.mark.parametrize("one", actions(), ids=lambda one: one.id)
@pytest.mark.parametrize("document", ["start page", "open"])
def test_every_action_can_be_run_without_a_selection(window, qtbot, monkeypatch, write_model, tmp_path, one, document):
    """On the start page and on a document; files are chosen by a dialog that gives a fixed answer."""
    monkeypatch.setattr(
        "PySide6.QtWidgets.QFileDialog.getOpenFileNames", lambda *_: ([str(write_model("other.onnx"))], "")
    )
    for dialog in ("getSaveFileName", "getOpenFileName"):
        monkeypatch.setattr(f"PySide6.QtWidgets.QFileDialog.{dialog}", lambda *_, **__: ("", ""))
    monkeypatch.setattr("PySide6.QtWidgets.QFileDialog.getExistingDirectory", lambda *_, **__: "")
    monkeypatch.setattr("PySide6.QtGui.QDesktopServices.openUrl", lambda _: True)
    if document == "open":
        opened(window, qtbot, write_model())
    with qtbot.captureExceptions() as exceptions:
        run(window, one.id)
        qtbot.waitUntil(lambda: not window.files.jobs.running, timeout=20_000)
        if isValid(window):
            settled(window, qtbot)
    assert exceptions == []
    for widget in QApplication.topLevelWidgets():
        if widget is not window and widget.isVisible():
            widget.close()


def test_trigger_from_a_workspace_runs_the_action(window, qtbot, write_model):
    tab = opened(window, qtbot, write_model())
    tab.workspace.trigger("edit.select_all")
    assert len(tab.workspace.selection) == 3


@pytest.mark.parametrize(
    ("action_id", "suffix"), [("export", "png"), ("export_view", "pdf"), ("export_selection", "svg")]
)
def test_pictures_are_written(window, qtbot, monkeypatch, write_model, tmp_path, action_id, suffix):
    target = tmp_path / f"picture.{suffix}"
    monkeypatch.setattr("PySide6.QtWidgets.QFileDialog.getSaveFileName", lambda *_: (str(target), ""))
    tab = opened(window, qtbot, write_model())
    tab.workspace.selection.set(list(tab.workspace.graph.nodes)[:2])
    run(window, f"file.{action_id}")
    qtbot.waitUntil(lambda: bool(tab.messages.messages), timeout=20_000)
    assert tab.messages.messages[0].title.startswith(f"picture.{suffix} is written")
    assert target.read_bytes().startswith({"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<"}[suffix])
    if suffix == "svg":
        assert target.read_text(encoding="utf-8").count("Relu") == 2, "only what was selected"


# -- what is remembered ----------------------------------------------------------------------------------------


def test_the_place_in_a_file_is_remembered_between_starts(qtbot, tmp_path):
    copy = tmp_path / "copy.onnx"
    copy.write_bytes(sample_model().read_bytes())

    def session(use):
        window = MainWindow(Settings())
        window.show()
        tab = opened(window, qtbot, copy)
        result = use(window, tab)
        window.close()
        qtbot.wait(0)
        return result

    def leave(_window, tab):
        tab.workspace.show(tab.workspace.model.functions[0].body)

    session(leave)
    assert session(lambda _, tab: tab.workspace.graph is tab.workspace.model.functions[0].body)
    assert session(lambda window, _: window.settings.set(RESTORE_VIEW, False)) is None
    assert session(lambda _, tab: tab.workspace.graph is tab.workspace.model.graph)


def test_the_windows_size_is_remembered(qtbot):
    first = MainWindow(Settings())
    first.resize(613, 487)
    first.show()
    size = first.size()
    assert size.height() == 487
    first.close()
    second = MainWindow(Settings())
    assert second.size() == size
    second.close()
    qtbot.wait(0)


def test_every_window_binds_every_action(window):
    binding = ActionBinding(window)
    assert all(binding.qaction(one.id) for one in actions())
    assert len(binding.palette_entries(binding.run)) >= len([one for one in actions() if one.label is None])


def test_errors_are_counted_in_the_status_line_and_lead_to_the_list(window, qtbot, write_model):
    from model.attributes import make_attribute
    from model.steps import SetAttribute

    tab = opened(window, qtbot, write_model())
    document, button = tab.workspace.document, window.status.problems
    qtbot.waitUntil(lambda: tab.workspace.problems.finished, timeout=20_000)
    assert not button.isVisible()
    node = document.model.graph.nodes.first
    with document.edit("Break") as edit:
        edit.do(SetAttribute(node, "nonsense", make_attribute("nonsense", 1)))
    qtbot.waitUntil(lambda: button.isVisible() and button.text() == "1 error")
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    assert window.docks.is_open("problems")
    document.undo()
    qtbot.waitUntil(lambda: not button.isVisible())
