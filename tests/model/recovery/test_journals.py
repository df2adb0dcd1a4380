"""Journals: what a program that died had not saved is done again, exactly."""

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import tracemalloc
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from onnx_workbench.model.edits import attributes, nodes, values
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.steps import SetAttribute, SetField
from onnx_workbench.model.history.working_copy import WorkingCopy
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.writer.save import save
from onnx_workbench.model.ir.attributes import make_attribute
from onnx_workbench.model.ir.types import ElementType, Shape, TensorType
from onnx_workbench.model.progress import Cancelled, Progress
from onnx_workbench.model.recovery import recover as recovery_module
from onnx_workbench.model.recovery.journal import Journal
from onnx_workbench.model.recovery.log import VERSION
from onnx_workbench.model.recovery.recover import discard, find_journals, recover
from onnx_workbench.model.scripts import edit_script
from tests.model import builders
from tests.model.edits.test_any_edits import AnyEdits
from tests.model.history.test_working_copy import change, try_on_copy
from tests.model.recovery.crash import abandon
from tests.model.recovery.recorded_work import (
    LARGE,
    killed_now,
    large_document,
    recovered,
    rename_all,
    saved_file,
    work,
)
from tests.model.snapshots import assert_known, assert_linked, snapshot


def header(**wrong):
    """The first line of a journal with something wrong in it."""
    right = {"format": "onnx-workbench journal", "version": VERSION, "pid": 0, "path": "", "size": 0, "mtime_ns": 0}
    said = {"copy": False, "unsaved": False, "name": "", "follows": "", "started": ""}
    return json.dumps({**right, **said, "nodes": 0, **wrong}).encode() + b"\n"


def test_a_journal_brings_back_what_a_crash_took(tmp_path, dead):
    document = builders.document()
    kept = Journal(document, tmp_path)
    work(document)
    document.undo()
    document.undo()
    document.redo()
    abandon(kept)
    (leftover,) = find_journals(tmp_path)
    assert leftover.titles == ("Insert", "Attribute", "Rename", "Weights")
    again = builders.document()
    recover(again, leftover)
    assert snapshot(again.model) == snapshot(document.model)
    assert_linked(again.model)
    assert again.modified
    assert again.redo_title == "Function"
    assert list(tmp_path.iterdir()) == []


def test_a_saved_or_closed_document_leaves_nothing(tmp_path, dead):
    document = builders.document()
    kept = Journal(document, tmp_path)
    work(document)
    assert len(list(tmp_path.glob("*.journal"))) == 1
    document.mark_saved()
    assert list(tmp_path.iterdir()) == []
    builders.one_edit(document, nodes.rename_node, builders.node(document, "first"), "one")
    assert len(list(tmp_path.glob("*.journal"))) == 1
    kept.close()
    assert list(tmp_path.iterdir()) == []


def test_a_running_programs_journal_is_not_offered(tmp_path):
    document = builders.document()
    kept = Journal(document, tmp_path)
    work(document)
    assert list(find_journals(tmp_path)) == []
    kept.close()


def test_a_line_cut_by_the_crash_is_left_out(tmp_path, dead):
    document = builders.document()
    kept = Journal(document, tmp_path)
    work(document)
    abandon(kept)
    path = next(tmp_path.glob("*.journal"))
    data = path.read_bytes()
    states = set()
    for cut in range(data.index(b"\n") + 1, len(data), 97):
        path.write_bytes(data[:cut])
        again = builders.document()
        (leftover,) = find_journals(tmp_path)
        states.add(recover(again, leftover))
        assert_linked(again.model)
    assert states <= set(range(6))
    assert len(states) >= 4


def test_a_journal_is_offered_again_if_its_replay_was_killed(tmp_path, dead, monkeypatch):
    document = saved_file(tmp_path)
    kept = Journal(document, tmp_path / "state")
    work(document)
    abandon(kept)
    (leftover,) = find_journals(tmp_path / "state")
    with monkeypatch.context() as dying:
        dying.setattr("onnx_workbench.model.recovery.recover.decode", mock.Mock(side_effect=SystemExit))
        with pytest.raises(SystemExit):
            recover(Document(load(document.path), document.path), leftover)
    assert not leftover.was_cut_short
    monkeypatch.setattr("onnx_workbench.model.recovery.recover.is_running", lambda *_process: True)
    assert list(find_journals(tmp_path / "state")) == []  # it is being done again right now
    monkeypatch.setattr("onnx_workbench.model.recovery.recover.is_running", lambda *_process: False)
    (again,) = find_journals(tmp_path / "state")
    assert again.was_cut_short
    assert again.titles == leftover.titles
    assert snapshot(recovered(document, tmp_path / "state").model) == snapshot(document.model)
    assert list((tmp_path / "state").iterdir()) == []


