"""Journals of documents in files: what saving makes of them, and weights that the file holds or lacks."""

import numpy as np
import onnx.parser
import pytest

from onnx_workbench.model.edits import initializers, nodes
from onnx_workbench.model.edits.edit_message import MessageEdit
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.steps import RemoveNode, SetField, SetInitializer, SetInput
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.writer.save import prepare, save
from onnx_workbench.model.ir.graph import Value
from onnx_workbench.model.ir.tensors import ArrayTensor
from onnx_workbench.model.recovery.journal import Journal
from onnx_workbench.model.recovery.recover import find_journals, recover
from tests.model import builders
from tests.model.recovery.crash import abandon
from tests.model.recovery.recorded_work import recovered, saved_file, work
from tests.model.snapshots import snapshot


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
    abandon(kept)
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
    abandon(kept)
    again = recovered(document, tmp_path / "state")
    assert snapshot(again.model) == before


@pytest.mark.parametrize("named", ["m.onnxtxt", "m.onnx"])
def test_what_a_save_left_out_survives_beside_the_file_that_held_it(tmp_path, dead, named):
    """But not where that very file was replaced: then what was done since is kept."""
    document = saved_file(tmp_path)
    kept, opened = Journal(document, tmp_path / "state"), document.path
    with document.edit("Describe") as edit:
        edit.do(SetField(document.model.graph.nodes.first, "doc_string", "why it is here"))
    written = save(document.model, opened.parent / "m.onnxtxt").path
    if named == opened.name:
        written.replace(opened)
    document.mark_saved(opened.with_name(named), left_out=True)
    assert document.modified
    with document.edit("More") as edit:
        nodes.rename_node(edit, document.model.graph.nodes.first, "more")
    abandon(kept)
    (leftover,) = find_journals(tmp_path / "state")
    assert leftover.fits
    assert leftover.titles == (("More",) if named == opened.name else ("Describe", "More"))


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
    abandon(kept)
    again = recovered(document, tmp_path / "state")
    assert again.model.graph.name == "after"
    assert builders.node(again, "third").inputs[0] is builders.node(again, "fourth").inputs[0]


def test_an_undefined_value_takes_the_defined_one_of_its_name(tmp_path, dead):
    document = saved_file(tmp_path)
    kept = Journal(document, tmp_path / "state")
    with document.edit("Orphan") as edit:
        edit.do(SetInput(builders.node(edit.model, "fourth"), 0, Value("r")))
    save_and_rename(document)
    abandon(kept)
    again = recovered(document, tmp_path / "state")
    assert again.model.graph.name == "after"
    assert builders.node(again, "fourth").inputs[0].producer is builders.node(again, "second")


DECLARED = """
declared (float[4] x) => (float[4] y) <float[4] unused>
{
    [main] y = Relu (x)
    [beside] unused = Neg (x)
}
"""


def test_a_declared_type_that_goes_with_its_node_is_not_in_the_file(tmp_path, dead):
    document = saved_file(tmp_path, DECLARED)
    kept = Journal(document, tmp_path / "state")
    builders.one_edit(document, take_out, "beside")
    save_and_rename(document)
    abandon(kept)
    assert recovered(document, tmp_path / "state").model.graph.name == "after"


def save_and_rename(document):
    save(document.model, document.path)
    document.mark_saved()
    builders.do(document, SetField(document.model.graph, "name", "after"))


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
    monkeypatch.setattr(
        "onnx_workbench.model.io.reader.read.PARSED_WHOLE", 1 << 16
    )  # so that weights are left in the file
    document = large_file(tmp_path)
    kept = Journal(document, tmp_path / "state")
    graph = document.model.graph
    with document.edit("Out and in") as edit:
        initializers.constant_to_initializer(edit, builders.node(document, "constant"))
        edit.do(SetInitializer(graph, Value("copy"), builders.value(document, "c").initializer))
    builders.do(document, SetInitializer(graph, builders.value(document, "w"), None))
    document.undo()
    abandon(kept)
    assert state_size(tmp_path / "state") < 4096
    again = recovered(document, tmp_path / "state")
    assert snapshot(again.model) == snapshot(document.model)


def test_weights_the_saved_file_lacks_stay_beside_the_journal(tmp_path, dead):
    document = large_file(tmp_path)
    kept = Journal(document, tmp_path / "state")
    w = builders.value(document, "w")
    builders.do(document, SetInitializer(document.model.graph, w, None))
    save(document.model, document.path)
    document.mark_saved()
    document.undo()
    with document.edit("New") as edit:
        edit.do(SetInitializer(document.model.graph, Value("new"), ArrayTensor(np.ones((1 << 15,), np.int64))))
    abandon(kept)
    (journal,) = (tmp_path / "state").glob("*.journal")
    assert journal.stat().st_size < 4096
    assert state_size(tmp_path / "state") > (1 << 20) + (1 << 18)
    again = recovered(document, tmp_path / "state")
    assert snapshot(again.model) == snapshot(document.model)
    assert list((tmp_path / "state").iterdir()) == []


def test_bytes_that_were_not_written_before_the_crash_are_missed(tmp_path, dead):
    document = large_file(tmp_path)
    kept = Journal(document, tmp_path / "state")
    builders.do(document, SetField(document.model.graph, "name", "kept"))
    with document.edit("New") as edit:
        edit.do(SetInitializer(document.model.graph, Value("new"), ArrayTensor(np.ones((1 << 15,), np.int64))))
    abandon(kept)
    (data,) = (tmp_path / "state").glob("*.data")
    data.write_bytes(data.read_bytes()[:1000])
    again = Document(load(document.path), document.path)
    (leftover,) = find_journals(tmp_path / "state")
    with pytest.raises(ModelError, match="1 edits were recovered"):
        recover(again, leftover)
    assert again.model.graph.name == "kept"


def test_a_tensor_that_does_not_fit_itself_is_kept_as_it_stands(tmp_path, dead):
    document = saved_file(tmp_path)
    kept = Journal(document, tmp_path / "state")
    message = MessageEdit(document.model.graph.initializers[0])
    builders.one_edit(document, message.apply, message.text.replace("dims: [4]", "dims: [5]"))
    abandon(kept)
    assert not kept.problem
    again = recovered(document, tmp_path / "state")
    (broken, whole) = (builders.value(m, "w").initializer for m in (again, document))
    assert broken.problem == whole.problem != ""
    assert broken.source == whole.source
