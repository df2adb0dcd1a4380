"""The files of journals in the state folder: disks that fail, programs that die in between, what is left over."""

import builtins
import errno
import os
import shutil
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.steps import SetInitializer
from onnx_workbench.model.io.reader.payloads import Payload
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.reader.source import OPEN_FILES_STAY
from onnx_workbench.model.io.writer.save import save
from onnx_workbench.model.ir.graph import Value
from onnx_workbench.model.ir.tensors import ArrayTensor
from onnx_workbench.model.progress import Progress
from onnx_workbench.model.recovery.journal import Journal
from onnx_workbench.model.recovery.journal_files import JournalFiles, base_path, data_path
from onnx_workbench.model.recovery.recover import discard, find_journals, recover
from tests.model import builders
from tests.model.recovery.crash import abandon
from tests.model.recovery.recorded_work import killed_now, rename
from tests.model.snapshots import snapshot


def wait_for_the_disk():
    """Until all is removed that is removed beside the work."""
    for thread in threading.enumerate():
        if thread.name == "journal removal":
            thread.join()


def add_weights(document, name="new"):
    with document.edit("Weights") as edit:
        edit.do(SetInitializer(document.model.graph, Value(name), ArrayTensor(np.ones((1 << 15,), np.int64))))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_disk_that_fills_up_stops_the_journal_not_the_work(tmp_path, monkeypatch):
    def full(path, *args, **kwargs):
        return builtins.open("/dev/full", args[0].replace("x", "w"), **kwargs)

    monkeypatch.setattr("onnx_workbench.model.recovery.journal_files.open", full, raising=False)
    document = builders.document()
    kept = Journal(document, tmp_path)
    rename(document, "one")
    assert "not being kept" in kept.problem
    rename(document, "two")
    assert document.model.graph.name == "two"
    kept.close()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_turned_read_only_stops_only_the_journal(tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    document = builders.document()
    kept = Journal(document, tmp_path)
    rename(document, "one")
    monkeypatch.setattr(Path, "unlink", refuse)
    document.mark_saved()
    rename(document, "two")
    kept.close()
    assert document.model.graph.name == "two"


@pytest.mark.skipif(OPEN_FILES_STAY, reason="a journal that is written cannot be removed")
def test_a_folder_that_is_removed_stops_the_journal_not_the_work(tmp_path, monkeypatch):
    monkeypatch.setattr("onnx_workbench.model.recovery.journal_files._LOOK_SECONDS", -1.0)
    document = builders.document()
    kept = Journal(document, tmp_path / "state")
    rename(document, "one")
    assert kept.problem == ""
    shutil.rmtree(tmp_path / "state")
    rename(document, "two")
    assert kept.problem == "Edits are not being kept for recovery: their file was removed."
    assert document.model.graph.name == "two"
    kept.close()


def test_weights_that_cannot_be_written_stop_the_journal(tmp_path, monkeypatch, dead):
    document = builders.document()
    kept = Journal(document, tmp_path)
    rename(document, "one")
    data_path(kept.path).mkdir()  # in the way
    add_weights(document)
    assert "not being kept" in kept.problem
    rename(document, "two")
    assert document.model.graph.name == "two"


def test_a_baseline_that_cannot_be_written_leaves_nothing(tmp_path, monkeypatch):
    full = mock.Mock(side_effect=OSError(errno.ENOSPC, "No space left on device"))
    monkeypatch.setattr("onnx_workbench.model.io.writer.atomic_file.os.write", full)
    document = builders.document()
    document.mark_unsaved()
    kept = Journal(document, tmp_path)
    assert "the disk is full" in kept.problem
    assert list(tmp_path.iterdir()) == []
    rename(document, "two")
    assert document.model.graph.name == "two"
    assert list(tmp_path.iterdir()) == []


def test_a_kill_during_a_removal_leaves_nothing_to_recover(tmp_path, dead, monkeypatch):
    document = builders.document()
    kept = Journal(document, tmp_path)
    rename(document, "one")
    unlink, removed = Path.unlink, []

    def die_after_one(path, **given):
        if not removed:
            removed.append(path.suffix)
            unlink(path, **given)

    with monkeypatch.context() as dying:
        dying.setattr(Path, "unlink", die_after_one)
        dying.setattr(Path, "iterdir", lambda folder: iter(sorted(folder.glob("*"), reverse=True)))
        kept.close()
    assert removed == [".journal"]
    assert list(find_journals(tmp_path)) == []
    assert list(tmp_path.iterdir()) == []


def test_a_journal_without_its_weights_says_so(tmp_path, dead):
    document = builders.document()
    kept = Journal(document, tmp_path)
    rename(document, "one")
    add_weights(document)
    abandon(kept)
    (data,) = tmp_path.glob("*.data")
    data.unlink()
    (leftover,) = find_journals(tmp_path)
    again = Document(load(leftover.baseline))
    with pytest.raises(ModelError, match="1 edits were recovered") as caught:
        recover(again, leftover)
    assert "262,144 bytes of a tensor are missing" in caught.value.detail
    assert again.model.graph.name == "one"


def test_a_journal_that_is_gone_meanwhile_is_reported(tmp_path, dead):
    document = builders.document()
    kept = Journal(document, tmp_path)
    rename(document, "one")
    abandon(kept)
    (leftover,) = find_journals(tmp_path)
    again = Document(load(leftover.baseline))
    discard(leftover)
    with pytest.raises(ModelError, match="journal"):
        recover(again, leftover)
    discard(leftover)


def test_a_journal_that_was_just_begun_is_left_to_its_program(tmp_path):
    begun = tmp_path / f"{os.getpid()}-0123.journal"
    begun.touch()
    assert list(find_journals(tmp_path)) == []
    assert begun.exists()


@pytest.mark.parametrize("begun", [False, True])
def test_what_lies_beside_no_journal_or_an_empty_one_is_removed(tmp_path, dead, begun):
    journal, other = tmp_path / "1-aa.journal", tmp_path / "mine.onnx"
    cut = tmp_path / ".1-aa.onnx.0123abcd-1-0123abcd.saving"  # a baseline that was being written
    beside = tmp_path / "1-aa.onnx.0123abcd.data"
    for path in (base_path(journal), data_path(journal), cut, beside, other):
        path.write_bytes(b"x")
    if begun:
        journal.touch()
    assert list(find_journals(tmp_path)) == []
    assert list(tmp_path.iterdir()) == [other]


def test_what_a_running_program_puts_down_first_stays(tmp_path):
    journal = tmp_path / f"{os.getpid()}-aa.journal"
    written = [data_path(journal), journal.with_name(f".{os.getpid()}-aa.onnx.0123abcd-1-0123abcd.saving")]
    for path in written:
        path.write_bytes(b"x")
    assert list(find_journals(tmp_path)) == []
    assert all(path.exists() for path in written)


def test_what_lies_beside_a_journal_that_was_tried_stays(tmp_path, dead):
    document = builders.document()
    kept = Journal(document, tmp_path)
    rename(document, "one")
    abandon(kept)
    (leftover,) = find_journals(tmp_path)
    with pytest.raises(ModelError, match="does not fit"):
        recover(builders.document(builders.BRANCHES), leftover)
    before = sorted(tmp_path.iterdir())
    assert len(before) == 2
    assert list(find_journals(tmp_path)) == []
    assert sorted(tmp_path.iterdir()) == before


class Endless:
    """Bytes of which the first few have been read when nobody wants them any more."""

    name, size = "endless", 1 << 40

    def __init__(self):
        self.given = 0
        self.is_read = threading.Event()

    def read(self, offset, length):
        self.given += 1
        self.is_read.set()
        return b"x"


def test_weights_and_later_edits_are_on_file_at_once(tmp_path, dead):
    document = builders.document()
    kept = Journal(document, tmp_path)
    rename(document, "one")
    add_weights(document)
    again, leftover = killed_now(tmp_path)
    assert leftover.titles == ("Rename", "Weights")
    assert snapshot(again.model) == snapshot(document.model)
    rename(document, "two")
    document.undo()
    add_weights(document, "more")
    again, leftover = killed_now(tmp_path)
    assert leftover.titles == ("Rename", "Weights", "Weights")
    assert snapshot(again.model) == snapshot(document.model)
    kept.close()


def test_what_was_done_while_a_save_went_on_is_on_file_all_the_time(tmp_path, dead, monkeypatch):
    """The journal of before goes when the next one holds it."""
    document = builders.document()
    kept = Journal(document, tmp_path / "state")
    save(document.model, tmp_path / "m.onnx")
    state = document.current.id
    rename(document, "meanwhile")
    remove, left = JournalFiles.remove, []
    monkeypatch.setattr(
        JournalFiles, "remove", lambda store: (left.extend(find_journals(tmp_path / "state")), remove(store))
    )
    document.mark_saved(tmp_path / "m.onnx", state)
    assert [leftover.titles for leftover in left] == [("Rename",), ("Rename",)]
    assert len(list((tmp_path / "state").iterdir())) == 1
    kept.close()


def test_giving_a_journal_up_does_not_wait_for_bytes(tmp_path):
    store, source = JournalFiles(tmp_path / "1-aa.journal"), Endless()
    ended = []
    store.ahead([], [Payload(source, 0, source.size)], Progress(), ended.append)
    assert source.is_read.wait(30)
    store.remove()
    assert source.given < 1 << 20
    assert ended == [False]
    wait_for_the_disk()
    assert list(tmp_path.iterdir()) == []


def test_a_journal_that_was_tried_is_kept_for_some_weeks(tmp_path, dead):
    (tmp_path / "1-aa.journal").write_text("damaged\n")
    beside = base_path(tmp_path / "1-aa.journal")
    beside.write_bytes(b"x")
    assert list(find_journals(tmp_path)) == []
    (tried,) = tmp_path.glob("*.tried")
    os.utime(tried, (time.time() - 29 * 86400,) * 2)
    assert list(find_journals(tmp_path)) == []
    assert tried.exists()
    os.utime(tried, (time.time() - 31 * 86400,) * 2)
    assert list(find_journals(tmp_path)) == []
    assert list(tmp_path.iterdir()) == []


def test_the_disk_is_asked_to_hurry_when_nothing_more_is_written(tmp_path, monkeypatch):
    """While it does, what is written waits: in typing, for a frame."""
    asked, may_go_on, was_asked = [], threading.Event(), threading.Semaphore(0)
    now = 0.0

    def sleep(seconds):
        nonlocal now
        may_go_on.wait()
        now += seconds

    clock = SimpleNamespace(monotonic=lambda: now, sleep=sleep)
    monkeypatch.setattr("onnx_workbench.model.recovery.journal_files.time", clock)
    monkeypatch.setattr(
        "onnx_workbench.model.recovery.journal_files.os.fsync",
        lambda file: (asked.append(os.fstat(file)), was_asked.release()),
    )
    document = builders.document()
    kept = Journal(document, tmp_path)

    def sizes():
        own = kept.path.stat().st_ino  # the baseline of the model is in another file
        return [found.st_size for found in asked if found.st_ino == own]

    for number in range(5):
        rename(document, f"name {number}")
    assert sizes() == []
    may_go_on.set()
    while not sizes():
        assert was_asked.acquire()
    assert sizes() == [kept.path.stat().st_size]
    kept.close()


def test_it_is_asked_even_if_writing_never_rests(tmp_path, monkeypatch):
    synced = threading.Event()
    monkeypatch.setattr("onnx_workbench.model.recovery.journal_files._LONGEST", 0.0)
    monkeypatch.setattr("onnx_workbench.model.recovery.journal_files._REST", 1e9)
    monkeypatch.setattr("onnx_workbench.model.recovery.journal_files.os.fsync", lambda _file: synced.set())
    document = builders.document()
    kept = Journal(document, tmp_path)
    rename(document, "name")
    assert synced.wait(30)
    kept.close()
