"""Many edits one after the other: an undo step each, and an end where somebody else edits."""

from __future__ import annotations

from unittest import mock

import pytest

from onnx_workbench.model.edits.nodes import rename_node
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.steps import SetField
from onnx_workbench.viewer.workflows import step_applier
from onnx_workbench.viewer.workflows.step_applier import StepApplier
from tests.model import builders
from tests.model.snapshots import snapshot
from tests.viewer.held import turns_by_hand


@pytest.fixture
def sliced(monkeypatch):
    """As with many steps."""
    monkeypatch.setattr(step_applier, "_AT_ONCE", 0)


def entries(document: Document) -> list[tuple[str, list[SetField]]]:
    nodes = list(document.model.graph.nodes)
    return [
        ("Names", [SetField(node, "name", f"new {number}") for number, node in enumerate(nodes)]),
        ("Texts", [SetField(node, "doc_string", "text") for node in nodes]),
    ]


@pytest.mark.usefixtures("sliced", "qapp")
def test_entries_become_one_undo_step_each(qtbot) -> None:
    document = builders.document()
    before = snapshot(document.model)
    told: list[bool] = []
    work = StepApplier(document, entries(document), told.append)
    assert [node.name for node in document.model.graph.nodes] == ["first", "second", "third", "fourth"]
    qtbot.waitUntil(lambda: bool(told))
    assert told == [True]
    assert all(node.doc_string == "text" for node in document.model.graph.nodes)
    titles = []
    while document.undo_title:
        titles.append(document.undo_title)
        document.undo()
    assert titles == ["Texts", "Names"]
    assert snapshot(document.model) == before
    work.deleteLater()


@pytest.mark.usefixtures("sliced", "qapp")
def test_an_edit_in_between_ends_it(qtbot) -> None:
    document = builders.document()
    told: list[bool] = []

    work = StepApplier(document, entries(document), told.append)
    with document.edit("Rename") as edit:
        rename_node(edit, builders.node(document, "fourth"), "mine")
    qtbot.waitUntil(lambda: bool(told))
    assert told == [False]
    assert [node.name for node in document.model.graph.nodes] == ["first", "second", "third", "mine"]
    work.deleteLater()


@pytest.mark.usefixtures("sliced", "qapp")
def test_it_can_be_stopped_before_anything_is_made(monkeypatch) -> None:
    turn = turns_by_hand(monkeypatch, step_applier)
    document = builders.document()
    before = snapshot(document.model)
    told: list[bool] = []
    work = StepApplier(document, entries(document), told.append)
    work.stop()
    turn()
    assert snapshot(document.model) == before
    assert document.undo_title is None
    assert not told
    work.deleteLater()


@pytest.mark.usefixtures("sliced", "qapp")
@pytest.mark.parametrize("how", ["stopped", "edited"])
def test_what_is_not_made_is_not_written_down_any_longer(monkeypatch, how) -> None:
    turn = turns_by_hand(monkeypatch, step_applier)
    document, recording = builders.document(), mock.Mock(size=0)
    work = StepApplier(document, entries(document), lambda _all_made: None, recording=recording)
    (progress,) = recording.write_ahead.call_args.args
    assert not progress.cancelled
    if how == "stopped":
        work.stop()
    else:
        with document.edit("Between") as edit:
            rename_node(edit, document.model.graph.nodes.first, "other")
        turn()
    assert progress.cancelled
    work.deleteLater()


@pytest.mark.usefixtures("sliced", "qapp")
def test_what_is_stopped_too_late_gets_the_rest_at_once(monkeypatch) -> None:
    turn = turns_by_hand(monkeypatch, step_applier)
    document = builders.document()
    told: list[bool] = []
    work = StepApplier(document, entries(document), told.append)
    turn()
    assert document.undo_title == "Names"
    work.stop()
    assert all(node.doc_string == "text" for node in document.model.graph.nodes)
    assert not told
    work.deleteLater()


@pytest.mark.usefixtures("qapp")
def test_few_steps_are_made_at_once() -> None:
    document = builders.document()
    told: list[bool] = []
    StepApplier(document, entries(document), told.append).deleteLater()
    assert told == [True]
