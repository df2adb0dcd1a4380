"""What is done to very many chosen nodes is done on a copy, while the window goes on, as one edit."""

from __future__ import annotations

import pytest

from tests.model import builders
from tests.model.snapshots import snapshot
from viewer.passes import many


@pytest.mark.parametrize(
    ("action", "title"),
    [
        ("edit.delete", "Delete 2 nodes"),
        ("edit.cut", "Cut 2 nodes"),
        ("edit.delete_and_bridge", "Delete and bridge 2 nodes"),
    ],
)
def test_it_comes_to_the_same_as_at_once(desk, monkeypatch, action, title):
    desk.open(builders.CHAIN)
    document = desk.document
    chosen = [builders.node(document, name) for name in ("second", "third")]
    desk.select(*chosen)
    desk.run(action)
    assert document.undo_title == title
    at_once = snapshot(document.model)
    document.undo()
    monkeypatch.setattr(many, "_MANY", 1)
    desk.select(*chosen)
    desk.run(action)
    assert document.undo_title is None
    desk.qtbot.waitUntil(lambda: document.undo_title == title)
    assert snapshot(document.model) == at_once