def test_a_journal_that_fails_is_tried_once(tmp_path, dead):
    document = builders.document()
    kept = Journal(document, tmp_path)
    work(document)
    abandon(kept)
    path = next(tmp_path.glob("*.journal"))
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:2], lines[2].replace('"axis"', "17"), *lines[3:]]))
    (leftover,) = find_journals(tmp_path)
    again = builders.document()
    with pytest.raises(ModelError, match="1 edits were recovered, then line 3"):
        recover(again, leftover)
    assert_linked(again.model)
    assert list(find_journals(tmp_path)) == []
    assert len(list(tmp_path.glob("*.tried"))) == 1


def test_a_journal_of_another_file_is_not_replayed(tmp_path, dead):
    document = builders.document()
    kept = Journal(document, tmp_path)
    work(document)
    abandon(kept)
    (leftover,) = find_journals(tmp_path)
    other = builders.document(builders.BRANCHES)
    before = snapshot(other.model)
    with pytest.raises(ModelError, match="does not fit the model"):
        recover(other, leftover)
    assert snapshot(other.model) == before


def test_a_changed_file_is_noticed(tmp_path, dead):
    path = builders.model_file(tmp_path / "m.onnx", builders.CHAIN)
    document = Document(load(path), path)
    kept = Journal(document, tmp_path / "state")
    work(document)
    abandon(kept)
    (leftover,) = find_journals(tmp_path / "state")
    assert leftover.fits
    path.write_bytes(path.read_bytes() + b"\0")
    assert not leftover.fits


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"{}\n",
        b"[1]\n",
        b"\xff\xfe",
        b"[" * 100000 + b"\n",
        b'{"pid": "x"}\n',
        header(pid=10**30, size="many"),
        header(pid=10**30, size=float("inf")),
    ],
)
def test_damaged_journals_are_set_aside(tmp_path, dead, content):
    (tmp_path / "right.journal").write_bytes(header(pid=10**30))
    (right,) = find_journals(tmp_path)
    discard(right)
    (tmp_path / "x.journal").write_bytes(content)
    report = []
    assert list(find_journals(tmp_path, lambda _path, why: report.append(why))) == []
    assert list(find_journals(tmp_path)) == []
    assert all(re.fullmatch(r"[A-Z].* .*\.", why) for why in report)
    assert len(report) == bool(content)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_what_is_no_journal_keeps_none_from_being_found(tmp_path, dead):
    os.mkfifo(tmp_path / "pipe.journal")
    (tmp_path / "folder.journal").mkdir()
    (tmp_path / "link.journal").symlink_to("/dev/zero")
    (tmp_path / "right.journal").write_bytes(header(pid=10**30))
    (right,) = find_journals(tmp_path)
    assert right.path.name == "right.journal"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder.journal.tried", "right.journal"]


def test_journals_that_follow_each_other_in_a_circle_stay(tmp_path, dead):
    for name, follows in (("a", "b"), ("b", "a"), ("c", "c")):
        (tmp_path / f"{name}.journal").write_bytes(header(pid=10**30, follows=f"{follows}.journal"))
    assert len(list(find_journals(tmp_path))) == 3


def test_a_full_disk_stops_the_journal_not_the_work(tmp_path):
    document = builders.document()
    (tmp_path / "file").write_text("in the way")
    kept = Journal(document, tmp_path / "file")
    work(document)
    assert "not being kept" in kept.problem
    assert document.undo_title == "Function"


def test_typing_survives_as_one_entry(tmp_path, dead):
    document = builders.document()
    kept = Journal(document, tmp_path)
    for text in ("a", "ab", "abc"):
        with document.edit("Type", merge="doc") as edit:
            edit.do(SetField(document.model, "doc_string", text))
    document.end_gesture()
    with document.edit("Type", merge="doc") as edit:
        edit.do(SetField(document.model, "doc_string", "x"))
    abandon(kept)
    (leftover,) = find_journals(tmp_path)
    assert leftover.titles == ("Type", "Type")
    again = builders.document()
    recover(again, leftover)
    assert again.model.doc_string == "x"
    again.undo()
    assert again.model.doc_string == "abc"
    again.undo()
    assert again.model.doc_string == ""


