import errno
import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from model import load, save
from model.errors import ModelError
from model.graph import Value
from model.io import source
from model.io.place import ALIGNMENT, Layout
from model.io.save import prepare
from model.io.sniff import Form
from model.progress import Cancelled, Progress
from model.steps import SetField, SetInitializer
from model.tensors import ArrayTensor
from model.types import ElementType
from tests.model.io.saved_models import assert_holds, debris, edit, proto_of, weights
from tests.model.io.test_read import touch

pytestmark = pytest.mark.usefixtures("scan_everything")


# -- what is written -------------------------------------------------------------------------------------------


def test_an_unmodified_model_is_saved_as_the_same_bytes(path, tmp_path):
    odd = bytes.fromhex("4200") + path.read_bytes() + bytes.fromhex("088a00")  # odd order, a field twice, a long number
    path.write_bytes(odd)
    save(load(path), tmp_path / "copy.onnx")
    assert (tmp_path / "copy.onnx").read_bytes() == odd
    save(load(path), path)
    assert path.read_bytes() == odd


def test_an_edit_taken_back_saves_the_same_bytes(path):
    before = path.read_bytes()
    model = load(path)
    step = SetField(model.graph.nodes.first, "name", "edited").apply()
    step.apply()
    save(model, path)
    assert path.read_bytes() == before


def test_saving_over_the_open_file_keeps_every_tensor_readable(path):
    model = load(path)
    for number in range(3):
        SetField(model.graph.nodes.first, "name", f"edit {number}").apply()
        save(model, path)
        assert_holds(model)
        assert_holds(load(path))
    assert load(path).graph.nodes.first.name == "edit 2"
    assert not debris(path.parent)


def test_after_an_edit_the_file_is_what_onnx_would_write(path):
    model = load(path)
    edit(model)
    save(model, path)
    proto = proto_of(weights())
    proto.graph.node[0].name = "edited"
    assert path.read_bytes() == proto.SerializeToString()


def test_new_values_of_a_tensor_are_saved(path):
    model = load(path)
    arrays = weights()
    arrays["w1"] = np.arange(5000, dtype=np.float32)
    value = model.graph.initializers[1]
    SetInitializer(model.graph, value, ArrayTensor(arrays["w1"], source=value.initializer.source)).apply()
    save(model, path)
    assert_holds(load(path), arrays)
    assert_holds(model, arrays)


@pytest.mark.parametrize("form", list(Form))
def test_every_form_that_is_read_is_written(path, tmp_path, form):
    model = load(path)
    save(model, tmp_path / "out", form=form)
    again = load(tmp_path / "out")
    assert again.source.format.form is form
    assert_holds(again)
    save(again, tmp_path / "back.onnx", form=Form.BINARY)
    if form is not Form.ONNX_TEXT:  # whose printer writes floats with fewer digits and drops what it has no words for
        assert (tmp_path / "back.onnx").read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("a.onnx", Form.BINARY),
        ("a.onnxtxt", Form.ONNX_TEXT),
        ("a.textproto", Form.PROTOBUF_TEXT),
        ("a.pbtxt", Form.PROTOBUF_TEXT),
        ("a.json", Form.JSON),
        ("a", Form.BINARY),
    ],
)
def test_the_extension_tells_the_form(tmp_path, name, form):
    model = load(proto_of({}).SerializeToString())
    save(model, tmp_path / name)
    assert load(tmp_path / name).source.format.form is form


def test_a_file_with_a_foreign_extension_stays_in_its_form(tmp_path):
    path = tmp_path / "m.txt"
    save(load(proto_of({}).SerializeToString()), path, form=Form.PROTOBUF_TEXT)
    model = load(path)
    edit(model)
    save(model, path)
    assert load(path).source.format.form is Form.PROTOBUF_TEXT


