import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QFont
from PySide6.QtWidgets import QAbstractItemView, QApplication, QDockWidget, QHeaderView, QScrollArea

from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.steps import RemoveNode, SetField
from onnx_workbench.model.ir.graph import Model
from onnx_workbench.viewer.files.open_model import sample_model
from onnx_workbench.viewer.main_window import MainWindow
from onnx_workbench.viewer.panel import Panel
from onnx_workbench.viewer.panel_list import PANELS
from onnx_workbench.viewer.program.settings import Settings
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.widgets.whole_text import WholeTextDelegate
from tests.model import builders
from tests.viewer.opening import opened, run

PANEL_IDS = [info.id for info in PANELS]


def edit_everything(workspace):
    """Rename, delete, undo, and show other graphs, as a user would while the panel is open."""
    document = workspace.document
    node = next(iter(workspace.model.graph.nodes), None)
    if node is None:
        return
    workspace.selection.set([node])
    builders.do(document, SetField(node, "name", "<b>new</b>"))
    workspace.selection.set([*node.outputs, workspace.graph, workspace.model, *workspace.model.functions])
    workspace.selection.set([node])
    builders.do(document, RemoveNode(node))
    document.undo()
    document.redo()
    document.undo()
    for graph in workspace.model.graphs():
        workspace.navigation.show(graph)
    workspace.selection.clear()


@pytest.mark.long
@pytest.mark.parametrize("info", PANELS, ids=PANEL_IDS)
def test_a_panel_stands_an_empty_model_and_a_full_one(info, qtbot, workspace):
    empty = Workspace(Document(Model()))
    for each in (empty, workspace):
        panel = info.load()(each)
        assert isinstance(panel, Panel)
        qtbot.addWidget(panel)
        panel.show()
        panel.activate()
        edit_everything(each)
        qtbot.waitUntil(lambda each=each: not each.tasks.running)
        for view in panel.findChildren(QAbstractItemView):
            if not isinstance(view, QHeaderView) and not view.parent().inherits("QComboBoxPrivateContainer"):
                assert isinstance(view.itemDelegate(), WholeTextDelegate), f"what {view} cuts is not whole on hover"
    empty.close()


@pytest.mark.parametrize("info", PANELS, ids=PANEL_IDS)
def test_a_panel_that_is_closed_receives_nothing_any_more(info, qtbot, workspace):
    panel = info.load()(workspace)
    panel.show()
    qtbot.waitUntil(lambda: not workspace.tasks.running)
    panel.deleteLater()
    qtbot.wait(1)
    edit_everything(workspace)
    qtbot.waitUntil(lambda: not workspace.tasks.running)


def open_copies(window, qtbot, tmp_path, *names):
    for name in names:
        (tmp_path / name).write_bytes(sample_model().read_bytes())
    window.files.open([tmp_path / name for name in names])
    qtbot.waitUntil(lambda: len(window.tabs()) == len(names))
    qtbot.waitUntil(lambda: all(not tab.view.scenes.is_busy for tab in window.tabs()))


def test_ids_are_unique_and_every_panel_has_an_action(window):
    assert len(set(PANEL_IDS)) == len(PANEL_IDS)
    for panel_id in PANEL_IDS:
        assert window.actions_binding.qaction(f"panel.{panel_id}").text()


def test_docks_stay_away_from_the_start_page_and_come_back(window, qtbot, tmp_path):
    assert not any(window.docks.is_open(panel_id) for panel_id in PANEL_IDS)
    open_copies(window, qtbot, tmp_path, "a.onnx")
    assert [window.docks.is_open(info.id) for info in PANELS] == [info.open_at_first for info in PANELS]
    window.files.close(window.tabs()[0])
    assert not any(window.docks.is_open(panel_id) for panel_id in PANEL_IDS)


@pytest.mark.skipif(not PANELS, reason="there are no panels")
def test_each_document_has_panels_of_its_own(window, qtbot, tmp_path):
    panel_id = PANEL_IDS[0]
    open_copies(window, qtbot, tmp_path, "a.onnx", "b.onnx")
    second = window.docks.open(panel_id)
    window.area.activate(window.tabs()[0])
    first = window.docks.open(panel_id)
    assert (first.workspace, second.workspace) == tuple(tab.workspace for tab in window.tabs())
    window.area.activate(window.tabs()[1])
    assert window.docks.open(panel_id) is second


@pytest.mark.long
@pytest.mark.skipif(not PANELS, reason="there are no panels")
def test_what_was_open_is_remembered_between_starts(qtbot, tmp_path):
    panel_id = PANEL_IDS[0]
    before = []
    for _ in range(2):
        window = MainWindow(Settings())
        window.resize(1280, 800)  # in a small one the outline gives way
        window.show()
        open_copies(window, qtbot, tmp_path, "a.onnx")
        before.append(window.docks.is_open(panel_id))
        if before == [before[0]]:
            window.docks.toggle(panel_id)
            changed = window.docks.is_open(panel_id)
        window.close()
        qtbot.wait(0)
    assert before[1] == changed
    assert before[0] != changed


