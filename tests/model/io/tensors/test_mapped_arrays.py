"""Arrays of large tensors are mapped files: the same values, edits and files as of those in memory."""

import json
import mmap
import struct
import tempfile
import tracemalloc
import zlib

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto

from onnx_workbench.model.edits import sparse_tensors, tensors, weight_matching
from onnx_workbench.model.edits.weight_matching import match_weights, read_all_weights
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.reader.payloads import Payload, PayloadTable
from onnx_workbench.model.io.reader.source import BytesSource
from onnx_workbench.model.io.tensors import array_files, csv_files, mapped_arrays, proto_tensor
from onnx_workbench.model.io.tensors.array_files import read_tensor, write_array
from onnx_workbench.model.io.tensors.packing import TYPED_FIELDS
from onnx_workbench.model.io.tensors.proto_tensor import ProtoTensor, TensorFiles
from onnx_workbench.model.io.tensors.weight_files import open_weights
from onnx_workbench.model.ir import tensors as ir_tensors
from onnx_workbench.model.ir.tensors import ArrayTensor
from onnx_workbench.model.ir.types import ElementType
from onnx_workbench.model.progress import Cancelled, Progress
from tests.model import builders

FLOATS = np.linspace(-3, 3, 60, dtype=np.float32).reshape(3, 4, 5)


@pytest.fixture
def mapped(monkeypatch):
    """All arrays of numbers count as large, and are read in small pieces."""
    for module in (mapped_arrays, weight_matching):
        monkeypatch.setattr(module, "WINDOW_TENSOR", 0)
    for module in (ir_tensors, array_files, sparse_tensors, proto_tensor):
        monkeypatch.setattr(module, "PIECE", 16)


def is_mapped(array):
    while isinstance(array.base, np.ndarray):
        array = array.base
    return isinstance(getattr(array.base, "obj", array.base), mmap.mmap)


def test_an_array_of_pieces_is_a_mapped_file(mapped):
    array = mapped_arrays.array_of([FLOATS.reshape(-1)[:50], FLOATS.reshape(-1)[50:]], FLOATS.dtype, FLOATS.shape)
    assert is_mapped(array)
    np.testing.assert_array_equal(array, FLOATS)
    array[0] = 7
    assert (array[0] == 7).all()


@pytest.mark.parametrize("count", [59, 61])
@pytest.mark.parametrize("limit", [0, 1 << 20])
def test_pieces_of_another_number_of_elements_are_refused(monkeypatch, count, limit):
    monkeypatch.setattr(mapped_arrays, "WINDOW_TENSOR", limit)
    with pytest.raises(ValueError, match="where the shape needs 60"):
        mapped_arrays.array_of([np.zeros(count, np.float32)], FLOATS.dtype, FLOATS.shape)


