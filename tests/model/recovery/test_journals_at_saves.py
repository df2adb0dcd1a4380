"""A program that ends at any moment of a save: what it leaves fits the file that is there then."""

import pytest

from onnx_workbench.model.edits import nodes
from onnx_workbench.model.io.writer.atomic_file import AtomicFile
from onnx_workbench.model.io.writer.save import prepare
from onnx_workbench.model.recovery.baseline import write_baseline
from onnx_workbench.model.recovery.journal import Journal
from onnx_workbench.model.recovery.log import BaseFile, JournalLog
from tests.model import builders
from tests.model.recovery.recorded_work import killed_now, rename, saved_file, work
from tests.model.snapshots import assert_linked, snapshot


class Work:
    """A document, its journal, and a save of it that is looked at, and edited at, on the way."""

    def __init__(self, document, state):
        self.document, self.state = document, state
        self.kept = Journal(document, state)
        self.offered = []

    def look(self):
        """The next start, if the program was killed now, has all."""
        again, leftover = killed_now(self.state)
        assert snapshot(again.model) == snapshot(self.document.model)
        assert_linked(again.model)
        self.offered.append(leftover.titles)

    def save(self, path, monkeypatch, meanwhile):
        """Save, and call `meanwhile` before the file takes its place and after that. The document does not know yet."""
        state = self.document.current
        saving, commit = prepare(self.document.model, path), AtomicFile.commit

        def looked_at(file):
            if self.state in file.path.parents:
                commit(file)
                return
            meanwhile("before")
            commit(file)
            meanwhile("after")

        def placing(target, identity):
            self.kept.expect(BaseFile(str(target), identity.size, identity.modified_ns), state)

        monkeypatch.setattr(AtomicFile, "commit", looked_at)
        saving.run(placing=placing)
        return state


@pytest.fixture
def of_file(tmp_path, dead):
    kept_work = Work(saved_file(tmp_path), tmp_path / "state")
    yield kept_work
    kept_work.kept.close()


@pytest.fixture
def of_none(tmp_path, dead):
    document = builders.document()
    document.mark_unsaved()
    kept_work = Work(document, tmp_path / "state")
    yield kept_work
    kept_work.kept.close()


@pytest.fixture(params=["of_file", "of_none"])
def kept_work(request):
    """Of a document that belongs to a file, and of one that belongs to none."""
    return request.getfixturevalue(request.param)


def insert(document, name):
    with document.edit("Insert") as edit:
        nodes.insert_on_edge(edit, builders.value(document, "x"), "Neg")
        nodes.rename_node(edit, document.model.graph.nodes.first, name)


@pytest.mark.parametrize("name", ["m.onnx", "other.onnx"])
def test_nothing_is_lost_nor_done_twice_whenever_it_ends(tmp_path, kept_work, monkeypatch, name):
    work(kept_work.document)
    state = kept_work.save(tmp_path / name, monkeypatch, lambda _moment: kept_work.look())
    kept_work.document.mark_saved(tmp_path / name, state.id)
    assert kept_work.offered[0][:1] == ("Insert",)
    assert kept_work.offered[1] == ()


@pytest.mark.parametrize("name", ["m.onnx", "other.onnx"])
def test_what_is_done_meanwhile_is_done_again_on_either_file(tmp_path, kept_work, monkeypatch, name):
    document = kept_work.document

    def meanwhile(moment):
        rename(document, moment)
        kept_work.look()
        insert(document, moment)
        kept_work.look()
        document.undo()
        document.undo()
        document.redo()
        kept_work.look()

    work(document)
    state = kept_work.save(tmp_path / name, monkeypatch, meanwhile)
    document.mark_saved(tmp_path / name, state.id)
    kept_work.look()
    rename(document, "at last")
    kept_work.look()
    before, after = kept_work.offered[:3], kept_work.offered[3:]
    assert [titles[5:] for titles in before] == [("Rename",), ("Rename", "Insert"), ("Rename",)]
    assert [titles[1:] for titles in after[:3]] == [("Rename",), ("Rename", "Insert"), ("Rename",)]
    document.mark_saved()
    assert list(kept_work.state.iterdir()) == []