@pytest.mark.long
def test_the_next_start_has_the_inspector_in_front_of_the_run_panel(qtbot, tmp_path):
    for is_first in (True, False):
        window = MainWindow(Settings())
        window.resize(1100, 700)
        window.show()
        open_copies(window, qtbot, tmp_path, "a.onnx")
        if is_first:
            panel = window.docks.open("run")
            qtbot.waitUntil(lambda panel=panel: not panel.visibleRegion().isEmpty())
        else:
            assert window.docks.is_open("run")
            inspector = window.docks.panel("inspector")
            qtbot.waitUntil(lambda panel=inspector: not panel.visibleRegion().isEmpty())
            window.workspace.suggest_panel("tensor")  # as the first run does
            run = window.docks.panel("run")
            qtbot.waitUntil(lambda panel=run: not panel.visibleRegion().isEmpty())
        window.close()
        qtbot.wait(0)


def test_bottom_docks_are_closed_and_wide_at_the_next_start(qtbot, tmp_path):
    for is_first in (True, False):
        window = MainWindow(Settings())
        window.resize(1100, 700)
        window.show()
        open_copies(window, qtbot, tmp_path, "a.onnx")
        assert not window.docks.is_open("tensor")
        if is_first:
            panel = window.docks.open("tensor")
            qtbot.waitUntil(lambda panel=panel, window=window: panel.width() > window.width() - 40)
        window.close()
        qtbot.wait(0)


def test_a_panel_asks_for_another_one_and_never_closes_it(window, qtbot, tmp_path):
    open_copies(window, qtbot, tmp_path, "a.onnx")
    workspace = window.workspace
    for _ in range(2):
        workspace.trigger("panel.history")
        assert window.docks.is_open("history")
    window.actions_binding.run("panel.history")
    assert not window.docks.is_open("history")


@pytest.mark.long
def test_the_palette_goes_to_a_panel_and_never_closes_it(window, qtbot, tmp_path):
    open_copies(window, qtbot, tmp_path, "a.onnx")
    assert window.docks.is_open("outline")
    for _ in range(2):
        window.open_palette()
        qtbot.keyClicks(window.palette_popup.field, "outline")
        qtbot.keyClick(window.palette_popup.field, Qt.Key.Key_Return)
        assert window.docks.is_open("outline")
        qtbot.waitUntil(window.docks.panel("outline").tree.hasFocus)


@pytest.mark.long
def test_escape_leads_from_every_panel_back_to_the_graph(window, qtbot, tmp_path):
    open_copies(window, qtbot, tmp_path, "a.onnx")
    window.activateWindow()
    window.workspace.selection.set([next(iter(window.workspace.graph.nodes))])
    view, stuck = window.tab.view, []
    for panel_id in PANEL_IDS:
        panel = window.docks.open(panel_id)
        qtbot.waitUntil(lambda panel=panel: panel.isAncestorOf(QApplication.focusWidget()))
        qtbot.keyClick(QApplication.focusWidget(), Qt.Key.Key_Escape)
        if not view.hasFocus():
            stuck.append((panel_id, QApplication.focusWidget()))
    assert not stuck
    assert len(window.workspace.selection) == 1


def test_a_panels_shortcut_goes_there_and_closes_it_from_there(window, qtbot, tmp_path):
    open_copies(window, qtbot, tmp_path, "a.onnx")
    window.activateWindow()
    window.tab.view.setFocus()
    qtbot.waitUntil(window.tab.view.hasFocus)
    panel = window.docks.panel("inspector")
    assert window.docks.is_open("inspector")
    qtbot.keyClick(QApplication.focusWidget(), Qt.Key.Key_Return, Qt.KeyboardModifier.AltModifier)
    qtbot.waitUntil(lambda: panel.isAncestorOf(QApplication.focusWidget()))
    qtbot.keyClick(QApplication.focusWidget(), Qt.Key.Key_Return, Qt.KeyboardModifier.AltModifier)
    qtbot.waitUntil(window.tab.view.hasFocus)
    assert not window.docks.is_open("inspector")
    qtbot.keyClick(QApplication.focusWidget(), Qt.Key.Key_Return, Qt.KeyboardModifier.AltModifier)
    qtbot.waitUntil(lambda: panel.isAncestorOf(QApplication.focusWidget()))


def opened_sample(make_window, qtbot, width, height):
    window = make_window(size=(width, height))
    with qtbot.waitSignal(window.files.opened):
        window.files.open([sample_model()])
    return window


