import pytest
from PySide6.QtCore import QEvent, QObject, QPoint, Qt
from PySide6.QtWidgets import QApplication, QMenu, QTabWidget, QToolButton, QTreeView
from shiboken6 import isValid

from onnx_workbench.model import schemas
from onnx_workbench.model.history.steps import SetField
from onnx_workbench.model.io.writer.save import save
from onnx_workbench.model.ir.types import ElementType, Shape, TensorType
from onnx_workbench.viewer.actions import actions
from onnx_workbench.viewer.actions.binding import ActionBinding
from onnx_workbench.viewer.canvas.scene.drawing import Kind
from onnx_workbench.viewer.files.open_model import sample_model
from onnx_workbench.viewer.main_window import MainWindow
from onnx_workbench.viewer.popups.operator_palette import OperatorEntry
from onnx_workbench.viewer.program.settings import DIRECTION, LAST_FOLDER, RESTORE_VIEW, SHOW_NAMES, THEME, Settings
from onnx_workbench.viewer.style.icons import icon
from onnx_workbench.viewer.style.theme import theme, themes
from onnx_workbench.viewer.workflows.insert_operator import insert
from tests.viewer.canvas.graphs import Graphs
from tests.viewer.opening import opened, rename, run, settled
from tests.viewer.run.run_actions import idle

# -- around the graph ------------------------------------------------------------------------------------------


def test_the_breadcrumb_leads_in_and_out(window, qtbot, tmp_path):
    copy = tmp_path / "copy.onnx"
    copy.write_bytes(sample_model().read_bytes())
    tab = opened(window, qtbot, copy)
    workspace = tab.workspace
    assert [text for text, _ in tab.breadcrumb.parts] == ["copy.onnx", "digits"]
    workspace.navigation.show(workspace.model.functions[0].body)
    assert [text for text, _ in tab.breadcrumb.parts] == ["copy.onnx", "function sample.images::Normalize"]
    run(window, "go.back")
    assert workspace.graph is workspace.model.graph
    run(window, "go.forward")
    run(window, "go.up")
    assert workspace.graph is workspace.model.graph


@pytest.mark.long
def test_the_breadcrumb_names_groups_and_bodies_around(window, qtbot):
    tab = opened(window, qtbot, sample_model())
    workspace = tab.workspace

    def trail():
        return [text for text, _ in tab.breadcrumb.parts][1:]

    def part(text):
        QApplication.processEvents()  # shows what was just made
        found = tab.breadcrumb.findChildren(QToolButton)
        return next(button for button in found if button.isVisible() and button.text() == text)

    tab.view.expansion.set_grouped(True)
    settled(window, qtbot)
    conv = next(node for node in workspace.graph.nodes if "block" in node.name)
    workspace.navigation.reveal(conv)
    settled(window, qtbot)
    assert trail() == ["digits", "block", "first"]
    qtbot.mouseClick(part("block"), Qt.MouseButton.LeftButton)
    assert {node.name.split("/")[1] for node in workspace.selection.nodes} == {"block"}
    assert len(workspace.selection.nodes) > 1
    workspace.selection.set([workspace.graph])
    assert trail() == ["digits"]
    qtbot.waitUntil(lambda: not [b for b in tab.breadcrumb.findChildren(QToolButton) if b.text() == "block"])