def test_a_model_that_was_piped_in_begins_with_its_bytes(tmp_path, dead):
    data = builders.proto(builders.CHAIN).SerializeToString()
    document = Document(load(data))
    kept = Journal(document, tmp_path)
    work(document)
    abandon(kept)
    (leftover,) = find_journals(tmp_path)
    assert leftover.baseline.read_bytes() == data
    again = Document(load(leftover.baseline))
    recover(again, leftover)
    assert snapshot(again.model) == snapshot(document.model)


@pytest.mark.long
def test_a_killed_program_leaves_a_journal_that_is_offered(tmp_path):
    code = f"""
import sys, os, signal
sys.path[:0] = {[str(Path.cwd()), *sys.path]!r}
from pathlib import Path
from tests.model import builders
from tests.model.recovery.recorded_work import LARGE, killed_now, large_document, rename_all, work
from onnx_workbench.model.recovery.journal import Journal
document = builders.document()
Journal(document, Path({str(tmp_path)!r}))
work(document)
os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", code], check=False)
    (leftover,) = find_journals(tmp_path)
    document, again = builders.document(), builders.document()
    work(document)
    recover(again, leftover)
    assert snapshot(again.model) == snapshot(document.model)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="only /proc tells when a process was started")
@pytest.mark.parametrize("is_being_recovered", [False, True])
def test_a_journal_is_offered_though_its_process_number_is_taken(tmp_path, monkeypatch, is_being_recovered):
    """As after a power failure: numbers begin anew."""
    document, before = builders.document(), "another boot-1"
    monkeypatch.setattr("onnx_workbench.model.recovery.log.start_of", lambda _process: before)
    kept = Journal(document, tmp_path)
    work(document)
    abandon(kept)
    if is_being_recovered:
        (journal,) = tmp_path.glob("*.journal")
        journal.rename(f"{journal}.trying-{os.getpid()}-{before}")
    (leftover,) = find_journals(tmp_path)
    assert leftover.titles[0] == "Insert"


def test_a_body_moved_to_another_attribute_survives_undo(tmp_path, dead):
    """It was another graph with some values of the old one, which then belonged to the wrong one."""
    document = builders.document(builders.BRANCHES)
    kept = Journal(document, tmp_path)
    builders.do(document, SetField(builders.value(document, "yes_out"), "doc_string", "known by then"))
    with document.edit("Rename") as edit:
        attributes.rename_attribute(edit, builders.node(document, "choose"), "then_branch", "other")
    document.undo()
    abandon(kept)
    (leftover,) = find_journals(tmp_path)
    again = builders.document(builders.BRANCHES)
    recover(again, leftover)
    for move in (lambda _: None, Document.redo, Document.undo, Document.undo):
        move(again)
        assert_linked(again.model)
    assert snapshot(again.model) == snapshot(builders.model(builders.BRANCHES))


def type_all(document):
    with document.edit("Type all") as edit:
        for value in document.model.graph.values():
            edit.do(SetField(value, "type", TensorType(ElementType.FLOAT, Shape((LARGE,)))))


def declare_all(document):
    with document.edit("Declare all") as edit:
        made = [value for node in document.model.graph.nodes for value in node.outputs]
        values.set_types(edit, dict.fromkeys(made, TensorType(ElementType.INT64, Shape((LARGE, "n")))))


def mark_all(document):
    with document.edit("Mark all") as edit:
        for number, node in enumerate(document.model.graph.nodes):
            edit.do(SetAttribute(node, "mark", make_attribute("mark", number)))


def delete_many(document):
    with document.edit("Delete many") as edit:
        nodes.delete_and_bridge(edit, list(document.model.graph.nodes)[4::2])


def rename_one(document):
    with document.edit("Rename one") as edit:
        nodes.rename_node(edit, document.model.graph.nodes.first, "only")


@pytest.mark.long
@pytest.mark.parametrize("edits", [
    [rename_all, rename_one, type_all, delete_many, mark_all], [declare_all, delete_many, rename_one],
    [mark_all, rename_one, delete_many, type_all],
])  # fmt: skip
def test_an_edit_of_very_many_steps_is_on_file_when_made(tmp_path, dead, edits):
    document = large_document()
    kept = Journal(document, tmp_path)
    for edit in edits:
        edit(document)
        document.undo()
        document.redo()
    again, leftover = killed_now(tmp_path)
    assert leftover.titles == tuple(edit.__name__.capitalize().replace("_", " ") for edit in edits)
    assert snapshot(again.model) == snapshot(document.model)
    assert_linked(again.model)
    kept.close()


@pytest.mark.long
def test_edits_of_many_nodes_during_a_save_are_replayed(tmp_path, dead):
    """Nodes that come later were counted as if they had been there."""
    path = tmp_path / "m.onnx"
    document = large_document()
    kept = Journal(document, tmp_path / "state")
    save(document.model, path)
    state = document.current.id
    rename_all(document)
    with document.edit("Insert") as edit:
        nodes.insert_on_edge(edit, builders.value(document, "a"), "Neg")
    document.mark_saved(path, state)
    abandon(kept)
    again = Document(load(path), path)
    (leftover,) = find_journals(tmp_path / "state")
    recover(again, leftover)
    assert snapshot(again.model) == snapshot(document.model)


@pytest.mark.long
def test_a_step_of_very_many_that_cannot_be_written_is_reported_of(tmp_path):
    document = large_document()
    kept = Journal(document, tmp_path)
    rename_all(document)  # by then each has a number
    with document.edit("Odd") as edit:
        for number, node in enumerate(document.model.graph.nodes):
            edit.do(SetField(node, "metadata", {"odd": object() if number == LARGE // 2 else ""}))
    assert "not being kept" in kept.problem
    kept.close()


def tried_on_a_copy(document, journal, changes):
    """A copy of the model to which something was done, for the journal of the real one."""
    copy_of_model = WorkingCopy(document.model)
    copy_of_model.recording = journal.recording()
    try_on_copy(copy_of_model, changes)
    return copy_of_model


class RecordedEdits(AnyEdits):
    """The user of AnyEdits with a journal, which a crash leaves behind, and a script of what is in force."""

    def teardown(self):
        if hasattr(self, "document"):
            self._check_script()
            abandon(self.journal)
            self._check_journal()
        super().teardown()

    def opened(self):
        self.folder = tempfile.TemporaryDirectory()
        self.journal = Journal(self.document, Path(self.folder.name))

    @rule(changes=st.lists(change, min_size=1, max_size=3), made=st.integers(0, 3))
    def use_a_tool(self, changes, made):
        """It works on a copy; what it did is written down first, of which not all need to be made."""
        copy_of_model = tried_on_a_copy(self.document, self.journal, changes)
        entries = copy_of_model.entries()
        ahead = copy_of_model.recording.write_ahead()
        for title, steps in entries[:made]:
            with ahead.making() if ahead else contextlib.nullcontext(), self.document.edit(title) as edit:
                edit.repeat(steps)

    @rule(changes=st.lists(change, min_size=1, max_size=2))
    def wait_for_bytes(self, changes):
        """Of an edit that was tried on the model itself and taken back until they are on file."""
        copy_of_model = WorkingCopy(self.document.model)
        try_on_copy(copy_of_model, changes)
        for title, steps in copy_of_model.entries():
            before = snapshot(self.document.model)
            recording = self.journal.recording()
            recording.record(steps)
            assert snapshot(self.document.model) == before
            ahead = recording.write_ahead()
            with ahead.making() if ahead else contextlib.nullcontext(), self.document.edit(title) as edit:
                edit.repeat(steps)

    def _check_script(self):
        again = self.as_opened()
        edit_script.replay(again, edit_script.export(self.document))
        assert snapshot(again.model) == snapshot(self.document.model)
        assert_linked(again.model)

    def _check_journal(self):
        with mock.patch("onnx_workbench.model.recovery.recover.is_running", return_value=False), self.folder:
            for leftover in find_journals(Path(self.folder.name)):
                again = self.as_opened()
                recover(again, leftover)
                assert snapshot(again.model) == snapshot(self.document.model)
                assert_linked(again.model)


TestRecordedEdits = RecordedEdits.TestCase
TestRecordedEdits = pytest.mark.long(TestRecordedEdits)
TestRecordedEdits.settings = settings(stateful_step_count=25)


class LookedAt(RecordedEdits):
    """The same user, and between any two edits a look at the model as it began, as by a save.

    Steps of tools are made text from very few on.
    """

    def opened(self):
        self.patches = contextlib.ExitStack()
        self.patches.enter_context(mock.patch("onnx_workbench.model.recovery.write_ahead._PART", 2))
        super().opened()

    def teardown(self):
        with getattr(self, "patches", contextlib.nullcontext()):
            super().teardown()

    @rule()
    def look(self):
        model = self.document.model
        before = snapshot(model)
        with self.document.at(self.document.root):
            assert snapshot(model) == self.states[0]
            assert_linked(model)
        assert snapshot(model) == before
        assert_linked(model)
        assert_known(model)


TestLookedAt = LookedAt.TestCase
TestLookedAt = pytest.mark.long(TestLookedAt)
TestLookedAt.settings = settings(stateful_step_count=25)


def abandoned_renames(folder):
    """The journal of a program that died after six edits, each of which names a node name0, name1 …"""
    document = builders.document()
    kept = Journal(document, folder)
    for number in range(6):
        with document.edit(f"Rename {number}") as edit:
            nodes.rename_node(edit, document.model.graph.nodes[0], f"name{number}")
    abandon(kept)
    (path,) = folder.glob("*.journal")
    return path


@pytest.mark.parametrize("how", ["garbage", "not UTF-8", "zeros to the end", "zeros in the middle"])
def test_a_damaged_journal_is_replayed_up_to_the_damage(tmp_path, dead, how):
    path = abandoned_renames(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    whole, rest = b"".join(lines[:4]), b"".join(lines[5:])  # a header and three edits, then one, then two
    broken = {
        "garbage": b"{garbage}\n" + rest,
        "not UTF-8": b'{"edit": "\xff"}\n' + rest,
        "zeros to the end": lines[4][:10] + bytes(2000),
        "zeros in the middle": bytes(len(lines[4]) - 1) + b"\n" + rest,
    }
    path.write_bytes(whole + broken[how])
    (leftover,) = find_journals(tmp_path)
    assert leftover.titles == ("Rename 0", "Rename 1", "Rename 2")
    missing = "an edit" if how == "zeros to the end" else "3 edits"
    assert str(leftover.damage) == f"Line 5 of the journal is damaged: {missing} or more from there on are missing."
    again = builders.document()
    assert recover(again, leftover) == 3
    assert again.model.graph.nodes[0].name == "name2"
    assert list(find_journals(tmp_path)) == []  # but it is kept
    assert path.with_name(f"{path.name}.tried").exists()


def test_a_line_that_is_too_long_ends_the_journal(tmp_path, dead, monkeypatch):
    monkeypatch.setattr(recovery_module, "_LONGEST_LINE", 5000)
    path = abandoned_renames(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    assert max(map(len, lines)) < 5000
    long = b'{"edit":"x","steps":[' + b",".join([b'{"do":"y"}'] * 600) + b"]}\n"
    path.write_bytes(b"".join([*lines[:3], long, *lines[3:]]))
    (leftover,) = find_journals(tmp_path)
    assert leftover.damage.line == 4
    assert str(leftover.damage).startswith("Line 4 of the journal is longer than 5,000 bytes: ")
    assert recover(builders.document(), leftover) == 2  # the first line is no edit


@pytest.mark.long
def test_the_steps_of_a_long_line_are_not_held_all_at_once(tmp_path, dead):
    path = abandoned_renames(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    long = b'{"edit":"x","steps":[' + b",".join([b'{"do":[[],[],[],[],[]]}'] * 100_000) + b"]}\n"
    path.write_bytes(b"".join([*lines[:2], long]))
    tracemalloc.start()
    (leftover,) = find_journals(tmp_path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert leftover.damage is None
    assert leftover.titles[-1] == "x"
    assert peak < 4 * len(long)


def test_a_cancelled_replay_leaves_the_journal(tmp_path, dead):
    path = abandoned_renames(tmp_path)
    (leftover,) = find_journals(tmp_path)
    progress = Progress()
    progress.cancel()
    with pytest.raises(Cancelled):
        recover(builders.document(), leftover, progress=progress)
    assert path.exists()
    assert recover(builders.document(), leftover) == 6


def test_a_line_that_the_crash_cut_is_no_damage(tmp_path, dead):
    document = builders.document()
    kept = Journal(document, tmp_path)
    work(document)
    abandon(kept)
    (path,) = tmp_path.glob("*.journal")
    path.write_bytes(path.read_bytes()[:-10])
    (leftover,) = find_journals(tmp_path)
    assert leftover.damage is None
