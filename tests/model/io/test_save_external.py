"""Saving weights that lie in other files, or go there."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.steps import SetInitializer
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.writer.save import save
from onnx_workbench.model.io.writer.storage_plan import DataLayout, Storage
from onnx_workbench.model.ir.graph import Value
from onnx_workbench.model.ir.tensors import ArrayTensor
from onnx_workbench.model.ir.types import ElementType
from tests.model.io.reader.test_read import touch
from tests.model.io.saved_models import assert_holds, edit, proto_of, weights

pytestmark = pytest.mark.usefixtures("scan_everything")


def test_weights_go_to_one_file(path):
    model = load(path)
    saved = save(model, path, Storage(DataLayout.ONE_FILE))
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
    assert data_file.stat().st_size == sum(array.nbytes for array in weights().values())  # no gaps
    assert_holds(again)
    assert_holds(model)


def test_each_tensor_may_have_its_own_file(path):
    saved = save(load(path), path, Storage(DataLayout.FILE_PER_TENSOR))
    assert len(saved.data_files) == 3
    assert_holds(load(path))


def test_small_tensors_stay_inside(path):
    saved = save(load(path), path, Storage(DataLayout.ONE_FILE, threshold=12_001))
    assert not saved.data_files
    assert_holds(load(path))


def test_shapes_stay_inside_whatever_the_least_size(tmp_path):
    arrays = {"shape": np.array([2, 3]), "axis": np.array(0, np.int32), "ids": np.arange(65), "w": weights()["w0"]}
    path = tmp_path / "m.onnx"
    path.write_bytes(proto_of(arrays, None).SerializeToString())
    saved = save(load(path), path, Storage(DataLayout.FILE_PER_TENSOR, threshold=0))
    assert len(saved.data_files) == 2
    saved = {v.name: v.initializer.storage for v in load(path).graph.initializers}
    assert [name for name, storage in saved.items() if storage == "external"] == ["ids", "w"]


def test_the_same_part_of_a_file_is_written_once(tmp_path):
    arrays = {"w0": weights()["w0"]}
    proto = proto_of(arrays, "e.bin")
    proto.graph.initializer.append(proto.graph.initializer[0])
    proto.graph.initializer[1].name = "again"
    (tmp_path / "e.onnx").write_bytes(proto.SerializeToString())
    (tmp_path / "e.bin").write_bytes(arrays["w0"].tobytes())
    (data_file,) = save(load(tmp_path / "e.onnx"), tmp_path / "e.onnx", Storage(DataLayout.ONE_FILE)).data_files
    assert data_file.stat().st_size == arrays["w0"].nbytes


def test_external_weights_can_come_inside(external_path):
    save(load(external_path), external_path, Storage(DataLayout.INLINE))
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


def test_what_an_edit_that_is_taken_back_left_is_reported(external_path):
    before = external_path.read_bytes()
    model = load(external_path)
    value = model.graph.initializers[0]
    old = value.initializer
    SetInitializer(model.graph, value, ArrayTensor(-weights()["w0"], source=old.source)).apply()
    (data,) = save(model, external_path).data_files
    SetInitializer(model.graph, value, old).apply()
    assert save(model, external_path).unused == (data,)
    assert external_path.read_bytes() == before
    assert save(model, external_path).unused == ()  # reported once


@pytest.mark.parametrize("layout", [DataLayout.ONE_FILE, DataLayout.FILE_PER_TENSOR])
def test_new_values_stay_where_the_last_save_put_them(path, layout):
    """Every later save wrote them once more, or took them back into the model."""
    kinds = [ElementType.FLOAT, ElementType.INT4, ElementType.UINT2, ElementType.BFLOAT16, ElementType.COMPLEX64]
    model = load(path)
    arrays = [(np.arange(1001) % 2).astype(kind.numpy_dtype) for kind in kinds]
    for number, (kind, array) in enumerate(zip(kinds, arrays, strict=True)):
        value = Value(f"new{number}", None, model.graph)
        SetInitializer(model.graph, value, ArrayTensor(array, kind)).apply()
    assert save(model, path, Storage(layout, threshold=16)).data_files
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
    (data,) = save(model, path, Storage(DataLayout.ONE_FILE)).data_files
    edit(model)
    again = save(model, path)
    assert (again.data_files, again.unused) == ((), ())
    assert path.stat().st_size < 4096
    assert_holds(load(path))
    inside = save(model, path, Storage(DataLayout.INLINE))
    assert inside.unused == (data,)
    assert not save(model, path).data_files
    assert path.stat().st_size > 3 * 12_000
    assert_holds(load(path))


@pytest.mark.parametrize("layout", [DataLayout.ONE_FILE, DataLayout.FILE_PER_TENSOR])
def test_weights_of_a_small_file_stay_where_the_last_save_put_them(path, tmp_path, monkeypatch, layout):
    monkeypatch.setattr("onnx_workbench.model.io.reader.read.PARSED_WHOLE", 16 << 20)  # all in messages
    proto = onnx.load(path)
    proto.graph.node.append(helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(weights()["w0"])))
    typed = helper.make_tensor("typed", TensorProto.INT32, [1000], range(1000))  # numbers of many widths
    proto.graph.initializer.append(typed)
    onnx.save(proto, path)
    model = load(path)
    made = save(model, path, Storage(layout)).data_files
    edit(model)
    again = save(model, path)
    assert (again.data_files, again.unused) == ((), ())
    assert path.stat().st_size < 4096
    assert sorted(p.name for p in tmp_path.glob("*.data")) == sorted(p.name for p in made)
    fresh = load(path)
    constant = next(n for n in fresh.graph.nodes if n.op_type == "Constant")
    np.testing.assert_array_equal(constant.attributes["value"].value.numpy(), weights()["w0"])
    saved = {v.name: v.initializer.numpy().tolist() for v in fresh.graph.initializers}
    assert saved == {name: array.tolist() for name, array in weights().items()} | {"typed": [*range(1000)]}


def test_weights_stay_inside_once_they_were_put_there(external_path):
    model = load(external_path)
    save(model, external_path, Storage(DataLayout.INLINE))
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


def test_missing_external_data_is_reported_and_left_as_it_is(external_path, tmp_path):
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
