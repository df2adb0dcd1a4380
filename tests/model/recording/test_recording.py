"""Scripts and journals: what was done is done again, exactly or by name."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest import mock

import numpy as np
import onnx.parser
import pytest
from hypothesis import settings

from model.attributes import Attribute, AttributeKind, make_attribute
from model.document import Document
from model.edits import attributes, functions, initializers, nodes, properties, values
from model.edits.raw import set_field
from model.errors import ModelError
from model.graph import Value
from model.io.read import load
from model.io.save import prepare, save
from model.progress import Cancelled, Progress
from model.recording import script
from model.recording.journal import Journal
from model.recording.leftovers import leftovers, recover
from model.steps import RemoveNode, SetAttribute, SetField, SetInitializer, SetInput
from model.tensors import ArrayTensor, SparseTensor
from model.types import (
    ElementType,
    MapType,
    OpaqueType,
    OptionalType,
    SequenceType,
    Shape,
    SparseTensorType,
    TensorType,
)
from tests.model import builders
from tests.model.edits.test_any_edits import AnyEdits
from tests.model.snapshots import assert_linked, snapshot

HEADER = '{"format": "onnx-workbench edit script", "version": 1}\n'


def line(do, **step):
    """One line of a script with one step."""
    return json.dumps({"edit": "x", "steps": [{"do": do, **step}]})


def header(**wrong):
    """The first line of a journal with something wrong in it."""
    right = {"format": "onnx-workbench journal", "version": 1, "pid": 0, "path": "", "size": 0, "mtime_ns": 0}
    return json.dumps({**right, "time": 0, "objects": 0, **wrong}).encode() + b"\n"


def nested(depth):
    kind = None
    for _ in range(depth):
        kind = {"sequence": kind}
    return kind


def work(document):
    """A few edits of every kind."""
    with document.edit("Insert") as edit:
        nodes.insert_on_edge(edit, builders.value(document, "r"), "Neg")
    with document.edit("Attribute") as edit:
        attributes.set_attribute(edit, builders.node(document, "fourth"), "axis", 0)
    with document.edit("Rename") as edit:
        values.rename_value(edit, builders.value(document, "a"), "renamed")
    with document.edit("Weights") as edit:
        initializers.set_tensor(edit, builders.value(document, "w"), ArrayTensor(np.full((4,), 0.1, np.float32)))
    with document.edit("Function") as edit:
        functions.extract_function(edit, [builders.node(document, "third")], "block")


# -- scripts --------------------------------------------------------------------------------------------------


def test_a_script_does_the_same_to_the_same_model():
    document, again = builders.document(), builders.document()
    work(document)
    text = script.export(document)
    assert document.undo_title == "Function"
    assert script.replay(again, text) == 5
    assert snapshot(again.model) == snapshot(document.model)
    assert_linked(again.model)
    assert [e.title for e in again.entries()] == [e.title for e in document.entries()]
    again.go_to(again.root)
    assert snapshot(again.model) == snapshot(builders.model())


def test_a_script_fits_the_next_export_by_names():
    document = builders.document()
    with document.edit("Axis") as edit:
        attributes.set_attribute(edit, builders.node(document, "fourth"), "axis", 0)
    text = script.export(document)
    newer = builders.document(
        builders.CHAIN.replace("[first] a = Mul (x, w)", "[extra] e = Abs (x) [first] a = Mul (e, w)")
    )
    script.replay(newer, text)
    assert builders.node(newer, "fourth").attributes["axis"].value == 0


def test_a_script_is_readable():
    document = builders.document()
    with document.edit("Set axis of fourth") as edit:
        attributes.set_attribute(edit, builders.node(document, "fourth"), "axis", 0)
    line = json.loads(script.export(document).splitlines()[1])
    line["steps"][0].pop("at", None)
    assert line == {
        "edit": "Set axis of fourth",
        "steps": [
            {"do": "set attribute", "node": "fourth", "name": "axis", "to": {"name": "axis", "kind": "INT", "value": 0}}
        ],
    }


def test_a_script_that_does_not_fit_changes_nothing():
    document = builders.document()
    work(document)
    text = script.export(document)
    other = builders.document(builders.CHAIN.replace("[fourth]", "[last]"))
    before = snapshot(other.model)
    with pytest.raises(ModelError, match="Line 3 does not apply: There is no node 'fourth'"):
        script.replay(other, text)
    assert snapshot(other.model) == before
    assert not other.modified


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "nonsense",
        '{"format": "onnx-workbench edit script", "version": 99}',
        HEADER + "[]",
        HEADER + '{"edit": "x", "steps": [{"do": "explode"}]}',
        HEADER + '{"edit": "x", "steps": [{"do": "set attribute"}]}',
        HEADER + line("set attribute", node="fourth", name="a", to={"name": "a", "kind": "INT", "value": "one"}),
        HEADER + line("set attribute", node="fourth", name="a", to={"name": "a", "kind": "INTS", "value": [1 << 65]}),
        HEADER + line("set metadata", model="model", to={"key": 1}),
        HEADER + line("set opset_imports", model="model", to={"": "new"}),
        HEADER + line("set type", value="x", to=nested(900)),
        HEADER + "[" * 100000,
    ],
)  # fmt: skip
def test_damaged_scripts_are_refused_with_the_line(text):
    document = builders.document()
    with pytest.raises(ModelError):
        script.replay(document, text)
    assert not document.modified


def test_bodies_and_functions_are_named_by_their_path():
    document, again = (builders.document(builders.BRANCHES) for _ in range(2))
    for owner in (document,):
        with owner.edit("Deep") as edit:
            nodes.rename_node(edit, builders.node(owner, "inner"), "innermost")
            unnamed = builders.graph(owner, "no").nodes.first
            attributes.set_attribute(edit, unnamed, "note", "text")
            constant = owner.model.functions[0].body.nodes.first
            nodes.rename_node(edit, constant, "factor")
            nodes.duplicate(edit, [builders.node(owner, "choose")])
    text = script.export(document)
    assert "main/choose.then_branch: inner" in text
    assert "function local::scale: => f" in text
    script.replay(again, text)
    assert snapshot(again.model) == snapshot(document.model)


EVERY_TYPE = [
    TensorType(ElementType.FLOAT, Shape((1, "N", None), ("", "DATA_BATCH", ""))),
    SparseTensorType(ElementType.INT8),
    SequenceType(OptionalType(TensorType(ElementType.STRING, Shape()))),
    MapType(ElementType.INT64, TensorType(ElementType.DOUBLE)),
    OpaqueType("domain", "name", "denotation"),
    TensorType(77),
]


@pytest.mark.parametrize("element_type", [e for e in ElementType if e])
def test_tensors_of_every_element_type_are_kept(element_type):
    from model.io.packing import unpack

    for count in (3, 100):
        if element_type is ElementType.STRING:
            array = np.array(["ä", "", "<b>"] * 40, object)[:count]
        else:
            length = (count * element_type.bits + 7) // 8
            array = unpack((bytes(range(1, 64)) * 30)[:length], element_type, count)
        document, again = builders.document(), builders.document()
        with document.edit("Tensor") as edit:
            edit.do(SetInitializer(document.model.graph, Value("t"), ArrayTensor(array, element_type)))
        script.replay(again, script.export(document))
        assert snapshot(again.model) == snapshot(document.model)


def test_every_kind_of_content_is_kept():
    document, again = (builders.document(builders.BRANCHES) for _ in range(2))
    node = builders.node(document, "double")
    sparse = SparseTensor(ArrayTensor(np.array([1.5], np.float32)), ArrayTensor(np.array([2])), (4,))
    kinds = [
        make_attribute("f", float("inf")),
        make_attribute("fs", [0.1, float("nan")]),
        make_attribute("s", "\udcff text"),
        make_attribute("ss", ["a", "b"]),
        make_attribute("t", ArrayTensor(np.zeros((2, 2), np.int64))),
        Attribute("st", AttributeKind.SPARSE_TENSOR, sparse),
        Attribute("tps", AttributeKind.TYPE_PROTOS, tuple(EVERY_TYPE)),
        Attribute("empty", AttributeKind.INTS, (), "doc"),
    ]
    with document.edit("All") as edit:
        for attribute in kinds:
            edit.do(SetAttribute(node, attribute.name, attribute))
        for kind in EVERY_TYPE:
            edit.do(SetField(builders.value(document, "d"), "type", kind))
        edit.do(SetInitializer(document.model.graph, Value("sparse"), sparse))
        properties.set_metadata(edit, node, "key", "value")
    script.replay(again, script.export(document))
    assert snapshot(again.model) == snapshot(document.model)


# -- journal --------------------------------------------------------------------------------------------------


@pytest.fixture
def dead(monkeypatch):
    """Make every journal look like that of a program that is gone."""
    monkeypatch.setattr("model.recording.leftovers.is_running", lambda pid: False)


def test_a_journal_brings_back_what_a_crash_took(tmp_path, dead):
    document = builders.document()
    kept = Journal(document, tmp_path)
    work(document)
    document.undo()
    document.undo()
    document.redo()
    kept.abandon()
    (leftover,) = leftovers(tmp_path)
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
    with document.edit("More") as edit:
        nodes.rename_node(edit, builders.node(document, "first"), "one")
    assert len(list(tmp_path.glob("*.journal"))) == 1
    kept.close()
    assert list(tmp_path.iterdir()) == []


def test_a_running_programs_journal_is_not_offered(tmp_path):
    document = builders.document()
    kept = Journal(document, tmp_path)
    work(document)
    assert list(leftovers(tmp_path)) == []
    kept.close()


def test_a_line_cut_by_the_crash_is_left_out(tmp_path, dead):
    document = builders.document()
    kept = Journal(document, tmp_path)
    work(document)
    kept.abandon()
    path = next(tmp_path.glob("*.journal"))
    data = path.read_bytes()
    states = set()
    for cut in range(data.index(b"\n") + 1, len(data), 97):
        path.write_bytes(data[:cut])
        again = builders.document()
        (leftover,) = leftovers(tmp_path)
        states.add(recover(again, leftover))
        assert_linked(again.model)
    assert states <= set(range(6))
    assert len(states) >= 4


def test_a_journal_that_fails_is_tried_once(tmp_path, dead):
    document = builders.document()
    kept = Journal(document, tmp_path)
    work(document)
    kept.abandon()
    path = next(tmp_path.glob("*.journal"))
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:2], lines[2].replace('"axis"', "17"), *lines[3:]]))
    (leftover,) = leftovers(tmp_path)
    again = builders.document()
    with pytest.raises(ModelError, match="1 edits were recovered, then line 3"):
        recover(again, leftover)
    assert_linked(again.model)
    assert list(leftovers(tmp_path)) == []
    assert len(list(tmp_path.glob("*.tried"))) == 1


def test_a_journal_of_another_file_is_not_replayed(tmp_path, dead):
    document = builders.document()
    kept = Journal(document, tmp_path)
    work(document)
    kept.abandon()
    (leftover,) = leftovers(tmp_path)
    other = builders.document(builders.BRANCHES)
    before = snapshot(other.model)
    with pytest.raises(ModelError, match="does not fit the model"):
        recover(other, leftover)
    assert snapshot(other.model) == before


def test_a_changed_file_is_noticed(tmp_path, dead):
    path = tmp_path / "m.onnx"
    path.write_bytes(onnx.parser.parse_model(builders.CHAIN).SerializeToString())
    document = Document(load(path), path)
    kept = Journal(document, tmp_path / "state")
    work(document)
    kept.abandon()
    (leftover,) = leftovers(tmp_path / "state")
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
        header(pid=10**30, objects=None),
        header(pid=10**30, time=[]),
    ],
)
def test_damaged_journals_are_set_aside(tmp_path, dead, content):
    (tmp_path / "x.journal").write_bytes(content)
    assert list(leftovers(tmp_path)) == []
    assert list(leftovers(tmp_path)) == []


def test_a_full_disk_stops_the_journal_not_the_work(tmp_path, monkeypatch):
    document = builders.document()
    kept = Journal(document, tmp_path / "file")
    (tmp_path / "file").write_text("in the way")
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
    kept.abandon()
    (leftover,) = leftovers(tmp_path)
    assert leftover.titles == ("Type", "Type")
    again = builders.document()
    recover(again, leftover)
    assert again.model.doc_string == "x"
    again.undo()
    assert again.model.doc_string == "abc"
    again.undo()
    assert again.model.doc_string == ""


def saved_file(tmp_path, text=builders.CHAIN):
    path = tmp_path / "m.onnx"
    path.write_bytes(onnx.parser.parse_model(text).SerializeToString())
    return Document(load(path), path)


def recovered(document, folder):
    """What the next start makes of the document's file and the journals in a folder."""
    again = Document(load(document.path), document.path)
    for leftover in leftovers(folder):
        assert leftover.fits
        recover(again, leftover)
    return again