@pytest.mark.long
def test_the_beginning_stays_in_view_when_a_message_takes_room(window, qtbot, write_model):
    tab = opened(window, qtbot, write_model(nodes=600))

    def top():
        scene = tab.view.scene
        return tab.view.viewport.to_widget(0, scene.rect(0)[1])[1]

    before = top()
    tab.workspace.messages.show("warning", "Something", "of two\nlines")
    qtbot.waitUntil(lambda: tab.message_bar.height() > 20)
    assert top() == pytest.approx(before, abs=2)
    tab.view.pan_by(0, 300)
    place = tab.view.mapTo(window, QPoint(0, tab.view.height() // 2))

    def at_place():
        return tab.view.viewport.to_scene(0, tab.view.mapFrom(window, place).y())[1]

    moved = at_place()
    tab.workspace.messages.show("warning", "Something else")
    QApplication.processEvents()
    assert at_place() == pytest.approx(moved, abs=2), "what is pointed at stays there"


@pytest.mark.long
def test_the_status_line_follows_the_document_in_front(window, qtbot, write_model):
    first = opened(window, qtbot, write_model("a.onnx", nodes=2))
    opened(window, qtbot, write_model("b.onnx", nodes=4))
    assert window.status.extent.text() == "4 nodes"
    window.area.activate(first)
    assert window.status.extent.text() == "2 nodes"
    first.workspace.selection.set([next(iter(first.workspace.graph.nodes))])
    assert window.status.selection.text() == "Relu  relu_0"
    first.view.zoom_to(0.5)
    assert window.status.zoom.text() == "50 %"
    first.workspace.set_run_state("ran in 3 ms")
    assert window.status.run_state.text() == "ran in 3 ms"


@pytest.mark.long
def test_the_type_of_the_selection_follows_edits(window, qtbot, write_model):
    tab = opened(window, qtbot, write_model(nodes=3))
    workspace, graph = tab.workspace, tab.workspace.graph
    inner = next(iter(graph.nodes)).outputs[0]
    workspace.selection.set([inner])
    for size in (7, 11):
        with workspace.document.edit("Change the shape") as edit:
            edit.do(SetField(graph.inputs[0], "type", TensorType(ElementType.FLOAT, Shape((size,)))))
        qtbot.waitUntil(lambda size=size: window.status.selection.text() == f"value {inner.name}  float [{size}]")
    workspace.document.undo()
    qtbot.waitUntil(lambda: window.status.selection.text() == f"value {inner.name}  float [7]")


class Requests(QObject):
    """Counts how often a widget was asked to lay out anew what is in it."""

    def __init__(self, widget):
        super().__init__(widget)
        self.count = 0
        widget.installEventFilter(self)

    def eventFilter(self, _watched, event):
        self.count += event.type() == QEvent.Type.LayoutRequest
        return False


@pytest.mark.long
def test_a_new_status_text_does_not_lay_out_the_window(window, qtbot, write_model):
    tab, status = opened(window, qtbot, write_model()), window.status

    def say(text, zoom):
        """Where the other words stand then."""
        tab.workspace.set_run_state(text)
        status.show_zoom(zoom)
        idle(qtbot, tab.workspace)
        return [label.geometry() for label in (status.selection, status.run_state, status.extent, status.zoom)]

    places = say("Ran 176 of 176 nodes in 0.7 s", 12.5)
    requests = Requests(status)  # which would ask the window
    for text, zoom in (("Running…", 1.0), ("Ran 2 of 176 nodes in 20 ms", 0.375)):
        assert say(text, zoom) == places
        assert status.run_state.sizeHint().width() <= status.run_state.width()
    assert requests.count == 0
    long = "Paused before 'a node whose name is longer than all that was said before'"
    say(long, 1.0)
    assert status.run_state.text() == long
    assert places[1].width() < status.run_state.width() <= window.width() / 4  # the rest is cut, and seen on hover
    say("", None)
    assert status.run_state.width() < places[1].width() / 4
    assert status.zoom.width() < places[3].width() / 4


@pytest.mark.long
def test_only_a_long_task_shows_progress_with_stop(window, qtbot, write_model):
    tab = opened(window, qtbot, write_model())

    def spin(progress):
        while True:
            progress.report(1, 4, "halfway")

    tab.workspace.tasks.start("Think", spin)
    assert not window.status.work.isVisible()
    # Work that began with the document (types, drawing) may still be the one that is shown.
    qtbot.waitUntil(lambda: window.status.work.text.text() == "Think · halfway")
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


@pytest.mark.long
def test_the_theme_can_be_switched(window, qtbot, write_model):
    opened(window, qtbot, write_model())
    run(window, "view.theme.dark")
    assert theme().name == "dark"
    stop = window.status.work.stop
    assert stop.icon().cacheKey() == icon("stop").cacheKey(), "it would be dark on dark ground"
    with_icon = [one for one in actions() if one.icon]
    qaction = window.actions_binding.qaction
    qtbot.waitUntil(lambda: all(qaction(one.id).icon().cacheKey() == icon(one.icon).cacheKey() for one in with_icon))
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


def test_a_click_on_a_tab_lets_keys_go_to_its_graph(window, qtbot, write_model):
    first = opened(window, qtbot, write_model("first.onnx"))
    opened(window, qtbot, write_model("second.onnx"))
    window.activateWindow()
    window.findChild(QTreeView).setFocus()
    assert window.findChild(QTreeView).hasFocus()
    bar = window.findChild(QTabWidget).tabBar()
    qtbot.mouseClick(bar, Qt.MouseButton.LeftButton, pos=bar.tabRect(0).center())
    qtbot.waitUntil(first.view.hasFocus)


def test_tracing_selects_everything_before_or_after(window, qtbot, write_model):
    tab = opened(window, qtbot, write_model(nodes=4))
    nodes = list(tab.workspace.graph.nodes)
    tab.workspace.selection.set([nodes[1]])
    run(window, "go.trace_up")
    assert set(tab.workspace.selection.items) == set(nodes[:2])
    qtbot.waitUntil(lambda: tab.view.scene is not None)
    assert tab.view.highlighter.is_traced, "the rest is dimmed"
    qtbot.keyClick(tab.view, Qt.Key.Key_Escape)
    assert not tab.view.highlighter.is_traced
    tab.workspace.selection.set([nodes[1]])
    run(window, "go.trace_down")
    assert set(tab.workspace.selection.items) == set(nodes[1:])
    run(window, "go.producers")
    assert set(tab.workspace.selection.items) <= set(nodes)


def test_the_key_for_properties_shows_those_of_the_model_each_time(window, qtbot, write_model):
    tab = opened(window, qtbot, write_model())
    for _ in range(2):
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
    assert len(palette.matching()) >= len([one for one in actions() if one.label is None])
    qtbot.keyClicks(palette.field, "actual")
    assert palette.matching()[0].title == "Actual Size"
    qtbot.keyClick(palette.field, Qt.Key.Key_Return)
    assert not palette.isVisible()
    assert tab.view.zoom == pytest.approx(1.0)
    run(window, "help.palette")
    assert palette.matching()[0].title == "Actual Size", "what was used last stands first"
    qtbot.keyClicks(palette.field, "qqqq")
    assert palette.matching() == []
    qtbot.keyClick(palette.field, Qt.Key.Key_Return)
    palette.close()


@pytest.mark.long
def test_an_action_is_clicked_in_the_palette(window, qtbot, write_model):
    tab = opened(window, qtbot, write_model())
    tab.view.zoom_to(0.25)
    run(window, "help.palette")
    palette = window.palette_popup
    qtbot.keyClicks(palette.field, "actual")
    at = palette.list.visualRect(palette.model.index(0)).center()
    qtbot.mouseClick(palette.list.viewport(), Qt.MouseButton.LeftButton, pos=at)
    assert not palette.isVisible()
    assert tab.view.zoom == pytest.approx(1.0)


def test_the_palette_runs_before_it_shows_the_panel_of_that_name(window, qtbot, write_model):
    opened(window, qtbot, write_model())
    run(window, "help.palette")
    palette = window.palette_popup
    qtbot.keyClicks(palette.field, "run")
    assert [(entry.title, entry.where) for entry in palette.matching()[:2]] == [
        ("Run", "Run"),
        ("Run", "View › Panels"),
    ]
    palette.close()


def test_disabled_actions_stand_last_in_the_palette_and_do_nothing(window, qtbot):
    run(window, "help.palette")
    palette = window.palette_popup
    shown = palette.matching()
    assert [entry.enabled for entry in shown] == sorted((entry.enabled for entry in shown), reverse=True)
    qtbot.keyClicks(palette.field, "undo")
    qtbot.keyClick(palette.field, Qt.Key.Key_Return)
    assert palette.isVisible()
    palette.close()


def test_the_context_menu_has_what_fits(window, qtbot, write_model):
    tab = opened(window, qtbot, write_model())
    tab.workspace.selection.set([next(iter(tab.workspace.graph.nodes))])
    menu = window.actions_binding.context_menu("node", window)
    parts = [menu, *menu.findChildren(QMenu)]
    ids = {action.objectName() for part in parts for action in part.actions()}
    assert {"edit.copy_name", "view.fit_selection", "go.trace_down"} <= ids
    assert menu.sizeHint().height() < 640, "it fits on a screen of 700 px"
    for part in parts:
        letters = [text[text.index("&") + 1].lower() for text in (a.text() for a in part.actions()) if "&" in text]
        assert len(set(letters)) == len(letters), letters
    assert "go.enter" not in ids, "a Relu holds nothing to enter"
    menu.deleteLater()
    tab.workspace.open_menu(window.mapToGlobal(QPoint(50, 50)), "node")
    popup = QApplication.activePopupWidget()
    assert popup is not None
    popup.close()


@pytest.mark.long
def test_shift_f10_opens_the_context_menu_of_what_has_the_focus(window, qtbot, write_model):
    tab = opened(window, qtbot, write_model())
    tab.workspace.selection.set([next(iter(tab.workspace.graph.nodes))])
    for widget in (tab.view, window.docks.open("outline").tree):
        widget.setFocus()
        window._open_menu_of_focus()
        popup = QApplication.activePopupWidget()
        assert popup is not None
        popup.close()


def test_a_save_shows_in_the_status_line(window, qtbot, write_model):
    tab = opened(window, qtbot, write_model("a.onnx"))
    rename(tab, "other")
    run(window, "file.save")
    qtbot.waitUntil(lambda: window.status.currentMessage() == f"Saved {tab.path}")


def test_a_file_that_may_not_be_written_to_is_named_so_at_once(window, qtbot, monkeypatch, write_model):
    monkeypatch.setattr("os.access", lambda *_: False)
    opened(window, qtbot, write_model("a.onnx"))
    assert window.windowTitle().startswith("a.onnx")
    assert "(read-only)" in window.windowTitle()


def test_home_shows_the_beginning_at_the_present_zoom(window, qtbot, write_model):
    tab = opened(window, qtbot, write_model())
    tab.view.centre_at(0.35, 4000.0, 4000.0)
    run(window, "view.beginning")
    assert tab.view.zoom == pytest.approx(0.35)
    left, top, right, bottom = tab.view.viewport.area
    x, y, width, height = tab.view.scene.rect(0)
    assert left < x + width / 2 < right
    assert top < y + height / 2 < bottom


def test_file_dialogs_start_beside_the_model_in_front(window, qtbot, write_model, tmp_path):
    (tmp_path / "deep").mkdir()
    path = write_model("a.onnx").rename(tmp_path / "deep" / "a.onnx")
    opened(window, qtbot, path)
    assert window.settings.get(LAST_FOLDER) == str(tmp_path / "deep")


@pytest.mark.long
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
        qtbot.waitUntil(lambda: not window.files.tasks.running)
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


@pytest.mark.long
@pytest.mark.parametrize(
    ("action_id", "suffix"), [("export", "png"), ("export_view", "pdf"), ("export_selection", "svg")]
)
def test_pictures_are_written(window, qtbot, monkeypatch, write_model, tmp_path, action_id, suffix):
    target = tmp_path / f"picture.{suffix}"
    monkeypatch.setattr("PySide6.QtWidgets.QFileDialog.getSaveFileName", lambda *_: (str(target), ""))
    tab = opened(window, qtbot, write_model())
    tab.workspace.selection.set(list(tab.workspace.graph.nodes)[:2])
    run(window, f"file.{action_id}")
    qtbot.waitUntil(lambda: bool(tab.message_bar.messages))
    assert tab.message_bar.messages[0].title.startswith(f"picture.{suffix} is written")
    assert target.read_bytes().startswith({"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<"}[suffix])
    if suffix == "svg":
        assert target.read_text(encoding="utf-8").count("Relu") == 2, "only what was selected"


# -- what is remembered ----------------------------------------------------------------------------------------


@pytest.mark.long
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
        tab.workspace.navigation.show(tab.workspace.model.functions[0].body)

    def expand(_window, tab):
        boxes = tab.view.scene.boxes
        tab.view.expansion.expand(next(index for index, box in enumerate(boxes) if "+" in box.buttons))

    def is_expanded(_window, tab):
        qtbot.waitUntil(lambda: tab.view.scene is not None and not tab.view.scenes.is_busy)
        return Kind.CONTAINER in tab.view.scene.kinds

    assert not session(is_expanded)
    session(expand)
    assert session(is_expanded)
    session(leave)
    assert session(lambda _, tab: tab.workspace.graph is tab.workspace.model.functions[0].body)
    assert session(lambda window, _: window.settings.set(RESTORE_VIEW, False)) is None
    assert session(lambda _, tab: tab.workspace.graph is tab.workspace.model.graph)


@pytest.mark.long
@pytest.mark.parametrize("moves", [False, True])
def test_an_unmoved_view_shows_the_beginning_when_resized(qtbot, write_model, moves):
    path = write_model(nodes=600)
    first, second = MainWindow(Settings()), MainWindow(Settings())
    tops = []
    for window, height in ((first, 900), (second, 500)):
        window.resize(1000, height)
        window.show()
        tab = opened(window, qtbot, path)
        settled(window, qtbot)
        if moves and window is first:
            tab.view.pan_by(0, 400)
        tops.append(tab.view.viewport.to_widget(*tab.view.scene.rect(0)[:2])[1])
        window.close()
    assert tops[0] < 0 if moves else 0 < tops[0] < 60
    assert tops[1] < 0 if moves else tops[1] == pytest.approx(tops[0], abs=2)


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
    binding = ActionBinding(window.actions_binding.context)
    assert all(binding.qaction(one.id) for one in actions())
    assert len(binding.palette_entries(binding.run)) >= len([one for one in actions() if one.label is None])


def test_errors_are_counted_in_the_status_line_and_lead_to_the_list(window, qtbot, write_model):
    from onnx_workbench.model.history.steps import SetAttribute
    from onnx_workbench.model.ir.attributes import make_attribute

    tab = opened(window, qtbot, write_model())
    document, button = tab.workspace.document, window.status.problems
    qtbot.waitUntil(lambda: tab.workspace.problems.finished)
    assert not button.isVisible()
    node = document.model.graph.nodes.first
    with document.edit("Break") as edit:
        edit.do(SetAttribute(node, "nonsense", make_attribute("nonsense", 1)))
    qtbot.waitUntil(lambda: button.isVisible() and button.text() == "1 error")
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    assert window.docks.is_open("problems")
    document.undo()
    qtbot.waitUntil(lambda: not button.isVisible())


@pytest.mark.long
def test_the_marks_of_a_search_go_with_it(window, qtbot, write_model):
    tab = opened(window, qtbot, write_model(nodes=6))
    marks = tab.workspace.highlights.marks
    find = window.docks.open("find")
    find.box.setText("relu_3")
    qtbot.waitUntil(lambda: [node.name for node in marks.get("matches", ())] == ["relu_3"])
    window.docks.open("outline")
    qtbot.waitUntil(lambda: not marks["matches"])
    window.docks.open("find")
    qtbot.waitUntil(lambda: len(marks["matches"]) == 1)
    find.box.clear()
    qtbot.waitUntil(lambda: not marks["matches"])


@pytest.mark.long
def test_clicking_a_group_in_the_outline_leaves_it_closed(window, qtbot, tmp_path):
    chain, count = Graphs(), 0
    chain.input("x", 1)
    for part in range(30):  # of different lengths, as equal ones are one stack
        for _ in range(part + 4):
            previous = f"v{count - 1}" if count else "x"
            chain.node("Relu", [previous], [f"v{count}"], name=f"/part{part}/relu{count}")
            count += 1
    chain.outputs(f"v{count - 1}")
    save(chain.model(), tmp_path / "net.onnx")
    tab = opened(window, qtbot, tmp_path / "net.onnx")
    tab.view.expansion.collapse_all()
    settled(window, qtbot)
    tab.view.zoom_to(1.0)
    outline = window.docks.open("outline")
    tree, model = outline.tree, outline.model
    tree.expandToDepth(0)
    rows = [model.index(row, 0, model.index(0, 0)) for row in range(model.rowCount(model.index(0, 0)))]
    row = next(row for row in rows if "part29" in row.data())
    tree.scrollTo(row)
    qtbot.mouseClick(tree.viewport(), Qt.MouseButton.LeftButton, pos=tree.visualRect(row).center())
    settled(window, qtbot)
    node = chain.values[f"v{count - 1}"].producer.name
    (box,) = tab.view.scene.drawing.boxes_of(next(n for n in tab.workspace.graph.nodes if n.name == node))
    assert tab.view.scene.boxes[box].kind is Kind.GROUP
    area, shown = tab.view.viewport.area, tab.view.scene.corners[box]
    assert (shown[:2] >= area[:2]).all()
    assert (shown[2:] <= area[2:]).all()


@pytest.mark.long
def test_an_inserted_operator_lacking_attributes_is_inspected(window, qtbot, write_model):
    tab = opened(window, qtbot, write_model(nodes=3))
    window.docks.open("run")
    for op_type, lacks in (("Relu", False), ("Cast", True)):
        tab.workspace.selection.set([next(iter(tab.workspace.graph.nodes)).outputs[0]])
        insert(tab.workspace, OperatorEntry(op_type, schema=schemas.find(op_type, 18)), tab.workspace.graph)
        assert (window.docks.panel("inspector").visibleRegion().isEmpty()) is not lacks


@pytest.mark.long
def test_show_of_a_failure_leads_to_the_node_inside_its_body(window, qtbot, tmp_path):
    (tmp_path / "net.onnxtxt").write_text(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (bool c, float[2, 3] x) => (float[n] y) <int64[1] wrong = {5}> {
            [outer] y = If (c) <
                then_branch = t () => (float[a] t) { [inner] t = Reshape (x, wrong) },
                else_branch = e () => (float[b] e) { [other] e = Reshape (x, wrong) }
            >
        }""",
        encoding="utf-8",
    )
    tab = opened(window, qtbot, tmp_path / "net.onnxtxt")
    run(window, "run.run")
    qtbot.waitUntil(lambda: bool(tab.message_bar.messages))
    qtbot.waitUntil(lambda: any("Failed" in message.title for message in tab.message_bar.messages))
    (message,) = [m for m in tab.message_bar.messages if "Failed" in m.title]
    assert message.place.name in ("inner", "other")
