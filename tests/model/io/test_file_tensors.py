import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.protobuf import TensorProto as LazyTensorProto
from onnx_workbench.model.io.reader import read
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.tensors.packing import TYPED_FIELDS
from onnx_workbench.model.io.tensors.proto_tensor import ProtoTensor, TensorFiles
from onnx_workbench.model.ir.types import ElementType

NO_FILES = TensorFiles(None, None)
EXTERNAL = {"data_location": 1, "external_data": [{"key": "location", "value": "w"}]}


def tensor(**fields):
    return ProtoTensor(LazyTensorProto(**fields), NO_FILES)


def lone(proto):
    """A tensor as it is in a file that is scanned."""
    (value,) = load(
        helper.make_model(helper.make_graph([], "g", [], [], [proto]), ir_version=10).SerializeToString()
    ).graph.initializers
    return value.initializer


@pytest.fixture
def scanned(monkeypatch):
    monkeypatch.setattr(read, "PARSED_WHOLE", 0)


@pytest.mark.parametrize(
    "kind",
    [TensorProto.DataType.Value(name) for name in (
        "FLOAT", "DOUBLE", "INT64", "UINT64", "INT32", "UINT32", "INT8", "UINT16", "BOOL", "COMPLEX64", "COMPLEX128",
        "FLOAT16",
    )],
)  # fmt: skip
@pytest.mark.parametrize("raw", [False, True])
def test_values_that_stay_in_the_file_are_the_same(scanned, kind, raw):
    values = np.random.default_rng(0).integers(0, 2, 9000).tolist()
    if kind in (TensorProto.INT64, TensorProto.INT32, TensorProto.INT8):
        values = [-v for v in values]
    proto = helper.make_tensor("t", kind, [90, 100], values)
    if raw:
        proto = onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(proto), "t")
    found = lone(proto)
    wanted = onnx.numpy_helper.to_array(proto)
    assert found.storage == "file"
    assert (found.shape, found.nbytes, found.problem) == ((90, 100), wanted.nbytes, "")
    np.testing.assert_array_equal(found.numpy(), wanted)
    np.testing.assert_array_equal(found.read(8000, 8010), wanted.reshape(-1)[8000:8010])
    assert found.numpy().dtype == wanted.dtype


def test_only_the_part_that_is_wanted_is_read(tmp_path, scanned):
    proto = onnx.numpy_helper.from_array(np.arange(100_000, dtype=np.float32), "t")
    path = tmp_path / "m.onnx"
    path.write_bytes(helper.make_model(helper.make_graph([], "g", [], [], [proto]), ir_version=10).SerializeToString())
    model = load(path)
    asked = []
    inner = model.source.data.read

    def counting(offset, length):
        asked.append(length)
        return inner(offset, length)

    model.source.data.read = counting
    assert model.graph.initializers[0].initializer.read(50_000, 50_003).tolist() == [50_000, 50_001, 50_002]
    assert asked == [12]


def test_type_shape_and_size_read_no_file(scanned):
    found = lone(onnx.numpy_helper.from_array(np.zeros((10, 1000)), "t"))
    found.files.table.payloads[0].source.read = None
    assert (found.element_type, found.shape, found.nbytes, found.name) == (ElementType.DOUBLE, (10, 1000), 80_000, "t")
    assert (found.problem, found.storage) == ("", "file")


def test_a_file_changed_since_is_reported(tmp_path, scanned):
    proto = onnx.numpy_helper.from_array(np.zeros(5000), "t")
    path = tmp_path / "m.onnx"
    path.write_bytes(helper.make_model(helper.make_graph([], "g", [], [], [proto]), ir_version=10).SerializeToString())
    found = load(path).graph.initializers[0].initializer
    path.write_bytes(b"something else")
    with pytest.raises(ModelError, match="changed on disk since it was opened"):
        found.numpy()


def test_strings_are_text_in_any_shape():
    found = tensor(dims=[2, 1], data_type=8, string_data=["ü".encode(), b"\xff"])
    assert found.numpy().tolist() == [["ü"], ["\udcff"]]
    assert found.read(1, 2).tolist() == ["\udcff"]


def test_scalars_and_empty_tensors_have_values():
    assert tensor(data_type=1, float_data=[2.5]).numpy().shape == ()
    assert tensor(dims=[3, 0], data_type=7).numpy().shape == (3, 0)
    assert tensor(dims=[0], data_type=1, raw_data=b"").numpy().tolist() == []


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"dims": [2], "data_type": 0, "raw_data": bytes(8)}, "element type 0"),
        ({"dims": [2], "data_type": 99, "raw_data": bytes(8)}, "element type 99"),
        ({"dims": [-2], "data_type": 1}, "negative dimension"),
        ({"dims": [2], "data_type": 1, "raw_data": bytes(7)}, "7 bytes are stored, but its type and shape need 8"),
        ({"dims": [2], "data_type": 1, "float_data": [1.0]}, "4 bytes are stored, but its type and shape need 8"),
        ({"dims": [2], "data_type": 7, "int64_data": [1, 2, 3]}, "3 values are stored in int64_data"),
        ({"dims": [2], "data_type": 8, "string_data": [b"a"]}, "1 values are stored in string_data"),
        ({"dims": [2], "data_type": 8, "raw_data": b"ab"}, "strings cannot be stored as raw data"),
        ({"dims": [2**40, 2**40], "data_type": 1, "raw_data": bytes(8)}, "need 4,8"),
        ({"dims": [1] * 65, "data_type": 1, "float_data": [1.0]}, "65 dimensions"),
        ({"dims": [4], "data_type": 1, "segment": {"begin": 0, "end": 2}, "float_data": [1.0, 2.0]}, "segment 0 to 2"),
        ({"dims": [1], "data_type": 1, **EXTERNAL}, "not read from a folder"),
        ({"dims": [1], "data_type": 8, **EXTERNAL}, "strings"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_reported_and_not_read(fields, words):
    found = tensor(**fields)
    assert words in found.problem
    with pytest.raises(ModelError, match="not available"):
        found.numpy()
    with pytest.raises(ModelError, match="not available"):
        found.read(0, 1)
    assert isinstance(found.nbytes, int)


def test_a_segment_that_is_the_whole_tensor_is_read():
    assert tensor(dims=[2], data_type=1, segment={"begin": 0, "end": 2}, float_data=[1.0, 2.0]).problem == ""


def test_a_shape_of_nothing_that_no_array_can_have_is_reported():
    found = tensor(dims=[2**62, 2**62, 0], data_type=1)
    with pytest.raises(ModelError, match="not available"):
        found.numpy()


@given(
    st.lists(st.one_of(st.integers(0, 4), st.integers(-(2**63), 2**63 - 1)), max_size=4), st.integers(-1, 30),
    st.binary(max_size=40),
    st.sampled_from(["raw_data", *sorted(set(TYPED_FIELDS.values()))]),
)  # fmt: skip
def test_any_tensor_has_values_of_its_shape_or_a_problem(dims, kind, data, field):
    value = {"raw_data": data, "string_data": [data], "float_data": [0.5] * len(data), "double_data": [0.5] * len(data)}
    found = tensor(dims=dims, data_type=kind, **{field: value.get(field, list(data))})
    refused = None
    try:
        array = found.numpy()
    except ModelError as error:
        refused = error.detail
    if refused is None:
        assert array.shape == tuple(dims)
        assert found.problem == ""
    else:
        assert refused == found.problem or "shape" in refused