def test_undo_of_what_was_saved_survives(tmp_path, dead):
    document = saved_file(tmp_path)
    kept = Journal(document, tmp_path / "state")
    work(document)
    save(document.model, document.path)
    document.mark_saved()
    document.undo()
    document.undo()
    document.redo()
    with document.edit("More") as edit:
        nodes.rename_node(edit, document.model.graph.nodes.first, "three")
    document.undo()
    document.undo()
    kept.abandon()
    again = recovered(document, tmp_path / "state")
    assert snapshot(again.model) == snapshot(document.model)


@pytest.mark.parametrize("undone", [0, 2])
def test_edits_made_while_a_save_runs_survive_it(tmp_path, dead, undone):
    document = saved_file(tmp_path)
    kept = Journal(document, tmp_path / "state")
    work(document)
    saving, state = prepare(document.model, document.path), document.current.id
    for _ in range(undone):
        document.undo()
    with document.edit("Meanwhile") as edit:
        nodes.add_node(edit, document.model.graph, "Relu", [builders.value(document, "x")], name="meanwhile")
    saving.run()
    before = snapshot(document.model)
    document.mark_saved(state=state)
    assert snapshot(document.model) == before
    assert document.modified
    document.undo()
    document.redo()
    kept.abandon()
    again = recovered(document, tmp_path / "state")
    assert snapshot(again.model) == before


