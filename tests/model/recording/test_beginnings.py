"""Documents in no file: their journals hold the model as it began, looked at while it is edited on."""

import threading
import tracemalloc
from unittest import mock

import numpy as np
import pytest

from model.document import Document
from model.edits import nodes
from model.errors import ModelError
from model.graph import Value
from model.io.read import load
from model.io.save import Saving, save
from model.progress import Cancelled, Progress
from model.recording.journal import Journal
from model.recording.leftovers import leftovers, recover
from model.recording.store import base_path
from model.steps import SetField, SetInitializer
from model.tensors import ArrayTensor
from tests.model import builders
from tests.model.recording.crash import abandon
from tests.model.recording.recorded_work import killed_now, recovered, rename, saved_file, work
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


def begun(document, folder, asked):
    """A journal that waits until it is told to look at the model."""
    return Journal(document, folder, begin=lambda: asked.append(True))


def recovered_beginning(folder):
    """What the next start makes of the one document in no file that is left."""
    (leftover,) = leftovers(folder)
    again = Document(load(leftover.beginning))
    recover(again, leftover)
    assert_linked(again.model)
    return again, leftover


@pytest.mark.parametrize("edits", [[], [undo], [work, undo, undo, redo], [undo, rename, rename], [undo, redo, work]])
def test_edits_before_and_while_it_looks_are_done_again(tmp_path, dead, asked, edits):
    document = builders.document()
    kept = begun(document, tmp_path, asked)
    rename(document, "first")
    assert asked
    assert kept.needs_beginning
    Meanwhile(edits, kept).run(kept.prepare, document)
    assert not kept.needs_beginning
    rename(document)
    abandon(kept)
    again, _ = recovered_beginning(tmp_path)
    assert snapshot(again.model) == snapshot(document.model)
    assert again.modified


def test_edits_of_a_model_in_a_file_need_no_look_at_it(tmp_path, dead, asked):
    document = saved_file(tmp_path)
    kept = begun(document, tmp_path / "state", asked)
    work(document)
    (leftover,) = leftovers(tmp_path / "state")  # while the program goes on
    assert leftover.titles == ("Insert", "Attribute", "Rename", "Weights", "Function")
    assert not asked
    abandon(kept)
    assert snapshot(recovered(document, tmp_path / "state").model) == snapshot(document.model)


def test_what_has_no_beginning_is_lost(tmp_path, dead, asked):
    document = builders.document()
    kept = begun(document, tmp_path, asked)
    rename(document)
    abandon(kept)
    (leftover,) = leftovers(tmp_path)
    assert leftover.titles == ("Rename",)
    assert leftover.is_lost


def test_a_small_model_is_there_with_its_first_edit(tmp_path, dead):
    document = builders.document()
    kept = Journal(document, tmp_path)
    rename(document)
    (leftover,) = leftovers(tmp_path)  # while nothing was waited for
    assert not leftover.is_lost
    assert snapshot(load(leftover.beginning.read_bytes())) == snapshot(builders.document().model)
    kept.close()


def test_a_model_that_was_made_is_kept_before_any_edit(tmp_path, dead):
    document = builders.document()
    document.mark_unsaved()
    kept = Journal(document, tmp_path)
    kept.prepare()
    abandon(kept)
    again, leftover = recovered_beginning(tmp_path)
    assert leftover.is_unsaved
    assert leftover.titles == ()
    assert again.modified
    assert snapshot(again.model) == snapshot(document.model)
    assert list(tmp_path.iterdir()) == []


def test_looking_that_is_given_up_changes_nothing(tmp_path, dead, asked):
    document = builders.document()
    kept = begun(document, tmp_path, asked)
    work(document)
    before = snapshot(document.model)
    stopped = Progress()
    stopped.cancel()
    with pytest.raises(Cancelled), kept.as_it_began():
        kept.prepare(stopped)
    assert kept.needs_beginning
    assert snapshot(document.model) == before
    with kept.as_it_began():
        kept.prepare()
    abandon(kept)
    again, _ = recovered_beginning(tmp_path)
    assert snapshot(again.model) == before


def test_a_save_ends_the_need_for_a_beginning(tmp_path, dead, asked):
    document = builders.document()
    kept = begun(document, tmp_path / "state", asked)
    work(document)
    path = tmp_path / "saved.onnx"
    save(document.model, path)
    document.mark_saved(path)
    assert not kept.needs_beginning
    assert list((tmp_path / "state").iterdir()) == []
    with document.edit("After") as edit:
        nodes.add_node(edit, document.model.graph, "Relu", [builders.value(document, "x")], name="after")
    abandon(kept)
    assert snapshot(recovered(document, tmp_path / "state").model) == snapshot(document.model)