@pytest.mark.parametrize("name", ["graph", "node", "tensor", "function"])
def test_lone_parts_are_saved_as_what_they_were(tmp_path, name):
    proto = proto_of(weights(1))
    function = onnx.parser.parse_function('<domain: "d", opset_import: ["" : 21]> f (a) => (b) { b = Neg(a) }')
    part = {
        "graph": proto.graph,
        "node": proto.graph.node[0],
        "tensor": proto.graph.initializer[0],
        "function": function,
    }[name]
    path = tmp_path / "part.pb"
    path.write_bytes(part.SerializeToString())
    save(load(path), tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == path.read_bytes()
    model = load(path)
    if name == "function":
        SetField(model.functions[0].body.nodes.first, "name", "edited").apply()
    elif name == "tensor":
        SetField(model.graph.initializers[0], "name", "edited").apply()
    else:
        edit(model)
    save(model, path)
    again = load(path)
    assert again.source.format.message.lower() == name + "proto"
    assert b"edited" in path.read_bytes()
    SetField(again, "doc_string", "what a lone part cannot hold").apply()
    save(again, path)
    assert load(path).source.format.message == "ModelProto"


# -- external data ---------------------------------------------------------------------------------------------


def test_weights_go_to_one_aligned_file(path):
    model = load(path)
    saved = save(model, path, layout=Layout.ONE_FILE)
    (data_file,) = saved.data_files
    assert data_file.parent == path.parent
    proto = onnx.load(path)  # which reads the external data by itself
    assert onnx.numpy_helper.to_array(proto.graph.initializer[2]).tolist() == weights()["w2"].tolist()
    again = load(path)
    assert {v.initializer.storage for v in again.graph.initializers} == {"external"}
    offsets = [
        int(e.value)
        for t in onnx.load(path, load_external_data=False).graph.initializer
        for e in t.external_data
        if e.key == "offset"
    ]
    assert len(set(offsets)) == 3
    assert not any(offset % ALIGNMENT for offset in offsets)
    assert_holds(again)
    assert_holds(model)


def test_each_tensor_may_have_its_own_file(path):
    saved = save(load(path), path, layout=Layout.FILE_PER_TENSOR)
    assert len(saved.data_files) == 3
    assert_holds(load(path))


def test_small_tensors_stay_inside(path):
    saved = save(load(path), path, layout=Layout.ONE_FILE, threshold=12_001)
    assert not saved.data_files
    assert_holds(load(path))


def test_the_same_part_of_a_file_is_written_once(tmp_path):
    arrays = {"w0": weights()["w0"]}
    proto = proto_of(arrays, "e.bin")
    proto.graph.initializer.append(proto.graph.initializer[0])
    proto.graph.initializer[1].name = "again"
    (tmp_path / "e.onnx").write_bytes(proto.SerializeToString())
    (tmp_path / "e.bin").write_bytes(arrays["w0"].tobytes())
    (data_file,) = save(load(tmp_path / "e.onnx"), tmp_path / "e.onnx", layout=Layout.ONE_FILE).data_files
    assert data_file.stat().st_size == arrays["w0"].nbytes


def test_external_weights_can_come_inside(external_path):
    save(load(external_path), external_path, layout=Layout.INLINE)
    (external_path.parent / "e.bin").unlink()
    assert_holds(load(external_path))


def test_an_edit_leaves_external_data_alone(external_path):
    before = (external_path.parent / "e.bin").stat()
    model = load(external_path)
    edit(model)
    assert not save(model, external_path).data_files
    assert (external_path.parent / "e.bin").stat().st_mtime_ns == before.st_mtime_ns
    assert_holds(load(external_path))


def test_new_values_of_an_external_tensor_go_to_a_new_file(external_path):
    model = load(external_path)
    value = model.graph.initializers[0]
    arrays = weights()
    arrays["w0"] = -arrays["w0"]
    old = value.initializer
    SetInitializer(model.graph, value, ArrayTensor(arrays["w0"], source=old.source)).apply()
    (first,) = save(model, external_path).data_files
    assert_holds(load(external_path), arrays)
    assert old.numpy().tolist() == weights()["w0"].tolist()
    edit(model)
    again = save(model, external_path)
    assert (again.data_files, again.unused) == ((), ())  # they are there already
    assert_holds(load(external_path), arrays)
    SetInitializer(model.graph, value, old).apply()
    saved = save(model, external_path)
    assert (saved.data_files, saved.unused) == ((), (first,))
    assert first.exists()
    assert_holds(load(external_path))
    new = ArrayTensor(arrays["w0"], source=old.source)
    for tensor in (new, old, new):  # as undoing and redoing do
        SetInitializer(model.graph, value, tensor).apply()
        latest = save(model, external_path)
    assert not latest.data_files
    assert_holds(load(external_path), arrays)


def test_what_an_edit_that_is_taken_back_left_is_told(external_path):
    before = external_path.read_bytes()
    model = load(external_path)
    value = model.graph.initializers[0]
    old = value.initializer
    SetInitializer(model.graph, value, ArrayTensor(-weights()["w0"], source=old.source)).apply()
    (data,) = save(model, external_path).data_files
    SetInitializer(model.graph, value, old).apply()
    assert save(model, external_path).unused == (data,)
    assert external_path.read_bytes() == before
    assert save(model, external_path).unused == ()  # told once


@pytest.mark.parametrize("layout", [Layout.ONE_FILE, Layout.FILE_PER_TENSOR])
def test_new_values_stay_where_the_last_save_put_them(path, layout):
    """Every later save wrote them once more, or took them back into the model."""
    kinds = [ElementType.FLOAT, ElementType.INT4, ElementType.UINT2, ElementType.BFLOAT16, ElementType.COMPLEX64]
    model = load(path)
    arrays = [(np.arange(1001) % 2).astype(kind.numpy_dtype) for kind in kinds]
    for number, (kind, array) in enumerate(zip(kinds, arrays, strict=True)):
        value = Value(f"new{number}", None, model.graph)
        SetInitializer(model.graph, value, ArrayTensor(array, kind)).apply()
    assert save(model, path, layout=layout, threshold=16).data_files
    edit(model)
    again = save(model, path)
    assert (again.data_files, again.unused) == ((), ())
    found = {value.name: value.initializer for value in load(path).graph.initializers}
    for number, (kind, array) in enumerate(zip(kinds, arrays, strict=True)):
        tensor = found[f"new{number}"]
        assert (tensor.element_type, tensor.storage) == (kind, "external")
        assert np.array_equal(tensor.numpy(), array)


def test_external_data_moves_along_to_another_folder(external_path, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    saved = save(load(external_path), other / "m.onnx")
    assert [p.parent for p in saved.data_files] == [other]
    assert_holds(load(other / "m.onnx"))


def test_a_model_in_another_folder_keeps_the_data_it_brought(external_path, tmp_path):
    """Every later save there copied all weights once more, and left the earlier copy lying."""
    model = load(external_path)
    other = tmp_path / "other" / "m.onnx"
    other.parent.mkdir()
    (data,) = save(model, other).data_files
    edit(model)
    again = save(model, other)
    assert (again.data_files, again.unused) == ((), ())
    assert_holds(load(other))
    assert load(other).graph.nodes.first.name == "edited"
    copy = save(model, other.with_name("copy.onnx"))
    assert copy.data_files  # of its own: the first may be removed one day
    data.write_bytes(b"somebody else's")
    (fresh,) = save(model, other).data_files
    assert fresh != data
    assert_holds(load(other))


def test_weights_stay_where_the_last_save_put_them(path):
    model = load(path)
    (data,) = save(model, path, layout=Layout.ONE_FILE).data_files
    edit(model)
    again = save(model, path)
    assert (again.data_files, again.unused) == ((), ())
    assert path.stat().st_size < 4096
    assert_holds(load(path))
    inside = save(model, path, layout=Layout.INLINE)
    assert inside.unused == (data,)
    assert not save(model, path).data_files
    assert path.stat().st_size > 3 * 12_000
    assert_holds(load(path))


def test_weights_stay_inside_once_they_were_put_there(external_path):
    model = load(external_path)
    save(model, external_path, layout=Layout.INLINE)
    edit(model)
    save(model, external_path)
    assert external_path.stat().st_size > 3 * 12_000
    (external_path.parent / "e.bin").unlink()
    assert_holds(load(external_path))


def test_external_data_inside_attributes_moves_along_too(tmp_path):
    array = weights()["w0"]
    tensor = onnx.numpy_helper.from_array(array, "c")
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="c.bin")
    graph = helper.make_graph([helper.make_node("Constant", [], ["c"], value=tensor)], "g", [], [])
    (tmp_path / "c.onnx").write_bytes(helper.make_model(graph, ir_version=10).SerializeToString())
    (tmp_path / "c.bin").write_bytes(array.tobytes())
    (tmp_path / "other").mkdir()
    save(load(tmp_path / "c.onnx"), tmp_path / "other" / "c.onnx")
    found = load(tmp_path / "other" / "c.onnx").graph.nodes.first.attributes["value"].value
    np.testing.assert_array_equal(found.numpy(), array)


def test_missing_external_data_is_told_and_left_as_it_is(external_path, tmp_path):
    (external_path.parent / "e.bin").unlink()
    model = load(external_path)
    assert "missing" in model.graph.initializers[0].initializer.problem
    touch(model)
    edit(model)
    assert not save(model, external_path).warnings
    (tmp_path / "other").mkdir()
    saved = save(model, tmp_path / "other" / "m.onnx")
    assert len(saved.warnings) == 3
    assert "e.bin" in saved.warnings[0]
    assert "missing" in load(tmp_path / "other" / "m.onnx").graph.initializers[0].initializer.problem


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ([("location", "../e.bin")], "'..'"),
        ([("location", "e.bin"), ("location", "e.bin")], "twice"),
        ([("location", "e.bin"), ("length", "11999")], "need 12,000"),
        ([("location", "e.bin"), ("offset", "30000")], "beyond its end"),
        ([("location", "e.bin"), ("offset", "1_0")], "plain decimal"),
    ],
)
@pytest.mark.parametrize("where", ["initializer", "attribute", "body", "function", "sparse"])
def test_refused_external_data_never_keeps_a_model_from_opening(external_path, where, entries, reason):
    tensor = TensorProto(name="w", dims=[3000], data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
    for key, value in entries:
        tensor.external_data.add(key=key, value=value)
    constant = helper.make_node("Constant", [], ["c"], value=tensor)
    graph = helper.make_graph([], "g", [], [])
    proto = helper.make_model(graph, ir_version=10)
    if where == "initializer":
        proto.graph.initializer.append(tensor)
    elif where == "attribute":
        proto.graph.node.append(constant)
    elif where == "body":
        proto.graph.node.append(helper.make_node("If", [], [], then_branch=helper.make_graph([constant], "b", [], [])))
    elif where == "function":
        proto.functions.append(helper.make_function("d", "f", [], ["c"], [constant], []))
    else:
        indices = helper.make_tensor("i", TensorProto.INT64, [3000], range(3000))
        proto.graph.sparse_initializer.append(onnx.SparseTensorProto(values=tensor, indices=indices, dims=[9000]))
    external_path.write_bytes(proto.SerializeToString())
    model = load(external_path)
    tensors = [v.initializer for v in model.graph.initializers]
    for inner in model.graphs():
        tensors += [a.value for node in inner.nodes for a in node.attributes.values() if a.kind.name == "TENSOR"]
    (found,) = tensors
    assert reason in found.problem
    with pytest.raises(ModelError, match="not available"):
        (found.values if where == "sparse" else found).numpy()


def test_a_closed_model_gives_its_files_back(external_path):
    model = load(external_path)
    assert_holds(model)
    model.source.close()
    with pytest.raises(ModelError, match="closed"):
        model.graph.initializers[0].initializer.numpy()


# -- the file that is replaced ---------------------------------------------------------------------------------


def test_a_link_stays_a_link_and_the_mode_is_kept(path, tmp_path):
    path.chmod(0o640)
    link = tmp_path / "link.onnx"
    link.symlink_to(path.name)
    model = load(link)
    edit(model)
    save(model, link)
    assert link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert load(path).graph.nodes.first.name == "edited"


def test_a_model_opened_through_a_link_has_its_data_where_readers_look(external_path, tmp_path):
    names = tmp_path / "names"
    names.mkdir()
    link = names / "m.onnx"
    link.symlink_to(external_path)
    (names / "e.bin").symlink_to(external_path.parent / "e.bin")
    model = load(link)
    assert_holds(model)
    (data_file,) = save(model, link, layout=Layout.ONE_FILE).data_files
    assert data_file.parent == names
    assert link.is_symlink()
    assert_holds(load(link))
    onnx.load(link)


def test_a_new_file_has_the_usual_permissions(path, tmp_path):
    save(load(path), tmp_path / "new.onnx")
    (tmp_path / "plain").touch()
    assert (tmp_path / "new.onnx").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_file_changed_by_another_program_is_not_overwritten(path):
    model = load(path)
    saved = save(model, path, expected=model.source.identity)
    saved = save(model, path, expected=saved.identity)
    path.write_bytes(b"somebody else's")
    with pytest.raises(ModelError, match="changed by another program"):
        save(model, path, expected=saved.identity)
    assert path.read_bytes() == b"somebody else's"


def test_a_source_written_to_since_is_never_copied_from(path):
    model = load(path)
    edit(model)
    path.write_bytes(b"x" * path.stat().st_size)
    os.utime(path, ns=(1, 1))
    with pytest.raises(ModelError, match="changed on disk"):
        save(model, path.with_name("other.onnx"))
    assert not path.with_name("other.onnx").exists()
    assert not debris(path.parent)


def test_targets_that_are_no_files(path, tmp_path):
    model = load(path)
    for target, words in (
        (tmp_path, "is a folder"),
        (Path(os.devnull), "device"),
        (tmp_path / "no" / "m.onnx", "does not exist"),
    ):
        with pytest.raises(ModelError, match=words):
            save(model, target)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may write everywhere")
def test_read_only_files_and_folders(path):
    model = load(path)
    path.chmod(0o444)
    with pytest.raises(ModelError, match="read-only"):
        save(model, path)
    path.parent.chmod(0o555)
    with pytest.raises(ModelError, match="may not be written"):
        save(model, path.with_name("new.onnx"))
    path.parent.chmod(0o755)


def test_a_name_as_long_as_names_may_be(path, tmp_path):
    for name in ("x" * 250 + ".onnx", "ü" * 124 + ".onnx"):
        save(load(path), tmp_path / name)
        assert_holds(load(tmp_path / name))
    with pytest.raises(ModelError, match="too long"):
        save(load(path), tmp_path / ("x" * 251 + ".onnx"))


def test_more_than_two_gib_inside_one_file_is_refused(path, monkeypatch):
    monkeypatch.setattr("model.io.save.MESSAGE_LIMIT", 10_000)
    model = load(path)
    edit(model)
    save(model, path)  # it already was that large
    with pytest.raises(ModelError, match="does not fit into one file"):
        save(model, path, layout=Layout.INLINE)


def test_saving_can_be_cancelled_and_leaves_no_trace(path):
    model = load(path)
    before = path.read_bytes()
    edit(model)
    saving = prepare(model, path, layout=Layout.ONE_FILE)
    progress = Progress()
    progress.cancel()
    with pytest.raises(Cancelled):
        saving.run(progress)
    assert sorted(p.name for p in path.parent.iterdir()) == ["m.onnx"]
    assert path.read_bytes() == before


def test_a_prepared_save_does_not_see_later_edits(path):
    model = load(path)
    saving = prepare(model, path)
    before = path.read_bytes()
    edit(model)
    saving.run()
    assert path.read_bytes() == before


# -- where a file that is open cannot be replaced ----------------------------------------------------------------


@pytest.fixture
def open_files_stay(monkeypatch):
    """As on Windows: replacing a file that is open is refused."""
    monkeypatch.setattr(source, "OPEN_FILES_STAY", True)
    plain = Path.replace

    def replace(new, path):
        if source.readers_of(Path(path)):
            error = PermissionError(errno.EACCES, "The process cannot access the file")
            error.winerror = 32
            raise error
        return plain(new, path)

    monkeypatch.setattr(Path, "replace", replace)


def test_our_own_handle_is_let_go_while_its_file_is_replaced(path, open_files_stay):
    model, again = load(path), load(path)
    for number in range(3):
        SetField(model.graph.nodes.first, "name", f"edit {number}").apply()
        save(model, path)
        assert_holds(model)
        assert_holds(again)
        saved = load(path)
        assert saved.graph.nodes.first.name == f"edit {number}"
        saved.source.close()
    assert len(debris(path.parent)) == 2  # a link to what was opened, for each that reads it
    for one in (model, again):
        one.source.close()
    assert debris(path.parent) == []


def test_a_reader_that_closes_as_its_file_is_replaced_stays_closed(path, open_files_stay):
    reader, link = source.open_file(path), path.with_name("link")
    os.link(path, link)
    reader.close()
    with reader.let_go(link):
        pass
    assert reader.closed
    assert not link.exists()


def test_closing_a_reader_waits_until_its_file_is_replaced(path, open_files_stay):
    reader, link = source.open_file(path), path.with_name("link")
    os.link(path, link)
    closing = threading.Thread(target=reader.close)
    with reader.let_go(link):
        closing.start()
        closing.join(0.05)
    closing.join()
    assert reader.closed
    assert not link.exists()


def test_looking_whether_a_file_changed_waits_until_it_is_replaced(path, open_files_stay):
    reader, link = source.open_file(path), path.with_name("link")
    os.link(path, link)
    with ThreadPoolExecutor(1) as other:
        with reader.let_go(link):
            looked = other.submit(reader.check_unchanged)
            with pytest.raises(TimeoutError):
                looked.result(0.05)
        looked.result(10)
    reader.close()


def test_a_file_that_another_program_holds_stays_as_it_is(path, open_files_stay, monkeypatch):
    model, before = load(path), path.read_bytes()
    SetField(model.graph.nodes.first, "name", "edited").apply()

    def refuse(_new, _path):
        error = PermissionError(errno.EACCES, "The process cannot access the file")
        error.winerror = 32
        raise error

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(ModelError, match="another program has the file open"):
        save(model, path)
    assert path.read_bytes() == before
    assert_holds(model)
    model.source.close()
    assert debris(path.parent) == []


def test_a_disk_without_links_says_what_to_do(path, open_files_stay, monkeypatch):
    model, before = load(path), path.read_bytes()
    SetField(model.graph.nodes.first, "name", "edited").apply()

    def refuse(*_):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(ModelError, match="save under another name"):
        save(model, path)
    assert (path.read_bytes(), debris(path.parent)) == (before, [])
    assert_holds(model)