def take_out(edit, name):
    """Remove a node and leave what used its output with a name that nothing defines."""
    edit.do(RemoveNode(builders.node(edit.model, name)))


def test_two_undefined_values_of_one_name_are_one_in_the_file(tmp_path, dead):
    document = saved_file(tmp_path)
    kept = Journal(document, tmp_path / "state")
    with document.edit("Orphan") as edit:
        take_out(edit, "first")
        take_out(edit, "second")
        edit.do(SetField(builders.node(edit.model, "third").inputs[0], "name", "lost"))
        edit.do(SetInput(builders.node(edit.model, "fourth"), 0, Value("lost")))
    save_and_rename(document)
    kept.abandon()
    again = recovered(document, tmp_path / "state")
    assert again.model.graph.name == "after"
    assert builders.node(again, "third").inputs[0] is builders.node(again, "fourth").inputs[0]


def test_an_undefined_value_with_the_name_of_a_defined_one_is_that_in_the_file(tmp_path, dead):
    document = saved_file(tmp_path)
    kept = Journal(document, tmp_path / "state")
    with document.edit("Orphan") as edit:
        edit.do(SetInput(builders.node(edit.model, "fourth"), 0, Value("r")))
    save_and_rename(document)
    kept.abandon()
    again = recovered(document, tmp_path / "state")
    assert again.model.graph.name == "after"
    assert builders.node(again, "fourth").inputs[0].producer is builders.node(again, "second")