def large_model(count):
    """Tensors of 8 MB each, in memory alone."""
    document = builders.document()
    with document.edit("Weights") as edit:
        for number in range(count):
            values = np.full((1 << 21,), number, np.float32)
            edit.do(SetInitializer(document.model.graph, Value(f"large {number}"), ArrayTensor(values)))
    return Document(document.model)


def test_large_tensors_are_written_without_being_in_memory_twice(tmp_path, dead):
    document = large_model(10)
    kept = Journal(document, tmp_path)
    tracemalloc.start()
    try:
        rename(document)
        kept._store.flush()
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept.problem == ""
    assert base_path(kept.path).stat().st_size > 80 << 20
    assert most < 16 << 20
    abandon(kept)
    again, _ = recovered_beginning(tmp_path)
    assert snapshot(again.model) == snapshot(document.model)


def test_closing_ends_the_writing_of_a_beginning(tmp_path):
    document = large_model(1)
    kept = Journal(document, tmp_path)
    kept.prepare()
    kept.close()
    assert list(tmp_path.iterdir()) == []


def test_the_first_edit_waits_until_a_large_beginning_is_on_file(tmp_path, dead, monkeypatch):
    monkeypatch.setattr("model.recording.store._PATIENCE", 60.0)
    document = large_model(4)
    kept = Journal(document, tmp_path)
    rename(document)
    again, leftover = killed_now(tmp_path)
    assert leftover.titles == ("Rename",)
    assert snapshot(again.model) == snapshot(document.model)
    kept.close()


def test_an_edit_does_not_wait_long_for_a_large_beginning(tmp_path, dead, monkeypatch):
    free, run = threading.Event(), Saving.run
    monkeypatch.setattr(Saving, "run", lambda *given: free.wait(30) and run(*given))
    monkeypatch.setattr("model.recording.store._PATIENCE", 0.01)
    document = large_model(1)
    kept = Journal(document, tmp_path)
    rename(document, "first")
    rename(document, "second")
    (leftover,) = leftovers(tmp_path)
    assert leftover.titles == ("Rename", "Rename")
    assert leftover.is_lost
    free.set()
    kept._store.flush()
    again, _ = killed_now(tmp_path)
    assert snapshot(again.model) == snapshot(document.model)
    kept.close()


def test_a_large_beginning_that_cannot_be_written_is_told_with_the_first_edit(tmp_path, monkeypatch):
    monkeypatch.setattr("model.io.save.Saving.run", mock.Mock(side_effect=OSError(28, "No space left on device")))
    document = large_model(1)
    kept = Journal(document, tmp_path)
    rename(document)
    assert "No space left" in kept.problem
    assert document.model.graph.name == "renamed"
    assert list(tmp_path.iterdir()) == []


def test_trouble_while_it_looks_stops_the_journal_not_the_work(tmp_path, asked, monkeypatch):
    document = builders.document()
    kept = begun(document, tmp_path, asked)
    work(document)
    before = snapshot(document.model)
    monkeypatch.setattr("model.io.save.prepare", mock.Mock(side_effect=ModelError("The model cannot be written", "")))
    with kept.as_it_began():
        kept.prepare()
    assert "cannot be written" in kept.problem
    assert snapshot(document.model) == before
    assert list(tmp_path.iterdir()) == []
    kept.close()


def test_a_step_that_cannot_be_written_is_no_trouble_for_the_edit(tmp_path):
    document = builders.document()
    kept = Journal(document, tmp_path)
    with document.edit("Odd") as edit:
        edit.do(SetField(document.model.graph, "metadata", {"odd": object()}))
        edit.do(SetField(document.model.graph, "name", "after"))
    assert document.model.graph.name == "after"
    rename(document, "last")
    assert document.model.graph.name == "last"
    assert_linked(document.model)
    assert "not being kept" in kept.problem
    kept.close()


def test_another_listener_that_fails_does_not_hide_an_edit(tmp_path, dead):
    document = builders.document()
    failing = document.subscribe(mock.Mock(side_effect=LookupError("elsewhere")))
    kept = Journal(document, tmp_path)
    with pytest.raises(LookupError, match="elsewhere"):
        rename(document, "one")
    failing()
    work(document)
    before = snapshot(document.model)
    abandon(kept)
    again, _ = recovered_beginning(tmp_path)
    assert snapshot(again.model) == before