def test_a_full_disk_is_an_error_of_the_user(mapped, monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    with pytest.raises(ModelError, match="There is no room"):
        mapped_arrays.array_of([FLOATS.reshape(-1)], FLOATS.dtype, FLOATS.shape)


def _cast(array, kind):
    return array.astype(kind.numpy_dtype)


EDITS = {
    "set": lambda t: tensors.set_element(t, (1, 2, 3), "9"),
    "fill": lambda t: tensors.fill(t, [(slice(1, 3), 2, slice(None))], "9"),
    "fill all": lambda t: tensors.fill(t, [], "9"),
    "compute": lambda t: tensors.compute(t, "x * i + mean(x) - std(x) + min(x) + max(x) + sum(x)")[0],
    "compute a part": lambda t: tensors.compute(t, "x * i", [(slice(None), 2, slice(1, 4)), (0, 0, 0)])[0],
    "paste": lambda t: tensors.paste(t, [["1", "2"]], lambda _row, column: (0, 0, column)),
    "reshape": lambda t: tensors.reshape(t, (5, 12)),
    "retype": lambda t: tensors.retype(t, ElementType.FLOAT16, _cast)[0],
    "store": lambda t: tensors.store(t, external=True),
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_of_a_large_tensor_is_that_of_a_small_one(name, mapped, monkeypatch):
    proto = TensorProto(data_type=TensorProto.FLOAT, dims=FLOATS.shape, raw_data=FLOATS.tobytes())
    large = EDITS[name](ProtoTensor(proto, TensorFiles(None, None)))
    assert is_mapped(large.numpy())
    monkeypatch.undo()
    small = EDITS[name](ArrayTensor(FLOATS))
    assert large.element_type is small.element_type
    np.testing.assert_allclose(large.numpy(), small.numpy(), rtol=1e-6)


def test_the_loss_of_pieces_is_that_of_the_whole(mapped, monkeypatch):
    large = tensors.retype(ArrayTensor(FLOATS * 50000), ElementType.FLOAT16, _cast)[1]
    monkeypatch.undo()
    assert large == tensors.retype(ArrayTensor(FLOATS * 50000), ElementType.FLOAT16, _cast)[1]
    assert large.overflowed
    assert large.changed


def test_a_tensor_with_few_entries_becomes_sparse_and_back(mapped):
    values = np.where(np.abs(FLOATS) < 0.3, FLOATS, 0)
    sparse = sparse_tensors.to_sparse(ArrayTensor(values))
    assert sparse.values.size == np.count_nonzero(values)
    np.testing.assert_array_equal(sparse_tensors.to_dense(sparse).numpy(), values)


def test_more_entries_than_are_held_are_refused(monkeypatch):
    sparse = sparse_tensors.to_sparse(ArrayTensor(FLOATS))
    monkeypatch.setattr(sparse_tensors, "WINDOW_TENSOR", 100)
    for edit in (lambda: sparse_tensors.to_sparse(ArrayTensor(FLOATS)), lambda: sparse_tensors.linear_indices(sparse)):
        with pytest.raises(ModelError, match="The sparse tensor is too large"):
            edit()


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".pb", ".raw", ".csv"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_files_of_large_arrays(suffix, order, mapped, tmp_path):
    path, tensor = tmp_path / f"a{suffix}", ArrayTensor(np.asarray(FLOATS, order=order), name="a")
    write_array(path, tensor)
    read = read_tensor(path, tensor)
    assert is_mapped(read.numpy())
    np.testing.assert_array_equal(read.numpy(), FLOATS)


@pytest.mark.parametrize("part", [1, 2, 3, 7, 40])
@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_long_rows_of_a_table_are_read_in_parts(part, mark, mapped, monkeypatch, tmp_path):
    monkeypatch.setattr(csv_files, "_PART", max(part, len(mark) + 6))
    monkeypatch.setattr(csv_files, "_CELLS", part)
    rows = [["-1.5", "2", "1e3"], ["7", "80", "9999"], ["0", "4.25", "6"]]
    (tmp_path / "a.csv").write_text("\n\n".join(mark.join(row) for row in rows))
    read = read_tensor(tmp_path / "a.csv")
    assert is_mapped(read.numpy())
    np.testing.assert_array_equal(read.numpy(), np.array(rows, np.float32))
    (tmp_path / "a.csv").write_text(f"{mark.join(rows[0])}\n{mark.join(rows[1])}\n1{mark}x{mark}2\n")
    with pytest.raises(ModelError, match="Row 3, column 2"):
        read_tensor(tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text(f"{mark.join(rows[0])}\n1{mark}2\n")
    with pytest.raises(ModelError, match="different numbers of cells"):
        read_tensor(tmp_path / "a.csv")


@pytest.mark.long
def test_the_text_of_a_table_is_not_kept(mapped, monkeypatch, tmp_path):
    (tmp_path / "a.csv").write_bytes(b"12," * (1 << 19) + b"12")
    tracemalloc.start()
    read = read_tensor(tmp_path / "a.csv")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert read.shape == (1, (1 << 19) + 1)
    assert peak < 15 << 20  # the cells alone would take 30 MB


def test_rows_with_long_quoted_cells_are_whole(mapped, monkeypatch, tmp_path):
    texts = np.array([["a,b", 'say "x"'], ["c\nd", ""]], object)
    write_array(tmp_path / "a.csv", ArrayTensor(texts))
    monkeypatch.setattr(csv_files, "_PART", 4)
    assert read_tensor(tmp_path / "a.csv", ArrayTensor(texts)).numpy().tolist() == texts.tolist()
    monkeypatch.setattr(csv_files, "_LONGEST_QUOTED", 8)
    with pytest.raises(ModelError, match="A row with quotes has more than 8 characters"):
        read_tensor(tmp_path / "a.csv", ArrayTensor(texts))


def test_a_picture_is_refused_by_the_size_that_its_header_claims(tmp_path):
    head = struct.pack(">4sII5B", b"IHDR", 8_000, 8_000, 8, 2, 0, 0, 0)
    chunks = struct.pack(">I", 13) + head + struct.pack(">I", zlib.crc32(head)) + struct.pack(">I4s", 1 << 20, b"IDAT")
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + chunks)
    with pytest.raises(ModelError) as caught:
        read_tensor(tmp_path / "a.png")
    assert caught.value.detail == "8,000 × 8,000 pixels; at most 16,777,216 are read."
    assert caught.value.place == str(tmp_path / "a.png")


def test_more_texts_than_are_held_are_refused(monkeypatch, tmp_path):
    texts = ArrayTensor(np.array([["abc", "d"]] * 3, object), name="a")
    for suffix in (".csv", ".npy", ".pb"):
        write_array(tmp_path / f"a{suffix}", texts)
        assert read_tensor(tmp_path / f"a{suffix}", texts).numpy().tolist() == texts.numpy().tolist()
    proto = TensorProto(data_type=TensorProto.STRING, dims=(6,), string_data=[b"x"] * 6)
    for module in (mapped_arrays, array_files, csv_files):
        monkeypatch.setattr(module, "WINDOW_TENSOR", 200)  # six texts take more on every Python
    for suffix in (".csv", ".npy", ".pb"):
        with pytest.raises(ModelError, match="The strings are too large"):
            read_tensor(tmp_path / f"a{suffix}", texts)
    tensor = ProtoTensor(proto, TensorFiles(None, None))
    with pytest.raises(ModelError, match="too many strings"):
        tensors.set_element(tensor, (1,), "y")
    assert tensor.reads_ranges
    assert tensor.read(2, 4).tolist() == ["x", "x"]


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_weights_that_are_large_together_share_a_mapped_file(suffix, mapped, tmp_path):
    arrays = {f"w{i}": np.arange(i, i + 6, dtype=np.float32).reshape(2, 3) for i in range(5)}
    model = builders.model(
        """<ir_version: 10, opset_import: ["" : 22]> g (float[2, 3] x) => (float[2, 3] y)
        <float[2, 3] w0 = {0, 0, 0, 0, 0, 0}, float[3, 2] w1 = {0, 0, 0, 0, 0, 0},
        double[2, 3] w2 = {0, 0, 0, 0, 0, 0}, float[2, 3] w3 = {0, 0, 0, 0, 0, 0}> { y = Identity (x) }"""
    )
    path = tmp_path / f"a{suffix}"
    if suffix == ".npz":
        np.savez(path, **arrays)
    else:
        head = {
            name: {"dtype": "F32", "shape": [2, 3], "data_offsets": [24 * i, 24 * i + 24]}
            for i, name in enumerate(arrays)
        }
        text = json.dumps(head).encode()
        path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(a.tobytes() for a in arrays.values()))
    matches = match_weights(model, (weights := open_weights(path)).arrays).matches
    read = read_all_weights(matches, weights, _cast)
    assert [match.value.name for match, _ in read] == ["w0", "w1", "w2", "w3"]
    bases = set()
    for match, tensor in read:
        expected = arrays[match.array.name]
        np.testing.assert_array_equal(tensor.numpy(), expected.T if match.fit == "transposed" else expected)
        base = tensor.numpy()
        while isinstance(base.base, np.ndarray):
            base = base.base
        bases.add(id(base))
        assert is_mapped(tensor.numpy())
    assert len(bases) == 1
    progress = Progress()
    progress.cancel()
    with pytest.raises(Cancelled):
        read_all_weights(matches, weights, _cast, progress)


@pytest.mark.parametrize("written", [np.asarray(FLOATS, order="F"), FLOATS.astype(">f4"), FLOATS.astype(">i8")])
def test_arrays_that_numpy_writes_in_other_orders(written, mapped, tmp_path):
    np.save(tmp_path / "a.npy", written)
    read = read_tensor(tmp_path / "a.npy")
    np.testing.assert_array_equal(read.numpy(), written)
    np.testing.assert_array_equal(np.concatenate(list(read.pieces())), written.reshape(-1))


def test_a_picture_scaled_in_pieces(mapped, monkeypatch, tmp_path):
    monkeypatch.setattr(array_files, "_SCALED_AT_ONCE", 7)
    write_array(tmp_path / "large.png", ArrayTensor(FLOATS))
    monkeypatch.undo()
    write_array(tmp_path / "small.png", ArrayTensor(FLOATS))
    assert (tmp_path / "large.png").read_bytes() == (tmp_path / "small.png").read_bytes()
    monkeypatch.setattr(array_files, "_MOST_DRAWN", 59)
    with pytest.raises(ModelError, match="The picture is too large"):
        write_array(tmp_path / "none.png", ArrayTensor(FLOATS))


def varints(numbers):
    data = bytearray()
    for number in numbers:
        rest = number % (1 << 64)
        while rest >= 0x80:
            data.append(rest & 0x7F | 0x80)
            rest >>= 7
        data.append(rest)
    return bytes(data)


def in_file(kind, size, data):
    """A tensor with a packed field that was left in the file."""
    table = PayloadTable()
    mark = table.add(Payload(BytesSource(data), 0, len(data)))
    proto = TensorProto(data_type=kind, dims=[size])
    getattr(proto, TYPED_FIELDS[kind]).extend(mark)
    return ProtoTensor(proto, TensorFiles(table, None))


KINDS = (ElementType.INT64, ElementType.INT32, ElementType.UINT64, ElementType.INT4, ElementType.FLOAT16)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kind=st.sampled_from(KINDS), data=st.data(), at_once=st.integers(1, 40))
def test_numbers_of_different_lengths_are_read_in_pieces(mapped, monkeypatch, kind, data, at_once):
    least, most = {"int64_data": (-(1 << 63), 1 << 62), "uint64_data": (0, 1 << 63)}.get(TYPED_FIELDS[kind], (0, 200))
    numbers = data.draw(st.lists(st.integers(least, most), max_size=90))
    size = len(numbers) * (2 if kind is ElementType.INT4 else 1)
    tensor = in_file(kind, size, varints(numbers))
    monkeypatch.setattr(proto_tensor, "_DECODED_AT_ONCE", 1 << 20)
    whole = tensor.numpy()
    monkeypatch.setattr(proto_tensor, "_DECODED_AT_ONCE", at_once)
    np.testing.assert_array_equal(tensor.numpy(), whole)
    pieces = list(tensor.pieces())
    assert all(len(piece) == 16 for piece in pieces[:-1])
    np.testing.assert_array_equal(np.concatenate([whole[:0], *pieces]), whole)
    start = data.draw(st.integers(0, size))
    stop = data.draw(st.integers(start, size))
    np.testing.assert_array_equal(tensor.read(start, stop), whole[start:stop])


@pytest.mark.parametrize("count", [0, 16, 39, 41, 70])
def test_another_number_of_numbers_is_refused(mapped, count):
    tensor = in_file(ElementType.INT64, 40, varints([300] * count))
    with pytest.raises(ModelError, match="not available"):
        list(tensor.pieces())
    with pytest.raises(ModelError, match="not available"):
        tensor.numpy()


@pytest.mark.parametrize("data", [b"\x80" * 12, b"\x80" * 40 + b"\x01", b"\x01" * 39 + b"\x80"])
def test_damaged_numbers_are_refused(mapped, monkeypatch, data):
    monkeypatch.setattr(proto_tensor, "_DECODED_AT_ONCE", 4)
    with pytest.raises(ModelError, match="not available"):
        list(in_file(ElementType.INT64, 40, data).pieces())