def test_a_declared_type_that_goes_with_its_node_is_not_in_the_file(tmp_path, dead):
    document = saved_file(tmp_path, DECLARED)
    kept = Journal(document, tmp_path / "state")
    with document.edit("Remove") as edit:
        take_out(edit, "beside")
    save_and_rename(document)
    kept.abandon()
    assert recovered(document, tmp_path / "state").model.graph.name == "after"


DECLARED = """
<ir_version: 10, opset_import: ["" : 21]>
declared (float[4] x) => (float[4] y) <float[4] unused>
{
    [main] y = Relu (x)
    [beside] unused = Neg (x)
}
"""


def save_and_rename(document):
    save(document.model, document.path)
    document.mark_saved()
    with document.edit("Rename") as edit:
        edit.do(SetField(document.model.graph, "name", "after"))


def large_file(tmp_path):
    """An initializer and a Constant of 1 MB each, and a small one."""
    w = onnx.numpy_helper.from_array(np.arange(1 << 18, dtype=np.float32), "w")
    c = onnx.numpy_helper.from_array(np.arange(1 << 18, dtype=np.float32)[::-1].copy())
    graph = onnx.helper.make_graph(
        [
            onnx.helper.make_node("Constant", [], ["c"], name="constant", value=c),
            onnx.helper.make_node("Add", ["c", "w"], ["y"], name="add"),
        ],
        "large",
        [],
        [onnx.helper.make_tensor_value_info("y", 1, [1 << 18])],
        [w],
    )
    path = tmp_path / "m.onnx"
    path.write_bytes(onnx.helper.make_model(graph).SerializeToString())
    return Document(load(path), path)


