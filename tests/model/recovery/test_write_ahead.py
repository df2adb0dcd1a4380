"""What tools did to a copy of a model is on file before it is made: no crash takes what a user saw done."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from onnx_workbench.model.edits import initializers, nodes
from onnx_workbench.model.history.steps import SetField
from onnx_workbench.model.history.working_copy import WorkingCopy
from onnx_workbench.model.ir.tensors import ArrayTensor
from onnx_workbench.model.progress import Progress
from onnx_workbench.model.recovery.journal import Journal
from onnx_workbench.model.recovery.recover import find_journals, recover
from tests.model import builders
from tests.model.recovery.crash import abandon
from tests.model.recovery.recorded_work import (
    LARGE,
    killed_now,
    large_document,
    recovered,
    rename,
    rename_all,
    saved_file,
)  # fmt: skip
from tests.model.snapshots import assert_linked, snapshot


def delete_many(document):
    with document.edit("Delete many") as edit:
        nodes.delete_and_bridge(edit, list(document.model.graph.nodes)[4::2])


def change_weights(document):
    with document.edit("Weights") as edit:
        weights = ArrayTensor(np.random.default_rng(0).random(1 << 15).astype(np.float32))
        initializers.set_tensor(edit, builders.value(document, "w"), weights)


def prepared(document, journal, *edits):
    """Edits made to a copy, as entries, and their way to the journal."""
    copy_of_model = WorkingCopy(document.model)
    copy_of_model.recording = journal.recording()
    for edit in edits:
        edit(copy_of_model.document)
    entries = copy_of_model.entries()
    ahead = copy_of_model.recording.write_ahead()
    assert ahead is not None
    return entries, ahead


def make(document, ahead, *entries):
    for title, steps in entries:
        with ahead.making(), document.edit(title) as edit:
            edit.repeat(steps)


def wait_for(journal, ahead):
    journal._log._store.flush()
    assert ahead.wait(0)


@pytest.mark.long
@pytest.mark.parametrize("made", [0, 1, 2])
def test_only_what_was_made_of_it_is_done_again(tmp_path, dead, made):
    """Written within the turn that it is made in, however much it is: nothing has to be waited for any more."""
    document = large_document()
    kept = Journal(document, tmp_path)
    rename(document)
    entries, ahead = prepared(document, kept, rename_all, delete_many)
    wait_for(kept, ahead)
    make(document, ahead, *entries[:made])
    (leftover,) = find_journals(tmp_path)
    assert leftover.titles == ("Rename", "Rename all", "Delete many")[: 1 + made]
    again = large_document()
    recover(again, leftover)
    assert snapshot(again.model) == snapshot(document.model)
    assert_linked(again.model)
    kept.close()


@pytest.mark.long
def test_of_two_edits_written_ahead_the_one_made_is_replayed(tmp_path, dead):
    """A user may paste twice while the first is on its way."""
    document = large_document()
    kept = Journal(document, tmp_path)
    entries, ahead = prepared(document, kept, rename_all)
    _, other = prepared(document, kept, delete_many)
    wait_for(kept, other)
    make(document, ahead, *entries)
    (leftover,) = find_journals(tmp_path)
    again = large_document()
    recover(again, leftover)
    assert snapshot(again.model) == snapshot(document.model)
    kept.close()


@pytest.mark.long
def test_edits_between_and_behind_find_what_they_speak_of(tmp_path, dead):
    document = large_document()
    kept = Journal(document, tmp_path)
    prepared(document, kept, rename_all)  # for nothing
    entries, ahead = prepared(document, kept, delete_many)
    make(document, ahead, *entries)
    with document.edit("One") as edit:
        nodes.rename_node(edit, list(document.model.graph.nodes)[LARGE // 3], "only")
    document.undo()
    document.undo()
    document.redo()
    document.redo()
    entries, ahead = prepared(document, kept, rename_all)
    make(document, ahead, *entries)
    abandon(kept)
    (leftover,) = find_journals(tmp_path)
    assert leftover.titles == ("Delete many", "One", "Rename all")
    again = large_document()
    recover(again, leftover)
    assert snapshot(again.model) == snapshot(document.model)
    assert_linked(again.model)


def test_weights_are_on_file_before_the_edit_that_brings_them(tmp_path, dead):
    document = saved_file(tmp_path)
    kept = Journal(document, tmp_path / "state")
    change_weights(document)  # so that those of the tool do not come first
    entries, ahead = prepared(document, kept, change_weights)
    wait_for(kept, ahead)
    make(document, ahead, *entries)
    again, _ = killed_now(tmp_path / "state")
    assert snapshot(again.model) == snapshot(document.model)
    kept.close()


@pytest.mark.long
def test_an_edit_whose_steps_cannot_wait_has_them_written_first(tmp_path, dead):
    """As when a dialog is closed before all is on file."""
    document = large_document()
    kept = Journal(document, tmp_path)
    entries, ahead = prepared(document, kept, rename_all, change_weights)
    make(document, ahead, *entries)
    again, leftover = killed_now(tmp_path)
    assert leftover.titles == ("Rename all", "Weights")
    assert snapshot(again.model) == snapshot(document.model)
    kept.close()


@pytest.mark.long
def test_an_edit_stopped_while_written_is_written_when_made(tmp_path, dead):
    document = large_document()
    kept = Journal(document, tmp_path)
    copy_of_model = WorkingCopy(document.model)
    copy_of_model.recording = kept.recording()
    change_weights(copy_of_model.document)
    entries, stopped = copy_of_model.entries(), Progress()
    stopped.cancel()
    ahead = copy_of_model.recording.write_ahead(stopped)
    rename(document)
    assert not ahead.is_on_file()
    make(document, ahead, *entries)
    assert kept.problem == ""
    again, leftover = killed_now(tmp_path)
    assert leftover.titles == ("Rename", "Weights")
    assert snapshot(again.model) == snapshot(document.model)
    kept.close()


def test_an_edit_is_written_ahead_on_the_model_itself(tmp_path, dead):
    document = saved_file(tmp_path)
    before = snapshot(document.model)
    kept = Journal(document, tmp_path / "state")
    with document.edit("Weights") as edit:
        initializers.set_tensor(edit, builders.value(document, "w"), ArrayTensor(np.ones(1 << 15, np.float32)))
        nodes.insert_on_edge(edit, builders.value(document, "a"), "Neg")
        steps = edit.take_back()
    recording = kept.recording()
    recording.record(steps)
    assert snapshot(document.model) == before
    assert document.undo_title is None
    ahead = recording.write_ahead()
    rename(document)  # what is done meanwhile does not wait for it
    document.undo()
    assert killed_now(tmp_path / "state")[1].titles == ()
    make(document, ahead, ("Weights", steps))
    again, leftover = killed_now(tmp_path / "state")
    assert leftover.titles == ("Weights",)
    assert snapshot(again.model) == snapshot(document.model)
    kept.close()


def test_steps_recorded_before_a_save_are_written_when_made(tmp_path, dead):
    """The values of its file may be in other places since."""
    document = saved_file(tmp_path)
    kept = Journal(document, tmp_path / "state")
    copy_of_model = WorkingCopy(document.model)
    copy_of_model.recording = kept.recording()
    rename_all(copy_of_model.document)
    assert copy_of_model.entries()
    document.mark_saved()
    assert copy_of_model.recording.write_ahead() is None
    entries, ahead = prepared(document, kept, rename_all)
    document.mark_saved()
    make(document, ahead, *entries)
    abandon(kept)
    assert snapshot(recovered(document, tmp_path / "state").model) == snapshot(document.model)


def test_what_cannot_be_recorded_is_written_as_it_is_made(tmp_path):
    document = builders.document()
    kept = Journal(document, tmp_path)
    copy_of_model = WorkingCopy(document.model)
    copy_of_model.recording = kept.recording()
    builders.do(copy_of_model.document, SetField(copy_of_model.document.model, "metadata", {"odd": object()}))
    copy_of_model.entries()
    assert copy_of_model.recording.write_ahead() is None
    kept.close()


@pytest.mark.long
def test_a_full_disk_lets_the_tool_go_on(tmp_path, monkeypatch):
    document = large_document()
    kept = Journal(document, tmp_path)
    rename(document)

    def refuse(*_given):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("onnx_workbench.model.recovery.journal_files.JournalFiles._write_line", refuse)
    entries, ahead = prepared(document, kept, rename_all)
    wait_for(kept, ahead)
    make(document, ahead, *entries)
    assert document.undo_title == "Rename all"
    assert "not being kept" in kept.problem


def test_a_program_killed_when_the_edit_is_made_loses_nothing(tmp_path):
    code = f"""
import sys, os, signal, time
sys.path[:0] = {[str(Path.cwd()), *sys.path]!r}
from pathlib import Path
from tests.model.recovery.test_write_ahead import *
document = large_document()
kept = Journal(document, Path({str(tmp_path)!r}))
entries, ahead = prepared(document, kept, rename_all, delete_many)
while not ahead.wait(0):
    time.sleep(0.001)
make(document, ahead, *entries)
os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", code], check=False)
    (leftover,) = find_journals(tmp_path)
    document, again = large_document(), large_document()
    rename_all(document)
    delete_many(document)
    assert leftover.titles == ("Rename all", "Delete many")
    recover(again, leftover)
    assert snapshot(again.model) == snapshot(document.model)
