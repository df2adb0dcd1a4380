"""Documents in no file: the model as it began is written down before anything is done to it."""

import threading
import tracemalloc
from unittest import mock

import numpy as np
import pytest

from onnx_workbench.model.edits import nodes
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.steps import SetField, SetInitializer
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.writer.save import save
from onnx_workbench.model.io.writer.storage_plan import DataLayout, Storage
from onnx_workbench.model.ir.graph import Value
from onnx_workbench.model.ir.tensors import ArrayTensor
from onnx_workbench.model.progress import Progress
from onnx_workbench.model.recovery import journal_files
from onnx_workbench.model.recovery.baseline import write_baseline
from onnx_workbench.model.recovery.journal import Journal
from onnx_workbench.model.recovery.journal_files import SUFFIX, base_path
from onnx_workbench.model.recovery.log import BaseFile
from onnx_workbench.model.recovery.recover import discard, find_journals, recover
from tests.model import builders
from tests.model.recovery.crash import abandon
from tests.model.recovery.recorded_work import killed_now, recovered, rename, saved_file, work
from tests.model.snapshots import assert_linked, snapshot


@pytest.fixture
def unsaved():
    """A model that somebody made and did not save."""
    document = builders.document()
    document.mark_unsaved()
    return document


def recovered_beginning(folder):
    """What the next start makes of the one document in no file that is left."""
    (leftover,) = find_journals(folder)
    again = Document(load(leftover.baseline))
    recover(again, leftover)
    assert_linked(again.model)
    return again, leftover


def test_a_model_that_was_made_is_kept_before_any_edit(tmp_path, dead, unsaved):
    baseline = write_baseline(unsaved.model, tmp_path)
    kept = Journal(unsaved, tmp_path, baseline=baseline)
    assert kept.path == baseline.journal
    abandon(kept)
    again, leftover = recovered_beginning(tmp_path)
    assert leftover.is_unsaved
    assert leftover.titles == ()
    assert again.modified
    assert snapshot(again.model) == snapshot(unsaved.model)
    assert list(tmp_path.iterdir()) == []


def test_its_first_edits_are_done_again_on_it(tmp_path, dead, unsaved):
    kept = Journal(unsaved, tmp_path, baseline=write_baseline(unsaved.model, tmp_path))
    work(unsaved)
    unsaved.undo()
    again, leftover = killed_now(tmp_path)
    assert leftover.titles == ("Insert", "Attribute", "Rename", "Weights")
    assert snapshot(again.model) == snapshot(unsaved.model)
    kept.close()
    assert list(tmp_path.iterdir()) == []


def test_what_was_looked_at_only_is_not_offered_and_leaves_nothing(tmp_path, dead):
    document = builders.document()
    kept = Journal(document, tmp_path, baseline=write_baseline(document.model, tmp_path))
    assert len(list(tmp_path.iterdir())) == 1
    abandon(kept)
    assert list(find_journals(tmp_path)) == []
    assert list(tmp_path.iterdir()) == []


def test_what_is_called_unsaved_later_is_offered(tmp_path, dead):
    """As by a recovery of what nobody has edited."""
    document = builders.document()
    kept = Journal(document, tmp_path)
    document.mark_unsaved()
    _, leftover = killed_now(tmp_path)
    assert leftover.is_unsaved
    kept.close()
    assert list(tmp_path.iterdir()) == []


def test_a_beginning_that_was_stopped_leaves_nothing_and_is_reported(tmp_path, unsaved):
    stopped = Progress()
    stopped.cancel()
    kept = Journal(unsaved, tmp_path, baseline=write_baseline(unsaved.model, tmp_path, stopped))
    assert kept.problem == "Edits are not being kept for recovery: that was stopped."
    work(unsaved)
    assert list(tmp_path.iterdir()) == []


def test_edits_of_a_model_in_a_file_need_no_beginning(tmp_path, dead):
    document = saved_file(tmp_path)
    kept = Journal(document, tmp_path / "state")
    assert not (tmp_path / "state").exists()
    work(document)
    (leftover,) = find_journals(tmp_path / "state")  # while the program goes on
    assert leftover.titles == ("Insert", "Attribute", "Rename", "Weights", "Function")
    assert leftover.baseline is None
    abandon(kept)
    assert snapshot(recovered(document, tmp_path / "state").model) == snapshot(document.model)


def test_a_copy_of_what_a_file_holds_needs_none_either(tmp_path, dead):
    file = saved_file(tmp_path)
    document = Document(load(file.path))
    kept = Journal(document, tmp_path / "state", BaseFile.of(file.path))
    work(document)
    (leftover,) = find_journals(tmp_path / "state")
    assert leftover.is_copy
    assert leftover.base.path == str(file.path)
    abandon(kept)
    assert snapshot(recovered(file, tmp_path / "state").model) == snapshot(document.model)