def state_size(folder):
    return sum(file.stat().st_size for file in folder.iterdir())


def test_weights_that_lie_in_the_file_are_not_copied(tmp_path, dead, monkeypatch):
    monkeypatch.setattr("model.io.read.PARSED_WHOLE", 1 << 16)  # so that weights are left in the file
    document = large_file(tmp_path)
    kept = Journal(document, tmp_path / "state")
    graph = document.model.graph
    with document.edit("Out and in") as edit:
        initializers.constant_to_initializer(edit, builders.node(document, "constant"))
        edit.do(SetInitializer(graph, Value("copy"), builders.value(document, "c").initializer))
    with document.edit("Remove") as edit:
        edit.do(SetInitializer(graph, builders.value(document, "w"), None))
    document.undo()
    kept.abandon()
    assert state_size(tmp_path / "state") < 4096
    again = recovered(document, tmp_path / "state")
    assert snapshot(again.model) == snapshot(document.model)


def test_weights_that_the_saved_file_lacks_are_kept_beside_the_journal(tmp_path, dead):
    document = large_file(tmp_path)
    kept = Journal(document, tmp_path / "state")
    w = builders.value(document, "w")
    with document.edit("Remove") as edit:
        edit.do(SetInitializer(document.model.graph, w, None))
    save(document.model, document.path)
    document.mark_saved()
    document.undo()
    with document.edit("New") as edit:
        edit.do(SetInitializer(document.model.graph, Value("new"), ArrayTensor(np.ones((1 << 15,), np.int64))))
    kept.abandon()
    (journal,) = (tmp_path / "state").glob("*.journal")
    assert journal.stat().st_size < 4096
    assert state_size(tmp_path / "state") > (1 << 20) + (1 << 18)
    again = recovered(document, tmp_path / "state")
    assert snapshot(again.model) == snapshot(document.model)
    assert list((tmp_path / "state").iterdir()) == []


