import errno
import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.steps import SetField, SetInitializer
from onnx_workbench.model.io.reader import source
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.reader.sniff import FileForm
from onnx_workbench.model.io.writer.save import prepare, save
from onnx_workbench.model.io.writer.storage_plan import DataLayout, Storage
from onnx_workbench.model.ir.tensors import ArrayTensor
from onnx_workbench.model.progress import Cancelled, Progress
from tests.model.io.saved_models import assert_holds, debris, edit, proto_of, weights

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


@pytest.mark.parametrize("form", [form for form in FileForm if form is not FileForm.ORT])
def test_every_form_but_that_of_onnx_runtime_is_written(path, tmp_path, form):
    model = load(path)
    save(model, tmp_path / "out", form=form)
    again = load(tmp_path / "out")
    assert again.source.format.form is form
    assert_holds(again)
    save(again, tmp_path / "back.onnx", form=FileForm.BINARY)
    if (
        form is not FileForm.ONNX_TEXT
    ):  # whose printer writes floats with fewer digits and drops what it has no words for
        assert (tmp_path / "back.onnx").read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("a.onnx", FileForm.BINARY),
        ("a.onnxtxt", FileForm.ONNX_TEXT),
        ("a.textproto", FileForm.PROTOBUF_TEXT),
        ("a.pbtxt", FileForm.PROTOBUF_TEXT),
        ("a.json", FileForm.JSON),
        ("a", FileForm.BINARY),
    ],
)
def test_the_extension_reports_the_form(tmp_path, name, form):
    model = load(proto_of({}).SerializeToString())
    save(model, tmp_path / name)
    assert load(tmp_path / name).source.format.form is form


def test_a_file_with_a_foreign_extension_stays_in_its_form(tmp_path):
    path = tmp_path / "m.txt"
    save(load(proto_of({}).SerializeToString()), path, form=FileForm.PROTOBUF_TEXT)
    model = load(path)
    edit(model)
    save(model, path)
    assert load(path).source.format.form is FileForm.PROTOBUF_TEXT


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


def test_a_model_saved_through_a_link_has_its_data_in_reach(external_path, tmp_path):
    names = tmp_path / "names"
    names.mkdir()
    link = names / "m.onnx"
    link.symlink_to(external_path)
    (names / "e.bin").symlink_to(external_path.parent / "e.bin")
    model = load(link)
    assert_holds(model)
    (data_file,) = save(model, link, Storage(DataLayout.ONE_FILE)).data_files
    assert data_file.parent == names
    assert link.is_symlink()
    assert_holds(load(link))
    onnx.load(link)


def test_a_new_file_has_the_usual_permissions(path, tmp_path):
    save(load(path), tmp_path / "new.onnx")
    (tmp_path / "plain").touch()
    assert (tmp_path / "new.onnx").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_file_changed_during_a_save_is_not_overwritten(path):
    saving = prepare(load(path), path, expected=load(path).source.identity)
    with pytest.raises(ModelError, match="changed by another program"):
        saving.run(placing=lambda *_file: path.write_bytes(b"somebody else's"))
    assert path.read_bytes() == b"somebody else's"
    assert list(path.parent.glob(".*")) == []


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
    monkeypatch.setattr("onnx_workbench.model.io.writer.save.MESSAGE_LIMIT", 10_000)
    model = load(path)
    edit(model)
    save(model, path)  # it already was that large
    with pytest.raises(ModelError, match="does not fit into one file"):
        save(model, path, Storage(DataLayout.INLINE))


def test_saving_can_be_cancelled_and_leaves_no_trace(path):
    model = load(path)
    before = path.read_bytes()
    edit(model)
    saving = prepare(model, path, Storage(DataLayout.ONE_FILE))
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
    with reader.released(link):
        pass
    assert reader.closed
    assert not link.exists()


def test_closing_a_reader_waits_until_its_file_is_replaced(path, open_files_stay):
    reader, link = source.open_file(path), path.with_name("link")
    os.link(path, link)
    closing = threading.Thread(target=reader.close)
    with reader.released(link):
        closing.start()
        closing.join(0.05)
    closing.join()
    assert reader.closed
    assert not link.exists()


def test_looking_whether_a_file_changed_waits_until_it_is_replaced(path, open_files_stay):
    reader, link = source.open_file(path), path.with_name("link")
    os.link(path, link)
    with ThreadPoolExecutor(1) as other:
        with reader.released(link):
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