def test_what_was_saved_is_undone_meanwhile(tmp_path, of_file, monkeypatch):
    document = of_file.document

    def meanwhile(_moment):
        document.undo()
        of_file.look()

    work(document)
    state = of_file.save(document.path, monkeypatch, meanwhile)
    document.mark_saved(state=state.id)
    of_file.look()
    document.redo()
    document.redo()
    of_file.look()


def test_a_first_edit_comes_while_a_file_takes_its_place(tmp_path, of_file, monkeypatch):
    def meanwhile(moment):
        rename(of_file.document, moment)
        of_file.look()

    of_file.save(tmp_path / "other.onnx", monkeypatch, meanwhile)
    assert of_file.offered == [("Rename",), ("Rename", "Rename")]


def test_what_a_save_makes_needless_goes_before_what_fits_its_file(tmp_path, of_file, monkeypatch):
    def remove_and_look(log):
        remove(log)
        if list(of_file.state.glob("*.journal")):
            of_file.look()

    work(of_file.document)
    state = of_file.save(of_file.document.path, monkeypatch, lambda _moment: None)
    remove = JournalLog.remove
    monkeypatch.setattr(JournalLog, "remove", remove_and_look)
    of_file.document.mark_saved(state=state.id)
    assert of_file.offered == [()]
    assert list(of_file.state.iterdir()) == []


def test_a_baseline_written_during_a_save_keeps_all_edits(of_file, monkeypatch):
    document = of_file.document

    def meanwhile(moment):
        rename(document, moment)
        of_file.kept.restart_from(write_baseline(document.model, of_file.state), document.current)
        rename(document, f"{moment} that")
        of_file.look()

    work(document)
    state = of_file.save(document.path, monkeypatch, meanwhile)
    document.mark_saved(state=state.id)
    of_file.look()
    assert of_file.offered == [("Rename",), ("Rename",) * 4, ("Rename",) * 4]


def test_a_journal_replaced_by_a_baseline_is_not_offered(of_file, monkeypatch):
    def look_and_remove(log):
        of_file.look()
        remove(log)

    document, remove = of_file.document, JournalLog.remove
    work(document)
    document.path.write_bytes(document.path.read_bytes() + b"\x52\x00")
    baseline = write_baseline(document.model, of_file.state)
    monkeypatch.setattr(JournalLog, "remove", look_and_remove)
    of_file.kept.restart_from(baseline, document.current)
    monkeypatch.undo()
    assert of_file.offered == [()]


def test_a_save_that_fails_at_last_leaves_what_there_was(tmp_path, of_file, monkeypatch):
    def fail(_moment):
        raise OSError(5, "Input/output error")

    work(of_file.document)
    with pytest.raises(Exception, match="disk reports an error"):
        of_file.save(of_file.document.path, monkeypatch, fail)
    of_file.look()
    of_file.kept.clear_expected()
    rename(of_file.document)
    of_file.look()
    assert len(list(of_file.state.glob("*.journal"))) == 1


def test_a_file_another_program_wrote_meanwhile_counts(tmp_path, of_file, monkeypatch):
    document, path = of_file.document, of_file.document.path
    work(document)
    state = of_file.save(path, monkeypatch, lambda _moment: None)
    path.write_bytes(path.read_bytes() + b"\x52\x00")
    document.mark_saved(state=state.id)
    rename(document)
    of_file.look()
    assert of_file.offered == [("Rename",)]


def test_a_disk_that_is_full_for_a_moment_costs_nothing(of_file, monkeypatch):
    """Of the file that is expected nothing is on file then, but the document knows of it before long."""
    document = of_file.document

    def full(*_given):
        raise OSError(28, "No space left on device")

    def meanwhile(moment):
        if moment == "before":
            of_file.look()

    work(document)
    with monkeypatch.context() as patched:
        patched.setattr("onnx_workbench.model.recovery.log.JournalFiles", full)
        state = of_file.save(document.path, patched, meanwhile)
    assert of_file.kept.problem == ""
    rename(document)
    document.mark_saved(state=state.id)
    of_file.look()
    assert of_file.offered[1] == ("Rename",)
