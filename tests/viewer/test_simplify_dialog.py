"""Simplifying in the window: preview on the graph, one undo entry per pass, report."""

from __future__ import annotations

import pytest
from shiboken6 import isValid

from tests.model import builders
from tests.model.snapshots import snapshot
from viewer.dialogs.simplify import SimplifyDialog
from viewer.workspace import Workspace

TEXT = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x) => (float[2] y) <float k = {3.0}>
{ [same] a = Identity(x) [sum] c = Add(k, k) [times] y = Mul(a, c) }
"""


@pytest.fixture
def dialog(qapp):
    workspace = Workspace(builders.document(TEXT), title="chain")
    dialog = SimplifyDialog(workspace)
    dialog.show()
    yield dialog
    if isValid(dialog):
        dialog.close()
    workspace.close()


def passes(dialog):
    items = [dialog.passes.topLevelItem(row) for row in range(dialog.passes.topLevelItemCount())]
    return {item.text(0): item for item in items}


def test_preview_apply_report_undo(dialog, qtbot):
    workspace = dialog._workspace
    document = workspace.document
    before = snapshot(document.model)
    qtbot.waitUntil(dialog.ok.isEnabled, timeout=30_000)
    found = passes(dialog)
    assert found["Identity"].text(1) == "1"
    dialog.passes.setCurrentItem(found["Identity"].child(0))
    assert workspace.selection.items == (builders.node(document, "same"),)
    assert snapshot(document.model) == before
    dialog.ok.click()
    qtbot.waitUntil(lambda: dialog.pages.currentWidget() is dialog.report, timeout=30_000)
    assert [n.op_type for n in document.model.graph.nodes] == ["Mul"]
    assert "outputs agree" in dialog.state.text()
    assert dialog.report.topLevelItem(0).text(2) == "1"
    titles = []
    while document.undo_title:
        titles.append(document.undo_title)
        document.undo()
    assert sorted(titles) == ["Simplify: Constant folding", "Simplify: Identity"]
    assert snapshot(document.model) == before


def test_passes_that_are_not_chosen_do_nothing(dialog, qtbot):
    qtbot.waitUntil(dialog.ok.isEnabled, timeout=30_000)
    from PySide6.QtCore import Qt

    passes(dialog)["Identity"].setCheckState(0, Qt.CheckState.Unchecked)
    dialog.ok.click()
    qtbot.waitUntil(lambda: dialog.pages.currentWidget() is dialog.report, timeout=30_000)
    assert [n.op_type for n in dialog._workspace.model.graph.nodes] == ["Identity", "Mul"]