def test_a_small_window_keeps_inspector_and_outline_readable(make_window, qtbot):
    window = opened_sample(make_window, qtbot, 900, 600)
    window.docks.open("inspector")
    window.docks.open("outline")
    qtbot.wait(0)
    assert window.docks.panel("inspector").width() >= 230
    assert window.docks.panel("outline").width() >= 150


def shares(window):
    """The graph's parts of the window's width and height."""
    canvas = window.tab.canvas
    return canvas.width() / window.width(), canvas.height() / window.height()


@pytest.mark.long
@pytest.mark.parametrize("size", [(1440, 860), (1024, 700), (960, 600), (682, 466)])
def test_the_graph_keeps_half_of_each_side_during_a_run(make_window, qtbot, size):
    window = opened_sample(make_window, qtbot, *size)
    window.workspace.suggest_panel("tensor")
    qtbot.waitUntil(lambda: min(shares(window)) >= 0.5)
    assert window.docks.is_open("tensor")
    assert window.docks.is_open("run")


def test_the_outline_gives_way_first_and_all_widths_come_back(make_window, qtbot):
    window = opened_sample(make_window, qtbot, 1440, 860)
    widths = {"outline": 280, "inspector": 340}
    qtbot.waitUntil(lambda: {panel: window.docks.panel(panel).width() for panel in widths} == widths)
    window.resize(1024, 700)
    qtbot.waitUntil(lambda: shares(window)[0] >= 0.5)
    assert window.docks.panel("outline").width() < widths["outline"]
    assert window.docks.panel("inspector").width() == widths["inspector"]
    window.resize(700, 500)
    qtbot.waitUntil(lambda: not window.docks.is_open("outline"))
    qtbot.waitUntil(lambda: shares(window)[0] >= 0.5)
    window.resize(1440, 860)
    qtbot.waitUntil(lambda: window.docks.is_open("outline"))
    qtbot.waitUntil(lambda: {p: window.docks.panel(p).width() for p in widths} == widths)


def test_a_panel_that_the_user_opens_in_a_small_window_stays_open(make_window, qtbot):
    window = opened_sample(make_window, qtbot, 700, 500)
    qtbot.waitUntil(lambda: not window.docks.is_open("outline"))
    window.actions_binding.run("panel.outline")
    qtbot.wait(10)
    assert window.docks.panel("outline").isVisible()


@pytest.mark.long
@pytest.mark.parametrize("pan", [0, 200])
def test_the_first_run_neither_moves_nor_zooms_the_graph(make_window, qtbot, write_model, pan):
    window = make_window(size=(1024, 700))
    tab = opened(window, qtbot, write_model(nodes=400))
    view = tab.canvas
    view.pan_by(0, pan)
    qtbot.wait(10)
    place, zoom = at_screen(view), view.zoom
    run(window, "run.run")
    qtbot.waitUntil(lambda: tab.workspace.results.current is not None and window.docks.is_open("tensor"))
    qtbot.waitUntil(lambda: min(shares(window)) >= 0.5)
    assert (at_screen(view), view.zoom) == (place, zoom)


def at_screen(view):
    """Where the first box is, in px of the window."""
    left, top, _, _ = view.scene.rect(0)
    corner = view.mapTo(view.window(), view.rect().topLeft())
    x, y = view.viewport.to_widget(left, top)
    return round(corner.x() + x), round(corner.y() + y)


@pytest.mark.long
def test_a_narrow_run_panel_can_be_scrolled_to_all_of_its_rows(make_window, qtbot):
    window = opened_sample(make_window, qtbot, 1100, 700)
    panel = window.docks.open("run")
    window.resizeDocks([window.findChild(QDockWidget, "panel.run")], [100], Qt.Orientation.Horizontal)
    area = panel.findChild(QScrollArea)
    font = panel.font()
    font.setPointSizeF(font.pointSizeF() * 1.8)
    panel.setFont(font)
    qtbot.waitUntil(lambda: area.widget().width() > area.viewport().width())
    qtbot.waitUntil(area.horizontalScrollBar().isVisible)


@pytest.mark.long
@pytest.mark.parametrize("points", [10, 15])
@pytest.mark.parametrize("size", [(1280, 800), (1024, 700)])
def test_a_panel_below_the_graph_opens_high_enough_to_work_in(make_window, qtbot, tmp_path, qapp, size, points):
    font = qapp.font()
    qapp.setFont(QFont(font.family(), points))
    try:
        window = make_window(size=size)
        open_copies(window, qtbot, tmp_path, "a.onnx")
        window.docks.suggest_panel("tensor")
        panel = window.docks.panel("tensor")
        least = min(19 * panel.fontMetrics().height(), 0.25 * size[1])
        qtbot.waitUntil(lambda: panel.height() >= least)
        qtbot.waitUntil(lambda: window.tabs()[0].view.height() >= 0.5 * size[1])
        assert (window.width(), window.height()) == size
    finally:
        qapp.setFont(font)
