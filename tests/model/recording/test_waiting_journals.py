"""Edits of a model that the journal has not looked at yet: announced, and written when it has."""

import threading
from unittest import mock

import pytest

from model.document import Document
from model.edits import nodes
from model.io.read import load
from model.io.save import prepare
from model.progress import Cancelled, Progress
from model.recording.journal import Journal
from model.recording.leftovers import leftovers, recover
from model.steps import SetField
from tests.model import builders
from tests.model.recording.recorded_work import recovered, rename, saved_file, work
from tests.model.snapshots import assert_linked, snapshot


class Meanwhile(Progress):
    """Lets the model be edited at each check of a piece of work, as between the turns of an event loop."""

    def __init__(self, edits, journal):
        super().__init__()
        self.edits = list(edits)
        self.around = journal.as_it_began
        self.states = []

    def run(self, work, document):
        resume, paused = threading.Semaphore(0), threading.Semaphore(0)
        self.pause = lambda: (paused.release(), resume.acquire())
        thread = threading.Thread(target=lambda: (work(self), paused.release()))
        with self.around():
            thread.start()
            paused.acquire()
        while thread.is_alive():
            if self.edits:
                self.edits.pop(0)(document)
            self.states.append(snapshot(document.model))
            with self.around():
                resume.release()
                paused.acquire()
            assert snapshot(document.model) == self.states[-1]
            thread.join(0.02)

    def check(self):
        self.pause()


def undo(document):
    document.undo()


def redo(document):
    document.redo()


@pytest.fixture
def asked():
    return []


@pytest.mark.parametrize("opened", [builders.document, None], ids=["in no file", "in a file"])
@pytest.mark.parametrize("edits", [[], [undo], [work, undo, undo, redo], [undo, rename, rename], [undo, redo, work]])
def test_edits_before_and_while_it_looks_are_written(tmp_path, dead, asked, opened, edits):
    document = saved_file(tmp_path) if opened is None else opened()
    state = tmp_path / "state"
    kept = Journal(document, state, later=lambda: asked.append(True))
    rename(document, "first")
    assert asked
    assert kept.is_waited_for
    Meanwhile(edits, kept).run(kept.prepare, document)
    assert not kept.is_waited_for
    rename(document)
    kept.abandon()
    (leftover,) = leftovers(state)
    assert leftover.missing == ()
    again = builders.document() if opened is not None else Document(load(document.path))
    recover(again, leftover)
    assert snapshot(again.model) == snapshot(document.model)
    assert_linked(again.model)


def test_what_was_only_announced_is_told(tmp_path, dead, asked):
    document = builders.document()
    kept = Journal(document, tmp_path, later=lambda: asked.append(True))
    rename(document)
    document.undo()
    work(document)
    kept.abandon()
    (leftover,) = leftovers(tmp_path)
    assert leftover.titles == ()
    assert leftover.missing == ("Rename", "Undo", "Insert", "Attribute", "Rename", "Weights", "Function")


def test_looking_that_is_given_up_leaves_edits_waiting(tmp_path, dead, asked):
    document = builders.document()
    kept = Journal(document, tmp_path, later=lambda: asked.append(True))
    work(document)
    before = snapshot(document.model)
    stopped = Progress()
    stopped.cancel()
    with pytest.raises(Cancelled), kept.as_it_began():
        kept.prepare(stopped)
    assert kept.is_waited_for
    assert snapshot(document.model) == before
    with kept.as_it_began():
        kept.prepare()
    kept.abandon()
    again = builders.document()
    (leftover,) = leftovers(tmp_path)
    recover(again, leftover)
    assert snapshot(again.model) == before


def test_a_save_writes_what_still_waited(tmp_path, dead, asked):
    document = saved_file(tmp_path)
    kept = Journal(document, tmp_path / "state", later=lambda: asked.append(True))
    work(document)
    saving, state = prepare(document.model, document.path), document.current.id
    document.undo()
    with document.edit("Meanwhile") as edit:
        nodes.add_node(edit, document.model.graph, "Relu", [builders.value(document, "x")], name="meanwhile")
    saving.run()
    document.mark_saved(state=state)
    before = snapshot(document.model)
    assert kept.is_waited_for
    with kept.as_it_began():
        kept.prepare()
    kept.abandon()
    assert snapshot(recovered(document, tmp_path / "state").model) == before


def test_trouble_while_it_looks_stops_the_journal_not_the_work(tmp_path, asked, monkeypatch):
    document = builders.document()
    kept = Journal(document, tmp_path, later=lambda: asked.append(True))
    work(document)
    before = snapshot(document.model)
    monkeypatch.setattr("model.recording.journal._LARGEST_BASE", -1)
    with kept.as_it_began():
        kept.prepare()
    assert "large and in no file yet" in kept.problem
    assert snapshot(document.model) == before
    assert list(tmp_path.iterdir()) == []
    kept.close()


def test_steps_that_cannot_be_written_are_done_again_all_the_same(tmp_path, asked):
    document = builders.document()
    kept = Journal(document, tmp_path, later=lambda: asked.append(True))
    work(document)
    with document.edit("Odd") as edit:
        edit.do(SetField(document.model.graph, "metadata", {"odd": object()}))
        edit.do(SetField(document.model.graph, "name", "after"))
    rename(document, "last")
    before = snapshot(document.model)
    with kept.as_it_began():
        kept.prepare()
    assert snapshot(document.model) == before
    assert_linked(document.model)
    assert "not being kept" in kept.problem
    kept.close()


def test_a_step_that_cannot_be_written_is_no_trouble_for_the_edit(tmp_path):
    document = builders.document()
    kept = Journal(document, tmp_path)
    with document.edit("Odd") as edit:
        edit.do(SetField(document.model.graph, "metadata", {"odd": object()}))
    rename(document)
    assert "not being kept" in kept.problem
    kept.close()


def test_another_listener_that_fails_does_not_hide_an_edit(tmp_path, dead, asked):
    document = builders.document()
    failing = document.subscribe(mock.Mock(side_effect=LookupError("elsewhere")))
    kept = Journal(document, tmp_path, later=lambda: asked.append(True))
    with pytest.raises(LookupError, match="elsewhere"):
        rename(document, "one")
    failing()
    work(document)
    before = snapshot(document.model)
    with kept.as_it_began():
        kept.prepare()
    assert snapshot(document.model) == before
    kept.abandon()
    (leftover,) = leftovers(tmp_path)
    again = builders.document()
    recover(again, leftover)
    assert snapshot(again.model) == before