def test_a_save_ends_the_need_for_a_beginning(tmp_path, dead, unsaved):
    kept = Journal(unsaved, tmp_path / "state")
    work(unsaved)
    path = tmp_path / "saved.onnx"
    save(unsaved.model, path)
    unsaved.mark_saved(path)
    assert list((tmp_path / "state").iterdir()) == []
    with unsaved.edit("After") as edit:
        nodes.add_node(edit, unsaved.model.graph, "Relu", [builders.value(unsaved, "x")], name="after")
    abandon(kept)
    assert snapshot(recovered(unsaved, tmp_path / "state").model) == snapshot(unsaved.model)


def large_model(count):
    """Tensors of 8 MB each, in memory alone."""
    document = builders.document()
    with document.edit("Weights") as edit:
        for number in range(count):
            values = np.full((1 << 21,), number, np.float32)
            edit.do(SetInitializer(document.model.graph, Value(f"large {number}"), ArrayTensor(values)))
    model = document.model
    del document  # with its history
    return Document(model)


def test_large_tensors_are_written_without_being_in_memory_twice(tmp_path, dead):
    document = large_model(10)
    tracemalloc.start()
    try:
        kept = Journal(document, tmp_path)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept.problem == ""
    assert most < 16 << 20
    rename(document)
    assert base_path(kept.path).stat().st_size > 80 << 20
    abandon(kept)
    again, _ = recovered_beginning(tmp_path)
    assert snapshot(again.model) == snapshot(document.model)


def test_a_large_beginning_that_is_stopped_on_the_way_leaves_nothing(tmp_path):
    class Stopped(Progress):
        def report(self, done, total, text=""):
            if done:
                self.cancel()
            super().report(done, total, text)

    baseline = write_baseline(large_model(4).model, tmp_path, Stopped())
    assert baseline.problem == "that was stopped"
    assert list(tmp_path.iterdir()) == []


def test_trouble_with_the_baseline_stops_only_the_journal(tmp_path, monkeypatch, unsaved):
    monkeypatch.setattr("onnx_workbench.model.io.writer.save.prepare", mock.Mock(side_effect=RuntimeError("odd")))
    kept = Journal(unsaved, tmp_path)
    work(unsaved)
    assert kept.problem == "Edits are not being kept for recovery: odd."
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


def test_a_baseline_over_one_files_limit_has_weights_beside_it(tmp_path, dead, monkeypatch):
    monkeypatch.setattr("onnx_workbench.model.io.writer.save.MESSAGE_LIMIT", 10 << 20)
    document = large_model(2)
    kept = Journal(document, tmp_path, baseline=write_baseline(document.model, tmp_path))
    assert kept.problem == ""
    work(document)
    abandon(kept)
    (leftover,) = find_journals(tmp_path)
    again = Document(load(leftover.baseline))
    recover(again, leftover, lambda _discard: None)
    assert snapshot(again.model) == snapshot(document.model)
    discard(leftover)
    assert list(tmp_path.iterdir()) == []


def test_weights_of_a_baseline_outlast_its_recovered_journal(tmp_path, dead):
    document = large_model(2)
    save(document.model, tmp_path / "m.onnx", Storage(DataLayout.ONE_FILE))
    model, state = load(tmp_path / "m.onnx"), tmp_path / "state"
    for number in range(3):
        again, before = Document(model), list(find_journals(state))
        kept = Journal(again, state, baseline=write_baseline(model, state))
        again.mark_unsaved()
        for leftover in before:
            recover(again, leftover, kept.when_kept)
            assert not leftover.path.exists()
        abandon(kept)
        if number < 2:
            del again, kept
        assert snapshot(model) == snapshot(document.model)
        (leftover,) = find_journals(state)
        model = load(leftover.baseline)


@pytest.fixture
def slow_disk(monkeypatch):
    """A disk that is slow to remove what is large, as everything is but journals; the call has it come to the end."""
    free, unlink = threading.Event(), journal_files._unlink
    monkeypatch.setattr(journal_files, "_LARGE", 1)
    monkeypatch.setattr(
        journal_files, "_unlink", lambda path: (path.suffix == SUFFIX or free.wait(30)) and unlink(path)
    )

    def end():
        free.set()
        for thread in [thread for thread in threading.enumerate() if thread.name == "journal removal"]:
            thread.join()

    yield end
    end()


def test_closing_does_not_wait_for_large_files_to_be_removed(tmp_path, slow_disk, unsaved):
    baseline = write_baseline(unsaved.model, tmp_path)
    Journal(unsaved, tmp_path, baseline=baseline).close()
    assert list(tmp_path.iterdir()) == [base_path(baseline.journal)], "there is nothing to recover any more"
    slow_disk()
    assert list(tmp_path.iterdir()) == []


def test_a_start_does_not_wait_for_a_killed_removal(tmp_path, dead, slow_disk, unsaved):
    baseline = write_baseline(unsaved.model, tmp_path)
    assert list(find_journals(tmp_path)) == []
    assert list(tmp_path.iterdir()) == [base_path(baseline.journal)]
    slow_disk()
    assert list(tmp_path.iterdir()) == []