def test_bytes_that_were_not_written_before_the_crash_are_missed(tmp_path, dead):
    document = large_file(tmp_path)
    kept = Journal(document, tmp_path / "state")
    with document.edit("Name") as edit:
        edit.do(SetField(document.model.graph, "name", "kept"))
    with document.edit("New") as edit:
        edit.do(SetInitializer(document.model.graph, Value("new"), ArrayTensor(np.ones((1 << 15,), np.int64))))
    kept.abandon()
    (data,) = (tmp_path / "state").glob("*.data")
    data.write_bytes(data.read_bytes()[:1000])
    again = Document(load(document.path), document.path)
    (leftover,) = leftovers(tmp_path / "state")
    with pytest.raises(ModelError, match="1 edits were recovered"):
        recover(again, leftover)
    assert again.model.graph.name == "kept"


def test_a_tensor_that_does_not_fit_itself_is_kept_as_it_stands(tmp_path, dead):
    document = saved_file(tmp_path)
    kept = Journal(document, tmp_path / "state")
    with document.edit("Shape") as edit:
        set_field(edit, (("graph", 0), ("initializer", 0), ("dims", 0)), "5")
    kept.abandon()
    assert not kept.problem
    again = recovered(document, tmp_path / "state")
    (broken, whole) = (builders.value(m, "w").initializer for m in (again, document))
    assert broken.problem == whole.problem != ""
    assert broken.source == whole.source


def test_a_model_that_was_piped_in_begins_with_its_bytes(tmp_path, dead):
    data = onnx.parser.parse_model(builders.CHAIN).SerializeToString()
    document = Document(load(data))
    kept = Journal(document, tmp_path)
    kept.prepare()
    work(document)
    kept.abandon()
    (leftover,) = leftovers(tmp_path)
    assert leftover.beginning.read_bytes() == data
    again = Document(load(leftover.beginning))
    recover(again, leftover)
    assert snapshot(again.model) == snapshot(document.model)


def test_preparing_can_be_given_up(tmp_path, dead):
    class GivenUp(Progress):
        checks = 0

        def check(self):
            self.checks += 1
            if self.checks == 5:
                raise Cancelled

    document = builders.document()
    kept = Journal(document, tmp_path)
    with pytest.raises(Cancelled):
        kept.prepare(GivenUp())
    assert not kept.is_prepared
    work(document)
    kept.abandon()
    (leftover,) = leftovers(tmp_path)
    again = builders.document()
    recover(again, leftover)
    assert snapshot(again.model) == snapshot(document.model)


def test_a_killed_program_leaves_a_journal_that_is_offered(tmp_path):
    code = f"""
import sys, os, signal
sys.path[:0] = {[str(Path.cwd()), *sys.path]!r}
from pathlib import Path
from tests.model import builders
from tests.model.recording.test_recording import work
from model.recording.journal import Journal
document = builders.document()
Journal(document, Path({str(tmp_path)!r}))
work(document)
os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", code], check=False, timeout=120)
    (leftover,) = leftovers(tmp_path)
    document, again = builders.document(), builders.document()
    work(document)
    recover(again, leftover)
    assert snapshot(again.model) == snapshot(document.model)


class RecordedEdits(AnyEdits):
    """The person of AnyEdits with a journal, which a crash leaves behind, and a script of what is in force."""

    def teardown(self):
        if hasattr(self, "document"):
            self._check_script()
            self.journal.abandon()
            self._check_journal()
        super().teardown()

    def opened(self):
        self.text = builders.CHAIN if self.document.model.graph.name == "chain" else builders.BRANCHES
        self.folder = tempfile.TemporaryDirectory()
        self.journal = Journal(self.document, Path(self.folder.name))

    def _check_script(self):
        again = builders.document(self.text)
        script.replay(again, script.export(self.document))
        assert snapshot(again.model) == snapshot(self.document.model)
        assert_linked(again.model)

    def _check_journal(self):
        with mock.patch("model.recording.leftovers.is_running", return_value=False), self.folder:
            for leftover in leftovers(Path(self.folder.name)):
                again = builders.document(self.text)
                recover(again, leftover)
                assert snapshot(again.model) == snapshot(self.document.model)
                assert_linked(again.model)


TestRecordedEdits = RecordedEdits.TestCase
TestRecordedEdits.settings = settings(stateful_step_count=25)
