"""What a file may not be written over: the data of models, files of another kind, other documents."""

from __future__ import annotations

import os

import numpy as np
import onnx
import onnx.helper
import pytest

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.writer.save import save
from onnx_workbench.model.io.writer.targets import check_target, data_files


def weights(name: str, location: str = "w.bin", offset: int = 0) -> onnx.TensorProto:
    tensor = onnx.TensorProto(name=name, data_type=onnx.TensorProto.FLOAT, dims=[1000])
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", str(offset)), ("length", "4000")):
        entry = tensor.external_data.add()
        entry.key, entry.value = key, value
    return tensor


def graph(nodes, initializers=()) -> onnx.GraphProto:
    h = onnx.helper
    y = h.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1000])
    return h.make_graph(nodes, "g", [], [y], list(initializers))


def in_initializer() -> onnx.GraphProto:
    return graph([onnx.helper.make_node("Neg", ["w"], ["y"])], [weights("w")])


def in_attribute() -> onnx.GraphProto:
    return graph([onnx.helper.make_node("Constant", [], ["y"], value=weights("w"))])


def in_body() -> onnx.GraphProto:
    h = onnx.helper
    inner = h.make_graph(
        [h.make_node("Neg", ["w"], ["z"])], "inner", [], [h.make_tensor_value_info("z", 1, [1000])], [weights("w")]
    )
    flag = h.make_node("Constant", [], ["flag"], value=h.make_tensor("f", onnx.TensorProto.BOOL, [], [True]))
    return graph([flag, h.make_node("If", ["flag"], ["y"], then_branch=inner, else_branch=inner)])


@pytest.fixture(params=[in_initializer, in_attribute, in_body])
def path(request, tmp_path):
    """A model in a file, with weights in w.bin beside it."""
    (tmp_path / "w.bin").write_bytes(np.arange(1000, dtype=np.float32).tobytes())
    model = onnx.helper.make_model(request.param(), opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9)
    file = tmp_path / "m.onnx"
    file.write_bytes(model.SerializeToString())
    return file


def test_the_data_files_of_a_model_are_known_though_nothing_was_read(path):
    assert data_files(load(path)) == {path.with_name("w.bin")}


def test_a_model_does_not_replace_the_file_its_weights_are_in(path):
    before = path.with_name("w.bin").read_bytes()
    with pytest.raises(ModelError, match=r"w.bin holds weights of m.onnx") as refused:
        save(load(path), path.with_name("w.bin"))
    assert "another name" in refused.value.detail
    assert path.with_name("w.bin").read_bytes() == before


def test_nor_its_own_file_if_that_is_where_it_says_its_weights_are(path):
    model = onnx.helper.make_model(graph([onnx.helper.make_node("Neg", ["w"], ["y"])], [weights("w", "m.onnx")]))
    path.write_bytes(model.SerializeToString() + bytes((0x7A, 0xA0, 0x1F)) + b"k" * 4000)  # data in an unknown field
    before = path.read_bytes()
    with pytest.raises(ModelError, match=r"m.onnx holds weights of m.onnx") as refused:
        save(load(path), path)
    assert "another name" in refused.value.detail
    assert path.read_bytes() == before
    save(load(path), path.with_name("copy.onnx"))
    assert load(path.with_name("copy.onnx")).graph.name == "g"


@pytest.mark.skipif(not hasattr(os, "link"), reason="no links here")
def test_not_by_another_name_of_that_file_either(path):
    path.with_name("link.onnx").symlink_to("w.bin")
    path.with_name("hard.onnx").hardlink_to(path.with_name("w.bin"))
    for name in ("link.onnx", "hard.onnx", "./w.bin"):
        with pytest.raises(ModelError, match="holds weights"):
            save(load(path), path.parent / name)


def test_nor_a_file_of_another_kind_whose_name_says_nothing(path, tmp_path):
    (tmp_path / "notes.dat").write_bytes(b"something of the user's\n")
    with pytest.raises(ModelError, match=r"notes.dat is not a model"):
        save(load(path), tmp_path / "notes.dat")
    assert (tmp_path / "notes.dat").read_bytes() == b"something of the user's\n"


@pytest.mark.parametrize("name", ["values.npz", "table.csv", "drawing.svg"])
def test_nor_is_it_written_under_a_name_of_another_kind(path, name):
    with pytest.raises(ModelError, match="is a name for"):
        save(load(path), path.with_name(name))
    assert not path.with_name(name).exists()


def test_models_and_the_file_itself_may_be_replaced(path):
    for name in ("m.onnx", "copy.onnx", "copy.onnx", "copy", "copy", "new.weird"):
        save(load(path), path.with_name(name))
        assert load(path.with_name(name)).graph.name == "g"


def test_an_empty_file_holds_nothing_to_lose(path):
    path.with_name("made.tmp").touch()
    save(load(path), path.with_name("made.tmp"))
    assert load(path.with_name("made.tmp")).graph.name == "g"


def test_other_files_replace_neither_models_nor_their_data(path):
    model = load(path)
    with pytest.raises(ModelError, match=r"m.onnx is a name for a model"):
        check_target(path, "run", others=[model])
    with pytest.raises(ModelError, match=r"w.bin holds weights"):
        check_target(path.with_name("w.bin"), "run", others=[model])
    check_target(path.with_name("out.npz"), "run", others=[model])


def test_the_file_of_another_model_that_is_open_is_not_replaced(path):
    save(load(path), path.with_name("other.onnx"))
    other = load(path.with_name("other.onnx"))
    with pytest.raises(ModelError, match=r"other.onnx is open"):
        check_target(path.with_name("other.onnx"), "model", own=load(path), others=[other])
    check_target(path, "model", own=load(path), others=[other])
