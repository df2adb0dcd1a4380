"""Texts from a file are never taken for HTML: not in a label, not in a tip, wherever Qt would guess."""

import pytest
from PySide6.QtCore import QAbstractListModel, QCoreApplication, QModelIndex
from PySide6.QtCore import Qt as Core
from PySide6.QtGui import Qt
from PySide6.QtWidgets import QAbstractItemView, QDialog, QHeaderView, QLabel, QWidget

from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.steps import SetField
from onnx_workbench.viewer.files.document_tab import DocumentTab
from onnx_workbench.viewer.panel_list import PANELS
from onnx_workbench.viewer.run.workspace import Workspace
from tests.model import builders
from tests.viewer.activity import activity_in

pytestmark = pytest.mark.long

_HOSTILE = "<b>bold</b>"
_MOST_ROWS = 60


def hostile_model():
    """A chain whose every name and text is a piece of HTML."""
    model = builders.model(builders.CHAIN)
    fields = [(model, "producer_name", _HOSTILE)]
    for graph in model.graphs():
        fields += [(graph, "name", _HOSTILE), (graph, "doc_string", _HOSTILE)]
        fields += [(value, "name", f"{_HOSTILE}{number}") for number, value in enumerate(graph.values())]
        for number, node in enumerate(graph.nodes):
            fields += [(node, "name", f"{_HOSTILE}node{number}"), (node, "doc_string", _HOSTILE)]
            fields += [(node, "metadata", {"<i>key</i>": _HOSTILE})]
    fields.append((list(model.graph.nodes)[-1], "op_type", _HOSTILE))  # which is a problem
    for target, field, content in fields:
        SetField(target, field, content).apply()
    return model


def guessed(widget):
    """What of a widget Qt would show as HTML though it was not made to be."""
    tips = [widget.toolTip()]
    if isinstance(widget, QLabel) and widget.textFormat() != Core.TextFormat.PlainText:
        tips.append(widget.text())
    if isinstance(widget, QAbstractItemView) and not isinstance(widget, QHeaderView) and widget.model() is not None:
        tips += item_tips(widget.model(), QModelIndex(), 3)
        tips += header_tips(widget.model())
    return {f"{type(widget).__name__} in {type(widget.parentWidget()).__name__}: {t}" for t in tips if is_taken(t)}


def header_tips(model):
    for column in range(0 if isinstance(model, QAbstractListModel) else model.columnCount(QModelIndex())):
        tip = model.headerData(column, Core.Orientation.Horizontal, Core.ItemDataRole.ToolTipRole)
        if tip:
            yield str(tip)


def item_tips(model, parent, depth):
    for row in range(min(model.rowCount(parent), _MOST_ROWS)):
        for column in range(1 if isinstance(model, QAbstractListModel) else model.columnCount(parent)):
            tip = model.index(row, column, parent).data(Core.ItemDataRole.ToolTipRole)
            if tip:
                yield str(tip)
        if depth:
            yield from item_tips(model, model.index(row, 0, parent), depth - 1)


def is_taken(text):
    return Qt.mightBeRichText(text) and "<b>b" in text


@pytest.fixture
def window(make_window, qtbot):
    window = make_window()
    window.area.add_tab(DocumentTab(Workspace(Document(hostile_model()), window.settings, title=_HOSTILE)))
    qtbot.waitUntil(lambda: not window.tab.view.scenes.is_busy)
    return window


@pytest.mark.parametrize("panel", [panel.id for panel in PANELS])
def test_no_panel_shows_html(window, qtbot, panel):
    workspace = window.workspace
    with workspace.document.edit(_HOSTILE) as edit:
        edit.do(SetField(next(iter(workspace.graph.nodes)), "name", f"{_HOSTILE}again"))
    qtbot.waitUntil(lambda: workspace.problems.finished and workspace.types.inferred is not None)
    if panel in ("tensor", "run", "profile", "watch", "compare", "element"):
        window.actions_binding.run("run.run")
        qtbot.waitUntil(lambda: workspace.results.current is not None and not workspace.runs.is_running)
    shown = window.docks.open(panel)
    found = set()
    for item in (workspace.model, workspace.graph, *workspace.graph.nodes, *workspace.graph.values()):
        workspace.selection.set([item])
        QCoreApplication.processEvents()
        qtbot.waitUntil(lambda: not activity_in(window))
        for widget in [*shown.findChildren(QWidget), window.status, *window.status.findChildren(QLabel)]:
            found |= guessed(widget)
    assert found == set()


def test_no_comparison_shows_the_titles_of_documents_as_html(window, qtbot):
    left = window.tab
    window.area.add_tab(DocumentTab(Workspace(Document(hostile_model()), window.settings, title=_HOSTILE)))
    window.area.compare(left, window.tab)
    shown = window.docks.open("differences")
    qtbot.waitUntil(lambda: not activity_in(window) and _HOSTILE in str(shown.model.columns))
    found = set()
    for widget in [shown, *shown.findChildren(QWidget)]:
        found |= guessed(widget)
    assert found == set()


def test_no_message_tab_or_dialog_shows_html(window, qtbot):
    workspace = window.workspace
    node = next(iter(workspace.graph.nodes))
    workspace.messages.show("error", _HOSTILE, _HOSTILE, node)
    workspace.navigation.reveal(node)
    for action in ("model.extract", "model.convert", "model.simplify", "edit.replace", "graph.batch"):
        window.actions_binding.run(action)
    for dialog in window.findChildren(QDialog):
        if hasattr(dialog, "pattern"):
            dialog.pattern.setText("<b>")
            dialog.search()
    QCoreApplication.processEvents()
    qtbot.waitUntil(lambda: not activity_in(window))
    found = {tip for tip in [window.area._tabs.tabToolTip(0)] if is_taken(tip)}
    for widget in window.findChildren(QWidget):
        found |= guessed(widget)
    assert found == set()
